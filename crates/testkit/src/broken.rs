//! Checks of the checks: stores with one planted bug each, every one of which must be reported.
//!
//! A [`Broken`] store is the model with one method bent. The bugs that need two threads do not
//! leave the interleaving to chance: two sessions meet at a barrier in the middle of the operation.

use crate::{check_scripts, compare_concurrent, compare_random, selftest};
use keyrack_store::{
    Batch, BatchOp, Durability, ModelStore, Removed, Result, Session, Snapshot, Store, StoreInfo,
    Update, WriteOptions,
};
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// None: the wrapper itself must pass.
    Correct,
    /// A scan includes its upper bound.
    UpperBoundIncluded,
    /// A descending scan leaves its lower bound out.
    LowerBoundLeftOut,
    /// A put over a present key is lost.
    OverwriteLost,
    /// A scan skips the second key of each range.
    KeySkipped,
    /// A removal claims that the key was there.
    RemoveLies,
    /// A removal does nothing, and says that it did not look.
    RemoveForgets,
    /// The stopping row is not counted.
    StopNotCounted,
    /// Keys are cut to sixteen bytes.
    KeysCut,
    /// NULs at the end of a key are dropped.
    NulsDropped,
    /// An empty value reads as absent.
    EmptyIsAbsent,
    /// A batch is applied from its end.
    BatchReversed,
    /// A batch keeps the first write of each key.
    BatchFirstWins,
    /// `multi_get` answers a repeated key once.
    RepeatsSkipped,
    /// The buffer of an update still holds the last value.
    BufferNotCleared,
    /// A snapshot shows what is written after it.
    SnapshotLive,
    /// Long values are refused.
    LongRefused,
    /// An update is a get, and later a put.
    UpdateTorn,
    /// A batch is applied in two halves.
    BatchTorn,
    /// A synced put is lost.
    SyncedPutLost,
    /// A store says that it has no synced put, and has one.
    SyncedPutUnannounced,
}

struct Broken {
    model: ModelStore,
    bug: Bug,
    sessions: AtomicUsize,
    meeting: Barrier,
}

impl Broken {
    fn new(bug: Bug) -> Self {
        let (model, sessions) = (ModelStore::new(), AtomicUsize::new(0));
        Broken { model, bug, sessions, meeting: Barrier::new(2) }
    }
}

impl Store for Broken {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let inner = self.model.session()?;
        Ok(Box::new(BrokenSession { store: self, inner, number, met: false }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new("broken 1", Durability::None)
            .with_synced_puts(self.bug == Bug::SyncedPutLost)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        if self.bug == Bug::SnapshotLive {
            return Ok(Some(Box::new(LiveSnapshot { model: &self.model })));
        }
        self.model.snapshot()
    }
}

struct LiveSnapshot<'a> {
    model: &'a ModelStore,
}

impl Snapshot for LiveSnapshot<'_> {
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.model.session()?.get(key, visit)
    }

    fn scan(&self, low: &[u8], high: Option<&[u8]>, visit: Visit<'_>) -> Result<u64> {
        self.model.session()?.scan(low, high, visit)
    }
}

struct BrokenSession<'a> {
    store: &'a Broken,
    inner: Box<dyn Session + 'a>,
    /// The how-manieth session of the store this is.
    number: usize,
    /// Whether this session has been at the meeting for the counter.
    met: bool,
}

impl BrokenSession<'_> {
    fn bug(&self) -> Bug {
        self.store.bug
    }

    fn key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        match self.bug() {
            Bug::KeysCut => &key[..key.len().min(16)],
            Bug::NulsDropped => {
                let end = key.iter().rposition(|&byte| byte != 0);
                &key[..end.map_or(0, |end| end + 1)]
            }
            _ => key,
        }
    }

    fn apply_each<'b>(&mut self, ops: impl Iterator<Item = BatchOp<'b>>) -> Result<()> {
        for op in ops {
            match op {
                BatchOp::Put(key, value) => self.inner.put(key, value)?,
                BatchOp::Remove(key) => {
                    self.inner.remove(key)?;
                }
            }
        }
        Ok(())
    }
}

impl Session for BrokenSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let key = self.key(key);
        if self.bug() == Bug::EmptyIsAbsent {
            let mut empty = false;
            let hit = self.inner.get(key, &mut |value| {
                empty = value.is_empty();
                if !empty {
                    visit(value);
                }
            })?;
            return Ok(hit && !empty);
        }
        self.inner.get(key, visit)
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        for (index, key) in keys.iter().enumerate() {
            if self.bug() == Bug::RepeatsSkipped && keys[..index].contains(key) {
                continue;
            }
            if !self.get(key, &mut |value| visit(index, Some(value)))? {
                visit(index, None);
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let key = self.key(key);
        if self.bug() == Bug::OverwriteLost && self.inner.get(key, &mut |_| {})? {
            return Ok(());
        }
        if self.bug() == Bug::LongRefused && value.len() > 10_000 {
            return Err(keyrack_store::Error::usage("value too long"));
        }
        self.inner.put(key, value)
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        match self.bug() {
            _ if !options.sync => self.put(key, value),
            Bug::SyncedPutLost => Ok(()),
            Bug::SyncedPutUnannounced => self.inner.put(key, value),
            _ => self.inner.put_with(key, value, options),
        }
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        match self.bug() {
            Bug::RemoveLies => self.inner.remove(key).map(|_| Removed::Existed),
            Bug::RemoveForgets => Ok(Removed::Unknown),
            _ => self.inner.remove(self.key(key)),
        }
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        let key = self.key(key);
        match self.bug() {
            Bug::BufferNotCleared => self.inner.update(key, &mut |current, buffer| {
                buffer.extend_from_slice(current.unwrap_or_default());
                decide(current, buffer)
            }),
            Bug::UpdateTorn if key == crate::concurrent::COUNTER_KEY && !self.met => {
                self.met = true;
                let mut current = None;
                self.inner.get(key, &mut |value| current = Some(value.to_vec()))?;
                self.store.meeting.wait();
                let mut buffer = Vec::new();
                decide(current.as_deref(), &mut buffer);
                self.inner.put(key, &buffer)?;
                // Neither counts on before the other has written, so that exactly one is lost.
                self.store.meeting.wait();
                Ok(())
            }
            _ => self.inner.update(key, decide),
        }
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: Visit<'_>) -> Result<u64> {
        let low = self.key(low);
        match self.bug() {
            Bug::UpperBoundIncluded => {
                let high = high.map(|high| [high, b"\0"].concat());
                self.inner.scan(low, high.as_deref(), visit)
            }
            Bug::KeySkipped => {
                let (mut row, mut visited) = (0, 0);
                self.inner.scan(low, high, &mut |key, value| {
                    row += 1;
                    if row == 2 {
                        return ControlFlow::Continue(());
                    }
                    visited += 1;
                    visit(key, value)
                })?;
                Ok(visited)
            }
            Bug::StopNotCounted => {
                let mut stopped = 0;
                let visited = self.inner.scan(low, high, &mut |key, value| {
                    let flow = visit(key, value);
                    stopped = u64::from(flow.is_break());
                    flow
                })?;
                Ok(visited - stopped)
            }
            _ => self.inner.scan(low, high, visit),
        }
    }

    fn scan_rev(&mut self, low: &[u8], high: Option<&[u8]>, visit: Visit<'_>) -> Result<u64> {
        if self.bug() == Bug::LowerBoundLeftOut {
            return self.inner.scan_rev(&[low, b"\0"].concat(), high, visit);
        }
        self.inner.scan_rev(self.key(low), high, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let ops: Vec<BatchOp<'_>> = batch.iter().collect();
        match self.bug() {
            Bug::BatchReversed => self.apply_each(ops.into_iter().rev()),
            Bug::BatchFirstWins => {
                let first =
                    |index: usize| !ops[..index].iter().any(|op| op.key() == ops[index].key());
                let kept: Vec<_> = (0..ops.len()).filter(|&i| first(i)).map(|i| ops[i]).collect();
                self.apply_each(kept.into_iter())
            }
            Bug::BatchTorn
                if ops
                    .first()
                    .is_some_and(|op| op.key().starts_with(crate::concurrent::BATCH_PREFIX)) =>
            {
                // One session writes its halves in order and the other the opposite way round, so
                // that each half is last written by a different one.
                let (mut early, mut late) = ops.split_at(ops.len() / 2);
                if self.number % 2 == 1 {
                    std::mem::swap(&mut early, &mut late);
                }
                self.apply_each(early.iter().copied())?;
                self.store.meeting.wait();
                self.apply_each(late.iter().copied())?;
                // Neither starts its next batch before the other has ended this one.
                self.store.meeting.wait();
                Ok(())
            }
            _ => self.inner.apply(batch),
        }
    }
}

const SEED: u64 = 11;

#[test]
fn the_wrapper_without_a_bug_passes_everything() {
    let open = || Ok(Box::new(Broken::new(Bug::Correct)) as Box<dyn Store>);
    let mut lines = Vec::new();
    assert!(selftest(&open, SEED, 2000, &mut |line| lines.push(line.to_owned())), "{lines:?}");
}

#[test]
fn bugs_of_one_thread_are_reported_by_scripts_and_by_random_operations() {
    let bugs = [
        Bug::UpperBoundIncluded,
        Bug::LowerBoundLeftOut,
        Bug::OverwriteLost,
        Bug::KeySkipped,
        Bug::RemoveLies,
        Bug::RemoveForgets,
        Bug::StopNotCounted,
        Bug::KeysCut,
        Bug::NulsDropped,
        Bug::EmptyIsAbsent,
        Bug::BatchReversed,
        Bug::BatchFirstWins,
        Bug::RepeatsSkipped,
        Bug::BufferNotCleared,
        Bug::SnapshotLive,
        Bug::LongRefused,
    ];
    for bug in bugs {
        let open = move || Ok(Box::new(Broken::new(bug)) as Box<dyn Store>);
        let report = check_scripts(&open);
        assert!(!report.failed.is_empty(), "{bug:?} passes every script");
        for failure in &report.failed {
            assert!(
                failure.diff.contains("\n+ ") || failure.diff.contains("\n- "),
                "{bug:?}: {}",
                failure.diff
            );
        }
        let random = compare_random(&Broken::new(bug), SEED, 4000);
        let mismatch = random.expect_err(&format!("{bug:?} passes the random comparison"));
        assert_eq!(mismatch.seed, SEED);
        assert_ne!(mismatch.expected, mismatch.found, "{bug:?}");
        // The same seed finds the same operation again.
        assert_eq!(compare_random(&Broken::new(bug), SEED, 4000), Err(mismatch), "{bug:?}");
        assert!(!selftest(&open, SEED, 400, &mut |_| {}), "{bug:?} passes the self-test");
    }
}

#[test]
fn an_update_that_is_not_atomic_is_reported() {
    let store = Broken::new(Bug::UpdateTorn);
    let mismatch = compare_concurrent(&store, SEED, 2, 64).unwrap_err();
    assert!(mismatch.what.contains("counter"), "{mismatch}");
    assert_eq!((mismatch.expected.as_str(), mismatch.found.as_str()), ("16", "15"));
}

#[test]
fn a_batch_that_is_not_atomic_is_reported() {
    let store = Broken::new(Bug::BatchTorn);
    let mismatch = compare_concurrent(&store, SEED, 2, 8).unwrap_err();
    assert!(mismatch.what.contains("all keys of a batch"), "{mismatch}");
}

#[test]
fn wrong_answers_show_among_threads_too() {
    for bug in [Bug::OverwriteLost, Bug::UpperBoundIncluded, Bug::KeySkipped, Bug::KeysCut] {
        assert!(compare_concurrent(&Broken::new(bug), SEED, 2, 2000).is_err(), "{bug:?}");
    }
}

#[test]
fn a_synced_put_that_is_lost_or_not_announced_is_reported() {
    for (bug, words) in [
        (Bug::SyncedPutLost, "wanted Value(Some([]))"),
        (Bug::SyncedPutUnannounced, "says that it has none"),
    ] {
        let open = move || Ok(Box::new(Broken::new(bug)) as Box<dyn Store>);
        let mut lines = Vec::new();
        assert!(!selftest(&open, SEED, 400, &mut |line| lines.push(line.to_owned())), "{bug:?}");
        let failed: Vec<_> = lines.iter().filter(|line| line.starts_with("FAILED")).collect();
        assert!(failed.len() == 1 && failed[0].contains(words), "{lines:?}");
    }
}
