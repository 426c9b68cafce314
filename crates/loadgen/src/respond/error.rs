//! Why a responder cannot start or end.

/// Why a responder cannot be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text or a number makes no sense.
    #[error("responder {text:?}: {problem}")]
    Usage {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The distribution of an oracle.
    #[error("service time of the oracle: {0}")]
    Distribution(#[from] keyrack_workload::Error),
    /// The machine.
    #[error(transparent)]
    Net(#[from] keyrack_net::Error),
    /// The machine, too.
    #[error("cannot {action}: {cause}")]
    Machine {
        /// What was tried.
        action: String,
        /// What the kernel said.
        cause: std::io::Error,
    },
}
