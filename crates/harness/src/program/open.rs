//! A script file as a workload: read, run once without a store, and checked.

use super::ScriptEnv;
use super::prepared::Prepared;
use super::script;
use super::share::WorkerShare;
use super::workload::{Kind, Workload};
use crate::lua::{Counters, Script, ScriptError, Vm, VmSetup};
use crate::settings::Override;
use keyrack_workload::Phase;
use std::sync::Arc;

/// Reads the script `text` of the file `path`: runs it once without a store and looks at the
/// table that it returns.
pub(crate) fn open_script(
    path: &str,
    text: Vec<u8>,
    env: &ScriptEnv,
    settings_of: &dyn Fn(&str) -> Override,
    batch: &[i64],
) -> Result<Workload, ScriptError> {
    use sha2::Digest;
    if let Err(error) = std::str::from_utf8(&text) {
        let line = text[..error.valid_up_to()].iter().filter(|&&byte| byte == b'\n').count() + 1;
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
        load_keys: None,
        settings: settings_of(""),
        phases: Vec::new(),
        kind: Kind::Script,
        script: Some(Arc::clone(&script)),
        jobs: None,
        playback: None,
    };
    let inspect = |workload: &mut Workload| {
        let (counters, who) = (Counters::default(), (0, 1));
        let share = WorkerShare { bound: workload.bound(), ..WorkerShare::new(Phase::Setup, who) };
        let setup = workload.setup(&script, env, counters, share, None);
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
