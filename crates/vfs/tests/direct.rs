//! Files that are written past the page cache (`File::map_direct`): what the real file system and
//! the simulated one do alike, and what a power loss, a fault and a full disk do in a simulated
//! one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use keyrack_vfs::{
    CrashPolicy, Error, FailedSync, Fault, FaultFs, FaultPlan, File, Fs, Lie, Mapping, MemFs,
    OpenOptions, Operation, RealFs,
};

use crate::at;

const PAGE: u64 = 4_096;

fn open(fs: &dyn Fs, path: &Path) -> Arc<dyn File> {
    fs.open(path, &OpenOptions::new().read(true).write(true).create(true)).unwrap()
}

/// Runs a case on both, unless the real file system cannot map so.
fn on_both(case: impl Fn(&dyn Fs, &Path)) {
    let disk = MemFs::new();
    disk.create_dir(at("/scratch")).unwrap();
    case(&disk, at("/scratch"));
    let dir = tempfile::tempdir().unwrap();
    let probe = dir.path().join("probe");
    match open(&RealFs, &probe).map_direct(PAGE).unwrap() {
        Some(_) => case(&RealFs, dir.path()),
        None => assert!(!can_write_directly(&probe), "the file system can"),
    }
}

/// Whether a file can be opened to write past the page cache.
fn can_write_directly(path: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags, open};
        open(path, OFlags::WRONLY | OFlags::DIRECT, Mode::empty()).is_ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        false
    }
}

/// Whatever lies around it in the memory, in the file and in the page cache.
#[test]
fn what_is_flushed_directly_is_in_the_file() {
    const LEN: u64 = 4 << 20;
    on_both(|fs, dir| {
        let path = dir.join("f");
        let file = open(fs, &path);
        file.write_at(0, &[7; LEN as usize]).unwrap();
        let mapping = file.map_direct(LEN).unwrap().unwrap();
        assert_eq!(mapping.len(), LEN);
        let mut expected = vec![7; LEN as usize];
        let mut memory = vec![0; LEN as usize];
        // Within a block, over its end, over more than is written at once, and the last one.
        for (at, len, mark) in [(10, 50, 1), (4090, 10, 2), (8192, 3_000_000, 3), (LEN - 1, 1, 4)] {
            let bytes = vec![mark; len];
            mapping.write(at, &bytes).unwrap();
            memory[at as usize..][..len].copy_from_slice(&bytes);
            assert!(fs.read(&path).unwrap() == expected, "not flushed yet");
            mapping.flush(at, len as u64).unwrap();
            let (from, to) =
                (at as usize / 4096 * 4096, (at as usize + len).next_multiple_of(4096));
            expected[from..to].copy_from_slice(&memory[from..to]);
            assert!(fs.read(&path).unwrap() == expected, "flushed {len} bytes at {at}");
        }
        let mut read = vec![0; LEN as usize];
        mapping.read(0, &mut read).unwrap();
        assert!(read == memory);
        assert!(matches!(mapping.write(LEN - 1, &[0; 2]), Err(Error::OutOfRange { .. })));
        assert!(matches!(mapping.read(LEN - 1, &mut [0; 2]), Err(Error::OutOfRange { .. })));
        assert!(matches!(mapping.flush(LEN, 1), Err(Error::OutOfRange { .. })));
    });
}

#[test]
fn what_cannot_be_mapped_directly_is_not() {
    on_both(|fs, dir| {
        let (path, other) = (dir.join("f"), dir.join("g"));
        let file = open(fs, &path);
        file.set_len(2 * PAGE).unwrap();
        let is_mapped = || file.map_direct(PAGE).unwrap().is_some();
        assert!(is_mapped());
        for len in [0, 100, PAGE + 512] {
            assert!(file.map_direct(len).unwrap().is_none(), "{len} bytes are no whole blocks");
        }
        fs.rename(&path, &other).unwrap();
        assert!(!is_mapped(), "its name is another's or nobody's");
        open(fs, &path);
        assert!(!is_mapped(), "its name is another's");
        fs.rename(&other, &path).unwrap();
        assert!(is_mapped());
        fs.remove_file(&path).unwrap();
        assert!(!is_mapped());
    });
}

/// A mapping is not the file: the file may be cut, renamed and removed, and a flush writes to it
/// all the same.
#[test]
fn a_file_that_is_mapped_directly_can_be_cut_and_a_flush_extends_it_again() {
    on_both(|fs, dir| {
        let (path, other) = (dir.join("f"), dir.join("g"));
        let file = open(fs, &path);
        file.write_at(0, &[7; 3 * PAGE as usize]).unwrap();
        let mapping = file.map_direct(3 * PAGE).unwrap().unwrap();
        drop(file);
        fs.rename(&path, &other).unwrap();
        open(fs, &other).set_len(100).unwrap();
        mapping.write(PAGE, b"here").unwrap();
        mapping.flush(PAGE, 4).unwrap();
        let bytes = fs.read(&other).unwrap();
        assert_eq!(bytes.len() as u64, 2 * PAGE);
        assert!(bytes[..100] == [7; 100] && bytes[100..PAGE as usize].iter().all(|it| *it == 0));
        assert_eq!(&bytes[PAGE as usize..][..5], b"here\0");
        fs.remove_file(&other).unwrap();
        mapping.flush(0, 3 * PAGE).unwrap();
        assert!(!fs.exists(&other).unwrap());
    });
}

#[test]
fn a_simulated_disk_may_be_one_that_cannot_map_directly() {
    let disk = MemFs::new();
    disk.set_map_direct(false);
    let image = disk.crash_image(1, CrashPolicy::KeepAll);
    for fs in [disk, image] {
        let file = open(&fs, at("/f"));
        file.set_len(PAGE).unwrap();
        assert!(file.map_direct(PAGE).unwrap().is_none());
        fs.set_map_direct(true);
        assert!(file.map_direct(PAGE).unwrap().is_some());
    }
}

/// A durable file of four pages of `a`, mapped directly, with `b` in the memory of three.
fn mapped(fs: &dyn Fs, path: &Path) -> Box<dyn Mapping> {
    let file = open(fs, path);
    file.write_at(0, &[b'a'; 4 * PAGE as usize]).unwrap();
    file.sync_all().unwrap();
    fs.sync_parent(path).unwrap();
    let mapping = file.map_direct(4 * PAGE).unwrap().unwrap();
    mapping.write(0, &[b'b'; 3 * PAGE as usize]).unwrap();
    mapping
}

/// The sectors of a file, each as its byte.
fn sectors(disk: &MemFs, path: &Path) -> String {
    let bytes = disk.read(path).unwrap();
    bytes
        .chunks(512)
        .map(|sector| {
            assert!(sector.iter().all(|byte| *byte == sector[0]), "torn inside a sector");
            char::from(sector[0])
        })
        .collect()
}

/// Eight sectors for each of these pages.
fn pages(of: &str) -> String {
    of.chars().flat_map(|page| std::iter::repeat_n(page, 8)).collect()
}

#[test]
fn memory_is_lost_with_the_process_and_what_was_flushed_is_durable() {
    let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
    let mapping = mapped(&disk, &path);
    let images = || {
        let policies = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered];
        let lost = policies.map(|policy| sectors(&disk.crash_image(1, policy), &path));
        let killed = sectors(&disk.process_crash_image(), &path);
        BTreeSet::from_iter(lost.into_iter().chain([killed]))
    };
    assert_eq!(images(), BTreeSet::from([pages("aaaa")]));
    mapping.flush(PAGE + 1, 1).unwrap();
    assert_eq!(images(), BTreeSet::from([pages("abaa")]));
}

/// What a flush writes makes its own pages durable, and no other bytes of the file.
#[test]
fn a_direct_flush_syncs_its_pages_alone_and_the_length_as_far_as_they_reach() {
    let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
    let file = open(&disk, &path);
    disk.sync_dir(at("/")).unwrap();
    file.write_at(PAGE, &[b'c'; PAGE as usize]).unwrap();
    file.set_len(8 * PAGE).unwrap();
    let mapping = file.map_direct(8 * PAGE).unwrap().unwrap();
    mapping.write(2 * PAGE, &[b'b'; PAGE as usize]).unwrap();
    mapping.flush(2 * PAGE, 1).unwrap();
    let lost = disk.crash_image(1, CrashPolicy::DropAll);
    assert_eq!(sectors(&lost, &path), pages("\0\0b"));
    for seed in 0..100 {
        let image = disk.crash_image(seed, CrashPolicy::Reordered);
        assert_eq!(&sectors(&image, &path)[16..24], pages("b"), "SEED={seed}");
    }
}

#[test]
fn a_direct_flush_into_a_hole_may_find_the_disk_full() {
    let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
    disk.set_capacity(3 * PAGE);
    let file = open(&disk, &path);
    disk.sync_dir(at("/")).unwrap();
    file.set_len(4 * PAGE).unwrap();
    let mapping = file.map_direct(4 * PAGE).unwrap().unwrap();
    mapping.write(0, &[b'b'; 4 * PAGE as usize]).unwrap();
    file.allocate(3 * PAGE, PAGE).unwrap();
    let error = mapping.flush(0, 3 * PAGE).unwrap_err();
    assert!(error.is_no_space() && error.operation() == Operation::Flush, "{error}");
    mapping.flush(3 * PAGE, PAGE).expect("its space is reserved");
    // What there was space for is there.
    let lost = disk.crash_image(1, CrashPolicy::DropAll);
    assert_eq!(sectors(&lost, &path), pages("bb\0b"));
    disk.set_capacity(4 * PAGE);
    mapping.flush(0, 3 * PAGE).expect("there is space");
}

/// The power goes out in the middle of a flush: any of its sectors may be there, and no other.
#[test]
fn a_power_loss_within_a_direct_flush_tears_it() {
    let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let mapping = mapped(&fs, &path);
    fs.arm(FaultPlan::from_then_on(1, Fault::PowerOut));
    assert_eq!(mapping.flush(0, 2 * PAGE).unwrap_err().operation(), Operation::Flush);
    // From here on nothing changes any more.
    mapping.write(0, &[b'c'; PAGE as usize]).unwrap();
    mapping.flush(0, 4 * PAGE).unwrap_err();
    let found: BTreeSet<String> = (0..300)
        .map(|seed| sectors(&disk.crash_image(seed, CrashPolicy::Reordered), &path))
        .collect();
    assert!(found.contains(&pages("aaaa")) && found.contains(&pages("bbaa")), "{found:?}");
    assert!(found.contains(&pages("baaa").replacen('a', "b", 3)), "its front: {found:?}");
    assert!(found.iter().any(|it| it.contains("ab")), "in any order: {found:?}");
    assert!(found.iter().all(|it| it.ends_with(&pages("aa")) && !it.contains('c')), "{found:?}");
    assert_eq!(sectors(&disk.crash_image(1, CrashPolicy::DropAll), &path), pages("aaaa"));
}

/// Another thread may see a flush half done, without a fault.
#[test]
fn a_watcher_of_a_direct_flush_sees_it_half_done() {
    let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let mapping = mapped(&fs, &path);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (of_watcher, of_path) = (Arc::clone(&seen), path.clone());
    fs.watch(move |operation, _| {
        let policies = [CrashPolicy::DropAll, CrashPolicy::KeepAll];
        let images = policies.map(|policy| sectors(&disk.crash_image(1, policy), &of_path));
        of_watcher.lock().unwrap().push((operation, images));
    });
    mapping.flush(0, PAGE).unwrap();
    let before = [pages("aaaa"), pages("baaa")];
    assert_eq!(*seen.lock().unwrap(), [(Operation::Flush, before)]);
    assert_eq!(fs.operations_of(Operation::Flush), 1);
}

/// As a sync that fails, by the way that the disk has.
#[test]
fn a_direct_flush_that_fails_loses_its_pages_alone() {
    for (behaviour, seen) in [(FailedSync::Dropped, "aaaa"), (FailedSync::Cached, "baaa")] {
        let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
        disk.set_failed_sync(behaviour);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let mapping = mapped(&fs, &path);
        fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Flush]));
        let error = mapping.flush(0, PAGE).unwrap_err();
        assert_eq!((error.operation(), fs.injected()), (Operation::Flush, 1));
        assert_eq!(sectors(&disk, &path), pages(seen), "{behaviour:?}");
        mapping.flush(PAGE, PAGE).unwrap();
        open(&fs, &path).sync_all().expect("which is the trap");
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = disk.crash_image(1, policy);
            assert_eq!(sectors(&image, &path), pages("abaa"), "{behaviour:?}, {policy:?}");
        }
    }
    let partly = |seed| {
        let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
        disk.set_failed_sync(FailedSync::Partly { seed });
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let mapping = mapped(&fs, &path);
        fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Flush]));
        mapping.flush(0, PAGE).unwrap_err();
        sectors(&disk.crash_image(1, CrashPolicy::DropAll), &path)
    };
    let disks: BTreeSet<_> = (0..100).map(partly).collect();
    assert!(disks.len() > 50, "of 256: {disks:?}");
    assert!(disks.iter().all(|disk| disk.ends_with(&pages("aaa"))), "{disks:?}");
}

#[test]
fn a_direct_flush_that_lies_succeeds_and_the_power_loss_tells() {
    for (lie, at_once, later) in [
        (Lie::Omitted, "aaaa", "aaaa"),
        (Lie::Late, "aaaa", "baaa"),
        (Lie::Retried, "aaaa", "aaaa"),
    ] {
        let (disk, path) = (MemFs::new(), PathBuf::from("/f"));
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let mapping = mapped(&fs, &path);
        fs.arm(FaultPlan::once(1, Fault::Lie(lie)).only(&[Operation::Flush]));
        mapping.flush(0, PAGE).unwrap();
        let left = || sectors(&disk.crash_image(1, CrashPolicy::DropAll), &path);
        assert_eq!((left(), fs.injected()), (pages(at_once), 1), "{lie:?}");
        fs.metadata(&path).unwrap();
        assert_eq!(left(), pages(later), "{lie:?}");
        mapping.flush(0, PAGE).unwrap();
        assert_eq!(left(), pages("baaa"), "the next one does not lie");
    }
}
