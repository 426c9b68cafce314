//! A store keeps within its memory budget, whatever it is used for: counted by the allocator, and
//! by what memtables have mapped. A binary of its own, since the allocator counts for the process.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod allocator;

use allocator::{heap, mapped_peak, peak, restart_peak, set_mapped};
use keyrack_concurrent::{free_or_hand_over, pressure};
use keyrack_flodb::{Compression, Db, Iter, Options, Result};
use keyrack_testkit::random::Draw;
use keyrack_vfs::{Fs, RealFs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MIB: usize = 1 << 20;

/// Only one test counts at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Frees what earlier tests have left, or it would be freed while this one counts.
fn free_all() {
    for _ in 0..10_000_000 {
        free_or_hand_over();
        if pressure().objects == 0 {
            return;
        }
        std::thread::yield_now();
    }
    panic!("never freed: {:?}", pressure());
}

/// A store whose memory is watched.
struct Watched {
    db: Db,
    budget: usize,
    /// What the process had before.
    before: usize,
    shape: Shape,
    _dir: tempfile::TempDir,
}

/// Entries of a store.
#[derive(Clone, Copy)]
struct Shape {
    entries: u64,
    value_bytes: usize,
}

impl Watched {
    fn open(shape: Shape, options: Options) -> Watched {
        let dir = tempfile::tempdir().unwrap();
        free_all();
        set_mapped(0);
        let before = heap();
        restart_peak();
        let budget = options.memory_budget.unwrap();
        let options = Options { segment_bytes: 1 << 20, level_base_bytes: 4 << 20, ..options };
        let db = Db::open(dir.path(), options).unwrap();
        Watched { db, budget, before, shape, _dir: dir }
    }

    fn number(&self, name: &str) -> usize {
        let found = self.db.property(&format!("keyrack.{name}")).unwrap();
        found.parse::<f64>().unwrap() as usize
    }

    /// Takes what memtables have mapped into the count.
    fn look(&self) {
        set_mapped(self.number("memtable_mapped_bytes"));
    }

    /// What it has at this moment.
    fn bytes(&self) -> usize {
        self.look();
        heap() + self.number("memtable_mapped_bytes") - self.before
    }

    /// The tenth beyond the budget is what nobody can do without: what is evicted and not yet
    /// freed, and the state of threads.
    fn check(&self, after: &str) {
        self.look();
        let (most, budget) = (peak() - self.before, self.budget);
        let mapped = mapped_peak();
        assert!(
            most <= budget + budget / 10,
            "{after}: {most} of {budget}, of memtables up to {mapped}; now {}",
            self.parts()
        );
    }

    /// What it says that it has is what it has.
    fn check_counted(&self) {
        let (there, counted) = (self.bytes(), self.number("memory_counted_bytes"));
        let differs = there.abs_diff(counted);
        assert!(differs < self.budget / 20, "{there}, not {counted}: {}", self.parts());
    }

    fn parts(&self) -> String {
        let mut text = format!("{} in all", self.bytes());
        self.db.stats(&mut |name, number| {
            if name.ends_with("_bytes") && !name.starts_with("into_") {
                text.push_str(&format!(", {name} {number}"));
            }
        });
        text
    }

    fn key(&self, number: u64) -> [u8; 16] {
        let mut key = *b"key-0000........";
        // Not in the order of the numbers.
        key[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        key
    }

    fn fill(&self, round: u8) {
        let value = vec![round; self.shape.value_bytes];
        for number in 0..self.shape.entries {
            self.db.put(&self.key(number), &value).unwrap();
            if number.is_multiple_of(128) {
                self.look();
            }
        }
        self.check("writes");
    }

    fn read_all(&self) {
        let mut draw = Draw::new(7);
        for count in 0..self.shape.entries {
            let number = draw.below(self.shape.entries as usize) as u64;
            assert!(self.db.get_with(&self.key(number), |_| ()).unwrap().is_some(), "{number}");
            if count.is_multiple_of(128) {
                self.look();
            }
        }
        self.check("reads");
    }

    fn scan_all(&self) {
        let mut iter = self.db.iter().unwrap();
        iter.seek_first().unwrap();
        assert_eq!(self.count(&mut iter, Iter::next), self.shape.entries);
        self.check("a scan");
        iter.seek_last().unwrap();
        assert_eq!(self.count(&mut iter, Iter::prev), self.shape.entries);
        self.check("a scan backwards");
    }

    fn count(&self, iter: &mut Iter, step: impl Fn(&mut Iter) -> Result<()>) -> u64 {
        let mut entries = 0_u64;
        while iter.entry().is_some() {
            entries += 1;
            step(iter).unwrap();
            if entries.is_multiple_of(1024) {
                self.look();
            }
        }
        entries
    }

    fn compact(&self) {
        self.db.flush().unwrap();
        self.check("a flush");
        self.db.compact_range(None, None).unwrap();
        self.check("a compaction of everything");
    }
}

fn budget_of(mib: usize) -> Options {
    let compression = vec![Compression::None];
    Options { memory_budget: Some(mib * MIB), compression, ..Options::default() }
}

/// All that a store is used for, while another thread looks at what memtables have mapped.
fn use_for_everything(shape: Shape, options: Options) {
    let store = Watched::open(shape, options);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                store.look();
                std::thread::yield_now();
            }
        });
        let _done = Done(&is_done);
        use_all_parts(&store);
    });
}

/// Ends the other thread, also after a failure.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn use_all_parts(store: &Watched) {
    store.fill(1);
    store.read_all();
    // The cache has what there is to be had, and gives it back for memtables and compactions.
    store.fill(2);
    store.read_all();
    store.scan_all();
    let held: Vec<Iter> = (0..4).map(|_| store.db.iter().unwrap()).collect();
    store.db.delete_range(&store.key(0)[..9], &[&store.key(0)[..8], &[255]].concat()).unwrap();
    store.fill(3);
    drop(held);
    store.compact();
    store.read_all();
    store.scan_all();
}

#[test]
fn a_store_keeps_within_16_mib() {
    let _turn = turn();
    use_for_everything(Shape { entries: 300_000, value_bytes: 100 }, budget_of(16));
}

#[test]
fn a_store_keeps_within_32_mib() {
    let _turn = turn();
    use_for_everything(Shape { entries: 300_000, value_bytes: 100 }, budget_of(32));
}

#[test]
fn a_store_keeps_within_64_mib() {
    let _turn = turn();
    use_for_everything(Shape { entries: 600_000, value_bytes: 100 }, budget_of(64));
}

/// Of entries without a value, hash table, index and runs of a memtable are more than the entries.
#[test]
fn entries_without_values_keep_within_16_mib() {
    let _turn = turn();
    use_for_everything(Shape { entries: 300_000, value_bytes: 0 }, budget_of(16));
}

/// Large values pass through the buffers of blob files, and reads copy them.
#[test]
fn values_in_blob_files_keep_within_16_mib() {
    let _turn = turn();
    let options = Options { blob_bytes_min: 1 << 10, ..budget_of(16) };
    use_for_everything(Shape { entries: 10_000, value_bytes: 4 << 10 }, options);
}

/// Indexes of the range tombstones of a memtable hold their keys once more.
#[test]
fn range_tombstones_of_memtables_are_counted() {
    let _turn = turn();
    let options = Options { memtable_bytes: 3 * MIB, ..budget_of(16) };
    let store = Watched::open(Shape { entries: 0, value_bytes: 0 }, options);
    for number in 0..5_000 {
        let begin = [&store.key(number)[..], &[0; 200]].concat();
        let end = [&store.key(number)[..], &[1; 200]].concat();
        store.db.delete_range(&begin, &end).unwrap();
        store.look();
    }
    assert!(store.number("memtable_bytes") > 4 * MIB, "{}", store.parts());
    store.check_counted();
    store.check("range deletes");
}

/// With small blocks the indexes are a fifth of the budget. A store that does not count them has
/// more than it says.
#[test]
fn large_indexes_are_counted() {
    let _turn = turn();
    let options = Options { block_bytes: 256, ..budget_of(32) };
    let store = Watched::open(Shape { entries: 300_000, value_bytes: 100 }, options);
    store.fill(1);
    store.compact();
    store.read_all();
    store.check_counted();
    assert!(store.number("index_bytes") > 5 * MIB, "{}", store.parts());
    assert!(store.number("filter_bytes") > 300_000, "{}", store.parts());
    store.check("reads");
}

/// What the store says that it has is what it has, and it has what it may.
#[test]
fn the_store_knows_what_it_has() {
    let _turn = turn();
    let store = Watched::open(Shape { entries: 300_000, value_bytes: 100 }, budget_of(24));
    store.fill(1);
    store.compact();
    store.read_all();
    store.check_counted();
    // The data is larger than the budget, so the cache is as large as it may be.
    assert!(store.number("cache_capacity_bytes") >= store.budget / 2, "{}", store.parts());
    let cache = store.number("cache_bytes");
    assert!(cache >= store.number("cache_capacity_bytes") / 10 * 9, "{}", store.parts());
}

/// Bytes of anonymous memory that the process has, by the kernel's count. `None` where it does not
/// tell.
fn anonymous_bytes() -> Option<usize> {
    let text = RealFs.read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()? << 10)
}

/// What memtables say that they have mapped is what the kernel has given them.
#[test]
fn mapped_memory_is_as_large_as_it_says() {
    let _turn = turn();
    let mapped = |options: Options| {
        let store = Watched::open(Shape { entries: 30_000, value_bytes: 100 }, options);
        let (rss, heap_before) = (anonymous_bytes(), heap());
        let mapped_before = store.number("memtable_mapped_bytes");
        store.fill(1);
        let mapped = store.number("memtable_mapped_bytes") - mapped_before;
        let heap = heap().saturating_sub(heap_before);
        if let (Some(before), Some(now)) = (rss, anonymous_bytes()) {
            let taken = now.saturating_sub(before);
            let told = mapped + heap;
            assert!(taken <= told + told / 5 + MIB, "{taken} bytes, not {told}");
        }
        mapped
    };
    let plain = mapped(Options { memtable_bytes: 7 * MIB, ..budget_of(64) });
    assert!((4 * MIB..6 * MIB).contains(&plain), "{plain}");
    // Entries, index and slots have huge pages each, and four more of the entries are made ahead.
    let huge = mapped(Options { memtable_bytes: 32 * MIB, ..budget_of(512) });
    assert!((plain..plain + 16 * MIB).contains(&huge), "{huge}");
}
