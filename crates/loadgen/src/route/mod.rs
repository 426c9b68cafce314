//! Which server has a key, where servers share the keys among them.
//!
//! ```text
//!   none      every server has the same keys; a connection draws its own
//!   modula    hash(key) mod servers                        libmemcached's default
//!   ketama    the first point on a circle at hash(key)     libmemcached's, weighted
//!   tiers     the first of two servers, and then the second
//!   cluster   slots[crc16(tag(key)) mod 16384]             Redis Cluster, and it changes
//! ```
//!
//! Shards are arithmetic over the servers as they were written: clients that share a cache must
//! agree to the bit, so they are held against libmemcached's own answers. Of the cluster only
//! the arithmetic and the texts are here; who asks for the map and when is the worker's matter.
//!
//! **Invariant:** nothing here knows a socket. A key has one server, and equal texts make equal
//! maps.

mod ketama;
mod md5;
mod modula;
mod slots;

#[cfg(test)]
mod tests;

use keyrack_net::Endpoint;
use serde::{Deserialize, Serialize};

use crate::server::Server;
use ketama::Continuum;

pub(crate) use slots::{Redirect, Slots, Topology, parse_topology};

/// How servers share the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Sharding {
    /// They do not: each has all.
    #[default]
    None,
    /// By the rest of a hash.
    Modula,
    /// By points on a circle.
    Ketama,
    /// As Redis Cluster has it: the servers say who has what.
    Cluster,
    /// They do not: the second of two has what the first has not.
    Tiers,
}

impl Sharding {
    /// Does a request go elsewhere than to the connection that it was drawn for?
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Sharding::None
    }

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sharding::None => "none",
            Sharding::Modula => "modula",
            Sharding::Ketama => "ketama",
            Sharding::Cluster => "cluster",
            Sharding::Tiers => "tiers",
        }
    }
}

/// The servers of keys, where that does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shards {
    servers: usize,
    /// The circle; by the rest of a hash where there is none.
    continuum: Option<Continuum>,
}

impl Shards {
    /// The shards of these servers, in their order. `None` where a key has no server of its own, or
    /// the servers say which.
    #[must_use]
    pub fn new(sharding: Sharding, servers: &[Server]) -> Option<Shards> {
        let continuum = match sharding {
            Sharding::None | Sharding::Cluster | Sharding::Tiers => return None,
            Sharding::Modula => None,
            Sharding::Ketama => {
                let places: Vec<(String, u16)> = servers.iter().map(place).collect();
                Some(Continuum::new(&places))
            }
        };
        Some(Shards { servers: servers.len(), continuum })
    }

    /// The place of a key's server in their order.
    #[inline]
    #[must_use]
    pub fn server_of(&self, key: &[u8]) -> usize {
        match &self.continuum {
            _ if self.servers < 2 => 0,
            Some(continuum) => continuum.server_of(key),
            None => (modula::one_at_a_time(key) % self.servers as u32) as usize,
        }
    }
}

/// A server's name and port as libmemcached's clients have them: a Unix socket is its path, and has
/// port 0.
fn place(server: &Server) -> (String, u16) {
    match &server.endpoint {
        Endpoint::Unix(path) => (path.to_string_lossy().into_owned(), 0),
        endpoint => (server.host.clone(), endpoint.port().unwrap_or(0)),
    }
}
