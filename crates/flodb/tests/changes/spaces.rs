//! The feed of a store with key spaces.

use super::keeping;
use crate::support::backwards;
use keyrack_flodb::{BatchWrite, Comparator, Options, Position, SpaceWrite, Spaces, SpacesBatch};
use keyrack_flodb::{SpacesChanges, WriteOptions};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, MemFs};
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

#[test]
fn a_change_whose_name_cannot_be_read_now_is_given_by_the_next_call() {
    let mut at = 1;
    loop {
        let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        let options = Options { compaction_threads: 0, ..keeping() };
        let dir = Path::new("/store");
        let spaces = Spaces::open_in(fs.clone(), dir, options, &[backwards()]).unwrap();
        let users = spaces.create("users", &Comparator::Bytewise).unwrap();
        let times = spaces.create("times", &Comparator::Bytewise).unwrap();
        let begin = spaces.position();
        times.put(b"late", b"y").unwrap();
        users.put(b"ada", b"36").unwrap();
        spaces.drop_space("times").unwrap();
        let mut changes = spaces.changes(begin).unwrap();
        fs.arm(FaultPlan::once(at, Fault::Io));
        let mut found = Vec::new();
        let mut failures = 0;
        // After an error the next call goes on.
        for change in changes.by_ref().take(10) {
            match change {
                Ok(change) => found.push(change.writes().count()),
                Err(_) => failures += 1,
            }
        }
        assert_eq!(found, [1, 1, 1], "operation {at}");
        assert!(failures <= 1);
        if fs.injected() == 0 {
            break;
        }
        at += 1;
    }
    assert!(at > 2, "{at}");
}

#[test]
fn a_wait_does_not_move_what_was_reached() {
    let spaces = open(&MemFs::new());
    let users = spaces.create("users", &Comparator::Bytewise).unwrap();
    let begin = spaces.position();
    let mut changes = users.changes(begin).unwrap();
    users.put(b"ada", b"36").unwrap();
    assert!(changes.wait(Duration::ZERO).unwrap());
    assert_eq!(changes.reached(), begin, "nobody has got the change");
    assert_eq!(told(&mut users.changes(changes.reached()).unwrap()), ["users.ada=36"]);
    let change = changes.next().unwrap().unwrap();
    assert_eq!(changes.reached(), change.position());
}

#[test]
fn what_a_feed_passes_over_is_reached() {
    let spaces = open(&MemFs::new());
    let users = spaces.create("users", &Comparator::Bytewise).unwrap();
    let others = spaces.create("others", &Comparator::Bytewise).unwrap();
    let mut changes = users.changes(spaces.position()).unwrap();
    others.put(b"a", b"1").unwrap();
    let position = spaces.position();
    assert!(changes.next().is_none());
    assert_eq!(changes.reached(), position);
}
