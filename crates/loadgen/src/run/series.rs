//! The seconds of a measurement, and the file of its samples.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_vfs::OutputFile;

use crate::account::{Live, Sampled, Second};
use crate::control::Ramp;
use crate::worker::Sample;

const SECOND_NS: u64 = 1_000_000_000;
/// A last second shorter than this is part of the one before.
const SECOND_NS_MIN: u64 = 50_000_000;

/// Looks at the threads once a second.
pub(super) struct Series<'a> {
    live: Vec<Arc<Live>>,
    clock: Clock,
    start: u64,
    /// The last look: when, and what was there.
    at: u64,
    seen: Sampled,
    seconds: Vec<Second>,
    /// The rate over time, and our part of it.
    ramp: Option<(&'a Ramp, f64)>,
}

impl<'a> Series<'a> {
    /// Before the measurement: what the threads have counted so far is not part of it.
    pub(super) fn new(
        live: &[Arc<Live>],
        start: u64,
        clock: Clock,
        ramp: Option<(&'a Ramp, f64)>,
    ) -> Series<'a> {
        let seen = Sampled::of(live.iter().map(|live| &**live));
        Series { live: live.to_vec(), clock, start, at: start, seen, seconds: Vec::new(), ramp }
    }

    fn next(&self) -> u64 {
        self.at.saturating_add(self.clock.ticks_of_ns(SECOND_NS))
    }

    /// How long until the next look.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_nanos(self.clock.ns_between(self.clock.ticks(), self.next()).max(1000))
    }

    /// Looks, if a second is over and the measurement is not.
    pub(super) fn look(&mut self, end: u64) -> Option<&Second> {
        let now = self.clock.ticks();
        if now < self.next() || self.next() > end {
            return None;
        }
        self.sample(now);
        self.seconds.last()
    }

    fn sample(&mut self, now: u64) {
        let sampled = Sampled::of(self.live.iter().map(|live| &**live));
        let Sampled { ops, misses, errors, latency, .. } = sampled.since(&self.seen);
        let end_s = self.clock.ns_between(self.start, now) as f64 / 1e9;
        let length_s = self.clock.ns_between(self.at, now) as f64 / 1e9;
        let due = |ramp: &Ramp| ramp.count_at(end_s) - ramp.count_at(end_s - length_s);
        self.seconds.push(Second {
            end_s,
            length_s,
            offered_per_s: self.ramp.map(|(ramp, share)| share * due(ramp) / length_s.max(1e-9)),
            ops,
            misses,
            errors,
            latency,
        });
        (self.at, self.seen) = (now, sampled);
    }

    /// All seconds; what is left of the last is one as well.
    pub(super) fn finish(mut self, end: u64) -> Vec<Second> {
        if self.clock.ns_between(self.at, end) >= SECOND_NS_MIN {
            self.sample(end);
        }
        self.seconds
    }
}

/// Writes samples as they come: seconds since the start of the program, and microseconds.
pub(super) fn write_samples(
    file: &mut OutputFile,
    origin_s: f64,
    batches: &Receiver<Vec<Sample>>,
) -> keyrack_vfs::Result<()> {
    let mut failure = None;
    let mut text = String::new();
    for batch in batches {
        // The threads must not wait for a disk that is full: the rest is taken, and dropped.
        if failure.is_some() {
            continue;
        }
        text.clear();
        for sample in batch {
            let start_s = origin_s + sample.start_ns as f64 / 1e9;
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{start_s:.6} {:.3}", sample.latency_ns as f64 / 1e3);
        }
        failure = file.append(text.as_bytes()).err();
    }
    failure.map_or(Ok(()), Err)
}
