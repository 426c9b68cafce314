//! Names and paths: lengths, bytes, slashes, depth, order.

use crate::support::{errno, ls, opened, touch};
use keyrack_deltafs::{DEPTH_MAX, IfExists, IfTaken};

#[test]
fn names_of_1_to_255_bytes_and_nothing_else() {
    let (_, space) = opened();
    let fs = space.as_root();
    let dir = space.root().unwrap();
    for len in [1, 254, 255] {
        let name = vec![b'n'; len];
        fs.create_at(&dir, &name, 0o644, IfExists::Fail).unwrap();
        assert_eq!(fs.stat_at(&dir, &name).unwrap().size, 0);
        fs.mkdir_at(&dir, &vec![b'd'; len], 0o755).unwrap();
    }
    let long = [b'n'; 256];
    for (name, want) in [
        (&long[..], "ENAMETOOLONG"),
        (b"", "EINVAL"),
        (b".", "EINVAL"),
        (b"..", "EINVAL"),
        (b"a\0b", "EINVAL"),
        (b"a/b", "EINVAL"),
    ] {
        assert_eq!(errno(fs.create_at(&dir, name, 0o644, IfExists::Fail)), want);
        assert_eq!(errno(fs.mkdir_at(&dir, name, 0o755)), want);
        assert_eq!(errno(fs.symlink_at(b"t", &dir, name)), want);
        assert_eq!(errno(fs.unlink_at(&dir, name)), want);
        assert_eq!(errno(fs.rmdir_at(&dir, name)), want);
        assert_eq!(errno(fs.stat_at(&dir, name)), want);
        assert_eq!(errno(fs.rename_at(&dir, b"n", &dir, name, IfTaken::Replace)), want);
    }
    assert_eq!(ls(fs, "/").split(' ').count(), 6);
}

#[test]
fn names_are_bytes_and_listed_in_their_order() {
    let (_, space) = opened();
    let fs = space.as_root();
    // One letter composed and decomposed, and bytes that are no text: all different names.
    let names: [&[u8]; 8] = [
        b"\x01",
        b" ",
        b"...",
        b"A",
        b"a",
        "e\u{301}".as_bytes(),
        "\u{e9}".as_bytes(),
        b"\xff\xfe",
    ];
    let dir = space.root().unwrap();
    for name in names.iter().rev() {
        fs.create_at(&dir, name, 0o644, IfExists::Fail).unwrap();
    }
    let page = fs.list_at(&dir, None, 100).unwrap();
    let listed: Vec<&[u8]> = page.entries.iter().map(|entry| &entry.name[..]).collect();
    assert_eq!(listed, names);
}

#[test]
fn slashes_and_dots_in_paths() {
    let (_, space) = opened();
    let fs = space.as_root();
    fs.mkdir(b"/a/", 0o755).unwrap();
    fs.mkdir(b"//a///b//", 0o755).unwrap();
    touch(fs, "/a//b/./../b/c");
    assert_eq!(fs.stat(b"/a/b/c").unwrap().inode, fs.stat(b"/../../a/./b/c").unwrap().inode);
    assert_eq!(fs.stat(b"/a/b/").unwrap().inode, fs.stat(b"/a/b/.").unwrap().inode);
    assert_eq!(fs.stat(b"/a/b/..").unwrap().inode, fs.stat(b"/a").unwrap().inode);
    for (path, want) in [
        (&b"/a/b/c/"[..], "ENOTDIR"),
        (b"/a/b/c/d", "ENOTDIR"),
        (b"/a/b/c/..", "ENOTDIR"),
        (b"/a/x/..", "ENOENT"),
        (b"a", "EINVAL"),
        (b"", "EINVAL"),
        (b"/a\0", "EINVAL"),
    ] {
        assert_eq!(errno(fs.stat(path)), want, "{}", path.escape_ascii());
    }
    for path in [&b"/"[..], b"/a/.", b"/a/.."] {
        assert_eq!(errno(fs.mkdir(path, 0o755)), "EEXIST");
        assert_eq!(errno(fs.rmdir(path)), "EINVAL");
        assert_eq!(errno(fs.unlink(path)), "EISDIR");
        assert_eq!(errno(fs.rename(path, b"/z", IfTaken::Replace)), "EINVAL");
    }
    assert_eq!(errno(fs.create(b"/new/", 0o644, IfExists::Fail)), "EISDIR");
}

#[test]
fn a_path_of_4096_bytes_and_a_depth_of_1024_is_the_end() {
    let (_, space) = opened();
    let fs = space.as_root();
    let mut dir = space.root().unwrap();
    for depth in 1..=DEPTH_MAX {
        dir = fs.mkdir_at(&dir, b"d", 0o755).unwrap();
        if depth == 64 || depth == 1000 {
            let path = [&b"/d".repeat(depth)[..], b"/f"].concat();
            fs.create(&path, 0o644, IfExists::Fail).unwrap();
            assert_eq!(fs.stat(&path).unwrap().size, 0);
        }
    }
    let error = fs.mkdir_at(&dir, b"d", 0o755).unwrap_err();
    assert_eq!(error.errno(), "ENAMETOOLONG");
    assert!(error.to_string().contains("1025") && error.to_string().contains("1024"), "{error}");
    // Files need no further directory.
    fs.create_at(&dir, b"f", 0o644, IfExists::Fail).unwrap();
    assert_eq!(fs.path_of(&dir).unwrap(), b"/d".repeat(DEPTH_MAX));
    let slashes = [&[b'/'; 4095][..], b"d"].concat();
    fs.stat(&slashes).unwrap();
    let error = fs.stat(&[b'/'; 4097]).unwrap_err();
    assert_eq!(error.to_string(), "the path is too long: 4097, and the limit is 4096");
    // A move must not come deeper either.
    fs.mkdir(b"/x", 0o755).unwrap();
    let moved = fs.rename_at(&space.root().unwrap(), b"x", &dir, b"x", IfTaken::Replace);
    assert_eq!(errno(moved), "ENAMETOOLONG");
}
