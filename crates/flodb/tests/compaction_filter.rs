//! Compaction filters: what a compaction removes stays away, what it changes stays changed, and
//! nobody who looks at a moment sees it happen.

use crate::disk::{CHANGES, copy};
use crate::support::{DIR, Model, idle, of_levels, open, rows, stat, try_open, walk};
use keyrack_flodb::{
    Append, CompactionFilter, Comparator, Db, Decision, Error, Expiry, Options, Snapshot, Spaces,
};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, MemFs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Removes the keys that begin with `r`, and writes the values of those with `c` in upper case.
struct ByPrefix;

impl CompactionFilter for ByPrefix {
    fn name(&self) -> &str {
        "test.by-prefix"
    }

    fn filter(&self, _: usize, key: &[u8], value: &[u8]) -> Decision {
        match key.first() {
            Some(b'r') => Decision::Remove,
            Some(b'c') if value != value.to_ascii_uppercase() => {
                Decision::Change(value.to_ascii_uppercase())
            }
            _ => Decision::Keep,
        }
    }
}

/// A filter that does what a test says, and notes what it was asked.
struct Asked<F>(F);

impl<F: Fn(&[u8], &[u8]) -> Decision + Send + Sync> CompactionFilter for Asked<F> {
    fn name(&self) -> &str {
        "test.asked"
    }

    fn filter(&self, _: usize, key: &[u8], value: &[u8]) -> Decision {
        (self.0)(key, value)
    }
}

fn filtering() -> Options {
    idle().compaction_filter(ByPrefix)
}

#[test]
fn a_compaction_removes_and_changes_and_a_snapshot_holds_it_off() {
    let disk = MemFs::new();
    let db = open(&disk, filtering());
    for prefix in ["c", "k", "r"] {
        db.put(format!("{prefix}1").as_bytes(), b"old").unwrap();
    }
    db.flush().unwrap();
    assert_eq!(rows(&db).len(), 3, "a flush asks nobody");
    db.compact_range(None, None).unwrap();
    let expected: Model =
        [(b"c1".to_vec(), b"OLD".to_vec()), (b"k1".to_vec(), b"old".to_vec())].into();
    assert_eq!(rows(&db), expected);
    assert_eq!((of_levels(&db, "entries"), stat(&db, "filtered_entries")), (2, 2));

    db.put(b"r2", b"new").unwrap();
    let iter = db.iter().unwrap();
    let snapshot = db.snapshot();
    db.rewrite().unwrap();
    assert_eq!(rows(&db).len(), 3);
    drop(snapshot);
    let transaction = db.transaction();
    db.rewrite().unwrap();
    assert_eq!(rows(&db).len(), 3);
    drop(transaction);
    db.rewrite().unwrap();
    assert_eq!(rows(&db), expected);
    assert_eq!(walk(iter).unwrap().len(), 3, "an open iterator keeps what it sees");
    db.close().unwrap();
    assert_eq!(rows(&open(&disk, idle())), expected, "it is so without the filter, too");
}

/// The filter takes a snapshot itself: one that begins while the compaction runs.
#[test]
fn a_snapshot_that_begins_during_the_compaction_sees_nothing_change() {
    let store: Arc<Mutex<(Option<Db>, Vec<Snapshot>, usize)>> = Arc::default();
    let of_filter = Arc::clone(&store);
    let filter = Asked(move |_: &[u8], _: &[u8]| {
        let mut state = of_filter.lock().unwrap();
        state.2 += 1;
        let snapshot = state.0.as_ref().map(Db::snapshot);
        state.1.extend(snapshot);
        Decision::Remove
    });
    let disk = MemFs::new();
    let db = open(&disk, Options { blob_bytes_min: 1024, ..idle() }.compaction_filter(filter));
    db.put(b"small", b"value").unwrap();
    db.put(b"large", &[7; 5000]).unwrap();
    store.lock().unwrap().0 = Some(db.clone());
    db.compact_range(None, None).unwrap();
    store.lock().unwrap().0 = None;
    let (snapshots, asked) = {
        let mut state = store.lock().unwrap();
        (std::mem::take(&mut state.1), state.2)
    };
    assert_eq!((snapshots.len(), asked), (2, 2), "it was asked, and without it was done again");
    let seen = rows(&db);
    assert_eq!(seen.len(), 2);
    for snapshot in &snapshots {
        assert_eq!(walk(db.iter_at(snapshot).unwrap()).unwrap().len(), 2);
    }
    assert_eq!(stat(&db, "filtered_entries"), 0, "what was thrown away does not count");
    drop(snapshots);
    db.rewrite().unwrap();
    assert_eq!((rows(&db).len(), of_levels(&db, "entries")), (0, 0));
    db.close().unwrap();
    let db = open(&disk, idle());
    assert_eq!((rows(&db).len(), crate::disk::tables(&disk).len()), (0, 0));
}

/// Above a level that has the key, a removal leaves a tombstone, and nothing older comes back.
#[test]
fn nothing_older_comes_back() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    db.put(b"r1", b"older").unwrap();
    db.compact_range(None, None).unwrap();
    db.put(b"r1", b"newer").unwrap();
    db.close().unwrap();
    let db = open(&disk, filtering());
    db.flush().unwrap();
    assert_eq!(db.get(b"r1").unwrap().as_deref(), Some(&b"newer"[..]));
    db.compact_range(None, None).unwrap();
    assert_eq!((db.get(b"r1").unwrap(), of_levels(&db, "entries")), (None, 0));
}

#[test]
fn it_is_asked_about_values_alone_and_a_value_keeps_its_expiry() {
    let asked: Arc<Mutex<Vec<(Vec<u8>, Vec<u8>)>>> = Arc::default();
    let note = Arc::clone(&asked);
    let filter = Asked(move |key: &[u8], value: &[u8]| {
        note.lock().unwrap().push((key.to_vec(), value.to_vec()));
        match value {
            b"grow" => Decision::Change(vec![b'g'; 3000]),
            b"until" => Decision::Change(b"short".to_vec()),
            _ if key == b"large" && value.len() == 3000 => Decision::Change(b"short".to_vec()),
            _ => Decision::Keep,
        }
    });
    let options = Options { blob_bytes_min: 1024, ..idle() };
    let options = options.compaction_filter(filter).merge_operator(Append::new(b","));
    let db = open(&MemFs::new(), options);
    db.put(b"deleted", b"value").unwrap();
    db.delete(b"deleted").unwrap();
    db.put_until(b"expired", b"value", 1).unwrap();
    db.put_until(b"expires", b"until", u64::MAX - 1).unwrap();
    db.put(b"list", b"a").unwrap();
    db.merge(b"list", b"b").unwrap();
    db.put(b"large", &[b'l'; 3000]).unwrap();
    db.put(b"small", b"grow").unwrap();
    db.compact_range(None, None).unwrap();
    let keys: BTreeSet<Vec<u8>> =
        asked.lock().unwrap().iter().map(|(key, _)| key.clone()).collect();
    assert!(keys.iter().eq([&b"expires"[..], b"large", b"list", b"small"]));
    assert!(asked.lock().unwrap().contains(&(b"list".to_vec(), b"a,b".to_vec())), "as one");
    assert_eq!(db.get(b"expires").unwrap().as_deref(), Some(&b"short"[..]));
    assert_eq!(db.expiry(b"expires").unwrap(), Some(Expiry::At(u64::MAX - 1)));
    assert_eq!(db.get(b"large").unwrap().as_deref(), Some(&b"short"[..]));
    assert_eq!(db.get(b"small").unwrap(), Some(vec![b'g'; 3000]));
}

#[test]
fn a_panic_of_the_filter_makes_the_store_read_only_with_its_name() {
    let disk = MemFs::new();
    let filter = Asked(|key: &[u8], _: &[u8]| {
        assert_ne!(key, b"bad", "a mistake of the program");
        Decision::Keep
    });
    let db = open(&disk, idle().compaction_filter(filter));
    db.put(b"bad", b"value").unwrap();
    let failed = db.compact_range(None, None).unwrap_err().to_string();
    assert!(failed.contains("the compaction filter 'test.asked' has panicked"), "{failed}");
    let refused = db.put(b"other", b"").unwrap_err().to_string();
    assert!(refused.contains("'test.asked'"), "{refused}");
    assert_eq!(rows(&db).len(), 1);
    drop(db);
    assert_eq!(rows(&open(&disk, idle())).len(), 1, "nothing is lost");
}

#[test]
fn a_filter_without_a_name_and_one_for_key_spaces_are_refused() {
    struct Nameless;
    impl CompactionFilter for Nameless {
        fn name(&self) -> &str {
            ""
        }

        fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
            Decision::Remove
        }
    }
    let refused = try_open(&MemFs::new(), idle().compaction_filter(Nameless)).unwrap_err();
    assert!(matches!(refused, Error::Usage(_)), "{refused}");
    let fs = Arc::new(MemFs::new());
    let opened = Spaces::open_in(fs, Path::new(DIR), filtering(), &[Comparator::Bytewise]);
    let refused = opened.err().unwrap().to_string();
    assert!(refused.contains("'test.by-prefix'"), "{refused}");
}

/// What may be seen of keys that [`ByPrefix`] comes to at any time.
#[derive(Clone, Default)]
struct Kept(BTreeMap<Vec<u8>, Vec<u8>>);

impl Kept {
    /// What was found of a key is what was written, or what the filter has made of it; and then it
    /// stays so.
    fn see(&mut self, key: &[u8], found: Option<&[u8]>) {
        let written = self.0.get(key).cloned();
        if found == written.as_deref() {
            return;
        }
        match (key[0], found) {
            (b'r', None) => drop(self.0.remove(key)),
            (b'c', Some(found)) => {
                let changed = written.map(|value| value.to_ascii_uppercase());
                assert_eq!(Some(found), changed.as_deref(), "{}", key.escape_ascii());
                self.0.insert(key.to_vec(), found.to_vec());
            }
            _ => panic!("{}: {found:?} in place of {written:?}", key.escape_ascii()),
        }
    }

    fn see_all(&mut self, found: &Model) {
        let keys: Vec<Vec<u8>> = self.0.keys().chain(found.keys()).cloned().collect();
        keys.iter().for_each(|key| self.see(key, found.get(key).map(Vec::as_slice)));
    }

    /// When the filter has seen everything.
    fn filtered(&self) -> Model {
        let kept = self.0.iter().filter(|(key, _)| key[0] != b'r');
        let value = |key: &[u8], value: &[u8]| {
            if key[0] == b'c' { value.to_ascii_uppercase() } else { value.to_vec() }
        };
        kept.map(|(key, it)| (key.clone(), value(key, it))).collect()
    }
}

struct Pair {
    disk: MemFs,
    db: Option<Db>,
    kept: Kept,
    snapshots: Vec<(Snapshot, Model)>,
}

fn drawn(draw: &mut Draw) -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 256 << 10,
        block_bytes: [64, 4096][draw.below(2)],
        blob_bytes_min: [0, 1024][draw.below(2)],
        table_bytes: 8 << 10,
        level0_tables: 2,
        level_base_bytes: 32 << 10,
        compaction_threads: draw.below(3),
        ..Options::default()
    }
    .merge_operator(Append::new(b","))
    .compaction_filter(ByPrefix)
}

fn key(draw: &mut Draw) -> Vec<u8> {
    format!("{}{:02}", ["c", "k", "r"][draw.below(3)], draw.below(40)).into_bytes()
}

impl Pair {
    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    fn write(&mut self, draw: &mut Draw, round: usize) {
        let key = key(draw);
        let mut value = format!("v{round}").into_bytes();
        value.resize(value.len() + [0, 0, 40, 2000][draw.below(4)], b'v');
        match draw.below(10) {
            0 => {
                self.db().delete(&key).unwrap();
                self.kept.0.remove(&key);
            }
            1 => {
                let to = [&key[..1], b"~"].concat();
                self.db().delete_range(&key, &to).unwrap();
                self.kept.0.retain(|kept, _| *kept < key || *kept >= to);
            }
            // Beneath an operand nobody can tell what the filter has seen.
            2 if key[0] == b'k' => {
                self.db().merge(&key, b"+").unwrap();
                let merged = match self.kept.0.get(&key) {
                    Some(value) => [value, &b",+"[..]].concat(),
                    None => b"+".to_vec(),
                };
                self.kept.0.insert(key, merged);
            }
            _ => {
                self.db().put(&key, &value).unwrap();
                self.kept.0.insert(key, value);
            }
        }
    }

    fn look(&mut self, draw: &mut Draw) {
        if draw.below(2) == 0 {
            let key = key(draw);
            let found = self.db().get(&key).unwrap();
            return self.kept.see(&key, found.as_deref());
        }
        let found = rows(self.db());
        self.kept.see_all(&found);
    }

    fn step(&mut self, draw: &mut Draw, round: usize) {
        match draw.below(100) {
            0..60 => self.write(draw, round),
            60..75 => self.look(draw),
            75..79 if self.snapshots.len() < 3 => {
                let snapshot = self.db().snapshot();
                let then = walk(self.db().iter_at(&snapshot).unwrap()).unwrap();
                let then = then.into_iter().collect();
                self.kept.see_all(&then);
                self.snapshots.push((snapshot, then));
            }
            75..85 if !self.snapshots.is_empty() => {
                let at = draw.below(self.snapshots.len());
                let (snapshot, then) = &self.snapshots[at];
                let found = walk(self.db().iter_at(snapshot).unwrap()).unwrap();
                assert!(found.iter().map(|(key, value)| (key, value)).eq(then), "it has changed");
                let key = key(draw);
                let found = self.db().get_at(snapshot, &key, <[u8]>::to_vec).unwrap();
                assert_eq!(found.as_ref(), then.get(&key), "{}", key.escape_ascii());
                if draw.below(2) == 0 {
                    self.snapshots.swap_remove(at);
                }
            }
            85..90 => self.db().flush().unwrap(),
            90..97 => self.db().compact_range(None, None).unwrap(),
            97 => {
                self.snapshots.clear();
                self.db.take().unwrap().close().unwrap();
                self.db = Some(open(&self.disk, drawn(draw)));
            }
            _ => {}
        }
    }
}

#[test]
fn every_answer_is_the_models_and_what_was_filtered_stays_so() {
    for seed in seeds() {
        let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
        let disk = MemFs::new();
        let db = Some(open(&disk, drawn(&mut draw)));
        let mut pair = Pair { disk, db, kept: Kept::default(), snapshots: Vec::new() };
        for round in 0..1500 * factor() {
            pair.step(&mut draw, round);
        }
        pair.snapshots.clear();
        // Twice: what is in work may have begun beside a snapshot.
        pair.db().compact_range(None, None).unwrap();
        pair.db().rewrite().unwrap();
        assert_eq!(rows(pair.db()), pair.kept.filtered());
    }
}

/// The disk after a compaction in parts that may have ended before its last part, without a filter;
/// or after one with it. Everything is there, or as the filter makes it.
fn crash_everywhere(first: fn() -> Options, fault: Fault) {
    let small = |options| Options { table_bytes: 2 << 10, block_bytes: 256, ..options };
    let name = |n: usize| format!("{}{n:04}", ["c", "k", "r"][n % 3]).into_bytes();
    let before = MemFs::new();
    let db = open(&before, small(idle()));
    let mut kept = Kept::default();
    for (n, value) in (0..400).map(|n| (n, "a")).chain((0..400).step_by(2).map(|n| (n, "b"))) {
        if (n, value) == (0, "b") {
            db.compact_range(None, None).unwrap();
        }
        let value = value.repeat(30).into_bytes();
        db.put(&name(n), &value).unwrap();
        kept.0.insert(name(n), value);
    }
    db.flush().unwrap();
    assert!(stat(&db, "level6_tables") > 6);
    drop(db);
    let (mut draw, mut images) = (Draw::new(11), 0);
    for at in (1..).step_by(5) {
        let disk = copy(&before);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(&fs, small(first()));
        fs.arm(FaultPlan::from_then_on(at, fault).only(&CHANGES));
        let done = db.compact_range(None, None);
        let is_over = fs.injected() == 0;
        assert!(done.is_ok() || !is_over, "{done:?}");
        drop(db);
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll] {
            let image = disk.crash_image(draw.next(), policy);
            let again = open(&image, small(filtering()));
            let mut seen = kept.clone();
            let found = rows(&again);
            seen.see_all(&found);
            let same = |key: &Vec<u8>| again.get(key).unwrap().as_ref() == found.get(key);
            assert!(kept.0.keys().all(same), "{at}");
            again.rewrite().unwrap();
            assert_eq!(rows(&again), kept.filtered(), "{at}");
            images += 1;
        }
        if is_over {
            break;
        }
    }
    assert!(images > 10, "{images} images");
}

#[test]
fn a_power_loss_in_a_filtered_compaction_leaves_everything_or_the_filtered() {
    crash_everywhere(filtering, Fault::PowerOut);
}

#[test]
fn a_failing_disk_in_a_filtered_compaction_loses_nothing() {
    crash_everywhere(filtering, Fault::Io);
}

#[test]
fn a_filter_removes_what_a_compaction_has_left_in_two_levels() {
    crash_everywhere(idle, Fault::PowerOut);
}
