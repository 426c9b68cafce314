//! `stats detail`: commands counted by the prefix of their keys, what stands before the first `:`.
//! Keys without one are not counted. It is off until a client asks for it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Prefixes that are counted; those that come later are not.
const PREFIXES_MAX: usize = 1000;

/// The effect of a command on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Hit,
    Miss,
    Set,
    Delete,
}

/// The counters of one prefix.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Detail {
    is_on: AtomicBool,
    prefixes: Mutex<BTreeMap<Vec<u8>, Counts>>,
}

impl Detail {
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub(super) fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// Counts a command on `key`, if `stats detail` is on. Off, it costs one load.
    #[inline]
    pub(super) fn note(&self, key: &[u8], event: Event) {
        if self.is_on() {
            self.count(key, event);
        }
    }

    #[cold]
    fn count(&self, key: &[u8], event: Event) {
        let Some(end) = key.iter().position(|byte| *byte == b':') else { return };
        let mut prefixes = self.prefixes();
        if !prefixes.contains_key(&key[..end]) && prefixes.len() >= PREFIXES_MAX {
            return;
        }
        let counts = prefixes.entry(key[..end].to_vec()).or_default();
        match event {
            Event::Hit => (counts.gets, counts.hits) = (counts.gets + 1, counts.hits + 1),
            Event::Miss => counts.gets += 1,
            Event::Set => counts.sets += 1,
            Event::Delete => counts.deletes += 1,
        }
    }

    /// Writes the lines of `stats detail dump`, without the last one.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (prefix, counts) in self.prefixes().iter() {
            out.extend_from_slice(b"PREFIX ");
            out.extend_from_slice(prefix);
            let Counts { gets, hits, sets, deletes } = counts;
            // Writing to a vector does not fail.
            let _ = write!(out, " get {gets} hit {hits} set {sets} del {deletes}\r\n");
        }
    }

    pub(super) fn reset(&self) {
        self.prefixes().clear();
    }

    fn prefixes(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Counts>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_counted_while_it_is_on_and_up_to_a_limit() {
        let detail = Detail::default();
        detail.note(b"a:1", Event::Hit);
        detail.switch(true);
        for event in [Event::Hit, Event::Miss, Event::Set, Event::Delete] {
            detail.note(b"a:1", event);
            detail.note(b"none", event);
        }
        for index in 0..2 * PREFIXES_MAX {
            detail.note(format!("p{index:05}:k").as_bytes(), Event::Set);
        }
        let mut out = Vec::new();
        detail.write(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().next(), Some("PREFIX a get 2 hit 1 set 1 del 1"));
        assert_eq!(text.lines().count(), PREFIXES_MAX);
    }
}
