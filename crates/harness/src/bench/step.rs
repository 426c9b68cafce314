//! One measurement of a cell: a store, its load, the timed phases, and what they have cost by the
//! time the engine has come to rest.

use super::remarks::recorded;
use super::{Collected, Grid, ReusedStore};
use crate::drop_caches::drop_caches;
use crate::grid::Step;
use crate::interrupt::Breaker;
use crate::measurement::{Measurement, Timed};
use crate::observer::Observer;
use crate::outputs::Outputs;
use crate::program::Prepared;
use crate::quiesce;
use crate::search;
use crate::settings::Goal;
use crate::stage::Stage;
use crate::stop::Failed;
use crate::timed_phase::TimedPhase;
use crate::verbs::Mode;
use keyrack_measure::ClockSource;
use keyrack_record::{Cell, Load, Repeat};
use keyrack_store::{Durability, Store};
use keyrack_trace::{Origin, Recorder};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// The repeats of a measurement by cell, and what a search has found.
type Measured = (Vec<(Cell, Repeat)>, Option<String>);

impl Grid<'_> {
    /// Opens and loads a store, unless one is kept, and measures on it.
    pub(super) fn step(
        &self,
        step: &Step,
        kept: &mut Option<ReusedStore>,
        collected: &mut HashMap<String, Collected>,
        key: &str,
        outputs: &mut Outputs,
        observer: &mut dyn Observer,
    ) -> Result<Vec<(Cell, Repeat)>, Failed> {
        let settings = &self.plan.settings;
        let value = step.cell.sweep.as_ref().map(|sweep| (sweep.param.clone(), sweep.value));
        let prepared = Prepared::new(self.workload, &self.plan.env, value)
            .map_err(|error| Failed { reason: error.message, detail: error.traceback })?;
        let recorder = self.recorder(step)?;
        let findings = Mutex::default();
        let measurement = Measurement {
            recorder: recorder.as_ref(),
            findings: &findings,
            plan: self.plan,
            workload: self.workload,
            prepared: &prepared,
            cell: &step.cell,
            repeat: step.repeat,
            clock: self.clock.clone(),
            origin: self.origin,
            stop: self.stop,
            mode: if self.workload.is_jobs() && !settings.timing {
                Mode::Untimed
            } else {
                Mode::Timed
            },
            breaker: Breaker::default(),
        };
        let (stage, load) = match kept.take() {
            Some(ReusedStore { stage, load, .. }) => (stage, load),
            None => self.loaded_store(step, &measurement, outputs, observer)?,
        };
        let cell = collected.entry(key.to_owned()).or_default();
        cell.on_disk = stage.dir().is_some();
        cell.version = stage.store().info().version;
        cell.durability = stage.store().info().durability.to_string();
        let result = match settings.rate_search {
            Some(goal) => self.search(&measurement, &stage, goal, load.clone(), observer, outputs),
            None => self.phases(&measurement, &stage, load.clone(), observer, outputs),
        };
        let result = result.map(|(measured, found)| {
            cell.notes.extend(found);
            measured
        });
        cell.notes.append(&mut findings.lock().unwrap_or_else(PoisonError::into_inner));
        let result = result.and_then(|measured| match recorder {
            Some(recorder) => {
                let written = recorder.finish().map_err(|error| Failed::new(error.to_string()))?;
                cell.notes.push(recorded(&written));
                Ok(measured)
            }
            None => Ok(measured),
        });
        if settings.seed_once && !self.workload.is_jobs() && result.is_ok() {
            let load = load.map(|load| Load { reused: true, ..load });
            let value = self.load_value(step);
            *kept = Some(ReusedStore { stage, load, step: step.clone(), value });
            return result;
        }
        let closed = stage.close().map_err(Failed::new);
        // What went wrong first is the failure.
        let measured = result?;
        closed.map(|()| measured)
    }

    /// Opens a store and loads it.
    fn loaded_store(
        &self,
        step: &Step,
        measurement: &Measurement<'_>,
        outputs: &mut Outputs,
        observer: &mut dyn Observer,
    ) -> Result<(Stage, Option<Load>), Failed> {
        let mut stage = self.open(step)?;
        observer.opened(stage.store());
        let threads = self.load_threads(step);
        let relaxed = self.relax(step, &mut stage)?;
        let mut load = measurement.load(&stage, threads, observer, &mut |row| outputs.row(&row))?;
        if let Some(level) = relaxed {
            let (planned, fs) = (&self.plan.engines[step.engine], &self.plan.surroundings.fs);
            stage.harden(planned, fs, self.plan.settings.seed).map_err(Failed::new)?;
            if let Some(load) = load.as_mut().filter(|load| !load.reused) {
                load.durability = Some(level.to_string());
            }
        }
        if load.is_some() {
            self.wait().until_idle(stage.store());
        }
        Ok((stage, load))
    }

    /// The best rate of `--rate-search`, and the finding in words.
    fn search(
        &self,
        measurement: &Measurement<'_>,
        stage: &Stage,
        goal: Goal,
        load: Option<Load>,
        observer: &mut dyn Observer,
        outputs: &mut Outputs,
    ) -> Result<Measured, Failed> {
        self.drop_caches()?;
        let (mut repeat, found) = search::run(measurement, stage, goal, load, observer, outputs)?;
        // Others were tried on the same store: what it moved is not this one's.
        self.add_costs(&mut repeat, quiesce::Before::default(), stage, observer)?;
        Ok((vec![(measurement.cell.clone(), repeat)], Some(found)))
    }

    /// The timed phases of one measurement, one after the other, until the run is to end.
    fn phases(
        &self,
        measurement: &Measurement<'_>,
        stage: &Stage,
        load: Option<Load>,
        observer: &mut dyn Observer,
        outputs: &mut Outputs,
    ) -> Result<Measured, Failed> {
        let mut measured = Vec::new();
        let cell = measurement.cell;
        for phase in TimedPhase::all(self.workload, &self.plan.settings, cell) {
            if phase.index > 0 && self.stop.is_set() {
                break;
            }
            self.drop_caches()?;
            let in_phase = Measurement {
                clock: measurement.clock.clone(),
                // Those of the phase before are gone.
                breaker: Breaker::default(),
                ..*measurement
            };
            let load = load.clone();
            let Timed { mut repeats, before } =
                in_phase.run(stage, &phase, load, observer, &mut |row| outputs.row(&row))?;
            if let Some(whole) = repeats.first_mut() {
                self.add_costs(whole, before, stage, observer)?;
            }
            // What the machine moved for a role cannot be told apart.
            let is_on_disk = stage.dir().is_some();
            repeats.iter_mut().filter(|_| !is_on_disk).for_each(|repeat| repeat.traffic = None);
            measured.extend(phase.cells.into_iter().zip(repeats));
        }
        Ok((measured, None))
    }

    fn drop_caches(&self) -> Result<(), Failed> {
        if self.plan.settings.drop_caches { drop_caches().map_err(Failed::new) } else { Ok(()) }
    }

    /// Waits for the engine's own threads, and adds what the phase has cost by then.
    fn add_costs(
        &self,
        repeat: &mut Repeat,
        before: quiesce::Before,
        stage: &Stage,
        observer: &mut dyn Observer,
    ) -> Result<(), Failed> {
        observer.measured(stage.store());
        self.add_aftermath(repeat, before, stage)?;
        if self.clock.source() == ClockSource::Fake {
            // Such a run is the same to the byte, and memory is not.
            return Ok(());
        }
        let fs = &*self.plan.surroundings.fs;
        let held = quiesce::footprint(stage, fs, self.clock, self.stop);
        repeat.footprint = Some(held.map_err(|error| Failed::new(error.to_string()))?);
        Ok(())
    }

    /// What a store on disk has cost, once it was waited for.
    fn add_aftermath(
        &self,
        repeat: &mut Repeat,
        before: quiesce::Before,
        stage: &Stage,
    ) -> Result<(), Failed> {
        if stage.dir().is_none() {
            repeat.traffic = None;
            return Ok(());
        }
        let fs = &*self.plan.surroundings.fs;
        let aftermath = before.aftermath(stage, fs, repeat.cpu_s, self.wait());
        let aftermath = aftermath.map_err(|error| Failed::new(error.to_string()))?;
        if let Some(traffic) = &mut repeat.traffic {
            traffic.written_bytes = aftermath.written_bytes;
            traffic.read_bytes = before.fetched();
            traffic.disk_bytes = aftermath.disk_bytes;
            if self.plan.settings.amplification {
                let live = live_bytes(stage.store()).map_err(|error| {
                    Failed::new(format!("--amplification: a walk over the store: {error}"))
                })?;
                traffic.live_bytes = live;
            }
        }
        repeat.aftermath = Some(aftermath);
        Ok(())
    }

    /// The trace of `--record`.
    fn recorder(&self, step: &Step) -> Result<Option<Recorder>, Failed> {
        let Some(path) = &self.plan.settings.record else { return Ok(None) };
        let origin = Origin {
            workload: self.workload.name.clone(),
            engine: step.cell.engine.clone(),
            version: self.plan.surroundings.facts.version.clone(),
        };
        let recorder = Recorder::create(&*self.plan.surroundings.fs, path, &origin);
        recorder.map(Some).map_err(|error| Failed::new(format!("--record: {error}")))
    }

    fn open(&self, step: &Step) -> Result<Stage, Failed> {
        let settings = &self.plan.settings;
        let planned = &self.plan.engines[step.engine];
        let fs = &self.plan.surroundings.fs;
        Stage::open(planned, fs, settings.seed, planned.durability).map_err(Failed::new)
    }

    /// Opens a store whose every write is synced with the durability of `--load-durability`, where
    /// the engine has that. The level, if it is another one than that of the measurement.
    fn relax(&self, step: &Step, stage: &mut Stage) -> Result<Option<Durability>, Failed> {
        let settings = &self.plan.settings;
        let level = settings.load_durability;
        // A job decides by itself; a kept store is opened with what the user said; --verify knows a
        // store from its opening on.
        let is_checked = self.plan.engines[step.engine].verify.is_some();
        let is_ours = self.workload.has_load && !self.workload.is_jobs() && !stage.is_kept();
        let is_synced =
            stage.store().info().durability == Durability::Sync && stage.dir().is_some();
        if !is_ours || is_checked || !is_synced || level == Durability::Sync {
            return Ok(None);
        }
        let (planned, fs) = (&self.plan.engines[step.engine], &self.plan.surroundings.fs);
        let is_relaxed = stage.relax(planned, fs, settings.seed, level).map_err(Failed::new)?;
        Ok(is_relaxed.then_some(level))
    }

    fn wait(&self) -> quiesce::IdleWait<'_> {
        let limit_s = self.plan.settings.settle;
        quiesce::IdleWait { clock: self.clock, limit_s, stop: self.stop }
    }

    /// The swept value, where the loaded data depends on it.
    fn load_value(&self, step: &Step) -> Option<i64> {
        step.cell.sweep.as_ref().filter(|_| self.seed_per_value()).map(|sweep| sweep.value)
    }

    /// Whether the kept store is the one that `step` would load.
    pub(super) fn fits(&self, kept: &ReusedStore, step: &Step) -> bool {
        kept.step.engine == step.engine && kept.value == self.load_value(step)
    }

    fn load_threads(&self, step: &Step) -> u32 {
        let settings = &self.plan.settings;
        if self.workload.trace().is_some() {
            // In the order of their times.
            return 1;
        }
        match settings.seed_threads {
            0 if settings.seed_once => self.threads().into_iter().max().unwrap_or(1),
            0 => step.cell.threads,
            threads => threads,
        }
    }

    fn seed_per_value(&self) -> bool {
        self.workload.sweep.as_ref().is_some_and(|sweep| sweep.seed_per_value)
    }
}

/// Keys and values of all rows, by a walk over them; `None` where the engine refuses walks.
fn live_bytes(store: &dyn Store) -> keyrack_store::Result<Option<u64>> {
    let mut bytes = 0;
    let mut session = store.session()?;
    let walked = session.scan(b"", None, &mut |key, value| {
        bytes += (key.len() + value.len()) as u64;
        ControlFlow::Continue(())
    });
    match walked {
        Ok(_) => Ok(Some(bytes)),
        Err(keyrack_store::Error::Usage { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
