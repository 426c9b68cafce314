//! Every engine of the crate that holds data passes the engine suite of testkit. `KEYRACK_SEED=n`
//! replaces the seeds; a failure prints its seed.

#[cfg(test)]
mod servers;

use keyrack_store::{Durability, Engine, OpenOptions, Result, Store};
use keyrack_testkit::Suite;
use keyrack_vfs::RealFs;
use std::sync::Arc;
use tempfile::TempDir;

/// Opens fresh stores of one engine, each in a directory of its own that lives as long as this.
struct Opener {
    engine: Engine,
    durability: Option<Durability>,
    parent: TempDir,
}

impl Opener {
    fn new(engine: Engine, durability: Option<Durability>) -> Self {
        Opener { engine, durability, parent: TempDir::new().expect("a temporary directory") }
    }

    fn open(&self) -> Result<Box<dyn Store>> {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        options.durability = self.durability;
        if self.engine.persistent {
            let directory = TempDir::new_in(self.parent.path()).expect("a directory");
            // The parent removes it.
            options.data_dir = Some(directory.keep());
        }
        (self.engine.open)(&options)
    }

    fn check(&self, operations: u64, check: fn(&Suite<'_>)) {
        let (name, open) = (self.engine.name, || self.open());
        check(&Suite { name, open: &open, operations, thread_operations: 400 });
    }
}

/// The engines that hold data, without the cost of syncs where they can do without. One whose keys
/// have one length has a test of its own.
fn openers() -> impl Iterator<Item = Opener> {
    let engines = keyrack_peers::engines().into_iter().filter(|engine| engine.stores);
    let engines = engines.filter(|engine| engine.fixed_key_bytes().is_none());
    let openers = engines.map(|engine| Opener::new(engine, Some(Durability::None)));
    openers.filter(is_here)
}

/// Whether the machine has what the engine needs. One that comes from a library may be missing; it
/// is named, and it fails where `CI` is set.
#[expect(clippy::print_stdout, reason = "what was skipped is to be seen")]
fn is_here(opener: &Opener) -> bool {
    let name = opener.engine.name;
    match opener.open() {
        Err(error) if opener.engine.names("lib") && std::env::var_os("CI").is_none() => {
            assert!(error.to_string().contains("install it"), "{error}");
            println!("SKIPPED {name}: {error}");
            false
        }
        opened => {
            drop(opened.unwrap_or_else(|error| panic!("{name}: {error}")));
            true
        }
    }
}

#[test]
fn every_engine_answers_the_golden_scripts() {
    of_all(|suite| suite.answers_the_scripts());
}

#[test]
fn every_engine_answers_as_the_model() {
    of_all(|suite| suite.answers_as_the_model());
}

#[test]
fn every_engine_keeps_its_promises_to_many_threads() {
    of_all(|suite| suite.keeps_its_promises_to_threads());
}

#[test]
fn no_engine_holds_a_lock_while_a_scan_visits() {
    of_all(|suite| suite.holds_no_lock_during_a_visit());
}

#[test]
fn no_write_is_lost_to_an_update_of_its_key() {
    of_all(|suite| suite.loses_no_write_to_an_update());
}

/// One check of the engine suite over every engine.
fn of_all(check: fn(&Suite<'_>)) {
    for opener in openers() {
        opener.check(3000, check);
    }
}

/// With a sync for every write they answer the same.
#[test]
fn persistent_engines_answer_as_the_model_when_they_sync() {
    for engine in keyrack_peers::engines().into_iter().filter(|engine| engine.persistent) {
        let opener = Opener::new(engine, Some(Durability::Sync));
        if !is_here(&opener) {
            continue;
        }
        let store = opener.open().unwrap();
        assert_eq!(store.info().durability, Durability::Sync);
        drop(store);
        opener.check(200, |suite| suite.answers_as_the_model());
    }
}

#[test]
fn the_null_engine_does_not_pass_for_a_store() {
    let null = keyrack_peers::engines().into_iter().find(|engine| !engine.stores).unwrap();
    let opener = Opener::new(null, None);
    assert!(!keyrack_testkit::selftest(&|| opener.open(), 1, 100, &mut |_| {}));
}
