//! The settings of a run: one table of keys that drives flags, configuration files and replay.
//!
//! Every value arrives as text, from a flag or from a file, and goes through the same strict
//! parser; an error names the key as the reader wrote it. Precedence is default, then file, then
//! flag. A later *source* also decides between `ops` and `secs`: a flag `--ops` overrides a file's
//! `secs`. Both in one source contradict each other and are refused.

mod keys;
mod parse;

pub use keys::{Form, KEYS, Key};

use crate::lua::Sandbox;
use crate::pin::Pin;
use keyrack_store::{Durability, parse_bool, parse_size, unknown};
use keyrack_trace::Format;
use keyrack_workload::Arrivals;
use parse::{
    choice, count, count_up_to, directory, goal, list, names, pair, pin, rate, seconds, speed,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// When a cell ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// After so many units over all threads.
    Ops(u64),
    /// After so many seconds.
    Secs(f64),
}

/// The order of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementOrder {
    /// Engines take turns within each repeat of a cell, so that drift hits all alike.
    Interleave,
    /// All of one engine, then the next: the original's order.
    Engine,
    /// All measurements in an order drawn from the seed.
    Shuffle,
}

impl MeasurementOrder {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MeasurementOrder::Interleave => "interleave",
            MeasurementOrder::Engine => "engine",
            MeasurementOrder::Shuffle => "shuffle",
        }
    }
}

/// How the live status looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// A bar on a terminal, nothing elsewhere.
    Auto,
    /// A bar.
    Bar,
    /// One line a second.
    Plain,
    /// Nothing.
    None,
}

/// A goal for `--rate-search`: a percentile of response time and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The percentile, 0 to 100.
    pub percentile: f64,
    /// The limit in nanoseconds.
    pub limit_ns: u64,
}

/// Settings of one workload that differ from the run's: a `[workload:NAME]` section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Override {
    /// Instead of the run's bound.
    pub bound: Option<Bound>,
    /// Instead of `users`.
    pub users: Option<u64>,
    /// Instead of `items`.
    pub items: Option<u64>,
    /// After the run's parameters.
    pub params: Vec<(String, String)>,
}

/// All settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Engine names; empty takes the default set.
    pub backend: Vec<String>,
    /// Thread counts.
    pub threads: Vec<u32>,
    /// Whether somebody has set them. A replay has those of its trace.
    pub threaded: bool,
    /// Global batch list.
    pub batch: Vec<i64>,
    /// Requests of a session under way at once, for engines that have more than one.
    pub depth: u32,
    /// Repeats of each cell.
    pub repeat: u32,
    /// Order asked for.
    pub order: Option<MeasurementOrder>,
    /// Base seed.
    pub seed: u64,
    /// When a cell ends.
    pub bound: Bound,
    /// Whether somebody has set the bound. Jobs have a default of their own.
    pub bounded: bool,
    /// The limit of operations of each thread of a job, beside the bound.
    pub limit: Option<u64>,
    /// Whether each operation of a job is timed by itself.
    pub timing: bool,
    /// Warm-up in seconds.
    pub warmup: f64,
    /// `ctx.users`.
    pub users: u64,
    /// `ctx.items`.
    pub items: u64,
    /// Load threads; 0 takes the cell's.
    pub seed_threads: u32,
    /// One load per engine.
    pub seed_once: bool,
    /// Whether workers are pinned to CPUs.
    pub pin: Pin,
    /// The CPUs that workers are pinned to, in order of workers; empty takes those that the process
    /// may use.
    pub cpus: Vec<usize>,
    /// The trace that operations are written into.
    pub record: Option<PathBuf>,
    /// The trace that is run instead of workloads.
    pub replay: Option<PathBuf>,
    /// What that trace is; `None` looks at it.
    pub format: Option<Format>,
    /// How much faster than recorded; `None` is as fast as possible.
    pub speed: Option<f64>,
    /// Offered rates; empty is a closed loop.
    pub rate: Vec<f64>,
    /// Gaps between starts.
    pub arrivals: Arrivals,
    /// Search goal.
    pub rate_search: Option<Goal>,
    /// Where persistent engines store.
    pub data_dir: Option<PathBuf>,
    /// The directory of a store that is used, or made, and stays.
    pub store: Option<PathBuf>,
    /// Durability asked for.
    pub durability: Option<Durability>,
    /// Seconds to wait at most for an engine's own threads; 0 does not wait.
    pub settle: f64,
    /// Durability of loads into stores that sync each write; one sync follows the load.
    pub load_durability: Durability,
    /// Whether answers are checked.
    pub verify: bool,
    /// Whether scripts go without knowing if a removed key existed, where the engine does not tell.
    pub blind_deletes: bool,
    /// Whether stores on disk are walked over, so that their space amplification is known.
    pub amplification: bool,
    /// Whether the kernel's caches are dropped before each timed phase.
    pub drop_caches: bool,
    /// Memory that the process may have, in bytes.
    pub mem_limit: Option<u64>,
    /// Free space to keep, in bytes.
    pub min_free: u64,
    /// Sink list as text.
    pub report: Option<String>,
    /// Where to make the report directory.
    pub report_dir: Option<PathBuf>,
    /// Sampling interval in seconds; 0 is off.
    pub timeline: f64,
    /// Probes; `None` is all.
    pub probe: Option<Vec<String>>,
    /// Live status.
    pub progress: ProgressMode,
    /// Hash the keys issued.
    pub trace_hash: bool,
    /// Draw figures after the run.
    pub auto_plot: bool,
    /// Script parameters.
    pub params: Vec<(String, String)>,
    /// What scripts may do.
    pub sandbox: Sandbox,
    /// Seconds that a unit may run past the end of its phase.
    pub unit_timeout: f64,
    /// Workload files and native names.
    pub workloads: Vec<String>,
    /// Per-workload sections, by workload name.
    pub overrides: BTreeMap<String, Override>,
    /// The `[common]` section: what every engine is to get in its own terms.
    pub common: Vec<(String, String)>,
    /// Engine sections, by engine name.
    pub engine_options: BTreeMap<String, Vec<(String, String)>>,
    /// Where sections (`null`) and their keys (`null.miss`) stand, as `file:line`, for messages.
    pub places: BTreeMap<String, String>,
    /// Script texts that a replay file brought along, by path; they replace the files.
    pub saved_scripts: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            backend: Vec::new(),
            threads: vec![1],
            threaded: false,
            batch: vec![1],
            depth: 1,
            repeat: 1,
            order: None,
            seed: 1,
            bound: Bound::Ops(200_000),
            bounded: false,
            limit: None,
            timing: true,
            warmup: 0.0,
            users: 100_000,
            items: 100_000,
            seed_threads: 0,
            seed_once: false,
            pin: Pin::Never,
            cpus: Vec::new(),
            record: None,
            replay: None,
            format: None,
            speed: None,
            rate: Vec::new(),
            arrivals: Arrivals::Constant,
            rate_search: None,
            data_dir: None,
            store: None,
            durability: None,
            settle: 0.0,
            load_durability: Durability::None,
            verify: false,
            blind_deletes: false,
            amplification: false,
            drop_caches: false,
            mem_limit: None,
            min_free: 0,
            report: None,
            report_dir: None,
            timeline: 0.0,
            probe: None,
            progress: ProgressMode::Auto,
            trace_hash: false,
            auto_plot: false,
            params: Vec::new(),
            sandbox: Sandbox { open: false, memory_max: 1 << 30 },
            unit_timeout: 10.0,
            workloads: Vec::new(),
            overrides: BTreeMap::new(),
            common: Vec::new(),
            engine_options: BTreeMap::new(),
            places: BTreeMap::new(),
            saved_scripts: BTreeMap::new(),
        }
    }
}

/// Thread counts, engines, rates or batch sizes in one list.
const LIST_MAX: usize = 64;
const THREADS_MAX: u64 = 1024;
const DEPTH_MAX: u64 = 1 << 16;

impl Settings {
    /// Applies the settings of one source (a file's `[bench]` section, or the flags) in order.
    /// `shown` turns a key into what the reader wrote: `--ops` or `ops`.
    ///
    /// # Errors
    /// One sentence that names the key and the value.
    pub fn apply(
        &mut self,
        pairs: &[(String, String)],
        shown: &dyn Fn(&str) -> String,
    ) -> Result<(), String> {
        let has = |name: &str| pairs.iter().any(|(key, _)| key == name);
        if has("ops") && has("secs") {
            return Err(format!(
                "{} and {} contradict each other: a cell ends after a count or after a time, \
                 give one",
                shown("ops"),
                shown("secs")
            ));
        }
        if has("workload") {
            // The workloads of a later source replace those of an earlier one.
            self.workloads.clear();
        }
        for (key, value) in pairs {
            self.set(key, value).map_err(|why| format!("{}: {why}", shown(key)))?;
        }
        Ok(())
    }

    /// Lets flags win over `[workload:NAME]` sections, as they win over everything in a file.
    pub fn let_flags_win(&mut self, flags: &[(String, String)]) {
        let given = |name: &str| flags.iter().any(|(key, _)| key == name);
        let params: Vec<&str> = flags
            .iter()
            .filter(|(key, _)| key == "param")
            .filter_map(|(_, value)| value.split_once('=').map(|(name, _)| name.trim()))
            .collect();
        for section in self.overrides.values_mut() {
            if given("ops") || given("secs") {
                section.bound = None;
            }
            if given("users") {
                section.users = None;
            }
            if given("items") {
                section.items = None;
            }
            section.params.retain(|(name, _)| !params.contains(&name.as_str()));
        }
    }

    /// Applies a `[workload:NAME]` section.
    ///
    /// # Errors
    /// As [`Settings::apply`].
    pub fn apply_override(&mut self, name: &str, pairs: &[(String, String)]) -> Result<(), String> {
        const KEYS: &[&str] = &["ops", "secs", "users", "items", "param"];
        let section = self.overrides.entry(name.to_owned()).or_default();
        if pairs.iter().any(|(k, _)| k == "ops") && pairs.iter().any(|(k, _)| k == "secs") {
            return Err(format!("[workload:{name}]: ops and secs contradict each other, give one"));
        }
        for (key, value) in pairs {
            let result = match key.as_str() {
                "ops" => count(value, 1).map(|n| section.bound = Some(Bound::Ops(n))),
                "secs" => seconds(value, false).map(|s| section.bound = Some(Bound::Secs(s))),
                "users" => count(value, 1).map(|n| section.users = Some(n)),
                "items" => count(value, 1).map(|n| section.items = Some(n)),
                "param" => pair(value).map(|pair| section.params.push(pair)),
                _ => Err(unknown("key", key, KEYS)),
            };
            result.map_err(|why| format!("[workload:{name}] {key}: {why}"))?;
        }
        Ok(())
    }

    /// `file:line: ` of a section or of a key in one, where it came from a file.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        self.places.get(name).map(|place| format!("{place}: ")).unwrap_or_default()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let is_known = self.set_grid(key, value)?
            || self.set_work(key, value)?
            || self.set_machine(key, value)?
            || self.set_reports(key, value)?;
        if is_known {
            return Ok(());
        }
        let known: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        Err(unknown("key", key, &known))
    }

    /// Keys of the grid: engines, threads, rates, repeats and their order. `false`: it is no such
    /// key.
    fn set_grid(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "backend" => self.backend = names(value)?,
            "threads" => {
                self.threads = list(value, |v| Ok(count_up_to(v, 1, THREADS_MAX)? as u32))?;
                self.threaded = true;
            }
            "batch" => self.batch = list(value, |v| Ok(count_up_to(v, 1, 1 << 20)? as i64))?,
            "depth" => self.depth = count_up_to(value, 1, DEPTH_MAX)? as u32,
            "repeat" => self.repeat = count_up_to(value, 1, 10_000)? as u32,
            "order" => {
                self.order = Some(choice(
                    value,
                    &[
                        ("interleave", MeasurementOrder::Interleave),
                        ("engine", MeasurementOrder::Engine),
                        ("shuffle", MeasurementOrder::Shuffle),
                    ],
                )?);
            }
            "seed" => self.seed = count_up_to(value, 0, u64::MAX)?,
            "seed-threads" => self.seed_threads = count_up_to(value, 0, THREADS_MAX)? as u32,
            "seed-once" => self.seed_once = parse_bool(value)?,
            "rate" => self.rate = list(value, rate)?,
            "arrivals" => self.arrivals = Arrivals::parse(value).map_err(|e| e.to_string())?,
            "rate-search" => self.rate_search = Some(goal(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Keys of what a measurement does: bound, data, traces, scripts. `false`: it is no such key.
    fn set_work(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "ops" => (self.bound, self.bounded) = (Bound::Ops(count(value, 1)?), true),
            "secs" => (self.bound, self.bounded) = (Bound::Secs(seconds(value, false)?), true),
            "limit" => self.limit = Some(count(value, 0)?),
            "timing" => self.timing = parse_bool(value)?,
            "warmup" => self.warmup = seconds(value, true)?,
            "users" => self.users = count(value, 1)?,
            "items" => self.items = count(value, 1)?,
            "record" => self.record = Some(directory(value)?),
            "replay" => self.replay = Some(directory(value)?),
            "format" => self.format = Some(choice(value, &Format::NAMES)?),
            "speed" => self.speed = speed(value)?,
            "param" => self.params.push(pair(value)?),
            "unsafe-lua" => self.sandbox.open = parse_bool(value)?,
            "lua-memory" => self.sandbox.memory_max = parse_size(value)?.max(1 << 20) as usize,
            "unit-timeout" => self.unit_timeout = seconds(value, false)?,
            "workload" => self.workloads.push(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Keys of the machine and of the stores on it. `false`: it is no such key.
    fn set_machine(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "pin" => self.pin = pin(value)?,
            "no-pin" if parse_bool(value)? => self.pin = Pin::Never,
            "no-pin" => {}
            "data-dir" => self.data_dir = Some(directory(value)?),
            "store" => self.store = Some(directory(value)?),
            "durability" => {
                self.durability =
                    Some(value.parse().map_err(|e: keyrack_store::Error| e.to_string())?);
            }
            "load-durability" => {
                self.load_durability =
                    value.parse().map_err(|e: keyrack_store::Error| e.to_string())?;
            }
            "settle" => self.settle = seconds(value, true)?,
            "drop-caches" => self.drop_caches = parse_bool(value)?,
            "mem-limit" => self.mem_limit = Some(parse_size(value)?),
            "min-free" => self.min_free = parse_size(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Keys of what is reported and checked. `false`: it is no such key.
    fn set_reports(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "verify" => self.verify = parse_bool(value)?,
            "blind-deletes" => self.blind_deletes = parse_bool(value)?,
            "amplification" => self.amplification = parse_bool(value)?,
            "report" => self.report = Some(value.to_owned()),
            "report-dir" => self.report_dir = Some(directory(value)?),
            "timeline" => self.timeline = seconds(value, true)?,
            "probe" => self.probe = if value == "all" { None } else { Some(names(value)?) },
            "progress" => {
                self.progress = choice(
                    value,
                    &[
                        ("auto", ProgressMode::Auto),
                        ("bar", ProgressMode::Bar),
                        ("plain", ProgressMode::Plain),
                        ("none", ProgressMode::None),
                    ],
                )?;
            }
            "trace-hash" => self.trace_hash = parse_bool(value)?,
            "auto-plot" => self.auto_plot |= parse_bool(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What scripts of the workload called `name` find, after its own section.
    #[must_use]
    pub fn for_workload(&self, name: &str) -> Override {
        let own = self.overrides.get(name).cloned().unwrap_or_default();
        Override {
            bound: Some(own.bound.unwrap_or(self.bound)),
            users: Some(own.users.unwrap_or(self.users)),
            items: Some(own.items.unwrap_or(self.items)),
            params: own.params,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(settings: &mut Settings, pairs: &[(&str, &str)]) -> Result<(), String> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        settings.apply(&pairs, &|key| format!("--{key}"))
    }

    #[test]
    fn ops_on_the_command_line_override_secs_of_the_config() {
        let mut settings = Settings::default();
        apply(&mut settings, &[("secs", "3")]).unwrap();
        apply(&mut settings, &[("ops", "500")]).unwrap();
        assert_eq!(settings.bound, Bound::Ops(500));
        apply(&mut settings, &[("secs", "0.5")]).unwrap();
        assert_eq!(settings.bound, Bound::Secs(0.5));
        let error = apply(&mut settings, &[("ops", "1"), ("secs", "1")]).unwrap_err();
        assert!(error.contains("--ops and --secs contradict"), "{error}");
    }

    #[test]
    fn garbage_lists_and_numbers_are_refused_by_name() {
        let table = [
            ("threads", "1,x"),
            ("threads", "0"),
            ("threads", ""),
            ("threads", "1,,2"),
            ("threads", "2,1,2"),
            ("ops", "0"),
            ("ops", "-1"),
            ("ops", "true"),
            ("secs", "0"),
            ("secs", "nan"),
            ("repeat", "0"),
            ("batch", "0"),
            ("order", "random"),
            ("rate", "0"),
            ("rate-search", "p99"),
            ("rate-search", "p99<1"),
            ("param", "novalue"),
            ("durability", "fsync"),
            ("progress", "loud"),
            ("format", "leveldb"),
            ("speed", "0"),
            ("speed", "fast"),
        ];
        for (key, value) in table {
            let error = apply(&mut Settings::default(), &[(key, value)]).unwrap_err();
            assert!(error.starts_with(&format!("--{key}: ")), "{key} {value}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn flags_win_over_the_sections_of_workloads() {
        let mut settings = Settings::default();
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        let section = owned(&[("secs", "9"), ("items", "7"), ("param", "a=1"), ("param", "b=2")]);
        settings.apply_override("cart", &section).unwrap();
        settings.let_flags_win(&owned(&[("ops", "5"), ("param", "a=3")]));
        let cart = &settings.overrides["cart"];
        assert_eq!((cart.bound, cart.items), (None, Some(7)));
        assert_eq!(cart.params, owned(&[("b", "2")]));
    }

    #[test]
    fn goals_and_rates_have_units() {
        assert_eq!(goal("p99<1ms"), Ok(Goal { percentile: 99.0, limit_ns: 1_000_000 }));
        assert_eq!(goal("p99.9 < 250us"), Ok(Goal { percentile: 99.9, limit_ns: 250_000 }));
        assert_eq!(rate("10k"), Ok(10_000.0));
        assert_eq!(rate("1.5M"), Ok(1_500_000.0));
    }

    #[test]
    fn every_key_is_settable() {
        for key in KEYS.iter().filter(|key| !["config", "save-config"].contains(&key.name)) {
            // A wrong value is refused for its value, never as an unknown key.
            let error = Settings::default().set(key.name, "\u{1}").err().unwrap_or_default();
            assert!(!error.contains("unknown key"), "{}: {error}", key.name);
        }
    }
}
