//! Figures laid out in pixels and written as gnuplot commands: what is around the plots.
//!
//! ```text
//!   +------------------------------------------+
//!   | title                                    |  TITLE_LINE_PX
//!   | small print: machine, command, notes     |  SMALL_LINE_PX each
//!   | +----------------+  +----------------+   |
//!   | | panel          |  | panel          |   |  PANEL_PX, insets for tics and labels
//!   | +----------------+  +----------------+   |
//!   |        -o- engine    -x- engine          |  LEGEND_LINE_PX each
//!   +------------------------------------------+
//! ```
//!
//! Every plot of a file is placed by its four margins in screen coordinates, so nothing depends on
//! the size of labels. The texts around the panels and the legend belong to a last, empty plot
//! over the whole canvas. The legend so stands outside the data, and once.
//!
//! A figure's numbers stand in one data block named after it, one curve a dataset; two empty lines
//! end a dataset, and `index N` picks it.

use super::plots::{
    KEY_STEP, NAME_CHARS_MAX, bars, fill_style, group_px, line_types, panel, plot, sample_table,
    samples,
};
use crate::figures::Heading;
use crate::figures::chart::BarGroup;
use crate::figures::figure::{Content, Dot, Figure, Series, Source};
use crate::figures::text::{comment, number, one_line, quoted, short_number, shortened, wrapped};

/// Width and height of a panel with its insets.
const PANEL_PX: (f64, f64) = (720.0, 470.0);
/// Room inside a panel at its left, right, top and bottom.
const INSETS_PX: [f64; 4] = [112.0, 28.0, 48.0, 80.0];
const TITLE_LINE_PX: f64 = 46.0;
const SMALL_LINE_PX: f64 = 24.0;
const LEGEND_LINE_PX: f64 = 30.0;
/// About the width of a letter of the title, of the small print, of the legend.
const TITLE_LETTER_PX: f64 = 13.0;
const SMALL_LETTER_PX: f64 = 7.9;
const LEGEND_LETTER_PX: f64 = 10.0;
/// Lines of the small print that the command may fill.
const COMMAND_LINES_MAX: usize = 3;
/// What does not depend on the run: terminals, and how samples are found.
const PREAMBLE: &str = include_str!("preamble.gp");

/// The lines under the title of a figure, at most `chars` letters each.
fn small_print(heading: &Heading, figure: &Figure, chars: usize) -> Vec<String> {
    let mut lines = wrapped(&heading.machine, chars, 2);
    lines.extend(wrapped(&heading.command, chars, COMMAND_LINES_MAX));
    if !heading.warnings.is_empty() {
        lines.extend(wrapped(&format!("! {}", heading.warnings.join("; ")), chars, 2));
    }
    if figure.content.has_ranges() {
        lines.push("error bars: smallest and largest of the repeats".to_owned());
    }
    lines.extend(wrapped(&figure.note, chars, 1));
    lines
}

/// The whole script. O(values).
pub(super) fn render(heading: &Heading, series: &[Series], figures: &[Figure]) -> String {
    let mut out = format!(
        "{PREAMBLE}array most[{}]\n\n{}",
        series.len().max(1) * KEY_STEP,
        line_types(series.len())
    );
    for figure in figures {
        out.push_str(&format!("\n# ---- {}\n", figure.name));
        let sampled = figure.content.is_sampled();
        if sampled {
            out.push_str("if (timeline_lines > 1) {\n");
        } else {
            out.push_str(&data_block(figure, series));
        }
        out.push_str(&drawing(heading, series, figure));
        if sampled {
            out.push_str("}\n");
        }
    }
    out
}

fn data_name(figure: &Figure) -> String {
    let letters = figure.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("${}", letters.collect::<String>())
}

/// Datasets in the order in which [`drawing`] counts them.
fn data_block(figure: &Figure, series: &[Series]) -> String {
    let mut text = format!("{} << EOD\n", data_name(figure));
    match &figure.content {
        Content::Bars(groups) => {
            for (index, one) in series.iter().enumerate() {
                text.push_str(&format!(
                    "# {}: group, value, low, high, mark\n",
                    comment(&one.label)
                ));
                for (group, number) in groups.iter().zip(0..) {
                    text.push_str(&bar_row(group, index, number));
                }
                text.push_str("\n\n");
            }
        }
        Content::Panels(panels) => {
            for panel in panels {
                for curve in &panel.curves {
                    let Source::Dots(dots) = &curve.source else { continue };
                    let label = &series[curve.series].label;
                    text.push_str(&format!("# {}: {}\n", comment(&panel.title), comment(label)));
                    for Dot { x, y, low, high } in dots {
                        text.push_str(&format!(
                            "{}\n",
                            [*x, *y, *low, *high].map(number).join(" ")
                        ));
                    }
                    text.push_str("\n\n");
                }
            }
        }
    }
    text.push_str("EOD\n");
    text
}

fn bar_row(group: &BarGroup, series: usize, group_number: u32) -> String {
    match &group.bars[series] {
        Some(bar) => {
            let Dot { y, low, high, .. } = bar.dot;
            let mark = if bar.flagged { "!" } else { "" };
            let values = [y, low, high].map(number).join(" ");
            format!("{group_number} {values} {}{mark}\n", short_number(y))
        }
        None => format!("{group_number} 0 0 0 n/a\n"),
    }
}

/// A rectangle on the canvas, in pixels from the top left corner.
#[derive(Clone, Copy, Debug)]
struct Place {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

#[derive(Clone, Copy, Debug)]
struct Canvas {
    width: f64,
    height: f64,
}

impl Canvas {
    fn margins(&self, place: Place) -> String {
        let Canvas { width, height } = self;
        format!(
            "set lmargin at screen {:.4}\nset rmargin at screen {:.4}\n\
             set tmargin at screen {:.4}\nset bmargin at screen {:.4}\n",
            place.left / width,
            place.right / width,
            1.0 - place.top / height,
            1.0 - place.bottom / height
        )
    }
}

fn drawing(heading: &Heading, series: &[Series], figure: &Figure) -> String {
    let (columns, rows, cell) = grid(&figure.content);
    let width = columns as f64 * cell.0;
    let chars = ((width - 40.0) / SMALL_LETTER_PX) as usize;
    let small = small_print(heading, figure, chars);
    let top = TITLE_LINE_PX + small.len() as f64 * SMALL_LINE_PX + 10.0;
    let legend = Legend::of(series, figure, width);
    let height = top + rows as f64 * cell.1 + legend.height_px() + 12.0;
    let canvas = Canvas { width, height };

    let mut text = format!(
        "reset\neval terminal({width}, {height})\n\
         set output 'figures/{}.' . format\nset multiplot\n\
         set tics nomirror out font ',12'\nset border 3 linewidth 0.8\n\
         set grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1\n\
         unset key\n",
        figure.name
    );
    let place = |index: usize| {
        let left = (index % columns) as f64 * cell.0;
        let above = top + (index / columns) as f64 * cell.1;
        Place {
            left: left + INSETS_PX[0],
            right: left + cell.0 - INSETS_PX[1],
            top: above + INSETS_PX[2],
            bottom: above + cell.1 - INSETS_PX[3],
        }
    };
    match &figure.content {
        Content::Bars(groups) => {
            text.push_str(&canvas.margins(Place { top: top + 16.0, ..place(0) }));
            text.push_str(&bars(&data_name(figure), groups, width));
        }
        Content::Panels(panels) => {
            let mut metrics: Vec<&str> =
                panels.iter().flat_map(samples).map(|s| s.metric).collect();
            metrics.sort_unstable();
            metrics.dedup();
            if !metrics.is_empty() {
                // A gap in the samples is bridged.
                text.push_str("set datafile missing NaN\n");
            }
            let (mut dataset, mut table) = (0, String::new());
            for (index, one) in panels.iter().enumerate() {
                if samples(one).next().is_some() {
                    let wanted = sample_table(one, &metrics);
                    if wanted != table {
                        text.push_str(&wanted);
                        table = wanted;
                    }
                }
                text.push_str(&canvas.margins(place(index)));
                text.push_str(&panel(&data_name(figure), one, &mut dataset, &metrics));
            }
            if !metrics.is_empty() {
                text.push_str("unset datafile missing\n");
            }
        }
    }
    text.push_str(&frame(figure, &small, &legend, canvas));
    text.push_str("unset multiplot\nunset output\n");
    text
}

/// Columns, rows and the size of a place in them.
fn grid(content: &Content) -> (usize, usize, (f64, f64)) {
    match content {
        Content::Bars(groups) => {
            let width = groups.len() as f64 * group_px(groups) + INSETS_PX[0] + INSETS_PX[1];
            (1, 1, (width.max(PANEL_PX.0 * 1.2), PANEL_PX.1 + 30.0))
        }
        Content::Panels(panels) => {
            let columns = match panels.len() {
                0..=1 => 1,
                2..=4 => 2,
                5..=9 => 3,
                _ => 4,
            };
            let cell = if columns == 1 { (PANEL_PX.0 * 1.2, PANEL_PX.1) } else { PANEL_PX };
            (columns, panels.len().div_ceil(columns), cell)
        }
    }
}

/// The names at the foot of a figure, in columns.
struct Legend {
    /// Line type and label.
    entries: Vec<(usize, String)>,
    columns: usize,
    /// Whether the figure has bars or lines.
    bars: bool,
}

impl Legend {
    fn of(series: &[Series], figure: &Figure, width_px: f64) -> Legend {
        let entries: Vec<(usize, String)> = figure
            .content
            .series()
            .into_iter()
            .map(|index| (index + 1, shortened(&one_line(&series[index].label), NAME_CHARS_MAX)))
            .collect();
        let chars = entries.iter().map(|(_, label)| label.chars().count()).max().unwrap_or(0);
        let entry_px = chars as f64 * LEGEND_LETTER_PX + 80.0;
        let columns = (((width_px - 40.0) / entry_px) as usize).clamp(1, entries.len().max(1));
        Legend { entries, columns, bars: matches!(figure.content, Content::Bars(_)) }
    }

    fn height_px(&self) -> f64 {
        self.entries.len().div_ceil(self.columns) as f64 * LEGEND_LINE_PX
    }
}

/// The last plot: title, small print and legend, over the whole canvas and without data.
fn frame(figure: &Figure, small: &[String], legend: &Legend, canvas: Canvas) -> String {
    let Canvas { width, height } = canvas;
    let mut text = canvas.margins(Place { left: 0.0, right: width, top: 0.0, bottom: height });
    text.push_str(
        "unset title\nunset xlabel\nunset ylabel\nunset tics\nunset border\nunset grid\n\
         unset logscale\nset xrange [0:1]\nset yrange [0:1]\n",
    );
    let x = 24.0 / width;
    let title = shortened(&figure.title, (width / TITLE_LETTER_PX) as usize);
    text.push_str(&format!(
        "set label 1 {} at screen {x:.4},{:.4} left font ',18'\n",
        quoted(&title),
        1.0 - 30.0 / height
    ));
    for (index, line) in small.iter().enumerate() {
        let y = TITLE_LINE_PX + (index as f64 + 0.5) * SMALL_LINE_PX;
        text.push_str(&format!(
            "set label {} {} at screen {x:.4},{:.4} left font ',10' textcolor rgb '#555555'\n",
            index + 2,
            quoted(line),
            1.0 - y / height
        ));
    }
    text.push_str(&format!(
        "set key at screen 0.5,{:.4} center bottom horizontal maxcols {} \
         Left reverse samplen 2.5 font ',12'\n",
        10.0 / height,
        legend.columns
    ));
    let entries: Vec<String> = legend
        .entries
        .iter()
        .map(|(line_type, label)| {
            let style = if legend.bars {
                format!("boxes {}", fill_style(line_type - 1))
            } else {
                "linespoints".to_owned()
            };
            format!("NaN with {style} linetype {line_type} title {}", quoted(label))
        })
        .collect();
    text.push_str(&plot(&entries));
    text
}
