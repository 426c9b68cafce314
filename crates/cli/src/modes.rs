//! What `keyrack bench` does instead of measuring: list, self-test, overhead. And the figures after
//! it.

use crate::engines;
use keyrack_harness::sink::SinkKind;
use keyrack_harness::{Overhead, PROBES, Plan, Settings, Stop, Surroundings, measure_overhead};
use keyrack_record::Run;
use keyrack_report::Format;
use keyrack_store::{Engine, OpenOptions, Store};
use keyrack_vfs::Fs;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Prints what there is to choose from.
pub(crate) fn list() -> Result<u8, String> {
    let mut out = String::from("engines:\n");
    // Writing to a String cannot fail.
    let registry = engines::registry();
    registry.iter().for_each(|engine| describe(engine, &mut out));
    for absent in registry.absent() {
        let (name, about, command) = (absent.name, absent.about, absent.build_command());
        let _ = writeln!(out, "not built in: {name}, {about} ({command})");
    }
    out.push_str("servers, by their URL:\n");
    registry.servers().for_each(|server| describe(server, &mut out));
    out.push_str("native workloads:\n");
    for (name, about) in keyrack_workload::native_names() {
        let _ = writeln!(out, "  {name:<18} {about}");
    }
    out.push_str("jobs, which each thread runs once (A,B: in sequence on one store):\n");
    for job in keyrack_workload::jobs() {
        let _ = writeln!(out, "  {:<18} {}", job.name, job.about);
        if !job.params.is_empty() {
            let params: Vec<String> = job.params.iter().map(|name| format!("-P {name}=")).collect();
            let _ = writeln!(out, "    {}", params.join(" "));
        }
    }
    out.push_str("bundled scripts:\n");
    for (path, _) in crate::bundled::SCRIPTS {
        let _ = writeln!(out, "  {path}");
    }
    let _ = writeln!(out, "sinks: {}", SinkKind::NAMES.join(", "));
    let _ = writeln!(out, "probes: {}", PROBES.join(", "));
    Ok(keyrack_console::print(&out))
}

/// An engine, or a kind of server, with its options.
fn describe(engine: &Engine, out: &mut String) {
    let needs = if engine.persistent { " (needs --data-dir)" } else { "" };
    // Writing to a String cannot fail.
    let _ = writeln!(out, "  {:<18} {}{needs}", engine.name, engine.about);
    for option in engine.options {
        let default = if option.default.is_empty() { "none" } else { option.default };
        let _ = writeln!(out, "    {:<16} {} [default: {default}]", option.key, option.about);
    }
}

/// Operations of the random comparison when `--ops` is not given.
const SELFTEST_OPERATIONS: u64 = 20_000;

/// Runs the chosen engines, or all, through golden scripts and the random comparison.
pub(crate) fn selftest(
    settings: &Settings,
    given: &[(String, String)],
    fs: &Arc<dyn Fs>,
) -> Result<u8, String> {
    let registry = engines::registry();
    let chosen: Vec<Engine> = if settings.backend.is_empty() {
        let fits = |e: &&Engine| e.stores && (!e.persistent || settings.data_dir.is_some());
        let takes_any_key = |e: &&Engine| e.fixed_key_bytes().is_none();
        registry.iter().filter(fits).filter(takes_any_key).copied().collect()
    } else {
        let find = |name: &String| match registry.backend(name.trim_end_matches('?')) {
            Some(backend) if backend.engine.name.contains("://") => Err(format!(
                "backend '{}': a server is not tested here, for that needs stores that are fresh, \
                 have scans and apply a batch as one write",
                backend.engine.name
            )),
            Some(backend) => Ok(backend.engine),
            None => Err(registry.not_found("backend", name.trim_end_matches('?'))),
        };
        settings.backend.iter().map(find).collect::<Result<_, _>>()?
    };
    let operations = match (given.iter().any(|(key, _)| key == "ops"), settings.bound) {
        (true, keyrack_harness::Bound::Ops(ops)) => ops,
        _ => SELFTEST_OPERATIONS,
    };
    let mut passed = true;
    for engine in chosen {
        let mut report = String::new();
        if let Some(bytes) = engine.fixed_key_bytes() {
            report = format!("{}: has keys of {bytes} bytes, nothing to test\n", engine.name);
        } else if engine.stores {
            passed &= selftest_one(&engine, settings, operations, fs, &mut report)?;
        } else {
            report = format!("{}: holds nothing by design, nothing to test\n", engine.name);
        }
        let printed = keyrack_console::print(&report);
        if printed != keyrack_console::DONE {
            return Ok(printed);
        }
    }
    Ok(if passed { keyrack_console::DONE } else { keyrack_console::NO })
}

fn selftest_one(
    engine: &Engine,
    settings: &Settings,
    operations: u64,
    fs: &Arc<dyn Fs>,
    report: &mut String,
) -> Result<bool, String> {
    let base = match (&settings.data_dir, engine.persistent) {
        (_, false) => None,
        (Some(dir), true) => {
            let prefix = format!("keyrack-selftest-{}", engine.name);
            Some(fs.create_unique_dir(dir, &prefix).map_err(|error| error.to_string())?)
        }
        (None, true) => {
            return Err(format!(
                "backend '{}' stores on disk: name a directory with --data-dir DIR",
                engine.name
            ));
        }
    };
    let open = || -> keyrack_store::Result<Box<dyn Store>> {
        let data_dir = match &base {
            None => None,
            Some(base) => Some(
                fs.create_unique_dir(base, "store")
                    .map_err(|error| keyrack_store::Error::io(error.attempt(), error.cause()))?,
            ),
        };
        let options = settings.engine_options.get(engine.name).cloned().unwrap_or_default();
        let durability = settings.durability;
        let fs = Arc::clone(fs);
        (engine.open)(&OpenOptions { data_dir, fs, seed: settings.seed, durability, options })
    };
    // One that was not asked for by name, or with a question mark, may lack its library.
    let is_asked_for = settings.backend.iter().any(|name| name == engine.name);
    if !is_asked_for
        && engine.names("lib")
        && let Err(why) = open()
    {
        // Writing to a String cannot fail.
        let _ = writeln!(report, "{}: left out: {why}", engine.name);
        return remove(&**fs, base.as_deref()).map(|()| true);
    }
    let passed = keyrack_testkit::selftest(&open, settings.seed, operations, &mut |line| {
        // Writing to a String cannot fail.
        let _ = writeln!(report, "{}: {line}", engine.name);
    });
    remove(&**fs, base.as_deref()).map(|()| passed)
}

fn remove(fs: &dyn Fs, dir: Option<&Path>) -> Result<(), String> {
    dir.map_or(Ok(()), |dir| fs.remove_dir_all(dir).map_err(|error| error.to_string()))
}

/// Prints what the harness costs on each workload.
pub(crate) fn overhead(mut settings: Settings, surroundings: Surroundings) -> Result<u8, String> {
    let idle = surroundings.registry.iter().find(|engine| !engine.stores);
    let idle = idle.ok_or("this build has no engine that does nothing to measure against")?;
    settings.backend = vec![idle.name.to_owned()];
    settings.warmup = 0.0;
    let plan = Plan::new(settings, surroundings).map_err(|refusal| refusal.0)?;
    let results = measure_overhead(&plan, &Stop::default())?;
    let mut out = format!(
        "harness cost in ns per unit, 1 thread, engine {}, medians of {} rounds\n\
         {:<24} {:>8} {:>8} {:>8} {:>8} {:>12}\n",
        plan.engines[0].engine.name,
        results.first().map_or(0, |result| result.rounds),
        "workload",
        "script",
        "bridge",
        "timer",
        "total",
        "calls/unit"
    );
    for result in &results {
        let Overhead { workload, script_ns, bridge_ns, timer_ns, calls_per_unit, .. } = result;
        let _ = writeln!(
            out,
            "{workload:<24} {script_ns:>8.1} {bridge_ns:>8.1} {timer_ns:>8.1} {:>8.1} \
             {calls_per_unit:>12.2}",
            result.total_ns()
        );
    }
    out.push_str(
        "script: the workload's own computing. bridge: to the session and back. timer: clock and \
         histogram.\n",
    );
    Ok(keyrack_console::print(&out))
}

/// Draws the figures and the page of a report directory, when `--auto-plot` asks for it, and leaves
/// the script for gnuplot beside them.
pub(crate) fn plot(plan: &Plan, record: &Run, fs: &Arc<dyn Fs>, dir: &Path, program: &str) {
    if !plan.settings.auto_plot {
        return;
    }
    // The old name's script writes PNG.
    let format = if program == "keybench" { Format::Png } else { Format::Svg };
    match crate::report::beside(record, fs, dir, format) {
        Ok(count) => keyrack_console::refuse(
            program,
            &format!("drew {}/report.html and {count} figures in {0}/figures/", dir.display()),
        ),
        Err(message) => keyrack_console::refuse(program, &format!("not drawn: {message}")),
    }
}
