//! Workloads: what a file or a name asks for, and one worker's share of it.
//!
//! ```text
//!   source text --Workload::open--> Workload     name, sweep, what load and run are
//!   Workload + cell --Prepared::new--> Prepared  counters shared by the workers of one measurement
//!   Prepared + thread --Prepared::task--> Task   a Lua machine, or a native mix; calls unit(iter)
//! ```

mod mix;
mod script;

pub(crate) use mix::MixTask;

use crate::interrupt::Breaker;
use crate::lua::{Counters, Ctx, Print, Sandbox, Script, ScriptError, Vm, VmSetup};
use crate::names::unknown;
use crate::params::Params;
use crate::settings::{Bound, Override};
use crate::verbs::Verbs;
use keyrack_measure::{Clock, Histogram};
use keyrack_store::{Session, Store};
use keyrack_workload::{MixSpec, Phase};
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
    /// Its own settings after the run's.
    pub settings: Override,
    kind: Kind,
    script: Option<Arc<Script>>,
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
    Native,
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
            kind: Kind::Native,
            script: None,
        })
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
            kind: Kind::Script,
            script: Some(Arc::clone(&script)),
        };
        let inspect = |workload: &mut Workload| {
            let (counters, who) = (Counters::default(), (0, 1));
            let setup = workload.setup(&script, env, counters, Phase::Setup, who, None);
            let vm = Vm::load(&VmSetup { print: None, ..setup })?;
            script::inspect(&vm, workload, batch)
        };
        inspect(&mut workload)?;
        workload.settings = settings_of(&workload.name);
        if !workload.settings.params.is_empty() {
            // The parameters of its own section may be wrong, or decide what it sweeps.
            inspect(&mut workload)?;
        }
        if matches!(workload.kind, Kind::Declarative { .. }) {
            // A mix that does not hold together is the file's mistake, not a cell's.
            let value = workload.sweep.as_ref().map(|s| (s.param.clone(), s.values[0]));
            Prepared::new(&workload, env, value)?;
        }
        Ok(workload)
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
        phase: Phase,
        (thread, threads): (u32, u32),
        sweep: Option<(String, i64)>,
    ) -> VmSetup {
        VmSetup {
            script: Arc::clone(script),
            sandbox: env.sandbox,
            ctx: Ctx {
                users: self.settings.users.unwrap_or(0),
                items: self.settings.items.unwrap_or(0),
                ops: match self.bound() {
                    Bound::Ops(ops) => ops,
                    Bound::Secs(_) => 0,
                },
                seed: env.seed,
                thread,
                threads,
                sweep,
            },
            phase,
            params: env.params.with(&self.settings.params),
            counters,
            clock: env.clock.clone(),
            print: if thread == 0 { env.print.clone() } else { None },
            idle: false,
            breaker: Breaker::default(),
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
    /// Scripts get verbs that do nothing.
    idle: bool,
}

/// Makes the timed verbs of a worker over a session.
pub(crate) type MakeVerbs<'s> = Arc<dyn Fn(Box<dyn Session + 's>) -> Verbs<'s> + 's>;

/// One worker's share of a workload.
pub(crate) enum Task<'s> {
    Script(Box<Vm<'s>>),
    Mix(Box<MixTask<'s>>),
}

impl<'w> Prepared<'w> {
    pub(crate) fn new(
        workload: &'w Workload,
        env: &'w ScriptEnv,
        sweep: Option<(String, i64)>,
    ) -> Result<Self, ScriptError> {
        let counters = Counters::default();
        let mix = match workload.kind {
            Kind::Script => None,
            Kind::Native => {
                keyrack_workload::native(&workload.source, workload.settings.items.unwrap_or(1))
            }
            Kind::Declarative { .. } => {
                let setup = match &workload.script {
                    Some(script) => workload.setup(
                        script,
                        env,
                        Counters::default(),
                        Phase::Setup,
                        (0, 1),
                        sweep.clone(),
                    ),
                    None => {
                        return Err(ScriptError::plain("a declarative script has no text".into()));
                    }
                };
                let vm = Vm::load(&VmSetup { print: None, ..setup })?;
                Some(script::mix_of(&vm, workload)?)
            }
        };
        let mix = mix.map(|spec| {
            let counters = spec.counters();
            (spec, counters)
        });
        if let Some((spec, _)) = &mix {
            let named = |error| ScriptError::plain(format!("{}: {error}", workload.source));
            spec.check().map_err(named)?;
        }
        Ok(Prepared { workload, env, sweep, counters, mix, idle: false })
    }

    /// Gives scripts verbs that return at once, for the overhead report.
    pub(crate) fn idle(self, idle: bool) -> Self {
        Prepared { idle, ..self }
    }

    /// Makes the task of one worker. Called on the worker's own thread.
    pub(crate) fn task<'s>(
        &self,
        phase: Phase,
        (thread, threads): (u32, u32),
        store: &'s dyn Store,
        make: &MakeVerbs<'s>,
        breaker: &Breaker,
    ) -> Result<Task<'s>, ScriptError> {
        let session = store.session().map_err(|e| ScriptError::plain(e.to_string()))?;
        let verbs = make(session);
        let lua_load = self.workload.kind == Kind::Script
            || self.workload.kind == (Kind::Declarative { load_function: true });
        let script = match phase {
            Phase::Load => lua_load,
            _ => self.workload.kind == Kind::Script,
        };
        match (&self.workload.script, &self.mix) {
            (Some(script_text), _) if script => {
                let counters = self.counters.clone();
                let sweep = self.sweep.clone();
                let who = (thread, threads);
                let setup = self.workload.setup(script_text, self.env, counters, phase, who, sweep);
                let mut vm =
                    Vm::load(&VmSetup { idle: self.idle, breaker: breaker.clone(), ..setup })?;
                let make = Arc::clone(make);
                let open = Box::new(move || store.session().map(|session| make(session)));
                vm.bridge.sessions.connect(verbs, open);
                // `setup(ctx)` prepares upvalues before anything is timed.
                if phase != Phase::Load && vm.pin("setup")? {
                    vm.unit(0)?;
                }
                let field = if phase == Phase::Load { "load" } else { "run" };
                vm.pin(field)?;
                Ok(Task::Script(Box::new(vm)))
            }
            (_, Some((spec, counters))) => {
                let seed = self.env.seed;
                let who = (thread, threads);
                MixTask::new(spec, counters, seed, phase, who, verbs)
                    .map(|task| Task::Mix(Box::new(task)))
                    .map_err(|error| ScriptError::plain(error.to_string()))
            }
            _ => Err(ScriptError::plain(format!("{} has nothing to run", self.workload.name))),
        }
    }
}

impl<'s> Task<'s> {
    /// Runs the whole load of this worker's shard.
    pub(crate) fn load(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ScriptError> {
        match self {
            Task::Script(vm) => vm.unit(0),
            Task::Mix(mix) => mix.load(stop),
        }
    }

    /// Ends the task and hands back its verbs and what `kb.time` filed.
    pub(crate) fn finish(self) -> (Option<Verbs<'s>>, Vec<(String, Histogram)>) {
        match self {
            Task::Script(mut vm) => (vm.bridge.sessions.disconnect(), vm.bridge.labels.take()),
            Task::Mix(mix) => (Some(mix.into_verbs()), Vec::new()),
        }
    }
}

/// The message for a name that is neither a file nor a native workload.
pub(crate) fn unknown_workload(source: &str) -> String {
    let names: Vec<&str> = keyrack_workload::native_names().iter().map(|(name, _)| *name).collect();
    unknown("workload", source, &names)
}
