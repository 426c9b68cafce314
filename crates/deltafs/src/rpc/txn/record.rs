//! What several servers are asked to do together, and how a log notes it: see `renames`.

use crate::error::{Error, Result};
use crate::id::{DirId, Inode};
use crate::record::{Entry, KIND_DIR, KIND_ENTRY, Key};
use crate::rename::IfTaken;
use crate::rpc::codec::{Peer, Rename, What};
use crate::user::User;
use std::path::Path;

/// A rename, with everything in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) user: User,
    pub(crate) from: DirId,
    pub(crate) name: Vec<u8>,
    pub(crate) to: DirId,
    pub(crate) to_name: Vec<u8>,
    pub(crate) what: What,
    /// The server of the new name of a file; the mode of a directory that is made.
    pub(crate) target: u32,
    /// The record of what is renamed; empty before the coordinator has looked.
    pub(crate) entry: Vec<u8>,
}

/// What a server does in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// It has the file under the old name.
    Source,
    /// It gets the file.
    Target,
    /// It has the directory, as all have.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Prepared = 0,
    Begun = 1,
    Decided = 2,
}

/// A rename that this server holds names for.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) step: Step,
    pub(crate) coordinator: u32,
    pub(crate) order: Order,
    /// The directory that goes when it comes.
    pub(crate) replaced: Option<DirId>,
    /// Turns of the backstage since it came: who waits for long asks.
    pub(crate) turns: u32,
    /// The decision was refused by the store, and may be in the log all the same.
    pub(crate) is_doubtful: bool,
}

impl Order {
    pub(crate) fn of(rename: &Rename<'_>) -> Order {
        let user = User { uid: rename.uid, gid: rename.gid, groups: rename.groups.clone() };
        Order {
            user,
            from: DirId(rename.from),
            name: rename.name.to_vec(),
            to: DirId(rename.to),
            to_name: rename.to_name.to_vec(),
            what: rename.what,
            target: rename.target,
            entry: rename.entry.to_vec(),
        }
    }

    pub(crate) fn rename(&self) -> Rename<'_> {
        Rename {
            uid: self.user.uid,
            gid: self.user.gid,
            groups: self.user.groups.clone(),
            from: self.from.0,
            name: &self.name,
            to: self.to.0,
            to_name: &self.to_name,
            what: self.what,
            target: self.target,
            entry: &self.entry,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        matches!(self.entry.first(), Some(&(KIND_ENTRY | KIND_DIR)))
    }

    pub(crate) fn if_taken(&self) -> IfTaken {
        if self.what == What::Replace { IfTaken::Replace } else { IfTaken::Fail }
    }

    /// Directories whose ways change: nobody may have a lease on them.
    pub(crate) fn changed(&self, replaced: Option<DirId>) -> Vec<DirId> {
        match (self.what, Entry::decode(&self.entry)) {
            (What::Rename | What::Replace, Some(Entry::Dir(moved))) => {
                // Onto itself, it is one.
                replaced.filter(|replaced| *replaced != moved).into_iter().chain([moved]).collect()
            }
            (What::Rmdir, _) => replaced.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The name whose directory goes: that which is replaced, or removed.
    pub(crate) fn goes(&self) -> (DirId, &[u8]) {
        match self.what {
            What::Rmdir => (self.from, &self.name),
            _ => (self.to, &self.to_name),
        }
    }

    /// Whether it takes something away from a name: then nothing may be lost that was durable under
    /// it, whichever server loses power.
    pub(crate) fn moves(&self) -> bool {
        matches!(self.what, What::Rename | What::Replace)
    }

    /// The names that a side holds.
    pub(crate) fn names(&self, side: Side) -> Vec<(DirId, &[u8])> {
        let (old, new) = ((self.from, &self.name[..]), (self.to, &self.to_name[..]));
        match side {
            Side::Source => vec![old],
            Side::Target => vec![new],
            Side::Both if matches!(self.what, What::Mkdir | What::Rmdir) => vec![old],
            Side::Both => vec![old, new],
        }
    }
}

pub(crate) fn record_key(number: u128) -> Key {
    let mut name = [0; 20];
    name[..4].copy_from_slice(b"move");
    name[4..].copy_from_slice(&number.to_be_bytes());
    Key::entry(DirId::SYSTEM, &name)
}

pub(crate) fn record(step: Step, coordinator: u32, order: &Order) -> Vec<u8> {
    let mut out = vec![step as u8];
    out.extend_from_slice(&coordinator.to_le_bytes());
    order.rename().fields(&mut out);
    out
}

pub(crate) fn read_record(record: &[u8]) -> Option<Held> {
    let (&step, rest) = record.split_first()?;
    let (coordinator, rest) = rest.split_first_chunk::<4>()?;
    let step = match step {
        0 => Step::Prepared,
        1 => Step::Begun,
        2 => Step::Decided,
        _ => return None,
    };
    let order = Order::of(&Rename::read(rest)?);
    Some(Held {
        step,
        coordinator: u32::from_le_bytes(*coordinator),
        order,
        replaced: None,
        turns: 0,
        is_doubtful: false,
    })
}

/// The number of a large file, if that is what is renamed.
pub(crate) fn large_of(entry: &[u8]) -> Option<Inode> {
    match Entry::decode(entry) {
        Some(Entry::Sized(attributes)) => Some(attributes.inode),
        _ => None,
    }
}

/// The error of a record of a rename that cannot be read.
pub(crate) fn damaged(store: &Path) -> Error {
    let what = "the record of a rename is damaged".to_owned();
    Error::Corruption { path: store.to_owned(), what }
}

/// The large file that the record of a rename has: its bytes may be here before its entry.
///
/// # Errors
/// [`Error::Corruption`]: what a damaged record names must not be taken for nobody's.
pub(crate) fn large_in_record(store: &Path, record: &[u8]) -> Result<Option<Inode>> {
    let held = read_record(record).ok_or_else(|| damaged(store))?;
    Ok(large_of(&held.order.entry))
}

/// What a coordinator sends.
pub(crate) fn prepare_of(number: u128, coordinator: u32, order: &Order) -> Peer<'_> {
    Peer::Prepare { number, coordinator, rename: order.rename() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was taken for one without a large file: the file's bytes were removed as nobody's.
    #[test]
    fn a_damaged_record_of_a_rename_is_damage_and_not_a_record_without_bytes() {
        for record in [&b""[..], b"junk", &[9; 40]] {
            let error = large_in_record(Path::new("/log"), record).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
            assert!(error.to_string().starts_with("/log: "), "{error}");
        }
    }
}
