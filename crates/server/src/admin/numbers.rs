//! All numbers of a running server, by group and name. Both renderings show the same.

use crate::state::State;
use crate::{masstree, memcached};
use keyrack_measure::{Histogram, usage, wall};
use keyrack_net::{CloseReason, Stats};

/// Whether a number only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
}

#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) value: f64,
}

/// Percentiles of a group of durations, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Percentiles {
    pub(super) count: u64,
    pub(super) sum_us: f64,
    pub(super) p50_us: f64,
    pub(super) p90_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
}

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        let at = |percent| histogram.percentile(percent).map_or(0.0, |ns| ns as f64 / 1000.0);
        Percentiles {
            count: histogram.count(),
            sum_us: histogram.sum() as f64 / 1000.0,
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: histogram.max().map_or(0.0, |ns| ns as f64 / 1000.0),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Numbers {
    pub(super) engine: String,
    pub(super) durability: String,
    pub(super) numbers: Vec<Number>,
    /// Iterations since the start.
    pub(super) iterations: Percentiles,
    /// Iterations of the last second or so.
    pub(super) recent: Percentiles,
}

impl Numbers {
    pub(super) fn collect(
        state: &State,
        net: &Stats,
        iterations: &Histogram,
        recent: &Histogram,
    ) -> Self {
        let mut all = Numbers {
            engine: state.rows.version(),
            durability: state.rows.durability().to_string(),
            numbers: Vec::with_capacity(128),
            iterations: Percentiles::of(iterations),
            recent: Percentiles::of(recent),
        };
        all.process(state);
        all.net(net);
        all.protocols(state);
        all.rows(state);
        all
    }

    fn gauge(&mut self, group: &'static str, name: impl Into<String>, value: f64) {
        self.numbers.push(Number { group, name: name.into(), kind: Kind::Gauge, value });
    }

    fn counter(&mut self, group: &'static str, name: impl Into<String>, value: u64) {
        let (name, value) = (name.into(), value as f64);
        self.numbers.push(Number { group, name, kind: Kind::Counter, value });
    }

    fn process(&mut self, state: &State) {
        let uptime_ms = wall::unix_ms().saturating_sub(state.started_ms);
        self.gauge("process", "uptime_seconds", uptime_ms as f64 / 1000.0);
        self.gauge("process", "loops", state.loops.len() as f64);
        let usage = usage::process();
        self.gauge("process", "cpu_seconds", (usage.user_ns + usage.system_ns) as f64 / 1e9);
        let memory = &state.clients_memory;
        self.gauge("process", "clients_memory_bytes", memory.bytes() as f64);
        self.gauge("process", "clients_memory_max_bytes", memory.bytes_max() as f64);
        let checkpoint = state.control.checkpoint();
        self.gauge("process", "checkpoint_running", f64::from(u8::from(checkpoint.is_running)));
        self.gauge("process", "checkpoint_last_unix_seconds", checkpoint.last_ms as f64 / 1000.0);
        let (mut waited, mut failed) = (0, 0);
        for metrics in &state.loops {
            waited += metrics.iterations_waited.get();
            failed += metrics.flushes_failed.get();
        }
        self.counter("process", "turns_waited", waited);
        self.counter("process", "flushes_failed", failed);
    }

    fn net(&mut self, net: &Stats) {
        self.gauge("net", "connections_open", net.open as f64);
        for (name, value) in [
            ("accepted", net.accepted),
            ("refused", net.refused),
            ("accept_errors", net.accept_errors),
            ("turns", net.iterations),
            ("reads", net.reads),
            ("writes", net.writes),
            ("bytes_in", net.bytes_in),
            ("bytes_out", net.bytes_out),
            ("turns_parked", net.iterations_deferred),
            ("datagrams_in", net.datagrams_in),
            ("datagrams_out", net.datagrams_out),
            ("loops_panicked", net.loops_panicked),
        ] {
            self.counter("net", name, value);
        }
        for reason in CloseReason::ALL {
            self.counter("net", format!("closed_{reason}"), net.closed_for(reason));
        }
    }

    fn protocols(&mut self, state: &State) {
        for (name, value) in memcached::Counts::NAMES.iter().zip(state.memcached.sums()) {
            self.counter("memcached", *name, value);
        }
        state.redis.counters(&mut |name, value| self.counter("redis", name, value));
        for (index, name) in masstree::Counts::NAMES.iter().enumerate() {
            let sum = state.loops.iter().map(|metrics| metrics.masstree.values()[index]).sum();
            self.counter("masstree", *name, sum);
        }
    }

    fn rows(&mut self, state: &State) {
        self.gauge("rows", "count", state.rows.len() as f64);
        state.rows.stats(&mut |name, value| {
            if value.is_finite() {
                self.gauge("rows", name, value);
            }
        });
    }
}
