//! Single threads: what is stored is found, at each sequence, in each shape, up to the last byte.

use super::*;
use crate::key::SEQUENCE_MAX;
use crate::range_tombstones::RangeTombstone;

#[test]
fn a_get_finds_the_newest_version_up_to_its_sequence() {
    let memtable = memtable(1 << 16);
    assert!(memtable.is_empty());
    assert_eq!(get(&memtable, b"k", SEQUENCE_MAX), None);
    put(&memtable, 10, b"k", b"ten");
    delete(&memtable, 20, b"k");
    put(&memtable, 30, b"k", b"");
    put(&memtable, 15, b"other", b"x");
    assert_eq!(get(&memtable, b"k", 9), None);
    for sequence in 10..20 {
        assert_eq!(get(&memtable, b"k", sequence), Some((Kind::Put, 10, b"ten".to_vec())));
    }
    for sequence in 20..30 {
        assert_eq!(get(&memtable, b"k", sequence), Some((Kind::Delete, 20, Vec::new())));
    }
    for sequence in [30, 31, SEQUENCE_MAX] {
        assert_eq!(get(&memtable, b"k", sequence), Some((Kind::Put, 30, Vec::new())));
    }
    assert_eq!(get(&memtable, b"missing", SEQUENCE_MAX), None);
    assert_eq!((memtable.entries(), memtable.is_empty()), (4, false));
}

#[test]
fn a_memtable_begins_after_what_was_published_before_its_writes() {
    let memtable = memtable(1 << 16);
    assert!(memtable.begins_after(u64::MAX - 1), "nobody has written yet");
    memtable.set_first_sequence(10);
    assert!(memtable.begins_after(9));
    assert!(!memtable.begins_after(10));
    assert!(!memtable.begins_after(SEQUENCE_MAX));
}

/// FloDB: put, drain, delete, drain, flush, get: the key was back, with the tombstone as value.
#[test]
fn a_delete_is_not_undone_by_draining() {
    let memtable = memtable(1 << 16);
    put(&memtable, 1, b"k", b"value");
    memtable.sort_tail();
    delete(&memtable, 2, b"k");
    memtable.sort_tail();
    assert_eq!(get(&memtable, b"k", 2), Some((Kind::Delete, 2, Vec::new())));
    memtable.make_immutable();
    memtable.wait_for_inserts();
    let flushed = scan(&mut memtable.cursor(SEQUENCE_MAX));
    assert_eq!(
        flushed,
        [
            (internal(b"k", 2, Kind::Delete), Vec::new()),
            (internal(b"k", 1, Kind::Put), b"value".to_vec()),
        ]
    );
    assert_eq!(get(&memtable, b"k", 2), Some((Kind::Delete, 2, Vec::new())));
    assert_eq!(get(&memtable, b"k", 1), Some((Kind::Put, 1, b"value".to_vec())));
}

/// FloDB: delete, drain, put, drain, flush, get: the put was lost.
#[test]
fn a_put_after_a_delete_is_not_lost_by_draining() {
    let memtable = memtable(1 << 16);
    delete(&memtable, 1, b"k");
    memtable.sort_tail();
    put(&memtable, 2, b"k", b"value");
    memtable.sort_tail();
    assert_eq!(get(&memtable, b"k", 2), Some((Kind::Put, 2, b"value".to_vec())));
    memtable.make_immutable();
    memtable.wait_for_inserts();
    let flushed = scan(&mut memtable.cursor(SEQUENCE_MAX));
    assert_eq!(
        flushed,
        [
            (internal(b"k", 2, Kind::Put), b"value".to_vec()),
            (internal(b"k", 1, Kind::Delete), Vec::new()),
        ]
    );
    assert_eq!(get(&memtable, b"k", 2), Some((Kind::Put, 2, b"value".to_vec())));
}

/// FloDB: two drainers, and the older of two values, inserted last, won.
#[test]
fn versions_may_arrive_in_any_order() {
    // All 720 orders of six versions, and a sealing behind each number of them.
    let mut orders = vec![Vec::new()];
    for version in 0..6_u64 {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<u64>| {
                (0..=order.len()).map(move |at| {
                    let mut order = order.clone();
                    order.insert(at, version);
                    order
                })
            })
            .collect();
    }
    assert_eq!(orders.len(), 720);
    for (number, order) in orders.iter().enumerate() {
        let memtable = memtable(1 << 12);
        for (arrived, version) in order.iter().enumerate() {
            let kind = if version % 3 == 0 { Kind::Delete } else { Kind::Put };
            insert(&memtable, version * 10, kind, b"k", &version.to_le_bytes()).unwrap();
            if arrived == number % 6 {
                memtable.sort_tail();
            }
            let so_far = &order[..=arrived];
            for sequence in 0..60 {
                let expected = so_far.iter().filter(|v| *v * 10 <= sequence).max();
                let found = get(&memtable, b"k", sequence);
                assert_eq!(found.map(|found| found.1 / 10).as_ref(), expected, "{so_far:?}");
            }
        }
        let entries = scan(&mut memtable.cursor(SEQUENCE_MAX));
        let sequences: Vec<u64> =
            entries.iter().map(|(key, _)| key::parse(key).unwrap().sequence).collect();
        assert_eq!(sequences, [50, 40, 30, 20, 10, 0], "{order:?}");
    }
}

#[test]
fn a_hot_key_has_many_versions() {
    const VERSIONS: u64 = 30_000;
    let memtable = memtable(8 << 20);
    for sequence in 0..VERSIONS {
        put(&memtable, sequence * 2, b"hot", &sequence.to_le_bytes());
    }
    for sequence in (0..VERSIONS).step_by(97).chain([VERSIONS - 66, VERSIONS - 65, VERSIONS - 1]) {
        let found = Some((Kind::Put, sequence * 2, sequence.to_le_bytes().to_vec()));
        assert_eq!(get(&memtable, b"hot", sequence * 2), found);
        assert_eq!(get(&memtable, b"hot", sequence * 2 + 1), found);
    }
    let mut cursor = memtable.cursor(VERSIONS * 2);
    assert_eq!(scan(&mut cursor).len(), VERSIONS as usize);
    cursor.seek(&internal(b"hot", 1001, Kind::LAST)).unwrap();
    assert_eq!(entry(&cursor).unwrap().0, internal(b"hot", 1000, Kind::Put));
    assert_eq!(get(&memtable, b"hot", 0).unwrap().1, 0);
    let second = Memtable::new(1 << 16, Comparator::Bytewise, MemtableOptions::default());
    (5..500).for_each(|sequence| put(&second, sequence, b"hot", b""));
    assert_eq!(get(&second, b"hot", 4), None, "older than all of them");
}

#[test]
fn sizes_from_nothing_to_a_mebibyte() {
    let memtable = memtable(16 << 20);
    let sizes = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 250, 4096, 65_535, 65_536];
    let mut sequence = 0;
    let mut model = Model::new(Comparator::Bytewise);
    for key_bytes in sizes {
        for value_bytes in [0, 1, 7, 8, 100, if key_bytes < 10 { 1 << 20 } else { 9 }] {
            let key = vec![key_bytes as u8; key_bytes];
            let value: Vec<u8> = (0..value_bytes).map(|at| (at * 7 + sequence) as u8).collect();
            put(&memtable, sequence as u64, &key, &value);
            model.insert(sequence as u64, Kind::Put, &key, &value);
            assert_eq!(get(&memtable, &key, sequence as u64).unwrap().2, value);
            sequence += 1;
        }
    }
    assert!(scan(&mut memtable.cursor(sequence as u64)) == model.entries);
    for ((key, value), _) in model.entries.iter().zip(0..) {
        let Parsed { user, sequence, kind } = key::parse(key).unwrap();
        assert!(get(&memtable, user, sequence) == Some((kind, sequence, value.clone())));
    }
}

#[test]
fn a_full_generation_refuses_and_keeps_what_it_has() {
    // The smallest entries are more than the table is laid out for.
    for (key_bytes, value_bytes) in [(16, 100), (8, 0), (4, 0), (3, 1), (40, 0)] {
        let memtable = memtable(1 << 18);
        let key = |n: u64| {
            let mut key = vec![b'.'; key_bytes];
            key[..3].copy_from_slice(&n.to_le_bytes()[..3]);
            key
        };
        let value = vec![7; value_bytes];
        let mut kept = 0;
        while insert(&memtable, kept, Kind::Put, &key(kept), &value).is_ok() {
            kept += 1;
        }
        let each = Size::of(key_bytes, value_bytes, Kind::Put).bytes();
        assert_eq!(kept as usize, (1 << 18) / each, "{key_bytes} {value_bytes}");
        assert!(memtable.bytes() <= 1 << 18);
        for _ in 0..10 {
            assert_eq!(insert(&memtable, kept, Kind::Put, &key(kept), &value), Err(Full));
        }
        let found = (0..kept).filter(|n| get(&memtable, &key(*n), *n).is_some()).count();
        assert_eq!(found, kept as usize);
        assert_eq!(get(&memtable, b"", SEQUENCE_MAX), None);
        assert_eq!(get(&memtable, &key(kept), SEQUENCE_MAX), None);
        memtable.wait_for_inserts();
        assert_eq!(scan(&mut memtable.cursor(SEQUENCE_MAX)).len(), kept as usize);
    }
}

/// Rounds of the same small keys, so that some are in the slots and others in the overflow.
#[test]
fn versions_of_keys_in_the_overflow_are_told_apart() {
    const KEYS: u64 = 200;
    let memtable = memtable(1 << 13);
    let mut model = Model::new(Comparator::Bytewise);
    let mut sequence = 0;
    while sequence < (1 << 13) / 24 {
        let key = [(mix(sequence) % KEYS) as u8];
        let kind = if sequence % 3 == 0 { Kind::Delete } else { Kind::Put };
        insert(&memtable, sequence, kind, &key, b"").unwrap();
        model.insert(sequence, kind, &key, b"");
        sequence += 1;
    }
    for key in 0..=KEYS {
        for at in (0..sequence).step_by(7).chain([SEQUENCE_MAX]) {
            assert_eq!(get(&memtable, &[key as u8], at), model.get(&[key as u8], at));
        }
    }
    assert_eq!(scan(&mut memtable.cursor(sequence)), model.entries);
}

/// Two writers of a new key: one has its room before the slots are short, and is late with its
/// slot; the other comes behind the border and finds none.
#[test]
fn a_key_in_slots_and_overflow_is_one_key() {
    for (early_sequence, late_sequence) in [(5, 7), (7, 5)] {
        let memtable = memtable(1 << 12);
        let mut room = memtable.arena.reserve(Size::of(1, 5, Kind::Put)).unwrap();
        let early = room.write(early_sequence, Kind::Put, b"k", b"early");
        (100..180).for_each(|sequence| put(&memtable, sequence, &[0, sequence as u8], b""));
        put(&memtable, late_sequence, b"k", b"late");
        assert_eq!(get(&memtable, b"k", 9).unwrap().1, late_sequence);
        let table = memtable.table.as_ref().unwrap();
        table.insert(&memtable.arena, &early, hash(b"k"));
        memtable.arena.announce(early);
        put(&memtable, 3, b"k", b"oldest");
        for (sequence, expected) in
            [(2, None), (3, Some(3)), (5, Some(5)), (6, Some(5)), (7, Some(7))]
        {
            assert_eq!(get(&memtable, b"k", sequence).map(|found| found.1), expected);
        }
    }
}

#[test]
fn a_generation_of_one_entry_fits_it_exactly() {
    for kind in [Kind::Put, Kind::DeleteRange] {
        for (key_bytes, value_bytes) in [(0, 0), (1, 2), (3, 0), (100, 3 << 20), (2 << 20, 5)] {
            let (key, value) = (vec![1; key_bytes], vec![2; value_bytes]);
            let capacity = Size::of(key_bytes, value_bytes, kind).bytes();
            let small = memtable(capacity - 8);
            assert_eq!(insert(&small, 5, kind, &key, &value), Err(Full));
            assert!(small.is_empty() || scan(&mut small.cursor(SEQUENCE_MAX)).is_empty());
            let exact = memtable(capacity);
            insert(&exact, 5, kind, &key, &value).unwrap();
            assert_eq!(exact.bytes(), capacity);
            assert!(get(&exact, &key, 5) == Some((kind, 5, value)));
            assert_eq!(insert(&exact, 6, kind, b"", b""), Err(Full));
        }
    }
}

#[test]
fn an_entry_that_is_too_large_leaves_room_for_smaller_ones() {
    let memtable = memtable(4 << 20);
    assert_eq!(insert(&memtable, 1, Kind::Put, b"large", &vec![0; 5 << 20]), Err(Full));
    assert!(memtable.is_empty());
    put(&memtable, 2, b"small", b"fits");
    assert_eq!(get(&memtable, b"small", 2).unwrap().2, b"fits");
    assert_eq!(get(&memtable, b"large", 2), None);
}

#[test]
fn a_frozen_generation_refuses_and_is_read_on() {
    let memtable = memtable(1 << 16);
    put(&memtable, 1, b"k", b"v");
    assert!(!memtable.is_immutable());
    memtable.make_immutable();
    memtable.make_immutable();
    assert!(memtable.is_immutable());
    assert_eq!(insert(&memtable, 2, Kind::Put, b"k", b"w"), Err(Full));
    assert_eq!(insert(&memtable, 2, Kind::Put, b"k", &vec![0; 2 << 20]), Err(Full));
    memtable.wait_for_inserts();
    assert_eq!(get(&memtable, b"k", 9), Some((Kind::Put, 1, b"v".to_vec())));
    assert_eq!(scan(&mut memtable.cursor(SEQUENCE_MAX)).len(), 1);
}

#[test]
fn keys_whose_hashes_collide_are_told_apart() {
    // One home for all, one tag for all, both, and homes at the last slot, which wrap around.
    let hashes: [fn(&[u8]) -> u64; 4] = [
        |key| hash(key) & 0xFFFF_FFFF,
        |key| hash(key) & !0xFFFF_FFFF,
        |_| 0x1234_5678_9ABC_DEF0,
        |key| hash(key) | !0xFFFF_FFFF,
    ];
    for hash in hashes {
        let memtable = memtable(1 << 16);
        let keys: Vec<[u8; 2]> = (0..300_u16).map(u16::to_be_bytes).collect();
        for round in 0..2 {
            for (at, key) in keys.iter().enumerate() {
                let sequence = round * 1000 + at as u64;
                memtable
                    .insert(sequence, Kind::Put, key, &sequence.to_le_bytes(), hash(key))
                    .unwrap();
            }
        }
        for (at, key) in keys.iter().enumerate() {
            for (sequence, round) in [(999, 0), (1999, 1)] {
                let expected = round * 1000 + at as u64;
                let found = memtable.get(key, hash(key), sequence, |kind, sequence, value| {
                    assert_eq!(value, expected.to_le_bytes());
                    (kind, sequence)
                });
                assert_eq!(found, Some((Kind::Put, expected)));
            }
        }
        let missing = 301_u16.to_be_bytes();
        assert_eq!(memtable.get(&missing, hash(&missing), 9999, |_, _, _| ()), None);
    }
}

#[test]
fn range_deletions_are_entries_and_a_list() {
    let memtable = memtable(1 << 16);
    assert!(!memtable.has_range_tombstones());
    assert_eq!(memtable.newest_range_tombstone(b"c", SEQUENCE_MAX), None);
    // Values of all lengths modulo 4, so that the link lies at each distance behind them.
    let ranges: [(u64, &[u8], &[u8]); 5] = [
        (10, b"b", b"d"),
        (20, b"c", b"cc"),
        (5, b"", b"zzz"),
        (7, b"bb", b"zzzz"),
        (30, b"c", b"c"),
    ];
    for (sequence, begin, end) in ranges {
        insert(&memtable, sequence, Kind::DeleteRange, begin, end).unwrap();
    }
    put(&memtable, 15, b"c", b"value");
    assert!(memtable.has_range_tombstones());
    for (key, sequence, expected) in [
        (&b"c"[..], SEQUENCE_MAX, Some(20)),
        (b"c", 19, Some(10)),
        (b"c", 9, Some(7)),
        (b"c", 6, Some(5)),
        (b"c", 4, None),
        (b"cc", 99, Some(10)),
        (b"d", 99, Some(7)),
        (b"a", 99, Some(5)),
        (b"zzz", 99, Some(7)),
        (b"zzzz", 99, None),
    ] {
        assert_eq!(memtable.newest_range_tombstone(key, sequence), expected, "{key:?} {sequence}");
    }
    let mut listed = memtable.range_tombstones();
    listed.sort_by_key(|range| range.sequence);
    let mut expected = ranges.map(|(sequence, begin, end)| RangeTombstone {
        begin: begin.to_vec(),
        end: end.to_vec(),
        sequence,
    });
    expected.sort_by_key(|range| range.sequence);
    assert_eq!(listed, expected);
    assert_eq!(get(&memtable, b"c", 25), Some((Kind::DeleteRange, 20, b"cc".to_vec())));
    assert_eq!(get(&memtable, b"c", 19), Some((Kind::Put, 15, b"value".to_vec())));
    assert_eq!(scan(&mut memtable.cursor(SEQUENCE_MAX)).len(), 6);
}

/// A chain of thousands is mostly in indexes, and answers as the list of all.
#[test]
fn many_range_deletions_are_found_by_index() {
    let memtable = memtable(1 << 20);
    let mut draw = Draw::new(9);
    let mut all: Vec<RangeTombstone> = Vec::new();
    for sequence in 1..=3000 {
        let (one, other) = (draw.below(1000) as u16, draw.below(1000) as u16);
        let (begin, end) = (one.min(other).to_be_bytes(), one.max(other).to_be_bytes());
        insert(&memtable, sequence, Kind::DeleteRange, &begin, &end).unwrap();
        all.push(RangeTombstone { begin: begin.to_vec(), end: end.to_vec(), sequence });
        if sequence % 7 == 0 {
            let key = (draw.below(1000) as u16).to_be_bytes();
            let upto = [sequence, draw.below(sequence as usize) as u64][draw.below(2)];
            let covers = |range: &&RangeTombstone| {
                range.sequence <= upto && range.begin[..] <= key[..] && key[..] < range.end[..]
            };
            let expected = all.iter().filter(covers).map(|range| range.sequence).max();
            assert_eq!(memtable.newest_range_tombstone(&key, upto), expected, "{sequence} {upto}");
            let indexes = memtable.range_indexes();
            let found = indexes.iter().filter_map(|index| index.newest(&key, upto)).max();
            assert_eq!(found, expected);
            assert!(indexes.len() <= 10, "{sequence}: {}", indexes.len());
        }
    }
    let mut listed = memtable.range_tombstones();
    listed.sort_by_key(|range| range.sequence);
    assert_eq!(listed, all);
}

#[test]
fn without_a_table_gets_go_by_order() {
    let options = MemtableOptions { hash: false, ..MemtableOptions::default() };
    let memtable = Arc::new(Memtable::new(1 << 20, Comparator::Bytewise, options));
    let mut model = Model::new(Comparator::Bytewise);
    let mut draw = Draw::new(5);
    for sequence in 0..3000 {
        let key = draw.below(200).to_string();
        put(&memtable, sequence, key.as_bytes(), &sequence.to_le_bytes());
        model.insert(sequence, Kind::Put, key.as_bytes(), &sequence.to_le_bytes());
        if draw.below(10) == 0 {
            let key = draw.below(220).to_string();
            let at = draw.below(sequence as usize + 1) as u64;
            assert_eq!(get(&memtable, key.as_bytes(), at), model.get(key.as_bytes(), at));
        }
    }
}

fn sum(sizes: &[Size]) -> Size {
    sizes.iter().copied().sum()
}

#[test]
fn a_write_has_room_for_all_of_its_entries_or_for_none() {
    let sizes = [
        Size::of(1, 100, Kind::Put),
        Size::of(2, 0, Kind::Delete),
        Size::of(1, 1, Kind::DeleteRange),
        Size::of(0, 3, Kind::Put),
    ];
    let write = |room: &mut MemtableReservation<'_>, sequence| {
        room.insert(sequence, Kind::Put, b"a", &[7; 100], hash(b"a"));
        room.insert(sequence + 1, Kind::Delete, b"bb", b"", hash(b"bb"));
        room.insert(sequence + 2, Kind::DeleteRange, b"c", b"d", hash(b"c"));
        room.insert(sequence + 3, Kind::Put, b"", b"end", hash(b""));
    };
    let bytes = sum(&sizes).bytes();
    // Small ones take their room by adding, the others by a look first.
    for filler in [0, 2 << 20] {
        let capacity =
            2 * bytes + if filler > 0 { Size::of(1, filler, Kind::Put).bytes() } else { 0 };
        let memtable = memtable(capacity);
        if filler > 0 {
            put(&memtable, 1, b"f", &vec![1; filler]);
        }
        for sequence in [10, 20] {
            write(&mut memtable.reserve(sum(&sizes)).unwrap(), sequence);
        }
        assert_eq!(memtable.bytes(), capacity);
        assert!(memtable.reserve(sum(&sizes[..1])).is_err(), "not a byte is left");
        assert_eq!(get(&memtable, b"a", 99), Some((Kind::Put, 20, vec![7; 100])));
        assert_eq!(get(&memtable, b"bb", 15), Some((Kind::Delete, 11, Vec::new())));
        assert_eq!(memtable.newest_range_tombstone(b"c", 99), Some(22));
        memtable.wait_for_inserts();
        assert_eq!(scan(&mut memtable.cursor(SEQUENCE_MAX)).len(), 8 + usize::from(filler > 0));
    }
    let short = memtable(bytes - 8);
    assert!(short.reserve(sum(&sizes)).is_err());
    assert!(scan(&mut short.cursor(SEQUENCE_MAX)).is_empty());
    // A write of nothing needs nothing, where there is nothing.
    assert!(short.reserve(Size::default()).is_ok());
}

#[test]
fn room_that_is_given_up_is_empty() {
    let memtable = memtable(1 << 12);
    let two = || memtable.reserve(sum(&[Size::of(1, 1, Kind::Put); 2])).unwrap();
    drop(two());
    let mut half = two();
    half.insert(5, Kind::Put, b"k", b"v", hash(b"k"));
    drop(half);
    put(&memtable, 6, b"l", b"w");
    // Nobody waits for what will not come.
    memtable.make_immutable();
    memtable.wait_for_inserts();
    let keys = scan(&mut memtable.cursor(SEQUENCE_MAX)).into_iter().map(|(key, _)| key);
    let expected = [internal(b"k", 5, Kind::Put), internal(b"l", 6, Kind::Put)];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    assert_eq!(memtable.entries(), 5);
}

#[test]
#[should_panic(expected = "before it writes the first")]
fn an_entry_without_room_is_a_broken_promise() {
    let memtable = memtable(1 << 12);
    let mut room = memtable.reserve(Size::of(1, 1, Kind::Put)).unwrap();
    room.insert(1, Kind::Put, b"k", &[0; 100], hash(b"k"));
}

#[test]
fn an_entry_with_a_length_of_more_than_32_bits_has_no_room_anywhere() {
    let largest = u32::MAX as usize;
    assert!(Size::of(largest, largest, Kind::Put).bytes() < 9 << 30);
    for size in [Size::of(largest + 1, 0, Kind::Put), Size::of(0, largest + 1, Kind::DeleteRange)] {
        assert!(memtable(16 << 30).reserve(size).is_err());
        assert!(memtable(1 << 12).reserve(sum(&[Size::of(1, 1, Kind::Put), size])).is_err());
    }
}
