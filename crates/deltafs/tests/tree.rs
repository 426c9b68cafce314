//! Files, directories and links: made, found, listed, removed.

use crate::support::{Lab, assert_sound, errno, ls, opened, path, touch};
use keyrack_deltafs::{IfExists, Kind, LogId, Namespace, Settings};
use std::collections::BTreeSet;

#[test]
fn exclusive_and_plain_creates() {
    let (_, space) = opened();
    let fs = space.as_root();
    let first = fs.create(b"/f", 0o640, IfExists::Fail).unwrap();
    assert!(first.is_new && first.stat.mode == 0o640 && first.stat.nlink == 1);
    assert_eq!(errno(fs.create(b"/f", 0o600, IfExists::Fail)), "EEXIST");
    let again = fs.create(b"/f", 0o600, IfExists::Open).unwrap();
    assert!(!again.is_new && again.stat == first.stat);
    fs.mkdir(b"/d", 0o755).unwrap();
    assert_eq!(errno(fs.create(b"/d", 0o600, IfExists::Fail)), "EEXIST");
    assert_eq!(errno(fs.create(b"/d", 0o600, IfExists::Open)), "EISDIR");
    assert_eq!(errno(fs.mkdir(b"/f", 0o755)), "EEXIST");
    assert_eq!(errno(fs.mkdir(b"/d", 0o755)), "EEXIST");
    assert_eq!(errno(fs.create(b"/no/f", 0o600, IfExists::Fail)), "ENOENT");
    assert_eq!(errno(fs.create(b"/f/f", 0o600, IfExists::Fail)), "ENOTDIR");
    assert_eq!(errno(fs.mkdir(b"/f/f", 0o755)), "ENOTDIR");
    // Through a link a plain create makes what the link leads to.
    fs.symlink(b"d/made", b"/l").unwrap();
    assert_eq!(errno(fs.create(b"/l", 0o600, IfExists::Fail)), "EEXIST");
    assert!(fs.create(b"/l", 0o600, IfExists::Open).unwrap().is_new);
    assert_eq!(ls(fs, "/d"), "made");
}

#[test]
fn create_after_unlink_is_another_file() {
    let (lab, space) = opened();
    let fs = space.as_root();
    let first = fs.create(b"/f", 0o600, IfExists::Fail).unwrap().stat;
    fs.unlink(b"/f").unwrap();
    assert_eq!(errno(fs.stat(b"/f")), "ENOENT");
    assert_eq!(errno(fs.unlink(b"/f")), "ENOENT");
    let second = fs.create(b"/f", 0o600, IfExists::Fail).unwrap().stat;
    assert_ne!(first.inode, second.inode);
    space.close().unwrap();
    let space = lab.open("log");
    let third = space.as_root().create(b"/g", 0o600, IfExists::Fail).unwrap().stat;
    let numbers = [first.inode, second.inode, third.inode];
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 3, "over restarts too");
    assert_eq!(space.epoch(), 2);
}

#[test]
fn a_removed_directory_is_no_place_for_anything() {
    let (_, space) = opened();
    let fs = space.as_root();
    let dir = fs.mkdir(b"/d", 0o755).unwrap();
    touch(fs, "/d/f");
    assert_eq!(errno(fs.rmdir(b"/d")), "ENOTEMPTY");
    assert_eq!(errno(fs.rmdir(b"/d/f")), "ENOTDIR");
    assert_eq!(errno(fs.unlink(b"/d")), "EISDIR");
    fs.unlink(b"/d/f").unwrap();
    fs.rmdir(b"/d").unwrap();
    assert_eq!(errno(fs.rmdir(b"/d")), "ENOENT");
    assert_eq!(errno(fs.create_at(&dir, b"f", 0o644, IfExists::Fail)), "ESTALE");
    assert_eq!(errno(fs.mkdir_at(&dir, b"d", 0o755)), "ESTALE");
    assert_eq!(errno(fs.list_at(&dir, None, 1)), "ESTALE");
    assert_eq!(errno(fs.stat_dir(&dir)), "ESTALE");
    // The name is free, and what comes there is another directory.
    let again = fs.mkdir(b"/d", 0o755).unwrap();
    assert_ne!(again.inode(), dir.inode());
    assert_eq!(errno(fs.create_at(&dir, b"f", 0o644, IfExists::Fail)), "ESTALE");
    assert_eq!(ls(fs, "/d"), "");
    assert_sound(&space);
}

#[test]
fn symbolic_links() {
    let (_, space) = opened();
    let fs = space.as_root();
    fs.mkdir(b"/d", 0o755).unwrap();
    fs.mkdir(b"/d/e", 0o755).unwrap();
    touch(fs, "/d/e/f");
    fs.symlink(b"../d/e", b"/d/up").unwrap();
    fs.symlink(b"/d/up/f", b"/abs").unwrap();
    let link = fs.lstat(b"/abs").unwrap();
    assert_eq!((link.kind, link.size, link.mode), (Kind::Symlink, 7, 0o777));
    assert_eq!(fs.read_link(b"/abs").unwrap(), b"/d/up/f");
    assert_eq!(fs.stat(b"/abs").unwrap().inode, fs.stat(b"/d/e/f").unwrap().inode);
    assert_eq!(fs.stat(b"/d/up/f").unwrap().kind, Kind::File);
    assert_eq!(fs.lstat(b"/d/up/").unwrap().kind, Kind::Dir);
    assert_eq!(errno(fs.stat(b"/abs/")), "ENOTDIR");
    fs.write(b"/abs", 0, b"through").unwrap();
    assert_eq!(fs.read(b"/d/e/f", 0, 99).unwrap(), b"through");
    fs.symlink(b"nowhere", b"/dangling").unwrap();
    assert_eq!(errno(fs.stat(b"/dangling")), "ENOENT");
    assert_eq!(errno(fs.symlink(b"x", b"/abs")), "EEXIST");
    assert_eq!(errno(fs.symlink(b"", b"/empty")), "EINVAL");
    assert_eq!(errno(fs.symlink(&[b'x'; 4097], b"/long")), "ENAMETOOLONG");
    assert_eq!(errno(fs.read_link(b"/d/e/f")), "EINVAL");
    fs.symlink(b"loop2", b"/loop1").unwrap();
    fs.symlink(b"loop1", b"/loop2").unwrap();
    assert_eq!(errno(fs.stat(b"/loop1")), "ELOOP");
    assert_eq!(errno(fs.stat(b"/loop1/x")), "ELOOP");
    fs.unlink(b"/abs").unwrap();
    assert!(fs.stat(b"/d/e/f").is_ok());
    assert_eq!(errno(fs.rmdir(b"/d/up")), "ENOTDIR");
}

#[test]
fn a_listing_goes_on_where_it_was_whatever_comes_and_goes() {
    let (lab, space) = opened();
    let fs = space.as_root();
    let dir = fs.mkdir(b"/d", 0o755).unwrap();
    let name = |n: u32| format!("f{n:06}").into_bytes();
    for n in 0..5_000 {
        fs.create_at(&dir, &name(n), 0o644, IfExists::Fail).unwrap();
    }
    let mut seen = Vec::new();
    let mut after: Option<Vec<u8>> = None;
    let mut round = 0;
    loop {
        let page = fs.list_at(&dir, after.as_deref(), 700).unwrap();
        assert!(page.entries.len() <= 700);
        seen.extend(page.entries.into_iter().map(|entry| entry.name));
        round += 1;
        // The last name given goes away: the cookie is good all the same. Others come behind
        // the reader and before it.
        fs.unlink_at(&dir, seen.last().unwrap()).unwrap();
        fs.create_at(&dir, format!("a{round}").as_bytes(), 0o644, IfExists::Fail).unwrap();
        fs.create_at(&dir, format!("z{round}").as_bytes(), 0o644, IfExists::Fail).unwrap();
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let stayed: Vec<&Vec<u8>> = seen.iter().filter(|name| name[0] == b'f').collect();
    assert_eq!(stayed.len(), 5_000, "each once");
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "in order");
    assert!(!seen.iter().any(|name| name[0] == b'a'));
    // With facts, and from the middle, after a restart.
    space.close().unwrap();
    let space = lab.open("log");
    let fs = space.as_root();
    let dir = fs.dir(b"/d").unwrap();
    let page = fs.list_plus_at(&dir, Some(&name(4_990)), 3).unwrap();
    let names: Vec<Vec<u8>> = page.entries.iter().map(|entry| entry.name.clone()).collect();
    assert_eq!(names, [name(4_991), name(4_992), name(4_993)]);
    assert!(page.entries.iter().all(|entry| entry.stat.unwrap().mode == 0o644));
    assert_eq!(page.next, Some(name(4_993)));
}

#[test]
fn a_tree_is_removed_whole() {
    let (_, space) = opened();
    let fs = space.as_root();
    for path in ["/t", "/t/a", "/t/a/b", "/t/c"] {
        fs.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    for path in ["/t/f", "/t/a/f", "/t/a/b/f", "/t/c/f", "/keep"] {
        touch(fs, path);
    }
    fs.symlink(b"/keep", b"/t/link").unwrap();
    let removed = fs.remove_tree_at(&space.root().unwrap(), b"t").unwrap();
    assert_eq!(removed, 9);
    assert_eq!(ls(fs, "/"), "keep");
    assert_eq!(fs.stat(b"/").unwrap().nlink, 2);
    assert_sound(&space);
}

#[test]
fn few_directories_in_memory_are_enough() {
    let lab = Lab::new();
    let settings = Settings { dirs_max: 0, names_max: 0, ..lab.settings() };
    let space = Namespace::open_in(lab.fs(), &path("log"), settings).unwrap();
    let fs = space.as_root();
    for n in 0..300 {
        lab.tick();
        let dir = fs.mkdir(format!("/d{n}").as_bytes(), 0o755).unwrap();
        fs.create_at(&dir, b"f", 0o644, IfExists::Fail).unwrap();
    }
    for n in 0..300 {
        assert!(fs.stat(format!("/d{n}/f").as_bytes()).is_ok());
        // The time of the create went to the log when the directory left memory.
        let stat = fs.stat(format!("/d{n}").as_bytes()).unwrap();
        assert_eq!(stat.mtime_ns, fs.stat(format!("/d{n}/f").as_bytes()).unwrap().mtime_ns);
    }
    assert_eq!(fs.stat(b"/").unwrap().nlink, 302);
    assert_sound(&space);
}

#[test]
fn other_stores_and_second_openers_are_refused() {
    let (lab, space) = opened();
    let second = Namespace::open_in(lab.fs(), &path("log"), lab.settings()).unwrap_err();
    assert!(second.to_string().contains("/log is in use"), "{second}");
    drop(space);
    let other = keyrack_flodb::Db::open_in(lab.fs(), &path("other"), lab.settings().store).unwrap();
    other.put(b"key", b"value").unwrap();
    drop(other);
    let error = Namespace::open_in(lab.fs(), &path("other"), lab.settings()).unwrap_err();
    assert!(error.to_string().contains("/other: the store is no name space"), "{error}");
    let error = Namespace::open_read_only_in(lab.fs(), &[path("other")], lab.settings());
    assert!(error.unwrap_err().to_string().contains("no name space"));
    assert_eq!(errno(Namespace::open_read_only_in(lab.fs(), &[], lab.settings())), "EINVAL");
    let mut store = lab.settings().store;
    store.create_if_missing = false;
    let settings = Settings { store, ..lab.settings() };
    let error = Namespace::open_in(lab.fs(), &path("none"), settings).unwrap_err();
    assert!(error.to_string().contains("/none"), "{error}");
}

#[test]
fn numbers_of_files_differ_over_logs_and_openings() {
    let lab = Lab::new();
    let mut numbers = BTreeSet::new();
    let mut shorts = BTreeSet::new();
    for log in 0..3 {
        let settings = Settings { log: Some(LogId::from_bits(log * 7919)), ..lab.settings() };
        for _ in 0..3 {
            let name = path(&format!("log{log}"));
            let space = Namespace::open_in(lab.fs(), &name, settings.clone()).unwrap();
            let fs = space.as_root();
            let dir = space.root().unwrap();
            for n in 0..200 {
                let name = format!("{}-{n}", space.epoch());
                let made = fs.create_at(&dir, name.as_bytes(), 0o644, IfExists::Fail).unwrap();
                assert!(numbers.insert(made.stat.inode));
                assert!(shorts.insert(made.stat.inode.short()));
            }
        }
    }
    assert_eq!(numbers.len(), 1_800);
}
