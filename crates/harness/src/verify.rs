//! `--verify`: a store whose every answer is checked while a workload runs on it.
//!
//! ```text
//!   workload --> Checked --> the engine's session
//!                   |  \--> a map of what was written (one thread alone)
//!                   \--> an answer that is wrong is a failed call, with the reason
//! ```
//!
//! With one worker the store stands beside a map that is told the same writes, and each lookup,
//! removal, update and row is compared with it; in the end the whole store is. With several workers
//! nobody knows in which order their writes took place, so that ranges alone are checked: rows
//! ascend, none comes twice, all are within the bounds.
//!
//! The checks are within the timed calls. A verified run says whether an engine is right, and its
//! times are no figures.

use keyrack_store::{
    Batch, BatchOp, Error, Removed, Result, Session, Snapshot, Store, StoreInfo, Update,
    WriteOptions,
};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// How much is known of what the answers should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// All: one worker, a store that begins empty.
    Model,
    /// That ranges are in order.
    RangeOrder,
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store that is checked.
pub(crate) struct Checked {
    inner: Box<dyn Store>,
    /// What was written, where it is known.
    rows: Option<RwLock<Rows>>,
}

impl Checked {
    pub(crate) fn new(inner: Box<dyn Store>, verify: Verify) -> Self {
        Checked { inner, rows: (verify == Verify::Model).then(RwLock::default) }
    }

    /// Whole rows are written under the lock, so that a panic leaves none in half.
    fn read(&self) -> Option<RwLockReadGuard<'_, Rows>> {
        Some(self.rows.as_ref()?.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self) -> Option<RwLockWriteGuard<'_, Rows>> {
        Some(self.rows.as_ref()?.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        if let Some(mut rows) = self.write() {
            rows.insert(key.to_vec(), value.to_vec());
        }
    }

    /// Removes a row and says whether it was there; `None` where nobody knows.
    fn remove(&self, key: &[u8]) -> Option<bool> {
        Some(self.write()?.remove(key).is_some())
    }

    /// What is wrong with the value found under `key`.
    fn value_fault(&self, key: &[u8], found: Option<&[u8]>) -> Option<String> {
        let rows = self.read()?;
        let expected = rows.get(key).map(Vec::as_slice);
        (expected != found)
            .then(|| format!("found {}, expected {}", value_text(found), value_text(expected)))
    }

    /// Walks the engine and checks each row.
    fn scan(
        &self,
        session: &mut dyn Session,
        (low, high): (&[u8], Option<&[u8]>),
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        let (mut fault, mut last): (Option<String>, Option<Vec<u8>>) = (None, None);
        // A visitor may read through another session of its thread, which shares this lock.
        let rows = self.read();
        let is_empty = high.is_some_and(|high| high <= low);
        let upper = high.map_or(Bound::Unbounded, Bound::Excluded);
        let range = rows.as_ref().filter(|_| !is_empty);
        let mut expected = range.map(|rows| rows.range::<[u8], _>((Bound::Included(low), upper)));
        let mut is_broken_off = false;
        let mut checked = |key: &[u8], value: &[u8]| {
            let wanted =
                expected.as_mut().map(|rows| if reverse { rows.next_back() } else { rows.next() });
            let is_ordered =
                last.as_deref().is_none_or(|last| if reverse { key < last } else { key > last });
            let is_within = key >= low && high.is_none_or(|high| key < high);
            let wrong = match wanted {
                _ if !is_within => Some("is out of bounds".to_owned()),
                _ if !is_ordered => Some("is out of order".to_owned()),
                None => None,
                Some(None) => Some("was not written, or was removed".to_owned()),
                Some(Some((k, _))) if k != key => {
                    Some(format!("comes where {} is expected", key_text(k)))
                }
                Some(Some((_, v))) if v != value => Some("has another value".to_owned()),
                Some(Some(_)) => None,
            };
            if let Some(wrong) = wrong {
                fault = Some(format!("row {} {wrong}", key_text(key)));
                return ControlFlow::Break(());
            }
            let copy = last.get_or_insert_default();
            copy.clear();
            copy.extend_from_slice(key);
            let flow = visit(key, value);
            is_broken_off = flow.is_break();
            flow
        };
        let visited = if reverse {
            session.scan_rev(low, high, &mut checked)?
        } else {
            session.scan(low, high, &mut checked)?
        };
        let mut rest = expected;
        let missing = match rest.as_mut() {
            Some(rows) if !is_broken_off && fault.is_none() => {
                if reverse {
                    rows.next_back()
                } else {
                    rows.next()
                }
            }
            _ => None,
        };
        let fault = fault.or(missing.map(|(key, _)| format!("row {} is missing", key_text(key))));
        match fault {
            None => Ok(visited),
            Some(fault) => Err(wrong(if reverse { "scan_rev" } else { "scan" }, low, &fault)),
        }
    }
}

fn wrong(call: &str, key: &[u8], fault: &str) -> Error {
    Error::usage(format!("verify: {call} {}: {fault}", key_text(key)))
}

fn key_text(key: &[u8]) -> String {
    format!("'{}'", key.escape_ascii())
}

/// Values may be long: their length and their beginning.
fn value_text(value: Option<&[u8]>) -> String {
    const SHOWN: usize = 24;
    match value {
        None => "nothing".to_owned(),
        Some(value) if value.len() <= SHOWN => format!("'{}'", value.escape_ascii()),
        Some(value) => format!("{} bytes '{}..'", value.len(), value[..SHOWN].escape_ascii()),
    }
}

impl Store for Checked {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(CheckedSession { store: self, inner: self.inner.session()? }))
    }

    fn info(&self) -> StoreInfo {
        self.inner.info()
    }

    fn snapshot(&self) -> Result<Option<Box<dyn Snapshot + '_>>> {
        self.inner.snapshot()
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        self.inner.stats(visit);
    }

    fn data_dir(&self) -> Option<&Path> {
        self.inner.data_dir()
    }

    /// Compares the whole store with the map first.
    fn close(self: Box<Self>) -> Result<()> {
        if self.rows.is_some() {
            let mut session = self.inner.session()?;
            self.scan(session.as_mut(), (b"", None), false, &mut |_, _| ControlFlow::Continue(()))?;
        }
        self.inner.close()
    }
}

struct CheckedSession<'a> {
    store: &'a Checked,
    inner: Box<dyn Session + 'a>,
}

impl Session for CheckedSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut fault = None;
        let found = self.inner.get(key, &mut |value| {
            fault = self.store.value_fault(key, Some(value));
            visit(value);
        })?;
        if !found {
            fault = self.store.value_fault(key, None);
        }
        fault.map_or(Ok(found), |fault| Err(wrong("get", key, &fault)))
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut times = vec![0_u32; keys.len()];
        let mut fault = None;
        self.inner.multi_get(keys, &mut |index, value| {
            times[index] += 1;
            let wrong = self.store.value_fault(keys[index], value);
            fault = fault.take().or(wrong.map(|wrong| (index, wrong)));
            visit(index, value);
        })?;
        let other = times.iter().position(|times| *times != 1);
        let fault = fault.or(other.map(|index| (index, "not answered once".to_owned())));
        fault.map_or(Ok(()), |(index, fault)| Err(wrong("multi_get", keys[index], &fault)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.inner.put(key, value)?;
        self.store.put(key, value);
        Ok(())
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        self.inner.put_with(key, value, options)?;
        self.store.put(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let removed = self.inner.remove(key)?;
        let was_there = self.store.remove(key);
        match (removed, was_there) {
            (Removed::Existed, Some(false)) => {
                Err(wrong("remove", key, "it says that the key was there"))
            }
            (Removed::Absent, Some(true)) => {
                Err(wrong("remove", key, "it says that the key was not there"))
            }
            _ => Ok(removed),
        }
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        // The last time counts: an engine may ask again.
        let (mut fault, mut decided) = (None, (Update::Keep, Vec::new()));
        self.inner.update(key, &mut |old, new| {
            fault = self.store.value_fault(key, old);
            let decision = decide(old, new);
            decided = (decision, new.clone());
            decision
        })?;
        match decided {
            (Update::Keep, _) => {}
            (Update::Put, value) => self.store.put(key, &value),
            (Update::Remove, _) => {
                self.store.remove(key);
            }
        }
        fault.map_or(Ok(()), |fault| Err(wrong("update", key, &fault)))
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.store.scan(self.inner.as_mut(), (low, high), false, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.store.scan(self.inner.as_mut(), (low, high), true, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.inner.apply(batch)?;
        for op in batch.iter() {
            match op {
                BatchOp::Put(key, value) => self.store.put(key, value),
                BatchOp::Remove(key) => {
                    self.store.remove(key);
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }

    fn compact(&mut self) -> Result<bool> {
        self.inner.compact()
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.inner.property(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::ModelStore;
    use std::sync::Arc;

    /// The model, to which somebody writes behind the back of the checks.
    struct Shared(Arc<ModelStore>);

    impl Store for Shared {
        fn session(&self) -> Result<Box<dyn Session + '_>> {
            self.0.session()
        }

        fn info(&self) -> StoreInfo {
            self.0.info()
        }
    }

    fn stores(verify: Verify) -> (Arc<ModelStore>, Checked) {
        let model = Arc::new(ModelStore::new());
        let checked = Checked::new(Box::new(Shared(Arc::clone(&model))), verify);
        for key in [b"a", b"b", b"c"] {
            checked.session().unwrap().put(key, b"1").unwrap();
        }
        (model, checked)
    }

    const GO_ON: fn(&[u8], &[u8]) -> ControlFlow<()> = |_, _| ControlFlow::Continue(());

    /// Calls of a session, each with what it says when row `b` is not what was written.
    fn calls(store: &Checked) -> Vec<(&'static str, String)> {
        let text = |result: Result<()>| result.err().map_or_else(String::new, |e| e.to_string());
        let session = || store.session().unwrap();
        vec![
            ("get", text(session().get(b"b", &mut |_| {}).map(|_| ()))),
            ("multi_get", text(session().multi_get(&[b"a", b"b"], &mut |_, _| {}))),
            ("update", text(session().update(b"b", &mut |_, _| Update::Keep))),
            ("scan", text(session().scan(b"a", None, &mut GO_ON.clone()).map(|_| ()))),
            ("scan_rev", text(session().scan_rev(b"a", None, &mut GO_ON.clone()).map(|_| ()))),
        ]
    }

    #[test]
    fn right_answers_pass() {
        let (_, store) = stores(Verify::Model);
        let mut session = store.session().unwrap();
        let mut batch = Batch::new();
        batch.put(b"d", b"2");
        batch.remove(b"a");
        session.apply(&batch).unwrap();
        session
            .update(b"e", &mut |_, new| {
                new.push(b'3');
                Update::Put
            })
            .unwrap();
        assert_eq!(session.remove(b"c").unwrap(), Removed::Existed);
        assert_eq!(session.scan(b"b", Some(b"e"), &mut GO_ON.clone()).unwrap(), 2);
        assert_eq!(session.scan(b"e", Some(b"b"), &mut GO_ON.clone()).unwrap(), 0);
        let mut once = |_: &[u8], _: &[u8]| ControlFlow::Break(());
        assert_eq!(session.scan_rev(b"", None, &mut once).unwrap(), 1);
        drop(session);
        assert!(calls(&store).iter().all(|(_, said)| said.is_empty()), "{:?}", calls(&store));
        Box::new(store).close().unwrap();
    }

    #[test]
    fn wrong_answers_are_failed_calls() {
        for lost in [true, false] {
            let (model, store) = stores(Verify::Model);
            if lost {
                model.session().unwrap().remove(b"b").map(|_| ()).unwrap();
            } else {
                model.session().unwrap().put(b"b", b"other").unwrap();
            }
            for (call, said) in calls(&store) {
                assert!(said.contains("verify: ") && said.contains('b'), "{call}: {said}");
            }
            let said = Box::new(store).close().unwrap_err().to_string();
            assert!(said.contains("verify: scan"), "{said}");
        }
        let (model, store) = stores(Verify::Model);
        model.session().unwrap().remove(b"c").unwrap();
        let said = store.session().unwrap().remove(b"c").unwrap_err().to_string();
        assert!(said.contains("it says that the key was not there"), "{said}");
        model.session().unwrap().put(b"x", b"9").unwrap();
        let said = store.session().unwrap().scan(b"", None, &mut GO_ON.clone()).unwrap_err();
        assert!(said.to_string().contains("'x' was not written"), "{said}");
    }

    /// What other workers write is not known, and not held against the engine.
    #[test]
    fn with_many_workers_order_alone_is_checked() {
        let (model, store) = stores(Verify::RangeOrder);
        model.session().unwrap().put(b"b", b"other").unwrap();
        assert!(calls(&store).iter().all(|(_, said)| said.is_empty()), "{:?}", calls(&store));
        Box::new(store).close().unwrap();
    }
}
