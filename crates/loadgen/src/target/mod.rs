//! What is said to a server, and what it answers: requests to bytes, bytes to outcomes.
//!
//! ```text
//!   Request --encode--> bytes at the end of a connection's output
//!   input   --Parser::step--> More | Eaten(n) | Done(n, Outcome)
//! ```
//!
//! The codecs of `wire` check and lend everything that a message holds. A load generator wants to
//! know of a reply where it ends and whether it was a hit, so the hot path here looks at no more
//! than that: value bytes are skipped without being copied, and a value longer than the buffer is
//! counted down.
//!
//! **Invariant:** a reply means the same however it was cut into reads; memory is never taken for a
//! length that was announced.

mod binary;
mod encode;
#[cfg(test)]
mod fuzz;
mod handshake;
mod meta;
mod parser;
mod reply;
mod request;
mod resp;
mod template;
mod text;
mod whole;

pub use encode::encode;
pub(crate) use handshake::wants_password;
pub use handshake::{Credentials, greet};
pub use parser::Parser;
pub use reply::{Malformed, Step};
pub use request::{Keys, Request};
pub(crate) use resp::ASKING;
pub use template::Template;
pub use whole::whole_hit;

/// Longest key that memcached takes.
pub const MEMCACHED_KEY_BYTES_MAX: usize = 250;

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

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One key.
    Get,
    /// One key with its token for [`Kind::Cas`].
    Gets,
    /// Several keys.
    Mget,
    /// Writes whatever is there.
    Set,
    /// Writes if nothing is there.
    Add,
    /// Writes if something is there.
    Replace,
    /// Writes if the token is still the one.
    Cas,
    /// Puts bytes behind a value.
    Append,
    /// Puts bytes before a value.
    Prepend,
    /// Removes.
    Delete,
    /// Adds to a decimal value.
    Incr,
    /// Takes from a decimal value.
    Decr,
    /// Sets the time to live.
    Touch,
    /// Removes everything.
    Flush,
}

/// The classes that are accounted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Lookups.
    Read,
    /// Stores of any kind.
    Update,
    /// Removals.
    Delete,
    /// Arithmetic, touches and the like.
    Other,
}

impl Class {
    /// All, in the order of tables.
    pub const ALL: [Class; 4] = [Class::Read, Class::Update, Class::Delete, Class::Other];

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Read => "read",
            Class::Update => "update",
            Class::Delete => "delete",
            Class::Other => "other",
        }
    }
}

impl Kind {
    /// Where it is accounted.
    #[inline]
    #[must_use]
    pub fn class(self) -> Class {
        match self {
            Kind::Get | Kind::Gets | Kind::Mget => Class::Read,
            Kind::Set | Kind::Add | Kind::Replace | Kind::Cas | Kind::Append | Kind::Prepend => {
                Class::Update
            }
            Kind::Delete => Class::Delete,
            Kind::Incr | Kind::Decr | Kind::Touch | Kind::Flush => Class::Other,
        }
    }

    /// Does its request carry a value?
    #[must_use]
    pub fn has_value(self) -> bool {
        self.class() == Class::Update
    }
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The key was there; its token, where one was asked for.
    Hit {
        /// For [`Kind::Cas`].
        token: u64,
    },
    /// It was not.
    Miss,
    /// So many of several keys were there.
    Hits(u32),
    /// Done.
    Stored,
    /// Not done, since the condition did not hold.
    NotStored,
    /// Refused.
    Failed(ErrorClass),
}

/// Why something did not work, as far as it is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// Memcached's `SERVER_ERROR`, or a status that means it; an `ERR` of Redis.
    Server,
    /// `CLIENT_ERROR`: the request was not liked.
    Client,
    /// `ERROR`: the command is not known.
    UnknownCommand,
    /// The server has no memory for it.
    OutOfMemory,
    /// The value is longer than the server takes.
    TooLarge,
    /// The server asks for patience: `BUSY`, `LOADING`, temporary failures.
    Busy,
    /// `NOAUTH` and the like.
    Auth,
    /// `MOVED` where redirections are not followed, or too many of them.
    Moved,
    /// `ASK`, likewise.
    Ask,
    /// Another error of Redis.
    Other,
    /// A value that is not what was written, found by verification.
    Corrupt,
    /// Bytes that are no reply.
    Protocol,
    /// The server closed the connection.
    Closed,
    /// The connection was reset, or broke otherwise.
    Reset,
    /// No reply within the time for one.
    Timeout,
    /// No connection could be made.
    Connect,
}

impl ErrorClass {
    /// All of them.
    pub const ALL: [ErrorClass; 16] = [
        ErrorClass::Server,
        ErrorClass::Client,
        ErrorClass::UnknownCommand,
        ErrorClass::OutOfMemory,
        ErrorClass::TooLarge,
        ErrorClass::Busy,
        ErrorClass::Auth,
        ErrorClass::Moved,
        ErrorClass::Ask,
        ErrorClass::Other,
        ErrorClass::Corrupt,
        ErrorClass::Protocol,
        ErrorClass::Closed,
        ErrorClass::Reset,
        ErrorClass::Timeout,
        ErrorClass::Connect,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Server => "server-error",
            ErrorClass::Client => "client-error",
            ErrorClass::UnknownCommand => "unknown-command",
            ErrorClass::OutOfMemory => "out-of-memory",
            ErrorClass::TooLarge => "too-large",
            ErrorClass::Busy => "busy",
            ErrorClass::Auth => "auth",
            ErrorClass::Moved => "moved",
            ErrorClass::Ask => "ask",
            ErrorClass::Other => "other",
            ErrorClass::Corrupt => "corrupt",
            ErrorClass::Protocol => "protocol",
            ErrorClass::Closed => "closed",
            ErrorClass::Reset => "reset",
            ErrorClass::Timeout => "timeout",
            ErrorClass::Connect => "connect",
        }
    }

    /// The place in [`ErrorClass::ALL`].
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}
