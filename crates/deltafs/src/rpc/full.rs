//! Servers whose disk is full: clients are told so by the machine's own error number, and go on
//! when there is space.

use super::tests::alone;
use super::*;
use crate::make::IfExists;
use crate::namespace::Namespace;
use crate::open::Settings;
use keyrack_vfs::{Fault, FaultFs, FaultPlan, MemFs, Operation};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn clients_of_a_server_with_a_full_disk_are_told_and_go_on_when_there_is_space() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let mut settings = Settings::default();
    settings.store.memtable_bytes = 64 << 10;
    settings.store.segment_bytes = 64 << 10;
    let space = Namespace::open_in(Arc::new(fs.clone()), Path::new("/log"), settings).unwrap();
    let (served, mut tree) = alone(space.clone());
    let nothing: [(i32, &str); 2] = [(28, "ENOSPC"), (122, "EDQUOT")];
    let grows = [Operation::Open, Operation::Write, Operation::Allocate, Operation::SetLen];
    for (number, name) in nothing {
        fs.arm(FaultPlan::from_then_on(1, Fault::Errno(number)).only(&grows));
        let mut made = 0;
        let error = loop {
            let path = format!("/{name}{made:06}");
            match tree.create(path.as_bytes(), 0o600, IfExists::Fail) {
                Ok(_) => made += 1,
                Err(error) => break error,
            }
            assert!(made < 100_000, "the disk is full");
        };
        assert_eq!(error.errno(), name, "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        // Each name of a batch has a code of its own.
        let root = tree.open(b"/").unwrap();
        let (_, dir) = tree.locate(root, b"x").unwrap();
        let request =
            Request::CreateMany { dir, mode: 0o600, how: How::Fail, names: vec![b"x", b"y"] };
        let codes = tree.client().call(0, &request, |reply| match reply {
            Reply::Codes(codes) => codes.iter().map(|code| Error::errno_of(*code)).collect(),
            _ => Vec::new(),
        });
        assert_eq!(codes.unwrap(), [name, name]);
        // What is there can be read, and nothing else is.
        assert_eq!(tree.stat(b"/x").unwrap_err().errno(), "ENOENT");
        let listed = tree.list(b"/").unwrap().into_iter();
        assert_eq!(listed.filter(|entry| entry.0.starts_with(name.as_bytes())).count(), made);
        fs.disarm();
        space.resume().unwrap();
        tree.create(format!("/{name}{made:06}").as_bytes(), 0o600, IfExists::Fail).unwrap();
    }
    assert_eq!(space.fsck().unwrap().flaws, []);
    served.shutdown(Duration::from_millis(10)).unwrap();
}
