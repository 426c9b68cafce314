//! A partition on its way from one server to another.
//!
//! ```text
//!   source                                             target
//!   begin: the half is not written any more
//!                       -- begin(attempt) -->          forgets older attempts
//!                       -- put, put, put  -->          in memory
//!                       -- contents       -->          bytes of large files, not named yet
//!   seal: not read any more; written down
//!                       -- install        -->          files and record: one batch   <- decides
//!   commit: files go, record: one batch
//! ```
//!
//! A source that starts again after a crash finds the seal, and begins again: the target says that
//! it has the partition, or takes it anew. A target that crashes has all of it or nothing. So no
//! name is lost, and none is used in two places. A split that the target has not decided can be
//! aborted.
//!
//! The target may split its half on before the source has heard that the half came, and a part of
//! it may belong to the source. That part waits until the source has committed: the commit removes
//! all names of the half, and what the source has of them until then is old.
//!
//! A half whose records do not fit into one batch, which is one record of the target's log, is
//! refused before anything is sealed: it stays at the source until the next count.
//!
//! Names of directories stay: all servers have them. Whiteouts are copied and stay as well, for
//! they may hide a directory of a log below.

pub(crate) mod commit;
pub(crate) mod records;
pub(crate) mod source;
pub(crate) mod target;
