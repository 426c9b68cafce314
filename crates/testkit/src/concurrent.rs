//! The concurrent check: what must hold however threads interleave.
//!
//! Each thread owns the keys under a prefix of its own and runs seeded operations on them, so it
//! knows every answer in advance although the others work in the same structure. Besides:
//!
//! - all threads add one to a counter by `update`; at the end the counter is their number, or an
//!   update was not atomic;
//! - now and then a thread scans the whole store: keys strictly ascend, and the rows under its own
//!   prefix are exactly its own;
//! - in rounds, all threads apply batches that write the same keys, each batch one value; after a
//!   round all of them hold one value, or two batches were mixed.
//!
//! The operations replay from the seed; the interleaving does not.

use crate::generator::{Generator, after_prefix};
use crate::mismatch::Mismatch;
use crate::operation::{Answer, Bytes, Operation, Range, difference, perform};
use keyrack_store::{Batch, ModelStore, Result as StoreResult, Session, Store, Update};
use keyrack_workload::{Phase, Rng};
use std::panic::resume_unwind;
use std::thread;

/// The counter; no thread's prefix begins like it.
pub(crate) const COUNTER_KEY: &[u8] = b"counter";

/// How the keys of the shared batches begin.
pub(crate) const BATCH_PREFIX: &[u8] = b"batch/";

const BATCH_KEYS: u64 = 8;
const BATCH_ROUNDS: u64 = 16;
const BATCHES_PER_ROUND: u64 = 8;

/// Every so many operations a thread adds one to the counter.
const COUNT_EVERY: u64 = 8;

/// One operation in so many is a scan of the whole store.
const FULL_SCAN_EVERY: u64 = 128;

/// What a check has covered. How far the threads overlapped is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConcurrentStats {
    /// Operations of all threads.
    pub operations: u64,
    /// What the counter holds at the end.
    pub increments: u64,
    /// Batches that were applied to the shared keys.
    pub batches: u64,
}

/// Runs `operations` seeded operations in each of `threads` threads (at least one) over `store`,
/// which must be empty.
///
/// # Errors
/// The first answer that differs from what the thread knows, or a broken rule of the module.
pub fn compare_concurrent(
    store: &dyn Store,
    seed: u64,
    threads: u32,
    operations: u64,
) -> Result<ConcurrentStats, Mismatch> {
    let threads = threads.max(1);
    let run = |thread| Worker::new(store, seed, thread).run(operations);
    in_threads(threads, &run)?;

    let increments = u64::from(threads) * operations.div_ceil(COUNT_EVERY);
    let counter = Worker::new(store, seed, threads);
    counter.check_counter(increments)?;

    for round in 0..BATCH_ROUNDS {
        in_threads(threads, &|thread| Worker::new(store, seed, thread).apply_round(round))?;
        counter.check_batch_keys(round)?;
    }
    Ok(ConcurrentStats {
        operations: u64::from(threads) * operations,
        increments,
        batches: u64::from(threads) * BATCH_ROUNDS * BATCHES_PER_ROUND,
    })
}

/// Runs `work` in every thread and returns the first failure once all have ended.
fn in_threads(
    threads: u32,
    work: &(dyn Fn(u32) -> Result<(), Mismatch> + Sync),
) -> Result<(), Mismatch> {
    thread::scope(|scope| {
        let handles: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let results: Vec<_> = handles.into_iter().map(thread::ScopedJoinHandle::join).collect();
        results.into_iter().try_for_each(|result| match result {
            Ok(outcome) => outcome,
            Err(panic) => resume_unwind(panic),
        })
    })
}

/// One thread's part.
struct Worker<'a> {
    store: &'a dyn Store,
    seed: u64,
    thread: u32,
    operation: u64,
    prefix: Bytes,
}

impl<'a> Worker<'a> {
    fn new(store: &'a dyn Store, seed: u64, thread: u32) -> Self {
        Worker { store, seed, thread, operation: 0, prefix: format!("t{thread}/").into_bytes() }
    }

    fn run(mut self, operations: u64) -> Result<(), Mismatch> {
        let model = ModelStore::new();
        let mut oracle = self.check("session", model.session())?;
        let mut session = self.check("session", self.store.session())?;
        let rng = Rng::stream(self.seed, Phase::Run, self.thread, 0);
        let mut generator = Generator::new(rng, &self.prefix);
        while self.operation < operations {
            if self.operation.is_multiple_of(COUNT_EVERY) {
                self.check("counter", add_one(session.as_mut()))?;
            }
            if generator.below(FULL_SCAN_EVERY) == 0 {
                self.compare_all(session.as_mut(), oracle.as_mut())?;
            } else {
                let operation = generator.operation();
                let expected = self.check("the model", perform(oracle.as_mut(), &operation))?;
                let found = perform(session.as_mut(), &operation);
                self.compare(&operation.to_string(), &expected, found)?;
            }
            self.operation += 1;
        }
        let own =
            Range { low: self.prefix.clone(), high: after_prefix(&self.prefix), ..Range::all() };
        let own = Operation::Scan(own);
        let expected = self.check("the model", perform(oracle.as_mut(), &own))?;
        self.compare("all keys of the thread", &expected, perform(session.as_mut(), &own))
    }

    /// Scans the whole store: strictly ascending keys, and among them exactly the thread's own.
    fn compare_all(
        &self,
        session: &mut dyn Session,
        oracle: &mut dyn Session,
    ) -> Result<(), Mismatch> {
        let all = Operation::Scan(Range::all());
        let expected = self.check("the model", perform(oracle, &all))?;
        let mut found = self.check("scan of the store", perform(session, &all))?;
        if let Answer::Rows(rows) = &mut found {
            if let Some(at) = rows.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
                let words = format!("row {} is not above row {at}", at + 1);
                let answers = ("ascending keys".to_owned(), words);
                return Err(self.mismatch("scan of the store", answers));
            }
            rows.retain(|(key, _)| key.starts_with(&self.prefix));
        }
        self.compare("scan of the store, own keys", &expected, Ok(found))
    }

    fn check_counter(&self, expected: u64) -> Result<(), Mismatch> {
        let mut session = self.check("session", self.store.session())?;
        let counter = Operation::Get(COUNTER_KEY.to_vec());
        let found = self.check("counter", perform(session.as_mut(), &counter))?;
        let expected = (expected > 0).then(|| expected.to_le_bytes().to_vec());
        if found == Answer::Value(expected.clone()) {
            return Ok(());
        }
        let words = |answer: &Answer| match answer {
            Answer::Value(value) => count_of(value.as_deref()).to_string(),
            other => other.lines().concat(),
        };
        let answers = (words(&Answer::Value(expected)), words(&found));
        Err(self.mismatch("counter: every update counts once", answers))
    }

    fn apply_round(&self, round: u64) -> Result<(), Mismatch> {
        let mut session = self.check("session", self.store.session())?;
        let mut batch = Batch::new();
        for number in 0..BATCHES_PER_ROUND {
            batch.clear();
            let value = format!("round {round} thread {} batch {number}", self.thread);
            for key in 0..BATCH_KEYS {
                batch.put(&batch_key(key), value.as_bytes());
            }
            self.check("batch", session.apply(&batch))?;
        }
        Ok(())
    }

    fn check_batch_keys(&self, round: u64) -> Result<(), Mismatch> {
        let mut session = self.check("session", self.store.session())?;
        let keys = Operation::MultiGet((0..BATCH_KEYS).map(batch_key).collect());
        let found = self.check("batch", perform(session.as_mut(), &keys))?;
        let Answer::Values(values) = &found else {
            return Err(self.mismatch("batch", ("values".to_owned(), found.lines().concat())));
        };
        let expected = Answer::Values(vec![values[0].clone(); values.len()]);
        if values[0].is_some() && found == expected {
            return Ok(());
        }
        let what = format!("round {round}: all keys of a batch hold the value of one batch");
        Err(self.mismatch(&what, difference(&expected, &found)))
    }

    fn compare(
        &self,
        what: &str,
        expected: &Answer,
        found: StoreResult<Answer>,
    ) -> Result<(), Mismatch> {
        let found = self.check(what, found)?;
        if expected.allows(&found) {
            return Ok(());
        }
        Err(self.mismatch(what, difference(expected, &found)))
    }

    fn check<T>(&self, what: &str, result: StoreResult<T>) -> Result<T, Mismatch> {
        result.map_err(|error| {
            self.mismatch(what, ("no error".to_owned(), format!("error: {error}")))
        })
    }

    fn mismatch(&self, what: &str, answers: (String, String)) -> Mismatch {
        let what = format!("thread {}: {what}", self.thread);
        Mismatch::new(self.store, (self.seed, self.operation), what, answers)
    }
}

fn batch_key(index: u64) -> Bytes {
    [BATCH_PREFIX, index.to_string().as_bytes()].concat()
}

fn count_of(value: Option<&[u8]>) -> u64 {
    let bytes = value.and_then(|value| <[u8; 8]>::try_from(value).ok());
    bytes.map_or(0, u64::from_le_bytes)
}

fn add_one(session: &mut dyn Session) -> StoreResult<()> {
    session.update(COUNTER_KEY, &mut |current, buffer| {
        buffer.extend_from_slice(&(count_of(current) + 1).to_le_bytes());
        Update::Put
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_passes_with_any_number_of_threads() {
        for threads in [0, 1, 4] {
            let stats = compare_concurrent(&ModelStore::new(), 3, threads, 300).unwrap();
            let threads = u64::from(threads.max(1));
            assert_eq!(stats.operations, threads * 300);
            assert_eq!(stats.increments, threads * 38);
            assert_eq!(stats.batches, threads * BATCH_ROUNDS * BATCHES_PER_ROUND);
        }
    }

    #[test]
    fn a_foreign_key_under_a_prefix_is_found() {
        let store = ModelStore::new();
        store.session().unwrap().put(b"t1/left over", b"1").unwrap();
        let mismatch = compare_concurrent(&store, 3, 2, 200).unwrap_err();
        assert!(mismatch.what.starts_with("thread 1: "), "{mismatch}");
    }
}
