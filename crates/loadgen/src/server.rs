//! A server, resolved.

use keyrack_net::Endpoint;

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// As it was written, for messages.
    pub name: String,
    /// The host alone, for certificates.
    pub host: String,
    /// Where it is. A name stands for one address, the first that answers.
    pub endpoint: Endpoint,
    /// Is it a responder's shared memory, at the path of `endpoint`?
    pub is_shared: bool,
}
