//! Why agents and their master do not come together.

/// Why agents and their master do not come together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address, a token or a rate that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The address of an agent.
    #[error(transparent)]
    Net(#[from] keyrack_net::Error),
    /// An agent did not do what was asked.
    #[error("agent {name}: {reason}")]
    Agent {
        /// Its address.
        name: String,
        /// What happened.
        reason: String,
    },
    /// Something of the machine.
    #[error("cannot {action}: {cause}")]
    Machine {
        /// What was tried.
        action: String,
        /// What the kernel said.
        cause: std::io::Error,
    },
    /// Somebody wants it to end.
    #[error("interrupted")]
    Interrupted,
}
