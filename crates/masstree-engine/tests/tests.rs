//! The engine goes through the same checks as every other.

use keyrack_masstree_engine::engine;
use keyrack_store::{Durability, OpenOptions, Result, Store};
use keyrack_testkit::Suite;
use keyrack_vfs::RealFs;
use std::sync::Arc;

fn open() -> Result<Box<dyn Store>> {
    (engine().open)(&OpenOptions::in_memory(Arc::new(RealFs)))
}

#[test]
fn it_passes_the_engine_suite() {
    Suite { name: "masstree", open: &open, operations: 6000, thread_operations: 1000 }.run();
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
