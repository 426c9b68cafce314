//! LATENCY: for each second in which a command took `latency-monitor-threshold` milliseconds or
//! more, the longest. The newest [`SAMPLES_MAX`] seconds of two events are kept: `command`, and
//! `fast-command` for commands that COMMAND calls fast.
//!
//! With the threshold 0, which is the default, nothing is noted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Seconds that are kept of an event, as in Redis.
const SAMPLES_MAX: usize = 160;

/// The events, in the order of their series.
const EVENTS: [&str; 2] = ["command", "fast-command"];

/// The longest of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) unix_s: u64,
    pub(crate) ms: u64,
}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// The oldest first.
    pub(crate) samples: VecDeque<Sample>,
    /// The longest since the last reset.
    pub(crate) max_ms: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Latency {
    pub(crate) threshold_ms: AtomicU64,
    series: Mutex<[Option<Series>; EVENTS.len()]>,
}

impl Latency {
    #[inline]
    pub(crate) fn is_slow(&self, ns: u64) -> bool {
        let threshold_ms = self.threshold_ms.load(Relaxed);
        threshold_ms > 0 && ns / 1_000_000 >= threshold_ms
    }

    /// Notes a command that took `ns`, if that is slow.
    pub(crate) fn note(&self, is_fast: bool, ns: u64, now_ms: u64) {
        if !self.is_slow(ns) {
            return;
        }
        let sample = Sample { unix_s: now_ms / 1000, ms: ns / 1_000_000 };
        let index = usize::from(is_fast);
        let mut all = self.series();
        let series = all[index].get_or_insert_with(|| Series {
            name: EVENTS[index],
            samples: VecDeque::new(),
            max_ms: 0,
        });
        series.max_ms = series.max_ms.max(sample.ms);
        match series.samples.back_mut() {
            Some(last) if last.unix_s == sample.unix_s => last.ms = last.ms.max(sample.ms),
            _ => {
                if series.samples.len() == SAMPLES_MAX {
                    series.samples.pop_front();
                }
                series.samples.push_back(sample);
            }
        }
    }

    /// The events that were noted.
    pub(crate) fn all(&self) -> Vec<Series> {
        self.series().iter().flatten().cloned().collect()
    }

    /// The event called `name`, in any case, if it was noted.
    pub(crate) fn named(&self, name: &[u8]) -> Option<Series> {
        self.all().into_iter().find(|series| series.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Forgets the events that `is_meant` names. How many there were.
    pub(crate) fn reset(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        let mut forgotten = 0;
        for series in self.series().iter_mut() {
            if series.take_if(|series| is_meant(series.name)).is_some() {
                forgotten += 1;
            }
        }
        forgotten
    }

    fn series(&self) -> MutexGuard<'_, [Option<Series>; EVENTS.len()]> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_longest_of_each_second_is_kept_for_the_newest_seconds() {
        let latency = Latency::default();
        latency.note(true, u64::MAX, 0);
        assert!(latency.all().is_empty() && !latency.is_slow(u64::MAX));
        latency.threshold_ms.store(5, Relaxed);
        assert!(!latency.is_slow(5 * MS - 1) && latency.is_slow(5 * MS));
        for (ms, now_ms) in [(4, 900), (7, 1000), (9, 1999), (6, 1500), (5, 2000)] {
            latency.note(false, ms * MS, now_ms);
        }
        let series = latency.named(b"COMMAND").unwrap();
        let samples: Vec<(u64, u64)> = series.samples.iter().map(|s| (s.unix_s, s.ms)).collect();
        assert_eq!((samples, series.max_ms), (vec![(1, 9), (2, 5)], 9));
        for second in 0..2 * SAMPLES_MAX as u64 {
            latency.note(true, 6 * MS, second * 1000);
        }
        let series = latency.named(b"fast-command").unwrap();
        assert_eq!(series.samples.len(), SAMPLES_MAX);
        assert_eq!(series.samples[0].unix_s, SAMPLES_MAX as u64);
        assert_eq!(latency.reset(|name| name == "command"), 1);
        assert_eq!((latency.reset(|_| true), latency.reset(|_| true)), (1, 0));
    }
}
