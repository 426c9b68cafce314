//! What servers ask of each other: splits of directories, and renames that take several of them.

use super::fields::{Field, Fields, in_order, operations};
use crate::id::DirId;
use crate::partition::Split;
use crate::user::User;

operations! {
    /// A request of one server to another. Only user 0 may make it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the fields are those of the operations, and named after them")]
    pub enum Peer<'a> {
        /// A partition is about to come; 1 if it has come already.
        32 "splitbegin" SplitBegin { dir: u128, split: Split, attempt: u64 };
        /// Some of its records: names and values in turn.
        33 "splitput" SplitPut { dir: u128, to: u32, attempt: u64, records: Vec<&'a [u8]> };
        /// That was all: from here on the partition is yours.
        34 "splitinstall" SplitInstall {
            dir: u128,
            split: Split,
            attempt: u64,
            count: u64,
            spread: bool,
            map: &'a [u8],
        };
        /// Prepares a part of a rename. A participant that agrees holds the names.
        35 "prepare" Prepare { id: u128, coordinator: u32, txn: Transaction };
        /// Do it, or do not.
        36 "decision" Decision { id: u128, commits: bool };
        /// What was decided: 0 nothing, 1 not yet, 2 to do it.
        37 "outcome" Outcome { id: u128 };
        /// Bytes of a large file of a partition that is coming, in the order of their offsets.
        38 "splitcontents" SplitContents {
            dir: u128,
            to: u32,
            attempt: u64,
            inode: u128,
            offset: u64,
            data: &'a [u8],
        };
        /// Bytes of the large file that a rename brings.
        39 "renamecontents" RenameContents { id: u128, offset: u64, data: &'a [u8] };
    }
}

/// What several servers do to a name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Action {
    /// It becomes another name, which nothing has.
    Rename = 0,
    /// It becomes another name, whatever has that.
    Replace = 1,
    /// A directory is made.
    Mkdir = 2,
    /// A directory is removed.
    Rmdir = 3,
}

/// A rename that several servers take part in, or a directory that all make or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub(crate) user: User,
    /// The directory of the old name.
    pub(crate) from: DirId,
    pub(crate) name: Vec<u8>,
    /// The directory of the new name; the directory that is made or removed.
    pub(crate) to: DirId,
    /// The new name; that of the directory again.
    pub(crate) to_name: Vec<u8>,
    pub(crate) action: Action,
    /// The server of the new name of a file; the mode of a directory that is made.
    pub(crate) target: u32,
    /// The record of what is renamed or removed, or of the directory that is made; empty before
    /// the coordinator has looked.
    pub(crate) entry: Vec<u8>,
}

in_order!(Transaction { user, from, name, to, to_name, action, target, entry });

impl Transaction {
    /// Appends the fields.
    pub(crate) fn fields(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    /// Reads what [`Transaction::fields`] wrote, to the end.
    pub(crate) fn read(bytes: &[u8]) -> Option<Transaction> {
        let mut at = Fields(bytes);
        let txn = at.take()?;
        at.0.is_empty().then_some(txn)
    }
}

impl Field<'_> for Action {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(at: &mut Fields<'_>) -> Option<Action> {
        const ACTIONS: [Action; 4] =
            [Action::Rename, Action::Replace, Action::Mkdir, Action::Rmdir];
        ACTIONS.get(usize::from(at.take::<u8>()?)).copied()
    }
}

impl Field<'_> for Split {
    fn put(&self, out: &mut Vec<u8>) {
        [self.from, self.to, self.depth].iter().for_each(|number| number.put(out));
    }

    fn take(at: &mut Fields<'_>) -> Option<Split> {
        let split = Split { from: at.take()?, to: at.take()?, depth: at.take()? };
        split.is_sane().then_some(split)
    }
}
