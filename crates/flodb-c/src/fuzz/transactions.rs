//! The steps of transactions.

use super::model::{OpenIterator, OpenTransaction, Step, Write};
use super::{Machine, in_slot, raw};
use crate::error::Code::{self, KEYRACK_CLOSED, KEYRACK_CONFLICT, KEYRACK_OK, KEYRACK_USAGE};
use crate::library::KEYRACK_SNAPSHOT_ISOLATION;
use crate::transaction::*;
use std::ptr;

impl Machine {
    pub(super) fn transaction(&mut self, step: Step) {
        self.free_transaction(step.slot());
        let store = if step.is_null() { ptr::null_mut() } else { self.store };
        let flags = if step.space() == 1 { KEYRACK_SNAPSHOT_ISOLATION } else { 0 };
        let mut handle = ptr::null_mut();
        let place = &raw mut handle;
        let code = call!(self, keyrack_transaction_begin(store, flags, place));
        self.check(self.expected(!store.is_null()), code);
        if code != KEYRACK_OK {
            return;
        }
        self.transactions_begun += 1;
        self.transactions[step.slot()] = Some(OpenTransaction {
            handle,
            number: self.transactions_begun,
            is_serializable: flags == 0,
            maps: self.maps.clone(),
            began: self.writes,
            reads: Vec::new(),
            writes: Vec::new(),
            save_points: Vec::new(),
            is_ended: false,
            has_moved: false,
        });
    }

    /// Whether a transaction other than this one has locked rows.
    fn are_rows_locked(&self, number: u64) -> bool {
        let is_owner = |it: &OpenTransaction| it.number == self.row_owner && !it.is_ended;
        let is_kept = |it: &OpenIterator| it.owner == Some(self.row_owner);
        self.row_owner != number
            && (self.transactions.iter().flatten().any(is_owner)
                || self.iterators.iter().flatten().any(is_kept))
    }

    pub(super) fn use_transaction(&mut self, step: Step) {
        let slot = step.slot();
        let space = self.space(step);
        let handle = in_slot(&self.transactions[slot], |it| it.handle);
        let is_running = self.transactions[slot].as_ref().is_some_and(|it| !it.is_ended);
        let expected = self.expected(!space.is_null() && !handle.is_null());
        let expected = match expected {
            KEYRACK_OK if !is_running => KEYRACK_USAGE,
            other => other,
        };
        match step.which >> 3 & 3 {
            0 => self.read_in(slot, step, expected, false),
            1 if self.transactions[slot]
                .as_ref()
                .is_some_and(|it| self.are_rows_locked(it.number)) => {}
            1 => self.read_in(slot, step, expected, true),
            2 => self.save_points(slot, step),
            _ => self.write_in(slot, step, expected),
        }
    }

    fn read_in(&mut self, slot: usize, step: Step, expected: Code, is_locked: bool) {
        let (space, key) = (self.space(step), step.key());
        let handle = in_slot(&self.transactions[slot], |it| it.handle);
        let (mut value, mut len) = (ptr::null_mut(), 7);
        let ((bytes, count), places) = (raw(&key), (&raw mut value, &raw mut len));
        let code = match is_locked {
            false => call!(
                self,
                keyrack_transaction_get(handle, space, bytes, count, places.0, places.1)
            ),
            true => call!(
                self,
                keyrack_transaction_get_for_update(handle, space, bytes, count, places.0, places.1)
            ),
        };
        let found = Self::taken(value, len);
        let writes = self.writes;
        let Some(transaction) = self.transactions[slot].as_mut().filter(|_| expected == KEYRACK_OK)
        else {
            return self.check(expected, code);
        };
        if is_locked {
            self.row_owner = transaction.number;
            // It may be at a later moment from now on.
            transaction.has_moved |= transaction.began != writes;
        }
        if transaction.has_moved {
            assert!(matches!(code, KEYRACK_OK | KEYRACK_CONFLICT), "{code:?}");
            return;
        }
        assert_eq!(found.as_ref(), transaction.maps()[step.space()].get(&key));
        if transaction.writes.is_empty() {
            transaction.reads.push((step.space(), key));
        }
        self.check(KEYRACK_OK, code);
    }

    fn write_in(&mut self, slot: usize, step: Step, expected: Code) {
        let (space, write) = (self.space(step), step.write());
        let handle = in_slot(&self.transactions[slot], |it| it.handle);
        let code = match &write {
            Write::Put(_, key, value) => {
                let ((key, key_len), (value, len)) = (raw(key), raw(value));
                call!(self, keyrack_transaction_put(handle, space, key, key_len, value, len))
            }
            Write::Delete(_, key) => {
                let (key, len) = raw(key);
                call!(self, keyrack_transaction_delete(handle, space, key, len))
            }
            Write::Range(_, low, high) => {
                let ((low, low_len), (high, len)) = (raw(low), raw(high));
                call!(
                    self,
                    keyrack_transaction_delete_range(handle, space, low, low_len, high, len)
                )
            }
        };
        self.check(expected, code);
        if let Some(transaction) = self.transactions[slot].as_mut().filter(|_| code == KEYRACK_OK) {
            transaction.writes.push(write);
        }
    }

    fn save_points(&mut self, slot: usize, step: Step) {
        let handle = in_slot(&self.transactions[slot], |it| it.handle);
        let code = match step.word % 3 {
            0 => call!(self, keyrack_transaction_save_point(handle)),
            1 => call!(self, keyrack_transaction_roll_back_to_save_point(handle)),
            _ => call!(self, keyrack_transaction_release_save_point(handle)),
        };
        let is_closed = self.is_closed;
        let Some(transaction) = &mut self.transactions[slot] else {
            return self.check(KEYRACK_USAGE, code);
        };
        let expected = match (is_closed, transaction.is_ended) {
            (true, _) => KEYRACK_CLOSED,
            (false, true) => KEYRACK_USAGE,
            (false, false) => transaction.save_point(step.word % 3),
        };
        self.check(expected, code);
    }

    pub(super) fn end_transaction(&mut self, step: Step) {
        let slot = step.slot();
        let handle = in_slot(&self.transactions[slot], |it| it.handle);
        let is_commit = step.word & 1 == 0;
        let code = match is_commit {
            true => call!(self, keyrack_transaction_commit(handle)),
            false => call!(self, keyrack_transaction_roll_back(handle)),
        };
        let Some(transaction) = &mut self.transactions[slot] else {
            return self.check(KEYRACK_USAGE, code);
        };
        let number = transaction.number;
        let has_iterators = self.iterators.iter().flatten().any(|it| it.owner == Some(number));
        if self.is_closed {
            return self.check(KEYRACK_CLOSED, code);
        }
        if transaction.is_ended || has_iterators {
            return self.check(KEYRACK_USAGE, code);
        }
        transaction.is_ended = true;
        let (has_changed, must) = (transaction.began != self.writes, transaction.must(&self.maps));
        let writes = std::mem::take(&mut transaction.writes);
        if is_commit && has_changed && code == KEYRACK_CONFLICT {
            return;
        }
        assert!(!(is_commit && must), "what it has read has changed, and it committed");
        self.check(KEYRACK_OK, code);
        if is_commit && !writes.is_empty() {
            self.wrote(&writes);
        }
    }
}
