//! What the tests do with a store.

use keyrack_flodb::{
    Append, Batch, Clock, Comparator, Compare, Compression, Db, Iter, Options, Result,
};
use keyrack_testkit::random::Draw;
use keyrack_vfs::{FaultFs, Fs, MemFs, Operation};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;
pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// A write, for a store and for its model.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Put(Vec<u8>, Vec<u8>),
    /// Until a moment: before [`NOW_MS`], at it, or later.
    PutUntil(Vec<u8>, Vec<u8>, u64),
    /// An operand of [`appends`].
    Merge(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    /// Of the keys from the first on and before the second.
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Write {
    pub(crate) fn add_to(&self, batch: &mut Batch) {
        match self {
            Write::Put(key, value) => batch.put(key, value),
            Write::PutUntil(key, value, until) => batch.put_until(key, value, *until),
            Write::Merge(key, operand) => batch.merge(key, operand),
            Write::Delete(key) => batch.delete(key),
            Write::DeleteRange(from, to) => batch.delete_range(from, to),
        }
    }

    pub(crate) fn apply(&self, model: &mut Model) {
        match self {
            Write::Put(key, value) => drop(model.insert(key.clone(), value.clone())),
            Write::PutUntil(key, value, until) if *until > NOW_MS => {
                drop(model.insert(key.clone(), value.clone()));
            }
            Write::Merge(key, operand) => match model.get_mut(key) {
                Some(value) => value.extend_from_slice(&[b",", &operand[..]].concat()),
                None => drop(model.insert(key.clone(), operand.clone())),
            },
            Write::PutUntil(key, ..) | Write::Delete(key) => drop(model.remove(key)),
            Write::DeleteRange(from, to) => model.retain(|key, _| !(from <= key && key < to)),
        }
    }
}

pub(crate) const DIR: &str = "/store";

/// The time of a clock that stands still.
pub(crate) const NOW_MS: u64 = 1_000;

/// That clock.
pub(crate) fn still() -> Clock {
    Clock::Custom(Arc::new(|| NOW_MS))
}

/// What [`Write::Merge`] needs.
pub(crate) fn appends() -> Append {
    Append::new(b",")
}

/// A write of a value that has expired, expires just now, or will.
pub(crate) fn put_until(draw: &mut Draw, key: Vec<u8>, value: Vec<u8>) -> Write {
    Write::PutUntil(key, value, NOW_MS - 1 + draw.below(3) as u64)
}

/// Options with which little is enough for many tables.
pub(crate) fn tiny() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 64 << 10,
        cache_bytes: 0,
        compression: vec![Compression::None],
        ..Options::default()
    }
}

/// Tiny, with compactions on request alone.
pub(crate) fn idle() -> Options {
    Options { compaction_threads: 0, ..tiny() }
}

pub(crate) fn try_open(fs: &(impl Fs + Clone + 'static), options: Options) -> Result<Db> {
    Db::open_in(Arc::new(fs.clone()), Path::new(DIR), options)
}

pub(crate) fn open(fs: &(impl Fs + Clone + 'static), options: Options) -> Db {
    try_open(fs, options).unwrap()
}

/// Everything that `iter` shows, forward.
pub(crate) fn walk(mut iter: Iter) -> Result<Rows> {
    let mut rows = Rows::new();
    iter.seek_first()?;
    while let Some((key, value)) = iter.entry() {
        rows.push((key.to_vec(), value.to_vec()));
        iter.next()?;
    }
    Ok(rows)
}

pub(crate) fn rows(db: &Db) -> Model {
    walk(db.iter().unwrap()).unwrap().into_iter().collect()
}

/// What [`Db::stats`] shows under `name`; 0 if it shows nothing.
pub(crate) fn stat(db: &Db, name: &str) -> u64 {
    db.property(&format!("keyrack.{name}"))
        .map_or(0, |number| number.parse::<f64>().unwrap() as u64)
}

/// The sum over all levels of what the statistics say of each.
pub(crate) fn of_levels(db: &Db, what: &str) -> u64 {
    (0..7).map(|level| stat(db, &format!("level{level}_{what}"))).sum()
}

/// Keys descend.
struct Backwards;

impl Compare for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

pub(crate) fn backwards() -> Comparator {
    Comparator::Custom(Arc::new(Backwards))
}

pub(crate) fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "table")
}

/// The batch of a round: it moves all of its keys to the round, and one of many.
pub(crate) fn round(n: u64) -> Batch {
    let value = n.to_be_bytes();
    let mut batch = Batch::new();
    batch.put(b"first", &value);
    batch.put(format!("key{:05}", n % 500).as_bytes(), &[&value[..], &[7; 100]].concat());
    batch.put(b"last", &value);
    batch
}

/// The newest round of a store that has whole rounds only, each of its keys from the round that it
/// must be from.
pub(crate) fn newest_round(db: &Db) -> u64 {
    let rows = rows(db);
    let number = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    let newest = rows.get(&b"first"[..]).map_or(0, |value| number(value));
    assert_eq!(rows.get(&b"last"[..]).map_or(0, |value| number(value)), newest);
    let mut model = Model::new();
    for n in newest.saturating_sub(600)..=newest {
        if n > 0 {
            let key = format!("key{:05}", n % 500);
            model.insert(key.into_bytes(), [&n.to_be_bytes()[..], &[7; 100]].concat());
        }
    }
    let found = rows.into_iter().filter(|(key, _)| key.starts_with(b"key"));
    assert_eq!(found.collect::<Model>(), model, "round {newest}");
    newest
}

/// Acts once, before the operation of somebody else that was chosen. Of operations on open files
/// only reads and questions for their length count.
pub(crate) struct Hook {
    pub(crate) fs: FaultFs,
    state: Arc<Mutex<(usize, Option<Act>)>>,
}

type Act = Box<dyn FnOnce() + Send>;

impl Hook {
    /// `act` runs before the operation that comes after `left` others.
    pub(crate) fn new(disk: &MemFs, left: usize, act: impl FnOnce() + Send + 'static) -> Self {
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let state = Arc::new(Mutex::new((left, Some(Box::new(act) as Act))));
        let of_watcher = Arc::clone(&state);
        fs.watch(move |operation, _| {
            use Operation::{Allocate, Canonicalize, Flush, Map, SetLen, Space, Sync, Write};
            let other = [Allocate, Canonicalize, Flush, Map, SetLen, Space, Sync, Write];
            let due = {
                let mut state = of_watcher.lock().unwrap();
                match (other.contains(&operation), state.0) {
                    (true, _) => None,
                    (false, 0) => state.1.take(),
                    (false, left) => {
                        state.0 = left - 1;
                        None
                    }
                }
            };
            if let Some(act) = due {
                act();
            }
        });
        Hook { fs, state }
    }

    /// Chooses anew.
    pub(crate) fn set(&self, left: usize) {
        self.state.lock().unwrap().0 = left;
    }

    pub(crate) fn has_run(&self) -> bool {
        self.state.lock().unwrap().1.is_none()
    }
}
