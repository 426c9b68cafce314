//! One measurement: load a store with a workload's data, run the workload, count.
//!
//! The calling thread leads: it starts the workers, samples what they count, and joins them. It
//! never holds a lock that a worker needs. It samples by its own clock, or, where the clocks are
//! fake, whenever the first worker says that it is time (see [`crate::worker`]).

use crate::interrupt::Breaker;
use crate::live::{self, Kind, LiveWorker, Totals};
use crate::observer::{At, Event, Observer};
use crate::pin::{self, Pin};
use crate::plan::Plan;
use crate::probe::{LinuxHost, Sampler};
use crate::program::{MakeVerbs, Prepared, Workload};
use crate::recording::Recording;
use crate::rows;
use crate::seconds::Seconds;
use crate::settings::Bound;
use crate::stage::Stage;
use crate::verbs::{Mode, Verbs};
use crate::worker::{self, Job, Outcome, Rendezvous, Schedule, Until, Watch, Word, WorkerFailure};
use keyrack_measure::{Clock, ClockSource, LiveCounter, usage};
use keyrack_record::{
    Cell, LOOK_S, Load, OpStats, Pace, PaceKeeper, Phase, Repeat, ThreadRow, TimelineRow, Traffic,
    UnitStats,
};
use keyrack_store::Store;
use keyrack_trace::{Phase as RecordedPhase, Recorder};
use keyrack_workload::{ArrivalSchedule, Phase as StreamPhase, Rng};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What a measurement is of.
pub(crate) struct Measurement<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) workload: &'a Workload,
    pub(crate) prepared: &'a Prepared<'a>,
    pub(crate) cell: &'a Cell,
    pub(crate) repeat: u32,
    pub(crate) clock: Clock,
    /// Tick at which the whole run began.
    pub(crate) origin: u64,
    pub(crate) stop: &'a Stop,
    pub(crate) mode: Mode,
    pub(crate) breaker: Breaker,
    /// Where operations are written down, with `--record`.
    pub(crate) recorder: Option<&'a Recorder>,
    /// What is worth a note at the point.
    pub(crate) findings: &'a Mutex<Vec<String>>,
}

/// Why a run has to end early. Set once, by a signal handler, a full disk or a guard.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Looked at by every worker before every unit.
    pub flag: Arc<AtomicBool>,
    reason: Arc<OnceLock<String>>,
}

impl Stop {
    /// Whether the run is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Ends the run for `reason`; the first reason counts.
    pub fn set(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.flag.store(true, Ordering::Relaxed);
    }

    /// The reason, where one was given; a signal gives none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

/// Why a measurement produced no numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) reason: String,
    pub(crate) detail: String,
}

impl Failed {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Failed { reason: reason.into(), detail: String::new() }
    }
}

/// Receives timeline rows.
pub(crate) type RowSink<'r> = &'r mut dyn FnMut(TimelineRow);

impl Measurement<'_> {
    fn at<'b>(&'b self, engine: &'b str) -> At<'b> {
        At {
            workload: &self.workload.name,
            engine,
            threads: self.cell.threads,
            sweep: self.cell.sweep.as_ref().map(|s| (s.param.as_str(), s.value)),
            rate: self.cell.rate,
        }
    }

    /// The makers of verbs of a worker that count into `live`. Called on the worker's thread.
    fn maker<'s>(
        &self,
        (phase, thread): (RecordedPhase, u32),
        live: &'s LiveWorker,
        clock: &Clock,
    ) -> MakeVerbs<'s> {
        let (clock, mode) = (clock.share(), self.mode);
        let traced = self.plan.settings.trace_hash;
        let tape = self.recorder.map(|recorder| recorder.tape(phase, thread));
        let recording = tape.map(|tape| Recording::new(tape, self.origin));
        Rc::new(move |session| {
            let verbs = Verbs::new(session, clock.share(), live, mode, traced);
            verbs.recording(recording.clone())
        })
    }

    /// Fills the store. `None` when the workload has no load.
    pub(crate) fn load(
        &self,
        stage: &Stage,
        threads: u32,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
    ) -> Result<Option<Load>, Failed> {
        let has_rows = stage.is_kept() && has_rows(stage.store())?;
        self.prepared.note_rows(has_rows);
        if let Some(job) = self.workload.wants_fresh()
            && has_rows
        {
            return Err(Failed::new(format!(
                "{job} wants a store without rows, and the one of --store has some"
            )));
        }
        if !self.workload.has_load {
            return Ok(None);
        }
        // A job decides by itself.
        if has_rows && !self.workload.is_jobs() {
            return Ok(Some(Load { wall_s: 0.0, keys: 0, threads, reused: true }));
        }
        let version = stage.store().version();
        let lives = live_workers(threads);
        observer.event(&Event::Seeding { at: self.at(&version), threads });
        let rendezvous = Rendezvous::default();
        let mut progress = Progress::new(self, stage, &version, &lives, Phase::Seed);
        let outcomes =
            self.phase(threads, &mut progress, observer, rows, &rendezvous, |t, leader| {
                let clock = self.clock.clone();
                let place = (RecordedPhase::Load, t);
                let make = self.maker(place, &lives[t as usize], &clock);
                let who = (t, threads);
                let task = worker::build(|| {
                    self.prepared.task(StreamPhase::Load, who, stage.store(), &make, &self.breaker)
                });
                let live = &lives[t as usize];
                worker::load(task, &clock, &rendezvous, &self.stop.flag, live, leader)
            });
        let (start, end) = span(&outcomes);
        let totals = Totals::of(lives.iter());
        check(&outcomes, self.stop)?;
        if totals.errors() > 0 {
            let first = first_error(&outcomes).unwrap_or_default();
            return Err(Failed::new(format!(
                "{} engine errors while loading: {first}",
                totals.errors()
            )));
        }
        let wall_s = self.clock.ns_between(start, end) as f64 / 1e9;
        let keys = totals.prim_ops();
        observer.event(&Event::Seeded { at: self.at(&version), elapsed_s: wall_s, keys });
        Ok(Some(Load { wall_s, keys, threads, reused: false }))
    }

    /// Runs the timed phase.
    pub(crate) fn run(
        &self,
        stage: &Stage,
        load: Option<Load>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
    ) -> Result<Repeat, Failed> {
        let settings = &self.plan.settings;
        let threads = self.cell.threads;
        let workers = threads + self.workload.beside();
        let version = stage.store().version();
        let lives = live_workers(workers);
        // What setup() and the warm-up count is thrown away.
        let before = live_workers(workers);
        let repeats = settings.repeat;
        observer.event(&Event::Running { at: self.at(&version), repeat: self.repeat, repeats });
        let rendezvous = Rendezvous::default();
        let mut progress = Progress::new(self, stage, &version, &lives, Phase::Run);
        let mut cpu_before = usage::process();
        let outcomes = {
            let (cpu, meet) = (&mut cpu_before, &rendezvous);
            self.phase_started(workers, &mut progress, observer, rows, meet, cpu, |t, leader| {
                let clock = self.clock.clone();
                let place = (RecordedPhase::Warmup, t);
                let make = self.maker(place, &before[t as usize], &clock);
                let who = (t, threads);
                let task = worker::build(|| {
                    self.prepared.task(StreamPhase::Run, who, stage.store(), &make, &self.breaker)
                });
                let job = self.job(t, &lives[t as usize], leader);
                worker::run(task, &clock, meet, job)
            })
        };
        let cpu_after = usage::process();
        check(&outcomes, self.stop)?;
        if outcomes.iter().any(|outcome| outcome.no_space) {
            self.stop.set("the disk is full");
        }
        let cpu_ns = (cpu_after.user_ns + cpu_after.system_ns)
            .saturating_sub(cpu_before.user_ns + cpu_before.system_ns);
        self.note_differences(&outcomes);
        let pace = progress.pace.take();
        Ok(Repeat { pace, ..self.repeat_of(&lives, &outcomes, load, cpu_ns) })
    }

    /// How a replay's results differ from those that were recorded.
    fn note_differences(&self, outcomes: &[Outcome]) {
        let sum = |pick: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(pick).sum::<u64>();
        let compared = sum(&|outcome| outcome.differences.compared);
        let differ = sum(&|outcome| outcome.differences.differ);
        if compared > 0 {
            let note = match differ {
                0 => format!("replay: {compared} results compared, all as recorded"),
                _ => format!("replay: {differ} of {compared} results are not as recorded"),
            };
            self.findings.lock().unwrap_or_else(PoisonError::into_inner).push(note);
        }
    }

    fn job<'l>(&'l self, thread: u32, live: &'l LiveWorker, leader: &Sender<Word>) -> Job<'l> {
        let settings = &self.plan.settings;
        let threads = self.cell.threads;
        let trace = self.workload.trace();
        let arrivals = self.cell.rate.and_then(|rate| {
            if let Some(trace) = trace {
                return Some(Schedule::Recorded(Box::new(trace.offsets((thread, threads))?)));
            }
            let rng = Rng::stream(settings.seed, StreamPhase::Other(1), thread, 0);
            let share = rate / f64::from(threads);
            let schedule = ArrivalSchedule::new(settings.arrivals, share, rng).ok()?;
            Some(Schedule::Drawn(schedule.staggered(thread, threads)))
        });
        Job {
            warmup_ns: (settings.warmup * 1e9) as u64,
            until: match self.workload.bound() {
                Bound::Secs(secs) => Until::Ns((secs * 1e9) as u64),
                Bound::Ops(ops) => {
                    let (n, of) = (u64::from(thread), u64::from(threads));
                    let share = ops / of + u64::from(n < ops % of);
                    Until::Count(match trace.map(|trace| trace.count_of(thread, threads)) {
                        // All of it, or a beginning of each thread's.
                        Some(own) if ops >= trace.map_or(0, |t| t.survey.timed_records()) => own,
                        Some(own) => share.min(own),
                        None => share,
                    })
                }
            },
            arrivals,
            live,
            stop: &self.stop.flag,
            leader: leader.clone(),
            watch: (thread == 0 && self.has_fake_clock()).then(|| Watch {
                leader: leader.clone(),
                every_ns: (self.interval_s(Phase::Run).unwrap_or(1.0) * 1e9) as u64,
            }),
        }
    }

    fn has_fake_clock(&self) -> bool {
        self.clock.source() == ClockSource::Fake
    }

    /// Seconds between two samples, where any are taken.
    fn interval_s(&self, phase: Phase) -> Option<f64> {
        let timeline = self.plan.settings.timeline;
        (timeline > 0.0).then_some(match phase {
            Phase::Seed => timeline.min(0.25),
            Phase::Run => timeline,
        })
    }

    fn phase<F>(
        &self,
        threads: u32,
        progress: &mut Progress<'_>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
        rendezvous: &Rendezvous,
        work: F,
    ) -> Vec<Outcome>
    where
        F: Fn(u32, &Sender<Word>) -> Outcome + Sync,
    {
        let mut ignored = usage::process();
        self.phase_started(threads, progress, observer, rows, rendezvous, &mut ignored, work)
    }

    /// Runs `work` on every worker, samples while they work, and joins them.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call site a phase, each argument its own thing"
    )]
    fn phase_started<F>(
        &self,
        threads: u32,
        progress: &mut Progress<'_>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
        rendezvous: &Rendezvous,
        cpu: &mut usage::Usage,
        work: F,
    ) -> Vec<Outcome>
    where
        F: Fn(u32, &Sender<Word>) -> Outcome + Sync,
    {
        let (done, finished) = channel();
        let settings = &self.plan.settings;
        let cpus = match settings.cpus.as_slice() {
            [] => settings.pin.cpus(threads),
            _ if settings.pin == Pin::Never => Vec::new(),
            cpus => cpus.to_vec(),
        };
        std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for thread in 0..threads {
                let (done, work, cpus) = (done.clone(), &work, &cpus);
                let body = move || {
                    // Sent when the thread ends in any way, so that the leader never waits for it.
                    let mut done = Done { leader: done, end: 0 };
                    pin::pin_to(cpus, thread);
                    let outcome = work(thread, &done.leader);
                    done.end = outcome.end;
                    outcome
                };
                let name = format!("worker-{thread}");
                match std::thread::Builder::new().name(name).spawn_scoped(scope, body) {
                    Ok(handle) => handles.push(handle),
                    Err(error) => return vec![no_thread(&error, rendezvous, handles, threads)],
                }
            }
            drop(done);
            let mut looks = 0;
            let mut look = || {
                // A top level or a setup() that does not end is broken 2 s after the stop.
                looks += u32::from(self.stop.is_set());
                if looks == 20 {
                    self.breaker.break_all();
                }
            };
            if let Some(start) = rendezvous.lead(&self.clock, threads, &mut look) {
                *cpu = usage::process();
                progress.follow(start, threads, &finished, observer, rows);
            }
            let panicked = |_| Outcome {
                failure: Some(WorkerFailure {
                    reason: "the worker panicked; this is a bug".to_owned(),
                    detail: String::new(),
                }),
                ..Outcome::default()
            };
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(panicked)).collect()
        })
    }

    fn repeat_of(
        &self,
        lives: &[LiveWorker],
        outcomes: &[Outcome],
        load: Option<Load>,
        cpu_ns: u64,
    ) -> Repeat {
        let totals = Totals::of(lives.iter());
        let (start, end) = span(outcomes);
        let seconds = |from, to| self.clock.ns_between(from, to) as f64 / 1e9;
        // A count of units can end within one tick of a fake clock.
        let wall_s = seconds(start, end).max(1e-9);
        let first_end = outcomes.iter().map(|outcome| outcome.end).min().unwrap_or(end);
        // A job counts operations itself, since they need not be timed.
        let units = totals.units;
        let prim_ops = if self.workload.is_jobs() { units } else { totals.prim_ops() };
        let worked_ns: f64 =
            outcomes.iter().map(|o| self.clock.ns_between(o.start, o.end) as f64).sum();
        let ops = Kind::ALL.into_iter().filter_map(|kind| {
            let op = &totals.ops[kind as usize];
            let first_error =
                outcomes.iter().find_map(|outcome| outcome.first_errors[kind as usize].clone());
            (op.service.count() > 0).then(|| OpStats {
                op: kind.name().to_owned(),
                calls: op.service.count(),
                prim_ops: op.prim_ops,
                hits: op.hits,
                misses: op.misses,
                errors: op.errors,
                first_error,
                service: op.service.clone(),
            })
        });
        Repeat {
            index: self.repeat,
            started_s: seconds(self.origin, start),
            wall_s,
            straggle_s: seconds(first_end, end),
            warmup_s: self.plan.settings.warmup,
            units,
            prim_ops,
            wu_per_s: units as f64 / wall_s,
            ops_per_s: prim_ops as f64 / wall_s,
            cpu_s: cpu_ns as f64 / 1e9,
            engine_busy: (totals.engine_ns() as f64 / worked_ns.max(1.0)).min(1.0),
            ops: ops.chain(labels(outcomes)).collect(),
            unit: self.cell.rate.map(|rate| UnitStats {
                offered_per_s: rate,
                achieved_per_s: units as f64 / wall_s,
                due: outcomes.iter().map(|o| o.due).sum(),
                backlog_max: outcomes.iter().map(|o| o.backlog_max).sum(),
                backlog_end: outcomes.iter().map(|o| o.backlog_end).sum(),
                response: totals.unit_response.clone(),
                service: totals.unit_service.clone(),
            }),
            load,
            trace_hashes: outcomes.iter().filter_map(|outcome| outcome.trace_hash).collect(),
            clock_drift_ppm: self.clock.drift_ppm(),
            rows: rows_of(outcomes),
            aftermath: None,
            // What the machine moved is added where there is a disk.
            traffic: (!self.workload.is_jobs()).then(|| Traffic {
                user_written_bytes: totals.written_bytes,
                user_read_bytes: totals.read_bytes,
                ..Traffic::default()
            }),
            pace: None,
        }
    }
}

/// Says when it is dropped that the worker has ended.
struct Done {
    leader: Sender<Word>,
    /// The tick of the end.
    end: u64,
}

impl Drop for Done {
    fn drop(&mut self) {
        // The leader may have stopped listening.
        let _ = self.leader.send(Word::Ended(self.end));
    }
}

/// A thread could not be started: those that were must not wait for it for ever.
fn no_thread(
    error: &std::io::Error,
    rendezvous: &Rendezvous,
    handles: Vec<std::thread::ScopedJoinHandle<'_, Outcome>>,
    threads: u32,
) -> Outcome {
    rendezvous.dissolve();
    for handle in handles {
        // Their outcome is that nothing began.
        let _ = handle.join();
    }
    Outcome {
        failure: Some(WorkerFailure {
            reason: format!("cannot start {threads} threads: {error}"),
            detail: String::new(),
        }),
        ..Outcome::default()
    }
}

fn live_workers(threads: u32) -> Vec<LiveWorker> {
    (0..threads).map(|_| LiveWorker::default()).collect()
}

/// What jobs reported: those of the first job by thread, then those of the next.
fn rows_of(outcomes: &[Outcome]) -> Vec<ThreadRow> {
    let mut tests: Vec<&str> = Vec::new();
    for row in outcomes.iter().flat_map(|outcome| &outcome.rows) {
        if !tests.contains(&row.test.as_str()) {
            tests.push(&row.test);
        }
    }
    let of_test = |test| outcomes.iter().flat_map(|o| &o.rows).filter(move |r| r.test == test);
    tests.into_iter().flat_map(of_test).cloned().collect()
}

/// Whether the store holds anything.
fn has_rows(store: &dyn Store) -> Result<bool, Failed> {
    let look = || store.session()?.scan(&[], None, &mut |_, _| ControlFlow::Break(()));
    look().map(|rows| rows > 0).map_err(|error| Failed::new(error.to_string()))
}

/// The labels of `kb.time` over all workers, in order of first appearance.
fn labels(outcomes: &[Outcome]) -> Vec<OpStats> {
    let mut all: Vec<OpStats> = Vec::new();
    for (label, histogram) in outcomes.iter().flat_map(|outcome| &outcome.labels) {
        match all.iter_mut().find(|op| op.op == *label) {
            Some(op) => {
                op.service.merge(histogram);
                op.calls = op.service.count();
            }
            None => all.push(OpStats {
                op: label.clone(),
                calls: histogram.count(),
                prim_ops: 0,
                hits: 0,
                misses: 0,
                errors: 0,
                first_error: None,
                service: histogram.clone(),
            }),
        }
    }
    all
}

/// From the first start to the last end of workers that started.
fn span(outcomes: &[Outcome]) -> (u64, u64) {
    let started = || outcomes.iter().filter(|outcome| outcome.end > 0);
    let start = started().map(|outcome| outcome.start).min().unwrap_or(0);
    let end = started().map(|outcome| outcome.end).max().unwrap_or(start);
    (start, end)
}

fn first_error(outcomes: &[Outcome]) -> Option<String> {
    outcomes.iter().flat_map(|outcome| outcome.first_errors.iter().flatten()).next().cloned()
}

fn check(outcomes: &[Outcome], stop: &Stop) -> Result<(), Failed> {
    if outcomes.iter().any(|outcome| outcome.no_space) {
        stop.set("the disk is full");
    }
    match outcomes.iter().find_map(|outcome| outcome.failure.clone()) {
        None => Ok(()),
        Some(WorkerFailure { reason, detail }) => Err(Failed { reason, detail }),
    }
}

/// The leader's view of a running phase: ticks for people, rows for the timeline, guards.
struct Progress<'a> {
    measurement: &'a Measurement<'a>,
    store: &'a dyn Store,
    dir: Option<&'a std::path::Path>,
    version: &'a str,
    lives: &'a [LiveWorker],
    phase: Phase,
    /// When the stop flag was first seen, in seconds since the phase began.
    stop_seen_s: Option<f64>,
    /// How evenly a timed phase went, once it is over.
    pace: Option<Pace>,
}

impl<'a> Progress<'a> {
    fn new(
        measurement: &'a Measurement<'a>,
        stage: &'a Stage,
        version: &'a str,
        lives: &'a [LiveWorker],
        phase: Phase,
    ) -> Self {
        let (store, dir) = (stage.store(), stage.dir());
        Progress { measurement, store, dir, version, lives, phase, stop_seen_s: None, pace: None }
    }

    /// Samples until every worker has said that it is done.
    fn follow(
        &mut self,
        start: u64,
        threads: u32,
        words: &Receiver<Word>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
    ) {
        let m = self.measurement;
        let clock = &m.clock;
        let settings = &m.plan.settings;
        let warmup_s = if self.phase == Phase::Run { settings.warmup } else { 0.0 };
        let interval_s = m.interval_s(self.phase);
        let host = LinuxHost;
        let mut sampler = interval_s.map(|_| Sampler::new(&host));
        let mut seconds = observer.wants_seconds().then(|| Seconds::new(&host));
        let mut timeline = rows::Timeline::new(m.cell, self.version, m.repeat, self.phase);
        let mut next_sample = interval_s.unwrap_or(f64::INFINITY);
        let (mut next_tick, mut next_guard) = (1.0_f64, 1.0 - warmup_s);
        let mut last = (0.0, 0);
        let (mut waiting, mut end) = (threads, 0);
        let mut broken = false;
        let (lives, store, dir) = (self.lives, self.store, self.dir);
        let mut sample = |elapsed: f64, rows: &mut dyn FnMut(TimelineRow)| {
            let totals = Totals::of(lives.iter());
            let system = sampler.as_mut().map(|s| s.sample(elapsed)).unwrap_or_default();
            let dir = dir.map(|dir| (&*m.plan.surroundings.fs, dir));
            timeline.sample(elapsed, totals, store, &system, dir, rows);
        };
        let elapsed_at = |tick: u64| clock.ns_between(start, tick) as f64 / 1e9 - warmup_s;
        let is_fake = m.has_fake_clock();
        // A fake clock has moments at which somebody looks, and no time between them.
        let is_kept = self.phase == Phase::Run && !is_fake;
        let mut keeper = is_kept.then(PaceKeeper::default);
        loop {
            // The stop flag is set by a signal handler, which wakes nobody.
            let mut wait = if is_kept { LOOK_S } else { 0.1 };
            if !is_fake {
                wait = (next_tick.min(next_sample) - elapsed_at(clock.ticks())).clamp(0.0, wait);
            }
            // The sender within a look is dropped at the end of the round: the worker goes on.
            let (now, look) = match words.recv_timeout(Duration::from_secs_f64(wait)) {
                Ok(Word::Ended(tick)) => {
                    (waiting, end) = (waiting - 1, end.max(tick));
                    if waiting == 0 {
                        break;
                    }
                    continue;
                }
                Ok(Word::Look(tick, look)) => (tick, Some(look)),
                Ok(Word::Notice { thread, text, is_warning }) => {
                    self.pass_on(observer, thread, &text, is_warning);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                // Our own fake clock knows nothing of theirs.
                Err(RecvTimeoutError::Timeout) if is_fake => continue,
                Err(RecvTimeoutError::Timeout) => (clock.ticks(), None),
            };
            let elapsed = elapsed_at(now);
            if let Some(keeper) = keeper.as_mut().filter(|_| elapsed > 0.0) {
                let (progress, units) = live::progress(lives);
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
                self.tell(observer, elapsed, units, rate);
                if let Some(second) =
                    seconds.as_mut().and_then(|seconds| seconds.look(elapsed, lives))
                {
                    observer.second(&m.at(self.version), &second);
                }
            }
            if let Some(interval_s) = interval_s
                && (elapsed >= next_sample || look.is_some())
            {
                sample(elapsed, rows);
                // A late sample does not bring the next one forward.
                next_sample = ((elapsed / interval_s).floor() + 1.0) * interval_s;
            }
            if !broken && self.is_overdue(elapsed) {
                broken = true;
                m.breaker.break_all();
            }
        }
        self.pace = keeper.map(|mut keeper| {
            let (elapsed, (progress, units)) = (elapsed_at(end), live::progress(lives));
            keeper.look(elapsed, progress, units);
            keeper.finish(elapsed)
        });
        if interval_s.is_some() {
            // Of the moment at which the last worker ended.
            sample(elapsed_at(end), rows);
        }
        if let Some(second) = seconds.and_then(|mut seconds| seconds.look(elapsed_at(end), lives)) {
            observer.second(&m.at(self.version), &second);
        }
        observer.event(&Event::Finished);
    }

    fn count(&self) -> u64 {
        match self.phase {
            Phase::Seed => Totals::of(self.lives.iter()).prim_ops(),
            _ => self.lives.iter().map(|live| &live.units).map(LiveCounter::get).sum(),
        }
    }

    fn tell(&self, observer: &mut dyn Observer, elapsed_s: f64, units: u64, rate: f64) {
        let m = self.measurement;
        let at = m.at(self.version);
        observer.event(&match self.phase {
            Phase::Seed => Event::SeedTick { at, elapsed_s, keys: units, keys_per_s: rate },
            _ => Event::Tick {
                at,
                elapsed_s,
                // How much a job does in all is the job's affair.
                budget_s: match m.workload.bound() {
                    Bound::Secs(secs) if !m.workload.is_jobs() => Some(secs),
                    _ => None,
                },
                units,
                total: match m.workload.bound() {
                    Bound::Ops(ops) if !m.workload.is_jobs() => Some(ops),
                    _ => None,
                },
                units_per_s: rate,
            },
        });
    }

    /// Tells the user what a job says: a warning wherever the user looks.
    fn pass_on(&self, observer: &mut dyn Observer, thread: u32, text: &str, is_warning: bool) {
        let at = self.measurement.at(self.version);
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
        let deadline = match (self.phase, m.workload.bound()) {
            (Phase::Run, Bound::Secs(secs)) => Some(elapsed_s - secs),
            _ => None,
        };
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
        if m.plan.surroundings.fs.space(dir).is_ok_and(|space| space.free_bytes < min_free) {
            m.stop.set("the data directory has less free space than --min-free");
        }
    }
}
