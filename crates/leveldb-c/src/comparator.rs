//! Orders of keys: those of the caller, as `flodb` compares.
//!
//! ```text
//!   leveldb_comparator_t --> Rule, shared --> Order of one open database --> callbacks of C
//! ```
//!
//! The destructor runs when the comparator is destroyed and every database with it is closed, in
//! the call that comes last: see `lifetime`. An iterator that goes on after that fails.
//!
//! **Equal keys.** LevelDB takes two keys for one if the comparator says 0. Here keys of different
//! bytes are different: point reads find them by a hash. An order that says 0 for two of them gets
//! the order of bytes between them, so that files stay sound, and from then on every call on the
//! database fails: a wrong answer would be worse.
//!
//! The bytewise order has LevelDB's name here, `leveldb.BytewiseComparator`, and in files the one
//! of `flodb`.

use crate::lifetime::State;
use crate::status::Failure;
use keyrack_ffi::{destroy, give, or_else};
use keyrack_flodb::{Comparator as StoreOrder, Compare};
use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

/// LevelDB's name of the bytewise order.
const BYTEWISE: &str = "leveldb.BytewiseComparator";

/// The name of the bytewise order in the files of `flodb`.
const STORED_BYTEWISE: &str = "keyrack.bytewise";

pub(crate) type GetName = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;
type CompareKeys =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;

/// What the caller gave.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) state: Arc<State>,
    compare: CompareKeys,
    name: String,
}

impl Rule {
    /// # Errors
    /// Null pointers were given in place of functions.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.compare.is_none() || self.name.is_empty() {
            return Err(Failure::invalid("a comparator needs a function that compares and a name"));
        }
        Ok(())
    }

    /// The name that the caller gave.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// An order of keys of the caller's.
#[derive(Debug)]
pub struct Comparator {
    pub(crate) rule: Arc<Rule>,
}

/// The order of an open database.
#[derive(Debug)]
pub(crate) struct Order {
    rule: Arc<Rule>,
    has_equal_keys: AtomicBool,
}

impl Order {
    pub(crate) fn new(rule: &Arc<Rule>) -> Arc<Order> {
        Arc::new(Order { rule: Arc::clone(rule), has_equal_keys: AtomicBool::new(false) })
    }

    /// # Errors
    /// The order has said of two keys of different bytes that they are equal, or is destroyed.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.rule.state.get().is_none() {
            return Err(Failure::invalid(format_args!(
                "the comparator {} was destroyed, and its database closed",
                self.rule.name
            )));
        }
        // Relaxed: no memory goes with it, and a comparison of this thread is seen by it.
        if !self.has_equal_keys.load(Memory::Relaxed) {
            return Ok(());
        }
        Err(Failure::not_implemented(format_args!(
            "the comparator {} says of keys with different bytes that they are equal; this \
             library needs an order that tells them apart",
            self.rule.name
        )))
    }
}

impl Compare for Order {
    fn name(&self) -> &str {
        stored_name(&self.rule.name)
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        // `Rule::check` has refused a rule without; a state that is gone fails in `check`.
        let (Some(compare), Some(state)) = (self.rule.compare, self.rule.state.get()) else {
            return a.cmp(b);
        };
        let (a_bytes, b_bytes) = (a.as_ptr().cast(), b.as_ptr().cast());
        // SAFETY: the state is the caller's, who gave this function for it and for any bytes.
        let told = unsafe { compare(state, a_bytes, a.len(), b_bytes, b.len()) };
        told.cmp(&0).then_with(|| {
            // Relaxed: see `check`.
            self.has_equal_keys.store(true, Memory::Relaxed);
            a.cmp(b)
        })
    }
}

/// The order of a database: the caller's, or that of bytes.
pub(crate) fn store_order(order: Option<&Arc<Order>>) -> StoreOrder {
    match order {
        Some(order) => StoreOrder::Custom(Arc::clone(order) as Arc<dyn Compare>),
        None => StoreOrder::Bytewise,
    }
}

/// The name that a store has for an order of this name here.
fn stored_name(name: &str) -> &str {
    if name == BYTEWISE { STORED_BYTEWISE } else { name }
}

/// The name here of an order that a store has this name for.
pub(crate) fn shown_name(stored: &str) -> &str {
    if stored == STORED_BYTEWISE { BYTEWISE } else { stored }
}

/// The name that a callback gives for its state. Bytes that are not UTF-8 are written as escapes.
///
/// # Safety
/// `name` may be called with `state`, and returns null or a text that ends with a zero.
pub(crate) unsafe fn called_name(name: GetName, state: *mut c_void) -> String {
    let Some(name) = name else { return String::new() };
    // SAFETY: the caller promises that.
    let text = unsafe { name(state) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: it is not null, so it ends with a zero, as the caller promises.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => text.to_owned(),
        Err(_) => text.to_bytes().escape_ascii().to_string(),
    }
}

/// Makes an order of keys of callbacks. `compare` returns less than, equal to or more than 0, and
/// 0 only for keys of the same bytes; any thread calls it, several at once. `name` is asked once.
/// `destructor` gets `state` when the comparator is destroyed and every database that was opened
/// with it is closed.
///
/// # Safety
/// The functions may be called with `state` from any thread until `destructor` returns; `name`
/// returns a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(state: *mut c_void)>,
    compare: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            a: *const c_char,
            alen: usize,
            b: *const c_char,
            blen: usize,
        ) -> c_int,
    >,
    name: Option<unsafe extern "C" fn(state: *mut c_void) -> *const c_char>,
) -> *mut Comparator {
    or_else(ptr::null_mut(), || {
        // SAFETY: the caller promises the same.
        let name = unsafe { called_name(name, state) };
        let state = State::new(state, destructor);
        give(Comparator { rule: Arc::new(Rule { state, compare, name }) })
    })
}

/// Gives up an order. Its destructor runs here, or, if databases are open with it, when the last
/// of them is closed. Options that have it are of no use until they get another one or null.
///
/// # Safety
/// `comparator` is null or from [`leveldb_comparator_create`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_destroy(comparator: *mut Comparator) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        if let Some(comparator) = unsafe { destroy(comparator) } {
            comparator.rule.state.give_up();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytewise_order_has_the_name_of_each_side() {
        assert_eq!(STORED_BYTEWISE, StoreOrder::Bytewise.name());
        assert_eq!(stored_name("leveldb.BytewiseComparator"), STORED_BYTEWISE);
        assert_eq!(shown_name(STORED_BYTEWISE), "leveldb.BytewiseComparator");
        assert_eq!((stored_name("foo"), shown_name("foo")), ("foo", "foo"));
    }
}
