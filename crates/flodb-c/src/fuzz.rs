//! Any calls in any order, beside a model.
//!
//! ```text
//!   input   one step is three bytes: what, which handles, which key and value
//!   state   a store with two key spaces; two snapshots, batches, iterators and transactions
//!   model   ordered maps, copied for whatever has a moment of its own
//! ```
//!
//! Each answer is compared: codes, values, entries, whether a commit may conflict. Handles are
//! null, of a transaction that has ended, or of a store that is closed, as the input has it. Memory
//! that was freed is not used: the interface promises nothing about it.
//!
//! An input has at most [`STEPS_MAX`] steps. One transaction at a time locks rows, as two of one
//! thread would wait for each other forever.

use crate::batch::*;
use crate::error::{Code, Error, keyrack_error_code, keyrack_error_free};
use crate::iterator::*;
use crate::library::keyrack_free;
use crate::snapshot::*;
use crate::space::*;
use crate::store::*;
use crate::transaction::*;
use crate::{
    keyrack_compare_and_swap, keyrack_delete, keyrack_delete_range, keyrack_get, keyrack_put,
};
use Code::{KEYRACK_CLOSED, KEYRACK_OK, KEYRACK_USAGE};
use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use model::{Map, OpenBatch, OpenIterator, OpenSnapshot, OpenTransaction, Step, Write, apply};
use std::collections::BTreeSet;
use std::ffi::{CString, c_char, c_void};
use std::ptr;

const STEPS_MAX: usize = 400;

/// Makes a call of the interface, with the place of an error as its last argument.
macro_rules! call {
    ($self:expr, $name:ident($($argument:expr),*)) => {{
        let error = &raw mut $self.error;
        // SAFETY: the handles are null or live, and used by this thread alone; the slices have the
        // lengths beside them.
        unsafe { $name($($argument,)* error) }
    }};
}

/// Makes a call that cannot fail.
macro_rules! plain {
    ($name:ident($($argument:expr),*)) => {
        // SAFETY: as for `call`; what is freed was taken out of its place.
        unsafe { $name($($argument),*) }
    };
}

mod model;
mod transactions;

struct Machine {
    dir: CString,
    store: *mut Store,
    is_closed: bool,
    spaces: [*mut Space; 2],
    maps: [Map; 2],
    /// How many writes there were.
    writes: u64,
    snapshots: [Option<OpenSnapshot>; 2],
    batches: [Option<OpenBatch>; 2],
    iterators: [Option<OpenIterator>; 2],
    transactions: [Option<OpenTransaction>; 2],
    transactions_begun: u64,
    /// The transaction that has locked rows.
    row_owner: u64,
    error: *mut Error,
    seen: BTreeSet<(u8, i32)>,
}

fn raw(slice: &[u8]) -> (*const c_void, usize) {
    (slice.as_ptr().cast(), slice.len())
}

/// The handle in a slot; null if there is none.
fn in_slot<T, H>(slot: &Option<T>, handle: impl FnOnce(&T) -> *mut H) -> *mut H {
    slot.as_ref().map_or(ptr::null_mut(), handle)
}

impl Machine {
    fn new(dir: CString) -> Machine {
        let mut machine = Machine {
            dir,
            store: ptr::null_mut(),
            is_closed: false,
            spaces: [ptr::null_mut(); 2],
            maps: Default::default(),
            writes: 0,
            snapshots: Default::default(),
            batches: Default::default(),
            iterators: Default::default(),
            transactions: Default::default(),
            transactions_begun: 0,
            row_owner: 0,
            error: ptr::null_mut(),
            seen: BTreeSet::new(),
        };
        machine.open();
        machine
    }

    fn open(&mut self) {
        let (dir, store) = (self.dir.as_ptr(), &raw mut self.store);
        let code = call!(self, keyrack_open(dir, ptr::null(), store));
        self.check(KEYRACK_OK, code);
        for (index, name) in [c"one", c"two"].iter().enumerate() {
            let (store, place) = (self.store, &raw mut self.spaces[index]);
            let code = call!(self, keyrack_space_open(store, name.as_ptr(), place));
            self.check(KEYRACK_OK, code);
        }
        self.is_closed = false;
    }

    /// Frees all handles, beginning with any kind.
    fn free_all(&mut self, first: u8) {
        for kind in (first % 6..6).chain(0..first % 6) {
            for slot in 0..2 {
                match kind {
                    0 => self.free_snapshot(slot),
                    1 => self.free_batch(slot),
                    2 => self.free_iterator(slot),
                    3 => self.free_transaction(slot),
                    4 => {
                        let space = std::mem::replace(&mut self.spaces[slot], ptr::null_mut());
                        plain!(keyrack_space_free(space));
                    }
                    _ => {
                        let store = std::mem::replace(&mut self.store, ptr::null_mut());
                        plain!(keyrack_store_free(store));
                    }
                }
            }
        }
    }

    fn free_snapshot(&mut self, slot: usize) {
        let taken = self.snapshots[slot].take();
        plain!(keyrack_snapshot_free(in_slot(&taken, |it| it.handle)));
    }

    fn free_batch(&mut self, slot: usize) {
        let taken = self.batches[slot].take();
        plain!(keyrack_batch_free(in_slot(&taken, |it| it.handle)));
    }

    fn free_iterator(&mut self, slot: usize) {
        let taken = self.iterators[slot].take();
        plain!(keyrack_iterator_free(in_slot(&taken, |it| it.handle)));
    }

    fn free_transaction(&mut self, slot: usize) {
        let taken = self.transactions[slot].take();
        plain!(keyrack_transaction_free(in_slot(&taken, |it| it.handle)));
    }

    /// The answer is the expected one, and a failure has an error of its code.
    #[track_caller]
    fn check(&mut self, expected: Code, found: Code) {
        assert_eq!(found, expected);
        if found != KEYRACK_OK {
            assert_eq!(plain!(keyrack_error_code(self.error)), found);
        }
    }

    /// What a call on an open store answers, if all of its handles are there.
    fn expected(&self, has_handles: bool) -> Code {
        match (has_handles, self.is_closed) {
            (false, _) => KEYRACK_USAGE,
            (true, true) => KEYRACK_CLOSED,
            (true, false) => KEYRACK_OK,
        }
    }

    fn space(&self, step: Step) -> *mut Space {
        if step.is_null() { ptr::null_mut() } else { self.spaces[step.space()] }
    }

    /// A value that a call gave, which is freed.
    fn taken(value: *mut c_char, len: usize) -> Option<Vec<u8>> {
        if value.is_null() {
            assert_eq!(len, 0);
            return None;
        }
        let bytes = plain!(copied(value, len));
        plain!(keyrack_free(value.cast()));
        Some(bytes)
    }

    fn step(&mut self, what: u8, step: Step) {
        match what % 12 {
            0 => self.write(step),
            1 => self.get(step),
            2 => self.swap(step),
            3 => self.snapshot(step),
            4 => self.batch(step),
            5 => self.write_batch(step),
            6 => self.iterate(step),
            7 | 8 => self.move_iterator(what, step),
            9 => self.transaction(step),
            10 => self.use_transaction(step),
            _ => self.end_something(step),
        }
        let code = plain!(keyrack_error_code(self.error));
        self.seen.insert((what % 12, code as i32));
    }

    fn write(&mut self, step: Step) {
        let (space, write) = (self.space(step), step.write());
        let code = match &write {
            Write::Put(_, key, value) => {
                let ((key, key_len), (value, len)) = (raw(key), raw(value));
                call!(self, keyrack_put(space, key, key_len, value, len, 0))
            }
            Write::Delete(_, key) => {
                let (key, len) = raw(key);
                call!(self, keyrack_delete(space, key, len, 0))
            }
            Write::Range(_, low, high) => {
                let ((low, low_len), (high, len)) = (raw(low), raw(high));
                call!(self, keyrack_delete_range(space, low, low_len, high, len, 0))
            }
        };
        self.check(self.expected(!space.is_null()), code);
        if code == KEYRACK_OK {
            self.wrote(&[write]);
        }
    }

    fn wrote(&mut self, writes: &[Write]) {
        apply(&mut self.maps, writes);
        self.writes += 1;
    }

    /// Reads a key now or at the moment of a snapshot.
    fn get(&mut self, step: Step) {
        let (space, key) = (self.space(step), step.key());
        let snapshot = in_slot(&self.snapshots[step.slot()], |it| it.handle);
        let (mut value, mut len) = (ptr::null_mut(), 7);
        let (bytes, count) = raw(&key);
        let places = (&raw mut value, &raw mut len);
        let code = call!(self, keyrack_get(space, snapshot, bytes, count, places.0, places.1));
        self.check(self.expected(!space.is_null()), code);
        let found = Self::taken(value, len);
        let maps = self.snapshots[step.slot()].as_ref().map_or(&self.maps, |it| &it.maps);
        let expected = maps[step.space()].get(&key).filter(|_| code == KEYRACK_OK);
        assert_eq!(found.as_ref(), expected);
    }

    /// Puts a value if the key has the value that it has, or has none.
    fn swap(&mut self, step: Step) {
        let (space, key, value) = (self.space(step), step.key(), step.value());
        let before = self.maps[step.space()].get(&key).cloned();
        let expected = if step.slot() == 0 { before.clone() } else { None };
        let (old, old_len) = expected.as_deref().map_or((ptr::null(), 0), raw);
        // An empty slice is not null, and so a value.
        let ((name, name_len), (new, new_len)) = (raw(&key), raw(&value));
        let mut swapped = 7;
        let place = &raw mut swapped;
        let code = call!(
            self,
            keyrack_compare_and_swap(space, name, name_len, old, old_len, new, new_len, 0, place)
        );
        self.check(self.expected(!space.is_null()), code);
        assert_eq!(swapped != 0, code == KEYRACK_OK && before == expected);
        if swapped != 0 {
            self.wrote(&[Write::Put(step.space(), key, value)]);
        }
    }

    fn snapshot(&mut self, step: Step) {
        self.free_snapshot(step.slot());
        let store = if step.is_null() { ptr::null_mut() } else { self.store };
        let mut handle = ptr::null_mut();
        let place = &raw mut handle;
        let code = call!(self, keyrack_snapshot_new(store, place));
        self.check(self.expected(!store.is_null()), code);
        assert_eq!(handle.is_null(), code != KEYRACK_OK);
        if code == KEYRACK_OK {
            let maps = self.maps.clone();
            self.snapshots[step.slot()] = Some(OpenSnapshot { handle, maps });
        }
    }

    /// Makes a batch where there is none, and adds a write.
    fn batch(&mut self, step: Step) {
        if self.batches[step.slot()].is_none() && !step.is_null() {
            let (mut handle, store) = (ptr::null_mut(), self.store);
            let place = &raw mut handle;
            let code = call!(self, keyrack_batch_new(store, place));
            self.check(self.expected(true), code);
            if code == KEYRACK_OK {
                self.batches[step.slot()] = Some(OpenBatch { handle, writes: Vec::new() });
            }
        }
        let batch = in_slot(&self.batches[step.slot()], |it| it.handle);
        let (space, write) = (self.space(step), step.write());
        let code = match &write {
            Write::Put(_, key, value) => {
                let ((key, key_len), (value, len)) = (raw(key), raw(value));
                call!(self, keyrack_batch_put(batch, space, key, key_len, value, len))
            }
            Write::Delete(_, key) => {
                let (key, len) = raw(key);
                call!(self, keyrack_batch_delete(batch, space, key, len))
            }
            Write::Range(_, low, high) => {
                let ((low, low_len), (high, len)) = (raw(low), raw(high));
                call!(self, keyrack_batch_delete_range(batch, space, low, low_len, high, len))
            }
        };
        self.check(self.expected(!batch.is_null() && !space.is_null()), code);
        if let Some(batch) = self.batches[step.slot()].as_mut().filter(|_| code == KEYRACK_OK) {
            batch.writes.push(write);
        }
        let count = plain!(keyrack_batch_count(batch));
        let expected = self.batches[step.slot()].as_ref().map_or(0, |batch| batch.writes.len());
        assert_eq!(count, expected as u64);
    }

    fn write_batch(&mut self, step: Step) {
        let batch = in_slot(&self.batches[step.slot()], |it| it.handle);
        let code = call!(self, keyrack_batch_write(batch, 0));
        self.check(self.expected(!batch.is_null()), code);
        let writes = self.batches[step.slot()].as_ref().map(|batch| batch.writes.clone());
        if let Some(writes) = writes.filter(|_| code == KEYRACK_OK) {
            self.wrote(&writes);
        }
        if step.space() == 1 {
            plain!(keyrack_batch_clear(batch));
            let cleared = self.batches[step.slot()].as_mut().map(|batch| batch.writes.clear());
            assert_eq!(cleared.is_some(), !batch.is_null());
        }
    }

    /// Makes an iterator within bounds or of a prefix, of a transaction if there is one.
    fn iterate(&mut self, step: Step) {
        let slot = step.slot();
        self.free_iterator(slot);
        let space = self.space(step);
        let (low, high) = (step.key(), step.high());
        let is_prefix = step.word & 1 == 0;
        let transaction = self.transactions[slot].as_ref().filter(|_| step.which & 4 != 0);
        if transaction.is_some_and(|transaction| transaction.has_moved) {
            return;
        }
        let snapshot = self.snapshots[slot].as_ref().filter(|_| transaction.is_none());
        let maps = match (transaction, snapshot) {
            (Some(transaction), _) => transaction.maps(),
            (None, Some(snapshot)) => snapshot.maps.clone(),
            (None, None) => self.maps.clone(),
        };
        let is_ended = transaction.is_some_and(|transaction| transaction.is_ended);
        let owner = transaction.map(|transaction| transaction.number);
        let running = transaction.map_or(ptr::null_mut(), |transaction| transaction.handle);
        let moment = snapshot.map_or(ptr::null_mut(), |snapshot| snapshot.handle);
        let mut handle = ptr::null_mut();
        let place = &raw mut handle;
        let ((first, first_len), (end, end_len)) = (raw(&low), raw(&high));
        let code = match (owner.is_some(), is_prefix) {
            (true, true) => call!(
                self,
                keyrack_transaction_iterator_prefix(running, space, first, first_len, place)
            ),
            (true, false) => call!(
                self,
                keyrack_transaction_iterator(running, space, first, first_len, end, end_len, place)
            ),
            (false, true) => {
                call!(self, keyrack_iterator_new_prefix(space, moment, first, first_len, place))
            }
            (false, false) => call!(
                self,
                keyrack_iterator_new(space, moment, first, first_len, end, end_len, place)
            ),
        };
        let expected = self.expected(!space.is_null());
        let expected = if expected == KEYRACK_OK && is_ended { KEYRACK_USAGE } else { expected };
        self.check(expected, code);
        if code != KEYRACK_OK {
            assert!(handle.is_null());
            return;
        }
        let is_within = |key: &[u8]| match is_prefix {
            true => key.starts_with(&low),
            false => key >= low.as_slice() && key < high.as_slice(),
        };
        let map = maps[step.space()].iter().filter(|(key, _)| is_within(key));
        let map = map.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.iterators[slot] = Some(OpenIterator { handle, map, at: None, owner });
    }

    fn move_iterator(&mut self, what: u8, step: Step) {
        let slot = step.slot();
        let handle = in_slot(&self.iterators[slot], |it| it.handle);
        let target = step.key();
        let (bytes, len) = raw(&target);
        // Next and previous are as frequent as all others.
        let how = if what % 12 == 8 { step.word % 2 } else { step.word % 6 };
        let code = match how {
            0 => call!(self, keyrack_iterator_next(handle)),
            1 => call!(self, keyrack_iterator_prev(handle)),
            2 => call!(self, keyrack_iterator_first(handle)),
            3 => call!(self, keyrack_iterator_last(handle)),
            4 => call!(self, keyrack_iterator_seek(handle, bytes, len)),
            _ => call!(self, keyrack_iterator_seek_back(handle, bytes, len)),
        };
        let Some(iterator) = &mut self.iterators[slot] else {
            return self.check(KEYRACK_USAGE, code);
        };
        let expected = match iterator.owner {
            Some(_) if self.is_closed => KEYRACK_CLOSED,
            _ => KEYRACK_OK,
        };
        if expected == KEYRACK_OK {
            iterator.go(how, &target);
        }
        let at = iterator.at.clone();
        let shown = at.map(|key| (iterator.map[&key].clone(), key));
        self.check(expected, code);
        let lent = |call: unsafe extern "C" fn(*const Cursor, *mut usize) -> *const c_char| {
            let mut len = 7;
            let place = &raw mut len;
            let bytes = plain!(call(handle, place));
            (!bytes.is_null()).then(|| plain!(copied(bytes, len)))
        };
        let found = lent(keyrack_iterator_value).zip(lent(keyrack_iterator_key));
        assert_eq!(found, shown);
        assert_eq!(plain!(keyrack_iterator_valid(handle)) != 0, shown.is_some());
    }

    /// Ends a transaction, frees a handle, or closes the store and perhaps opens it again.
    fn end_something(&mut self, step: Step) {
        match step.word % 8 {
            0..=3 => self.end_transaction(step),
            4 => self.free_transaction(step.slot()),
            5 => self.free_iterator(step.slot()),
            6 => self.free_batch(step.slot()),
            _ if step.which & 0x30 == 0 => self.close(step),
            _ => self.free_snapshot(step.slot()),
        }
    }

    fn close(&mut self, step: Step) {
        let store = self.store;
        let code = call!(self, keyrack_close(store));
        self.check(KEYRACK_OK, code);
        self.is_closed = true;
        if step.space() == 0 {
            self.free_all(step.which);
            self.open();
            self.compare();
        }
    }

    /// The store has what the model has.
    fn compare(&mut self) {
        for space in 0..2 {
            let keys = (0..9).map(|word| Step { which: 0, word }.key());
            for key in keys.collect::<Vec<_>>() {
                let (mut value, mut len) = (ptr::null_mut(), 0);
                let ((bytes, count), from) = (raw(&key), self.spaces[space]);
                let places = (&raw mut value, &raw mut len);
                let none = ptr::null();
                let code = call!(self, keyrack_get(from, none, bytes, count, places.0, places.1));
                self.check(KEYRACK_OK, code);
                assert_eq!(Self::taken(value, len).as_ref(), self.maps[space].get(&key));
            }
        }
    }
}

/// # Safety
/// There are `len` bytes.
unsafe fn copied(from: *const c_char, len: usize) -> Vec<u8> {
    // SAFETY: the caller promises the same.
    unsafe { keyrack_ffi::bytes(from, len) }.expect("bytes of the library's").to_vec()
}

fn check(input: &[u8], dice: &mut Dice) -> Shape {
    // In memory where the machine has that: nearly all of the time would be that of syncs.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().join("db");
    let mut machine = Machine::new(CString::new(path.to_str().unwrap()).unwrap());
    for step in input.chunks_exact(3).take(STEPS_MAX) {
        machine.step(step[0], Step { which: step[1], word: step[2] });
    }
    if !machine.is_closed {
        machine.compare();
    }
    machine.free_all(dice.word() as u8);
    plain!(keyrack_error_free(machine.error));
    shape(machine.seen)
}

#[test]
fn any_calls_answer_as_the_model_does() {
    let mut fuzzer = Fuzzer::new("flodb-c.calls", env!("CARGO_MANIFEST_DIR"), 300);
    let mut dice = Dice::new(7);
    for steps in [20, 100, STEPS_MAX] {
        fuzzer = fuzzer.sample(dice.bytes(steps * 3));
    }
    let (inputs, shapes) = fuzzer.run(check);
    assert!(inputs > 0 && shapes > 0);
}
