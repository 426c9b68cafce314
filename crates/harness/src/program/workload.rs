//! A workload as it was read: a script, a native mix, jobs or a trace, with its name and settings.

use super::job::{JOB_SECONDS, JobPlan};
use super::phases::PhasePlan;
use super::playback::Playback;
use super::share::WorkerShare;
use super::{ScriptEnv, job_names};
use crate::interrupt::Breaker;
use crate::lua::{Counters, Ctx, Script, VmSetup};
use crate::params::Params;
use crate::settings::{Bound, Override};
use keyrack_store::unknown;
use keyrack_workload::MixSpec;
use std::sync::Arc;

/// A workload, read and checked.
#[derive(Clone, Debug)]
pub struct Workload {
    /// As the user named it: a path or a native name.
    pub source: String,
    /// The name under which it reports.
    pub name: String,
    /// SHA-256 of the script in hexadecimal; empty for native workloads.
    pub sha256: String,
    /// The script; empty for native workloads.
    pub text: String,
    /// The parameter that it sweeps.
    pub sweep: Option<Sweep>,
    /// Whether it has a load phase.
    pub has_load: bool,
    /// How many keys the load writes, where that is known.
    pub load_keys: Option<u64>,
    /// Its own settings after the run's.
    pub settings: Override,
    /// The phases that it declares, in order; empty where it declares none.
    pub(crate) phases: Vec<PhasePlan>,
    pub(super) kind: Kind,
    pub(super) script: Option<Arc<Script>>,
    /// The jobs, where it is a sequence of them.
    pub(super) jobs: Option<Arc<JobPlan>>,
    /// The trace, where it is one.
    pub(super) playback: Option<Arc<Playback>>,
}

/// A swept parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Its name in `ctx`.
    pub param: String,
    /// Its values.
    pub values: Vec<i64>,
    /// Whether the loaded data depends on the value.
    pub seed_per_value: bool,
    /// Whether it is the global batch list of the first generation.
    pub is_batch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `run` is a Lua function; `load` may be.
    Script,
    /// `mix` is a table: no Lua in the loop. `load` may be a function or a table.
    Declarative {
        load_function: bool,
    },
    /// Phases, each of which has functions or mixes of its own.
    Phases {
        load_function: bool,
    },
    Native,
    /// Jobs, which are run once and not called in a loop.
    Jobs,
    /// The operations of a trace.
    Playback,
}

/// The mix of the native workload called `name`, if it is one.
pub(super) fn native_mix(
    name: &str,
    settings: &Override,
    params: &Params,
) -> Option<Result<MixSpec, keyrack_workload::Error>> {
    let params = params.with(&settings.params);
    keyrack_workload::native(name, settings.items.unwrap_or(1), |name| params.get(name))
}

/// Values of one sweep.
pub(super) const SWEEP_VALUES_MAX: usize = 64;

impl Workload {
    /// The native workload called `name`.
    ///
    /// # Errors
    /// One line for a parameter with a value that the workload does not know.
    pub(crate) fn native(
        name: &str,
        settings: Override,
        params: &Params,
    ) -> Option<Result<Workload, String>> {
        let spec = match native_mix(name, &settings, params)? {
            Ok(spec) => spec,
            Err(error) => return Some(Err(format!("{name}: {error}"))),
        };
        Some(Ok(Workload {
            source: name.to_owned(),
            name: spec.name,
            sha256: String::new(),
            text: String::new(),
            sweep: None,
            has_load: spec.load.is_some(),
            load_keys: spec.load.map(|load| load.keys.count),
            settings,
            phases: Vec::new(),
            kind: Kind::Native,
            script: None,
            jobs: None,
            playback: None,
        }))
    }

    /// The operations of a trace.
    pub(crate) fn playback(playback: Playback, bound: Bound) -> Workload {
        let source = playback.path.display().to_string();
        let name = playback.path.file_name().map_or(source.clone(), |n| n.display().to_string());
        Workload {
            name: format!("replay {name}"),
            source,
            sha256: String::new(),
            text: String::new(),
            sweep: None,
            has_load: !playback.survey.before.is_empty(),
            load_keys: None,
            settings: Override { bound: Some(bound), ..Override::default() },
            phases: Vec::new(),
            kind: Kind::Playback,
            script: None,
            jobs: None,
            playback: Some(Arc::new(playback)),
        }
    }

    /// The trace, where it is one.
    pub(crate) fn trace(&self) -> Option<&Arc<Playback>> {
        self.playback.as_ref()
    }

    /// The sequence of jobs called `source`; `None` where its first name is not that of a job.
    /// `read` reads a file that a parameter names.
    ///
    /// # Errors
    /// One line for a name that is no job, and for a file that cannot be read.
    pub(crate) fn jobs(
        source: &str,
        settings: Override,
        limit: Option<u64>,
        params: &Params,
        read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Option<Result<Workload, String>> {
        let jobs = match JobPlan::jobs_of(source)? {
            Ok(jobs) => jobs,
            Err(name) => return Some(Err(unknown("job", name, &job_names()))),
        };
        if let Some(job) = jobs.iter().skip(1).find(|job| job.wants_fresh) {
            return Some(Err(format!(
                "{source}: {0} wants a store without rows, so it comes first in a sequence or is \
                 a workload of its own",
                job.name
            )));
        }
        let params = params.with(&settings.params);
        let mut files = Vec::new();
        for param in jobs.iter().flat_map(|job| job.params) {
            // What is asked for here is known when names that nobody asks for are refused.
            let Some(value) = params.get(param) else { continue };
            if jobs.iter().any(|job| job.files.contains(param)) {
                match read(value) {
                    Ok(bytes) => files.push((*param, bytes.into())),
                    Err(why) => return Some(Err(format!("{source}: {param}: {why}"))),
                }
            }
        }
        let plan = JobPlan { name: source.to_owned(), jobs, files, limit };
        Some(Ok(Workload {
            source: source.to_owned(),
            name: source.to_owned(),
            sha256: String::new(),
            text: String::new(),
            sweep: None,
            has_load: plan.has_load(),
            load_keys: None,
            settings,
            phases: Vec::new(),
            kind: Kind::Jobs,
            script: None,
            jobs: Some(Arc::new(plan)),
            playback: None,
        }))
    }

    /// What the workload `source` over `items` keys is bounded by where nobody has bounded it: jobs
    /// by their own counts or a time, native loads by their keys. `None` for other workloads.
    pub(crate) fn own_bound<'p>(
        source: &str,
        items: u64,
        param: impl Fn(&str) -> Option<&'p str>,
    ) -> Option<Bound> {
        let count = match JobPlan::jobs_of(source) {
            Some(Ok(jobs)) => keyrack_workload::own_count(&jobs, param),
            Some(Err(_)) => None,
            None => return keyrack_workload::native_count(source, items, param).map(Bound::Ops),
        };
        Some(count.map_or(Bound::Secs(JOB_SECONDS), Bound::Ops))
    }

    /// Workers beside those that a cell asks for.
    pub(crate) fn beside(&self) -> u32 {
        self.jobs.as_ref().map_or(0, |plan| plan.beside())
    }

    /// The job that wants a store without rows, where the workload begins with one.
    pub(crate) fn wants_fresh(&self) -> Option<&'static str> {
        self.jobs.as_ref().and_then(|plan| plan.wants_fresh())
    }

    /// The first of its jobs that makes synced puts.
    pub(crate) fn syncs(&self) -> Option<&'static str> {
        let mut jobs = self.jobs.iter().flat_map(|plan| &plan.jobs);
        jobs.find(|job| job.syncs).map(|job| job.name)
    }

    /// Whether it is a sequence of jobs, which has no unit, no warm-up and no rate.
    #[must_use]
    pub fn is_jobs(&self) -> bool {
        self.kind == Kind::Jobs
    }

    /// The most workers of a phase, where it declares phases and says how many for every role.
    pub(crate) fn declared_threads(&self) -> Option<u32> {
        let of = |phase: &PhasePlan| {
            phase.roles.iter().map(|role| role.threads).try_fold(0, |sum, own| Some(sum + own?))
        };
        let all: Option<Vec<u32>> = self.phases.iter().map(of).collect();
        all?.into_iter().max()
    }

    /// When its cells end.
    ///
    /// # Panics
    /// Never for a workload of a plan: it has the run's bound, or its own.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.settings.bound.expect("a workload has the run's bound, or its own")
    }

    /// What a machine of one worker is set up with.
    pub(super) fn setup(
        &self,
        script: &Arc<Script>,
        env: &ScriptEnv,
        counters: Counters,
        share: WorkerShare,
        sweep: Option<(String, i64)>,
    ) -> VmSetup {
        let (thread, threads) = share.who;
        let part = share.role.and_then(|place| {
            let phase = self.phases.get(place.phase)?;
            Some((phase.name.clone(), phase.roles.get(place.role)?.name.clone()))
        });
        VmSetup {
            script: Arc::clone(script),
            sandbox: env.sandbox,
            ctx: Ctx {
                users: self.settings.users.expect("a workload has the run's users, or its own"),
                items: self.settings.items.expect("a workload has the run's items, or its own"),
                ops: match share.bound {
                    Bound::Ops(ops) => ops,
                    Bound::Secs(_) => 0,
                },
                seed: env.seed,
                thread,
                threads,
                sweep,
                part,
            },
            phase: share.stream(),
            params: env.params.with(&self.settings.params),
            counters,
            clock: env.clock.clone(),
            print: if thread == 0 { env.print.clone() } else { None },
            idle: false,
            breaker: Breaker::default(),
        }
    }
}
