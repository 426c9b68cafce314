//! # Redis' commands on rows
//!
//! ```text
//!   bytes --RequestParser--> request --table--> command --handler--> rows
//!                                |                         |
//!                             MULTI: queue             Writer --> bytes
//! ```
//!
//! A [`Connection`] turns the bytes of one client into replies; the loop that it belongs to lends
//! it what it needs, as a [`Context`]. There is no socket in here, and no clock: the time of an
//! iteration is given.
//!
//! The parts: `table` lists the commands, `command` says what one is; `connection` finds, checks
//! and runs them, `transaction` keeps and runs them together, `task` cuts long ones into slices.
//! The commands themselves are in a file for each family.
//!
//! * **Invariant:** a command on one key is one step of the rows. A command that writes several
//!   keys runs in an [exclusive section](crate::ReaderGuard::exclusive) and in a group of the log;
//!   DEL and UNLINK of several keys are as many steps.
//! * **Invariant:** SET and GET take no memory and no lock. A command looks at the time-stamp
//!   counter twice (some 20 ns), a run of GETs once for all: that is what INFO commandstats is made
//!   of.
//! * **Invariant:** no command holds its thread for long: what walks over keys stops after a number
//!   of rows. Those that read or write one row take as long as the row is large; FLUSHALL as long
//!   as the store takes to forget everything.
//!
//! Names, options, errors and shapes of replies are those of Redis 7.0, by its public command
//! reference and by comparison with the program itself. What differs is in
//! `docs/protocols/redis-commands.md`.

mod arithmetic;
mod call;
mod client;
mod clients;
mod command;
mod config;
mod connection;
mod context;
mod cursor;
mod expiry;
mod fault;
#[cfg(test)]
pub(crate) mod fuzzed;
mod gets;
mod glob;
mod hash;
mod hash_walk;
mod hashes;
mod info;
mod introspect;
mod keys;
mod number;
mod server;
mod session;
mod shared;
mod state;
mod strings;
mod subcommands;
mod table;
mod task;
mod transaction;
mod walk;

pub use connection::Connection;
pub use context::{Context, Local};
pub use shared::{Checkpoint, Host, Options, Shared};
