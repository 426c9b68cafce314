//! The numbers as JSON for the page, and as the text that Prometheus reads.

use super::help::help;
use super::numbers::{Kind, Numbers, Percentiles};
use super::process;
use crate::durations::bound_us;
use std::collections::BTreeMap;
use std::fmt::Write;

/// One object: a group is an object of its numbers.
pub(super) fn json(all: &Numbers) -> String {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for number in &all.numbers {
        let name = match &number.label {
            None => number.name.clone(),
            Some((_, which)) => format!("{}_{which}", number.name),
        };
        let member = format!("{}:{}", quoted(&name), number.value);
        groups.entry(number.group).or_default().push(member);
    }
    let mut members = vec![
        format!("\"engine\":{}", quoted(&all.engine)),
        format!("\"durability\":{}", quoted(&all.durability)),
        format!("\"turns_us\":{}", percentiles(&all.iterations)),
        format!("\"recent_us\":{}", percentiles(&all.recent)),
    ];
    members.extend(
        groups
            .iter()
            .map(|(group, numbers)| format!("{}:{{{}}}", quoted(group), numbers.join(","))),
    );
    format!("{{{}}}\n", members.join(","))
}

fn percentiles(of: &Percentiles) -> String {
    format!(
        "{{\"count\":{},\"p50\":{},\"p90\":{},\"p99\":{},\"p999\":{},\"max\":{}}}",
        of.count, of.p50_us, of.p90_us, of.p99_us, of.p999_us, of.max_us
    )
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            // Writing to a string does not fail.
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// The text format, version 0.0.4. Samples of one family stand together, below its HELP and TYPE.
pub(super) fn prometheus(all: &Numbers) -> String {
    let mut out = String::with_capacity(64 << 10);
    let mut last = String::new();
    for number in &all.numbers {
        let (suffix, kind) = match number.kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
            Kind::Untyped => ("", "untyped"),
            Kind::OnPage => continue,
        };
        let name = format!("keyrack_{}_{}{suffix}", number.group, safe(&number.name));
        if name != last {
            let meaning = help(number.group, &number.name);
            family(&mut out, &name, kind, meaning.unwrap_or("A number of the engine"));
        }
        let label = number.label.as_ref();
        let label = label.map_or(String::new(), |(by, which)| format!("{{{by}=\"{which}\"}}"));
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name}{label} {}", number.value);
        last = name;
    }
    turns(&mut out, &all.iterations);
    durations(&mut out, all);
    process::visit(&mut |name, is_counter, meaning, value| {
        let kind = if is_counter { "counter" } else { "gauge" };
        family(&mut out, name, kind, meaning.trim_end_matches('.'));
        let _ = writeln!(out, "{name} {value}");
    });
    out
}

/// The head of a family.
fn family(out: &mut String, name: &str, kind: &str, meaning: &str) {
    let _ = writeln!(out, "# HELP {name} {meaning}.\n# TYPE {name} {kind}");
}

fn turns(out: &mut String, iterations: &Percentiles) {
    let name = "keyrack_turn_seconds";
    family(out, name, "summary", "Duration of event-loop iterations");
    for (quantile, us) in [
        ("0.5", iterations.p50_us),
        ("0.9", iterations.p90_us),
        ("0.99", iterations.p99_us),
        ("0.999", iterations.p999_us),
    ] {
        let _ = writeln!(out, "{name}{{quantile=\"{quantile}\"}} {}", us / 1e6);
    }
    let _ =
        writeln!(out, "{name}_sum {}\n{name}_count {}", iterations.sum_us / 1e6, iterations.count);
}

fn durations(out: &mut String, all: &Numbers) {
    let name = "keyrack_command_duration_seconds";
    family(out, name, "histogram", "Duration of commands in the server, without waits");
    for (protocol, kind, sum) in &all.durations {
        let labels = format!("protocol=\"{protocol}\",kind=\"{kind}\"");
        let mut count = 0;
        for (bucket, in_bucket) in sum.buckets.iter().enumerate() {
            count += in_bucket;
            let le = bound_us(bucket)
                .map_or("+Inf".to_owned(), |bound| (bound as f64 / 1e6).to_string());
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{le}\"}} {count}");
        }
        let seconds = sum.sum_ns as f64 / 1e9;
        let _ = writeln!(out, "{name}_sum{{{labels}}} {seconds}\n{name}_count{{{labels}}} {count}");
    }
}

/// A name as Prometheus allows it.
fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_json_is_quoted_and_names_are_safe() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\u000a""#);
        assert_eq!(safe("calls_kr.range"), "calls_kr_range");
    }
}
