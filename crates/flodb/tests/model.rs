//! Random operations on a store, beside a model that keeps every version: gets, snapshots, walks
//! with turns, batches, updates, removed ranges, tables from outside, flushes, compactions,
//! crashes and reopenings.

use crate::ingest::{Changes, sound};
use crate::ranges;
use crate::support::{Model, Write, appends, open, put_until, rows, still};
use keyrack_flodb::{
    Batch, Change, Compression, Db, Durability, IngestOptions, Iter, Options, PrefixExtractor,
    ReadOptions, Snapshot, Transfer, WriteOptions,
};
use keyrack_testkit::random::{Announced, Draw, factor, is_brief, seeds};
use keyrack_vfs::{CrashPolicy, MemFs};

/// Of a hundred kinds of operations those below this are quick.
const QUICK: usize = 86;

/// What a random test draws.
pub(crate) struct Script {
    pub(crate) options: fn(&mut Draw) -> Options,
    pub(crate) key: fn(&mut Draw) -> Vec<u8>,
    /// The keys from the first on and before the second.
    pub(crate) range: fn(&mut Draw) -> (Vec<u8>, Vec<u8>),
    /// How many of a hundred writes remove a range.
    pub(crate) ranges: usize,
    /// What takes long is done one time in so many: walks, snapshots, flushes, compactions,
    /// reopenings.
    pub(crate) rarely: usize,
}

const SCRIPT: Script = Script { options: small, key, range, ranges: 5, rarely: 1 };

pub(crate) fn small(draw: &mut Draw) -> Options {
    Options {
        durability: [Durability::Os, Durability::None, Durability::Sync][draw.below(3)],
        memtable_bytes: 64 << 10,
        unordered_max: [1, 16, 1000][draw.below(3)],
        hash_level: draw.below(4) > 0,
        segment_bytes: 256 << 10,
        block_bytes: [64, 500, 4096][draw.below(3)],
        restart_interval: [1, 4, 16][draw.below(3)],
        compression: vec![[Compression::None, Compression::Lz4][draw.below(2)]],
        filter_bits_per_key: [0, 10][draw.below(2)],
        prefix_extractor: extractor(draw),
        blob_bytes_min: [0, 1024][draw.below(2)],
        cache_bytes: [0, 1 << 20][draw.below(2)],
        table_bytes: 32 << 10,
        level0_tables: 2,
        level_base_bytes: 128 << 10,
        ..Options::default()
    }
}

/// Of prefixes with many keys and with few, or none at all.
pub(crate) fn extractor(draw: &mut Draw) -> Option<PrefixExtractor> {
    match draw.below(5) {
        0 => Some(PrefixExtractor::Fixed(1)),
        1 => Some(PrefixExtractor::Fixed(6)),
        2 => Some(PrefixExtractor::Separator(b'1')),
        _ => None,
    }
}

/// Those of the script, with a clock that stands still.
fn options_of(script: &Script, draw: &mut Draw) -> Options {
    Options { clock: still(), ..(script.options)(draw) }.merge_operator(appends())
}

fn key(draw: &mut Draw) -> Vec<u8> {
    let n = draw.below(800);
    match draw.below(6) {
        0 => Vec::new(),
        1 => vec![n as u8],
        2 => [&[b'p'; 200][..], n.to_string().as_bytes()].concat(),
        _ => format!("key{n:05}").into_bytes(),
    }
}

/// A range of any width, most of them narrow.
fn range(draw: &mut Draw) -> (Vec<u8>, Vec<u8>) {
    let from = draw.below(800);
    match draw.below(8) {
        // Any two keys, in this order or the other, or twice the same.
        0 => (key(draw), key(draw)),
        1 => (format!("key{from:05}").into_bytes(), b"l".to_vec()),
        2 => (Vec::new(), format!("key{from:05}").into_bytes()),
        3 => (vec![from as u8], vec![from as u8, 0]),
        _ => {
            let to = from + [1, 5, 50][draw.below(3)];
            (format!("key{from:05}").into_bytes(), format!("key{to:05}").into_bytes())
        }
    }
}

fn value(draw: &mut Draw, round: usize) -> Vec<u8> {
    let len = [0, 8, 100, 100, 3000][draw.below(5)];
    let mut value = format!("{round}").into_bytes();
    value.resize(len.max(value.len()), b'v');
    value
}

fn own<'a>(row: Option<(&'a Vec<u8>, &'a Vec<u8>)>) -> Option<(Vec<u8>, Vec<u8>)> {
    row.map(|(key, value)| (key.clone(), value.clone()))
}

/// A store and what it should hold.
pub(crate) struct Pair<'a> {
    script: &'a Script,
    fs: MemFs,
    /// There between any two steps.
    db: Option<Db>,
    pub(crate) model: Model,
    pub(crate) snapshots: Vec<(Snapshot, Model)>,
}

impl Pair<'_> {
    pub(crate) fn new<'a>(script: &'a Script, draw: &mut Draw) -> Pair<'a> {
        let fs = MemFs::new();
        let db = Some(open(&fs, options_of(script, draw)));
        Pair { script, fs, db, model: Model::new(), snapshots: Vec::new() }
    }

    pub(crate) fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// Closes the store, and returns its disk.
    pub(crate) fn close(mut self) -> MemFs {
        self.snapshots.clear();
        self.db.take().unwrap().close().unwrap();
        self.fs
    }

    fn write(&self, draw: &mut Draw, round: usize) -> Write {
        let kind = draw.below(100);
        if kind < self.script.ranges {
            let (from, to) = (self.script.range)(draw);
            Write::DeleteRange(from, to)
        } else if kind < self.script.ranges + 22 {
            Write::Delete((self.script.key)(draw))
        } else if draw.below(6) == 0 {
            Write::Merge((self.script.key)(draw), value(draw, round))
        } else if draw.below(6) == 0 {
            let (key, value) = ((self.script.key)(draw), value(draw, round));
            put_until(draw, key, value)
        } else {
            Write::Put((self.script.key)(draw), value(draw, round))
        }
    }

    pub(crate) fn step(&mut self, draw: &mut Draw, round: usize) {
        let mut what = draw.below(100);
        if what >= QUICK && draw.below(self.script.rarely) > 0 {
            what %= QUICK;
        }
        let key = (self.script.key)(draw);
        match what {
            0..55 => {
                let write = self.write(draw, round);
                match &write {
                    Write::Put(key, value) => self.db().put(key, value).unwrap(),
                    Write::PutUntil(key, value, at) => {
                        self.db().put_until(key, value, *at).unwrap();
                    }
                    Write::Merge(key, operand) => self.db().merge(key, operand).unwrap(),
                    Write::Delete(key) => self.db().delete(key).unwrap(),
                    Write::DeleteRange(from, to) => self.db().delete_range(from, to).unwrap(),
                }
                write.apply(&mut self.model);
            }
            55..62 => {
                let mut batch = Batch::new();
                for _ in 0..draw.below(30) {
                    let write = self.write(draw, round);
                    write.add_to(&mut batch);
                    write.apply(&mut self.model);
                }
                self.db().write(&batch, WriteOptions::default()).unwrap();
            }
            62..66 => {
                let suffix = round.to_string();
                let update = |old: Option<&[u8]>| {
                    assert_eq!(old, self.model.get(&key).map(Vec::as_slice));
                    Change::Put([old.unwrap_or(b""), suffix.as_bytes()].concat())
                };
                self.db().update(&key, WriteOptions::default(), update).unwrap();
                self.model.entry(key).or_default().extend_from_slice(suffix.as_bytes());
            }
            66..QUICK => {
                assert_eq!(self.db().get(&key).unwrap().as_ref(), self.model.get(&key), "{key:?}");
            }
            QUICK..90 => {
                self.compare_walk(self.db().iter().unwrap(), &self.model, draw);
                self.compare_ranges(None, &self.model, draw);
            }
            90..93 if self.snapshots.len() < 4 => {
                self.snapshots.push((self.db().snapshot(), self.model.clone()));
            }
            90..96 if !self.snapshots.is_empty() => {
                let at = draw.below(self.snapshots.len());
                let (snapshot, then) = &self.snapshots[at];
                let found = self.db().get_at(snapshot, &key, <[u8]>::to_vec).unwrap();
                assert_eq!(found.as_ref(), then.get(&key), "{key:?}");
                self.compare_walk(self.db().iter_at(snapshot).unwrap(), then, draw);
                self.compare_ranges(Some(snapshot), then, draw);
                if draw.below(3) == 0 {
                    self.snapshots.swap_remove(at);
                }
            }
            96 => self.db().flush().unwrap(),
            97 => self.db().compact_range(None, None).unwrap(),
            98 if draw.below(2) == 0 => self.ingest(draw, round),
            98 => {
                let high = (self.script.key)(draw);
                self.db().compact_range(Some(&key), Some(&high)).unwrap();
            }
            99 if draw.below(4) == 0 => self.reopen(draw),
            _ => {}
        }
    }

    /// Takes in one to three tables from outside.
    pub(crate) fn ingest(&mut self, draw: &mut Draw, round: usize) {
        let mut changes = Changes::new();
        for _ in 0..=draw.below(40) {
            let value = value(draw, round);
            changes.insert((self.script.key)(draw), (draw.below(5) > 0).then_some(value));
        }
        crate::ingest::apply(&mut self.model, &changes);
        let of_table = changes.len().div_ceil(1 + draw.below(3));
        let changes: Vec<_> = changes.into_iter().collect();
        let paths = changes.chunks(of_table).enumerate().map(|(part, changes)| {
            let changes = changes.iter().cloned().collect();
            crate::ingest::write(&self.fs, &format!("{round}-{part}"), &changes)
        });
        let paths: Vec<_> = paths.collect();
        let transfer = [Transfer::Copy, Transfer::Link, Transfer::Move][draw.below(3)];
        self.db().ingest(&paths, IngestOptions { transfer }).unwrap();
    }

    /// Closes the store, or ends its process, and opens it with other options.
    fn reopen(&mut self, draw: &mut Draw) {
        self.snapshots.clear();
        let db = self.db.take().unwrap();
        if db.options().durability != Durability::None && draw.below(2) == 0 {
            // What the page cache has is all there.
            let after = self.fs.crash_image(draw.next(), CrashPolicy::KeepAll);
            drop(db);
            self.fs = after;
        } else {
            db.close().unwrap();
            sound(&self.fs);
        }
        self.db = Some(open(&self.fs, options_of(self.script, draw)));
        assert_eq!(rows(self.db()), self.model);
    }

    /// Random ranges and prefixes beside the model.
    fn compare_ranges(&self, snapshot: Option<&Snapshot>, model: &Model, draw: &mut Draw) {
        let rows = model.clone().into_iter().collect();
        let (db, options) = (self.db(), ReadOptions::default());
        let range = |bounds| db.range_with(snapshot, bounds, options);
        ranges::compare(range, &rows, false, draw, self.script.key);
        let prefix = |prefix: &[u8]| db.prefix_with(snapshot, prefix, options);
        ranges::compare_prefix(prefix, &rows, draw, self.script.key);
    }

    /// A random walk of `iter` beside the model.
    fn compare_walk(&self, mut iter: Iter, model: &Model, draw: &mut Draw) {
        let mut place = None;
        for _ in 0..40 {
            let target = (self.script.key)(draw);
            place = match (draw.below(8), place) {
                (0, _) => {
                    iter.seek_first().unwrap();
                    own(model.first_key_value())
                }
                (1, _) => {
                    iter.seek_last().unwrap();
                    own(model.last_key_value())
                }
                (2, _) => {
                    iter.seek(&target).unwrap();
                    own(model.range(target..).next())
                }
                (3, _) => {
                    iter.seek_back(&target).unwrap();
                    own(model.range(..=target).next_back())
                }
                (4 | 5, Some((at, _))) => {
                    iter.next().unwrap();
                    own(model.range(at..).nth(1))
                }
                (_, Some((at, _))) => {
                    iter.prev().unwrap();
                    own(model.range(..at).next_back())
                }
                (_, None) => None,
            };
            assert_eq!(own_entry(&iter), place);
        }
    }
}

fn own_entry(iter: &Iter) -> Option<(Vec<u8>, Vec<u8>)> {
    iter.entry().map(|(key, value)| (key.to_vec(), value.to_vec()))
}

#[test]
fn every_answer_is_the_models() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut pair = Pair::new(&SCRIPT, &mut draw);
        for round in 0..2500 * factor() {
            pair.step(&mut draw, round);
        }
        assert_eq!(rows(pair.db()), pair.model);
    }
}

/// A million operations. What takes long is rare, so that the store lives long between.
#[test]
fn a_million_answers_over_64_seeds_are_the_models() {
    const SEEDS: u64 = 64;
    let (first, rounds) =
        if is_brief() { (seeds()[0], 500) } else { (1, 1_000_000 / SEEDS as usize) };
    for seed in (first..).take(if is_brief() { 2 } else { SEEDS as usize }) {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let script = Script { rarely: 100, ..SCRIPT };
        let mut pair = Pair::new(&script, &mut draw);
        for round in 0..rounds {
            pair.step(&mut draw, round);
        }
        assert_eq!(rows(pair.db()), pair.model);
    }
}
