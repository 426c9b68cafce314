//! How a server is started.

use crate::rpc::lease_clock::LeaseClock;
use keyrack_net::{ConnectOptions, Endpoint, Listener};
use std::time::Duration;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where it listens for connections.
    pub listen: Vec<Listener>,
    /// Where it listens for datagrams, and how many bytes their answers have at most.
    pub datagrams: Vec<(Endpoint, usize)>,
    /// Threads.
    pub threads: usize,
    /// What clients have to show. Without one, whoever can connect is served.
    pub token: Option<Vec<u8>>,
    /// Which of the servers this one is.
    pub server: u32,
    /// How many servers share the names.
    pub servers: u32,
    /// Answers without doing anything, to measure the way there and back.
    pub is_dummy: bool,
    /// Files of a partition that make it split, see [`crate::partition`].
    pub split_at: u64,
    /// How it connects to the other servers.
    pub connect: ConnectOptions,
    /// For how long clients may take the way to a directory as known. Without, they ask each time.
    pub lease: Duration,
    /// What tells how much of a lease is left.
    pub lease_clock: LeaseClock,
}

impl Default for ServeOptions {
    /// One server that listens nowhere yet.
    fn default() -> Self {
        ServeOptions {
            listen: Vec::new(),
            datagrams: Vec::new(),
            threads: 1,
            token: None,
            server: 0,
            servers: 1,
            is_dummy: false,
            split_at: SPLIT_AT,
            connect: ConnectOptions::with_timeout(PEER_TIMEOUT),
            lease: LEASE,
            lease_clock: LeaseClock::Machine,
        }
    }
}

/// Files of a partition that make it split, unless somebody says otherwise.
const SPLIT_AT: u64 = 2048;
/// For how long a lease is given.
const LEASE: Duration = Duration::from_secs(1);
/// How long another server may take for an answer.
pub(crate) const PEER_TIMEOUT: Duration = Duration::from_secs(5);
