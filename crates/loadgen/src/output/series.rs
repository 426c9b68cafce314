//! The seconds of a run as comma-separated values.

use std::fmt::Write;

use crate::account::Second;

/// A header, and a row for each second; latencies in microseconds, empty where there was no reply.
#[must_use]
pub fn csv(series: &[Second]) -> String {
    let mut out = String::from(
        "end_s,ops,qps,misses,errors,p50_us,p90_us,p99_us,p999_us,max_us,offered_qps\n",
    );
    for second in series {
        let qps = if second.length_s > 0.0 { second.ops as f64 / second.length_s } else { 0.0 };
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            out,
            "{:.3},{},{qps:.1},{},{}",
            second.end_s, second.ops, second.misses, second.errors
        );
        let latency = &second.latency;
        let percentiles = [50.0, 90.0, 99.0, 99.9].map(|p| latency.percentile(p));
        for value in percentiles.into_iter().chain([latency.max()]) {
            let _ = match value {
                Some(ns) => write!(out, ",{:.3}", ns as f64 / 1e3),
                None => write!(out, ","),
            };
        }
        // Under a ramp alone: else the rate is one for all seconds.
        let _ = match second.offered_per_s {
            Some(rate) => writeln!(out, ",{rate:.1}"),
            None => writeln!(out, ","),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_measure::Histogram;

    #[test]
    fn a_second_is_a_row() {
        let mut latency = Histogram::new();
        latency.record_n(2000, 5);
        let second = Second {
            end_s: 1.0,
            length_s: 0.5,
            offered_per_s: None,
            ops: 5,
            misses: 1,
            errors: 0,
            latency,
        };
        let silent = Second {
            offered_per_s: Some(2.5),
            ops: 0,
            latency: Histogram::new(),
            ..second.clone()
        };
        let text = csv(&[second, silent]);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[1], "1.000,5,10.0,1,0,2.000,2.000,2.000,2.000,2.000,");
        assert_eq!(rows[2], "1.000,0,0.0,1,0,,,,,,2.5");
        assert_eq!(rows[0].split(',').count(), rows[2].split(',').count());
    }
}
