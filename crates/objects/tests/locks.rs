//! The lock of a repository in an object store.

use crate::backups::at;
use crate::proxy::Cut;
use crate::server::{Server, cut_access};
use keyrack_backup::Error;
use keyrack_vfs::RelativePath;
use std::time::Duration;

#[test]
fn one_process_writes_and_the_next_one_is_told_how_long_to_wait() {
    let Some(server) = Server::start("one_process_writes") else { return };
    let (one, other) = (at(&server.access(), "one"), at(&server.access(), "one"));
    let guard = one.lock().unwrap();
    let Err(Error::Locked(line)) = other.lock() else { panic!("it is locked") };
    let process = format!("process {} on", std::process::id());
    let words = ["s3://bucket/one is in use by", &process, "if it was killed, try again in"];
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
    drop(guard);
    drop(other.lock().unwrap());
    // No probe stays, and no lock.
    assert!(one.list(&RelativePath::new("objects").unwrap()).unwrap().is_empty());
    one.prepare().unwrap();
    drop(one.lock().unwrap());
}

/// Who cannot renew the lock stops before another process takes it, and changes nothing more.
#[test]
fn a_holder_that_is_cut_off_stops_and_another_goes_on() {
    let Some(server) = Server::start("a_holder_that_is_cut_off") else { return };
    let wire = server.wire(Cut::Never);
    let mut access = cut_access(&wire);
    access.lease = Duration::from_millis(500);
    let (one, other) = (at(&access, "cut-off"), at(&server.access(), "cut-off"));
    let name = |text: &str| RelativePath::new(text).unwrap();
    let guard = one.lock().unwrap();
    one.create(&name("backups/one"), b"1").unwrap();
    drop(wire);
    let error = one.create(&name("backups/two"), b"2").unwrap_err();
    assert!(matches!(error, Error::Remote(_)), "{error:?}");
    let guard_of_other = loop {
        match other.lock() {
            Err(Error::Locked(_)) => {}
            guard => break guard.unwrap(),
        }
    };
    let Err(Error::Remote(line)) = one.remove(&name("backups/one")) else { panic!("not held") };
    let words = ["s3://bucket/cut-off/LOCK", "could not be renewed for", "check the network"];
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
    // The guard of the first one leaves the lock of the second alone.
    drop(guard);
    other.create(&name("backups/three"), b"3").unwrap();
    drop(guard_of_other);
    let listed = other.list(&name("backups")).unwrap();
    let names: Vec<_> = listed.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(names, ["one", "three"]);
}
