//! A whole run: every cell of every workload's grid, reported as it goes.

use crate::drop_caches::drop_caches;
use crate::grid::{self, Dimensions, Step};
use crate::interrupt::Breaker;
use crate::measurement::{Failed, Measurement, Stop, TimedPhase};
use crate::observer::{Event, Observer};
use crate::outputs::Outputs;
use crate::plan::{Plan, PlannedEngine};
use crate::probe::{self, BuildFacts, LinuxHost, PinInfo};
use crate::program::{Prepared, Workload};
use crate::search;
use crate::settings::Bound;
use crate::settle;
use crate::stage::Stage;
use crate::verbs::Mode;
use keyrack_measure::{Clock, wall};
use keyrack_record::{
    Cell, Failure, FieldValue, Header, Load, Pace, Point, Probe, Repeat, Run, SCHEMA, Summary,
    ThreadRow, WorkloadText,
};
use keyrack_store::Store;
use keyrack_trace::{Origin, Recorder};
use keyrack_workload::Rng;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

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
struct Kept {
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
        let mut kept: Option<Kept> = None;
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
            if let Some(Kept { stage, step: served, .. }) =
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
        if let Some(Kept { stage, step: served, .. }) = kept
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

    fn seed_per_value(&self) -> bool {
        self.workload.sweep.as_ref().is_some_and(|sweep| sweep.seed_per_value)
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

    fn step(
        &self,
        step: &Step,
        kept: &mut Option<Kept>,
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
            mode: match self.workload.is_jobs() && !settings.timing {
                true => Mode::Untimed,
                false => Mode::Timed,
            },
            breaker: Breaker::default(),
        };
        let (stage, load) = match kept.take() {
            Some(Kept { stage, load, .. }) => (stage, load),
            None => {
                let stage = self.open(step)?;
                observer.opened(stage.store());
                let threads = self.load_threads(step);
                let load =
                    measurement.load(&stage, threads, observer, &mut |row| outputs.row(&row))?;
                if load.is_some() {
                    self.wait().for_calm(stage.store());
                }
                (stage, load)
            }
        };
        let cell = collected.entry(key.to_owned()).or_default();
        cell.on_disk = stage.dir().is_some();
        cell.version = stage.store().version();
        cell.durability = stage.store().durability().to_string();
        let result = match settings.rate_search {
            Some(goal) => {
                let before = self.before_phase()?;
                let load = load.clone();
                search::run(&measurement, &stage, goal, load, observer, outputs).map(
                    |(mut repeat, found)| {
                        cell.notes.push(found);
                        self.settle(&mut repeat, before, &stage, observer);
                        vec![(step.cell.clone(), repeat)]
                    },
                )
            }
            None => self.phases(&measurement, &stage, load.clone(), observer, outputs),
        };
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
            *kept = Some(Kept { stage, load, step: step.clone(), value });
            return result;
        }
        let closed = stage.close().map_err(Failed::new);
        // What went wrong first is the failure.
        let measured = result?;
        closed.map(|()| measured)
    }

    /// The timed phases of one measurement, one after the other, until the run is to end.
    fn phases(
        &self,
        measurement: &Measurement<'_>,
        stage: &Stage,
        load: Option<Load>,
        observer: &mut dyn Observer,
        outputs: &mut Outputs,
    ) -> Result<Vec<(Cell, Repeat)>, Failed> {
        let mut measured = Vec::new();
        let cell = measurement.cell;
        for phase in TimedPhase::all(self.workload, &self.plan.settings, cell) {
            if phase.index > 0 && self.stop.is_set() {
                break;
            }
            let before = self.before_phase()?;
            let in_phase = Measurement {
                clock: measurement.clock.clone(),
                // Those of the phase before are gone.
                breaker: Breaker::default(),
                ..*measurement
            };
            let load = load.clone();
            let mut repeats =
                in_phase.run(stage, &phase, load, observer, &mut |row| outputs.row(&row))?;
            if let Some(whole) = repeats.first_mut() {
                self.settle(whole, before, stage, observer);
            }
            // What the machine moved for a role cannot be told apart.
            let is_on_disk = stage.dir().is_some();
            repeats.iter_mut().filter(|_| !is_on_disk).for_each(|repeat| repeat.traffic = None);
            measured.extend(phase.cells.into_iter().zip(repeats));
        }
        Ok(measured)
    }

    fn before_phase(&self) -> Result<settle::Before, Failed> {
        if self.plan.settings.drop_caches {
            drop_caches().map_err(Failed::new)?;
        }
        Ok(settle::Before::read())
    }

    /// Waits for the engine's own threads, and adds what the phase has cost by then.
    fn settle(
        &self,
        repeat: &mut Repeat,
        before: settle::Before,
        stage: &Stage,
        observer: &mut dyn Observer,
    ) {
        observer.measured(stage.store());
        if stage.dir().is_none() {
            repeat.traffic = None;
            return;
        }
        let fs = &*self.plan.surroundings.fs;
        let aftermath = before.until_calm(stage, fs, repeat.cpu_s, self.wait());
        if let Some(traffic) = &mut repeat.traffic {
            traffic.written_bytes = aftermath.written_bytes;
            traffic.read_bytes = before.fetched();
            traffic.disk_bytes = aftermath.disk_bytes;
            let walk = self.plan.settings.amplification.then(|| live_bytes(stage.store()));
            traffic.live_bytes = walk.flatten();
        }
        repeat.aftermath = Some(aftermath);
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

    fn wait(&self) -> settle::Wait<'_> {
        let limit_s = self.plan.settings.settle;
        settle::Wait { clock: self.clock, limit_s, stop: self.stop }
    }

    /// The swept value, where the loaded data depends on it.
    fn load_value(&self, step: &Step) -> Option<i64> {
        step.cell.sweep.as_ref().filter(|_| self.seed_per_value()).map(|sweep| sweep.value)
    }

    /// Whether the kept store is the one that `step` would load.
    fn fits(&self, kept: &Kept, step: &Step) -> bool {
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
}

/// What was written into a trace.
fn recorded(summary: &keyrack_trace::Summary) -> String {
    let keyrack_trace::Summary { records, file_bytes, waits } = *summary;
    let waited = match waits {
        0 => String::new(),
        waits => format!("; workers waited {waits} times for the file, so rates are lower"),
    };
    format!("recorded {records} operations in {file_bytes} bytes{waited}")
}

/// Keys and values of all rows, by a walk over them; `None` where the engine has no walks or fails.
fn live_bytes(store: &dyn Store) -> Option<u64> {
    let mut bytes = 0;
    let mut session = store.session().ok()?;
    let walked = session.scan(b"", None, &mut |key, value| {
        bytes += (key.len() + value.len()) as u64;
        ControlFlow::Continue(())
    });
    walked.ok().map(|_| bytes)
}

/// Repeats whose rate was not steady, one line for all.
fn unsteady(repeats: &[Repeat]) -> Option<String> {
    let paces: Vec<&Pace> = repeats.iter().filter_map(|repeat| repeat.pace.as_ref()).collect();
    let wild: Vec<&&Pace> = paces.iter().filter(|pace| pace.is_steady == Some(false)).collect();
    let worst = wild.first()?;
    let number = |value: Option<f64>| value.map_or("n/a".to_owned(), |value| format!("{value:.2}"));
    Some(format!(
        "NOT STEADY: {} of {} repeats; the first: last to first windows {}, variation {}",
        wild.len(),
        paces.len(),
        number(worst.drift),
        number(worst.variation)
    ))
}

/// What a reader must know of a point before believing it.
fn flags(point: &Point) -> Vec<String> {
    let mut flags = Vec::new();
    for op in &point.summary.ops {
        let errors: u64 = point
            .repeats
            .iter()
            .flat_map(|r| &r.ops)
            .filter(|o| o.op == op.op)
            .map(|o| o.errors)
            .sum();
        if errors > 0 {
            let first = point.first_error(&op.op).unwrap_or("no text");
            flags.push(format!("ERRORS: {errors} of {} failed: {first}", op.op));
        }
    }
    flags.extend(point.open_loop().and_then(|open| open.missed_text()));
    flags.extend(point.repeats.iter().flat_map(|repeat| &repeat.rows).filter_map(wrong_row));
    flags
}

/// What a job found wrong and went on: its row says that not all was well, and why.
fn wrong_row(row: &ThreadRow) -> Option<String> {
    if row.get("ok") != Some(&FieldValue::Flag(false)) {
        return None;
    }
    let why = match (row.get("errors"), row.get("error")) {
        (Some(FieldValue::List(errors)), _) if errors.len() > 1 => {
            format!("{} errors, the first: {}", errors.len(), errors[0])
        }
        (Some(FieldValue::List(errors)), _) => errors.concat(),
        (_, Some(FieldValue::Text(error))) => error.clone(),
        _ => "no reason given".to_owned(),
    };
    Some(format!("WRONG: {} on thread {}: {why}", row.test, row.thread))
}

/// The key traces, one line for all repeats that agree, as those of one seed do.
fn trace_notes(repeats: &[Repeat]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (thread, hash) in repeats.iter().flat_map(|repeat| repeat.trace_hashes.iter().enumerate()) {
        let note = format!("keys of thread {thread}: {hash:016x}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn failure_line(failure: &Failure) -> String {
    format!("{} repeat {}: {}", failure.cell, failure.repeat, failure.reason)
}

fn header(plan: &Plan, clock: &Clock) -> Header {
    let settings = &plan.settings;
    let facts = &plan.surroundings.facts;
    Header {
        version: facts.version.clone(),
        started: wall::rfc3339_now(),
        argv: facts.argv.clone(),
        seed: settings.seed,
        repeat: settings.repeat,
        order: plan.order.name().to_owned(),
        backends: plan.engines.iter().map(|planned| planned.engine.name.to_owned()).collect(),
        threads: settings.threads.clone(),
        batch: settings.batch.clone(),
        ops: match settings.bound {
            Bound::Ops(ops) => Some(ops),
            Bound::Secs(_) => None,
        },
        secs: match settings.bound {
            Bound::Secs(secs) => Some(secs),
            Bound::Ops(_) => None,
        },
        warmup: settings.warmup,
        users: settings.users,
        items: settings.items,
        data_dir: settings
            .store
            .as_ref()
            .or(settings.data_dir.as_ref())
            .map(|dir| dir.display().to_string()),
        clock: clock.source().to_string(),
        vm: crate::VM.to_owned(),
        params: effective_params(plan),
        workloads: plan
            .workloads
            .iter()
            .map(|workload| WorkloadText {
                source: workload.source.clone(),
                name: workload.name.clone(),
                sha256: workload.sha256.clone(),
                text: workload.text.clone(),
            })
            .collect(),
        warnings: {
            let of_engines = plan.engines.iter().flat_map(|planned| &planned.remarks);
            plan.warnings.iter().chain(of_engines).cloned().collect()
        },
    }
}

/// The parameters as scripts saw them: of one given twice the last, those of a workload's own
/// section under its name.
fn effective_params(plan: &Plan) -> Vec<(String, String)> {
    let mut params: Vec<(String, String)> = Vec::new();
    let mut set = |name: String, value: &str| match params.iter_mut().find(|p| p.0 == name) {
        Some(known) => value.clone_into(&mut known.1),
        None => params.push((name, value.to_owned())),
    };
    for (name, value) in &plan.settings.params {
        set(name.clone(), value);
    }
    for workload in &plan.workloads {
        for (name, value) in &workload.settings.params {
            set(format!("{}:{name}", workload.name), value);
        }
    }
    params
}

fn probes(plan: &Plan) -> Vec<Probe> {
    let facts = &plan.surroundings.facts;
    let dir_of = |planned: &PlannedEngine| planned.kept_dir.clone().or(planned.data_dir.clone());
    let data_dir = plan.engines.iter().find_map(dir_of);
    let data_dir = data_dir.or_else(|| plan.settings.data_dir.clone());
    // Where some cells have too many workers to be pinned, their points say so.
    let fewest = plan.settings.threads.iter().copied().min().unwrap_or(1);
    let pin = match plan.settings.pin.cpus(fewest) {
        cpus if cpus.is_empty() => PinInfo::Off,
        cpus => PinInfo::On(cpus),
    };
    let terms: Vec<(String, String)> = plan
        .engines
        .iter()
        .filter_map(|planned| Some((planned.engine.name.to_owned(), planned.terms.clone()?)))
        .collect();
    let terms = (!terms.is_empty()).then(|| Probe { name: "common".to_owned(), fields: terms });
    let of_machine = plan.probes.iter().map(|name| Probe {
        name: (*name).to_owned(),
        fields: match *name {
            "system" => probe::system_info(&LinuxHost, data_dir.as_deref(), pin.clone()),
            "perf" => probe::perf_info(&LinuxHost),
            "cgroup" => probe::cgroup_info(&LinuxHost),
            _ => {
                let mut fields = probe::build_info(&BuildFacts {
                    version: &facts.version,
                    rustc: &facts.compiler,
                    profile: if cfg!(debug_assertions) { "debug" } else { "release" },
                    allocator: &facts.allocator,
                    lua: crate::VM,
                    features: &[],
                });
                // The first field is the program's version under its name.
                if let Some((name, _)) = fields.first_mut() {
                    name.clone_from(&facts.program);
                }
                fields
            }
        },
    });
    of_machine.chain(terms).collect()
}
