//! How any thread ends a connection of any loop.

use std::fmt;
use std::sync::Arc;

use crate::loop_handles::LoopHandles;
use crate::slab::Key;

/// Ends one connection. Clones end the same one; they may outlive it, and then do nothing.
#[derive(Clone)]
pub struct Closer {
    loops: Arc<LoopHandles>,
    loop_index: usize,
    key: Key,
}

impl Closer {
    pub(crate) fn new(loops: &Arc<LoopHandles>, loop_index: usize, key: Key) -> Self {
        Closer { loops: Arc::clone(loops), loop_index, key }
    }

    /// Has its loop end the connection, at once though its client says nothing: no more requests,
    /// and what waits to be sent is sent.
    pub fn close(&self) {
        self.loops.handle(self.loop_index).end_connection(self.key);
    }
}

impl fmt::Debug for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closer").field("loop", &self.loop_index).field("key", &self.key).finish()
    }
}
