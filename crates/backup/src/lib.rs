//! # keyrack-backup: backups of stores
//!
//! A store says which files it is made of at a moment, and keeps them ([`FileSet`]). A
//! [`Repository`] has them as objects named by their content, with a manifest for each backup. So
//! every backup is full, and costs only what no earlier one has.
//!
//! ```text
//!   Db::file_set() --> Backup --save_to--> Repository --restore--> directory of a store
//!                                          verify, delete, keep_newest
//!                                              |
//!                                           Target     a directory
//! ```
//!
//! Nothing in the store waits for the target: writers, flushes and compactions go on, and files
//! that compactions replace meanwhile stay until they are copied.
//!
//! ```
//! use keyrack_backup::{Backup, DirTarget, Repository};
//! use keyrack_flodb::{Db, Options};
//! use keyrack_vfs::{Fs, RealFs};
//! use std::sync::Arc;
//! # let dir = RealFs.create_unique_dir(&std::env::temp_dir(), "keyrack-backup-doc")?;
//!
//! let db = Db::open(dir.join("store"), Options::default())?;
//! db.put(b"key", b"value")?;
//! let target = DirTarget::new(Arc::new(RealFs), dir.join("backups"));
//! let repository = Repository::create(Arc::new(target))?;
//! let saved = Backup::of(db.file_set()?).save_to(&repository)?;
//! db.close()?;
//!
//! assert!(repository.verify(None, |_| ())?.is_sound());
//! repository.restore(&saved.info.id, &RealFs, &dir.join("restored"), |_| ())?;
//! let restored = Db::open(dir.join("restored"), Options::default())?;
//! assert_eq!(restored.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! # restored.close()?;
//! # RealFs.remove_dir_all(&dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The bytes are in `docs/formats/backup.md`.
#![forbid(unsafe_code)]

mod backup;
mod delete;
mod digest;
mod dir_target;
mod error;
mod log_object;
mod manifest;
mod moment;
mod pace;
mod progress;
mod repository;
mod restore;
mod scratch;
mod ship;
mod target;
mod verify;

pub use backup::{Backup, Saved};
pub use delete::Deleted;
pub use dir_target::DirTarget;
pub use error::{Error, Result};
// Part of the signatures here.
pub use keyrack_store::{FileSet, LogFeed, LogPosition, LogReplay, LogSource};
pub use moment::{Moment, Moments, OpenReplay, RestoredMoment};
pub use progress::Progress;
pub use repository::{BackupId, BackupInfo, Repository};
pub use ship::{LogShipped, Shipper};
pub use target::{Fill, Listed, Sink, Target};
pub use verify::{Damage, VerifyReport};
