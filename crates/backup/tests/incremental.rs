//! What backups cost after the first, and what they have.

use crate::support::*;
use keyrack_backup::{Backup, DirTarget, Progress, Repository};
use keyrack_flodb::{Comparator, Db, IngestOptions, Options, Spaces, SpacesBatch, SstWriter};
use keyrack_vfs::{FaultFs, Fs, MemFs, Operation, RealFs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[test]
fn each_backup_is_the_store_of_its_moment() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    let repository = create(&disk).unwrap();
    let mut backups = Vec::new();
    for end in [0, 1, 300, 301, 900, 900] {
        let begin = backups.last().map_or(1, |&(_, n)| n + 1);
        write(&db, begin..end + 1);
        backups.push((save(&db, &repository).unwrap().info.id, end));
    }
    db.compact_range(None, None).unwrap();
    drop(db);
    assert!(backups.is_sorted());
    for (id, n) in &backups {
        assert_eq!(restored_round(&repository, id), *n, "{id}");
    }
    assert_eq!(repository.newest().unwrap(), backups.last().unwrap().0);
    let report = repository.verify(None, |_| ()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!((report.backups, report.unused_objects), (6, 0));
}

/// Of what earlier backups have, not a byte of the store is read.
#[test]
fn only_new_files_are_read_and_copied() {
    let disk = MemFs::new();
    let faults = FaultFs::new(Arc::new(disk.clone()));
    let read: Arc<Mutex<Vec<PathBuf>>> = Arc::default();
    let reads = Arc::clone(&read);
    faults.watch(move |operation, path| {
        if operation == Operation::Read {
            reads.lock().unwrap().push(path.to_owned());
        }
    });
    let db = Db::open_in(Arc::new(faults), Path::new(STORE), idle()).unwrap();
    let repository = create(&shared(&disk)).unwrap();
    write(&db, 1..500);
    let first = save(&db, &repository).unwrap();
    assert_eq!(first.copied_files, first.info.files);
    assert_eq!(first.copied_bytes, first.info.bytes);
    write(&db, 500..520);
    let set = db.file_set().unwrap();
    read.lock().unwrap().clear();
    let second = Backup::of(set).save_to(&repository).unwrap();
    // A table and a blob file of the last rounds, the manifest and `CURRENT`.
    assert_eq!((second.copied_files, second.found_files), (4, 0), "{second:?}");
    assert!(second.copied_bytes < first.copied_bytes, "{second:?}");
    let mut seen = std::mem::take(&mut *read.lock().unwrap());
    seen.dedup();
    let new = |end: &str| seen.iter().filter(|path| path.to_string_lossy().ends_with(end)).count();
    assert!(new(".table") <= 2 && new(".blob") <= 2, "each new file is read twice: {seen:?}");
    assert_eq!(new(".table") + new(".blob"), seen.len());
    // Nothing is new but the manifest, whose number has grown.
    let third = save(&db, &repository).unwrap();
    assert!(third.copied_files <= 2, "{third:?}");
    drop(db);
    assert_eq!(restored_round(&repository, &first.info.id), 499);
    assert_eq!(restored_round(&repository, &second.info.id), 519);
}

/// A restored store gives the numbers of files again, and its backups go to the same repository.
#[test]
fn stores_with_a_common_past_share_what_is_the_same() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    // Without compactions, so that both have the files of their past.
    let open_idle = |dir| Db::open_in(Arc::clone(&disk), Path::new(dir), idle()).unwrap();
    let db = open_idle(STORE);
    write(&db, 1..500);
    let past = save(&db, &repository).unwrap().info;
    let common = past.id.clone();
    repository.restore(&common, &*disk, Path::new(RESTORED), |_| ()).unwrap();
    let other = open_idle(RESTORED);
    write(&other, 500..700);
    write(&db, 500..600);
    let ours = save(&db, &repository).unwrap();
    let theirs = save(&other, &repository).unwrap();
    write(&db, 600..900);
    let later = save(&db, &repository).unwrap();
    drop((db, other));
    assert_eq!(restored_round(&repository, &common), 499);
    assert_eq!(restored_round(&repository, &ours.info.id), 599);
    assert_eq!(restored_round(&repository, &theirs.info.id), 699);
    assert_eq!(restored_round(&repository, &later.info.id), 899);
    // All of the past but its manifest and `CURRENT`. The other store has another log, so its files
    // are read, and found by their content.
    assert!(past.files > 3, "{past:?}");
    assert_eq!(theirs.info.files - theirs.copied_files, past.files - 2, "{theirs:?}");
    assert_eq!(theirs.found_files, past.files - 2, "{theirs:?}");
}

#[test]
fn key_spaces_and_tables_from_outside_come_along() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let spaces = Spaces::open_in(Arc::clone(&disk), Path::new(STORE), tiny(), &[]).unwrap();
    let [users, ages] =
        ["users", "ages"].map(|name| spaces.get_or_create(name, &Comparator::Bytewise).unwrap());
    let mut batch = SpacesBatch::new();
    batch.put(&users, b"ada", b"36");
    batch.put(&ages, b"36 ada", &[7; 3000]);
    spaces.write(&batch, Default::default()).unwrap();
    let saved = Backup::of(spaces.file_set().unwrap()).save_to(&repository).unwrap();
    drop((users, ages));
    spaces.close().unwrap();
    repository.restore(&saved.info.id, &*disk, Path::new(RESTORED), |_| ()).unwrap();
    let restored = Spaces::open_in(Arc::clone(&disk), Path::new(RESTORED), tiny(), &[]).unwrap();
    let get = |space: &str, key: &[u8]| restored.get(space).unwrap().get(key).unwrap();
    assert_eq!(get("users", b"ada").as_deref(), Some(&b"36"[..]));
    assert_eq!(get("ages", b"36 ada").as_deref(), Some(&[7; 3000][..]));

    let db = open(&disk, "/other");
    db.put(b"a", b"old").unwrap();
    let mut outside = SstWriter::create(&*disk, Path::new("/outside"), &tiny()).unwrap();
    outside.put(b"a", b"new").unwrap();
    outside.put(b"b", b"new").unwrap();
    outside.finish().unwrap();
    db.ingest(&["/outside"], IngestOptions::default()).unwrap();
    let saved = save(&db, &repository).unwrap();
    let target = Path::new("/other restored");
    repository.restore(&saved.info.id, &*disk, target, |_| ()).unwrap();
    let restored = open(&disk, "/other restored");
    let expected = [b"a", b"b"].map(|key| (key.to_vec(), b"new".to_vec()));
    assert_eq!(rows(&restored), Model::from(expected));
}

#[test]
fn progress_ends_at_the_total() {
    let disk = shared(&MemFs::new());
    let db = open(&disk, STORE);
    write(&db, 1..300);
    let repository = create(&disk).unwrap();
    let mut seen: Vec<Progress> = Vec::new();
    let set = db.file_set().unwrap();
    // So many bytes that it takes no time to speak of.
    let backup = Backup::of(set).limit(1 << 40).watch(|now| seen.push(now));
    let info = backup.save_to(&repository).unwrap().info;
    let check = |seen: &[Progress]| {
        let last = seen.last().unwrap();
        assert_eq!((last.bytes, last.bytes_total), (info.bytes, info.bytes));
        assert_eq!((last.files, last.files_total), (info.files, info.files));
        assert!(seen.is_sorted_by_key(|now| now.bytes), "{seen:?}");
    };
    check(&seen);
    let mut seen = Vec::new();
    let target = Path::new(RESTORED);
    repository.restore(&info.id, &*disk, target, |now| seen.push(now)).unwrap();
    check(&seen);
}

/// A store that never had a log has tables without the number that tells stores apart.
#[test]
fn stores_without_a_log_are_told_apart() {
    let disk = shared(&MemFs::new());
    let repository = create(&disk).unwrap();
    let without_log = || Options { durability: keyrack_flodb::Durability::None, ..tiny() };
    let dirs = ["/one", "/two"];
    let ids = dirs.map(|dir| {
        let db = Db::open_in(Arc::clone(&disk), Path::new(dir), without_log()).unwrap();
        // Keys, lengths and numbers of files are the same.
        db.put(b"dir", dir.as_bytes()).unwrap();
        db.put(b"large", dir[1..].repeat(1000).as_bytes()).unwrap();
        save(&db, &repository).unwrap().info.id
    });
    for (dir, id) in dirs.iter().zip(&ids) {
        let target = format!("{dir} restored");
        repository.restore(id, &*disk, Path::new(&target), |_| ()).unwrap();
        let db = open(&disk, &target);
        assert_eq!(db.get(b"dir").unwrap().as_deref(), Some(dir.as_bytes()));
        let large = dir[1..].repeat(1000);
        assert_eq!(db.get(b"large").unwrap().as_deref(), Some(large.as_bytes()));
    }
}

#[test]
fn real_directories_hold_repositories() {
    let dir = tempfile::tempdir().unwrap();
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let db = Db::open_in(Arc::clone(&fs), &dir.path().join("store"), tiny()).unwrap();
    let target = Arc::new(DirTarget::new(Arc::clone(&fs), dir.path().join("backups")));
    let repository = Repository::create(target).unwrap();
    write(&db, 1..300);
    let first = save(&db, &repository).unwrap().info.id;
    write(&db, 300..500);
    let second = save(&db, &repository).unwrap();
    assert!(second.copied_files < second.info.files, "{second:?}");
    repository.delete(&[first]).unwrap();
    let restored = dir.path().join("restored");
    RealFs.create_dir(&restored).unwrap();
    repository.restore(&second.info.id, &RealFs, &restored, |_| ()).unwrap();
    assert_eq!(newest_round(&Db::open_in(fs, &restored, tiny()).unwrap()), 499);
    let report = repository.verify(None, |_| ()).unwrap();
    assert_eq!((report.is_sound(), report.unused_objects), (true, 0));
}
