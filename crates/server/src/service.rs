//! The server as the event loops see it: a worker for each.

use crate::state::State;
use crate::worker::Worker;
use keyrack_net::Waker;
use std::sync::Arc;

/// Makes the workers.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) state: Arc<State>,
}

impl keyrack_net::Service for Service {
    type Worker<'a> = Worker<'a>;

    fn worker(&self, index: usize, waker: Waker) -> Worker<'_> {
        Worker::new(&self.state, index, waker)
    }
}
