//! Directories that a small writer makes: what the kept ones lack, and random ones held against a
//! model.

use crate::support::{Entries, Files, file, read};
use keyrack_leveldb_reader::{Error, Mode};
use keyrack_testkit::random::{Draw, seeds_or};
use std::collections::BTreeMap;

fn masked_crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A version of a key: sequence number, and value unless it was removed.
type Version = (u64, Option<Vec<u8>>);

fn internal(user: &[u8], version: &Version) -> Vec<u8> {
    let trailer = version.0 << 8 | u64::from(version.1.is_some());
    [user, &trailer.to_le_bytes()].concat()
}

/// Entries that are whole keys, each at a restart.
fn block(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut restarts) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        restarts.push(out.len() as u32);
        out.push(0);
        varint(&mut out, key.len() as u64);
        varint(&mut out, value.len() as u64);
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }
    for word in restarts.iter().copied().chain([restarts.len() as u32]) {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out
}

/// Appends a block as it is stored, and returns its handle.
fn store(out: &mut Vec<u8>, raw: &[u8], codec: u8) -> Vec<u8> {
    let mut stored = match codec {
        0 => raw.to_vec(),
        1 => snap::raw::Encoder::new().compress_vec(raw).unwrap(),
        _ => zstd::bulk::compress(raw, 1).unwrap(),
    };
    let mut handle = Vec::new();
    varint(&mut handle, out.len() as u64);
    varint(&mut handle, stored.len() as u64);
    stored.push(codec);
    let crc = masked_crc(&stored);
    out.extend_from_slice(&stored);
    out.extend_from_slice(&crc.to_le_bytes());
    handle
}

/// Changes the contents of blocks and records before they get their checksums.
type Tamper<'a> = &'a mut dyn FnMut(&mut Vec<u8>);

/// A table of blocks of three entries, their codecs in turn.
fn table(entries: &[(Vec<u8>, Vec<u8>)], tamper: Tamper<'_>) -> Vec<u8> {
    let (mut out, mut index) = (Vec::new(), Vec::new());
    let mut block = |entries: &[(Vec<u8>, Vec<u8>)]| {
        let mut bytes = block(entries);
        tamper(&mut bytes);
        bytes
    };
    for (number, chunk) in entries.chunks(3).enumerate() {
        let handle = store(&mut out, &block(chunk), (number % 3) as u8);
        index.push((chunk.last().unwrap().0.clone(), handle));
    }
    let metaindex = store(&mut out, &block(&[]), 0);
    let index = store(&mut out, &block(&index), 2);
    let mut footer = [metaindex, index].concat();
    footer.resize(40, 0);
    out.extend_from_slice(&footer);
    out.extend_from_slice(&0xdb47_7524_8b80_fb57_u64.to_le_bytes());
    out
}

/// Records of less than a block in all.
fn log(records: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let covered = [&[1], &record[..]].concat();
        out.extend_from_slice(&masked_crc(&covered).to_le_bytes());
        out.extend_from_slice(&(record.len() as u16).to_le_bytes());
        out.extend_from_slice(&covered);
    }
    assert!(out.len() < 32 << 10);
    out
}

fn batch(sequence: u64, writes: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
    let mut out = sequence.to_le_bytes().to_vec();
    out.extend_from_slice(&(writes.len() as u32).to_le_bytes());
    for (key, value) in writes {
        out.push(u8::from(value.is_some()));
        string(&mut out, key);
        value.iter().for_each(|value| string(&mut out, value));
    }
    out
}

/// A directory under construction.
#[derive(Default)]
struct Store {
    files: Files,
    /// Fields of the edit that name the tables.
    tables: Vec<u8>,
    next: u64,
}

impl Store {
    fn table(&mut self, level: u8, versions: &[(Vec<u8>, Version)]) {
        self.tampered_table(level, versions, &mut |_| {});
    }

    fn tampered_table(&mut self, level: u8, versions: &[(Vec<u8>, Version)], tamper: Tamper<'_>) {
        let entries: Entries = versions
            .iter()
            .map(|(key, version)| (internal(key, version), version.1.clone().unwrap_or_default()))
            .collect();
        let bytes = table(&entries, tamper);
        self.next += 1;
        self.tables.extend_from_slice(&[7, level]);
        varint(&mut self.tables, self.next);
        varint(&mut self.tables, bytes.len() as u64);
        string(&mut self.tables, &entries.first().unwrap().0);
        string(&mut self.tables, &entries.last().unwrap().0);
        self.files.push((format!("{:06}.ldb", self.next), bytes));
    }

    /// The files, with the manifest.
    fn finish(self, log_number: u64, last_sequence: u64) -> Files {
        self.tampered_finish(log_number, last_sequence, &mut |_| {})
    }

    fn tampered_finish(mut self, log_number: u64, last_sequence: u64, tamper: Tamper<'_>) -> Files {
        let mut edit = Vec::new();
        edit.push(1);
        string(&mut edit, b"leveldb.BytewiseComparator");
        for (tag, value) in [(2, log_number), (3, 10_000), (4, last_sequence), (9, 0)] {
            edit.push(tag);
            varint(&mut edit, value);
        }
        edit.extend_from_slice(&self.tables);
        tamper(&mut edit);
        self.files.push(("MANIFEST-000001".to_owned(), log(&[edit])));
        self.files.push(("CURRENT".to_owned(), b"MANIFEST-000001\n".to_vec()));
        self.files
    }
}

fn put(key: &str, sequence: u64, value: &str) -> (Vec<u8>, Version) {
    (key.as_bytes().to_vec(), (sequence, Some(value.as_bytes().to_vec())))
}

fn gone(key: &str, sequence: u64) -> (Vec<u8>, Version) {
    (key.as_bytes().to_vec(), (sequence, None))
}

fn text(entries: &Entries) -> String {
    let line = |(key, value): &(Vec<u8>, Vec<u8>)| {
        format!("{}={} ", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
    };
    entries.iter().map(line).collect()
}

/// Raw, Snappy and Zstandard in one table.
#[test]
fn blocks_of_each_codec() {
    let mut store = Store::default();
    let long = "long ".repeat(5_000);
    let versions: Vec<_> = (10..40).map(|n| put(&format!("k{n}"), n, &long)).collect();
    store.table(2, &versions);
    let outcome = read(&store.finish(0, 100), Mode::Strict).unwrap();
    assert_eq!(outcome.entries.len(), 30);
    assert!(outcome.entries.iter().all(|(_, value)| *value == long.as_bytes()));
}

/// The newest version counts, wherever it is: also where a newer one is below an older one.
#[test]
fn sequence_numbers_decide() {
    let mut store = Store::default();
    store.table(1, &[put("a", 9, "new"), put("b", 3, "old"), gone("c", 8), put("d", 2, "kept")]);
    store.table(2, &[put("a", 4, "old"), put("b", 7, "new"), put("c", 5, "old")]);
    store.table(0, &[put("a", 6, "mid"), put("a", 1, "old"), put("c", 6, "mid")]);
    let outcome = read(&store.finish(0, 100), Mode::Strict).unwrap();
    assert_eq!(text(&outcome.entries), "a=new b=new d=kept ");
}

fn two_logs(second: u64) -> Files {
    let mut store = Store::default();
    store.table(0, &[put("a", 3, "table"), put("b", 4, "table")]);
    let older = log(&[batch(5, &[(b"a", Some(b"older"))]), batch(6, &[(b"b", None)])]);
    let newer = log(&[batch(second, &[(b"a", Some(b"newer")), (b"c", Some(b"newer"))])]);
    store.files.push(("000020.log".to_owned(), older));
    store.files.push(("000021.log".to_owned(), newer));
    store.files.push(("000019.log".to_owned(), log(&[batch(1, &[(b"x", Some(b"flushed"))])])));
    store.finish(20, 4)
}

/// Two logs are there while a full memory becomes a table; the one before them is done with.
#[test]
fn logs_follow_each_other() {
    let outcome = read(&two_logs(7), Mode::Strict).unwrap();
    assert_eq!(text(&outcome.entries), "a=newer c=newer ");
    assert_eq!((outcome.stats.logs, outcome.stats.last_sequence), (2, 8));
}

/// The end of the older log is cut off between two records: the numbers tell.
#[test]
fn a_gap_in_the_sequence_numbers_is_damage() {
    for second in [6, 8, 100] {
        let refused = read(&two_logs(second), Mode::Strict);
        assert!(
            matches!(&refused, Err(Error::Corruption { path, .. }) if path.ends_with("000021.log")),
            "{second}: {refused:?}"
        );
        let outcome = read(&two_logs(second), Mode::Lenient).unwrap();
        assert_eq!(outcome.lost.len(), 1, "{second}");
        assert_eq!(text(&outcome.entries), "a=newer c=newer ", "{second}");
    }
    let mut files = two_logs(7);
    let older = file(&mut files, "000020.log");
    older.truncate(older.len() - 22);
    assert!(read(&files, Mode::Strict).is_err(), "a record fewer");
    let outcome = read(&files, Mode::Lenient).unwrap();
    assert_eq!(
        (text(&outcome.entries).as_str(), outcome.lost.len()),
        ("a=newer b=table c=newer ", 1)
    );
    files.retain(|(name, _)| name != "000020.log");
    assert!(read(&files, Mode::Strict).is_err(), "the log is missing");
}

/// Only the newest log may end within a record.
#[test]
fn an_older_log_that_is_cut_is_damage() {
    let mut files = two_logs(7);
    let older = file(&mut files, "000020.log");
    older.truncate(older.len() - 3);
    assert!(matches!(read(&files, Mode::Strict), Err(Error::Corruption { .. })));
    let outcome = read(&files, Mode::Lenient).unwrap();
    assert!(!outcome.lost.is_empty() && outcome.lost.iter().all(|lost| !lost.is_cut_tail));
    let mut files = two_logs(7);
    let newer = file(&mut files, "000021.log");
    newer.truncate(newer.len() - 3);
    let outcome = read(&files, Mode::Strict).unwrap();
    assert!(outcome.lost.len() == 1 && outcome.lost[0].is_cut_tail, "{:?}", outcome.lost);
    assert_eq!(text(&outcome.entries), "a=older ");
}

/// Checksums are right and the contents are not: what only a hand can make.
#[test]
fn crafted_tables_are_refused() {
    let refused = |make: &dyn Fn(&mut Vec<u8>) -> Vec<u8>| {
        let mut store = Store::default();
        store.table(1, &[put("a", 1, "x"), put("b", 2, "y")]);
        let mut files = store.finish(0, 9);
        let bytes = file(&mut files, "000001.ldb");
        let len = bytes.len();
        let mut made = make(&mut Vec::new());
        // The manifest knows the length: the data is padded in front of the footer.
        assert!(made.len() + 48 <= len, "{} of {len}", made.len());
        let footer = made.split_off(made.len() - 40);
        made.resize(len - 48, 0);
        made.extend_from_slice(&footer);
        made.extend_from_slice(&0xdb47_7524_8b80_fb57_u64.to_le_bytes());
        *bytes = made;
        match read(&files, Mode::Strict) {
            Err(Error::Corruption { what, .. }) => what,
            other => panic!("{other:?}"),
        }
    };
    // The footer is 40 bytes at the end of what these give.
    let with_index = |out: &mut Vec<u8>, index: &[u8]| -> Vec<u8> {
        let handle = store(out, index, 0);
        let mut footer = [&[0, 0][..], &handle].concat();
        footer.resize(40, 0);
        [&out[..], &footer].concat()
    };
    let what = refused(&|out| with_index(out, &[0xff; 12]));
    assert!(what.contains("restarts"), "{what}");
    let what = refused(&|_| vec![0xff; 40]);
    assert!(what.contains("footer"), "{what}");
    let what = refused(&|_| [&[0, 0][..], &[0xff; 9], &[1], &[5], &[0; 27]].concat());
    assert!(what.contains("beyond the table"), "{what}");
    let key = internal(b"a", &(1, Some(Vec::new())));
    let what = refused(&|out| with_index(out, &block(&[(key.clone(), vec![0x80])])));
    assert!(what.contains("no handle"), "{what}");
    let bomb = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0];
    let what = refused(&|out| {
        let mut stored = bomb.to_vec();
        stored.push(1);
        let crc = masked_crc(&stored);
        out.extend_from_slice(&stored);
        out.extend_from_slice(&crc.to_le_bytes());
        with_index(out, &block(&[(key.clone(), vec![0, bomb.len() as u8])]))
    });
    assert!(what.contains("impossible length"), "{what}");
}

/// Random versions in random places against a map of the newest ones.
#[test]
fn random_stores_agree_with_a_model() {
    for seed in seeds_or(1..40) {
        println!("SEED={seed}");
        let mut draw = Draw::new(seed);
        let mut model: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        let mut places: Vec<BTreeMap<Vec<u8>, Vec<Version>>> = vec![BTreeMap::new(); 9];
        let (writes, keys) = (draw.below(400), 1 + draw.below(90));
        for sequence in 1..=writes {
            let key = format!("{:0width$}", draw.below(keys), width = (sequence % 3) as usize);
            let value = (draw.below(4) > 0).then(|| format!("{sequence}").into_bytes());
            model.insert(key.clone().into_bytes(), value.clone());
            let place = draw.below(9) as usize;
            places[place].entry(key.into_bytes()).or_default().insert(0, (sequence, value));
        }
        let mut store = Store::default();
        for (place, versions) in places.into_iter().enumerate() {
            let all: Vec<(Vec<u8>, Version)> = versions
                .into_iter()
                .flat_map(|(key, list)| list.into_iter().map(move |v| (key.clone(), v)))
                .collect();
            // Three tables of level 0; the six levels below hold up to three each.
            let level = place.saturating_sub(2) as u8;
            let tables = if level == 0 { 1 } else { 3 };
            for chunk in all.chunks((all.len() / tables + 1).max(1)) {
                store.table(level, chunk);
            }
        }
        let outcome = read(&store.finish(0, writes), Mode::Strict).unwrap();
        let right: Entries =
            model.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        assert_eq!(outcome.entries, right, "SEED={seed}");
    }
}

/// Contents are changed at random and get right checksums: an error, or entries in order, and
/// nothing worse. Where the lengths come from, this is how they are reached.
#[test]
fn changed_contents_with_right_checksums() {
    let mut outcomes = [0; 2];
    for seed in seeds_or(1..1_500) {
        println!("SEED={seed}");
        let mut draw = Draw::new(seed);
        let versions: Vec<_> = (10..24).map(|n| put(&format!("key {n}"), n, "value")).collect();
        let mut store = Store::default();
        let mut change = |bytes: &mut Vec<u8>, odds: u64| {
            if bytes.is_empty() || draw.below(odds) > 0 {
                return;
            }
            for _ in 0..1 + draw.below(3) {
                let at = draw.below(bytes.len() as u64) as usize;
                let extreme = [0, 1, 0x7f, 0x80, 0xff][draw.below(5) as usize];
                bytes[at] = if draw.below(2) == 0 { extreme } else { draw.below(256) as u8 };
                if draw.below(8) == 0 {
                    bytes.truncate(at);
                    return;
                }
            }
        };
        store.tampered_table(1, &versions, &mut |bytes| change(bytes, 4));
        let mut record = batch(24, &[(b"key 30", Some(b"value")), (b"key 12", None)]);
        change(&mut record, 3);
        store.files.push(("000020.log".to_owned(), log(&[record])));
        let files = store.tampered_finish(20, 23, &mut |bytes| change(bytes, 6));
        outcomes[usize::from(read(&files, Mode::Strict).is_ok())] += 1;
        // Lenient reading passes by what it cannot use, and so sees more.
        let _ = read(&files, Mode::Lenient);
    }
    let [refused, read] = outcomes;
    assert!(refused + read == 1 || refused.min(read) > 100, "{refused} refused, {read} read");
}
