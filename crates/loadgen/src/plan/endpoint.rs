//! A server as people write it: a host with or without a port, an IPv6 address with or without
//! brackets, the path of a socket.

use keyrack_net::Endpoint;

use super::settings::Settings;
use crate::error::{Error, Result};
use crate::server::Server;

/// The servers of the settings, resolved.
pub(super) fn servers(settings: &Settings) -> Result<Vec<Server>> {
    if settings.servers.is_empty() {
        return Err(Error::usage("no server: name one with --server HOST[:PORT]"));
    }
    settings.servers.iter().map(|text| server(settings, text)).collect()
}

fn server(settings: &Settings, text: &str) -> Result<Server> {
    let name = text.to_owned();
    if let Some(path) = text.strip_prefix("shm:") {
        if settings.tls.is_some() {
            return Err(Error::usage(format!("{text}: there is no TLS in shared memory")));
        }
        let endpoint: Endpoint = format!("unix:{path}").parse()?;
        let host = "localhost".to_owned();
        return Ok(Server { name, host, endpoint, is_shared: true });
    }
    let stripped = strip_scheme(text);
    if settings.unix_socket || stripped.starts_with("unix:") {
        let path = stripped.strip_prefix("unix:").unwrap_or(stripped);
        let endpoint: Endpoint = format!("unix:{path}").parse()?;
        let host = "localhost".to_owned();
        return Ok(Server { name, host, endpoint, is_shared: false });
    }
    let written = with_port(stripped, settings.protocol.default_port());
    let endpoint: Endpoint = written.parse()?;
    let host = match &endpoint {
        Endpoint::Ip(address) => address.ip().to_string(),
        Endpoint::Host { name, .. } => name.clone(),
        _ => String::new(),
    };
    // A name that has no address is said now, before anything is connected.
    endpoint.resolve()?;
    Ok(Server { name, host, endpoint, is_shared: false })
}

/// URLs name a protocol that other options say already.
fn strip_scheme(text: &str) -> &str {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    rest.strip_suffix('/').filter(|_| rest.len() < text.len()).unwrap_or(rest)
}

/// The text with a port: an IPv6 address without one has more colons, or ends with its bracket.
fn with_port(text: &str, port: u16) -> String {
    let colons = text.bytes().filter(|byte| *byte == b':').count();
    match (text.starts_with('['), colons) {
        (true, _) if text.ends_with(']') => format!("{text}:{port}"),
        (false, 0) => format!("{text}:{port}"),
        (false, 2..) if text.parse::<std::net::Ipv6Addr>().is_ok() => format!("[{text}]:{port}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Protocol;

    fn endpoint(text: &str, protocol: Protocol) -> Result<String> {
        let settings = Settings { protocol, ..Settings::default() };
        server(&settings, text).map(|server| server.endpoint.to_string())
    }

    #[test]
    fn servers_are_written_in_many_ways() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1:11211"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            ("[::1]:41211", "[::1]:41211"),
            ("[::1]", "[::1]:11211"),
            ("::1", "[::1]:11211"),
            ("localhost", "localhost:11211"),
            ("memcached://127.0.0.1:5/", "127.0.0.1:5"),
            ("unix:/tmp/x.sock", "unix:/tmp/x.sock"),
            ("shm:/tmp/x", "unix:/tmp/x"),
            ("shm:///tmp/x", "unix:/tmp/x"),
        ] {
            assert_eq!(endpoint(text, Protocol::Text).unwrap(), expected, "{text}");
        }
        assert_eq!(endpoint("::1", Protocol::Resp2).unwrap(), "[::1]:6379");
        let settings = Settings { unix_socket: true, ..Settings::default() };
        assert_eq!(server(&settings, "/tmp/y").unwrap().endpoint.to_string(), "unix:/tmp/y");
        for text in ["", "a b", "host:99999", "no-such-host.invalid:1"] {
            assert!(endpoint(text, Protocol::Text).is_err(), "{text:?}");
        }
    }
}
