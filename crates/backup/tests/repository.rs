//! Repositories: made, listed, kept apart from other directories and from other writers.

use crate::meanwhile::Meanwhile;
use crate::support::*;
use keyrack_backup::{BackupId, Error, Repository};
use keyrack_vfs::MemFs;
use std::path::Path;

#[test]
fn other_directories_are_left_alone() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    disk.write_atomic(Path::new("/file"), b"content").unwrap();
    for place in [STORE, "/file"] {
        let target = std::sync::Arc::new(keyrack_backup::DirTarget::new(disk.clone(), place));
        let before = keyrack_testkit::damage::directory(&*disk, Path::new("/"));
        let error = Repository::create(target.clone()).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{place}: {error:?}");
        assert!(matches!(Repository::open(target), Err(Error::Usage(_) | Error::Io(_))));
        assert_eq!(keyrack_testkit::damage::directory(&*disk, Path::new("/")), before);
    }
    drop(db);
    let error = Repository::open(target(&disk)).unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("no backups")), "{error}");
    assert!(!disk.exists(Path::new(BACKUPS)).unwrap());
}

#[test]
fn a_later_or_damaged_repository_is_refused() {
    let disk = shared(&MemFs::new());
    create(&disk).unwrap();
    let marker = Path::new("/backups/REPOSITORY");
    for (text, is_damage) in [
        ("keyrack backup repository 2\n", false),
        ("keyrack backup repository 10\nand more, of that version", false),
        ("keyrack backup repository 0\n", true),
        ("keyrack backup repository 1", true),
        ("", true),
        ("keyrack backup repository 1\nand more, by whoever it was", true),
    ] {
        disk.write_atomic(marker, text.as_bytes()).unwrap();
        for opened in [Repository::open(target(&disk)), create(&disk)] {
            match opened.unwrap_err() {
                Error::Usage(what) => {
                    assert!(!is_damage && what.contains("use a later keyrack"), "{text}: {what}");
                }
                Error::Corruption { .. } => assert!(is_damage, "{text}"),
                error => panic!("{text}: {error}"),
            }
        }
    }
}

#[test]
fn one_process_writes_at_a_time() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    write(&db, 1..50);
    let repository = create(&disk).unwrap();
    let saved = save(&db, &repository).unwrap();
    let guard = keyrack_backup::Target::lock(&*target(&disk)).unwrap();
    assert!(matches!(save(&db, &repository), Err(Error::Locked(_))));
    assert!(matches!(repository.delete(&[]), Err(Error::Locked(_))));
    // Who reads asks nobody.
    assert_eq!(repository.backups().unwrap().len(), 1);
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    assert_eq!(restored_round(&repository, &saved.info.id), 49);
    drop(guard);
    save(&db, &repository).unwrap();
    assert_eq!(repository.backups().unwrap().len(), 2);
}

#[test]
fn what_a_deleted_backup_alone_needed_goes() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    let repository = create(&disk).unwrap();
    let ids: Vec<BackupId> = (1..=4)
        .map(|n| {
            write(&db, (n - 1) * 150 + 1..n * 150 + 1);
            if n == 3 {
                db.compact_range(None, None).unwrap();
            }
            save(&db, &repository).unwrap().info.id
        })
        .collect();
    let listed = |repository: &Repository| -> Vec<BackupId> {
        repository.backups().unwrap().into_iter().map(|(id, _)| id).collect()
    };
    assert_eq!(listed(&repository), ids);
    let no_such = BackupId::parse("20000101T000000Z").unwrap();
    assert!(matches!(repository.delete(&[ids[0].clone(), no_such]), Err(Error::Usage(_))));
    assert_eq!(listed(&repository), ids, "nothing was done");
    let deleted = repository.delete(&[ids[1].clone()]).unwrap();
    assert!(deleted.backups == 1 && deleted.objects > 0 && deleted.bytes > 0, "{deleted:?}");
    for (id, n) in [(&ids[0], 150), (&ids[2], 450), (&ids[3], 600)] {
        assert_eq!(restored_round(&repository, id), n);
    }
    assert!(matches!(repository.keep_newest(0), Err(Error::Usage(_))));
    assert_eq!(repository.keep_newest(1).unwrap().backups, 2);
    assert_eq!(listed(&repository), ids[3..]);
    assert_eq!(restored_round(&repository, &ids[3]), 600);
    let report = repository.verify(None, |_| ()).unwrap();
    assert_eq!((report.is_sound(), report.unused_objects), (true, 0));
    assert_eq!(names(&*disk, "/backups/objects").len() as u64, report.objects);
    repository.delete(&ids[3..]).unwrap();
    assert!(names(&*disk, "/backups/objects").is_empty());
    assert!(matches!(repository.newest(), Err(Error::Usage(_))));
}

/// The choice was made before the lock was taken: the backup of then counted, and a newer one that
/// the number was meant for stayed beside it.
#[test]
fn a_backup_made_before_the_lock_counts_as_one_of_the_newest() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    let repository = create(&disk).unwrap();
    for n in 1..=2 {
        write(&db, n * 50..n * 50 + 50);
        save(&db, &repository).unwrap();
    }
    let other = repository.clone();
    let meanwhile = Meanwhile::new(target(&disk), move || drop(save(&db, &other).unwrap()));
    let deleted = Repository::open(meanwhile).unwrap().keep_newest(1).unwrap();
    assert_eq!((deleted.backups, repository.backups().unwrap().len()), (2, 1));
}

/// A manifest without its objects counted as the newest backup, and the last whole one was removed.
#[test]
fn no_backup_goes_while_one_that_stays_lacks_an_object() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    let repository = create(&disk).unwrap();
    write(&db, 1..100);
    let whole = save(&db, &repository).unwrap().info.id;
    let objects = names(&*disk, "/backups/objects");
    write(&db, 100..400);
    let lacking = save(&db, &repository).unwrap().info.id;
    let new = names(&*disk, "/backups/objects").into_iter().find(|name| !objects.contains(name));
    disk.remove_file(&Path::new("/backups/objects").join(new.unwrap())).unwrap();
    let error = repository.keep_newest(1).unwrap_err();
    assert!(matches!(error, Error::Corruption { .. }), "{error}");
    let line = error.to_string();
    assert!(line.contains(&lacking.to_string()) && line.contains("delete this one"), "{line}");
    assert_eq!(restored_round(&repository, &whole), 99);
    // With nothing to remove there is nothing to lose.
    assert_eq!(repository.keep_newest(2).unwrap().backups, 0);
    repository.delete(&[lacking]).unwrap();
    assert_eq!(repository.keep_newest(1).unwrap().backups, 0);
    assert_eq!(restored_round(&repository, &whole), 99);
}
