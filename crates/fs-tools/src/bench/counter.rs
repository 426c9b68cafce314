//! The count of one phase of one rank: operations, failures, and the latency of each.

use super::names::Name;
use keyrack_measure::{Clock, Histogram};
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a phase of one rank came to. Times are those of a clock that all processes share.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) latency_ns: Histogram,
}

/// Counts a phase.
pub(super) struct Counter<'a> {
    pub(super) clock: Clock,
    measured: Measured,
    done: &'a AtomicU64,
    /// Whether the first failure ends the phase.
    aborts: bool,
}

impl Counter<'_> {
    /// Begins. `done` shows to other threads how many operations are done.
    pub(super) fn new(clock: Clock, done: &AtomicU64, aborts: bool) -> Counter<'_> {
        let measured = Measured {
            start_ns: Clock::vdso().ticks(),
            end_ns: 0,
            ops: 0,
            errors: 0,
            first_error: None,
            latency_ns: Histogram::new(),
        };
        Counter { clock, measured, done, aborts }
    }

    /// Counts operations that took so many ticks each.
    pub(super) fn ok(&mut self, ticks: u64, ops: u64) {
        self.measured.latency_ns.record_n(self.clock.ns(ticks), ops);
        self.measured.ops += ops;
        // Relaxed: a count for people.
        self.done.store(self.measured.ops, Ordering::Relaxed);
    }

    /// Counts a failure, or returns it if it ends the phase.
    pub(super) fn failed<E: Display>(&mut self, why: E) -> Result<(), E> {
        if self.aborts {
            return Err(why);
        }
        self.measured.errors += 1;
        self.measured.first_error.get_or_insert_with(|| why.to_string());
        Ok(())
    }

    /// Counts as failures what was counted as operations before.
    pub(super) fn failed_later(&mut self, count: u64, why: String) -> Result<(), String> {
        self.measured.ops = self.measured.ops.saturating_sub(count);
        self.measured.errors += count.saturating_sub(1);
        self.failed(why)
    }

    /// Does an operation for each name, with one reading of the clock between two. `after` follows
    /// each; its time counts for the next operation.
    pub(super) fn each<E: Display>(
        &mut self,
        names: &[Name],
        mut operation: impl FnMut(&Name) -> Result<(), E>,
        mut after: impl FnMut(&Name) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut before = self.clock.ticks();
        for name in names {
            let result = operation(name);
            let now = self.clock.ticks();
            match result {
                Ok(()) => self.ok(now.saturating_sub(before), 1),
                Err(error) => self.failed(error)?,
            }
            before = now;
            after(name)?;
        }
        Ok(())
    }

    /// Ends the phase.
    pub(super) fn end(mut self) -> Measured {
        self.measured.end_ns = Clock::vdso().ticks();
        self.measured
    }
}
