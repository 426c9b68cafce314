//! Damage at rest: each file of a store removed, cut, flipped, overwritten, exchanged, replaced by
//! one of another store or of an earlier moment. What is read then is what was written, or an error
//! that names a file.

use crate::support::{Content, DIR, close, content, open, open_with, with_logs};
use keyrack_rowstore::{Options, RowStore, Rows};
use keyrack_store::Durability;
use keyrack_testkit::damage::{Damage, Directory, Sources, Swept, directory, disk_of, sweep};
use keyrack_testkit::random::{factor, given_seed};
use keyrack_vfs::{CrashPolicy, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options() -> Options {
    Options { durability: Durability::Sync, ..with_logs(2) }.with_segment_bytes(4 << 10)
}

/// Some writes in a session of its own, so that all logs get some. Stores of different `flavour`
/// differ in nothing but their values.
fn write(store: &RowStore, from: u32, to: u32, flavour: u8) {
    let mut session = store.session().unwrap();
    for n in from..to {
        let key = format!("key{:03}", n % 90);
        if n % 11 == 5 {
            session.remove(key.as_bytes()).unwrap();
        } else {
            session.put(key.as_bytes(), &[flavour; 60], n, 0).unwrap();
        }
        session.flush().unwrap();
    }
}

struct Store {
    ours: Directory,
    earlier: Vec<Directory>,
}

fn image(disk: &MemFs) -> Directory {
    directory(&disk.crash_image(1, CrashPolicy::DropAll), Path::new(DIR))
}

/// A checkpoint, two logs of several segments behind it, and copies of what was before.
fn build(flavour: u8, is_closed: bool) -> Store {
    let disk = MemFs::new();
    let mut earlier = Vec::new();
    let store = open(&disk, options());
    for part in 0..6 {
        write(&store, part * 30, (part + 1) * 30, flavour);
    }
    earlier.push(image(&disk));
    store.checkpoint().unwrap();
    write(&store, 180, 220, flavour);
    close(store);
    earlier.push(directory(&disk, Path::new(DIR)));
    let store = open(&disk, options());
    write(&store, 220, 260, flavour);
    store.checkpoint().unwrap();
    for part in 9..17 {
        write(&store, part * 30, (part + 1) * 30, flavour);
    }
    if is_closed {
        // It has the files that were written to until the end. After a kill, nobody can tell them
        // from what a power loss leaves.
        earlier.push(image(&disk));
        write(&store, 510, 515, flavour);
        close(store);
        return Store { ours: directory(&disk, Path::new(DIR)), earlier };
    }
    let ours = image(&disk);
    Store { ours, earlier }
}

fn kind(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    path.extension().map_or(name.to_owned(), |extension| extension.to_str().unwrap().to_owned())
}

fn look(disk: MemFs) -> Result<Content, String> {
    let store = open_with(Arc::new(disk), options()).map_err(|error| error.to_string())?;
    Ok(content(&store))
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
    let segments = store.ours.keys().filter(|path| kind(path) == "wal").count();
    assert!(segments >= 6, "{segments}");
    let sources = Sources { ours: &store.ours, theirs: &other.ours, earlier: &store.earlier, kind };
    let damages = sources.damages(seed(), 6 * factor());
    let swept = swept(&store, &damages);
    assert!(swept.refused > damages.len() / 3, "{swept}");
}

/// After a kill or a power loss the ends of the logs are not marked, but every file is known.
///
/// What is overwritten within the two newest segments of a log is left out here, one of which may
/// have been made ahead: nobody can tell the loss of what came last from a power loss.
#[test]
fn no_file_of_a_killed_store_is_lost_in_silence() {
    let (store, other) = (build(1, false), build(2, false));
    let sources = Sources { ours: &store.ours, theirs: &other.ours, earlier: &store.earlier, kind };
    let mut damages = sources.damages(seed(), 6 * factor());
    let mut last = Vec::new();
    for log in ["log-0", "log-1"] {
        let of_log = |path: &&PathBuf| kind(path) == "wal" && path.parent().unwrap().ends_with(log);
        last.extend(store.ours.keys().rev().filter(of_log).take(2));
    }
    damages.retain(|damage| {
        let is_within = damage.what.contains(" flipped at ") || damage.what.contains(" of 0x");
        !is_within || !damage.files.keys().any(|path| last.contains(&path))
    });
    swept(&store, &damages);
}

#[test]
fn a_removed_newest_segment_is_corruption_with_its_name() {
    for is_closed in [false, true] {
        let files = build(1, is_closed).ours;
        for log in ["log-0", "log-1"] {
            let of_log =
                |path: &&PathBuf| kind(path) == "wal" && path.parent().unwrap().ends_with(log);
            let newest = files.keys().rfind(of_log).unwrap();
            let damage = Damage { what: String::new(), files: [(newest.clone(), None)].into() };
            let error = look(disk_of(&damage.apply(&files))).unwrap_err();
            assert!(error.contains(&newest.display().to_string()), "{error}");
        }
    }
}
