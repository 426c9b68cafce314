//! What a create costs: one write of the log, and no call to the machine.

use crate::support::{Lab, path};
use keyrack_deltafs::{IfExists, Namespace, Settings};
use keyrack_flodb::Options;
use keyrack_vfs::FaultFs;
use std::sync::Arc;

#[test]
fn creates_and_lookups_in_an_open_directory_make_no_call() {
    let lab = Lab::new();
    let fs = FaultFs::new(lab.fs());
    // No background work, and room for all of it.
    let store = Options {
        compaction_threads: 0,
        memtable_bytes: 32 << 20,
        segment_bytes: 8 << 20,
        ..Options::default()
    };
    let settings = Settings { store, ..lab.settings() };
    let space = Namespace::open_in(Arc::new(fs.clone()), &path("log"), settings).unwrap();
    let caller = space.as_root();
    let dir = caller.mkdir(b"/d", 0o755).unwrap();
    caller.create_at(&dir, b"first", 0o644, IfExists::Fail).unwrap();
    // The space of the log doubles with its records: here to 512 KiB.
    for n in 0..80 {
        caller.put(format!("/d/large{n}").as_bytes(), 0o644, &[7; 3_800]).unwrap();
    }
    let entries = |space: &Namespace| {
        let mut entries = 0.0;
        space.stores()[0].stats(&mut |name, value| {
            if name == "memory_entries" {
                entries = value;
            }
        });
        entries
    };
    let (calls, records) = (fs.operations(), entries(&space));
    for n in 0..2_000 {
        caller.create_at(&dir, format!("f{n}").as_bytes(), 0o644, IfExists::Fail).unwrap();
        assert!(caller.stat_at(&dir, format!("f{n}").as_bytes()).is_ok());
        assert!(caller.stat(format!("/d/f{n}").as_bytes()).is_ok());
        assert!(caller.stat_at(&dir, format!("x{n}").as_bytes()).is_err());
    }
    assert_eq!(fs.operations(), calls);
    assert_eq!(
        entries(&space),
        records + 2_000.0,
        "one record each: the directory's is not written"
    );
}

/// Each log of a chain is asked for a name that none has; their filters answer without the disk.
#[test]
fn names_that_no_log_of_a_chain_has_cost_next_to_no_reads() {
    const LOGS: usize = 16;
    const FILES: usize = 100;
    let lab = Lab::new();
    let names: Vec<String> = (0..LOGS).map(|log| format!("log{log}")).collect();
    for (log, name) in names.iter().enumerate() {
        let below: Vec<&str> = names[..log].iter().rev().map(String::as_str).collect();
        let space = lab.open_on(name, &below);
        let fs = space.as_root();
        if log == 0 {
            fs.mkdir(b"/d", 0o755).unwrap();
        }
        let dir = fs.dir(b"/d").unwrap();
        for n in 0..FILES {
            // About four to a block.
            let name = format!("f{n:04}-{log:02}");
            fs.create_with_at(&dir, name.as_bytes(), 0o644, &[b'x'; 1000]).unwrap();
        }
        space.flush().unwrap();
        space.close().unwrap();
    }
    let logs: Vec<_> = names.iter().rev().map(|name| path(name)).collect();
    // Nothing is in memory but what the lookups bring there.
    let reads_of = |name: &dyn Fn(usize) -> String, is_there: bool| {
        let fs = FaultFs::new(lab.fs());
        let view = Namespace::open_read_only_in(Arc::new(fs.clone()), &logs, lab.settings());
        let view = view.unwrap();
        let caller = view.as_root();
        let dir = caller.dir(b"/d").unwrap();
        caller.stat_at(&dir, b"nobody").unwrap_err();
        let before = fs.operations();
        // Each is between others of every log, so between them they touch every block.
        for n in (0..LOGS * FILES).step_by(if is_there { 1 } else { 4 }) {
            let found = caller.stat_at(&dir, name(n).as_bytes());
            assert_eq!(found.is_ok(), is_there, "{}", name(n));
        }
        fs.operations() - before
    };
    let there = reads_of(&|n| format!("f{:04}-{:02}", n % FILES, n / FILES), true);
    let absent = reads_of(&|n| format!("f{:04}-{:02}x", n % FILES, n / FILES), false);
    assert!(there >= (LOGS * FILES / 8) as u64, "{there}: it is all in memory");
    // One name in a hundred passes a filter. Without any, all blocks would be read here too.
    assert!(absent * 4 < there, "{absent} reads of absent names, {there} of others");
    println!("{absent} reads of absent names, {there} of others");
}
