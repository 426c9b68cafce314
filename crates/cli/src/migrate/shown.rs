//! How far a move is: a line on a terminal that is drawn over, with totals and the time left;
//! elsewhere a line in ten seconds.

use indicatif::{ProgressBar, ProgressStyle};
use keyrack_console::say;
use keyrack_measure::Clock;
use keyrack_migrate::{Phase, Progress, Report};
use std::io::IsTerminal;

/// Between two lines where there is no terminal.
const LINE_NS: u64 = 10_000_000_000;

pub(super) struct Shown {
    bar: Option<ProgressBar>,
    clock: Clock,
    begun: u64,
    told: u64,
}

impl Shown {
    pub(super) fn new() -> Shown {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:24} {msg}");
            ProgressBar::new(1).with_style(style.expect("the template is a constant"))
        });
        let clock = Clock::vdso();
        let begun = clock.ticks();
        Shown { bar, clock, begun, told: begun }
    }

    pub(super) fn tell(&mut self, progress: &Progress, report: &Report) {
        let now = self.clock.ticks();
        let elapsed_s = self.clock.ns_between(self.begun, now) as f64 / 1e9;
        if let Some(bar) = &self.bar {
            bar.set_length(progress.total.unwrap_or(1).max(1));
            bar.set_position(progress.total.map_or(1, |total| progress.done.min(total)));
            bar.set_message(line(progress, report, elapsed_s));
        } else if self.clock.ns_between(self.told, now) >= LINE_NS {
            self.told = now;
            say!("{}", line(progress, report, elapsed_s));
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Rows so far, the share of the source, and the time left at the mean rate.
fn line(progress: &Progress, report: &Report, elapsed_s: f64) -> String {
    let Progress { phase, done, total } = *progress;
    let rows = report.strings + report.hashes;
    let per_s = rows as f64 / elapsed_s.max(1e-9);
    let unit = match phase {
        Phase::Keys => "keys",
        Phase::Bytes => "bytes",
        Phase::Changes => return format!("{rows} rows; following, {done} changes"),
    };
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{rows} rows, {per_s:.0}/s; {done} {unit}");
    };
    let percent = 100.0 * done as f64 / total as f64;
    let left = match done {
        0 => String::new(),
        _ => {
            let left_s = total.saturating_sub(done) as f64 * elapsed_s / done as f64;
            format!(", {left_s:.0} s left")
        }
    };
    format!("{rows} rows, {per_s:.0}/s; {percent:.0}% of {total} {unit}{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_the_time_left_are_told() {
        let report = Report { strings: 30, hashes: 10, ..Report::default() };
        let told = |phase, done, total| line(&Progress { phase, done, total }, &report, 20.0);
        assert_eq!(
            told(Phase::Bytes, 250, Some(1000)),
            "40 rows, 2/s; 25% of 1000 bytes, 60 s left"
        );
        assert_eq!(told(Phase::Keys, 0, Some(10)), "40 rows, 2/s; 0% of 10 keys");
        assert_eq!(told(Phase::Keys, 40, None), "40 rows, 2/s; 40 keys");
        assert_eq!(told(Phase::Changes, 7, None), "40 rows; following, 7 changes");
    }
}
