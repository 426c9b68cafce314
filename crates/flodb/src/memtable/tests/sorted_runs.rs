//! Runs: sorting, merging, sharing, and the cursors over them.

use super::*;
use crate::key::SEQUENCE_MAX;

/// Key shapes that sort by prefixes in different ways.
fn shapes() -> Vec<(&'static str, fn(u64) -> Vec<u8>)> {
    vec![
        ("short", |n| (n % 300).to_be_bytes()[6..].to_vec()),
        ("decimal", |n| format!("{n:016}").into_bytes()),
        ("of any length", |n| n.to_string().into_bytes()),
        ("zeros", |n| vec![0; n as usize % 40]),
        ("a's, nested", |n| vec![b'a'; n as usize % 700]),
        ("shared kilobyte", |n| [&[b'x'; 1024][..], &n.to_be_bytes()].concat()),
        ("tenants", |n| format!("tenant-{}/{:08}/{}", n % 3, n / 7, n % 2).into_bytes()),
        ("random", |n| mix(n).to_le_bytes().repeat(2)),
        ("two alike", |n| [&(n / 2).to_be_bytes()[..], &vec![0; n as usize % 2]].concat()),
    ]
}

#[test]
fn cursors_sort_keys_of_all_shapes_and_find_each() {
    for comparator in [Comparator::Bytewise, backwards()] {
        for (name, shape) in shapes() {
            let memtable =
                Arc::new(Memtable::new(4 << 20, comparator.clone(), MemtableOptions::default()));
            let mut model = Model::new(comparator.clone());
            for sequence in 0..1500 {
                let key = shape(mix(sequence) % 1000);
                put(&memtable, sequence, &key, &sequence.to_le_bytes());
                model.insert(sequence, Kind::Put, &key, &sequence.to_le_bytes());
                if [600, 601, 1000, 1300, 1400].contains(&sequence) {
                    memtable.sort_tail();
                }
            }
            let mut cursor = memtable.cursor(1500);
            assert!(cursor.runs.len() > 1, "{name}: there is something to merge");
            assert!(scan(&mut cursor) == model.entries, "{name}");
            for (at, found) in model.entries.iter().enumerate() {
                cursor.seek(&found.0).unwrap();
                assert!(entry(&cursor).as_ref() == Some(found), "{name}");
                // Right behind it, and a key behind all of its versions.
                let Parsed { user, sequence, .. } = key::parse(&found.0).unwrap();
                for target in [
                    internal(user, sequence, Kind::Delete),
                    internal(&[user, &[0]].concat(), SEQUENCE_MAX, Kind::LAST),
                    internal(&user[..user.len() / 2], sequence, Kind::Put),
                ] {
                    cursor.seek(&target).unwrap();
                    let expected = model.entries.get(model.lower_bound(&target));
                    assert!(entry(&cursor).as_ref() == expected, "{name} at {at}");
                }
            }
            check_directions(&mut cursor, &model, name);
        }
    }
}

/// At each position: forward, back, and once more; back, forward, and once more.
fn check_directions(cursor: &mut MemtableCursor, model: &Model, name: &str) {
    let expect = |cursor: &MemtableCursor, at: Option<usize>| {
        let expected = at.and_then(|at| model.entries.get(at));
        assert!(entry(cursor).as_ref() == expected, "{name} at {at:?}");
    };
    for at in (0..model.entries.len()).step_by(7).chain([model.entries.len() - 1]) {
        let target = &model.entries[at].0;
        for turns in [[1, -1, -1], [-1, 1, 1], [1, 1, -1], [-1, -1, 1]] {
            cursor.seek(target).unwrap();
            let mut at = Some(at);
            for turn in turns {
                if at.is_none_or(|at| at >= model.entries.len()) {
                    break;
                }
                if turn > 0 {
                    cursor.next().unwrap();
                    at = at.map(|at| at + 1);
                } else {
                    cursor.prev().unwrap();
                    at = at.and_then(|at| at.checked_sub(1));
                }
                expect(cursor, at);
            }
        }
    }
    cursor.seek_last().unwrap();
    for at in (0..model.entries.len()).rev() {
        expect(cursor, Some(at));
        cursor.prev().unwrap();
    }
    expect(cursor, None);
    cursor.seek_last().unwrap();
    cursor.next().unwrap();
    expect(cursor, None);
}

#[test]
fn an_empty_generation_has_cursors() {
    let memtable = memtable(1 << 12);
    let mut cursor = memtable.cursor(SEQUENCE_MAX);
    assert_eq!(entry(&cursor), None);
    cursor.seek_first().unwrap();
    assert_eq!(entry(&cursor), None);
    cursor.seek_last().unwrap();
    assert_eq!(entry(&cursor), None);
    cursor.seek(&internal(b"x", 1, Kind::Put)).unwrap();
    assert_eq!(entry(&cursor), None);
    cursor.seek(b"short").unwrap();
    assert_eq!(entry(&cursor), None);
    assert_eq!(memtable.bytes(), 0);
}

#[test]
fn a_seek_from_nowhere_or_to_less_than_a_trailer() {
    let memtable = memtable(1 << 12);
    put(&memtable, 1, b"", b"first");
    put(&memtable, 2, b"k", b"second");
    let mut cursor = memtable.cursor(2);
    assert_eq!(entry(&cursor), None, "a new cursor is nowhere");
    cursor.seek(b"").unwrap();
    assert_eq!(entry(&cursor).unwrap().1, b"second", "behind all versions of the empty key");
}

#[test]
fn cursors_stay_what_they_are_while_writes_go_on() {
    let memtable = memtable(1 << 20);
    let mut model = Model::new(Comparator::Bytewise);
    let mut cursors = Vec::new();
    for sequence in 0..2000 {
        let key = format!("key{:05}", mix(sequence) % 500);
        let kind = if sequence % 5 == 0 { Kind::Delete } else { Kind::Put };
        insert(&memtable, sequence, kind, key.as_bytes(), &sequence.to_le_bytes()).unwrap();
        model.insert(sequence, kind, key.as_bytes(), &sequence.to_le_bytes());
        if sequence % 100 == 99 {
            cursors.push((memtable.cursor(sequence), model.clone()));
        }
    }
    memtable.make_immutable();
    for (cursor, model) in &mut cursors {
        assert!(scan(cursor) == model.entries);
    }
    // A cursor keeps the memtable alive.
    drop(memtable);
    let (cursor, model) = &mut cursors[10];
    assert!(scan(cursor) == model.entries);
}

#[test]
fn a_cursor_that_needs_no_newer_tail_shares_the_runs() {
    let memtable = memtable(1 << 16);
    (0..10).for_each(|sequence| put(&memtable, sequence, b"a", b"x"));
    let first = memtable.cursor(9);
    let again = memtable.cursor(9);
    assert!(Arc::ptr_eq(&first.runs, &again.runs));
    put(&memtable, 10, b"b", b"y");
    assert!(Arc::ptr_eq(&first.runs, &memtable.cursor(9).runs), "10 is not asked for");
    assert!(Arc::ptr_eq(&first.runs, &memtable.cursor(3).runs));
    let mut newer = memtable.cursor(10);
    assert_eq!(scan(&mut newer).len(), 11);
    assert!(Arc::ptr_eq(&newer.runs, &memtable.cursor(SEQUENCE_MAX).runs), "nothing is new");
    // Asking for everything promises nothing about what comes later with a small sequence.
    put(&memtable, 5, b"late", b"z");
    assert_eq!(scan(&mut memtable.cursor(SEQUENCE_MAX)).len(), 12);
}

#[test]
fn an_entry_that_arrives_behind_a_larger_sequence_is_not_missed() {
    let memtable = memtable(1 << 16);
    put(&memtable, 100, b"a", b"x");
    // Not all up to 100 are published: this one sees what is there.
    assert_eq!(scan(&mut memtable.cursor(SEQUENCE_MAX)).len(), 1);
    put(&memtable, 99, b"b", b"y");
    assert_eq!(scan(&mut memtable.cursor(100)).len(), 2);
}

#[test]
fn there_are_few_runs_however_many_cursors() {
    let memtable = memtable(1 << 20);
    for sequence in 0..5000_u64 {
        put(&memtable, sequence, &mix(sequence).to_le_bytes(), b"");
        let runs = memtable.cursor(sequence).runs.clone();
        let lens: Vec<usize> = runs.iter().map(|run| run.len()).collect();
        assert_eq!(lens.iter().sum::<usize>() as u64, sequence + 1);
        assert!(lens.windows(2).all(|pair| pair[1] < pair[0].div_ceil(2).max(1)), "{lens:?}");
        assert!(lens.len() <= 13, "{lens:?}");
    }
}

#[test]
fn a_long_tail_wants_to_be_sealed() {
    let options = MemtableOptions { tail_entries_max: 10, ..MemtableOptions::default() };
    let memtable = Memtable::new(1 << 16, Comparator::Bytewise, options);
    for sequence in 0..10 {
        put(&memtable, sequence, b"k", b"");
        assert!(!memtable.needs_sort());
    }
    put(&memtable, 10, b"k", b"");
    assert!(memtable.needs_sort());
    memtable.sort_tail();
    assert!(!memtable.needs_sort());
    put(&memtable, 11, b"k", b"");
    assert!(!memtable.needs_sort(), "the tail has begun anew");
}
