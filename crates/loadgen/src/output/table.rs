//! The table of mutilate, byte for byte where its readers look, and what stands below it.
//!
//! ```text
//! #type       avg     min     1st     5th    10th    90th    95th    99th
//! read       52.4    41.0    43.1    45.2    48.1    55.8    56.6    71.5
//! ```
//!
//! Latencies are microseconds. `op_q` is the number of requests under way on a connection.

use std::fmt::Write;

use keyrack_measure::Histogram;

use crate::account::{Account, Report};
use crate::plan::{Headline, Settings};
use crate::target::Class;

const NS_PER_US: f64 = 1e3;
const BYTES_PER_MB: f64 = 1024.0 * 1024.0;

/// Which columns a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// Those of mutilate's README.
    Readme,
    /// Those that mutilate prints in fact.
    Std,
    /// Those of the fork for caches.
    Fork,
    /// Ours: as the fork, with the maximum.
    Full,
}

/// A column.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Avg,
    Std,
    Min,
    Percentile(f64),
    Max,
}

impl Columns {
    /// Reads `readme`, `std`, `fork` or `full`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Columns> {
        Some(match text {
            "readme" => Columns::Readme,
            "std" => Columns::Std,
            "fork" => Columns::Fork,
            "full" => Columns::Full,
            _ => return None,
        })
    }

    fn cells(self) -> &'static [(&'static str, Cell)] {
        use Cell::{Avg, Max, Min, Percentile, Std};
        match self {
            Columns::Readme => &[
                ("avg", Avg),
                ("min", Min),
                ("1st", Percentile(1.0)),
                ("5th", Percentile(5.0)),
                ("10th", Percentile(10.0)),
                ("90th", Percentile(90.0)),
                ("95th", Percentile(95.0)),
                ("99th", Percentile(99.0)),
            ],
            Columns::Std => &[
                ("avg", Avg),
                ("std", Std),
                ("min", Min),
                ("5th", Percentile(5.0)),
                ("10th", Percentile(10.0)),
                ("90th", Percentile(90.0)),
                ("95th", Percentile(95.0)),
                ("99th", Percentile(99.0)),
            ],
            Columns::Fork => &[
                ("avg", Avg),
                ("std", Std),
                ("min", Min),
                ("5th", Percentile(5.0)),
                ("10th", Percentile(10.0)),
                ("50th", Percentile(50.0)),
                ("90th", Percentile(90.0)),
                ("95th", Percentile(95.0)),
                ("99th", Percentile(99.0)),
                ("99.9th", Percentile(99.9)),
            ],
            Columns::Full => &[
                ("avg", Avg),
                ("std", Std),
                ("min", Min),
                ("5th", Percentile(5.0)),
                ("10th", Percentile(10.0)),
                ("50th", Percentile(50.0)),
                ("90th", Percentile(90.0)),
                ("95th", Percentile(95.0)),
                ("99th", Percentile(99.0)),
                ("99.9th", Percentile(99.9)),
                ("max", Max),
            ],
        }
    }

    fn header(self) -> String {
        let mut line = format!("{:<7}", "#type");
        for (name, _) in self.cells() {
            // Writing to a String cannot fail, here and below.
            let _ = write!(line, " {name:>7}");
        }
        line
    }
}

/// A row: the tag, and the columns of a histogram in units of `unit`.
#[must_use]
pub fn row(tag: &str, values: &Histogram, unit: f64, columns: Columns) -> String {
    let mut line = format!("{tag:<7}");
    for (_, cell) in columns.cells() {
        let value = match cell {
            Cell::Avg => values.mean(),
            Cell::Std => deviation(values),
            Cell::Min => values.min().map(|min| min as f64),
            Cell::Percentile(p) => values.percentile(*p).map(|value| value as f64),
            Cell::Max => values.max().map(|max| max as f64),
        };
        let _ = write!(line, " {:>7.1}", value.unwrap_or(0.0) / unit);
    }
    line
}

/// The standard deviation, from the middles of the buckets: within 1/128.
pub(super) fn deviation(values: &Histogram) -> Option<f64> {
    let (mean, count) = (values.mean()?, values.count() as f64);
    let squares: f64 = values
        .buckets()
        .map(|(low, high, n)| {
            let middle = low as f64 + (high - low) as f64 / 2.0;
            n as f64 * (middle - mean) * (middle - mean)
        })
        .sum();
    Some((squares / count).sqrt())
}

/// The latencies that are the headline: from the intended start, or from the send.
pub(super) fn headline<'a>(
    account: &'a Account,
    class: Class,
    settings: &Settings,
) -> &'a Histogram {
    let tally = account.tally(class);
    match settings.headline {
        // In a closed loop there is one latency.
        Headline::Sent if settings.rate > 0.0 => &tally.service,
        _ => &tally.response,
    }
}

/// The whole text of a measurement.
#[must_use]
pub fn table(report: &Report, settings: &Settings, columns: Columns) -> String {
    let (account, counts) = (&report.account, &report.account.counts);
    let mut out = columns.header();
    let is_ours = columns == Columns::Full;
    // The original's agents measured no latency: its rows are the master's, if it sent anything.
    let account = match &report.master {
        Some(master) if !is_ours && master.counts.ops > 0 => master,
        _ => account,
    };
    for class in Class::ALL {
        let values = headline(account, class, settings);
        let is_always = matches!(class, Class::Read | Class::Update);
        if is_always || !values.is_empty() {
            let _ = write!(out, "\n{}", row(class.name(), values, NS_PER_US, columns));
        }
    }
    if let Some(master) = report.master.as_deref().filter(|_| is_ours) {
        let values = headline(master, Class::Read, settings);
        let _ = write!(out, "\n{}", row("master", values, NS_PER_US, columns));
    }
    if is_ours && report.offered_rate.is_some() {
        let all = account.all();
        let _ = write!(out, "\n{}", row("service", &all.service, NS_PER_US, columns));
        let _ = write!(out, "\n{}", row("delay", &account.delay, NS_PER_US, columns));
    }
    let _ = write!(out, "\n{}\n", row("op_q", &account.depth, 1.0, columns));
    let _ = writeln!(
        out,
        "\nTotal QPS = {:.1} ({} / {:.1}s)",
        report.rate(),
        counts.ops_in_time,
        report.window_s
    );
    if is_ours {
        match report.offered_rate {
            Some(rate) => {
                let _ = writeln!(out, "Offered QPS = {rate:.1}, latency from the intended start");
            }
            None => out.push_str("closed loop, no arrival process\n"),
        }
    }
    let percent = 100.0 * report.miss_ratio();
    let _ = writeln!(out, "\nMisses = {} ({percent:.1}%)", counts.misses);
    if columns != Columns::Readme || settings.skip {
        let share = ratio(counts.skipped, counts.skipped + counts.offered) * 100.0;
        let _ = writeln!(out, "Skipped TXs = {} ({share:.1}%)", counts.skipped);
    }
    if is_ours {
        out.push_str(&remarks(report));
    }
    let rate = |bytes: u64| {
        if report.window_s > 0.0 { bytes as f64 / BYTES_PER_MB / report.window_s } else { 0.0 }
    };
    for (name, bytes) in [("RX", counts.received_bytes), ("TX", counts.sent_bytes)] {
        let gap = if name == "RX" { "\n" } else { "" };
        let _ = writeln!(out, "{gap}{name} {bytes:>10} bytes : {:>6.1} MB/s", rate(bytes));
    }
    out
}

/// What else there is to know: only where there is any of it.
fn remarks(report: &Report) -> String {
    let counts = &report.account.counts;
    let mut out = String::new();
    let line = |out: &mut String, name: &str, count: u64, words: &str| {
        if count > 0 {
            let _ = writeln!(out, "{name} = {count}{words}");
        }
    };
    line(&mut out, "Misses (first tier)", counts.tier_misses, "");
    line(&mut out, "Copied to the other tier", counts.copies, "");
    line(&mut out, "Not stored", counts.not_stored, "");
    line(&mut out, "Filled", counts.fills, "");
    line(&mut out, "Removed half-way", counts.purged, "");
    line(&mut out, "Verified", counts.verified, "");
    line(&mut out, "Queue at the end", counts.backlog, " requests that were due had not been sent");
    line(&mut out, "Unanswered", counts.unanswered, ", in the latencies with the time they waited");
    line(&mut out, "Unsent", counts.unsent, ", in the latencies with the time they waited");
    line(&mut out, "Broken connections", counts.broken, "");
    line(&mut out, "Made again", counts.reconnects, "");
    line(&mut out, "Moved", counts.moved, " times, and followed");
    line(&mut out, "Asked", counts.asked, " times, and followed");
    for agent in &report.agents {
        let offered = agent.offered_per_s.map_or_else(String::new, |rate| format!(" of {rate:.1}"));
        let _ = writeln!(out, "Agent {} = {:.1} QPS{offered}", agent.name, agent.achieved_per_s);
    }
    for (class, count, words) in report.account.errors.iter() {
        let said = if words.is_empty() { String::new() } else { format!(" ({words})") };
        let _ = writeln!(out, "Errors: {} = {count}{said}", class.name());
    }
    out
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// The head of a scan.
#[must_use]
pub fn scan_header(columns: Columns) -> String {
    format!("{} {:>8} {:>8}", columns.header(), "QPS", "target")
}

/// One rate of a scan.
#[must_use]
pub fn scan_row(report: &Report, settings: &Settings, target: f64, columns: Columns) -> String {
    let values = headline(&report.account, Class::Read, settings);
    let row = row("read", values, NS_PER_US, columns);
    format!("{row} {:>8.1} {:>8.0}", report.rate(), target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report { window_s: 5.0, ..Report::default() };
        let account = &mut report.account;
        for us in 41..=60 {
            account.tally_mut(Class::Read).response.record(us * 1000);
        }
        account.depth.record_n(1, 20);
        account.counts.ops = 92_083;
        account.counts.ops_in_time = 92_083;
        account.counts.offered = 92_083;
        account.counts.gets = 92_083;
        account.counts.received_bytes = 22_744_501;
        account.counts.sent_bytes = 3_315_024;
        report
    }

    #[test]
    fn the_readme_has_this_shape() {
        let text = table(&report(), &Settings::default(), Columns::Readme);
        let expected = "\
#type       avg     min     1st     5th    10th    90th    95th    99th
read       50.5    41.0    41.0    41.0    42.0    58.0    59.0    60.0
update      0.0     0.0     0.0     0.0     0.0     0.0     0.0     0.0
op_q        1.0     1.0     1.0     1.0     1.0     1.0     1.0     1.0

Total QPS = 18416.6 (92083 / 5.0s)

Misses = 0 (0.0%)

RX   22744501 bytes :    4.3 MB/s
TX    3315024 bytes :    0.6 MB/s
";
        // Percentiles are within 1/128 of the truth: of that row the length alone is compared.
        let blank = |text: &str| {
            text.lines()
                .map(|line| {
                    if line.starts_with("read") { line.len().to_string() } else { line.to_owned() }
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(blank(&text), blank(expected));
    }

    #[test]
    fn the_other_shapes_have_their_columns() {
        let header = |columns| scan_header(columns);
        assert_eq!(
            header(Columns::Std),
            "#type       avg     std     min     5th    10th    90th    95th    99th\
             \x20     QPS   target"
        );
        assert_eq!(
            header(Columns::Fork),
            "#type       avg     std     min     5th    10th    50th    90th    95th    99th\
             \x20 99.9th      QPS   target"
        );
        let row = scan_row(&report(), &Settings::default(), 1000.0, Columns::Std);
        assert!(row.ends_with("  18416.6     1000"), "{row}");
    }

    #[test]
    fn nothing_measured_is_no_reason_for_nan() {
        for columns in [Columns::Readme, Columns::Std, Columns::Fork, Columns::Full] {
            let settings = Settings { rate: 1.0, ..Settings::default() };
            let empty = Report { offered_rate: Some(1.0), ..Report::default() };
            let text = table(&empty, &settings, columns);
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            assert!(text.contains("Total QPS = 0.0 (0 / 0.0s)"), "{text}");
        }
    }

    #[test]
    fn the_deviation_is_that_of_the_samples() {
        let mut values = Histogram::new();
        [10, 20, 30, 40].iter().for_each(|value| values.record(*value));
        assert!((deviation(&values).unwrap() - 125f64.sqrt()).abs() < 1e-9);
        assert_eq!(deviation(&Histogram::new()), None);
    }
}
