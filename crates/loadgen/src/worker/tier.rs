//! Two tiers of caches, looked into one after the other by the client.
//!
//! ```text
//!   GET   first --hit--> done
//!           \--miss--> second --hit--> done, and a copy is stored in the first
//!                         \----miss--> done, stored in the second as any miss is, and a copy
//!                                      in the first
//!   SET   first --stored--> done, and a copy is stored in the second
//! ```
//!
//! The second tier has everything that was written: records are loaded there, and stores go
//! through. So whatever the first one drops can be found again, although stock servers do not say
//! what they drop. A lookup is one request with one latency, over both tiers; copies have none, and
//! are counted when they are stored. Node 0 is the first tier, node 1 the second.

use keyrack_wire::outcome::{Kind, Outcome};

use super::Worker;
use super::in_flight::{InFlight, flags};
use crate::plan::Filling;
use crate::route::Sharding;
use crate::target::Class;

impl Worker<'_> {
    #[inline]
    fn is_tiered(&self) -> bool {
        self.plan.settings.sharding == Sharding::Tiers
    }

    /// The connection of the same client to the other tier, and whether this one is of the first.
    fn other_tier(&self, at: usize) -> (usize, bool) {
        let clients = self.plan.settings.connections;
        let is_first = self.connections[at].server == 0;
        (if is_first { at + clients } else { at - clients }, is_first)
    }

    /// Takes a lookup that the first tier missed to the second. `false`: it stays what it is.
    pub(super) fn try_second_tier(
        &mut self,
        at: usize,
        request: &InFlight,
        outcome: Outcome,
    ) -> bool {
        if !self.is_tiered() || outcome != Outcome::Miss || !request.kind.is_lookup() {
            return false;
        }
        let (to, is_first) = self.other_tier(at);
        if !is_first || !(self.connections[to].is_alive() || self.connections[to].is_awaited) {
            return false;
        }
        self.account.counts.tier_misses += 1;
        let mut again = InFlight { redirects: 1, ..*request };
        if !self.is_open() {
            // It began with the first send.
            again.intended = request.sent;
        }
        self.connections[to].queue.push_back(again);
        self.woken.push(to);
        true
    }

    /// Copies to the other tier what one has and the other has not. Before the reply is counted,
    /// which gives up a key that is kept.
    pub(super) fn copy_to_other_tier(
        &mut self,
        at: usize,
        request: &InFlight,
        outcome: Outcome,
        now: u64,
    ) {
        if !self.is_tiered() {
            return;
        }
        let (to, is_first) = self.other_tier(at);
        let is_due = match (Class::of(request.kind), outcome) {
            (Class::Read, Outcome::Hit { .. } | Outcome::Miss) => !is_first,
            (Class::Update, Outcome::Stored) => is_first && request.flags & flags::FILL == 0,
            _ => false,
        };
        let stores = self.plan.settings.filling != Filling::Never;
        let is_there = self.connections[to].is_alive() || self.connections[to].is_awaited;
        if !is_due || !stores || !is_there {
            return;
        }
        self.trace_keys.share(request);
        let flags = request.flags & flags::TRACE_KEY | flags::COPY;
        let copy = InFlight { intended: now, kind: Kind::Set, flags, redirects: 0, ..*request };
        self.connections[to].queue.push_back(copy);
        self.woken.push(to);
    }

    /// Counts a copy that was answered.
    pub(super) fn note_copy(&mut self, request: &InFlight, outcome: Outcome) {
        self.account.counts.copies += u64::from(outcome == Outcome::Stored);
        self.trace_keys.release(request);
    }
}
