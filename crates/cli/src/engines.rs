//! The engines of this build, in the order in which they are listed and compared.

use keyrack_store::{Engine, Registry};

/// All engines and kinds of servers. The one place that lists where they come from.
pub(crate) fn registry() -> Registry {
    let mut engines: Vec<Engine> = keyrack_peers::engines();
    engines.push(keyrack_masstree_engine::engine());
    engines.push(keyrack_rowstore::engine());
    engines.push(keyrack_flodb::engine());
    Registry::new(engines)
        .with_servers(keyrack_peers::servers())
        .with_absent(keyrack_peers::absent())
}

#[cfg(test)]
mod tests {
    /// SQLite and others had the look of whichever engine was not in the report.
    #[test]
    fn every_engine_has_a_look_of_its_own() {
        let palette = keyrack_report::Palette::default();
        let registry = super::registry();
        let names = registry.iter().map(|engine| engine.name);
        for engine in names.chain(["sqlite", "tidesdb", "rocksdb-bundled"]) {
            let has_row = palette.engines().any(|name| name == engine);
            assert!(has_row, "no row of {engine} in palette.txt");
        }
    }
}
