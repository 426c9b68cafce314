//! `keyrack bench --selftest`: engines against the contract.

use crate::support::{Lab, names_in};

#[test]
fn every_engine_passes() {
    let lab = Lab::with_dir("data");
    let out = lab.run("bench --selftest --data-dir data --durability none --ops 400").exits(0);
    for engine in ["skiplist", "btree", "redb", "fjall", "lmdb", "masstree", "flodb"] {
        for line in ["scripts: 15 passed, 0 failed", "random: 400 operations as the model"] {
            assert!(out.stdout.contains(&format!("{engine}: {line}")), "{engine}: {}", out.told());
        }
        assert!(out.stdout.contains(&format!("{engine}: concurrent: ")), "{}", out.told());
    }
    assert!(!out.stdout.contains("FAILED"), "{}", out.told());
    assert_eq!(names_in(&lab.path("data")), [] as [&str; 0], "a store was left behind");
}

/// Results of several engines can be told apart.
#[test]
fn each_engine_is_named() {
    let out = Lab::new().run("bench --selftest --ops 40").exits(0);
    for engine in ["skiplist", "btree"] {
        assert!(out.stdout.contains(engine), "{engine}: {}", out.told());
    }
    assert!(!out.stdout.contains("redb"), "it has no directory: {}", out.told());
}

#[test]
fn an_engine_can_be_chosen() {
    let lab = Lab::new();
    let out = lab.run("bench --selftest --backend btree --ops 40 --seed 9").exits(0);
    assert_eq!(out.stdout.matches("scripts: ").count(), 1, "{}", out.told());
    lab.run("bench --selftest --backend redb").refuses(&["redb", "--data-dir"]);
    lab.run("bench --selftest --backend btere").refuses(&["'btere'", "did you mean 'btree'?"]);
    lab.run("bench --selftest --backend null").exits(0).says("null");
}
