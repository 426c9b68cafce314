//! What the disk in memory does with unsynced changes: at a power loss, and when a sync fails.

/// What a power loss does to unsynced changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CrashPolicy {
    /// Nothing unsynced survives. The seed does not matter.
    DropAll,
    /// Everything survives, as if all had been synced in time. The seed does not matter.
    KeepAll,
    /// Directory changes survive up to some point in time; bytes and lengths survive by chance,
    /// sector by sector. This is how journaling file systems behave.
    Ordered,
    /// As `Ordered`, but each directory change survives by its own chance. Changes of one name keep
    /// their order, a directory is not removed before what is in it, and nothing is moved into a
    /// directory that was never made.
    Reordered,
}

/// What becomes of unsynced bytes when a sync fails (through [`FaultFs`](crate::FaultFs)). In every
/// case their pages are clean, so that a later sync succeeds without writing them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FailedSync {
    /// The bytes are gone at once: reads show what the disk has. The length stays.
    #[default]
    Dropped,
    /// The bytes stay readable until a power loss, as on ext4 and XFS while the page stays in
    /// memory.
    Cached,
    /// The sync got as far as some of the sectors: by the seed, each one reached the disk or not,
    /// perhaps in an earlier version. By the seed, too, the others fare as in `Dropped` or as in
    /// `Cached`. Equal histories and seeds do the same.
    Partly {
        /// Draws the sectors.
        seed: u64,
    },
}
