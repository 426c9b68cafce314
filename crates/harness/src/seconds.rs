//! What a second of a phase was like, for whoever watches: counts and latencies of each verb, and
//! what the process took of the machine.
//!
//! The figures are differences between two looks at the live counts, so the workers do nothing for
//! them. A look merges every histogram of every worker: O(workers x verbs x buckets).

use crate::live::{Kind, LiveWorker, OpTotals, Totals};
use crate::probe::{Host, Sampler};
use keyrack_measure::Histogram;

/// Less than this is no second: the end of a phase right after a look.
const LENGTH_S_MIN: f64 = 0.05;

/// One verb over a second.
#[derive(Clone, Debug, PartialEq)]
pub struct OpSecond {
    /// Which verb.
    pub kind: Kind,
    /// Primitive operations: calls, or keys of batched verbs.
    pub prim_ops: u64,
    /// Calls that the engine failed.
    pub errors: u64,
    /// Service time of its calls, in nanoseconds.
    pub service: Histogram,
}

/// A second of a phase, or what is left of one at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Second {
    /// Its end, in seconds since the phase began.
    pub end_s: f64,
    /// How long it was, in seconds.
    pub length_s: f64,
    /// Units that ended in it.
    pub units: u64,
    /// The verbs that have been used since the phase began.
    pub ops: Vec<OpSecond>,
    /// CPU time of the process, in percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Memory of the process now, in bytes.
    pub resident_bytes: Option<u64>,
}

impl Second {
    /// Primitive operations over all verbs; units where operations are not timed one by one.
    #[must_use]
    pub fn prim_ops(&self) -> u64 {
        let timed = self.ops.iter().map(|op| op.prim_ops).sum();
        if self.ops.is_empty() { self.units } else { timed }
    }

    /// Calls over all verbs that the engine failed.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.ops.iter().map(|op| op.errors).sum()
    }

    /// Service time over all verbs, in nanoseconds.
    #[must_use]
    pub fn service(&self) -> Histogram {
        let mut all = Histogram::new();
        self.ops.iter().for_each(|op| all.merge(&op.service));
        all
    }
}

/// Looks at a phase now and then.
pub(crate) struct Seconds<'h> {
    sampler: Sampler<'h>,
    last: Option<Totals>,
    last_s: f64,
}

impl<'h> Seconds<'h> {
    /// A phase begins.
    pub(crate) fn new(host: &'h dyn Host) -> Seconds<'h> {
        Seconds { sampler: Sampler::new(host), last: None, last_s: 0.0 }
    }

    /// What came since the last look; `None` where that was just now.
    pub(crate) fn look(&mut self, elapsed_s: f64, lives: &[LiveWorker]) -> Option<Second> {
        let length_s = elapsed_s - self.last_s;
        if length_s < LENGTH_S_MIN {
            return None;
        }
        let totals = Totals::of(lives.iter());
        let before = self.last.as_ref();
        let used = Kind::ALL.into_iter().filter(|kind| {
            let op = &totals.ops[*kind as usize];
            op.service.count() + op.errors > 0
        });
        let ops = used.map(|kind| {
            let earlier = before.map(|before| &before.ops[kind as usize]);
            since(kind, &totals.ops[kind as usize], earlier)
        });
        let ops = ops.collect();
        let system = self.sampler.sample(elapsed_s);
        let metric = |name: &str| system.iter().find(|(known, _)| *known == name)?.1;
        let second = Second {
            end_s: elapsed_s,
            length_s,
            units: totals.units - before.map_or(0, |before| before.units),
            ops,
            cpu_pct: metric("proc_cpu_pct"),
            resident_bytes: metric("rss_mb").map(|mib| (mib * 1_048_576.0) as u64),
        };
        (self.last, self.last_s) = (Some(totals), elapsed_s);
        Some(second)
    }
}

fn since(kind: Kind, now: &OpTotals, earlier: Option<&OpTotals>) -> OpSecond {
    let Some(earlier) = earlier else {
        let OpTotals { prim_ops, errors, service, .. } = now.clone();
        return OpSecond { kind, prim_ops, errors, service };
    };
    OpSecond {
        kind,
        prim_ops: now.prim_ops.saturating_sub(earlier.prim_ops),
        errors: now.errors.saturating_sub(earlier.errors),
        service: now.service.subtract(&earlier.service),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::CapturedHost;

    #[test]
    fn seconds_add_up_to_the_phase() {
        let host = CapturedHost::new();
        let lives = [LiveWorker::default(), LiveWorker::default()];
        let mut seconds = Seconds::new(&host);
        let work = |calls: u64| {
            for live in &lives {
                (0..calls).for_each(|ns| live.ops[Kind::Get as usize].service.record(ns));
                live.ops[Kind::Mput as usize].service.record(9);
                live.ops[Kind::Mput as usize].batched_keys.add(64);
                live.ops[Kind::Mput as usize].errors.add(1);
                live.units.add(calls);
            }
        };
        work(10);
        let first = seconds.look(1.0, &lives).unwrap();
        let kinds: Vec<Kind> = first.ops.iter().map(|op| op.kind).collect();
        assert_eq!(kinds, [Kind::Get, Kind::Mput], "verbs that nobody used are not there");
        assert_eq!((first.units, first.prim_ops(), first.errors()), (20, 20 + 128, 2));
        work(3);
        let second = seconds.look(2.0, &lives).unwrap();
        assert_eq!((second.units, second.prim_ops(), second.errors()), (6, 6 + 128, 2));
        assert_eq!(second.service().count(), 8);
        assert_eq!((second.length_s, second.end_s), (1.0, 2.0));
        assert_eq!((second.cpu_pct, second.resident_bytes), (None, None), "unknown is not zero");
        assert_eq!(seconds.look(2.01, &lives), None, "no second to speak of");
        let idle = seconds.look(3.0, &lives).unwrap();
        assert_eq!((idle.prim_ops(), idle.ops.len()), (0, 2));
    }
}
