//! `deltafs_bm_svr`, `deltafs_bm_cli` and `parallel_compactor` of DeltaFS (SC 2021): the flags, the
//! headers and the result lines of their originals. What the ranks do is in `jobs`.
//!
//! What differs: clients keep many calls under way (`--rpc_depth=1` for one), the compactor merges
//! tables and calls nobody, so its `rpc_*` flags are taken and shown, and a value that makes no
//! sense is refused where the original guesses.

use keyrack_fs_tools as fs_tools;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `deltafs_bm_svr`.
    Server,
    /// `deltafs_bm_cli`.
    Client,
    /// `parallel_compactor`.
    Compactor,
}

pub(super) fn main(program: Program, argv: &[String]) -> u8 {
    match program {
        Program::Server => fs_tools::server(argv),
        Program::Client => fs_tools::client(argv),
        Program::Compactor => fs_tools::compactor(argv),
    }
}
