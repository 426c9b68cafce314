//! Inode numbers: files and directories of different logs keep different numbers after a merge,
//! and the first directories of one path get the same number.
//!
//! ```text
//!   file       1 | log: 63 bits | epoch: 24 bits | count: 40 bits
//!   directory  0 | digest(parent, name): 127 bits                    the first of its name
//!   directory  0 | digest(parent, name, log, epoch and count)        any later one
//! ```
//!
//! Two logs that make the same directory without knowing of each other give it the same number, so
//! their entries meet. A name that has had a directory before, removed or renamed since, gets
//! another number: the new directory has nothing of the old one, and no record has to say so.
//!
//! A file never meets another. A log draws its 63 bits when it is made. Each opening for writing
//! takes the next epoch, which is on disk before the first number of it is given, so no number
//! comes twice, after a crash or a power loss either, and giving one costs no write.
//!
//! The digest is SHA-256, cut: whoever chooses names must not be able to make two directories one.

use sha2::{Digest, Sha256};
use std::fmt;

/// Bits of the count within an epoch.
pub(crate) const COUNT_BITS: u32 = 40;
/// Epochs that a log may have.
pub(crate) const EPOCH_MAX: u64 = (1 << 24) - 1;
/// The bit that tells files from directories.
const FILE_BIT: u128 = 1 << 127;
/// No number of a file is smaller, and no number of a directory is as large.
pub(crate) const FIRST_FILE: u128 = FILE_BIT;

/// The number of a file, a symbolic link or a directory. No two of any logs have the same, but for
/// directories that are meant to be one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode(pub(crate) u128);

impl Inode {
    /// All bits.
    #[must_use]
    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// 64 bits for interfaces that have no more. Within a log no two files share them; two logs do
    /// with a probability of about their files divided by 2^64.
    #[must_use]
    pub fn short(self) -> u64 {
        let low = self.0 as u64;
        if self.0 & FILE_BIT == 0 { low } else { mix((self.0 >> 64) as u64) ^ low }
    }

    pub(crate) fn file(log: LogId, number: u64) -> Inode {
        Inode(FILE_BIT | u128::from(log.0) << 64 | u128::from(number))
    }

    pub(crate) fn is_file(self) -> bool {
        self.0 & FILE_BIT != 0
    }
}

impl fmt::Display for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A step of splitmix64, a bijection.
fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The number of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DirId(pub(crate) u128);

impl DirId {
    /// Records about the log itself have keys as if they were entries here.
    pub(crate) const SYSTEM: DirId = DirId(0);
    pub(crate) const ROOT: DirId = DirId(1);

    /// The first directory of that name.
    pub(crate) fn first(parent: DirId, name: &[u8]) -> DirId {
        DirId::digest(parent, name, &[])
    }

    /// Another directory of that name. No two calls have the same `unique`.
    pub(crate) fn again(parent: DirId, name: &[u8], unique: Inode) -> DirId {
        DirId::digest(parent, name, &unique.0.to_be_bytes())
    }

    fn digest(parent: DirId, name: &[u8], more: &[u8]) -> DirId {
        let mut hash = Sha256::new();
        hash.update(parent.to_bytes());
        hash.update([name.len() as u8]);
        hash.update(name);
        hash.update(more);
        let digest = hash.finalize();
        let number = digest.iter().take(16).fold(0_u128, |n, byte| n << 8 | u128::from(*byte));
        // The two reserved numbers are never met, but cost nothing to avoid.
        DirId((number & !FILE_BIT).max(2))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub(crate) fn inode(self) -> Inode {
        Inode(self.0)
    }
}

impl fmt::Debug for DirId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Which log: 63 bits that were drawn when it was made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub(crate) u64);

impl LogId {
    /// A log with this number; the highest bit is dropped. For tests and for who draws better.
    #[must_use]
    pub fn from_bits(bits: u64) -> LogId {
        LogId(bits & !(1 << 63))
    }

    /// A number for a log that is to be made, which nobody else has.
    #[must_use]
    pub fn draw_random() -> LogId {
        LogId::draw(&[&crate::job::random_token()])
    }

    /// The number.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// From entropy of any kind.
    pub(crate) fn draw(entropy: &[&[u8]]) -> LogId {
        let mut hash = Sha256::new();
        for part in entropy {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        LogId::from_bits(digest.iter().take(8).fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The number of the `count`-th file of an epoch.
pub(crate) fn first_number(epoch: u64) -> u64 {
    debug_assert!(epoch <= EPOCH_MAX);
    epoch << COUNT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_directories_of_a_name_are_one_and_later_ones_are_not() {
        let a = DirId::first(DirId::ROOT, b"a");
        assert_eq!(a, DirId::first(DirId::ROOT, b"a"));
        assert_ne!(a, DirId::first(DirId::ROOT, b"b"));
        assert_ne!(DirId::first(a, b"x"), DirId::first(DirId::ROOT, b"x"));
        let unique = |n| Inode::file(LogId(7), n);
        assert_ne!(a, DirId::again(DirId::ROOT, b"a", unique(1)));
        let one = DirId::again(DirId::ROOT, b"a", unique(1));
        assert_ne!(one, DirId::again(DirId::ROOT, b"a", unique(2)));
        assert!(!a.inode().is_file());
    }

    #[test]
    fn epochs_of_a_log_do_not_overlap() {
        assert_eq!(first_number(1) - first_number(0), 1 << 40);
        let last = Inode::file(LogId(3), first_number(1) - 1);
        let next = Inode::file(LogId(3), first_number(1));
        assert!(last < next && last.short() != next.short() && last.is_file());
    }
}
