//! What a worker counts while it works: one writer, readable by the sampler at any time.
//!
//! Each worker owns one [`LiveWorker`]. It alone writes, with plain loads and stores; the sampler
//! reads the same words and sees a recent value. Nothing here is shared between workers, and the
//! alignment keeps two workers off one pair of cache lines.

use keyrack_measure::{Histogram, LiveCounter, LiveHistogram};

/// The verbs that are timed, in report order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// Store one key.
    Put,
    /// Look one key up.
    Get,
    /// Remove one key.
    Del,
    /// Read a range: `kv.range`, `kv.scan`, `kv.count`.
    Range,
    /// Look a batch of keys up.
    Mget,
    /// Store a batch of keys.
    Mput,
    /// Remove a batch of keys.
    Mdel,
    /// Read, modify and write one key atomically.
    Rmw,
}

/// How many kinds there are.
pub(crate) const KINDS: usize = 8;

impl Kind {
    /// All kinds, in report order.
    pub const ALL: [Kind; KINDS] = [
        Kind::Put,
        Kind::Get,
        Kind::Del,
        Kind::Range,
        Kind::Mget,
        Kind::Mput,
        Kind::Mdel,
        Kind::Rmw,
    ];

    /// The name in every report.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["put", "get", "del", "range", "mget", "mput", "mdel", "rmw"][self as usize]
    }
}

/// Counts and latency of one verb on one worker.
#[derive(Debug, Default)]
pub(crate) struct LiveOp {
    /// Service time in nanoseconds; its count is the number of calls.
    pub(crate) service: LiveHistogram,
    /// Keys of batched verbs; single-key verbs leave it at 0 and count their calls.
    pub(crate) batched_keys: LiveCounter,
    /// Lookups that found their key.
    pub(crate) hits: LiveCounter,
    /// Lookups that did not.
    pub(crate) misses: LiveCounter,
    /// Calls that the engine failed.
    pub(crate) errors: LiveCounter,
}

/// All that one worker counts in one phase.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LiveWorker {
    /// Units completed.
    pub(crate) units: LiveCounter,
    /// Calls of verbs that have returned.
    pub(crate) calls: LiveCounter,
    /// One entry a [`Kind`].
    pub(crate) ops: [LiveOp; KINDS],
    /// Bytes of keys and values that writes have stored, and of keys that were removed.
    pub(crate) written_bytes: LiveCounter,
    /// Bytes of values that lookups found, and of rows that ranges visited.
    pub(crate) read_bytes: LiveCounter,
    /// Removals for whose result the key was looked up, because the engine does not tell.
    pub(crate) lookups: LiveCounter,
    /// Nanoseconds that those lookups took, within the times of the removals.
    pub(crate) lookup_ns: LiveCounter,
    /// Open loop: intended start to end of a unit, in nanoseconds.
    pub(crate) unit_response: LiveHistogram,
    /// Open loop: actual start to end of a unit, in nanoseconds.
    pub(crate) unit_service: LiveHistogram,
}

/// A number that grows whenever a worker completes a call or a unit, and the units. Cheap: two
/// words of each worker. O(workers).
pub(crate) fn progress(workers: &[LiveWorker]) -> (u64, u64) {
    let units = workers.iter().map(|worker| worker.units.get()).sum::<u64>();
    let calls = workers.iter().map(|worker| worker.calls.get()).sum::<u64>();
    (units + calls, units)
}

/// The sum of several workers' counts at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) units: u64,
    pub(crate) ops: Vec<OpTotals>,
    pub(crate) written_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) unit_response: Histogram,
    pub(crate) unit_service: Histogram,
}

/// One verb in [`Totals`].
#[derive(Clone, Debug)]
pub(crate) struct OpTotals {
    pub(crate) service: Histogram,
    pub(crate) prim_ops: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
}

impl Totals {
    /// Adds up what `workers` have counted. O(workers x kinds x buckets).
    pub(crate) fn of<'a>(workers: impl Iterator<Item = &'a LiveWorker> + Clone) -> Totals {
        let merged = |pick: &dyn Fn(&LiveWorker) -> &LiveHistogram| {
            let (mut all, mut one) = (Histogram::new(), Histogram::new());
            for worker in workers.clone() {
                pick(worker).snapshot_into(&mut one);
                all.merge(&one);
            }
            all
        };
        let sum = |pick: &dyn Fn(&LiveWorker) -> &LiveCounter| {
            workers.clone().map(|worker| pick(worker).get()).sum::<u64>()
        };
        let op = |kind: usize| {
            let service = merged(&|w| &w.ops[kind].service);
            let batched = sum(&|w| &w.ops[kind].batched_keys);
            let is_batched = (Kind::Mget as usize..=Kind::Mdel as usize).contains(&kind);
            OpTotals {
                prim_ops: if is_batched { batched } else { service.count() },
                hits: sum(&|w| &w.ops[kind].hits),
                misses: sum(&|w| &w.ops[kind].misses),
                errors: sum(&|w| &w.ops[kind].errors),
                service,
            }
        };
        Totals {
            units: sum(&|w| &w.units),
            ops: (0..KINDS).map(op).collect(),
            written_bytes: sum(&|w| &w.written_bytes),
            read_bytes: sum(&|w| &w.read_bytes),
            unit_response: merged(&|w| &w.unit_response),
            unit_service: merged(&|w| &w.unit_service),
        }
    }

    /// Primitive operations over all verbs.
    pub(crate) fn prim_ops(&self) -> u64 {
        self.ops.iter().map(|op| op.prim_ops).sum()
    }

    /// Calls over all verbs that the engine failed.
    pub(crate) fn errors(&self) -> u64 {
        self.ops.iter().map(|op| op.errors).sum()
    }

    /// Nanoseconds spent inside engine calls, over all workers.
    pub(crate) fn engine_ns(&self) -> u64 {
        self.ops.iter().map(|op| op.service.sum()).sum()
    }
}
