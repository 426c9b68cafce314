//! The URL of a server, taken apart.
//!
//! ```text
//!   redis://user:p%40ss@cache-1:6380      redis+unix:///run/redis.sock
//!           user password host    port              path
//! ```
//!
//! **Invariant:** [`Target::shown`] holds no password: it is what errors and reports print.

use keyrack_net::Endpoint;
use keyrack_store::{Error, Result};

const UNIX: &str = "+unix";

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    /// As it is printed.
    pub(crate) shown: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

impl Target {
    /// Reads a URL; one without a port gets `port`.
    pub(crate) fn parse(url: &str, port: u16) -> Result<Target> {
        let refuse = |why: &str| {
            Error::usage(format!(
                "the URL {why}: write SCHEME://HOST:PORT or SCHEME+unix:///path/of/socket"
            ))
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse("has no scheme"))?;
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, rest),
        };
        let (user, password) = match credentials
            .map(|text| text.split_once(':').unwrap_or(("", text)))
        {
            None => (None, None),
            Some((user, password)) => {
                let text = |text: &str| decoded(text).ok_or_else(|| refuse("has a bad %-escape"));
                ((!user.is_empty()).then(|| text(user)).transpose()?, Some(text(password)?))
            }
        };
        let place = place.strip_suffix('/').unwrap_or(place);
        let address = if scheme.ends_with(UNIX) {
            format!("unix:{place}")
        } else {
            if place.contains('/') {
                return Err(refuse("has a path"));
            }
            let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
            if has_port { place.to_owned() } else { format!("{place}:{port}") }
        };
        let endpoint = address.parse().map_err(|error: keyrack_net::Error| {
            Error::usage(format!("{scheme}://{place}: {error}"))
        })?;
        Ok(Target { endpoint, shown: format!("{scheme}://{place}"), user, password })
    }
}

/// Text whose bytes may be written as `%40`; `None` where an escape is none, or what comes out is
/// no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%' {
            let digits =
                behind.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_where_and_who() {
        for (url, endpoint, user, password, shown) in [
            ("redis://h:1", "h:1", None, None, "redis://h:1"),
            ("redis://h", "h:9", None, None, "redis://h"),
            ("redis://[::1]", "[::1]:9", None, None, "redis://[::1]"),
            ("redis://[::1]:2/", "[::1]:2", None, None, "redis://[::1]:2"),
            ("redis://:p%40s@h:1", "h:1", None, Some("p@s"), "redis://h:1"),
            ("redis://u:p:q@h:1", "h:1", Some("u"), Some("p:q"), "redis://h:1"),
            ("redis://p@h:1", "h:1", None, Some("p"), "redis://h:1"),
            (
                "redis+unix:///run/r.sock",
                "unix:/run/r.sock",
                None,
                None,
                "redis+unix:///run/r.sock",
            ),
        ] {
            let target = Target::parse(url, 9).unwrap();
            assert_eq!(target.endpoint.to_string(), endpoint, "{url}");
            assert_eq!((target.user.as_deref(), target.password.as_deref()), (user, password));
            assert_eq!(target.shown, shown);
        }
    }

    #[test]
    fn urls_that_make_no_sense_are_refused_without_their_password() {
        for url in [
            "",
            "redis",
            "redis://",
            "redis://h:x",
            "redis://h/2",
            "redis://:%4@h",
            "redis+unix://",
        ] {
            let error = Target::parse(url, 9).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{url}: {error}");
        }
        let error = Target::parse("redis://:secret@h:99999", 9).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
