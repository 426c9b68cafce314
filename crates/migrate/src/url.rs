//! Where a server is, and who asks.
//!
//! ```text
//!   redis://user:password@127.0.0.1:6379/0     rediss://... over TLS
//!   redis+unix:///run/redis.sock               memcached://127.0.0.1:11211
//!   mixed://127.0.0.1:6379                     both protocols, as keyrack serves them
//! ```
//!
//! The schemes that `keyrack serve` prints are the same ones: `resp`, `resp+tls`, `mixed+unix`...
//!
//! **Invariant:** a password is in no error and in no name of a server.

use crate::error::{Error, Result};
use keyrack_net::{ConnectOptions, Endpoint, TlsClient};
use keyrack_vfs::Fs;
use std::path::Path;
use std::time::Duration;

const REDIS_PORT: u16 = 6379;
const MEMCACHED_PORT: u16 = 11211;
/// For the connection, and for each answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis' protocol.
    Redis,
    /// memcached's text protocol.
    Memcached,
    /// Both on one port.
    Mixed,
}

/// A server.
#[derive(Clone)]
pub struct Url {
    /// What it speaks.
    pub protocol: Protocol,
    /// Its address.
    pub endpoint: Endpoint,
    /// The number of a database, where one was named.
    pub db: Option<u32>,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
    tls: Option<TlsClient>,
    is_tls: bool,
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Url").field(&self.name()).finish()
    }
}

impl Url {
    /// Whether `text` begins as an address of a server does.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        text.contains("://")
    }

    /// Reads an address.
    ///
    /// # Errors
    /// An unknown scheme, or an address that cannot be read.
    pub fn parse(text: &str) -> Result<Url> {
        let refused = |what: &str| {
            // Nothing before the `@` is shown: it may be a password.
            let shown = text.rsplit_once('@').map_or(text, |(_, behind)| behind);
            Error::usage(format!("the address {shown:?} {what}"))
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused("has no scheme"))?;
        let (name, transport) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (protocol, is_secure) = match name {
            "redis" | "resp" => (Protocol::Redis, false),
            "rediss" => (Protocol::Redis, true),
            "memcached" => (Protocol::Memcached, false),
            "unix" => (Protocol::Mixed, false),
            "mixed" => (Protocol::Mixed, false),
            _ => {
                return Err(refused(
                    "has an unknown scheme; use redis, rediss, memcached or mixed",
                ));
            }
        };
        let transport = if name == "unix" { "unix" } else { transport };
        let is_tls = match transport {
            "" | "unix" => is_secure,
            "tls" => true,
            _ => return Err(refused("has an unknown transport; use +unix or +tls")),
        };
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (Some(decoded(user)), Some(decoded(password))),
            None => (None, None),
        };
        let (address, db) = match rest.split_once('/') {
            Some((address, db)) if transport != "unix" && !db.is_empty() => {
                let number = db.parse().map_err(|_| refused("has a path that is no database"))?;
                (address, Some(number))
            }
            Some((address, "")) if transport != "unix" => (address, None),
            _ => (rest, None),
        };
        let endpoint = if transport == "unix" {
            format!("unix:{address}")
        } else if address.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']')) {
            address.to_owned()
        } else {
            let memcached = protocol == Protocol::Memcached;
            format!("{address}:{}", if memcached { MEMCACHED_PORT } else { REDIS_PORT })
        };
        let endpoint = endpoint.parse::<Endpoint>()?;
        let user = user.filter(|user| !user.is_empty());
        Ok(Url { protocol, endpoint, db, user, password, tls: None, is_tls })
    }

    /// Uses a password instead of one in the address.
    #[must_use]
    pub fn with_password(self, password: Vec<u8>) -> Url {
        Url { password: Some(password), ..self }
    }

    /// Trusts the certificates of a PEM file.
    ///
    /// # Errors
    /// The file cannot be used, or the address has no name that a certificate could have.
    pub fn with_authorities(self, fs: &dyn Fs, path: &Path) -> Result<Url> {
        let name = match &self.endpoint {
            Endpoint::Ip(address) => address.ip().to_string(),
            Endpoint::Host { name, .. } => name.clone(),
            _ => return Err(Error::usage(format!("{} is not reached over TLS", self.name()))),
        };
        Ok(Url { tls: Some(TlsClient::from_pem(fs, path, &name, None)?), ..self })
    }

    /// Whether it is reached over TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.is_tls
    }

    /// How the server is called in messages.
    #[must_use]
    pub fn name(&self) -> String {
        let scheme = match (self.protocol, self.is_tls) {
            (Protocol::Redis, false) => "redis",
            (Protocol::Redis, true) => "rediss",
            (Protocol::Memcached, _) => "memcached",
            (Protocol::Mixed, _) => "mixed",
        };
        format!("{scheme}://{}", self.endpoint)
    }

    pub(crate) fn connect_options(&self) -> Result<ConnectOptions> {
        if self.is_tls && self.tls.is_none() {
            let what = "needs a file of certificates to trust";
            return Err(Error::usage(format!("{} {what}", self.name())));
        }
        let tls = self.tls.clone().filter(|_| self.is_tls);
        Ok(ConnectOptions { tls, ..ConnectOptions::with_timeout(TIMEOUT) })
    }
}

/// Text in which bytes may be written as `%` and two digits. Other `%` stand for themselves.
pub(crate) fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(u8::try_from(high << 4 | low).expect("two digits are a byte"));
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_defaults_and_logins() {
        let url = Url::parse("redis://u%40x:p%3Aw@[::1]/3").unwrap();
        assert_eq!(url.name(), "redis://[::1]:6379");
        assert_eq!((url.user.as_deref(), url.db), (Some(&b"u@x"[..]), Some(3)));
        assert_eq!(url.password.as_deref(), Some(&b"p:w"[..]));
        let url = Url::parse("redis://:secret@cache/").unwrap();
        assert_eq!((url.name().as_str(), url.user, url.db), ("redis://cache:6379", None, None));
        assert_eq!(Url::parse("memcached://h").unwrap().name(), "memcached://h:11211");
        let unix = Url::parse("mixed+unix:///run/x.sock").unwrap();
        assert_eq!(unix.name(), "mixed://unix:/run/x.sock");
        assert!(Url::parse("resp+tls://h:1").unwrap().connect_options().is_err());
    }

    #[test]
    fn a_wrong_address_is_refused_without_its_password() {
        for text in ["http://h", "redis+udp://h", "redis://:secret@h/x", "redis://:secret@h:99999"]
        {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
