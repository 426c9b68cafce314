//! # Redis' commands on rows
//!
//! ```text
//!   bytes --RequestParser--> request --table--> facts --dispatch--> handler --> rows
//!                                |                                      |
//!                             MULTI: queue                           Writer --> bytes
//! ```
//!
//! A [`Connection`] turns the bytes of one client into replies. The loop that it belongs to lends
//! it what it needs, as a [`Context`]. Nothing here knows a socket or reads a calendar: the context
//! has the time of the iteration.
//!
//! The files, from the bottom up; each depends only on those before it:
//!
//! * `command` and `table`: the facts about each command, without the functions;
//! * `fault`, `number`, `glob`, `hash`, `key_range`, `cursor`: errors and values;
//! * `shown`, `slowlog`, `latency`: requests without passwords, and slow ones;
//! * `clients`, `counters`, `shared`, `state`, `context`: what a server, a loop and a connection
//!   keep;
//! * `task` and `call`: a long command in slices, and one command with its arguments and its reply;
//! * `commands`: the handlers, a file for each family;
//! * `dispatch`: the handler of each command;
//! * `exec`, `execute` and `connection`: a transaction, one request, and a client's pipeline.
//!
//! To add a command, write its handler in the file of its family and its row in `table`.
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

mod call;
mod clients;
mod command;
mod commands;
mod connection;
mod context;
mod copy;
mod counters;
mod cursor;
mod dispatch;
mod exec;
mod execute;
mod fault;
mod fields;
#[cfg(test)]
pub(crate) mod fuzzed;
mod glob;
mod hash;
mod key_range;
mod large;
mod latency;
mod number;
mod shared;
mod shown;
mod slowlog;
mod state;
mod table;
mod task;

pub use connection::Connection;
pub use context::{Context, Local};
pub use shared::{Checkpoint, Host, Options, Shared};
