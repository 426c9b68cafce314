//! Servers for tests and calibration that answer without storing anything.
//!
//! ```text
//!   null      net's loops, replies built before: what a client can reach at most; a loop of
//!             its own for connections in shared memory
//!   fault     a loop of its own: late, cut, slow, wrong, gone, by a seed
//!   oracle    a loop of its own: one queue, one server, drawn service times, so that queueing
//!             theory says which percentiles a client has to report
//! ```
//!
//! All speak memcached's text, meta and binary protocols and RESP2/3, told apart by the first byte,
//! and say yes to everything: a read finds a value of the same size whatever the key, or nothing
//! with the probability that was asked for; a write is stored; a password is right.
//!
//! | text | responder |
//! |---|---|
//! | `null` | answers at once |
//! | `oracle:exponential:0.002` | drawn service times in microseconds: here 500 on average |
//! | `fault:delay=5ms@0.1,close@0.01` | faults with their probabilities, see [`Faults`] |
//!
//! **Invariant:** what a responder draws comes from its seed, in the order of the requests.

mod answer;
mod counts;
mod delayed_server;
mod error;
mod faults;
mod null;
mod queue;
mod settings;
mod shm;
pub mod theory;
mod timed_reply;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_net::Endpoint;

pub use counts::Counts;
pub use error::Error;
pub use faults::Faults;
pub use settings::{ListenAddress, ResponderKind, Settings};

use counts::LiveCounts;

/// How long [`run`] takes at most to see that it is to stop.
const STOP_SLICE_NS: u64 = 50_000_000;
/// How long replies may take to leave when a responder ends.
const GRACE: Duration = Duration::from_millis(200);
/// A running responder. It ends when it is dropped.
#[derive(Debug)]
pub struct Responder {
    addresses: Vec<Endpoint>,
    counts: Arc<LiveCounts>,
    /// The loops of net, where they serve.
    handle: Option<keyrack_net::Handle>,
    /// The thread of another loop, and what ends it.
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Responder {
    /// Starts one; when this returns, clients can connect.
    ///
    /// # Errors
    /// Settings that make no sense, an endpoint that cannot be listened on.
    pub fn start(settings: &Settings) -> Result<Responder, Error> {
        settings.check()?;
        let counts = Arc::new(LiveCounts::default());
        let stop = Arc::new(AtomicBool::new(false));
        let mut responder = Responder {
            addresses: Vec::new(),
            counts: Arc::clone(&counts),
            handle: None,
            stop: Arc::clone(&stop),
            thread: None,
        };
        if settings.kind != ResponderKind::Null {
            let (server, addresses) = delayed_server::DelayedServer::bind(settings, counts)?;
            responder.addresses = addresses;
            responder.thread = Some(spawn(move || server.run(&stop))?);
            return Ok(responder);
        }
        if !settings.endpoints.is_empty() {
            let handle = null::start(settings, &counts)?;
            responder.addresses = handle.local_addrs().iter().flatten().cloned().collect();
            responder.handle = Some(handle);
        }
        if !settings.shared.is_empty() {
            let looking = shm::Loop::bind(settings, counts)?;
            responder.thread = Some(spawn(move || looking.run(&stop))?);
        }
        Ok(responder)
    }

    /// Where it listens, but for shared memory.
    #[must_use]
    pub fn addresses(&self) -> &[Endpoint] {
        &self.addresses
    }

    /// What it has counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts.read()
    }

    /// Ends it; the result is its last count.
    ///
    /// # Errors
    /// A loop that ended by a failure of the machine.
    pub fn shutdown(mut self) -> Result<Counts, Error> {
        self.end()?;
        Ok(self.counts())
    }

    fn end(&mut self) -> Result<(), Error> {
        // Release: pairs with the acquiring loads of the loops, though nothing hangs on it.
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let cause = std::io::Error::other("its thread panicked");
            return Err(Error::Machine { action: "end the responder".to_owned(), cause });
        }
        if let Some(handle) = self.handle.take() {
            handle.shutdown(GRACE)?;
        }
        Ok(())
    }
}

fn spawn(serve: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    let thread = thread::Builder::new().name("responder".to_owned()).spawn(serve);
    thread.map_err(|cause| Error::Machine { action: "start a thread".to_owned(), cause })
}

impl Drop for Responder {
    fn drop(&mut self) {
        // Whoever wants to know calls `shutdown`.
        let _ = self.end();
    }
}

/// Runs a responder until `stop` says so; `ready` is told where it listens.
///
/// # Errors
/// As [`Responder::start`] and [`Responder::shutdown`].
pub fn run(
    settings: &Settings,
    ready: &mut dyn FnMut(&[Endpoint]),
    stop: &dyn Fn() -> bool,
) -> Result<Counts, Error> {
    let responder = Responder::start(settings)?;
    ready(responder.addresses());
    let clock = Clock::vdso();
    while !stop() {
        clock.wait_until(clock.ticks() + clock.ticks_of_ns(STOP_SLICE_NS));
    }
    responder.shutdown()
}
