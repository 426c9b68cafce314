//! The names of the files of a store, and the numbers in them.
//!
//! | name | what |
//! |---|---|
//! | `NNNNNN.table` | a table |
//! | `NNNNNN.blob` | a blob file |
//! | `MANIFEST-NNNNNN` | a manifest |
//! | `CURRENT` | which manifest counts |
//! | `.CURRENT.*.tmp` | a `CURRENT` that was never finished |
//! | `LOCK` | held by the process that has the store open |
//! | `log/` | the log, with names of its own |
//!
//! A number has six digits or more, with zeros in front up to six. One counter numbers tables, blob
//! files and manifests, and never gives a number twice.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says which manifest counts.
pub(crate) const CURRENT: &str = "CURRENT";

/// Locked while the store is open.
pub(crate) const LOCK: &str = "LOCK";

/// The directory of the log.
pub(crate) const LOG_DIR: &str = "log";

/// Digits of the largest number in a name.
const DIGITS_MAX: usize = 18;

/// Larger numbers in a manifest are damage.
pub(crate) const NUMBER_MAX: u64 = 10_u64.pow(DIGITS_MAX as u32) - 1;

/// A stray file with a larger number than this one does not move the counter: it is no work of
/// ours, and the numbers have to last.
const STRAY_NUMBER_MAX: u64 = NUMBER_MAX / 1_000_000;

pub(crate) fn table_name(number: u64) -> String {
    format!("{number:06}.table")
}

pub(crate) fn blob_name(number: u64) -> String {
    format!("{number:06}.blob")
}

pub(crate) fn manifest_name(number: u64) -> String {
    format!("MANIFEST-{number:06}")
}

/// A name that this format gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileName {
    Table(u64),
    Blob(u64),
    Manifest(u64),
    /// A file that was to replace `CURRENT`.
    Unfinished,
}

impl FileName {
    /// `None` for every other name, `CURRENT` and `LOCK` among them.
    pub(crate) fn parse(name: &OsStr) -> Option<FileName> {
        let name = name.to_str()?;
        let found = if let Some(digits) = name.strip_suffix(".table") {
            FileName::Table(number(digits)?)
        } else if let Some(digits) = name.strip_suffix(".blob") {
            FileName::Blob(number(digits)?)
        } else if let Some(digits) = name.strip_prefix("MANIFEST-") {
            FileName::Manifest(number(digits)?)
        } else if name.starts_with(".CURRENT.") && name.ends_with(".tmp") {
            return Some(FileName::Unfinished);
        } else {
            return None;
        };
        // One number has one name: `0000007.table` is not ours.
        (found.text() == name).then_some(found)
    }

    fn text(self) -> String {
        match self {
            FileName::Table(number) => table_name(number),
            FileName::Blob(number) => blob_name(number),
            FileName::Manifest(number) => manifest_name(number),
            FileName::Unfinished => String::new(),
        }
    }
}

/// Whether a name in the directory of a store is that of a file of the store; but for `LOCK`, which
/// goes last, and the log.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    name == CURRENT || FileName::parse(name).is_some()
}

fn number(digits: &str) -> Option<u64> {
    let plain = digits.len() <= DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// Gives out the numbers of files. Shared by all who make files.
#[derive(Debug)]
pub(crate) struct FileNumbers {
    state: Mutex<Numbers>,
}

#[derive(Debug)]
struct Numbers {
    next: u64,
    /// Given out, and their guards are alive.
    unfinished: BTreeSet<u64>,
}

/// A number that no other file has. While it lives, the file is not taken for an obsolete one
/// although no version names it: keep it until the version that names the file is in place.
#[derive(Debug)]
pub(crate) struct FileNumber {
    number: u64,
    numbers: Arc<FileNumbers>,
}

impl FileNumbers {
    pub(crate) fn new(next: u64) -> Arc<Self> {
        let state = Mutex::new(Numbers { next, unfinished: BTreeSet::new() });
        Arc::new(FileNumbers { state })
    }

    fn state(&self) -> MutexGuard<'_, Numbers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out a number.
    pub(crate) fn issue(self: &Arc<Self>) -> FileNumber {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.unfinished.insert(number);
        FileNumber { number, numbers: Arc::clone(self) }
    }

    /// All numbers given out are smaller.
    pub(crate) fn next(&self) -> u64 {
        self.state().next
    }

    /// The numbers whose guards are alive.
    pub(crate) fn unfinished(&self) -> BTreeSet<u64> {
        self.state().unfinished.clone()
    }
}

impl FileNumber {
    pub(crate) fn get(&self) -> u64 {
        self.number
    }
}

impl Drop for FileNumber {
    fn drop(&mut self) {
        self.numbers.state().unfinished.remove(&self.number);
    }
}

/// The smallest number above `next` and above all that files of the directory have, so that what an
/// earlier process left behind is never taken for a new file.
pub(crate) fn next_above<'a>(next: u64, names: impl Iterator<Item = &'a OsStr>) -> u64 {
    let number = |name| match FileName::parse(name)? {
        FileName::Table(number) | FileName::Blob(number) | FileName::Manifest(number) => {
            Some(number)
        }
        FileName::Unfinished => None,
    };
    let seen = names.filter_map(number).filter(|number| *number <= STRAY_NUMBER_MAX).max();
    next.max(seen.map_or(1, |seen| seen + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Option<FileName> {
        FileName::parse(OsStr::new(name))
    }

    #[test]
    fn names_come_back_and_others_are_not_ours() {
        for number in [0, 1, 999_999, 1_000_000, NUMBER_MAX] {
            assert_eq!(parse(&table_name(number)), Some(FileName::Table(number)));
            assert_eq!(parse(&blob_name(number)), Some(FileName::Blob(number)));
            assert_eq!(parse(&manifest_name(number)), Some(FileName::Manifest(number)));
        }
        assert_eq!(table_name(7), "000007.table");
        assert!(is_ours(OsStr::new("000007.table")) && is_ours(OsStr::new("MANIFEST-000007")));
        assert_eq!(parse(".CURRENT.0011223344556677.tmp"), Some(FileName::Unfinished));
        for name in [
            "CURRENT",
            "LOCK",
            "log",
            "",
            "7.table",
            "0000007.table",
            "7.blob",
            "000007.blobs",
            "+00007.table",
            "000007.table.bak",
            "MANIFEST-",
            "MANIFEST-00000x",
            "manifest-000001",
            "1000000000000000000.table",
        ] {
            assert_eq!(parse(name), None, "{name}");
            assert_eq!(is_ours(OsStr::new(name)), name == CURRENT, "{name}");
        }
    }

    #[test]
    fn the_counter_jumps_over_what_lies_there() {
        let next = |next, names: &[&str]| next_above(next, names.iter().map(OsStr::new));
        assert_eq!(next(0, &[]), 1);
        assert_eq!(next(9, &["000004.table", "MANIFEST-000007"]), 9);
        assert_eq!(next(9, &["000010.table", "MANIFEST-000007"]), 11);
        assert_eq!(next(9, &["MANIFEST-000012", "000010.table", "CURRENT"]), 13);
        assert_eq!(next(9, &["999999999999999999.table"]), 9, "a stray file");
    }

    #[test]
    fn a_number_is_unfinished_as_long_as_its_guard_lives() {
        let numbers = FileNumbers::new(5);
        let five = numbers.issue();
        let six = numbers.issue();
        assert_eq!((five.get(), six.get(), numbers.next()), (5, 6, 7));
        assert_eq!(numbers.unfinished(), BTreeSet::from([5, 6]));
        drop(five);
        assert_eq!(numbers.unfinished(), BTreeSet::from([6]));
        assert_eq!(numbers.issue().get(), 7, "no number comes twice");
    }
}
