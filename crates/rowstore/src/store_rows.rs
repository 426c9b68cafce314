//! Rows as the values of any store: how a server serves an engine that knows nothing of rows.
//!
//! ```text
//!   RowSession::update --> Session::update   the value is the row's bytes
//!   begin_group ... flush --> apply          one batch
//! ```
//!
//! What a write survives is what the store promises, when the call returns: positions say nothing,
//! and every position is durable. In a group writes wait in the session, which sees them, for the
//! flush that applies them as one batch; others see them from then on. So whoever keeps others away
//! from the keys of a group does so until it is flushed.
//!
//! **Versions** come from one clock, which begins at the milliseconds since 1970, times 2^20, and
//! then only counts; a row found with a larger one carries the clock along. So versions grow over
//! removals and restarts, unless a million writes come in each millisecond, or the time is set
//! back.
//!
//! A value that is no row was not written through here. It is served as corruption, not as a miss.

use crate::row::set_version;
use crate::{Change, Position, Row, RowBuf, RowSession, Rows};
use keyrack_measure::wall::unix_ms;
use keyrack_store::{Batch, Durability, Error, Result, Session, Store, Update};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Versions in a millisecond.
const VERSIONS_LOG2: u32 = 20;
/// What a group may hold.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// Keys that are collected before they are removed.
const CLEAR_KEYS_MAX: usize = 1024;

/// Rows in a store of any kind.
pub struct StoreRows {
    store: Box<dyn Store>,
    clock: AtomicU64,
    /// Keys that are there.
    keys: AtomicI64,
}

impl std::fmt::Debug for StoreRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreRows").field("store", &self.store.version()).finish_non_exhaustive()
    }
}

impl StoreRows {
    /// The rows of a store that holds rows already, or nothing. Counts them: O(rows).
    ///
    /// # Errors
    /// [`Error::Corruption`] for a value that is no row; those of a scan.
    pub fn new(store: Box<dyn Store>) -> Result<Self> {
        let mut clock = unix_ms() << VERSIONS_LOG2;
        let mut bad = None;
        let mut session = store.session()?;
        let keys = session.scan(b"", None, &mut |key, value| match Row::check(value) {
            Some(row) => {
                clock = clock.max(row.version());
                ControlFlow::Continue(())
            }
            None => {
                bad = Some(no_row(store.data_dir(), key));
                ControlFlow::Break(())
            }
        })?;
        drop(session);
        match bad {
            Some(error) => Err(error),
            None => Ok(StoreRows {
                store,
                clock: AtomicU64::new(clock),
                keys: AtomicI64::new(keys as i64),
            }),
        }
    }

    /// A version above all that were given, and above `old`.
    fn version_after(&self, old: u64) -> u64 {
        let next = |clock: u64| Some(clock.max(old) + 1);
        // Relaxed: only the number matters; the store orders the writes of a key.
        match self.clock.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(clock) | Err(clock) => clock.max(old) + 1,
        }
    }
}

fn no_row(dir: Option<&Path>, key: &[u8]) -> Error {
    let dir = dir.unwrap_or(Path::new("memory"));
    let key = String::from_utf8_lossy(&key[..key.len().min(64)]).into_owned();
    Error::corruption(dir, 0, format!("the value of key {key:?} is no row"))
}

impl Rows for StoreRows {
    fn session(&self) -> Result<Box<dyn RowSession + '_>> {
        Ok(Box::new(StoreSession {
            rows: self,
            session: self.store.session()?,
            now_ms: 0,
            row: RowBuf::new(),
            group: None,
            group_bytes: 0,
        }))
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn version(&self) -> String {
        self.store.version()
    }

    fn len(&self) -> u64 {
        self.keys.load(Ordering::Relaxed).try_into().unwrap_or(0)
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        visit("rows", self.len() as f64);
        self.store.stats(visit);
    }

    fn sync(&self, _: Position) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.store.close()
    }
}

/// Writes that wait for their flush: rows, and removals.
type Group = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

struct StoreSession<'a> {
    rows: &'a StoreRows,
    session: Box<dyn Session + 'a>,
    now_ms: u64,
    row: RowBuf,
    group: Option<Group>,
    /// Bytes of keys and rows in the group.
    group_bytes: usize,
}

impl StoreSession<'_> {
    /// What the group says of a key.
    fn pending(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.group.as_ref()?.get(key).map(|row| row.as_deref())
    }

    /// As [`RowSession::update`], into the group.
    fn update_group(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Change,
    ) -> Result<u64> {
        let mut old = Vec::new();
        let found = match self.pending(key) {
            Some(row) => row.map(|row| old.extend_from_slice(row)).is_some(),
            None => self.session.get(key, &mut |value| old.extend_from_slice(value))?,
        };
        let dir = self.rows.store.data_dir();
        let row =
            if found { Some(Row::check(&old).ok_or_else(|| no_row(dir, key))?) } else { None };
        let now_ms = self.now_ms;
        self.row.clear();
        let (new, version) = match decide(row.filter(|row| !row.is_expired(now_ms)), &mut self.row)
        {
            Change::Keep => return Ok(0),
            Change::Remove if !found => return Ok(0),
            Change::Remove => (None, 0),
            Change::Put => {
                let mut bytes = Vec::new();
                let version = self.rows.version_after(row.map_or(0, |row| row.version()));
                self.row.encode(version, &mut bytes);
                (Some(bytes), version)
            }
        };
        let bytes = key.len() + new.as_ref().map_or(0, Vec::len);
        if bytes > GROUP_BYTES_MAX.saturating_sub(self.group_bytes) {
            return Err(Error::usage(format!(
                "the writes of a group come to more than {GROUP_BYTES_MAX} bytes"
            )));
        }
        self.group_bytes += bytes;
        let added = i64::from(new.is_some()) - i64::from(found);
        self.rows.keys.fetch_add(added, Ordering::Relaxed);
        self.group.get_or_insert_default().insert(key.to_vec(), new);
        Ok(version)
    }

    fn clear_all(&mut self) -> Result<()> {
        let mut from = Vec::new();
        loop {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            self.scan(&from, None, &mut |key, _| {
                keys.push(key.to_vec());
                if keys.len() < CLEAR_KEYS_MAX {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            for key in &keys {
                self.update(key, &mut |_, _| Change::Remove)?;
            }
            match keys.pop() {
                Some(last) => from = last,
                None => return Ok(()),
            }
        }
    }

    fn visit_range(
        &mut self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        if self.group.as_ref().is_some_and(|group| !group.is_empty()) {
            return self.visit_merged((low, high), is_reverse, visit);
        }
        let (mut visited, mut bad) = (0, None);
        let (dir, now_ms) = (self.rows.store.data_dir(), self.now_ms);
        let mut visit = |key: &[u8], value: &[u8]| match Row::check(value) {
            Some(row) if row.is_expired(now_ms) => ControlFlow::Continue(()),
            Some(row) => {
                visited += 1;
                visit(key, row)
            }
            None => {
                bad = Some(no_row(dir, key));
                ControlFlow::Break(())
            }
        };
        if is_reverse {
            self.session.scan_rev(low, high, &mut visit)?;
        } else {
            self.session.scan(low, high, &mut visit)?;
        }
        bad.map_or(Ok(visited), Err)
    }

    /// A scan in the middle of a group. O(rows of the range): such scans are rare, and their ranges
    /// small.
    fn visit_merged(
        &mut self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let mut rows: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        self.session.scan(low, high, &mut |key, value| {
            rows.insert(key.to_vec(), Some(value.to_vec()));
            ControlFlow::Continue(())
        })?;
        if high.is_none_or(|high| low < high)
            && let Some(group) = &self.group
        {
            let range = (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded));
            let pending = group.range::<[u8], _>(range);
            rows.extend(pending.map(|(key, row)| (key.clone(), row.clone())));
        }
        let (mut visited, now_ms) = (0, self.now_ms);
        let mut visit = |(key, row): (&Vec<u8>, &Option<Vec<u8>>)| -> Result<bool> {
            let Some(bytes) = row else { return Ok(true) };
            let row = Row::check(bytes).ok_or_else(|| no_row(None, key))?;
            if row.is_expired(now_ms) {
                return Ok(true);
            }
            visited += 1;
            Ok(visit(key, row).is_continue())
        };
        let mut ascending = rows.iter();
        while let Some(entry) = if is_reverse { ascending.next_back() } else { ascending.next() } {
            if !visit(entry)? {
                break;
            }
        }
        Ok(visited)
    }
}

impl RowSession for StoreSession<'_> {
    fn at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        let (dir, now_ms) = (self.rows.store.data_dir(), self.now_ms);
        let mut outcome = Ok(false);
        let mut look = |value: &[u8]| {
            outcome = match Row::check(value) {
                Some(row) if row.is_expired(now_ms) => Ok(false),
                Some(row) => {
                    visit(row);
                    Ok(true)
                }
                None => Err(no_row(dir, key)),
            };
        };
        match self.pending(key) {
            Some(Some(row)) => look(row),
            Some(None) => {}
            None => {
                self.session.get(key, &mut look)?;
            }
        }
        outcome
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        if self.group.as_ref().is_some_and(|group| !group.is_empty()) {
            for (index, key) in keys.iter().enumerate() {
                if !self.get(key, &mut |row| visit(index, Some(row)))? {
                    visit(index, None);
                }
            }
            return Ok(());
        }
        let (dir, now_ms) = (self.rows.store.data_dir(), self.now_ms);
        let mut bad = None;
        self.session.multi_get(keys, &mut |index, value| {
            let row = value.and_then(Row::check);
            if value.is_some() && row.is_none() {
                bad = Some(no_row(dir, keys[index]));
            }
            visit(index, row.filter(|row| !row.is_expired(now_ms)));
        })?;
        bad.map_or(Ok(()), Err)
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Change,
    ) -> Result<u64> {
        if self.group.is_some() {
            return self.update_group(key, decide);
        }
        let (rows, now_ms, new) = (self.rows, self.now_ms, &mut self.row);
        let (mut version, mut added, mut is_bad) = (0, 0, false);
        self.session.update(key, &mut |old, out| {
            (version, added, is_bad) = (0, 0, false);
            new.clear();
            let row = old.and_then(Row::check);
            if old.is_some() && row.is_none() {
                is_bad = true;
                return Update::Keep;
            }
            match decide(row.filter(|row| !row.is_expired(now_ms)), new) {
                Change::Keep => Update::Keep,
                Change::Remove if old.is_none() => Update::Keep,
                Change::Remove => {
                    added = -1;
                    Update::Remove
                }
                Change::Put => {
                    added = i64::from(old.is_none());
                    version = rows.version_after(row.map_or(0, |row| row.version()));
                    new.encode(0, out);
                    set_version(out, version);
                    Update::Put
                }
            }
        })?;
        if is_bad {
            return Err(no_row(rows.store.data_dir(), key));
        }
        rows.keys.fetch_add(added, Ordering::Relaxed);
        Ok(version)
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.visit_range((low, high), false, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.visit_range((low, high), true, visit)
    }

    fn clear(&mut self) -> Result<()> {
        // At the beginning of time nothing has expired.
        let now_ms = std::mem::take(&mut self.now_ms);
        let outcome = self.clear_all();
        self.now_ms = now_ms;
        outcome
    }

    fn begin_group(&mut self) -> Result<()> {
        self.flush()?;
        self.group = Some(Group::new());
        Ok(())
    }

    fn flush(&mut self) -> Result<Position> {
        let Some(group) = self.group.take() else { return Ok(Position::default()) };
        self.group_bytes = 0;
        let mut batch = Batch::new();
        for (key, row) in &group {
            match row {
                Some(row) => batch.put(key, row),
                None => batch.remove(key),
            }
        }
        if !batch.is_empty() {
            self.session.apply(&batch)?;
        }
        Ok(Position::default())
    }

    fn is_durable(&self, _: Position) -> bool {
        true
    }
}
