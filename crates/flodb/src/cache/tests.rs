//! Tests of the cache alone. Blocks carry their table and number, so a wrong one is known.

use super::*;
use crate::block::BlockBuilder;
use crate::key::{Kind, append};
use crate::memory_budget::{Charge, Holder};
use keyrack_testkit::random::{Announced, Draw, seeds};
use std::sync::mpsc;

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

const BUDGET: usize = 8 << 20;

fn shared_cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::within(BUDGET, Arc::new(MemoryBudget::new(BUDGET, 0))))
}

/// Does something again until it has succeeded. What this test evicts is held back while threads of
/// other tests are pinned, and that may take a while.
fn until(what: &str, mut succeeds: impl FnMut() -> bool) {
    for _ in 0..10_000_000 {
        if succeeds() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("never: {what}");
}

fn is_full(cache: &BlockCache) -> bool {
    cache.stats().bytes as usize > BUDGET / 10 * 9
}

/// Puts all of so many blocks in, or as many of them as there is room for.
fn fill(table: &TableCache, number: u64, blocks: usize) {
    for index in (0..blocks).filter(|index| table.pin_if_there(*index).is_none()) {
        assert!(is(&table.insert(index, block(number, index, 10_000)), number, index));
    }
}

#[test]
fn the_cache_gives_way_at_once_and_grows_again() {
    let cache = shared_cache();
    let table = TableCache::new(Arc::clone(&cache), 1, 1_000);
    fill(&table, 1, 1_000);
    assert!(is_full(&cache), "{:?}", cache.stats());
    let mut charge = Charge::new(&cache, Holder::Indexes, 0);
    for taken in [1 << 20, 5 << 20, 6 << 20, BUDGET, 2 * BUDGET] {
        charge.set(taken);
        let stats = cache.stats();
        let left = BUDGET.saturating_sub(taken) as u64;
        assert!(stats.bytes <= stats.capacity && stats.capacity <= left, "{taken}: {stats:?}");
        assert!(stats.capacity + (512 << 10) >= left, "{taken}: {stats:?}");
    }
    let lent = table.insert(0, block(1, 0, 100));
    assert!(is(&lent, 1, 0) && table.pin(0).is_none(), "without a cache blocks are lent");
    charge.set(4 << 20);
    assert!(cache.stats().capacity > 7 << 19, "{:?}", cache.stats());
    drop(charge);
    until("it is full again", || {
        fill(&table, 1, 1_000);
        is_full(&cache)
    });
}

#[test]
fn small_changes_do_not_move_the_cache() {
    let cache = shared_cache();
    let mut charge = Charge::new(&cache, Holder::Cursors, 1 << 20);
    let capacity = cache.stats().capacity;
    for bytes in [(1 << 20) + 1000, (1 << 20) - 1000, (1 << 20) + 30_000, 1 << 20] {
        charge.set(bytes);
        assert_eq!(cache.stats().capacity, capacity, "{bytes}");
    }
}

#[test]
fn blocks_are_counted_in_the_cache_and_outside() {
    let cache = shared_cache();
    let table = TableCache::new(Arc::clone(&cache), 1, 10);
    let lent = table.lend(block(1, 0, 50_000));
    let counted = cache.budget().blocks();
    assert!((50_000..60_000).contains(&counted), "{counted}");
    drop(table.insert(1, block(1, 1, 50_000)));
    assert!(cache.budget().blocks() >= 100_000);
    drop(lent);
    assert_eq!(cache.budget().blocks(), counted);
    assert!(cache.stats().bytes as usize >= counted, "a place in the cache costs more");
}

/// Threads that insert while others take and give back what the cache has.
#[test]
fn the_cache_fits_whatever_others_take_meanwhile() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let cache = shared_cache();
        let table = TableCache::new(Arc::clone(&cache), 5, 600);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (cache, table) = (&cache, &table);
                scope.spawn(move || {
                    let mut draw = Draw::new(seed ^ thread);
                    for _ in 0..3_000 {
                        let index = draw.below(600);
                        if table.pin(index).is_none() {
                            table.insert(index, block(5, index, 20_000));
                        }
                    }
                });
                scope.spawn(move || {
                    let mut draw = Draw::new(seed ^ thread ^ 99);
                    let mut charge = Charge::new(cache, Holder::Writers, 0);
                    (0..300).for_each(|_| charge.set(draw.below(BUDGET / 2)));
                });
            }
        });
        cache.settle();
        let stats = cache.stats();
        assert!(stats.bytes <= stats.capacity, "{stats:?}");
        assert!(stats.capacity as usize > BUDGET / 10 * 9, "{stats:?}");
        drop(table);
        assert_eq!(cache.stats().blocks, 0);
    }
}

/// Blocks that readers have took the whole cache, and it stayed without memory when they were gone:
/// what did not fit was not looked at again.
#[test]
fn a_cache_that_had_no_room_notices_that_there_is_some() {
    let cache = shared_cache();
    let table = TableCache::new(Arc::clone(&cache), 1, 1_000);
    let lent: Vec<_> = (0..2).map(|index| table.lend(block(1, index, BUDGET))).collect();
    cache.settle();
    assert_eq!(cache.stats().capacity, 0);
    drop(lent);
    fill(&table, 1, 1_000);
    let stats = cache.stats();
    assert!(stats.capacity as usize > BUDGET / 10 * 9 && stats.blocks > 600, "{stats:?}");
}

/// A thread that stands still while it is pinned, until this is dropped.
struct StandingReader<'scope> {
    goes_on: Option<mpsc::Sender<()>>,
    thread: Option<std::thread::ScopedJoinHandle<'scope, ()>>,
}

impl<'scope> StandingReader<'scope> {
    fn start<'env>(scope: &'scope std::thread::Scope<'scope, 'env>) -> Self {
        let ((goes_on, go_on), (begins, begun)) = (mpsc::channel(), mpsc::channel());
        let thread = scope.spawn(move || {
            let guard = pin();
            guard.protect(|| ());
            begins.send(()).unwrap();
            // Also when the test has failed.
            let _: Result<(), mpsc::RecvError> = go_on.recv();
        });
        begun.recv().unwrap();
        StandingReader { goes_on: Some(goes_on), thread: Some(thread) }
    }
}

impl Drop for StandingReader<'_> {
    fn drop(&mut self) {
        drop(self.goes_on.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The cache gave way to what it had evicted and could not free, which was never enough, until it
/// was empty.
#[test]
fn a_reader_that_stands_still_does_not_empty_the_cache() {
    let cache = shared_cache();
    let tables = [1, 2].map(|number| TableCache::new(Arc::clone(&cache), number, 4_000));
    fill(&tables[0], 1, 1_000);
    assert!(is_full(&cache), "{:?}", cache.stats());
    let is_in = |index: &usize| is_there(&tables[0], *index);
    let present: Vec<usize> = (0..1_000).filter(is_in).collect();
    let (capacity, before) = (cache.stats().capacity, cache.stats().blocks);
    // What one insertion adds to what waits is more than it may be at most.
    let evicted_max = cache.evicted_max + 20_000;
    assert!(evicted_max < BUDGET / 10);
    std::thread::scope(|scope| {
        let reader = StandingReader::start(scope);
        // Five times what the cache has.
        for index in 0..4_000 {
            let lent = tables[1].insert(index, block(2, index, 10_000));
            assert!(is(&lent, 2, index));
            let (blocks, stats) = (cache.budget().blocks(), cache.stats());
            assert!(blocks <= BUDGET + evicted_max, "{index}: {blocks} bytes, {stats:?}");
            assert_eq!(stats.capacity, capacity, "{index}: nobody has taken anything");
        }
        let found = present.iter().filter(|index| is_in(index)).count();
        let lost = (present.len() - found) * 10_000;
        assert!(lost <= evicted_max, "{found} blocks of {} are there", present.len());
        assert!(cache.stats().blocks + 1 >= before, "new ones have their places");
        drop(reader);
    });
    until("new blocks come in again", || {
        fill(&tables[1], 2, 1_000);
        (0..1_000).filter(|index| is_there(&tables[1], *index)).count() > 700
    });
    drop(tables);
    until("everything is freed", || {
        cache.free_evicted();
        cache.budget().blocks() == 0
    });
}

/// The cache gives way to others once, and does not fill again what they give back before the
/// reader goes on.
#[test]
fn others_take_their_part_while_a_reader_stands_still() {
    let cache = shared_cache();
    let table = TableCache::new(Arc::clone(&cache), 1, 4_000);
    fill(&table, 1, 1_000);
    let before = cache.stats().bytes as usize;
    // What other tests hold back waits already.
    let blocks_max = BUDGET + cache.evicted_max + 20_000;
    std::thread::scope(|scope| {
        let reader = StandingReader::start(scope);
        let charge = Charge::new(&cache, Holder::Writers, BUDGET / 4);
        fill(&table, 1, 4_000);
        let stats = cache.stats();
        assert!(stats.bytes as usize > before - BUDGET / 4 - BUDGET / 10, "{stats:?}");
        assert!(cache.budget().blocks() <= blocks_max, "{stats:?}");
        drop(charge);
        fill(&table, 1, 4_000);
        assert!(cache.budget().blocks() <= blocks_max, "{stats:?}");
        assert!(cache.is_held_back());
        drop(reader);
    });
    until("it is full again", || {
        fill(&table, 1, 4_000);
        is_full(&cache)
    });
}

/// A prefix index that is made counts, so others may have to go for it.
#[test]
fn no_prefix_index_is_made_while_a_reader_stands_still() {
    let cache = shared_cache();
    let table = TableCache::new(Arc::clone(&cache), 1, 4_000).in_order(&Comparator::Bytewise);
    fill(&table, 1, 1_000);
    let present: Vec<usize> = (0..1_000).filter(|index| is_there(&table, *index)).collect();
    std::thread::scope(|scope| {
        let reader = StandingReader::start(scope);
        let mut charge = Charge::new(&cache, Holder::Writers, 0);
        charge.set(BUDGET / 4);
        assert!(cache.is_held_back());
        for index in present.iter().chain(&present) {
            let guard = pin();
            let found = table.get(*index, &guard);
            assert!(found.is_none_or(|it| is(it, 1, *index) && !it.block.has_prefixes()));
        }
        drop(reader);
    });
    until("it is made", || {
        cache.free_evicted();
        let guard = pin();
        let mut found = present.iter().filter_map(|index| table.get(*index, &guard));
        found.any(|cached| cached.block.has_prefixes())
    });
}

/// A thread that evicts and goes idle kept what it could not free, and what it had evicted last.
#[test]
fn an_idle_thread_keeps_no_evicted_block() {
    let cache = shared_cache();
    let tables = [1, 2].map(|number| TableCache::new(Arc::clone(&cache), number, 4_000));
    fill(&tables[0], 1, 1_000);
    std::thread::scope(|scope| {
        let reader = StandingReader::start(scope);
        let ((has_evicted, evicted), (stops, stopped)) = (mpsc::channel(), mpsc::channel::<()>());
        let table = &tables[1];
        scope.spawn(move || {
            fill(table, 2, 1_000);
            has_evicted.send(()).unwrap();
            let _ = stopped.recv();
        });
        evicted.recv().unwrap();
        drop(reader);
        until("all that was evicted is freed", || {
            cache.free_evicted();
            cache.budget().evicted() == 0
        });
        drop(stops);
    });
}
