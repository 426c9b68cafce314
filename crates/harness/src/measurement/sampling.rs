//! The timeline and the paces of a running phase.

use super::running::RunningPhase;
use crate::live::{self, LiveWorker, Totals};
use crate::probe::{LinuxHost, Sampler};
use crate::rows::{SampleContext, Timeline};
use keyrack_record::{Pace, PaceKeeper, Phase, TimelineRow};

/// A rest at the end of a phase that is shorter than this share of the interval is no sample.
const LAST_SHARE_MIN: f64 = 0.1;

/// Takes the samples of the timeline, one set of rows for each cell with results.
pub(super) struct Sampling<'a> {
    phase: RunningPhase<'a>,
    interval_s: f64,
    sampler: Sampler<'static>,
    parts: Vec<&'a [LiveWorker]>,
    timelines: Vec<Timeline>,
    /// When the next sample is due, and when the last one was taken.
    next_s: f64,
    sampled_s: f64,
}

impl<'a> Sampling<'a> {
    /// `None` where no samples are taken.
    pub(super) fn new(phase: RunningPhase<'a>) -> Option<Sampling<'a>> {
        let measurement = phase.measurement;
        let interval_s = measurement.interval_s(phase.kind())?;
        let timeline = |cell| Timeline::new(cell, phase.version, measurement.repeat, phase.kind());
        Some(Sampling {
            phase,
            interval_s,
            sampler: Sampler::new(&LinuxHost),
            parts: phase.parts(),
            timelines: phase.cells().iter().map(timeline).collect(),
            next_s: interval_s,
            sampled_s: 0.0,
        })
    }

    pub(super) fn next_s(&self) -> f64 {
        self.next_s
    }

    /// Forgets what the machine did so far, which was in the warm-up.
    pub(super) fn restart(&mut self) {
        self.sampler = Sampler::new(&LinuxHost);
    }

    /// Takes the sample that is due at `elapsed_s`. `moment` says when it is taken; it is `None`
    /// where the clock goes on while the counts are read.
    pub(super) fn look(
        &mut self,
        elapsed_s: f64,
        moment: Option<f64>,
        now_s: &dyn Fn() -> f64,
        rows: &mut dyn FnMut(TimelineRow),
    ) {
        self.sampled_s = self.sample(moment, now_s, rows);
        // A late sample does not bring the next one forward.
        self.next_s = ((elapsed_s / self.interval_s).floor() + 1.0) * self.interval_s;
    }

    /// Takes the last sample, of the moment at which the last worker ended. A rate over next to no
    /// time is none.
    pub(super) fn finish(mut self, end_s: f64, rows: &mut dyn FnMut(TimelineRow)) {
        if self.sampled_s <= 0.0 || end_s - self.sampled_s >= self.interval_s * LAST_SHARE_MIN {
            self.sample(Some(end_s), &|| end_s, rows);
        }
    }

    fn sample(
        &mut self,
        moment: Option<f64>,
        now_s: &dyn Fn() -> f64,
        rows: &mut dyn FnMut(TimelineRow),
    ) -> f64 {
        let totals: Vec<Totals> = self.parts.iter().map(|part| Totals::of(part.iter())).collect();
        // Counts that are younger than their time would be missing from the next sample.
        let elapsed_s = moment.unwrap_or_else(now_s);
        let system = self.sampler.sample(elapsed_s);
        let fs = &*self.phase.measurement.plan.surroundings.fs;
        let dir = self.phase.stage.dir().map(|dir| (fs, dir));
        for (index, (timeline, totals)) in self.timelines.iter_mut().zip(totals).enumerate() {
            // Engine and machine are those of the whole phase.
            let context = SampleContext { store: self.phase.stage.store(), system: &system, dir };
            timeline.sample(elapsed_s, totals, (index == 0).then_some(&context), rows);
        }
        elapsed_s
    }
}

/// How evenly a timed phase goes, for each cell with results.
pub(super) struct Paces<'a> {
    parts: Vec<(PaceKeeper, &'a [LiveWorker])>,
}

impl<'a> Paces<'a> {
    /// Only a timed phase on a real clock has paces: a fake clock has moments at which somebody
    /// looks, and no time between them.
    pub(super) fn new(phase: RunningPhase<'a>) -> Paces<'a> {
        let is_kept = phase.kind() == Phase::Run && !phase.measurement.has_fake_clock();
        let parts = phase.parts().into_iter().filter(|_| is_kept);
        Paces { parts: parts.map(|part| (PaceKeeper::default(), part)).collect() }
    }

    pub(super) fn is_kept(&self) -> bool {
        !self.parts.is_empty()
    }

    pub(super) fn look(&mut self, elapsed_s: f64) {
        for (keeper, part) in self.parts.iter_mut().filter(|_| elapsed_s > 0.0) {
            let (progress, units) = live::progress(part);
            keeper.look(elapsed_s, progress, units);
        }
    }

    /// The paces of a phase that ended at `end_s`.
    pub(super) fn finish(self, end_s: f64) -> Vec<Option<Pace>> {
        let finished = self.parts.into_iter().map(|(mut keeper, part)| {
            let (progress, units) = live::progress(part);
            keeper.look(end_s, progress, units);
            Some(keeper.finish(end_s))
        });
        finished.collect()
    }
}
