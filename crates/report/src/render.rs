//! A comparison as text for terminals and as Markdown for code hosts.
//!
//! ```text
//! cell               metric      base       new  ratio                p  verdict
//! mixed skiplist t1  ops/s     100000    142000  1.42x [1.38, 1.47]  0.004  faster
//! ```
//!
//! Both have the same rows in the same order. Rows that gate come first, the 99th percentiles of
//! verbs in a table of their own below.

use crate::{Comparison, Metric, Row};
use keyrack_record::rate_text;

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    title: &'static str,
    /// Numbers align to the right.
    is_number: bool,
}

impl Column {
    pub(crate) const fn text(title: &'static str) -> Self {
        Column { title, is_number: false }
    }

    pub(crate) const fn number(title: &'static str) -> Self {
        Column { title, is_number: true }
    }
}

const COLUMNS: [Column; 7] = [
    Column::text("cell"),
    Column::text("metric"),
    Column::number("base"),
    Column::number("new"),
    Column::text("ratio [95% CI]"),
    Column::number("p"),
    Column::text("verdict"),
];
const UNSURE_HINT: &str =
    "unsure: one repeat has no interval; measure both sides with --repeat 5 or more";

/// Aligned columns. O(rows).
#[must_use]
pub fn render_text(comparison: &Comparison) -> String {
    let title = "\nlatency of verbs, for information\n";
    let mut text = rendered(comparison, title, |rows| aligned(&COLUMNS, rows));
    text.push_str(&text_lists(&lists(comparison)));
    text.trim_start_matches('\n').to_owned()
}

/// Titles, and the lines below each.
pub(crate) fn text_lists(lists: &[(&str, Vec<String>)]) -> String {
    let list = |(title, lines): &(&str, Vec<String>)| {
        let lines: String = lines.iter().map(|line| format!("  {}\n", one_line(line))).collect();
        format!("\n{title}\n{lines}")
    };
    lists.iter().map(list).collect()
}

/// The rows that gate, and below `title` the others.
fn rendered(comparison: &Comparison, title: &str, table: impl Fn(&[Fields]) -> String) -> String {
    let (gating, others): (Vec<&Row>, Vec<&Row>) =
        comparison.rows.iter().partition(|row| row.metric.gates());
    let mut text = String::new();
    for (title, rows) in [("", gating), (title, others)] {
        if !rows.is_empty() {
            let rows: Vec<Fields> = rows.into_iter().map(fields).collect();
            text.push_str(&format!("{title}{}", table(&rows)));
        }
    }
    text
}

/// Tables and lists in the Markdown of code hosts. O(rows).
#[must_use]
pub fn render_markdown(comparison: &Comparison) -> String {
    let title = "\n**Latency of verbs, for information**\n\n";
    let mut text = rendered(comparison, title, |rows| markdown_table(&COLUMNS, rows));
    text.push_str(&markdown_lists(&lists(comparison)));
    text.trim_start_matches('\n').to_owned()
}

/// Titles, and the lines below each.
pub(crate) fn markdown_lists(lists: &[(&str, Vec<String>)]) -> String {
    let list = |(title, lines): &(&str, Vec<String>)| {
        let lines: String = lines.iter().map(|line| format!("- {}\n", markdown(line))).collect();
        format!("\n**{title}**\n\n{lines}")
    };
    lists.iter().map(list).collect()
}

type Fields = [String; 7];

fn fields(row: &Row) -> Fields {
    let number = |value: f64| match row.metric {
        Metric::OpsPerS => rate_text(value),
        Metric::ResponseP99 | Metric::ServiceP99 { .. } => format!("{value:.0} ns"),
    };
    let ratio = match row.interval {
        Some((low, high)) => format!("{:.2}x [{low:.2}, {high:.2}]", row.ratio),
        None => format!("{:.2}x", row.ratio),
    };
    [
        one_line(&row.cell.to_string()),
        one_line(&row.metric.to_string()),
        number(row.base),
        number(row.new),
        ratio,
        row.p.map_or_else(|| "-".to_owned(), |p| format!("{p:.3}")),
        row.verdict.to_string(),
    ]
}

/// What stands below the tables: a title, and its lines.
fn lists(comparison: &Comparison) -> Vec<(&'static str, Vec<String>)> {
    let cells = |cells: &[keyrack_record::Cell]| cells.iter().map(ToString::to_string).collect();
    let refused = comparison.refused.iter();
    let hint: Vec<String> =
        comparison.has_unsure().then(|| UNSURE_HINT.to_owned()).into_iter().collect();
    let all = [
        ("not compared:", refused.map(|r| format!("{}: {}", r.cell, r.reason)).collect()),
        ("missing from the new run:", cells(&comparison.missing)),
        ("only in the new run:", cells(&comparison.added)),
        ("warnings:", comparison.warnings.clone()),
        ("hint:", hint),
    ];
    all.into_iter().filter(|(_, lines): &(_, Vec<String>)| !lines.is_empty()).collect()
}

/// A table for terminals.
pub(crate) fn aligned<const N: usize>(columns: &[Column; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.fold(columns[column].title.chars().count(), usize::max)
    });
    let mut text = line(columns, &columns.map(|column| column.title.to_owned()), &widths);
    for row in rows {
        text.push_str(&line(columns, row, &widths));
    }
    text
}

/// A table for code hosts.
pub(crate) fn markdown_table<const N: usize>(
    columns: &[Column; N],
    rows: &[[String; N]],
) -> String {
    let titles = columns.map(|column| column.title);
    let rule = columns.map(|column| if column.is_number { "---:" } else { "---" });
    let mut text = format!("| {} |\n| {} |\n", titles.join(" | "), rule.join(" | "));
    for row in rows {
        let row = row.each_ref().map(|field| markdown(field));
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

fn line<const N: usize>(
    columns: &[Column; N],
    fields: &[String; N],
    widths: &[usize; N],
) -> String {
    let mut line = String::new();
    for (column, (field, &width)) in columns.iter().zip(fields.iter().zip(widths)) {
        let padded =
            if column.is_number { format!("{field:>width$}") } else { format!("{field:<width$}") };
        line.push_str(&padded);
        line.push_str("  ");
    }
    format!("{}\n", line.trim_end())
}

/// Control characters of names come from scripts; here they must not end a line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// `text` without what Markdown would read as its own.
pub(crate) fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '_' | '<' | '~') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
