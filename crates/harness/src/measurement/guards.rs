//! What ends a phase before its time: a disk that is about to fill, and workers that do not end.

use super::running::RunningPhase;
use crate::timed_phase::TimedPhase;
use keyrack_trace::Recorder;

/// Seconds that workers have after a stop, unless `--unit-timeout` is shorter.
const STOP_GRACE_S: f64 = 2.0;

/// The guards of a running phase.
pub(super) struct Guards<'a> {
    phase: RunningPhase<'a>,
    /// When free space is looked at next.
    next_s: f64,
    /// When the stop flag was first seen.
    stop_seen_s: Option<f64>,
    has_broken: bool,
}

impl<'a> Guards<'a> {
    pub(super) fn new(phase: RunningPhase<'a>) -> Guards<'a> {
        Guards { phase, next_s: 1.0 - phase.warmup_s(), stop_seen_s: None, has_broken: false }
    }

    /// Looks at free space once a second.
    pub(super) fn look_at_space(&mut self, elapsed_s: f64) {
        if elapsed_s >= self.next_s {
            self.guard_space();
            self.next_s = elapsed_s + 1.0;
        }
    }

    /// Breaks the machines of workers that should have ended `--unit-timeout` ago.
    pub(super) fn break_overdue(&mut self, elapsed_s: f64) {
        if !self.has_broken && self.is_overdue(elapsed_s) {
            self.has_broken = true;
            self.phase.measurement.breaker.break_all();
        }
    }

    fn is_overdue(&mut self, elapsed_s: f64) -> bool {
        let measurement = self.phase.measurement;
        let grace_s = measurement.plan.settings.unit_timeout;
        let stopped = measurement.stop.is_set().then(|| {
            let seen_s = *self.stop_seen_s.get_or_insert(elapsed_s);
            elapsed_s - seen_s
        });
        let deadline = self.phase.timed.and_then(TimedPhase::secs).map(|secs| elapsed_s - secs);
        let limit_s = if stopped.is_some() { grace_s.min(STOP_GRACE_S) } else { grace_s };
        stopped.into_iter().chain(deadline).any(|late_s| late_s > limit_s)
    }

    /// Ends the run when the disk is about to fill.
    fn guard_space(&self) {
        let measurement = self.phase.measurement;
        let (stop, min_free) = (measurement.stop, measurement.plan.settings.min_free);
        if measurement.recorder.is_some_and(Recorder::has_failed) {
            stop.set("the trace of --record cannot be written");
        }
        let Some(dir) = self.phase.stage.dir().filter(|_| min_free > 0) else { return };
        match measurement.plan.surroundings.fs.space(dir) {
            Ok(space) if space.free_bytes >= min_free => {}
            Ok(_) => stop.set("the data directory has less free space than --min-free"),
            Err(error) => stop.set(&format!("--min-free: {error}")),
        }
    }
}
