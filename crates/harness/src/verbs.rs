//! The verbs as every workload reaches them: call the session, time the call, file the sample.
//!
//! One timed call is: read the clock, the session's virtual call, read the clock, one histogram
//! record and one counter. On a 2.6 GHz machine the harness's part of that is 11 to 15 ns, most of
//! it the two clock readings; `keyrack bench --overhead` measures it where it runs.

use crate::live::{KINDS, Kind, LiveWorker};
use crate::recording::Recording;
use keyrack_measure::Clock;
use keyrack_store::{Batch, Error, Removed, Session, Update, WriteOptions};
use keyrack_trace::{Outcome, Verb, Write};
use keyrack_workload::TraceHash;
use std::ops::ControlFlow;

/// A session whose calls are timed and counted.
pub(crate) struct Verbs<'s> {
    session: Box<dyn Session + 's>,
    clock: Clock,
    live: &'s LiveWorker,
    /// Tick at which the last timed call returned; lets the unit loop go without a reading.
    last_end: u64,
    /// Tick at which the last call began, where calls are written down.
    last_begin: u64,
    /// Where calls are written down, with `--record`.
    recording: Option<Recording>,
    mode: Mode,
    /// Whether every put is synced, whatever the call.
    syncs_all: bool,
    /// Whether scripts go without knowing what a removal found, on engines that do not tell.
    blind_deletes: bool,
    /// Whether the engine tells of a removal what it found.
    removals_tell: bool,
    trace: Option<TraceHash>,
    first_errors: [Option<String>; KINDS],
    /// Why the run has to end, once the engine said that nothing more fits.
    full: Option<&'static str>,
}

/// How much of a verb happens; all but `Timed` are for the overhead report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The session is called between two clock readings.
    Timed,
    /// The session is called; the clock is not read.
    Untimed,
    /// Nothing is called.
    Idle,
}

/// The buffers that a range call copies rows into: all keys and values one after another.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) bytes: Vec<u8>,
    /// End of the key and end of the value of each row, as offsets into `bytes`.
    pub(crate) ends: Vec<(usize, usize)>,
}

impl Rows {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(key_end, end)| {
            let row = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
            start = end;
            row
        })
    }
}

impl<'s> Verbs<'s> {
    /// Wraps `session`; samples go to `live`.
    pub(crate) fn new(
        session: Box<dyn Session + 's>,
        clock: Clock,
        live: &'s LiveWorker,
        mode: Mode,
        traced: bool,
    ) -> Self {
        Verbs {
            session,
            clock,
            live,
            last_end: 0,
            last_begin: 0,
            recording: None,
            mode,
            syncs_all: false,
            blind_deletes: false,
            removals_tell: true,
            trace: traced.then(TraceHash::new),
            first_errors: Default::default(),
            full: None,
        }
    }

    /// Says that every write of the store is synced.
    pub(crate) fn syncing_all(self, syncs_all: bool) -> Self {
        Verbs { syncs_all, ..self }
    }

    /// Says whether the engine tells of a removal what it found.
    pub(crate) fn telling_removals(self, removals_tell: bool) -> Self {
        Verbs { removals_tell, ..self }
    }

    /// Has scripts go without knowing what a removal found, on engines that do not tell.
    pub(crate) fn deleting_blindly(self, blind_deletes: bool) -> Self {
        Verbs { blind_deletes, ..self }
    }

    /// Has every call written down.
    pub(crate) fn recording(self, recording: Option<Recording>) -> Self {
        Verbs { recording, ..self }
    }

    pub(crate) fn last_end(&self) -> u64 {
        self.last_end
    }

    /// Sends later samples to `live`: the warm-up is over.
    pub(crate) fn switch(&mut self, live: &'s LiveWorker) {
        self.live = live;
        self.first_errors = Default::default();
        if let Some(recording) = &self.recording {
            recording.start_timed();
        }
        if self.trace.is_some() {
            self.trace = Some(TraceHash::new());
        }
    }

    pub(crate) fn live(&self) -> &'s LiveWorker {
        self.live
    }

    /// Takes over what another session of the same worker found.
    pub(crate) fn absorb(&mut self, other: Verbs<'s>) {
        self.full = self.full.or(other.full);
        let (errors, hash) = other.into_findings();
        for (mine, theirs) in self.first_errors.iter_mut().zip(errors) {
            *mine = mine.take().or(theirs);
        }
        if let (Some(trace), Some(hash)) = (&mut self.trace, hash) {
            trace.update(&hash.to_le_bytes());
        }
    }

    /// The text of the first error of each kind.
    pub(crate) fn into_findings(self) -> ([Option<String>; KINDS], Option<u64>) {
        let hash = self.trace.map(|trace| trace.finish());
        (self.first_errors, hash)
    }

    /// The first error of any kind.
    #[cold]
    pub(crate) fn first_error(&self) -> Option<&str> {
        self.first_errors.iter().flatten().next().map(String::as_str)
    }

    /// Why the run has to end, once the engine said that nothing more fits: the disk is full, or
    /// the memory that the store may use.
    pub(crate) fn full(&self) -> Option<&'static str> {
        self.full
    }

    /// Runs one engine call between two clock readings and files its duration under `kind`.
    #[inline(always)]
    fn timed<R>(
        &mut self,
        kind: Kind,
        call: impl FnOnce(&mut dyn Session) -> Result<R, Error>,
    ) -> Option<R> {
        let result = match self.mode {
            Mode::Timed => {
                let begin = self.clock.ticks();
                let result = call(&mut *self.session);
                let end = self.clock.ticks();
                (self.last_begin, self.last_end) = (begin, end);
                self.live.ops[kind as usize].service.record(self.clock.ns_between(begin, end));
                result
            }
            Mode::Untimed => {
                if self.recording.is_some() {
                    self.last_begin = self.clock.ticks();
                }
                call(&mut *self.session)
            }
            Mode::Idle => return None,
        };
        self.live.calls.add(1);
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.failed(kind, &error);
                None
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn failed(&mut self, kind: Kind, error: &Error) {
        self.live.ops[kind as usize].errors.add(1);
        self.full = self.full.or(match error {
            Error::OutOfMemory { .. } => Some("the store is out of memory"),
            error => error.is_no_space().then_some("the disk is full"),
        });
        let first = &mut self.first_errors[kind as usize];
        if first.is_none() {
            *first = Some(error.to_string());
        }
    }

    #[inline(always)]
    fn trace(&mut self, key: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace.update(key);
        }
    }

    /// Writes a call on one key down.
    #[inline(always)]
    fn record(&self, verb: Verb, outcome: Outcome, key: &[u8], write: Write, value: &[u8]) {
        if let Some(recording) = &self.recording {
            let at_ns = recording.at_ns(&self.clock, self.last_begin);
            recording.one(verb, outcome, at_ns, key, write, value);
        }
    }

    /// Writes a walk over rows down. Where the visitor broke off, what it saw is the limit.
    fn record_range(&self, verb: Verb, range: (&[u8], Option<&[u8]>), limit: u64, seen: Seen) {
        let Some(recording) = &self.recording else { return };
        let at_ns = recording.at_ns(&self.clock, self.last_begin);
        let outcome = if seen.failed { Outcome::Failed } else { Outcome::Done };
        let limit = match limit {
            _ if seen.broke => seen.rows,
            u64::MAX => 0,
            limit => limit,
        };
        recording.range(verb, outcome, at_ns, range, limit, seen.rows);
    }

    /// Counts the bytes of a write that succeeded.
    #[inline(always)]
    fn wrote(&self, is_done: bool, bytes: usize) {
        if is_done {
            self.live.written_bytes.add(bytes as u64);
        }
    }

    /// Files a lookup; a failed one is neither hit nor miss.
    #[inline(always)]
    fn looked_up(&self, kind: Kind, found: Option<bool>) {
        let op = &self.live.ops[kind as usize];
        match found {
            Some(true) => op.hits.add(1),
            Some(false) => op.misses.add(1),
            None => {}
        }
    }

    /// `None` where the engine failed.
    #[inline]
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        self.trace(key);
        let done = self.timed(Kind::Put, |session| session.put(key, value));
        self.wrote(done.is_some(), key.len() + value.len());
        self.record(Verb::Put, outcome(done), key, put_of(value), value);
        done
    }

    /// A put that survives a power loss when it returns, filed under [`Kind::Put`]. `None` where
    /// the engine failed.
    #[inline]
    pub(crate) fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        if self.syncs_all {
            return self.put(key, value);
        }
        self.trace(key);
        let done =
            self.timed(Kind::Put, |session| session.put_with(key, value, WriteOptions::SYNC));
        self.wrote(done.is_some(), key.len() + value.len());
        self.record(Verb::PutSynced, outcome(done), key, put_of(value), value);
        done
    }

    /// Whether the key was found; the value is lent to `visit` inside the timed window.
    #[inline]
    pub(crate) fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        self.trace(key);
        let mut bytes = 0;
        let found = self.timed(Kind::Get, |session| {
            session.get(key, &mut |value| {
                bytes = value.len();
                visit(value);
            })
        });
        self.live.read_bytes.add(bytes as u64);
        self.looked_up(Kind::Get, found);
        if let Some(recording) = &self.recording {
            let at_ns = recording.at_ns(&self.clock, self.last_begin);
            recording.lookup(Verb::Get, found_of(found), at_ns, &[key], bytes as u64);
        }
        found == Some(true)
    }

    /// What the engine found, or `None` where it failed.
    #[inline]
    pub(crate) fn del(&mut self, key: &[u8]) -> Option<Removed> {
        self.trace(key);
        let done = self.timed(Kind::Del, |session| session.remove(key));
        self.deleted(key, done)
    }

    /// What scripts get from a removal.
    pub(crate) fn del_of_script(&mut self, key: &[u8]) -> Option<Removed> {
        if self.blind_deletes { self.del(key) } else { self.del_and_tell(key) }
    }

    /// As [`Verbs::del`], but never [`Removed::Unknown`]: for an engine that does not tell, the key
    /// is looked up before. The time of the lookup is part of the call's, and counted apart, too.
    /// Other threads may take the key in between.
    pub(crate) fn del_and_tell(&mut self, key: &[u8]) -> Option<Removed> {
        if self.removals_tell {
            return self.del(key);
        }
        self.trace(key);
        let (clock, live) = (self.clock.share(), self.live);
        let done = self.timed(Kind::Del, |session| {
            let begin = clock.ticks();
            let existed = session.get(key, &mut |_| {})?;
            live.lookup_ns.add(clock.ns_between(begin, clock.ticks()));
            live.lookups.add(1);
            let told = session.remove(key)?;
            Ok(match (told, existed) {
                (Removed::Unknown, true) => Removed::Existed,
                (Removed::Unknown, false) => Removed::Absent,
                (told, _) => told,
            })
        });
        self.deleted(key, done)
    }

    /// Counts a removal and writes it down.
    fn deleted(&mut self, key: &[u8], done: Option<Removed>) -> Option<Removed> {
        self.wrote(done.is_some(), key.len());
        let outcome = match done {
            Some(Removed::Existed) => Outcome::Hit,
            Some(Removed::Absent) => Outcome::Miss,
            Some(Removed::Unknown) => Outcome::Done,
            None => Outcome::Failed,
        };
        self.record(Verb::Del, outcome, key, Write::Remove, &[]);
        done
    }

    /// Copies up to `limit` rows of the range into `rows`.
    pub(crate) fn range(&mut self, low: &[u8], high: Option<&[u8]>, limit: u64, rows: &mut Rows) {
        rows.clear();
        self.scan(low, high, limit, &mut |key, value| {
            rows.push(key, value);
            ControlFlow::Continue(())
        });
    }

    /// Visits up to `limit` rows and returns how many; filed under [`Kind::Range`].
    pub(crate) fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> u64 {
        self.trace(low);
        let (mut bytes, mut broke) = (0, false);
        let visited = {
            let mut limited = up_to(limit, &mut bytes, &mut broke, visit);
            self.timed(Kind::Range, |session| session.scan(low, high, &mut limited))
        };
        self.live.read_bytes.add(bytes);
        let seen = Seen { rows: visited.unwrap_or(0), failed: visited.is_none(), broke };
        self.record_range(Verb::Range, (low, high), limit, seen);
        visited.unwrap_or(0)
    }

    /// As [`Verbs::scan`], in descending order from below `high`.
    pub(crate) fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        limit: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> u64 {
        self.trace(high.unwrap_or(low));
        let (mut bytes, mut broke) = (0, false);
        let visited = {
            let mut limited = up_to(limit, &mut bytes, &mut broke, visit);
            self.timed(Kind::Range, |session| session.scan_rev(low, high, &mut limited))
        };
        self.live.read_bytes.add(bytes);
        let seen = Seen { rows: visited.unwrap_or(0), failed: visited.is_none(), broke };
        self.record_range(Verb::RangeDown, (low, high), limit, seen);
        visited.unwrap_or(0)
    }

    /// Looks all `keys` up as one call; `visit` gets each index once. `None` where the engine
    /// failed.
    pub(crate) fn mget(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Option<()> {
        keys.iter().for_each(|key| self.trace(key));
        let mut hits = 0;
        let mut answered = 0;
        let mut bytes = 0;
        let result = self.timed(Kind::Mget, |session| {
            session.multi_get(keys, &mut |index, value| {
                answered += 1;
                hits += u64::from(value.is_some());
                bytes += value.map_or(0, <[u8]>::len) as u64;
                visit(index, value);
            })
        });
        let op = &self.live.ops[Kind::Mget as usize];
        op.batched_keys.add(keys.len() as u64);
        op.hits.add(hits);
        op.misses.add(answered - hits);
        self.live.read_bytes.add(bytes);
        if let Some(recording) = &self.recording {
            let at_ns = recording.at_ns(&self.clock, self.last_begin);
            let all = result.map(|()| hits == keys.len() as u64);
            recording.lookup(Verb::Mget, found_of(all), at_ns, keys, bytes);
        }
        result
    }

    /// Applies `batch` as one write, filed under `kind` (`Mput` or `Mdel`). `None` where the engine
    /// failed.
    pub(crate) fn apply(&mut self, kind: Kind, batch: &Batch) -> Option<()> {
        if self.trace.is_some() {
            for op in batch.iter() {
                match op {
                    keyrack_store::BatchOp::Put(key, _) | keyrack_store::BatchOp::Remove(key) => {
                        self.trace(key);
                    }
                }
            }
        }
        let result = self.timed(kind, |session| session.apply(batch));
        self.live.ops[kind as usize].batched_keys.add(batch.len() as u64);
        let bytes = |op: keyrack_store::BatchOp<'_>| match op {
            keyrack_store::BatchOp::Put(key, value) => key.len() + value.len(),
            keyrack_store::BatchOp::Remove(key) => key.len(),
        };
        self.wrote(result.is_some(), batch.iter().map(bytes).sum());
        if let Some(recording) = &self.recording {
            let at_ns = recording.at_ns(&self.clock, self.last_begin);
            let verb = if kind == Kind::Mdel { Verb::Mdel } else { Verb::Mput };
            recording.batch(verb, outcome(result), at_ns, batch);
        }
        result
    }

    /// Waits for the writes that are under way; a failed one is filed as a put. `None` where there
    /// was one.
    pub(crate) fn flush(&mut self) -> Option<()> {
        if self.mode == Mode::Idle {
            return Some(());
        }
        let result = self.session.flush();
        result.map_err(|error| self.failed(Kind::Put, &error)).ok()
    }

    /// Compacts the store, and answers whether the engine can. A failure is filed as a put; `None`
    /// where there was one.
    pub(crate) fn compact(&mut self) -> Option<bool> {
        let result = self.session.compact();
        result.map_err(|error| self.failed(Kind::Put, &error)).ok()
    }

    /// What the engine says about itself under `name`.
    pub(crate) fn property(&mut self, name: &str) -> Option<String> {
        self.session.property(name)
    }

    /// Reads, modifies and writes one key atomically. `None` where the engine failed.
    pub(crate) fn rmw(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Option<()> {
        self.trace(key);
        let (mut found, mut bytes) = (false, 0);
        let mut write = Write::Nothing;
        let result = self.timed(Kind::Rmw, |session| {
            session.update(key, &mut |old, new| {
                found = old.is_some();
                let decision = decide(old, new);
                (bytes, write) = match decision {
                    Update::Keep => (0, Write::Nothing),
                    Update::Put => (key.len() + new.len(), put_of(new)),
                    Update::Remove => (key.len(), Write::Remove),
                };
                decision
            })
        });
        self.wrote(result.is_some(), bytes);
        let found = result.map(|()| found);
        self.looked_up(Kind::Rmw, found);
        self.record(Verb::Rmw, found_of(found), key, write, &[]);
        result
    }
}

/// What came of a walk over rows.
#[derive(Clone, Copy)]
struct Seen {
    rows: u64,
    failed: bool,
    /// Whether the visitor wanted no more.
    broke: bool,
}

fn outcome<R>(done: Option<R>) -> Outcome {
    if done.is_some() { Outcome::Done } else { Outcome::Failed }
}

fn found_of(found: Option<bool>) -> Outcome {
    match found {
        Some(true) => Outcome::Hit,
        Some(false) => Outcome::Miss,
        None => Outcome::Failed,
    }
}

fn put_of(value: &[u8]) -> Write {
    Write::Put(u32::try_from(value.len()).unwrap_or(u32::MAX))
}

/// Lets `visit` see up to `limit` rows, of which there is at least one, and adds up their bytes.
fn up_to(
    limit: u64,
    bytes: &mut u64,
    broke: &mut bool,
    visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> impl FnMut(&[u8], &[u8]) -> ControlFlow<()> {
    let mut left = limit;
    move |key, value| {
        left -= 1;
        *bytes += (key.len() + value.len()) as u64;
        match visit(key, value) {
            ControlFlow::Continue(()) if left > 0 => ControlFlow::Continue(()),
            ControlFlow::Continue(()) => ControlFlow::Break(()),
            ControlFlow::Break(()) => {
                *broke = true;
                ControlFlow::Break(())
            }
        }
    }
}
