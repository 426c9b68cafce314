//! What a program needs to know of an engine before it opens one: name, needs, options, and how
//! to open. Programs are handed a [`Registry`] and never name an engine themselves.

use crate::{Durability, Error, Result, Store, parse_bool, parse_size, unknown};
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

/// The key of an [`EngineOption`] that stands for every key that the others do not name: such an
/// engine hands them to a library, which knows them.
pub const ANY_KEY: &str = "*";

/// The key of an [`EngineOption`] whose default is the one length that keys of the engine have, in
/// bytes. An engine without it takes keys of any length.
pub const KEY_BYTES: &str = "key_bytes";

impl Engine {
    /// The length that all keys of the engine have, if it takes no others. Such an engine is left
    /// out of what has keys of its own, unless it is asked for by name.
    #[must_use]
    pub fn fixed_key_bytes(&self) -> Option<usize> {
        let option = self.options.iter().find(|option| option.key == KEY_BYTES)?;
        option.default.parse().ok()
    }

    /// Whether it has an option called `key`, or takes any.
    #[must_use]
    pub fn takes(&self, key: &str) -> bool {
        self.options.iter().any(|option| option.key == key || option.key == ANY_KEY)
    }

    /// Whether it has an option called `key` by itself.
    #[must_use]
    pub fn names(&self, key: &str) -> bool {
        self.options.iter().any(|option| option.key == key)
    }
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

/// The engines that a program offers, in the order in which it lists them, and the kinds of servers
/// that it can reach.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    engines: Vec<Engine>,
    servers: Vec<Engine>,
    absent: Vec<AbsentEngine>,
}

/// An engine that this build leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentEngine {
    /// The name that it would have in the registry.
    pub name: &'static str,
    /// What it is, for a list.
    pub about: &'static str,
    /// The cargo feature of the program that brings it.
    pub feature: &'static str,
}

impl AbsentEngine {
    /// The command that builds the program with this engine.
    #[must_use]
    pub fn build_command(&self) -> String {
        format!("cargo build --release -p keyrack-cli --features {}", self.feature)
    }
}

/// What a run has been told to use.
#[derive(Clone, Debug)]
pub struct Backend {
    /// The engine. That of a server has the URL as its name, without a password.
    pub engine: Engine,
    /// The section of a configuration file that holds its options.
    pub section: &'static str,
    /// Options that the name of the backend brought along.
    pub options: Vec<(String, String)>,
}

impl Backend {
    /// An engine by its name.
    #[must_use]
    pub fn of(engine: Engine) -> Backend {
        Backend { engine, section: engine.name, options: Vec::new() }
    }
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
        Registry { engines, servers: Vec::new(), absent: Vec::new() }
    }

    /// The same with kinds of servers. Each has the name of a scheme, `redis://`, and an option
    /// `url`.
    #[must_use]
    pub fn with_servers(self, servers: Vec<Engine>) -> Self {
        Registry { servers, ..self }
    }

    /// The same, knowing the engines that this build leaves out.
    #[must_use]
    pub fn with_absent(self, absent: Vec<AbsentEngine>) -> Self {
        Registry { absent, ..self }
    }

    /// The engine called `name`. A server is none.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Engine> {
        self.engines.iter().find(|engine| engine.name == name)
    }

    /// What a backend is: an engine by its name, or a server by its URL,
    /// `SCHEME[+TRANSPORT]://[PASSWORD@]PLACE[?OPTION=VALUE&..]`.
    ///
    /// The name of a server's engine lives as long as the program: a few bytes for each URL that a
    /// person writes.
    #[must_use]
    pub fn backend(&self, text: &str) -> Option<Backend> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return self.find(text).copied().map(Backend::of);
        };
        let plain = scheme.split_once('+').map_or(scheme, |(plain, _)| plain);
        let is_kind = |kind: &&Engine| kind.name.strip_suffix("://") == Some(plain);
        let kind = *self.servers.iter().find(is_kind)?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = vec![("url".to_owned(), format!("{scheme}://{place}"))];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.push((key.to_owned(), value.to_owned()));
        }
        let shown = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let name = String::leak(format!("{scheme}://{shown}"));
        Some(Backend { engine: Engine { name, ..kind }, section: kind.name, options })
    }

    /// All engines.
    pub fn iter(&self) -> impl Iterator<Item = &Engine> {
        self.engines.iter()
    }

    /// All kinds of servers.
    pub fn servers(&self) -> impl Iterator<Item = &Engine> {
        self.servers.iter()
    }

    /// The engines that this build leaves out.
    #[must_use]
    pub fn absent(&self) -> &[AbsentEngine] {
        &self.absent
    }

    /// Why there is no engine of this name, in a line: this build leaves it out, or it is unknown.
    /// `kind` is what the reader called it: an engine, a backend, a section.
    #[must_use]
    pub fn not_found(&self, kind: &str, name: &str) -> String {
        match self.absent.iter().find(|absent| absent.name == name) {
            Some(absent) => {
                let command = absent.build_command();
                format!("engine '{name}' is not in this build; to have it: {command}")
            }
            None => unknown(kind, name, &self.names()),
        }
    }

    /// All names: of the engines, and of the kinds of servers.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.engines.iter().chain(&self.servers).map(|engine| engine.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &'static str) -> Engine {
        let open = |_: &OpenOptions| Err(Error::usage("not opened here"));
        Engine { name, about: "", persistent: false, stores: true, options: &[], open }
    }

    /// An engine that was left out was called unknown.
    #[test]
    fn an_engine_that_is_not_built_in_is_named_with_its_feature() {
        let absent = AbsentEngine { name: "tides", about: "a tree", feature: "sea" };
        let registry = Registry::new(vec![kind("redis")]).with_absent(vec![absent]);
        let line = registry.not_found("backend", "tides");
        assert!(line.starts_with("engine 'tides' is not in this build"), "{line}");
        assert!(line.ends_with("--features sea"), "{line}");
        let line = registry.not_found("backend", "reds");
        assert_eq!(line, "unknown backend 'reds'; did you mean 'redis'? (have: redis)");
    }

    #[test]
    fn a_backend_is_a_name_or_a_url() {
        let registry =
            Registry::new(vec![kind("redis")]).with_servers(vec![kind("redis://"), kind("m://")]);
        let found = |text: &str| {
            let Backend { engine, section, options } = registry.backend(text)?;
            let options: Vec<String> =
                options.iter().map(|(key, value)| format!("{key}={value}")).collect();
            Some((engine.name, section, options.join(" ")))
        };
        assert_eq!(found("redis"), Some(("redis", "redis", String::new())));
        let url = "url=redis://:p@h:1 depth=4 x=".to_owned();
        assert_eq!(
            found("redis://:p@h:1?depth=4&x"),
            Some(("redis://h:1?depth=4&x", "redis://", url))
        );
        let url = "url=m+unix:///run/x".to_owned();
        assert_eq!(found("m+unix:///run/x"), Some(("m+unix:///run/x", "m://", url)));
        for text in ["m", "redi", "x://h:1", "://h:1", "", "redis:/h"] {
            assert_eq!(found(text), None, "{text}");
        }
        assert_eq!(registry.names(), ["redis", "redis://", "m://"]);
    }
}
