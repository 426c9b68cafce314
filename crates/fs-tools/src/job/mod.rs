//! Tools that run as one job of several processes: servers of a name space, merges, and the
//! launcher.
//!
//! ```text
//!   launch    ranks on this machine, without MPI
//!   serve     a server of a name space in each rank     (deltafs_bm_svr of the original)
//!   merge     the logs of ranks into few parts          (parallel_compactor of the original)
//! ```
//!
//! Rank 0 prints, and writes the document of the job.

mod document;
mod header;
mod launch;
mod merge;
mod rank;
pub(crate) mod result;
mod serve;
mod shares;
mod store;
mod totals;

pub use document::Document;
pub use header::Header;
pub use launch::launch;
pub use merge::{Merge, OriginalCalls, merge};
pub(crate) use rank::in_words;
pub use rank::{as_rank, write_line};
pub use serve::{Server, serve};
pub(crate) use store::{Part, describe_local_tables};
pub use store::{StoreSettings, check_original_names, destroy, environment, number, token};
pub(crate) use totals::Totals;
