//! `congee`: the adaptive radix tree with optimistic locks of the crate congee. Its keys have eight
//! bytes, and all others are refused.
//!
//! The tree holds machine words. A word here is a pointer to a [`Value`] on the heap:
//!
//! ```text
//!   put      --> Box<Value> --into_raw--> word in the tree
//!   replaced, removed:  the word comes out of the tree once; its box is freed when no guard of
//!                       the time is left
//!   drop of the tree:   each word that is left is freed
//! ```
//!
//! A scan of the tree fills a buffer, and goes on behind the last key of it. The tree has no
//! descending scan: `scan_rev` collects the words of the whole range before it visits the last.
#![expect(unsafe_code, reason = "a map of machine words has boxes as raw pointers")]

use super::{Bounds, ConcurrentMap, Value, open};
use crate::contract::{RowVisitor, option};
use congee::epoch::Guard;
use congee::{Congee, DefaultAllocator};
use keyrack_store::{Engine, Error, KEY_BYTES, OpenOptions, Result, Store};
use std::ops::ControlFlow;

pub(crate) const ENGINE: Engine = Engine {
    name: "congee",
    about: "congee's adaptive radix tree, in memory; keys of exactly 8 bytes",
    persistent: false,
    stores: true,
    options: &[option(KEY_BYTES, "8", "bytes of every key; nothing but 8")],
    open: |options: &OpenOptions| -> Result<Box<dyn Store>> {
        match options.size(KEY_BYTES, KEY_LENGTH as u64)? {
            8 => open(ENGINE.name, options, CongeeMap::default()),
            other => {
                Err(Error::usage(format!("{KEY_BYTES}: {other} is not 8, and congee has no other")))
            }
        }
    },
};

/// Rows that a scan takes from the tree at once.
const SCAN_ROWS: usize = 64;

const KEY_LENGTH: usize = 8;

struct CongeeMap {
    tree: Congee<usize, usize>,
}

impl Default for CongeeMap {
    fn default() -> Self {
        // SAFETY: a tree that is dropped has no readers, and its words are boxes that nobody else
        // frees.
        let free = |_key: usize, word: usize| drop(unsafe { boxed(word) });
        CongeeMap { tree: Congee::new_with_drainer(DefaultAllocator {}, free) }
    }
}

/// The box of a word.
///
/// # Safety
/// The word came from [`word_of`], and no other box is made of it.
unsafe fn boxed(word: usize) -> Box<Value> {
    // SAFETY: the caller's.
    unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut(word)) }
}

fn word_of(value: &[u8]) -> usize {
    Box::into_raw(Box::new(Value::new(value))).expose_provenance()
}

/// The value of a word that the tree had while `_guard` was held: nobody frees it before its end.
fn value_of(word: usize, _guard: &Guard) -> &[u8] {
    // SAFETY: words of the tree are boxes. One that leaves the tree is freed by `retire`, after the
    // end of every guard that was there.
    let value: &Value = unsafe { &*std::ptr::with_exposed_provenance(word) };
    value.bytes()
}

/// Frees the box of a word that has left the tree, when no guard that may have seen it is left.
fn retire(word: usize, guard: &Guard) {
    // SAFETY: a word leaves the tree once, and the caller that took it out calls this once.
    let free = move || drop(unsafe { boxed(word) });
    // SAFETY: the closure borrows nothing, and it runs when no guard is left that was there while
    // the word was in the tree.
    unsafe { guard.defer_unchecked(free) };
}

/// The key as a number, in whose order keys are.
fn number(key: &[u8]) -> Option<usize> {
    key.try_into().ok().map(usize::from_be_bytes)
}

/// The least key of the tree that is not below `bound`; `None` above all keys.
fn first_not_below(bound: &[u8]) -> Option<usize> {
    let mut key = [0; KEY_LENGTH];
    let shared = bound.len().min(KEY_LENGTH);
    key[..shared].copy_from_slice(&bound[..shared]);
    let first = usize::from_be_bytes(key);
    // A longer bound lies above the key that it begins with.
    if bound.len() > KEY_LENGTH { first.checked_add(1) } else { Some(first) }
}

impl CongeeMap {
    /// Visits the words of `low ..` below `high` in ascending order.
    fn words(
        &self,
        low: usize,
        high: Option<usize>,
        guard: &Guard,
        visit: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut rows = [(0, 0); SCAN_ROWS];
        let mut low = low;
        loop {
            // The range of the tree ends before its end, which leaves out the greatest key.
            let count = self.tree.range(&low, &high.unwrap_or(usize::MAX), &mut rows, guard);
            for (key, word) in &rows[..count] {
                visit(*key, *word)?;
            }
            match rows[..count].last() {
                Some((last, _)) if count == SCAN_ROWS => low = last + 1,
                _ => break,
            }
        }
        if high.is_none()
            && let Some(word) = self.tree.get(&usize::MAX, guard)
        {
            visit(usize::MAX, word)?;
        }
        ControlFlow::Continue(())
    }
}

impl ConcurrentMap for CongeeMap {
    const VERSION: &'static str = "congee 0.4.1";

    fn check(key: &[u8]) -> Result<()> {
        if key.len() == KEY_LENGTH {
            return Ok(());
        }
        Err(Error::usage(format!(
            "congee has keys of exactly {KEY_LENGTH} bytes (got {}); choose another engine, or \
             keys of that length as in index/be8",
            key.len()
        )))
    }

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        let guard = self.tree.pin();
        let word = number(key).and_then(|key| self.tree.get(&key, &guard));
        if let Some(word) = word {
            visit(value_of(word, &guard));
        }
        word.is_some()
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let guard = self.tree.pin();
        let key = number(key).expect("the key was checked");
        let old = self.tree.insert(key, word_of(value), &guard);
        if let Some(old) = old.expect("the default allocator panics when it has no memory") {
            retire(old, &guard);
        }
    }

    fn remove(&self, key: &[u8]) -> bool {
        let guard = self.tree.pin();
        let old = number(key).and_then(|key| self.tree.remove(&key, &guard));
        if let Some(old) = old {
            retire(old, &guard);
        }
        old.is_some()
    }

    fn scan(&self, range: Bounds<'_>, visit: &mut RowVisitor<'_>) -> u64 {
        let guard = self.tree.pin();
        let Some(low) = first_not_below(range.low) else { return 0 };
        let high = range.high.and_then(first_not_below);
        let mut visited = 0;
        let mut row = |key: usize, word: usize| {
            visited += 1;
            visit(&key.to_be_bytes(), value_of(word, &guard))
        };
        let mut all = Vec::new();
        let _ended = if range.reverse {
            let mut collect = |key, word| {
                all.push((key, word));
                ControlFlow::Continue(())
            };
            let _all = self.words(low, high, &guard, &mut collect);
            all.iter().rev().try_for_each(|(key, word)| row(*key, *word))
        } else {
            self.words(low, high, &guard, &mut row)
        };
        visited
    }
}
