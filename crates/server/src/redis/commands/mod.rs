//! The handlers: what carries the commands out, a file for each family.
//!
//! A handler is a function of a [`Call`](crate::redis::call::Call): it reads the arguments, works
//! on rows, and writes its reply, or returns the error to reply with. Handlers know the table of
//! commands but not each other's place in it: `dispatch` maps a command to its handler.

pub(super) mod arithmetic;
pub(super) mod client;
pub(super) mod config;
pub(super) mod expiry;
pub(super) mod gets;
pub(super) mod hash_expiry;
pub(super) mod hash_scan;
pub(super) mod hashes;
pub(super) mod info;
pub(super) mod introspect;
pub(super) mod keys;
pub(super) mod scan;
pub(super) mod server;
pub(super) mod session;
pub(super) mod slow;
pub(super) mod strings;
pub(super) mod transaction;
