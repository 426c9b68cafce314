//! # keyrack-report: recorded runs set against each other, or drawn
//!
//! ```text
//!   JSON text --load--> Run --+
//!                             +--compare--> Comparison --render_text, render_markdown--> text
//!   JSON text --load--> Run --+                  |
//!                                                +--regressions(0.05)--> the answer of a gate
//! ```
//!
//! Cells are matched by [`Cell`](keyrack_record::Cell): workload, engine, threads, swept value,
//! rate. For each pair there is a row for throughput and one for the 99th percentile of each verb;
//! an open loop adds the response time of units. Only throughput and response time gate: the p99
//! of one verb is information.
//!
//! A row says *faster* or *slower* only where the 95 % interval of the ratio of medians does not
//! contain 1. With one repeat on either side there is no interval, and the row says *unsure*
//! whatever the ratio is: a gate needs `--repeat`. Of twenty rows of equal runs one shows a
//! difference by chance, so a gate also asks for a least size of the change.
//!
//! What is not comparable is refused in words: cells whose writes survive different things.
//! What may mislead is a warning: another machine, another script, another size of the work.
//!
//! The engines of one run are set against each other by [`compare_engines`]: ratios of neighbouring
//! repeats, CPU time and bytes.
//!
//! Apart from comparisons there are pictures: [`Charts`] of one run or several, which
//! [`Charts::pictures`] draws as SVG, PDF or PNG, and [`html_page`], a page for a browser.
//! [`gnuplot_script`] writes most of them as a script for gnuplot.
//!
//! **Invariant:** nothing here reads files, clocks or random numbers. The caller brings the texts
//! and the draws; the same texts and draws give the same bytes.
#![forbid(unsafe_code)]

mod comparison;
mod context;
mod draw;
mod engines;
mod error;
mod figures;
mod gnuplot;
mod html;
mod render;
#[cfg(test)]
mod tests;

pub use comparison::{Comparison, Metric, Refusal, Row, Verdict, compare};
pub use draw::{Format, Theme};
pub use engines::{
    EngineRow, Engines, Spread, compare_engines, render_engines_markdown, render_engines_text,
};
pub use error::{Error, load};
pub use figures::{Charts, Heading, Look, Palette, Recorded, Series, Shape, Timeline};
pub use gnuplot::gnuplot_script;
pub use html::{PAGE_BYTES_MAX, html_page};
pub use render::{render_markdown, render_text};
