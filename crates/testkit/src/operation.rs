//! Operations as data and their answers as data, so that one operation can be given to two stores
//! and the answers compared or printed.
//!
//! [`perform`] also watches the manners of the call itself: a value is lent once, each index of a
//! `multi_get` is visited once, a scan returns the number of rows that it visited, and the buffer
//! of an update comes cleared. What breaks them is [`Answer::Broken`] and equals no right answer.

use crate::token::{abbreviate, render};
use keyrack_store::{Batch, BatchOp, Removed, Result, Session, Snapshot, Update};
use std::fmt;
use std::ops::ControlFlow;

/// A key or value.
pub(crate) type Bytes = Vec<u8>;

/// A half-open range of keys, a direction, and where the visitor breaks off.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) low: Bytes,
    pub(crate) high: Option<Bytes>,
    /// The visitor breaks off at this row, counted from 1.
    pub(crate) stop: Option<u64>,
    pub(crate) reverse: bool,
}

impl Range {
    /// All keys, ascending.
    pub(crate) fn all() -> Self {
        Range { low: Vec::new(), high: None, stop: None, reverse: false }
    }
}

/// What the closure of an update does.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    Keep,
    Remove,
    Put(Bytes),
    /// The old value, or nothing, followed by these bytes.
    Append(Bytes),
    /// Removes a present key and stores these bytes under an absent one.
    Toggle(Bytes),
}

/// One call of a session.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Get(Bytes),
    MultiGet(Vec<Bytes>),
    Put(Bytes, Bytes),
    Remove(Bytes),
    Update(Bytes, Decision),
    Scan(Range),
    Apply(Batch),
}

/// What the call returned and showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Value(Option<Bytes>),
    Values(Vec<Option<Bytes>>),
    Removed(Removed),
    /// The value that the closure of an update was shown.
    Saw(Option<Bytes>),
    Rows(Vec<(Bytes, Bytes)>),
    /// The call broke its own rules, in words.
    Broken(String),
}

/// Makes the call.
pub(crate) fn perform(session: &mut dyn Session, operation: &Operation) -> Result<Answer> {
    Ok(match operation {
        Operation::Get(key) => looked_up(|visit| session.get(key, visit))?,
        Operation::MultiGet(keys) => multi_get(session, keys)?,
        Operation::Put(key, value) => {
            session.put(key, value)?;
            Answer::Done
        }
        Operation::Remove(key) => Answer::Removed(session.remove(key)?),
        Operation::Update(key, decision) => update(session, key, decision)?,
        Operation::Scan(range) => scanned(range, |visit| {
            let high = range.high.as_deref();
            if range.reverse {
                session.scan_rev(&range.low, high, visit)
            } else {
                session.scan(&range.low, high, visit)
            }
        })?,
        Operation::Apply(batch) => {
            session.apply(batch)?;
            Answer::Done
        }
    })
}

/// As [`perform`], for a get from a snapshot.
pub(crate) fn snapshot_get(snapshot: &dyn Snapshot, key: &[u8]) -> Result<Answer> {
    looked_up(|visit| snapshot.get(key, visit))
}

/// As [`perform`], for a scan of a snapshot, which has one direction.
pub(crate) fn snapshot_scan(snapshot: &dyn Snapshot, range: &Range) -> Result<Answer> {
    scanned(range, |visit| snapshot.scan(&range.low, range.high.as_deref(), visit))
}

fn looked_up(get: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<bool>) -> Result<Answer> {
    let mut lent = Vec::new();
    let hit = get(&mut |value| lent.push(value.to_vec()))?;
    Ok(match (hit, lent.len()) {
        (true, 1) => Answer::Value(lent.pop()),
        (false, 0) => Answer::Value(None),
        (_, times) => Answer::Broken(format!("get returned {hit} and lent a value {times} times")),
    })
}

fn multi_get(session: &mut dyn Session, keys: &[Bytes]) -> Result<Answer> {
    let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut values: Vec<Option<Option<Bytes>>> = vec![None; keys.len()];
    let mut broken = None;
    session.multi_get(&slices, &mut |index, value| match values.get_mut(index) {
        Some(slot @ None) => *slot = Some(value.map(<[u8]>::to_vec)),
        Some(Some(_)) => broken = Some(format!("index {index} was visited twice")),
        None => broken = Some(format!("index {index} of {} was visited", keys.len())),
    })?;
    if let Some(missing) = values.iter().position(Option::is_none) {
        broken = broken.or_else(|| Some(format!("index {missing} was not visited")));
    }
    Ok(match broken {
        Some(why) => Answer::Broken(why),
        None => Answer::Values(values.into_iter().flatten().collect()),
    })
}

fn update(session: &mut dyn Session, key: &[u8], decision: &Decision) -> Result<Answer> {
    let mut saw = None;
    let mut dirty = false;
    session.update(key, &mut |current, buffer| {
        dirty |= !buffer.is_empty();
        saw = Some(current.map(<[u8]>::to_vec));
        match decision {
            Decision::Keep => Update::Keep,
            Decision::Remove => Update::Remove,
            Decision::Toggle(_) if current.is_some() => Update::Remove,
            Decision::Put(value) | Decision::Toggle(value) => {
                buffer.extend_from_slice(value);
                Update::Put
            }
            Decision::Append(tail) => {
                buffer.extend_from_slice(current.unwrap_or_default());
                buffer.extend_from_slice(tail);
                Update::Put
            }
        }
    })?;
    Ok(match saw {
        None => Answer::Broken("the closure was not called".to_owned()),
        Some(_) if dirty => Answer::Broken("the buffer was not cleared".to_owned()),
        Some(value) => Answer::Saw(value),
    })
}

fn scanned(
    range: &Range,
    scan: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<u64>,
) -> Result<Answer> {
    let mut rows: Vec<(Bytes, Bytes)> = Vec::new();
    let returned = scan(&mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        if range.stop.is_some_and(|stop| rows.len() as u64 >= stop) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(if returned == rows.len() as u64 {
        Answer::Rows(rows)
    } else {
        Answer::Broken(format!("the scan returned {returned} and visited {} rows", rows.len()))
    })
}

impl Answer {
    /// Whether `found` is an answer that the contract allows where `self` is the model's.
    pub(crate) fn allows(&self, found: &Answer) -> bool {
        matches!((self, found), (Answer::Removed(_), Answer::Removed(Removed::Unknown)))
            || self == found
    }

    /// The answer as lines of a script.
    pub(crate) fn lines(&self) -> Vec<String> {
        let value = |value: &Option<Bytes>| value.as_deref().map_or("absent".to_owned(), render);
        match self {
            Answer::Done => vec!["ok".to_owned()],
            Answer::Value(found) => vec![value(found)],
            Answer::Values(values) => {
                let lines = values.iter().enumerate();
                let lines = lines.map(|(index, found)| format!("{index}: {}", value(found)));
                lines.chain([format!("keys: {}", values.len())]).collect()
            }
            Answer::Removed(Removed::Existed) => vec!["existed".to_owned()],
            Answer::Removed(Removed::Absent) => vec!["absent".to_owned()],
            Answer::Removed(Removed::Unknown) => vec!["unknown".to_owned()],
            Answer::Saw(found) => vec![format!("saw {}", value(found))],
            Answer::Rows(rows) => {
                let lines = rows.iter().map(|(k, v)| format!("{} = {}", render(k), render(v)));
                lines.chain([format!("rows: {}", rows.len())]).collect()
            }
            Answer::Broken(why) => vec![format!("broken: {why}")],
        }
    }
}

/// Where `expected` and `found` part, as two short texts.
pub(crate) fn difference(expected: &Answer, found: &Answer) -> (String, String) {
    match (expected, found) {
        (Answer::Rows(a), Answer::Rows(b)) => {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
            let row = |rows: &[(Bytes, Bytes)]| match rows.get(at) {
                None => format!("end after {at} rows"),
                Some((key, value)) => {
                    let (key, value) = (abbreviate(key), abbreviate(value));
                    format!("row {at} of {}: {key} = {value}", rows.len())
                }
            };
            (row(a), row(b))
        }
        (Answer::Values(a), Answer::Values(b)) => {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_default();
            let slot = |values: &[Option<Bytes>]| {
                let value = values.get(at).and_then(Option::as_deref);
                format!("index {at}: {}", value.map_or("absent".to_owned(), abbreviate))
            };
            (slot(a), slot(b))
        }
        _ => (summary(expected), summary(found)),
    }
}

fn summary(answer: &Answer) -> String {
    match answer {
        Answer::Value(Some(value)) => abbreviate(value),
        Answer::Saw(Some(value)) => format!("saw {}", abbreviate(value)),
        Answer::Rows(rows) => format!("rows: {}", rows.len()),
        Answer::Values(values) => format!("keys: {}", values.len()),
        other => other.lines().concat(),
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let high = self.high.as_deref().map_or("*".to_owned(), abbreviate);
        let verb = if self.reverse { "rev" } else { "scan" };
        write!(f, "{verb} {} {high}", abbreviate(&self.low))?;
        self.stop.map_or(Ok(()), |stop| write!(f, " stop {stop}"))
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Get(key) => write!(f, "get {}", abbreviate(key)),
            Operation::MultiGet(keys) => {
                f.write_str("mget")?;
                keys.iter().try_for_each(|key| write!(f, " {}", abbreviate(key)))
            }
            Operation::Put(key, value) => {
                write!(f, "put {} {}", abbreviate(key), abbreviate(value))
            }
            Operation::Remove(key) => write!(f, "remove {}", abbreviate(key)),
            Operation::Update(key, decision) => {
                let key = abbreviate(key);
                match decision {
                    Decision::Keep => write!(f, "update {key} keep"),
                    Decision::Remove => write!(f, "update {key} remove"),
                    Decision::Put(v) => write!(f, "update {key} put {}", abbreviate(v)),
                    Decision::Append(v) => write!(f, "update {key} append {}", abbreviate(v)),
                    Decision::Toggle(v) => write!(f, "update {key} toggle {}", abbreviate(v)),
                }
            }
            Operation::Scan(range) => range.fmt(f),
            Operation::Apply(batch) => {
                f.write_str("batch")?;
                batch.iter().try_for_each(|op| match op {
                    BatchOp::Put(key, value) => {
                        write!(f, " put {} {}", abbreviate(key), abbreviate(value))
                    }
                    BatchOp::Remove(key) => write!(f, " remove {}", abbreviate(key)),
                })
            }
        }
    }
}
