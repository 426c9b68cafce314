//! The options of a server: listeners, limits, timeouts. Everything has a limit, and every
//! limit has its default here.

use std::sync::Arc;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::memory::ClientMemory;
#[cfg(feature = "tls")]
use crate::tls::TlsServer;

/// The most loop threads of a server.
const THREADS_MAX: usize = 1024;
/// The most bytes of a UDP datagram's payload.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// The limits of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request, and so of what waits to be consumed. A connection that needs more is
    /// closed. Reads go by blocks, so up to a block more may be in memory for a moment.
    pub input_bytes_max: usize,
    /// Bytes of replies that wait to be sent. A connection with more is neither read nor served.
    pub output_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { input_bytes_max: 64 << 20, output_bytes_max: 16 << 20 }
    }
}

/// How long a client may take; `None` is for ever. Deadlines are coarse: they pass up to 0.15 s
/// late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From the connection to the end of the first request, with what TLS does before it.
    pub first_request: Option<Duration>,
    /// From the first byte of an incomplete request to its last.
    pub request: Option<Duration>,
    /// Between bytes from the client.
    pub idle: Option<Duration>,
    /// Between bytes to a client with waiting replies.
    pub stalled_output: Option<Duration>,
}

impl Default for Timeouts {
    /// An idle connection is kept, as pools of clients expect; TCP's own probes find the dead ones.
    fn default() -> Self {
        Timeouts {
            first_request: None,
            request: Some(Duration::from_secs(60)),
            idle: None,
            stalled_output: Some(Duration::from_secs(60)),
        }
    }
}

/// How the loops share the ports of a datagram listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramPorts {
    /// One port for all, where the kernel can spread datagrams over sockets; elsewhere the first
    /// loop serves it alone.
    Shared,
    /// A port for each loop: the endpoint's for the first, and the ones that follow.
    PerLoop,
}

/// A listener.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Where. A name is resolved, and all its addresses are listened on.
    pub endpoint: Endpoint,
    /// How.
    pub kind: ListenerKind,
}

/// How something is listened on.
#[derive(Clone, Debug)]
pub enum ListenerKind {
    /// Connections: TCP, or a Unix socket.
    Stream {
        /// The mode of the file of a Unix socket. It never has more rights than this, not even for
        /// a moment.
        unix_mode: u32,
        /// Certificates, where connections use TLS.
        #[cfg(feature = "tls")]
        tls: Option<TlsServer>,
    },
    /// UDP.
    Datagrams {
        /// Which ports.
        ports: DatagramPorts,
        /// Larger datagrams are dropped and counted.
        request_bytes_max: usize,
        /// Larger replies are dropped and counted. Nobody has proved the address of a datagram, so
        /// this is what keeps the server from being aimed at others.
        reply_bytes_max: usize,
    },
}

impl Listener {
    /// Connections without TLS; a Unix socket is for its owner alone.
    pub fn stream(endpoint: Endpoint) -> Self {
        let kind = ListenerKind::Stream {
            unix_mode: 0o600,
            #[cfg(feature = "tls")]
            tls: None,
        };
        Listener { endpoint, kind }
    }

    /// Connections with TLS.
    #[cfg(feature = "tls")]
    pub fn encrypted(endpoint: Endpoint, tls: TlsServer) -> Self {
        let kind = ListenerKind::Stream { unix_mode: 0o600, tls: Some(tls) };
        Listener { endpoint, kind }
    }

    /// Datagrams of any size, with replies of at most `reply_bytes_max`.
    pub fn datagrams(endpoint: Endpoint, ports: DatagramPorts, reply_bytes_max: usize) -> Self {
        let request_bytes_max = DATAGRAM_BYTES_MAX;
        let kind = ListenerKind::Datagrams { ports, request_bytes_max, reply_bytes_max };
        Listener { endpoint, kind }
    }
}

/// The options of a server.
#[derive(Clone, Debug)]
pub struct Options {
    /// Loop threads.
    pub threads: usize,
    /// The CPUs that loops are pinned to, assigned round robin; empty, and they run where the
    /// scheduler puts them.
    pub cpus: Vec<usize>,
    /// The listeners. The worker gets the index into this list.
    pub listeners: Vec<Listener>,
    /// Open connections of all loops. More get the protocol's refusal.
    pub connections_max: usize,
    /// Connections that the kernel holds until they are accepted, a listener and loop.
    pub backlog: u32,
    /// The limits of a connection until its worker changes them.
    pub limits: Limits,
    /// How long a client may take.
    pub timeouts: Timeouts,
    /// What all connections together may hold; without a limit where nothing is said. A worker can
    /// count here what it keeps for its connections.
    pub memory: Arc<ClientMemory>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            threads: 1,
            cpus: Vec::new(),
            listeners: Vec::new(),
            connections_max: 16_384,
            backlog: 1024,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            memory: ClientMemory::unlimited(),
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<()> {
        if self.threads == 0 || self.threads > THREADS_MAX {
            return Err(Error::usage(format!(
                "a server needs 1 to {THREADS_MAX} loop threads (got {})",
                self.threads
            )));
        }
        if self.connections_max == 0 {
            return Err(Error::usage("a server must allow at least 1 connection (got 0)"));
        }
        for listener in &self.listeners {
            let ListenerKind::Datagrams { request_bytes_max, .. } = listener.kind else { continue };
            if matches!(listener.endpoint, Endpoint::Unix(_)) {
                return Err(Error::usage(format!(
                    "datagrams need an address and a port (got {})",
                    listener.endpoint
                )));
            }
            if request_bytes_max > DATAGRAM_BYTES_MAX {
                return Err(Error::usage(format!(
                    "a datagram has at most {DATAGRAM_BYTES_MAX} bytes (got {request_bytes_max})"
                )));
            }
        }
        Ok(())
    }
}
