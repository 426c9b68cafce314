//! The facts about a command: what its row in the table says, without the handler.
//!
//! The facts answer everything but what the command does: its name, the number of its arguments,
//! which of them are keys, whether it may run in a transaction, and what COMMAND replies.

use crate::durations::Kind;

/// A command or a subcommand.
pub(crate) struct Command {
    /// In lower case.
    pub(crate) name: &'static str,
    /// The number of words, its own and its parent's name included; a negative number is a minimum.
    pub(crate) arity: i32,
    pub(crate) flags: u16,
    pub(crate) keys: Keys,
    pub(crate) family: Family,
    /// The version of Redis that had it first, or of Keyrack.
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) subcommands: &'static [Command],
}

/// Which arguments are keys. The command's name is argument 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The first; 0 is none.
    pub(crate) first: usize,
    /// The last; below 0 from the end.
    pub(crate) last: isize,
    pub(crate) step: usize,
}

/// No keys.
pub(crate) const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
/// The first argument.
pub(crate) const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
/// The first two.
pub(crate) const TWO: Keys = Keys { first: 1, last: 2, step: 1 };
/// All.
pub(crate) const ALL: Keys = Keys { first: 1, last: -1, step: 1 };
/// Each before its value.
pub(crate) const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };
/// The second of two words.
pub(crate) const SECOND: Keys = Keys { first: 2, last: 2, step: 1 };

impl Keys {
    /// The places of the keys among `count` words.
    pub(crate) fn places(self, count: usize) -> impl Iterator<Item = usize> {
        let last = if self.last < 0 {
            count.saturating_sub(self.last.unsigned_abs())
        } else {
            self.last.unsigned_abs()
        };
        let end = if self.first == 0 { 0 } else { (last + 1).min(count) };
        (self.first..end.max(self.first)).step_by(self.step.max(1))
    }
}

/// Changes rows.
pub(crate) const WRITE: u16 = 1;
/// Reads rows.
pub(crate) const READ: u16 = 1 << 1;
/// Needs memory.
pub(crate) const DENY_OOM: u16 = 1 << 2;
/// For operators.
pub(crate) const ADMIN: u16 = 1 << 3;
/// Its time does not depend on how much there is.
pub(crate) const FAST: u16 = 1 << 4;
/// Allowed before AUTH.
pub(crate) const NO_AUTH: u16 = 1 << 5;
/// Carried out at once when a transaction is being queued.
pub(crate) const AT_ONCE: u16 = 1 << 6;
/// Refused in a transaction.
pub(crate) const NO_MULTI: u16 = 1 << 7;
/// Runs while no other loop does, in a group of the log.
pub(crate) const EXCLUSIVE: u16 = 1 << 8;
/// About the connection.
pub(crate) const CONNECTION: u16 = 1 << 9;
/// Only the size of the store bounds its cost.
pub(crate) const DANGEROUS: u16 = 1 << 10;

/// EXEC, which carries out other commands.
pub(crate) const RUNS_QUEUE: u16 = 1 << 11;

/// The family of a command: what COMMAND DOCS calls its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Strings,
    Hashes,
    Generic,
    Transactions,
    Connection,
    Server,
    Keyrack,
}

impl Family {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Strings => "string",
            Family::Hashes => "hash",
            Family::Generic => "generic",
            Family::Transactions => "transactions",
            Family::Connection => "connection",
            Family::Server => "server",
            Family::Keyrack => "keyrack",
        }
    }
}

impl Command {
    pub(crate) fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Its kind in metrics.
    pub(crate) fn kind(&self) -> Kind {
        match (self.name, self.family) {
            ("keys" | "scan" | "hscan" | "kr.range" | "kr.count", _) => Kind::Scan,
            ("del" | "unlink" | "getdel" | "flushall" | "flushdb", _) => Kind::Delete,
            (_, Family::Strings) if self.is(READ) => Kind::Get,
            (_, Family::Strings) => Kind::Set,
            (_, Family::Hashes) if self.is(READ) => Kind::HashRead,
            (_, Family::Hashes) => Kind::HashWrite,
            _ => Kind::Other,
        }
    }

    /// Whether it can be called with this number of words.
    pub(crate) fn takes(&self, words: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= least } else { words == least }
    }

    /// The index of the subcommand called `name`, in any case.
    pub(crate) fn subcommand_index(&self, name: &[u8]) -> Option<usize> {
        let is_called = |command: &Command| command.name.as_bytes().eq_ignore_ascii_case(name);
        self.subcommands.iter().position(is_called)
    }

    /// The subcommand called `name`, in any case.
    pub(crate) fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        Some(&self.subcommands[self.subcommand_index(name)?])
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_keys() {
        let places = |keys: Keys, count| keys.places(count).collect::<Vec<_>>();
        assert_eq!(places(NONE, 5), [0; 0]);
        assert_eq!(places(ONE, 5), [1]);
        assert_eq!(places(TWO, 5), [1, 2]);
        assert_eq!(places(ALL, 4), [1, 2, 3]);
        assert_eq!(places(PAIRS, 5), [1, 3]);
        assert_eq!(places(ALL, 1), [0; 0]);
        assert_eq!(places(ONE, 0), [0; 0]);
    }
}
