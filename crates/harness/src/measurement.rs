//! One measurement: load a store with a workload's data, run the workload, count.
//!
//! The calling thread leads: it starts the workers, samples what they count, and joins them. It
//! never holds a lock that a worker needs. It samples by its own clock, or, where the clocks are
//! fake, whenever the first worker says that it is time (see [`crate::worker`]).

mod context;
mod costs;
mod guards;
mod monitor;
mod reduce;
mod running;
mod sampling;
mod timed;
mod workers;

pub(crate) use self::context::{Measurement, RowSink};

use self::reduce::{check, first_error, span};
use self::running::{Reports, RunningPhase};
use self::workers::run_workers;
use crate::live::{LiveWorker, Totals};
use crate::observer::{Event, Observer};
use crate::program::WorkerShare;
use crate::quiesce::Before;
use crate::stage::Stage;
use crate::stop::Failed;
use crate::timed_phase::TimedPhase;
use crate::worker::{self, StartBarrier};
use keyrack_record::{Load, Repeat};
use keyrack_store::Store;
use keyrack_trace::Phase as RecordedPhase;
use keyrack_workload::Phase as StreamPhase;
use std::ops::ControlFlow;

/// A timed phase that is over.
pub(crate) struct Timed {
    /// The results of its cells, in their order.
    pub(crate) repeats: Vec<Repeat>,
    /// What the process had moved when it began, which is when its warm-up was over.
    pub(crate) before: Before,
}

impl Measurement<'_> {
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
        let load = Load { wall_s: 0.0, keys: 0, threads, reused: true, durability: None };
        // A job decides by itself.
        if has_rows && !self.workload.is_jobs() {
            return Ok(Some(load));
        }
        let version = stage.store().info().version;
        observer.event(&Event::Seeding { at: self.at(&version, None), threads });
        let (wall_s, keys) = self.run_load(
            stage,
            &version,
            threads,
            Reports { observer: &mut *observer, rows, begun: &mut || {} },
        )?;
        observer.event(&Event::Seeded { at: self.at(&version, None), elapsed_s: wall_s, keys });
        Ok(Some(Load { wall_s, keys, reused: false, ..load }))
    }

    /// Has the workers load the store: how long it took, in seconds, and the keys.
    fn run_load(
        &self,
        stage: &Stage,
        version: &str,
        threads: u32,
        reports: Reports<'_>,
    ) -> Result<(f64, u64), Failed> {
        let lives = live_workers(threads);
        let phase = RunningPhase { measurement: self, stage, version, lives: &lives, timed: None };
        let barrier = StartBarrier::default();
        let ended = run_workers(phase, reports, &barrier, |thread, leader| {
            let (clock, live) = (self.clock.clone(), &lives[thread as usize]);
            let make = self.maker((RecordedPhase::Load, thread), live, &clock);
            let bound = self.workload.bound();
            let share = WorkerShare::new(StreamPhase::Load, (thread, threads));
            let share = WorkerShare { bound, ..share };
            let task =
                worker::build(|| self.prepared.task(share, stage.store(), &make, &self.breaker));
            worker::load(task, &clock, &barrier, &self.stop.flag, live, leader)
        });
        let (start, end) = span(&ended.outcomes);
        let totals = Totals::of(lives.iter());
        check(&ended.outcomes, self.stop)?;
        if totals.errors() > 0 {
            let first = first_error(&ended.outcomes).unwrap_or_default();
            return Err(Failed::new(format!(
                "{} engine errors while loading: {first}",
                totals.errors()
            )));
        }
        Ok((self.clock.ns_between(start, end) as f64 / 1e9, totals.prim_ops()))
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
        timed::run(self, stage, phase, load, observer, rows)
    }
}

/// One for each worker.
fn live_workers(workers: u32) -> Vec<LiveWorker> {
    (0..workers).map(|_| LiveWorker::default()).collect()
}

/// Whether the store holds anything.
fn has_rows(store: &dyn Store) -> Result<bool, Failed> {
    let look = || store.session()?.scan(&[], None, &mut |_, _| ControlFlow::Break(()));
    look().map(|rows| rows > 0).map_err(|error| Failed::new(error.to_string()))
}
