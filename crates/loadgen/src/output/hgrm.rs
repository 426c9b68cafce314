//! A percentile distribution as HdrHistogram's plotters read it.
//!
//! ```text
//!        Value     Percentile TotalCount 1/(1-Percentile)
//!
//!       41.000 0.000000000000          1           1.00
//! #[Mean    =       52.400, StdDeviation   =        6.100]
//! ```

use std::fmt::Write;

use keyrack_measure::Histogram;

use super::table::deviation;

/// A row for each bucket that is used; values in microseconds.
#[must_use]
pub fn hgrm(values: &Histogram) -> String {
    let us = |ns: f64| ns / 1e3;
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let total = values.count();
    let (mut seen, mut buckets) = (0, 0);
    for (low, high, count) in values.buckets() {
        seen += count;
        buckets += 1;
        let value = (low as f64 + (high - low) as f64 / 2.0)
            .clamp(values.min().unwrap_or(0) as f64, values.max().unwrap_or(0) as f64);
        let share = seen as f64 / total as f64;
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "{:>12.3} {share:>2.12} {seen:>10}", us(value));
        // The last has no such number.
        let _ = if seen < total {
            writeln!(out, " {:>14.2}", 1.0 / (1.0 - share))
        } else {
            writeln!(out)
        };
    }
    let (mean, deviation) = (values.mean().unwrap_or(0.0), deviation(values).unwrap_or(0.0));
    let max = values.max().unwrap_or(0) as f64;
    let _ =
        writeln!(out, "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]", us(mean), us(deviation));
    let _ = writeln!(out, "#[Max     = {:>12.3}, Total count    = {total:>12}]", us(max));
    let _ = writeln!(out, "#[Buckets = {buckets:>12}, SubBuckets     = {:>12}]", 128);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_rise_to_one() {
        let mut values = Histogram::new();
        (1..=100).for_each(|us| values.record(us * 1000));
        let text = hgrm(&values);
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.windows(2).all(|pair| pair[0][0] < pair[1][0] && pair[0][1] < pair[1][1]));
        let last = rows.last().unwrap();
        assert_eq!((last[0], last[1], last[2], last.len()), (100.0, 1.0, 100.0, 3));
        assert_eq!(rows[0].len(), 4);
        assert!(
            text.contains("#[Max     =      100.000, Total count    =          100]"),
            "{text}"
        );
        assert!(!hgrm(&Histogram::new()).contains("NaN"));
    }
}
