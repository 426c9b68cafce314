//! What the children of a call are told: whom to ask, how long, with which keys.

use keyrack_net::Endpoint;
use std::path::PathBuf;
use std::time::Duration;

/// Ports of a server at most, for children that have one each.
pub(super) const PORTS: u32 = 48;

/// What the children are told.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) server: Server,
    pub(super) children: u32,
    /// What the first line calls the window.
    pub(super) window: u32,
    /// Requests in flight of a child.
    pub(super) in_flight: u32,
    /// Of the two stages, in whole seconds; 0 is no end.
    pub(super) durations_s: [f64; 2],
    pub(super) limit: Option<u64>,
    pub(super) is_quiet: bool,
    pub(super) first_seed: u32,
    pub(super) timeout: Duration,
    pub(super) params: Vec<(String, String)>,
    /// What the parameter `file` of a test names.
    pub(super) input: Option<PathBuf>,
    pub(super) long: Long,
}

/// Whom to ask, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Server {
    /// Over a connection.
    Stream(Endpoint),
    /// By datagrams.
    Datagrams {
        host: String,
        /// Of child 0.
        port: u16,
        /// Whether all children send to that one.
        is_shared: bool,
        /// From which child 0 sends; the kernel's choice if nothing is said.
        local_port: Option<u16>,
    },
}

impl Server {
    /// What the first line calls it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Server::Stream(_) => "tcp",
            Server::Datagrams { .. } => "udp",
        }
    }
}

/// Keys of `long_init` and `long_go`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Long {
    pub(super) key_bytes: usize,
    /// Bytes at the beginning that all keys share.
    pub(super) prefix_bytes: usize,
    /// Of each child.
    pub(super) keys: u64,
    /// Gets of 100 operations.
    pub(super) get_percent: u64,
    /// The first and the last letter of keys.
    pub(super) letters: (u8, u8),
}

impl Settings {
    /// The parameter of a test.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        let given = self.params.iter().rev().find(|(known, _)| known == name);
        given.map(|(_, value)| value.as_str())
    }
}
