//! Workloads: what a file or a name asks for, and one worker's share of it.
//!
//! ```text
//!   source text --Workload::open--> Workload     name, sweep, what load and run are
//!   Workload + cell --Prepared::new--> Prepared  counters shared by the workers of one measurement
//!   Prepared + thread --Prepared::task--> Task   a Lua machine, or a native mix; calls unit(iter)
//!                                                or a sequence of jobs, which runs once,
//!                                                or the operations of a trace
//! ```

mod job;
mod mix;
mod phases;
mod playback;
mod script;

pub(crate) use job::{Around, JobTask};
pub(crate) use mix::MixTask;
pub(crate) use phases::{PhasePlan, Place, RolePlan};
pub(crate) use playback::{Differences, Offsets, Playback, PlaybackTask, share_of};

use self::job::{JOB_SECONDS, JobPlan};
use crate::interrupt::Breaker;
use crate::lua::{Counters, Ctx, Print, Sandbox, Script, ScriptError, Vm, VmSetup};
use crate::names::unknown;
use crate::params::Params;
use crate::settings::{Bound, Override};
use crate::verbs::Verbs;
use keyrack_measure::{Clock, Histogram};
use keyrack_store::{Durability, Session, Store};
use keyrack_workload::{MixSpec, Phase};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
    /// Its own settings after the run's.
    pub settings: Override,
    /// The phases that it declares, in order; empty where it declares none.
    pub(crate) phases: Vec<PhasePlan>,
    kind: Kind,
    script: Option<Arc<Script>>,
    /// The jobs, where it is a sequence of them.
    jobs: Option<Arc<JobPlan>>,
    /// The trace, where it is one.
    playback: Option<Arc<Playback>>,
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
enum Kind {
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

/// What every machine of a run shares.
#[derive(Clone, Debug)]
pub(crate) struct ScriptEnv {
    pub(crate) sandbox: Sandbox,
    pub(crate) params: Params,
    pub(crate) print: Option<Print>,
    pub(crate) clock: Clock,
    pub(crate) seed: u64,
}

/// Values of one sweep.
const SWEEP_VALUES_MAX: usize = 64;

impl Workload {
    /// The native workload called `name`.
    pub(crate) fn native(name: &str, settings: Override) -> Option<Workload> {
        let spec = keyrack_workload::native(name, settings.items.unwrap_or(1))?;
        Some(Workload {
            source: name.to_owned(),
            name: spec.name,
            sha256: String::new(),
            text: String::new(),
            sweep: None,
            has_load: true,
            settings,
            phases: Vec::new(),
            kind: Kind::Native,
            script: None,
            jobs: None,
            playback: None,
        })
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

    /// Whether `source` begins with the name of a job; whether all of its names are those of jobs
    /// is found out by [`Workload::jobs`].
    pub(crate) fn names_jobs(source: &str) -> bool {
        JobPlan::jobs_of(source).is_some()
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
            settings,
            phases: Vec::new(),
            kind: Kind::Jobs,
            script: None,
            jobs: Some(Arc::new(plan)),
            playback: None,
        }))
    }

    /// What the jobs of `source` are bounded by where nobody has bounded them: their own counts, or
    /// a time.
    pub(crate) fn bound_of_jobs<'p>(
        source: &str,
        param: impl Fn(&str) -> Option<&'p str>,
    ) -> Bound {
        let count = match JobPlan::jobs_of(source) {
            Some(Ok(jobs)) => keyrack_workload::own_count(&jobs, param),
            _ => None,
        };
        count.map_or(Bound::Secs(JOB_SECONDS), Bound::Ops)
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

    /// Reads the script `text` of the file `path`: runs it once without a store and looks at the
    /// table that it returns.
    pub(crate) fn script(
        path: &str,
        text: Vec<u8>,
        env: &ScriptEnv,
        settings_of: &dyn Fn(&str) -> Override,
        batch: &[i64],
    ) -> Result<Workload, ScriptError> {
        use sha2::Digest;
        if let Err(error) = std::str::from_utf8(&text) {
            let line =
                text[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
            return Err(ScriptError::plain(format!(
                "{path}:{line}: not UTF-8 text; write other bytes as escapes such as \\xff"
            )));
        }
        let sha256 = sha2::Sha256::digest(&text).iter().map(|b| format!("{b:02x}")).collect();
        let script = Arc::new(Script { path: path.to_owned(), text });
        let mut workload = Workload {
            source: path.to_owned(),
            name: "(unnamed)".to_owned(),
            sha256,
            text: String::from_utf8_lossy(&script.text).into_owned(),
            sweep: None,
            has_load: false,
            settings: settings_of(""),
            phases: Vec::new(),
            kind: Kind::Script,
            script: Some(Arc::clone(&script)),
            jobs: None,
            playback: None,
        };
        let inspect = |workload: &mut Workload| {
            let (counters, who) = (Counters::default(), (0, 1));
            let seat = Seat { bound: workload.bound(), ..Seat::new(Phase::Setup, who) };
            let setup = workload.setup(&script, env, counters, seat, None);
            let vm = Vm::load(&VmSetup { print: None, ..setup })?;
            script::inspect(&vm, workload, batch)
        };
        inspect(&mut workload)?;
        workload.settings = settings_of(&workload.name);
        if !workload.settings.params.is_empty() {
            // The parameters of its own section may be wrong, or decide what it sweeps.
            inspect(&mut workload)?;
        }
        if matches!(workload.kind, Kind::Declarative { .. } | Kind::Phases { .. }) {
            // A mix that does not hold together is the file's mistake, not a cell's.
            let value = workload.sweep.as_ref().map(|s| (s.param.clone(), s.values[0]));
            Prepared::new(&workload, env, value)?;
        }
        Ok(workload)
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
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.settings.bound.unwrap_or(Bound::Ops(1))
    }

    fn setup(
        &self,
        script: &Arc<Script>,
        env: &ScriptEnv,
        counters: Counters,
        seat: Seat,
        sweep: Option<(String, i64)>,
    ) -> VmSetup {
        let (thread, threads) = seat.who;
        let part = seat.place.and_then(|place| {
            let phase = self.phases.get(place.phase)?;
            Some((phase.name.clone(), phase.roles.get(place.role)?.name.clone()))
        });
        VmSetup {
            script: Arc::clone(script),
            sandbox: env.sandbox,
            ctx: Ctx {
                users: self.settings.users.unwrap_or(0),
                items: self.settings.items.unwrap_or(0),
                ops: match seat.bound {
                    Bound::Ops(ops) => ops,
                    Bound::Secs(_) => 0,
                },
                seed: env.seed,
                thread,
                threads,
                sweep,
                part,
            },
            phase: seat.stream(),
            params: env.params.with(&self.settings.params),
            counters,
            clock: env.clock.clone(),
            print: if thread == 0 { env.print.clone() } else { None },
            idle: false,
            breaker: Breaker::default(),
        }
    }
}

/// Whose share of a workload a task is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    pub(crate) phase: Phase,
    /// The thread, of how many that share the work.
    pub(crate) who: (u32, u32),
    /// The declared role.
    pub(crate) place: Option<Place>,
    pub(crate) bound: Bound,
}

impl Seat {
    pub(crate) fn new(phase: Phase, who: (u32, u32)) -> Self {
        Seat { phase, who, place: None, bound: Bound::Ops(1) }
    }

    /// The streams of random numbers: those of two roles, or of two phases, have nothing in common.
    fn stream(&self) -> Phase {
        match self.place {
            Some(Place { phase, role }) => {
                Phase::Other(16 + (phase * phases::ROLES_MAX + role) as u32)
            }
            None => self.phase,
        }
    }
}

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
    jobs: Arc<job::Shared>,
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
            Kind::Native => {
                keyrack_workload::native(&workload.source, workload.settings.items.unwrap_or(1))
            }
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
        seat: Seat,
        store: &'s dyn Store,
        make: &MakeVerbs<'s>,
        breaker: &Breaker,
    ) -> Result<Task<'s>, ScriptError> {
        let session = store.session().map_err(|e| ScriptError::plain(e.to_string()))?;
        let verbs = make(session);
        let (phase, (thread, threads)) = (seat.phase, seat.who);
        if let Some(plan) = &self.workload.playback {
            // A store that syncs every write has no other way to store.
            let verbs = verbs.syncing_all(!store.has_synced_put());
            let task = PlaybackTask::new(plan, phase, (thread, threads), verbs)?;
            return Ok(Task::Playback(Box::new(task)));
        }
        if let Some(plan) = &self.workload.jobs {
            return Ok(Task::Job(Box::new(JobTask {
                plan: Arc::clone(plan),
                shared: Arc::clone(&self.jobs),
                verbs: verbs.syncing_all(store.durability() == Durability::Sync),
                params: self.env.params.with(&self.workload.settings.params),
                bound: self.workload.bound(),
                seed: self.env.seed,
                who: (thread, threads),
            })));
        }
        let lua_load = self.workload.kind == Kind::Script
            || self.workload.kind == (Kind::Declarative { load_function: true })
            || self.workload.kind == (Kind::Phases { load_function: true });
        let part = seat.place.and_then(|at| self.parts.get(at.phase)?.get(at.role)?.as_ref());
        let script = match phase {
            Phase::Load => lua_load,
            _ => self.workload.kind == Kind::Script || (seat.place.is_some() && part.is_none()),
        };
        match (&self.workload.script, &self.mix) {
            (Some(script_text), _) if script => {
                let counters = self.counters.clone();
                let sweep = self.sweep.clone();
                let setup = self.workload.setup(script_text, self.env, counters, seat, sweep);
                let mut vm =
                    Vm::load(&VmSetup { idle: self.idle, breaker: breaker.clone(), ..setup })?;
                let make = Rc::clone(make);
                let open = Box::new(move || store.session().map(|session| make(session)));
                vm.bridge.sessions.connect(verbs, open);
                // `setup(ctx)` prepares upvalues before anything is timed.
                if phase != Phase::Load && vm.pin("setup")? {
                    vm.unit(0)?;
                }
                match seat.place {
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
                MixTask::new(spec, counters, seed, seat.stream(), seat.who, verbs)
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
    place: Option<Place>,
    sweep: Option<(String, i64)>,
) -> Result<Vm<'s>, ScriptError> {
    let Some(script) = &workload.script else {
        return Err(ScriptError::plain("a declarative script has no text".into()));
    };
    let seat = Seat { place, bound: workload.bound(), ..Seat::new(Phase::Setup, (0, 1)) };
    let setup = workload.setup(script, env, Counters::default(), seat, sweep);
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
            let place = Place { phase, role };
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
    pub(crate) fn load(&mut self, around: &Around<'_, 's>) -> Result<(), ScriptError> {
        match self {
            Task::Script(vm) => vm.unit(0),
            Task::Mix(mix) => mix.load(&|| around.stop.load(Ordering::Relaxed)),
            Task::Playback(trace) => trace.load(&|| around.stop.load(Ordering::Relaxed)),
            Task::Job(job) => job.load(around).map_err(ScriptError::plain),
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

/// The message for a name that is neither a file nor a native workload.
pub(crate) fn unknown_workload(source: &str) -> String {
    let mixes = keyrack_workload::native_names().iter().map(|(name, _)| *name);
    let names: Vec<&str> = mixes.chain(job_names()).collect();
    unknown("workload", source, &names)
}

fn job_names() -> Vec<&'static str> {
    keyrack_workload::jobs().map(|job| job.name).collect()
}
