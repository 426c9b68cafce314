//! Cursors against the sorted list: every position, both ways, with turns anywhere.

use super::*;
use crate::cursor::{Approach, Cursor};
use crate::key::SEQUENCE_MAX;
use crate::table::TableCursor;
use keyrack_testkit::random::{Announced, seeds};

/// Where the cursor must be.
#[track_caller]
fn assert_at(cursor: &TableCursor, entries: &[Entry], at: Option<usize>) {
    let expected = at.and_then(|at| entries.get(at)).map(|(key, value)| (&key[..], &value[..]));
    assert!(cursor.entry() == expected, "at {at:?} of {}", entries.len());
    if expected.is_some() && at.is_some_and(|at| repeats(entries, at)) {
        assert!(cursor.may_repeat_before(), "at {at:?} of {}", entries.len());
    }
}

/// Whether an entry has the user key of the one before.
fn repeats(entries: &[Entry], at: usize) -> bool {
    at > 0 && key::user_of(&entries[at - 1].0) == key::user_of(&entries[at].0)
}

/// After a step forward: where the cursor must be, and what it knows of the entry before.
#[track_caller]
fn assert_came_to(cursor: &TableCursor, entries: &[Entry], at: usize) {
    assert_at(cursor, entries, Some(at));
    if at < entries.len() {
        assert_eq!(cursor.repeats(), repeats(entries, at), "at {at} of {}", entries.len());
    }
}

fn scan_both_ways(cursor: &mut TableCursor, entries: &[Entry]) {
    cursor.seek_first().unwrap();
    assert_at(cursor, entries, Some(0));
    for at in 1..=entries.len() {
        cursor.next().unwrap();
        assert_came_to(cursor, entries, at);
    }
    assert_at(cursor, entries, None);
    cursor.seek_last().unwrap();
    for at in (0..entries.len()).rev() {
        assert_at(cursor, entries, Some(at));
        cursor.prev().unwrap();
    }
    assert_at(cursor, entries, None);
}

/// Internal keys at, before and behind an entry.
fn around(key: &[u8]) -> Vec<Vec<u8>> {
    let parsed = key::parse(key).unwrap();
    let mut longer = parsed.user.to_vec();
    longer.push(0);
    let shorter = &parsed.user[..parsed.user.len().saturating_sub(1)];
    vec![
        key.to_vec(),
        internal(parsed.user, SEQUENCE_MAX, Kind::LAST),
        internal(parsed.user, parsed.sequence + 1, Kind::Delete),
        internal(parsed.user, parsed.sequence - 1, Kind::LAST),
        internal(parsed.user, 0, Kind::Delete),
        internal(&longer, SEQUENCE_MAX, Kind::Put),
        internal(shorter, 7, Kind::Put),
    ]
}

fn seek_everywhere(cursor: &mut TableCursor, entries: &[Entry], order: &Comparator) {
    for (key, _) in entries {
        for target in around(key) {
            let at =
                entries.partition_point(|(key, _)| order.internal(key, &target) == Ordering::Less);
            cursor.seek(&target).unwrap();
            assert_at(cursor, entries, Some(at));
            // From here, and with an approach that another place may follow.
            for (key, parts) in [(&target, 6), (&entries[0].0, 3), (&target, 0), (key, 6)] {
                let at = entries
                    .partition_point(|(entry, _)| order.internal(entry, key) == Ordering::Less);
                for part in Approach::ALL.into_iter().take(parts) {
                    cursor.approach(key, part);
                }
                cursor.seek(key).unwrap();
                assert_at(cursor, entries, Some(at));
            }
            // A move to an end forgets what was approached.
            for part in Approach::ALL {
                cursor.approach(&entries[0].0, part);
            }
            cursor.seek_last().unwrap();
            cursor.seek(&target).unwrap();
            assert_at(cursor, entries, Some(at));
        }
    }
}

/// From each position: on, back, back, on.
fn turn_everywhere(cursor: &mut TableCursor, entries: &[Entry]) {
    for (at, (key, _)) in entries.iter().enumerate() {
        cursor.seek(key).unwrap();
        assert_at(cursor, entries, Some(at));
        if at + 1 < entries.len() {
            cursor.next().unwrap();
            assert_came_to(cursor, entries, at + 1);
            cursor.prev().unwrap();
            assert_at(cursor, entries, Some(at));
        }
        if at > 0 {
            cursor.prev().unwrap();
            assert_at(cursor, entries, Some(at - 1));
            cursor.next().unwrap();
            assert_came_to(cursor, entries, at);
        }
    }
}

fn wander(cursor: &mut TableCursor, entries: &[Entry], draw: &mut Draw, steps: usize) {
    let mut at = None;
    for _ in 0..steps {
        match (draw.below(40), at) {
            (0, _) => {
                cursor.seek_first().unwrap();
                at = Some(0);
            }
            (1, _) => {
                cursor.seek_last().unwrap();
                at = Some(entries.len() - 1);
            }
            (2, _) | (_, None) => {
                let to = draw.below(entries.len());
                cursor.seek(&entries[to].0).unwrap();
                at = Some(to);
            }
            // Some stretches in one direction, and many turns.
            (3..22, Some(from)) => {
                cursor.next().unwrap();
                assert_came_to(cursor, entries, from + 1);
                at = (from + 1 < entries.len()).then_some(from + 1);
            }
            (_, Some(from)) => {
                cursor.prev().unwrap();
                at = from.checked_sub(1);
            }
        }
        assert_at(cursor, entries, at);
    }
}

/// The file has 0 where all entries have one number.
#[test]
fn entries_have_the_sequence_number_of_their_table() {
    let order = Comparator::Bytewise;
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut users: Vec<Vec<u8>> = (0..200).map(|_| random_user(&mut draw)).collect();
        users.sort();
        users.dedup();
        let kinds: Vec<Kind> =
            users.iter().map(|_| *draw.one_of(&[Kind::Put, Kind::Delete])).collect();
        let with = |sequence: u64| -> Vec<Entry> {
            let entries = users.iter().zip(&kinds);
            entries.map(|(user, kind)| (internal(user, sequence, *kind), vec![7])).collect()
        };
        let options = TableOptions { block_bytes: 300, ..TableOptions::default() };
        let (fs, _) = written(&options, &with(0));
        let cache = Arc::new(BlockCache::new(1 << 20));
        let table = Table::open(&fs, path(), NUMBER, &reading(&cache, &order)).unwrap();
        let table = Arc::new(table.with_sequence(Some(1_000)));
        table.verify().unwrap();
        let entries = with(1_000);
        let mut cursor = table.cursor(ReadOptions::default());
        scan_both_ways(&mut cursor, &entries);
        seek_everywhere(&mut cursor, &entries, &order);
        turn_everywhere(&mut cursor, &entries);
        for (user, kind) in users.iter().zip(&kinds) {
            assert_eq!(get(&table, user, 999).unwrap(), None);
            for sequence in [1_000, SEQUENCE_MAX] {
                let found = get(&table, user, sequence).unwrap();
                assert_eq!(found, Some((*kind, 1_000, vec![7])));
            }
        }
    }
}

#[test]
fn random_tables_read_as_they_were_written() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        for order in orders() {
            for _ in 0..4 {
                let count = 1 + draw.below(150);
                let entries = random_entries(&mut draw, count, &order);
                let mut options = random_options(&mut draw);
                options.comparator = order.clone();
                let (fs, meta) = written(&options, &entries);
                assert_eq!(meta.entries, entries.len() as u64);
                let cache_bytes = *draw.one_of(&[0, 8 << 10, 1 << 20]);
                let table = try_open(&fs, cache_bytes, &order).unwrap();
                table.verify().unwrap();
                let mut cursor = table.cursor(random_read_options(&mut draw));
                assert_at(&cursor, &entries, None);
                scan_both_ways(&mut cursor, &entries);
                seek_everywhere(&mut cursor, &entries, &order);
                turn_everywhere(&mut cursor, &entries);
                wander(&mut cursor, &entries, &mut draw, 500);
            }
        }
    }
}

#[test]
fn large_and_small_ones_side_by_side() {
    let mut draw = Draw::new(3);
    let mut entries = vec![
        (internal(b"", 3, Kind::Put), Vec::new()),
        (internal(b"", 2, Kind::Put), draw.bytes(1 << 20)),
        (internal(&draw.bytes(64 << 10), 9, Kind::Put), b"small".to_vec()),
        (internal(&[vec![9; 64 << 10], vec![1]].concat(), 9, Kind::Put), vec![0; 3 << 20]),
        (internal(&[vec![9; 64 << 10], vec![2]].concat(), 9, Kind::Delete), Vec::new()),
    ];
    entries.extend(
        (0..200)
            .map(|_| (internal(&random_user(&mut draw), 5, Kind::Put), random_value(&mut draw))),
    );
    sort(&mut entries, &Comparator::Bytewise);
    for compression in COMPRESSIONS {
        let (fs, _) = written(&TableOptions { compression, ..TableOptions::default() }, &entries);
        let table = open(&fs);
        table.verify().unwrap();
        let mut cursor = table.cursor(ReadOptions::default());
        scan_both_ways(&mut cursor, &entries);
        turn_everywhere(&mut cursor, &entries);
        for (key, value) in &entries {
            let parsed = key::parse(key).unwrap();
            let found = get(&table, parsed.user, parsed.sequence).unwrap().unwrap();
            assert!(found == (parsed.kind, parsed.sequence, value.clone()));
        }
    }
}

#[test]
fn versions_of_one_key_go_over_block_borders() {
    let entries: Vec<Entry> = (1..=500_u64)
        .rev()
        .map(|sequence| (internal(b"one", sequence, Kind::Put), sequence.to_be_bytes().to_vec()))
        .collect();
    let options = TableOptions { block_bytes: 200, ..TableOptions::default() };
    let (fs, _) = written(&options, &entries);
    let table = open(&fs);
    assert!(table.index.len() > 20, "many blocks");
    let mut cursor = table.cursor(ReadOptions::default());
    seek_everywhere(&mut cursor, &entries, &Comparator::Bytewise);
    turn_everywhere(&mut cursor, &entries);
    for sequence in 0..=501 {
        let newest: u64 = sequence.min(500);
        let value = (newest > 0).then(|| (Kind::Put, newest, newest.to_be_bytes().to_vec()));
        assert_eq!(get(&table, b"one", sequence).unwrap(), value);
    }
}

#[test]
fn a_long_walk_reads_in_growing_pieces_and_a_short_one_little() {
    let entries: Vec<Entry> = (0..20_000_u32)
        .map(|number| (internal(&number.to_be_bytes(), 1, Kind::Put), vec![1; 100]))
        .collect();
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let (fs, meta) = written(&options, &entries);
    let reads = |readahead_bytes_max, steps: usize, is_down: bool| {
        let counted = keyrack_vfs::FaultFs::new(Arc::new(fs.clone()));
        let table = try_open(&counted, 0, &Comparator::Bytewise).unwrap();
        let before = counted.operations();
        let limit =
            ReadOptions { fill_cache: false, readahead_bytes_max, ..ReadOptions::default() };
        let mut cursor = table.cursor(limit);
        if is_down {
            cursor.seek_last().unwrap();
        } else {
            cursor.seek_first().unwrap();
        }
        for step in 1..=steps {
            if is_down {
                cursor.prev().unwrap();
                assert_at(&cursor, &entries, Some(19_999 - step));
            } else {
                cursor.next().unwrap();
                assert_at(&cursor, &entries, Some(step));
            }
        }
        (counted.operations() - before, table.index.len() as u64)
    };
    for is_down in [false, true] {
        let (one_by_one, blocks) = reads(0, 19_999, is_down);
        assert_eq!(one_by_one, blocks);
        let (ahead, _) = reads(256 << 10, 19_999, is_down);
        assert!(ahead <= 10 + meta.bytes / (256 << 10), "{ahead} reads");
        let (short, _) = reads(256 << 10, 60, is_down);
        assert_eq!(short, 2);
    }
    let (short, _) = reads(256 << 10, 30, false);
    assert_eq!(short, 1, "within a block");
}

#[test]
fn a_long_walk_leaves_the_cache_alone_and_takes_what_is_in_it() {
    let entries: Vec<Entry> = (0..20_000_u32)
        .map(|number| (internal(&number.to_be_bytes(), 1, Kind::Put), vec![1; 100]))
        .collect();
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let (fs, _) = written(&options, &entries);
    let cache = Arc::new(BlockCache::new(64 << 20));
    let order = Comparator::Bytewise;
    let table = Table::open(&fs, path(), NUMBER, &reading(&cache, &order)).map(Arc::new).unwrap();
    let blocks = table.index.len() as u64;
    let limit = ReadOptions { readahead_bytes_max: 8 << 10, ..ReadOptions::default() };
    let mut cursor = table.cursor(limit);
    cursor.seek(&entries[15_000].0).unwrap();
    let before = cache.stats();
    cursor.seek_first().unwrap();
    for at in 0..entries.len() {
        assert_at(&cursor, &entries, Some(at));
        cursor.next().unwrap();
    }
    let after = cache.stats();
    assert!(after.blocks < before.blocks + 10, "{after:?} of {blocks}");
    assert!(after.hits > before.hits, "the block of the seek was there");
    let mut onward = cursor.onward_to(&table).unwrap();
    assert_at(&onward, &entries, Some(0));
    for _ in 0..10_000 {
        onward.next().unwrap();
    }
    assert_eq!(cache.stats().blocks, after.blocks, "a long walk goes on as one");
    // A seek ends the long walk.
    onward.seek(&entries[19_000].0).unwrap();
    assert_eq!(cache.stats().blocks, after.blocks + 1);
}

#[test]
fn a_cursor_outlives_what_the_cache_had() {
    let entries: Vec<Entry> = (0..400_u32)
        .map(|number| (internal(&number.to_be_bytes(), 1, Kind::Put), vec![number as u8; 100]))
        .collect();
    let (fs, _) = written(&TableOptions::default(), &entries);
    let table = try_open(&fs, 12_000, &Comparator::Bytewise).unwrap();
    let mut held = table.cursor(ReadOptions::default());
    held.seek(&entries[10].0).unwrap();
    let mut other = table.cursor(ReadOptions::default());
    for _ in 0..3 {
        scan_both_ways(&mut other, &entries);
    }
    drop(other);
    assert_at(&held, &entries, Some(10));
    drop(table);
    held.next().unwrap();
    assert_at(&held, &entries, Some(11));
}
