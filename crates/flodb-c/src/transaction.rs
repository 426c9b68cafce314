//! Transactions over the key spaces of a store, and the iterators in them.
//!
//! ```text
//!   Transaction --Rc--> Running <--Rc-- Cursor, which borrows from it
//! ```
//!
//! A commit needs the running transaction for itself, so it is refused while iterators live. A
//! transaction that is freed before its iterators ends with the last of them.

use crate::access::{copied, put_value};
use crate::error::{Code, Error, report};
use crate::iterator::{Cursor, bounds};
use crate::library::{KEYRACK_SNAPSHOT_ISOLATION, KEYRACK_SYNC};
use crate::open::{Keys, Kind, Open, check_flags, check_same};
use crate::place::{Bounds, Inner, Place};
use crate::space::{Space, space};
use crate::store::{Store, place, ready};
use keyrack_ffi::{bytes, destroy, give, handle_mut, or_else, put};
use keyrack_flodb::{
    Isolation, ReadOptions, Result as StoreResult, SpacesTransaction,
    Transaction as PlainTransaction, TransactionOptions, WriteOptions,
};
use std::ffi::{c_char, c_void};
use std::rc::Rc;
use std::sync::Arc;

/// Reads and writes that happen as if alone. It and its iterators belong to one thread at a time.
#[derive(Debug)]
pub struct Transaction {
    open: Arc<Open>,
    /// `None` once it has ended, or a call has panicked on its way.
    running: Option<Rc<Running>>,
}

/// A transaction that has not ended.
#[derive(Debug)]
pub(crate) enum Running {
    Plain(PlainTransaction),
    Spaces(SpacesTransaction),
}

/// Calls what a transaction of either kind has on keys of its kind.
macro_rules! on_running {
    ($running:expr, $keys:expr, $call:ident($($argument:expr),*)) => {
        match ($running, $keys) {
            (Running::Plain(transaction), Keys::Whole(_)) => transaction.$call($($argument),*),
            (Running::Spaces(transaction), Keys::Space(keys)) => {
                transaction.$call(keys, $($argument),*)
            }
            _ => unreachable!("keys are of the kind of their store"),
        }
    };
}

/// Calls what a transaction of either kind has.
macro_rules! on_either {
    ($running:expr, $it:ident => $call:expr) => {
        match $running {
            Running::Plain($it) => $call,
            Running::Spaces($it) => $call,
        }
    };
}

impl Transaction {
    /// Uses the transaction, which is lost if that panics.
    fn with<T>(&mut self, act: impl FnOnce(&Rc<Running>) -> Result<T, Error>) -> Result<T, Error> {
        self.open.check()?;
        let running = self
            .running
            .take()
            .ok_or_else(|| Error::usage("the transaction has ended; free it, and begin another"))?;
        let done = act(&running);
        self.running = Some(running);
        done
    }

    /// Takes the running transaction to its end.
    fn end(&mut self) -> Result<Running, Error> {
        self.with(|_| Ok(()))?;
        let running = self.running.take().expect("it is running");
        Rc::try_unwrap(running).map_err(|running| {
            self.running = Some(running);
            Error::usage("iterators of the transaction live; free them before it ends")
        })
    }
}

/// What a call on keys of a transaction gets.
///
/// # Safety
/// `transaction` is null or a transaction that nobody else uses; `space` is null or a key space.
unsafe fn given<'a>(
    transaction: *mut Transaction,
    space: *const Space,
) -> Result<(&'a mut Transaction, &'a Keys), Error> {
    // SAFETY: the caller promises the same.
    let transaction = unsafe { handle_mut(transaction, "transaction") }?;
    // SAFETY: as above.
    let space = unsafe { self::space(space) }?;
    check_same(&space.open, &transaction.open, "key space")?;
    Ok((transaction, &space.keys))
}

/// Begins a transaction at this moment. `flags` has KEYRACK_SYNC for its commit, and
/// KEYRACK_SNAPSHOT_ISOLATION; without the latter it is serializable. The caller frees
/// `*transaction` with keyrack_transaction_free.
///
/// Threads: any at once. A transaction and its iterators, all together, are for one thread at a
/// time.
///
/// # Safety
/// `store` is null or a store; `transaction` is null or room for a pointer; `error` is null, or
/// points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_begin(
    store: *const Store,
    flags: u32,
    transaction: *mut *mut Transaction,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(transaction, "place of the transaction") }?;
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        check_flags(flags, KEYRACK_SYNC | KEYRACK_SNAPSHOT_ISOLATION)?;
        let isolation = match flags & KEYRACK_SNAPSHOT_ISOLATION {
            0 => Isolation::Serializable,
            _ => Isolation::Snapshot,
        };
        let write = WriteOptions { sync: flags & KEYRACK_SYNC != 0 };
        let options = TransactionOptions { isolation, write };
        let running = match &open.kind {
            Kind::Plain(db) => Running::Plain(db.transaction_with(options)),
            Kind::Spaces(spaces) => Running::Spaces(spaces.transaction_with(options)),
        };
        let made = Transaction { open: Arc::clone(open), running: Some(Rc::new(running)) };
        // SAFETY: as above.
        unsafe { put(to, give(made)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Reads a key in a way of the caller's.
///
/// # Safety
/// As for [`keyrack_transaction_get`].
unsafe fn read(
    (transaction, space): (*mut Transaction, *const Space),
    (key, key_len): (*const c_void, usize),
    (value, value_len): (*mut *mut c_char, *mut usize),
    error: *mut *mut Error,
    read: impl FnOnce(&Running, &Keys, &[u8]) -> StoreResult<Option<(*mut c_char, usize)>>,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(value, "place of the value") }?;
        // SAFETY: as above.
        unsafe { put(value_len, 0) };
        // SAFETY: as above.
        let (transaction, keys) = unsafe { given(transaction, space) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        let found = transaction.with(|running| Ok(read(running, keys, key)?))?;
        // SAFETY: as above.
        unsafe { put_value(to, value_len, found) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The value of a key as the transaction sees it, as from keyrack_get: the caller frees `*value`
/// with keyrack_free, and it is null if the key is not there.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// `transaction` is null or a transaction that nobody else uses; `space` is null or a key space;
/// `key` has so many bytes; `value` is null or room for a pointer, `value_len` null or room for a
/// length; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_get(
    transaction: *mut Transaction,
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut Error,
) -> Code {
    let get = |running: &Running, keys: &Keys, key: &[u8]| {
        on_running!(running, keys, get_with(key, copied))
    };
    // SAFETY: the caller promises the same.
    unsafe { read((transaction, space), (key, key_len), (value, value_len), error, get) }
}

/// As keyrack_transaction_get, and locks the key against other transactions that ask by this call,
/// until the transaction ends: it waits for the one that has it. KEYRACK_DEADLOCK if that one waits
/// for this one. KEYRACK_CLOSED if the store is closed, also while it waits. One thread must not
/// ask for a key of two transactions of its own: it would wait forever.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_get_for_update(
    transaction: *mut Transaction,
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut Error,
) -> Code {
    let get = |running: &Running, keys: &Keys, key: &[u8]| {
        let found = on_running!(running, keys, get_for_update(key))?;
        Ok(found.as_deref().map(copied))
    };
    // SAFETY: the caller promises the same.
    unsafe { read((transaction, space), (key, key_len), (value, value_len), error, get) }
}

/// Writes in a way of the caller's.
///
/// # Safety
/// `transaction` is null or a transaction that nobody else uses; `space` is null or a key space;
/// both have so many bytes; `error` is null, or points to null or an error.
unsafe fn write(
    (transaction, space): (*mut Transaction, *const Space),
    (first, first_len): (*const c_void, usize),
    (second, second_len): (*const c_void, usize),
    error: *mut *mut Error,
    write: impl FnOnce(&Running, &Keys, &[u8], &[u8]) -> StoreResult<()>,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let (transaction, keys) = unsafe { given(transaction, space) }?;
        // SAFETY: as above.
        let first = unsafe { bytes(first, first_len) }?;
        // SAFETY: as above.
        let second = unsafe { bytes(second, second_len) }?;
        transaction.with(|running| Ok(write(running, keys, first, second)?))
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Stores a value under a key when the transaction commits. Key and value are copied.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// `transaction` is null or a transaction that nobody else uses; `space` is null or a key space;
/// key and value have so many bytes; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_put(
    transaction: *mut Transaction,
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    error: *mut *mut Error,
) -> Code {
    let put = |running: &Running, keys: &Keys, key: &[u8], value: &[u8]| {
        on_running!(running, keys, put(key, value))
    };
    // SAFETY: the caller promises the same.
    unsafe { write((transaction, space), (key, key_len), (value, value_len), error, put) }
}

/// Removes a key when the transaction commits. The key is copied.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_delete(
    transaction: *mut Transaction,
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut Error,
) -> Code {
    let delete = |running: &Running, keys: &Keys, key: &[u8], _: &[u8]| {
        on_running!(running, keys, delete(key))
    };
    // SAFETY: the caller promises the same; the second slice is empty.
    unsafe { write((transaction, space), (key, key_len), (key, 0), error, delete) }
}

/// Removes all keys from `low` on and before `high` when the transaction commits. Both are copied.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_delete_range(
    transaction: *mut Transaction,
    space: *const Space,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    error: *mut *mut Error,
) -> Code {
    let delete = |running: &Running, keys: &Keys, low: &[u8], high: &[u8]| {
        on_running!(running, keys, delete_range(low, high))
    };
    // SAFETY: the caller promises the same.
    unsafe { write((transaction, space), (low, low_len), (high, high_len), error, delete) }
}

/// Makes an iterator of a transaction within the bounds that a call gives.
///
/// # Safety
/// As for [`keyrack_transaction_iterator`], without the bounds.
unsafe fn iterate(
    transaction: *mut Transaction,
    space: *const Space,
    bounds: impl FnOnce() -> Result<Bounds, Error>,
    iterator: *mut *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(iterator, "place of the iterator") }?;
        // SAFETY: as above.
        let (transaction, keys) = unsafe { given(transaction, space) }?;
        let bounds = bounds()?;
        let open = Arc::clone(&transaction.open);
        let made = transaction.with(|running| {
            // SAFETY: it is in the memory of the `Rc`, of which the iterator keeps a clone until it
            // is dropped; nobody moves or changes it meanwhile, as an end needs the only `Rc`.
            let lent: &'static Running = unsafe { &*Rc::as_ptr(running) };
            let (low, high) = (bounds.low.as_deref(), bounds.high.as_deref());
            let reads = ReadOptions::default();
            let inner = match (lent, keys) {
                (Running::Plain(transaction), Keys::Whole(_)) => {
                    Inner::Transaction(transaction.iter_between(low, high, reads)?)
                }
                (Running::Spaces(transaction), Keys::Space(keys)) => {
                    Inner::SpacesTransaction(transaction.iter_between(keys, low, high, reads)?)
                }
                _ => unreachable!("keys are of the kind of their store"),
            };
            Ok(Cursor::new(Place::new(inner, bounds), Some(Rc::clone(running)), open))
        })?;
        // SAFETY: as above.
        unsafe { put(to, give(made)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Makes an iterator over the keys from `low` on and before `high`, as keyrack_iterator_new does,
/// that shows what the transaction sees, with the writes that it has made before. In a serializable
/// transaction, what it passes counts as read. The caller frees `*iterator` with
/// keyrack_iterator_free before the transaction commits or is rolled back.
///
/// Threads: one at a time for `transaction` and its iterators together.
///
/// # Safety
/// `transaction` is null or a transaction that nobody else uses; `space` is null or a key space;
/// the bounds have so many bytes; `iterator` is null or room for a pointer; `error` is null, or
/// points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_iterator(
    transaction: *mut Transaction,
    space: *const Space,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    iterator: *mut *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    let bounds = || unsafe { bounds(low, low_len, high, high_len) };
    // SAFETY: as above.
    unsafe { iterate(transaction, space, bounds, iterator, error) }
}

/// As keyrack_transaction_iterator, over the keys that begin with `prefix`.
///
/// Threads: one at a time for `transaction` and its iterators together.
///
/// # Safety
/// As for [`keyrack_transaction_iterator`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_iterator_prefix(
    transaction: *mut Transaction,
    space: *const Space,
    prefix: *const c_void,
    prefix_len: usize,
    iterator: *mut *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    let bounds = || Ok(Bounds::prefix(unsafe { bytes(prefix, prefix_len) }?));
    // SAFETY: as above.
    unsafe { iterate(transaction, space, bounds, iterator, error) }
}

/// Does something about save points.
///
/// # Safety
/// As for [`keyrack_transaction_commit`].
unsafe fn about(
    transaction: *mut Transaction,
    error: *mut *mut Error,
    act: impl FnOnce(&Running) -> StoreResult<()>,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let transaction = unsafe { handle_mut(transaction, "transaction") }?;
        transaction.with(|running| Ok(act(running)?))
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Marks this point of a transaction. Points nest.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_commit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_save_point(
    transaction: *mut Transaction,
    error: *mut *mut Error,
) -> Code {
    let act = |running: &Running| {
        on_either!(running, transaction => transaction.save_point());
        Ok(())
    };
    // SAFETY: the caller promises the same.
    unsafe { about(transaction, error, act) }
}

/// Takes back the writes since the last point, and the point. KEYRACK_USAGE if there is none.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_commit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_roll_back_to_save_point(
    transaction: *mut Transaction,
    error: *mut *mut Error,
) -> Code {
    let act = |running: &Running| on_either!(running, it => it.roll_back_to_save_point());
    // SAFETY: the caller promises the same.
    unsafe { about(transaction, error, act) }
}

/// Forgets the last point, and keeps the writes since. KEYRACK_USAGE if there is none.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_commit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_release_save_point(
    transaction: *mut Transaction,
    error: *mut *mut Error,
) -> Code {
    let act = |running: &Running| on_either!(running, it => it.release_save_point());
    // SAFETY: the caller promises the same.
    unsafe { about(transaction, error, act) }
}

/// Writes what a transaction has written, all or none, and ends it. KEYRACK_CONFLICT if somebody
/// else has changed what it depends on: nothing is written, and the error has the key. It has ended
/// then, too; begin another one. KEYRACK_USAGE while iterators of it live: then it goes on.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// `transaction` is null or a transaction that nobody else uses; `error` is null, or points to null
/// or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_commit(
    transaction: *mut Transaction,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let running = unsafe { handle_mut(transaction, "transaction") }?.end()?;
        Ok(on_either!(running, transaction => transaction.commit())?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Ends a transaction, and writes nothing. KEYRACK_USAGE while iterators of it live: then it goes
/// on.
///
/// Threads: one at a time for `transaction`.
///
/// # Safety
/// As for [`keyrack_transaction_commit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_roll_back(
    transaction: *mut Transaction,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        drop(unsafe { handle_mut(transaction, "transaction") }?.end()?);
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Frees a transaction, which writes nothing if it has not committed. If iterators of it live, they
/// go on, and its locks are held until the last of them is freed. Null is nothing.
///
/// Threads: one, the last that uses `transaction`.
///
/// # Safety
/// `transaction` is null or a transaction, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_transaction_free(transaction: *mut Transaction) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(transaction) }));
}
