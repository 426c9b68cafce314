//! Waiting where connections are rings in memory: a look at each costs no system call, and before a
//! sleep each is asked for a wake-up.
//!
//! ```text
//!   turn:  look at all rings --something--> that is what is ready; sockets every few turns
//!                            --nothing----> spin for a moment, unless waiting is in the kernel
//!                                           ask for wake-ups, look once more, sleep, take it back
//! ```

use super::poller::Ready;
use super::{SPIN_NS, Worker};
use crate::error::{Error, Result};
use crate::plan::Waiting;
use crate::ring::{End, Wants};

/// Of turns that find something in memory, one in so many looks at sockets as well.
const SOCKET_ITERATIONS: u32 = 64;

impl Worker<'_> {
    /// What is ready, with at most so long a sleep, of connections in memory and others.
    pub(super) fn wait_for_memory(&mut self, wait_ns: u64) -> Result<()> {
        self.ready.clear();
        self.look_at_memory();
        if self.ready.is_empty() && wait_ns > 0 {
            let spin_ns = match self.plan.settings.waiting {
                Waiting::Block => 0,
                Waiting::Spin | Waiting::Adaptive => SPIN_NS.min(wait_ns),
            };
            let until = self.clock.ticks().saturating_add(self.clock.ticks_of_ns(spin_ns));
            while self.ready.is_empty() && self.clock.ticks() < until {
                std::hint::spin_loop();
                self.look_at_memory();
            }
        }
        self.iterations = self.iterations.wrapping_add(1);
        let is_idle = self.ready.is_empty();
        if (!is_idle || wait_ns == 0) && !self.iterations.is_multiple_of(SOCKET_ITERATIONS) {
            return Ok(());
        }
        let sleeps = is_idle && wait_ns > 0 && self.ask_for_wake_ups();
        let ready = self.poller.wait(if sleeps { wait_ns } else { 0 });
        let from = self.ready.len();
        self.ready.extend_from_slice(ready.map_err(Error::machine("wait for sockets"))?);
        if is_idle && wait_ns > 0 {
            self.memories(|end, _| end.wake());
        }
        for at in from..self.ready.len() {
            let transport = self.connections[self.ready[at].token].stream.as_mut();
            if let Some(end) = transport.and_then(|transport| transport.memory()) {
                end.drain_wakeups();
            }
        }
        Ok(())
    }

    fn look_at_memory(&mut self) {
        for (token, connection) in self.connections.iter_mut().enumerate() {
            let wants = Wants { bytes: true, room: connection.has_output() };
            let end = connection.stream.as_mut().and_then(|transport| transport.memory());
            if end.is_some_and(|end| end.is_ready(wants)) {
                self.ready.push(Ready { token, is_readable: true, is_writable: false });
            }
        }
    }

    /// May the thread sleep now?
    fn ask_for_wake_ups(&mut self) -> bool {
        let mut may_sleep = true;
        self.memories(|end, wants| may_sleep &= end.sleep(wants));
        may_sleep
    }

    fn memories(&mut self, mut visit: impl FnMut(&mut End, Wants)) {
        for connection in &mut self.connections {
            let wants = Wants { bytes: true, room: connection.has_output() };
            if let Some(end) = connection.stream.as_mut().and_then(|transport| transport.memory()) {
                visit(end, wants);
            }
        }
    }
}
