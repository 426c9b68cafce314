//! What the program around the harness provides, and the refusal of a run that cannot start.

use crate::lua::Print;
use keyrack_measure::Clock;
use keyrack_store::Registry;
use keyrack_vfs::Fs;
use std::sync::Arc;

/// Why a run cannot start: one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What the program around the harness provides.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Engines by name.
    pub registry: Registry,
    /// The door to files.
    pub fs: Arc<dyn Fs>,
    /// Version, command line, compiler and allocator of the program.
    pub facts: Facts,
    /// The clock of every measurement.
    pub clock: Clock,
    /// Where scripts' `print` goes.
    pub print: Option<Print>,
    /// Scripts that are part of the program: path and text.
    pub bundled: &'static [(&'static str, &'static str)],
}

/// What the program is.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name it was called by.
    pub program: String,
    /// Its version.
    pub version: String,
    /// The commit that it was built from, where the build knew it.
    pub revision: Option<String>,
    /// The command line, program name first.
    pub argv: Vec<String>,
    /// The compiler.
    pub compiler: String,
    /// The memory allocator.
    pub allocator: String,
}

pub(crate) fn refusal(text: impl Into<String>) -> Refusal {
    Refusal(text.into())
}
