//! # keyrack-server: messages carried out on rows
//!
//! ```text
//!   bytes --wire--> requests --memcached, redis, masstree--> RowSession    replies --wire--> bytes
//!            ^                                                                          |
//!            +------------------------------ net ---------------------------------------+
//! ```
//!
//! The commands of each protocol are a module that knows nothing of sockets: `serve` takes the
//! bytes that are there and appends replies. [`Server`] puts them on event loops: an iteration
//! reads what has come, carries it out, appends to the log once, and replies when that is as
//! durable as was asked for.
//!
//! **Invariant:** no reply is sent before what it acknowledges survives what the store's durability
//! names.
#![forbid(unsafe_code)]

mod admin;
mod client;
mod control;
mod counters;
mod durations;
mod error;
mod eviction_log;
mod exclusive;
mod flusher;
mod listen;
mod masstree;
mod memcached;
mod metrics;
mod options;
mod ordered;
mod password;
mod server;
mod service;
mod settings;
mod sniff;
mod state;
mod store_failures;
mod syncer;
mod work;
mod worker;

pub mod log;
pub mod redis;

pub use admin::Admin;
pub use control::Control;
pub use error::{Error, Result};
pub use exclusive::{ReaderGuard, ReaderSlots};
pub use listen::{Listen, Protocol, Transport};
pub use log::{LogFormat, LogLevel};
pub use options::{Eviction, Options};
pub use password::Password;
pub use server::{Bound, Server};
pub use settings::{SETTINGS, Setting, apply_toml, effective, setting};
pub use work::{Counted, Work};
