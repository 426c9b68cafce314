//! What a page says in words and tables: the runs, the results, the comparisons.

use crate::comparison::{Comparison, Metric, compare};
use crate::draw::escaped;
use crate::engines::swept;
use crate::figures::select::P99_CALLS_MIN;
use crate::figures::{Charts, Recorded};
use keyrack_record::{Point, Run, VERBS, distinct};
use std::fmt::Write as _;

/// A card for each run: machine, engines, command, warnings, facts, failures.
pub(super) fn about(out: &mut String, charts: &Charts, runs: &[Recorded]) {
    out.push_str("<section id=\"about\"><h2>Runs</h2>\n<div class=\"runs\">\n");
    for (heading, recorded) in charts.headings.iter().zip(runs) {
        let run = &recorded.run;
        let _ = writeln!(out, "<article class=\"card\"><h3>{}</h3><dl>", escaped(&heading.name));
        let work = match (run.header.ops, run.header.secs) {
            (_, Some(secs)) => format!("{secs} s a cell"),
            (Some(ops), None) => format!("{ops} units a cell"),
            (None, None) => "as long as it takes".to_owned(),
        };
        let repeats = format!("{work}, repeats: {}, order {}", run.header.repeat, run.header.order);
        for (name, value) in
            [("machine", &heading.machine), ("engines", &heading.engines), ("work", &repeats)]
        {
            let _ = writeln!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
        }
        let command = escaped(&heading.command);
        let _ = writeln!(out, "<dt>command</dt><dd><code>{command}</code></dd></dl>");
        let failures = run.failures.iter().map(|failure| {
            format!("{} repeat {} failed: {}", failure.cell, failure.repeat, failure.reason)
        });
        let warnings: Vec<String> = heading.warnings.iter().cloned().chain(failures).collect();
        list(out, &warnings);
        facts(out, run);
        out.push_str("</article>\n");
    }
    out.push_str("</div></section>\n");
}

fn list(out: &mut String, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    out.push_str("<div class=\"warn\"><ul>");
    for warning in warnings {
        let _ = write!(out, "<li>{}</li>", escaped(warning));
    }
    out.push_str("</ul></div>\n");
}

fn facts(out: &mut String, run: &Run) {
    out.push_str("<details><summary>machine, build and parameters</summary><dl>\n");
    let params =
        run.header.params.iter().map(|(name, value)| (format!("-P {name}"), value.clone()));
    let header = [
        ("seed".to_owned(), run.header.seed.to_string()),
        ("items, users".to_owned(), format!("{}, {}", run.header.items, run.header.users)),
        ("clock, scripts".to_owned(), format!("{}, {}", run.header.clock, run.header.vm)),
    ];
    let probes = run.probes.iter().flat_map(|probe| &probe.fields).cloned();
    for (name, value) in header.into_iter().chain(params).chain(probes) {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(&name), escaped(&value));
    }
    out.push_str("</dl></details>\n");
}

/// A row for each measured cell; its numbers can be sorted by.
pub(super) fn results(out: &mut String, charts: &Charts, runs: &[Recorded]) {
    out.push_str(
        "<section id=\"results\"><h2>Results</h2><div class=\"card scroll\">\
         <p class=\"note\">Medians over the repeats, with the 95 % interval of the rate where \
         there is more than one. Latencies are service times of all verbs together; of an open \
         loop the response of units. A dash: too few calls for it.\
         </p>\n<table class=\"sortable\"><thead><tr>\
         <th class=\"l\">workload</th>\
         <th class=\"l\">engine</th><th>threads</th><th class=\"l\">sweep, rate</th>\
         <th>units/s</th><th>95 % interval</th><th>operations/s</th><th>p50</th><th>p99</th>\
         <th>CPU \u{b5}s/unit</th><th class=\"l\">durability</th><th class=\"l\">flags</th></tr>\
         </thead><tbody>\n",
    );
    for (run, recorded) in runs.iter().enumerate() {
        for point in &recorded.run.points {
            result(out, charts, point, charts.series_of(run, &point.cell));
        }
    }
    out.push_str("</tbody></table>\n");
    notes(out, runs);
    out.push_str("</div></section>\n");
}

/// What was found out about cells and casts no doubt on them, each once, with the cells that it is
/// said of. What stands at the top of the page already is left out.
fn notes(out: &mut String, runs: &[Recorded]) {
    let mut found: Vec<(&str, Vec<(&Recorded, &Point)>)> = Vec::new();
    for recorded in runs {
        for point in &recorded.run.points {
            let is_above = |note: &&String| recorded.run.header.warnings.contains(note);
            for note in point.notes.iter().filter(|note| !is_above(note)) {
                match found.iter_mut().find(|(text, _)| text == note) {
                    Some((_, points)) => points.push((recorded, point)),
                    None => found.push((note, vec![(recorded, point)])),
                }
            }
        }
    }
    if found.is_empty() {
        return;
    }
    out.push_str("<h3>Notes</h3><ul class=\"notes\">\n");
    for (note, points) in found {
        let of = match points.as_slice() {
            [(_, point)] if runs.len() == 1 => point.cell.to_string(),
            [(recorded, point)] => format!("{}: {}", recorded.name, point.cell),
            _ => {
                let engines = distinct(points.iter().map(|(_, p)| p.cell.engine.as_str()));
                format!("{}, {} cells", engines.join(", "), points.len())
            }
        };
        let _ = writeln!(out, "<li><b>{}</b>: {}</li>", escaped(&of), escaped(note));
    }
    out.push_str("</ul>\n");
}

/// A row for each cell of which something was counted beside its operations.
pub(super) fn counters(out: &mut String, charts: &Charts, runs: &[Recorded]) {
    let mut rows = String::new();
    let mut is_user_alone = false;
    for (run, recorded) in runs.iter().enumerate() {
        for point in &recorded.run.points {
            is_user_alone |= point.counts_user_alone();
            counted(&mut rows, charts, point, charts.series_of(run, &point.cell));
        }
    }
    if rows.is_empty() {
        return;
    }
    let scope = if is_user_alone { "outside of the kernel alone" } else { "kernel included" };
    let _ = writeln!(
        out,
        "<section id=\"counters\"><h2>Counters</h2><div class=\"card scroll\">\
         <p class=\"note\">Events of the whole process for each operation, {scope}, and what its \
         control group used in the timed phase; medians. A dash: not told on that machine.</p>\n\
         <table class=\"sortable\"><thead><tr><th class=\"l\">workload</th>\
         <th class=\"l\">engine</th><th class=\"l\">threads, sweep, rate</th>\
         <th>cycles</th><th>instructions</th>\
         <th>cache misses</th><th>branch misses</th><th>page faults</th><th>context switches</th>\
         <th>group CPU s</th><th>held back s</th><th>peak MiB</th><th>read MiB</th>\
         <th>written MiB</th></tr></thead><tbody>\n{rows}</tbody></table></div></section>"
    );
}

fn counted(out: &mut String, charts: &Charts, point: &Point, series: usize) {
    let per_op = point.counters_per_op();
    let mib = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / 1_048_576.0);
    let group = [
        point.cgroup(|group| group.cpu_s),
        point.cgroup(|group| group.throttled_s),
        point.cgroup(|group| mib(group.memory_peak_bytes)),
        point.cgroup(|group| mib(group.read_bytes)),
        point.cgroup(|group| mib(group.written_bytes)),
    ];
    if per_op.iter().chain(&group).all(Option::is_none) {
        return;
    }
    let cell = &point.cell;
    let workers = cell.part.as_ref().map_or(cell.threads, |part| part.workers);
    let place = format!("t{workers}{}", swept(cell));
    let label = charts.series.get(series).map_or(cell.engine.as_str(), |s| s.label.as_str());
    let _ = write!(
        out,
        "<tr data-s=\"{series}\"><td class=\"l\">{}</td><td class=\"l\">{}</td>\
         <td class=\"l\">{}</td>",
        escaped(&cell.title()),
        escaped(label),
        escaped(&place)
    );
    for value in per_op.into_iter().chain(group) {
        let _ = match value {
            Some(value) if value >= 100.0 => write!(out, "<td data-v=\"{value}\">{value:.0}</td>"),
            Some(value) => write!(out, "<td data-v=\"{value}\">{value:.3}</td>"),
            None => write!(out, "<td data-v=\"-1\">-</td>"),
        };
    }
    out.push_str("</tr>\n");
}

fn result(out: &mut String, charts: &Charts, point: &Point, series: usize) {
    let cell = &point.cell;
    let workers = cell.part.as_ref().map_or(cell.threads, |part| part.workers);
    let summary = &point.summary;
    let rate = &summary.wu_per_s;
    let interval = rate
        .interval
        .map_or("-".to_owned(), |(low, high)| format!("{} to {}", thousands(low), thousands(high)));
    let (p50, p99) = match summary.response_ns {
        Some([p50, p99, ..]) => (p50, p99),
        None => (summary.p50_ns, summary.p99_ns),
    };
    let samples = samples(point);
    let label = charts.series.get(series).map_or(cell.engine.as_str(), |s| s.label.as_str());
    let number = |value: f64, text: String| format!("<td data-v=\"{value}\">{text}</td>");
    let known = |is_known: bool, value: f64, text: String| {
        if is_known { number(value, text) } else { number(-1.0, "-".to_owned()) }
    };
    let cpu_us = summary.cpu_us_per_unit;
    let _ = writeln!(
        out,
        "<tr data-s=\"{series}\"><td class=\"l\">{}</td><td class=\"l\"><span class=\"dot\" \
         style=\"background:var(--s{series})\"></span>{}</td>{}<td class=\"l\">{}</td>{}\
         <td data-v=\"{}\">{interval}</td>{}{}{}{}<td class=\"l\">{}</td>\
         <td class=\"l wrap\">{}</td></tr>",
        escaped(&cell.title()),
        escaped(label),
        number(f64::from(workers), workers.to_string()),
        escaped(swept(cell).trim()),
        number(rate.median, thousands(rate.median)),
        rate.interval.map_or(-1.0, |(low, _)| low),
        number(summary.ops_per_s.median, thousands(summary.ops_per_s.median)),
        known(samples > 0, p50, time(p50)),
        known(samples >= P99_CALLS_MIN, p99, time(p99)),
        known(rate.median > 0.0, cpu_us, format!("{cpu_us:.2}")),
        escaped(&point.durability),
        escaped(&point.flags.join("; ")),
    );
}

/// How many times the percentiles of a point rest on, in a repeat: units of an open loop, else
/// calls of verbs.
fn samples(point: &Point) -> u64 {
    let verbs = point.summary.ops.iter().filter(|op| VERBS.contains(&op.op.as_str()));
    point.open_loop().map_or_else(|| verbs.map(|op| op.calls).sum(), |open| open.units)
}

/// Runs against the first with intervals, or a word on how to get one.
pub(super) fn comparison(out: &mut String, runs: &[Recorded], draw: &mut dyn FnMut() -> u64) {
    out.push_str("<section id=\"comparison\"><h2>Comparison</h2>\n");
    let Some((base, others)) = runs.split_first() else { return };
    if others.is_empty() {
        engines(out, &base.run);
    }
    for other in others {
        let found = compare(&base.run, &other.run, draw);
        let (new, old) = (escaped(&other.name), escaped(&base.name));
        let _ = writeln!(out, "<div class=\"card scroll\"><h3>{new} against {old}</h3>");
        compared(out, &found);
        out.push_str("</div>\n");
    }
    out.push_str("</section>\n");
}

fn compared(out: &mut String, comparison: &Comparison) {
    out.push_str(
        "<p class=\"note\">Ratio of medians, new over base, with its 95 % interval. A verdict \
         needs an interval that does not touch 1; ~ means that no difference is shown.</p>\n\
         <table class=\"sortable\"><thead><tr><th class=\"l\">cell</th><th class=\"l\">metric</th>\
         <th>base</th><th>new</th><th>ratio</th><th>95 % interval</th><th>p</th>\
         <th class=\"l\">verdict</th></tr></thead><tbody>\n",
    );
    for row in &comparison.rows {
        let text = |value: f64| match row.metric {
            Metric::OpsPerS => thousands(value),
            Metric::ResponseP99 | Metric::ServiceP99 { .. } => time(value),
        };
        let interval =
            row.interval.map_or("-".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}"));
        let verdict = row.verdict.to_string();
        let _ = writeln!(
            out,
            "<tr><td class=\"l\">{}</td><td class=\"l\">{}</td><td data-v=\"{}\">{}</td>\
             <td data-v=\"{}\">{}</td><td data-v=\"{}\">{:.2}x</td><td>{interval}</td><td>{}</td>\
             <td class=\"l {}\">{verdict}</td></tr>",
            escaped(&row.cell.to_string()),
            escaped(&row.metric.to_string()),
            row.base,
            text(row.base),
            row.new,
            text(row.new),
            row.ratio,
            row.ratio,
            row.p.map_or("-".to_owned(), |p| format!("{p:.3}")),
            if verdict == "~" { "same" } else { verdict.as_str() },
        );
    }
    out.push_str("</tbody></table>\n");
    let cells = |what: &str, cells: &[keyrack_record::Cell]| -> Vec<String> {
        cells.iter().map(|cell| format!("{what}: {cell}")).collect()
    };
    let mut lines: Vec<String> = comparison.warnings.clone();
    lines.extend(
        comparison.refused.iter().map(|r| format!("not compared: {}: {}", r.cell, r.reason)),
    );
    lines.extend(cells("missing from the new run", &comparison.missing));
    lines.extend(cells("only in the new run", &comparison.added));
    if comparison.has_unsure() {
        lines
            .push("unsure: one repeat has no interval; measure with --repeat 5 or more".to_owned());
    }
    list(out, &lines);
}

/// Ratios of the engines of one run, of neighbouring repeats.
fn engines(out: &mut String, run: &Run) {
    let Some(engines) = crate::compare_engines(run, None) else { return };
    let _ = writeln!(
        out,
        "<div class=\"card scroll\"><h3>Engines: {}</h3><p class=\"note\">Ratios of \
         neighbouring repeats: the median, in brackets the smallest and the largest. Intervals of \
         95 % are in the chart of ratios.</p>\n<table class=\"sortable\"><thead><tr>\
         <th class=\"l\">cell</th><th>operations/s</th><th class=\"l\">to</th><th>rate</th>\
         <th>CPU \u{b5}s/op</th>\
         <th>CPU</th><th>written B/op</th><th>MiB in memory</th><th>MiB on disk</th></tr></thead>\
         <tbody>",
        escaped(&engines.title())
    );
    for row in &engines.rows {
        let spread = |spread: Option<crate::Spread>| {
            spread.map_or(("-1".to_owned(), "-".to_owned()), |s| {
                (s.median.to_string(), format!("{:.2} ({:.2}, {:.2})", s.median, s.low, s.high))
            })
        };
        let (rate, rate_text) = spread(row.rate);
        let (cpu, cpu_text) = spread(row.cpu);
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.0}"));
        let _ = writeln!(
            out,
            "<tr><td class=\"l\">{}</td><td data-v=\"{}\">{}</td><td class=\"l\">{}</td>\
             <td data-v=\"{rate}\">{rate_text}</td><td data-v=\"{}\">{}</td>\
             <td data-v=\"{cpu}\">{cpu_text}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&row.cell.to_string()),
            row.ops_per_s,
            thousands(row.ops_per_s),
            escaped(row.base.as_deref().unwrap_or("-")),
            row.cpu_us_per_op.unwrap_or(-1.0),
            row.cpu_us_per_op.map_or("-".to_owned(), |us| format!("{us:.2}")),
            optional(row.written_per_op),
            optional(row.memory_bytes.map(|bytes| bytes / 1_048_576.0)),
            optional(row.disk_bytes.map(|bytes| bytes / 1_048_576.0)),
        );
    }
    out.push_str("</tbody></table>\n");
    let refused = engines.refusals().into_iter().map(|line| format!("not compared: {line}"));
    list(out, &refused.chain(engines.warnings.iter().cloned()).collect::<Vec<String>>());
    out.push_str("</div>\n");
}

/// Whole numbers with thin spaces between thousands; below ten with two decimals.
fn thousands(value: f64) -> String {
    if value.abs() < 10.0 && value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds with a unit and three digits.
fn time(ns: f64) -> String {
    let (divisor, unit) = match ns {
        _ if ns >= 1e9 => (1e9, "s"),
        _ if ns >= 1e6 => (1e6, "ms"),
        _ if ns >= 1e3 => (1e3, "\u{b5}s"),
        _ => (1.0, "ns"),
    };
    let value = ns / divisor;
    let decimals = match value {
        _ if unit == "ns" || value >= 100.0 => 0,
        _ if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        let written = [7.0, 1234.0, 1_234_567.4].map(thousands);
        assert_eq!(written, ["7", "1\u{2009}234", "1\u{2009}234\u{2009}567"]);
        assert_eq!([0.0, 0.4, 9.25].map(thousands), ["0", "0.40", "9.25"], "not 0, 0 and 9");
        let written = [30.0, 1500.0, 45_600.0, 2.5e6, 3e9].map(time);
        assert_eq!(written, ["30 ns", "1.50 \u{b5}s", "45.6 \u{b5}s", "2.50 ms", "3.00 s"]);
    }
}
