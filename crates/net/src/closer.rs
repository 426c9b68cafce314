//! How any thread ends a connection of any loop.

use std::fmt;
use std::sync::Arc;

use crate::lanes::Lanes;
use crate::slots::Key;

/// Ends one connection. Clones end the same one; they may outlive it, and then do nothing.
#[derive(Clone)]
pub struct Closer {
    lanes: Arc<Lanes>,
    lane: usize,
    key: Key,
}

impl Closer {
    pub(crate) fn new(lanes: &Arc<Lanes>, lane: usize, key: Key) -> Self {
        Closer { lanes: Arc::clone(lanes), lane, key }
    }

    /// Has its loop end the connection, at once though its client says nothing: no more requests,
    /// and what waits to be sent is sent.
    pub fn close(&self) {
        self.lanes.lane(self.lane).end_connection(self.key);
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closer").field("lane", &self.lane).field("key", &self.key).finish()
    }
}
