//! What a store does with its memory budget when it is opened: the sizes that nobody has given.
//!
//! ```text
//!   budget    a quarter of the memory that the process may use, 8 MiB to 1 GiB, if not given
//!   memtable  a sixteenth of it, 64 KiB to 64 MiB, if not given
//!   memtables two at least; as many as fit, up to `immutable_memtables_max` and two
//!   cache     what the others leave at each moment, and at most what was given
//! ```
//!
//! A memtable counts twice its bytes here: entries of 136 bytes take 1.3 times their bytes, while
//! they are sorted 1.5 times, and entries of 40 bytes take 2 to 2.5 times theirs. Four memtables of
//! a sixteenth are half of the budget then. The other half is for tables, cursors, writers and the
//! cache.
//!
//! Sizes that were given win. Those that contradict a budget that was given are refused. Without
//! one, they raise the budget.

use crate::error::{Error, Result};
use crate::options::{MEMTABLE_BYTES_MIN, Options};
use keyrack_vfs::memory_limit;

/// The least budget: smaller ones would not hold the buffers of one compaction.
pub(crate) const BUDGET_BYTES_MIN: usize = 8 << 20;

/// The largest budget that nobody has asked for.
const BUDGET_BYTES_MAX: usize = 1 << 30;

/// The part of the memory that a budget is which nobody has given.
const MEMORY_PARTS: u64 = 4;

/// The part of the budget that a memtable is.
const MEMTABLE_PARTS: usize = 16;

/// The largest memtable that nobody has asked for.
const MEMTABLE_BYTES_MAX: usize = 64 << 20;

/// What a memtable takes in memory, in its bytes.
const MEMTABLE_TIMES: usize = 2;

/// Memtables that a store has at least: the active one and one that is flushed.
const MEMTABLES_MIN: usize = 2;

/// The part of the budget that a table is at most which a compaction writes.
const TABLE_PARTS: usize = 8;

impl Options {
    /// These options with the sizes that the store is opened with in place of
    /// [`Options::BY_BUDGET`], and with the budget.
    ///
    /// ```
    /// # use keyrack_flodb::Options;
    /// let options = Options::new().memory_budget(64 << 20).divided()?;
    /// assert_eq!(options.memtable_bytes, 4 << 20);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if the budget is less than 8 MiB, or than what the given sizes take.
    pub fn divided(self) -> Result<Options> {
        self.divided_with(memory_limit())
    }

    /// As [`Options::divided`], where the process may use so many bytes of memory, if it is known.
    fn divided_with(mut self, memory_bytes: Option<u64>) -> Result<Options> {
        let is_given = self.memory_budget.is_some();
        let cache_bytes = if self.is_cache_given() { self.cache_bytes } else { 0 };
        let mut budget = self.memory_budget.unwrap_or_else(|| default_budget(memory_bytes));
        if budget < BUDGET_BYTES_MIN {
            return Err(Error::Usage(format!(
                "memory_budget must be at least {BUDGET_BYTES_MIN} bytes (got {budget})"
            )));
        }
        if self.memtable_bytes == Options::BY_BUDGET {
            // A budget that was given has to hold a cache that was given, too.
            let beside_cache = if is_given { budget.saturating_sub(cache_bytes) } else { budget };
            let most = beside_cache / (MEMTABLES_MIN * MEMTABLE_TIMES);
            let part = (budget / MEMTABLE_PARTS).min(most);
            self.memtable_bytes = part.clamp(MEMTABLE_BYTES_MIN, MEMTABLE_BYTES_MAX);
        }
        let memtable = self.memtable_bytes.saturating_mul(MEMTABLE_TIMES);
        if is_given {
            self.fit_memtables(budget, memtable, cache_bytes)?;
        } else {
            let memtables = self.immutable_memtables_max.saturating_add(2);
            let given = memtable.saturating_mul(memtables).saturating_add(cache_bytes);
            budget = budget.max(given);
        }
        if !self.is_cache_given() {
            self.cache_bytes = budget;
        }
        self.memory_budget = Some(budget);
        Ok(self)
    }

    /// Lets no more memtables wait for their flush than fit beside the cache that was given.
    fn fit_memtables(&mut self, budget: usize, memtable: usize, cache_bytes: usize) -> Result<()> {
        let least = memtable.saturating_mul(MEMTABLES_MIN).saturating_add(cache_bytes);
        if least > budget {
            let Options { memtable_bytes, .. } = self;
            return Err(Error::Usage(format!(
                "memory_budget: {budget} bytes are too few for two memtables of {memtable_bytes} \
                 bytes with their indexes and a cache of {cache_bytes} bytes; give at least \
                 {least}, or make memtables or cache smaller"
            )));
        }
        let memtables = (budget - cache_bytes) / memtable;
        let waiting = memtables.saturating_sub(MEMTABLES_MIN);
        self.immutable_memtables_max = self.immutable_memtables_max.min(waiting);
        Ok(())
    }

    /// A cache of the whole budget is what a store has that was opened without one.
    fn is_cache_given(&self) -> bool {
        self.cache_bytes != Options::BY_BUDGET && Some(self.cache_bytes) != self.memory_budget
    }

    /// Bytes of a table that a compaction writes: with a small budget fewer than the option says,
    /// since the keys of a table in work are in memory.
    pub(crate) fn output_table_bytes(&self) -> u64 {
        match self.memory_budget {
            Some(budget) => self.table_bytes.min((budget / TABLE_PARTS) as u64),
            None => self.table_bytes,
        }
    }
}

fn default_budget(memory_bytes: Option<u64>) -> usize {
    let part = memory_bytes.map_or(u64::MAX, |bytes| bytes / MEMORY_PARTS);
    let part = usize::try_from(part).unwrap_or(usize::MAX);
    part.clamp(BUDGET_BYTES_MIN, BUDGET_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Budget, memtable, memtables that may wait and cache, in MiB but for the third.
    fn divided(options: Options, memory_mib: Option<u64>) -> (usize, usize, usize, usize) {
        let options = options.divided_with(memory_mib.map(|mib| mib << 20)).unwrap();
        let budget = options.memory_budget.unwrap();
        let Options { memtable_bytes, immutable_memtables_max, cache_bytes, .. } = options;
        (budget / MIB, memtable_bytes / MIB, immutable_memtables_max, cache_bytes / MIB)
    }

    fn given(budget_mib: usize) -> Options {
        Options { memory_budget: Some(budget_mib * MIB), ..Options::default() }
    }

    #[test]
    fn the_default_is_a_quarter_of_the_memory_and_at_most_a_gibibyte() {
        let of = |memory| divided(Options::default(), memory);
        assert_eq!(of(None), (1024, 64, 2, 1024), "nothing is known of the machine");
        assert_eq!(of(Some(64 << 10)), (1024, 64, 2, 1024));
        assert_eq!(of(Some(4 << 10)), (1024, 64, 2, 1024));
        assert_eq!(of(Some(2 << 10)), (512, 32, 2, 512));
        assert_eq!(of(Some(512)), (128, 8, 2, 128));
        assert_eq!(of(Some(1)), (8, 0, 2, 8), "the least budget");
    }

    #[test]
    fn one_number_is_divided() {
        assert_eq!(divided(given(4096), None), (4096, 64, 2, 4096), "no larger memtables");
        assert_eq!(divided(given(1024), Some(1)), (1024, 64, 2, 1024), "whatever there is");
        assert_eq!(divided(given(64), None), (64, 4, 2, 64));
        assert_eq!(divided(given(16), None), (16, 1, 2, 16));
        assert_eq!(given(8).divided().unwrap().memtable_bytes, MIB / 2);
    }

    #[test]
    fn sizes_that_are_given_win() {
        let both = Options { memtable_bytes: 32 * MIB, cache_bytes: 700 * MIB, ..given(1024) };
        assert_eq!(divided(both.clone(), None), (1024, 32, 2, 700));
        assert_eq!(divided(Options { memory_budget: None, ..both }, None), (1024, 32, 2, 700));
        let cache = Options { cache_bytes: 56 * MIB, ..given(64) };
        assert_eq!(divided(cache, None), (64, 2, 0, 56), "memtables of the rest");
        let memtable = Options { memtable_bytes: 64 * MIB, ..given(400) };
        assert_eq!(divided(memtable, None), (400, 64, 1, 400), "one fewer waits");
        let none = Options { cache_bytes: 0, ..given(64) };
        assert_eq!(divided(none, None), (64, 4, 2, 0), "no cache is given, too");
    }

    #[test]
    fn given_sizes_raise_a_budget_that_is_not() {
        let large =
            Options { memtable_bytes: 256 * MIB, cache_bytes: 4096 * MIB, ..Options::default() };
        assert_eq!(divided(large, None), (4096 + 4 * 512, 256, 2, 4096));
        let cache = Options { cache_bytes: 4096 * MIB, ..Options::default() };
        assert_eq!(divided(cache, None), (4096 + 512, 64, 2, 4096), "the memtables stay");
        let most = Options { cache_bytes: usize::MAX - 1, ..Options::default() };
        assert_eq!(most.divided_with(None).unwrap().memory_budget, Some(usize::MAX));
    }

    #[test]
    fn contradictions_are_refused_with_what_would_do() {
        let refused = |options: Options| options.divided().unwrap_err().to_string();
        let small = refused(given(7));
        assert_eq!(small, "memory_budget must be at least 8388608 bytes (got 7340032)");
        let memtables = refused(Options { memtable_bytes: 64 * MIB, ..given(64) });
        assert!(memtables.contains("give at least 268435456"), "{memtables}");
        let cache = refused(Options { cache_bytes: 64 * MIB, ..given(63) });
        assert!(cache.contains("a cache of 67108864 bytes; give at least 67371008"), "{cache}");
        let least = Options { cache_bytes: 64 * MIB, ..Options::default() };
        let least = Options { memory_budget: Some(67_371_008), ..least };
        assert_eq!(least.divided().unwrap().memtable_bytes, MEMTABLE_BYTES_MIN);
    }

    #[test]
    fn dividing_again_changes_nothing() {
        for options in [Options::default(), given(16), given(200)] {
            let once = options.divided().unwrap();
            let twice = once.clone().divided().unwrap();
            assert_eq!(format!("{once:?}"), format!("{twice:?}"));
        }
    }

    #[test]
    fn tables_of_compactions_fit_the_budget() {
        assert_eq!(given(16).output_table_bytes(), 2 << 20);
        assert_eq!(given(1024).output_table_bytes(), 32 << 20);
        let small = Options { table_bytes: 1 << 20, ..given(16) };
        assert_eq!(small.output_table_bytes(), 1 << 20);
    }
}
