//! Versions against a model of levels, and tables to make versions of.

use super::*;
use crate::key::SEQUENCE_MAX;
use crate::key::tests::backwards;
pub(crate) use crate::key::tests::put_key as internal;
use keyrack_testkit::random::{Announced, Draw, seeds_or};
use std::collections::BTreeMap;

/// A table of 100 bytes. Its sequence numbers follow from its number.
pub(crate) fn file(number: u64, first: &str, last: &str) -> Arc<FileMeta> {
    sized(number, first, last, 100)
}

pub(crate) fn sized(number: u64, first: &str, last: &str, bytes: u64) -> Arc<FileMeta> {
    Arc::new(plain(number, first, last, bytes))
}

pub(crate) fn plain(number: u64, first: &str, last: &str, bytes: u64) -> FileMeta {
    let (sequence_min, sequence_max) = (number * 10, number * 10 + 9);
    FileMeta {
        number,
        bytes,
        smallest: internal(first.as_bytes(), sequence_max),
        largest: internal(last.as_bytes(), sequence_min),
        entries: 10,
        deletes: 0,
        sequence_min,
        sequence_max,
        ..FileMeta::default()
    }
}

/// A table of tombstones for the most part.
pub(crate) fn dense(number: u64, first: &str, last: &str) -> Arc<FileMeta> {
    Arc::new(FileMeta { deletes: 8, ..plain(number, first, last, 100) })
}

/// A table that ends before a key.
fn open_ended(number: u64, first: &str, end: &str) -> Arc<FileMeta> {
    let largest = internal(end.as_bytes(), SEQUENCE_MAX);
    Arc::new(FileMeta { largest, ..plain(number, first, end, 100) })
}

pub(crate) fn adding(added: &[(usize, Arc<FileMeta>)]) -> VersionEdit {
    VersionEdit { added: added.to_vec(), ..VersionEdit::default() }
}

/// The version with these tables.
pub(crate) fn version(added: &[(usize, Arc<FileMeta>)]) -> Version {
    Version::new(Comparator::Bytewise).apply(&adding(added)).unwrap()
}

fn numbers<'a>(files: impl IntoIterator<Item = &'a Arc<FileMeta>>) -> Vec<u64> {
    files.into_iter().map(|file| file.number).collect()
}

fn deleting(level: usize, number: u64) -> VersionEdit {
    VersionEdit { deleted: vec![(level, number)], ..VersionEdit::default() }
}

#[track_caller]
fn refused(version: &Version, edit: &VersionEdit) -> String {
    version.apply(edit).unwrap_err().to_string()
}

#[test]
fn level_0_is_sorted_by_age_and_others_by_key() {
    let version = version(&[
        (0, file(3, "a", "m")),
        (0, file(9, "b", "z")),
        (0, file(5, "c", "c")),
        (2, file(4, "n", "z")),
        (2, file(8, "a", "m")),
    ]);
    assert_eq!(numbers(version.files(0)), [9, 5, 3]);
    assert_eq!(numbers(version.files(2)), [8, 4]);
    assert_eq!((version.level_bytes(0), version.level_bytes(1), version.bytes()), (300, 0, 500));
    assert_eq!(version.numbers().collect::<Vec<_>>(), [9, 5, 3, 8, 4]);
}

#[test]
fn an_edit_leaves_the_version_before_as_it_was() {
    let before = version(&[(1, file(1, "a", "c")), (2, file(2, "d", "f"))]);
    let moved = VersionEdit {
        deleted: vec![(1, 1)],
        added: vec![(2, Arc::clone(&before.files(1)[0]))],
        pointers: vec![(1, b"c".to_vec())],
        ..VersionEdit::default()
    };
    let after = before.apply(&moved).unwrap();
    assert_eq!((numbers(before.files(1)), numbers(before.files(2))), (vec![1], vec![2]));
    assert_eq!((numbers(after.files(1)), numbers(after.files(2))), (vec![], vec![1, 2]));
    assert_eq!((before.pointer(1), after.pointer(1)), (&b""[..], &b"c"[..]));
    assert!(Arc::ptr_eq(&before.files(1)[0], &after.files(2)[0]), "a table that moves is shared");
}

#[test]
fn edits_that_do_not_fit_are_refused() {
    let version = version(&[(0, file(1, "a", "m")), (1, file(2, "d", "f"))]);
    let table = |file: FileMeta| adding(&[(3, Arc::new(file))]);
    for (edit, message) in [
        (deleting(0, 2), "table 2 is removed from level 0, where it is not"),
        (deleting(7, 2), "there is no level 7"),
        (adding(&[(7, file(3, "a", "b"))]), "there is no level 7"),
        (adding(&[(2, file(1, "a", "b"))]), "table 1 is added, and there already"),
        (adding(&[(2, file(5, "a", "b")), (0, file(5, "x", "y"))]), "table 5 is added twice"),
        (adding(&[(1, file(3, "f", "g"))]), "tables 2 and 3 of level 1 share keys"),
        (adding(&[(1, file(3, "a", "z"))]), "tables 3 and 2 of level 1 share keys"),
        (adding(&[(1, file(3, "e", "e"))]), "tables 2 and 3 of level 1 share keys"),
        (table(plain(3, "b", "a", 1)), "table 3: its first key is after its last"),
        (
            table(FileMeta { smallest: b"short".to_vec(), ..plain(3, "a", "b", 1) }),
            "table 3: a bound is no internal key",
        ),
        (
            table(FileMeta { deletes: 11, ..plain(3, "a", "b", 1) }),
            "table 3: its counts of entries contradict each other",
        ),
        (
            table(FileMeta { sequence_max: 2, ..plain(3, "a", "b", 1) }),
            "table 3: its sequence numbers contradict each other",
        ),
        (
            VersionEdit { pointers: vec![(9, Vec::new())], ..VersionEdit::default() },
            "there is no level 9",
        ),
    ] {
        assert_eq!(refused(&version, &edit), message);
    }
}

#[test]
fn an_open_bound_lets_the_next_table_begin() {
    let version = version(&[(1, open_ended(1, "a", "m")), (1, file(2, "m", "z"))]);
    assert_eq!(numbers(version.files_for_key(1, b"l")), [1]);
    assert_eq!(numbers(version.files_for_key(1, b"m")), [2]);
    assert_eq!(numbers(version.overlapping(1, Some(b"m"), Some(b"n"))), [2]);
    assert_eq!(numbers(version.overlapping(1, Some(b"l"), Some(b"m"))), [1, 2]);
    let edit = adding(&[(1, file(3, "l", "l"))]);
    assert_eq!(refused(&version, &edit), "tables 1 and 3 of level 1 share keys");
    let level0 = version.apply(&adding(&[(0, open_ended(4, "a", "m"))])).unwrap();
    assert_eq!(numbers(level0.files_for_key(0, b"l")), [4]);
    assert!(numbers(level0.files_for_key(0, b"m")).is_empty());
}

#[test]
fn holds_below_asks_the_levels_below_alone() {
    let version = version(&[(2, file(1, "a", "c")), (4, file(2, "b", "d"))]);
    assert!(version.holds_below(1, b"a") && !version.holds_below(2, b"a"));
    assert!(version.holds_below(3, b"b") && !version.holds_below(4, b"b"));
    assert!(!version.holds_below(0, b"e") && !version.holds_below(LAST_LEVEL, b"b"));
    assert!(version.overlaps_below(2, Some(b"d"), None) && !version.overlaps_below(4, None, None));
}

/// A model of a level: numbers, and first and last keys.
type Model = [BTreeMap<u64, (Vec<u8>, Vec<u8>)>; LEVELS];

/// A key that shares much with others.
fn key(draw: &mut Draw) -> Vec<u8> {
    let mut key = [&b""[..], b"user", b"user0000000", b"user0000000\0\0"][draw.below(4)].to_vec();
    for _ in 0..draw.below(3) {
        key.push(b"\0\x01a\xff"[draw.below(4)]);
    }
    key
}

/// Compares all that can be asked with the model.
fn compare(version: &Version, model: &Model, draw: &mut Draw) {
    let order = version.order();
    let spans = |low: &[u8], high: &[u8], bounds: &(Vec<u8>, Vec<u8>)| {
        order.user(&bounds.0, high).is_le() && order.user(low, &bounds.1).is_le()
    };
    for (level, tables) in model.iter().enumerate() {
        let mut here = numbers(version.files(level));
        here.sort_unstable();
        assert_eq!(here, tables.keys().copied().collect::<Vec<_>>());
        for _ in 0..8 {
            let (low, high) = (key(draw), key(draw));
            let wanted = |low: &[u8], high: &[u8]| {
                let found = tables.iter().filter(|(_, bounds)| spans(low, high, bounds));
                found.map(|(number, _)| *number).collect::<Vec<_>>()
            };
            let sorted = |mut found: Vec<u64>| {
                found.sort_unstable();
                found
            };
            let found = numbers(version.files_for_key(level, &low));
            assert!(level == 0 || found.len() <= 1);
            assert_eq!(sorted(found), wanted(&low, &low), "{low:?} in {version:?}");
            if order.user(&low, &high).is_le() {
                let found = numbers(version.overlapping(level, Some(&low), Some(&high)));
                assert_eq!(sorted(found), wanted(&low, &high), "{low:?}..{high:?} in {version:?}");
            }
            let all = numbers(version.overlapping(level, None, None));
            assert_eq!(all, numbers(version.files(level)));
        }
    }
}

fn random_edits(seed: u64, order: Comparator) {
    let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
    let mut version = Version::new(order.clone());
    let mut model = Model::default();
    for number in 1..120 {
        let mut edit = VersionEdit::default();
        let level = draw.below(4);
        let removed = model[level].keys().nth(draw.below(6)).copied();
        let (low, high) = (key(&mut draw), key(&mut draw));
        let (low, high) = if order.user(&low, &high).is_le() { (low, high) } else { (high, low) };
        let to = if draw.below(2) == 0 { level } else { draw.below(4) };
        if let Some(number) = removed {
            edit.deleted.push((level, number));
        }
        let added = FileMeta {
            smallest: internal(&low, number * 10 + 9),
            largest: internal(&high, number * 10),
            ..plain(number, "", "", draw.below(100))
        };
        edit.added.push((to, Arc::new(added)));
        let is_free = to == 0
            || model[to].iter().filter(|(number, _)| (level, Some(**number)) != (to, removed)).all(
                |(_, bounds)| {
                    order.user(&bounds.1, &low).is_lt() || order.user(&high, &bounds.0).is_lt()
                },
            );
        match version.apply(&edit) {
            Ok(next) => {
                assert!(is_free, "{edit:?} fits {version:?}");
                version = next;
                removed.map(|number| model[level].remove(&number));
                model[to].insert(number, (low, high));
            }
            Err(invalid) => assert!(!is_free, "{invalid}: {edit:?} in {version:?}"),
        }
        compare(&version, &model, &mut draw);
    }
    assert!(model.iter().take(4).all(|tables| !tables.is_empty()), "the test came to all levels");
}

#[test]
fn random_edits_agree_with_a_model() {
    for seed in seeds_or(1..=20) {
        random_edits(seed, Comparator::Bytewise);
        random_edits(seed, backwards());
    }
}
