//! What differs between two runs besides their numbers.
//!
//! Only what can move a number by itself is a warning: the machine, the scripts, the size of the
//! work. Versions of engine and program are usually the very thing that is compared.

use keyrack_record::{Header, Point, Probe, Run};

/// Fields of the system probe that tell machines apart. The free space of a disk, for one, does
/// not.
const MACHINE_FIELDS: [&str; 7] =
    ["host", "os", "cpu", "cpu_cores", "cpu_affinity", "ram", "data_disk_model"];
/// Fields of the build probe that move every number.
const BUILD_FIELDS: [&str; 2] = ["std", "allocator"];

/// One line a difference, machine first.
pub(crate) fn warnings(base: &Run, new: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    probe_warnings("machine", "system", &MACHINE_FIELDS, base, new, &mut warnings);
    probe_warnings("build", "build", &BUILD_FIELDS, base, new, &mut warnings);
    work_warnings(&base.header, &new.header, &mut warnings);
    script_warnings(&base.header, &new.header, &mut warnings);
    for (side, run) in [("base", base), ("new", new)] {
        if let Some(reason) = &run.interrupted {
            warnings.push(format!("{side} was interrupted: {reason}"));
        }
        warnings.extend(run.failures.iter().map(|failure| {
            format!("{side} failed: {} repeat {}: {}", failure.cell, failure.repeat, failure.reason)
        }));
        warnings.extend(run.points.iter().flat_map(|point| flag_warnings(side, point)));
    }
    warnings
}

fn flag_warnings(side: &str, point: &Point) -> impl Iterator<Item = String> {
    point.flags.iter().map(move |flag| format!("{side} {}: {flag}", point.cell))
}

fn probe_warnings(
    what: &str,
    probe: &str,
    fields: &[&str],
    base: &Run,
    new: &Run,
    warnings: &mut Vec<String>,
) {
    let (Some(base), Some(new)) = (find(base, probe), find(new, probe)) else {
        // A run with `--probe none` says nothing about its machine.
        return;
    };
    for field in fields {
        if let (Some(base), Some(new)) = (value(base, field), value(new, field))
            && base != new
        {
            warnings.push(format!("{what} differs: {field} is '{base}' vs '{new}'"));
        }
    }
}

fn find<'a>(run: &'a Run, name: &str) -> Option<&'a Probe> {
    run.probes.iter().find(|probe| probe.name == name)
}

fn value<'a>(probe: &'a Probe, field: &str) -> Option<&'a str> {
    probe.fields.iter().find(|(key, _)| key == field).map(|(_, value)| value.as_str())
}

fn work_warnings(base: &Header, new: &Header, warnings: &mut Vec<String>) {
    let number = |value: Option<f64>| value.map_or_else(|| "none".to_owned(), |v| v.to_string());
    let params = |header: &Header| {
        let pairs: Vec<String> =
            header.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { "none".to_owned() } else { pairs.join(" ") }
    };
    let facts = [
        ("ops", number(base.ops.map(|n| n as f64)), number(new.ops.map(|n| n as f64))),
        ("secs", number(base.secs), number(new.secs)),
        ("warmup", base.warmup.to_string(), new.warmup.to_string()),
        ("users", base.users.to_string(), new.users.to_string()),
        ("items", base.items.to_string(), new.items.to_string()),
        ("seed", base.seed.to_string(), new.seed.to_string()),
        ("clock", base.clock.clone(), new.clock.clone()),
        ("vm", base.vm.clone(), new.vm.clone()),
        ("params", params(base), params(new)),
    ];
    for (name, base, new) in facts {
        if base != new {
            warnings.push(format!("work differs: {name} is '{base}' vs '{new}'"));
        }
    }
}

fn script_warnings(base: &Header, new: &Header, warnings: &mut Vec<String>) {
    for workload in &base.workloads {
        let Some(other) = new.workloads.iter().find(|other| other.name == workload.name) else {
            continue;
        };
        if other.sha256 != workload.sha256 {
            warnings.push(format!(
                "script of {} differs: {} is {} vs {} is {}",
                workload.name,
                workload.source,
                short(&workload.sha256),
                other.source,
                short(&other.sha256)
            ));
        }
    }
}

/// The first twelve digits of a hash; native workloads have none.
fn short(sha256: &str) -> String {
    if sha256.is_empty() { "native".to_owned() } else { sha256.chars().take(12).collect() }
}
