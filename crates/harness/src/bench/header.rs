//! What a record says before anything is measured: what was asked for, and what the probes found.

use crate::lua::VM;
use crate::plan::Plan;
use crate::planned_engine::PlannedEngine;
use crate::probe::{self, BuildFacts, LinuxHost, PinInfo};
use crate::settings::Bound;
use keyrack_calendar as calendar;
use keyrack_measure::Clock;
use keyrack_record::{Header, Probe, WorkloadText};

/// What was asked for.
pub(super) fn header(plan: &Plan, clock: &Clock) -> Header {
    let settings = &plan.settings;
    let facts = &plan.surroundings.facts;
    Header {
        version: facts.version.clone(),
        started: calendar::rfc3339_now(),
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
        vm: VM.to_owned(),
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

/// What the machine and the build are, and what each engine got of common terms.
pub(super) fn probes(plan: &Plan) -> Vec<Probe> {
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
                    revision: facts.revision.as_deref().unwrap_or_default(),
                    rustc: &facts.compiler,
                    profile: if cfg!(debug_assertions) { "debug" } else { "release" },
                    allocator: &facts.allocator,
                    lua: VM,
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
