//! A timed phase: what each of its workers does, and the results of its cells.

use super::context::{Measurement, RowSink};
use super::costs::{Costs, Used};
use super::reduce::{Part, check, repeat_of};
use super::running::{Reports, RunningPhase};
use super::workers::{Ended, run_workers};
use super::{Timed, live_workers};
use crate::live::LiveWorker;
use crate::observer::{Event, Observer};
use crate::program::WorkerShare;
use crate::settings::Bound;
use crate::stage::Stage;
use crate::stop::Failed;
use crate::timed_phase::{Background, Role, TimedPhase};
use crate::worker::{self, Job, Outcome, Schedule, StartBarrier, Until, Watch};
use crate::worker_message::WorkerMessage;
use keyrack_record::{Load, Phase, Repeat};
use keyrack_trace::Phase as RecordedPhase;
use keyrack_workload::{ArrivalSchedule, Phase as StreamPhase, Rng};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

/// Runs a timed phase.
pub(super) fn run(
    measurement: &Measurement<'_>,
    stage: &Stage,
    phase: &TimedPhase,
    load: Option<Load>,
    observer: &mut dyn Observer,
    rows: RowSink<'_>,
) -> Result<Timed, Failed> {
    if measurement.workload.trace().is_none() {
        phase.check_rates().map_err(Failed::new)?;
    }
    let version = stage.store().info().version;
    let at = measurement.at(&version, Some(phase));
    let repeats = measurement.plan.settings.repeat;
    observer.event(&Event::Running { at, repeat: measurement.repeat, repeats });
    let lives = live_workers(phase.workers());
    let running =
        RunningPhase { measurement, stage, version: &version, lives: &lives, timed: Some(phase) };
    let mut costs = Costs::new(measurement.plan);
    let ended = run_phase(
        running,
        phase,
        Reports {
            observer,
            rows,
            // What the warm-up costs is in no number.
            begun: &mut || costs.begin(),
        },
    );
    let used = costs.end();
    check(&ended.outcomes, measurement.stop)?;
    note_differences(measurement, &ended.outcomes);
    note_lookups(measurement, &lives);
    Ok(Timed {
        before: used.before,
        repeats: repeats_of(measurement, phase, &lives, ended, load, &used),
    })
}

/// Has the workers of all roles run.
fn run_phase(running: RunningPhase<'_>, phase: &TimedPhase, reports: Reports<'_>) -> Ended {
    let RunningPhase { measurement, stage, lives, .. } = running;
    // What setup() and the warm-up count is thrown away.
    let unused = live_workers(phase.workers());
    let barrier = StartBarrier::default();
    let background = Background::new(phase.foreground());
    run_workers(running, reports, &barrier, |worker, leader| {
        let (index, thread) = phase.role_of(worker);
        let role = &phase.roles[index];
        let _end = role.bound.map(|_| background.foreground());
        let clock = measurement.clock.clone();
        let place = (RecordedPhase::Warmup, worker);
        let make = measurement.maker(place, &unused[worker as usize], &clock);
        let share = WorkerShare {
            phase: StreamPhase::Run,
            who: (thread, role.threads),
            role: role.index,
            // A role in the background has no count.
            bound: role.bound.unwrap_or(Bound::Secs(0.0)),
        };
        let prepared = measurement.prepared;
        let task =
            worker::build(|| prepared.task(share, stage.store(), &make, &measurement.breaker));
        let stop = if role.bound.is_some() { &measurement.stop.flag } else { &background.stop };
        let assignment = Assignment { measurement, phase, role, worker, thread };
        let job = assignment.job(&lives[worker as usize], stop, leader);
        worker::run(task, &clock, &barrier, job)
    })
}

/// The results of the cells of a phase.
fn repeats_of(
    measurement: &Measurement<'_>,
    phase: &TimedPhase,
    lives: &[LiveWorker],
    ended: Ended,
    load: Option<Load>,
    used: &Used,
) -> Vec<Repeat> {
    let mut paces = ended.paces.into_iter();
    let workers = std::iter::once(0..phase.workers());
    let workers = workers.chain(phase.roles.iter().map(|role| role.workers.clone()));
    let cells = phase.cells.iter().zip(workers);
    let results = cells.map(|(cell, range)| {
        let range = range.start as usize..range.end as usize;
        let (lives, outcomes) = (&lives[range.clone()], &ended.outcomes[range]);
        let is_role = cell.role().is_some();
        let own_ns = outcomes.iter().map(|outcome| outcome.cpu_ns).sum();
        let part = Part { lives, outcomes, rate: cell.rate, warmup_s: phase.warmup_s };
        let load = load.clone().filter(|_| phase.index == 0 && !is_role);
        let cpu_ns = if is_role { own_ns } else { used.cpu_ns };
        Repeat {
            pace: paces.next().flatten(),
            // Events and the group cannot be told apart by role.
            counters: used.counters.filter(|_| !is_role),
            cgroup: used.group.filter(|_| !is_role),
            ..repeat_of(measurement, &part, load, cpu_ns)
        }
    });
    results.collect()
}

/// Notes how the results of a replay differ from those that were recorded.
fn note_differences(measurement: &Measurement<'_>, outcomes: &[Outcome]) {
    let sum = |pick: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(pick).sum::<u64>();
    let compared = sum(&|outcome| outcome.differences.compared);
    let differ = sum(&|outcome| outcome.differences.differ);
    if compared > 0 {
        measurement.note(match differ {
            0 => format!("replay: {compared} results compared, all as recorded"),
            _ => format!("replay: {differ} of {compared} results are not as recorded"),
        });
    }
}

/// Notes what it cost that removals told whether their keys existed.
fn note_lookups(measurement: &Measurement<'_>, lives: &[LiveWorker]) {
    let sum = |pick: &dyn Fn(&LiveWorker) -> u64| lives.iter().map(pick).sum::<u64>();
    let count = sum(&|live| live.lookups.get());
    if let Some(mean_ns) = sum(&|live| live.lookup_ns.get()).checked_div(count) {
        measurement.note(format!(
            "{count} removals looked their keys up first, {mean_ns} ns in the mean, because the \
             engine does not tell whether a key existed; --blind-deletes leaves that out"
        ));
    }
}

/// A worker of a phase, and its number within its role.
struct Assignment<'a> {
    measurement: &'a Measurement<'a>,
    phase: &'a TimedPhase,
    role: &'a Role,
    worker: u32,
    thread: u32,
}

impl Assignment<'_> {
    fn job<'l>(
        &self,
        live: &'l LiveWorker,
        stop: &'l AtomicBool,
        leader: &Sender<WorkerMessage>,
    ) -> Job<'l> {
        let measurement = self.measurement;
        Job {
            warmup_ns: (self.phase.warmup_s * 1e9) as u64,
            until: self.until(),
            arrivals: self.arrivals(),
            live,
            stop,
            leader: leader.clone(),
            watch: (self.worker == 0 && measurement.has_fake_clock()).then(|| Watch {
                leader: leader.clone(),
                every_ns: (measurement.interval_s(Phase::Run).unwrap_or(1.0) * 1e9) as u64,
            }),
        }
    }

    fn until(&self) -> Until {
        match self.role.bound {
            // Until it is stopped.
            None => Until::Count(u64::MAX),
            Some(Bound::Secs(secs)) => Until::Ns((secs * 1e9) as u64),
            Some(Bound::Ops(ops)) => {
                let (n, of) = (u64::from(self.thread), u64::from(self.role.threads));
                let share = ops / of + u64::from(n < ops % of);
                let trace = self.measurement.workload.trace();
                let own = trace.map(|trace| trace.count_of(self.thread, self.role.threads));
                Until::Count(match own {
                    // All of it, or a beginning of each thread's.
                    Some(own) if ops >= trace.map_or(0, |t| t.survey.timed_records()) => own,
                    Some(own) => share.min(own),
                    None => share,
                })
            }
        }
    }

    /// The schedule of an open loop.
    fn arrivals(&self) -> Option<Schedule> {
        let (rate, threads) = (self.role.rate?, self.role.threads);
        if let Some(trace) = self.measurement.workload.trace() {
            return Some(Schedule::Recorded(Box::new(trace.offsets((self.thread, threads))?)));
        }
        let (seed, phase) = (self.measurement.plan.settings.seed, self.phase.index as u32);
        let rng = Rng::stream(seed, StreamPhase::Other(1), self.worker, phase);
        let share = rate / f64::from(threads);
        let schedule = ArrivalSchedule::new(self.role.arrivals, share, rng);
        let schedule = schedule.expect("rates are checked before a phase begins");
        Some(Schedule::Drawn(schedule.staggered(self.thread, threads)))
    }
}
