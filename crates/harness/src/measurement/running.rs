//! A phase that runs, as its leader sees it: the workers, the store, and the cells that get
//! results.

use super::context::{Measurement, RowSink};
use crate::live::{LiveWorker, Totals};
use crate::observer::{At, Observer};
use crate::stage::Stage;
use crate::timed_phase::{Role, TimedPhase};
use keyrack_measure::LiveCounter;
use keyrack_record::{Cell, Phase};

/// A phase that runs.
#[derive(Clone, Copy)]
pub(super) struct RunningPhase<'a> {
    pub(super) measurement: &'a Measurement<'a>,
    pub(super) stage: &'a Stage,
    /// The engine's version.
    pub(super) version: &'a str,
    /// What each worker counts.
    pub(super) lives: &'a [LiveWorker],
    /// The timed phase; `None` while loading.
    pub(super) timed: Option<&'a TimedPhase>,
}

/// Who is told of a phase that runs.
pub(super) struct Reports<'r> {
    pub(super) observer: &'r mut dyn Observer,
    pub(super) rows: RowSink<'r>,
    /// Called at the start tick, and again at the end of a warm-up: numbers begin at the last call.
    pub(super) begun: &'r mut dyn FnMut(),
}

impl<'a> RunningPhase<'a> {
    pub(super) fn workers(&self) -> u32 {
        self.lives.len() as u32
    }

    pub(super) fn kind(&self) -> Phase {
        if self.timed.is_some() { Phase::Run } else { Phase::Seed }
    }

    pub(super) fn at(&self) -> At<'a> {
        self.measurement.at(self.version, self.timed)
    }

    pub(super) fn warmup_s(&self) -> f64 {
        self.timed.map_or(0.0, |timed| timed.warmup_s)
    }

    /// Seconds from the end of the warm-up to `tick`, where the workers start at `start`.
    pub(super) fn elapsed_s(&self, start: u64, tick: u64) -> f64 {
        self.measurement.clock.ns_between(start, tick) as f64 / 1e9 - self.warmup_s()
    }

    /// The cells with results.
    pub(super) fn cells(&self) -> &'a [Cell] {
        self.timed.map_or(std::slice::from_ref(self.measurement.cell), |timed| &timed.cells)
    }

    /// The workers of each cell with results: all of them, then role by role.
    pub(super) fn parts(&self) -> Vec<&'a [LiveWorker]> {
        let mut parts = vec![self.lives];
        if let Some(timed) = self.timed.filter(|timed| timed.has_roles()) {
            let range = |role: &Role| role.workers.start as usize..role.workers.end as usize;
            parts.extend(timed.roles.iter().map(|role| &self.lives[range(role)]));
        }
        parts
    }

    /// Units so far; while loading, keys.
    pub(super) fn count(&self) -> u64 {
        match self.kind() {
            Phase::Seed => Totals::of(self.lives.iter()).prim_ops(),
            _ => self.lives.iter().map(|live| &live.units).map(LiveCounter::get).sum(),
        }
    }
}
