//! Backups of stores in an object store: in memory, and on a server whose wire is cut and whose
//! clients are killed.

use crate::failing::{Failing, WHENS, When};
use crate::proxy::Cut;
use crate::server::{BUCKET, Server, cut_access};
use keyrack_backup::{Backup, BackupId, Error, FileSet, Repository, Result, Saved, Target};
use keyrack_flodb::{Db, Options, WriteOptions};
use keyrack_objects::{Access, Address, backup_target};
use keyrack_store::{FileContent, HeldFile};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{Fs, MemFs, RelativePath};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Places where the wire is cut, in each direction.
const CUTS: u64 = 6;
/// Processes that are killed, for a seed.
const KILLS: u64 = 4;
const PREFIX_VARIABLE: &str = "KEYRACK_TEST_BACKUP_PREFIX";
const ENDPOINT_VARIABLE: &str = "KEYRACK_TEST_BACKUP_ENDPOINT";

pub(crate) fn at(access: &Access, prefix: &str) -> Arc<dyn Target> {
    try_at(access, prefix).unwrap()
}

pub(crate) fn try_at(access: &Access, prefix: &str) -> Result<Arc<dyn Target>> {
    backup_target(&Address::parse(&format!("s3://{BUCKET}/{prefix}")).unwrap(), access)
}

pub(crate) fn memory() -> Arc<dyn Target> {
    let address = Address::parse("memory:").unwrap();
    backup_target(&address, &Access::of_environment()).unwrap()
}

/// A store with `rounds` rounds, whose tables stay as they are.
fn store(rounds: u64) -> Db {
    let options = Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        table_bytes: 16 << 10,
        compaction_threads: 0,
        ..Options::default()
    };
    let db = Db::open_in(Arc::new(MemFs::new()), Path::new("/store"), options).unwrap();
    write(&db, 1..rounds + 1);
    db
}

fn changes(round: u64) -> [(Vec<u8>, Vec<u8>); 2] {
    let value = [&round.to_be_bytes()[..], &vec![round as u8; 700]].concat();
    [(b"last".to_vec(), round.to_be_bytes().to_vec()), (vec![b'k', (round * 7 % 97) as u8], value)]
}

pub(crate) fn write(db: &Db, rounds: std::ops::Range<u64>) {
    for (key, value) in rounds.flat_map(changes) {
        db.put_with(&key, &value, WriteOptions::default()).unwrap();
    }
}

pub(crate) fn save(db: &Db, target: &Arc<dyn Target>) -> Result<Saved> {
    let repository = Repository::create(Arc::clone(target))?;
    Backup::of(db.file_set().unwrap()).save_to(&repository)
}

/// Restores a backup, which has exactly what the rounds up to one have written.
fn restored_round(repository: &Repository, id: &BackupId) -> u64 {
    let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
    repository.restore(id, &*fs, Path::new("/restored"), |_| ()).unwrap();
    newest_round(&fs)
}

/// The newest round of the store that was restored, which has exactly what the rounds up to it have
/// written.
pub(crate) fn newest_round(fs: &Arc<dyn Fs>) -> u64 {
    let options = Options::default();
    let db = Db::open_in(Arc::clone(fs), Path::new("/restored"), options).unwrap();
    let mut found = BTreeMap::new();
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    while let Some((key, value)) = iter.entry() {
        found.insert(key.to_vec(), value.to_vec());
        iter.next().unwrap();
    }
    let last = u64::from_be_bytes(found[&b"last"[..]][..].try_into().unwrap());
    let model: BTreeMap<_, _> = (1..=last).flat_map(changes).collect();
    assert!(found == model, "not what the rounds up to {last} have written");
    last
}

fn objects(target: &Arc<dyn Target>) -> (u64, u64) {
    let listed = target.list(&name("objects")).unwrap();
    (listed.len() as u64, listed.iter().map(|object| object.bytes).sum())
}

fn name(text: &str) -> RelativePath {
    RelativePath::new(text).unwrap()
}

/// Full, incremental, listed, verified, restored, deleted.
#[track_caller]
fn lives(target: &Arc<dyn Target>) {
    let db = store(100);
    let first = save(&db, target).unwrap();
    write(&db, 101..121);
    let second = save(&db, target).unwrap();
    assert!(second.copied_bytes < second.info.bytes, "{second:?}");
    let repository = Repository::open(Arc::clone(target)).unwrap();
    let ids = repository.backups().unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    assert_eq!(ids, [first.info.id.clone(), second.info.id.clone()]);
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
    assert_eq!(restored_round(&repository, &first.info.id), 100);
    let deleted = repository.keep_newest(1).unwrap();
    assert!(deleted.backups == 1 && deleted.objects > 0, "{deleted:?}");
    assert_eq!(objects(target), (second.info.files, second.info.bytes));
    assert_eq!(restored_round(&repository, &second.info.id), 120);
}

#[test]
fn a_backup_lives_in_memory() {
    lives(&memory());
}

#[test]
fn a_backup_lives_on_a_server() {
    let Some(server) = Server::start("a_backup_lives_on_a_server") else { return };
    lives(&at(&server.access(), "lives"));
    lives(&at(&server.access(), "a b/ü"));
}

/// A file set with one large file, which goes in parts.
#[test]
fn a_large_file_goes_in_parts() {
    let Some(server) = Server::start("a_large_file_goes_in_parts") else { return };
    let mut draw = Draw::new(7);
    for bytes in [0, 1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, (33 << 20) + 5] {
        let content: Vec<u8> = (0..bytes).map(|_| draw.next() as u8).collect();
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        fs.write_atomic(Path::new("/large"), &content).unwrap();
        let file = HeldFile {
            name: name("large"),
            content: FileContent::File("/large".into()),
            bytes: content.len() as u64,
            identity: None,
            check: None,
            hold: Box::new(()),
        };
        let set = FileSet { fs, engine: "flodb", log: None, files: vec![file] };
        let target = at(&server.access(), &format!("large{bytes}"));
        let repository = Repository::create(Arc::clone(&target)).unwrap();
        let saved = Backup::of(set).save_to(&repository).unwrap();
        assert_eq!(saved.copied_bytes, bytes as u64);
        let restored = MemFs::new();
        repository.restore(&saved.info.id, &restored, Path::new("/r"), |_| ()).unwrap();
        assert!(restored.read(Path::new("/r/large")).unwrap() == content, "{bytes}");
    }
}

#[test]
fn more_objects_than_a_page_are_listed() {
    let Some(server) = Server::start("more_objects_than_a_page_are_listed") else { return };
    let target = at(&server.access(), "pages");
    Repository::create(Arc::clone(&target)).unwrap();
    let guard = target.lock().unwrap();
    for number in 0..1003_u32 {
        let name = name(&format!("objects/{number}"));
        target.put(&name, &mut |sink| sink(&number.to_be_bytes())).unwrap();
    }
    drop(guard);
    assert_eq!(objects(&target), (1003, 4012));
}

/// What is in a prefix already is somebody else's.
#[test]
fn a_prefix_with_other_things_is_refused() {
    let target = memory();
    let guard = target.lock().unwrap();
    target.put(&name("photos/cat"), &mut |sink| sink(b"cat")).unwrap();
    drop(guard);
    let error = Repository::create(Arc::clone(&target)).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error:?}");
    let line = error.to_string();
    assert!(line.contains("'photos/cat'") && line.contains("choose a prefix"), "{line}");
    assert_eq!(target.list(&name("photos")).unwrap().len(), 1);
}

#[test]
fn every_call_fails_once() {
    for when in WHENS {
        for at in 1.. {
            if !fails(when, at) {
                assert!(at > 10, "{when:?} at {at}");
                break;
            }
        }
    }
}

/// Whether call `at` is made. If so it fails, and nothing is lost.
fn fails(when: When, at: u64) -> bool {
    let db = store(60);
    let target = memory();
    let first = save(&db, &target).unwrap().info.id;
    write(&db, 61..81);
    let failing = Failing::new(Arc::clone(&target), at, when, false);
    let outcome = save(&db, &(Arc::clone(&failing) as Arc<dyn Target>));
    let what = format!("{when:?} at {at}: {outcome:?}");
    let repository = Repository::open(Arc::clone(&target)).unwrap();
    assert!(repository.verify(None, |_| ()).unwrap().is_sound(), "{what}");
    assert_eq!(restored_round(&repository, &first), 60, "{what}");
    let before = objects(&target).1;
    let again = save(&db, &target).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(again.copied_bytes, objects(&target).1 - before, "{what}");
    assert_eq!(restored_round(&repository, &again.info.id), 80, "{what}");
    assert_eq!(outcome.is_err(), failing.has_failed(), "{what}");
    failing.has_failed()
}

/// With a lease that a test can wait for.
pub(crate) fn brief(mut access: Access) -> Access {
    access.lease = Duration::from_millis(1500);
    access
}

/// What was there stays; the new backup is there whole or not; who was told that it is there was
/// told the truth; and when the server is back, the next backup copies what is missing.
#[test]
fn a_cut_leaves_the_old_backup_whole_and_the_new_one_whole_or_absent() {
    let Some(server) = Server::start("a_cut_leaves_the_old_backup_whole") else { return };
    let wire = server.wire(Cut::Never);
    let db = store(40);
    save(&db, &at(&cut_access(&wire), "measured")).unwrap();
    let (requests, answers) = wire.bytes();
    drop(wire);
    let place = |bytes: u64, index: u64| bytes * index / CUTS;
    let cuts = (1..=CUTS).flat_map(|index| {
        [Cut::Requests(place(requests, index) - 60), Cut::Answers(place(answers, index) - 60)]
    });
    let mut outcomes = [0, 0];
    for (index, cut) in cuts.enumerate() {
        let prefix = format!("cut{index}");
        let whole = at(&server.access(), &prefix);
        let old = save(&store(30), &whole).unwrap().info.id;
        let wire = server.wire(cut);
        let outcome =
            try_at(&brief(cut_access(&wire)), &prefix).and_then(|target| save(&db, &target));
        drop(wire);
        if let Err(error) = &outcome {
            assert!(matches!(error, Error::Remote(_)), "{cut:?}: {error:?}");
            let line = error.to_string();
            assert!(!line.contains('\n') && line.contains(&prefix), "{line}");
        }
        let repository = Repository::open(Arc::clone(&whole)).unwrap();
        assert!(repository.verify(None, |_| ()).unwrap().is_sound(), "{cut:?}");
        let ids = repository.backups().unwrap().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
        outcomes[ids.len() - 1] += 1;
        assert!(outcome.is_err() || ids.len() == 2, "{cut:?}");
        assert_eq!(restored_round(&repository, &old), 30);
        let before = objects(&whole).1;
        let again = save_when_free(&db, &whole);
        assert_eq!(again.copied_bytes, objects(&whole).1 - before, "{cut:?}: {again:?}");
        assert_eq!(restored_round(&repository, &again.info.id), 40, "{cut:?}");
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

/// Saves as soon as the lease of a dead holder is over.
fn save_when_free(db: &Db, target: &Arc<dyn Target>) -> Saved {
    loop {
        match save(db, target) {
            Err(Error::Locked(line)) => {
                assert!(line.contains("process") && line.contains("try again in"), "{line}");
            }
            saved => return saved.unwrap(),
        }
    }
}

/// The process that is killed; nothing in other runs.
#[test]
fn child_that_saves() {
    let Ok(prefix) = std::env::var(PREFIX_VARIABLE) else { return };
    let endpoint = std::env::var(ENDPOINT_VARIABLE).unwrap();
    let mut access = crate::server::access(&endpoint, crate::server::SECRET);
    access.lease = Duration::from_secs(2);
    save(&store(90), &at(&access, &prefix)).unwrap();
}

/// Killed at random moments, a backup is there whole or not, and the next one goes on.
#[test]
fn a_killed_backup_goes_on_and_copies_nothing_twice() {
    let Some(server) = Server::start("a_killed_backup_goes_on") else { return };
    for seed in seeds().into_iter().take(1) {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let wire = server.wire(Cut::Never);
        save(&store(90), &at(&cut_access(&wire), "measured")).unwrap();
        let total = wire.bytes().0;
        for kill in 0..KILLS {
            let prefix = format!("kill{seed}-{kill}");
            let wire = server.wire(Cut::Never);
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "backups::child_that_saves"])
                .env(PREFIX_VARIABLE, &prefix)
                .env(ENDPOINT_VARIABLE, wire.endpoint())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let moment = draw.next() % total;
            while wire.bytes().0 < moment && child.try_wait().unwrap().is_none() {
                std::thread::yield_now();
            }
            // It may have ended by itself.
            let _ = child.kill();
            child.wait().unwrap();
            drop(wire);
            let target = at(&server.access(), &prefix);
            let what = format!("killed at {moment} of {total} bytes");
            if let Ok(repository) = Repository::open(Arc::clone(&target)) {
                assert!(repository.verify(None, |_| ()).unwrap().is_sound(), "{what}");
            }
            let (count, bytes) = objects(&target);
            let saved = save_when_free(&store(90), &target);
            // The log of each store has an identity of its own, so tables are found by content.
            assert_eq!(saved.copied_bytes, objects(&target).1 - bytes, "{what}: {saved:?}");
            assert!(saved.copied_files + count >= saved.info.files, "{what}: {saved:?}");
            let repository = Repository::open(target).unwrap();
            assert_eq!(restored_round(&repository, &saved.info.id), 90, "{what}");
        }
    }
}
