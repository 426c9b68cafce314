//! The context of a connection during an iteration, and the steps of `items` with their counting.

use super::counts::Counts;
use super::detail::Event;
use super::items::{self, Answer, Counted, Delete, Delta, Put};
use super::shared::Shared;
use crate::durations::Kind;
use crate::log::events;
use crate::work::Work;
use keyrack_rowstore::RowSession;
use keyrack_store::Error;
use keyrack_wire::memcached::{KEY_BYTES_MAX, oversized_key};

/// The context of a connection during an iteration.
pub(crate) struct Cx<'a> {
    pub(crate) rows: &'a mut (dyn RowSession + 'a),
    pub(crate) work: &'a Work,
    pub(crate) now_ms: u64,
    pub(crate) shared: &'a Shared,
    pub(crate) counts: &'a Counts,
    /// The requests of this call of `serve`, by kind.
    pub(crate) batch: [u32; Kind::COUNT],
    /// Memory for answers that come out of order.
    pub(crate) scratch: &'a mut Vec<u8>,
}

impl Cx<'_> {
    /// Counts requests.
    #[inline]
    pub(super) fn requested(&mut self, kind: Kind, count: u32) {
        self.counts.requests.add(count.into());
        self.batch[kind as usize] += count;
    }

    pub(super) fn store(&mut self, put: &Put<'_>) -> Answer {
        let counts = self.counts;
        counts.cmd_set.add(1);
        self.shared.detail.note(put.key, Event::Set);
        let value_bytes_max = self.shared.limits.value_bytes_max;
        let answer = items::store(self.rows, put, value_bytes_max, self.now_ms);
        match &answer {
            Answer::Done(_) => {
                if put.compare.is_some() {
                    counts.cas_hits.add(1);
                }
                counts.total_items.add(1);
                self.shared.reads.written(put.key, self.now_ms);
            }
            Answer::Exists => counts.cas_badval.add(1),
            Answer::NotFound if put.compare.is_some() => counts.cas_misses.add(1),
            Answer::TooLarge => counts.store_too_large.add(1),
            Answer::NoMemory => counts.store_no_memory.add(1),
            _ => {}
        }
        answer
    }

    /// Counts a value that is refused for its size. The item that a plain `set` was to replace is
    /// removed, as memcached does: its value is known to be out of date.
    pub(super) fn refused_as_too_large(&mut self, request: &[u8], is_authenticated: bool) {
        self.counts.store_too_large.add(1);
        let mut room = [0; KEY_BYTES_MAX];
        let Some(key) = oversized_key(request, &mut room).filter(|_| is_authenticated) else {
            return;
        };
        let removed = items::delete(self.rows, &Delete { key, ..Delete::default() }, self.now_ms);
        if let Answer::Failed(error) = removed {
            events::stale_item_kept(&error.to_string());
        }
    }

    /// Counts a lookup, and notes the read.
    pub(super) fn looked_up(&self, key: &[u8], hit: bool) {
        self.count_lookup(key, hit);
        if hit {
            self.shared.reads.read(key, self.now_ms);
        }
    }

    /// Counts a lookup that is not to count as a read of its item.
    pub(super) fn count_lookup(&self, key: &[u8], hit: bool) {
        self.counts.looked_up(hit);
        self.shared.detail.note(key, if hit { Event::Hit } else { Event::Miss });
    }

    /// Counts a touch, and notes it as a read, as memcached does.
    pub(super) fn touched(&self, key: &[u8], hit: bool) {
        self.counts.touched(hit);
        if hit {
            self.shared.reads.read(key, self.now_ms);
        }
    }

    pub(super) fn delete(&mut self, delete: &Delete<'_>) -> Answer {
        self.shared.detail.note(delete.key, Event::Delete);
        let answer = items::delete(self.rows, delete, self.now_ms);
        match answer {
            Answer::Done(_) => self.counts.delete_hits.add(1),
            Answer::NotFound => self.counts.delete_misses.add(1),
            _ => {}
        }
        answer
    }

    pub(super) fn count(&mut self, delta: &Delta<'_>) -> (Answer, Counted) {
        let counted = items::count(self.rows, delta, self.now_ms);
        let (hits, misses) = if delta.up {
            (&self.counts.incr_hits, &self.counts.incr_misses)
        } else {
            (&self.counts.decr_hits, &self.counts.decr_misses)
        };
        match counted {
            (Answer::Done(_), Counted { created: false, .. }) => hits.add(1),
            (Answer::NotFound, _) => misses.add(1),
            (Answer::Done(_), _) => {
                misses.add(1);
                self.counts.total_items.add(1);
            }
            _ => {}
        }
        counted
    }

    /// Removes all rows, now or when `delay` says.
    pub(super) fn flush_all(&mut self, delay: i64) -> Result<(), Error> {
        self.counts.cmd_flush.add(1);
        let at_ms = items::expires_ms(delay, self.now_ms);
        if at_ms > self.now_ms {
            self.shared.flush_at(at_ms);
            return Ok(());
        }
        self.shared.flush_at(0);
        self.rows.clear()
    }
}
