//! Lookups against the sorted list, at every sequence that makes a difference.

use super::*;
use crate::key::SEQUENCE_MAX;
use keyrack_testkit::random::{Announced, seeds};

/// As [`get`], with the place that was found before.
fn get_located(table: &Table, user: &[u8], sequence: u64) -> Option<(Kind, u64, Vec<u8>)> {
    let located = table.locate(user, sequence);
    let visit = |kind, sequence, value: &[u8]| (kind, sequence, value.to_vec());
    let hash = crate::checksum::hash(user);
    table.get(user, hash, sequence, &ReadOptions::default(), located, visit).unwrap()
}

#[test]
fn lookups_see_the_newest_entry_of_their_time() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        for order in orders() {
            for _ in 0..4 {
                let count = 1 + draw.below(200);
                let entries = random_entries(&mut draw, count, &order);
                let mut options = random_options(&mut draw);
                options.comparator = order.clone();
                let (fs, _) = written(&options, &entries);
                let table = try_open(&fs, 1 << 20, &order).unwrap();
                for (key, _) in &entries {
                    let parsed = key::parse(key).unwrap();
                    for sequence in [0, parsed.sequence - 1, parsed.sequence, SEQUENCE_MAX] {
                        let found = get(&table, parsed.user, sequence).unwrap();
                        assert_eq!(found, expected(&order, &entries, parsed.user, sequence));
                        assert_eq!(found, get_located(&table, parsed.user, sequence));
                    }
                }
                for _ in 0..300 {
                    let user = random_user(&mut draw);
                    let sequence = draw.below(1_001) as u64;
                    let found = get(&table, &user, sequence).unwrap();
                    assert_eq!(found, expected(&order, &entries, &user, sequence));
                    assert_eq!(found, get_located(&table, &user, sequence));
                }
            }
        }
    }
}

fn open_with(fs: &dyn Fs, cache: &Arc<BlockCache>) -> Table {
    Table::open(fs, path(), NUMBER, &reading(cache, &Comparator::Bytewise)).unwrap()
}

#[test]
fn the_filter_saves_reading() {
    let entries: Vec<Entry> = (0..5_000_u32)
        .map(|number| (internal(format!("key{number:08}").as_bytes(), 1, Kind::Put), vec![1; 20]))
        .collect();
    let (fs, _) = written(&TableOptions::default(), &entries);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let table = open_with(&fs, &cache);
    for number in 0..5_000 {
        assert!(get(&table, format!("key{number:08}x").as_bytes(), 9).unwrap().is_none());
    }
    let stats = cache.stats();
    assert!(stats.hits + stats.misses < 100, "{stats:?}: a hundredth of the lookups, or so");
    assert!(stats.hits + stats.misses > 10, "{stats:?}: are they counted?");
}

#[test]
fn a_block_is_read_once() {
    let entries: Vec<Entry> = (0..5_000_u32)
        .map(|number| (internal(&number.to_be_bytes(), 1, Kind::Put), vec![1; 20]))
        .collect();
    let (fs, _) = written(&TableOptions::default(), &entries);
    let counted = keyrack_vfs::FaultFs::new(Arc::new(fs));
    let cache = Arc::new(BlockCache::new(4 << 20));
    let table = open_with(&counted, &cache);
    let before = counted.operations();
    for _ in 0..2 {
        for (key, value) in &entries {
            let found = get(&table, key::user_of(key), 1).unwrap();
            assert_eq!(found.map(|(_, _, value)| value).as_ref(), Some(value));
        }
    }
    assert_eq!(counted.operations() - before, table.index.len() as u64);
    let stats = cache.stats();
    assert_eq!(stats.misses, table.index.len() as u64);
    assert_eq!(stats.hits, 10_000 - stats.misses);
}

#[test]
fn offsets_ascend_with_keys() {
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let entries: Vec<Entry> = (0..10_000_u32)
        .map(|number| (internal(&(2 * number).to_be_bytes(), 1, Kind::Put), vec![1; 100]))
        .collect();
    let (fs, meta) = written(&options, &entries);
    let table = open(&fs);
    let offset = |number: u32| {
        table.approximate_offset(&internal(&number.to_be_bytes(), SEQUENCE_MAX, Kind::LAST))
    };
    assert_eq!(offset(0), 0);
    assert!((0..20_000).map(offset).is_sorted());
    for number in (0..20_000).step_by(7) {
        let share = meta.bytes * u64::from(number) / 20_000;
        assert!(offset(number).abs_diff(share) < meta.bytes / 50, "{number}");
    }
    assert!(offset(20_000) <= meta.bytes && offset(20_000) > meta.bytes * 9 / 10);
}

#[test]
fn the_comparator_must_be_the_same() {
    let [bytewise, reverse, by_length] = orders();
    let entries = [(internal(b"k", 1, Kind::Put), Vec::new())];
    let options = TableOptions { comparator: reverse.clone(), ..TableOptions::default() };
    let (fs, _) = written(&options, &entries);
    assert!(try_open(&fs, 0, &reverse).is_ok());
    for other in [bytewise, by_length] {
        let Err(Error::Usage(message)) = try_open(&fs, 0, &other) else { panic!("{other:?}") };
        assert!(message.contains("test.backwards") && message.contains(other.name()), "{message}");
    }
}
