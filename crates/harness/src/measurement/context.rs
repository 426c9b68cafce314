//! What a measurement is of, and what all of its phases share.

use crate::interrupt::Breaker;
use crate::live::LiveWorker;
use crate::observer::At;
use crate::plan::Plan;
use crate::program::{MakeVerbs, Prepared, Workload};
use crate::recording::Recording;
use crate::stop::Stop;
use crate::timed_phase::TimedPhase;
use crate::verbs::{Mode, Verbs};
use keyrack_measure::{Clock, ClockSource};
use keyrack_record::{Cell, Phase, TimelineRow};
use keyrack_trace::{Phase as RecordedPhase, Recorder};
use std::rc::Rc;
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
    /// Where operations are recorded, with `--record`.
    pub(crate) recorder: Option<&'a Recorder>,
    /// What is worth a note at the point.
    pub(crate) findings: &'a Mutex<Vec<String>>,
}

/// Receives timeline rows.
pub(crate) type RowSink<'r> = &'r mut dyn FnMut(TimelineRow);

impl Measurement<'_> {
    /// Where in the run a phase is, for observers.
    pub(super) fn at<'b>(&'b self, engine: &'b str, phase: Option<&'b TimedPhase>) -> At<'b> {
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
    pub(super) fn maker<'s>(
        &self,
        (phase, thread): (RecordedPhase, u32),
        live: &'s LiveWorker,
        clock: &Clock,
    ) -> MakeVerbs<'s> {
        let (clock, mode) = (clock.share(), self.mode);
        let settings = &self.plan.settings;
        let (traced, is_blind) = (settings.trace_hash, settings.blind_deletes);
        let tape = self.recorder.map(|recorder| recorder.tape(phase, thread));
        let recording = tape.map(|tape| Recording::new(tape, self.origin));
        Rc::new(move |session| {
            let verbs = Verbs::new(session, clock.share(), live, mode, traced);
            verbs.deleting_blindly(is_blind).recording(recording.clone())
        })
    }

    pub(super) fn has_fake_clock(&self) -> bool {
        self.clock.source() == ClockSource::Fake
    }

    /// Seconds between two samples, where any are taken.
    pub(super) fn interval_s(&self, phase: Phase) -> Option<f64> {
        let timeline = self.plan.settings.timeline;
        (timeline > 0.0).then_some(match phase {
            Phase::Seed => timeline.min(0.25),
            Phase::Run => timeline,
        })
    }

    /// Adds a note to the point.
    pub(super) fn note(&self, finding: String) {
        self.findings.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
    }
}
