//! The oracle: rows under one lock, in a `BTreeMap`. What [`Rows`] promises is what this does.

use crate::collections::{Collections, RowFacts};
use crate::keys;
use crate::user_keys::UserKeys;
use crate::{Collection, Position, Row, RowBuf, RowSession, Rows};
use keyrack_store::{Durability, Result, Update};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows in the memory of one process, for tests.
#[derive(Debug, Default)]
pub struct ModelRows {
    state: Mutex<State>,
    collections: Collections,
}

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    version: u64,
}

impl ModelRows {
    /// No rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows for ModelRows {
    fn session(&self) -> Result<Box<dyn RowSession + '_>> {
        let rows = ModelSession { rows: self, now_ms: 0, before: None };
        Ok(Box::new(UserKeys { rows }))
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    fn version(&self) -> String {
        format!("model {}", env!("CARGO_PKG_VERSION"))
    }

    fn len(&self) -> u64 {
        let state = self.state();
        state.rows.keys().filter(|key| !keys::is_element(key)).count() as u64
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        visit("rows", self.len() as f64);
    }

    fn sync(&self, _: Position) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct ModelSession<'a> {
    rows: &'a ModelRows,
    now_ms: u64,
    /// The rows before the group.
    before: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl ModelSession<'_> {
    fn visit_range(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        descending: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> u64 {
        if high.is_some_and(|high| high <= low) {
            return 0;
        }
        let range = (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded));
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = self
            .rows
            .state()
            .rows
            .range::<[u8], _>(range)
            .map(|(key, row)| (key.clone(), row.clone()))
            .collect();
        if descending {
            found.reverse();
        }
        let mut visited = 0;
        for (key, bytes) in &found {
            let row = Row::of(bytes);
            if row.is_expired(self.now_ms) {
                continue;
            }
            visited += 1;
            if visit(key, row).is_break() {
                break;
            }
        }
        visited
    }
}

impl RowSession for ModelSession<'_> {
    fn at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        let bytes = self.rows.state().rows.get(key).cloned();
        let row = bytes.as_deref().map(Row::of);
        let row = row.filter(|row| !row.is_expired(self.now_ms));
        row.inspect(|row| visit(*row));
        Ok(row.is_some())
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        let mut state = self.rows.state();
        let now_ms = self.now_ms;
        let old = state.rows.get(key).map(|bytes| Row::of(bytes));
        let mut buf = RowBuf::new();
        let live = old.filter(|row| !row.is_expired(now_ms));
        let change = decide(live, &mut buf);
        let mut bytes = Vec::new();
        if change == Update::Put {
            buf.encode_over(live.as_ref(), state.version + 1, &mut bytes);
        }
        if change != Update::Keep {
            self.rows.collections.save(key, old.as_ref());
            let new = (change == Update::Put).then(|| Row::of(&bytes));
            let facts = |row: Option<Row<'_>>| RowFacts::of(key, row.as_ref());
            self.rows.collections.note(key, facts(old), facts(new));
        }
        match change {
            Update::Keep => Ok(0),
            Update::Put => {
                state.version += 1;
                let version = state.version;
                state.rows.insert(key.to_vec(), bytes);
                Ok(version)
            }
            Update::Remove => {
                state.rows.remove(key);
                Ok(0)
            }
        }
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(self.visit_range(low, high, false, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(self.visit_range(low, high, true, visit))
    }

    fn create_collection(&mut self) -> Result<Arc<Collection>> {
        self.rows.collections.create()
    }

    fn collection(&self, id: u64) -> Option<Arc<Collection>> {
        self.rows.collections.get(id)
    }

    fn element_count(&self, collection: &Collection) -> u64 {
        let (start, end) = (keys::prefix(collection.id()), keys::end(collection.id()));
        self.rows.state().rows.range(start.to_vec()..end.to_vec()).count() as u64
    }

    fn clear(&mut self) -> Result<()> {
        self.rows.state().rows.clear();
        self.rows.collections.clear();
        Ok(())
    }

    fn count(&self) -> u64 {
        self.rows.len()
    }

    fn begin_group(&mut self) -> Result<()> {
        self.before = Some(self.rows.state().rows.clone());
        Ok(())
    }

    fn cancel_group(&mut self) {
        if let Some(before) = self.before.take() {
            let mut state = self.rows.state();
            state.rows = before;
            self.rows.collections.forget_counts();
            for (key, bytes) in &state.rows {
                self.rows.collections.load(key, &Row::of(bytes));
            }
        }
    }

    fn commit_group(&mut self) -> Result<()> {
        self.before = None;
        Ok(())
    }

    fn flush(&mut self) -> Result<Position> {
        self.commit_group()?;
        Ok(Position::default())
    }

    fn is_durable(&self, _: Position) -> bool {
        true
    }
}
