//! `deltafs_bm_svr`, `deltafs_bm_cli` and `parallel_compactor` of DeltaFS (SC 2021): the flags, the
//! headers and the result lines of their originals. What the ranks do is in `keyrack-fs-tools`.
//!
//! What differs: clients keep many calls under way (`--rpc_depth=1` for one), the compactor merges
//! tables and calls nobody, so its `rpc_*` flags are taken and shown, and a value that makes no
//! sense is refused where the original guesses.

mod flags;
mod programs;

pub(super) use programs::{client, compactor, server};
