//! A recorded run as a gnuplot script that draws its figures.
//!
//! ```text
//!   Run --select--> figures: panels of curves, groups of bars --script--> text of plot.gp
//!                                                                            |
//!                   DIR/figures/NAME.png  <--gnuplot plot.gp, run in DIR-----+
//! ```
//!
//! `figures::select` decides what is worth drawing, `script` lays it out, `plots` writes each plot.
//! A script holds its numbers in data blocks, in the record's own units (per second, nanoseconds),
//! so it draws without the record. Only the figures over time read a file: `timeline.tsv` beside
//! the script, and only where that has rows. `docs/formats/plot.md` lists the figures.
//!
//! Names come from scripts and command lines, so they may hold anything. Each goes through
//! `figures::text::quoted` into single quotes, where gnuplot reads no escapes, no macros and no
//! commands in back quotes. Terminals are opened with `noenhanced`, so `_` and `^` are
//! letters. File names keep letters, digits, `-`, `_` and `.` only.
//!
//! **Invariant:** the same run gives the same bytes.

mod plots;
mod script;
#[cfg(test)]
mod tests;

use crate::figures::Heading;
use crate::figures::select::{self, Named};
use keyrack_record::Run;

/// The script, for gnuplot 5.4 or later, to be run in a directory of its own: it makes
/// `figures/` there. `format` may be set before it to `png` (the default), `svg` or `pdf`:
/// `gnuplot -e "format='svg'" plot.gp`. A run without points gives a script that draws nothing.
/// O(points x verbs).
#[must_use]
pub fn gnuplot_script(run: &Run) -> String {
    let runs = [Named { name: String::new(), run }];
    let series = select::series(&runs);
    let figures = select::figures(&runs, &series);
    script::render(&Heading::of(run, String::new()), &series, &figures)
}
