//! Whatever reads bytes of a file, given bytes that somebody made up: no panic, and what was read
//! can be used. Checksums come before these readers; here they have none to hide behind.
//!
//! `KEYRACK_FUZZ=n` is how many of each sort are made, in place of a few thousand.

use super::draw::{Announced, seeds};
use super::*;
use crate::batch::{Batch, decode};
use crate::block::Block;
use crate::filter::Filter;
use crate::manifest::Edit;
use crate::table::format::{BlockType, FOOTER_BYTES, read_block, read_footer};
use crate::table::index::Index;
use crate::table::properties::{Properties, decode_ranges, encode_ranges};
use crate::version::FileMeta;

/// Of each sort and seed.
const COUNT: usize = 4_000;

fn count() -> usize {
    let count = std::env::var("KEYRACK_FUZZ").ok();
    count.map_or(COUNT, |count| count.parse().expect("KEYRACK_FUZZ is a number"))
}

/// One sample, spoiled in some places.
fn spoiled(draw: &mut Draw, sample: &[u8]) -> Vec<u8> {
    let mut bytes = sample.to_vec();
    for _ in 0..1 + draw.below(4) {
        let at = draw.below(bytes.len().max(1)).min(bytes.len());
        let len = draw.below(12).min(bytes.len() - at);
        match draw.below(7) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + len)),
            2 => drop(bytes.splice(at..at, draw.bytes(len))),
            3 => {
                let copy = bytes[at..at + len].to_vec();
                drop(bytes.splice(at..at, copy));
            }
            // Numbers at an end of their range.
            4 => bytes[at..at + len].fill(*draw.one_of(&[0, 1, 0x7f, 0x80, 0xff])),
            _ if at < bytes.len() => bytes[at] = draw.next() as u8,
            _ => bytes.push(draw.next() as u8),
        }
    }
    bytes
}

/// What the parts of a table of random entries are, without their checksums.
struct Parts {
    bytes: u64,
    data_bytes: u64,
    properties: Vec<u8>,
    index: Vec<u8>,
    filter: Vec<u8>,
    block: Vec<u8>,
}

fn parts(draw: &mut Draw) -> Parts {
    let mut entries: Vec<Entry> = (0..60)
        .map(|number: u64| {
            let user = draw.one_of(&["", "a", "key", "key/with/much/in/common/"]);
            let user = format!("{user}{number:02}");
            (internal(user.as_bytes(), 1 + draw.next() % 1000, Kind::Put), draw.bytes(9))
        })
        .collect();
    entries.sort_by(|a, b| Comparator::Bytewise.internal(&a.0, &b.0));
    let with = TableOptions {
        block_bytes: 300,
        restart_interval: 3,
        compression: Compression::None,
        ..TableOptions::default()
    };
    let (fs, meta) = written(&with, &entries);
    let file = fs.open(path(), &OpenOptions::new().read(true)).unwrap();
    let (handle, footer_at) = read_footer(&*file).unwrap();
    assert_eq!(footer_at + FOOTER_BYTES as u64, meta.bytes);
    let stored = read_block(&*file, handle, BlockType::Properties).unwrap();
    let properties = Properties::decode(&stored, meta.bytes).unwrap();
    let index = read_block(&*file, properties.index, BlockType::Index).unwrap();
    let filter = read_block(&*file, properties.filter.unwrap(), BlockType::Filter).unwrap();
    let parsed = Index::parse(&index, properties.data_bytes, &Comparator::Bytewise).unwrap();
    let block = read_block(&*file, parsed.block(0), BlockType::Data).unwrap();
    let (bytes, data_bytes) = (meta.bytes, properties.data_bytes);
    Parts { bytes, data_bytes, properties: stored, index, filter, block }
}

/// Reads a block in every way; its content may be anything.
fn use_block(bytes: Vec<u8>, draw: &mut Draw) {
    let order = Comparator::Bytewise;
    let Ok(block) = Block::new(bytes) else { return };
    let mut keys = 0;
    let sound = block.verify(&order, |_, _| {
        keys += 1;
        Ok::<(), crate::block::Damage>(())
    });
    assert!(sound.is_err() || keys > 0, "a sound block has entries");
    let len = draw.below(8);
    let user = draw.bytes(len);
    let _ = block.find(&order, &user, key::trailer(5, Kind::LAST));
}

#[test]
fn whatever_is_read_from_a_file_is_refused_or_can_be_used() {
    let order = Comparator::Bytewise;
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let parts = parts(&mut draw);
        let mut batch = Batch::new();
        batch.put(b"key", b"value");
        batch.delete(b"");
        batch.delete_range(b"a", b"b");
        batch.put(&[7; 200], &[]);
        let payload = [batch.head().as_slice(), batch.entries()].concat();
        let ranges =
            encode_ranges(&[range_delete(b"a", b"b", 7), range_delete(b"", b"x", 1 << 50)]);
        let file = FileMeta {
            number: 7,
            bytes: 1000,
            smallest: internal(b"a", 4, Kind::Put),
            largest: internal(b"zz", 900, Kind::Delete),
            entries: 12,
            sequence_min: 4,
            sequence_max: 900,
            ..FileMeta::default()
        };
        let edit = Edit {
            comparator: Some("keyrack.bytewise".to_owned()),
            log_from: Some(80),
            next_file: Some(8),
            last_sequence: Some(900),
            added: vec![(3, Arc::new(file))],
            deleted: vec![(0, 3), (6, 1 << 40)],
            pointers: vec![(2, b"pointer".to_vec())],
        };
        let mut edited = Vec::new();
        edit.encode(&mut edited);
        for _ in 0..count() {
            if let Some(writes) = decode(&spoiled(&mut draw, &payload)) {
                let mut again = Batch::new();
                for write in &writes {
                    match write.kind {
                        Kind::Put => again.put(write.key, write.value),
                        Kind::Delete => again.delete(write.key),
                        Kind::DeleteRange => again.delete_range(write.key, write.value),
                    }
                }
                let payload = [again.head().as_slice(), again.entries()].concat();
                assert_eq!(decode(&payload).map(|it| it.len()), Some(writes.len()));
            }
            if let Ok(edit) = Edit::decode(&spoiled(&mut draw, &edited)) {
                let mut again = Vec::new();
                edit.encode(&mut again);
                let read = Edit::decode(&again).map(|edit| (edit.added.len(), edit.deleted.len()));
                assert_eq!(read.ok(), Some((edit.added.len(), edit.deleted.len())));
            }
            let _ = Properties::decode(&spoiled(&mut draw, &parts.properties), parts.bytes);
            if let Some(ranges) = decode_ranges(&spoiled(&mut draw, &ranges)) {
                assert_eq!(decode_ranges(&encode_ranges(&ranges)), Some(ranges));
            }
            if let Some(filter) = Filter::parse(&spoiled(&mut draw, &parts.filter)) {
                filter.may_contain(draw.next());
            }
            let index = Index::parse(&spoiled(&mut draw, &parts.index), parts.data_bytes, &order);
            if let Ok(index) = index {
                let at = index.find(&order, &draw.bytes(4), key::trailer(5, Kind::LAST));
                assert!(at <= index.len());
            }
            let bytes = spoiled(&mut draw, &parts.block);
            use_block(bytes, &mut draw);
        }
    }
}
