//! What every file system does, run over the real one (in a scratch directory) and the simulated
//! one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use keyrack_vfs::{Error, File, FileKind, Fs, MemFs, OpenOptions, RealFs};

/// Where a case runs.
struct Place {
    fs: Arc<dyn Fs>,
    root: PathBuf,
}

impl Place {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn create(&self, name: &str) -> Arc<dyn File> {
        let options = OpenOptions::new().read(true).write(true).create(true);
        self.fs.open(&self.path(name), &options).unwrap()
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.create(name).write_at(0, bytes).unwrap();
    }

    fn get(&self, name: &str) -> Vec<u8> {
        self.fs.read(&self.path(name)).unwrap()
    }

    fn names(&self, dir: &str) -> Vec<OsString> {
        let entries = self.fs.list(&self.path(dir)).unwrap();
        entries.into_iter().map(|entry| entry.name).collect()
    }
}

fn on_real(case: fn(&Place)) {
    let dir = tempfile::tempdir().unwrap();
    case(&Place { fs: Arc::new(RealFs), root: dir.path().to_owned() });
}

fn on_memory(case: fn(&Place)) {
    let fs = MemFs::new();
    fs.create_dir(Path::new("/scratch")).unwrap();
    case(&Place { fs: Arc::new(fs), root: PathBuf::from("/scratch") });
}

macro_rules! on_both {
    ($($case:ident)*) => {
        mod real { $(#[test] fn $case() { super::on_real(super::$case); })* }
        mod memory { $(#[test] fn $case() { super::on_memory(super::$case); })* }
    };
}

on_both! {
    bytes_written_at_offsets_are_read_back
    reads_stop_at_the_end
    appends_report_their_offsets
    appends_of_threads_do_not_interleave
    opening_follows_its_options
    rights_are_kept
    cutting_and_extending_leaves_zeros
    rename_replaces_and_keeps_open_handles
    rename_refuses_what_posix_refuses
    hard_links_share_bytes
    removed_files_stay_readable_through_handles
    listing_is_sorted_and_tells_kinds
    directories_are_made_with_their_parents
    directories_are_removed_only_when_empty
    trees_are_removed_whole
    paths_without_a_name_are_not_removed
    metadata_tells_length_kind_and_change
    syncing_wants_a_directory
    locks_exclude_and_name_their_holder
    space_is_told
    paths_are_resolved
    text_must_be_text
    atomic_writes_replace_and_leave_nothing_behind
    unique_directories_are_new
    sizes_add_up
    reserved_space_reads_as_zeros_and_keeps_data
    mappings_and_files_see_each_other
    mappings_stay_within_the_file
    mapped_files_cannot_be_cut
    mappings_outlive_their_handles
    mappings_start_anywhere
    mappings_need_both_rights
    errors_name_the_path
}

fn bytes_written_at_offsets_are_read_back(place: &Place) {
    let file = place.create("f");
    file.write_at(10_000, b"far").unwrap();
    file.write_at(0, b"near").unwrap();
    assert_eq!(file.len().unwrap(), 10_003);
    let mut all = vec![1; 10_003];
    file.read_exact_at(0, &mut all).unwrap();
    assert_eq!(&all[..4], b"near");
    assert_eq!(&all[10_000..], b"far");
    assert!(all[4..10_000].iter().all(|byte| *byte == 0), "a gap reads as zeros");
    let long: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    file.write_at(777, &long).unwrap();
    let mut back = vec![0; long.len()];
    file.read_exact_at(777, &mut back).unwrap();
    assert_eq!(back, long);
}

fn reads_stop_at_the_end(place: &Place) {
    let file = place.create("f");
    assert!(file.is_empty().unwrap());
    file.write_at(0, b"12345").unwrap();
    let mut buf = [0; 8];
    assert_eq!(file.read_at(3, &mut buf).unwrap(), 2);
    assert_eq!(&buf[..2], b"45");
    assert_eq!(file.read_at(5, &mut buf).unwrap(), 0);
    assert_eq!(file.read_at(500, &mut buf).unwrap(), 0);
    let error = file.read_exact_at(3, &mut buf).unwrap_err();
    assert!(matches!(error, Error::UnexpectedEnd { offset: 3, wanted: 8, found: 2, .. }));
}

fn appends_report_their_offsets(place: &Place) {
    let file = place.create("f");
    assert_eq!(file.append(b"one").unwrap(), 0);
    assert_eq!(file.append(b"").unwrap(), 3);
    assert_eq!(file.append(b"two").unwrap(), 3);
    file.write_at(0, b"O").unwrap();
    assert_eq!(place.get("f"), b"Onetwo");
}

fn appends_of_threads_do_not_interleave(place: &Place) {
    let file = place.create("f");
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let file = &file;
            scope.spawn(move || {
                for _ in 0..50 {
                    let offset = file.append(&[writer; 37]).unwrap();
                    let mut back = [0; 37];
                    file.read_exact_at(offset, &mut back).unwrap();
                    assert_eq!(back, [writer; 37]);
                }
            });
        }
    });
    assert_eq!(file.len().unwrap(), 4 * 50 * 37);
}

fn opening_follows_its_options(place: &Place) {
    let path = place.path("f");
    let open = |options: OpenOptions| place.fs.open(&path, &options);
    let write = OpenOptions::new().write(true);
    assert!(open(OpenOptions::new().read(true)).unwrap_err().is_not_found());
    assert!(open(write).unwrap_err().is_not_found());
    open(write.create_new(true)).unwrap().write_at(0, b"abc").unwrap();
    assert!(open(write.create_new(true)).unwrap_err().is_already_exists());
    open(write.create(true)).unwrap();
    assert_eq!(place.get("f"), b"abc", "create keeps what is there");
    open(write.truncate(true)).unwrap();
    assert_eq!(place.get("f"), b"");
    for odd in [
        OpenOptions::new(),
        OpenOptions::new().read(true).create(true),
        OpenOptions::new().read(true).truncate(true),
        OpenOptions::new().create_new(true),
    ] {
        assert_eq!(open(odd).unwrap_err().io_kind(), ErrorKind::InvalidInput, "{odd:?}");
    }
    let dir = place.fs.open(&place.root, &OpenOptions::new().read(true));
    assert_eq!(dir.unwrap_err().io_kind(), ErrorKind::IsADirectory);
}

fn rights_are_kept(place: &Place) {
    place.put("f", b"abc");
    let reader = place.fs.open(&place.path("f"), &OpenOptions::new().read(true)).unwrap();
    reader.write_at(0, b"x").unwrap_err();
    reader.set_len(1).unwrap_err();
    reader.allocate(0, 10).unwrap_err();
    let writer = place.fs.open(&place.path("f"), &OpenOptions::new().write(true)).unwrap();
    writer.read_at(0, &mut [0; 1]).unwrap_err();
    assert_eq!(place.get("f"), b"abc");
}

fn cutting_and_extending_leaves_zeros(place: &Place) {
    let file = place.create("f");
    file.write_at(0, &[7; 9_000]).unwrap();
    file.set_len(5_000).unwrap();
    file.set_len(9_000).unwrap();
    let mut all = vec![1; 9_000];
    file.read_exact_at(0, &mut all).unwrap();
    assert!(all[..5_000].iter().all(|byte| *byte == 7));
    assert!(all[5_000..].iter().all(|byte| *byte == 0), "cut bytes do not come back");
}

fn rename_replaces_and_keeps_open_handles(place: &Place) {
    place.put("old", b"old");
    place.put("new", b"new");
    let handle = place.create("old");
    place.fs.rename(&place.path("new"), &place.path("old")).unwrap();
    assert_eq!(place.get("old"), b"new");
    assert!(!place.fs.exists(&place.path("new")).unwrap());
    let mut bytes = [0; 3];
    handle.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"old", "the handle keeps the replaced file");
    place.fs.create_dir(&place.path("d")).unwrap();
    place.put("d/x", b"x");
    place.fs.create_dir(&place.path("e")).unwrap();
    place.fs.rename(&place.path("d"), &place.path("e")).unwrap();
    assert_eq!(place.get("e/x"), b"x", "an empty directory is replaced");
}

fn rename_refuses_what_posix_refuses(place: &Place) {
    place.put("f", b"f");
    for dir in ["d", "d/e", "full"] {
        place.fs.create_dir(&place.path(dir)).unwrap();
    }
    place.put("full/x", b"x");
    let rename = |from, to| {
        place.fs.rename(&place.path(from), &place.path(to)).map_err(|error| error.io_kind())
    };
    assert_eq!(rename("none", "g"), Err(ErrorKind::NotFound));
    assert_eq!(rename("f", "none/g"), Err(ErrorKind::NotFound));
    assert_eq!(rename("f", "d"), Err(ErrorKind::IsADirectory));
    assert_eq!(rename("d", "f"), Err(ErrorKind::NotADirectory));
    assert_eq!(rename("d", "full"), Err(ErrorKind::DirectoryNotEmpty));
    assert_eq!(rename("d", "d/e/d"), Err(ErrorKind::InvalidInput));
    assert_eq!(rename("f", "f"), Ok(()));
    assert_eq!(place.names(""), ["d", "f", "full"]);
}

fn hard_links_share_bytes(place: &Place) {
    place.put("a", b"one");
    place.fs.hard_link(&place.path("a"), &place.path("b")).unwrap();
    place.put("b", b"two");
    assert_eq!(place.get("a"), b"two");
    let again = place.fs.hard_link(&place.path("a"), &place.path("b"));
    assert!(again.unwrap_err().is_already_exists());
    // Renaming one name onto the other of the same file does nothing, by POSIX.
    place.fs.rename(&place.path("a"), &place.path("b")).unwrap();
    assert_eq!(place.names(""), ["a", "b"]);
    place.fs.remove_file(&place.path("a")).unwrap();
    assert_eq!(place.get("b"), b"two");
}

fn removed_files_stay_readable_through_handles(place: &Place) {
    place.put("f", b"kept");
    let handle = place.create("f");
    place.fs.remove_file(&place.path("f")).unwrap();
    assert!(place.fs.remove_file(&place.path("f")).unwrap_err().is_not_found());
    place.put("f", b"other");
    let mut bytes = [0; 4];
    handle.read_exact_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"kept");
    let dir = place.fs.remove_file(&place.root).unwrap_err();
    // Linux says "is a directory", POSIX "not permitted".
    assert!(matches!(dir.io_kind(), ErrorKind::IsADirectory | ErrorKind::PermissionDenied));
}

fn listing_is_sorted_and_tells_kinds(place: &Place) {
    for name in ["c", "a", "b10", "b2"] {
        place.put(name, b"");
    }
    place.fs.create_dir(&place.path("aa")).unwrap();
    assert_eq!(place.names(""), ["a", "aa", "b10", "b2", "c"]);
    let dirs: Vec<_> = place.fs.list(&place.root).unwrap();
    let dirs: Vec<_> = dirs.iter().filter(|entry| entry.kind == FileKind::Dir).collect();
    assert_eq!(dirs.len(), 1);
    assert_eq!(dirs[0].name, "aa");
    let file = place.fs.list(&place.path("a")).unwrap_err();
    assert_eq!(file.io_kind(), ErrorKind::NotADirectory);
    assert!(place.fs.list(&place.path("none")).unwrap_err().is_not_found());
}

fn directories_are_made_with_their_parents(place: &Place) {
    let deep = place.path("a/b/c");
    assert!(place.fs.create_dir(&deep).unwrap_err().is_not_found());
    place.fs.create_dir_all(&deep).unwrap();
    place.fs.create_dir_all(&deep).unwrap();
    assert!(place.fs.create_dir(&deep).unwrap_err().is_already_exists());
    place.put("f", b"");
    assert!(place.fs.create_dir_all(&place.path("f")).unwrap_err().is_already_exists());
    let below = place.fs.create_dir_all(&place.path("f/g")).unwrap_err();
    assert_eq!(below.io_kind(), ErrorKind::NotADirectory);
}

fn directories_are_removed_only_when_empty(place: &Place) {
    place.fs.create_dir(&place.path("d")).unwrap();
    place.put("d/f", b"");
    let full = place.fs.remove_dir(&place.path("d")).unwrap_err();
    assert_eq!(full.io_kind(), ErrorKind::DirectoryNotEmpty);
    let file = place.fs.remove_dir(&place.path("d/f")).unwrap_err();
    assert_eq!(file.io_kind(), ErrorKind::NotADirectory);
    place.fs.remove_file(&place.path("d/f")).unwrap();
    place.fs.remove_dir(&place.path("d")).unwrap();
    assert!(!place.fs.exists(&place.path("d")).unwrap());
}

fn trees_are_removed_whole(place: &Place) {
    place.fs.create_dir_all(&place.path("t/a/b")).unwrap();
    place.fs.create_dir_all(&place.path("t/c")).unwrap();
    for name in ["t/1", "t/a/2", "t/a/b/3", "other"] {
        place.put(name, b"x");
    }
    place.fs.remove_dir_all(&place.path("t")).unwrap();
    assert_eq!(place.names(""), ["other"]);
    assert!(place.fs.remove_dir_all(&place.path("t")).unwrap_err().is_not_found());
    let file = place.fs.remove_dir_all(&place.path("other")).unwrap_err();
    assert_eq!(file.io_kind(), ErrorKind::NotADirectory);
}

fn paths_without_a_name_are_not_removed(place: &Place) {
    place.fs.create_dir(&place.path("d")).unwrap();
    for path in [PathBuf::from("/"), PathBuf::new(), PathBuf::from(".."), place.path("d/..")] {
        let error = place.fs.remove_dir_all(&path).unwrap_err();
        assert!(matches!(error, Error::BadPath { .. }), "{}", path.display());
    }
    assert_eq!(place.names(""), ["d"]);
}

fn metadata_tells_length_kind_and_change(place: &Place) {
    place.put("f", b"abc");
    let before = place.fs.metadata(&place.path("f")).unwrap();
    assert_eq!((before.len, before.kind), (3, FileKind::File));
    place.put("f", b"abcdef");
    let after = place.fs.metadata(&place.path("f")).unwrap();
    assert_eq!(after.len, 6);
    assert!(after.modified >= before.modified);
    assert_eq!(place.fs.metadata(&place.root).unwrap().kind, FileKind::Dir);
    let below_file = place.fs.metadata(&place.path("f/x")).unwrap_err();
    assert_eq!(below_file.io_kind(), ErrorKind::NotADirectory);
}

fn syncing_wants_a_directory(place: &Place) {
    place.put("f", b"abc");
    place.fs.sync_dir(&place.root).unwrap();
    place.fs.sync_parent(&place.path("f")).unwrap();
    let file = place.fs.sync_dir(&place.path("f")).unwrap_err();
    assert_eq!(file.io_kind(), ErrorKind::NotADirectory);
    assert!(place.fs.sync_dir(&place.path("none")).unwrap_err().is_not_found());
}

fn locks_exclude_and_name_their_holder(place: &Place) {
    let path = place.path("LOCK");
    let held = place.fs.lock(&path).unwrap();
    assert_eq!(held.path(), path);
    let refused = place.fs.lock(&path).unwrap_err();
    assert!(refused.is_locked());
    let expected = format!("cannot lock '{}': held by process {}", path.display(), process::id());
    assert_eq!(refused.to_string(), expected);
    let _other = place.fs.lock(&place.path("LOCK2")).unwrap();
    drop(held);
    drop(place.fs.lock(&path).unwrap());
    place.fs.lock(&path).unwrap();
    assert!(place.fs.exists(&path).unwrap(), "the file stays when the lock goes");
}

fn space_is_told(place: &Place) {
    let space = place.fs.space(&place.root).unwrap();
    assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
    assert!(!place.fs.fs_kind(&place.root).unwrap().name.is_empty());
    assert!(place.fs.space(&place.path("none")).unwrap_err().is_not_found());
    assert!(place.fs.fs_kind(&place.path("none")).unwrap_err().is_not_found());
}

fn paths_are_resolved(place: &Place) {
    place.fs.create_dir(&place.path("d")).unwrap();
    let straight = place.fs.canonicalize(&place.path("d")).unwrap();
    assert!(straight.is_absolute());
    assert_eq!(place.fs.canonicalize(&place.path("./d/../d/.")).unwrap(), straight);
    assert!(place.fs.canonicalize(&place.path("none")).unwrap_err().is_not_found());
}

fn text_must_be_text(place: &Place) {
    place.put("text", "grüß dich".as_bytes());
    assert_eq!(place.fs.read_to_string(&place.path("text")).unwrap(), "grüß dich");
    place.put("bytes", b"ab\xff");
    let error = place.fs.read_to_string(&place.path("bytes")).unwrap_err();
    assert!(matches!(error, Error::NotUtf8 { valid_up_to: 2, .. }));
}

fn atomic_writes_replace_and_leave_nothing_behind(place: &Place) {
    let path = place.path("CURRENT");
    place.fs.write_atomic(&path, b"first, and rather long").unwrap();
    place.fs.write_atomic(&path, b"second").unwrap();
    assert_eq!(place.get("CURRENT"), b"second");
    assert_eq!(place.names(""), ["CURRENT"]);
    place.fs.create_dir(&place.path("d")).unwrap();
    place.fs.write_atomic(&place.path("d"), b"x").unwrap_err();
    assert_eq!(place.names(""), ["CURRENT", "d"], "a failure cleans up");
    let nameless = place.fs.write_atomic(&place.path("d/.."), b"x").unwrap_err();
    assert!(matches!(nameless, Error::BadPath { .. }));
}

fn unique_directories_are_new(place: &Place) {
    let made: BTreeSet<_> =
        (0..20).map(|_| place.fs.create_unique_dir(&place.root, "run").unwrap()).collect();
    assert_eq!(made.len(), 20);
    for path in &made {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("run-"), "{name}");
        assert_eq!(place.fs.metadata(path).unwrap().kind, FileKind::Dir);
    }
    let orphan = place.fs.create_unique_dir(&place.path("none"), "run");
    assert!(orphan.unwrap_err().is_not_found());
}

fn sizes_add_up(place: &Place) {
    place.fs.create_dir_all(&place.path("a/b")).unwrap();
    place.put("a/1", &[0; 100]);
    place.put("a/b/2", &[0; 20]);
    place.put("a/b/3", &[0; 3]);
    assert_eq!(place.fs.size_recursive(&place.path("a")).unwrap(), 123);
    assert_eq!(place.fs.size_recursive(&place.path("a/1")).unwrap(), 100);
    assert!(place.fs.size_recursive(&place.path("none")).unwrap_err().is_not_found());
}

fn reserved_space_reads_as_zeros_and_keeps_data(place: &Place) {
    let file = place.create("f");
    file.write_at(0, b"data").unwrap();
    file.allocate(2, 99_998).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    let mut all = vec![1; 100_000];
    file.read_exact_at(0, &mut all).unwrap();
    assert_eq!(&all[..4], b"data");
    assert!(all[4..].iter().all(|byte| *byte == 0));
    file.allocate(0, 10).unwrap();
    file.allocate(0, 0).unwrap();
    assert_eq!(file.len().unwrap(), 100_000, "reserving never shortens");
    file.allocate(u64::MAX - 1, 10).unwrap_err();
}

fn mappings_and_files_see_each_other(place: &Place) {
    let file = place.create("f");
    file.allocate(0, 10_000).unwrap();
    let mapping = file.map(0, 10_000).unwrap();
    assert_eq!(mapping.len(), 10_000);
    mapping.write(4_090, b"across a page").unwrap();
    let mut bytes = [0; 13];
    file.read_exact_at(4_090, &mut bytes).unwrap();
    assert_eq!(&bytes, b"across a page");
    file.write_at(9_997, b"end").unwrap();
    let mut bytes = [0; 3];
    mapping.read(9_997, &mut bytes).unwrap();
    assert_eq!(&bytes, b"end");
    mapping.flush(4_090, 13).unwrap();
    mapping.flush(0, 10_000).unwrap();
    mapping.flush(10_000, 0).unwrap();
    for offset in [0, 4_093, 9_999, 10_000, u64::MAX] {
        mapping.touch(offset);
    }
    let mut bytes = [0; 13];
    file.read_exact_at(4_090, &mut bytes).unwrap();
    assert_eq!(&bytes, b"across a page", "a touch changes nothing");
}

fn mappings_stay_within_the_file(place: &Place) {
    let file = place.create("f");
    assert!(matches!(file.map(0, 1), Err(Error::OutOfRange { end: 0, .. })));
    file.allocate(0, 8_192).unwrap();
    for (offset, len) in [(0, 8_193), (8_192, 1), (8_191, 2), (u64::MAX, 2), (0, 0)] {
        let refused = file.map(offset, len);
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{offset} {len}");
    }
    // A hole inside the file gets its space when it is mapped.
    file.set_len(100_000).unwrap();
    let mapping = file.map(0, 100_000).unwrap();
    mapping.write(60_000, b"x").unwrap();
    for (offset, len) in [(100_000, 1), (99_999, 2), (u64::MAX, 1)] {
        let bytes = vec![9; len];
        assert!(matches!(mapping.write(offset, &bytes), Err(Error::OutOfRange { .. })));
        let mut bytes = vec![9; len];
        assert!(matches!(mapping.read(offset, &mut bytes), Err(Error::OutOfRange { .. })));
        assert_eq!(bytes, vec![9; len]);
        assert!(matches!(mapping.flush(offset, len as u64), Err(Error::OutOfRange { .. })));
    }
}

fn mapped_files_cannot_be_cut(place: &Place) {
    let file = place.create("f");
    file.allocate(0, 20_000).unwrap();
    let short = file.map(0, 5_000).unwrap();
    let long = file.map(8_000, 4_000).unwrap();
    let other = place.create("f");
    let refused = other.set_len(11_999).unwrap_err();
    assert!(matches!(refused, Error::Mapped { len: 11_999, mapped_end: 12_000, .. }));
    let truncate = OpenOptions::new().write(true).truncate(true);
    let refused = place.fs.open(&place.path("f"), &truncate).unwrap_err();
    assert!(matches!(refused, Error::Mapped { len: 0, .. }));
    other.set_len(12_000).unwrap();
    drop(long);
    other.set_len(5_000).unwrap();
    other.set_len(4_999).unwrap_err();
    short.write(4_999, b"!").unwrap();
    drop(short);
    other.set_len(0).unwrap();
}

fn mappings_outlive_their_handles(place: &Place) {
    let file = place.create("f");
    file.allocate(0, 100).unwrap();
    let mapping = file.map(0, 100).unwrap();
    drop(file);
    mapping.write(50, b"late").unwrap();
    mapping.flush(50, 4).unwrap();
    assert_eq!(&place.get("f")[50..54], b"late");
    place.fs.remove_file(&place.path("f")).unwrap();
    mapping.write(50, b"more").unwrap();
    let mut bytes = [0; 4];
    mapping.read(50, &mut bytes).unwrap();
    assert_eq!(&bytes, b"more");
}

fn mappings_start_anywhere(place: &Place) {
    let file = place.create("f");
    file.allocate(0, 200_000).unwrap();
    let mapping = file.map(70_001, 100_003).unwrap();
    mapping.write(0, b"first").unwrap();
    mapping.write(99_999, b"last").unwrap();
    mapping.flush(99_999, 4).unwrap();
    drop(mapping);
    let all = place.get("f");
    assert_eq!(&all[70_000..70_007], b"\0first\0");
    assert_eq!(&all[169_999..170_005], b"\0last\0");
}

fn mappings_need_both_rights(place: &Place) {
    place.put("f", &[1; 100]);
    for options in [OpenOptions::new().read(true), OpenOptions::new().write(true)] {
        let file = place.fs.open(&place.path("f"), &options).unwrap();
        file.map(0, 100).unwrap_err();
        file.set_len(100).ok();
    }
}

fn errors_name_the_path(place: &Place) {
    let path = place.path("none");
    let error = place.fs.open(&path, &OpenOptions::new().read(true)).unwrap_err();
    let expected = format!("cannot open '{}': No such file or directory", path.display());
    assert_eq!(error.to_string(), expected);
    let error = place.fs.rename(&path, &place.path("x")).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot rename '{}' to '", path.display())));
}
