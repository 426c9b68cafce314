//! The manifest as its users see it. `crash` cuts the power and fails operations, `damage` changes
//! bytes.

mod crash;
mod damage;
pub(crate) mod fuzzed;

use super::*;
use crate::key::tests::backwards;
use crate::version::Version;
use crate::version::tests::{adding, file, plain};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, MemFs};

pub(super) const DIR: &str = "/db";

pub(super) fn dir() -> &'static Path {
    Path::new(DIR)
}

/// A disk with an empty directory for the store.
pub(super) fn disk() -> MemFs {
    let disk = MemFs::new();
    disk.create_dir(dir()).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk
}

/// A new store whose manifests have room for so many bytes of edits.
pub(super) fn create_with(fs: Arc<dyn Fs>, edit_bytes_max: u64) -> Result<Manifest> {
    let mut manifest = Manifest::of(fs, dir(), State::new(Comparator::Bytewise), 0)?;
    manifest.set_edit_bytes_max(edit_bytes_max);
    manifest.log(&VersionEdit::default())?;
    Ok(manifest)
}

/// A new store whose manifest has room for 16 edits.
pub(super) fn create(fs: impl Fs + 'static) -> Manifest {
    create_with(Arc::new(fs), 16 * PAGE_BYTES as u64).unwrap()
}

pub(super) fn open(fs: impl Fs + 'static) -> Result<(Manifest, State)> {
    let manifest = Manifest::open(Arc::new(fs), dir(), Comparator::Bytewise)?;
    let state = manifest.state().clone();
    Ok((manifest, state))
}

/// Where the room for edits begins.
pub(super) fn end_of_records(bytes: &[u8]) -> usize {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    used.next_multiple_of(PAGE_BYTES)
}

/// What an operation that should fail says.
#[track_caller]
pub(super) fn message<T>(result: Result<T>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

/// Makes an empty file beside the manifest.
pub(super) fn touch(disk: &MemFs, name: &str) {
    let options = OpenOptions::new().write(true).create(true);
    disk.open(&dir().join(name), &options).unwrap();
}

fn names(fs: &dyn Fs) -> Vec<String> {
    let entries = fs.list(dir()).unwrap();
    entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

/// Adds a table with the next number to level 0. The file itself is nobody's concern here.
fn add(manifest: &mut Manifest) -> u64 {
    let number = manifest.numbers().issue();
    manifest.log(&adding(&[(0, file(number.get(), "a", "z"))])).unwrap();
    number.get()
}

#[test]
fn a_state_comes_back() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    assert_eq!(manifest.state(), &State { next_file: 2, ..State::new(Comparator::Bytewise) });
    let one = add(&mut manifest);
    let moved = Arc::clone(&manifest.state().version.files(0)[0]);
    let edit = VersionEdit {
        log_from: Some(4_096),
        last_sequence: Some(77),
        deleted: vec![(0, one)],
        added: vec![(3, moved)],
        pointers: vec![(2, b"key".to_vec())],
        ..VersionEdit::default()
    };
    manifest.log(&edit).unwrap();
    manifest.log(&VersionEdit::default()).unwrap();

    let (reopened, state) = open(disk).unwrap();
    assert_eq!(&state, manifest.state());
    assert_eq!((state.log_from, state.last_sequence, state.next_file), (4_096, 77, 3));
    assert_eq!(state.version.files(3)[0].number, one);
    assert_eq!((reopened.path(), reopened.dropped().is_empty()), (manifest.path(), true));
}

#[test]
fn reading_writes_nothing_and_the_first_edit_begins_a_new_manifest() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    add(&mut manifest);
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.arm(FaultPlan::from_then_on(1, Fault::NoSpace).only(&[
        Operation::Write,
        Operation::SetLen,
        Operation::Rename,
        Operation::RemoveFile,
        Operation::Sync,
        Operation::SyncDir,
    ]));
    let (mut reopened, state) = open(fs.clone()).unwrap();
    assert_eq!((fs.injected(), names(&disk).len()), (0, 2));
    fs.disarm();
    reopened.log(&VersionEdit::default()).unwrap();
    assert_eq!(names(&disk), ["CURRENT", "MANIFEST-000001", "MANIFEST-000003"]);
    assert_eq!(reopened.state().version, state.version);
    assert_eq!(open(disk).unwrap().1, *reopened.state());
}

#[test]
fn a_grown_manifest_is_replaced() {
    let disk = disk();
    let mut manifest = create_with(Arc::new(disk.clone()), 4 * PAGE_BYTES as u64).unwrap();
    let first = manifest.path();
    for _ in 0..4 {
        add(&mut manifest);
        assert_eq!(manifest.path(), first);
    }
    add(&mut manifest);
    assert_ne!(manifest.path(), first);
    assert!(disk.exists(&first).unwrap(), "it is left to those who remove what is obsolete");
    assert_eq!(manifest.obsolete(HashSet::new).unwrap(), [first]);
    assert_eq!(open(disk).unwrap().1, *manifest.state());
}

#[test]
fn a_large_snapshot_is_not_written_again_for_every_edit() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    manifest.set_edit_bytes_max(PAGE_BYTES as u64);
    let names: Vec<String> = (0..2_000).map(|index| format!("user{index:08}")).collect();
    let tables: Vec<_> = names
        .iter()
        .map(|name| (5, file(manifest.numbers().issue().get(), name, &format!("{name}x"))))
        .collect();
    manifest.log(&adding(&tables)).unwrap();
    add(&mut manifest);
    let path = manifest.path();
    let snapshot_bytes = disk.metadata(&path).unwrap().len;
    assert!(snapshot_bytes > 100 * PAGE_BYTES as u64, "{snapshot_bytes}");
    for _ in 0..100 {
        add(&mut manifest);
    }
    assert_eq!(manifest.path(), path);
    assert_eq!(open(disk).unwrap().1, *manifest.state());
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    let number = add(&mut manifest);
    let before = manifest.state().clone();
    let bytes = disk.read(&manifest.path()).unwrap();
    let far = Arc::new(plain(99, "a", "b", 1));
    for (edit, what) in [
        (VersionEdit { deleted: vec![(1, number)], ..VersionEdit::default() }, "where it is not"),
        (adding(&[(1, far)]), "table 99 has a number that was never given out"),
        (
            VersionEdit { last_sequence: Some(1), ..VersionEdit::default() },
            "goes back from 29 to 1",
        ),
        (
            VersionEdit { last_sequence: Some(u64::MAX), ..VersionEdit::default() },
            "beyond its range",
        ),
    ] {
        let message = message(manifest.log(&edit));
        assert!(message.contains(what), "{message}");
        assert!(message.contains(&format!("byte {}", end_of_records(&bytes))), "{message}");
    }
    assert_eq!((manifest.state(), disk.read(&manifest.path()).unwrap()), (&before, bytes));
    add(&mut manifest);
    assert_eq!(open(disk).unwrap().1, *manifest.state());
}

#[test]
fn another_order_of_keys_is_refused_by_name() {
    let disk = disk();
    add(&mut create(disk.clone()));
    let error = Manifest::open(Arc::new(disk), dir(), backwards()).unwrap_err();
    assert!(matches!(error, Error::Usage(_)));
    let message = error.to_string();
    assert!(message.contains("\"keyrack.bytewise\"") && message.contains("\"test.backwards\""));
}

#[test]
fn a_store_is_made_once_and_opened_where_it_is() {
    let disk = disk();
    assert!(!Manifest::exists(&disk, dir()).unwrap());
    assert!(!Manifest::exists(&disk, Path::new("/nowhere")).unwrap());
    let none = open(disk.clone()).map(|_| ());
    assert!(matches!(&none, Err(Error::Usage(_))));
    assert_eq!(message(none), "/db holds no store");

    create(disk.clone());
    assert!(Manifest::exists(&disk, dir()).unwrap());
    let twice = Manifest::create(Arc::new(disk.clone()), dir(), Comparator::Bytewise);
    assert_eq!(message(twice), "/db holds a store already");
    let state = State::new(Comparator::Bytewise);
    let twice = Manifest::create_from(Arc::new(disk), dir(), state);
    assert_eq!(message(twice), "/db holds a store already");
}

#[test]
fn a_store_can_begin_with_the_state_of_another() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    for _ in 0..3 {
        add(&mut manifest);
    }
    let copy = Path::new("/copy");
    disk.create_dir(copy).unwrap();
    for number in manifest.state().version.numbers() {
        let table = OpenOptions::new().write(true).create(true);
        disk.open(&copy.join(table_name(number)), &table).unwrap();
    }
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let made = Manifest::create_from(Arc::clone(&fs), copy, manifest.state().clone()).unwrap();
    let reopened = Manifest::open(fs, copy, Comparator::Bytewise).unwrap();
    let state = reopened.state();
    assert_eq!(state, made.state());
    assert_eq!(state.version, manifest.state().version);
    assert!(made.obsolete(HashSet::new).unwrap().is_empty());
}

#[test]
fn what_nobody_names_is_obsolete() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    let kept = add(&mut manifest);
    let old = add(&mut manifest);
    manifest.log(&VersionEdit { deleted: vec![(0, old)], ..VersionEdit::default() }).unwrap();
    let unfinished = manifest.numbers().issue();
    for number in [kept, old, unfinished.get(), 90] {
        touch(&disk, &table_name(number));
    }
    for name in ["MANIFEST-000000", ".CURRENT.0011.tmp", "LOCK", "notes.txt", "7.table"] {
        touch(&disk, name);
    }
    disk.create_dir(&dir().join("000091.table")).unwrap();
    let obsolete = |manifest: &Manifest, live: &[u64]| {
        let found = manifest.obsolete(|| live.iter().copied().collect()).unwrap();
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        found.into_iter().map(name).collect::<Vec<_>>()
    };
    let always = [".CURRENT.0011.tmp", "000090.table", "MANIFEST-000000"];
    assert_eq!(obsolete(&manifest, &[old]), always, "a reader holds a version with the old table");
    let old_name = table_name(old);
    assert_eq!(obsolete(&manifest, &[]), [always[0], &old_name, always[1], always[2]]);
    let unfinished_name = table_name(unfinished.get());
    drop(unfinished);
    assert_eq!(
        obsolete(&manifest, &[old]),
        [always[0], &unfinished_name, always[1], always[2]],
        "nobody finishes it any more"
    );
}

#[test]
fn nothing_is_obsolete_before_an_edit_has_succeeded() {
    let disk = disk();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let mut manifest = create(fs.clone());
    let stray = dir().join(table_name(50));
    touch(&disk, &table_name(50));
    assert_eq!(manifest.obsolete(HashSet::new).unwrap(), std::slice::from_ref(&stray));

    fs.arm(FaultPlan::once(1, Fault::NoSpace).only(&[Operation::Write]));
    let error = manifest.log(&VersionEdit::default()).unwrap_err();
    assert!(matches!(error, Error::Io(_)), "{error}");
    assert!(manifest.obsolete(HashSet::new).unwrap().is_empty(), "after a failed edit");
    manifest.log(&VersionEdit::default()).unwrap();
    assert_eq!(manifest.obsolete(HashSet::new).unwrap().len(), 2, "the stray and the old manifest");

    let (mut manifest, _) = open(disk).unwrap();
    assert!(manifest.obsolete(HashSet::new).unwrap().is_empty(), "after opening");
    manifest.log(&VersionEdit::default()).unwrap();
    assert!(manifest.obsolete(HashSet::new).unwrap().contains(&stray));
}

#[test]
fn numbers_of_files_left_behind_are_not_given_again() {
    let disk = disk();
    let manifest = create(disk.clone());
    let lost = manifest.numbers().issue().get();
    touch(&disk, &table_name(lost));
    drop(manifest);
    let (manifest, state) = open(disk).unwrap();
    assert_eq!(state.next_file, lost + 1);
    assert!(manifest.numbers().issue().get() > lost);
}

#[test]
fn a_failed_sync_is_final() {
    for operation in [Operation::Sync, Operation::SyncDir] {
        let disk = disk();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let mut manifest = create_with(Arc::new(fs.clone()), 0).unwrap();
        for _ in 0..2 {
            add(&mut manifest);
        }
        let state = manifest.state().clone();
        fs.arm(FaultPlan::once(1, Fault::Io).only(&[operation]));
        let refused = (0..3).find_map(|_| manifest.log(&VersionEdit::default()).err());
        assert!(matches!(refused, Some(Error::Poisoned(_))), "{refused:?}");
        let again = manifest.log(&VersionEdit::default()).unwrap_err();
        assert!(matches!(again, Error::Poisoned(_)), "{again}");
        assert_eq!(fs.injected(), 1);
        assert_eq!(manifest.state().version, state.version);
        assert!(manifest.obsolete(HashSet::new).unwrap().is_empty());
        let (mut reopened, found) = open(disk).unwrap();
        assert_eq!(found.version, state.version);
        reopened.log(&VersionEdit::default()).unwrap();
    }
}

#[test]
fn a_full_disk_is_no_reason_to_stop() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    add(&mut manifest);
    let used = disk.space(dir()).unwrap();
    disk.set_capacity(used.total_bytes - used.free_bytes);
    let before = manifest.state().clone();
    // Each page of the simulated disk has room for eight of ours.
    let failed = (0..20).find_map(|_| manifest.log(&VersionEdit::default()).err()).unwrap();
    assert!(matches!(&failed, Error::Io(error) if error.is_no_space()), "{failed}");
    for _ in 0..3 {
        let failed = manifest.log(&VersionEdit::default()).unwrap_err();
        assert!(matches!(&failed, Error::Io(error) if error.is_no_space()), "{failed}");
    }
    let manifests = names(&disk).iter().filter(|name| name.starts_with("MANIFEST")).count();
    assert_eq!(manifests, 1, "failed ones do not pile up");
    assert_eq!(open(disk.clone()).unwrap().1.version, before.version);
    disk.set_capacity(1 << 30);
    add(&mut manifest);
    assert_eq!(open(disk).unwrap().1, *manifest.state());
}

/// Cut where a record ends, a manifest looked whole: the edits behind were gone without a word.
#[test]
fn a_manifest_that_is_cut_anywhere_is_damaged() {
    for edits in [0, 1, 15, 16] {
        let disk = disk();
        let mut manifest = create(disk.clone());
        for _ in 0..edits {
            add(&mut manifest);
        }
        let path = manifest.path();
        let whole = disk.read(&path).unwrap();
        assert_eq!(whole.len(), 18 * PAGE_BYTES);
        let mut salvaged = 0;
        for len in 0..whole.len() {
            let image = disk.process_crash_image();
            image.write_atomic(&path, &whole[..len]).unwrap();
            let read = Manifest::salvage(&image, dir(), Comparator::Bytewise).unwrap();
            assert!(read.files.len() >= salvaged, "what is in front of the cut can be read");
            salvaged = read.files.len();
            let error = open(image).unwrap_err();
            let is_here = matches!(&error, Error::Corruption { path: at, .. } if *at == path);
            assert!(is_here, "{edits} edits, {len} bytes: {error}");
        }
        assert_eq!(salvaged, edits.min(15));
    }
}

/// A lost page of the last edit, and an earlier copy of the file, were taken for what a crash
/// leaves.
#[test]
fn after_an_end_neither_a_lost_page_nor_an_earlier_copy_is_taken_for_the_manifest() {
    let disk = disk();
    let mut manifest = create(disk.clone());
    let first = manifest.path();
    manifest.end().unwrap();
    assert_eq!(manifest.path(), first, "nothing to end");
    let copies = [disk.process_crash_image(), {
        add(&mut manifest);
        disk.process_crash_image()
    }];
    manifest.end().unwrap();
    let path = manifest.path();
    manifest.end().unwrap();
    assert_eq!(manifest.path(), path, "it has been ended");
    assert!(copies.iter().all(|copy| !copy.exists(&path).unwrap()), "there are no earlier copies");
    let whole = disk.read(&path).unwrap();
    for page in 0..end_of_records(&whole) / PAGE_BYTES {
        let mut bytes = whole.clone();
        bytes[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        let image = disk.process_crash_image();
        image.write_atomic(&path, &bytes).unwrap();
        assert!(matches!(open(image), Err(Error::Corruption { .. })), "page {page}");
    }
}

/// The state that the files in `tests/fixtures/manifest-1` hold.
fn fixture_history(manifest: &mut Manifest) {
    let numbers: Vec<u64> = (0..4).map(|_| manifest.numbers().issue().get()).collect();
    let table = |index: usize, first: &str, last: &str| file(numbers[index], first, last);
    let flushed =
        VersionEdit { log_from: Some(8_192), ..adding(&[(0, table(0, "apple", "pear"))]) };
    manifest.log(&flushed).unwrap();
    let large = "k".repeat(1_500);
    manifest.log(&adding(&[(0, table(1, "a", &large)), (6, table(2, "x", "z"))])).unwrap();
    let merged = VersionEdit {
        deleted: vec![(0, numbers[0]), (0, numbers[1])],
        pointers: vec![(5, b"m".to_vec())],
        last_sequence: Some(12_345),
        ..adding(&[(5, table(3, "a", &large))])
    };
    manifest.log(&merged).unwrap();
}

#[test]
fn files_of_version_1_are_read_and_written() {
    let disk = disk();
    let mut manifest = create_with(Arc::new(disk.clone()), 20 * PAGE_BYTES as u64).unwrap();
    fixture_history(&mut manifest);
    let fixtures: [(&str, &[u8]); 2] = [
        ("CURRENT", include_bytes!("../../../tests/fixtures/manifest-1/CURRENT")),
        ("MANIFEST-000001", include_bytes!("../../../tests/fixtures/manifest-1/MANIFEST-000001")),
    ];
    let old = self::disk();
    for (name, bytes) in fixtures {
        old.write_atomic(&dir().join(name), bytes).unwrap();
        let new = disk.read(&dir().join(name)).unwrap();
        // Only the length that the header says is new, and the room.
        let records = if name == "CURRENT" { 0..bytes.len() } else { PAGE_BYTES..bytes.len() };
        assert_eq!(new[records.clone()], bytes[records], "{name} is written as ever");
        assert!(new[bytes.len()..].iter().all(|byte| *byte == 0), "{name}");
    }
    let (_, state) = open(old).unwrap();
    assert_eq!(&state, manifest.state());
    assert_eq!((state.log_from, state.last_sequence, state.next_file), (8_192, 12_345, 6));
    let version: &Version = &state.version;
    assert_eq!(version.numbers().collect::<Vec<_>>(), [5, 4]);
    assert_eq!((version.pointer(5), version.files(5)[0].last().len()), (&b"m"[..], 1_500));
}
