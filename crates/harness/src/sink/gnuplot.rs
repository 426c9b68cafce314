//! The gnuplot sink: candlesticks over the threads of each trial.
//!
//! ```text
//!        |           max          One candlestick per trial and statistic; each statistic that
//!      +---+         q75          any row reports has its own colour and its own stretch of the
//!      |===|         median       x axis:
//!      +---+         q25            ops_per_sec, puts_per_sec, gets_per_sec, scans_per_sec
//!        |           min
//! ```
//!
//! The text is a whole gnuplot script with its data inline, to be piped into gnuplot, which writes
//! a picture. For each statistic come two blocks that end in `e`: rows `x min q25 q75 max
//! normaliser`, and rows `x median normaliser`. The script divides, so the data are the measured
//! values. Quantiles are interpolated linearly between the sorted values of the threads: with n
//! values the quantile q lies at the place q (n - 1), counted from 0.
//!
//! **Order and places.** Tests in the order of their names, in a test the tables, of a table the
//! present run before older experiments by number, then the trials. x begins at 1 and grows by
//! 0.015 to the next trial, 0.04 to the next table or experiment, 0.08 to the next test, 0.2 to the
//! next statistic. One label per table and experiment stands at the middle of its trials.
//!
//! **Normaliser.** [`Normalize::PerTest`]: the median of the test's first trial for the same
//! statistic. [`Normalize::FirstTest`]: the first such median of all, for every statistic.
//! [`Normalize::None`]: 1. So is it where that median is 0, which nothing can be divided by.

use super::Sink;
use super::experiment::Experiment;
use super::value::{Value, real};
use keyrack_record::Run;
use std::cmp::Ordering;
use std::io::{self, Write};

/// Fields of rows that are drawn, in order.
const STATISTICS: [&str; 4] = ["ops_per_sec", "puts_per_sec", "gets_per_sec", "scans_per_sec"];
const TO_TRIAL: f64 = 0.015;
const TO_TABLE: f64 = 0.04;
const TO_TEST: f64 = 0.08;
const TO_STATISTIC: f64 = 0.2;

/// What values are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalize {
    /// Nothing.
    None,
    /// The median of the first trial of the same test and statistic.
    #[default]
    PerTest,
    /// The first median of the plot.
    FirstTest,
}

/// A plot.
#[derive(Clone, Copy, Debug)]
pub struct Candlesticks<'a> {
    /// The machine's name, for the title.
    pub machine: Option<&'a str>,
    /// Threads, for the title.
    pub cores: u32,
    /// What values are divided by.
    pub normalize: Normalize,
    /// The range of the y axis as gnuplot reads it, without its brackets; automatic without.
    pub yrange: Option<&'a str>,
    /// Key and rows of each trial. The key is `test/table/trial`, with the experiment's name and a
    /// slash before it where the trial comes from a notebook: `x0/rw1/mb/0`.
    pub trials: &'a [(String, Vec<Value>)],
}

impl Candlesticks<'_> {
    /// The script; `None` when there is nothing to draw. O(t log t) in the trials, besides sorting
    /// the rows of each.
    #[must_use]
    pub fn script(&self) -> Option<String> {
        let mut series: Vec<Series<'_>> = Vec::new();
        for (key, rows) in self.trials {
            let key = Key::of(key);
            let trial = (key.trial, rows.as_slice());
            match series.iter_mut().find(|known| known.key.label == key.label) {
                Some(known) => known.trials.push(trial),
                None => series.push(Series { key, trials: vec![trial] }),
            }
        }
        series.sort_by(|a, b| a.key.order(&b.key));
        for one in &mut series {
            one.trials.sort_by_key(|(trial, _)| *trial);
        }
        let mut canvas = Canvas::new(self.normalize);
        for statistic in STATISTICS {
            canvas.statistic(statistic, &series);
        }
        (!canvas.drawn.is_empty()).then(|| self.text(&canvas))
    }

    fn text(&self, canvas: &Canvas) -> String {
        let machine = quoted(self.machine.unwrap_or("unknown"));
        let mut text = format!("set title \"{machine} ({} cores)\"\n", self.cores);
        text.push_str(&format!("set terminal png{}\n", size(&canvas.labels)));
        // Names have underscores, which gnuplot would take for the mark of a subscript.
        text.push_str("set termoption noenhanced\n");
        text.push_str(&format!(
            "set xrange [{}:{}]\n",
            place(1.0 - TO_TABLE),
            place(canvas.x + TO_TABLE)
        ));
        if let Some(range) = self.yrange {
            text.push_str(&format!("set yrange [{range}]\n"));
        }
        let labels: Vec<String> = canvas
            .labels
            .iter()
            .map(|(name, x)| format!("\"{}\" {}", quoted(name), number(*x)))
            .collect();
        let labels = labels.join(", ");
        text.push_str(&format!("set xtics rotate by 45 right ({labels}) font \"Verdana,9\"\n"));
        text.push_str("set key top left Left reverse\n");
        let ylabel = match self.normalize {
            Normalize::None => "count".to_owned(),
            Normalize::PerTest => "count, normalized per test".to_owned(),
            Normalize::FirstTest => {
                format!("normalized count (1={:.6})", canvas.normaliser.unwrap_or(1.0))
            }
        };
        text.push_str(&format!("set ylabel \"{ylabel}\"\n"));
        let plots: Vec<String> = canvas
            .drawn
            .iter()
            .enumerate()
            .map(|(index, drawn)| {
                let (colour, title) = (index + 1, drawn.statistic);
                format!(
                    " '-' using 1:($3/$6):($2/$6):($5/$6):($4/$6) with candlesticks lt {colour} \
                     title '{title}', \\\n \
                     '-' using 1:($2/$3):($2/$3):($2/$3):($2/$3) with candlesticks lt {colour} \
                     notitle"
                )
            })
            .collect();
        text.push_str(&format!("plot {}\n", plots.join(", \\\n")));
        for drawn in &canvas.drawn {
            text.push_str(&format!("{}e\n{}e\n", drawn.candlesticks, drawn.medians));
        }
        text
    }
}

/// The parts of a trial's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key<'a> {
    /// The experiment's number; `None` for the present run.
    experiment: Option<u64>,
    test: &'a str,
    table: &'a str,
    trial: u64,
    /// All but the trial.
    label: &'a str,
}

impl<'a> Key<'a> {
    fn of(key: &'a str) -> Key<'a> {
        let (label, trial) = match key.rsplit_once('/') {
            Some((label, trial)) if let Ok(trial) = trial.parse() => (label, trial),
            _ => (key, 0),
        };
        let (experiment, run) = match label.split_once('/') {
            Some((name, run)) if let Some(number) = experiment_number(name) => (Some(number), run),
            _ => (None, label),
        };
        // Tests may have slashes in their names, tables have none.
        let (test, table) = run.rsplit_once('/').unwrap_or((run, ""));
        Key { experiment, test, table, trial, label }
    }

    fn order(&self, other: &Key<'_>) -> Ordering {
        let rank = |key: &Key<'a>| (key.test, key.table, key.experiment);
        rank(self).cmp(&(other.test, other.table, other.experiment))
    }
}

/// The number of an experiment's name such as `x12`.
fn experiment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('x')?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The trials under one label.
struct Series<'a> {
    key: Key<'a>,
    trials: Vec<(u64, &'a [Value])>,
}

/// What has been drawn, and where the next candlestick goes.
struct Canvas {
    /// Of the last candlestick.
    x: f64,
    /// To the next one.
    step: f64,
    normalize: Normalize,
    normaliser: Option<f64>,
    labels: Vec<(String, f64)>,
    drawn: Vec<Drawn>,
}

/// One statistic.
struct Drawn {
    statistic: &'static str,
    candlesticks: String,
    medians: String,
}

impl Canvas {
    fn new(normalize: Normalize) -> Canvas {
        Canvas {
            x: 1.0 - TO_TRIAL,
            step: TO_TRIAL,
            normalize,
            normaliser: None,
            labels: Vec::new(),
            drawn: Vec::new(),
        }
    }

    fn statistic(&mut self, statistic: &'static str, series: &[Series<'_>]) {
        let mut drawn = Drawn { statistic, candlesticks: String::new(), medians: String::new() };
        let mut test = None;
        for one in series {
            if test != Some(one.key.test) {
                test = Some(one.key.test);
                if self.normalize == Normalize::PerTest {
                    self.normaliser = None;
                }
                if self.step == TO_TABLE {
                    self.step = TO_TEST;
                }
            }
            self.series(one, &mut drawn);
        }
        if !drawn.medians.is_empty() {
            self.drawn.push(drawn);
            self.step = TO_STATISTIC;
        }
    }

    fn series(&mut self, series: &Series<'_>, drawn: &mut Drawn) {
        let first = self.x + self.step;
        let before = drawn.medians.len();
        for (_, rows) in &series.trials {
            let mut values: Vec<f64> = rows
                .iter()
                .filter_map(|row| row.get(drawn.statistic).and_then(Value::as_f64))
                .collect();
            if values.is_empty() {
                continue;
            }
            values.sort_by(f64::total_cmp);
            self.x += self.step;
            self.step = TO_TRIAL;
            let median = quantile(&values, 0.5);
            let normaliser = *self.normaliser.get_or_insert(match self.normalize {
                Normalize::None => 1.0,
                _ if median == 0.0 => 1.0,
                _ => median,
            });
            let x = self.x;
            let row = |places: &[f64]| {
                let mut numbers = vec![number(x)];
                numbers.extend(places.iter().chain([&normaliser]).map(|n| number(*n)));
                numbers.join(" ") + "\n"
            };
            let corners = [0.0, 0.25, 0.75, 1.0].map(|place| quantile(&values, place));
            drawn.candlesticks.push_str(&row(&corners));
            drawn.medians.push_str(&row(&[median]));
        }
        if drawn.medians.len() > before {
            self.labels.push((series.key.label.to_owned(), (first + self.x) / 2.0));
            self.step = TO_TABLE;
        }
    }
}

/// The quantile at `place` (0 to 1) of sorted values, interpolated linearly. There is at least one.
fn quantile(sorted: &[f64], place: f64) -> f64 {
    let place = place * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    let share = place.fract();
    if share == 0.0 { below } else { below * (1.0 - share) + above * share }
}

/// A number with 12 significant digits.
fn number(value: f64) -> String {
    match Value::rounded(value) {
        Value::Real(rounded) => real(rounded),
        _ => String::new(),
    }
}

/// A place on the x axis with 6 significant digits, enough for the range.
fn place(x: f64) -> String {
    format!("{x:.5e}").parse().map_or_else(|_| number(x), real)
}

/// The size of a picture that has room for its labels; nothing where gnuplot's own 640 by 480 has.
fn size(labels: &[(String, f64)]) -> String {
    const LABELS: usize = 12;
    const CHARS: usize = 16;
    const SIDE_MAX: usize = 4096;
    let longest = labels.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    if labels.len() <= LABELS && longest <= CHARS {
        return String::new();
    }
    // Labels lie askew: a long one reaches to the left as well as down.
    let long = longest.saturating_sub(CHARS);
    let width = 640 + 40 * labels.len().saturating_sub(LABELS) + 24 * long;
    let height = 480 + 12 * long;
    format!(" size {},{}", width.min(SIDE_MAX), height.min(SIDE_MAX))
}

/// `text` within double quotes of gnuplot, which would run what stands between backticks.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '`' => out.push('\''),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// See the module.
pub(super) struct Gnuplot {
    pub(super) out: Box<dyn Write>,
}

impl Sink for Gnuplot {
    fn end(&mut self, run: &Run) -> io::Result<()> {
        let experiment = Experiment::of(run);
        let trials: Vec<(String, Vec<Value>)> =
            experiment.trials.into_iter().map(|trial| (trial.key(), trial.rows)).collect();
        let plot = Candlesticks {
            machine: experiment.machine.as_deref(),
            cores: experiment.cores,
            normalize: Normalize::default(),
            yrange: None,
            trials: &trials,
        };
        // A run without a figure has an empty script.
        self.out.write_all(plot.script().unwrap_or_default().as_bytes())?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_one_two_three_and_five_threads() {
        let places = [0.0, 0.25, 0.5, 0.75, 1.0];
        let quantiles = |sorted: &[f64]| places.map(|place| quantile(sorted, place));
        assert_eq!(quantiles(&[7.0]), [7.0; 5]);
        assert_eq!(quantiles(&[10.0, 20.0]), [10.0, 12.5, 15.0, 17.5, 20.0]);
        assert_eq!(quantiles(&[10.0, 20.0, 40.0]), [10.0, 15.0, 20.0, 30.0, 40.0]);
        assert_eq!(quantiles(&[1.0, 2.0, 4.0, 8.0, 16.0]), [1.0, 2.0, 4.0, 8.0, 16.0]);
    }

    #[test]
    fn keys_come_apart() {
        let key = Key::of("x12/ycsb/a t2/mb/3");
        assert_eq!((key.experiment, key.test, key.table), (Some(12), "ycsb/a t2", "mb"));
        assert_eq!((key.trial, key.label), (3, "x12/ycsb/a t2/mb"));
        let key = Key::of("xyz/mb/0");
        assert_eq!((key.experiment, key.test, key.table), (None, "xyz", "mb"));
        for odd in ["", "/", "x1", "x/0", "x1/0", "a/b/c"] {
            let _ = Key::of(odd);
        }
    }
}
