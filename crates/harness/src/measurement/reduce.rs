//! What workers have counted, added up to the numbers of a repeat.

use super::context::Measurement;
use crate::live::{Kind, LiveWorker, Totals};
use crate::stop::{Failed, Stop};
use crate::worker::{Outcome, WorkerFailure};
use keyrack_record::{Load, OpStats, Repeat, ThreadRow, Traffic, UnitStats, distinct};

/// The workers of a cell with results.
pub(super) struct Part<'a> {
    pub(super) lives: &'a [LiveWorker],
    pub(super) outcomes: &'a [Outcome],
    /// The rate that was offered.
    pub(super) rate: Option<f64>,
    pub(super) warmup_s: f64,
}

/// The numbers of a cell's repeat.
pub(super) fn repeat_of(
    measurement: &Measurement<'_>,
    part: &Part<'_>,
    load: Option<Load>,
    cpu_ns: u64,
) -> Repeat {
    let (clock, outcomes) = (&measurement.clock, part.outcomes);
    let totals = Totals::of(part.lives.iter());
    let (start, end) = span(outcomes);
    let seconds = |from, to| clock.ns_between(from, to) as f64 / 1e9;
    // A count of units can end within one tick of a fake clock.
    let wall_s = seconds(start, end).max(1e-9);
    let first_end = outcomes.iter().map(|outcome| outcome.end).min().unwrap_or(end);
    // A job counts operations itself, since they need not be timed.
    let is_jobs = measurement.workload.is_jobs();
    let prim_ops = if is_jobs { totals.units } else { totals.prim_ops() };
    let worked_ns: f64 = outcomes.iter().map(|o| clock.ns_between(o.start, o.end) as f64).sum();
    Repeat {
        index: measurement.repeat,
        started_s: seconds(measurement.origin, start),
        wall_s,
        straggle_s: seconds(first_end, end),
        warmup_s: part.warmup_s,
        units: totals.units,
        prim_ops,
        wu_per_s: totals.units as f64 / wall_s,
        ops_per_s: prim_ops as f64 / wall_s,
        cpu_s: cpu_ns as f64 / 1e9,
        engine_busy: (totals.engine_ns() as f64 / worked_ns.max(1.0)).min(1.0),
        ops: ops_of(&totals, outcomes).chain(labels(outcomes)).collect(),
        unit: part.rate.map(|rate| unit_of(&totals, outcomes, rate, wall_s)),
        load,
        trace_hashes: outcomes.iter().filter_map(|outcome| outcome.trace_hash).collect(),
        clock_drift_ppm: clock.drift_ppm(),
        rows: rows_of(outcomes),
        // What the machine moved is added where there is a disk.
        traffic: (!is_jobs).then(|| Traffic {
            user_written_bytes: totals.written_bytes,
            user_read_bytes: totals.read_bytes,
            ..Traffic::default()
        }),
        // What is known of the phase as a whole is added there.
        ..Repeat::default()
    }
}

/// The verbs that were called, in report order.
fn ops_of<'a>(totals: &'a Totals, outcomes: &'a [Outcome]) -> impl Iterator<Item = OpStats> + 'a {
    Kind::ALL.into_iter().filter_map(|kind| {
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
    })
}

/// The units of an open loop.
fn unit_of(totals: &Totals, outcomes: &[Outcome], rate: f64, wall_s: f64) -> UnitStats {
    UnitStats {
        offered_per_s: rate,
        achieved_per_s: totals.units as f64 / wall_s,
        due: outcomes.iter().map(|o| o.due).sum(),
        backlog_max: outcomes.iter().map(|o| o.backlog_max).sum(),
        backlog_end: outcomes.iter().map(|o| o.backlog_end).sum(),
        response: totals.unit_response.clone(),
        service: totals.unit_service.clone(),
    }
}

/// What jobs reported: those of the first job by thread, then those of the next.
fn rows_of(outcomes: &[Outcome]) -> Vec<ThreadRow> {
    let tests = distinct(outcomes.iter().flat_map(|o| &o.rows).map(|row| row.test.as_str()));
    let of_test = |test| outcomes.iter().flat_map(|o| &o.rows).filter(move |r| r.test == test);
    tests.into_iter().flat_map(of_test).cloned().collect()
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
                service: histogram.clone(),
                ..OpStats::default()
            }),
        }
    }
    all
}

/// From the first start to the last end of workers that started.
pub(super) fn span(outcomes: &[Outcome]) -> (u64, u64) {
    let started = || outcomes.iter().filter(|outcome| outcome.end > 0);
    let start = started().map(|outcome| outcome.start).min().unwrap_or(0);
    let end = started().map(|outcome| outcome.end).max().unwrap_or(start);
    (start, end)
}

pub(super) fn first_error(outcomes: &[Outcome]) -> Option<String> {
    outcomes.iter().flat_map(|outcome| outcome.first_errors.iter().flatten()).next().cloned()
}

pub(super) fn check(outcomes: &[Outcome], stop: &Stop) -> Result<(), Failed> {
    if let Some(reason) = outcomes.iter().find_map(|outcome| outcome.full) {
        stop.set(reason);
    }
    match outcomes.iter().find_map(|outcome| outcome.failure.clone()) {
        None => Ok(()),
        Some(WorkerFailure { reason, detail }) => Err(Failed { reason, detail }),
    }
}
