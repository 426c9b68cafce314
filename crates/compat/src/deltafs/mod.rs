//! `deltafs_bm_svr`, `deltafs_bm_cli` and `parallel_compactor` of DeltaFS (SC 2021): the flags, the
//! headers and the result lines of their originals. What the ranks do is in `keyrack-fs-tools`.
//!
//! What differs: clients keep many calls under way (`--rpc_depth=1` for one), the compactor merges
//! tables and calls nobody, so its `rpc_*` flags are taken and shown, and a value that makes no
//! sense is refused where the original guesses.

mod flags;
mod programs;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaFsTool {
    /// `deltafs_bm_svr`.
    Server,
    /// `deltafs_bm_cli`.
    Client,
    /// `parallel_compactor`.
    Compactor,
}

pub(super) fn main(tool: DeltaFsTool, argv: &[String]) -> u8 {
    match tool {
        DeltaFsTool::Server => programs::server(argv),
        DeltaFsTool::Client => programs::client(argv),
        DeltaFsTool::Compactor => programs::compactor(argv),
    }
}
