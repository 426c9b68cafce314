//! Disks that are full, at every moment: the error is the machine's own, what it refused was not
//! done, and once there is space again the same call is carried out.

use crate::support::{Lab, assert_sound, dump, path};
use keyrack_deltafs::{Caller, IfExists, IfTaken, Namespace, Result, SetAttributes};
use keyrack_flodb::Durability;
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Operation};
use std::sync::Arc;

/// What needs room, or may be refused for want of it.
const NEEDS_SPACE: [Operation; 7] = [
    Operation::Open,
    Operation::Write,
    Operation::SetLen,
    Operation::Allocate,
    Operation::CreateDir,
    Operation::Rename,
    Operation::Link,
];

const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const EDQUOT: i32 = 122;

type Call = Box<dyn Fn(Caller<'_>) -> Result<()>>;

/// Calls of every kind that changes something; each fails if it was done before.
fn calls() -> Vec<(String, Call)> {
    let mut calls: Vec<(String, Call)> = Vec::new();
    let mut add = |what: &str, call: Call| calls.push((what.to_owned(), call));
    for dir in ["/a", "/b", "/a/dir"] {
        add("mkdir", Box::new(move |fs| fs.mkdir(dir.as_bytes(), 0o755).map(drop)));
    }
    for n in 0..25 {
        let path = format!("/a/{n}");
        let (made, linked) = (path.clone(), format!("/b/link{n}"));
        add(
            "create",
            Box::new(move |fs| fs.create(made.as_bytes(), 0o644, IfExists::Fail).map(drop)),
        );
        let written = path.clone();
        add("write", Box::new(move |fs| fs.write(written.as_bytes(), 0, &[b'w'; 3000]).map(drop)));
        add("symlink", Box::new(move |fs| fs.symlink(b"target", linked.as_bytes()).map(drop)));
        let large = format!("/b/large{n}");
        add("put", Box::new(move |fs| fs.put(large.as_bytes(), 0o600, &[b'l'; 10_000]).map(drop)));
    }
    add("grow", Box::new(|fs| fs.write(b"/a/1", 3000, &[b'g'; 9000]).map(drop)));
    add(
        "shrink",
        Box::new(|fs| {
            let set =
                SetAttributes { size: Some(5), mode: Some(0o640), ..SetAttributes::default() };
            fs.set_attributes(b"/b/large1", &set).map(drop)
        }),
    );
    add("rename", Box::new(|fs| fs.rename(b"/a/2", b"/b/2", IfTaken::Fail)));
    add("rename a directory", Box::new(|fs| fs.rename(b"/a/dir", b"/b/dir", IfTaken::Fail)));
    add("rename onto", Box::new(|fs| fs.rename(b"/b/large2", b"/a/3", IfTaken::Replace)));
    add("unlink", Box::new(|fs| fs.unlink(b"/a/4")));
    add("unlink a large one", Box::new(|fs| fs.unlink(b"/b/large3")));
    add("rmdir", Box::new(|fs| fs.rmdir(b"/b/dir")));
    calls
}

fn open(lab: &Lab, fs: &FaultFs) -> Namespace {
    let mut settings = lab.settings();
    settings.store.memtable_bytes = 64 << 10;
    settings.store.segment_bytes = 16 << 10;
    settings.store.table_bytes = 8 << 10;
    settings.store.durability = Durability::Os;
    // Nothing but the calls themselves uses the disk.
    settings.store.compaction_threads = 0;
    Namespace::open_in(Arc::new(fs.clone()), &path("log"), settings).unwrap()
}

#[test]
fn a_call_that_a_full_disk_refused_was_not_done_and_is_done_when_there_is_space() {
    let lab = Lab::new();
    let fs = FaultFs::new(lab.fs());
    let space = open(&lab, &fs);
    fs.arm(FaultPlan::once(0, Fault::NoSpace));
    let operations_before: u64 = NEEDS_SPACE.map(|kind| fs.operations_of(kind)).iter().sum();
    for (what, call) in calls() {
        call(space.as_root()).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let operations: u64 = NEEDS_SPACE.map(|kind| fs.operations_of(kind)).iter().sum();
    let operations = operations - operations_before;
    assert!(operations > 40, "too little happens on the disk: {operations}");
    let expected = dump(&space);
    let mut told = 0;
    for n in 1..=operations {
        let (number, name) = [(ENOSPC, "ENOSPC"), (EDQUOT, "EDQUOT")][n as usize % 2];
        let lab = Lab::new();
        let fs = FaultFs::new(lab.fs());
        let space = open(&lab, &fs);
        fs.arm(FaultPlan::from_then_on(n, Fault::Errno(number)).only(&NEEDS_SPACE));
        let mut refused = 0;
        for (what, call) in calls() {
            let context = format!("{name} at operation {n}, {what}");
            let Err(error) = call(space.as_root()) else { continue };
            assert_eq!(error.errno(), name, "{context}: {error}");
            refused += 1;
            fs.disarm();
            space.resume().unwrap_or_else(|error| panic!("{context}: resume: {error}"));
            call(space.as_root()).unwrap_or_else(|error| panic!("{context}: again: {error}"));
        }
        fs.disarm();
        told += refused;
        assert!(refused <= 1, "{name} at operation {n}");
        assert_sound(&space);
        assert_eq!(dump(&space), expected, "{name} at operation {n}");
        space.close().unwrap();
        let space = open(&lab, &fs);
        assert_eq!(dump(&space), expected, "{name} at operation {n} again");
    }
    assert!(told > operations / 2, "{told} of {operations}");
}

#[test]
fn a_disk_that_became_read_only_says_so() {
    let lab = Lab::new();
    let fs = FaultFs::new(lab.fs());
    let space = open(&lab, &fs);
    space.as_root().create(b"/there", 0o644, IfExists::Fail).unwrap();
    fs.arm(FaultPlan::from_then_on(1, Fault::Errno(EROFS)).only(&NEEDS_SPACE));
    let error = space.as_root().put(b"/large", 0o600, &[1; 5000]).unwrap_err();
    assert_eq!(error.errno(), "EROFS", "{error}");
    assert!(error.to_string().contains("Read-only file system"), "{error}");
    assert!(space.as_root().stat(b"/there").is_ok());
    drop(space);
    let refused = Namespace::open_in(Arc::new(fs.clone()), &path("log"), lab.settings());
    assert_eq!(refused.unwrap_err().errno(), "EROFS");
}
