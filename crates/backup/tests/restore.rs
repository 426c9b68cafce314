//! Restoring: to new and empty directories alone.

use crate::support::*;
use keyrack_backup::{BackupId, Error};
use keyrack_vfs::MemFs;
use std::path::Path;

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
    assert_eq!(newest_round(&db), 99);
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
    let lock = disk.lock(Path::new("/.restored.restore/LOCK")).unwrap();
    let error = repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap_err();
    assert!(matches!(error, Error::Locked(_)), "{error:?}");
    drop(lock);
    repository.restore(&id, &*disk, Path::new(RESTORED), |_| ()).unwrap();
}
