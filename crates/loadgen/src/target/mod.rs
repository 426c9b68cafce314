//! Requests to a server as bytes, and the classes by which its replies are counted.
//!
//! ```text
//!   Request --encode--> bytes at the end of a connection's output
//!   input   --keyrack_wire::outcome::Parser--> Outcome --> Class, ErrorClass
//! ```

mod binary;
mod encode;
#[cfg(test)]
mod fuzz;
mod handshake;
mod meta;
mod request;
mod resp;
mod template;
mod text;

pub use encode::encode;
pub(crate) use handshake::wants_password;
pub use handshake::{Credentials, greet};
pub use request::{Keys, Request};
pub(crate) use resp::ASKING;
pub use template::Template;

use crate::named::named;
use keyrack_wire::outcome::{Dialect, Failure, Kind};

/// The language of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum Protocol {
    /// Memcached's text commands.
    Text,
    /// Memcached's binary messages.
    Binary,
    /// Memcached's meta commands.
    Meta,
    /// Redis, version 2 of its protocol.
    Resp2,
    /// Redis, version 3 of its protocol.
    Resp3,
}

impl Protocol {
    /// Is it one of memcached's?
    #[must_use]
    pub fn is_memcached(self) -> bool {
        matches!(self, Protocol::Text | Protocol::Binary | Protocol::Meta)
    }

    /// How its replies are framed.
    #[inline]
    #[must_use]
    pub fn dialect(self) -> Dialect {
        match self {
            Protocol::Text => Dialect::Text,
            Protocol::Binary => Dialect::Binary,
            Protocol::Meta => Dialect::Meta,
            Protocol::Resp2 | Protocol::Resp3 => Dialect::Resp,
        }
    }

    /// The name, as options and reports have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Text => "memcached",
            Protocol::Binary => "memcached-binary",
            Protocol::Meta => "memcached-meta",
            Protocol::Resp2 => "redis",
            Protocol::Resp3 => "redis-resp3",
        }
    }

    /// The port where such servers are found.
    #[must_use]
    pub fn default_port(self) -> u16 {
        if self.is_memcached() { 11_211 } else { 6379 }
    }
}

named! {
    /// The classes that are accounted apart.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Class {
        /// Lookups.
        Read = "read",
        /// Stores of any kind.
        Update = "update",
        /// Removals.
        Delete = "delete",
        /// Arithmetic, touches and the like.
        Other = "other",
    }
}

impl Class {
    /// The class of a command.
    #[inline]
    #[must_use]
    pub fn of(kind: Kind) -> Class {
        match kind {
            Kind::Get | Kind::Gets | Kind::Mget => Class::Read,
            Kind::Set | Kind::Add | Kind::Replace | Kind::Cas | Kind::Append | Kind::Prepend => {
                Class::Update
            }
            Kind::Delete => Class::Delete,
            Kind::Incr | Kind::Decr | Kind::Touch | Kind::Flush => Class::Other,
        }
    }
}

named! {
    /// Why something did not work, as far as it is counted apart.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum ErrorClass {
        /// Memcached's `SERVER_ERROR`, or a status that means it; an `ERR` of Redis.
        Server = "server-error",
        /// `CLIENT_ERROR`: the request was not liked.
        Client = "client-error",
        /// `ERROR`: the command is not known.
        UnknownCommand = "unknown-command",
        /// The server has no memory for it.
        OutOfMemory = "out-of-memory",
        /// The value is longer than the server takes.
        TooLarge = "too-large",
        /// The server asks for patience: `BUSY`, `LOADING`, temporary failures.
        Busy = "busy",
        /// `NOAUTH` and the like.
        Auth = "auth",
        /// `MOVED` where redirections are not followed, or too many of them.
        Moved = "moved",
        /// `ASK`, likewise.
        Ask = "ask",
        /// Another error of Redis.
        Other = "other",
        /// A value that is not what was written, found by verification.
        Corrupt = "corrupt",
        /// Bytes that are no reply.
        Protocol = "protocol",
        /// The server closed the connection.
        Closed = "closed",
        /// The connection was reset, or broke otherwise.
        Reset = "reset",
        /// No reply within the time for one.
        Timeout = "timeout",
        /// No connection could be made.
        Connect = "connect",
    }
}

impl ErrorClass {
    /// The place in [`ErrorClass::ALL`].
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl From<Failure> for ErrorClass {
    fn from(failure: Failure) -> ErrorClass {
        match failure {
            Failure::Server => ErrorClass::Server,
            Failure::Client => ErrorClass::Client,
            Failure::UnknownCommand => ErrorClass::UnknownCommand,
            Failure::OutOfMemory => ErrorClass::OutOfMemory,
            Failure::TooLarge => ErrorClass::TooLarge,
            Failure::Busy => ErrorClass::Busy,
            Failure::Auth => ErrorClass::Auth,
            Failure::Moved => ErrorClass::Moved,
            Failure::Ask => ErrorClass::Ask,
            Failure::Other => ErrorClass::Other,
        }
    }
}
