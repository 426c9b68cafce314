//! # keyrack-wal: a log of records, written by many threads without a system call
//!
//! ```text
//!   reserve ---------> write ---------------> publish -------------> sync
//!   one atomic         copy and checksum      in LSN order:          one flush for all
//!   addition gives     into a mapped file,    no reader sees         waiting threads
//!   an LSN             in parallel            a hole
//! ```
//!
//! An LSN (log sequence number) is the number of log bytes before a record. LSNs only grow, also
//! over crashes, and are never used twice. The log consists of segments: files of fixed size whose
//! space is allocated when they are created. A record does not cross the end of a segment.
//!
//! * **Durability.** After `publish`, a record survives the end of the process, unless every
//!   record is to be synced ([`Sync::Always`]). After [`Log::sync`], it survives that and a power
//!   loss. A recovery replays all synced records, and a prefix
//!   of the others without a hole. It replays a record whole, with the bytes that were written, or
//!   not at all.
//! * **Damage is not a torn tail.** A missing record that was once durable is an error with file
//!   and offset. A torn tail is dropped and reported in [`Recovered`].
//! * **A failed sync is final.** The state of the disk is unknown then. From then on the log
//!   accepts no records, and every call reports the failure.
//! * **A full disk is not final.** [`Log::reserve`] fails while no segment can be created, and
//!   works again when there is space. A mapping never faults, since its space is allocated.
//!
//! A put costs, beside the copy: an atomic addition, a checksum (some nanoseconds for a hundred
//! bytes), and a store for the publication. It takes no lock, no allocation and no system call,
//! except at the end of a segment and for the page faults of a fresh mapping.
//!
//! `docs/formats/wal.md` describes the format. `allocator` reserves ranges of the log, `sequencer`
//! publishes them, `group_commit` syncs them; loom explores each. `files` creates and recycles
//! segments, `marker` names the newest one, `recovery` reads them, and `salvage` reads damaged
//! ones.
//!
//! ```
//! use keyrack_vfs::{Fs, MemFs};
//! use keyrack_wal::{Error, Log, Options};
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Error> {
//! let disk = MemFs::new(); // or RealFs
//! let open = |seen: &mut Vec<Vec<u8>>| {
//!     let fs: Arc<dyn Fs> = Arc::new(disk.clone());
//!     let mut replay = |_: u64, payload: &[u8]| Ok::<_, Error>(seen.push(payload.to_vec()));
//!     Log::open(fs, Path::new("/log"), 0, Options::default(), &mut replay)
//! };
//! let (log, _) = open(&mut Vec::new())?;
//! let mut record = log.reserve(9)?;
//! record.write(&[b"key", b"=", b"value"])?;
//! let end = record.end();
//! record.publish();
//! log.sync(end)?;
//! log.close()?;
//!
//! let mut seen = Vec::new();
//! let (log, recovered) = open(&mut seen)?;
//! assert_eq!(seen, [b"key=value"]);
//! assert_eq!((recovered.records, recovered.end), (1, end));
//! # drop(log);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod allocator;
mod error;
mod files;
mod format;
#[cfg(test)]
#[cfg(not(loom))]
mod fuzz;
mod group_commit;
mod log;
mod marker;
mod names;
mod options;
mod primitive;
mod reader;
mod recovery;
mod retention;
mod salvage;
mod segment;
mod sequencer;
mod tail;
mod ticker;

pub use error::{Error, Result};
pub use files::Stats;
pub use log::{Log, Reservation};
pub use marker::new_id;
pub use names::is_ours;
pub use options::{Options, Retention, Sync};
pub use recovery::{Recovered, remove};
pub use salvage::{Hole, Salvaged, salvage};
pub use tail::{Entry, Tail, TimeMark};
