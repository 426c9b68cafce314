//! The feed of a store with key spaces.

use super::keeping;
use crate::support::backwards;
use keyrack_flodb::{BatchWrite, Comparator, Position, SpaceWrite, Spaces, SpacesBatch};
use keyrack_flodb::{SpacesChanges, WriteOptions};
use keyrack_vfs::MemFs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn open(disk: &MemFs) -> Spaces {
    let fs = Arc::new(disk.clone());
    Spaces::open_in(fs, Path::new("/store"), keeping(), &[backwards()]).unwrap()
}

/// Each change as text.
fn told(changes: &mut SpacesChanges) -> Vec<String> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let write = |write: SpaceWrite<'_>| match write {
        SpaceWrite::Created { space, order } => format!("+{space} {order}"),
        SpaceWrite::Dropped { space } => format!("-{space}"),
        SpaceWrite::Write { space, write } => match write {
            BatchWrite::Put { key, value } => format!("{space}.{}={}", text(key), text(value)),
            BatchWrite::Delete { key } => format!("{space}.{}-", text(key)),
            BatchWrite::DeleteRange { from, to } => {
                format!("{space}.{}..{}-", text(from), text(to))
            }
            write => panic!("{write:?}"),
        },
        write => panic!("{write:?}"),
    };
    changes
        .map(|change| change.unwrap().writes().map(write).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn each_write_has_the_name_of_its_space_also_after_that_is_dropped() {
    let disk = MemFs::new();
    let spaces = open(&disk);
    let users = spaces.create("users", &Comparator::Bytewise).unwrap();
    let begin = spaces.position();
    let times = spaces.create("times", &backwards()).unwrap();
    let mut batch = SpacesBatch::new();
    batch.put(&users, b"ada", b"36");
    batch.put(&times, b"", b"x");
    batch.delete_range(&users, b"b", b"c");
    batch.delete_range(&times, b"c", b"");
    spaces.write(&batch, WriteOptions::default()).unwrap();
    let transaction = spaces.transaction();
    transaction.put(&users, b"bob", b"41").unwrap();
    transaction.delete(&times, b"").unwrap();
    transaction.commit().unwrap();
    let middle = spaces.position();
    times.put(b"late", b"y").unwrap();
    spaces.drop_space("times").unwrap();
    users.delete(b"ada").unwrap();
    let expected = [
        "+users keyrack.bytewise",
        "+times test.backwards",
        "users.ada=36 times.=x users.b..c- times.c..-",
        "users.bob=41 times.-",
        "times.late=y",
        "-times",
        "users.ada-",
    ];
    assert_eq!(told(&mut spaces.changes(Position::START).unwrap()), expected);
    // The name of the one that is dropped by now is found.
    assert_eq!(told(&mut spaces.changes(begin).unwrap()), expected[1..]);
    assert_eq!(told(&mut spaces.changes(middle).unwrap()), expected[4..]);
    let of_users =
        ["+users keyrack.bytewise", "users.ada=36 users.b..c-", "users.bob=41", "users.ada-"];
    assert_eq!(told(&mut users.changes(Position::START).unwrap()), of_users);
    assert!(times.changes(Position::START).is_err(), "it was dropped");
    drop((users, times));
    spaces.close().unwrap();
    let spaces = open(&disk);
    assert_eq!(told(&mut spaces.changes(middle).unwrap()), expected[4..]);
    // A space of the same name is another one.
    let times = spaces.create("times", &Comparator::Bytewise).unwrap();
    times.put(b"new", b"z").unwrap();
    let again = ["+times keyrack.bytewise", "times.new=z"];
    assert_eq!(told(&mut times.changes(Position::START).unwrap()), again);
    let all = told(&mut spaces.changes(Position::START).unwrap());
    assert_eq!(all, [&expected[..], &again].concat());
}

#[test]
fn a_wait_gives_what_is_shown() {
    let spaces = open(&MemFs::new());
    let users = spaces.create("users", &Comparator::Bytewise).unwrap();
    let others = spaces.create("others", &Comparator::Bytewise).unwrap();
    let mut changes = users.changes(spaces.position()).unwrap();
    others.put(b"a", b"1").unwrap();
    assert!(!changes.wait(Duration::ZERO).unwrap());
    users.put(b"b", b"2").unwrap();
    assert!(changes.wait(Duration::ZERO).unwrap());
    assert!(changes.wait(Duration::ZERO).unwrap());
    assert_eq!(told(&mut changes), ["users.b=2"]);
    // A time mark may be behind it.
    assert!(changes.reached() <= spaces.position());
}
