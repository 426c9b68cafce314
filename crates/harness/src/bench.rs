//! A whole run: every cell of every workload's grid, reported as it goes.

mod header;
mod remarks;
mod step;

use self::header::{header, probes};
use self::remarks::{flags, trace_notes, unsteady};
use crate::grid::{self, Dimensions, Step};
use crate::observer::{Event, Observer};
use crate::outputs::Outputs;
use crate::plan::Plan;
use crate::program::Workload;
use crate::stage::Stage;
use crate::stop::{Failed, Stop};
use crate::timed_phase::TimedPhase;
use keyrack_measure::Clock;
use keyrack_record::{Cell, Failure, Load, Point, Repeat, Run, SCHEMA, Summary};
use keyrack_workload::Rng;
use std::collections::HashMap;

/// Runs `plan`, writing to `outputs`. Returns the record of everything that was measured.
///
/// # Errors
/// One line when an output cannot be written; what was measured before is in the other outputs.
pub fn run(
    plan: &Plan,
    outputs: &mut Outputs,
    observer: &mut dyn Observer,
    stop: &Stop,
) -> Result<Run, String> {
    let clock = &plan.surroundings.clock;
    let origin = clock.ticks();
    let mut record = Run {
        schema: SCHEMA,
        header: header(plan, clock),
        probes: probes(plan),
        points: Vec::new(),
        failures: Vec::new(),
        interrupted: None,
    };
    outputs.begin(&record.header);
    for probe in &record.probes {
        outputs.probe(probe);
    }
    for workload in &plan.workloads {
        let grid = Grid { plan, workload, clock, origin, stop };
        grid.run(&mut record, outputs, observer);
        if stop.is_set() || outputs.all_failed() {
            break;
        }
    }
    if stop.is_set() {
        record.interrupted = Some(stop.reason().unwrap_or("interrupted by a signal").to_owned());
    }
    outputs.end(&record);
    outputs.take_error().map_or(Ok(record), Err)
}

struct Grid<'a> {
    plan: &'a Plan,
    workload: &'a Workload,
    clock: &'a Clock,
    origin: u64,
    stop: &'a Stop,
}

/// What has been measured of a cell so far.
#[derive(Default)]
struct Collected {
    /// The cell itself, or its phases and their roles, each with its repeats.
    parts: Vec<(Cell, Vec<Repeat>)>,
    version: String,
    durability: String,
    flags: Vec<String>,
    notes: Vec<String>,
    /// Whether the store has a directory, so that warnings about it concern this cell.
    on_disk: bool,
    failed: bool,
    reported: bool,
}

impl Collected {
    /// Adds a repeat of each part; parts that a stop left out are not there.
    fn add(&mut self, measured: Vec<(Cell, Repeat)>) {
        for (cell, repeat) in measured {
            match self.parts.iter_mut().find(|(known, _)| *known == cell) {
                Some((_, repeats)) => repeats.push(repeat),
                None => self.parts.push((cell, vec![repeat])),
            }
        }
    }

    /// Repeats of which every part is there.
    fn whole(&self) -> usize {
        self.parts.iter().map(|(_, repeats)| repeats.len()).min().unwrap_or(0)
    }
}

/// A loaded store that `--seed-once` keeps.
struct ReusedStore {
    stage: Stage,
    load: Option<Load>,
    /// The measurement it served last.
    step: Step,
    /// The swept value that the load depends on.
    value: Option<i64>,
}

impl Grid<'_> {
    fn run(&self, record: &mut Run, outputs: &mut Outputs, observer: &mut dyn Observer) {
        let settings = &self.plan.settings;
        let dimensions = Dimensions {
            workload: &self.workload.name,
            engines: self.plan.engines.iter().map(|planned| planned.engine.name).collect(),
            threads: &self.threads(),
            values: Plan::sweep_values(self.workload),
            rates: match settings.rate.as_slice() {
                [] => vec![None],
                rates => rates.iter().copied().map(Some).collect(),
            },
            repeats: settings.repeat,
            share_values: settings.seed_once,
        };
        let steps = grid::steps(&dimensions, self.plan.order, settings.seed);
        let mut collected: HashMap<String, Collected> = HashMap::new();
        let mut kept: Option<ReusedStore> = None;
        for (place, step) in steps.iter().enumerate() {
            if self.stop.is_set() || outputs.all_failed() {
                break;
            }
            observer.step(place + 1, steps.len());
            let key = step.cell.to_string();
            if collected.get(&key).is_some_and(|cell| cell.failed) {
                continue;
            }
            // A store of another cell goes before the next one comes: they may not fit together.
            // That it did not close is the failure of the cell it served.
            if let Some(ReusedStore { stage, step: served, .. }) =
                kept.take_if(|kept| !self.fits(kept, step))
                && let Err(reason) = stage.close()
            {
                self.fail(&served, Failed::new(reason), record, outputs, observer);
            }
            let result = self.step(step, &mut kept, &mut collected, &key, outputs, observer);
            match result {
                Ok(measured) => {
                    let cell = collected.entry(key).or_default();
                    let is_whole = self.is_whole(step, &measured);
                    let kept = measured.into_iter().filter(|(_, r)| !self.is_cut_short(r));
                    cell.add(kept.collect());
                    if is_whole && cell.whole() == settings.repeat as usize {
                        self.report(cell, record, outputs);
                    }
                }
                // A script that a signal broke has not failed.
                Err(_) if self.stop.is_set() && self.stop.reason().is_none() => {}
                Err(failed) => {
                    collected.entry(key).or_default().failed = true;
                    self.fail(step, failed, record, outputs, observer);
                    kept = None;
                }
            }
        }
        if self.stop.is_set() {
            self.flush_partial(&steps, &mut collected, record, outputs);
        }
        if let Some(ReusedStore { stage, step: served, .. }) = kept
            && let Err(reason) = stage.close()
        {
            self.fail(&served, Failed::new(reason), record, outputs, observer);
        }
    }

    /// The threads of the grid: those asked for, or the most of any phase if the script says all.
    fn threads(&self) -> Vec<u32> {
        match self.workload.declared_threads() {
            Some(threads) => vec![threads],
            None => self.plan.settings.threads.clone(),
        }
    }

    /// Whether a measurement has all its parts: a stop leaves out phases that had not begun.
    fn is_whole(&self, step: &Step, measured: &[(Cell, Repeat)]) -> bool {
        let phases = TimedPhase::all(self.workload, &self.plan.settings, &step.cell);
        let count: usize = phases.iter().map(|phase| phase.cells.len()).sum();
        count == measured.len() && measured.iter().all(|(_, repeat)| !self.is_cut_short(repeat))
    }

    /// Reports every part of a cell.
    fn report(&self, collected: &mut Collected, record: &mut Run, outputs: &mut Outputs) {
        for (cell, repeats) in std::mem::take(&mut collected.parts) {
            let point = self.point(&cell, repeats, collected);
            outputs.point(&point, &record.header);
            record.points.push(point);
        }
        collected.reported = true;
    }

    /// Notes that a step has failed.
    fn fail(
        &self,
        step: &Step,
        failed: Failed,
        record: &mut Run,
        outputs: &mut Outputs,
        observer: &mut dyn Observer,
    ) {
        let Failed { reason, detail } = failed;
        let failure = Failure { cell: step.cell.clone(), repeat: step.repeat, reason, detail };
        observer.event(&Event::Note(&failure_line(&failure)));
        outputs.failure(&failure);
        record.failures.push(failure);
    }

    /// A repeat that a signal ended before its time counts only when it ran long enough to say
    /// something: it is kept as a partial result, flagged.
    fn is_cut_short(&self, repeat: &Repeat) -> bool {
        self.stop.is_set() && repeat.units == 0
    }

    /// Reports cells whose repeats are not all there.
    fn flush_partial(
        &self,
        steps: &[Step],
        collected: &mut HashMap<String, Collected>,
        record: &mut Run,
        outputs: &mut Outputs,
    ) {
        let repeats = self.plan.settings.repeat as usize;
        for step in steps {
            let Some(cell) = collected.get_mut(&step.cell.to_string()) else { continue };
            if cell.parts.is_empty() || cell.reported || cell.failed {
                continue;
            }
            // Parts that were reached are counted by themselves.
            let most = cell.parts.iter().map(|(_, repeats)| repeats.len()).max().unwrap_or(0);
            let what = if most == repeats {
                "phases are missing".to_owned()
            } else {
                format!("{most} of {repeats} repeats")
            };
            cell.flags.push(format!("PARTIAL: {what}"));
            self.report(cell, record, outputs);
        }
    }

    fn point(&self, cell: &Cell, mut repeats: Vec<Repeat>, collected: &Collected) -> Point {
        let seed = self.plan.settings.seed;
        let mut rng = Rng::from_seed(seed);
        repeats.sort_by_key(|repeat| repeat.index);
        let mut point = Point {
            cell: cell.clone(),
            engine_version: collected.version.clone(),
            durability: collected.durability.clone(),
            summary: Summary::of(&repeats, &mut || rng.next_u64()),
            repeats,
            flags: collected.flags.clone(),
            notes: collected.notes.clone(),
        };
        point.notes.extend(self.plan.warnings.iter().filter(|_| collected.on_disk).cloned());
        let engine = self.plan.engines.iter().find(|planned| planned.engine.name == cell.engine);
        point.notes.extend(engine.iter().flat_map(|planned| planned.remarks.iter().cloned()));
        // All workers of a phase are pinned, or none is.
        let workers = cell.part.as_ref().map_or(cell.threads, |part| part.workers);
        let pin = &self.plan.settings.pin;
        point.notes.extend(pin.note(workers).filter(|_| cell.role().is_none()));
        point.notes.extend(trace_notes(&point.repeats));
        point.notes.extend(unsteady(&point.repeats).filter(|_| !self.workload.is_jobs()));
        point.flags.extend(flags(&point));
        if self.stop.is_set() && point.flags.iter().all(|flag| !flag.starts_with("PARTIAL")) {
            let why = self.stop.reason().unwrap_or("interrupted by a signal");
            point.flags.push(format!("PARTIAL: {why}"));
        }
        point
    }
}

fn failure_line(failure: &Failure) -> String {
    format!("{} repeat {}: {}", failure.cell, failure.repeat, failure.reason)
}
