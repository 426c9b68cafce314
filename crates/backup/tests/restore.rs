//! Restoring: to new and empty directories alone.

use crate::support::*;
use keyrack_backup::{BackupId, Error};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs, Operation, RealFs};
use std::path::Path;
use std::sync::Arc;

/// What a restoration writes first.
const MARK: &[u8] = b"keyrack restoration 1\n";

#[test]
fn what_is_there_is_left_alone() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    write(&db, 1..100);
    let repository = create(&disk).unwrap();
    let id = save(&db, &repository).unwrap().info.id;
    disk.write_atomic(Path::new("/file"), b"content").unwrap();
    disk.create_dir(Path::new("/dir")).unwrap();
    disk.write_atomic(Path::new("/dir/file"), b"content").unwrap();
    // An open store prepares its log.
    db.close().unwrap();
    let before = keyrack_testkit::damage::directory(&*disk, Path::new("/"));
    for target in [STORE, "/file", "/dir", "/", BACKUPS] {
        let error = repository.restore(&id, &*disk, Path::new(target), |_| ()).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{target}: {error:?}");
    }
    let no_such = BackupId::parse("20000101T000000Z").unwrap();
    let error = repository.restore(&no_such, &*disk, Path::new(RESTORED), |_| ()).unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("no backup 2000")), "{error}");
    let missing = Path::new("/missing/store");
    assert!(matches!(repository.restore(&id, &*disk, missing, |_| ()), Err(Error::Io(_))));
    assert_eq!(keyrack_testkit::damage::directory(&*disk, Path::new("/")), before);
    assert_eq!(newest_round(&open(&disk, STORE)), 99);
}

#[test]
fn an_empty_directory_is_taken() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let db = open(&disk, STORE);
    write(&db, 1..100);
    let id = save(&db, &repository).unwrap().info.id;
    disk.create_dir(Path::new(RESTORED)).unwrap();
    // What an interrupted restoration leaves, and what it has written.
    disk.create_dir_all(Path::new("/.restored.restore/files/deep")).unwrap();
    disk.write_atomic(Path::new("/.restored.restore/files/000004.table"), b"half").unwrap();
    disk.write_atomic(Path::new("/.restored.restore/RESTORATION"), MARK).unwrap();
    let info = repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap();
    assert_eq!((info.engine.as_str(), &info.id), ("flodb", &id));
    assert_eq!(newest_round(&open(&disk, RESTORED)), 99);
    assert!(!disk.exists(Path::new("/.restored.restore")).unwrap());
}

#[test]
fn two_restorations_to_one_target_exclude_each_other() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let db = open(&disk, STORE);
    write(&db, 1..10);
    let id = save(&db, &repository).unwrap().info.id;
    disk.create_dir(Path::new("/.restored.restore")).unwrap();
    disk.write_atomic(Path::new("/.restored.restore/RESTORATION"), MARK).unwrap();
    let lock = disk.lock(Path::new("/.restored.restore/LOCK")).unwrap();
    let error = repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap_err();
    assert!(matches!(error, Error::Locked(_)), "{error:?}");
    drop(lock);
    repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap();
}

/// The hidden name may be somebody else's, and links lead elsewhere.
#[test]
fn what_no_restoration_has_made_is_left_alone() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let db = open(&disk, STORE);
    write(&db, 1..10);
    let id = save(&db, &repository).unwrap().info.id;
    for (dirs, file, bytes) in [
        ("", "", b"content"),
        ("/files", "/files/mine", b"content"),
        ("/files", "/RESTORATION", b"another"),
        ("", "/LOCK", b"of mine"),
    ] {
        let hidden = "/.restored.restore";
        let path = format!("{hidden}{file}");
        if !file.is_empty() {
            disk.create_dir_all(Path::new(&format!("{hidden}{dirs}"))).unwrap();
        }
        disk.write_atomic(Path::new(&path), bytes).unwrap();
        let before = keyrack_testkit::damage::directory(&*disk, Path::new("/"));
        let error = repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap_err();
        assert!(matches!(&error, Error::Usage(what) if what.contains(hidden)), "{error:?}");
        assert_eq!(keyrack_testkit::damage::directory(&*disk, Path::new("/")), before);
        if file.is_empty() {
            disk.remove_file(Path::new(hidden)).unwrap();
        } else {
            disk.remove_dir_all(Path::new(hidden)).unwrap();
        }
    }
    // Beside the mark, what is not ours stays.
    disk.create_dir(Path::new("/.restored.restore")).unwrap();
    disk.write_atomic(Path::new("/.restored.restore/RESTORATION"), MARK).unwrap();
    disk.write_atomic(Path::new("/.restored.restore/mine"), b"content").unwrap();
    repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap();
    assert_eq!(disk.read(Path::new("/.restored.restore/mine")).unwrap(), b"content");
}

#[test]
fn links_are_refused_before_anything_is_copied() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let db = open(&disk, STORE);
    write(&db, 1..10);
    let id = save(&db, &repository).unwrap().info.id;
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    RealFs.create_dir_all(&path("elsewhere/files")).unwrap();
    RealFs.create_dir(&path("empty")).unwrap();
    RealFs.write_atomic(&path("elsewhere/files/mine"), b"content").unwrap();
    RealFs.write_atomic(&path("elsewhere/RESTORATION"), MARK).unwrap();
    let refuses = |target: &str, link: &str, to: &str| {
        std::os::unix::fs::symlink(path(to), path(link)).unwrap();
        let copied = |_| panic!("{target}: a file was copied");
        let error = repository.restore(&id, &RealFs, &path(target), copied).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{target}: {error:?}");
        RealFs.remove_file(&path(link)).unwrap();
    };
    refuses("new", ".new.restore", "elsewhere");
    refuses("link", "link", "empty");
    refuses("link", "link", "nothing");
    assert_eq!(names(&RealFs, dir.path().to_str().unwrap()), ["elsewhere", "empty"]);
    assert_eq!(RealFs.read(&path("elsewhere/files/mine")).unwrap(), b"content");
}

/// A directory that cannot be replaced, such as a mount point, is known before the copy.
#[test]
fn an_empty_directory_is_tried_before_anything_is_copied() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let db = open(&disk, STORE);
    write(&db, 1..10);
    let id = save(&db, &repository).unwrap().info.id;
    let faults = FaultFs::new(Arc::new(MemFs::new()));
    faults.create_dir(Path::new(RESTORED)).unwrap();
    let plan = FaultPlan::from_then_on(1, Fault::Io).only(&[Operation::Rename]);
    faults.arm(plan);
    let copied = |_| panic!("a file was copied");
    repository.restore(&id, &faults, Path::new(RESTORED), copied).unwrap_err();
    faults.disarm();
    assert_eq!(names(&faults, "/"), ["restored"]);
    repository.restore(&id, &faults, Path::new(RESTORED), |_| ()).unwrap();
}
