//! `--record`: a worker's calls on their way into a trace.
//!
//! All sessions of a worker share one tape, so that its calls stand in the order in which they
//! ended. What is written down is written down after the call and outside of its sample; between
//! two calls it costs the worker the encoding, some tens of nanoseconds, which lowers rates and not
//! latencies.

use keyrack_measure::Clock;
use keyrack_store::{Batch, BatchOp};
use keyrack_trace::{Entry, Outcome, Phase, Tape, Verb, Write};
use std::cell::RefCell;
use std::rc::Rc;

/// A worker's tape, and the tick from which its times count.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    tape: Rc<RefCell<Tape>>,
    origin: u64,
}

impl Recording {
    pub(crate) fn new(tape: Tape, origin: u64) -> Self {
        Recording { tape: Rc::new(RefCell::new(tape)), origin }
    }

    /// The timed part begins.
    pub(crate) fn start_timed(&self) {
        self.tape.borrow_mut().enter(Phase::Run);
    }

    #[inline]
    pub(crate) fn at_ns(&self, clock: &Clock, begin: u64) -> u64 {
        clock.ns_between(self.origin, begin)
    }

    /// A call on one key that may write `value`.
    pub(crate) fn one(
        &self,
        verb: Verb,
        outcome: Outcome,
        at_ns: u64,
        key: &[u8],
        write: Write,
        value: &[u8],
    ) {
        let mut tape = self.tape.borrow_mut();
        tape.sample(value);
        tape.note((verb, outcome, at_ns), 0, 1, std::iter::once(Entry { key, write }));
    }

    /// A lookup of keys that found so many bytes of values.
    pub(crate) fn lookup(
        &self,
        verb: Verb,
        outcome: Outcome,
        at_ns: u64,
        keys: &[&[u8]],
        bytes: u64,
    ) {
        let entries = keys.iter().map(|key| Entry { key, write: Write::Nothing });
        self.tape.borrow_mut().note((verb, outcome, at_ns), bytes, keys.len(), entries);
    }

    /// A walk over rows.
    pub(crate) fn range(
        &self,
        verb: Verb,
        outcome: Outcome,
        at_ns: u64,
        range: (&[u8], Option<&[u8]>),
        limit: u64,
        rows: u64,
    ) {
        self.tape.borrow_mut().note_range((verb, outcome, at_ns), range, limit, rows);
    }

    /// A batch of writes.
    pub(crate) fn batch(&self, verb: Verb, outcome: Outcome, at_ns: u64, batch: &Batch) {
        let mut tape = self.tape.borrow_mut();
        for op in batch.iter() {
            if let BatchOp::Put(_, value) = op {
                tape.sample(value);
            }
        }
        let entries = batch.iter().map(|op| match op {
            BatchOp::Put(key, value) => {
                let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
                Entry { key, write: Write::Put(bytes) }
            }
            BatchOp::Remove(key) => Entry { key, write: Write::Remove },
        });
        tape.note((verb, outcome, at_ns), 0, batch.len(), entries);
    }
}
