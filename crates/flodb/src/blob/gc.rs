//! Which blob files a compaction should empty.
//!
//! A compaction that passes an entry whose value is in such a file writes the value again, into a
//! blob file of its own, or into its table if the options say so by now. Once no table refers to
//! the file any more, it is removed.
//!
//! **The account.** A file is due when a share `d` of its bytes is dead. Emptying it writes `1 - d`
//! to gain `d`. So with random overwrites that go on for ever, each byte that is written costs
//! `(1 - d) / d` bytes more. A file that is overwritten at random has the live share `exp(-t)` at
//! the age `t`, and is emptied at the age `-ln(1 - d)`; so the mean live share is `d / -ln(1 - d)`.
//!
//! | d | bytes written again for each byte | bytes of files for each live byte |
//! |---|---|---|
//! | 0.35 | 1.86 | 1.23 |
//! | 0.5 | 1.00 | 1.39 |
//! | 0.65 | 0.54 | 1.62 |
//! | 0.8 | 0.25 | 2.01 |
//!
//! Skewed overwrites cost less: files with what is often written die as a whole.
//!
//! Where a lot is due at once, each compaction takes the files with the fewest live bytes, up to a
//! limit, so that no compaction keeps others waiting for long.
//!
//! Small files are due as well once they are many: else a store in which few values are large would
//! get one more file with each flush. A table that refers to some of them gets one file in their
//! place, so the number that is too many grows with the number of tables.

use super::format::{BlobMeta, BlobShare};

/// A file is due when so many hundredths of its bytes are dead.
const DEAD_PERCENT: u64 = 50;

/// A file is small when it has less than this part of what a full one has.
const SMALL_PART: u64 = 16;

/// The live bytes of what one compaction empties are at most those of so many full files.
const LIVE_FILES_MAX: u64 = 8;

/// So many small files may be there, and two more for each table.
const SMALL_FILES_MAX: usize = 32;

/// A table is written anew for so many small files, and not for fewer: each time, it refers to
/// fewer files than before.
const SMALL_TOGETHER_MIN: usize = 4;

/// A blob file of a version, and how much of it the tables of the version refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) meta: BlobMeta,
    pub(crate) live_records: u64,
    /// Of these records.
    pub(crate) live_bytes: u64,
}

impl BlobUse {
    /// Nothing of it is used yet.
    pub(crate) fn new(meta: BlobMeta) -> Self {
        BlobUse { meta, live_records: 0, live_bytes: 0 }
    }

    /// Bytes of records that no table refers to.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.meta.record_bytes.saturating_sub(self.live_bytes)
    }

    fn is_half_dead(&self) -> bool {
        let (dead, all) = (u128::from(self.dead_bytes()), u128::from(self.meta.record_bytes));
        dead > 0 && dead * 100 >= all * u128::from(DEAD_PERCENT)
    }
}

/// The blob files to empty, by their numbers, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// Much of them is dead.
    dead: Vec<u64>,
    /// They are small and many.
    small: Vec<u64>,
}

impl Due {
    /// Of `files`, by number, to which `tables` refer; a full one has `full_bytes`. O(n log n).
    pub(crate) fn of<'a>(
        files: impl Iterator<Item = &'a BlobUse>,
        tables: usize,
        full_bytes: u64,
    ) -> Due {
        let (mut dead, mut small) = (Vec::new(), Vec::new());
        for file in files {
            if file.is_half_dead() {
                dead.push(file);
            } else if file.meta.record_bytes < full_bytes / SMALL_PART {
                small.push(file);
            }
        }
        if small.len() <= SMALL_FILES_MAX + 2 * tables {
            small.clear();
        }
        let most = full_bytes.saturating_mul(LIVE_FILES_MAX);
        Due { dead: emptiest(dead, most), small: emptiest(small, most) }
    }

    /// All of these, ascending.
    pub(crate) fn all(numbers: impl Iterator<Item = u64>) -> Due {
        Due { dead: numbers.collect(), small: Vec::new() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.dead.is_empty() && self.small.is_empty()
    }

    /// Whether the values in file `number` are written anew. O(log n).
    pub(crate) fn has(&self, number: u64) -> bool {
        self.dead.binary_search(&number).is_ok() || self.small.binary_search(&number).is_ok()
    }

    /// Bytes of the records that a table with these shares has in the files.
    pub(crate) fn bytes_of(&self, shares: &[BlobShare]) -> u64 {
        shares.iter().filter(|share| self.has(share.file)).map(|share| share.bytes).sum()
    }

    /// Whether a table with these shares is written anew for the sake of its blob files alone.
    pub(crate) fn is_worth(&self, shares: &[BlobShare]) -> bool {
        let is_in = |numbers: &[u64], share: &BlobShare| numbers.binary_search(&share.file).is_ok();
        shares.iter().any(|share| is_in(&self.dead, share))
            || shares.iter().filter(|share| is_in(&self.small, share)).count() >= SMALL_TOGETHER_MIN
    }
}

/// The numbers of the files with the fewest live bytes, ascending: so many that the next one would
/// exceed `most` live bytes, and at least one.
fn emptiest(mut files: Vec<&BlobUse>, most: u64) -> Vec<u64> {
    files.sort_by_key(|file| file.live_bytes);
    let mut live = 0_u64;
    let fits = |file: &&&BlobUse| {
        let is_first = live == 0;
        live = live.saturating_add(file.live_bytes);
        is_first || live <= most
    };
    let mut numbers: Vec<u64> = files.iter().take_while(fits).map(|it| it.meta.number).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 16 << 10;

    fn file(number: u64, record_bytes: u64, live_bytes: u64) -> BlobUse {
        let meta = BlobMeta { number, records: 10, record_bytes, digest: 0 };
        BlobUse { meta, live_records: 1, live_bytes }
    }

    fn shares(files: std::ops::Range<u64>) -> Vec<BlobShare> {
        files.map(|file| BlobShare { file, records: 1, bytes: 100 }).collect()
    }

    #[test]
    fn files_are_due_from_half_dead_on() {
        let files = [
            file(1, FULL, FULL),
            file(2, FULL, FULL / 2 + 1),
            file(3, FULL, FULL / 2),
            file(4, FULL, 1),
            file(5, 1, 1),
        ];
        let due = Due::of(files.iter(), 1, FULL);
        assert_eq!(
            [1, 2, 3, 4, 5].map(|number| due.has(number)),
            [false, false, true, true, false]
        );
        assert!(due.is_worth(&shares(2..4)) && !due.is_worth(&shares(1..3)));
        assert_eq!(due.bytes_of(&shares(1..6)), 200);
        assert!(Due::of([].iter(), 1, FULL).is_empty());
    }

    #[test]
    fn the_emptiest_files_go_first() {
        let files: Vec<BlobUse> =
            (0..40).map(|number| file(number, FULL, FULL / 2 - number)).collect();
        let due = Due::of(files.iter(), 1, FULL);
        let taken: Vec<u64> = (0..40).filter(|number| due.has(*number)).collect();
        assert_eq!(taken, (24..40).collect::<Vec<u64>>(), "eight times the bytes of a file");
        let one = [file(3, 1 << 50, 1 << 49)];
        assert!(Due::of(one.iter(), 1, FULL).has(3), "a large one is not left for ever");
    }

    #[test]
    fn small_files_are_due_once_they_are_many_and_tables_for_some_of_them() {
        let most = SMALL_FILES_MAX as u64 + 4;
        let mut files: Vec<BlobUse> = (0..most).map(|number| file(number, 100, 100)).collect();
        files.push(file(77, FULL / 16, FULL / 16));
        assert!(Due::of(files.iter(), 2, FULL).is_empty());
        files.push(file(78, FULL / 16 - 1, FULL / 16 - 1));
        let due = Due::of(files.iter(), 2, FULL);
        assert!(due.has(0) && due.has(78) && !due.has(77));
        assert!(due.is_worth(&shares(0..4)) && !due.is_worth(&shares(0..3)));
    }
}
