//! The command that a reply answers, as far as the meaning of the reply depends on it.

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One key.
    Get,
    /// One key with its token for [`Kind::Cas`].
    Gets,
    /// Several keys.
    Mget,
    /// Writes whatever is there.
    Set,
    /// Writes if nothing is there.
    Add,
    /// Writes if something is there.
    Replace,
    /// Writes if the token is still the one.
    Cas,
    /// Puts bytes behind a value.
    Append,
    /// Puts bytes before a value.
    Prepend,
    /// Removes.
    Delete,
    /// Adds to a decimal value.
    Incr,
    /// Takes from a decimal value.
    Decr,
    /// Sets the time to live.
    Touch,
    /// Removes everything.
    Flush,
}

impl Kind {
    /// Does its reply carry values?
    #[inline]
    #[must_use]
    pub fn is_lookup(self) -> bool {
        matches!(self, Kind::Get | Kind::Gets | Kind::Mget)
    }

    /// Does its request carry a value?
    #[inline]
    #[must_use]
    pub fn has_value(self) -> bool {
        matches!(
            self,
            Kind::Set | Kind::Add | Kind::Replace | Kind::Cas | Kind::Append | Kind::Prepend
        )
    }
}
