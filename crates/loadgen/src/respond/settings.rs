//! What a responder is started with.

use std::path::PathBuf;

use keyrack_net::Endpoint;
use keyrack_workload::Distribution;

use super::error::Error;
use super::faults::Faults;

/// The largest value that reads find.
const VALUE_BYTES_MAX: usize = 64 << 20;

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

    pub(super) fn check(&self) -> Result<(), Error> {
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
