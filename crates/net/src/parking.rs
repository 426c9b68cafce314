//! Replies that wait until their turn is durable.
//!
//! The replies stay where they are, in the outputs of their connections; a group remembers which
//! connections those were. Replies to datagrams have no connection, so they are kept here.
//!
//! **Invariant:** groups are released in the order of their turns, so a connection is in one group
//! at most: it is not served again before it is released.

use std::collections::VecDeque;

use crate::datagrams::Replies;
use crate::slots::Key;

/// The replies of one turn.
#[derive(Debug, Default)]
pub(crate) struct Group {
    token: u64,
    pub(crate) keys: Vec<Key>,
    pub(crate) replies: Replies,
}

/// All turns that wait, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    groups: VecDeque<Group>,
    /// Emptied groups, whose memory is used again.
    spare: Vec<Group>,
}

impl Parking {
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// An empty group.
    pub(crate) fn group(&mut self) -> Group {
        self.spare.pop().unwrap_or_default()
    }

    /// Lets a group wait for a token.
    pub(crate) fn park(&mut self, token: u64, mut group: Group) {
        group.token = token;
        self.groups.push_back(group);
    }

    /// The oldest group, if its token is done.
    pub(crate) fn release(&mut self, is_done: impl FnOnce(u64) -> bool) -> Option<Group> {
        is_done(self.groups.front()?.token).then(|| self.groups.pop_front())?
    }

    /// Takes an emptied group back.
    pub(crate) fn recycle(&mut self, mut group: Group) {
        group.keys.clear();
        group.replies.clear();
        self.spare.push(group);
    }
}
