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
mod delayed_server;
mod faults;
mod null;
mod queue;
mod shm;
pub mod theory;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use keyrack_measure::Clock;
use keyrack_net::Endpoint;
use keyrack_workload::Distribution;

pub use faults::Faults;

/// How long [`run`] takes at most to see that it is to stop.
const STOP_SLICE_NS: u64 = 50_000_000;
/// How long replies may take to leave when a responder ends.
const GRACE: Duration = Duration::from_millis(200);
/// The largest value that reads find.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// Why a responder cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text or a number makes no sense.
    #[error("responder {text:?}: {problem}")]
    Usage {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The distribution of an oracle.
    #[error("service time of the oracle: {0}")]
    Distribution(#[from] keyrack_workload::Error),
    /// The machine.
    #[error(transparent)]
    Net(#[from] keyrack_net::Error),
    /// The machine, too.
    #[error("cannot {action}: {cause}")]
    Machine {
        /// What was tried.
        action: String,
        /// What the kernel said.
        cause: std::io::Error,
    },
}

/// How a responder behaves.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ResponderKind {
    /// Answers at once.
    Null,
    /// Makes faults.
    Fault(Faults),
    /// Serves one request after the other, each for a time drawn from a distribution, in
    /// microseconds.
    Queue(Distribution),
}

impl ResponderKind {
    /// Reads the text form: `null`, `fault:LIST`, `oracle:DIST`.
    ///
    /// # Errors
    /// An unknown name, a distribution or a list that cannot be read.
    pub fn parse(text: &str) -> Result<ResponderKind, Error> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let usage = |problem: &str| Error::Usage { text: text.to_owned(), problem: problem.into() };
        match name {
            "null" if rest.is_empty() => Ok(ResponderKind::Null),
            "fault" => Faults::parse(rest).map(ResponderKind::Fault),
            "oracle" if rest.is_empty() => {
                Err(usage("say how long a request is served, such as oracle:exponential:0.002"))
            }
            "oracle" => {
                let distribution = Distribution::parse(rest)?;
                let mean_us = distribution.mean();
                if !(mean_us.is_finite() && mean_us > 0.0) {
                    return Err(usage("the mean service time must be more than 0 microseconds"));
                }
                Ok(ResponderKind::Queue(distribution))
            }
            _ => Err(usage("expected null, fault:LIST or oracle:DIST")),
        }
    }
}

/// Where a responder listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A socket.
    Socket(Endpoint),
    /// Shared memory, at the path of a Unix socket that tells of it.
    Memory(PathBuf),
}

impl ListenAddress {
    /// Reads `HOST:PORT`, `unix:PATH` or `shm:PATH`.
    ///
    /// # Errors
    /// None of them.
    pub fn parse(text: &str) -> Result<ListenAddress, Error> {
        let Some(path) = text.strip_prefix("shm:") else {
            return Ok(ListenAddress::Socket(text.parse()?));
        };
        match format!("unix:{path}").parse()? {
            Endpoint::Unix(path) => Ok(ListenAddress::Memory(path)),
            other => Ok(ListenAddress::Socket(other)),
        }
    }
}

/// What a responder is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens. Port 0 lets the kernel choose.
    pub endpoints: Vec<Endpoint>,
    /// Paths where it takes connections in shared memory.
    pub shared: Vec<PathBuf>,
    /// How it behaves.
    pub kind: ResponderKind,
    /// Loop threads of `null`; the others have one, since one queue is what they are about.
    pub threads: usize,
    /// Bytes of the value that reads find.
    pub value_bytes: usize,
    /// The probability that a read finds nothing.
    pub miss_share: f64,
    /// The seed of misses, faults and service times.
    pub seed: u64,
}

impl Settings {
    /// A responder on a port of loopback that the kernel chooses, with one thread and values of 200
    /// bytes.
    #[must_use]
    pub fn on_loopback(kind: ResponderKind) -> Settings {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        Settings {
            endpoints: vec![Endpoint::Ip(address)],
            shared: Vec::new(),
            kind,
            threads: 1,
            value_bytes: 200,
            miss_share: 0.0,
            seed: 1,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let usage =
            |text: String, problem: &str| Err(Error::Usage { text, problem: problem.into() });
        if self.endpoints.is_empty() && self.shared.is_empty() {
            return usage(String::new(), "say where it listens, such as 127.0.0.1:11211");
        }
        if self.value_bytes > VALUE_BYTES_MAX {
            return usage(self.value_bytes.to_string(), "a value has at most 64 MiB");
        }
        if !(0.0..=1.0).contains(&self.miss_share) {
            return usage(self.miss_share.to_string(), "the share of misses is 0 to 1");
        }
        Ok(())
    }
}

/// What a responder has counted, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Requests that were answered, or were to be and met a fault.
    pub requests: u64,
    /// Faults that were made.
    pub faults: u64,
}

/// The counts, while they grow.
#[derive(Debug, Default)]
struct LiveCounts {
    connections: AtomicU64,
    requests: AtomicU64,
    faults: AtomicU64,
}

impl LiveCounts {
    fn read(&self) -> Counts {
        // Relaxed: each count publishes nothing but itself.
        Counts {
            connections: self.connections.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
        }
    }

    fn add(count: &AtomicU64, number: u64) {
        count.fetch_add(number, Ordering::Relaxed);
    }
}

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
