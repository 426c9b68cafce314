//! What a Lua machine is made from, and the error of a script.

use super::objects::Counters;
use crate::interrupt::Breaker;
use crate::params::Params;
use keyrack_measure::Clock;
use std::fmt;
use std::sync::Arc;

/// What a machine is made for.
#[derive(Clone, Debug)]
pub(crate) struct VmSetup {
    /// The script, and the name under which errors quote it.
    pub(crate) script: Arc<Script>,
    pub(crate) sandbox: Sandbox,
    pub(crate) ctx: Ctx,
    pub(crate) phase: keyrack_workload::Phase,
    pub(crate) params: Params,
    pub(crate) counters: Counters,
    pub(crate) clock: Clock,
    pub(crate) breaker: Breaker,
    /// Where `print` goes; `None` swallows it.
    pub(crate) print: Option<Print>,
    /// Whether the verbs answer at once and do nothing, for the overhead report.
    pub(crate) idle: bool,
}

/// A receiver of the lines that scripts print.
#[derive(Clone)]
pub struct Print(pub Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Print")
    }
}

/// The text of a workload file.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) path: String,
    pub(crate) text: Vec<u8>,
}

/// What scripts may do.
#[derive(Clone, Copy, Debug)]
pub struct Sandbox {
    /// All libraries, files and processes included.
    pub open: bool,
    /// Bytes that one machine may allocate.
    pub memory_max: usize,
}

/// The numbers that a script finds in `ctx`.
#[derive(Clone, Debug)]
pub(crate) struct Ctx {
    pub(crate) users: u64,
    pub(crate) items: u64,
    pub(crate) ops: u64,
    pub(crate) seed: u64,
    pub(crate) thread: u32,
    pub(crate) threads: u32,
    /// The swept parameter of this cell, `batch` included.
    pub(crate) sweep: Option<(String, i64)>,
    /// The declared phase, and the role in it where it has a name.
    pub(crate) part: Option<(String, Option<String>)>,
}

/// Why a script could not be read or stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptError {
    /// One line, with file and line where Lua knows them.
    pub(crate) message: String,
    /// The traceback, where there is one.
    pub(crate) traceback: String,
}

impl ScriptError {
    pub(crate) fn plain(message: String) -> Self {
        ScriptError { message, traceback: String::new() }
    }

    /// Splits Lua's text into the message and the traceback after it.
    pub(super) fn from_text(text: &str) -> Self {
        match text.split_once("\nstack traceback:\n") {
            Some((message, traceback)) => ScriptError {
                message: message.replace('\n', " "),
                traceback: traceback.lines().map(str::trim).collect::<Vec<_>>().join("\n"),
            },
            None => ScriptError::plain(text.replace('\n', " ")),
        }
    }
}

impl From<mlua::Error> for ScriptError {
    fn from(error: mlua::Error) -> Self {
        match &error {
            mlua::Error::SyntaxError { message, .. } => ScriptError::plain(message.clone()),
            mlua::Error::MemoryError(_) => ScriptError::plain(
                "the script needs more memory than it may use; --lua-memory raises the limit"
                    .to_owned(),
            ),
            mlua::Error::RuntimeError(text) => ScriptError::from_text(text),
            mlua::Error::CallbackError { cause, traceback } => {
                let inner = ScriptError::from(mlua::Error::clone(cause));
                let text = format!("{}\n{traceback}", inner.message);
                ScriptError { message: inner.message, ..ScriptError::from_text(&text) }
            }
            other => ScriptError::from_text(&other.to_string()),
        }
    }
}
