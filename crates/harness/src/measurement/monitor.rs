//! The leader's view of a running phase: ticks for people, rows for the timeline, guards.

use super::roles::{Role, TimedPhase};
use super::{Measurement, RowSink};
use crate::live::{self, LiveWorker, Totals};
use crate::observer::{At, Event, Observer};
use crate::pin::CpuAssignment;
use crate::probe::{LinuxHost, Sampler};
use crate::rows;
use crate::seconds::Seconds;
use crate::stage::Stage;
use crate::worker::WorkerMessage;
use keyrack_measure::LiveCounter;
use keyrack_record::{LOOK_S, Pace, PaceKeeper, Phase, TimelineRow};
use keyrack_store::Store;
use keyrack_trace::Recorder;
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Of an interval between samples; what is left at the end of a phase and is shorter is no sample.
const LAST_SHARE_MIN: f64 = 0.1;
/// Threads that workers have started are looked for this often.
const FREEING_S: f64 = 0.05;

/// The leader's view of a running phase: ticks for people, rows for the timeline, guards.
pub(super) struct Progress<'a> {
    measurement: &'a Measurement<'a>,
    store: &'a dyn Store,
    dir: Option<&'a std::path::Path>,
    version: &'a str,
    lives: &'a [LiveWorker],
    /// The timed phase; `None` while loading.
    timed: Option<&'a TimedPhase>,
    /// When the stop flag was first seen, in seconds since the phase began.
    stop_seen_s: Option<f64>,
    /// How evenly a timed phase went, once it is over: one entry for each of its cells.
    pub(super) paces: Vec<Option<Pace>>,
}

impl<'a> Progress<'a> {
    pub(super) fn new(
        measurement: &'a Measurement<'a>,
        stage: &'a Stage,
        version: &'a str,
        lives: &'a [LiveWorker],
        timed: Option<&'a TimedPhase>,
    ) -> Self {
        let (store, dir) = (stage.store(), stage.dir());
        let (stop_seen_s, paces) = (None, Vec::new());
        Progress { measurement, store, dir, version, lives, timed, stop_seen_s, paces }
    }

    fn phase(&self) -> Phase {
        if self.timed.is_some() { Phase::Run } else { Phase::Seed }
    }

    /// Workers of each cell with results: all of them, then role by role.
    fn parts(&self) -> Vec<&'a [LiveWorker]> {
        let mut parts = vec![self.lives];
        if let Some(timed) = self.timed.filter(|timed| timed.has_roles()) {
            let range = |role: &Role| role.workers.start as usize..role.workers.end as usize;
            parts.extend(timed.roles.iter().map(|role| &self.lives[range(role)]));
        }
        parts
    }

    /// Samples until every worker has said that it is done. Calls `begun` at the start tick, and
    /// where a warm-up comes first again when it is over: the last call is when numbers begin.
    #[expect(clippy::too_many_arguments, reason = "one call site, each argument its own thing")]
    pub(super) fn follow(
        &mut self,
        start: u64,
        threads: u32,
        cpus: &CpuAssignment,
        messages: &Receiver<WorkerMessage>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
        begun: &mut dyn FnMut(),
    ) {
        begun();
        let m = self.measurement;
        let clock = &m.clock;
        let phase = self.phase();
        let warmup_s = self.timed.map_or(0.0, |timed| timed.warmup_s);
        let interval_s = m.interval_s(phase);
        let host = LinuxHost;
        let sampler = interval_s.map(|_| RefCell::new(Sampler::new(&host)));
        let mut seconds = observer.wants_seconds().then(|| Seconds::new(&host));
        let cells = self.timed.map_or(std::slice::from_ref(m.cell), |timed| &timed.cells);
        let parts = self.parts();
        let mut timelines: Vec<rows::Timeline> = cells
            .iter()
            .map(|cell| rows::Timeline::new(cell, self.version, m.repeat, phase))
            .collect();
        let mut next_sample = interval_s.unwrap_or(f64::INFINITY);
        // When the warm-up is over.
        let mut next_begin = if warmup_s > 0.0 { 0.0 } else { f64::INFINITY };
        let (mut next_tick, mut next_guard) = (1.0_f64, 1.0 - warmup_s);
        let mut last = (0.0, 0);
        let mut sampled_s = 0.0;
        let (mut waiting, mut end) = (threads, 0);
        let mut broken = false;
        let (lives, store, dir) = (self.lives, self.store, self.dir);
        let elapsed_at = |tick: u64| clock.ns_between(start, tick) as f64 / 1e9 - warmup_s;
        let is_fake = m.has_fake_clock();
        // Samples at the moment that is told, or now where the clock has gone on since.
        let mut sample = |told: Option<f64>, rows: &mut dyn FnMut(TimelineRow)| {
            let totals: Vec<Totals> = parts.iter().map(|part| Totals::of(part.iter())).collect();
            // Counts that are younger than their time would be missing from the next sample.
            let elapsed = told.unwrap_or_else(|| elapsed_at(clock.ticks()));
            let system = sampler.as_ref().map(|s| s.borrow_mut().sample(elapsed));
            let system = system.unwrap_or_default();
            let dir = dir.map(|dir| (&*m.plan.surroundings.fs, dir));
            for (index, (timeline, totals)) in timelines.iter_mut().zip(totals).enumerate() {
                // Engine and machine are those of the whole phase.
                let context = rows::SampleContext { store, system: &system, dir };
                timeline.sample(elapsed, totals, (index == 0).then_some(&context), rows);
            }
            elapsed
        };
        // A fake clock has moments at which somebody looks, and no time between them.
        let is_kept = phase == Phase::Run && !is_fake;
        let kept = self.parts();
        let mut keepers: Vec<PaceKeeper> =
            kept.iter().filter(|_| is_kept).map(|_| PaceKeeper::default()).collect();
        let (mut seen, mut next_freeing) = (HashSet::new(), 0.0);
        loop {
            // The stop flag is set by a signal handler, which wakes nobody.
            let mut wait = if is_kept { LOOK_S } else { 0.1 };
            if !is_fake {
                let next = next_tick.min(next_sample).min(next_begin);
                wait = (next - elapsed_at(clock.ticks())).clamp(0.0, wait);
            }
            // The sender within a look is dropped at the end of the round: the worker goes on.
            let (now, look) = match messages.recv_timeout(Duration::from_secs_f64(wait)) {
                Ok(WorkerMessage::Ended(tick)) => {
                    (waiting, end) = (waiting - 1, end.max(tick));
                    if waiting == 0 {
                        break;
                    }
                    continue;
                }
                Ok(WorkerMessage::SampleDue(tick, look)) => (tick, Some(look)),
                Ok(WorkerMessage::Notice { thread, text, is_warning }) => {
                    self.report_notice(observer, thread, &text, is_warning);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                // Our own fake clock knows nothing of theirs.
                Err(RecvTimeoutError::Timeout) if is_fake => continue,
                Err(RecvTimeoutError::Timeout) => (clock.ticks(), None),
            };
            let elapsed = elapsed_at(now);
            if elapsed + warmup_s >= next_freeing {
                cpus.free_others(&host, &mut seen);
                next_freeing = elapsed + warmup_s + FREEING_S;
            }
            if elapsed >= next_begin {
                begun();
                // What the machine did in the warm-up is not of the first sample.
                sampler.iter().for_each(|sampler| *sampler.borrow_mut() = Sampler::new(&host));
                seconds = seconds.map(|_| Seconds::new(&host));
                next_begin = f64::INFINITY;
            }
            for (keeper, part) in keepers.iter_mut().zip(&kept).filter(|_| elapsed > 0.0) {
                let (progress, units) = live::progress(part);
                keeper.look(elapsed, progress, units);
            }
            if elapsed >= next_guard {
                self.guard_space();
                next_guard = elapsed + 1.0;
            }
            if elapsed >= next_tick {
                let units = self.count();
                let rate = (units.saturating_sub(last.1)) as f64 / (elapsed - last.0);
                last = (elapsed, units);
                next_tick = elapsed.floor() + 1.0;
                self.report_tick(observer, elapsed, units, rate);
                if let Some(second) =
                    seconds.as_mut().and_then(|seconds| seconds.look(elapsed, lives))
                {
                    observer.second(&m.at(self.version, self.timed), &second);
                }
            }
            if let Some(interval_s) = interval_s
                && (elapsed >= next_sample || look.is_some())
            {
                sampled_s = sample(is_fake.then_some(elapsed), rows);
                // A late sample does not bring the next one forward.
                next_sample = ((elapsed / interval_s).floor() + 1.0) * interval_s;
            }
            if !broken && self.is_overdue(elapsed) {
                broken = true;
                m.breaker.break_all();
            }
        }
        if next_begin.is_finite() {
            // All was over before anybody looked: next to nothing, and not the warm-up.
            begun();
        }
        let finished = keepers.into_iter().zip(&kept).map(|(mut keeper, part)| {
            let (elapsed, (progress, units)) = (elapsed_at(end), live::progress(part));
            keeper.look(elapsed, progress, units);
            Some(keeper.finish(elapsed))
        });
        self.paces = finished.collect();
        // Of the moment at which the last worker ended. The rate of next to no time is none.
        let end_s = elapsed_at(end);
        if interval_s.is_some_and(|s| sampled_s <= 0.0 || end_s - sampled_s >= s * LAST_SHARE_MIN) {
            sample(Some(end_s), rows);
        }
        if let Some(second) = seconds.and_then(|mut seconds| seconds.look(elapsed_at(end), lives)) {
            observer.second(&m.at(self.version, self.timed), &second);
        }
        observer.event(&Event::Finished);
    }

    fn count(&self) -> u64 {
        match self.phase() {
            Phase::Seed => Totals::of(self.lives.iter()).prim_ops(),
            _ => self.lives.iter().map(|live| &live.units).map(LiveCounter::get).sum(),
        }
    }

    fn report_tick(&self, observer: &mut dyn Observer, elapsed_s: f64, units: u64, rate: f64) {
        let m = self.measurement;
        let at = m.at(self.version, self.timed);
        let is_job = m.workload.is_jobs();
        observer.event(&match self.phase() {
            Phase::Seed => {
                let total = m.workload.load_keys;
                Event::SeedTick { at, elapsed_s, keys: units, keys_per_s: rate, total }
            }
            _ => Event::Tick {
                at,
                elapsed_s,
                // How much a job does in all is the job's affair.
                budget_s: self.timed.filter(|_| !is_job).and_then(TimedPhase::secs),
                units,
                total: self.timed.filter(|_| !is_job).and_then(TimedPhase::ops),
                units_per_s: rate,
            },
        });
    }

    /// Tells the user what a job says: a warning wherever the user looks.
    fn report_notice(
        &self,
        observer: &mut dyn Observer,
        thread: u32,
        text: &str,
        is_warning: bool,
    ) {
        let at = self.measurement.at(self.version, self.timed);
        if is_warning {
            let At { workload, engine, threads, .. } = at;
            observer.event(&Event::Note(&format!("{workload} on {engine} t{threads}: {text}")));
        } else {
            observer.event(&Event::Notice { at, thread, text });
        }
    }

    /// Whether the phase should have ended `--unit-timeout` ago.
    fn is_overdue(&mut self, elapsed_s: f64) -> bool {
        let m = self.measurement;
        let grace = m.plan.settings.unit_timeout;
        let stopped = m.stop.is_set().then(|| {
            let seen = *self.stop_seen_s.get_or_insert(elapsed_s);
            elapsed_s - seen
        });
        let deadline = self.timed.and_then(TimedPhase::secs).map(|secs| elapsed_s - secs);
        let limit = if stopped.is_some() { grace.min(2.0) } else { grace };
        stopped.into_iter().chain(deadline).any(|late| late > limit)
    }

    /// Ends the run when the disk is about to fill.
    fn guard_space(&self) {
        let m = self.measurement;
        let min_free = m.plan.settings.min_free;
        if m.recorder.is_some_and(Recorder::has_failed) {
            m.stop.set("the trace of --record cannot be written");
        }
        let Some(dir) = self.dir.filter(|_| min_free > 0) else { return };
        match m.plan.surroundings.fs.space(dir) {
            Ok(space) if space.free_bytes >= min_free => {}
            Ok(_) => m.stop.set("the data directory has less free space than --min-free"),
            Err(error) => m.stop.set(&format!("--min-free: {error}")),
        }
    }
}
