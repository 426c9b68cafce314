//! Filters of tables: those of the caller, and the Bloom filter.
//!
//! LevelDB makes a filter for every 2 KiB of a table. Here a table has one filter, so `create` is
//! called once a table, with all of its keys. They are held until then: 24 bytes a key and its own.
//!
//! A filter by a rule is stored with the name of the rule, and used while the database is opened
//! with a rule of that name.

use crate::comparator::called_name;
use crate::lifetime::State;
use keyrack_ffi::{destroy, give, or_else};
use keyrack_flodb::{FilterBuilder, FilterReader, FilterRule};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::{ptr, slice};

/// A larger filter is not stored, and the table has none.
const FILTER_BYTES_MAX: usize = 1 << 30;

/// Bits a key of the Bloom filter that `flodb` has at most.
const BLOOM_BITS_MAX: c_int = 64;

type Create = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const *const c_char,
        *const usize,
        c_int,
        *mut usize,
    ) -> *mut c_char,
>;
type MayMatch =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8>;

/// What the caller gave.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) state: Arc<State>,
    create: Create,
    may_match: MayMatch,
    name: String,
}

/// Which filters tables get.
#[derive(Clone, Debug)]
pub(crate) enum Filters {
    Bloom { bits_per_key: u32 },
    Custom(Arc<Rule>),
}

/// A rule by which tables get filters.
#[derive(Debug)]
pub struct FilterPolicy {
    pub(crate) filters: Filters,
}

/// The rule of an open database.
pub(crate) struct SharedRule(pub(crate) Arc<Rule>);

impl FilterRule for SharedRule {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        let rule = Arc::clone(&self.0);
        Box::new(Keys { rule, bytes: Vec::new(), ends: Vec::new() })
    }

    fn reader(&self, stored: &[u8]) -> Option<Box<dyn FilterReader>> {
        Some(Box::new(Stored { rule: Arc::clone(&self.0), filter: stored.to_vec() }))
    }
}

/// The keys of a table that is being written.
struct Keys {
    rule: Arc<Rule>,
    /// One after the other.
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl FilterBuilder for Keys {
    fn add(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Empty where the caller's function has made none.
    fn finish(self: Box<Self>) -> Vec<u8> {
        let Ok(count) = c_int::try_from(self.ends.len()) else { return Vec::new() };
        let (Some(create), Some(state)) = (self.rule.create, self.rule.state.get()) else {
            return Vec::new();
        };
        let mut start = 0;
        let (keys, lens): (Vec<*const c_char>, Vec<usize>) = self
            .ends
            .iter()
            .map(|end| {
                let key = &self.bytes[start..*end];
                start = *end;
                (key.as_ptr().cast(), key.len())
            })
            .unzip();
        let mut len = 0;
        // SAFETY: the state is the caller's, who gave this function for it; it gets as many keys
        // and lengths as it is told.
        let filter = unsafe { create(state, keys.as_ptr(), lens.as_ptr(), count, &raw mut len) };
        if filter.is_null() {
            return Vec::new();
        }
        let stored = if len < FILTER_BYTES_MAX {
            // SAFETY: it is not null, and the function says that it has `len` bytes.
            unsafe { slice::from_raw_parts(filter.cast::<u8>(), len) }.to_vec()
        } else {
            Vec::new()
        };
        // SAFETY: the function made it by `malloc`, for this library to free.
        unsafe { libc::free(filter.cast()) };
        stored
    }
}

/// The filter of an open table.
struct Stored {
    rule: Arc<Rule>,
    filter: Vec<u8>,
}

impl FilterReader for Stored {
    fn may_contain(&self, key: &[u8]) -> bool {
        // Without the function, or after its end, a filter excludes nothing.
        let (Some(may_match), Some(state)) = (self.rule.may_match, self.rule.state.get()) else {
            return true;
        };
        let (key_bytes, filter) = (key.as_ptr().cast(), self.filter.as_ptr().cast());
        // SAFETY: the state is the caller's, who gave this function for it and its own filters.
        let told = unsafe { may_match(state, key_bytes, key.len(), filter, self.filter.len()) };
        told != 0
    }
}

/// Makes a rule of callbacks. `create_filter` gets the keys of a table and returns a filter that
/// `malloc` made, which is freed here; `key_may_match` says whether a key may be one of those. Any
/// thread calls them, several at once. `name` is asked once: 1 to 255 bytes. `destructor` gets
/// `state` when the rule is destroyed and every database that was opened with it is closed.
///
/// # Safety
/// The functions may be called with `state` from any thread until `destructor` returns; `name`
/// returns a text that ends with a zero, `create_filter` null or as many bytes as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(state: *mut c_void)>,
    create_filter: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            key_array: *const *const c_char,
            key_length_array: *const usize,
            num_keys: c_int,
            filter_length: *mut usize,
        ) -> *mut c_char,
    >,
    key_may_match: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            key: *const c_char,
            length: usize,
            filter: *const c_char,
            filter_length: usize,
        ) -> u8,
    >,
    name: Option<unsafe extern "C" fn(state: *mut c_void) -> *const c_char>,
) -> *mut FilterPolicy {
    or_else(ptr::null_mut(), || {
        // SAFETY: the caller promises the same.
        let name = unsafe { called_name(name, state) };
        let (create, may_match) = (create_filter, key_may_match);
        let state = State::new(state, destructor);
        let rule = Rule { state, create, may_match, name };
        give(FilterPolicy { filters: Filters::Custom(Arc::new(rule)) })
    })
}

/// Makes a rule for Bloom filters with so many bits a key, 1 to 64.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy {
    or_else(ptr::null_mut(), || {
        let bits_per_key = bits_per_key.clamp(1, BLOOM_BITS_MAX).unsigned_abs();
        give(FilterPolicy { filters: Filters::Bloom { bits_per_key } })
    })
}

/// Gives up a rule. Its destructor runs here, or, if databases are open with it, when the last of
/// them is closed. Options that have it are of no use until they get another one or null.
///
/// # Safety
/// `policy` is null or from one of the calls that make it, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        let policy = unsafe { destroy(policy) };
        if let Some(Filters::Custom(rule)) = policy.map(|policy| policy.filters) {
            rule.state.give_up();
        }
    });
}
