//! Servers whose store is damaged, or that are told nonsense: they say so.

use super::server::parts::part_key;
use super::server::worker::Work;
use super::tests::{address, alone, any_port};
use super::*;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::open::Settings;
use crate::record::Key;
use keyrack_vfs::MemFs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const GRACE: Duration = Duration::from_millis(10);

/// The first of two servers. The other one is nowhere.
fn first_of_two(space: &Namespace) -> Served {
    let options = ServeOptions { listen: any_port(), servers: 2, ..ServeOptions::default() };
    serve(Some(space.clone()), options).unwrap()
}

fn space() -> Namespace {
    let fs = Arc::new(MemFs::new());
    Namespace::open_in(fs, Path::new("/log"), Settings::default()).unwrap()
}

fn addresses(served: &Served) -> Vec<String> {
    vec![address(served).to_string(), "127.0.0.1:1".to_owned()]
}

#[test]
fn a_server_that_cannot_read_what_it_left_undone_does_not_meet_the_others() {
    let space = space();
    let served = first_of_two(&space);
    // The record of a partition with the number of no directory.
    let mut key = part_key(DirId::ROOT).to_vec();
    key.pop();
    space.stores()[0].put(&key, b"?").unwrap();
    let error = served.set_map(addresses(&served)).unwrap_err().to_string();
    assert!(error.starts_with("/log: ") && error.contains("partition"), "{error}");
    served.shutdown(GRACE).unwrap();
}

#[test]
fn an_address_that_is_none_is_told_to_whoever_gives_it() {
    let space = space();
    let served = first_of_two(&space);
    let wrong = vec![addresses(&served)[0].clone(), "nowhere at all".to_owned()];
    let error = served.set_map(wrong).unwrap_err().to_string();
    assert!(error.contains("'nowhere at all'"), "{error}");
    served.set_map(addresses(&served)).unwrap();
    served.shutdown(GRACE).unwrap();
}

#[test]
fn a_split_that_damage_keeps_from_ending_is_told_at_the_end() {
    let space = space();
    let served = first_of_two(&space);
    served.set_map(addresses(&served)).unwrap();
    // Of so many directories some have their first partition here.
    for n in 0..20 {
        let made = space.as_root().mkdir(format!("/d{n}").as_bytes(), 0o755).unwrap();
        let dir = made.state.id;
        space.stores()[0].put(&Key::entry(dir, b"broken"), b"\xff").unwrap();
        served.core.enqueue(Work::CheckSplit(dir));
    }
    let error = served.shutdown(GRACE).unwrap_err().to_string();
    assert!(error.starts_with("/log: ") && error.contains("'broken'"), "{error}");
}

#[test]
fn a_pipe_that_is_handed_over_as_a_table_does_not_stop_the_server() {
    use std::os::unix::ffi::OsStrExt as _;
    let temporary = tempfile::tempdir().unwrap();
    let space = Namespace::open(temporary.path().join("log"), Settings::default()).unwrap();
    let (served, mut tree) = alone(space);
    let root = tree.open(b"/").unwrap();
    let (_, dir) = tree.locate(root, b"").unwrap();
    // Nobody writes to it: whoever opens it waits for ever.
    let pipe = temporary.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let paths = vec![pipe.as_os_str().as_bytes()];
    let request = Request::BulkIn { dir, entries: 1, paths };
    let refused = tree.client().call(0, &request, |_| ()).unwrap_err();
    assert_eq!(refused.errno(), "EINVAL", "{refused}");
    served.shutdown(GRACE).unwrap();
}
