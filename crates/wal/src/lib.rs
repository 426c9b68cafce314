//! # keyrack-wal: a log of records, written by many threads without a system call
//!
//! ```text
//!   reserve ---------> write ---------------> publish -------------> sync
//!   one atomic         copy and checksum      in order of            one flush for all
//!   addition: a place  into a mapped file,    LSN: nobody       who wait
//!   in the order       in parallel            sees a hole
//! ```
//!
//! An LSN counts the bytes of a log without end. It is the place of a record, and its sequence
//! number as well: LSNs only grow, over crashes too, and are never used twice. The log lies in
//! segments, files of fixed size whose space is reserved when they are made; a record does not
//! cross from one to the next.
//!
//! * **What is promised.** After `publish`, a record survives the end of the process. After
//!   [`Log::sync`], it survives the loss of power. Opened again, the log gives all records that
//!   were synced; of the others the first few, without a hole. A record is given whole, with the
//!   bytes that were written, or not at all.
//! * **Damage is not a tail.** A record that is missing below what was once durable is an error
//!   with file and offset. What a crash tore off the end is dropped and reported in [`Recovered`].
//! * **A failed sync is final.** Nobody can tell what it left. From then on the log takes no more
//!   records and reports the failure to everybody who asks.
//! * **A full disk is not.** [`Log::reserve`] fails while no segment can be made, and works again
//!   when there is space. A mapping never faults, since its space was reserved.
//!
//! What a put costs beside the copy: an addition, a checksum (some nanoseconds for a hundred
//! bytes), and a store for publication. No lock, no allocation and no system call, but at the end
//! of a segment and for the page faults of a fresh mapping.
//!
//! The format is described in `docs/formats/wal.md`. The parts: `rooms` gives out the log, `order`
//! publishes it, `group` syncs it; each is explored under loom. `files` makes and recycles
//! segments, `marker` says which is the newest, `recovery` reads them, and
//! `salvage` reads what is left of damaged ones.
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
mod options;
mod primitive;
mod reader;
mod recovery;
mod salvage;
mod segment;
mod sequencer;
mod ticker;

pub use error::{Error, Result};
pub use files::Stats;
pub use log::{Log, Reservation};
pub use marker::new_id;
pub use options::{Options, Sync};
pub use recovery::{Recovered, is_ours, remove};
pub use salvage::{Hole, Salvaged, salvage};
