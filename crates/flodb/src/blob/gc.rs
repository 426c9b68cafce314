//! Which blob files a compaction should empty.
//!
//! A compaction that passes an entry whose value is in such a file writes the value again, into a
//! blob file of its own, or into its table if the options say so by now. Once no table refers to
//! the file any more, it is removed.
//!
//! **The whole set decides when.** As long as at most [`DEAD_PERCENT_MAX`] hundredths of all bytes
//! are dead, no file is emptied for what is dead in it: the longer it waits, the less of it is left
//! to be written again. Above that, those with the largest dead share go first, until no more than
//! that is dead. A file that is not half dead is never due: it would cost more than it gains.
//!
//! **The account.** Emptying a file with a dead share `d` writes `1 - d` to gain `d`. So with
//! random overwrites that go on for ever, each byte that is written costs `(1 - d) / d` bytes more.
//! A file that is overwritten at random has the live share `exp(-t)` at the age `t`, and is emptied
//! at the age `-ln(1 - d)`; so `d / -ln(1 - d)` of all bytes are live.
//!
//! | dead share of all | d | bytes written again for each byte | bytes of files for each live one |
//! |---|---|---|---|
//! | 0.28 | 0.5 | 1.00 | 1.39 |
//! | 0.38 | 0.65 | 0.54 | 1.62 |
//! | 0.45 | 0.74 | 0.35 | 1.82 |
//! | 0.5 | 0.8 | 0.25 | 2.01 |
//!
//! Skewed overwrites cost less: files with what is often written die as a whole, and what is
//! written again is in files of its own, where less dies.
//!
//! Where a lot is due at once, one compaction takes files up to a limit, so that it does not keep
//! others waiting for long. If overwrites outrun that, more than [`DEAD_PERCENT_SLOW`] hundredths
//! become garbage, and what is above that slows writers down as bytes in a wrong level do.
//!
//! Small files are due as well once they are many: else a store in which few values are large would
//! get one more file with each flush. A table that refers to some of them gets one file in their
//! place, so the number that is too many grows with the number of tables.

use super::format::{BlobMeta, BlobShare};
use std::cmp::Ordering;

/// So many hundredths of all bytes may be dead before files are emptied by themselves.
pub(crate) const DEAD_PERCENT_MAX: u64 = 45;

/// Dead bytes above so many hundredths of all bytes slow writers down.
pub(crate) const DEAD_PERCENT_SLOW: u64 = 60;

/// A file is not due before so many hundredths of its bytes are dead.
const DEAD_PERCENT_MIN: u64 = 50;

/// A file is small when it has less than this part of what a full one has.
const SMALL_PART: u64 = 16;

/// The live bytes of what one compaction empties are at most those of so many full files.
const LIVE_FILES_MAX: u64 = 4;

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
        let dead = self.dead_bytes();
        dead > 0 && is_above(dead, self.meta.record_bytes, DEAD_PERCENT_MIN)
    }

    /// By the dead share, the largest first.
    fn by_dead_share(&self, other: &Self) -> Ordering {
        let share =
            |one: &Self, of: &Self| u128::from(one.dead_bytes()) * u128::from(of.meta.record_bytes);
        share(other, self).cmp(&share(self, other))
    }
}

/// Whether `part` is at least so many hundredths of `all`.
fn is_above(part: u64, all: u64, percent: u64) -> bool {
    u128::from(part) * 100 >= u128::from(all) * u128::from(percent)
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
    /// Of `files`, by number, to which `tables` refer; a full one has `full_bytes`. Of all bytes,
    /// `dead_percent` hundredths may stay dead. O(n log n).
    pub(crate) fn of<'a>(
        files: impl Iterator<Item = &'a BlobUse>,
        tables: usize,
        full_bytes: u64,
        dead_percent: u64,
    ) -> Due {
        let (mut dead, mut small) = (Vec::new(), Vec::new());
        let (mut all_bytes, mut dead_bytes) = (0_u64, 0_u64);
        for file in files {
            all_bytes = all_bytes.saturating_add(file.meta.record_bytes);
            dead_bytes = dead_bytes.saturating_add(file.dead_bytes());
            if file.is_half_dead() {
                dead.push(file);
            } else if file.meta.record_bytes < full_bytes / SMALL_PART {
                small.push(file);
            }
        }
        if small.len() <= SMALL_FILES_MAX + 2 * tables {
            small.clear();
        }
        dead.sort_by(|a, b| a.by_dead_share(b));
        // Those that bring the share down to what may stay.
        let excess = |file: &&BlobUse| {
            let is_due = dead_bytes > 0 && is_above(dead_bytes, all_bytes, dead_percent);
            dead_bytes = dead_bytes.saturating_sub(file.dead_bytes());
            all_bytes = all_bytes.saturating_sub(file.dead_bytes());
            is_due
        };
        let dead: Vec<&BlobUse> = dead.into_iter().take_while(excess).collect();
        small.sort_by_key(|file| file.live_bytes);
        let most = full_bytes.saturating_mul(LIVE_FILES_MAX);
        Due { dead: first(&dead, most), small: first(&small, most) }
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

/// The numbers of the first of these files, ascending: so many that the next one would exceed
/// `most` live bytes, and at least one.
fn first(files: &[&BlobUse], most: u64) -> Vec<u64> {
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
    use keyrack_testkit::random::Draw;
    use std::collections::BTreeSet;

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
        let due = Due::of(files.iter(), 1, FULL, 0);
        assert_eq!(
            [1, 2, 3, 4, 5].map(|number| due.has(number)),
            [false, false, true, true, false]
        );
        assert!(due.is_worth(&shares(2..4)) && !due.is_worth(&shares(1..3)));
        assert_eq!(due.bytes_of(&shares(1..6)), 200);
        assert!(Due::of([].iter(), 1, FULL, 0).is_empty());
    }

    #[test]
    fn the_emptiest_files_go_first() {
        let files: Vec<BlobUse> =
            (0..40).map(|number| file(number, FULL, FULL / 2 - number)).collect();
        let due = Due::of(files.iter(), 1, FULL, 0);
        let taken: Vec<u64> = (0..40).filter(|number| due.has(*number)).collect();
        assert_eq!(taken, (32..40).collect::<Vec<u64>>(), "four times the bytes of a file");
        let one = [file(3, 1 << 50, 1 << 49)];
        assert!(Due::of(one.iter(), 1, FULL, 0).has(3), "a large one is not left for ever");
    }

    #[test]
    fn files_wait_until_much_of_all_is_dead_and_then_the_deadest_go() {
        let live = |dead: u64| FULL - FULL / 100 * dead;
        let mut files: Vec<BlobUse> = [90, 80, 70, 5, 5]
            .iter()
            .zip(1..)
            .map(|(dead, n)| file(n, FULL, live(*dead)))
            .collect();
        assert!(Due::of(files.iter(), 1, FULL, 51).is_empty(), "just half of all");
        let due = Due::of(files.iter(), 1, FULL, 45);
        assert_eq!([1, 2, 3].map(|number| due.has(number)), [true, false, false]);
        let due = Due::of(files.iter(), 1, FULL, 30);
        assert_eq!([1, 2, 3].map(|number| due.has(number)), [true, true, false]);
        // A smaller file with a larger share goes first, even if there is less to gain.
        files.push(file(6, FULL / 10, FULL / 1000));
        assert!(Due::of(files.iter(), 1, FULL, 49).has(6));
    }

    /// Keys with values of a byte, in files of a hundred.
    struct Simulated {
        /// The file of each key.
        place_of: Vec<u64>,
        files: Vec<BlobUse>,
    }

    impl Simulated {
        const FILE_BYTES: u64 = 100;

        fn put(&mut self, keys: &[usize]) {
            for keys in keys.chunks(Self::FILE_BYTES as usize) {
                let number = self.files.last().map_or(1, |file| file.meta.number + 1);
                for key in keys {
                    let old = std::mem::replace(&mut self.place_of[*key], number);
                    let at = self.files.binary_search_by_key(&old, |file| file.meta.number);
                    if let Ok(at) = at {
                        self.files[at].live_bytes -= 1;
                    }
                }
                self.files.push(file(number, keys.len() as u64, keys.len() as u64));
            }
            self.files.retain(|file| file.live_bytes > 0);
        }

        /// Bytes written again.
        fn collect(&mut self) -> usize {
            let due = Due::of(self.files.iter(), 1, Self::FILE_BYTES, DEAD_PERCENT_MAX);
            let keys = 0..self.place_of.len();
            let moved: Vec<usize> = keys.filter(|key| due.has(self.place_of[*key])).collect();
            self.put(&moved);
            moved.len()
        }
    }

    /// What the account promises, for random overwrites that go on for ever.
    #[test]
    fn endless_overwrites_write_little_again_and_keep_space_bounded() {
        const KEYS: usize = 6_000;
        let mut draw = Draw::new(11);
        let mut store = Simulated { place_of: vec![0; KEYS], files: Vec::new() };
        store.put(&(0..KEYS).collect::<Vec<usize>>());
        let (mut written, mut again, mut most) = (0, 0, 0);
        for round in 0..200 {
            let keys: BTreeSet<usize> = (0..300).map(|_| draw.below(KEYS)).collect();
            let keys: Vec<usize> = keys.into_iter().collect();
            store.put(&keys);
            let moved = store.collect();
            if round >= 100 {
                (written, again) = (written + keys.len(), again + moved);
                let bytes: u64 = store.files.iter().map(|file| file.meta.record_bytes).sum();
                most = most.max(bytes);
            }
        }
        let again = again as f64 / written as f64;
        assert!((0.25..0.42).contains(&again), "{again} bytes again for each byte");
        let space = most as f64 / KEYS as f64;
        assert!((1.6..1.95).contains(&space), "{space} bytes of files for each live byte");
    }

    #[test]
    fn small_files_are_due_once_they_are_many_and_tables_for_some_of_them() {
        let most = SMALL_FILES_MAX as u64 + 4;
        let mut files: Vec<BlobUse> = (0..most).map(|number| file(number, 100, 100)).collect();
        files.push(file(77, FULL / 16, FULL / 16));
        assert!(Due::of(files.iter(), 2, FULL, 0).is_empty());
        files.push(file(78, FULL / 16 - 1, FULL / 16 - 1));
        let due = Due::of(files.iter(), 2, FULL, 0);
        assert!(due.has(0) && due.has(78) && !due.has(77));
        assert!(due.is_worth(&shares(0..4)) && !due.is_worth(&shares(0..3)));
    }
}
