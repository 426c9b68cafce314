//! One measurement: load a store with a workload's data, run the workload, count.
//!
//! The calling thread leads: it starts the workers, samples what they count, and joins them. It
//! never holds a lock that a worker needs. It samples by its own clock, or, where the clocks are
//! fake, whenever the first worker says that it is time (see [`crate::worker`]).

mod progress;
mod reduce;
mod roles;
mod stop;
mod workers;

pub(crate) use roles::{TimedPhase, workers_max};
pub(crate) use stop::Failed;
pub use stop::Stop;

use self::progress::Progress;
use self::reduce::{check, first_error, span};
use self::roles::{Background, Role};
use crate::interrupt::Breaker;
use crate::live::{LiveWorker, Totals};
use crate::observer::{At, Event, Observer};
use crate::plan::Plan;
use crate::probe::{CgroupTotals, LinuxHost, PerfCounters};
use crate::program::{MakeVerbs, Prepared, WorkerShare, Workload};
use crate::quiesce::Before;
use crate::recording::Recording;
use crate::settings::Bound;
use crate::stage::Stage;
use crate::verbs::{Mode, Verbs};
use crate::worker::{self, Job, Outcome, Schedule, StartBarrier, Until, Watch, WorkerMessage};
use keyrack_measure::{Clock, ClockSource, usage};
use keyrack_record::{Cell, Load, Phase, Repeat, TimelineRow};
use keyrack_store::Store;
use keyrack_trace::{Phase as RecordedPhase, Recorder};
use keyrack_workload::{ArrivalSchedule, Phase as StreamPhase, Rng};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

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

/// A timed phase that is over.
pub(crate) struct Timed {
    /// The results of its cells, in their order.
    pub(crate) repeats: Vec<Repeat>,
    /// What the process had moved when it began, which is when its warm-up was over.
    pub(crate) before: Before,
}

/// Receives timeline rows.
pub(crate) type RowSink<'r> = &'r mut dyn FnMut(TimelineRow);

impl Measurement<'_> {
    fn at<'b>(&'b self, engine: &'b str, phase: Option<&'b TimedPhase>) -> At<'b> {
        At {
            workload: &self.workload.name,
            engine,
            phase: phase.and_then(|phase| phase.name.as_deref()),
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
            return Ok(Some(Load {
                wall_s: 0.0,
                keys: 0,
                threads,
                reused: true,
                durability: None,
            }));
        }
        let version = stage.store().version();
        let lives = live_workers(threads);
        observer.event(&Event::Seeding { at: self.at(&version, None), threads });
        let barrier = StartBarrier::default();
        let mut progress = Progress::new(self, stage, &version, &lives, None);
        let outcomes = self.phase(threads, &mut progress, observer, rows, &barrier, |t, leader| {
            let clock = self.clock.clone();
            let place = (RecordedPhase::Load, t);
            let make = self.maker(place, &lives[t as usize], &clock);
            let bound = self.workload.bound();
            let share = WorkerShare { bound, ..WorkerShare::new(StreamPhase::Load, (t, threads)) };
            let task =
                worker::build(|| self.prepared.task(share, stage.store(), &make, &self.breaker));
            let live = &lives[t as usize];
            worker::load(task, &clock, &barrier, &self.stop.flag, live, leader)
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
        observer.event(&Event::Seeded { at: self.at(&version, None), elapsed_s: wall_s, keys });
        Ok(Some(Load { wall_s, keys, threads, reused: false, durability: None }))
    }

    /// Runs the one timed phase of a workload that declares none, or the first.
    pub(crate) fn run_only(
        &self,
        stage: &Stage,
        load: Option<Load>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
    ) -> Result<Repeat, Failed> {
        let phases = TimedPhase::all(self.workload, &self.plan.settings, self.cell);
        let Some(phase) = phases.first() else {
            return Err(Failed::new("there is nothing to run"));
        };
        let timed = self.run(stage, phase, load, observer, rows)?;
        timed.repeats.into_iter().next().ok_or_else(|| Failed::new("there is nothing to run"))
    }

    /// Runs a timed phase.
    pub(crate) fn run(
        &self,
        stage: &Stage,
        phase: &TimedPhase,
        load: Option<Load>,
        observer: &mut dyn Observer,
        rows: RowSink<'_>,
    ) -> Result<Timed, Failed> {
        let settings = &self.plan.settings;
        if self.workload.trace().is_none() {
            phase.check_rates().map_err(Failed::new)?;
        }
        let workers = phase.workers();
        let version = stage.store().version();
        let lives = live_workers(workers);
        // What setup() and the warm-up count is thrown away.
        let unused = live_workers(workers);
        let repeats = settings.repeat;
        let at = self.at(&version, Some(phase));
        observer.event(&Event::Running { at, repeat: self.repeat, repeats });
        let barrier = StartBarrier::default();
        let mut progress = Progress::new(self, stage, &version, &lives, Some(phase));
        let probes = &self.plan.probes;
        let mut perf = probes.contains(&"perf").then(|| PerfCounters::open(&LinuxHost));
        let has_group = probes.contains(&"cgroup");
        let (mut cpu_before, mut group_before) = (usage::process(), CgroupTotals::default());
        let mut before = Before::default();
        // What the warm-up costs is in no number.
        let mut begun = || {
            before = Before::read();
            cpu_before = usage::process();
            if has_group {
                group_before = CgroupTotals::read(&LinuxHost);
            }
            perf.iter_mut().for_each(PerfCounters::start);
        };
        let background = Background::new(phase.foreground());
        let outcomes = {
            let (begun, meet) = (&mut begun, &barrier);
            self.phase_started(workers, &mut progress, observer, rows, meet, begun, |t, leader| {
                let (index, thread) = phase.role_of(t);
                let role = &phase.roles[index];
                let _end = role.bound.map(|_| background.foreground());
                let clock = self.clock.clone();
                let place = (RecordedPhase::Warmup, t);
                let make = self.maker(place, &unused[t as usize], &clock);
                let share = WorkerShare {
                    phase: StreamPhase::Run,
                    who: (thread, role.threads),
                    role: role.index,
                    // A role in the background has no count.
                    bound: role.bound.unwrap_or(Bound::Secs(0.0)),
                };
                let task = worker::build(|| {
                    self.prepared.task(share, stage.store(), &make, &self.breaker)
                });
                let stop = if role.bound.is_some() { &self.stop.flag } else { &background.stop };
                let job = self.job((phase, role), t, thread, &lives[t as usize], stop, leader);
                worker::run(task, &clock, meet, job)
            })
        };
        let counters = perf.as_ref().and_then(PerfCounters::since);
        let cpu_after = usage::process();
        let group = has_group.then(|| group_before.until(CgroupTotals::read(&LinuxHost)));
        check(&outcomes, self.stop)?;
        let cpu_ns = (cpu_after.user_ns + cpu_after.system_ns)
            .saturating_sub(cpu_before.user_ns + cpu_before.system_ns);
        self.note_differences(&outcomes);
        let mut paces = std::mem::take(&mut progress.paces).into_iter();
        let mut results = Vec::new();
        let ranges = phase.roles.iter().map(|role| role.workers.clone());
        for (cell, range) in phase.cells.iter().zip(std::iter::once(0..workers).chain(ranges)) {
            let range = range.start as usize..range.end as usize;
            let (lives, outcomes) = (&lives[range.clone()], &outcomes[range]);
            let is_role = cell.role().is_some();
            let own_ns = outcomes.iter().map(|outcome| outcome.cpu_ns).sum();
            let cpu_ns = if is_role { own_ns } else { cpu_ns };
            let load = load.clone().filter(|_| phase.index == 0 && !is_role);
            let repeat = self.repeat_of(lives, outcomes, (cell.rate, phase.warmup_s), load, cpu_ns);
            results.push(Repeat {
                pace: paces.next().flatten(),
                // Events and the group cannot be told apart by role.
                counters: counters.filter(|_| !is_role),
                cgroup: group.flatten().filter(|_| !is_role),
                ..repeat
            });
        }
        Ok(Timed { repeats: results, before })
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

    fn job<'l>(
        &'l self,
        (phase, role): (&TimedPhase, &Role),
        worker: u32,
        thread: u32,
        live: &'l LiveWorker,
        stop: &'l AtomicBool,
        leader: &Sender<WorkerMessage>,
    ) -> Job<'l> {
        let settings = &self.plan.settings;
        let threads = role.threads;
        let trace = self.workload.trace();
        let arrivals = role.rate.and_then(|rate| {
            if let Some(trace) = trace {
                return Some(Schedule::Recorded(Box::new(trace.offsets((thread, threads))?)));
            }
            let rng = Rng::stream(settings.seed, StreamPhase::Other(1), worker, phase.index as u32);
            let share = rate / f64::from(threads);
            let schedule = ArrivalSchedule::new(role.arrivals, share, rng);
            let schedule = schedule.expect("rates are checked before a phase begins");
            Some(Schedule::Drawn(schedule.staggered(thread, threads)))
        });
        Job {
            warmup_ns: (phase.warmup_s * 1e9) as u64,
            until: match role.bound {
                // Until it is stopped.
                None => Until::Count(u64::MAX),
                Some(Bound::Secs(secs)) => Until::Ns((secs * 1e9) as u64),
                Some(Bound::Ops(ops)) => {
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
            stop,
            leader: leader.clone(),
            watch: (worker == 0 && self.has_fake_clock()).then(|| Watch {
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
}

fn live_workers(threads: u32) -> Vec<LiveWorker> {
    (0..threads).map(|_| LiveWorker::default()).collect()
}

/// Whether the store holds anything.
fn has_rows(store: &dyn Store) -> Result<bool, Failed> {
    let look = || store.session()?.scan(&[], None, &mut |_, _| ControlFlow::Break(()));
    look().map(|rows| rows > 0).map_err(|error| Failed::new(error.to_string()))
}
