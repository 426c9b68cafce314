//! Files whose bytes do not fit into their records.

use crate::support::{Lab, assert_sound, errno, opened, path, touch};
use keyrack_deltafs::{
    Caller, INLINE_BYTES_MAX, IfTaken, Namespace, Registry, SetAttributes, Settings, User,
};
use keyrack_vfs::{CrashPolicy, Fs, RealFs};
use keyrack_workload::Rng;
use std::path::Path;
use std::sync::Arc;

/// The files in the directory of contents of a log, without the mark.
fn kept(disk: &dyn Fs, log: &str) -> usize {
    let dir = path(log).join("contents");
    if !disk.exists(&dir).unwrap() {
        return 0;
    }
    let shards = disk.list(&dir).unwrap().into_iter().filter(|entry| entry.name != "unfinished");
    shards.map(|shard| disk.list(&dir.join(shard.name)).unwrap().len()).sum()
}

fn write(fs: Caller<'_>, name: &str, offset: u64, bytes: &[u8]) {
    let root = fs.dir(b"/").unwrap();
    fs.write_at(&root, name.as_bytes(), offset, bytes).unwrap();
}

fn read(fs: Caller<'_>, name: &str) -> Vec<u8> {
    fs.read(format!("/{name}").as_bytes(), 0, usize::MAX).unwrap()
}

/// A read took memory for all bytes of a file of holes, and the process ended.
#[test]
fn a_file_larger_than_memory_is_refused_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let space = Namespace::open_in(Arc::new(RealFs), dir.path(), Settings::default()).unwrap();
    let fs = space.as_root();
    let (root, size) = (fs.dir(b"/").unwrap(), 1 << 43);
    touch(fs, "/f");
    fs.resize_at(&root, b"f", size, None).unwrap();
    let error = fs.read(b"/f", 0, usize::MAX).unwrap_err();
    assert_eq!(error.errno(), "ENOMEM");
    assert!(error.to_string().contains("no memory for 8796093022208 bytes"), "{error}");
    write(fs, "f", size - 1, b"x");
    assert_eq!(fs.read(b"/f", size - 4, 100).unwrap(), b"\0\0\0x");
}

/// Random writes and cuts against bytes in memory.
#[test]
fn a_file_of_any_size_holds_what_was_written() {
    let seed = 20_261_123;
    println!("SEED={seed}");
    let mut rng = Rng::from_seed(seed);
    let lab = Lab::new();
    let mut space = lab.open("log");
    touch(space.as_root(), "/f");
    let mut model: Vec<u8> = Vec::new();
    for step in 0..400_u32 {
        if step % 100 == 99 {
            space.close().unwrap();
            space = lab.open("log");
        }
        let fs = space.as_root();
        let root = fs.dir(b"/").unwrap();
        let at = rng.below(6000) as usize;
        if rng.below(4) == 0 {
            let size = if rng.below(4) == 0 { 0 } else { at };
            fs.resize_at(&root, b"f", size as u64, None).unwrap();
            model.resize(size, 0);
        } else {
            let bytes = vec![step as u8 | 1; rng.below(3000) as usize];
            let written = fs.write_at(&root, b"f", at as u64, &bytes);
            written.unwrap_or_else(|error| panic!("step {step}, {} bytes: {error}", bytes.len()));
            if !bytes.is_empty() {
                model.resize(model.len().max(at + bytes.len()), 0);
                model[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        let stat = fs.stat(b"/f").unwrap();
        assert_eq!(stat.size, model.len() as u64, "step {step}");
        assert!(stat.has_data == (kept(&lab.disk, "log") == 0), "step {step}");
        assert!(!stat.has_data || model.len() <= INLINE_BYTES_MAX, "step {step}");
        assert!(read(fs, "f") == model, "step {step}");
    }
    assert_sound(&space);
}

#[test]
fn bytes_go_when_the_file_goes() {
    let (lab, space) = opened();
    let fs = space.as_root();
    let bytes = vec![7; 9000];
    for name in ["/a", "/b", "/c", "/d", "/e"] {
        touch(fs, name);
        write(fs, &name[1..], 0, &bytes);
    }
    assert_eq!(kept(&lab.disk, "log"), 5);
    fs.unlink(b"/a").unwrap();
    fs.rename(b"/b", b"/c", IfTaken::Replace).unwrap();
    assert_eq!((kept(&lab.disk, "log"), read(fs, "c") == bytes), (3, true));
    fs.put(b"/c", 0o644, b"small").unwrap();
    let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
    fs.set_attributes(b"/d", &cut).unwrap();
    assert_eq!(kept(&lab.disk, "log"), 1);
    assert_eq!(read(fs, "c"), b"small");
    assert_eq!(read(fs, "d"), b"");
    let handle = space.open_contents(&fs.stat(b"/e").unwrap()).unwrap().unwrap();
    fs.unlink(b"/e").unwrap();
    assert_eq!((kept(&lab.disk, "log"), handle.len().unwrap()), (0, 9000));
    space.close().unwrap();
    assert!(!lab.disk.exists(&path("log").join("contents/unfinished")).unwrap());
}

/// A size that was only noted promises no bytes; writing does not make some up.
#[test]
fn a_size_alone_has_no_bytes() {
    let (_, space) = opened();
    let fs = space.as_root();
    touch(fs, "/f");
    let noted = SetAttributes { size: Some(1 << 40), ..SetAttributes::default() };
    fs.set_attributes(b"/f", &noted).unwrap();
    let root = fs.dir(b"/").unwrap();
    assert_eq!(errno(fs.read(b"/f", 0, 10)), "ENODATA");
    assert_eq!(errno(fs.write_at(&root, b"f", 0, b"x")), "ENODATA");
    assert_eq!(errno(fs.write_at(&root, b"f", u64::MAX, b"x")), "EFBIG");
    assert_eq!(fs.resize_at(&root, b"f", 0, None).unwrap().size, 0);
    write(fs, "f", 5000, b"x");
    assert_eq!(read(fs, "f").len(), 5001);
    assert_eq!(errno(fs.write_at(&root, b"none", 0, b"x")), "ENOENT");
    fs.mkdir(b"/d", 0o755).unwrap();
    assert_eq!(errno(fs.write_at(&root, b"d", 0, b"x")), "EISDIR");
    let other = User::new(5, 5);
    assert_eq!(errno(space.by(&other).write_at(&root, b"f", 6000, b"x")), "EACCES");
}

/// What is below is copied when it is written to, and stays as it was.
#[test]
fn a_file_of_a_published_log_is_copied_before_it_changes() {
    let lab = Lab::new();
    let bytes: Vec<u8> = (0..20_000_u32).map(|n| n as u8).collect();
    let below = lab.open("below");
    touch(below.as_root(), "/f");
    write(below.as_root(), "f", 0, &bytes);
    let registry = Registry::new_in(lab.fs(), "/reg");
    let publication = registry.publish(&below, "one", None).unwrap();
    let listed =
        |file: &&keyrack_deltafs::PublishedFile| file.name.as_str().starts_with("contents/");
    assert_eq!(publication.files.iter().find(listed).unwrap().bytes, 20_000);
    assert_eq!(registry.check().unwrap(), [""; 0]);
    // The log goes on in place; what is published does not.
    write(below.as_root(), "f", 0, b"changed");
    below.close().unwrap();
    assert_eq!(registry.check().unwrap(), [""; 0]);
    let published = registry.log_dirs(&registry.resolve(&["one"]).unwrap()).unwrap();
    let open = |lower: Vec<_>| {
        let settings = Settings { lower, ..lab.settings() };
        Namespace::open_in(lab.fs(), &path("above"), settings).unwrap()
    };
    let above = open(published.clone());
    assert!(read(above.as_root(), "f") == bytes);
    write(above.as_root(), "f", 19_999, b"more");
    let view = Namespace::open_read_only_in(lab.fs(), &published, lab.settings()).unwrap();
    assert!(read(view.as_root(), "f") == bytes);
    let dir = view.root().unwrap();
    assert_eq!(errno(view.as_root().write_at(&dir, b"f", 0, b"x")), "EROFS");
    above.close().unwrap();
    let above = open(published);
    assert!(read(above.as_root(), "f") == [&bytes[..19_999], b"more"].concat());
    assert_sound(&above);
}

/// Killed between any two writes: a record never counts bytes that are not there, what no record
/// names goes, and what was cut off does not come back.
#[test]
fn a_kill_leaves_no_bytes_that_no_record_names() {
    let (lab, space) = opened();
    let fs = space.as_root();
    for name in ["/a", "/b"] {
        touch(fs, name);
        write(fs, &name[1..], 0, &[1; 5000]);
    }
    // What a kill between bytes and record leaves: bytes of a number that no record has, and a file
    // that is longer than its record says.
    let stray = path("log").join("contents/00").join(format!("{:032x}", 1_u128 << 127));
    let create = keyrack_vfs::OpenOptions::new().write(true).create(true);
    lab.disk.create_dir_all(stray.parent().unwrap()).unwrap();
    lab.disk.open(&stray, &create).unwrap().write_at(0, b"stray").unwrap();
    let inode = fs.stat(b"/a").unwrap().inode;
    let shard = format!("contents/{:02x}/{inode}", inode.to_u128() as u8);
    let long = path("log").join(shard);
    lab.disk.open(&long, &create).unwrap().write_at(5000, b"tail").unwrap();
    let other = path("log").join("contents/00/notes");
    lab.disk.open(&other, &create).unwrap();
    let image = lab.disk.crash_image(1, CrashPolicy::KeepAll);
    let again = Namespace::open_in(Arc::new(image.clone()), Path::new("/log"), lab.settings());
    let again = again.unwrap();
    let fs = again.as_root();
    assert!(!image.exists(&stray).unwrap() && image.exists(&other).unwrap());
    assert_eq!(read(fs, "a"), [1; 5000]);
    let root = fs.dir(b"/").unwrap();
    fs.resize_at(&root, b"a", 5004, None).unwrap();
    assert_eq!(read(fs, "a")[5000..], [0; 4]);
    assert_sound(&again);
}

/// After a sync a power loss takes nothing.
#[test]
fn synced_bytes_survive_a_power_loss() {
    let (lab, space) = opened();
    touch(space.as_root(), "/f");
    write(space.as_root(), "f", 0, &[3; 10_000]);
    space.sync().unwrap();
    let image = lab.disk.crash_image(1, CrashPolicy::DropAll);
    let again = Namespace::open_in(Arc::new(image), Path::new("/log"), lab.settings()).unwrap();
    assert_eq!(read(again.as_root(), "f"), [3; 10_000]);
}

/// Gives bytes, then fails.
struct Failing<'a>(&'a [u8]);

impl std::io::Read for Failing<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        if self.0.is_empty() {
            Err(std::io::Error::other("the source is gone"))
        } else {
            self.0.read(buf)
        }
    }
}

#[test]
fn a_file_that_is_put_is_the_old_one_or_the_new_one() {
    let (lab, space) = opened();
    let fs = space.as_root();
    let (one, two) = (vec![1; 9000], vec![2; 700_000]);
    let first = fs.put(b"/f", 0o640, &one).unwrap();
    assert_eq!((first.size, first.mode, first.has_data), (9000, 0o640, false));
    let failed = fs.put_from(b"/f", 0o600, &mut Failing(&two)).unwrap_err();
    assert!(failed.to_string().contains("/f: cannot read") || failed.errno() == "EIO", "{failed}");
    assert!(read(fs, "f") == one);
    assert_eq!(kept(&lab.disk, "log"), 1, "what had come of the other is gone");
    let second = fs.put_from(b"/f", 0o600, &mut &two[..]).unwrap();
    // The new bytes have a number of their own; what is said about the file stays.
    assert_eq!((second.size, second.mode), (700_000, 0o640));
    assert_ne!(second.inode, first.inode);
    assert!(read(fs, "f") == two);
    assert_eq!(kept(&lab.disk, "log"), 1);
    fs.put(b"/f", 0, b"few").unwrap();
    assert_eq!((read(fs, "f"), kept(&lab.disk, "log")), (b"few".to_vec(), 0));
    fs.mkdir(b"/d", 0o755).unwrap();
    assert_eq!(errno(fs.put(b"/d", 0o600, &one)), "EISDIR");
    let root = space.root().unwrap();
    let only_new = (IfTaken::Fail, &mut &one[..] as &mut dyn std::io::Read);
    assert_eq!(errno(fs.put_from_at(&root, b"f", 0o600, only_new)), "EEXIST");
    let other = User::new(7, 7);
    assert_eq!(errno(space.by(&other).put(b"/f", 0o600, &one)), "EACCES");
    assert_eq!(kept(&lab.disk, "log"), 0);
    assert_sound(&space);
}

/// Each waited for the other for ever: one had the directory and wanted the bytes, the other had
/// the bytes and wanted the directory.
#[test]
fn writers_and_those_who_remove_large_files_do_not_wait_for_each_other() {
    let lab = Lab::new();
    let space = Arc::new(lab.open("log"));
    let bytes = vec![7; INLINE_BYTES_MAX + 1];
    for name in ["old", "gone", "new", "written"] {
        touch(space.as_root(), &format!("/{name}"));
        write(space.as_root(), name, 0, &bytes);
    }
    let (send, ended) = std::sync::mpsc::channel();
    let spawn = |turn: fn(Caller<'_>, &[u8])| {
        let (space, bytes, send) = (Arc::clone(&space), bytes.clone(), send.clone());
        std::thread::spawn(move || {
            (0..500).for_each(|_| turn(space.as_root(), &bytes));
            drop(space);
            send.send(()).unwrap();
        })
    };
    let threads = [
        spawn(|fs, bytes| write(fs, "written", 0, bytes)),
        spawn(|fs, bytes| {
            fs.rename(b"/old", b"/new", IfTaken::Replace).unwrap();
            touch(fs, "/old");
            write(fs, "old", 0, bytes);
        }),
        spawn(|fs, bytes| {
            fs.unlink(b"/gone").unwrap();
            touch(fs, "/gone");
            write(fs, "gone", 0, bytes);
        }),
    ];
    for _ in &threads {
        // Far above what they need: only those that wait for each other take so long.
        let patience = std::time::Duration::from_secs(60);
        ended.recv_timeout(patience).expect("all threads end");
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(kept(&lab.disk, "log"), 4, "what was removed has no bytes left");
    assert_sound(&space);
}
