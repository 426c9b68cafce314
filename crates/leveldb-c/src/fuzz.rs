//! Any calls in any order, beside a model.
//!
//! ```text
//!   input   one step is three bytes: what, which handles, which key and value
//!   state   a database; two snapshots, batches and iterators
//!   model   an ordered map, copied for whatever has a moment of its own
//! ```
//!
//! `tests/fuzz.c` makes any calls as well, in C and without a model; `tests/random.c` has a model,
//! and no wrong calls. An input has at most [`STEPS_MAX`] steps.

use crate::*;
use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char};
use std::ops::Bound;
use std::ptr;

const STEPS_MAX: usize = 400;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Makes a call of the interface.
macro_rules! call {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: the handles are null or live, and used by this thread alone; the slices have the
        // lengths beside them, and the places are places.
        unsafe { $name($($argument),*) }
    };
}

/// A put, or a removal.
type Write = (Vec<u8>, Option<Vec<u8>>);

struct OpenIterator {
    handle: *mut Cursor,
    map: Map,
    at: Option<Vec<u8>>,
}

struct Machine {
    dir: CString,
    db: *mut Database,
    map: Map,
    snapshots: [Option<(*const Snapshot, Map)>; 2],
    batches: [(*mut WriteBatch, Vec<Write>); 2],
    iterators: [Option<OpenIterator>; 2],
    seen: BTreeSet<(u8, bool)>,
}

fn raw(slice: &[u8]) -> (*const c_char, usize) {
    (slice.as_ptr().cast(), slice.len())
}

fn apply(map: &mut Map, writes: &[Write]) {
    for (key, value) in writes {
        match value {
            Some(value) => drop(map.insert(key.clone(), value.clone())),
            None => drop(map.remove(key)),
        }
    }
}

/// One of nine keys, the empty one among them.
fn key(word: u8) -> Vec<u8> {
    match word % 9 {
        0 => Vec::new(),
        letter => vec![b'k', letter],
    }
}

fn value(word: u8) -> Vec<u8> {
    vec![word; usize::from(word >> 6)]
}

impl Machine {
    fn new(dir: CString) -> Machine {
        let batch = || (leveldb_writebatch_create(), Vec::new());
        let mut machine = Machine {
            dir,
            db: ptr::null_mut(),
            map: Map::new(),
            snapshots: [None, None],
            batches: [batch(), batch()],
            iterators: [None, None],
            seen: BTreeSet::new(),
        };
        machine.open();
        machine
    }

    fn open(&mut self) {
        let options = leveldb_options_create();
        call!(leveldb_options_set_create_if_missing(options, 1));
        let mut error = ptr::null_mut();
        self.db = call!(leveldb_open(options, self.dir.as_ptr(), &raw mut error));
        call!(leveldb_options_destroy(options));
        assert!(!Self::failed(error) && !self.db.is_null());
    }

    /// Whether there is the text of a failure, which is freed.
    fn failed(error: *mut c_char) -> bool {
        if error.is_null() {
            return false;
        }
        // SAFETY: it is a text that ends with a zero.
        let text = unsafe { CStr::from_ptr(error) }.to_str().unwrap();
        assert!(text.starts_with("Invalid argument: "), "{text}");
        call!(leveldb_free(error.cast()));
        true
    }

    fn step(&mut self, what: u8, which: u8, word: u8) {
        let slot = usize::from(which & 1);
        // Some handles are null.
        let db = if which >= 0xf0 { ptr::null_mut() } else { self.db };
        let mut error = ptr::null_mut();
        let (key, value) = (key(word), value(which));
        let ((name, len), (bytes, count)) = (raw(&key), raw(&value));
        match what % 8 {
            0 | 1 => {
                let is_removal = what % 8 == 1;
                let write = (key.clone(), (!is_removal).then(|| value.clone()));
                let place = &raw mut error;
                match is_removal {
                    false => call!(leveldb_put(db, ptr::null(), name, len, bytes, count, place)),
                    true => call!(leveldb_delete(db, ptr::null(), name, len, place)),
                }
                if !db.is_null() {
                    apply(&mut self.map, &[write]);
                }
            }
            2 => error = self.get(db, slot, &key),
            3 => self.snapshot(slot),
            4 => self.batch(slot, which, &key, &value),
            5 => {
                let (batch, writes) = &mut self.batches[slot];
                call!(leveldb_write(db, ptr::null(), *batch, &raw mut error));
                if !db.is_null() {
                    apply(&mut self.map, writes);
                }
                call!(leveldb_writebatch_clear(*batch));
                writes.clear();
            }
            6 if word < 16 => self.reopen(),
            6 => self.iterate(slot),
            _ => return self.move_iterator(slot, which, &key),
        }
        let has_failed = Self::failed(error);
        assert_eq!(has_failed, db.is_null() && matches!(what % 8, 0 | 1 | 2 | 5));
        self.seen.insert((what % 8, has_failed));
    }

    /// Reads a key now or at the moment of a snapshot.
    fn get(&mut self, db: *mut Database, slot: usize, key: &[u8]) -> *mut c_char {
        let options = leveldb_readoptions_create();
        let snapshot = self.snapshots[slot].as_ref();
        let handle = snapshot.map_or(ptr::null(), |(handle, _)| *handle);
        call!(leveldb_readoptions_set_snapshot(options, handle));
        let ((name, len), mut error, mut count) = (raw(key), ptr::null_mut(), 7);
        let places = (&raw mut count, &raw mut error);
        let found = call!(leveldb_get(db, options, name, len, places.0, places.1));
        call!(leveldb_readoptions_destroy(options));
        let map = snapshot.map_or(&self.map, |(_, map)| map);
        let expected = map.get(key).filter(|_| !db.is_null());
        assert_eq!(copied(found, count).as_ref(), expected);
        call!(leveldb_free(found.cast()));
        error
    }

    /// Makes a snapshot, or releases it.
    fn snapshot(&mut self, slot: usize) {
        if let Some((handle, _)) = self.snapshots[slot].take() {
            return call!(leveldb_release_snapshot(self.db, handle));
        }
        let handle = call!(leveldb_create_snapshot(self.db));
        self.snapshots[slot] = Some((handle, self.map.clone()));
    }

    fn batch(&mut self, slot: usize, which: u8, key: &[u8], value: &[u8]) {
        let ((name, len), (bytes, count)) = (raw(key), raw(value));
        if which & 4 != 0 {
            let (from, writes) = (self.batches[1 - slot].0, self.batches[1 - slot].1.clone());
            call!(leveldb_writebatch_append(self.batches[slot].0, from));
            self.batches[slot].1.extend(writes);
            // Not ever longer.
            self.batches[1 - slot].1.clear();
            return call!(leveldb_writebatch_clear(from));
        }
        let (batch, writes) = &mut self.batches[slot];
        if which & 2 == 0 {
            call!(leveldb_writebatch_put(*batch, name, len, bytes, count));
            writes.push((key.to_vec(), Some(value.to_vec())));
        } else {
            call!(leveldb_writebatch_delete(*batch, name, len));
            writes.push((key.to_vec(), None));
        }
    }

    fn iterate(&mut self, slot: usize) {
        self.free_iterator(slot);
        let options = leveldb_readoptions_create();
        let snapshot = self.snapshots[slot].as_ref();
        let moment = snapshot.map_or(ptr::null(), |(handle, _)| *handle);
        call!(leveldb_readoptions_set_snapshot(options, moment));
        let handle = call!(leveldb_create_iterator(self.db, options));
        call!(leveldb_readoptions_destroy(options));
        let map = snapshot.map_or(&self.map, |(_, map)| map).clone();
        self.iterators[slot] = Some(OpenIterator { handle, map, at: None });
    }

    fn free_iterator(&mut self, slot: usize) {
        if let Some(iterator) = self.iterators[slot].take() {
            call!(leveldb_iter_destroy(iterator.handle));
        }
    }

    fn move_iterator(&mut self, slot: usize, which: u8, target: &[u8]) {
        let Some(OpenIterator { handle, map, at }) = &mut self.iterators[slot] else {
            let nowhere = ptr::null_mut();
            call!(leveldb_iter_next(nowhere));
            assert_eq!(call!(leveldb_iter_valid(nowhere)), 0);
            return;
        };
        let (handle, (bytes, len)) = (*handle, raw(target));
        let found = match which >> 1 & 7 {
            0 => {
                call!(leveldb_iter_seek_to_first(handle));
                map.first_key_value()
            }
            1 => {
                call!(leveldb_iter_seek_to_last(handle));
                map.last_key_value()
            }
            2 => {
                call!(leveldb_iter_seek(handle, bytes, len));
                map.range::<[u8], _>((Bound::Included(target), Bound::Unbounded)).next()
            }
            3..=5 => {
                call!(leveldb_iter_next(handle));
                at.as_deref().and_then(|at| {
                    map.range::<[u8], _>((Bound::Excluded(at), Bound::Unbounded)).next()
                })
            }
            _ => {
                call!(leveldb_iter_prev(handle));
                at.as_deref().and_then(|at| {
                    map.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(at))).next_back()
                })
            }
        };
        let (mut key_len, mut value_len) = (7, 7);
        let name = call!(leveldb_iter_key(handle, &raw mut key_len));
        let value = call!(leveldb_iter_value(handle, &raw mut value_len));
        let shown = copied(name, key_len).zip(copied(value, value_len));
        assert_eq!(shown.as_ref().map(|(key, value)| (key, value)), found);
        assert_eq!(call!(leveldb_iter_valid(handle)) != 0, found.is_some());
        let mut error = ptr::null_mut();
        call!(leveldb_iter_get_error(handle, &raw mut error));
        assert!(error.is_null());
        let place = found.map(|(key, _)| key.clone());
        *at = place;
    }

    /// Closes and opens the database. What lives meanwhile is freed afterwards.
    fn reopen(&mut self) {
        call!(leveldb_close(self.db));
        for slot in 0..2 {
            self.free_iterator(slot);
            if let Some((handle, _)) = self.snapshots[slot].take() {
                call!(leveldb_release_snapshot(ptr::null_mut(), handle));
            }
        }
        self.open();
        let keys: Vec<Vec<u8>> = (0..9).map(key).collect();
        for key in keys {
            let error = self.get(self.db, 0, &key);
            assert!(error.is_null());
        }
    }
}

/// A copy of bytes that a call gave or lent; none for null.
fn copied(from: *const c_char, len: usize) -> Option<Vec<u8>> {
    // SAFETY: a call of the library gave both.
    let bytes = || unsafe { keyrack_ffi::bytes(from, len) };
    (!from.is_null()).then(|| bytes().expect("bytes of the library's").to_vec())
}

fn check(input: &[u8], _: &mut Dice) -> Shape {
    // In memory where the machine has that: nearly all of the time would be that of syncs.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("db");
    let mut machine = Machine::new(CString::new(path.to_str().unwrap()).unwrap());
    for step in input.chunks_exact(3).take(STEPS_MAX) {
        machine.step(step[0], step[1], step[2]);
    }
    machine.reopen();
    call!(leveldb_close(machine.db));
    for (batch, _) in &machine.batches {
        call!(leveldb_writebatch_destroy(*batch));
    }
    shape(machine.seen)
}

#[test]
fn any_calls_answer_as_the_model_does() {
    let mut fuzzer = Fuzzer::new("leveldb-c.calls", env!("CARGO_MANIFEST_DIR"), 300);
    let mut dice = Dice::new(7);
    for steps in [20, 100, STEPS_MAX] {
        fuzzer = fuzzer.sample(dice.bytes(steps * 3));
    }
    let (inputs, shapes) = fuzzer.run(check);
    assert!(inputs > 0 && shapes > 0);
}
