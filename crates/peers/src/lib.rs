//! # keyrack-peers: other people's engines behind the contract, servers, and the null engine
//!
//! [`engines`] lists them; a program puts the list into a [`keyrack_store::Registry`] beside our
//! own.
//!
//! | engine | what it is | holds | order of scans | batches |
//! |---|---|---|---|---|
//! | `skiplist` | crossbeam's lock-free skip list | memory | weakly consistent | atomic to `get` |
//! | `btree` | the model: a locked `BTreeMap` | memory | one point in time | atomic |
//! | `arctic` | arctic-map's lock-free radix tree (feature `indexes`) | memory | weakly consistent | no |
//! | `scc` | scc's B+-tree `TreeIndex` (feature `indexes`) | memory | weakly consistent | no |
//! | `congee` | congee's radix tree, keys of 8 bytes (feature `indexes`) | memory | weakly consistent | no |
//! | `redb` | copy-on-write B+-tree (feature `redb`) | disk | one point in time | atomic |
//! | `fjall` | log-structured merge tree in Rust (feature `fjall`) | disk | one point in time | atomic to scans |
//! | `lmdb` | copy-on-write B+-tree in a memory map (feature `lmdb`) | disk | one point in time | atomic |
//! | `rocksdb` | log-structured merge tree in C++, from a shared library (feature `loaded`) | disk | one point in time | atomic |
//! | `leveldb` | its ancestor, from a shared library (feature `loaded`) | disk | one point in time | atomic |
//! | `rocksdb-bundled` | RocksDB compiled in (feature `rocksdb`, not a default) | disk | one point in time | atomic |
//! | `sqlite` | B-tree in one file with a log (feature `sqlite`, not a default) | disk | one point in time | atomic |
//! | `tidesdb` | log-structured merge tree in C (feature `tidesdb`, not a default) | disk | one point in time | atomic to scans |
//! | `null` | nothing; answers from a constant | nothing | as configured | no |
//!
//! [`servers`] lists what a run can reach over the network, under URLs.
//!
//! Each engine's module says what it promises and where it departs from the contract. All but
//! `null` and `congee` pass the golden scripts and the comparisons of `keyrack-testkit`; those have
//! keys that `congee` refuses, so that it is compared with the model by its own test.
//!
//! ```
//! use keyrack_store::{OpenOptions, Registry};
//! use keyrack_vfs::RealFs;
//! use std::sync::Arc;
//!
//! let registry = Registry::new(keyrack_peers::engines());
//! let engine = registry.find("skiplist").unwrap();
//! let store = (engine.open)(&OpenOptions::in_memory(Arc::new(RealFs))).unwrap();
//! store.session().unwrap().put(b"key", b"value").unwrap();
//! ```
#![deny(unsafe_code)]

mod btree;
#[cfg(any(feature = "fjall", feature = "rocksdb", feature = "loaded", feature = "tidesdb"))]
mod common;
mod contract;
#[cfg(any(feature = "fjall", feature = "lmdb", feature = "tidesdb"))]
mod escape;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "loaded")]
mod loaded;
#[cfg(feature = "indexes")]
mod maps;
mod null;
#[cfg(test)]
mod race;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod servers;
mod skiplist;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(any(
    feature = "fjall",
    feature = "indexes",
    feature = "rocksdb",
    feature = "loaded",
    feature = "tidesdb"
))]
mod stripes;
#[cfg(any(
    feature = "fjall",
    feature = "rocksdb",
    feature = "loaded",
    feature = "sqlite",
    feature = "tidesdb"
))]
mod ticker;
#[cfg(feature = "tidesdb")]
mod tidesdb;
#[cfg(all(
    test,
    any(
        feature = "redb",
        feature = "fjall",
        feature = "lmdb",
        feature = "loaded",
        feature = "rocksdb",
        feature = "sqlite",
        feature = "tidesdb"
    )
))]
mod trial;

use keyrack_store::{AbsentEngine, Durability, Engine, Error, OpenOptions, Result};

pub use servers::servers;

/// The engines of this crate that were compiled in, in the order in which programs list them.
#[must_use]
pub fn engines() -> Vec<Engine> {
    vec![
        skiplist::ENGINE,
        btree::ENGINE,
        #[cfg(feature = "indexes")]
        maps::arctic::ENGINE,
        #[cfg(feature = "indexes")]
        maps::scc::ENGINE,
        #[cfg(feature = "indexes")]
        maps::congee::ENGINE,
        #[cfg(feature = "redb")]
        redb::ENGINE,
        #[cfg(feature = "fjall")]
        fjall::ENGINE,
        #[cfg(feature = "lmdb")]
        lmdb::ENGINE,
        #[cfg(feature = "loaded")]
        loaded::ROCKSDB,
        #[cfg(feature = "loaded")]
        loaded::LEVELDB,
        #[cfg(feature = "rocksdb")]
        rocksdb::ENGINE,
        #[cfg(feature = "sqlite")]
        sqlite::ENGINE,
        #[cfg(feature = "tidesdb")]
        tidesdb::ENGINE,
        null::ENGINE,
    ]
}

/// The engines of this crate that were not compiled in, each with its feature.
#[must_use]
pub fn absent() -> Vec<AbsentEngine> {
    let built = |name| engines().iter().any(|engine| engine.name == name);
    OPTIONAL.iter().filter(|engine| !built(engine.name)).copied().collect()
}

const fn optional(name: &'static str, about: &'static str, feature: &'static str) -> AbsentEngine {
    AbsentEngine { name, about, feature }
}

/// Engines that a build may lack.
const OPTIONAL: &[AbsentEngine] = &[
    optional("arctic", "compiled in", "indexes"),
    optional("scc", "compiled in", "indexes"),
    optional("congee", "compiled in", "indexes"),
    optional("redb", "compiled in", "redb"),
    optional("fjall", "compiled in", "fjall"),
    optional("lmdb", "compiled in", "lmdb"),
    optional("sqlite", "compiled in from its source in half a minute", "sqlite"),
    optional("tidesdb", "compiled in from its source in half a minute; needs cmake", "tidesdb"),
    optional("rocksdb", "from a shared library", "loaded"),
    optional("leveldb", "from a shared library", "loaded"),
    optional(
        "rocksdb-bundled",
        "RocksDB compiled in from its source in 10 to 45 minutes",
        "rocksdb",
    ),
];

/// Refuses a durability that an engine in memory cannot give, instead of pretending.
fn check_in_memory(engine: &str, options: &OpenOptions) -> Result<()> {
    match options.durability {
        None | Some(Durability::None) => Ok(()),
        Some(other) => Err(Error::usage(format!(
            "{engine} stores nothing on disk: its durability is none, not '{other}'"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::Registry;
    use keyrack_vfs::RealFs;
    use std::sync::Arc;

    #[test]
    fn engines_have_distinct_names_and_say_what_they_need() {
        let registry = Registry::new(engines());
        for name in ["skiplist", "btree", "null"] {
            assert!(!registry.find(name).unwrap().persistent, "{name}");
        }
        let holding: Vec<_> = registry.iter().filter(|e| !e.stores).map(|e| e.name).collect();
        assert_eq!(holding, ["null"]);
        #[cfg(feature = "redb")]
        assert!(registry.find("redb").unwrap().persistent);
    }

    #[test]
    fn every_engine_is_built_in_or_absent() {
        let built: Vec<&str> = engines().iter().map(|engine| engine.name).collect();
        let absent: Vec<&str> = absent().iter().map(|engine| engine.name).collect();
        assert!(absent.iter().all(|name| !built.contains(name)), "{built:?} {absent:?}");
        let optional = built.iter().filter(|name| !["skiplist", "btree", "null"].contains(name));
        assert_eq!(optional.count() + absent.len(), OPTIONAL.len(), "{built:?} {absent:?}");
    }

    #[test]
    fn memory_does_not_pretend_to_survive() {
        for engine in engines().iter().filter(|engine| !engine.persistent) {
            let mut options = OpenOptions::in_memory(Arc::new(RealFs));
            options.durability = Some(Durability::Sync);
            let error = (engine.open)(&options).err().unwrap().to_string();
            assert!(error.contains(engine.name) && error.contains("'sync'"), "{error}");
            options.durability = Some(Durability::None);
            let store = (engine.open)(&options).unwrap();
            assert_eq!(store.info().durability, Durability::None);
            assert!(store.info().version.starts_with(engine.name), "{}", store.info().version);
        }
    }
}
