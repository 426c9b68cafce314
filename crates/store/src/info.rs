//! The descriptor of an open store: its properties, which do not change while it is open.

use crate::Durability;

/// Properties of an open [`Store`](crate::Store), as [`Engine`](crate::Engine) has those of its
/// kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// Name and version of the engine, as every report prints it: `redb 4.4.0`.
    pub version: String,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Whether sessions accept [`WriteOptions::sync`](crate::WriteOptions::sync).
    pub syncs_single_puts: bool,
    /// Whether a removal tells if its key was there. Log-structured engines write a tombstone
    /// without looking, and answer [`Removed::Unknown`](crate::Removed::Unknown).
    pub removals_tell: bool,
    /// The largest batch that [`Session::apply`](crate::Session::apply) accepts, by
    /// [`Batch::logged_bytes`](crate::Batch::logged_bytes). A larger one is refused as a whole.
    pub batch_bytes_max: usize,
    /// Reasons to distrust a measurement of this store, such as a library with assertions. One
    /// sentence each; reports print them beside every result.
    pub caveats: Vec<String>,
}

impl StoreInfo {
    /// A store without synced puts, limits or caveats.
    #[must_use]
    pub fn new(version: impl Into<String>, durability: Durability) -> Self {
        StoreInfo {
            version: version.into(),
            durability,
            syncs_single_puts: false,
            removals_tell: true,
            batch_bytes_max: usize::MAX,
            caveats: Vec::new(),
        }
    }

    /// The same, with synced puts if `syncs_single_puts`.
    #[must_use]
    pub fn with_synced_puts(self, syncs_single_puts: bool) -> Self {
        StoreInfo { syncs_single_puts, ..self }
    }

    /// The same, whose removals do not tell what they found.
    #[must_use]
    pub fn with_blind_removals(self) -> Self {
        StoreInfo { removals_tell: false, ..self }
    }
}
