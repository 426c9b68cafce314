//! Our files are read back, damaged files are errors and never panics, and files of other writers
//! are taken in.

use super::{SCHEMA, read, write};
use crate::archive::item::{Facts, Item};
use keyrack_console::Failure;
use keyrack_deltafs::Kind;
use keyrack_vfs::{File, Fs, MemFs, OpenOptions};
use keyrack_workload::Rng;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::path::Path;
use std::sync::Arc;

fn file(bytes: &[u8]) -> Arc<dyn File> {
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = MemFs::new().open(Path::new("/f"), &options).unwrap();
    file.append(bytes).unwrap();
    file
}

fn written(items: &[Item]) -> Vec<u8> {
    let (mut left, mut bytes) = (items.iter().cloned(), Vec::new());
    write(&mut bytes, &mut || Ok(left.next().map(|item| (item, None)))).unwrap();
    bytes
}

fn taken(bytes: &[u8]) -> Result<Vec<Item>, Failure> {
    let mut found = Vec::new();
    read(file(bytes), &mut |item, _| {
        found.push(item);
        Ok(())
    })?;
    Ok(found)
}

/// What comes back of what was written.
fn plain(items: &[Item]) -> Vec<Item> {
    items.iter().map(|item| Item { facts: None, ..item.clone() }).collect()
}

fn random_items(count: u64, data_max: u64, seed: u64) -> Vec<Item> {
    let mut rng = Rng::from_seed(seed);
    let mut items = Vec::new();
    for index in 0..count {
        let kind = [Kind::File, Kind::File, Kind::Dir, Kind::Symlink][rng.below(4) as usize];
        let mut bytes = |max: u64| -> Vec<u8> {
            (0..rng.below(max + 1)).map(|_| rng.below(256) as u8).collect()
        };
        let (mut name, bytes) = (bytes(40), bytes(data_max));
        name.retain(|byte| !matches!(byte, 0 | b'/'));
        let path = [format!("d{}/{index}", index % 7).as_bytes(), &name[..]].concat();
        let is_elsewhere = kind == Kind::File && rng.below(5) == 0;
        let data = match kind {
            Kind::Dir => None,
            Kind::File if is_elsewhere => None,
            _ => Some(bytes),
        };
        let size = match (&data, kind) {
            (Some(data), _) => data.len() as u64,
            (None, Kind::Dir) => 0,
            (None, _) => 1 + rng.below(1 << 62),
        };
        items.push(Item {
            path,
            kind,
            mode: rng.below(0o10000) as u32,
            uid: rng.below(1 << 32) as u32,
            gid: rng.below(1 << 32) as u32,
            mtime_ns: rng.below(1 << 63),
            size,
            data,
            facts: Some(Facts {
                inode: u128::from(rng.below(u64::MAX)) << 64 | u128::from(index),
                nlink: rng.below(1 << 40),
                ctime_ns: rng.below(1 << 63),
            }),
        });
    }
    items
}

#[test]
fn what_is_written_is_read_over_groups_and_batches() {
    let seed = 20_261_122;
    println!("SEED={seed}");
    assert_eq!(taken(&written(&[])).unwrap(), []);
    let mut items = random_items(3000, 30, seed);
    // Enough bytes for a second group.
    for item in random_items(4500, 1, seed + 1) {
        let data = (item.kind == Kind::File).then(|| vec![b'x'; 8000]);
        let size = data.as_ref().map_or(item.size, |data| data.len() as u64);
        items.push(match item.kind {
            Kind::File => Item { data, size, ..item },
            _ => item,
        });
    }
    let bytes = written(&items);
    let footer = parquet::file::serialized_reader::SerializedFileReader::new(
        super::source::Source::new(file(&bytes)).unwrap(),
    )
    .unwrap();
    use parquet::file::reader::FileReader as _;
    assert_eq!(footer.num_row_groups(), 2);
    assert!(taken(&bytes).unwrap() == plain(&items), "what comes back differs");
}

#[test]
fn a_damaged_or_truncated_file_is_told_and_never_a_panic() {
    let items = random_items(40, 20, 7);
    let (whole, expected) = (written(&items), plain(&items));
    let mut unseen = 0;
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            match taken(&bytes) {
                Err(failure) => {
                    let message = failure.message();
                    assert!(
                        message.contains("damaged") || message.contains("column"),
                        "byte {at}: {message}"
                    );
                }
                // Of the footer some bytes say nothing about rows.
                Ok(found) => {
                    unseen += 1;
                    assert!(found == expected, "byte {at} changed what is read");
                }
            }
        }
    }
    println!("{} bytes, {unseen} of {} flips say nothing", whole.len(), whole.len() * 3);
    for len in 0..whole.len() {
        let failure = taken(&whole[..len]).unwrap_err();
        assert!(failure.message().contains("damaged"), "{len}: {}", failure.message());
    }
    // What stands before the footer is known to be as it was.
    let mut bytes = whole.clone();
    bytes[10] ^= 4;
    let failure = taken(&bytes).unwrap_err();
    assert_eq!(failure.status(), 3);
    assert!(failure.message().contains("nothing was taken in"), "{}", failure.message());
}

/// A file of somebody else, of one row: a path, a kind, and up to one more column.
fn foreign(more: &str, numbers: Option<i64>) -> Vec<u8> {
    let schema =
        format!("message m {{ optional binary path; required binary kind (UTF8); {more} }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for text in ["./a/b/", "f"] {
        let mut column = group.next_column().unwrap().unwrap();
        let value = [ByteArray::from(text)];
        column.typed::<ByteArrayType>().write_batch(&value, Some(&[1]), None).unwrap();
        column.close().unwrap();
    }
    if let Some(number) = numbers {
        let mut column = group.next_column().unwrap().unwrap();
        if more.contains("int32") {
            column.typed::<Int32Type>().write_batch(&[number as i32], None, None)
        } else {
            column.typed::<Int64Type>().write_batch(&[number], None, None)
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn columns_of_others_are_taken_by_name_and_type() {
    let one = |more: &str, number| taken(&foreign(more, number)).map(|items| items[0].clone());
    let bare = one("", None).unwrap();
    assert_eq!((&bare.path[..], bare.mode, bare.data), (&b"a/b"[..], 0o644, Some(Vec::new())));
    for (column, number, ns) in [
        ("required int64 mtime (TIMESTAMP(MILLIS,true));", 3, 3_000_000),
        ("required int64 mtime (TIMESTAMP(MICROS,false));", 3, 3_000),
        ("required int64 mtime (TIMESTAMP_MICROS);", 3, 3_000),
        ("required int64 mtime;", 3, 3),
        ("required int64 mtime;", -3, 0),
    ] {
        assert_eq!(one(column, Some(number)).unwrap().mtime_ns, ns, "{column}");
    }
    assert_eq!(one("required int64 mode;", Some(0o600)).unwrap().mode, 0o600);
    assert_eq!(one("required int32 uid (UINT_32);", Some(-1)).unwrap().uid, u32::MAX);
    assert_eq!(one("required int32 other;", Some(-1)).unwrap().uid, 0);
    for (column, number, words) in [
        ("required int32 uid;", -1, "row 1: uid is -1, below zero"),
        ("required int64 gid;", 1 << 33, "row 1: gid is too large"),
        ("required int64 mode;", 0o100_644, "row 1: mode 100644 has more"),
        ("required int64 mtime (TIMESTAMP(MILLIS,true));", i64::MAX, "row 1: mtime is too large"),
        ("required int64 data;", 1, "column data is INT64; it has to be bytes"),
        ("required int32 mtime;", 1, "column mtime is INT32"),
    ] {
        let failure = one(column, Some(number)).unwrap_err();
        assert_eq!(failure.status(), 2);
        assert!(failure.message().contains(words), "{}", failure.message());
    }
}

#[test]
fn the_page_about_the_format_has_the_schema() {
    let page = include_str!("../../../../../docs/formats/parquet.md");
    assert!(page.contains(SCHEMA), "docs/formats/parquet.md has another schema:\n{SCHEMA}");
}

#[test]
fn a_time_that_parquet_cannot_hold_is_refused_by_name() {
    let mut item = random_items(1, 1, 3).remove(0);
    item.mtime_ns = 1 << 63;
    let mut left = vec![item].into_iter();
    let failure = write(Vec::new(), &mut || Ok(left.next().map(|item| (item, None)))).unwrap_err();
    assert!(failure.message().contains("its mtime is after the year 2262"));
}
