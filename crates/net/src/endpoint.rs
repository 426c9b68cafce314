//! Where to listen or to connect: an address as people write it.
//!
//! ```text
//! 127.0.0.1:11211      [::1]:6379      localhost:2117      unix:/run/keyrack.sock
//! ```
//!
//! The scheme of a protocol (`memcached://`) is cut off before: this crate knows no protocol. An
//! IPv6 address stands in brackets, so that its colons are not the port's.
//!
//! **Invariant:** what is printed can be parsed again, and is the same endpoint.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::{Error, Result};

/// Longest path of a Unix socket, in bytes: what fits `sockaddr_un` on every system that we know.
const UNIX_PATH_BYTES_MAX: usize = 103;
/// Longest name of a host, in bytes, as DNS has it.
const HOST_BYTES_MAX: usize = 253;

/// Where to listen or to connect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// An address and a port. Port 0 lets the kernel choose when it is listened on.
    Ip(SocketAddr),
    /// The name of a host, which [`Endpoint::resolve`] looks up, and a port.
    Host {
        /// The name.
        name: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    /// All endpoints that this one stands for: itself, or the addresses of the name, each once, in
    /// the order of the resolver. May ask the network, and block.
    ///
    /// # Errors
    /// A name without an address.
    pub fn resolve(&self) -> Result<Vec<Endpoint>> {
        let Endpoint::Host { name, port } = self else { return Ok(vec![self.clone()]) };
        let failed = |cause| Error::Resolve { name: self.to_string(), cause };
        let mut found = Vec::new();
        for address in (name.as_str(), *port).to_socket_addrs().map_err(failed)? {
            let endpoint = Endpoint::Ip(address);
            if !found.contains(&endpoint) {
                found.push(endpoint);
            }
        }
        if found.is_empty() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        Ok(found)
    }

    /// Can only this machine reach it? True of Unix sockets. A name is never trusted: whoever must
    /// know resolves it first, and then uses what was resolved.
    pub fn is_loopback(&self) -> bool {
        match self {
            Endpoint::Ip(address) => is_loopback_ip(address.ip()),
            Endpoint::Host { .. } => false,
            Endpoint::Unix(_) => true,
        }
    }

    /// The port, where there is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Endpoint::Ip(address) => Some(address.port()),
            Endpoint::Host { port, .. } => Some(*port),
            Endpoint::Unix(_) => None,
        }
    }
}

/// Does an address, of version 4, 6, or 4 written as 6, never leave the machine?
pub(crate) fn is_loopback_ip(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Ip(address) => address.fmt(f),
            Endpoint::Host { name, port } => write!(f, "{name}:{port}"),
            Endpoint::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Endpoint> {
        if let Some(path) = text.strip_prefix("unix:") {
            // `unix:///run/x` is how it looks as the authority of a URL.
            let path = path.strip_prefix("//").unwrap_or(path);
            return unix(Path::new(path));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(refused(text, "has no port"));
        };
        let port = parse_port(port).ok_or_else(|| refused(text, "has no port below 65536"))?;
        if let Some(inner) = host.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| refused(text, "misses a `]`"))?;
            let ip: Ipv6Addr =
                inner.parse().map_err(|_| refused(text, "holds no IPv6 address in brackets"))?;
            return Ok(Endpoint::Ip((ip, port).into()));
        }
        if host.contains(':') {
            return Err(refused(text, "needs its IPv6 address in brackets"));
        }
        if let Ok(ip) = host.parse::<std::net::Ipv4Addr>() {
            return Ok(Endpoint::Ip((ip, port).into()));
        }
        if !is_host_name(host) {
            return Err(refused(text, "has no valid host"));
        }
        Ok(Endpoint::Host { name: host.to_owned(), port })
    }
}

fn unix(path: &Path) -> Result<Endpoint> {
    let length = path.as_os_str().len();
    if length == 0 || path.file_name().is_none() {
        return Err(Error::usage("a unix endpoint needs the path of its socket"));
    }
    if length > UNIX_PATH_BYTES_MAX {
        let shown = path.display();
        return Err(Error::usage(format!(
            "the path of a unix socket has at most {UNIX_PATH_BYTES_MAX} bytes: {shown}"
        )));
    }
    Ok(Endpoint::Unix(path.to_owned()))
}

/// Digits alone: `str::parse` would take a sign as well.
fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn is_host_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    // Digits and dots alone are an address with a mistake in it, which a resolver might guess at.
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (1..=HOST_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_letter) && !is_number
}

fn refused(text: &str, why: &str) -> Error {
    Error::usage(format!("the address {text:?} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_is_parsed() {
        for text in [
            "127.0.0.1:11211",
            "0.0.0.0:0",
            "[::1]:6379",
            "[2001:db8::7]:65535",
            "localhost:2117",
            "cache-3.example.org:1",
            "unix:/run/keyrack.sock",
            "unix:relative.sock",
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
            assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint);
        }
        let url: Endpoint = "unix:///run/keyrack.sock".parse().unwrap();
        assert_eq!(url, Endpoint::Unix("/run/keyrack.sock".into()));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_text() {
        let long_path = format!("unix:/{}", "x".repeat(UNIX_PATH_BYTES_MAX));
        let long_name = format!("{}:1", "x".repeat(HOST_BYTES_MAX + 1));
        for text in [
            "",
            ":",
            "host",
            "host:",
            ":80",
            "host:65536",
            "host:+80",
            "host:-1",
            "host:8o",
            "::1:80",
            "[::1:80",
            "[::1]",
            "[127.0.0.1]:80",
            "[]:80",
            "1.2.3:80",
            "256.0.0.1:80",
            "a b:80",
            "a/b:80",
            "user@host:80",
            "unix:",
            "unix:/",
            "unix:..",
            &long_path,
            &long_name,
        ] {
            let refusal = text.parse::<Endpoint>();
            assert!(matches!(refusal, Err(Error::Usage(_))), "{text:?} was taken: {refusal:?}");
        }
    }

    #[test]
    fn loopback_is_what_stays_on_the_machine() {
        for (text, expected) in [
            ("127.0.0.1:1", true),
            ("127.9.9.9:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            ("unix:/x", true),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("[::ffff:10.0.0.1]:1", false),
            ("192.168.0.1:1", false),
            ("localhost:1", false),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().is_loopback(), expected, "{text}");
        }
    }

    #[test]
    fn a_name_becomes_its_addresses() {
        let found = "localhost:77".parse::<Endpoint>().unwrap().resolve().unwrap();
        assert!(!found.is_empty());
        assert!(found.iter().all(|endpoint| endpoint.is_loopback() && endpoint.port() == Some(77)));
        let literal: Endpoint = "10.0.0.1:5".parse().unwrap();
        assert_eq!(literal.resolve().unwrap(), std::slice::from_ref(&literal));
    }
}
