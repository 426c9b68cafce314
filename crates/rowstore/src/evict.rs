//! Making room: the clock's hand goes over the keys in their order, and removes what was not read
//! since it came by last.
//!
//! The session that needs room moves the hand, a few rows at a time, until there is room; its
//! removals are logged as any others are. While one moves it, others go on as long as memory is
//! over by little, and wait for it otherwise, so that writers never outrun the hand. A write moves
//! it over [`LOOKS_MAX`] rows at most before it takes what comes, read or not.

use crate::core::Core;
use crate::memory::cost;
use crate::session::Session;
use keyrack_store::Result;
use std::ops::ControlFlow;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Rows looked at in one step.
const STEP_ROWS: usize = 32;
/// Rows that one write looks at before it is no longer choosy.
const LOOKS_MAX: usize = 1024;
/// By what part of the limit memory may be over while somebody else makes room.
const SLACK_PART: i64 = 64;

/// Removes rows until memory is within its limit, or there are none.
pub(crate) fn evict(core: &Core, session: &mut Session<'_>) -> Result<()> {
    let memory = &core.memory;
    let max = memory.max();
    let mut hand = match memory.hand.try_lock() {
        Ok(hand) => hand,
        Err(_) if memory.used() <= max.saturating_add(max / SLACK_PART) => return Ok(()),
        Err(_) => memory.hand.lock().unwrap_or_else(PoisonError::into_inner),
    };
    let (mut looks, mut ends) = (0, 0);
    let mut victims: Vec<Vec<u8>> = Vec::with_capacity(STEP_ROWS);
    while memory.used() > max && ends < 3 {
        victims.clear();
        let is_choosy = looks < LOOKS_MAX;
        let (mut rows, mut is_end) = (0, true);
        let mut wanted = memory.used() - max;
        let mut last = Vec::new();
        core.tree.range(&hand, None, |key, row| {
            rows += 1;
            if !(memory.test_and_clear_read(key) && is_choosy) {
                wanted -= cost(key.len(), row.len());
                victims.push(key.to_vec());
            }
            // No further than needed: who is passed by has lost his sign of having been read.
            if rows < STEP_ROWS && wanted > 0 {
                return ControlFlow::Continue(());
            }
            is_end = false;
            last.extend_from_slice(key);
            last.push(0);
            ControlFlow::Break(())
        });
        looks += rows;
        ends += usize::from(is_end);
        *hand = if is_end { Vec::new() } else { last };
        for key in &victims {
            let is_removed = session.remove_if(key, |_| true)?;
            // Relaxed: a count for people.
            core.counts.evicted.fetch_add(u64::from(is_removed), Ordering::Relaxed);
        }
        session.report_memory_now();
    }
    Ok(())
}
