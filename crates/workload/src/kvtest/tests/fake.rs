//! A client over a map under a lock, which counts, traces, and lies where it is told to.
//!
//! Time is counted in operations: the clock shows how many this client has made, in microseconds,
//! and its time is over after `expire_after` of them.

use super::super::{Client, GlibcRandom, Halt, Row, Value, column_of, with_column};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the map does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Nothing.
    None,
    /// The write of this number (from 0) is lost.
    DropWrite(u64),
    /// The lookup of this number finds nothing.
    LoseAnswer(u64),
    /// The lookup of this number finds another value.
    WrongValue(u64),
    /// The removal of this number leaves the key there and says that it removed it.
    KeepKey(u64),
    /// An insert says of this number that the key was there.
    RefuseInsert(u64),
    /// A batched lookup answers its second place twice.
    AnswerTwice,
    /// A batched lookup leaves its second place out.
    SkipPlace,
    /// Scans leave out the row of this number.
    LoseRow(u64),
    /// Scans show the row of this number twice.
    DoubleRow(u64),
    /// Scans show another value in the row of this number.
    WrongRow(u64),
    /// Scans show the row of this number under a key that is no number.
    StrangeRow(u64),
}

/// What the threads of one run share.
pub(crate) struct Shared {
    pub(crate) tree: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    random: Mutex<GlibcRandom>,
    expired: AtomicBool,
    pub(crate) stop: AtomicBool,
}

impl Shared {
    pub(crate) fn new() -> Arc<Shared> {
        Arc::new(Shared {
            tree: Mutex::default(),
            random: Mutex::default(),
            expired: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    /// A new time begins.
    pub(crate) fn rearm(&self) {
        self.expired.store(false, Ordering::Relaxed);
    }

    fn tree(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.tree.lock().unwrap()
    }
}

pub(crate) struct Fake {
    pub(crate) shared: Arc<Shared>,
    who: (u32, u32),
    pub(crate) limit: u64,
    pub(crate) expire_after: u64,
    pub(crate) first: bool,
    pub(crate) place: u32,
    pub(crate) seed: u64,
    /// The others are through when this client has made so many operations.
    pub(crate) alone_after: u64,
    /// Seconds that a job has let pass.
    pub(crate) paused_s: f64,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) lie: Lie,
    /// A key that is there again, as another thread would put it, right after its removal.
    pub(crate) put_again: Option<Vec<u8>>,
    pub(crate) ops: u64,
    writes: u64,
    lookups: u64,
    removals: u64,
    /// First operations in full, and how many more may come.
    pub(crate) lines: Vec<String>,
    pub(crate) lines_max: usize,
    pub(crate) hash: u64,
    pub(crate) row: Option<Row>,
    pub(crate) notices: Vec<String>,
    /// Names of parameters that the job has looked up.
    pub(crate) asked: RefCell<BTreeSet<String>>,
}

/// The files that jobs find.
pub(crate) const FILES: [(&str, &[u8]); 2] =
    [("urls.txt", include_bytes!("urls.txt")), ("urls10.txt", include_bytes!("urls10.txt"))];

impl Fake {
    pub(crate) fn new(shared: &Arc<Shared>, who: (u32, u32)) -> Fake {
        Fake {
            shared: Arc::clone(shared),
            who,
            limit: u64::MAX,
            expire_after: u64::MAX,
            first: true,
            place: 0,
            seed: 1,
            alone_after: 0,
            paused_s: 0.0,
            params: Vec::new(),
            lie: Lie::None,
            put_again: None,
            ops: 0,
            writes: 0,
            lookups: 0,
            removals: 0,
            lines: Vec::new(),
            lines_max: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            row: None,
            notices: Vec::new(),
            asked: RefCell::default(),
        }
    }

    pub(crate) fn param(mut self, pairs: &str) -> Fake {
        let pairs = pairs.split_whitespace().map(|pair| pair.split_once('=').unwrap());
        self.params = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self
    }

    /// Lets the next operation end the job.
    pub(crate) fn shared_stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Counts an operation, or ends the job.
    fn op(&mut self, name: &str, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        if self.shared.stop.load(Ordering::Relaxed) {
            return Err(Halt::Stopped);
        }
        self.ops += 1;
        let parts = [name.as_bytes(), b" ", key, b" ", value, b"\n"];
        for byte in parts.iter().copied().flatten() {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        if self.lines.len() < self.lines_max {
            self.lines.push(format!("{name} {} {}", text(key), text(value)));
        }
        Ok(())
    }

    fn write(&mut self, key: &[u8], value: &[u8]) {
        let lost = self.lie == Lie::DropWrite(self.writes);
        self.writes += 1;
        if !lost {
            self.shared.tree().insert(key.to_vec(), value.to_vec());
        }
    }

    /// What the map says that it holds.
    fn look(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let number = self.lookups;
        self.lookups += 1;
        let mut value = self.shared.tree().get(key).cloned()?;
        match self.lie {
            Lie::LoseAnswer(lost) if lost == number => return None,
            Lie::WrongValue(wrong) if wrong == number => value.push(b'?'),
            _ => {}
        }
        Some(value)
    }

    fn rows(&self, mut rows: Vec<(Vec<u8>, Vec<u8>)>, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let at = |n: u64| (n as usize).min(rows.len());
        match self.lie {
            _ if rows.is_empty() => {}
            Lie::LoseRow(n) if at(n) < rows.len() => drop(rows.remove(at(n))),
            Lie::DoubleRow(n) if at(n) < rows.len() => {
                let again = rows[at(n)].clone();
                rows.insert(at(n), again);
            }
            Lie::WrongRow(n) if at(n) < rows.len() => {
                let place = at(n);
                rows[place].1.push(b'?');
            }
            Lie::StrangeRow(n) if at(n) < rows.len() => {
                let place = at(n);
                rows[place].0 = b"strange".to_vec();
            }
            _ => {}
        }
        rows.iter().for_each(|(key, value)| visit(key, value));
    }
}

/// A count of a row.
#[track_caller]
pub(crate) fn count(row: &Row, name: &str) -> u64 {
    match row.get(name) {
        Some(Value::Count(count)) => *count,
        other => panic!("{name} is {other:?} in {row:?}"),
    }
}

/// Bytes as the facts show them: `-` for none.
fn text(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".to_owned();
    }
    let show = |byte: &u8| match byte {
        b'!'..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    bytes.iter().map(show).collect()
}

fn cell(key: &[u8], column: u16) -> Vec<u8> {
    [key, format!("@{column}").as_bytes()].concat()
}

impl Client for Fake {
    fn id(&self) -> u32 {
        self.who.0
    }

    fn threads(&self) -> u32 {
        self.who.1
    }

    fn limit(&self) -> u64 {
        self.limit
    }

    fn is_first(&self) -> bool {
        self.first
    }

    fn place(&self) -> u32 {
        self.place
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn is_alone(&self) -> bool {
        self.ops >= self.alone_after
    }

    fn expired(&mut self, stage: u32) -> bool {
        if stage == 0 && self.ops >= self.expire_after {
            self.shared.expired.store(true, Ordering::Relaxed);
        }
        stage == 0 && self.shared.expired.load(Ordering::Relaxed)
    }

    fn seconds(&self) -> f64 {
        self.ops as f64 / 1e6
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.asked.borrow_mut().insert(name.to_owned());
        let found = self.params.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn file(&self, name: &str) -> Option<&[u8]> {
        let path = Client::param(self, name)?;
        FILES.iter().find(|(known, _)| *known == path).map(|(_, text)| *text)
    }

    fn shared_random(&self) -> &Mutex<GlibcRandom> {
        &self.shared.random
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.op("put", key, value)?;
        self.write(key, value);
        Ok(())
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.op("putsync", key, value)?;
        self.write(key, value);
        Ok(())
    }

    fn insert_new(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Halt> {
        self.op("insert", key, value)?;
        let refused = self.lie == Lie::RefuseInsert(self.writes);
        if refused || self.shared.tree().contains_key(key) {
            return Ok(false);
        }
        self.write(key, value);
        Ok(true)
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool, Halt> {
        let value = self.look(key);
        self.op("get", key, value.as_deref().unwrap_or_default())?;
        if let Some(value) = &value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Halt> {
        self.delete_existing(key).map(|_| ())
    }

    fn delete_existing(&mut self, key: &[u8]) -> Result<bool, Halt> {
        self.op("remove", key, b"")?;
        let kept = self.lie == Lie::KeepKey(self.removals);
        self.removals += 1;
        if kept {
            return Ok(true);
        }
        let mut tree = self.shared.tree();
        let removed = tree.remove(key);
        if self.put_again.as_deref() == Some(key) {
            tree.insert(key.to_vec(), b"again".to_vec());
        }
        Ok(removed.is_some())
    }

    fn scan(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        self.op("scan", first, rows_max.to_string().as_bytes())?;
        let tree = self.shared.tree();
        let rows = tree.range(first.to_vec()..).take(rows_max as usize);
        let rows = rows.map(|(key, value)| (key.clone(), value.clone())).collect();
        drop(tree);
        self.rows(rows, visit);
        Ok(())
    }

    fn scan_rev(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        self.op("rscan", first, rows_max.to_string().as_bytes())?;
        let tree = self.shared.tree();
        let rows = tree.range(..=first.to_vec()).rev().take(rows_max as usize);
        let rows = rows.map(|(key, value)| (key.clone(), value.clone())).collect();
        drop(tree);
        self.rows(rows, visit);
        Ok(())
    }

    fn walk(&mut self, rows_max: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64, Halt> {
        self.op("walk", b"", rows_max.to_string().as_bytes())?;
        let tree = self.shared.tree();
        let rows = tree.iter().take(rows_max as usize);
        Ok(rows.map(|(key, value)| visit(key, value)).count() as u64)
    }

    fn walk_rev(
        &mut self,
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.op("rwalk", b"", rows_max.to_string().as_bytes())?;
        let tree = self.shared.tree();
        let rows = tree.iter().rev().take(rows_max as usize);
        Ok(rows.map(|(key, value)| visit(key, value)).count() as u64)
    }

    fn range(
        &mut self,
        low: &[u8],
        high: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.op("range", low, high)?;
        let tree = self.shared.tree();
        let rows = tree.range(low.to_vec()..high.to_vec());
        Ok(rows.map(|(key, value)| visit(key, value)).count() as u64)
    }

    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Halt> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn remove_many(&mut self, keys: &[&[u8]]) -> Result<(), Halt> {
        keys.iter().try_for_each(|key| self.remove(key))
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Halt> {
        // From the end, since any order will do.
        for (index, key) in keys.iter().enumerate().rev() {
            let value = self.look(key);
            self.op("get", key, value.as_deref().unwrap_or_default())?;
            if self.lie == Lie::SkipPlace && index == 1 {
                continue;
            }
            visit(index, value.as_deref());
            if self.lie == Lie::AnswerTwice && index == 1 {
                visit(index, value.as_deref());
            }
        }
        Ok(())
    }

    fn put_column(&mut self, key: &[u8], column: u16, value: &[u8]) -> Result<(), Halt> {
        self.op("putcol", &cell(key, column), value)?;
        let mut row = Vec::new();
        let old = self.shared.tree().get(key).cloned();
        with_column(old.as_deref(), column, value, &mut row);
        self.write(key, &row);
        Ok(())
    }

    fn get_column(
        &mut self,
        key: &[u8],
        column: u16,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Halt> {
        let row = self.look(key).unwrap_or_default();
        let value = column_of(&row, column);
        self.op("getcol", &cell(key, column), value.unwrap_or_default())?;
        if let Some(value) = value {
            visit(value);
        }
        Ok(value.is_some())
    }

    fn compact(&mut self) -> Result<bool, Halt> {
        self.op("compact", b"", b"").map(|()| true)
    }

    fn property(&mut self, name: &str) -> Option<String> {
        (name != "unknown").then(|| format!("{name}:\n1 row"))
    }

    fn count_ops(&mut self, ops: u64) -> Result<(), Halt> {
        (0..ops).try_for_each(|_| self.op("count", b"", b""))
    }

    fn pause(&mut self, seconds: f64) -> Result<(), Halt> {
        self.paused_s += seconds;
        Ok(())
    }

    fn notice(&mut self, text: &str) {
        self.notices.push(text.to_owned());
    }

    fn warn(&mut self, text: &str) {
        self.notices.push(format!("warning: {text}"));
    }

    fn report(&mut self, row: Row) {
        self.row.get_or_insert_with(Row::new).merge(row);
    }
}
