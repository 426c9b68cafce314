//! Name spaces over a network: the protocol of `docs/protocols/fs.md`, its server, its clients.
//!
//! ```text
//!   Client ---- Wire: TCP, Unix, UDP ----> net's loops --> Service --> Session --> Namespace
//!     |  many requests under way,                            |           user, open directories,
//!     |  one write for many, sent again                      |           answers of the last calls
//!     |  after a broken connection                           +-- sessions by client number
//!     +-- one wire for each server; names go where `partition` says
//! ```
//!
//! * [`Request`] and [`Reply`] are the codec: bytes alone, no socket.
//! * [`Service`] is what `net` runs; [`serve`] starts it.
//! * [`Client`] blocks, or keeps many calls under way; [`Tree`] is a client with paths.
//!
//! **Invariant:** a call that changes something happens once, however often it is sent: a server
//! keeps the last answers of each client by the numbers of its calls.

mod client;
mod codec;
pub(crate) mod errno;
mod error;
mod lease_clock;
mod server;
pub(crate) mod txn;

pub use client::bulk::Bulk;
pub use client::connection::{Answer, Client, ClientOptions};
pub use client::directory::DirNumber;
pub use client::tree::Tree;
pub use client::wire::Transport;
pub use codec::{
    BATCH_NAMES_MAX, FRAME_BYTES_MAX, Frame, HELLO_TOKEN_BYTES_MAX, How, Peer, Protocol, Reply,
    Request, SetFields, WINDOW, frame,
};
pub use error::{Error, Result};
pub use lease_clock::LeaseClock;

pub use server::options::ServeOptions;
pub use server::serve::{Served, serve};
pub use server::service::Service;
pub use txn::recovery::{needs_recovery, recover};

#[cfg(test)]
mod cluster;
#[cfg(test)]
mod damaged;
#[cfg(test)]
mod full;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
