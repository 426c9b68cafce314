//! Many threads on a few tables with a cache that is much too small.

use super::*;
use crate::cursor::Cursor;
use keyrack_testkit::random::{Announced, seeds};
use std::sync::atomic::{AtomicBool, Ordering as Atomic};

/// The value of a key in a table says which key and table it is.
fn value_of(table: u64, number: u32) -> Vec<u8> {
    format!("value {number} of table {table}, ").repeat(1 + number as usize % 7).into_bytes()
}

fn table_of(number: u64, cache: &Arc<BlockCache>, fs: &MemFs) -> Arc<Table> {
    let table = Table::open(fs, path(), number, &reading(cache, &Comparator::Bytewise)).unwrap();
    Arc::new(table)
}

fn disk_of(number: u64) -> MemFs {
    let entries: Vec<Entry> = (0..2_000)
        .map(|key| (internal(&key.to_string().into_bytes(), 5, Kind::Put), value_of(number, key)))
        .collect();
    let mut entries = entries;
    sort(&mut entries, &Comparator::Bytewise);
    written(&TableOptions { block_bytes: 512, ..TableOptions::default() }, &entries).0
}

fn read_around(table: &Arc<Table>, number: u64, draw: &mut Draw) {
    let key = draw.below(2_000) as u32;
    let user = key.to_string().into_bytes();
    if draw.below(4) > 0 {
        let found = get(table, &user, 9).unwrap().map(|(_, _, value)| value);
        assert_eq!(found, Some(value_of(number, key)), "key {key} of table {number}");
        return;
    }
    let mut cursor = table.cursor(random_read_options(draw));
    cursor.seek(&internal(&user, 9, Kind::LAST)).unwrap();
    for _ in 0..draw.below(100) {
        let Some((found, value)) = cursor.entry() else { return };
        let key = std::str::from_utf8(key::user_of(found)).unwrap().parse().unwrap();
        assert_eq!(value, value_of(number, key));
        if draw.below(3) > 0 { cursor.next() } else { cursor.prev() }.unwrap();
    }
}

#[test]
fn readers_of_a_small_cache_see_their_own_blocks() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let cache = Arc::new(BlockCache::new(20_000));
        let disks: Vec<MemFs> = (0..3).map(disk_of).collect();
        let tables: Vec<Arc<Table>> =
            (0..3).map(|number| table_of(number, &cache, &disks[number as usize])).collect();
        let reading = AtomicBool::new(true);
        std::thread::scope(|scope| {
            // Opens a table, reads a little, and drops it with its blocks, again and again.
            let (disk, cache, reading) = (&disks[0], &cache, &reading);
            scope.spawn(move || {
                let mut draw = Draw::new(seed ^ 99);
                while reading.load(Atomic::Relaxed) {
                    let table = table_of(0, cache, disk);
                    (0..10).for_each(|_| read_around(&table, 0, &mut draw));
                }
            });
            let readers: Vec<_> = (0..4)
                .map(|thread| {
                    let tables = &tables;
                    scope.spawn(move || {
                        let mut draw = Draw::new(seed ^ thread);
                        for _ in 0..1_500 {
                            let number = draw.below(tables.len());
                            read_around(&tables[number], number as u64, &mut draw);
                        }
                    })
                })
                .collect();
            let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
            reading.store(false, Atomic::Relaxed);
            ended.into_iter().for_each(|ended| ended.unwrap());
        });
        let stats = cache.stats();
        assert!(stats.bytes <= 20_000 && stats.evicted > 100 && stats.hits > 100, "{stats:?}");
        drop(tables);
        let stats = cache.stats();
        assert_eq!((stats.blocks, stats.bytes), (0, 0), "tables take their blocks with them");
    }
}
