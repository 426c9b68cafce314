//! What `kb` makes: key sources, value sources, mixes, counters and random streams.
//!
//! A script holds a *handle*: a light userdata whose pointer is not an address but a list and a
//! place in it, `index << 3 | tag`. It costs a verb one type check and one bounds check, it cannot
//! be forged into a wild pointer, and it is never collected, so it is for the top of a file or
//! `setup()`, not for `run()`.

use keyrack_workload::{Alias, Counter, KeySource, KeySpec, Rng, ValueSource, ValueSpec};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Objects of one kind in one machine: a script that makes more makes them in `run`.
const OBJECTS_MAX: usize = 4096;
/// Value sources in one machine: each holds a pool of a mebibyte and more.
const VALUES_MAX: usize = 64;

const TAG_BITS: u32 = 3;

/// Which list a handle points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Tag {
    Key = 1,
    Value = 2,
    Mix = 3,
    Counter = 4,
    Rng = 5,
}

/// All objects of one machine.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) keys: List<KeyObject, { Tag::Key as usize }>,
    pub(crate) values: List<ValueObject, { Tag::Value as usize }>,
    pub(super) mixes: List<MixObject, { Tag::Mix as usize }>,
    pub(super) counters: List<CounterObject, { Tag::Counter as usize }>,
    pub(super) rngs: List<Rng, { Tag::Rng as usize }>,
}

/// A list whose places are handed out as handles with tag `TAG`.
#[derive(Debug)]
pub(crate) struct List<T, const TAG: usize> {
    items: Vec<T>,
    most: usize,
}

/// A key source and what it was made from.
#[derive(Debug)]
pub(crate) struct KeyObject {
    pub(crate) spec: KeySpec,
    pub(crate) counter: Option<String>,
    pub(crate) source: KeySource,
}

/// A value source and what it was made from.
#[derive(Debug)]
pub(crate) struct ValueObject {
    pub(crate) spec: ValueSpec,
    pub(crate) source: ValueSource,
}

/// Names drawn with given weights.
#[derive(Debug)]
pub(super) struct MixObject {
    pub(super) names: Vec<String>,
    pub(super) alias: Alias,
    pub(super) rng: Rng,
}

/// A counter that all workers of a measurement share.
#[derive(Debug)]
pub(super) struct CounterObject {
    pub(super) name: String,
    pub(super) counter: Counter,
}

impl Objects {
    pub(crate) fn new() -> Self {
        let (keys, values) = (List::new(OBJECTS_MAX), List::new(VALUES_MAX));
        let (mixes, counters) = (List::new(OBJECTS_MAX), List::new(OBJECTS_MAX));
        Objects { keys, values, mixes, counters, rngs: List::new(OBJECTS_MAX) }
    }

    /// What the handle is, in a word.
    pub(super) fn tag(handle: usize) -> Option<Tag> {
        let all = [Tag::Key, Tag::Value, Tag::Mix, Tag::Counter, Tag::Rng];
        all.into_iter().find(|tag| *tag as usize == handle & ((1 << TAG_BITS) - 1))
    }

    /// One line about the object behind `handle`.
    pub(super) fn describe(&self, handle: usize) -> String {
        match Self::tag(handle) {
            Some(Tag::Key) => {
                self.keys.get(handle).map(|k| format!("kb.keys: {}", k.source.describe()))
            }
            Some(Tag::Value) => self.values.get(handle).map(|_| "kb.values".to_owned()),
            Some(Tag::Mix) => {
                self.mixes.get(handle).map(|m| format!("kb.mix of {}", m.names.join(", ")))
            }
            Some(Tag::Counter) => self
                .counters
                .get(handle)
                .map(|c| format!("kb.counter {} at {}", c.name, c.counter.get())),
            Some(Tag::Rng) => self.rngs.get(handle).map(|_| "kb.rng".to_owned()),
            None => None,
        }
        .unwrap_or_else(|| "not a kb object".to_owned())
    }
}

impl<T, const TAG: usize> List<T, TAG> {
    fn new(most: usize) -> Self {
        List { items: Vec::new(), most }
    }

    /// Adds `item` and returns its handle.
    pub(super) fn add(&mut self, item: T) -> Result<usize, String> {
        if self.items.len() >= self.most {
            return Err(format!(
                "more than {} kb objects of one kind: make them once, at the top of the \
                 file or in setup(), not in run()",
                self.most
            ));
        }
        self.items.push(item);
        Ok(((self.items.len() - 1) << TAG_BITS) | TAG)
    }

    #[inline(always)]
    fn index(handle: usize) -> Option<usize> {
        (handle & ((1 << TAG_BITS) - 1) == TAG).then_some(handle >> TAG_BITS)
    }

    pub(crate) fn get(&self, handle: usize) -> Option<&T> {
        self.items.get(Self::index(handle)?)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        self.items.get_mut(Self::index(handle)?)
    }
}

impl List<KeyObject, { Tag::Key as usize }> {
    /// Draws the next key of the source behind `handle`.
    #[inline(always)]
    pub(super) fn next(&mut self, handle: usize) -> Option<&[u8]> {
        self.get_mut(handle).map(|key| key.source.next_key())
    }
}

impl List<ValueObject, { Tag::Value as usize }> {
    /// Draws the next value of the source behind `handle`.
    #[inline(always)]
    pub(super) fn next(&mut self, handle: usize) -> Option<&[u8]> {
        self.get_mut(handle).map(|value| value.source.next_value())
    }
}

/// The counters of one measurement by name, shared by all workers of its load and its run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    by_name: Arc<Mutex<HashMap<String, Counter>>>,
}

impl Counters {
    /// The counter called `name`; the first to ask decides where it starts.
    pub(crate) fn named(&self, name: &str, start: u64) -> Counter {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        by_name.entry(name.to_owned()).or_insert_with(|| Counter::new(start)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reaches_its_own_list_and_no_other_bits_reach_any() {
        let mut objects = Objects::new();
        let first = objects.rngs.add(Rng::from_seed(1)).unwrap();
        let second = objects.rngs.add(Rng::from_seed(2)).unwrap();
        assert_ne!(first, second);
        assert_eq!(Objects::tag(second), Some(Tag::Rng));
        assert!(objects.rngs.get(second).is_some());
        // Beyond the end, of another kind, of no kind, and as wild as an address.
        let beyond = second + (1 << TAG_BITS);
        for forged in [beyond, 0, first & !7, first ^ 1, usize::MAX, usize::MAX - 2, 1 << 40] {
            assert!(objects.rngs.get(forged).is_none(), "{forged:#x}");
            assert!(objects.keys.next(forged).is_none(), "{forged:#x}");
            assert!(objects.values.next(forged).is_none(), "{forged:#x}");
            assert_eq!(objects.describe(forged), "not a kb object", "{forged:#x}");
        }
    }

    #[test]
    fn a_list_has_an_end() {
        let mut objects = Objects::new();
        for seed in 0..OBJECTS_MAX as u64 {
            objects.rngs.add(Rng::from_seed(seed)).unwrap();
        }
        let why = objects.rngs.add(Rng::from_seed(0)).unwrap_err();
        assert!(why.contains("more than 4096") && why.contains("setup()"), "{why}");
    }

    #[test]
    fn the_first_to_ask_decides_where_a_counter_starts() {
        let counters = Counters::default();
        let (one, two) = (counters.named("c", 5), counters.clone().named("c", 9));
        assert_eq!((one.next(), two.next(), one.get()), (5, 6, 7));
        assert_eq!(counters.named("d", 9).get(), 9);
    }
}
