//! Servers on the network as stores: a backend that is a URL.
//!
//! ```text
//!   SCHEME://[USER:PASSWORD@]HOST[:PORT][?OPTION=VALUE&..]      SCHEME+unix:///path/of/socket
//!
//!   Store --session()--> Session = a connection of its own
//!                          put --> window of `depth` requests --> one write --> server
//!                                    answers are matched in order  <-- one read <--
//! ```
//!
//! | scheme | protocol | get, put, remove, multi_get, apply | update | scan | scan_rev |
//! |---|---|---|---|---|---|
//! | `masstree` | Masstree's messages | yes | refused | yes | refused |
//! | `memcached` | text, meta or binary | yes | by the version of the item | refused | refused |
//! | `redis` | RESP2 or RESP3 | yes | `WATCH` and `EXEC` | `KR.RANGE` | `KR.RANGE` |
//!
//! `KR.RANGE` is an extra of our own server; on another one a scan is refused. RESP3 is spoken with
//! the option `protocol=3`.
//!
//! What departs from the contract: a store is whatever the server holds, fresh or not; `apply` is
//! many requests, not one write; what an acknowledged write survives is the server's affair, so
//! that the durability here is `none`. Therefore these are no engines of [`crate::engines`], and
//! the self-test leaves them out: it needs fresh stores, scans and atomic batches.
//!
//! **Depth.** With a depth above 1, a put returns when it is in the window. Its answer is read when
//! the window is full, when a lookup follows, in [`Session::flush`], or when the session ends.
//!
//! **Invariant:** an answer that says no is returned by some later call of the session, or by
//! [`Store::close`].

mod masstree;
mod memcached;
mod memcached_binary;
mod pipe;
mod protocol;
mod redis;
mod session;
mod target;

use self::protocol::Protocol;
use self::session::ServerSession;
use self::target::Target;
use crate::contract::option;
use keyrack_net::{ConnectOptions, Link};
use keyrack_store::{
    Durability, Engine, EngineOption, Error, OpenOptions, Result, Session, Store, StoreInfo,
};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The kinds of servers that a run can name by URL; each has the name of its scheme: `redis://`.
#[must_use]
pub fn servers() -> Vec<Engine> {
    vec![masstree::SERVER, memcached::SERVER, redis::SERVER]
}

const URL: EngineOption = option("url", "", "the server; a run names it as its backend");
const DEPTH: EngineOption =
    option("depth", "1", "requests of a session under way at once, at most 65536; as --depth");
const TIMEOUT: EngineOption =
    option("timeout_ms", "10000", "how long to wait for a connection and for an answer, in ms");

const DEPTH_MAX: u64 = 1 << 16;
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Bytes of the longest answer: a value, or a part of a scan.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A server, and how to speak to it.
struct ServerStore<P> {
    target: Target,
    connect: ConnectOptions,
    depth: usize,
    /// What every connection begins as.
    protocol: P,
    version: String,
    /// The first failure that a session found when it ended and could tell nobody.
    lost: Mutex<Option<Error>>,
}

/// Opens a store: connects once, to know that the server is there and who it is.
fn open<P: Protocol>(options: &OpenOptions) -> Result<Box<dyn Store>> {
    if let Some(durability) = options.durability
        && durability != Durability::None
    {
        return Err(Error::usage(format!(
            "durability {durability}: what a write survives is the server's setting, not the \
             client's"
        )));
    }
    let url = options.text(URL.key).unwrap_or_default();
    let target = Target::parse(url, P::PORT)?;
    let number = |option: &EngineOption, max: u64| match options.text(option.key) {
        None => Ok(option.default.parse().unwrap_or(1)),
        Some(text) => match text.trim().parse::<u64>() {
            Ok(number) if (1..=max).contains(&number) => Ok(number),
            _ => Err(Error::usage(format!("{}: '{text}' is not in 1..={max}", option.key))),
        },
    };
    let timeout = Duration::from_millis(number(&TIMEOUT, TIMEOUT_MS_MAX)?);
    let mut store = ServerStore {
        connect: ConnectOptions::with_timeout(timeout),
        depth: number(&DEPTH, DEPTH_MAX)? as usize,
        protocol: P::new(&target, options)?,
        target,
        version: String::new(),
        lost: Mutex::new(None),
    };
    let (_, version) = store.connect()?;
    store.version = version;
    Ok(Box::new(store))
}

impl<P: Protocol> ServerStore<P> {
    /// A connection that has said hello, and what the server said that it is.
    fn connect(&self) -> Result<(ServerSession<'_, P>, String)> {
        let link = Link::connect(&self.target.endpoint, &self.connect, ANSWER_BYTES_MAX);
        let link = link.map_err(|error| match error {
            keyrack_net::Error::Endpoint { cause, .. } => {
                Error::io(format!("{}: connect", self.target.shown), cause)
            }
            keyrack_net::Error::Resolve { cause, .. } => {
                Error::io(format!("{}: no address", self.target.shown), cause)
            }
            other => Error::usage(format!("{}: {other}", self.target.shown)),
        })?;
        let shown = &self.target.shown;
        let pipe = pipe::Pipe::new(link, self.protocol.clone(), shown, self.depth);
        ServerSession::greet(pipe, &self.lost)
    }
}

impl<P: Protocol> Store for ServerStore<P> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.connect()?.0))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(self.version.clone(), Durability::None)
    }

    fn close(self: Box<Self>) -> Result<()> {
        let lost = self.lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        lost.map_or(Ok(()), Err)
    }
}
