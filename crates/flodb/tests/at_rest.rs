//! Damage at rest: each file of a store removed, cut, flipped, overwritten, exchanged, replaced by
//! one of another store or of an earlier moment. What is read then is what was written, or an error
//! that names a file; and a check finds whatever an opening refuses.

use crate::support::{DIR, Rows, idle, try_open, walk};
use keyrack_flodb::{
    Db, Durability, IngestOptions, Options, PrefixExtractor, SstWriter, WriteOptions, verify,
};
use keyrack_testkit::damage::{Damage, Directory, Sources, Swept, directory, disk_of, sweep};
use keyrack_testkit::random::{factor, given_seed};
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options() -> Options {
    Options {
        segment_bytes: 4 << 10,
        table_bytes: 2 << 10,
        block_bytes: 512,
        level_base_bytes: 8 << 10,
        durability: Durability::Sync,
        prefix_extractor: Some(PrefixExtractor::Fixed(5)),
        ..idle()
    }
}

fn open(disk: &MemFs) -> Db {
    crate::support::open(disk, options())
}

/// Some writes. Stores of different `flavour` differ in nothing but their values.
fn write(db: &Db, from: u32, to: u32, flavour: u8) {
    for n in from..to {
        let key = format!("key{:03}", n % 90);
        if n % 11 == 5 {
            db.delete_with(key.as_bytes(), WriteOptions::default()).unwrap();
        } else {
            let value = [&n.to_be_bytes()[..], &[flavour; 40]].concat();
            db.put(key.as_bytes(), &value).unwrap();
        }
    }
}

fn ingest(disk: &MemFs, db: &Db, flavour: u8) {
    disk.create_dir_all(Path::new("/bulk")).unwrap();
    let path = Path::new("/bulk/one.table");
    let mut writer = SstWriter::create(disk, path, &options()).unwrap();
    for n in 0..30 {
        writer.put(format!("key{n:03}x").as_bytes(), &[flavour; 30]).unwrap();
    }
    writer.finish().unwrap();
    db.ingest(&[path], IngestOptions::default()).unwrap();
}

fn image(disk: &MemFs) -> Directory {
    directory(&disk.process_crash_image(), Path::new(DIR))
}

struct Store {
    ours: Directory,
    earlier: Vec<Directory>,
}

/// Tables in several levels, a manifest with several edits, and a log of several segments. The
/// last edit takes in a table, which no log has.
fn build(flavour: u8, is_closed: bool) -> Store {
    let disk = MemFs::new();
    let mut earlier = Vec::new();
    let db = open(&disk);
    write(&db, 0, 60, flavour);
    db.flush().unwrap();
    earlier.push(image(&disk));
    write(&db, 60, 200, flavour);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    db.delete_range(b"key030", b"key035").unwrap();
    write(&db, 200, 230, flavour);
    db.flush().unwrap();
    drop(db);
    earlier.push(directory(&disk, Path::new(DIR)));
    let db = open(&disk);
    write(&db, 230, 300, flavour);
    db.flush().unwrap();
    write(&db, 300, 330, flavour);
    db.flush().unwrap();
    let before = image(&disk);
    ingest(&disk, &db, flavour);
    write(&db, 330, 490, flavour);
    let almost = image(&disk);
    write(&db, 490, 500, flavour);
    if is_closed {
        // These have the files that were written to until the end. After a kill, nobody can tell
        // them from what a power loss leaves.
        earlier.extend([before, almost]);
        db.close().unwrap();
        return Store { ours: directory(&disk, Path::new(DIR)), earlier };
    }
    let ours = directory(&disk.crash_image(1, CrashPolicy::DropAll), Path::new(DIR));
    Store { ours, earlier }
}

fn kind(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    let extension = path.extension().and_then(|it| it.to_str());
    match extension {
        Some(extension) => extension.to_owned(),
        None => name.split('-').next().unwrap().to_owned(),
    }
}

/// Everything that can be read. What an opening refuses, a check finds as well.
fn look(disk: MemFs) -> Result<Rows, String> {
    let checked = verify(Arc::new(disk.clone()), Path::new(DIR), &options());
    let is_sound = checked.as_ref().is_ok_and(keyrack_flodb::Report::is_sound);
    let read = || -> keyrack_flodb::Result<Rows> {
        let db = try_open(&disk, options())?;
        let rows = walk(db.iter()?)?;
        for (key, value) in &rows {
            assert_eq!(db.get(key)?.as_ref(), Some(value), "a get and a walk agree");
        }
        Ok(rows)
    };
    let read = read().map_err(|error| error.to_string());
    match read {
        Err(error) if is_sound => Err(format!("an opening says '{error}', a check nothing")),
        read => read,
    }
}

fn seed() -> u64 {
    given_seed().unwrap_or(7)
}

fn swept(store: &Store, damages: &[Damage]) -> Swept {
    println!("SEED={}: {} files, {} damages", seed(), store.ours.len(), damages.len());
    let swept = sweep(Path::new(DIR), &store.ours, damages, &look);
    println!("{swept}");
    assert!(swept.silent.is_empty(), "SEED={}: {swept}", seed());
    swept
}

#[test]
fn no_damage_of_a_closed_store_is_silent() {
    let (store, other) = (build(1, true), build(2, true));
    let tables = store.ours.keys().filter(|path| kind(path) == "table").count();
    let segments = store.ours.keys().filter(|path| kind(path) == "wal").count();
    assert!(tables >= 3 && segments >= 3, "{tables} tables, {segments} segments");
    let sources = Sources { ours: &store.ours, theirs: &other.ours, earlier: &store.earlier, kind };
    let damages = sources.damages(seed(), 6 * factor());
    let swept = swept(&store, &damages);
    assert!(swept.refused > damages.len() / 3, "{swept}");
}

/// After a kill or a power loss the end of the log is not marked, but every file is known.
///
/// What is overwritten within a file that was written to until the end is left out here: the log's
/// newest segments, four of which may have been made ahead, and the manifest. There nobody can tell
/// the loss of what came last from a power loss.
#[test]
fn no_file_of_a_killed_store_is_lost_in_silence() {
    let (store, other) = (build(1, false), build(2, false));
    let sources = Sources { ours: &store.ours, theirs: &other.ours, earlier: &store.earlier, kind };
    let mut damages = sources.damages(seed(), 6 * factor());
    let is_manifest = |path: &&PathBuf| kind(path) == "MANIFEST";
    let segments = store.ours.keys().filter(|path| kind(path) == "wal");
    let last: Vec<_> =
        segments.rev().take(5).chain(store.ours.keys().filter(is_manifest)).collect();
    damages.retain(|damage| {
        let is_within = damage.what.contains(" flipped at ") || damage.what.contains(" of 0x");
        !is_within || !damage.files.keys().any(|path| last.contains(&path))
    });
    swept(&store, &damages);
}

/// Fifty synced writes were gone without a word.
#[test]
fn a_removed_log_is_corruption_with_its_name() {
    for is_closed in [false, true] {
        let disk = MemFs::new();
        let db = open(&disk);
        write(&db, 0, 50, 1);
        let files = if is_closed {
            db.close().unwrap();
            directory(&disk, Path::new(DIR))
        } else {
            directory(&disk.crash_image(1, CrashPolicy::DropAll), Path::new(DIR))
        };
        let segments: Vec<&PathBuf> = files.keys().filter(|path| kind(path) == "wal").collect();
        let newest = *segments.last().unwrap();
        let damage = Damage { what: String::new(), files: [(newest.clone(), None)].into() };
        let error = look(disk_of(&damage.apply(&files))).unwrap_err();
        assert!(error.contains(&newest.display().to_string()), "{error}");
        // The whole log.
        let all = files.keys().filter(|path| path.starts_with("/store/log"));
        let all = all.map(|path| (path.clone(), None)).collect();
        let damage = Damage { what: String::new(), files: all };
        let error = look(disk_of(&damage.apply(&files))).unwrap_err();
        assert!(error.contains("/store/log"), "{error}");
    }
}
