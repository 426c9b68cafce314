//! # keyrack-net: an event loop per thread, which knows no protocol
//!
//! ```text
//!            clients                        Service: makes a Worker for each loop
//!               |                              |
//!   listeners --+--> loop 0  [ connections ] --+-- Worker: open, serve, closed
//!               |                              |
//!               +--> loop 1  [ connections ] --+-- Worker
//! ```
//!
//! * [`Server::start`] binds TCP, Unix and UDP sockets and starts the loops; its [`Handle`] knows
//!   addresses and counts, and ends them.
//! * [`Service`] and [`Worker`] are the contract: bytes in, bytes out, and when the replies of a
//!   iteration may be sent. Read `service` first, then `event_loop`.
//! * [`Stream`] is the client's side: it connects and blocks. [`Link`] is one with buffers.
//! * [`http`] answers GETs with pages: a service upon the others, for figures of a program.
//!
//! Whatever clients do: a connection costs bounded memory ([`Limits`]), all together
//! hold no more than [`ClientMemory`] allows, one that sends slowly or never reads delays no
//! other, and each has deadlines ([`Timeouts`]).
//!
//! ```
//! use keyrack_net::{ConnectOptions, Limits, Listener, Options, Peer, Served};
//! use keyrack_net::{Server, Service, Stream, Waker, Worker};
//! use std::io::{Read, Write};
//! use std::time::Duration;
//!
//! struct Echo;
//!
//! impl Service for Echo {
//!     type Worker<'a> = Echo;
//!     fn worker(&self, _: usize, _: Waker) -> Echo {
//!         Echo
//!     }
//! }
//!
//! impl Worker for Echo {
//!     type Connection = ();
//!     fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}
//!     fn serve(
//!         &mut self,
//!         _: &mut (),
//!         input: &[u8],
//!         output: &mut Vec<u8>,
//!         _: &mut Limits,
//!     ) -> Served {
//!         output.extend_from_slice(input);
//!         Served::all(input.len())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listeners = vec![Listener::stream("127.0.0.1:0".parse()?)];
//! let server = Server::start(Echo, Options { listeners, ..Options::default() })?;
//! let patience = ConnectOptions::with_timeout(Duration::from_secs(60));
//! let mut client = Stream::connect(&server.local_addrs()[0][0], &patience)?;
//! client.write_all(b"hello")?;
//! let mut reply = [0; 5];
//! client.read_exact(&mut reply)?;
//! assert_eq!(&reply, b"hello");
//! let stats = server.shutdown(Duration::from_secs(1))?;
//! assert_eq!((stats.accepted, stats.bytes_in), (1, 5));
//! # Ok(())
//! # }
//! ```
//!
//! **Invariant:** only [`http`] knows a protocol, and nothing here knows a key or a store. Nothing
//! here decides which listeners are allowed: [`Endpoint::is_loopback`] says what is exposed, the
//! program decides.
#![forbid(unsafe_code)]

mod acceptor;
mod buffer;
mod closer;
mod connection;
mod datagrams;
mod deferred_replies;
mod endpoint;
mod error;
mod event_loop;
pub mod http;
mod link;
mod listen;
mod loop_handles;
mod memory;
mod options;
mod output;
mod server;
mod service;
mod slab;
mod socket;
mod stats;
mod stream;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod waker;
mod wheel;

pub use closer::Closer;
pub use endpoint::Endpoint;
pub use error::{Error, Result};
pub use link::Link;
pub use memory::{Charge, ClientMemory, LoopMemory};
pub use options::{DatagramPorts, Limits, Listener, ListenerKind, Options, Timeouts};
pub use output::OUTPUT_SLICE_BYTES;
pub use server::{Handle, Server};
pub use service::{IterationEnd, Peer, Served, Service, Verdict, Worker};
pub use stats::{CloseReason, Stats};
pub use stream::{ConnectOptions, Stream};
#[cfg(feature = "tls")]
pub use tls::{TlsClient, TlsServer};
pub use waker::Waker;
