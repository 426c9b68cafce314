//! The plots of a figure, each within the margins that `script` has set: bars, or a panel of
//! curves.
//!
//! Numbers stay as they are in the data blocks; a plot divides them, so that its axis has few
//! digits: `using 1:($2/1000)` under the label `thousand units/s`.
//!
//! Curves over time come in two steps. [`sample_table`] reads the rows of some cells from
//! `timeline.tsv` into `$samples`, and [`panel`] picks one cell and one metric from there by their
//! key. So the file is read once a panel, or once a figure whose panels share their cells, and not
//! once a curve.

use crate::figures::chart::{BarGroup, LINEAR_RATIO_MAX};
use crate::figures::figure::{Curve, Dot, Panel, Samples, Source, XAxis};
use crate::figures::text::{number, quoted, rate_unit, shortened};
use keyrack_record::tsv_field;

/// Letters of a workload's name below its bars, and of an engine's in the legend.
pub(super) const NAME_CHARS_MAX: usize = 40;
/// More than there are metrics in a figure.
pub(super) const KEY_STEP: usize = 100;
const BAR_PX: f64 = 66.0;
const GROUP_PX_MIN: f64 = 150.0;
/// Half the width of the ends of an error bar on a bar.
const CAP_PX: f64 = 5.0;
/// Samples of all repeats that are averaged together, in seconds.
const SAMPLE_BIN_S: f64 = 0.1;
/// Marks of an axis with given values.
const MARKS_MAX: usize = 10;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito), the darker ones
/// first, with the point that goes with each: colour never is the only difference.
const LINE_TYPES: [(&str, u32); 8] = [
    ("#0072B2", 7),
    ("#D55E00", 5),
    ("#009E73", 9),
    ("#CC79A7", 13),
    ("#E69F00", 11),
    ("#56B4E9", 15),
    ("#000000", 6),
    ("#F0E442", 4),
];

/// Line type `series + 1` for each series, which keeps it in every figure.
pub(super) fn line_types(series_count: usize) -> String {
    let line_type = |index: usize| {
        let (colour, point) = LINE_TYPES[index % LINE_TYPES.len()];
        // More engines than colours: the next round has other lines.
        let dash = index / LINE_TYPES.len() % 5 + 1;
        format!(
            "set linetype {} linecolor rgb '{colour}' linewidth 1.6 \
             pointtype {point} pointsize 1.1 dashtype {dash}\n",
            index + 1
        )
    };
    (0..series_count).map(line_type).collect()
}

/// Width of a group: room for its bars and for its name below.
pub(super) fn group_px(groups: &[BarGroup]) -> f64 {
    let bars = groups.first().map_or(0, |group| group.bars.len()) as f64;
    let texts = groups.iter().flat_map(|group| [&group.label, &group.detail]);
    let chars = texts.map(|text| text.chars().count().min(NAME_CHARS_MAX)).max().unwrap_or(0);
    ((bars + 1.0) * BAR_PX).max(chars as f64 * 10.0 + 20.0).max(GROUP_PX_MIN)
}

/// Bars side by side in each group, with their numbers above. `canvas_px` is the width of the file.
pub(super) fn bars(data: &str, groups: &[BarGroup], canvas_px: f64) -> String {
    let cap = CAP_PX / canvas_px;
    let count = groups.first().map_or(0, |group| group.bars.len());
    let dots: Vec<Dot> =
        groups.iter().flat_map(|g| g.bars.iter().flatten().map(|b| b.dot)).collect();
    let largest = dots.iter().map(|dot| dot.high).fold(0.0, f64::max);
    let (divisor, word) = rate_unit(largest);
    // A group is 1 wide with at least half a bar of room at both ends; few bars stay narrow.
    let slot = (BAR_PX * 1.6 / group_px(groups)).min(1.0 / (count as f64 + 1.0));
    let marks: Vec<String> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| {
            let name = quoted(&shortened(&group.label, NAME_CHARS_MAX));
            let detail = quoted(&shortened(&group.detail, NAME_CHARS_MAX));
            format!("{name}.\"\\n\".{detail} {index}")
        })
        .collect();
    let mut text = format!(
        "unset title\nunset xlabel\nunset logscale\n\
         set xrange [-0.5:{}.5]\nset xtics scale 0 ({})\n\
         set yrange [0:{}]\nset ytics auto\nset ylabel '{word}units/s' font ',13'\n\
         set boxwidth {:.4} absolute\n",
        groups.len().saturating_sub(1),
        marks.join(", "),
        range_end(largest / divisor),
        slot * 0.88
    );
    let mut plots = Vec::new();
    for index in 0..count {
        let offset = (index as f64 - (count as f64 - 1.0) / 2.0) * slot;
        let x = format!("($1{offset:+.4})");
        let from = format!("{data} index {index} using {x}");
        plots.push(format!(
            "{from}:($2/{divisor}) with boxes {} linetype {} notitle",
            fill_style(index),
            index + 1
        ));
        if dots.iter().any(Dot::has_range) {
            plots.push(format!(
                "{from}:($3/{divisor}):(0):(($4-$3)/{divisor}) with vectors heads \
                 size screen {cap:.4},90 linecolor rgb '#333333' linewidth 0.9 notitle"
            ));
        }
        plots.push(format!("{from}:($4/{divisor}):5 with labels offset 0,0.7 font ',10' notitle"));
    }
    text.push_str(&plot(&plots));
    text
}

/// How the bars of a series are filled: the second round of colours is hatched.
pub(super) fn fill_style(series: usize) -> String {
    match series / LINE_TYPES.len() {
        0 => "fillstyle solid 0.9 noborder".to_owned(),
        round => format!("fillstyle pattern {} noborder", round + 3),
    }
}

/// One panel. `dataset` is the index of its first curve in the block `data`; it is moved past those
/// of this panel. `metrics` are those of the table of samples.
pub(super) fn panel(data: &str, panel: &Panel, dataset: &mut usize, metrics: &[&str]) -> String {
    let mut text = format!(
        "set title {} font ',14'\nunset logscale\n",
        quoted(&shortened(&panel.title, NAME_CHARS_MAX + 20))
    );
    text.push_str(&x_axis(&panel.x));
    let divisor = y_axis(panel, &mut text);
    let mut plots = Vec::new();
    // The largest sample of any curve, as gnuplot finds it.
    let mut top = "-1".to_owned();
    for (index, Curve { series, source }) in panel.curves.iter().enumerate() {
        let line_type = series + 1;
        match source {
            Source::Dots(dots) => {
                let from = format!("{data} index {dataset} using 1:($2/{divisor})");
                if dots.iter().any(Dot::has_range) {
                    plots.push(format!(
                        "{from}:($3/{divisor}):($4/{divisor}) with yerrorbars \
                         linetype {line_type} linewidth 0.9 dashtype 1 pointsize 0 notitle"
                    ));
                }
                plots.push(format!("{from} with linespoints linetype {line_type} notitle"));
                *dataset += 1;
            }
            Source::Samples(samples) => {
                let metric = metrics.iter().position(|metric| *metric == samples.metric);
                let key = index * KEY_STEP + metric.unwrap_or(0);
                let divisor = samples.divisor * divisor;
                top = format!("larger({top}, most[{}] / {divisor})", key + 1);
                plots.push(format!(
                    "$samples using (sample_x({key})):(sample_y({key}, {divisor})) smooth unique \
                     with linespoints linetype {line_type} pointsize 0.4 notitle"
                ));
            }
        }
    }
    if samples(panel).next().is_none() {
        text.push_str(&plot(&plots));
        return text;
    }
    let bin_s = if samples(panel).all(|s| s.repeat.is_none()) { SAMPLE_BIN_S } else { 0.0 };
    text.push_str(&format!(
        "bin_s = {bin_s}\ntop = {top}\n\
         set xrange [0:larger(latest, 0.001)]\nset yrange [0:(top > 0 ? top * 1.1 : 1)]\n\
         if (top < 0) {{\n  \
           set label 1 'no samples' at graph 0.5,0.5 center textcolor rgb '#777777'\n}}\n"
    ));
    text.push_str(&plot(&plots));
    text.push_str("unset label 1\n");
    text
}

/// Reads `timeline.tsv` once into `$samples`: key, time, value. The key is the index of the curve
/// times [`KEY_STEP`] plus that of the metric; other rows are left out. The line of column names
/// becomes a row that no curve takes, so that the block exists whatever the file holds.
pub(super) fn sample_table(panel: &Panel, metrics: &[&str]) -> String {
    let cells: Vec<String> = samples(panel)
        .enumerate()
        .map(|(index, samples)| {
            let Samples { workload, engine_version, threads, sweep_value, repeat, .. } = samples;
            let workload = quoted(&tsv_field(workload));
            let engine = quoted(&tsv_field(engine_version));
            let repeat = repeat.map_or_else(String::new, |n| format!(" && column(10) == {n}"));
            let part = match &samples.part {
                (phase, role) if !phase.is_empty() => format!(
                    " && strcol(12) eq {} && strcol(13) eq {}",
                    quoted(&tsv_field(phase)),
                    quoted(&tsv_field(role))
                ),
                _ => String::new(),
            };
            format!(
                "is_cell({workload}, {engine}, {threads}, {sweep_value}){part}{repeat} ? {index} : "
            )
        })
        .collect();
    let metrics: Vec<String> = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| format!("strcol(8) eq '{metric}' ? {index} : "))
        .collect();
    let phase = samples(panel).next().map_or("run", |samples| samples.phase);
    format!(
        "do for [i = 1:|most|] {{ most[i] = -1 }}\nlatest = 0\n\
         set datafile separator tab\nset table $samples\n\
         plot 'timeline.tsv' using ($0 == 0 ? -1 : strcol(6) ne '{phase}' ? NaN : \\\n  \
           (c = ({}-1), m = ({}-1), c < 0 || m < 0 ? NaN : \\\n  \
           (k = {KEY_STEP} * c + m, most[k + 1] = larger(most[k + 1], column(9)), \\\n  \
           latest = larger(latest, column(7)), k))) \\\n  \
           :($0 == 0 ? 0 : column(7)):($0 == 0 ? 0 : column(9)) with table\n\
         unset table\nset datafile separator whitespace\n",
        cells.concat(),
        metrics.concat(),
    )
}

/// What the sampled curves of a panel read.
pub(super) fn samples(panel: &Panel) -> impl Iterator<Item = &Samples> {
    panel.curves.iter().filter_map(|curve| match &curve.source {
        Source::Samples(samples) => Some(samples),
        Source::Dots(_) => None,
    })
}

fn x_axis(axis: &XAxis) -> String {
    match axis {
        XAxis::Elapsed => {
            "set xlabel 'elapsed s' font ',13'\nset xtics scale 0.6 auto\n".to_owned()
        }
        XAxis::Values { label, values } => {
            let (first, last) =
                (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(0.0));
            let mut text = format!("set xlabel {} font ',13'\n", quoted(label));
            if first > 0.0 {
                let room = (last / first).powf(0.04).max(1.05);
                text.push_str("set logscale x 2\n");
                text.push_str(&format!("set xrange [{:.6e}:{:.6e}]\n", first / room, last * room));
            } else {
                let room = ((last - first) * 0.04).max(0.5);
                text.push_str(&format!("set xrange [{:.6e}:{:.6e}]\n", first - room, last + room));
            }
            let step = values.len().div_ceil(MARKS_MAX).max(1);
            let marks = values.iter().step_by(step);
            let marks: Vec<String> =
                marks.map(|&value| format!("'{value}' {}", number(value))).collect();
            text.push_str(&format!("set xtics scale 0.6 ({})\n", marks.join(", ")));
            text
        }
    }
}

/// Writes the axis and returns what values are divided by. An axis begins at zero, but where one
/// engine is so far ahead that the others would lie on it: there it is logarithmic.
fn y_axis(panel: &Panel, text: &mut String) -> f64 {
    let dots: Vec<Dot> = panel.dots().copied().collect();
    let largest = dots.iter().map(|dot| dot.high).fold(0.0, f64::max);
    let smallest = dots.iter().map(|dot| dot.low).fold(f64::INFINITY, f64::min);
    let (divisor, label) = panel.y.scaled(panel.typical.unwrap_or(largest));
    text.push_str(&format!("set ylabel '{label}' font ',13'\nset ytics auto\n"));
    text.push_str("set format y '%g'\n");
    if dots.is_empty() {
        // Samples: the range is found by gnuplot.
        return divisor;
    }
    if smallest > 0.0 && largest / smallest > LINEAR_RATIO_MAX {
        let (low, high) = (smallest / divisor, largest / divisor);
        text.push_str("set logscale y 10\n");
        text.push_str(&format!("set yrange [{:.6e}:{:.6e}]\n", low / 1.4, high * 1.4));
        text.push_str(&format!("set ytics ({})\n", decades(low / 1.4, high * 1.4)));
    } else {
        text.push_str(&format!("set yrange [0:{}]\n", range_end(largest / divisor)));
    }
    divisor
}

/// Marks of a logarithmic axis: powers of ten, and where these are few their double and fivefold.
fn decades(low: f64, high: f64) -> String {
    let steps: &[u32] = if high / low > 3e3 { &[1] } else { &[1, 2, 5] };
    let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let marks = exponents.flat_map(|exponent| steps.iter().map(move |step| (*step, exponent)));
    let marks: Vec<String> = marks.map(|(step, exponent)| format!("{step}e{exponent}")).collect();
    marks.join(", ")
}

/// Where an axis from zero to `largest` ends: with room above for a number.
fn range_end(largest: f64) -> String {
    if largest > 0.0 { format!("{:.6e}", largest * 1.1) } else { "1".to_owned() }
}

/// One command over several lines.
pub(super) fn plot(plots: &[String]) -> String {
    format!("plot {}\n", plots.join(", \\\n  "))
}
