//! A frozen generation becomes a table of level 0.

use super::build::{Anything, Recipe};
use super::halt::Work;
use super::rotate::freeze_active;
use super::{Counters, Db, Inner, lock};
use crate::error::{Error, Result};
use crate::manifest::Edit;
use crate::version::LAST_LEVEL;
use crate::view::Generation;
use keyrack_concurrent::Backoff;
use std::sync::Arc;

impl Db {
    /// Writes everything that is in memory into tables.
    ///
    /// # Errors
    /// A table or the manifest cannot be written. The store only reads then, but for a full disk:
    /// what was to be written stays in memory, and is written by the next attempt.
    pub fn flush(&self) -> Result<()> {
        flush_all(self.inner())
    }
}

/// Freezes the active generation and writes all that are frozen.
pub(crate) fn flush_all(inner: &Inner) -> Result<()> {
    inner.check_poison()?;
    {
        let _exchange = lock(&inner.exchange);
        freeze_active(inner);
    }
    while flush_oldest(inner)? {}
    Ok(())
}

/// Writes the oldest frozen generation. `false` if there is none.
pub(crate) fn flush_oldest(inner: &Inner) -> Result<bool> {
    let _alone = lock(&inner.flushing);
    // Somebody else may have met a failure that is final meanwhile.
    inner.check_poison()?;
    let view = inner.view();
    let [.., above, oldest] = view.generations.as_slice() else {
        inner.succeeded(Work::Flush);
        return Ok(false);
    };
    let written = write(inner, oldest, above.from());
    written.inspect_err(|error| inner.failed(Work::Flush, error))?;
    inner.succeeded(Work::Flush);
    Ok(true)
}

/// Writes `generation`, whose sequence numbers end before `end`.
fn write(inner: &Inner, generation: &Arc<Generation>, end: u64) -> Result<()> {
    // Writes with a smaller number may still be on their way into it.
    let mut backoff = Backoff::new();
    while !inner.log.is_complete(end) {
        inner.check_poison()?;
        backoff.wait();
    }
    let begin_ns = inner.speed.now_ns();
    generation.memory.freeze();
    let oldest = inner.snapshots.oldest(|| inner.visible());
    let recipe = Recipe {
        level: 0,
        base: LAST_LEVEL,
        is_urgent: true,
        // Tables of level 0 may overlap, but one generation gives one.
        table_bytes: u64::MAX,
        oldest,
        cuts: None,
        ranges: generation.memory.range_deletes(),
        below: &Anything,
        dropped: None,
    };
    let mut cursor = generation.memory.cursor(u64::MAX);
    let built = inner.build(&mut cursor, recipe)?;
    inner.speed.flushed(begin_ns, end.saturating_sub(generation.from()), built.bytes);
    let edit = Edit {
        log_from: Some(end),
        last_sequence: Some(end.saturating_sub(1)),
        added: built.tables.iter().map(|table| (0, Arc::clone(table.file()))).collect(),
        ..Edit::default()
    };
    inner.install(&edit, &built.tables, Some(generation))?;
    Counters::add(&inner.counters.flushes, 1);
    Counters::add(&inner.counters.flush_bytes, built.bytes);
    let level = &inner.counters.levels[0];
    Counters::add(&level.written_bytes, built.bytes);
    Counters::add(&level.ns, inner.speed.now_ns().saturating_sub(begin_ns));
    inner.log.release(end).map_err(Error::from)?;
    inner.wake_background();
    Ok(())
}
