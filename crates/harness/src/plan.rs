//! A run, checked: nothing in a [`Plan`] can be refused any more for what the user wrote.
//!
//! Everything that can be said without opening a store is said here, before anything is measured.

pub(crate) mod common;
mod engines;
mod traces;

use crate::drop_caches;
use crate::params::Params;
use crate::planned_engine::PlannedEngine;
use crate::program::{ScriptEnv, Sweep, Workload, open_script, unknown_workload};
use crate::settings::{Bound, MeasurementOrder, Settings};
use crate::sink::{SinkKind, SinkSpec, SpecError, Target};
use crate::surroundings::{Refusal, Surroundings, refusal};
use crate::timed_phase::workers_max;
use crate::verify::Verify;
use engines::plan_engines;
use keyrack_store::unknown;
use std::path::Path;

/// A checked run.
#[derive(Debug)]
pub struct Plan {
    /// The settings that it was made from.
    pub settings: Settings,
    /// The engines, in order.
    pub engines: Vec<PlannedEngine>,
    /// The workloads, in order.
    pub workloads: Vec<Workload>,
    /// Where reports go.
    pub sinks: Vec<SinkSpec>,
    /// Probes to print.
    pub probes: Vec<&'static str>,
    /// The order of the measurements.
    pub order: MeasurementOrder,
    /// What readers and the user must know.
    pub warnings: Vec<String>,
    /// Notes for the user alone.
    pub notes: Vec<String>,
    pub(crate) env: ScriptEnv,
    pub(crate) surroundings: Surroundings,
}

/// All probes.
pub const PROBES: &[&str] = &["system", "build", "perf", "cgroup"];

impl Plan {
    /// Checks `settings` against what there is.
    ///
    /// # Errors
    /// [`Refusal`]: one line that names the thing and the remedy.
    pub fn new(mut settings: Settings, surroundings: Surroundings) -> Result<Plan, Refusal> {
        bound_by_themselves(&mut settings);
        let mut warnings = Vec::new();
        let mut notes = Vec::new();
        let mut engines = plan_engines(&settings, &surroundings, &mut warnings)?;
        for PlannedEngine { engine, terms, remarks, .. } in &engines {
            let terms = terms.iter().map(|terms| format!("{}: {terms}", engine.name));
            notes.extend(terms);
            notes.extend(remarks.iter().map(|remark| format!("warning: {remark}")));
        }
        let probes = plan_probes(&settings)?;
        let sinks = plan_sinks(&settings)?;
        let order = plan_order(&settings)?;
        check_rates(&settings)?;
        if settings.drop_caches {
            drop_caches::check().map_err(Refusal)?;
        }
        if settings.auto_plot && settings.report_dir.is_none() {
            notes.push("--auto-plot needs --report-dir; nothing will be drawn".to_owned());
        }
        let env = ScriptEnv {
            sandbox: settings.sandbox,
            params: Params::new(settings.params.clone()),
            print: surroundings.print.clone(),
            clock: surroundings.clock.clone(),
            seed: settings.seed,
        };
        let mut workloads = Vec::new();
        workloads.extend(traces::replay(&mut settings, &surroundings, &env.params, &mut notes)?);
        for source in &settings.workloads {
            let workload = open_workload(source, &settings, &surroundings, &env, &mut notes)?;
            if workload.sweep.as_ref().is_none_or(|sweep| !sweep.is_batch)
                && settings.batch.len() > 1
            {
                notes.push(format!("{source}: workload ignores ctx.batch, running batch=1 only"));
            }
            check_phases(&workload, &settings, &mut notes)?;
            if workload.is_jobs() {
                check_job(&workload, &settings, &engines, &mut notes)?;
            }
            workloads.push(workload);
        }
        remark_memory_limit(&settings, &mut engines);
        if settings.verify {
            check_answers(&settings, &workloads, &mut engines);
        }
        if workloads.is_empty() {
            return Err(refusal(
                "no workload: name a file such as workloads/mixed.lua or a native one such as \
                 ycsb/a",
            ));
        }
        traces::check_record(&settings, &engines, &workloads)?;
        check_names(&settings, &workloads, &env.params)?;
        Ok(Plan {
            settings,
            engines,
            workloads,
            sinks,
            probes,
            order,
            warnings,
            notes,
            env,
            surroundings,
        })
    }

    /// The values that `workload` is swept over, one `None` where it sweeps nothing.
    #[must_use]
    pub fn sweep_values(workload: &Workload) -> Vec<Option<(String, i64)>> {
        match &workload.sweep {
            None => vec![None],
            Some(Sweep { param, values, .. }) => {
                values.iter().map(|value| Some((param.clone(), *value))).collect()
            }
        }
    }
}

fn check_rates(settings: &Settings) -> Result<(), Refusal> {
    if settings.rate_search.is_some() && !settings.rate.is_empty() {
        return Err(refusal("--rate and --rate-search contradict each other, give one"));
    }
    if settings.rate_search.is_some() && !matches!(settings.bound, Bound::Secs(_)) {
        return Err(refusal("--rate-search needs --secs S: how long each rate is tried"));
    }
    Ok(())
}

/// Remarks `--mem-limit` at every engine.
fn remark_memory_limit(settings: &Settings, engines: &mut [PlannedEngine]) {
    let Some(bytes) = settings.mem_limit else { return };
    for planned in engines {
        let what = if planned.engine.name.contains("://") {
            ": of this program, not of the server"
        } else {
            ", page cache included"
        };
        planned.remarks.push(format!("memory limit {bytes} bytes{what}"));
    }
}

/// Has the answers of each engine checked: all of them where one worker alone writes, to a store
/// that begins empty.
fn check_answers(settings: &Settings, workloads: &[Workload], engines: &mut [PlannedEngine]) {
    let is_alone = settings.threads.iter().all(|threads| *threads == 1)
        && settings.seed_threads <= 1
        && settings.store.is_none()
        && workloads.iter().all(|workload| workload.beside() == 0)
        && workloads.iter().all(|workload| workers_max(workload, 1).unwrap_or(1) == 1);
    for planned in engines.iter_mut().filter(|planned| planned.engine.stores) {
        let is_server = planned.engine.name.contains("://");
        let (verify, what) = if is_alone && !is_server {
            (Verify::Model, "every answer was held against what was written")
        } else {
            (Verify::RangeOrder, "the order of ranges was checked")
        };
        planned.verify = Some(verify);
        planned.remarks.push(format!("verified: {what}; times include the checks"));
    }
}

fn plan_probes(settings: &Settings) -> Result<Vec<&'static str>, Refusal> {
    let Some(asked) = &settings.probe else { return Ok(PROBES.to_vec()) };
    if asked.len() == 1 && asked[0] == "none" {
        return Ok(Vec::new());
    }
    let known: Vec<&str> = PROBES.iter().copied().chain(["none", "all"]).collect();
    asked
        .iter()
        .map(|name| {
            let found = PROBES.iter().find(|probe| *probe == name).copied();
            found.ok_or_else(|| refusal(unknown("probe", name, &known)))
        })
        .collect()
}

fn plan_sinks(settings: &Settings) -> Result<Vec<SinkSpec>, Refusal> {
    if settings.report_dir.is_some() {
        // The files are added when the directory has been made.
        return Ok(vec![SinkSpec { kind: SinkKind::Console, target: Target::Stdout }]);
    }
    SinkSpec::parse(settings.report.as_deref().unwrap_or("console")).map_err(|error| match error {
        SpecError::Unknown { word } => refusal(unknown("reporter", &word, &SinkKind::NAMES)),
        other => refusal(other.to_string()),
    })
}

fn plan_order(settings: &Settings) -> Result<MeasurementOrder, Refusal> {
    let order = settings.order.unwrap_or(if settings.repeat > 1 && !settings.seed_once {
        MeasurementOrder::Interleave
    } else {
        MeasurementOrder::Engine
    });
    if settings.seed_once && order != MeasurementOrder::Engine {
        return Err(refusal(format!(
            "--seed-once keeps one store per engine and needs --order engine, not {}",
            order.name()
        )));
    }
    Ok(order)
}

/// Some workloads without a bound have one of their own: jobs their counts or a time, native loads
/// their keys. It is written into the settings, so that headers and replay files show it: as the
/// bound of all where all have the same, else in the sections of the workloads.
fn bound_by_themselves(settings: &mut Settings) {
    if settings.bounded {
        return;
    }
    let bound_of = |source: &String| {
        let mut params = settings.params.clone();
        let own = settings.for_workload(source);
        params.extend(own.params);
        let param = |name: &str| {
            let given = params.iter().rev().find(|(known, _)| known == name);
            given.map(|(_, value)| value.as_str())
        };
        let items = own.items.unwrap_or(settings.items);
        Workload::own_bound(source, items, param).map(|bound| (source.clone(), bound))
    };
    let bounds: Vec<(String, Bound)> = settings.workloads.iter().filter_map(bound_of).collect();
    let Some((_, first)) = bounds.first().cloned() else { return };
    if bounds.len() == settings.workloads.len() && bounds.iter().all(|(_, b)| *b == first) {
        settings.bound = first;
        return;
    }
    for (source, bound) in bounds {
        settings.overrides.entry(source).or_default().bound.get_or_insert(bound);
    }
}

/// What settings ask for that a script with phases decides itself.
fn check_phases(
    workload: &Workload,
    settings: &Settings,
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    let name = &workload.source;
    if workload.phases.is_empty() {
        return Ok(());
    }
    for (key, given) in [
        ("--rate", !settings.rate.is_empty()),
        ("--rate-search", settings.rate_search.is_some()),
        ("--record", settings.record.is_some()),
    ] {
        if given {
            let remedy = match key {
                "--record" => "record a script without phases",
                _ => "write rate = N into the roles that are to have one",
            };
            return Err(refusal(format!("{name}: {key} is not for phases; {remedy}")));
        }
    }
    if settings.warmup > 0.0 {
        notes.push(format!("{name}: --warmup is not for phases, each has its own warmup"));
    }
    if settings.threaded && workload.declared_threads().is_some() {
        notes.push(format!("{name}: --threads is not used, every role has its own threads"));
    }
    let threads = settings.threads.iter().copied().max().unwrap_or(1);
    match workers_max(workload, threads) {
        Some(workers) if workers > THREADS_MAX => Err(refusal(format!(
            "{name}: phases: {workers} threads at once, at most {THREADS_MAX}; give roles fewer"
        ))),
        _ => Ok(()),
    }
}

/// Workers of a phase.
const THREADS_MAX: u32 = 1024;

/// What settings ask for that a job cannot do.
fn check_job(
    workload: &Workload,
    settings: &Settings,
    engines: &[PlannedEngine],
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    let name = &workload.name;
    if let Some(job) = workload.syncs()
        && let Some(PlannedEngine { engine, .. }) = engines.iter().find(|planned| !planned.syncs)
    {
        return Err(refusal(format!(
            "{job} makes synced puts, which engine '{}' has none of; leave it out, or say \
             --durability sync where the engine takes it",
            engine.name
        )));
    }
    for (key, given) in
        [("--rate", !settings.rate.is_empty()), ("--rate-search", settings.rate_search.is_some())]
    {
        if given {
            return Err(refusal(format!(
                "{name} is a job, which each thread runs once: it has no units to start at a rate, \
                 so leave {key} out"
            )));
        }
    }
    if settings.warmup > 0.0 {
        notes.push(format!("{name}: a job has no warm-up, running without"));
    }
    if settings.seed_once {
        notes.push(format!("{name}: --seed-once is not for jobs, each repeat has a fresh store"));
    }
    Ok(())
}

fn open_workload(
    source: &str,
    settings: &Settings,
    surroundings: &Surroundings,
    env: &ScriptEnv,
    notes: &mut Vec<String>,
) -> Result<Workload, Refusal> {
    let looks_like_file = source.ends_with(".lua");
    let read = |path: &str| surroundings.fs.read(Path::new(path)).map_err(|e| e.to_string());
    let own = settings.for_workload(source);
    if !looks_like_file && let Some(found) = Workload::native(source, own.clone(), &env.params) {
        return found.map_err(refusal);
    }
    if !looks_like_file
        && let Some(jobs) = Workload::jobs(source, own, settings.limit, &env.params, &read)
    {
        return jobs.map_err(refusal);
    }
    let text = match settings.saved_scripts.get(source) {
        Some(text) => {
            let text = text.clone().into_bytes();
            if surroundings.fs.read(Path::new(source)).is_ok_and(|now| now != text) {
                notes.push(format!(
                    "{source} has changed since the replay file was written; the saved text runs"
                ));
            }
            text
        }
        None => match surroundings.fs.read(Path::new(source)) {
            Ok(text) => text,
            Err(error) if error.is_not_found() => match bundled(source, surroundings) {
                Some(text) => text,
                None if looks_like_file => return Err(refusal(error.to_string())),
                None => return Err(refusal(unknown_workload(source))),
            },
            Err(error) => return Err(refusal(error.to_string())),
        },
    };
    open_script(source, text, env, &|name| settings.for_workload(name), &settings.batch)
        .map_err(|error| refusal(error.message))
}

/// A script of the program, for those who run it outside of its source tree.
fn bundled(source: &str, surroundings: &Surroundings) -> Option<Vec<u8>> {
    let found = surroundings.bundled.iter().find(|(path, _)| *path == source);
    found.map(|(_, text)| text.as_bytes().to_vec())
}

/// Names in the settings that nothing answers to.
fn check_names(
    settings: &Settings,
    workloads: &[Workload],
    params: &Params,
) -> Result<(), Refusal> {
    let names: Vec<&str> = workloads.iter().map(|workload| workload.name.as_str()).collect();
    for section in settings.overrides.keys() {
        if !names.contains(&section.as_str()) {
            return Err(refusal(unknown("workload section", section, &names)));
        }
    }
    let (unasked, asked) = params.unasked();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    for (section, own) in &settings.overrides {
        if let Some((name, _)) = own.params.iter().find(|(name, _)| !asked.contains(&&**name)) {
            let why = unknown("parameter", name, &asked);
            return Err(refusal(format!("[workload:{section}] param: {why}")));
        }
    }
    if let Some(name) = unasked.first() {
        return Err(refusal(format!("-P: {}", unknown("parameter", name, &asked))));
    }
    Ok(())
}
