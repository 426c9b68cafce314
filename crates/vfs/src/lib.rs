//! The only door to files. Every other crate takes an `Arc<dyn Fs>` and never names `std::fs`, so
//! one engine runs unchanged on a disk, on a simulated disk that loses power, and on a disk that
//! fails.
//!
//! ```text
//!            engine code
//!                |  Fs, File, Mapping, Lock        (traits: fs, file)
//!      +---------+----------+
//!      |         |          |
//!   RealFs     MemFs     FaultFs ---> any other Fs
//!   (kernel)   (crash     (n-th operation fails)
//!               images)
//! ```
//!
//! * [`RealFs`] calls the kernel. Linux has the fast paths; other Unix systems have slower
//!   equivalents.
//! * [`MemFs`] keeps two states of everything: what a running process sees, and what the disk
//!   holds. [`MemFs::crash_image`] draws, from a seed, one disk that a power loss could have left
//!   behind.
//! * [`FaultFs`] counts operations and makes a chosen one fail. Loop `n` over `1..=fs.operations()`
//!   and every single input or output operation of a workload has failed once.
//!
//! # What is durable, and when
//!
//! | call | after it returns, a power loss cannot undo |
//! |---|---|
//! | `write_at`, `append`, [`Mapping::write`] | nothing: a process crash keeps the bytes, a power loss may not |
//! | [`File::sync_data`], [`File::sync_all`] | the file's bytes and its length, but **not** its name |
//! | [`Mapping::flush`] | the bytes of that range; of [`File::map_direct`], the blocks around it |
//! | [`Fs::sync_dir`] | the names created, removed or renamed in that directory |
//!
//! A new file is therefore safe only after its data *and* its directory are synced, and a new
//! directory only after its own parent is. [`Fs::write_atomic`] does the whole dance for small
//! files.
//!
//! **A failed sync is final.** The kernel marks the pages clean whether or not they reached the
//! disk, so a second sync that succeeds proves nothing about the first one's bytes. The caller must
//! stop writing to that file. `MemFs` behind `FaultFs` behaves in the same way, so tests can tell
//! who retries.
//!
//! # Example
//!
//! ```
//! use keyrack_vfs::{CrashPolicy, Fs, MemFs, OpenOptions};
//! use std::path::Path;
//!
//! # fn main() -> Result<(), keyrack_vfs::Error> {
//! let disk = MemFs::new();
//! let file = disk.open(Path::new("/log"), &OpenOptions::new().write(true).create(true))?;
//! file.append(b"synced")?;
//! file.sync_data()?;
//! disk.sync_dir(Path::new("/"))?;
//! file.append(b" lost")?;
//!
//! let after = disk.crash_image(7, CrashPolicy::DropAll);
//! assert_eq!(after.read(Path::new("/log"))?, b"synced");
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]

mod error;
mod fault;
mod file;
mod fs;
mod machine_memory;
mod mem;
mod mix;
mod output;
mod raw;
mod real;
#[cfg(target_os = "linux")]
mod real_direct;
mod real_file;
mod real_map;
mod relative;

pub use error::{Error, Operation, Result};
pub use fault::{Fault, FaultFs, FaultPlan, Lie};
pub use file::{File, INTERRUPTS_MAX, Lock, Mapping};
pub use fs::{DirEntry, FileKind, Fs, FsKind, Metadata, OpenOptions, Space};
pub use machine_memory::{ControlGroup, ReadText, control_groups, memory_limit, memory_limit_by};
pub use mem::{CrashPolicy, FailedSync, MemFs};
pub use output::{OutputFile, OutputPlace, write_output};
pub use real::{Access, RealFs, access, keep_private};
pub use relative::{NotRelative, RELATIVE_PATH_BYTES_MAX, RelativePath};
