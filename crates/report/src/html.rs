//! Runs as one page: a file that needs no other, works without a network, and prints.
//!
//! ```text
//!   Charts --data--> JSON in a script element --+
//!   Run ----tables--> HTML, readable without    +--> one file
//!                     JavaScript                |
//!   page.css, page.js ---------------------------+
//! ```
//!
//! The numbers of all charts are in the file, rounded to what an eye can tell. The page stays under
//! [`PAGE_BYTES_MAX`]: where it would not, curves over time get fewer points, and at last the
//! statistics of engines are left out, which the page then says.
//!
//! Names come from scripts and command lines: in markup they go through `escaped`, in JSON every
//! `<` is an escape, and the script takes them for text alone.

mod data;
mod tables;
#[cfg(test)]
mod tests;

use crate::draw::escaped;
use crate::figures::chart::Group;
use crate::figures::palette::DASHES;
use crate::figures::{Charts, Palette, Recorded, SAMPLES_MAX};
use keyrack_record::distinct;
use std::fmt::Write as _;

/// Pages are smaller than this, so that they can be sent around.
pub const PAGE_BYTES_MAX: usize = 1_000_000;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The page of `runs`, of which the first is what the others are compared with. `draw` feeds the
/// bootstrap of intervals; a new one with the same draws is asked for at each attempt to fit.
/// O(points x verbs + samples).
#[must_use]
pub fn html_page<D: FnMut() -> u64>(
    runs: &[Recorded],
    palette: &Palette,
    mut draws: impl FnMut() -> D,
) -> String {
    let mut page = String::new();
    for (samples_max, with_engines) in
        [(SAMPLES_MAX, true), (100, true), (40, true), (100, false), (20, false)]
    {
        let mut draw = draws();
        let mut charts = Charts::with(runs, palette, samples_max, &mut draw);
        let mut left_out = 0;
        if !with_engines {
            let before = charts.charts.len();
            charts.charts.retain(|chart| chart.group != Group::Engine);
            left_out = before - charts.charts.len();
        }
        page = render(runs, &charts, left_out, &mut draw);
        if page.len() <= PAGE_BYTES_MAX {
            break;
        }
    }
    page
}

fn render(
    runs: &[Recorded],
    charts: &Charts,
    left_out: usize,
    draw: &mut dyn FnMut() -> u64,
) -> String {
    let groups: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| charts.charts.iter().any(|chart| chart.group == *group))
        .collect();
    let title = match runs {
        [one] => format!("Keyrack: {}", workloads(one)),
        _ => {
            let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            format!("Keyrack: {}", names.join(", "))
        }
    };
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}{}</style>\n\
         </head>\n<body>\n",
        escaped(&title),
        colors(charts)
    );
    let mut counters = String::new();
    tables::counters(&mut counters, charts, runs);
    head(&mut out, &groups, !counters.is_empty());
    out.push_str("<main>\n");
    tables::about(&mut out, charts, runs);
    out.push_str(
        "<noscript><p class=\"warn\">Charts need JavaScript; the tables below do not.</p>\
         </noscript>\n",
    );
    for group in groups {
        let id = group_id(group);
        let title = group.title();
        let _ = writeln!(out, "<section id=\"group-{id}\"><h2>{title}</h2></section>");
    }
    if left_out > 0 {
        let _ = writeln!(
            out,
            "<p class=\"warn\">Charts of the engines' own statistics left out for want of room: \
             {left_out}. keyrack report plot draws them.</p>"
        );
    }
    tables::results(&mut out, charts, runs);
    out.push_str(&counters);
    tables::comparison(&mut out, runs, draw);
    out.push_str("</main>\n");
    foot(&mut out, runs);
    let _ = writeln!(
        out,
        "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{SCRIPT}</script>\n\
         </body>\n</html>",
        data::json(charts)
    );
    out
}

/// Variables of the colours of series, on light and on dark.
fn colors(charts: &Charts) -> String {
    let list = |dark: bool| -> String {
        let looks = charts.series.iter().map(|series| &series.look).enumerate();
        looks
            .map(|(index, look)| {
                format!(" --s{index}: {};", if dark { &look.dark } else { &look.light })
            })
            .collect()
    };
    format!(":root {{{} }}\n@media screen {{ :root.dark {{{} }} }}\n", list(false), list(true))
}

fn head(out: &mut String, groups: &[Group], has_counters: bool) {
    out.push_str(
        "<header class=\"top\"><div class=\"row\"><h1><b>Keyrack</b> report</h1>\n<nav>\
         <a href=\"#about\">Runs</a>",
    );
    for group in groups {
        let _ = write!(out, "<a href=\"#group-{}\">{}</a>", group_id(*group), group.title());
    }
    out.push_str("<a href=\"#results\">Results</a>");
    if has_counters {
        out.push_str("<a href=\"#counters\">Counters</a>");
    }
    out.push_str(
        "<a href=\"#comparison\">Comparison</a></nav>\n\
         <span class=\"controls\"><button id=\"theme\" title=\"light or dark (key d)\">Light / dark\
         </button> <button id=\"print\">Print</button> <button id=\"keys\" \
         title=\"keys and pointer (key ?)\">?</button></span></div>\n\
         <div id=\"legend\" aria-label=\"engines\"></div></header>\n",
    );
}

fn foot(out: &mut String, runs: &[Recorded]) {
    let version = runs.first().map_or("", |run| run.run.header.version.as_str());
    let _ = write!(
        out,
        "<footer>Drawn by keyrack report html from runs of keyrack {}.</footer>\n\
         <dialog id=\"help\"><h3>Keys and pointer</h3><dl>\n\
         <dt>pointer</dt><dd>values of all engines at that place</dd>\n\
         <dt>drag</dt><dd>zoom; a double click resets</dd>\n\
         <dt><kbd>1</kbd> to <kbd>9</kbd></dt><dd>show or hide an engine, as its name above \
         does</dd>\n\
         <dt><kbd>Tab</kbd></dt><dd>to the next chart; there:</dd>\n\
         <dt><kbd>&larr;</kbd> <kbd>&rarr;</kbd></dt><dd>from value to value</dd>\n\
         <dt><kbd>+</kbd> <kbd>-</kbd> <kbd>0</kbd></dt><dd>zoom in, out, reset; with \
         <kbd>Shift</kbd> arrows move</dd>\n\
         <dt><kbd>l</kbd></dt><dd>logarithmic y axis, and back</dd>\n\
         <dt><kbd>d</kbd></dt><dd>light or dark</dd>\n</dl>\n\
         <form method=\"dialog\"><button>Close</button></form></dialog>\n",
        escaped(version)
    );
}

fn workloads(recorded: &Recorded) -> String {
    let points = recorded.run.points.iter();
    distinct(points.map(|point| point.cell.workload.as_str())).join(", ")
}

/// The part of identifiers that stands for a group.
fn group_id(group: Group) -> &'static str {
    match group {
        Group::Throughput => "throughput",
        Group::Latency => "latency",
        Group::OverTime => "time",
        Group::Cost => "cost",
        Group::System => "system",
        Group::Engine => "engine",
    }
}

/// The dashes of a series.
fn dash(index: usize) -> &'static [f64] {
    DASHES[index % DASHES.len()]
}
