//! What a program needs to know of an engine before it opens one: name, needs, options, and how
//! to open. Programs are handed a [`Registry`] and never name an engine themselves.

use crate::{Durability, Error, Result, Store, parse_bool, parse_size};
use keyrack_vfs::Fs;
use std::path::PathBuf;
use std::sync::Arc;

/// An engine that can be opened by name.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    /// The name on the command line: lower case, no blanks.
    pub name: &'static str,
    /// One line for `--help` and lists.
    pub about: &'static str,
    /// Whether it stores on disk and so needs a data directory.
    pub persistent: bool,
    /// Whether it holds data at all; the null engine does not, and is left out of comparisons
    /// that were not asked for by name.
    pub stores: bool,
    /// The options it takes in its section of a configuration file.
    pub options: &'static [EngineOption],
    /// Opens a fresh store.
    pub open: fn(&OpenOptions) -> Result<Box<dyn Store>>,
}

/// One option of an engine.
#[derive(Clone, Copy, Debug)]
pub struct EngineOption {
    /// Its key in the engine's section.
    pub key: &'static str,
    /// The value that holds when it is absent, as text.
    pub default: &'static str,
    /// One line with the unit.
    pub about: &'static str,
}

/// What an engine is opened with.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// An existing empty directory of the store's own, for persistent engines.
    pub data_dir: Option<PathBuf>,
    /// The door to files.
    pub fs: Arc<dyn Fs>,
    /// Seed for engines that draw (tower heights).
    pub seed: u64,
    /// What an acknowledged write shall survive; `None` takes the engine's default.
    pub durability: Option<Durability>,
    /// Options of the engine's section, checked against [`Engine::options`] by the caller.
    pub options: Vec<(String, String)>,
}

impl OpenOptions {
    /// Options for a store in memory.
    #[must_use]
    pub fn in_memory(fs: Arc<dyn Fs>) -> Self {
        OpenOptions { data_dir: None, fs, seed: 1, durability: None, options: Vec::new() }
    }

    /// The last value given for `key`.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.options.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of `key` as a size in bytes, or `default`.
    ///
    /// # Errors
    /// [`Error::Usage`] that names key and value.
    pub fn size(&self, key: &str, default: u64) -> Result<u64> {
        self.parsed(key, default, parse_size)
    }

    /// The value of `key` as a boolean, or `default`.
    ///
    /// # Errors
    /// [`Error::Usage`] that names key and value.
    pub fn flag(&self, key: &str, default: bool) -> Result<bool> {
        self.parsed(key, default, parse_bool)
    }

    fn parsed<T>(
        &self,
        key: &str,
        default: T,
        parse: fn(&str) -> std::result::Result<T, String>,
    ) -> Result<T> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => parse(text).map_err(|why| Error::usage(format!("{key}: {why}"))),
        }
    }

    /// The data directory, for engines that cannot do without.
    ///
    /// # Errors
    /// [`Error::Usage`] where none was given.
    pub fn required_data_dir(&self) -> Result<&PathBuf> {
        self.data_dir.as_ref().ok_or_else(|| Error::usage("this engine needs a data directory"))
    }
}

/// The engines that a program offers, in the order in which it lists them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    engines: Vec<Engine>,
}

impl Registry {
    /// A registry of `engines`.
    ///
    /// # Panics
    /// When two engines have one name: a mistake in the program, found when it starts.
    #[must_use]
    pub fn new(engines: Vec<Engine>) -> Self {
        for (index, engine) in engines.iter().enumerate() {
            let twice = engines[..index].iter().any(|earlier| earlier.name == engine.name);
            assert!(!twice, "engine '{}' is registered twice", engine.name);
        }
        Registry { engines }
    }

    /// The engine called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    /// All engines.
    pub fn iter(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter()
    }

    /// All names.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.engines.iter().map(|engine| engine.name).collect()
    }
}
