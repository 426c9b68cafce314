//! A store whose tables are maps, driven by the choice of compactions alone.
//!
//! Random flushes, requests for ranges and several compactions at once, which end in any order. All
//! the time each key must read as the newest write of it, and in the end, when nothing is written
//! any more, every level must come to rest within its size.

use super::*;
use crate::key::Comparator;
use crate::version::tests::internal;
use keyrack_testkit::random::{Announced, Draw, seeds_or};
use std::collections::{BTreeMap, HashMap};

/// The newest write of each key in a table: its sequence number, and whether it removes.
type Content = BTreeMap<String, (u64, bool)>;

const KEYS: u64 = 300;
const BYTES_PER_ENTRY: u64 = 10;
const THREADS: usize = 3;

struct Simulated {
    version: Version,
    options: CompactionOptions,
    in_progress: InProgressCompactions,
    tables: HashMap<u64, Content>,
    newest: Content,
    active: Vec<(Compaction, CompactionId)>,
    sequence: u64,
    number: u64,
    reasons: HashMap<String, usize>,
    most_active: usize,
}

impl Simulated {
    fn new(draw: &mut Draw) -> Self {
        let options = CompactionOptions {
            level0_tables: 4,
            level0_bytes: 400,
            base_times: 1,
            level_base_bytes: 200 + draw.below(400),
            level_factor: 2 + draw.below(4),
            table_bytes: 40 + draw.below(100),
        };
        Simulated {
            version: Version::new(Comparator::Bytewise),
            options,
            in_progress: InProgressCompactions::default(),
            tables: HashMap::new(),
            newest: Content::new(),
            active: Vec::new(),
            sequence: 1,
            number: 1,
            reasons: HashMap::new(),
            most_active: 0,
        }
    }

    fn table(&mut self, content: Content) -> Arc<FileMeta> {
        let number = self.number;
        self.number += 1;
        let sequences = || content.values().map(|(sequence, _)| *sequence);
        let (first, last) = (content.first_key_value().unwrap(), content.last_key_value().unwrap());
        let file = FileMeta {
            number,
            bytes: content.len() as u64 * BYTES_PER_ENTRY,
            smallest: internal(first.0.as_bytes(), first.1.0),
            largest: internal(last.0.as_bytes(), last.1.0),
            entries: content.len() as u64,
            deletes: content.values().filter(|(_, removes)| *removes).count() as u64,
            sequence_min: sequences().min().unwrap(),
            sequence_max: sequences().max().unwrap(),
            ..FileMeta::default()
        };
        self.tables.insert(number, content);
        Arc::new(file)
    }

    fn flush(&mut self, draw: &mut Draw, removes_of_ten: u64) {
        let mut content = Content::new();
        let start = draw.below(KEYS);
        // Sometimes a narrow range, sometimes everything, sometimes ascending.
        let width = [5, 40, KEYS][draw.below(3)];
        for _ in 0..=draw.below(12) {
            let key = format!("{:04}", (start + draw.below(width)) % KEYS);
            content.insert(key, (self.sequence, draw.below(10) < removes_of_ten));
            self.sequence += 1;
        }
        self.newest.extend(content.clone());
        let file = self.table(content);
        self.apply(&VersionEdit { added: vec![(0, file)], ..VersionEdit::default() });
    }

    fn apply(&mut self, edit: &VersionEdit) {
        self.version = self.version.apply(edit).unwrap_or_else(|invalid| {
            panic!("{invalid}\n{edit:?}\n{:?}", self.version);
        });
    }

    fn pick(&self) -> Option<Compaction> {
        pick(&self.version, &self.options, &self.in_progress, SEQUENCE_MAX)
    }

    /// Starts the next compaction if there is one.
    fn start(&mut self, draw: &mut Draw) -> bool {
        let picked = match draw.below(12) {
            0 => {
                let level = draw.below(7);
                let (low, high) = (draw.below(KEYS), draw.below(KEYS));
                let (low, high) = (low.min(high), low.max(high));
                let (low, high) = (format!("{low:04}"), format!("{high:04}"));
                let range = (Some(low.as_bytes()), Some(high.as_bytes()));
                match pick_range(&self.version, &self.options, &self.in_progress, level, range) {
                    Manual::Run(compaction) => Some(*compaction),
                    Manual::Busy => {
                        assert!(!self.active.is_empty(), "there is nothing to wait for");
                        None
                    }
                    Manual::Done => None,
                }
            }
            _ => self.pick(),
        };
        let Some(compaction) = picked else { return false };
        *self.reasons.entry(format!("{:?}", compaction.reason)).or_default() += 1;
        if compaction.trivial_move {
            *self.reasons.entry("move".to_owned()).or_default() += 1;
        }
        let id = self.in_progress.start(&compaction, self.version.order());
        self.active.push((compaction, id));
        self.most_active = self.most_active.max(self.active.len());
        true
    }

    /// Ends one of the compactions that run.
    fn finish(&mut self, draw: &mut Draw) {
        if self.active.is_empty() {
            return;
        }
        let (compaction, id) = self.active.swap_remove(draw.below(self.active.len()));
        let edit = if compaction.trivial_move {
            compaction.move_edit()
        } else {
            let outputs = self.merge(&compaction);
            compaction.edit(outputs)
        };
        self.apply(&edit);
        self.in_progress.finish(id);
    }

    fn merge(&mut self, compaction: &Compaction) -> Vec<Arc<FileMeta>> {
        let mut merged = Content::new();
        for file in compaction.files() {
            for (key, write) in &self.tables[&file.number] {
                let newest = merged.entry(key.clone()).or_insert(*write);
                *newest = (*newest).max(*write);
            }
        }
        let mut outputs = vec![Content::new()];
        let mut splits = compaction.splits(&self.options);
        for (key, write) in merged {
            if write.1 && !compaction.may_hide(&self.version, key.as_bytes()) {
                continue;
            }
            let output = outputs.last().unwrap();
            let is_full = output.len() as u64 * BYTES_PER_ENTRY >= self.options.table_bytes;
            let is_due = splits.is_due(key.as_bytes(), self.version.order());
            if (is_full || is_due) && compaction.output_level > 0 {
                splits.restart();
                outputs.push(Content::new());
            }
            outputs.last_mut().unwrap().insert(key, write);
        }
        outputs.retain(|output| !output.is_empty());
        outputs.into_iter().map(|output| self.table(output)).collect()
    }

    /// Reads every key from the top down, as a reader does.
    fn check(&self) {
        for key in 0..KEYS {
            let key = format!("{key:04}");
            let read = (0..7).find_map(|level| {
                let mut files = self.version.files_for_key(level, key.as_bytes());
                files.find_map(|file| self.tables[&file.number].get(&key))
            });
            let is = read.filter(|(_, removes)| !removes);
            let should_be = self.newest.get(&key).filter(|(_, removes)| !removes);
            assert_eq!(is, should_be, "key {key} in\n{:?}", self.version);
        }
    }
}

fn simulate(seed: u64) -> (HashMap<String, usize>, usize) {
    let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
    let mut store = Simulated::new(&mut draw);
    for step in 0..400 {
        let removes_of_ten = if step < 300 { 2 } else { 9 };
        match draw.below(3) {
            0 => store.flush(&mut draw, removes_of_ten),
            1 if store.active.len() < THREADS => {
                let before = store.pick().as_ref().map(super::draw);
                assert_eq!(before, store.pick().as_ref().map(super::draw), "equal twice");
                store.start(&mut draw);
            }
            _ => store.finish(&mut draw),
        }
        if step % 8 == 0 {
            store.check();
        }
    }
    let mut rounds = 0;
    while !store.active.is_empty() || store.pick().is_some() {
        if store.active.len() < THREADS {
            store.start(&mut draw);
        }
        store.finish(&mut draw);
        rounds += 1;
        assert!(rounds < 2_000, "it does not come to rest:\n{:?}", store.version);
    }
    store.check();
    assert!(store.version.files(0).len() < store.options.level0_tables);
    let targets = targets(&store.version, &store.options);
    for level in targets.base..LAST_LEVEL {
        let bytes = store.version.level_bytes(level);
        assert!(bytes < targets.bytes[level], "level {level} of\n{:?}", store.version);
        assert!(level >= targets.needed || bytes == 0, "level {level} is drained");
    }
    assert_eq!(debt(&store.version, &store.options), 0);
    assert!(store.version.numbers().all(|number| store.tables.contains_key(&number)));
    (store.reasons, store.most_active)
}

#[test]
fn a_store_reads_right_and_comes_to_rest() {
    let mut reasons: HashMap<String, usize> = HashMap::new();
    let mut most_active = 0;
    for seed in seeds_or(1..=40) {
        let (seen, active) = simulate(seed);
        for (reason, count) in seen {
            *reasons.entry(reason).or_default() += count;
        }
        most_active = most_active.max(active);
    }
    if std::env::var_os("KEYRACK_SEED").is_none() {
        for reason in ["Level0", "WithinLevel0", "Size", "Drain", "Tombstones", "Manual", "move"] {
            assert!(reasons.contains_key(reason), "{reason} never came: {reasons:?}");
        }
        assert_eq!(most_active, THREADS);
    }
}
