//! Renames: what replaces what, what is refused, where things are afterwards.

use crate::support::{assert_sound, errno, ls, opened, touch};
use keyrack_deltafs::{IfExists, IfTaken};

#[test]
fn what_may_replace_what() {
    let (_, space) = opened();
    let fs = space.as_root();
    for path in ["/d", "/d/sub", "/empty", "/full"] {
        fs.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    for path in ["/f", "/g", "/full/x"] {
        touch(fs, path);
    }
    fs.symlink(b"f", b"/l").unwrap();
    let mv =
        |from: &str, to: &str| errno(fs.rename(from.as_bytes(), to.as_bytes(), IfTaken::Replace));
    assert_eq!(mv("/f", "/d"), "EISDIR");
    assert_eq!(mv("/d", "/f"), "ENOTDIR");
    assert_eq!(mv("/d", "/full"), "ENOTEMPTY");
    assert_eq!(mv("/none", "/f"), "ENOENT");
    assert_eq!(mv("/f", "/none/f"), "ENOENT");
    assert_eq!(mv("/f", "/g/f"), "ENOTDIR");
    assert_eq!(mv("/d", "/d/x"), "EINVAL");
    assert_eq!(mv("/d", "/d/sub/x"), "EINVAL");
    assert_eq!(errno(fs.rename(b"/d", b"/d/sub", IfTaken::Fail)), "EINVAL");
    assert_eq!(mv("/f", "/f"), "done");
    assert_eq!(mv("/d", "/d"), "done");
    assert_eq!(mv("/f/", "/h"), "ENOTDIR");
    assert_eq!(mv("/f", "/h/"), "ENOTDIR");
    let f = fs.stat(b"/f").unwrap();
    assert_eq!(errno(fs.rename(b"/f", b"/g", IfTaken::Fail)), "EEXIST");
    assert_eq!(mv("/f", "/g"), "done");
    assert_eq!(fs.stat(b"/g").unwrap().inode, f.inode);
    assert_eq!(mv("/l", "/g"), "done", "a link is moved, not what it leads to");
    assert_eq!(fs.read_link(b"/g").unwrap(), b"f");
    let sub = fs.dir(b"/d/sub").unwrap();
    assert_eq!(mv("/d", "/empty"), "done");
    assert_eq!(ls(fs, "/"), "empty full g");
    assert_eq!(fs.dir(b"/empty/sub").unwrap().inode(), sub.inode());
    assert_eq!(mv("/empty/", "/d/"), "done");
    assert_eq!(fs.path_of(&sub).unwrap(), b"/d/sub");
    assert_sound(&space);
}

#[test]
fn a_moved_directory_takes_all_along_and_its_handle_stays() {
    let (lab, space) = opened();
    let fs = space.as_root();
    for path in ["/a", "/a/b", "/a/b/c", "/x"] {
        fs.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    touch(fs, "/a/b/c/f");
    let b = fs.dir(b"/a/b").unwrap();
    fs.rename(b"/a/b", b"/x/moved", IfTaken::Replace).unwrap();
    assert!(fs.stat(b"/x/moved/c/f").is_ok());
    assert_eq!(errno(fs.stat(b"/a/b/c/f")), "ENOENT");
    assert_eq!(errno(fs.stat(b"/a/b")), "ENOENT");
    fs.create_at(&b, b"late", 0o644, IfExists::Fail).unwrap();
    assert_eq!(ls(fs, "/x/moved"), "c late");
    assert_eq!(fs.stat(b"/x/moved/..").unwrap().inode, fs.stat(b"/x").unwrap().inode);
    assert_eq!((fs.stat(b"/a").unwrap().nlink, fs.stat(b"/x").unwrap().nlink), (2, 3));
    // The old name is free for another directory, which has nothing of the first.
    let again = fs.mkdir(b"/a/b", 0o755).unwrap();
    assert_ne!(again.inode(), b.inode());
    assert_eq!(ls(fs, "/a/b"), "");
    space.close().unwrap();
    let space = lab.open("log");
    let fs = space.as_root();
    assert_eq!(ls(fs, "/x/moved"), "c late");
    assert_eq!(ls(fs, "/a/b"), "");
    assert_sound(&space);
}

#[test]
fn times_of_a_rename() {
    let (lab, space) = opened();
    let fs = space.as_root();
    fs.mkdir(b"/a", 0o755).unwrap();
    fs.mkdir(b"/b", 0o755).unwrap();
    lab.tick();
    touch(fs, "/a/f");
    let made = fs.stat(b"/a/f").unwrap();
    let now = lab.tick();
    fs.rename(b"/a/f", b"/b/f", IfTaken::Replace).unwrap();
    let moved = fs.stat(b"/b/f").unwrap();
    assert_eq!((moved.mtime_ns, moved.ctime_ns), (made.mtime_ns, now));
    assert_eq!((fs.stat(b"/a").unwrap().mtime_ns, fs.stat(b"/b").unwrap().mtime_ns), (now, now));
}

#[test]
fn a_tree_is_not_moved_deeper_than_the_limit() {
    let (_, space) = opened();
    let fs = space.as_root();
    let deep = |from: &str, count: usize| {
        let mut dir = fs.mkdir(from.as_bytes(), 0o755).unwrap();
        for _ in 1..count {
            dir = fs.mkdir_at(&dir, b"d", 0o755).unwrap();
        }
        dir
    };
    let bottom = deep("/a", 1000);
    deep("/fits", 24);
    deep("/over", 25);
    let top = fs.dir(b"/").unwrap();
    let moved = |name: &[u8]| errno(fs.rename_at(&top, name, &bottom, name, IfTaken::Fail));
    assert_eq!(moved(b"over"), "ENAMETOOLONG");
    assert_eq!(moved(b"fits"), "done");
}

#[test]
fn a_rename_changes_the_ctime_of_a_symbolic_link() {
    let (lab, space) = opened();
    let fs = space.as_root();
    fs.symlink(b"x", b"/l").unwrap();
    let before = fs.lstat(b"/l").unwrap();
    let now = lab.tick();
    fs.rename(b"/l", b"/m", IfTaken::Replace).unwrap();
    let after = fs.lstat(b"/m").unwrap();
    assert_eq!((after.ctime_ns, after.mtime_ns), (now, before.mtime_ns));
    assert_eq!((after.inode, fs.read_link(b"/m").unwrap()), (before.inode, b"x".to_vec()));
}
