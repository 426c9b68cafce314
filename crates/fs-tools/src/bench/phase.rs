//! The result of a phase: the line that scripts read, what the original leaves out behind it, and
//! the same for the document.

use keyrack_measure::Histogram;
use serde_json::json;

/// What a rank did in a phase.
pub(super) struct Took {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) ops: u64,
    pub(super) latency_ns: Histogram,
}

/// A phase over all ranks.
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) us_per_op: f64,
    pub(super) mops: f64,
    pub(super) seconds: f64,
    pub(super) ops: u64,
    pub(super) latency_ns: Histogram,
    pub(super) cpu_us_per_op: f64,
    pub(super) bytes: u64,
    /// The largest resident set so far.
    pub(super) memory_kib: u64,
}

impl Phase {
    pub(super) fn text(&self) -> String {
        let Phase { name, us_per_op, mops, seconds, ops, .. } = self;
        let us = |p| self.latency_ns.percentile(p).map_or(0.0, |ns| ns as f64 / 1000.0);
        format!(
            "=={name:<10}: {us_per_op:9.3} micros/op, {mops:9.3} Mop/s, {seconds:15.3} s, \
             {ops:15} ops\n\
             latency us: p50 {:.3}, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}\n\
             CPU of all threads: {:.3} us/op; on disk: {} bytes; memory so far: at most {} MiB\n",
            us(50.0),
            us(90.0),
            us(99.0),
            us(99.9),
            self.latency_ns.max().unwrap_or(0) as f64 / 1000.0,
            self.cpu_us_per_op,
            self.bytes,
            self.memory_kib >> 10,
        )
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let ns = |p| self.latency_ns.percentile(p);
        json!({
            "name": self.name,
            "us_per_op": self.us_per_op,
            "mops": self.mops,
            "seconds": self.seconds,
            "ops": self.ops,
            "latency_ns": {
                "p50": ns(50.0), "p90": ns(90.0), "p99": ns(99.0), "p99.9": ns(99.9),
                "max": self.latency_ns.max(),
            },
            "cpu_us_per_op": self.cpu_us_per_op,
            "bytes_on_disk": self.bytes,
            "peak_rss_kib": self.memory_kib,
        })
    }
}
