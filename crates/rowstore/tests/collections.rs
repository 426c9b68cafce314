//! Collections: elements below a header, beside a model, over restarts, clears and evictions.

use crate::groups::{flodb, over};
use crate::support::{
    close, content, elements, get, id_of, open, put_header, set_element, stat, tiny, with_logs,
};
use keyrack_rowstore::{
    Eviction, ModelRows, Options, RowBuf, RowSession, RowStore, Rows, Snapshot, StoreRows,
};
use keyrack_store::{Durability, ModelStore, Update};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, MemFs};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Keys of headers and of other rows; some must be escaped.
fn key(draw: &mut Draw) -> Vec<u8> {
    match draw.below(4) {
        0 => vec![0xff, 0xfe],
        1 => vec![0xff, 0xfe, [0, 1, 0xff][draw.below(3)], 0, 0, 0, 0, 1, b'a'],
        _ => vec![b'h', draw.below(4) as u8],
    }
}

/// One operation on a collection, or on a row that may replace one.
fn step(session: &mut dyn RowSession, draw: &mut Draw) {
    let (key, name) = (key(draw), vec![b'n'; draw.below(30)]);
    let is_value = id_of(session, &key).is_none() && get(session, &key).is_some();
    match draw.below(20) {
        0 => drop(session.remove(&key).unwrap()),
        1 => drop(session.put(&key, b"value", 0, 0).unwrap()),
        2 => {
            let to = self::key(draw);
            if let Some(id) = id_of(session, &key).filter(|_| to != key) {
                session.flush().unwrap();
                session.begin_group().unwrap();
                put_header(session, &to, id);
                session.remove(&key).unwrap();
                session.commit_group().unwrap();
            }
        }
        3 => {
            session.flush().unwrap();
            session.begin_group().unwrap();
        }
        4 => drop(session.flush().unwrap()),
        5 => session.cancel_group(),
        6 if draw.below(20) == 0 => session.clear().unwrap(),
        _ if is_value => drop(session.remove(&key).unwrap()),
        7..=10 => set_element(session, &key, &name, None, 0),
        _ => set_element(session, &key, &name, Some(&vec![b'v'; draw.below(60)]), 0),
    }
}

/// The same steps on both, then a comparison.
fn compare(rows: &dyn Rows, model: &ModelRows, draw: &mut Draw) {
    let mut ours = rows.session().unwrap();
    let mut beside = model.session().unwrap();
    for _ in 0..400 * factor() {
        let seed = draw.next();
        step(&mut *ours, &mut Draw::new(seed));
        step(&mut *beside, &mut Draw::new(seed));
        assert_eq!(ours.count(), beside.count());
    }
    ours.flush().unwrap();
    beside.flush().unwrap();
    assert!(content(rows) == content(model));
    assert_eq!(rows.len(), model.len());
}

/// Elements that are stored, after the orphans were removed.
fn stored_elements(rows: &dyn Rows) -> (f64, usize) {
    let held = content(rows).into_values().filter(|held| held.parts.len() > 1);
    (stat(rows, "elements"), held.map(|held| held.parts.len() / 2).sum())
}

#[test]
fn collections_are_those_of_the_model() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let rows = RowStore::in_memory(tiny()).unwrap();
        compare(&rows, &ModelRows::new(), &mut draw);
        rows.sweep(0).unwrap();
        let (stored, wanted) = stored_elements(&rows);
        assert!((stored - wanted as f64).abs() < 0.5, "{stored} elements, {wanted} in use");
        let store = Box::new(ModelStore::new());
        let rows = StoreRows::with_sweep_interval(store, Duration::ZERO).unwrap();
        compare(&rows, &ModelRows::new(), &mut draw);
        rows.sweep(0).unwrap();
        let (stored, wanted) = stored_elements(&rows);
        assert!((stored - wanted as f64).abs() < 0.5, "{stored} elements, {wanted} in use");
    }
}

#[test]
fn collections_on_disk_are_those_of_the_model_over_restarts_and_other_numbers_of_logs() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (disk, model) = (MemFs::new(), ModelRows::new());
        for life in 0..6 {
            let options = Options { threads: 1 + draw.below(3), ..with_logs(1 + draw.below(3)) };
            let store = open(&disk, options);
            assert!(content(&store) == content(&model), "life {life}");
            compare(&store, &model, &mut draw);
            match draw.below(3) {
                0 => assert!(store.checkpoint().unwrap()),
                1 => drop(store.sweep(0).unwrap()),
                _ => {}
            }
            if draw.below(2) == 0 {
                close(store);
            }
        }
    }
}

/// A hash of one thousand fields at `key`.
fn fill(session: &mut dyn RowSession, key: &[u8], fields: u32) {
    let collection = session.create_collection().unwrap();
    for n in 0..fields {
        session
            .update_element(collection.id(), &n.to_be_bytes(), &mut |_, new| {
                new.set_value(b"value");
                Update::Put
            })
            .unwrap();
    }
    put_header(session, key, collection.id());
    session.flush().unwrap();
}

#[test]
fn a_removed_collection_gives_its_memory_back_in_slices_and_after_a_restart() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    session.put(b"other", b"stays", 0, 0).unwrap();
    session.flush().unwrap();
    let before = stat(&store, "memory_bytes");
    fill(&mut *session, b"large", 3000);
    assert!(session.remove(b"large").unwrap());
    session.flush().unwrap();
    drop(session);
    assert_eq!((store.len(), stat(&store, "elements") as u64), (1, 3000));
    drop(store);
    let store = open(&disk, tiny());
    assert_eq!((store.len(), stat(&store, "elements") as u64), (1, 3000), "a replay finds them");
    store.sweep(0).unwrap();
    assert_eq!((store.len(), stat(&store, "elements") as u64), (1, 0));
    assert!((stat(&store, "memory_bytes") - before).abs() < 0.5);
    // An id is not used twice, though nothing of it is in memory.
    let mut session = store.session().unwrap();
    fill(&mut *session, b"large", 10);
    let id = id_of(&mut *session, b"large").unwrap();
    assert!(id > 1, "id {id}");
    drop(session);
    let store = open(&disk.process_crash_image(), tiny());
    let mut session = store.session().unwrap();
    assert_eq!(elements(&mut *session, id).len(), 20);
}

#[test]
fn a_full_memory_evicts_a_collection_as_one() {
    let options = Options { memory_max: 1 << 20, eviction: Eviction::Clock, ..tiny() };
    let store = RowStore::in_memory(options).unwrap();
    let mut session = store.session().unwrap();
    fill(&mut *session, b"large", 5000);
    for n in 0..20_000_u32 {
        session.put(&n.to_be_bytes(), &[0; 100], 0, 0).unwrap();
        if let Some(id) = id_of(&mut *session, b"large") {
            assert_eq!(session.collection(id).unwrap().len(), 5000, "after {n} puts");
        }
    }
    assert!(stat(&store, "memory_bytes") <= f64::from(1 << 20) * 1.1);
    session.put(b"z", b"", 0, 0).unwrap();
    assert!(get(&mut *session, b"z").is_some());
}

#[test]
fn elements_expire_and_the_last_one_takes_the_header() {
    let disk = MemFs::new();
    let model = Box::new(ModelStore::new());
    let store = open(&disk, tiny());
    let other = StoreRows::with_sweep_interval(model, Duration::ZERO).unwrap();
    let sweep: [(&dyn Rows, &dyn Fn(u64) -> u64); 2] =
        [(&store, &|now| store.sweep(now).unwrap()), (&other, &|now| other.sweep(now).unwrap())];
    for (rows, sweep) in sweep {
        let mut session = rows.session().unwrap();
        session.at(1000);
        set_element(&mut *session, b"h", b"a", Some(b"1"), 2000);
        set_element(&mut *session, b"h", b"b", Some(b"2"), 3000);
        session.flush().unwrap();
        let id = id_of(&mut *session, b"h").unwrap();
        assert_eq!(stat(rows, "volatile_rows") as u64, 0, "fields are no keys");
        session.at(2000);
        assert_eq!(elements(&mut *session, id), [b"b", b"2"]);
        assert_eq!((sweep(2000), session.count()), (1, 1));
        assert_eq!(session.collection(id).unwrap().len(), 1);
        assert_eq!((sweep(3000), session.count()), (1, 0));
        assert!(id_of(&mut *session, b"h").is_none());
    }
}

/// A snapshot shows what was there at its moment, whatever happens between two slices.
#[test]
fn a_snapshot_is_of_one_moment() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let store = RowStore::in_memory(tiny()).unwrap();
        let other = StoreRows::with_sweep_interval(Box::new(ModelStore::new()), Duration::ZERO);
        let other = other.unwrap();
        for rows in [&store as &dyn Rows, &other] {
            let mut session = rows.session().unwrap();
            for n in 0..60_u8 {
                let expires_ms = [0, 0, 50, 150][draw.below(4)];
                set_element(&mut *session, b"h", &[2 * n], Some(&[n]), expires_ms);
            }
            let id = id_of(&mut *session, b"h").unwrap();
            session.at(100);
            let wanted = elements(&mut *session, id);
            let collection = session.collection(id).unwrap();
            let snapshot = collection.lock().unwrap().snapshot(100);
            let (mut found, mut next) = (Vec::new(), Vec::new());
            loop {
                let from = next.clone();
                session.at(100);
                let max = found.len() + 2 * (1 + draw.below(8));
                let mut is_end = true;
                session
                    .scan_snapshot(&snapshot, &from, true, &mut |name, row| {
                        found.extend([name.to_vec(), row.value().to_vec()]);
                        next = [name, &[0]].concat();
                        is_end = found.len() < max;
                        if is_end { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                    })
                    .unwrap();
                if is_end {
                    break;
                }
                session.at(200);
                for _ in 0..draw.below(6) {
                    let name = [draw.below(125) as u8];
                    let value = (draw.below(2) == 0).then_some(&b"new"[..]);
                    set_element(&mut *session, b"h", &name, value, 0);
                }
                if draw.below(4) == 0 {
                    session.remove(b"h").unwrap();
                }
            }
            assert_eq!(found, wanted);
        }
    }
}

#[test]
fn a_collection_that_somebody_uses_is_not_swept() {
    let store = RowStore::in_memory(tiny()).unwrap();
    let mut session = store.session().unwrap();
    fill(&mut *session, b"h", 1000);
    let id = id_of(&mut *session, b"h").unwrap();
    let collection = session.collection(id).unwrap();
    let snapshot = collection.lock().unwrap().snapshot(0);
    session.remove(b"h").unwrap();
    store.sweep(0).unwrap();
    assert_eq!(collection.len(), 1000, "its user goes first");
    drop(collection);
    store.sweep(0).unwrap();
    let mut seen = 0;
    let mut count = |_: &[u8], _: keyrack_rowstore::Row<'_>| {
        seen += 1;
        ControlFlow::Continue(())
    };
    session.scan_snapshot(&snapshot, b"", true, &mut count).unwrap();
    assert_eq!(seen, 1000, "its reader goes first");
    drop(snapshot);
    store.sweep(0).unwrap();
    assert!(session.collection(id).is_none());
    assert_eq!(stat(&store, "elements") as u64, 0);
    // One that never got a header goes like any other.
    let building = session.create_collection().unwrap();
    set_one(&mut *session, building.id());
    store.sweep(0).unwrap();
    assert_eq!(stat(&store, "elements") as u64, 1);
    drop(building);
    store.sweep(0).unwrap();
    assert_eq!(stat(&store, "elements") as u64, 0);
}

/// A key that was escaped in an earlier life was taken for a plain one by a checkpoint.
#[test]
fn escaped_keys_alone_survive_a_checkpoint_in_each_life() {
    let disk = MemFs::new();
    let keys = [&b"\xff\xfeabc"[..], b"\xff\xfe"];
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    for key in keys {
        session.put(key, b"value", 0, 0).unwrap();
    }
    session.flush().unwrap();
    drop(session);
    drop(store);
    for life in 0..4 {
        let store = open(&disk, tiny());
        let mut session = store.session().unwrap();
        for key in keys {
            let value = get(&mut *session, key);
            assert_eq!(value.as_deref(), Some(&b"value"[..]), "{key:x?} in life {life}");
        }
        assert_eq!(session.count(), 2);
        drop(session);
        assert!(store.checkpoint().unwrap());
        close(store);
    }
}

fn set_one(session: &mut dyn RowSession, id: u64) {
    session
        .update_element(id, b"one", &mut |_, new| {
            new.set_value(b"");
            Update::Put
        })
        .unwrap();
}

#[test]
fn collections_in_flodb_are_those_of_the_model_over_restarts() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (disk, model) = (MemFs::new(), ModelRows::new());
        for life in 0..4 {
            let rows = over(flodb(&disk));
            assert!(content(&rows) == content(&model), "life {life}");
            compare(&rows, &model, &mut draw);
            if draw.below(2) == 0 {
                rows.sweep(0).unwrap();
                let (stored, wanted) = stored_elements(&rows);
                assert!((stored - wanted as f64).abs() < 0.5, "{stored} elements, {wanted} in use");
            }
            Box::new(rows).close().unwrap();
        }
    }
}

/// An earlier version stored user keys as they were, whatever they began with.
#[test]
fn keys_of_an_earlier_version_that_look_like_elements_are_escaped() {
    let disk = MemFs::new();
    let store = flodb(&disk);
    let keys =
        [&b"a"[..], b"\xff\xfe", b"\xff\xfe\0\0\0\0\0\x01x", b"\xff\xfe\x01", b"\xff\xfe\xff"];
    let mut session = store.session().unwrap();
    let (mut buf, mut row) = (RowBuf::new(), Vec::new());
    buf.set_value(b"value");
    buf.encode(7, &mut row);
    keys.iter().for_each(|key| session.put(key, &row).unwrap());
    drop(session);
    store.close().unwrap();
    for life in 0..3_u8 {
        let rows = over(flodb(&disk));
        let mut session = rows.session().unwrap();
        for key in keys {
            assert_eq!(get(&mut *session, key).as_deref(), Some(&b"value"[..]), "{key:?}");
        }
        set_element(&mut *session, b"hash", &[life], Some(b"1"), 0);
        assert_eq!(session.count(), keys.len() as u64 + 1);
        drop(session);
        assert_eq!(content(&rows).len(), keys.len() + 1);
        assert_eq!(content(&rows)[&b"hash"[..]].parts.len(), 2 + 2 * usize::from(life));
        Box::new(rows).close().unwrap();
    }
}

/// They are renamed in one batch, and the memory for it is bounded.
#[test]
fn too_many_keys_of_an_earlier_version_are_refused() {
    let disk = MemFs::new();
    let store = flodb(&disk);
    let mut session = store.session().unwrap();
    let (mut buf, mut row) = (RowBuf::new(), Vec::new());
    buf.set_value(&vec![b'v'; 16 << 10]);
    buf.encode(7, &mut row);
    for last in 0..=(store.info().batch_bytes_max >> 14) as u8 {
        session.put(&[0xff, 0xfe, last], &row).unwrap();
    }
    drop(session);
    let error = StoreRows::with_sweep_interval(store, Duration::ZERO).unwrap_err();
    assert!(error.to_string().contains("in one batch"), "{error}");
}

/// The sweep removed the last element that it knew of, and the header with it, while a group was to
/// add another element.
#[test]
fn a_sweep_during_a_group_does_not_take_the_header_from_its_elements() {
    let disk = MemFs::new();
    let log = open(&disk, tiny());
    sweep_during_a_group(&log, &|now_ms| {
        log.sweep(now_ms).unwrap();
    });
    let rows = over(flodb(&MemFs::new()));
    sweep_during_a_group(&rows, &|now_ms| {
        rows.sweep(now_ms).unwrap();
    });
}

fn sweep_during_a_group(rows: &dyn Rows, sweep: &dyn Fn(u64)) {
    let mut session = rows.session().unwrap();
    set_element(&mut *session, b"hash", b"old", Some(b"1"), 10);
    session.flush().unwrap();
    session.at(20);
    session.begin_group().unwrap();
    set_element(&mut *session, b"hash", b"new", Some(b"2"), 0);
    sweep(20);
    session.commit_group().unwrap();
    session.flush().unwrap();
    sweep(20);
    sweep(20);
    let id = id_of(&mut *session, b"hash").expect("the header stays");
    assert_eq!(elements(&mut *session, id), [b"new".to_vec(), b"2".to_vec()]);
    assert!((stat(rows, "elements") - 1.0).abs() < 0.5, "the expired one is swept later");
}

/// A header was in memory alone when another session wrote an element below it, which was lost with
/// the header though it had been logged.
#[test]
fn an_element_that_was_logged_is_not_lost_with_the_header_of_another_session() {
    let disk = MemFs::new();
    let store = open(&disk, Options { durability: Durability::Sync, ..with_logs(2) });
    let mut first = store.session().unwrap();
    let mut second = store.session().unwrap();
    set_element(&mut *first, b"a", b"one", Some(b"1"), 0);
    first.flush_headers().unwrap();
    let id = id_of(&mut *first, b"a").unwrap();
    first.begin_group().unwrap();
    put_header(&mut *first, b"b", id);
    first.remove(b"a").unwrap();
    first.commit_group().unwrap();
    first.flush_headers().unwrap();
    assert!(!first.collection(id).unwrap().is_unlogged());
    set_element(&mut *second, b"b", b"two", Some(b"2"), 0);
    let position = second.flush().unwrap();
    store.sync(position).unwrap();
    let parts = [&b"one"[..], b"1", b"two", b"2"];
    for image in [disk.process_crash_image(), disk.crash_image(1, CrashPolicy::DropAll)] {
        let store = open(&image, tiny());
        assert_eq!(content(&store)[&b"b"[..]].parts, parts);
        assert_eq!(store.len(), 1);
    }
}

/// A collection that was being built kept its counts over a clear, and its builder learned nothing
/// of the clear.
#[test]
fn a_clear_reaches_collections_without_a_header_and_their_snapshots() {
    let log = open(&MemFs::new(), tiny());
    let engine = over(flodb(&MemFs::new()));
    for rows in [&log as &dyn Rows, &engine] {
        let mut session = rows.session().unwrap();
        fill(&mut *session, b"source", 3);
        let id = id_of(&mut *session, b"source").unwrap();
        let source = session.collection(id).unwrap();
        let snapshot = source.lock().unwrap().snapshot(0);
        session.remove(b"source").unwrap();
        let target = session.create_collection().unwrap();
        set_one(&mut *session, target.id());
        session.clear().unwrap();
        let scanned =
            session.scan_snapshot(&snapshot, b"", true, &mut |_, _| ControlFlow::Continue(()));
        assert!(scanned.is_err());
        assert!(target.is_cleared() && target.is_empty());
        assert!(!session.create_collection().unwrap().is_cleared());
    }
}

/// Each snapshot had its own limit, and there was none for all of them.
#[test]
fn the_snapshots_of_a_store_share_a_limit() {
    let store = open(&MemFs::new(), tiny());
    let mut session = store.session().unwrap();
    let fill = |session: &mut dyn RowSession| {
        for name in 0..330_u32 {
            set_element(session, b"hash", &name.to_be_bytes(), Some(&vec![b'v'; 30 << 10]), 0);
        }
    };
    fill(&mut *session);
    let id = id_of(&mut *session, b"hash").unwrap();
    let collection = session.collection(id).unwrap();
    let take = || collection.lock().unwrap().snapshot(0);
    let kept = |snapshots: &[Arc<Snapshot>]| {
        snapshots.iter().filter(|snapshot| snapshot.memory_bytes() > 0).count()
    };
    for round in 0..2 {
        let snapshots: Vec<_> = (0..7).map(|_| take()).collect();
        fill(&mut *session);
        assert_eq!(kept(&snapshots), 6, "round {round}: one is given up");
    }
}
