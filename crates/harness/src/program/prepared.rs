//! A workload made ready for one measurement, and each worker's share of it.

use super::job::Shared;
use super::workload::{Kind, native_mix};
use super::{
    JobContext, JobTask, MixTask, PlaybackTask, RoleIndex, ScriptEnv, WorkerShare, Workload,
    phases, script,
};
use crate::interrupt::Breaker;
use crate::lua::{Counters, ScriptError, Vm, VmSetup};
use crate::verbs::Verbs;
use keyrack_measure::Histogram;
use keyrack_store::{Durability, Session, Store};
use keyrack_workload::{MixSpec, Phase};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A workload made ready for one measurement: what its workers share.
pub(crate) struct Prepared<'w> {
    workload: &'w Workload,
    env: &'w ScriptEnv,
    sweep: Option<(String, i64)>,
    /// Counters of scripts.
    counters: Counters,
    /// The mix of declarative and native workloads, with its counters.
    mix: Option<(MixSpec, keyrack_workload::Counters)>,
    /// The mixes of declared phases by phase and role, `None` where a role is a function. They
    /// share their counters.
    parts: Vec<Vec<Option<MixSpec>>>,
    /// What the workers of jobs share.
    jobs: Arc<Shared>,
    /// Scripts get verbs that do nothing.
    idle: bool,
}

/// Makes the timed verbs of a worker over a session.
pub(crate) type MakeVerbs<'s> = Rc<dyn Fn(Box<dyn Session + 's>) -> Verbs<'s> + 's>;

/// One worker's share of a workload.
pub(crate) enum Task<'s> {
    Script(Box<Vm<'s>>),
    Mix(Box<MixTask<'s>>),
    Job(Box<JobTask<'s>>),
    Playback(Box<PlaybackTask<'s>>),
}

impl<'w> Prepared<'w> {
    pub(crate) fn new(
        workload: &'w Workload,
        env: &'w ScriptEnv,
        sweep: Option<(String, i64)>,
    ) -> Result<Self, ScriptError> {
        let counters = Counters::default();
        let mix = match workload.kind {
            Kind::Script | Kind::Jobs | Kind::Playback | Kind::Phases { .. } => None,
            Kind::Native => native_mix(&workload.source, &workload.settings, &env.params)
                .transpose()
                .map_err(|error| ScriptError::plain(format!("{}: {error}", workload.source)))?,
            Kind::Declarative { .. } => {
                let vm = silent_vm(workload, env, None, sweep.clone())?;
                Some(script::mix_of(&vm, workload, vm.workload(), "mix")?)
            }
        };
        let parts = mixes_of_phases(workload, env, sweep.as_ref())?;
        let mut all = parts.iter().flatten().flatten();
        // The load of declared phases is that of their first mix, which knows the keys of all.
        let mix = mix.or_else(|| {
            let mut first = all.next()?.clone();
            first.keys.extend(all.flat_map(|spec| spec.keys.iter().cloned()));
            Some(first)
        });
        let mix = mix.map(|spec| {
            let counters = spec.counters();
            (spec, counters)
        });
        let specs = mix.iter().map(|(spec, _)| spec).chain(parts.iter().flatten().flatten());
        for spec in specs {
            let named = |error| ScriptError::plain(format!("{}: {error}", workload.source));
            spec.check().map_err(named)?;
        }
        let jobs = Arc::default();
        Ok(Prepared { workload, env, sweep, counters, mix, parts, jobs, idle: false })
    }

    /// Gives scripts verbs that return at once, for the overhead report.
    pub(crate) fn idle(self, idle: bool) -> Self {
        Prepared { idle, ..self }
    }

    /// Notes whether the store had rows before anything was loaded.
    pub(crate) fn note_rows(&self, has_rows: bool) {
        self.jobs.note_rows(has_rows);
    }

    /// Makes the task of one worker. Called on the worker's own thread. Workers beside `threads`
    /// have numbers behind theirs.
    pub(crate) fn task<'s>(
        &self,
        share: WorkerShare,
        store: &'s dyn Store,
        make: &MakeVerbs<'s>,
        breaker: &Breaker,
    ) -> Result<Task<'s>, ScriptError> {
        let session = store.session().map_err(|e| ScriptError::plain(e.to_string()))?;
        let removals_tell = store.info().removals_tell;
        let verbs = make(session).telling_removals(removals_tell);
        let (phase, (thread, threads)) = (share.phase, share.who);
        if let Some(plan) = &self.workload.playback {
            // A store that syncs every write has no other way to store.
            let verbs = verbs.syncing_all(!store.info().syncs_single_puts);
            let task = PlaybackTask::new(plan, phase, (thread, threads), verbs)?;
            return Ok(Task::Playback(Box::new(task)));
        }
        if let Some(plan) = &self.workload.jobs {
            return Ok(Task::Job(Box::new(JobTask {
                plan: Arc::clone(plan),
                shared: Arc::clone(&self.jobs),
                verbs: verbs.syncing_all(store.info().durability == Durability::Sync),
                params: self.env.params.with(&self.workload.settings.params),
                bound: self.workload.bound(),
                seed: self.env.seed,
                who: (thread, threads),
            })));
        }
        let lua_load = self.workload.kind == Kind::Script
            || self.workload.kind == (Kind::Declarative { load_function: true })
            || self.workload.kind == (Kind::Phases { load_function: true });
        let part = share.role.and_then(|at| self.parts.get(at.phase)?.get(at.role)?.as_ref());
        let script = match phase {
            Phase::Load => lua_load,
            _ => self.workload.kind == Kind::Script || (share.role.is_some() && part.is_none()),
        };
        match (&self.workload.script, &self.mix) {
            (Some(script_text), _) if script => {
                let counters = self.counters.clone();
                let sweep = self.sweep.clone();
                let setup = self.workload.setup(script_text, self.env, counters, share, sweep);
                let mut vm =
                    Vm::load(&VmSetup { idle: self.idle, breaker: breaker.clone(), ..setup })?;
                let make = Rc::clone(make);
                let open = Box::new(move || {
                    store.session().map(|session| make(session).telling_removals(removals_tell))
                });
                vm.bridge.sessions.connect(verbs, open);
                // `setup(ctx)` prepares upvalues before anything is timed.
                if phase != Phase::Load && vm.pin("setup")? {
                    vm.unit(0)?;
                }
                match share.role {
                    Some(place) => {
                        let table = phases::table_at(&vm, place)?;
                        vm.pin_of(&table, "run")?
                    }
                    None => vm.pin(if phase == Phase::Load { "load" } else { "run" })?,
                };
                Ok(Task::Script(Box::new(vm)))
            }
            (_, Some((spec, counters))) => {
                let (seed, spec) = (self.env.seed, part.unwrap_or(spec));
                MixTask::new(spec, counters, seed, share.stream(), share.who, verbs)
                    .map(|task| Task::Mix(Box::new(task)))
                    .map_err(|error| ScriptError::plain(error.to_string()))
            }
            _ => Err(ScriptError::plain(format!("{} has nothing to run", self.workload.name))),
        }
    }
}

/// A machine with the file of `workload` loaded, which prints nothing and has no store.
fn silent_vm<'s>(
    workload: &Workload,
    env: &ScriptEnv,
    role: Option<RoleIndex>,
    sweep: Option<(String, i64)>,
) -> Result<Vm<'s>, ScriptError> {
    let Some(script) = &workload.script else {
        return Err(ScriptError::plain("a declarative script has no text".into()));
    };
    let share =
        WorkerShare { role, bound: workload.bound(), ..WorkerShare::new(Phase::Setup, (0, 1)) };
    let setup = workload.setup(script, env, Counters::default(), share, sweep);
    Vm::load(&VmSetup { print: None, ..setup })
}

/// The mixes of declared phases, by phase and role.
fn mixes_of_phases(
    workload: &Workload,
    env: &ScriptEnv,
    sweep: Option<&(String, i64)>,
) -> Result<Vec<Vec<Option<MixSpec>>>, ScriptError> {
    let mut all = Vec::new();
    for (phase, plan) in workload.phases.iter().enumerate() {
        let mut mixes = Vec::new();
        for (role, plan_of_role) in plan.roles.iter().enumerate() {
            if !plan_of_role.is_mix {
                mixes.push(None);
                continue;
            }
            let place = RoleIndex { phase, role };
            let vm = silent_vm(workload, env, Some(place), sweep.cloned())?;
            let table = phases::table_at(&vm, place)?;
            let what = match &plan_of_role.name {
                Some(name) => format!("phase '{}': role '{name}': mix", plan.name),
                None => format!("phase '{}': mix", plan.name),
            };
            mixes.push(Some(script::mix_of(&vm, workload, &table, &what)?));
        }
        all.push(mixes);
    }
    Ok(all)
}

impl<'s> Task<'s> {
    /// Runs the whole load of this worker's shard.
    pub(crate) fn load(&mut self, context: &JobContext<'_, 's>) -> Result<(), ScriptError> {
        match self {
            Task::Script(vm) => vm.unit(0),
            Task::Mix(mix) => mix.load(&|| context.stop.load(Ordering::Relaxed)),
            Task::Playback(trace) => trace.load(&|| context.stop.load(Ordering::Relaxed)),
            Task::Job(job) => job.load(context).map_err(ScriptError::plain),
        }
    }

    /// Ends the task and hands back its verbs and what `kb.time` filed.
    pub(crate) fn finish(self) -> (Option<Verbs<'s>>, Vec<(String, Histogram)>) {
        match self {
            Task::Script(mut vm) => (vm.bridge.sessions.disconnect(), vm.bridge.labels.take()),
            Task::Mix(mix) => (Some(mix.into_verbs()), Vec::new()),
            Task::Playback(trace) => (Some(trace.into_verbs()), Vec::new()),
            Task::Job(job) => (Some(job.verbs), Vec::new()),
        }
    }
}
