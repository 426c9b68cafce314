//! # keyrack-deltafs: name spaces of files in sorted logs
//!
//! What a file system knows about its files, without a server that owns it: names, owners, times,
//! sizes, small files whole. A job writes its own *log* on top of a list of logs that others have
//! finished, and publishes it when it is done; a *view* is such a list. There is no one true tree.
//!
//! ```text
//!   job's log  (written)      mkdir create rename unlink ...           store: flodb
//!   ---------------------
//!   log of job B  (read)      the first log that has a name is right
//!   log of job A  (read)
//! ```
//!
//! After DeltaFS (SC 2021), IndexFS (SC 2014) and TableFS (ATC 2013). What differs:
//!
//! | there | here |
//! |---|---|
//! | numbers are counted from 0 by each process, and meet by chance | directories meet by name, files never: see the module `id` |
//! | hash of the name in the key, or the name | the name: a directory is listed as it lies |
//! | no readdir, unlink, rename, attributes; times are 0 | all of them |
//! | a log buffer in the process: a kill loses creates | what was acknowledged at `os` survives a kill |
//! | permission as the client says | as the log says |
//!
//! ```
//! use keyrack_deltafs::{IfExists, Namespace, Settings, User};
//! # let dir = std::env::temp_dir().join(format!("keyrack-deltafs-doc-{}", std::process::id()));
//!
//! let space = Namespace::open(&dir, Settings::default())?;
//! let root = User::root();
//! let fs = space.by(&root);
//! let dir_a = fs.mkdir(b"/a", 0o755)?;
//! fs.create_at(&dir_a, b"file", 0o644, IfExists::Fail)?;
//! fs.write(b"/a/file", 0, b"hello")?;
//! assert_eq!(fs.stat(b"/a/file")?.size, 5);
//! fs.rename(b"/a/file", b"/b", keyrack_deltafs::IfTaken::Replace)?;
//! assert_eq!(fs.read(b"/b", 0, 100)?, b"hello");
//! space.close()?;
//! # keyrack_flodb::Db::destroy(&keyrack_vfs::RealFs, &dir)?;
//! # Ok::<(), keyrack_deltafs::Error>(())
//! ```
//!
//! Beside the library of one process there are
//!
//! * [`job`]: several processes as one job,
//! * [`partition`]: which server has which name,
//! * [`rpc`]: the protocol with its server and clients,
//! * [`merge`]: many logs into few.
#![deny(unsafe_code)]

pub mod job;
pub mod merge;
pub mod partition;
pub mod rpc;

mod attributes;
mod caller;
mod changes;
mod contents;
mod data;
mod dirs;
mod error;
mod file_ref;
mod fsck;
mod id;
mod inner;
mod large;
mod large_file;
mod layers;
mod link;
mod list;
mod make;
mod name;
mod names_cache;
mod namespace;
mod open;
mod put;
mod quota;
mod record;
mod registry;
mod remove;
mod rename;
mod resolve;
mod sums;
mod user;

pub use attributes::{SetAttributes, SetTime};
pub use caller::{Caller, Kind, Stat};
pub use changes::{Conflict, Difference, Said};
pub use error::{Error, Result};
pub use fsck::{Checked, Flaw};
pub use id::{Inode, LogId};
pub use inner::{Dir, TimeSource};
pub use large_file::LargeFile;
pub use link::LinkedFile;
pub use list::{ListEntry, Page, Walk, Walked};
pub use make::{Created, IfExists};
pub use name::{DEPTH_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, check_name};
pub use namespace::Namespace;
pub use open::{LogHead, Settings};
pub use quota::Quota;
pub use record::{INLINE_BYTES_MAX, MODE_BITS};
pub use registry::{
    Collected, CopyFacts, GcOptions, Publication, PublishedFile, Reference, Registry, Storage, Tag,
    Text, VIEW_LOGS_MAX, copy_name,
};
pub use rename::IfTaken;
pub use user::User;
