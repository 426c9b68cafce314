//! What the harness itself costs, measured where it runs.
//!
//! The workload runs on one thread against a store that does nothing, three ways in turn:
//!
//! | run | what it holds | a unit costs |
//! |---|---|---|
//! | idle | verbs that return at once: no session, no clock, and from Lua no key drawn | `script` |
//! | untimed | verbs that call the session and do not read the clock | `script + bridge` |
//! | timed | everything, as in a measurement | `script + bridge + timer` |
//!
//! The three take turns for several rounds, and each figure is the median over the rounds, so that
//! a neighbour's burst hits all three alike. Costs are of wall time on a quiet machine and do not
//! depend on the engine that is measured later.

use crate::interrupt::Breaker;
use crate::live::Kind;
use crate::measurement::Measurement;
use crate::observer::Silent;
use crate::plan::Plan;
use crate::program::{Prepared, Workload};
use crate::settings::Bound;
use crate::stage::Stage;
use crate::stop::{Failed, Stop};
use crate::verbs::Mode;
use keyrack_measure::stats::median;
use keyrack_record::{Cell, Repeat};
use std::sync::Mutex;

/// Nanoseconds a unit, by where they go.
#[derive(Clone, Debug, PartialEq)]
pub struct Overhead {
    /// The workload.
    pub workload: String,
    /// The workload's own computing: drawing keys, building strings, Lua.
    pub script_ns: f64,
    /// Getting from the workload to the session and back.
    pub bridge_ns: f64,
    /// Reading the clock and filing the sample.
    pub timer_ns: f64,
    /// Verb calls in a unit.
    pub calls_per_unit: f64,
    /// Units in each run.
    pub units: u64,
    /// Rounds.
    pub rounds: u32,
}

impl Overhead {
    /// All of it.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.script_ns + self.bridge_ns + self.timer_ns
    }
}

const ROUNDS: u32 = 7;
/// How long one run of one round shall take.
const RUN_NS: f64 = 150e6;

/// Measures every workload of `plan` on its first engine, which should be the null engine.
///
/// # Errors
/// One line, where a workload fails.
pub fn measure(plan: &Plan, stop: &Stop) -> Result<Vec<Overhead>, String> {
    if let Some(job) = plan.workloads.iter().find(|workload| workload.is_jobs()) {
        return Err(format!("{}: a job has no units, so there is no cost of one", job.source));
    }
    if plan.workloads.iter().any(|workload| workload.trace().is_some()) {
        return Err("--overhead measures workloads: leave --replay out".to_owned());
    }
    if let Some(workload) = plan.workloads.iter().find(|workload| !workload.phases.is_empty()) {
        return Err(format!(
            "{}: --overhead measures one unit, and each phase has its own; name a script with run \
             or mix",
            workload.source
        ));
    }
    let one = |workload: &Workload| {
        measure_one(plan, workload, stop)
            .map_err(|failed| format!("{}: {} {}", workload.source, failed.reason, failed.detail))
    };
    plan.workloads.iter().map(one).collect()
}

fn measure_one(plan: &Plan, workload: &Workload, stop: &Stop) -> Result<Overhead, Failed> {
    let clock = &plan.surroundings.clock;
    let run = |mode: Mode, units: u64| -> Result<Repeat, Failed> {
        let mut workload = workload.clone();
        workload.settings.bound = Some(Bound::Ops(units));
        let value = Plan::sweep_values(&workload).into_iter().next().flatten();
        let prepared = Prepared::new(&workload, &plan.env, value)
            .map_err(|error| Failed { reason: error.message, detail: error.traceback })?
            .idle(mode == Mode::Idle);
        let planned = &plan.engines[0];
        let stage = Stage::open(planned, &plan.surroundings.fs, 1, None).map_err(Failed::new)?;
        let cell = Cell {
            workload: workload.name.clone(),
            engine: planned.engine.name.to_owned(),
            threads: 1,
            sweep: None,
            rate: None,
            part: None,
        };
        let measurement = Measurement {
            plan,
            workload: &workload,
            prepared: &prepared,
            cell: &cell,
            repeat: 1,
            clock: clock.clone(),
            origin: clock.ticks(),
            stop,
            mode,
            breaker: Breaker::default(),
            recorder: None,
            findings: &Mutex::default(),
        };
        measurement.run_only(&stage, None, &mut Silent, &mut |_| {})
    };
    let ns_per_unit = |repeat: &Repeat| repeat.wall_s * 1e9 / repeat.units.max(1) as f64;
    // A short run says how many units fill a round; counts, since clock mode reads the clock.
    let first = run(Mode::Timed, 20_000)?;
    let units = (RUN_NS / ns_per_unit(&first)).clamp(1_000.0, 1e9) as u64;
    // The labels of `kb.time` are rows of their own and no calls.
    let is_verb = |name: &str| Kind::ALL.iter().any(|kind| kind.name() == name);
    let calls: u64 = first.ops.iter().filter(|op| is_verb(&op.op)).map(|op| op.calls).sum();
    let mut rounds: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for (mode, samples) in [Mode::Idle, Mode::Untimed, Mode::Timed].into_iter().zip(&mut rounds)
        {
            samples.push(ns_per_unit(&run(mode, units)?));
        }
    }
    let [idle, untimed, timed] = rounds.map(|samples| median(&samples).unwrap_or(0.0));
    Ok(Overhead {
        workload: workload.name.clone(),
        script_ns: idle,
        bridge_ns: untimed - idle,
        timer_ns: timed - untimed,
        calls_per_unit: calls as f64 / first.units.max(1) as f64,
        units,
        rounds: ROUNDS,
    })
}
