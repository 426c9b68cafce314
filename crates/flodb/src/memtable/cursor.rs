//! A place in the merged runs of a memtable.
//!
//! ```text
//!   run 0:  a     d  [f]    k        forward: each head is at the first entry of its run that is
//!   run 1:     c          h          not before the place; the least head is the place,
//!   run 2:  b         [f']     m     the next least one the rival
//! ```
//!
//! A step moves one head. If it is still before the rival, that was all: one comparison of two
//! numbers, mostly. Else the least two are looked for among all heads, of which there are
//! O(log n). A change of direction places all other heads anew, by a search in each run.
//!
//! Heads compare by the prefixes behind what all keys of all runs share, so that a run's own
//! prefixes can be used as they are when keys share the same everywhere, which is the rule.

use super::Memtable;
use super::arena::Handle;
use super::run::{Run, shared_by};
use super::sorted_runs::Runs;
use crate::cursor::{Approach, Cursor};
use crate::error::Result;
use crate::key::{TRAILER_BYTES, user_of};
use std::cmp::Ordering;
use std::sync::Arc;

/// How many entries ahead memory is asked for: about what a step takes, several times.
const AHEAD: usize = 6;

/// Visits the entries that a memtable had when the cursor was made. What is inserted later does
/// not appear. Keeps the memtable alive.
pub(crate) struct MemtableCursor {
    pub(super) runs: Runs,
    memtable: Arc<Memtable>,
    /// Bytes that all keys share.
    shared: usize,
    /// One a run.
    heads: Vec<Option<Head>>,
    is_forward: bool,
    /// The run whose head is the place, and the one whose head comes next.
    place: Option<usize>,
    rival: Option<usize>,
    /// Whether the entry here has the user key of the one that the last step left.
    repeats: bool,
}

#[derive(Clone, Copy)]
struct Head {
    at: usize,
    prefix: u64,
    handle: Handle,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>, runs: Runs) -> Self {
        let shared = shared_by(memtable.rank(), runs.iter().map(|run| &**run));
        let heads = vec![None; runs.len()];
        let (place, rival) = (None, None);
        MemtableCursor {
            runs,
            memtable,
            shared,
            heads,
            is_forward: true,
            place,
            rival,
            repeats: false,
        }
    }

    /// The head of a run at a place, or none beyond its ends.
    fn head(&self, run: usize, at: Option<usize>) -> Option<Head> {
        let run: &Run = &self.runs[run];
        let at = at?;
        let handle = run.handle(at)?;
        let ahead = if self.is_forward { at + AHEAD } else { at.wrapping_sub(AHEAD) };
        if let Some(handle) = run.handle(ahead) {
            self.memtable.arena.prefetch(handle);
        }
        Some(Head { at, prefix: run.prefix(self.memtable.rank(), at, self.shared), handle })
    }

    /// Whether the head of run `a` comes before that of run `b`, in the direction of the cursor.
    fn is_before(&self, a: usize, b: usize) -> bool {
        match (&self.heads[a], &self.heads[b]) {
            (Some(a), Some(b)) => {
                let order = a.prefix.cmp(&b.prefix);
                let order = order.then_with(|| self.memtable.rank().compare(a.handle, b.handle));
                order == if self.is_forward { Ordering::Less } else { Ordering::Greater }
            }
            (head, _) => head.is_some(),
        }
    }

    /// Finds the place and its rival among the heads.
    fn choose(&mut self) {
        let (mut place, mut rival) = (None, None);
        for run in (0..self.heads.len()).filter(|run| self.heads[*run].is_some()) {
            if place.is_none_or(|place| self.is_before(run, place)) {
                (place, rival) = (Some(run), place);
            } else if rival.is_none_or(|rival| self.is_before(run, rival)) {
                rival = Some(run);
            }
        }
        (self.place, self.rival) = (place, rival);
    }

    /// Places all heads, forward at the first entry not before the target, or backward at the
    /// last one before it. `except` keeps its own.
    fn place_heads(&mut self, user: &[u8], trailer: u64, except: Option<usize>) {
        for run in (0..self.runs.len()).filter(|run| Some(*run) != except) {
            let bound = self.runs[run].lower_bound(self.memtable.rank(), user, trailer);
            let at = if self.is_forward { Some(bound) } else { bound.checked_sub(1) };
            self.heads[run] = self.head(run, at);
            if self.is_forward {
                // The steps that come ask further ahead than that.
                let near = bound + 1..bound + 1 + AHEAD / self.runs.len();
                let handles = near.map_while(|at| self.runs[run].handle(at));
                handles.for_each(|handle| self.memtable.arena.prefetch(handle));
            }
        }
    }

    /// Goes one entry on in a direction.
    fn advance(&mut self, is_forward: bool) {
        let place = self.place.expect("only from an entry");
        let head = self.heads[place].expect("the chosen run has an entry");
        let is_turned = self.is_forward != is_forward;
        if is_turned {
            self.is_forward = is_forward;
            let memtable = self.memtable.clone();
            let entry = memtable.arena.entry(head.handle);
            self.place_heads(entry.key(), entry.trailer(), Some(place));
        }
        let at = if is_forward { Some(head.at + 1) } else { head.at.checked_sub(1) };
        self.heads[place] = self.head(place, at);
        let stays = !is_turned
            && self.heads[place].is_some()
            && self.rival.is_none_or(|rival| self.is_before(place, rival));
        if !stays {
            self.choose();
        }
        let here = self.place.and_then(|place| self.heads[place]);
        self.repeats = here.is_some_and(|here| self.is_same_key(here, head.prefix, head.handle));
    }

    /// Whether a head has the user key of an entry.
    #[inline]
    fn is_same_key(&self, head: Head, prefix: u64, handle: Handle) -> bool {
        let key = |handle| self.memtable.arena.entry(handle).key();
        head.prefix == prefix && key(head.handle) == key(handle)
    }
}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.is_forward = true;
        for run in 0..self.runs.len() {
            self.heads[run] = self.head(run, Some(0));
        }
        self.choose();
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.is_forward = false;
        for run in 0..self.runs.len() {
            self.heads[run] = self.head(run, self.runs[run].len().checked_sub(1));
        }
        self.choose();
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.is_forward = true;
        let (user, trailer) = match target.split_last_chunk::<TRAILER_BYTES>() {
            Some((user, trailer)) => (user, u64::from_le_bytes(*trailer)),
            None => (&[][..], 0),
        };
        self.place_heads(user, trailer, None);
        self.choose();
        Ok(())
    }

    fn approach(&mut self, target: &[u8], part: Approach) {
        // Without prefixes a search reads entries from the first comparison on.
        if !self.memtable.rank().has_prefixes() {
            return;
        }
        let user = user_of(target);
        for run in self.runs.iter() {
            match part {
                Approach::Index => run.prefetch_prefixes(user),
                Approach::Slot => run.prefetch_near(user),
                Approach::Header => {
                    if let Some(handle) = run.near(user) {
                        self.memtable.arena.prefetch(handle);
                    }
                }
                Approach::Restarts | Approach::Entries | Approach::Group => {}
            }
        }
    }

    fn next(&mut self) -> Result<()> {
        self.advance(true);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.advance(false);
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let head = self.heads[self.place?].as_ref()?;
        let entry = self.memtable.arena.entry(head.handle);
        Some((entry.internal(), entry.value()))
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        let head = self.heads[self.place?].as_ref()?;
        Some(self.memtable.arena.entry(head.handle).internal())
    }

    #[inline]
    fn repeats(&self) -> bool {
        self.repeats
    }

    fn may_repeat_before(&self) -> bool {
        let Some((place, head)) = self.place.and_then(|place| Some((place, self.heads[place]?)))
        else {
            return true;
        };
        if self.is_forward {
            return true;
        }
        let run = &self.runs[place];
        // The first entry of a run has none before it there.
        let before = head.at.checked_sub(1).and_then(|at| Some((at, run.handle(at)?)));
        let repeats_in_run = before.is_some_and(|(at, handle)| {
            let prefix = run.prefix(self.memtable.rank(), at, self.shared);
            self.is_same_key(head, prefix, handle)
        });
        let rival = self.rival.and_then(|rival| self.heads[rival]);
        repeats_in_run
            || rival.is_some_and(|rival| self.is_same_key(head, rival.prefix, rival.handle))
    }
}
