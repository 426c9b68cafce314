//! Commands that may take long run in slices, and other connections are served between them.
//!
//! ```text
//!   iteration 1   KEYS *   4096 rows, remember the place     Again
//!   iteration 2            4096 rows                         Again
//!   iteration 3            the rest; the whole reply         Continue
//! ```
//!
//! A reply begins with its length, so what is found is collected until the end is known (`fields`
//! is the exception), up to
//! [`crate::redis::Options::reply_bytes_max`] and to what the memory of all connections allows.
//! A write between two slices may be in the reply or not. Every key that exists from beginning to
//! end is in it.

use keyrack_rowstore::{Kind, Row};
use keyrack_wire::resp::{Protocol, Writer};
use std::ops::ControlFlow;

use crate::redis::context::CommandContext;
use crate::redis::copy::Copying;
use crate::redis::fault::Fault;
use crate::redis::fields::Fields;
use crate::redis::glob::{Glob, Match};
use crate::redis::hash::Hash;
use crate::redis::key_range::{prefix_end, successor};
use crate::redis::shown::Shown;
use crate::redis::slowlog::shortened;

/// Bytes of a reply that one slice collects.
pub(crate) const SLICE_BYTES_MAX: usize = 1 << 20;

/// A command between two of its slices.
#[derive(Debug)]
pub(crate) struct Underway {
    pub(crate) work: Task,
    /// The time of its slices so far.
    pub(crate) spent_ns: u64,
    /// Its arguments, as SLOWLOG shortens them.
    pub(crate) args: Vec<Vec<u8>>,
}

impl Underway {
    pub(crate) fn new(work: Task) -> Self {
        Underway { work, spent_ns: 0, args: Vec::new() }
    }

    /// Notes the first slice.
    pub(crate) fn note_first(&mut self, ns: u64, request: Shown<'_, '_>) {
        self.spent_ns = ns;
        self.args = shortened(request);
    }
}

/// What a command under way does.
#[derive(Debug)]
pub(crate) enum Task {
    Keys(Keys),
    Range(Range),
    Count(Count),
    Fields(Fields),
    Copy(Copying),
    /// DEBUG SLEEP, until this time.
    Sleep(u64),
    /// SAVE.
    Save,
}

impl Task {
    pub(crate) fn keys(pattern: &[u8]) -> Self {
        let prefix = Glob::new(pattern).prefix();
        Task::Keys(Keys {
            pattern: pattern.into(),
            low: prefix.to_vec(),
            high: prefix_end(prefix),
            found: Found::default(),
        })
    }

    /// Bytes of memory that it holds from one slice to the next.
    pub(crate) fn memory_bytes(&self) -> usize {
        let ends = |low: &Vec<u8>, high: &Option<Vec<u8>>| {
            low.capacity() + high.as_ref().map_or(0, Vec::capacity)
        };
        match self {
            Task::Keys(Keys { pattern, low, high, found }) => {
                pattern.len() + ends(low, high) + found.body.capacity()
            }
            Task::Range(Range { low, high, found, .. }) => ends(low, high) + found.body.capacity(),
            Task::Count(Count { low, high, .. }) => ends(low, high),
            Task::Fields(fields) => fields.memory_bytes(),
            Task::Copy(copying) => copying.memory_bytes(),
            Task::Sleep(_) | Task::Save => 0,
        }
    }

    /// Whether a part of the reply was written, which cannot be taken back.
    pub(crate) fn has_begun_reply(&self) -> bool {
        matches!(self, Task::Fields(fields) if fields.has_begun())
    }

    /// Carries out a slice. At the end of the last one the reply is written: true.
    pub(crate) fn slice(
        &mut self,
        ctx: &mut CommandContext<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<bool, Fault> {
        let is_done = match self {
            Task::Keys(keys) => keys.slice(ctx, reply.protocol())?,
            Task::Range(range) => range.slice(ctx, reply.protocol())?,
            Task::Count(count) => count.slice(ctx)?,
            Task::Fields(fields) => fields.slice(ctx, reply)?,
            Task::Copy(copying) => copying.slice(ctx)?,
            Task::Sleep(until_ms) => ctx.now_ms >= *until_ms,
            Task::Save => !ctx.shared.host.checkpoint().is_running,
        };
        if !is_done {
            return Ok(false);
        }
        match self {
            Task::Keys(Keys { found, .. }) | Task::Range(Range { found, .. }) => {
                reply.array(found.count);
                reply.append(&found.body);
            }
            Task::Count(count) => reply.integer(count.rows.cast_signed()),
            Task::Fields(_) => {}
            Task::Copy(copying) => reply.integer(copying.is_copied().into()),
            Task::Sleep(_) => reply.ok(),
            Task::Save => match ctx.shared.host.checkpoint().failure {
                None => reply.ok(),
                Some(failure) => return Err(Fault::Made(format!("ERR {failure}"))),
            },
        }
        Ok(true)
    }
}

/// Elements of a reply that were found so far.
#[derive(Debug, Default)]
struct Found {
    body: Vec<u8>,
    count: usize,
}

/// KEYS.
#[derive(Debug)]
pub(crate) struct Keys {
    pattern: Box<[u8]>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    found: Found,
}

impl Keys {
    fn slice(&mut self, ctx: &mut CommandContext<'_>, protocol: Protocol) -> Result<bool, Fault> {
        let glob = Glob::new(&self.pattern);
        let mut budget = Budget::new(ctx, &self.found)?;
        let mut next = None;
        let mut is_stuck = false;
        let found = &mut self.found;
        ctx.rows.scan(&self.low, self.high.as_deref(), &mut |key, _| {
            match glob.matches(key) {
                Match::Yes => {
                    Writer::new(&mut found.body, protocol).bulk(key);
                    found.count += 1;
                }
                Match::No => {}
                Match::TooLong => {
                    is_stuck = budget.is_fresh();
                    next = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
            }
            if budget.spend(found) {
                return ControlFlow::Continue(());
            }
            next = Some(successor(key));
            ControlFlow::Break(())
        })?;
        if is_stuck {
            return Err(Fault::PATTERN);
        }
        Ok(next.map(|next| self.low = next).is_none())
    }
}

/// KR.RANGE.
#[derive(Debug)]
pub(crate) struct Range {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    pub(crate) limit: u64,
    pub(crate) is_reverse: bool,
    pub(crate) with_columns: bool,
    found: Found,
}

impl Range {
    /// From `low` to before `high`; an empty `high` is behind all keys.
    pub(crate) fn new(low: &[u8], high: &[u8]) -> Self {
        Range {
            low: low.to_vec(),
            high: (!high.is_empty()).then(|| high.to_vec()),
            limit: u64::MAX,
            is_reverse: false,
            with_columns: false,
            found: Found::default(),
        }
    }

    fn slice(&mut self, ctx: &mut CommandContext<'_>, protocol: Protocol) -> Result<bool, Fault> {
        if self.limit == 0 {
            return Ok(true);
        }
        let Range { low, high, limit, is_reverse, with_columns, found } = self;
        let mut budget = Budget::new(ctx, found)?;
        let mut next = None;
        let mut visit = |key: &[u8], row: Row<'_>| {
            let mut reply = Writer::new(&mut found.body, protocol);
            reply.bulk(key);
            put_row(&row, *with_columns, &mut reply);
            found.count += 2;
            *limit -= 1;
            if *limit == 0 {
                return ControlFlow::Break(());
            }
            if budget.spend(found) {
                return ControlFlow::Continue(());
            }
            next = Some(if *is_reverse { key.to_vec() } else { successor(key) });
            ControlFlow::Break(())
        };
        if *is_reverse {
            ctx.rows.scan_rev(low, high.as_deref(), &mut visit)?
        } else {
            ctx.rows.scan(low, high.as_deref(), &mut visit)?
        };
        let Some(next) = next else { return Ok(true) };
        if *is_reverse {
            *high = Some(next);
        } else {
            *low = next;
        }
        Ok(false)
    }
}

/// The value of a row; with all columns an array of them, or a map of a hash's fields.
fn put_row(row: &Row<'_>, with_columns: bool, reply: &mut Writer<'_>) {
    match (with_columns, row.kind()) {
        (false, Kind::Fields) | (_, Kind::Collection) => reply.null(),
        (false, _) => reply.bulk(row.value()),
        (true, Kind::Fields) => {
            reply.map(row.columns());
            for (name, value) in Hash::of(Some(*row)).ok().flatten().iter().flat_map(Hash::fields) {
                reply.bulk(&name);
                reply.bulk(value);
            }
        }
        (true, _) => {
            reply.array(row.columns());
            for index in 0..row.columns() {
                reply.bulk(row.column(index).unwrap_or_default());
            }
        }
    }
}

/// KR.COUNT.
#[derive(Debug)]
pub(crate) struct Count {
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    rows: u64,
}

impl Count {
    pub(crate) fn new(low: &[u8], high: &[u8]) -> Self {
        let high = (!high.is_empty()).then(|| high.to_vec());
        Count { low: low.to_vec(), high, rows: 0 }
    }

    fn slice(&mut self, ctx: &mut CommandContext<'_>) -> Result<bool, Fault> {
        let mut left = ctx.shared.options.slice_rows_max.max(1);
        let mut next = None;
        self.rows += ctx.rows.scan(&self.low, self.high.as_deref(), &mut |key, _| {
            left -= 1;
            if left > 0 {
                return ControlFlow::Continue(());
            }
            next = Some(successor(key));
            ControlFlow::Break(())
        })?;
        Ok(next.map(|next| self.low = next).is_none())
    }
}

/// The rest of a slice.
#[derive(Debug)]
struct Budget {
    rows: u64,
    rows_max: u64,
    bytes_end: usize,
}

impl Budget {
    /// A whole slice; an error when the reply has become too large.
    fn new(ctx: &CommandContext<'_>, found: &Found) -> Result<Self, Fault> {
        if found.body.len() > ctx.shared.options.reply_bytes_max {
            return Err(Fault::REPLY_TOO_LARGE);
        }
        let bytes_end = found.body.len() + SLICE_BYTES_MAX;
        Ok(Budget { rows: 0, rows_max: ctx.shared.options.slice_rows_max, bytes_end })
    }

    fn is_fresh(&self) -> bool {
        self.rows == 0
    }

    /// Notes a row. Whether there may be another.
    fn spend(&mut self, found: &Found) -> bool {
        self.rows += 1;
        self.rows < self.rows_max && found.body.len() < self.bytes_end
    }
}
