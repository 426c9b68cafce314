//! Replies that wait until their iteration is durable.
//!
//! The replies stay where they are, in the outputs of their connections; a group remembers which
//! connections those were. Replies to datagrams have no connection, so they are kept here, and
//! counted here as memory of clients; those for which there is none are lost, as datagrams are.
//!
//! **Invariant:** groups are released in the order of their iterations, so a connection is in one
//! group at most: it is not served again before it is released.

use std::collections::VecDeque;

use crate::datagrams::Replies;
use crate::memory::Charge;
use crate::slab::Key;

/// Emptied groups that are kept.
const SPARE_MAX: usize = 16;

/// The replies of one iteration.
#[derive(Debug, Default)]
pub(crate) struct ReplyGroup {
    token: u64,
    pub(crate) keys: Vec<Key>,
    pub(crate) replies: Replies,
}

/// All iterations that wait, oldest first.
#[derive(Debug)]
pub(crate) struct DeferredReplies {
    groups: VecDeque<ReplyGroup>,
    /// Emptied groups, whose memory is used again.
    spare: Vec<ReplyGroup>,
    /// The memory of the replies to datagrams.
    charge: Charge,
}

impl DeferredReplies {
    pub(crate) fn new(charge: Charge) -> Self {
        DeferredReplies { groups: VecDeque::new(), spare: Vec::new(), charge }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) fn group(&mut self) -> ReplyGroup {
        self.spare.pop().unwrap_or_default()
    }

    /// Lets a group wait for a token. Returns how many replies to datagrams are lost.
    pub(crate) fn defer(&mut self, token: u64, mut group: ReplyGroup) -> u64 {
        let held = self.charge.bytes() + group.replies.memory_bytes();
        let lost = if self.charge.set(held) { 0 } else { group.replies.drop_all() };
        group.token = token;
        self.groups.push_back(group);
        lost
    }

    /// The oldest group, if its token is done.
    pub(crate) fn release(&mut self, is_done: impl FnOnce(u64) -> bool) -> Option<ReplyGroup> {
        let group = is_done(self.groups.front()?.token).then(|| self.groups.pop_front())??;
        let left = self.charge.bytes() - group.replies.memory_bytes();
        assert!(self.charge.set(left), "less can always be held");
        Some(group)
    }

    /// Takes an emptied group back.
    pub(crate) fn recycle(&mut self, mut group: ReplyGroup) {
        group.keys.clear();
        group.replies.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(group);
        }
    }
}
