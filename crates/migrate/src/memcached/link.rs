//! A connection to a server that speaks memcached's text protocol.

use crate::error::{Error, Result};
use crate::url::Url;
use keyrack_net::Link;
use keyrack_wire::memcached::meta::{Key, Request};
use keyrack_wire::memcached::text::{Reply, parse_reply};
use keyrack_wire::memcached::{Limits, Parsed};

/// The largest reply: memcached's largest item can be set to a GiB.
const REPLY_BYTES_MAX: usize = 1 << 30;
/// The longest line of a dump: a key in which every byte takes three, and some numbers.
const LINE_BYTES_MAX: usize = 4096;

/// A connection with its buffers.
pub(crate) struct CacheLink {
    link: Link,
    name: String,
}

impl CacheLink {
    /// Connects and logs in.
    pub(crate) fn connect(url: &Url) -> Result<Self> {
        let link = Link::connect(&url.endpoint, &url.connect_options()?, REPLY_BYTES_MAX)?;
        let mut cache = CacheLink { link, name: url.name() };
        if let Some(password) = &url.password {
            let user = url.user.as_deref().unwrap_or(b"keyrack");
            let login = [user, b" ", password].concat();
            let head = format!("set auth 0 0 {}\r\n", login.len());
            cache.link.output().extend([head.as_bytes(), &login, b"\r\n"].concat());
            cache.flush()?;
            let is_in = cache.receive(|reply| matches!(reply, Reply::Stored))?;
            if !is_in {
                return Err(Error::server(&cache.name, "the login is refused"));
            }
        }
        Ok(cache)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends a meta command. False if the protocol cannot have this key.
    pub(crate) fn send(&mut self, letter: u8, key: &[u8], flags: &str, value: &[u8]) -> bool {
        let is_plain = key.iter().all(|byte| !byte.is_ascii_control() && *byte != b' ');
        let (mut text, mut flags) = (key.to_vec(), flags.to_owned());
        if !is_plain {
            text.clear();
            Key::encode(key, &mut text);
            flags.push_str(" b");
        }
        match Request::new(letter, &text, flags.as_bytes(), value) {
            Ok(request) => {
                request.write(self.link.output());
                true
            }
            Err(_) => false,
        }
    }

    /// Appends a line.
    pub(crate) fn send_line(&mut self, line: &str) {
        self.link.output().extend_from_slice(line.as_bytes());
        self.link.output().extend_from_slice(b"\r\n");
    }

    pub(crate) fn unsent_bytes(&mut self) -> usize {
        self.link.output().len()
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.link.flush().map_err(|cause| Error::io(&self.name, cause))
    }

    /// Waits for the next reply, and lends it.
    pub(crate) fn receive<R>(&mut self, take: impl FnOnce(&Reply<'_>) -> R) -> Result<R> {
        let limits = Limits { value_bytes_max: REPLY_BYTES_MAX, ..Limits::DEFAULT };
        loop {
            let parsed = parse_reply(self.link.input(), &limits);
            match parsed.map_err(|error| Error::server(&self.name, error.to_string()))? {
                Parsed::Complete(reply, bytes) => {
                    let result = take(&reply);
                    self.link.consume(bytes);
                    return Ok(result);
                }
                Parsed::Incomplete(_) => self.fill()?,
            }
        }
    }

    /// Waits for the next line, and lends it without its end.
    pub(crate) fn receive_line<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Result<R> {
        loop {
            let input = self.link.input();
            if let Some(end) = input.iter().position(|byte| *byte == b'\n') {
                let line = &input[..end];
                let result = take(line.strip_suffix(b"\r").unwrap_or(line));
                self.link.consume(end + 1);
                return Ok(result);
            }
            if input.len() > LINE_BYTES_MAX {
                return Err(Error::server(&self.name, "a line without an end"));
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.link.fill().map_err(|cause| Error::io(&self.name, cause))
    }
}
