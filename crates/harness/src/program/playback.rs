//! A trace as a workload: each worker runs the operations of a thread of the trace, or its share.
//!
//! | trace | `--threads` | worker t runs |
//! |---|---|---|
//! | ours, of n threads | n, or not given | what thread t did, in its order |
//! | ours, of n threads | 1 | what all did, in the order of their times |
//! | of others | n | the records whose first key falls to t; each key's order is kept |
//!
//! What was before the timed part (load, set-up, warm-up) is run by one worker in the order of its
//! times, untimed. Each worker reads the file for itself; reading is outside of every sample.
//!
//! Values were not recorded. Each is a slice of a pool that compresses as the recorded ones did, at
//! a place that follows from its key and time: every replay of a trace with one seed stores the
//! same bytes, whatever the engine and however many threads. Keys of a space other than the first
//! get five bytes in front, `ff` and the number of the space.

use crate::live::Kind;
use crate::lua::ScriptError;
use crate::verbs::Verbs;
use keyrack_store::{Batch, Removed, Update};
use keyrack_trace::{Format, Outcome, Record, Survey, Trace, Verb, Which, Write};
use keyrack_vfs::Fs;
use keyrack_workload::{Phase, ValueSource, mix64};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

/// What is in front of the number of a space.
const SPACE_MARK: u8 = 0xff;
/// The offset of what is never due: three years.
const NEVER_NS: u64 = 100_000_000_000_000_000;

/// A trace that was looked through, ready to be run.
#[derive(Clone, Debug)]
pub(crate) struct Playback {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    pub(crate) survey: Survey,
    /// Records of each worker, by the number of workers.
    pub(crate) shares: BTreeMap<u32, Vec<u64>>,
    /// How much faster than recorded; `None` is as fast as possible.
    pub(crate) speed: Option<f64>,
    /// Where values come from.
    pub(crate) values: Arc<ValueSource>,
}

/// The worker of `workers` that runs a record of a trace without threads.
pub(crate) fn share_of(record: &Record, workers: u32) -> u32 {
    // The high half of a product: no division, and no bias that matters.
    let hash = hash(u64::from(record.space), record.key());
    ((u128::from(hash) * u128::from(workers)) >> 64) as u32
}

fn hash(seed: u64, key: &[u8]) -> u64 {
    key.chunks(8).fold(mix64(seed ^ key.len() as u64), |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix64(hash ^ u64::from_le_bytes(word))
    })
}

impl Playback {
    /// How many threads the trace has, where it says so.
    pub(crate) fn recorded_threads(&self) -> Option<u32> {
        (self.format == Format::Keyrack).then_some(self.survey.timed.len() as u32)
    }

    /// How many records a worker has.
    pub(crate) fn count_of(&self, thread: u32, threads: u32) -> u64 {
        let shares = self.shares.get(&threads);
        shares.and_then(|shares| shares.get(thread as usize)).copied().unwrap_or(0)
    }

    /// Records a second over the whole trace at the speed asked for.
    pub(crate) fn mean_rate(&self) -> Option<f64> {
        let (first, last) = self.survey.span_ns.filter(|(first, last)| first < last)?;
        let seconds = (last - first) as f64 / 1e9 / self.speed?;
        Some(self.survey.timed_records() as f64 / seconds)
    }

    /// The records of a worker, or those before the timed part.
    fn cursor(&self, timed: bool, (thread, threads): (u32, u32)) -> Result<Cursor, String> {
        let open = |thread: Option<u32>| {
            let which = Which { timed, thread };
            let trace = Trace::open(&*self.fs, &self.path, self.format, which);
            trace.map_err(|error| error.to_string())
        };
        let recorded =
            if timed { self.recorded_threads() } else { Some(self.survey.before.len() as u32) };
        match recorded {
            Some(recorded) if timed && recorded == threads => {
                Ok(Cursor::One { trace: open(Some(thread))?, share: None })
            }
            Some(recorded) => {
                let heads = (0..recorded).map(|thread| {
                    let mut head = Head {
                        trace: open(Some(thread))?,
                        record: Record::default(),
                        ended: false,
                    };
                    head.advance()?;
                    Ok(head)
                });
                Ok(Cursor::Merged(heads.collect::<Result<_, String>>()?))
            }
            None => {
                let share = (threads > 1).then_some((thread, threads));
                Ok(Cursor::One { trace: open(None)?, share })
            }
        }
    }

    /// When a worker's records are due.
    pub(crate) fn offsets(self: &Arc<Self>, who: (u32, u32)) -> Option<Offsets> {
        let speed = self.speed?;
        // Whoever runs the records opens the same file, and says why it cannot.
        let cursor = self.cursor(true, who).ok();
        let (first_ns, _) = self.survey.span_ns?;
        Some(Offsets {
            plan: Arc::clone(self),
            who,
            speed,
            first_ns,
            cursor,
            record: Record::default(),
            last_ns: 0,
        })
    }
}

/// Records in an order.
enum Cursor {
    One { trace: Trace, share: Option<(u32, u32)> },
    Merged(Vec<Head>),
}

/// A thread of a trace with its next record.
struct Head {
    trace: Trace,
    record: Record,
    ended: bool,
}

impl Head {
    fn advance(&mut self) -> Result<(), String> {
        self.ended = !self.trace.next(&mut self.record).map_err(|error| error.to_string())?;
        Ok(())
    }
}

impl Cursor {
    fn next(&mut self, record: &mut Record) -> Result<bool, String> {
        match self {
            Cursor::One { trace, share } => loop {
                if !trace.next(record).map_err(|error| error.to_string())? {
                    return Ok(false);
                }
                if share.is_none_or(|(thread, threads)| share_of(record, threads) == thread) {
                    return Ok(true);
                }
            },
            Cursor::Merged(heads) => {
                let alive = heads.iter_mut().filter(|head| !head.ended);
                let Some(head) = alive.min_by_key(|head| head.record.at_ns) else {
                    return Ok(false);
                };
                std::mem::swap(record, &mut head.record);
                head.advance()?;
                Ok(true)
            }
        }
    }
}

/// When records are due, in nanoseconds from the start. Never goes back.
pub(crate) struct Offsets {
    plan: Arc<Playback>,
    who: (u32, u32),
    speed: f64,
    first_ns: u64,
    cursor: Option<Cursor>,
    record: Record,
    last_ns: u64,
}

impl Offsets {
    /// The next record's offset; behind the last one what is never due.
    pub(crate) fn next_at_ns(&mut self) -> u64 {
        let Some(cursor) = &mut self.cursor else { return self.last_ns };
        match cursor.next(&mut self.record) {
            Ok(true) => {
                let at_ns = self.record.at_ns.saturating_sub(self.first_ns) as f64 / self.speed;
                self.last_ns = self.last_ns.max(at_ns as u64);
                self.last_ns
            }
            Ok(false) => NEVER_NS,
            // Whoever runs the record reads the same file, and says why it cannot.
            Err(_) => self.last_ns,
        }
    }

    /// The same offsets from their beginning.
    pub(crate) fn again(&self) -> Option<Offsets> {
        self.plan.offsets(self.who)
    }
}

impl std::fmt::Debug for Offsets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offsets").field("who", &self.who).finish_non_exhaustive()
    }
}

/// How many results were not as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    pub(crate) compared: u64,
    pub(crate) differ: u64,
}

/// One worker's share of a trace.
pub(crate) struct PlaybackTask<'s> {
    verbs: Verbs<'s>,
    plan: Arc<Playback>,
    cursor: Cursor,
    record: Record,
    differences: Differences,
    key: Vec<u8>,
    high: Vec<u8>,
    ends: Vec<usize>,
    batch: Batch,
}

impl<'s> PlaybackTask<'s> {
    pub(crate) fn new(
        plan: &Arc<Playback>,
        phase: Phase,
        who: (u32, u32),
        verbs: Verbs<'s>,
    ) -> Result<Self, ScriptError> {
        let cursor = plan.cursor(phase != Phase::Load, who).map_err(ScriptError::plain)?;
        Ok(PlaybackTask {
            verbs,
            plan: Arc::clone(plan),
            cursor,
            record: Record::default(),
            differences: Differences::default(),
            key: Vec::new(),
            high: Vec::new(),
            ends: Vec::new(),
            batch: Batch::new(),
        })
    }

    pub(crate) fn verbs_mut(&mut self) -> &mut Verbs<'s> {
        &mut self.verbs
    }

    pub(crate) fn differences(&self) -> Differences {
        self.differences
    }

    pub(crate) fn into_verbs(self) -> Verbs<'s> {
        self.verbs
    }

    /// Runs all that was before the timed part.
    pub(crate) fn load(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ScriptError> {
        while !stop() && self.cursor.next(&mut self.record).map_err(ScriptError::plain)? {
            self.perform();
        }
        Ok(())
    }

    /// Runs one operation.
    pub(crate) fn unit(&mut self) -> Result<(), ScriptError> {
        if self.cursor.next(&mut self.record).map_err(ScriptError::plain)? {
            self.perform();
        } else {
            // The survey has counted them.
            return Err(ScriptError::plain("the trace has changed since it was read".into()));
        }
        Ok(())
    }

    fn perform(&mut self) {
        let recorded = self.record.result;
        let found = match self.record.verb {
            Verb::Get => {
                self.set_key();
                Some(self.verbs.get(&self.key, &mut |_| {}))
            }
            Verb::Put | Verb::PutSynced => {
                self.set_key();
                let value = value_of(&self.plan, &self.record, 0);
                match self.record.verb {
                    Verb::Put => self.verbs.put(&self.key, value),
                    _ => self.verbs.put_synced(&self.key, value),
                };
                None
            }
            Verb::Del => {
                self.set_key();
                match self.verbs.del(&self.key) {
                    Some(Removed::Existed) => Some(true),
                    Some(Removed::Absent) => Some(false),
                    Some(Removed::Unknown) | None => None,
                }
            }
            Verb::Rmw => self.update(),
            Verb::Range | Verb::RangeDown => {
                self.range();
                None
            }
            Verb::Mget => self.mget(),
            Verb::Mput | Verb::Mdel => {
                self.write_batch();
                None
            }
        };
        let expected = match recorded {
            Outcome::Hit => true,
            Outcome::Miss => false,
            Outcome::Done | Outcome::Failed => return,
        };
        if let Some(found) = found {
            self.differences.compared += 1;
            self.differences.differ += u64::from(found != expected);
        }
    }

    fn set_key(&mut self) {
        self.key.clear();
        push_key(&mut self.key, self.record.space, self.record.key());
    }

    fn update(&mut self) -> Option<bool> {
        self.set_key();
        let write = self.record.entry(0).map_or(Write::Nothing, |entry| entry.write);
        let value = value_of(&self.plan, &self.record, 0);
        let mut found = false;
        let done = self.verbs.rmw(&self.key, &mut |old, new| {
            found = old.is_some();
            match write {
                Write::Nothing => Update::Keep,
                Write::Remove => Update::Remove,
                Write::Put(_) => {
                    new.extend_from_slice(value);
                    Update::Put
                }
            }
        });
        done.map(|()| found)
    }

    fn range(&mut self) {
        self.set_key();
        let space = self.record.space;
        self.high.clear();
        let has_high = match self.record.entry(1) {
            Some(high) => {
                push_key(&mut self.high, space, high.key);
                true
            }
            // Rows of other spaces are behind the last row of this one.
            None if space == 0 && !self.plan.survey.has_spaces => false,
            None if space == 0 => {
                self.high.push(SPACE_MARK);
                true
            }
            None => match space.checked_add(1) {
                Some(next) => {
                    push_key(&mut self.high, next, &[]);
                    true
                }
                None => false,
            },
        };
        let high = has_high.then_some(&self.high[..]);
        let limit = if self.record.limit == 0 { u64::MAX } else { self.record.limit };
        let mut visit = |_: &[u8], _: &[u8]| ControlFlow::Continue(());
        let rows = match self.record.verb {
            Verb::Range => self.verbs.scan(&self.key, high, limit, &mut visit),
            _ => self.verbs.scan_rev(&self.key, high, limit, &mut visit),
        };
        if self.plan.format == Format::Keyrack && self.record.result == Outcome::Done {
            self.differences.compared += 1;
            self.differences.differ += u64::from(rows != self.record.rows);
        }
    }

    fn mget(&mut self) -> Option<bool> {
        self.key.clear();
        self.ends.clear();
        for entry in self.record.entries() {
            push_key(&mut self.key, self.record.space, entry.key);
            self.ends.push(self.key.len());
        }
        let mut start = 0;
        let slice = |&end: &usize| {
            let key = &self.key[start..end];
            start = end;
            key
        };
        let slices: Vec<&[u8]> = self.ends.iter().map(slice).collect();
        let mut all = true;
        let done = self.verbs.mget(&slices, &mut |_, value| all &= value.is_some());
        done.map(|()| all)
    }

    fn write_batch(&mut self) {
        self.batch.clear();
        for (index, entry) in self.record.entries().enumerate() {
            self.key.clear();
            push_key(&mut self.key, self.record.space, entry.key);
            match entry.write {
                Write::Put(_) => {
                    self.batch.put(&self.key, value_of(&self.plan, &self.record, index));
                }
                Write::Remove | Write::Nothing => self.batch.remove(&self.key),
            }
        }
        let kind = if self.record.verb == Verb::Mput { Kind::Mput } else { Kind::Mdel };
        self.verbs.apply(kind, &self.batch);
    }
}

fn push_key(out: &mut Vec<u8>, space: u32, key: &[u8]) {
    if space != 0 {
        out.push(SPACE_MARK);
        out.extend_from_slice(&space.to_be_bytes());
    }
    out.extend_from_slice(key);
}

/// The value of an entry; empty where it has none.
fn value_of<'p>(plan: &'p Playback, record: &Record, index: usize) -> &'p [u8] {
    match record.entry(index).map(|entry| (entry.key, entry.write)) {
        Some((key, Write::Put(bytes))) => {
            let place = hash(record.at_ns ^ u64::from(record.space), key);
            plan.values.value_at(place, bytes as usize)
        }
        _ => &[],
    }
}
