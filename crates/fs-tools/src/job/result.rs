//! The result of a phase over all ranks: the line that scripts read, what the original leaves out
//! behind it, and the same for the document.

use keyrack_measure::Histogram;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The percentiles that are told.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Sums over ranks.
#[derive(Debug)]
pub(crate) struct PhaseResult {
    pub(crate) name: &'static str,
    pub(crate) ops: u64,
    /// Operations that failed; they are not among `ops`.
    pub(crate) failed: u64,
    /// From start to end of each rank, added up.
    pub(crate) spent_ns: u64,
    /// From the first start to the last end.
    pub(crate) wall_ns: u64,
    /// Of all threads of the ranks.
    pub(crate) cpu_ns: u64,
    /// Of each operation, where they were timed.
    pub(crate) latency_ns: Option<Histogram>,
}

impl PhaseResult {
    fn each_us(&self, ns: u64) -> f64 {
        if self.ops == 0 { 0.0 } else { ns as f64 / 1e3 / self.ops as f64 }
    }

    fn mops(&self) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { self.ops as f64 / (self.wall_ns as f64 / 1e9) / 1e6 }
    }

    /// The line that scripts read.
    fn line(&self) -> String {
        let (each_us, rate) = (self.each_us(self.spent_ns), self.mops());
        let (name, seconds, ops) = (self.name, self.wall_ns as f64 / 1e9, self.ops);
        format!(
            "=={name:<10}: {each_us:9.3} micros/op, {rate:9.3} Mop/s, {seconds:15.3} s, \
             {ops:15} ops\n"
        )
    }

    /// The line that scripts read, and one of ours.
    pub(crate) fn text(&self) -> String {
        let mut text = self.line();
        if let Some(latency) = &self.latency_ns {
            text.push_str("  latency");
            for (name, percentile) in PERCENTILES {
                let us = latency.percentile(percentile).unwrap_or(0) as f64 / 1e3;
                // Writing to a string does not fail.
                let _ = write!(text, " {name} {us:.1} us,");
            }
            let _ = write!(text, " max {:.1} us;", latency.max().unwrap_or(0) as f64 / 1e3);
        } else {
            text.push(' ');
        }
        let _ = writeln!(text, " CPU of the ranks {:.2} us/op", self.each_us(self.cpu_ns));
        text
    }

    /// The line that scripts read, and two of ours, of ranks that are threads of this process.
    pub(crate) fn text_in_process(&self, disk_bytes: u64, memory_kib: u64) -> String {
        let latency = self.latency_ns.as_ref();
        let us = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / 1e3);
        let mut text = self.line() + "latency us:";
        for (name, percentile) in PERCENTILES {
            let us = us(latency.and_then(|latency| latency.percentile(percentile)));
            let _ = write!(text, " {name} {us:.3},");
        }
        let _ = writeln!(
            text,
            " max {:.3}\nCPU of all threads: {:.3} us/op; on disk: {disk_bytes} bytes; memory so \
             far: at most {} MiB",
            us(latency.and_then(Histogram::max)),
            self.each_us(self.cpu_ns),
            memory_kib >> 10,
        );
        text
    }

    pub(crate) fn json(&self) -> Value {
        let mut value = json!({
            "name": self.name,
            "us_per_op": self.each_us(self.spent_ns),
            "mops": self.mops(),
            "seconds": self.wall_ns as f64 / 1e9,
            "ops": self.ops,
            "failed": self.failed,
            "cpu_us_per_op": self.each_us(self.cpu_ns),
            "cpu_seconds": self.cpu_ns as f64 / 1e9,
        });
        if let Some(latency) = &self.latency_ns {
            let mut all = json!({ "max": latency.max() });
            for (name, percentile) in PERCENTILES {
                all[name] = latency.percentile(percentile).into();
            }
            value["latency_ns"] = all;
        }
        value
    }
}

/// What one rank did in a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankResult {
    rank: usize,
    ops: u64,
    spent_ns: u64,
    /// Of the thread that did it.
    cpu_ns: u64,
}

impl RankResult {
    /// Of three numbers of eight bytes: operations, nanoseconds, nanoseconds of the processor.
    /// `None` for anything else, as of a rank of another program.
    pub(crate) fn from_bytes(rank: usize, bytes: &[u8]) -> Option<RankResult> {
        let ([ops, spent_ns, cpu_ns], []) = bytes.as_chunks::<8>() else { return None };
        let [ops, spent_ns, cpu_ns] = [*ops, *spent_ns, *cpu_ns].map(u64::from_le_bytes);
        Some(RankResult { rank, ops, spent_ns, cpu_ns })
    }

    fn each_us(&self) -> f64 {
        if self.ops == 0 { 0.0 } else { self.spent_ns as f64 / 1e3 / self.ops as f64 }
    }

    fn kops(&self) -> f64 {
        if self.spent_ns == 0 { 0.0 } else { self.ops as f64 / (self.spent_ns as f64 / 1e9) / 1e3 }
    }

    pub(crate) fn text(&self) -> String {
        let RankResult { rank, ops, spent_ns, cpu_ns } = self;
        format!(
            "{rank:<12}{:9.3} us/op, {:9.3} Kop/s, {:9.3} Kops, {ops:15} ops\n\
             Time(cpu/wall): {:.3}/{:.3}\n",
            self.each_us(),
            self.kops(),
            *ops as f64 / 1e3,
            *cpu_ns as f64 / 1e9,
            *spent_ns as f64 / 1e9,
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "rank": self.rank,
            "us_per_op": self.each_us(),
            "kops": self.kops(),
            "ops": self.ops,
            "cpu_seconds": self.cpu_ns as f64 / 1e9,
            "seconds": self.spent_ns as f64 / 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &'static str, ops: u64, spent_ns: u64, wall_ns: u64) -> PhaseResult {
        let latency_ns = None;
        PhaseResult { name, ops, failed: 0, spent_ns, wall_ns, cpu_ns: 0, latency_ns }
    }

    /// A rank whose result was cut had done nothing, and a rank of another program anything.
    #[test]
    fn a_result_of_other_numbers_is_none() {
        let bytes = [5_u64, 6, 7].map(u64::to_le_bytes).concat();
        let result = RankResult::from_bytes(1, &bytes).unwrap();
        assert_eq!((result.ops, result.spent_ns, result.cpu_ns), (5, 6, 7));
        for length in [0, 8, 16, 23] {
            assert!(RankResult::from_bytes(1, &bytes[..length]).is_none(), "{length}");
        }
        assert!(RankResult::from_bytes(1, &[0; 32]).is_none());
    }

    #[test]
    fn the_line_of_a_result_is_that_of_the_original() {
        let line = |result: PhaseResult| result.text().lines().next().unwrap().to_owned();
        assert_eq!(
            line(result("insert", 800_000, 39_599_200_000_000 / 1000, 9_928_000_000)),
            "==insert    :    49.499 micros/op,     0.081 Mop/s,           9.928 s,          \
             800000 ops"
        );
        assert_eq!(
            line(result("mapreduce", 0, 0, 0)),
            "==mapreduce :     0.000 micros/op,     0.000 Mop/s,           0.000 s,               \
             0 ops"
        );
    }
}
