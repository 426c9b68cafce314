//! Eviction: a clock whose hand moves over the keys in order, and evicts the rows that were not
//! read since it passed them last.
//!
//! The session that needs memory moves the hand, a few rows at a time, until there is enough. It
//! logs its removals like any others. Meanwhile other sessions go on if memory is over the limit by
//! little, and wait otherwise, so that writers never outrun the hand. After [`PROBES_MAX`] rows a
//! write evicts the next rows, whether they were read or not.
//!
//! A collection is evicted as one: by its header. Its elements are orphans then, and are removed as
//! the memory is needed.

use crate::Row;
use crate::core::Core;
use crate::keys;
use crate::memory::cost;
use std::ops::ControlFlow;
use std::sync::{MutexGuard, PoisonError};

/// The number of rows that one step looks at.
const STEP_ROWS: usize = 32;
/// The number of rows after which a write evicts rows that were read, too.
const PROBES_MAX: usize = 1024;
/// The part of the limit by which memory may be over it while another session evicts.
const SLACK_PART: i64 = 64;
/// How often the hand may reach the last key before an eviction gives up.
const ROUNDS_MAX: u32 = 3;

/// One session's eviction, which holds the hand.
pub(crate) struct EvictionPass<'a> {
    core: &'a Core,
    hand: MutexGuard<'a, Vec<u8>>,
    probes: usize,
    rounds: u32,
    victims: Vec<Vec<u8>>,
}

impl<'a> EvictionPass<'a> {
    /// Takes the hand. `None` if another session has it and memory is over the limit by little.
    pub(crate) fn begin(core: &'a Core) -> Option<Self> {
        let memory = &core.memory;
        let max = memory.max();
        let hand = match memory.hand.try_lock() {
            Ok(hand) => hand,
            Err(_) if memory.used() <= max.saturating_add(max / SLACK_PART) => return None,
            Err(_) => memory.hand.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let victims = Vec::with_capacity(STEP_ROWS);
        Some(EvictionPass { core, hand, probes: 0, rounds: 0, victims })
    }

    /// Moves the hand by one step. Returns the keys to remove; `None` if memory is within its
    /// limit, or the hand has found nothing more.
    pub(crate) fn step(&mut self) -> Option<&[Vec<u8>]> {
        let (core, memory) = (self.core, &self.core.memory);
        let mut excess = memory.used() - memory.max();
        while excess > 0 && core.sweep_garbage() {
            excess = memory.used() - memory.max();
        }
        if excess <= 0 || self.rounds >= ROUNDS_MAX {
            return None;
        }
        self.victims.clear();
        let spares_read = self.probes < PROBES_MAX;
        let (mut rows, mut is_end) = (0, true);
        let mut wanted = excess;
        let mut last = Vec::new();
        let victims = &mut self.victims;
        core.tree.scan(&self.hand, None, |key, row| {
            // Elements are not evicted alone: the hand passes over all of them.
            if keys::is_element(key) {
                is_end = false;
                last.extend_from_slice(keys::RESERVED_END);
                return ControlFlow::Break(());
            }
            rows += 1;
            if !(memory.test_and_clear_read(key) && spares_read) {
                wanted -= cost(key.len(), row.len()) + core.collections.bytes_of(&Row::of(&row));
                victims.push(key.to_vec());
            }
            // No further than needed: a row that the hand passes loses its reference bit.
            if rows < STEP_ROWS && wanted > 0 {
                return ControlFlow::Continue(());
            }
            is_end = false;
            last.extend_from_slice(key);
            last.push(0);
            ControlFlow::Break(())
        });
        self.probes += rows;
        self.rounds += u32::from(is_end);
        *self.hand = if is_end { Vec::new() } else { last };
        Some(&self.victims)
    }
}
