//! The numbers as JSON for the page, and as the text that Prometheus reads.

use super::numbers::{Kind, Numbers, Percentiles};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One object: a group is an object of its numbers.
pub(super) fn json(all: &Numbers) -> String {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for number in &all.numbers {
        let member = format!("{}:{}", quoted(&number.name), number.value);
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

/// The text format, version 0.0.4.
pub(super) fn prometheus(all: &Numbers) -> String {
    let mut out = String::new();
    for number in &all.numbers {
        let (suffix, kind) = match number.kind {
            Kind::Counter => ("_total", "counter"),
            Kind::Gauge => ("", "gauge"),
        };
        let name = format!("keyrack_{}_{}{suffix}", number.group, safe(&number.name));
        // Writing to a string does not fail.
        let _ = writeln!(out, "# TYPE {name} {kind}\n{name} {}", number.value);
    }
    let name = "keyrack_turn_seconds";
    let _ = writeln!(out, "# TYPE {name} summary");
    let iterations = &all.iterations;
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
    out
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
