//! Every engine of the crate that holds data goes through the same checks: the golden scripts, the
//! random comparison with the model under several seeds, and the concurrent check. `KEYRACK_SEED=n`
//! in the environment replaces the seeds; a failure prints the one that it had.

#[cfg(test)]
mod servers;

use keyrack_store::{Batch, Durability, Engine, OpenOptions, Result, Session, Store, Update};
use keyrack_testkit::random::seeds;
use keyrack_testkit::{check_scripts, compare_concurrent, compare_random};
use keyrack_vfs::RealFs;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
}

/// The engines that hold data, without the cost of syncs where they can do without.
fn openers() -> impl Iterator<Item = Opener> {
    let engines = keyrack_peers::engines().into_iter().filter(|engine| engine.stores);
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
    for opener in openers() {
        let report = check_scripts(&|| opener.open());
        let name = opener.engine.name;
        for failure in &report.failed {
            eprintln!("{name}: {}\n{}", failure.script, failure.diff);
        }
        assert!(report.failed.is_empty(), "{name} fails {} scripts", report.failed.len());
        assert_eq!(report.passed, keyrack_testkit::scripts().len(), "{name}");
        let has_snapshots = opener.open().unwrap().snapshot().unwrap().is_some();
        assert_eq!(report.notes.is_empty(), has_snapshots, "{name}: {:?}", report.notes);
    }
}

#[test]
fn every_engine_answers_as_the_model() {
    for opener in openers() {
        for seed in seeds() {
            let store = opener.open().unwrap();
            if let Err(mismatch) = compare_random(store.as_ref(), seed, 3000) {
                panic!("{mismatch}");
            }
            store.close().unwrap();
        }
    }
}

#[test]
fn every_engine_keeps_its_promises_to_many_threads() {
    for opener in openers() {
        for seed in seeds() {
            let store = opener.open().unwrap();
            if let Err(mismatch) = compare_concurrent(store.as_ref(), seed, 4, 400) {
                panic!("{mismatch}");
            }
            store.close().unwrap();
        }
    }
}

/// The contract lets a scan's visitor read through another session, and nobody waits for a scan. An
/// engine that holds a lock during the visit hangs here.
#[test]
fn no_engine_holds_a_lock_while_a_scan_visits() {
    for opener in openers() {
        let store = opener.open().unwrap();
        store.session().unwrap().put(b"a", b"1").unwrap();
        store.session().unwrap().put(b"b", b"2").unwrap();
        for reverse in [false, true] {
            let mut visits = 0;
            let mut visit = |key: &[u8], _: &[u8]| {
                let write = || store.session().unwrap().put(b"a", b"3").unwrap();
                std::thread::scope(|scope| scope.spawn(write).join().unwrap());
                let mut other = store.session().unwrap();
                assert!(other.get(key, &mut |_| {}).unwrap());
                let rows = other.scan(b"", None, &mut |_, _| ControlFlow::Continue(()));
                assert_eq!(rows.unwrap(), 2);
                visits += 1;
                ControlFlow::Continue(())
            };
            let mut session = store.session().unwrap();
            let rows = if reverse {
                session.scan_rev(b"", None, &mut visit)
            } else {
                session.scan(b"", None, &mut visit)
            };
            assert_eq!((rows.unwrap(), visits), (2, 2), "{}", opener.engine.name);
        }
        store.close().unwrap();
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
        for seed in seeds() {
            let store = opener.open().unwrap();
            assert_eq!(store.info().durability, Durability::Sync);
            if let Err(mismatch) = compare_random(store.as_ref(), seed, 200) {
                panic!("{mismatch}");
            }
            store.close().unwrap();
        }
    }
}

/// A write that begins when an update of its key has read comes after the update: what it wrote is
/// there at the end. An engine that lets it in between loses it.
#[test]
fn no_write_is_lost_to_an_update_of_its_key() {
    type Write = fn(&mut dyn Session) -> Result<()>;
    let writes: [Write; 3] = [
        |session| session.put(b"key", b"later"),
        |session| session.remove(b"key").map(|_| ()),
        |session| {
            let mut batch = Batch::new();
            batch.put(b"other", b"later");
            batch.put(b"key", b"later");
            session.apply(&batch)
        },
    ];
    for opener in openers() {
        let store = opener.open().unwrap();
        for (round, write) in writes.iter().cycle().take(12).enumerate() {
            store.session().unwrap().put(b"key", b"old").unwrap();
            let has_ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let write = || {
                    write(store.session().unwrap().as_mut()).unwrap();
                    has_ended.store(true, Ordering::Release);
                };
                let update = store.session().unwrap().update(b"key", &mut |current, buffer| {
                    assert_eq!(current, Some(&b"old"[..]), "{}", opener.engine.name);
                    scope.spawn(write);
                    // The write must not end here, so there is nothing to wait for but time in
                    // which a wrong one does.
                    for _ in 0..300 {
                        if has_ended.load(Ordering::Acquire) {
                            break;
                        }
                        std::thread::yield_now();
                    }
                    buffer.extend_from_slice(b"new");
                    Update::Put
                });
                update.unwrap();
            });
            let mut found = None;
            let mut session = store.session().unwrap();
            session.get(b"key", &mut |value| found = Some(value.to_vec())).unwrap();
            let expected = (round % 3 != 1).then(|| b"later".to_vec());
            assert_eq!(found, expected, "{} loses write {}", opener.engine.name, round % 3);
        }
        store.close().unwrap();
    }
}

#[test]
fn the_null_engine_does_not_pass_for_a_store() {
    let null = keyrack_peers::engines().into_iter().find(|engine| !engine.stores).unwrap();
    let opener = Opener::new(null, None);
    assert!(!keyrack_testkit::selftest(&|| opener.open(), 1, 100, &mut |_| {}));
}
