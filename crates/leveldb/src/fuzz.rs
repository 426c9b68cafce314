//! Files of a store that somebody made up, with checksums that are right: what reads them refuses
//! them, or ends. The seeds are the kept stores that LevelDB wrote.

use std::path::Path;
use std::sync::Arc;

use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use keyrack_vfs::{Fs, MemFs, OpenOptions, RealFs};

use crate::batch::decode;
use crate::block::Block;
use crate::coding::{Bytes, masked_crc};
use crate::error::Error;
use crate::table::{unsnappy, unzstd};
use crate::{Mode, Reader};

/// Which reader an input goes to is its first byte.
const BATCH: u8 = 0;
const BLOCK: u8 = 1;
const SNAPPY: u8 = 2;
const ZSTD: u8 = 3;
const LOG: u8 = 4;
const MANIFEST: u8 = 5;
const TABLE: u8 = 6;

/// Bytes of a decompressed block that are looked at; zeros by the gigabyte compress to little.
const CONTENTS_BYTES_MAX: u64 = 1 << 20;

fn headed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}

fn kept(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    RealFs.read(&path).unwrap()
}

/// Makes the checksums of a log's fragments right, in one block.
fn repair_log(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + 7) {
        let end = at + 7 + usize::from(u16::from_le_bytes([head[4], head[5]]));
        let Some(covered) = bytes.get(at + 6..end) else { return };
        let sum = masked_crc(covered);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

fn handle(bytes: &mut Bytes<'_>) -> Option<(usize, usize)> {
    Some((usize::try_from(bytes.varint()?).ok()?, usize::try_from(bytes.varint()?).ok()?))
}

/// Makes the checksum of a table's block right, and returns it if it is raw.
fn repair_block(bytes: &mut [u8], (offset, length): (usize, usize)) -> Option<Vec<u8>> {
    let end = offset.checked_add(length)?.checked_add(1)?;
    let covered = bytes.get(offset..end)?;
    let sum = masked_crc(covered);
    let contents = covered[..length].to_vec();
    let is_raw = covered[length] == 0;
    bytes.get_mut(end..end + 4)?.copy_from_slice(&sum.to_le_bytes());
    is_raw.then_some(contents)
}

/// Makes the checksums of a table right: that of the index, and those of the blocks it names.
fn repair_table(bytes: &mut [u8]) -> Option<()> {
    let footer = bytes.len().checked_sub(48)?;
    let handles = bytes[footer..].to_vec();
    let mut handles = Bytes::new(&handles);
    handle(&mut handles)?;
    let mut index = Block::new(repair_block(bytes, handle(&mut handles)?)?).ok()?;
    while index.advance().ok()? {
        let block = handle(&mut Bytes::new(index.value()))?;
        repair_block(bytes, block);
    }
    Some(())
}

/// A store whose manifest, log or table is the given one.
fn store(name: &str, bytes: &[u8]) -> MemFs {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/store")).unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let file = fs.open(&Path::new("/store").join(name), &options).unwrap();
        file.write_at(0, bytes).unwrap();
    };
    for file in ["CURRENT", "MANIFEST-000014", "000016.log", "000005.ldb"] {
        put(file, &kept(&format!("raw/{file}")));
    }
    for file in ["000007.ldb", "000009.ldb", "000011.ldb", "000015.ldb"] {
        put(file, &kept(&format!("raw/{file}")));
    }
    put(name, bytes);
    fs
}

/// Reads a whole store in both modes. Keys ascend, and lenient reading ends.
fn read(fs: MemFs) -> Shape {
    let fs: Arc<dyn Fs> = Arc::new(fs);
    let mut shapes = Vec::new();
    for mode in [Mode::Strict, Mode::Lenient] {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let outcome = Reader::open(fs.clone(), Path::new("/store"), mode).and_then(|mut reader| {
            while let Some((key, _)) = reader.next()? {
                assert!(keys.last().is_none_or(|last| last.as_slice() < key), "keys ascend");
                keys.push(key.to_vec());
            }
            Ok(reader.lost().len())
        });
        let words: String = match outcome {
            Ok(lost) => format!("ok, {}", lost.min(5)),
            Err(Error::Io(error)) => panic!("{error}"),
            Err(error) => error.to_string().chars().filter(|c| !c.is_ascii_digit()).collect(),
        };
        shapes.push((words, keys.len() / 50));
    }
    shape(shapes)
}

fn check(kind: u8, bytes: &[u8], dice: &mut Dice) -> Shape {
    let mut bytes = bytes.to_vec();
    match kind % 7 {
        BATCH => match decode(&bytes) {
            Ok(batch) => {
                let length =
                    |write: &(&[u8], Option<&[u8]>)| write.0.len() + write.1.map_or(0, <[u8]>::len);
                let taken: usize = batch.writes.iter().map(length).sum();
                assert!(taken + 2 * batch.writes.len() + 12 <= bytes.len(), "nothing is made up");
                shape(batch.writes.len().min(9))
            }
            Err(what) => shape(what),
        },
        BLOCK => {
            let size = bytes.len();
            let mut block = match Block::new(bytes) {
                Ok(block) => block,
                Err(what) => return shape(what),
            };
            for entries in 0_usize.. {
                assert!(entries <= size / 3, "each entry has three bytes at least");
                match block.advance() {
                    Ok(true) => assert!(block.value().len() < size),
                    Ok(false) => return shape((BLOCK, entries.min(20))),
                    Err(what) => return shape((what, entries.min(20))),
                }
            }
            0
        }
        SNAPPY => match unsnappy(&bytes) {
            Ok(contents) => {
                assert!(contents.len() <= 22 * bytes.len());
                shape((SNAPPY, contents.len() / 16))
            }
            Err(what) => shape(what),
        },
        ZSTD => {
            // The frame may say how large it is.
            let said = zstd::zstd_safe::get_frame_content_size(&bytes).ok().flatten();
            if said.is_none_or(|said| said > CONTENTS_BYTES_MAX) {
                return 1;
            }
            match unzstd(&bytes) {
                Ok(contents) => shape((ZSTD, contents.len() / 16)),
                Err(what) => shape(what),
            }
        }
        LOG => {
            if !dice.once_in(8) {
                repair_log(&mut bytes);
            }
            read(store("000016.log", &bytes))
        }
        MANIFEST => {
            repair_log(&mut bytes);
            read(store("MANIFEST-000014", &bytes))
        }
        _ => {
            debug_assert_eq!(kind % 7, TABLE);
            if !dice.once_in(8) {
                repair_table(&mut bytes);
            }
            read(store("000015.ldb", &bytes))
        }
    }
}

#[test]
fn files_that_were_made_up_are_refused_or_read() {
    let batch = [&7_u64.to_le_bytes()[..], &2_u32.to_le_bytes(), b"\x01\x03key\x05value\0\x04gone"];
    let block = b"\0\x03\x02abcxy\x02\x01\0d\0\0\x01z\0\0\0\0\x01\0\0\0";
    let snappy = snap::raw::Encoder::new().compress_vec(&b"abcabcab".repeat(20)).unwrap();
    let zstd = zstd::bulk::compress(&b"abcabcab".repeat(20), 1).unwrap();
    Fuzzer::new("leveldb.files", env!("CARGO_MANIFEST_DIR"), 3_000)
        .sample(headed(BATCH, &batch.concat()))
        .sample(headed(BLOCK, block))
        .sample(headed(SNAPPY, &snappy))
        .sample(headed(ZSTD, &zstd))
        .sample(headed(LOG, &kept("raw/000016.log")))
        .sample(headed(MANIFEST, &kept("raw/MANIFEST-000014")))
        .sample(headed(TABLE, &kept("raw/000015.ldb")))
        .run(|input, dice| match input.split_first() {
            Some((kind, bytes)) => check(*kind, bytes, dice),
            None => 0,
        });
}
