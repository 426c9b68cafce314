//! How much disk and how many writes the choice of compactions takes, as bounds that a change must
//! keep: a store of random keys, filled once and written once more, with one thread that compacts.
//!
//! A memtable becomes a table whenever the thread has written so many bytes as the rate of writers
//! allows. The store may hold tables of level 0 up to the limit at which writers are nearly
//! stopped; from there on the next memtable waits. A table of level 0 is as large as what it holds;
//! nothing is compressed. The disk holds, besides the version, the outputs of the part in progress.

use super::*;
use crate::key::Comparator;
use crate::version::tests::internal;
use keyrack_testkit::random::{Announced, Draw, seeds_or};
use std::collections::HashMap;

/// Entries of a memtable. All entries have one byte.
const MEMTABLE_ENTRIES: u64 = 1_000;
const TABLE_BYTES: u64 = 500;
const LEVEL0_TABLES: usize = 4;

/// Keys, ascending.
type Content = Vec<u32>;

struct Store {
    version: Version,
    options: CompactionOptions,
    in_progress: InProgressCompactions,
    tables: HashMap<u64, Content>,
    written: u64,
    user: u64,
    number: u64,
    keys: u32,
    /// Which keys there are, and how many.
    is_there: Vec<bool>,
    live: u64,
    /// The largest ratio of the bytes on disk to those of the live entries, once there are some.
    space_max: f64,
}

impl Store {
    fn new(keys: u32) -> Self {
        Store {
            version: Version::new(Comparator::Bytewise),
            options: CompactionOptions {
                level0_tables: LEVEL0_TABLES,
                level0_bytes: LEVEL0_TABLES as u64 * MEMTABLE_ENTRIES,
                level_base_bytes: 4 * MEMTABLE_ENTRIES,
                base_times: 4,
                level_factor: 10,
                table_bytes: TABLE_BYTES,
            },
            in_progress: InProgressCompactions::default(),
            tables: HashMap::new(),
            written: 0,
            user: 0,
            number: 1,
            keys,
            is_there: vec![false; keys as usize],
            live: 0,
            space_max: 0.0,
        }
    }

    fn table(&mut self, content: Content) -> Arc<FileMeta> {
        let number = self.number;
        self.number += 1;
        self.written += content.len() as u64;
        let bound = |key: &u32| internal(&key.to_be_bytes(), number);
        let file = FileMeta {
            number,
            bytes: content.len() as u64,
            smallest: bound(content.first().expect("a table has an entry")),
            largest: bound(content.last().expect("a table has an entry")),
            entries: content.len() as u64,
            sequence_min: number,
            sequence_max: number,
            ..FileMeta::default()
        };
        self.tables.insert(number, content);
        Arc::new(file)
    }

    fn apply(&mut self, edit: &VersionEdit) {
        self.version = self.version.apply(edit).expect("an edit fits");
        edit.deleted.iter().for_each(|(_, number)| drop(self.tables.remove(number)));
    }

    fn flush(&mut self, draw: &mut Draw) {
        let key = |_| draw.below(u64::from(self.keys)) as u32;
        let mut content: Content = (0..MEMTABLE_ENTRIES).map(key).collect();
        content.sort_unstable();
        content.dedup();
        for key in &content {
            let is_there = &mut self.is_there[*key as usize];
            self.live += u64::from(!std::mem::replace(is_there, true));
        }
        self.user += MEMTABLE_ENTRIES;
        let file = self.table(content);
        self.apply(&VersionEdit { added: vec![(0, file)], ..VersionEdit::default() });
    }

    /// Notes how much disk there is, with some bytes that no version names.
    fn look(&mut self, unnamed: u64) {
        if self.live >= 8 * MEMTABLE_ENTRIES {
            let space = (self.version.bytes() + unnamed) as f64 / self.live as f64;
            self.space_max = self.space_max.max(space);
        }
    }

    /// Does one compaction; `between` is called after each part. Whether one was due.
    fn compact(&mut self, mut between: impl FnMut(&mut Store, u64)) -> bool {
        let picked = pick(&self.version, &self.options, &self.in_progress, SEQUENCE_MAX);
        let Some(compaction) = picked else { return false };
        let id = self.in_progress.start(&compaction, self.version.order());
        if compaction.trivial_move {
            self.apply(&compaction.move_edit());
        } else {
            for part in compaction.parts(&self.options) {
                let before = self.written;
                let outputs = self.merge(&compaction, &part);
                let bytes = self.written - before;
                self.look(bytes);
                self.apply(&compaction.part_edit(&part, outputs));
                between(self, bytes);
            }
        }
        self.in_progress.finish(id);
        self.look(0);
        true
    }

    fn merge(&mut self, compaction: &Compaction, part: &Range<usize>) -> Vec<Arc<FileMeta>> {
        let [upper, lower] = &compaction.inputs;
        let (low, high) = compaction.part_bounds(part);
        let is_within = |key: &u32| {
            let key = key.to_be_bytes();
            low.is_none_or(|low| low <= &key[..]) && high.is_none_or(|high| &key[..] < high)
        };
        let files = upper.iter().chain(&lower[part.clone()]);
        let mut merged: Content =
            files.flat_map(|file| &self.tables[&file.number]).copied().collect();
        merged.retain(is_within);
        merged.sort_unstable();
        merged.dedup();
        merged.chunks(TABLE_BYTES as usize).map(|keys| self.table(keys.to_vec())).collect()
    }

    /// Bytes that are not where they belong.
    fn excess(&self) -> u64 {
        excess(&self.version, &self.options)
    }
}

/// Writes so many memtables, while the thread that compacts writes `bytes_per_memtable` in the time
/// in which the writers fill one.
fn run(store: &mut Store, draw: &mut Draw, memtables: u64, bytes_per_memtable: u64) {
    let mut left = memtables;
    let mut earned = 0;
    while left > 0 {
        // The writers, as far as the thread came, and the limit lets them.
        let stop = store.options.excess_bytes_stop();
        let worked = store.compact(|store, bytes| {
            earned += bytes;
            while earned >= bytes_per_memtable && left > 0 && store.excess() < stop {
                earned -= bytes_per_memtable;
                left -= 1;
                store.flush(draw);
            }
            // Who is held up has not been writing meanwhile.
            earned = earned.min(bytes_per_memtable);
            store.look(0);
        });
        if !worked && left > 0 {
            left -= 1;
            store.flush(draw);
            store.look(0);
        }
    }
}

/// A store of twenty memtables, with one thread that compacts four times as fast as writers write.
fn amplification(seed: u64) {
    let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
    let mut store = Store::new(20_000);
    run(&mut store, &mut draw, 20, 4 * MEMTABLE_ENTRIES);
    let filled = store.written as f64 / store.user as f64;
    assert!(filled < 2.8, "a fill wrote {filled} bytes for each of the user's");
    assert!(store.space_max < 1.85, "a fill took {} times the live bytes", store.space_max);
    let (written, user) = (store.written, store.user);
    store.space_max = 0.0;
    run(&mut store, &mut draw, 20, 4 * MEMTABLE_ENTRIES);
    let overwritten = (store.written - written) as f64 / (store.user - user) as f64;
    assert!(overwritten < 5.2, "an overwrite wrote {overwritten} bytes for each of the user's");
    assert!(store.space_max < 1.65, "an overwrite took {} times the live bytes", store.space_max);
    while store.compact(|_, _| ()) {}
    let space = store.version.bytes() as f64 / store.live as f64;
    assert!(space < 1.25, "a store at rest takes {space} times the live bytes");
}

#[test]
fn space_and_writes_stay_within_bounds() {
    seeds_or(1..=10).into_iter().for_each(amplification);
}

/// All of a level was on disk twice while level 0 was merged with it.
#[test]
fn parts_bound_what_is_on_disk_twice() {
    let (mut draw, _announced) = (Draw::new(7), Announced(7));
    let mut store = Store::new(20_000);
    run(&mut store, &mut draw, 40, 4 * MEMTABLE_ENTRIES);
    let level0: u64 = LEVEL0_TABLES as u64;
    (0..level0).for_each(|_| store.flush(&mut draw));
    let most = store.options.part_bytes() + store.options.table_bytes + store.excess();
    let mut parts = 0;
    while store.compact(|_, bytes| {
        parts += 1;
        assert!(bytes <= most, "{bytes} bytes of outputs, not installed");
    }) {}
    assert!(parts > 5, "{parts} parts");
}
