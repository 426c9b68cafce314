//! Tests of clears: what the pass over dead rows leaves, and when.

use super::*;
use crate::session::Session;
use crate::{Options, RowSession};

#[test]
fn clears_that_come_often_do_not_keep_the_last_keys_in_memory() {
    let core = Core::new(Options::default(), None);
    let mut session = Session::new(&core);
    let mut most = 0;
    for round in 0..60_u32 {
        for low in 0..600_u32 {
            session.put(&[&[0][..], &low.to_be_bytes()].concat(), b"", 0, 0).unwrap();
        }
        for high in 0..10_u32 {
            let key = [&[1][..], &(round * 10 + high).to_be_bytes()].concat();
            session.put(&key, b"", 0, 0).unwrap();
        }
        session.clear().unwrap();
        assert!(core.sweep_dead(), "a clear sets the pass back by a round at most");
        most = most.max(core.dead_rows());
    }
    assert!(most < 700, "{most}");
    while core.sweep_dead() {}
    assert_eq!((core.tree.len(), core.count(), core.memory.used()), (0, 0, 0));
}

#[test]
fn the_end_of_a_pass_corrects_the_sums_that_a_writer_beside_the_clear_left() {
    let core = Core::new(Options::default(), None);
    let mut session = Session::new(&core);
    session.put(b"a", b"value", 0, 7).unwrap();
    session.clear().unwrap();
    session.put(b"b", b"value", 0, 7).unwrap();
    // As if a writer had replaced a row that the clear had counted, without seeing the clear.
    core.cleared.add(1, 70, 1);
    session.flush().unwrap();
    assert_eq!(core.count(), 0);
    while core.sweep_dead() {}
    assert_eq!((core.count(), core.live_volatile()), (1, 1));
    assert_eq!(core.live_bytes(), core.memory.used());
}

#[test]
fn a_row_that_the_pass_has_missed_is_removed_by_its_writer() {
    let core = Core::new(Options::default(), None);
    let mut session = Session::new(&core);
    let version = session.put(b"key", b"value", 0, 7).unwrap();
    session.flush().unwrap();
    let row = core.tree.get(b"key", &pin()).map(|row| row.to_vec()).unwrap();
    session.clear().unwrap();
    while core.sweep_dead() {}
    // As a writer does that had its version before the clear.
    core.tree.insert(b"key", &row[..], &pin());
    core.memory.add(cost(3, row.len()));
    core.memory.add_volatile(1);
    assert_eq!(core.tree.len(), 1);
    core.remove_if_cleared(b"key", version);
    assert_eq!((core.tree.len(), core.count()), (0, 0));
    assert_eq!((core.memory.used(), core.memory.volatile()), (0, 0));
    session.put(b"key", b"value", 0, 7).unwrap();
    session.flush().unwrap();
    assert_eq!((core.count(), core.live_volatile()), (1, 1));
    assert_eq!(core.live_bytes(), core.memory.used());
}
