//! Large values in blob files: every reader finds them, their account is exact, their space comes
//! back, and damage to one costs no other.

use crate::disk::{copy, files, flip, replace, tables};
use crate::support::{DIR, Model, idle, of_levels, open, rows, stat, try_open, walk};
use keyrack_flodb::{
    Comparator, Compression, Db, Durability, Error, IngestOptions, Item, Options, ReadOptions,
    Spaces, SstWriter, WriteOptions, dump, repair, verify,
};
use keyrack_testkit::damage::directory;
use keyrack_testkit::random::Draw;
use keyrack_vfs::{Fs, MemFs, RealFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The least that may go to a blob file.
const LEAST: usize = 1 << 10;
/// Bytes of a record beside its key and value.
const HEADER: u64 = 24;
/// Bytes of a blob file beside its records.
const FRAME: u64 = 72;

pub(crate) fn options() -> Options {
    Options { blob_bytes_min: LEAST, ..idle() }
}

/// The same without compression: the account is then one of lengths that a test knows.
fn plain() -> Options {
    Options { compression: vec![Compression::None], ..options() }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

/// Of a few lengths from the least on; one of five is smaller.
fn value(n: u32, round: u32) -> Vec<u8> {
    let len = [LEAST - 1, LEAST, LEAST + 1, 1500, 3000][n as usize % 5];
    let mut value = format!("{n} in round {round}, ").into_bytes();
    value.resize(len, n as u8);
    value
}

fn record_bytes(n: u32) -> u64 {
    let len = value(n, 0).len();
    if len < LEAST { 0 } else { HEADER + (key(n).len() + len) as u64 }
}

fn put(db: &Db, model: &mut Model, keys: impl Iterator<Item = u32>, round: u32) {
    for n in keys {
        db.put(&key(n), &value(n, round)).unwrap();
        model.insert(key(n), value(n, round));
    }
}

fn blobs(disk: &MemFs) -> Vec<PathBuf> {
    let is_blob = |path: &PathBuf| path.extension().is_some_and(|it| it == "blob");
    let in_dir = |path: &PathBuf| path.parent() == Some(Path::new(DIR));
    files(disk).into_keys().filter(is_blob).filter(in_dir).collect()
}

/// Gets, and walks both ways, all give what is in the model.
fn reads(db: &Db, model: &Model) {
    assert!(rows(db) == *model);
    let mut iter = db.iter().unwrap();
    iter.seek_last().unwrap();
    for (key, value) in model.iter().rev() {
        assert_eq!(iter.entry(), Some((&key[..], &value[..])));
        iter.prev().unwrap();
    }
    assert!(iter.entry().is_none());
    let keys: Vec<&[u8]> = model.keys().map(Vec::as_slice).collect();
    let mut found = 0;
    let check = |at: usize, value: Option<&[u8]>| {
        assert_eq!(value, model.get(keys[at]).map(Vec::as_slice));
        found += 1;
    };
    db.multi_get(&keys, check).unwrap();
    assert_eq!(found, model.len());
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        let once = ReadOptions { fill_cache: false, verify_checksums: false, ..Default::default() };
        assert_eq!(db.read_with(None, key, once, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
    }
}

#[test]
fn large_values_leave_the_tables_and_every_reader_finds_them() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, options());
    put(&db, &mut model, 0..30, 0);
    reads(&db, &model);
    assert_eq!((stat(&db, "blob_files"), stat(&db, "blob_bytes")), (0, 0));
    db.flush().unwrap();
    reads(&db, &model);
    let records: u64 = (0..30).map(record_bytes).sum();
    assert_eq!(stat(&db, "blob_bytes"), stat(&db, "blob_files") * FRAME + records);
    assert_eq!(stat(&db, "blob_bytes_written"), stat(&db, "blob_bytes"));
    assert_eq!(stat(&db, "blob_dead_bytes"), 0);
    assert!(stat(&db, "level0_bytes") < 12_000, "small values and places");
    let size = db.approximate_size(b"", b"z");
    assert!((records..records + 12_000).contains(&size), "{size} of {records}");

    let (snapshot, then) = (db.snapshot(), model.clone());
    put(&db, &mut model, (0..30).step_by(2), 1);
    db.delete(&key(7)).unwrap();
    model.remove(&key(7));
    db.compact_range(None, None).unwrap();
    reads(&db, &model);
    assert!(walk(db.iter_at(&snapshot).unwrap()).unwrap().into_iter().eq(then.clone()));
    let old = db.get_at(&snapshot, &key(2), <[u8]>::to_vec).unwrap();
    assert_eq!(old.as_ref(), then.get(&key(2)));
    drop(snapshot);
    db.close().unwrap();

    for paranoid_checks in [false, true] {
        let db = open(&disk, Options { paranoid_checks, ..options() });
        reads(&db, &model);
        drop(db);
        let with = Options { paranoid_checks, ..options() };
        let fs = Arc::new(disk.clone());
        reads(&Db::open_read_only_in(fs, Path::new(DIR), with).unwrap(), &model);
    }
}

/// The account of dead bytes is that of the records that nobody refers to, to the byte.
#[test]
fn dead_bytes_are_exact_and_come_back_from_half_on() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, Options { table_bytes: 1 << 20, ..plain() });
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    let first = blobs(&disk);
    assert_eq!(first.len(), 1);
    put(&db, &mut model, 0..8, 1);
    (8..12).for_each(|n| db.delete(&key(n)).unwrap());
    (8..12).for_each(|n| drop(model.remove(&key(n))));
    db.flush().unwrap();
    assert_eq!(stat(&db, "blob_dead_bytes"), 0, "both versions are in tables");
    db.compact_range(None, None).unwrap();
    let dead: u64 = (0..12).map(record_bytes).sum();
    assert_eq!(stat(&db, "blob_dead_bytes"), dead);
    assert_eq!(stat(&db, "blob_bytes_collected"), 0);
    db.delete_range(&key(12), &key(28)).unwrap();
    model.retain(|at, _| !(key(12)..key(28)).contains(at));
    db.compact_range(None, None).unwrap();
    reads(&db, &model);
    assert_eq!(stat(&db, "blob_dead_bytes"), 0);
    let live: u64 = (0..8).chain(28..40).map(record_bytes).sum();
    assert_eq!(stat(&db, "blob_bytes"), stat(&db, "blob_files") * FRAME + live);
    let large = (28..40).filter(|n| record_bytes(*n) > 0);
    let collected: usize = large.map(|n| value(n, 0).len()).sum();
    assert_eq!(stat(&db, "blob_bytes_collected"), collected as u64);
    db.close().unwrap();
    // A reader may have kept it until then.
    assert!(!disk.exists(&first[0]).unwrap(), "{first:?}");
    let db = open(&disk, Options { table_bytes: 1 << 20, ..plain() });
    assert_eq!(blobs(&disk).len() as u64, stat(&db, "blob_files"));
    db.delete_range(b"", b"z").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(stat(&db, "blob_files"), 0);
    db.close().unwrap();
    assert!(blobs(&disk).is_empty());
    assert!(rows(&open(&disk, plain())).is_empty());
}

/// A value is compressed as the last level is, if that makes it smaller.
#[test]
fn values_are_compressed_where_that_saves_an_eighth() {
    let noise: Vec<u8> = Draw::new(5).bytes(3000);
    for codec in [Compression::Snappy, Compression::Lz4, Compression::Zstd(3)] {
        let disk = MemFs::new();
        let compression = vec![Compression::None, codec];
        let db = open(&disk, Options { compression, ..options() });
        let mut model = Model::new();
        put(&db, &mut model, 0..40, 0);
        db.flush().unwrap();
        let raw: u64 = (0..40).map(record_bytes).sum();
        assert!(stat(&db, "blob_bytes") < raw / 4, "{codec:?}: {}", stat(&db, "blob_bytes"));
        let before = stat(&db, "blob_bytes");
        db.put(b"noise", &noise).unwrap();
        model.insert(b"noise".to_vec(), noise.clone());
        db.flush().unwrap();
        let noisy = FRAME + HEADER + 5 + noise.len() as u64;
        assert_eq!(stat(&db, "blob_bytes") - before, noisy, "{codec:?}");
        reads(&db, &model);
        db.rewrite().unwrap();
        reads(&db, &model);
        assert!(stat(&db, "blob_bytes") < raw / 4 + noisy, "{codec:?}");
        db.close().unwrap();
        let report = verify(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
        assert!(report.findings.is_empty(), "{codec:?}: {:?}", report.findings);
    }
}

/// The background collects by itself, and what was written goes as well.
#[test]
fn the_background_empties_files_that_are_mostly_dead() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, Options { compaction_threads: 1, ..options() });
    for round in 0..30 {
        put(&db, &mut model, 0..100, round);
        db.flush().unwrap();
    }
    // What is left over for the background is bounded by what one compaction of level 0 leaves.
    while stat(&db, "blob_dead_bytes") * 2 > stat(&db, "blob_bytes") {
        assert_eq!(db.property("keyrack.background-error").as_deref(), Some(""));
        std::thread::yield_now();
    }
    let live: u64 = (0..100).map(record_bytes).sum();
    db.compact_range(None, None).unwrap();
    assert!(stat(&db, "blob_bytes") <= 2 * live + FRAME * stat(&db, "blob_files"));
    reads(&db, &model);
}

#[test]
fn no_reader_loses_a_value_that_is_collected() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, options());
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    let (then, first) = (model.clone(), blobs(&disk));
    let (iter, snapshot) = (db.iter().unwrap(), db.snapshot());
    put(&db, &mut model, 0..40, 1);
    db.compact_range(None, None).unwrap();
    let seen = walk(db.iter_at(&snapshot).unwrap()).unwrap();
    assert!(seen.into_iter().eq(then.clone()));
    drop(snapshot);
    db.rewrite().unwrap();
    reads(&db, &model);
    // No version has them, but the iterator does.
    assert!(first.iter().all(|path| disk.exists(path).unwrap()));
    db.close().unwrap();
    assert!(walk(iter).unwrap().into_iter().eq(then), "also when the store is closed");
    let db = open(&disk, options());
    assert!(first.iter().all(|path| !disk.exists(path).unwrap()));
    reads(&db, &model);
}

#[test]
fn a_drop_filter_sees_the_values() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, options());
    // A place of ten bytes is none of the values.
    let is_odd = |_: &[u8], value: &[u8]| {
        value.len() >= LEAST - 1 && value.last().is_some_and(|n| n % 2 == 1)
    };
    assert!(db.set_drop_filter(Arc::new(is_odd)));
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    model.retain(|_, value| value.last().is_some_and(|n| n % 2 == 0));
    reads(&db, &model);
    assert_eq!(stat(&db, "filtered_entries"), 20);
}

#[test]
fn rewriting_puts_values_where_the_options_say() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, idle());
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    assert!(blobs(&disk).is_empty());
    db.close().unwrap();
    for least in [LEAST, 2000, 0, LEAST] {
        let db = open(&disk, Options { blob_bytes_min: least, ..plain() });
        reads(&db, &model);
        db.rewrite().unwrap();
        reads(&db, &model);
        let is_apart = |n: &u32| least > 0 && value(*n, 0).len() >= least;
        let records: u64 =
            (0..40).filter(is_apart).map(|n| HEADER + 7 + value(n, 0).len() as u64).sum();
        assert_eq!(stat(&db, "blob_bytes"), records + FRAME * stat(&db, "blob_files"));
        db.close().unwrap();
        let fs = Arc::new(disk.clone());
        assert!(verify(fs, Path::new(DIR), &options()).unwrap().findings.is_empty());
    }
    // What is in blob files stays readable when no more values go there, and the option is kept.
    let stored = Options::default().with_stored(&disk, Path::new(DIR)).unwrap();
    assert_eq!(stored.blob_bytes_min, LEAST);
}

/// A store with few large values does not get one file more with each flush.
#[test]
fn small_blob_files_are_merged() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, Options { table_bytes: 1 << 20, ..options() });
    for n in (0..200).map(|n| n * 7 % 200) {
        put(&db, &mut model, 5 * n + 3..5 * n + 4, 0);
        db.flush().unwrap();
        if model.len() % 10 == 0 {
            db.compact_range(None, None).unwrap();
        }
    }
    assert_eq!(stat(&db, "blob_dead_bytes"), 0);
    assert!(stat(&db, "blob_files") < 50, "{}", stat(&db, "blob_files"));
    reads(&db, &model);
}

#[test]
fn less_than_a_kibibyte_is_refused() {
    for least in [1, LEAST - 1] {
        let error = try_open(&MemFs::new(), Options { blob_bytes_min: least, ..idle() });
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("blob_bytes_min must be 0, for no blob files, or at least 1024"),
            "{message}"
        );
    }
}

#[test]
fn a_checkpoint_has_its_blob_files() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, options());
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    put(&db, &mut model, 20..60, 1);
    db.checkpoint("/copy").unwrap();
    let then = model.clone();
    put(&db, &mut model, 0..60, 2);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    Db::destroy(&disk, Path::new(DIR)).unwrap();
    assert!(!disk.exists(Path::new(DIR)).unwrap());
    let fs: Arc<dyn Fs> = Arc::new(disk);
    let report = verify(Arc::clone(&fs), Path::new("/copy"), &options()).unwrap();
    assert!(report.findings.is_empty() && report.blobs > 0, "{report:?}");
    let copy = Db::open_in(Arc::clone(&fs), Path::new("/copy"), options()).unwrap();
    reads(&copy, &then);
}

#[test]
fn key_spaces_have_large_values_too() {
    let disk = Arc::new(MemFs::new());
    let spaces = Spaces::open_in(disk.clone(), Path::new(DIR), options(), &[]).unwrap();
    let names = ["one", "two"];
    for name in names {
        let space = spaces.create(name, &Comparator::Bytewise).unwrap();
        for n in 0..20 {
            space.put(&key(n), &value(n, name.len() as u32)).unwrap();
        }
    }
    spaces.compact().unwrap();
    let files = spaces.property("keyrack.blob_files").unwrap();
    assert!(files.parse::<f64>().unwrap() > 0.0);
    for name in names {
        let space = spaces.get(name).unwrap();
        for n in 0..20 {
            assert_eq!(space.get(&key(n)).unwrap().unwrap(), value(n, name.len() as u32));
        }
    }
}

/// Tables from outside have their values inside, until a compaction takes them out. The table of a
/// store with blob files is not one from outside.
#[test]
fn tables_from_outside_are_taken_in_with_their_values() {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, options());
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    let path = Path::new("/bulk");
    let mut writer = SstWriter::create(&disk, path, &options()).unwrap();
    for n in 20..60 {
        writer.put(&key(n), &value(n, 1)).unwrap();
        model.insert(key(n), value(n, 1));
    }
    writer.finish().unwrap();
    db.ingest(&[path], IngestOptions::default()).unwrap();
    reads(&db, &model);
    db.compact_range(None, None).unwrap();
    db.rewrite().unwrap();
    reads(&db, &model);
    let live: u64 = (0..60).map(record_bytes).sum();
    assert_eq!(stat(&db, "blob_bytes"), live + FRAME * stat(&db, "blob_files"));
    let error = db.ingest(&[&tables(&disk)[0]], IngestOptions::default()).unwrap_err();
    assert!(error.to_string().contains("a table of a store"), "{error}");
}

/// A closed store with blob files that are half used, and what is in it.
fn sample() -> (MemFs, Model) {
    sample_of(&options())
}

fn sample_of(options: &Options) -> (MemFs, Model) {
    let (disk, mut model) = (MemFs::new(), Model::new());
    let db = open(&disk, Options { segment_bytes: 64 << 10, ..options.clone() });
    put(&db, &mut model, 0..40, 0);
    db.compact_range(None, None).unwrap();
    put(&db, &mut model, (0..40).step_by(4), 1);
    db.compact_range(None, None).unwrap();
    put(&db, &mut model, 60..70, 2);
    db.flush().unwrap();
    put(&db, &mut model, 80..84, 3);
    assert!(stat(&db, "blob_dead_bytes") > 0 && of_levels(&db, "tables") > 1);
    db.close().unwrap();
    (disk, model)
}

/// Repairs; the store is sound then, and no key has a value that it did not have.
fn mend(disk: &MemFs, model: &Model) -> (usize, Vec<String>) {
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let before = files(disk);
    let report = repair(Arc::clone(&fs), Path::new(DIR), &options()).unwrap();
    let after = directory(disk, Path::new(DIR));
    for (path, bytes) in &before {
        let is_kept = after.values().any(|kept| kept == bytes);
        assert!(is_kept || path.to_string_lossy().contains("CURRENT"), "{}", path.display());
    }
    let sound = verify(Arc::clone(&fs), Path::new(DIR), &options()).unwrap();
    assert!(sound.is_sound(), "{:?} after {report:?}", sound.findings);
    let again = repair(fs, Path::new(DIR), &options()).unwrap();
    assert!(!again.changed && again.losses.is_empty(), "{again:?}");
    let db = open(disk, Options { paranoid_checks: true, ..options() });
    let found = rows(&db);
    for (key, value) in &found {
        let n: u32 = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
        assert!((0..4).any(|round| *value == self::value(n, round)), "{key:?}");
    }
    let lost = model.iter().filter(|(key, value)| found.get(*key) != Some(value)).count();
    (lost, report.losses.iter().map(ToString::to_string).collect())
}

#[test]
fn a_lost_blob_file_costs_its_entries_alone() {
    let (disk, model) = sample();
    for path in blobs(&disk) {
        let damaged = copy(&disk);
        let mut of_it = 0;
        dump(&damaged, &path, &mut |item| {
            let Item::Write { kind: "put", key, value, .. } = item else { panic!("{item:?}") };
            of_it += usize::from(model.get(key).map(Vec::as_slice) == Some(value));
            true
        })
        .unwrap();
        damaged.remove_file(&path).unwrap();
        let error = try_open(&damaged, options()).unwrap_err();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        let fs = Arc::new(damaged.clone());
        let report = verify(fs, Path::new(DIR), &options()).unwrap();
        assert!(!report.is_sound());
        let (lost, losses) = mend(&damaged, &model);
        assert!(lost <= of_it, "{lost} of {of_it}: {losses:?}");
        let says = losses.iter().any(|loss| loss.contains("lost are") && loss.contains(" to key"));
        assert!(says || lost == 0, "{lost}: {losses:?}");
    }
}

/// Whatever byte is damaged: `verify` says where, a reader gets an error or the value, and a repair
/// loses one value at most.
#[test]
fn every_damaged_byte_of_a_blob_file_costs_one_value_at_most() {
    for options in [plain(), options()] {
        every_damaged_byte_costs_one_value_at_most(&sample_of(&options));
    }
}

fn every_damaged_byte_costs_one_value_at_most((disk, model): &(MemFs, Model)) {
    for path in blobs(disk) {
        let len = disk.read(&path).unwrap().len();
        assert!(len > 300, "{len}");
        let ends = (0..200).chain(len - 60..len);
        for at in ends.chain((200..len - 60).step_by(401)) {
            let damaged = copy(disk);
            flip(&damaged, &path, at);
            let fs: Arc<dyn Fs> = Arc::new(damaged.clone());
            let report = verify(fs, Path::new(DIR), &options()).unwrap();
            let is_said = report.findings.iter().any(|finding| finding.path == path);
            assert!(is_said && !report.is_sound(), "byte {at}: {:?}", report.findings);
            match try_open(&damaged, options()) {
                Err(error) => assert!(matches!(error, Error::Corruption { .. }), "{error}"),
                Ok(db) => {
                    let mut failures = 0;
                    for (key, value) in model {
                        match db.get(key) {
                            Ok(found) => assert_eq!(found.as_ref(), Some(value)),
                            Err(Error::Corruption { .. }) => failures += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    assert!(failures <= 1, "byte {at}: {failures}");
                    assert_eq!(failures == 1, walk(db.iter().unwrap()).is_err(), "byte {at}");
                }
            }
            let (lost, losses) = mend(&damaged, model);
            assert!(lost <= 1, "byte {at}: {lost}, {losses:?}");
            // Once, with what is lost if anything is.
            let of_it = losses.iter().filter(|loss| loss.contains(path.to_str().unwrap()));
            assert!(of_it.count() <= 1, "byte {at}: {losses:?}");
        }
    }
}

#[test]
fn blob_files_are_known_by_their_content() {
    let (disk, model) = sample();
    let all = blobs(&disk);
    // Another name.
    let renamed = copy(&disk);
    renamed.rename(&all[0], &Path::new(DIR).join("stray")).unwrap();
    let (lost, losses) = mend(&renamed, &model);
    assert_eq!(lost, 0, "{losses:?}");
    // Two names exchanged.
    let swapped = copy(&disk);
    let (one, other) = (disk.read(&all[0]).unwrap(), disk.read(&all[1]).unwrap());
    replace(&swapped, &all[0], &other);
    replace(&swapped, &all[1], &one);
    assert!(try_open(&swapped, options()).is_err());
    let (lost, losses) = mend(&swapped, &model);
    assert_eq!(lost, 0, "{losses:?}");
}

#[test]
fn a_store_with_blob_files_is_laid_out_again_without_its_manifest() {
    let (disk, model) = sample();
    let is_manifest = |path: &PathBuf| path.to_string_lossy().contains("MANIFEST");
    for path in files(&disk).into_keys().filter(is_manifest) {
        disk.remove_file(&path).unwrap();
    }
    let (lost, losses) = mend(&disk, &model);
    assert_eq!(lost, 0, "{losses:?}");
}

#[test]
fn a_table_is_shown_with_the_places_and_a_blob_file_with_the_values() {
    let (disk, _) = sample();
    let mut places = 0;
    for path in tables(&disk) {
        let mut visit = |item: Item<'_>| {
            if let Item::Write { kind: "put-blob", value, .. } = item {
                let value = std::str::from_utf8(value).unwrap();
                assert!(value.starts_with("blob file ") && value.ends_with(" bytes"), "{value}");
                places += 1;
            }
            true
        };
        dump(&disk, &path, &mut visit).unwrap();
    }
    assert!(places > 30);
    let path = &blobs(&disk)[0];
    flip(&disk, path, 100);
    let error = dump(&disk, path, &mut |_| true).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path: at, .. } if at == path), "{error}");
}

/// A flush that fails leaves no file, and loses nothing.
#[test]
fn files_without_a_version_are_removed_at_the_next_opening() {
    let (disk, model) = sample();
    let stray = Path::new(DIR).join("000999.blob");
    disk.write_atomic(&stray, &disk.read(&blobs(&disk)[0]).unwrap()).unwrap();
    let report = verify(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    assert!(report.is_sound() && report.findings.len() == 1, "{:?}", report.findings);
    let db = open(&disk, options());
    assert!(!disk.exists(&stray).unwrap());
    reads(&db, &model);
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What `store-3` and `store-4` hold: stores with blob files, as the first version that had them
/// wrote them, and as the first that compresses values in them.
fn build(disk: &MemFs, options: Options) -> Model {
    let mut model = Model::new();
    let db = open(disk, Options { segment_bytes: 8 << 10, ..options });
    put(&db, &mut model, 0..12, 0);
    db.compact_range(None, None).unwrap();
    put(&db, &mut model, 6..9, 1);
    db.flush().unwrap();
    db.put_with(b"key", b"in the log", WriteOptions { sync: true }).unwrap();
    model.insert(b"key".to_vec(), b"in the log".to_vec());
    db.close().unwrap();
    model
}

#[test]
fn stores_of_earlier_versions_with_blob_files_open_and_go_on() {
    for (name, options) in [("store-3", plain()), ("store-4", options())] {
        let built = MemFs::new();
        let model = build(&built, options);
        if std::env::var_os("KEYRACK_REWRITE").is_some() {
            for (path, bytes) in files(&built) {
                let to = fixture(name).join(path.strip_prefix(DIR).unwrap());
                RealFs.create_dir_all(to.parent().unwrap()).unwrap();
                RealFs.write_atomic(&to, &bytes).unwrap();
            }
        }
        opens_and_goes_on(name, &model);
    }
}

fn opens_and_goes_on(name: &str, model: &Model) {
    let disk = MemFs::new();
    for (path, bytes) in directory(&RealFs, &fixture(name)) {
        let to = Path::new(DIR).join(path.strip_prefix(fixture(name)).unwrap());
        disk.create_dir_all(to.parent().unwrap()).unwrap();
        replace(&disk, &to, &bytes);
    }
    let report = verify(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    assert!(report.findings.is_empty(), "{name}: {:?}", report.findings);
    assert_eq!((report.blobs, report.log_records), (2, 1), "{name}");
    let db = open(&disk, Options { durability: Durability::Os, ..options() });
    reads(&db, model);
    db.rewrite().unwrap();
    reads(&db, model);
}
