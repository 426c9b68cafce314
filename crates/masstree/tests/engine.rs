//! The engine goes through the same checks as every other.

use keyrack_masstree::engine;
use keyrack_store::{Durability, OpenOptions, Result, Store};
use keyrack_testkit::random::{Announced, factor, seeds};
use keyrack_testkit::{check_scripts, compare_concurrent, compare_random};
use keyrack_vfs::RealFs;
use std::ops::ControlFlow;
use std::sync::Arc;

fn open() -> Result<Box<dyn Store>> {
    (engine().open)(&OpenOptions::in_memory(Arc::new(RealFs)))
}

#[test]
fn it_answers_the_golden_scripts() {
    let report = check_scripts(&open);
    for failure in &report.failed {
        eprintln!("{}\n{}", failure.script, failure.diff);
    }
    assert!(report.failed.is_empty());
    assert_eq!(report.passed, keyrack_testkit::scripts().len());
}

#[test]
fn it_answers_as_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        if let Err(mismatch) = compare_random(open().unwrap().as_ref(), seed, 6000) {
            panic!("{mismatch}");
        }
    }
}

#[test]
fn it_keeps_its_promises_to_many_threads() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let operations = 1000 * factor() as u64;
        if let Err(mismatch) = compare_concurrent(open().unwrap().as_ref(), seed, 4, operations) {
            panic!("{mismatch}");
        }
    }
}

#[test]
fn it_does_not_pretend_to_survive() {
    let mut options = OpenOptions::in_memory(Arc::new(RealFs));
    options.durability = Some(Durability::Sync);
    let error = (engine().open)(&options).err().unwrap().to_string();
    assert!(error.contains("masstree") && error.contains("'sync'"), "{error}");
    let store = open().unwrap();
    assert_eq!(store.info().durability, Durability::None);
    assert!(store.info().version.starts_with("masstree "));
}

/// A writer that had to wait for a visit would wait for ever here.
#[test]
fn visits_of_scans_hold_no_lock() {
    let store = open().unwrap();
    store.session().unwrap().put(b"k", b"old").unwrap();
    let mut session = store.session().unwrap();
    let visit = &mut |key: &[u8], value: &[u8]| {
        assert_eq!((key, value), (&b"k"[..], &b"old"[..]));
        let read = store.session().unwrap().get(b"k", &mut |_| {}).unwrap();
        assert!(read);
        std::thread::scope(|scope| {
            let write = || {
                let mut session = store.session().unwrap();
                session.put(b"l", b"later").unwrap();
                session.remove(b"l").unwrap();
            };
            scope.spawn(write).join().unwrap();
        });
        ControlFlow::Continue(())
    };
    assert_eq!(session.scan(b"", None, visit).unwrap(), 1);
    assert_eq!(session.scan_rev(b"", None, visit).unwrap(), 1);
}

#[test]
fn stats_name_what_there_is() {
    let store = open().unwrap();
    store.session().unwrap().put(b"k", b"v").unwrap();
    let mut names = Vec::new();
    store.stats(&mut |name, value| match name {
        "node_bytes" | "retired" | "retired_bytes" => assert!((0.0..1e9).contains(&value)),
        name => names.push(format!("{name} {value}")),
    });
    assert_eq!(names, ["keys 1", "border_nodes 1", "interior_nodes 0", "layers 1"]);
}
