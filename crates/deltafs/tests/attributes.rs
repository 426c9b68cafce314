//! Facts and rights: sizes, times, counts; owner, group, other; sticky directories.

use crate::support::{errno, ls, opened, touch};
use keyrack_deltafs::{Caller, IfExists, IfTaken, SetAttributes, SetTime, Stat, User};

fn mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode), ..SetAttributes::default() }
}

fn size(size: u64) -> SetAttributes {
    SetAttributes { size: Some(size), ..SetAttributes::default() }
}

#[test]
fn times_counts_and_sizes_are_true() {
    let (lab, space) = opened();
    let fs = space.as_root();
    let t1 = lab.tick();
    fs.mkdir(b"/d", 0o755).unwrap();
    let t2 = lab.tick();
    touch(fs, "/d/f");
    let (d, f) = (fs.stat(b"/d").unwrap(), fs.stat(b"/d/f").unwrap());
    assert_eq!((d.mtime_ns, d.ctime_ns, d.nlink), (t2, t2, 2));
    assert_eq!((f.mtime_ns, f.ctime_ns, f.nlink, f.size), (t2, t2, 1, 0));
    let t3 = lab.tick();
    fs.write(b"/d/f", 3, b"abc").unwrap();
    let f = fs.stat(b"/d/f").unwrap();
    assert_eq!((f.mtime_ns, f.ctime_ns, f.size), (t3, t3, 6));
    assert_eq!(fs.read(b"/d/f", 0, 99).unwrap(), b"\0\0\0abc");
    assert_eq!(fs.stat(b"/d").unwrap().mtime_ns, t2, "the directory has not changed");
    let t4 = lab.tick();
    fs.set_attributes(b"/d/f", &mode(0o600)).unwrap();
    let f = fs.stat(b"/d/f").unwrap();
    assert_eq!((f.mtime_ns, f.ctime_ns, f.mode), (t3, t4, 0o600));
    let past = SetAttributes { mtime: Some(SetTime::Ns(5)), ..SetAttributes::default() };
    fs.set_attributes(b"/d/f", &past).unwrap();
    fs.set_attributes(b"/d", &past).unwrap();
    assert_eq!(fs.stat(b"/d/f").unwrap().mtime_ns, 5);
    assert_eq!((fs.stat(b"/d").unwrap().mtime_ns, fs.stat(b"/d").unwrap().ctime_ns), (5, t4));
    // A time in the future does not stay when an entry comes.
    let future = SetAttributes { mtime: Some(SetTime::Ns(u64::MAX)), ..past };
    let set = fs.set_attributes(b"/d", &future).unwrap();
    assert_eq!((set.mtime_ns, set.ctime_ns), (u64::MAX, t4), "it changed when it was set");
    fs.mkdir(b"/d/s1", 0o755).unwrap();
    assert_eq!(fs.stat(b"/d").unwrap().mtime_ns, t4);
    fs.mkdir(b"/d/s2", 0o755).unwrap();
    assert_eq!((fs.stat(b"/d").unwrap().nlink, fs.stat(b"/").unwrap().nlink), (4, 3));
    fs.rmdir(b"/d/s1").unwrap();
    let t5 = lab.tick();
    fs.unlink(b"/d/f").unwrap();
    let d = fs.stat(b"/d").unwrap();
    assert_eq!((d.nlink, d.mtime_ns), (3, t5));
    assert!(t1 < t2);
    // And all of it after a restart.
    space.close().unwrap();
    let space = lab.open("log");
    assert_eq!(space.as_root().stat(b"/d").unwrap(), d);
}

#[test]
fn files_of_3901_bytes_and_sizes_beyond() {
    let (_, space) = opened();
    let fs = space.as_root();
    touch(fs, "/f");
    let data: Vec<u8> = (0..3901).map(|n| n as u8).collect();
    fs.write(b"/f", 0, &data).unwrap();
    assert_eq!(fs.read(b"/f", 0, usize::MAX).unwrap(), data);
    assert_eq!(fs.read(b"/f", 3900, 10).unwrap(), data[3900..]);
    assert_eq!(fs.read(b"/f", 4000, 10).unwrap(), b"");
    // One more, and they leave the record; a size changes them there as well.
    assert!(!fs.write(b"/f", 3901, b"x").unwrap().has_data);
    assert_eq!(fs.read(b"/f", 3900, 10).unwrap(), [data[3900], b'x']);
    assert_eq!(errno(fs.write(b"/f", u64::MAX, b"x")), "EFBIG");
    for bytes in [3000, 6000] {
        fs.set_attributes(b"/f", &size(bytes)).unwrap();
    }
    assert_eq!(fs.read(b"/f", 2999, 3).unwrap(), [data[2999], 0, 0]);
    assert_eq!(fs.read(b"/f", 5999, 3).unwrap(), [0]);
    fs.put(b"/f", 0, &data).unwrap();
    fs.set_attributes(b"/f", &size(4000)).unwrap();
    assert_eq!(fs.read(b"/f", 3900, 2).unwrap(), [data[3900], 0]);
    fs.put(b"/f", 0, &data[..2]).unwrap();
    fs.set_attributes(b"/f", &size(4)).unwrap();
    assert_eq!(fs.read(b"/f", 0, 9).unwrap(), [0, 1, 0, 0]);
    // A file whose bytes are elsewhere has a size, and nothing to read.
    touch(fs, "/big");
    fs.set_attributes(b"/big", &size(1 << 40)).unwrap();
    let stat = fs.stat(b"/big").unwrap();
    assert_eq!((stat.size, stat.has_data), (1 << 40, false));
    assert_eq!(errno(fs.read(b"/big", 0, 1)), "ENODATA");
    assert_eq!(errno(fs.write(b"/big", 0, b"x")), "ENODATA");
    fs.set_attributes(b"/big", &size(0)).unwrap();
    fs.write(b"/big", 0, b"x").unwrap();
    assert_eq!(fs.read(b"/big", 0, 9).unwrap(), b"x");
    assert_eq!(errno(fs.set_attributes(b"/", &size(0))), "EISDIR");
    assert_eq!(errno(fs.write(b"/", 0, b"x")), "EISDIR");
    assert_eq!(errno(fs.read(b"/", 0, 1)), "EISDIR");
}

/// Each right on its own: what it allows, and that nothing else does.
#[test]
fn owner_group_and_other_times_read_write_and_pass() {
    let (_, space) = opened();
    let owner = User::new(1, 10);
    let member = User { uid: 2, gid: 20, groups: vec![10] };
    let other = User::new(3, 30);
    space.by(&owner).mkdir(b"/d", 0o777).unwrap();
    space.by(&owner).create(b"/d/f", 0o666, IfExists::Fail).unwrap();
    let done = |is_allowed: bool| if is_allowed { "done" } else { "EACCES" };
    for (user, shift) in [(&owner, 6), (&member, 3), (&other, 0)] {
        let fs = space.by(user);
        for bits in 0..8_u32 {
            // The class of the user has these bits and the others have their opposite.
            let set = (0o777 & !(7 << shift) & !(bits * 0o111)) | bits << shift;
            let (r, w, x) = (bits & 4 > 0, bits & 2 > 0, bits & 1 > 0);
            space.as_root().set_attributes(b"/d", &mode(set)).unwrap();
            let dir = space.as_root().dir(b"/d").unwrap();
            assert_eq!(errno(fs.list_at(&dir, None, 9)), done(r));
            assert_eq!(errno(fs.list_plus_at(&dir, None, 9)), done(r && x));
            assert_eq!(errno(fs.stat(b"/d/f")), done(x));
            assert_eq!(errno(fs.create(b"/d/new", 0o600, IfExists::Fail)), done(w && x));
            assert_eq!(errno(fs.mkdir(b"/d/sub", 0o700)), done(w && x));
            assert_eq!(errno(fs.rename(b"/d/f", b"/d/g", IfTaken::Replace)), done(w && x));
            if w && x {
                fs.rename(b"/d/g", b"/d/f", IfTaken::Replace).unwrap();
                fs.unlink(b"/d/new").unwrap();
                fs.rmdir(b"/d/sub").unwrap();
            } else {
                assert_eq!(errno(fs.unlink(b"/d/f")), "EACCES");
            }
            space.as_root().set_attributes(b"/d", &mode(0o777)).unwrap();
            space.as_root().set_attributes(b"/d/f", &mode(set & 0o666)).unwrap();
            assert_eq!(errno(fs.read(b"/d/f", 0, 1)), done(r));
            assert_eq!(errno(fs.write(b"/d/f", 0, b"x")), done(w));
            assert_eq!(errno(fs.set_attributes(b"/d/f", &size(1))), done(w));
        }
    }
    assert_eq!(ls(space.as_root(), "/d"), "f");
}

#[test]
fn who_may_change_what() {
    let (_, space) = opened();
    let (root, owner, other) = (User::root(), User::new(1, 10), User::new(2, 20));
    let owner = User { groups: vec![11], ..owner };
    space.by(&owner).create(b"/f", 0o644, IfExists::Fail).unwrap();
    let set = SetAttributes::default();
    let by = |user: &User, set: &SetAttributes| errno(space.by(user).set_attributes(b"/f", set));
    assert_eq!(by(&other, &mode(0o777)), "EPERM");
    assert_eq!(by(&other, &SetAttributes { mtime: Some(SetTime::Ns(1)), ..set }), "EPERM");
    assert_eq!(by(&other, &SetAttributes { mtime: Some(SetTime::Now), ..set }), "EACCES");
    assert_eq!(by(&owner, &SetAttributes { uid: Some(2), ..set }), "EPERM");
    assert_eq!(by(&owner, &SetAttributes { gid: Some(99), ..set }), "EPERM");
    assert_eq!(by(&owner, &mode(0o6755)), "done");
    assert_eq!(by(&owner, &SetAttributes { gid: Some(11), ..set }), "done");
    let stat = space.by(&owner).stat(b"/f").unwrap();
    assert_eq!((stat.gid, stat.mode), (11, 0o755), "set-user and set-group go with the owner");
    assert_eq!(by(&root, &SetAttributes { uid: Some(2), gid: Some(99), ..set }), "done");
    let stat = space.by(&root).stat(b"/f").unwrap();
    assert_eq!((stat.uid, stat.gid), (2, 99));
    assert_eq!(by(&owner, &mode(0o777)), "EPERM", "it was given away");
    // Entries of a directory with set-group get its group.
    space.by(&root).mkdir(b"/g", 0o2777).unwrap();
    space.by(&root).set_attributes(b"/g", &SetAttributes { gid: Some(50), ..set }).unwrap();
    space.by(&owner).create(b"/g/f", 0o644, IfExists::Fail).unwrap();
    space.by(&owner).mkdir(b"/g/d", 0o755).unwrap();
    let (f, d) = (space.by(&root).stat(b"/g/f").unwrap(), space.by(&root).stat(b"/g/d").unwrap());
    assert_eq!((f.gid, d.gid, d.mode), (50, 50, 0o2755));
}

#[test]
fn in_a_sticky_directory_only_owners_remove() {
    let (_, space) = opened();
    let (root, one, two) = (User::root(), User::new(1, 1), User::new(2, 2));
    space.by(&root).mkdir(b"/tmp", 0o1777).unwrap();
    space.by(&one).create(b"/tmp/f", 0o666, IfExists::Fail).unwrap();
    space.by(&one).mkdir(b"/tmp/d", 0o777).unwrap();
    space.by(&two).create(b"/tmp/mine", 0o666, IfExists::Fail).unwrap();
    let fs = space.by(&two);
    assert_eq!(errno(fs.unlink(b"/tmp/f")), "EPERM");
    assert_eq!(errno(fs.rmdir(b"/tmp/d")), "EPERM");
    assert_eq!(errno(fs.rename(b"/tmp/f", b"/tmp/g", IfTaken::Replace)), "EPERM");
    assert_eq!(errno(fs.rename(b"/tmp/mine", b"/tmp/f", IfTaken::Replace)), "EPERM");
    assert_eq!(errno(fs.rename(b"/tmp/mine", b"/tmp/yours", IfTaken::Replace)), "done");
    assert_eq!(errno(space.by(&one).unlink(b"/tmp/f")), "done");
    assert_eq!(errno(space.by(&root).unlink(b"/tmp/yours")), "done");
    assert_eq!(ls(space.by(&root), "/tmp"), "d");
}

/// A path is only as good as the worst right on it, and a right taken away counts at once.
#[test]
fn the_way_to_a_file_needs_to_be_open() {
    let (_, space) = opened();
    let (root, user) = (User::root(), User::new(1, 1));
    let fs = space.by(&user);
    for path in ["/a", "/a/b"] {
        fs.mkdir(path.as_bytes(), 0o700).unwrap();
    }
    fs.create(b"/a/b/f", 0o600, IfExists::Fail).unwrap();
    assert!(fs.stat(b"/a/b/f").is_ok());
    let taken = SetAttributes { uid: Some(9), ..SetAttributes::default() };
    space.by(&root).set_attributes(b"/a", &taken).unwrap();
    assert_eq!(errno(fs.stat(b"/a/b/f")), "EACCES");
    assert_eq!(errno(fs.create(b"/a/b/g", 0o600, IfExists::Fail)), "EACCES");
    assert_eq!(errno(fs.stat(b"/a/b/../b/f")), "EACCES");
    assert_eq!(errno(fs.stat(b"/a")), "done");
}

#[test]
fn the_owner_who_stays_is_set_by_the_owner_only() {
    let (_, space) = opened();
    let (owner, other) = (User { uid: 5, gid: 50, groups: vec![51] }, User::new(6, 60));
    touch(space.by(&owner), "/f");
    space.by(&owner).mkdir(b"/d", 0o777).unwrap();
    let to = |uid, gid| SetAttributes { uid, gid, ..SetAttributes::default() };
    for path in [&b"/f"[..], b"/d"] {
        let set = |user: &User, uid, gid| {
            space.by(user).set_attributes(path, &to(uid, gid)).map(|stat| (stat.uid, stat.gid))
        };
        for (uid, gid) in [(Some(5), None), (None, Some(50)), (Some(5), Some(50)), (Some(6), None)]
        {
            assert_eq!(errno(set(&other, uid, gid)), "EPERM");
        }
        assert_eq!(set(&owner, Some(5), Some(50)).unwrap(), (5, 50));
        assert_eq!(set(&owner, None, Some(51)).unwrap(), (5, 51));
        assert_eq!(errno(set(&owner, None, Some(60))), "EPERM");
        assert_eq!(errno(set(&owner, Some(6), None)), "EPERM");
    }
}

#[test]
fn somebody_elses_write_takes_the_set_id_bits_away() {
    let (_, space) = opened();
    let (owner, other, root) = (User::new(5, 50), User::new(6, 60), User::root());
    let big = vec![7; 5000];
    type Write<'a> = &'a dyn Fn(Caller<'_>) -> Stat;
    let fs = |user| space.by(user);
    let writes: [(&str, Write<'_>); 8] = [
        ("write", &|by| by.write(b"/f", 0, b"x").unwrap()),
        ("write of many", &|by| by.write(b"/f", 0, &big).unwrap()),
        ("put", &|by| by.put(b"/f", 0o644, b"new").unwrap()),
        ("put of many", &|by| by.put(b"/f", 0o644, &big).unwrap()),
        ("cut", &|by| by.set_attributes(b"/f", &size(1)).unwrap()),
        ("cut to nothing", &|by| by.set_attributes(b"/f", &size(0)).unwrap()),
        ("cut to its size", &|by| by.set_attributes(b"/f", &size(9)).unwrap()),
        ("extended", &|by| by.set_attributes(b"/f", &size(6000)).unwrap()),
    ];
    for (what, write) in writes {
        for (user, before, after) in [
            (&other, 0o6777, 0o777),
            (&other, 0o6666, 0o666),
            (&owner, 0o6777, 0o777),
            (&owner, 0o6666, 0o2666),
            (&root, 0o6777, 0o6777),
        ] {
            fs(&owner).create_with_at(&space.root().unwrap(), b"f", 0o666, b"123456789").unwrap();
            fs(&owner).set_attributes(b"/f", &mode(before)).unwrap();
            write(fs(user));
            let stat = fs(&root).stat(b"/f").unwrap();
            assert_eq!(format!("{:o}", stat.mode), format!("{after:o}"), "{what} by {user:?}");
            fs(&root).unlink(b"/f").unwrap();
        }
    }
    // No byte changes: nothing is taken away. Nor where the mode is set with the bytes.
    fs(&owner).create(b"/f", 0o666, IfExists::Fail).unwrap();
    fs(&owner).set_attributes(b"/f", &mode(0o6777)).unwrap();
    fs(&other).write(b"/f", 0, b"").unwrap();
    assert_eq!(fs(&root).stat(b"/f").unwrap().mode, 0o6777);
    let both = SetAttributes { mode: Some(0o4711), ..size(4) };
    assert_eq!(fs(&owner).set_attributes(b"/f", &both).unwrap().mode, 0o4711);
    // Another owner, even by user 0; a directory keeps its own.
    let given = SetAttributes { uid: Some(6), ..SetAttributes::default() };
    assert_eq!(fs(&root).set_attributes(b"/f", &given).unwrap().mode, 0o711);
    fs(&owner).mkdir(b"/d", 0o755).unwrap();
    fs(&owner).set_attributes(b"/d", &mode(0o2755)).unwrap();
    let same = SetAttributes { uid: Some(5), ..SetAttributes::default() };
    assert_eq!(fs(&owner).set_attributes(b"/d", &same).unwrap().mode, 0o2755);
}

#[test]
fn who_may_not_pass_a_directory_is_not_told_what_is_in_it() {
    let (_, space) = opened();
    let (owner, other) = (User::new(5, 50), User::new(6, 60));
    let fs = space.by(&owner);
    fs.mkdir(b"/d", 0o700).unwrap();
    fs.mkdir(b"/d/sub", 0o777).unwrap();
    touch(fs, "/d/f");
    let long = [b"/d/", &[b'x'; 256][..]].concat();
    let fs = space.by(&other);
    for name in ["none", "none/", "f", "f/", "sub", "sub/", "f/x", "sub/x", "none/x", ".", ".."] {
        let path = format!("/d/{name}");
        let path = path.as_bytes();
        let denied = |what: &str, result: keyrack_deltafs::Result<()>| {
            assert_eq!(errno(result), "EACCES", "{what} {}", path.escape_ascii());
        };
        denied("set", fs.set_attributes(path, &mode(0o600)).map(drop));
        if matches!(name, "." | "..") {
            continue;
        }
        denied("stat", fs.stat(path).map(drop));
        denied("lstat", fs.lstat(path).map(drop));
        denied("unlink", fs.unlink(path));
        denied("rmdir", fs.rmdir(path));
        denied("rename", fs.rename(path, b"/q", IfTaken::Replace));
        denied("mkdir", fs.mkdir(path, 0o755).map(drop));
        denied("symlink", fs.symlink(b"x", path.trim_ascii_end()).map(drop));
        denied("read", fs.read(path, 0, 1).map(drop));
        denied("open", fs.dir(path).map(drop));
    }
    assert_eq!(errno(fs.stat(&long)), "EACCES");
    assert_eq!(errno(space.by(&owner).stat(&long)), "ENAMETOOLONG");
}

/// A write of the bytes that stood there already was carried out, and moved the times of the link.
#[test]
fn a_write_to_a_link_is_refused_whatever_it_would_write() {
    let (_, space) = opened();
    let fs = space.as_root();
    let link = fs.symlink(b"none3", b"/l").unwrap();
    let dir = fs.dir(b"/").unwrap();
    for bytes in [&b"none3"[..], b"none", b"other", b""] {
        assert_eq!(errno(fs.write_at(&dir, b"l", 0, bytes)), "EINVAL", "{bytes:?}");
        assert_eq!(errno(fs.replace_at(&dir, b"l", bytes)), "EINVAL", "{bytes:?}");
    }
    for bytes in [0, 5, 9] {
        assert_eq!(errno(fs.set_attributes_at(&dir, b"l", &size(bytes))), "EINVAL", "{bytes}");
    }
    assert_eq!(fs.stat_at(&dir, b"l").unwrap(), link);
    // What a link has of its own can be set.
    let set = SetAttributes { mtime: Some(SetTime::Ns(5)), ..SetAttributes::default() };
    assert_eq!(fs.set_attributes_at(&dir, b"l", &set).unwrap().mtime_ns, 5);
    assert_eq!(fs.read_link(b"/l").unwrap(), b"none3");
}
