//! What only a real disk has: symbolic links and devices.

use std::os::unix::fs::{MetadataExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use keyrack_vfs::{FileKind, Fs, OpenOptions, RealFs};

use crate::at;

#[test]
fn removing_a_tree_removes_links_and_not_what_they_point_to() {
    let dir = tempfile::tempdir().unwrap();
    let outside = dir.path().join("outside");
    let tree = dir.path().join("tree");
    RealFs.create_dir(&outside).unwrap();
    RealFs.write_atomic(&outside.join("precious"), b"keep").unwrap();
    RealFs.create_dir_all(&tree.join("inner")).unwrap();
    symlink(&outside, tree.join("inner/link")).unwrap();
    let entries = RealFs.list(&tree.join("inner")).unwrap();
    assert_eq!(entries[0].kind, FileKind::Symlink);
    RealFs.remove_dir_all(&tree).unwrap();
    assert_eq!(RealFs.read(&outside.join("precious")).unwrap(), b"keep");
}

#[test]
fn removing_a_link_to_a_tree_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let link = dir.path().join("link");
    RealFs.create_dir(&tree).unwrap();
    symlink(&tree, &link).unwrap();
    RealFs.remove_dir_all(&link).unwrap_err();
    assert!(RealFs.exists(&tree).unwrap());
    RealFs.remove_file(&link).unwrap();
}

#[test]
fn mapping_a_hole_gives_it_space() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = RealFs.open(&path, &options).unwrap();
    file.set_len(1 << 20).unwrap();
    let _mapping = file.map(0, 1 << 20).unwrap();
    file.sync_all().unwrap();
    let blocks = std::fs::metadata(&path).unwrap().blocks();
    assert!(blocks * 512 >= 1 << 20, "only {blocks} blocks of 512 bytes");
    assert_eq!(file.len().unwrap(), 1 << 20, "no byte more");
}

/// A compiler may make a load of a change that changes nothing; pages that were only read fault
/// again when they are written.
#[test]
#[cfg(target_os = "linux")]
fn a_touched_page_is_written_without_a_fault() {
    const PAGES: u64 = 64;
    let faults = || {
        let stat = RealFs.read_to_string(at("/proc/thread-self/stat")).unwrap();
        let behind_name = stat.rsplit_once(')').unwrap().1;
        behind_name.split_whitespace().nth(7).unwrap().parse::<u64>().unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let file = RealFs.open(&dir.path().join("f"), &options).unwrap();
    file.allocate(0, PAGES * 4096).unwrap();
    let mapping = file.map(0, PAGES * 4096).unwrap();
    let write_all = || {
        let before = faults();
        (0..PAGES).for_each(|page| mapping.write(page * 4096 + 8, &[1; 8]).unwrap());
        faults() - before
    };
    (0..PAGES).for_each(|page| mapping.touch(page * 4096));
    let after_touch = write_all();
    // A few are the test's own; the kernel may have begun to write pages out.
    assert!(after_touch < PAGES / 2, "{after_touch} faults for {PAGES} touched pages");
}

/// The last one to hold a removed file is its mapping. A new file may get the number of the removed
/// one before the mapping has been forgotten, and was then not cut because of it.
#[test]
fn a_file_with_the_number_of_a_removed_one_is_cut() {
    const FILES: u32 = 4_000;
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().read(true).write(true).create(true);
    let new = |name: &str| {
        let path = dir.path().join(name);
        let file = RealFs.open(&path, &options).unwrap();
        file.set_len(4096).unwrap();
        (path, file)
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let (path, file) = new("cut");
                let cut = file.set_len(0);
                let len = file.len().unwrap();
                RealFs.remove_file(&path).unwrap();
                assert!(cut.is_ok() && len == 0, "{len} bytes: {cut:?}");
            }
        });
        for _ in 0..FILES {
            let (path, file) = new("mapped");
            let mapping = file.map(0, 4096).unwrap();
            drop(file);
            RealFs.remove_file(&path).unwrap();
            drop(mapping);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn sizes_do_not_follow_links() {
    let dir = tempfile::tempdir().unwrap();
    RealFs.write_atomic(&dir.path().join("f"), &[0; 10]).unwrap();
    symlink(dir.path(), dir.path().join("loop")).unwrap();
    assert_eq!(RealFs.size_recursive(dir.path()).unwrap(), 10);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_says_so() {
    let full = RealFs.open(at("/dev/full"), &OpenOptions::new().write(true)).unwrap();
    let error = full.write_at(0, b"x").unwrap_err();
    assert!(error.is_no_space());
    assert_eq!(error.to_string(), "cannot write '/dev/full': No space left on device");
}

#[test]
#[cfg(target_os = "linux")]
fn files_that_report_no_length_are_read_whole() {
    let text = RealFs.read_to_string(at("/proc/self/status")).unwrap();
    assert!(text.contains("VmRSS"), "{text}");
}

#[test]
fn a_lock_file_left_with_a_number_is_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    RealFs.write_atomic(&path, b"1\n").unwrap();
    let held = RealFs.lock(&path).unwrap();
    assert_eq!(RealFs.read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
    drop(held);
    assert_eq!(RealFs.read(&path).unwrap(), b"");
}
