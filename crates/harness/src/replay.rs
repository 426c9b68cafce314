//! The replay file: the effective run as a configuration that reproduces it.
//!
//! It holds every setting that matters, engine and workload sections, and the text of every script
//! with its SHA-256, so that it is enough by itself: `[script:1]` holds `path`, `sha256`, `text`.
//! Values that the dialect cannot hold are written as JSON strings, see [`crate::config`].

use crate::config::{Config, Entry, render_entry};
use crate::config_toml;
use crate::plan::{Plan, common};
use crate::program::Workload;
use crate::settings::{Bound, Settings};
use keyrack_store::Durability;
use std::fmt::Write;
use std::path::Path;

/// Renders the replay file of `plan`.
#[must_use]
pub fn render(plan: &Plan) -> String {
    let version = &plan.surroundings.facts.version;
    let mut out = format!(
        "keyrack {version} replay file - reproduce with:  keyrack bench --config \
         <path>\n\n[bench]\n"
    );
    let mut line = |key: &str, value: String| out.push_str(&render_entry(key, &value));
    grid_lines(plan, &mut line);
    switch_lines(&plan.settings, &mut line);
    trace_lines(&plan.settings, &mut line);
    store_lines(&plan.settings, &mut line);
    report_lines(plan, &mut line);
    for workload in plan.workloads.iter().filter(|workload| workload.trace().is_none()) {
        line("workload", workload.source.clone());
    }
    sections(&mut out, &plan.settings, &plan.workloads);
    out
}

/// Writes a key with its value.
type Line<'l> = &'l mut dyn FnMut(&str, String);

fn grid_lines(plan: &Plan, line: Line<'_>) {
    let settings = &plan.settings;
    // Those that were left out are not replayed.
    let engines: Vec<&str> = plan.engines.iter().map(|planned| planned.engine.name).collect();
    line("backend", engines.join(","));
    line("threads", join(&settings.threads));
    line("batch", join(&settings.batch));
    if settings.depth > 1 {
        line("depth", settings.depth.to_string());
    }
    match settings.bound {
        Bound::Ops(ops) => line("ops", ops.to_string()),
        Bound::Secs(secs) => line("secs", secs.to_string()),
    }
    if let Some(limit) = settings.limit {
        line("limit", limit.to_string());
    }
    if !settings.timing {
        line("timing", "no".to_owned());
    }
    line("warmup", settings.warmup.to_string());
    line("users", settings.users.to_string());
    line("items", settings.items.to_string());
    line("seed", settings.seed.to_string());
    line("repeat", settings.repeat.to_string());
    line("order", plan.order.name().to_owned());
    line("pin", settings.pin.name().to_owned());
    if settings.seed_threads > 0 {
        line("seed_threads", settings.seed_threads.to_string());
    }
}

fn switch_lines(settings: &Settings, line: Line<'_>) {
    for (key, set) in [
        ("seed_once", settings.seed_once),
        ("verify", settings.verify),
        ("blind_deletes", settings.blind_deletes),
        ("amplification", settings.amplification),
        ("drop_caches", settings.drop_caches),
        ("trace_hash", settings.trace_hash),
        ("auto_plot", settings.auto_plot),
        ("unsafe_lua", settings.sandbox.open),
    ] {
        if set {
            line(key, "yes".to_owned());
        }
    }
}

/// Traces and rates.
fn trace_lines(settings: &Settings, line: Line<'_>) {
    if let Some(path) = &settings.record {
        line("record", path.display().to_string());
    }
    if let Some(path) = &settings.replay {
        line("replay", path.display().to_string());
        line("speed", settings.speed.map_or("max".to_owned(), |speed| speed.to_string()));
        if let Some(format) = settings.format {
            line("format", format.name().to_owned());
        }
    }
    if !settings.rate.is_empty() && settings.replay.is_none() {
        line("rate", join(&settings.rate));
    }
    if !settings.rate.is_empty() || settings.rate_search.is_some() {
        line("arrivals", settings.arrivals.name().to_owned());
    }
    if let Some(goal) = settings.rate_search {
        line("rate_search", format!("p{}<{}ns", goal.percentile, goal.limit_ns));
    }
}

fn store_lines(settings: &Settings, line: Line<'_>) {
    if let Some(dir) = &settings.data_dir {
        line("data_dir", dir.display().to_string());
    }
    if let Some(dir) = &settings.store {
        line("store", dir.display().to_string());
    }
    if let Some(durability) = settings.durability {
        line("durability", durability.to_string());
    }
    if settings.load_durability != Durability::None {
        line("load_durability", settings.load_durability.to_string());
    }
    if settings.settle > 0.0 {
        line("settle", settings.settle.to_string());
    }
    if let Some(bytes) = settings.mem_limit {
        line("mem_limit", bytes.to_string());
    }
    if settings.min_free > 0 {
        line("min_free", settings.min_free.to_string());
    }
}

fn report_lines(plan: &Plan, line: Line<'_>) {
    let settings = &plan.settings;
    match (&settings.report_dir, &settings.report) {
        (Some(dir), _) => line("report_dir", dir.display().to_string()),
        (None, Some(report)) => line("report", report.clone()),
        (None, None) => line("report", "console".to_owned()),
    }
    line("timeline", settings.timeline.to_string());
    let probes = if plan.probes.is_empty() { "none".to_owned() } else { plan.probes.join(",") };
    line("probe", probes);
    line("lua_memory", settings.sandbox.memory_max.to_string());
    line("unit_timeout", settings.unit_timeout.to_string());
    for (name, value) in &settings.params {
        line("param", format!("{name}={value}"));
    }
}

fn sections(out: &mut String, settings: &Settings, workloads: &[Workload]) {
    for (name, section) in &settings.overrides {
        let _ = writeln!(out, "\n[workload:{name}]");
        let _ = match section.bound {
            Some(Bound::Ops(ops)) => writeln!(out, "ops = {ops}"),
            Some(Bound::Secs(secs)) => writeln!(out, "secs = {secs}"),
            None => Ok(()),
        };
        for (key, value) in [("users", section.users), ("items", section.items)] {
            if let Some(value) = value {
                let _ = writeln!(out, "{key} = {value}");
            }
        }
        for (name, value) in &section.params {
            out.push_str(&render_entry("param", &format!("{name}={value}")));
        }
    }
    if !settings.common.is_empty() {
        out.push_str("\n[common]\n");
        for (key, value) in &settings.common {
            out.push_str(&render_entry(key, value));
        }
    }
    for (name, options) in &settings.engine_options {
        let _ = writeln!(out, "\n[{name}]");
        for (key, value) in options {
            out.push_str(&render_entry(key, value));
        }
    }
    let mut written: Vec<&str> = Vec::new();
    for workload in workloads.iter().filter(|workload| !workload.sha256.is_empty()) {
        if !written.contains(&workload.source.as_str()) {
            written.push(&workload.source);
            let Workload { source, sha256, text, .. } = workload;
            let _ = writeln!(out, "\n[script:{}]", written.len());
            for (key, value) in [("path", source), ("sha256", sha256), ("text", text)] {
                out.push_str(&render_entry(key, value));
            }
        }
    }
}

fn join<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Applies a configuration file: `[bench]`, `[common]`, engine sections, `[workload:NAME]` and
/// `[script:N]`; in TOML where the name of the file ends so, else in the dialect of the original.
///
/// # Errors
/// One line that names file, line and key.
pub fn apply_config(settings: &mut Settings, path: &str, text: &str) -> Result<(), String> {
    let is_toml = Path::new(path).extension().is_some_and(|ending| ending == "toml");
    let parse = if is_toml { config_toml::parse } else { Config::parse };
    let config = parse(text).map_err(|(line, why)| format!("{path}:{line}: {why}"))?;
    for (name, entries) in &config.sections {
        let pairs: Vec<(String, String)> =
            entries.iter().map(|e| (e.key.clone(), e.value.clone())).collect();
        if name == "bench" {
            bench_section(settings, path, entries)?;
        } else if name == "common" {
            for Entry { key, value, line } in entries {
                common::check(key, value).map_err(|why| format!("{path}:{line}: {why}"))?;
            }
            settings.common.extend(pairs);
        } else if let Some(workload) = name.strip_prefix("workload:") {
            settings
                .apply_override(workload.trim(), &pairs)
                .map_err(|why| format!("{path}: {why}"))?;
        } else if name.starts_with("script:") {
            let (source, text) =
                script_text(&pairs).map_err(|why| format!("{path}: [{name}] {why}"))?;
            settings.saved_scripts.insert(source, text);
        } else {
            for Entry { key, line, .. } in entries {
                let place = format!("{path}:{line}");
                settings.places.entry(name.clone()).or_insert_with(|| place.clone());
                settings.places.insert(format!("{name}.{key}"), place);
            }
            settings.engine_options.entry(name.clone()).or_default().extend(pairs);
        }
    }
    Ok(())
}

fn bench_section(settings: &mut Settings, path: &str, entries: &[Entry]) -> Result<(), String> {
    use crate::settings::{Form, KEYS};
    use keyrack_store::unknown;
    let in_file: Vec<String> =
        KEYS.iter().filter(|key| key.in_file).map(|key| key.name.replace('-', "_")).collect();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for entry in entries {
        let line = entry.line;
        let name = entry.key.replace('_', "-");
        let key = KEYS.iter().find(|key| key.in_file && key.name == name);
        let Some(key) = key.filter(|_| !entry.key.contains('-')) else {
            let known: Vec<&str> = in_file.iter().map(String::as_str).collect();
            return Err(format!("{path}:{line}: {}", unknown("key", &entry.key, &known)));
        };
        // Of a scalar that stands twice the first counts, as in the original.
        let repeated = matches!(key.form, Form::Repeated(_));
        if repeated || !pairs.iter().any(|(earlier, _)| *earlier == name) {
            // Checked one by one first, so that a mistake is reported with its line.
            let one = [(name.clone(), entry.value.clone())];
            let shown = |_: &str| format!("{path}:{line}: {}", entry.key);
            Settings::default().apply(&one, &shown)?;
            pairs.push((name, entry.value.clone()));
        }
    }
    settings.apply(&pairs, &|key| format!("{path}: {}", key.replace('-', "_")))
}

/// The path and the text of a saved script.
fn script_text(pairs: &[(String, String)]) -> Result<(String, String), String> {
    use sha2::Digest;
    let field = |name: &str| {
        let found = pairs.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| format!("has no {name}"))
    };
    let (path, text) = (field("path")?, field("text")?);
    let digest: String =
        sha2::Sha256::digest(text.as_bytes()).iter().map(|b| format!("{b:02x}")).collect();
    if digest != field("sha256")? {
        return Err(format!(
            "the text of {path} does not match its sha256: it was changed by hand"
        ));
    }
    Ok((path, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pin::Pin;

    #[test]
    fn a_changed_script_text_is_refused() {
        let mut settings = Settings::default();
        let text = "t\n[script:1]\npath = a.lua\nsha256 = 00\ntext = return {}\n";
        let error = apply_config(&mut settings, "r.cnf", text).unwrap_err();
        assert!(error.contains("r.cnf: [script:1]") && error.contains("sha256"), "{error}");
    }

    #[test]
    fn unknown_keys_are_refused_with_line_and_nearest_name() {
        let mut settings = Settings::default();
        let error = apply_config(&mut settings, "a.cnf", "threads = 2\nrepeats = 3\n").unwrap_err();
        assert!(
            error.starts_with("a.cnf:2: unknown key 'repeats'; did you mean 'repeat'?"),
            "{error}"
        );
        let error = apply_config(&mut settings, "a.cnf", "threads = two\n").unwrap_err();
        assert!(error.starts_with("a.cnf:1: threads: invalid number 'two'"), "{error}");
    }

    #[test]
    fn true_is_not_zero_and_64mb_is_not_64m() {
        let mut settings = Settings::default();
        apply_config(&mut settings, "a.cnf", "pin = true\nitems = 64K\n").unwrap();
        assert_eq!(settings.pin, Pin::Always);
        assert_eq!(settings.items, 65_536);
        for text in ["items = true\n", "items = 64KB\n", "pin = 64M\n"] {
            assert!(apply_config(&mut settings, "a.cnf", text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_first_of_a_repeated_scalar_counts_and_workloads_collect() {
        let mut settings = Settings::default();
        let text = "repeat = 3\nrepeat = 5\nworkload = a.lua\nworkload = b.lua\n[null]\nmiss = \
            no\nmiss = yes\n";
        apply_config(&mut settings, "a.cnf", text).unwrap();
        assert_eq!(settings.repeat, 3);
        assert_eq!(settings.workloads, ["a.lua", "b.lua"]);
        assert_eq!(settings.engine_options["null"].len(), 2);
    }
}
