//! An engine of a run, with the options that its stores are opened with.

use crate::verify::Verify;
use keyrack_store::{Durability, Engine};
use std::path::PathBuf;

/// An engine of a run.
#[derive(Clone, Debug)]
pub struct PlannedEngine {
    /// The engine.
    pub engine: Engine,
    /// Its section of the configuration, without `data_dir`.
    pub options: Vec<(String, String)>,
    /// Where its stores live, for persistent engines.
    pub data_dir: Option<PathBuf>,
    /// The directory of the one store that is used and stays, where one was named.
    pub kept_dir: Option<PathBuf>,
    /// Whether its stores make puts that are synced.
    pub syncs: bool,
    /// What its stores are opened with: what the run asks for, or what `[common]` came to.
    pub durability: Option<Durability>,
    /// Whether its answers are checked, and how far.
    pub verify: Option<Verify>,
    /// What it made of `[common]`, where there is such a section.
    pub terms: Option<String>,
    /// What stands at every one of its results: where its terms are not those of the others, and
    /// what its library gives away.
    pub remarks: Vec<String>,
}
