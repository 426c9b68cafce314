//! SLOWLOG: the newest commands that took longer than `slowlog-log-slower-than` microseconds.
//!
//! The durations are those of INFO commandstats: execution alone, without reading the request and
//! sending the reply. Neighbouring GETs that are looked up together are one entry, with the keys of
//! all and their common duration. A command in slices is one entry with the time of all its slices.
//!
//! **Invariants:** there are at most `slowlog-max-len` entries, and never more than
//! [`ENTRIES_MAX`]. An entry has at most [`ARGS_MAX`] arguments of [`ARG_BYTES_MAX`] bytes and a
//! note, so the log is bounded by 20 MiB. No password is in it (see `shown`).

use crate::redis::shown::Shown;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Arguments of an entry, the command's name included.
const ARGS_MAX: usize = 32;

/// Bytes of an argument.
const ARG_BYTES_MAX: usize = 128;

/// The most that `slowlog-max-len` can be.
pub(crate) const ENTRIES_MAX: u64 = 4096;

/// A slow command.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) unix_s: u64,
    pub(crate) duration_us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) name: String,
}

#[derive(Debug)]
pub(crate) struct SlowLog {
    /// Microseconds; below 0 nothing is slow.
    pub(crate) threshold_us: AtomicI64,
    pub(crate) entries_max: AtomicU64,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    /// The newest first.
    newest: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    pub(crate) fn new() -> Self {
        SlowLog {
            threshold_us: AtomicI64::new(10_000),
            entries_max: AtomicU64::new(128),
            entries: Mutex::default(),
        }
    }

    /// Whether a command that took `ns` is slow.
    #[inline]
    pub(crate) fn is_slow(&self, ns: u64) -> bool {
        let threshold_us = self.threshold_us.load(Relaxed);
        threshold_us >= 0 && ns / 1000 >= threshold_us.cast_unsigned()
    }

    /// Enters a command; the oldest make room.
    pub(crate) fn enter(&self, mut entry: Entry) {
        let entries_max = self.entries_max.load(Relaxed).min(ENTRIES_MAX);
        let mut entries = self.entries();
        entry.id = entries.next_id;
        entries.next_id += 1;
        entries.newest.push_front(entry);
        entries.newest.truncate(entries_max as usize);
    }

    /// The newest `count` entries.
    pub(crate) fn newest(&self, count: usize) -> Vec<Entry> {
        self.entries().newest.iter().take(count).cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries().newest.len()
    }

    pub(crate) fn reset(&self) {
        self.entries().newest.clear();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The arguments of an entry: those of a request, without passwords, shortened.
pub(crate) fn shortened(request: Shown<'_, '_>) -> Vec<Vec<u8>> {
    let count = request.len();
    let shown = if count > ARGS_MAX { ARGS_MAX - 1 } else { count };
    let mut args: Vec<Vec<u8>> = (0..shown).map(|index| shorten(request.arg(index))).collect();
    if shown < count {
        args.push(format!("... ({} more arguments)", count - shown).into_bytes());
    }
    args
}

fn shorten(arg: &[u8]) -> Vec<u8> {
    let mut short = arg[..arg.len().min(ARG_BYTES_MAX)].to_vec();
    if arg.len() > ARG_BYTES_MAX {
        short.extend_from_slice(
            format!("... ({} more bytes)", arg.len() - ARG_BYTES_MAX).as_bytes(),
        );
    }
    short
}

/// The arguments of an entry for GETs that were looked up together.
pub(crate) fn of_gets(keys: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut args = vec![b"GET".to_vec()];
    args.extend(keys.iter().take(ARGS_MAX - 2).map(|key| shorten(key)));
    if keys.len() > ARGS_MAX - 2 {
        let left = keys.len() - (ARGS_MAX - 2);
        args.push(format!("... ({left} more arguments)").into_bytes());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(duration_us: u64) -> Entry {
        let args = of_gets(&[b"k"]);
        let (peer, name) = (String::new(), String::new());
        Entry { id: 0, unix_s: 7, duration_us, args, peer, name }
    }

    #[test]
    fn the_newest_stay_and_ids_go_on() {
        let log = SlowLog::new();
        log.entries_max.store(3, Relaxed);
        (0..5).for_each(|us| log.enter(entry(us)));
        let ids: Vec<u64> = log.newest(10).iter().map(|entry| entry.id).collect();
        assert_eq!((ids, log.len()), (vec![4, 3, 2], 3));
        assert_eq!(log.newest(1)[0].duration_us, 4);
        log.reset();
        log.enter(entry(9));
        assert_eq!((log.len(), log.newest(1)[0].id), (1, 5));
        log.entries_max.store(u64::MAX, Relaxed);
        (0..ENTRIES_MAX + 5).for_each(|us| log.enter(entry(us)));
        assert_eq!(log.len() as u64, ENTRIES_MAX);
    }

    #[test]
    fn the_threshold_is_exact_and_can_be_off() {
        let log = SlowLog::new();
        assert!(!log.is_slow(9_999_999) && log.is_slow(10_000_000));
        log.threshold_us.store(0, Relaxed);
        assert!(log.is_slow(0));
        log.threshold_us.store(-1, Relaxed);
        assert!(!log.is_slow(u64::MAX));
    }

    #[test]
    fn many_or_long_arguments_are_cut_and_counted() {
        let long = [b'x'; ARG_BYTES_MAX + 3];
        let keys: Vec<&[u8]> = (0..40).map(|_| &long[..]).collect();
        let args = of_gets(&keys);
        assert_eq!(args.len(), ARGS_MAX);
        assert!(args[1].ends_with(b"x... (3 more bytes)"));
        assert_eq!(args[ARGS_MAX - 1], b"... (10 more arguments)");
        assert_eq!(of_gets(&keys[..30]).len(), 31);
    }
}
