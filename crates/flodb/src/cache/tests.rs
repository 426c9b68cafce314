//! Tests of the cache alone. Blocks carry their table and number, so a wrong one is known.

use super::*;
use crate::block::BlockBuilder;
use crate::key::{Kind, append};
use keyrack_testkit::random::{Announced, Draw, seeds};

/// A block of one entry that says which block it is, of at least `bytes` bytes.
fn block(table: u64, index: usize, bytes: usize) -> Block {
    let mut builder = BlockBuilder::new(1);
    let mut key = Vec::new();
    append(&mut key, format!("{table}/{index}").as_bytes(), 1, Kind::Put);
    builder.add(&key, &vec![index as u8; bytes]);
    Block::new(builder.finish().to_vec()).unwrap()
}

/// Is it that block?
fn is(cached: &Cached, table: u64, index: usize) -> bool {
    let wanted = format!("{table}/{index}");
    let order = Comparator::Bytewise;
    let found = cached.block.find(&order, wanted.as_bytes(), u64::MAX).unwrap();
    found.is_some_and(|found| found.is_same_user)
}

fn is_there(table: &TableCache, index: usize) -> bool {
    table.get(index, &pin()).is_some()
}

#[test]
fn what_was_put_in_is_found_until_there_is_no_room() {
    let cache = Arc::new(BlockCache::new(10_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 100);
    for index in 0..100 {
        assert!(table.pin(index).is_none());
        assert!(is(&table.insert(index, block(1, index, 500)), 1, index));
        assert!(is(&table.pin(index).unwrap(), 1, index));
        assert!(cache.stats().bytes <= 10_000);
    }
    let there = (0..100).filter(|index| is_there(&table, *index)).count();
    let stats = cache.stats();
    assert_eq!(stats.blocks, there as u64);
    assert_eq!(stats.evicted, 100 - there as u64);
    assert!((10..20).contains(&there), "{there}");
    assert_eq!((stats.hits, stats.misses), (100 + there as u64, 200 - there as u64));
    drop(table);
    let stats = cache.stats();
    assert_eq!((stats.blocks, stats.bytes), (0, 0));
}

#[test]
fn what_is_asked_for_outlives_what_is_not() {
    let cache = Arc::new(BlockCache::new(20_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 1_000);
    for index in 0..1_000 {
        table.insert(index, block(1, index, 500));
        // These two are in use all the time, the others once.
        assert!(index < 1 || is_there(&table, 0), "0 is gone at {index}");
        assert!(index < 2 || is_there(&table, 1), "1 is gone at {index}");
    }
}

#[test]
fn new_blocks_stay_for_a_turn() {
    let cache = Arc::new(BlockCache::new(20_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 1_000);
    for index in 0..1_000 {
        table.insert(index, block(1, index, 500));
        let recent = index.saturating_sub(15)..=index;
        let there = recent.clone().filter(|at| table.own(*at, &pin()).is_some()).count();
        assert_eq!(there, recent.count(), "the last sixteen at {index}");
    }
}

#[test]
fn the_first_of_two_equal_blocks_stays() {
    let cache = Arc::new(BlockCache::new(10_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 1);
    let first = table.insert(0, block(1, 0, 10));
    let second = table.insert(0, block(1, 0, 10));
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(cache.stats().blocks, 1);
}

#[test]
fn blocks_without_room_are_not_kept() {
    for capacity in [0, 1_000] {
        let cache = Arc::new(BlockCache::new(capacity));
        let table = TableCache::new(Arc::clone(&cache), 1, 2);
        let lent = table.insert(0, block(1, 0, 1_500));
        assert!(is(&lent, 1, 0));
        assert!(table.pin(0).is_none());
        assert_eq!(Arc::strong_count(&lent), 1);
        assert_eq!(cache.stats().blocks, 0);
    }
}

#[test]
fn large_blocks_push_several_out() {
    let cache = Arc::new(BlockCache::new(50_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 200);
    for round in 0..3 {
        for index in 0..100 {
            table.insert(index, block(1, index, 300 + round));
        }
        for index in 100..200 {
            table.insert(index, block(1, index, 20_000));
            assert!(is(&table.pin(index).unwrap(), 1, index));
            assert!(cache.stats().bytes <= 50_000);
        }
        assert!(cache.stats().blocks <= 2 + 1);
    }
}

#[test]
fn a_held_block_outlives_its_place_and_is_freed_at_last() {
    let cache = Arc::new(BlockCache::new(2_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 100);
    let held = table.insert(0, block(1, 0, 1_000));
    let weak = Arc::downgrade(&table.insert(1, block(1, 1, 1_000)));
    for index in 2..100 {
        table.insert(index, block(1, index, 1_000));
    }
    assert!(table.pin(0).is_none());
    assert!(is(&held, 1, 0));
    drop(table);
    assert!(is(&held, 1, 0));
    // Other tests pin as well, so it may take a while.
    for _ in 0..10_000_000 {
        if weak.strong_count() == 0 && Arc::strong_count(&held) == 1 {
            return;
        }
        pin().flush();
        std::thread::yield_now();
    }
    panic!("{} and {} references are left", weak.strong_count(), Arc::strong_count(&held));
}

#[test]
fn tables_do_not_see_each_other() {
    let cache = Arc::new(BlockCache::new(1 << 20));
    let tables = [1, 1, 2].map(|number| TableCache::new(Arc::clone(&cache), number, 10));
    tables[0].insert(3, block(10, 3, 100));
    tables[2].insert(3, block(12, 3, 100));
    assert!(is(&tables[0].pin(3).unwrap(), 10, 3));
    assert!(tables[1].pin(3).is_none());
    assert!(is(&tables[2].pin(3).unwrap(), 12, 3));
    drop(tables);
    assert_eq!(cache.stats().blocks, 0);
}

/// Threads that look up, insert and keep blocks, in a cache of several shards that holds a part.
#[test]
fn threads_get_the_blocks_they_ask_for() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let cache = Arc::new(BlockCache::new(3 * SHARD_BYTES_MIN));
        let tables = [5, 6].map(|number| TableCache::new(Arc::clone(&cache), number, 300));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let tables = &tables;
                scope.spawn(move || {
                    let mut draw = Draw::new(seed ^ thread);
                    let mut held = Vec::new();
                    for _ in 0..4_000 {
                        let which = draw.below(2);
                        let (table, number) = (&tables[which], 5 + which as u64);
                        let index = draw.below(300);
                        match draw.below(8) {
                            0 => held.push((number, index, table.pin(index))),
                            1 => held.truncate(draw.below(20)),
                            _ => {
                                let guard = pin();
                                match table.get(index, &guard) {
                                    Some(cached) => assert!(is(cached, number, index)),
                                    None => {
                                        let new = block(number, index, 40_000);
                                        assert!(is(&table.insert(index, new), number, index));
                                    }
                                }
                            }
                        }
                    }
                    for (number, index, cached) in held {
                        assert!(cached.is_none_or(|cached| is(&cached, number, index)));
                    }
                });
            }
        });
        let stats = cache.stats();
        assert!(stats.bytes <= 3 * SHARD_BYTES_MIN as u64, "{stats:?}");
        assert!(stats.evicted > 100 && stats.hits > 1_000, "{stats:?}");
        drop(tables);
        assert_eq!(cache.stats().blocks, 0);
    }
}

#[test]
fn a_block_that_is_found_twice_gets_a_prefix_index_that_counts() {
    let cache = Arc::new(BlockCache::new(100_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 10).in_order(&Comparator::Bytewise);
    table.insert(0, block(1, 0, 500));
    let bytes = cache.stats().bytes;
    let has_prefixes = || table.get(0, &pin()).unwrap().block.has_prefixes();
    assert!(!has_prefixes());
    assert_eq!(cache.stats().bytes, bytes);
    assert!(has_prefixes());
    let added = cache.stats().bytes - bytes;
    assert!((8..200).contains(&added), "{added}");
    assert!(has_prefixes());
    assert_eq!(cache.stats().bytes, bytes + added, "it is made once");
    assert!(is(&table.pin(0).unwrap(), 1, 0));
    drop(table);
    assert_eq!(cache.stats().bytes, 0);
    // Without the order of bytes there is none.
    let table = TableCache::new(Arc::clone(&cache), 2, 10);
    table.insert(0, block(2, 0, 500));
    assert!((0..3).all(|_| !table.get(0, &pin()).unwrap().block.has_prefixes()));
}

#[test]
fn prefix_indexes_make_others_leave_a_full_cache() {
    let cache = Arc::new(BlockCache::new(20_000));
    let table = TableCache::new(Arc::clone(&cache), 1, 1_000).in_order(&Comparator::Bytewise);
    for index in 0..1_000 {
        table.insert(index, block(1, index, 500));
        for asked in 0..=index {
            let guard = pin();
            assert!(table.get(asked, &guard).is_none_or(|cached| is(cached, 1, asked)));
        }
        assert!(cache.stats().bytes <= 20_000, "{:?}", cache.stats());
    }
    drop(table);
    assert_eq!((cache.stats().bytes, cache.stats().blocks), (0, 0));
}

#[test]
fn threads_make_one_prefix_index() {
    for _ in 0..200 {
        let cache = Arc::new(BlockCache::new(100_000));
        let table = TableCache::new(Arc::clone(&cache), 1, 10).in_order(&Comparator::Bytewise);
        table.insert(0, block(1, 0, 500));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..3 {
                        let guard = pin();
                        assert!(is(table.get(0, &guard).unwrap(), 1, 0));
                    }
                });
            }
        });
        assert!(table.get(0, &pin()).unwrap().block.has_prefixes());
        let kept = table.pin(0).unwrap().charge();
        assert_eq!(cache.stats().bytes, kept as u64, "it counts once");
    }
}
