//! Parts of a log that are not what a shipper wrote: errors with their place.

use crate::support::*;
use keyrack_backup::{Error, Moment, Repository, Shipper};
use keyrack_vfs::{Fs, MemFs};
use std::path::{Path, PathBuf};

/// A repository with a backup of round 0 and three parts of ten rounds each; the parts, and the
/// positions of the rounds 10, 20 and 30.
fn scene() -> (MemFs, Repository, Vec<PathBuf>, Vec<u64>) {
    let disk = MemFs::new();
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(&shared(&disk)).unwrap();
    save(&db, &repository).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    let mut positions = Vec::new();
    for n in 0..3 {
        write(&db, n * 10 + 1..n * 10 + 11);
        assert_eq!(shipper.ship().unwrap().objects, 1);
        positions.push(position(&db));
    }
    (disk.clone(), repository, parts(&disk), positions)
}

fn parts(disk: &MemFs) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = names(disk, "/backups/logs")
        .iter()
        .map(|name| Path::new("/backups/logs").join(name))
        .collect();
    parts.sort();
    parts
}

/// The damage of one place, told by a verification and by a restoration past it.
#[track_caller]
fn is_damaged(repository: &Repository, place: &Path, position: u64, what: &str) {
    let place = place.display().to_string();
    let report = repository.verify(None, |_| ()).unwrap();
    let [damage] = &report.damage[..] else { panic!("{what}: {report:?}") };
    assert_eq!(damage.place, place, "{what}");
    assert!(damage.what.contains(what), "{what}: {damage}");
    match round_at(repository, Moment::Position(position)) {
        Err(Error::Corruption { place: told, what: text }) => {
            assert_eq!(told, place, "{what}");
            assert!(text.contains(what), "{what}: {text}");
        }
        other => panic!("{what}: {other:?}"),
    }
}

#[test]
fn changed_and_cut_parts_are_damage() {
    let (disk, repository, parts, positions) = scene();
    let whole = disk.read(&parts[1]).unwrap();
    for at in (0..whole.len()).step_by(101).chain([0, whole.len() - 1]) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        disk.write_atomic(&parts[1], &bytes).unwrap();
        is_damaged(&repository, &parts[1], positions[2], "another checksum");
        // What comes before it can be had.
        assert_eq!(round_at(&repository, Moment::Position(positions[0])).unwrap(), 10);
        disk.write_atomic(&parts[1], &whole[..at]).unwrap();
        let what = if at < 32 { "too short" } else { "another checksum" };
        is_damaged(&repository, &parts[1], positions[2], what);
    }
    disk.write_atomic(&parts[1], &whole).unwrap();
    assert_eq!(round_at(&repository, Moment::Position(positions[2])).unwrap(), 30);
}

#[test]
fn a_missing_part_is_damage() {
    let (disk, repository, parts, positions) = scene();
    disk.remove_file(&parts[1]).unwrap();
    is_damaged(&repository, &parts[2], positions[2], "are missing before it");
    disk.remove_file(&parts[2]).unwrap();
    let beyond = round_at(&repository, Moment::Position(positions[2]));
    assert!(matches!(beyond, Err(Error::Usage(_))), "{beyond:?}");
}

/// A part under the name of another one, of another log and of other positions.
#[test]
fn a_part_under_another_name_is_damage() {
    let (disk, repository, parts, positions) = scene();
    let bytes = disk.read(&parts[0]).unwrap();
    let whole = disk.read(&parts[1]).unwrap();
    disk.write_atomic(&parts[1], &bytes).unwrap();
    is_damaged(&repository, &parts[1], positions[2], "other positions than its name");
    disk.write_atomic(&parts[1], &whole).unwrap();
    // It ends after the next one begins.
    let name = parts[1].file_name().unwrap().to_str().unwrap();
    let (start, end) = name.rsplit_once('-').unwrap();
    let end = end.parse::<u64>().unwrap();
    let longer = parts[1].with_file_name(format!("{start}-{:020}", end + 1));
    disk.rename(&parts[1], &longer).unwrap();
    let report = repository.verify(None, |_| ()).unwrap();
    assert_eq!(report.damage.len(), 2, "{report:?}");
    let overlap = &report.damage[1];
    assert_eq!(overlap.place, parts[2].display().to_string());
    assert!(overlap.what.contains("positions below"), "{overlap}");
    let restored = round_at(&repository, Moment::Position(positions[2]));
    let Err(Error::Corruption { place, .. }) = &restored else { panic!("{restored:?}") };
    assert_eq!(*place, parts[2].display().to_string());
}

#[test]
fn other_files_beside_the_parts_are_left_alone() {
    let (disk, repository, _, positions) = scene();
    let others = ["notes", "00-1-2", "0000000000000007-5-9"];
    let path = |name: &str| Path::new("/backups/logs").join(name);
    for name in others {
        disk.write_atomic(&path(name), b"by hand").unwrap();
    }
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    assert_eq!(round_at(&repository, Moment::Position(positions[2])).unwrap(), 30);
    let last = repository.newest().unwrap();
    repository.delete(&[last]).unwrap();
    assert_eq!(parts(&disk).len(), others.len());
}
