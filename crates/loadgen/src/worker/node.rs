//! Where a connection leads, and how it is made.

use keyrack_net::ConnectOptions;

use crate::server::Server;

/// A server of the plan, or a node that a cluster reported.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) options: ConnectOptions,
}
