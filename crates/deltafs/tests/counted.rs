//! What a create costs: one write of the log, and no call to the machine.

use crate::support::{Lab, path};
use keyrack_deltafs::{IfExists, Namespace, Settings, User};
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
        memory_bytes: 32 << 20,
        segment_bytes: 8 << 20,
        ..Options::default()
    };
    let settings = Settings { store, ..lab.settings() };
    let space = Namespace::open_in(Arc::new(fs.clone()), &path("log"), settings).unwrap();
    let root = User::root();
    let caller = space.by(&root);
    let dir = caller.mkdir(b"/d", 0o755).unwrap();
    caller.create_at(&dir, b"first", 0o644, IfExists::Fail).unwrap();
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
