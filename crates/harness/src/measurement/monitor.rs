//! The leader of a running phase: it waits for messages of the workers, and between them looks at
//! what they count.
//!
//! ```text
//!   wait for a message, at most until something is due
//!     ended      --> one worker fewer; the last one ends the phase
//!     notice     --> the observer
//!     sample due --> as below, of the worker's moment (fake clocks)
//!     nothing    --> CPUs, end of the warm-up, paces, free space, tick, sample, overdue workers
//! ```

use super::guards::Guards;
use super::running::{Reports, RunningPhase};
use super::sampling::{Paces, Sampling};
use crate::observer::{At, Event};
use crate::pin::CpuAssignment;
use crate::probe::LinuxHost;
use crate::seconds::Seconds;
use crate::timed_phase::TimedPhase;
use crate::worker_message::WorkerMessage;
use keyrack_record::{LOOK_S, Pace, Phase};
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Seconds between two looks for threads that workers have started.
const FREEING_S: f64 = 0.05;
/// The longest wait for a message. A signal handler sets the stop flag and wakes nobody.
const WAIT_S_MAX: f64 = 0.1;

/// The leader of a running phase.
pub(super) struct Monitor<'a, 'r> {
    phase: RunningPhase<'a>,
    reports: Reports<'r>,
    /// The tick at which all workers start.
    start: u64,
    is_fake: bool,
    /// Workers that have not ended, and the tick at which the last one did.
    waiting: u32,
    end: u64,
    sampling: Option<Sampling<'a>>,
    paces: Paces<'a>,
    guards: Guards<'a>,
    seconds: Option<Seconds<'static>>,
    ticks: Ticks,
    /// When the warm-up is over; infinite once it is.
    next_begin_s: f64,
    /// When threads are looked for next, from the start of the warm-up, and those that were found.
    next_freeing_s: f64,
    seen: HashSet<i32>,
}

/// The tick of each second: when the next one is due, and time and units of the last.
struct Ticks {
    next_s: f64,
    last: (f64, u64),
}

impl<'a, 'r> Monitor<'a, 'r> {
    /// A phase whose workers start at `start`.
    pub(super) fn new(phase: RunningPhase<'a>, reports: Reports<'r>, start: u64) -> Self {
        (reports.begun)();
        Monitor {
            sampling: Sampling::new(phase),
            paces: Paces::new(phase),
            guards: Guards::new(phase),
            seconds: reports.observer.wants_seconds().then(|| Seconds::new(&LinuxHost)),
            ticks: Ticks { next_s: 1.0, last: (0.0, 0) },
            next_begin_s: if phase.warmup_s() > 0.0 { 0.0 } else { f64::INFINITY },
            next_freeing_s: 0.0,
            seen: HashSet::new(),
            is_fake: phase.measurement.has_fake_clock(),
            waiting: phase.workers(),
            end: 0,
            phase,
            reports,
            start,
        }
    }

    /// Follows the workers until each has said that it has ended. The paces of the phase, one for
    /// each cell with results.
    pub(super) fn follow(
        mut self,
        cpus: &CpuAssignment,
        messages: &Receiver<WorkerMessage>,
    ) -> Vec<Option<Pace>> {
        while self.waiting > 0 {
            // The worker whose sample is due goes on when the sender is dropped, after the look.
            let (now, worker) = match messages.recv_timeout(self.wait()) {
                Ok(WorkerMessage::Ended(tick)) => {
                    (self.waiting, self.end) = (self.waiting - 1, self.end.max(tick));
                    continue;
                }
                Ok(WorkerMessage::SampleDue(tick, worker)) => (tick, Some(worker)),
                Ok(WorkerMessage::Notice { thread, text, is_warning }) => {
                    self.report_notice(thread, &text, is_warning);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                // The leader's own fake clock knows nothing of the workers' clocks.
                Err(RecvTimeoutError::Timeout) if self.is_fake => continue,
                Err(RecvTimeoutError::Timeout) => (self.phase.measurement.clock.ticks(), None),
            };
            let elapsed_s = self.phase.elapsed_s(self.start, now);
            self.free_threads(elapsed_s, cpus);
            self.end_warmup(elapsed_s);
            self.paces.look(elapsed_s);
            self.guards.look_at_space(elapsed_s);
            self.tick(elapsed_s);
            self.sample(elapsed_s, worker.is_some());
            self.guards.break_overdue(elapsed_s);
        }
        self.finish()
    }

    /// How long to wait for a message.
    fn wait(&self) -> Duration {
        let mut wait_s = if self.paces.is_kept() { LOOK_S } else { WAIT_S_MAX };
        if !self.is_fake {
            let next_sample_s = self.sampling.as_ref().map_or(f64::INFINITY, Sampling::next_s);
            let next_s = self.ticks.next_s.min(next_sample_s).min(self.next_begin_s);
            let now_s = self.phase.elapsed_s(self.start, self.phase.measurement.clock.ticks());
            wait_s = (next_s - now_s).clamp(0.0, wait_s);
        }
        Duration::from_secs_f64(wait_s)
    }

    /// Gives threads that workers have started all CPUs.
    fn free_threads(&mut self, elapsed_s: f64, cpus: &CpuAssignment) {
        let since_start_s = elapsed_s + self.phase.warmup_s();
        if since_start_s >= self.next_freeing_s {
            cpus.free_others(&LinuxHost, &mut self.seen);
            self.next_freeing_s = since_start_s + FREEING_S;
        }
    }

    fn end_warmup(&mut self, elapsed_s: f64) {
        if elapsed_s >= self.next_begin_s {
            (self.reports.begun)();
            // What the machine did in the warm-up is not of the first sample.
            self.sampling.iter_mut().for_each(Sampling::restart);
            self.seconds = self.seconds.take().map(|_| Seconds::new(&LinuxHost));
            self.next_begin_s = f64::INFINITY;
        }
    }

    /// Reports the second that is over.
    fn tick(&mut self, elapsed_s: f64) {
        if elapsed_s < self.ticks.next_s {
            return;
        }
        let units = self.phase.count();
        let (last_s, last_units) = self.ticks.last;
        let rate = (units.saturating_sub(last_units)) as f64 / (elapsed_s - last_s);
        self.ticks = Ticks { next_s: elapsed_s.floor() + 1.0, last: (elapsed_s, units) };
        self.report_tick(elapsed_s, units, rate);
        self.report_second(elapsed_s);
    }

    fn report_second(&mut self, elapsed_s: f64) {
        let second = self.seconds.as_mut();
        if let Some(second) = second.and_then(|s| s.look(elapsed_s, self.phase.lives)) {
            self.reports.observer.second(&self.phase.at(), &second);
        }
    }

    /// Takes the sample that is due, or that a worker with a fake clock waits for.
    fn sample(&mut self, elapsed_s: f64, is_asked: bool) {
        let Some(sampling) = &mut self.sampling else { return };
        if elapsed_s >= sampling.next_s() || is_asked {
            let (phase, start) = (self.phase, self.start);
            let now_s = || phase.elapsed_s(start, phase.measurement.clock.ticks());
            let moment = self.is_fake.then_some(elapsed_s);
            sampling.look(elapsed_s, moment, &now_s, self.reports.rows);
        }
    }

    fn finish(mut self) -> Vec<Option<Pace>> {
        if self.next_begin_s.is_finite() {
            // All was over before anybody looked: next to nothing, and not the warm-up.
            (self.reports.begun)();
        }
        let end_s = self.phase.elapsed_s(self.start, self.end);
        if let Some(sampling) = self.sampling.take() {
            sampling.finish(end_s, self.reports.rows);
        }
        self.report_second(end_s);
        self.reports.observer.event(&Event::Finished);
        self.paces.finish(end_s)
    }

    fn report_tick(&mut self, elapsed_s: f64, units: u64, rate: f64) {
        let at = self.phase.at();
        let workload = self.phase.measurement.workload;
        // How much a job does in all, it alone knows.
        let timed = self.phase.timed.filter(|_| !workload.is_jobs());
        self.reports.observer.event(&match self.phase.kind() {
            Phase::Seed => Event::SeedTick {
                at,
                elapsed_s,
                keys: units,
                keys_per_s: rate,
                total: workload.load_keys,
            },
            _ => Event::Tick {
                at,
                elapsed_s,
                budget_s: timed.and_then(TimedPhase::secs),
                units,
                total: timed.and_then(TimedPhase::ops),
                units_per_s: rate,
            },
        });
    }

    /// Reports what a job says. A warning is a note, which no observer leaves out.
    fn report_notice(&mut self, thread: u32, text: &str, is_warning: bool) {
        let at = self.phase.at();
        let observer = &mut *self.reports.observer;
        if is_warning {
            let At { workload, engine, threads, .. } = at;
            observer.event(&Event::Note(&format!("{workload} on {engine} t{threads}: {text}")));
        } else {
            observer.event(&Event::Notice { at, thread, text });
        }
    }
}
