//! All numbers of a running server, by group and name. Both renderings show the same.

use super::help::{help, is_counter_of_rows};
use crate::durations::{Kind as CommandKind, Sum};
use crate::state::State;
use crate::{masstree, memcached};
use keyrack_measure::{Histogram, usage, wall};
use keyrack_net::{CloseReason, Stats};

/// How a number moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    Gauge,
    /// An engine's, and not described here.
    Untyped,
    /// For the page alone: Prometheus has it under another name.
    OnPage,
}

#[derive(Clone, Debug)]
pub(super) struct Number {
    pub(super) group: &'static str,
    pub(super) name: String,
    /// Tells numbers of one name apart: what by, and which this is.
    pub(super) label: Option<(&'static str, String)>,
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
    /// Durations of commands, by protocol and kind.
    pub(super) durations: Vec<(&'static str, &'static str, Sum)>,
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
            durations: durations(state),
        };
        all.process(state);
        all.net(net);
        all.protocols(state);
        all.rows(state);
        all
    }

    fn number(&mut self, group: &'static str, name: &str, kind: Kind, value: f64) {
        self.numbers.push(Number { group, name: name.to_owned(), label: None, kind, value });
    }

    fn gauge(&mut self, group: &'static str, name: &str, value: f64) {
        self.number(group, name, Kind::Gauge, value);
    }

    fn counter(&mut self, group: &'static str, name: &str, value: u64) {
        self.number(group, name, Kind::Counter, value as f64);
    }

    fn labelled(
        &mut self,
        group: &'static str,
        name: &str,
        (by, which): (&'static str, &str),
        value: u64,
    ) {
        self.counter(group, name, value);
        if let Some(number) = self.numbers.last_mut() {
            number.label = Some((by, which.to_owned()));
        }
    }

    fn process(&mut self, state: &State) {
        let uptime_ms = wall::unix_ms().saturating_sub(state.started_ms);
        self.gauge("process", "uptime_seconds", uptime_ms as f64 / 1000.0);
        self.gauge("process", "loops", state.loops.len() as f64);
        let usage = usage::process();
        let cpu_seconds = (usage.user_ns + usage.system_ns) as f64 / 1e9;
        self.number("process", "cpu_seconds", Kind::OnPage, cpu_seconds);
        let is_ready = state.control.ready().is_ok();
        self.gauge("process", "ready", f64::from(u8::from(is_ready)));
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
            self.labelled("net", "closed", ("reason", reason.name()), net.closed_for(reason));
        }
    }

    fn protocols(&mut self, state: &State) {
        for (name, value) in memcached::Counts::NAMES.iter().zip(state.memcached.sums()) {
            self.counter("memcached", name, value);
        }
        // Since the start: CONFIG RESETSTAT is for INFO.
        state.redis.counters_since_start(&mut |name, value| match name.strip_prefix("calls_") {
            Some(command) => self.labelled("redis", "calls", ("command", command), value),
            None => self.counter("redis", name, value),
        });
        for (index, name) in masstree::Counts::NAMES.iter().enumerate() {
            let sum = state.loops.iter().map(|metrics| metrics.masstree.values()[index]).sum();
            self.counter("masstree", name, sum);
        }
    }

    fn rows(&mut self, state: &State) {
        self.gauge("rows", "count", state.rows.len() as f64);
        state.rows.stats(&mut |name, value| {
            let kind = match help("rows", name) {
                None => Kind::Untyped,
                Some(_) if is_counter_of_rows(name) => Kind::Counter,
                Some(_) => Kind::Gauge,
            };
            if value.is_finite() {
                self.number("rows", name, kind, value);
            }
        });
    }
}

/// The durations of commands. A protocol has the kinds that its commands can be.
fn durations(state: &State) -> Vec<(&'static str, &'static str, Sum)> {
    let mut memcached = [Sum::default(); CommandKind::COUNT];
    let mut masstree = memcached;
    for metrics in &state.loops {
        metrics.memcached_ns.add_to(&mut memcached);
        metrics.masstree_ns.add_to(&mut masstree);
    }
    let mut all = Vec::new();
    for (protocol, sums) in
        [("memcached", memcached), ("redis", state.redis.durations()), ("masstree", masstree)]
    {
        for (kind, sum) in CommandKind::NAMES.iter().zip(sums) {
            if protocol == "redis" || !kind.starts_with("hash") {
                all.push((protocol, *kind, sum));
            }
        }
    }
    all
}
