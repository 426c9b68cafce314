//! The listeners of the server: `SCHEME://ADDRESS`.
//!
//! ```text
//!   memcached://127.0.0.1:11211      text, meta and binary
//!   resp://127.0.0.1:6379            Redis (also written redis://)
//!   masstree://127.0.0.1:2117        Masstree over TCP
//!   masstree+udp://127.0.0.1:2117    one message a datagram
//!   mixed://127.0.0.1:7000           whichever of the three the first bytes are
//!   memcached+unix:///run/k.sock     any of them on a unix socket; unix:///path is mixed
//!   resp+tls://10.0.0.1:6380         any of them under TLS (rediss:// is resp+tls://)
//! ```

use crate::{Error, Result};
use std::fmt;
use std::net::IpAddr;

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// memcached: text, meta, binary.
    Memcached,
    /// Redis: RESP2 and RESP3.
    Resp,
    /// Masstree: msgpack.
    Masstree,
    /// Any of them, detected from the first bytes.
    Mixed,
}

impl Protocol {
    /// The name in a scheme.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Memcached => "memcached",
            Protocol::Resp => "resp",
            Protocol::Masstree => "masstree",
            Protocol::Mixed => "mixed",
        }
    }

    /// The name of its clients, in the log and in metrics.
    pub(crate) fn clients(self) -> &'static str {
        match self {
            Protocol::Resp => "redis",
            other => other.name(),
        }
    }

    /// Whether the protocol lets a client authenticate.
    #[must_use]
    pub fn authenticates(self) -> bool {
        matches!(self, Protocol::Memcached | Protocol::Resp)
    }

    fn default_port(self) -> Option<u16> {
        match self {
            Protocol::Memcached => Some(11211),
            Protocol::Resp => Some(6379),
            Protocol::Masstree => Some(2117),
            Protocol::Mixed => None,
        }
    }
}

/// The transport of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// TCP under TLS.
    Tls,
    /// Datagrams; only for Masstree.
    Udp,
    /// A unix socket.
    Unix,
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Its protocol.
    pub protocol: Protocol,
    /// Its transport.
    pub transport: Transport,
    /// `HOST:PORT`, or the path of a unix socket.
    pub address: String,
}

impl Listen {
    /// Parses `SCHEME://ADDRESS`. The default port is the protocol's own.
    ///
    /// # Errors
    /// [`Error::Usage`] with one sentence that has the accepted forms.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::usage(format!(
                "listen '{text}': {why}; write memcached://, resp://, masstree:// or mixed:// \
                 with HOST:PORT, +tls, +udp (masstree only) or +unix before the colon, or \
                 unix:///PATH"
            ))
        };
        let (scheme, address) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let (name, transport) = match scheme {
            "unix" => ("mixed", Transport::Unix),
            "rediss" => ("resp", Transport::Tls),
            _ => match scheme.split_once('+') {
                None => (scheme, Transport::Tcp),
                Some((name, "tls")) => (name, Transport::Tls),
                Some((name, "udp")) => (name, Transport::Udp),
                Some((name, "unix")) => (name, Transport::Unix),
                Some(_) => return Err(wrong("unknown transport")),
            },
        };
        let protocol = match name {
            "memcached" | "memcache" => Protocol::Memcached,
            "resp" | "redis" => Protocol::Resp,
            "masstree" => Protocol::Masstree,
            "mixed" => Protocol::Mixed,
            _ => return Err(wrong("unknown protocol")),
        };
        if transport == Transport::Udp && protocol != Protocol::Masstree {
            return Err(wrong("only Masstree's protocol has datagrams"));
        }
        let address = match transport {
            Transport::Unix if address.starts_with('/') => address.to_owned(),
            Transport::Unix => return Err(wrong("a unix socket needs an absolute path")),
            _ => with_port(address.trim_end_matches('/'), protocol)
                .ok_or_else(|| wrong("no host and port"))?,
        };
        Ok(Listen { protocol, transport, address })
    }

    /// Whether only this machine can reach it. Judged by the text: a name other than `localhost`
    /// counts as reachable from elsewhere.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.transport == Transport::Unix || is_loopback(&self.address)
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Tcp => "",
            Transport::Tls => "+tls",
            Transport::Udp => "+udp",
            Transport::Unix => "+unix",
        };
        write!(f, "{}{transport}://{}", self.protocol.name(), self.address)
    }
}

/// Whether only this machine can reach `HOST:PORT`.
pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// `HOST:PORT`, with the protocol's port as the default.
fn with_port(address: &str, protocol: Protocol) -> Option<String> {
    let bracket = address.rfind(']');
    let has_port = match (address.rfind(':'), bracket) {
        (Some(colon), Some(bracket)) => colon > bracket,
        (colon, None) => colon.is_some(),
        (None, Some(_)) => false,
    };
    if address.is_empty() || address.starts_with(':') {
        return None;
    }
    if !has_port {
        return Some(format!("{address}:{}", protocol.default_port()?));
    }
    let (host, port) = address.rsplit_once(':')?;
    if bracket.is_none() && host.contains(':') {
        return None;
    }
    port.parse::<u16>().ok()?;
    Some(address.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_prints_what_it_parses() {
        for (text, whole) in [
            ("memcached://127.0.0.1:11211", "memcached://127.0.0.1:11211"),
            ("memcached://localhost", "memcached://localhost:11211"),
            ("redis://[::1]", "resp://[::1]:6379"),
            ("redis://[::1]:7", "resp://[::1]:7"),
            ("rediss://a:1/", "resp+tls://a:1"),
            ("masstree+udp://127.0.0.1", "masstree+udp://127.0.0.1:2117"),
            ("unix:///run/k.sock", "mixed+unix:///run/k.sock"),
            ("resp+unix:///run/k.sock", "resp+unix:///run/k.sock"),
        ] {
            let listen = Listen::parse(text).unwrap();
            assert_eq!(listen.to_string(), whole);
            assert_eq!(Listen::parse(whole).unwrap(), listen);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_form_that_can() {
        for text in [
            "",
            "127.0.0.1:1",
            "http://a:1",
            "memcached://",
            "memcached://:1",
            "mixed://host",
            "memcached+udp://a:1",
            "resp+quic://a:1",
            "unix://relative",
            "resp://::1:6379",
            "resp://a:65536",
            "resp://a:x",
        ] {
            let error = Listen::parse(text).unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn only_loopback_and_unix_sockets_are_local() {
        for (text, local) in [
            ("resp://127.0.0.1:1", true),
            ("resp://127.8.9.1:1", true),
            ("resp://[::1]:1", true),
            ("resp://[::ffff:127.0.0.1]:1", true),
            ("resp://localhost:1", true),
            ("unix:///a", true),
            ("resp://0.0.0.0:1", false),
            ("resp://[::]:1", false),
            ("resp://localhost.example:1", false),
            ("resp://10.0.0.1:1", false),
        ] {
            assert_eq!(Listen::parse(text).unwrap().is_local(), local, "{text}");
        }
    }
}
