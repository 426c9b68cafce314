//! The engines of this build, in the order in which they are listed and compared.

use keyrack_store::{Engine, Registry};

/// All engines and kinds of servers. The one place that lists where they come from.
pub(crate) fn registry() -> Registry {
    let mut engines: Vec<Engine> = keyrack_peers::engines();
    engines.push(keyrack_masstree::engine());
    engines.push(keyrack_rowstore::engine());
    engines.push(keyrack_flodb::engine());
    Registry::new(engines).with_servers(keyrack_peers::servers())
}
