//! The server: it listens, keeps sessions, grants leases, and knows which partitions it has.
//!
//! ```text
//!   service     event loops: frames in, frames out        session   answers of the last calls
//!      |
//!   dispatch -> handlers -> the name space                leases    of paths, first server alone
//!                   |
//!                work -> background worker -> split, txn  parts     partitions of directories
//! ```

pub(crate) mod background;
pub(crate) mod core;
pub(crate) mod dispatch;
pub(crate) mod dummy;
pub(crate) mod error;
pub(crate) mod handlers;
pub(crate) mod identity;
pub(crate) mod leases;
pub(crate) mod options;
pub(crate) mod parts;
pub(crate) mod serve;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod split;
pub(crate) mod worker;
