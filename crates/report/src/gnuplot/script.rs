//! Figures laid out in pixels and written as gnuplot commands.
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

use super::figure::{
    Content, Curve, Dot, Figure, Group, Panel, Quantity, Samples, Series, Source, XAxis,
};
use super::text::{
    comment, number, one_line, quoted, rate_unit, shell_word, short_number, shortened, time_unit,
    tsv_field, wrapped,
};
use keyrack_record::Run;

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
const BAR_PX: f64 = 66.0;
const GROUP_PX_MIN: f64 = 150.0;
/// Half the width of the ends of an error bar on a bar.
const CAP_PX: f64 = 5.0;
/// Letters of a workload's name below its bars, and of an engine's in the legend.
const NAME_CHARS_MAX: usize = 40;
/// Lines of the small print that the command may fill.
const COMMAND_LINES_MAX: usize = 3;
/// Above this ratio of largest to smallest a linear axis hides the smallest.
const LINEAR_RATIO_MAX: f64 = 100.0;
/// Marks of an axis with given values.
const MARKS_MAX: usize = 10;
/// Samples of all repeats that are averaged together, in seconds.
const SAMPLE_BIN_S: f64 = 0.1;
/// More than there are metrics in a figure.
const KEY_STEP: usize = 100;

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

/// What stands in small print on every figure.
#[derive(Debug)]
pub(super) struct Heading {
    machine: String,
    command: String,
    warnings: String,
}

impl Heading {
    pub(super) fn of(run: &Run) -> Heading {
        let header = &run.header;
        let system = run.probes.iter().find(|probe| probe.name == "system");
        let field = |name: &str| {
            let mut fields = system.into_iter().flat_map(|probe| &probe.fields);
            let value = fields.find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            value.filter(|value| *value != "n/a")
        };
        let mut machine: Vec<String> = Vec::new();
        machine.extend(field("cpu").map(str::to_owned));
        machine.extend(field("cpu_cores").map(|cores| format!("{cores} CPUs")));
        machine.push(format!("keyrack {}", header.version));
        machine.push(header.started.clone());
        let words: Vec<String> = header.argv.iter().map(|word| shell_word(word)).collect();
        let mut warnings = header.warnings.clone();
        let ended = run.interrupted.iter().map(|reason| format!("partial results: {reason}"));
        warnings.extend(ended);
        Heading {
            machine: machine.join(", "),
            command: words.join(" "),
            warnings: warnings.join("; "),
        }
    }

    /// The lines under the title, at most `chars` letters each.
    fn small_print(&self, figure: &Figure, chars: usize) -> Vec<String> {
        let mut lines = wrapped(&self.machine, chars, 2);
        lines.extend(wrapped(&self.command, chars, COMMAND_LINES_MAX));
        if !self.warnings.is_empty() {
            lines.extend(wrapped(&format!("! {}", self.warnings), chars, 2));
        }
        if figure.content.has_ranges() {
            lines.push("error bars: smallest and largest of the repeats".to_owned());
        }
        lines.extend(wrapped(&figure.note, chars, 1));
        lines
    }
}

/// The whole script. O(values).
pub(super) fn render(heading: &Heading, series: &[Series], figures: &[Figure]) -> String {
    let mut out = preamble(series.len());
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

fn preamble(series_count: usize) -> String {
    let mut text = String::from(
        "# Figures of a keyrack run, for gnuplot 5.4 or later. In the directory of this file:\n\
         #   gnuplot plot.gp                       draws figures/*.png\n\
         #   gnuplot -e \"format='svg'\" plot.gp     draws figures/*.svg; pdf is known too\n\
         # Rates are per second, times nanoseconds.\n\
         if (!exists(\"format\")) format = 'png'\n\
         if (format ne 'png' && format ne 'svg' && format ne 'pdf') exit error 'format is png, svg or pdf'\n\
         set encoding utf8\n\
         system \"mkdir -p figures\"\n\
         # Sizes are pixels at 150 to the inch. A terminal that cannot be had is left to gnuplot to name.\n\
         png = strstrt(GPVAL_TERMINALS, ' pngcairo ') ? 'pngcairo' : 'png'\n\
         terminal(w, h) = format eq 'svg' ? sprintf(\"set terminal svg noenhanced size %d,%d font 'sans,12' fontscale 1.33 linewidth 1.5 background 'white'\", w, h) : \\\n\
         \x20 format eq 'pdf' ? sprintf(\"set terminal pdfcairo noenhanced size %.3fin,%.3fin font 'sans,12' fontscale 0.48 linewidth 1.5\", w / 150.0, h / 150.0) : \\\n\
         \x20 sprintf(\"set terminal %s noenhanced size %d,%d font 'sans,12' linewidth 1.5\", png, w, h)\n\
         timeline_lines = int(system(\"test -f timeline.tsv && wc -l < timeline.tsv || echo 0\"))\n\
         is_cell(w, e, t, s) = strcol(1) eq w && strcol(2) eq e && column(3) == t && column(5) == s\n",
    );
    // A curve without samples lies at -1, where no axis reaches: gnuplot warns of empty ones.
    text.push_str(&format!(
        "array seen[{}]\n\
         bin(s) = {SAMPLE_BIN_S} * floor(s / {SAMPLE_BIN_S} + 0.5)\n\
         sample_x(key) = seen[key + 1] ? (column(1) == key ? bin(column(2)) : NaN) : -1\n\
         sample_y(key, divisor) = seen[key + 1] ? column(3) / divisor : 0\n",
        series_count.max(1) * KEY_STEP
    ));
    // More engines than colours: the next round has other lines.
    for index in 0..series_count.max(1) {
        let (colour, point) = LINE_TYPES[index % LINE_TYPES.len()];
        let dash = index / LINE_TYPES.len() % 5 + 1;
        text.push_str(&format!(
            "set linetype {} linecolor rgb '{colour}' linewidth 1.6 pointtype {point} pointsize 1.1 dashtype {dash}\n",
            index + 1
        ));
    }
    text
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
                        text.push_str(&format!("{} {y:.1} {low:.1} {high:.1}\n", number(*x)));
                    }
                    text.push_str("\n\n");
                }
            }
        }
    }
    text.push_str("EOD\n");
    text
}

fn bar_row(group: &Group, series: usize, number: u32) -> String {
    match &group.bars[series] {
        Some(bar) => {
            let Dot { y, low, high, .. } = bar.dot;
            let mark = if bar.flagged { "!" } else { "" };
            format!("{number} {y:.1} {low:.1} {high:.1} {}{mark}\n", short_number(y))
        }
        None => format!("{number} 0 0 0 n/a\n"),
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
            "set lmargin at screen {:.4}\nset rmargin at screen {:.4}\nset tmargin at screen {:.4}\nset bmargin at screen {:.4}\n",
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
    let small = heading.small_print(figure, chars);
    let top = TITLE_LINE_PX + small.len() as f64 * SMALL_LINE_PX + 10.0;
    let legend = Legend::of(series, figure, width);
    let height = top + rows as f64 * cell.1 + legend.height_px() + 12.0;
    let canvas = Canvas { width, height };

    let mut text = format!(
        "reset\neval terminal({width}, {height})\nset output 'figures/{}.' . format\nset multiplot\n\
         set tics nomirror out font ',12'\nset border 3 linewidth 0.8\nset grid ytics linecolor rgb '#dddddd' linetype 1 linewidth 0.6 dashtype 1\n\
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
            text.push_str(&bars(&data_name(figure), groups, canvas));
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

/// Width of a group: room for its bars and for its name below.
fn group_px(groups: &[Group]) -> f64 {
    let bars = groups.first().map_or(0, |group| group.bars.len()) as f64;
    let texts = groups.iter().flat_map(|group| [&group.label, &group.detail]);
    let chars = texts.map(|text| text.chars().count().min(NAME_CHARS_MAX)).max().unwrap_or(0);
    ((bars + 1.0) * BAR_PX).max(chars as f64 * 10.0 + 20.0).max(GROUP_PX_MIN)
}

fn bars(data: &str, groups: &[Group], canvas: Canvas) -> String {
    let cap = CAP_PX / canvas.width;
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
        "unset title\nunset xlabel\nunset logscale\nset xrange [-0.5:{}.5]\nset xtics scale 0 ({})\nset yrange [0:{}]\nset ytics auto\nset ylabel '{word}units/s' font ',13'\nset boxwidth {:.4} absolute\n",
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
                "{from}:($3/{divisor}):(0):(($4-$3)/{divisor}) with vectors heads size screen {cap:.4},90 linecolor rgb '#333333' linewidth 0.9 notitle"
            ));
        }
        plots.push(format!("{from}:($4/{divisor}):5 with labels offset 0,0.7 font ',10' notitle"));
    }
    text.push_str(&plot(&plots));
    text
}

/// How the bars of a series are filled: the second round of colours is hatched.
fn fill_style(series: usize) -> String {
    match series / LINE_TYPES.len() {
        0 => "fillstyle solid 0.9 noborder".to_owned(),
        round => format!("fillstyle pattern {} border", round + 3),
    }
}

/// One command over several lines.
fn plot(plots: &[String]) -> String {
    format!("plot {}\n", plots.join(", \\\n  "))
}

/// Where an axis from zero to `largest` ends: with room above for a number.
fn range_end(largest: f64) -> String {
    if largest > 0.0 { format!("{:.6}", largest * 1.1) } else { "1".to_owned() }
}

fn panel(data: &str, panel: &Panel, dataset: &mut usize, metrics: &[&str]) -> String {
    let mut text = format!(
        "set title {} font ',14'\nunset logscale\n",
        quoted(&shortened(&panel.title, NAME_CHARS_MAX + 20))
    );
    text.push_str(&x_axis(&panel.x));
    let divisor = y_axis(panel, &mut text);
    let mut plots = Vec::new();
    let mut sampled = Vec::new();
    for (index, Curve { series, source }) in panel.curves.iter().enumerate() {
        let line_type = series + 1;
        match source {
            Source::Dots(dots) => {
                let from = format!("{data} index {dataset} using 1:($2/{divisor})");
                if dots.iter().any(Dot::has_range) {
                    plots.push(format!(
                        "{from}:($3/{divisor}):($4/{divisor}) with yerrorbars linetype {line_type} linewidth 0.9 dashtype 1 pointsize 0 notitle"
                    ));
                }
                plots.push(format!("{from} with linespoints linetype {line_type} notitle"));
                *dataset += 1;
            }
            Source::Samples(samples) => {
                let metric = metrics.iter().position(|metric| *metric == samples.metric);
                let key = index * KEY_STEP + metric.unwrap_or(0);
                let divisor = samples.divisor * divisor;
                sampled.push(format!("seen[{}]", key + 1));
                plots.push(format!(
                    "$samples using (sample_x({key})):(sample_y({key}, {divisor})) smooth unique with lines linetype {line_type} notitle"
                ));
            }
        }
    }
    if !sampled.is_empty() {
        // Gives a panel without any samples its axes.
        plots.push(format!(
            "'+' using (0):({} ? 0 : 1) every ::::0 with dots notitle",
            sampled.join(" || ")
        ));
    }
    if sampled.is_empty() {
        text.push_str(&plot(&plots));
    } else {
        text.push_str(&format!(
            "if (!({})) {{ set label 1 'no samples' at graph 0.5,0.5 center textcolor rgb '#777777' }}\n",
            sampled.join(" || ")
        ));
        text.push_str(&plot(&plots));
        text.push_str("unset label 1\n");
    }
    text
}

/// Reads `timeline.tsv` once into `$samples`: key, time, value. The key is the index of the curve
/// times [`KEY_STEP`] plus that of the metric; other rows are left out, and `seen` tells which keys
/// there were. The line of column names becomes a row that no curve takes, so that the block exists
/// whatever the file holds.
fn sample_table(panel: &Panel, metrics: &[&str]) -> String {
    let cells: Vec<String> = samples(panel)
        .enumerate()
        .map(|(index, samples)| {
            let Samples { workload, engine_version, threads, sweep_value, .. } = samples;
            let workload = quoted(&tsv_field(workload));
            let engine = quoted(&tsv_field(engine_version));
            format!("is_cell({workload}, {engine}, {threads}, {sweep_value}) ? {index} : ")
        })
        .collect();
    let metrics: Vec<String> = metrics
        .iter()
        .enumerate()
        .map(|(index, metric)| format!("strcol(8) eq '{metric}' ? {index} : "))
        .collect();
    let phase = samples(panel).next().map_or("run", |samples| samples.phase);
    format!(
        "do for [i = 1:|seen|] {{ seen[i] = 0 }}\nset datafile separator tab\nset table $samples\n\
         plot 'timeline.tsv' using ($0 == 0 ? -1 : strcol(6) ne '{phase}' ? NaN : (c = ({}-1), m = ({}-1), c < 0 || m < 0 ? NaN : (k = {KEY_STEP} * c + m, seen[k + 1] = 1, k))):($0 == 0 ? 0 : column(7)):($0 == 0 ? 0 : column(9)) with table\n\
         unset table\nset datafile separator whitespace\n",
        cells.concat(),
        metrics.concat(),
    )
}

/// What the sampled curves of a panel read.
fn samples(panel: &Panel) -> impl Iterator<Item = &Samples> {
    panel.curves.iter().filter_map(|curve| match &curve.source {
        Source::Samples(samples) => Some(samples),
        Source::Dots(_) => None,
    })
}

fn x_axis(axis: &XAxis) -> String {
    match axis {
        XAxis::FromZero { label } => format!(
            "set xlabel {} font ',13'\nset xrange [0:0.1<*]\nset xtics scale 0.6 auto\n",
            quoted(label)
        ),
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
    let (divisor, label) = match &panel.y {
        Quantity::PerSecond { of } => {
            let (divisor, word) = rate_unit(largest);
            (divisor, format!("{word}{of}/s"))
        }
        Quantity::SampledPerSecond { of, typical } => {
            let (divisor, word) = rate_unit(*typical);
            (divisor, format!("{word}{of}/s"))
        }
        Quantity::Count { of, typical } => {
            let (divisor, word) = rate_unit(*typical);
            (divisor, format!("{word}{of}"))
        }
        Quantity::Time => {
            let (divisor, unit) = time_unit(largest);
            (divisor, unit.to_owned())
        }
        Quantity::Plain => (1.0, String::new()),
    };
    text.push_str(&format!("set ylabel '{label}' font ',13'\nset ytics auto\n"));
    text.push_str("set format y '%g'\n");
    if dots.is_empty() {
        text.push_str("set yrange [0:*]\n");
    } else if smallest > 0.0 && largest / smallest > LINEAR_RATIO_MAX {
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

/// The names at the foot of a figure, in columns.
struct Legend {
    /// Line type, label and whether it is a bar.
    entries: Vec<(usize, String)>,
    columns: usize,
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
        "unset title\nunset xlabel\nunset ylabel\nunset tics\nunset border\nunset grid\nunset logscale\nset xrange [0:1]\nset yrange [0:1]\n",
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
        "set key at screen 0.5,{:.4} center bottom horizontal maxcols {} Left reverse samplen 2.5 font ',12'\n",
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
