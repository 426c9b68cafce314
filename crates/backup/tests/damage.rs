//! Damage of a repository: found with its place, and never restored.

use crate::support::*;
use keyrack_backup::{BackupId, Error, Repository};
use keyrack_flodb::Db;
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs, OpenOptions, Operation};
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::sync::Arc;

/// A repository with backups of the rounds 60 and 61, and what is in which.
fn scene() -> (MemFs, Repository, [BackupId; 2]) {
    let disk = MemFs::new();
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(&shared(&disk)).unwrap();
    write(&db, 1..61);
    let first = save(&db, &repository).unwrap().info.id;
    write(&db, 61..62);
    let second = save(&db, &repository).unwrap().info.id;
    (disk, repository, [first, second])
}

fn files(disk: &MemFs, dir: &str) -> Vec<PathBuf> {
    names(disk, dir).iter().map(|name| Path::new(dir).join(name)).collect()
}

/// Ways to damage a file, each with what verification says of an object.
type Way = (fn(&mut Vec<u8>), &'static str);
const WAYS: [Way; 5] = [
    (|bytes| bytes[0] ^= 0x80, "not those that were saved"),
    (|bytes| *bytes.last_mut().unwrap() ^= 1, "not those that were saved"),
    (|bytes| bytes.truncate(bytes.len() - 1), "bytes, not"),
    (|bytes| bytes.push(0), "bytes, not"),
    (Vec::clear, "it has 0 bytes, not"),
];

/// Restores, and makes sure that a failure leaves nothing.
fn try_restore(repository: &Repository, id: &BackupId) -> Result<(), Error> {
    let fs = MemFs::new();
    let outcome = repository.restore(id, &fs, Path::new(RESTORED), |_| ());
    if let Err(error) = outcome {
        assert!(names(&fs, "/").is_empty(), "{error}: {:?}", names(&fs, "/"));
        return Err(error);
    }
    Ok(())
}

#[test]
fn damage_of_an_object_is_found_and_stops_those_who_need_it() {
    let (disk, repository, ids) = scene();
    let objects = files(&disk, "/backups/objects");
    assert!(objects.len() > 5, "{objects:?}");
    let mut shared_objects = 0;
    for path in objects {
        let whole = disk.read(&path).unwrap();
        for (damage, what) in WAYS {
            let mut damaged = whole.clone();
            damage(&mut damaged);
            disk.write_atomic(&path, &damaged).unwrap();
            shared_objects += usize::from(check_damage(&repository, &ids, &path, what) == 2);
        }
        disk.remove_file(&path).unwrap();
        check_damage(&repository, &ids, &path, "it is missing");
        disk.write_atomic(&path, &whole).unwrap();
    }
    assert!(shared_objects > 0, "the second backup shares objects with the first");
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
}

/// Returns how many backups need the object.
fn check_damage(repository: &Repository, ids: &[BackupId; 2], path: &Path, what: &str) -> usize {
    let report = repository.verify(None, |_| ()).unwrap();
    let [damage] = &report.damage[..] else { panic!("{path:?}: {report:?}") };
    assert_eq!(damage.place, path.display().to_string());
    assert!(damage.what.contains(what), "{damage}");
    for id in ids {
        let of_it = repository.verify(Some(id), |_| ()).unwrap();
        assert_eq!(of_it.is_sound(), !damage.backups.contains(id), "{id}: {damage}");
        match try_restore(repository, id) {
            Ok(()) => assert!(!damage.backups.contains(id), "{id}: {damage}"),
            Err(Error::Corruption { place, .. }) => {
                assert!(damage.backups.contains(id), "{id}: {damage}");
                assert_eq!(place, damage.place);
            }
            Err(error) => panic!("{id}: {error}"),
        }
    }
    assert!(!damage.backups.is_empty());
    damage.backups.len()
}

#[test]
fn damage_of_a_manifest_is_found_and_stops_that_backup_alone() {
    let (disk, repository, ids) = scene();
    let path = Path::new("/backups/backups").join(ids[0].to_string());
    let whole = disk.read(&path).unwrap();
    for (damage, _) in WAYS {
        let mut damaged = whole.clone();
        damage(&mut damaged);
        disk.write_atomic(&path, &damaged).unwrap();
        let report = repository.verify(None, |_| ()).unwrap();
        let [found] = &report.damage[..] else { panic!("{report:?}") };
        assert_eq!(found.place, path.display().to_string());
        assert_eq!(found.backups, ids[..1]);
        assert_eq!(repository.verify(Some(&ids[0]), |_| ()).unwrap().damage, report.damage);
        assert!(matches!(try_restore(&repository, &ids[0]), Err(Error::Corruption { .. })));
        try_restore(&repository, &ids[1]).unwrap();
        assert_eq!(repository.newest().unwrap(), ids[1]);
        // Nobody knows which objects it needs, so no other backup is deleted.
        let refused = repository.delete(&ids[1..]);
        assert!(matches!(refused, Err(Error::Corruption { .. })), "{refused:?}");
        try_restore(&repository, &ids[1]).unwrap();
    }
    // It can be deleted itself.
    repository.delete(&ids[..1]).unwrap();
    assert_eq!(restored_round(&repository, &ids[1]), 61);
    let report = repository.verify(None, |_| ()).unwrap();
    assert_eq!((report.is_sound(), report.unused_objects), (true, 0));
}

/// What is missing or short is copied again, if the store still has it.
#[test]
fn the_next_backup_mends_what_is_missing() {
    let disk = MemFs::new();
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(&shared(&disk)).unwrap();
    write(&db, 1..61);
    let first = save(&db, &repository).unwrap().info.id;
    let objects = files(&disk, "/backups/objects");
    let sized = |path: &&PathBuf| disk.metadata(path).unwrap().len;
    // The largest ones are tables and blob files.
    let largest = objects.iter().max_by_key(sized).unwrap();
    disk.remove_file(largest).unwrap();
    assert!(!repository.verify(None, |_| ()).unwrap().is_sound());
    save(&db, &repository).unwrap();
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    assert_eq!(restored_round(&repository, &first), 60);
}

/// Names that are not ours are nobody's backup, and are left alone.
#[test]
fn other_files_in_a_repository_are_left_alone() {
    let (disk, repository, ids) = scene();
    let others = ["/backups/objects/README", "/backups/backups/notes", "/backups/other"];
    for path in others {
        disk.write_atomic(Path::new(path), b"by hand").unwrap();
    }
    assert_eq!(repository.backups().unwrap().len(), 2);
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    repository.delete(&ids).unwrap();
    for path in others {
        assert_eq!(disk.read(Path::new(path)).unwrap(), b"by hand");
    }
}

/// What a disk cannot read of one manifest is that backup's damage alone.
#[test]
fn a_manifest_that_cannot_be_read_stops_that_backup_alone() {
    let (disk, _, ids) = scene();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let repository = Repository::open(target(&(Arc::new(faults.clone()) as Arc<dyn Fs>))).unwrap();
    for operation in [Operation::Open, Operation::Read] {
        // The first manifest is what each of these reads first.
        let arm = || faults.arm(FaultPlan::once(1, Fault::Io).only(&[operation]));
        arm();
        let listed = repository.backups().unwrap();
        assert!(matches!(&listed[0], (id, Err(Error::Io(_))) if *id == ids[0]), "{listed:?}");
        assert!(matches!(&listed[1], (id, Ok(_)) if *id == ids[1]), "{listed:?}");
        for id in [None, Some(&ids[0])] {
            arm();
            let report = repository.verify(id, |_| ()).unwrap();
            let [damage] = &report.damage[..] else { panic!("{report:?}") };
            assert_eq!(damage.backups, ids[..1], "{damage}");
            assert!(damage.place.ends_with(&ids[0].to_string()), "{damage}");
        }
        arm();
        let refused = repository.delete(&ids[1..]);
        assert!(matches!(refused, Err(Error::Io(_))), "{refused:?}");
        faults.disarm();
        assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    }
    faults.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Read]));
    let deleted = repository.delete(&ids[..1]).unwrap();
    assert_eq!((faults.injected() > 0, deleted.backups), (true, 1));
    faults.disarm();
    assert_eq!(restored_round(&repository, &ids[1]), 61);
}

#[test]
fn a_manifest_that_cannot_be_read_does_not_stop_the_next_backup() {
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    let repository = create(&(Arc::new(faults.clone()) as Arc<dyn Fs>)).unwrap();
    let db = open(&shared(&MemFs::new()), STORE);
    write(&db, 1..61);
    save(&db, &repository).unwrap();
    faults.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Read]));
    let saved = save(&db, &repository).unwrap();
    assert!(faults.injected() > 0);
    faults.disarm();
    assert_eq!(restored_round(&repository, &saved.info.id), 60);
}

/// Replaces the second manifest by one with a right checksum.
fn reseal(disk: &MemFs, id: &BackupId, change: impl Fn(&str) -> String) {
    use sha2::{Digest, Sha256};
    let path = Path::new("/backups/backups").join(id.to_string());
    let text = disk.read_to_string(&path).unwrap();
    let body = change(&text[..text.rfind("end ").unwrap()]);
    let sum: String = Sha256::digest(&body).iter().map(|byte| format!("{byte:02x}")).collect();
    disk.write_atomic(&path, format!("{body}end {sum}\n").as_bytes()).unwrap();
}

/// The larger of two lengths is wrong, whichever manifest was read first.
#[test]
fn two_lengths_of_one_object_are_damage() {
    for wrong in 0..2 {
        let (disk, repository, ids) = scene();
        // A file that both backups have, told to be of 10 bytes more.
        reseal(&disk, &ids[wrong], |body| {
            let mut lines: Vec<String> = body.lines().map(str::to_owned).collect();
            let total = lines[4].clone();
            let (files, bytes) = total.rsplit_once(' ').unwrap();
            lines[4] = format!("{files} {}", bytes.parse::<u64>().unwrap() + 10);
            let mut words: Vec<String> = lines[5].split(' ').map(str::to_owned).collect();
            words[1] = (words[1].parse::<u64>().unwrap() + 10).to_string();
            lines[5] = words.join(" ");
            lines.join("\n") + "\n"
        });
        let report = repository.verify(None, |_| ()).unwrap();
        let [damage] = &report.damage[..] else { panic!("{wrong}: {report:?}") };
        assert!(damage.what.contains("bytes, not"), "{damage}");
        assert_eq!(damage.backups, [ids[wrong].clone()], "{damage}");
    }
}

#[test]
fn a_backup_of_a_later_version_is_no_damage() {
    let (disk, repository, ids) = scene();
    reseal(&disk, &ids[1], |body| body.replacen("backup 1", "backup 2", 1));
    for id in [None, Some(&ids[1])] {
        let report = repository.verify(id, |_| ()).unwrap();
        assert!(report.damage.is_empty() && !report.is_sound(), "{report:?}");
        let [(later, what)] = &report.later[..] else { panic!("{report:?}") };
        assert_eq!((later, report.unused_objects), (&ids[1], 0));
        assert!(what.contains("use a later keyrack"), "{what}");
    }
    assert!(matches!(repository.delete(&ids[..1]), Err(Error::Usage(_))));
}

/// The next backup copies what was removed, if the store still has it.
#[test]
fn a_damaged_object_can_be_mended() {
    let (disk, store) = (MemFs::new(), MemFs::new());
    let repository = create(&shared(&disk)).unwrap();
    let db = Db::open_in(shared(&store), Path::new(STORE), idle()).unwrap();
    write(&db, 1..61);
    let first = save(&db, &repository).unwrap().info.id;
    let manifest = disk.read_to_string(&Path::new("/backups").join(format!("backups/{first}")));
    let manifest = manifest.unwrap();
    let line = manifest.lines().find(|line| line.ends_with(".table")).unwrap();
    let object = Path::new("/backups/objects").join(line.split_once(' ').unwrap().0);
    let file = disk.open(&object, &OpenOptions::new().write(true)).unwrap();
    file.write_at(40, b"damage").unwrap();
    let report = repository.verify(None, |_| ()).unwrap();
    let [damage] = &report.damage[..] else { panic!("{report:?}") };
    assert_eq!(
        (&damage.place, &damage.backups[..]),
        (&object.display().to_string(), from_ref(&first))
    );
    disk.remove_file(&object).unwrap();
    let second = save(&db, &repository).unwrap();
    assert_eq!(second.copied_files, 1, "{second:?}");
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    assert_eq!(restored_round(&repository, &first), 60);
    assert_eq!(restored_round(&repository, &second.info.id), 60);
}

/// Every byte of every table and blob file, wrong while it is copied: there is no backup, and the
/// place is told. What an earlier backup has is not read again.
#[test]
fn a_damaged_file_of_the_store_is_refused_with_its_place() {
    let disk = MemFs::new();
    let db = Db::open_in(shared(&disk), Path::new(STORE), idle()).unwrap();
    for rounds in [1..70, 70..140] {
        write(&db, rounds);
        db.flush().unwrap();
    }
    let files = files(&disk, STORE);
    let ends = |path: &&PathBuf, end: &str| path.to_str().unwrap().ends_with(end);
    let count = |end: &str| files.iter().filter(|path| ends(path, end)).count();
    assert!(count(".table") > 1 && count(".blob") > 1, "{files:?}");
    let copied = files.iter().filter(|path| ends(path, ".table") || ends(path, ".blob"));
    for path in copied {
        let file = disk.open(path, &OpenOptions::new().read(true).write(true)).unwrap();
        let length = usize::try_from(file.len().unwrap()).unwrap();
        // All of the ends, and some of the middle.
        let places = (0..length).filter(|at| *at < 60 || length - at < 300 || at % 97 == 0);
        for at in places {
            let mut byte = [0];
            file.read_exact_at(at as u64, &mut byte).unwrap();
            file.write_at(at as u64, &[byte[0] ^ 0x10]).unwrap();
            let repository = create(&shared(&MemFs::new())).unwrap();
            let Err(Error::Corruption { place, what }) = save(&db, &repository) else {
                panic!("{path:?} at {at} of {length}")
            };
            assert_eq!(place, path.display().to_string(), "{at}");
            assert!(what.contains("at byte ") && what.contains("check the store"), "{what}");
            assert!(repository.backups().unwrap().is_empty());
            file.write_at(at as u64, &byte).unwrap();
        }
    }
    let repository = create(&shared(&MemFs::new())).unwrap();
    let saved = save(&db, &repository).unwrap();
    assert_eq!(restored_round(&repository, &saved.info.id), 139);
    let Some(table) = files.iter().find(|path| ends(path, ".table")) else { panic!("{files:?}") };
    let file = disk.open(table, &OpenOptions::new().write(true)).unwrap();
    file.write_at(9, b"damage").unwrap();
    let again = save(&db, &repository).unwrap();
    assert_eq!((again.copied_files, restored_round(&repository, &again.info.id)), (0, 139));
}
