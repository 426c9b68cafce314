//! Whatever reads bytes of a file, given bytes that somebody made up: no panic, and what was read
//! can be used. Checksums come before these readers; here they have none to hide behind, or the
//! right ones.

use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};

use super::*;
use crate::batch::{Batch, decode};
use crate::blob::{BlobMeta, BlobShare};
use crate::block::Block;
use crate::compress::{Codec, decompress};
use crate::expiry::{self, ExpiryCount};
use crate::filter::Filter;
use crate::manifest::fuzzed;
use crate::options::Options;
use crate::table::format::{BlockType, FOOTER_BYTES, read_block, read_footer};
use crate::table::index::Index;
use crate::table::properties::{Properties, decode_ranges, encode_ranges};
use crate::version::{FileMeta, VersionEdit};

/// Which reader an input goes to is its first byte.
const BATCH: u8 = 0;
const EDIT: u8 = 1;
const PROPERTIES: u8 = 2;
const RANGES: u8 = 3;
const FILTER: u8 = 4;
const INDEX: u8 = 5;
const BLOCK: u8 = 6;
const PAGES: u8 = 7;
const LINE: u8 = 8;
const COMPRESSED: u8 = 9;

const KINDS: u8 = 10;

fn headed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
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
    let filter = read_block(&*file, properties.filter.unwrap().stored, BlockType::Filter).unwrap();
    let parsed = Index::parse(&index, properties.data_bytes, &Comparator::Bytewise).unwrap();
    let block = read_block(&*file, parsed.block(0), BlockType::Data).unwrap();
    let (bytes, data_bytes) = (meta.bytes, properties.data_bytes);
    Parts { bytes, data_bytes, properties: stored, index, filter, block }
}

/// Reads a block in every way; its content may be anything.
fn check_block(bytes: &[u8], dice: &mut Dice) -> Shape {
    let order = Comparator::Bytewise;
    let Ok(block) = Block::new(bytes.to_vec()) else { return shape((BLOCK, 0)) };
    let mut keys = 0;
    let sound = block.verify(&order, |_, _| {
        keys += 1;
        Ok::<(), crate::block::Damage>(())
    });
    assert!(sound.is_err() || keys > 0, "a sound block has entries");
    let length = dice.below(8);
    let user = dice.bytes(length);
    let _ = block.find(&order, &user, key::trailer(5, Kind::LAST));
    shape((BLOCK, keys, sound.is_ok()))
}

fn check_batch(bytes: &[u8]) -> Shape {
    let Some(writes) = decode(bytes) else { return shape((BATCH, bytes.len() / 8)) };
    let mut again = Batch::new();
    for write in &writes {
        match write.kind {
            Kind::Put => again.put(write.key, write.value),
            Kind::Delete => again.delete(write.key),
            Kind::DeleteRange => again.delete_range(write.key, write.value),
            Kind::PutExpiring => {
                let (expires_ms, value) = expiry::split(write.value).unwrap();
                again.put_until(write.key, value, expires_ms);
            }
            Kind::Merge => again.merge(write.key, write.value),
            Kind::Blob => panic!("a batch has its values"),
        }
    }
    let payload = [again.head().as_slice(), again.entries()].concat();
    assert_eq!(decode(&payload).map(|it| it.len()), Some(writes.len()));
    shape((BATCH, writes.len().min(9)))
}

fn check_edit(bytes: &[u8]) -> Shape {
    let edit = match VersionEdit::decode(bytes) {
        Ok(edit) => edit,
        Err(what) => return shape(format!("{what:?}")),
    };
    let mut again = Vec::new();
    edit.encode(&mut again);
    let read = VersionEdit::decode(&again).map(|edit| (edit.added.len(), edit.deleted.len()));
    assert_eq!(read.ok(), Some((edit.added.len(), edit.deleted.len())));
    shape((EDIT, edit.added.len().min(5), edit.deleted.len().min(5), edit.pointers.len().min(5)))
}

/// A block of another length than its codec makes of it is refused.
fn check_compressed(bytes: &[u8]) -> Shape {
    let Some((&codec, stored)) = bytes.split_first() else { return 0 };
    let Some(codec) = Codec::from_byte(codec % 5) else { return 1 };
    let mut out = Vec::new();
    let kind = codec as u8;
    // What is stored says how large it is; a gigabyte is no mistake, and takes its time.
    match decompress(codec, stored, &mut out) {
        Ok(()) => shape((COMPRESSED, kind, out.len() / 16)),
        Err(what) => shape((COMPRESSED, kind, what)),
    }
}

#[test]
fn whatever_is_read_from_a_file_is_refused_or_can_be_used() {
    let order = Comparator::Bytewise;
    let parts = parts(&mut Draw::new(20_261));
    let mut batch = Batch::new();
    batch.put(b"key", b"value");
    batch.delete(b"");
    batch.delete_range(b"a", b"b");
    batch.put(&[7; 200], &[]);
    batch.put_until(b"until", b"then", 1 << 40);
    batch.merge(b"sum", b"1");
    let payload = [batch.head().as_slice(), batch.entries()].concat();
    let ranges = encode_ranges(&[range_delete(b"a", b"b", 7), range_delete(b"", b"x", 1 << 50)]);
    let file = FileMeta {
        number: 7,
        bytes: 1000,
        smallest: internal(b"a", 4, Kind::Put),
        largest: internal(b"zz", 900, Kind::Delete),
        entries: 12,
        sequence_min: 4,
        sequence_max: 900,
        blobs: vec![BlobShare { file: 5, records: 3, bytes: 9_000 }],
        expiries: ExpiryCount { count: 2, first_ms: 300, last_ms: 1 << 40 },
        ..FileMeta::default()
    };
    let edit = VersionEdit {
        log_id: Some(9),
        has_expiries: true,
        merge_operator: Some("keyrack.counter".to_owned()),
        options: Some(Options::default().to_store()),
        comparator: Some("keyrack.bytewise".to_owned()),
        log_from: Some(80),
        next_file: Some(8),
        last_sequence: Some(900),
        added: vec![(3, Arc::new(file))],
        deleted: vec![(0, 3), (6, 1 << 40)],
        blobs: vec![BlobMeta { number: 5, records: 9, record_bytes: 20_000, digest: 1 << 60 }],
        pointers: vec![(2, b"pointer".to_vec())],
    };
    let mut edited = Vec::new();
    edit.encode(&mut edited);
    let mut fuzzer = Fuzzer::new("flodb.files", env!("CARGO_MANIFEST_DIR"), 60_000)
        .sample(headed(BATCH, &payload))
        .sample(headed(EDIT, &edited))
        .sample(headed(PROPERTIES, &parts.properties))
        .sample(headed(RANGES, &ranges))
        .sample(headed(FILTER, &parts.filter))
        .sample(headed(INDEX, &parts.index))
        .sample(headed(BLOCK, &parts.block))
        .sample(headed(PAGES, &fuzzed::pages(&[&edited, &[7; 9000], b""])))
        .sample(headed(LINE, fuzzed::line().as_bytes()));
    for compression in COMPRESSIONS {
        let mut compressor = crate::compress::Compressor::new(compression).unwrap();
        let (codec, stored) = compressor.compress(&parts.index);
        fuzzer = fuzzer.sample([&[COMPRESSED, codec as u8], stored].concat());
    }
    fuzzer.run(|input, dice| {
        let Some((kind, bytes)) = input.split_first() else { return 0 };
        match kind % KINDS {
            BATCH => check_batch(bytes),
            EDIT => check_edit(bytes),
            PROPERTIES => shape(Properties::decode(bytes, parts.bytes).err()),
            RANGES => match decode_ranges(bytes) {
                Some(ranges) => {
                    let count = ranges.len();
                    assert_eq!(decode_ranges(&encode_ranges(&ranges)), Some(ranges));
                    shape((RANGES, count.min(9)))
                }
                None => shape((RANGES, bytes.len() / 8)),
            },
            FILTER => {
                let filter = Filter::parse(bytes);
                let is_one = filter.is_some();
                let _ = filter.is_some_and(|filter| filter.may_contain(dice.word()));
                shape((FILTER, is_one, bytes.len() / 64))
            }
            INDEX => match Index::parse(bytes, parts.data_bytes, &order) {
                Ok(index) => {
                    let at = index.find(&order, &dice.bytes(4), key::trailer(5, Kind::LAST));
                    assert!(at <= index.len());
                    shape((INDEX, index.len()))
                }
                Err(what) => shape(format!("{what:?}")),
            },
            BLOCK => check_block(bytes, dice),
            PAGES => fuzzed::check_pages(bytes, dice),
            LINE => fuzzed::check_line(bytes),
            _ => check_compressed(bytes),
        }
    });
}
