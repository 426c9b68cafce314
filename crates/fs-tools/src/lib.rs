//! Tools for name spaces of files: what the commands of `keyrack fs` do, without their flags.
//!
//! ```text
//!   Place: a log, or publications, and who asks
//!     mutate, query, find, archive, logs, mount    one file or folder for a group of tools
//!   job: ranks of one job that serve, measure or merge name spaces
//!   bench: creates, stats and more, measured in this process
//! ```
//!
//! A tool prints through `keyrack-console` and returns an exit status:
//!
//! | status | |
//! |---|---|
//! | 0 | done |
//! | 1 | failed, or the answer is no: a name that is not there, a right that is missing |
//! | 2 | the options, or what they name, are wrong; nothing was done |
//! | 3 | a file or a record is damaged |
//! | 130 | interrupted |
#![forbid(unsafe_code)]

pub mod archive;
pub mod bench;
pub mod find;
mod glob;
pub mod job;
mod local;
pub mod logs;
#[cfg(all(feature = "fuse", target_os = "linux"))]
pub mod mount;
pub mod mutate;
mod paths;
mod place;
pub mod query;

pub use place::Place;
