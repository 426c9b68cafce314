//! A job's way to a session, on one worker: [`Client`] over [`Verbs`].
//!
//! Each operation looks for a stop, calls the verb, and counts a unit; an engine's error ends the
//! job in the engine's words. What the contract of stores does not have is made of what it has:
//!
//! | operation | verb |
//! |---|---|
//! | insert where the key is not there | an update that keeps what it finds |
//! | one column of a row | an update of the whole row; a lookup and a part of it |
//! | a descending scan from a key on | a range that ends just above the key |
//! | removal with an answer, on an engine that does not look | a lookup before the removal |
//! | a walk over the store | one scan, each row of which is a unit |
//! | a synced put, on a store whose writes are all synced | a put |

use super::{JobContext, JobPlan, JobTask, Shared};
use crate::live::{Kind, LiveWorker};
use crate::params::Params;
use crate::verbs::Verbs;
use crate::worker_message::WorkerMessage;
use keyrack_measure::Clock;
use keyrack_store::{Batch, Removed, Update};
use keyrack_workload::kvtest::{Client, GlibcRandom, Halt, Job, Row, column_of, with_column};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Operations between two looks at the clock, at most.
const STRIDE_MAX: u32 = 64;
/// Rows of a walk between two looks at the clock.
const WALK_LOOK: u64 = 256;
/// The longest sleep of a pause between two looks for a stop.
const NAP_NS: u64 = 20_000_000;
/// Looks that are closer together than this may be further apart.
const SHORT_NS: u64 = 50_000;

/// How often the clock is looked at.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The tick of the last look.
    last: u64,
    stride: u32,
    /// Questions until the next look.
    left: u32,
}

/// A job's way to a session, on one worker.
pub(super) struct JobClient<'a, 's> {
    verbs: &'a mut Verbs<'s>,
    clock: &'a Clock,
    shared: &'a Shared,
    stop: &'a AtomicBool,
    live: &'s LiveWorker,
    leader: &'a Sender<WorkerMessage>,
    plan: &'a JobPlan,
    params: &'a Params,
    who: (u32, u32),
    seed: u64,
    limit: u64,
    /// What an operation counts: 1, or 0 beside those that were asked for.
    unit: u64,
    /// Whether nothing was written before that could be read.
    is_first: bool,
    place: usize,
    start: u64,
    /// Tick of the end of stage 0.
    deadline: u64,
    /// [`SHORT_NS`] in ticks.
    short: u64,
    pace: Pace,
    batch: Batch,
    high: Vec<u8>,
    /// What the job has reported.
    pub(super) row: Row,
}

impl<'s> JobTask<'s> {
    /// The client of the job at `place`, whose time starts at `start`.
    pub(super) fn client<'a>(
        &'a mut self,
        context: &'a JobContext<'a, 's>,
        shared: &'a Shared,
        job: &Job,
        place: usize,
        start: u64,
    ) -> JobClient<'a, 's> {
        let clock = context.clock;
        let duration = JobPlan::duration_ns(job, self.bound).map(|ns| clock.ticks_of_ns(ns));
        let (id, threads) = self.who;
        JobClient {
            verbs: &mut self.verbs,
            clock,
            shared,
            stop: context.stop,
            live: context.live,
            leader: context.leader,
            plan: &self.plan,
            params: &self.params,
            who: self.who,
            seed: self.seed,
            limit: self.plan.limit(self.bound),
            unit: u64::from(id < threads),
            is_first: place == 0,
            place,
            start,
            deadline: duration.map_or(u64::MAX, |ticks| start.saturating_add(ticks)),
            short: clock.ticks_of_ns(SHORT_NS),
            pace: Pace { last: start, stride: 1, left: 0 },
            batch: Batch::new(),
            high: Vec::new(),
            row: Row::new(),
        }
    }

    /// The client of the load before `job`, which has all the time that it needs.
    pub(super) fn loader<'a>(
        &'a mut self,
        context: &'a JobContext<'a, 's>,
        shared: &'a Shared,
        job: &Job,
    ) -> JobClient<'a, 's> {
        let is_first = !shared.has_rows.load(Ordering::Relaxed);
        let client = self.client(context, shared, job, 0, context.start);
        JobClient { is_first, deadline: u64::MAX, limit: u64::MAX, ..client }
    }
}

impl JobClient<'_, '_> {
    #[inline]
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.shared.halted.load(Ordering::Relaxed)
    }

    #[inline]
    fn begin(&self) -> Result<(), Halt> {
        if self.is_stopped() { Err(Halt::Stopped) } else { Ok(()) }
    }

    /// Counts `count` operations that the engine has answered.
    #[inline]
    fn end<R>(&self, answer: Option<R>, count: u64) -> Result<R, Halt> {
        match answer {
            Some(answer) => {
                self.live.units.add(count * self.unit);
                Ok(answer)
            }
            None => Err(self.failure()),
        }
    }

    /// What the engine has failed with.
    #[cold]
    fn failure(&self) -> Halt {
        Halt::failed(format!("engine: {}", self.verbs.first_error().unwrap_or("no text")))
    }

    /// A lookup that found nothing may have failed.
    #[inline]
    fn looked_up(&self, found: bool) -> Result<bool, Halt> {
        if !found && self.verbs.first_error().is_some() {
            return Err(self.failure());
        }
        self.live.units.add(self.unit);
        Ok(found)
    }

    /// One scan over the whole store. Rows are units, and between two of them the run may end.
    fn walk_over(
        &mut self,
        is_reverse: bool,
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.begin()?;
        if rows_max == 0 {
            return Ok(0);
        }
        let JobClient { verbs, clock, shared, stop, live, deadline, unit, .. } = self;
        let mut visited = 0;
        let mut each = |key: &[u8], value: &[u8]| {
            visit(key, value);
            visited += 1;
            live.units.add(*unit);
            let is_stopped = stop.load(Ordering::Relaxed) || shared.halted.load(Ordering::Relaxed);
            let is_late = || *deadline != u64::MAX && clock.ticks() >= *deadline;
            if is_stopped || visited % WALK_LOOK == 0 && is_late() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        if is_reverse {
            verbs.scan_rev(&[], None, rows_max, &mut each)
        } else {
            verbs.scan(&[], None, rows_max, &mut each)
        };
        if self.verbs.first_error().is_some() {
            return Err(self.failure());
        }
        self.begin().map(|()| visited)
    }

    fn look_at_clock(&mut self) -> bool {
        let now = self.clock.ticks();
        if now >= self.deadline {
            self.shared.expired.store(true, Ordering::Relaxed);
            return true;
        }
        let gap = now.saturating_sub(self.pace.last);
        let stride = if gap < self.short {
            (self.pace.stride * 2).min(STRIDE_MAX)
        } else {
            (self.pace.stride / 2).max(1)
        };
        self.pace = Pace { last: now, stride, left: stride - 1 };
        false
    }

    fn say(&self, text: &str, is_warning: bool) {
        let text = text.to_owned();
        // A leader that has gone has nobody to tell.
        let _ = self.leader.send(WorkerMessage::Notice { thread: self.who.0, text, is_warning });
    }
}

impl Client for JobClient<'_, '_> {
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
        self.is_first
    }

    fn place(&self) -> u32 {
        u32::try_from(self.place).unwrap_or(u32::MAX)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn is_alone(&self) -> bool {
        self.is_stopped() || self.shared.through.load(Ordering::Relaxed) >= self.who.1
    }

    #[inline]
    fn expired(&mut self, stage: u32) -> bool {
        if self.is_stopped() {
            return true;
        }
        if stage != 0 {
            // There is no second duration.
            return false;
        }
        // Relaxed: the store orders it. A thread that has read what another wrote after raising the
        // flag sees the flag.
        if self.shared.expired.load(Ordering::Relaxed) {
            return true;
        }
        if self.pace.left > 0 {
            self.pace.left -= 1;
            return false;
        }
        self.look_at_clock()
    }

    fn seconds(&self) -> f64 {
        self.clock.ns_between(self.start, self.clock.ticks()) as f64 / 1e9
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.params.get(name)
    }

    fn file(&self, name: &str) -> Option<&[u8]> {
        self.plan.files.iter().find(|(param, _)| *param == name).map(|(_, text)| &**text)
    }

    fn shared_random(&self) -> &Mutex<GlibcRandom> {
        &self.shared.random
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.begin()?;
        let answer = self.verbs.put(key, value);
        self.end(answer, 1)
    }

    #[inline]
    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.begin()?;
        let answer = self.verbs.put_synced(key, value);
        self.end(answer, 1)
    }

    fn insert_new(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Halt> {
        self.begin()?;
        let mut inserted = false;
        let answer = self.verbs.rmw(key, &mut |old, new| {
            inserted = old.is_none();
            if !inserted {
                return Update::Keep;
            }
            new.extend_from_slice(value);
            Update::Put
        });
        self.end(answer, 1).map(|()| inserted)
    }

    #[inline]
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool, Halt> {
        self.begin()?;
        let found = self.verbs.get(key, visit);
        self.looked_up(found)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Halt> {
        self.begin()?;
        let answer = self.verbs.del(key);
        self.end(answer, 1).map(|_| ())
    }

    fn delete_existing(&mut self, key: &[u8]) -> Result<bool, Halt> {
        self.begin()?;
        let answer = self.verbs.del_and_tell(key);
        self.end(answer, 1).map(|removed| removed == Removed::Existed)
    }

    fn scan(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        self.begin()?;
        if rows_max > 0 {
            let found = self.verbs.scan(first, None, rows_max, &mut |key, value| {
                visit(key, value);
                ControlFlow::Continue(())
            });
            self.looked_up(found > 0)?;
        }
        Ok(())
    }

    fn scan_rev(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        self.begin()?;
        if rows_max > 0 {
            // The upper end of a range is not in it; the next key above is.
            self.high.clear();
            self.high.extend_from_slice(first);
            self.high.push(0);
            let found = self.verbs.scan_rev(&[], Some(&self.high), rows_max, &mut |key, value| {
                visit(key, value);
                ControlFlow::Continue(())
            });
            self.looked_up(found > 0)?;
        }
        Ok(())
    }

    fn walk(&mut self, rows_max: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64, Halt> {
        self.walk_over(false, rows_max, visit)
    }

    fn walk_rev(
        &mut self,
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.walk_over(true, rows_max, visit)
    }

    fn range(
        &mut self,
        low: &[u8],
        high: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.begin()?;
        let found = self.verbs.scan(low, Some(high), u64::MAX, &mut |key, value| {
            visit(key, value);
            ControlFlow::Continue(())
        });
        self.looked_up(found > 0)?;
        Ok(found)
    }

    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Halt> {
        self.begin()?;
        self.batch.clear();
        pairs.iter().for_each(|(key, value)| self.batch.put(key, value));
        let answer = self.verbs.apply(Kind::Mput, &self.batch);
        self.end(answer, pairs.len() as u64)
    }

    fn remove_many(&mut self, keys: &[&[u8]]) -> Result<(), Halt> {
        self.begin()?;
        self.batch.clear();
        keys.iter().for_each(|key| self.batch.remove(key));
        let answer = self.verbs.apply(Kind::Mdel, &self.batch);
        self.end(answer, keys.len() as u64)
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Halt> {
        self.begin()?;
        let answer = self.verbs.mget(keys, visit);
        self.end(answer, keys.len() as u64)
    }

    fn put_column(&mut self, key: &[u8], column: u16, value: &[u8]) -> Result<(), Halt> {
        self.begin()?;
        let answer = self.verbs.rmw(key, &mut |old, new| {
            with_column(old, column, value, new);
            Update::Put
        });
        self.end(answer, 1)
    }

    fn get_column(
        &mut self,
        key: &[u8],
        column: u16,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Halt> {
        self.begin()?;
        let mut found = false;
        let row = self.verbs.get(key, &mut |row| {
            if let Some(value) = column_of(row, column) {
                found = true;
                visit(value);
            }
        });
        self.looked_up(row).map(|row| row && found)
    }

    fn wait_all(&mut self) -> Result<(), Halt> {
        match self.verbs.flush() {
            Some(()) => Ok(()),
            None => Err(self.failure()),
        }
    }

    fn compact(&mut self) -> Result<bool, Halt> {
        self.begin()?;
        let answer = self.verbs.compact();
        self.end(answer, 1)
    }

    fn property(&mut self, name: &str) -> Option<String> {
        self.verbs.property(name)
    }

    fn count_ops(&mut self, ops: u64) -> Result<(), Halt> {
        self.begin()?;
        self.end(Some(()), ops)
    }

    fn pause(&mut self, seconds: f64) -> Result<(), Halt> {
        let end = self.clock.ticks().saturating_add(self.clock.ticks_of_ns((seconds * 1e9) as u64));
        loop {
            self.begin()?;
            let now = self.clock.ticks();
            if now >= end {
                return Ok(());
            }
            self.clock.wait_until(end.min(now + self.clock.ticks_of_ns(NAP_NS)));
        }
    }

    fn notice(&mut self, text: &str) {
        self.say(text, false);
    }

    fn warn(&mut self, text: &str) {
        self.say(text, true);
    }

    fn report(&mut self, row: Row) {
        self.row.merge(row);
    }
}
