//! Logs on top of logs: which one is right, what is hidden, what may not be changed.

use crate::support::{Lab, assert_sound, dump, errno, ls, opened, path, touch};
use keyrack_deltafs::{IfExists, IfTaken, Kind, Namespace, SetAttributes, SetTime, Settings};
use keyrack_testkit::damage::directory;
use keyrack_workload::Rng;
use std::collections::BTreeMap;
use std::path::Path;

/// A log with some of everything.
fn base(lab: &Lab) {
    let space = lab.open("base");
    let fs = space.as_root();
    for path in ["/a", "/a/b", "/gone"] {
        fs.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    for path in ["/f", "/a/f", "/a/b/f", "/gone/f"] {
        touch(fs, path);
    }
    fs.write(b"/f", 0, b"base").unwrap();
    fs.symlink(b"a/b", b"/l").unwrap();
    space.close().unwrap();
}

#[test]
fn a_log_changes_what_is_below_without_touching_it() {
    let lab = Lab::new();
    base(&lab);
    let before = directory(&lab.disk, &path("base"));
    let space = lab.open_on("job", &["base"]);
    let fs = space.as_root();
    assert_eq!(fs.read(b"/f", 0, 9).unwrap(), b"base");
    assert_eq!(errno(fs.create(b"/f", 0o644, IfExists::Fail)), "EEXIST");
    assert_eq!(errno(fs.mkdir(b"/a", 0o755)), "EEXIST");
    assert!(!fs.create(b"/f", 0o644, IfExists::Open).unwrap().is_new);
    let number = fs.stat(b"/f").unwrap().inode;
    fs.write(b"/f", 4, b" and job").unwrap();
    assert_eq!(fs.stat(b"/f").unwrap().inode, number, "it is the same file");
    touch(fs, "/a/b/g");
    fs.unlink(b"/a/f").unwrap();
    assert_eq!(errno(fs.unlink(b"/a/f")), "ENOENT");
    assert_eq!(errno(fs.rmdir(b"/gone")), "ENOTEMPTY");
    fs.unlink(b"/gone/f").unwrap();
    fs.rmdir(b"/gone").unwrap();
    fs.mkdir(b"/gone", 0o700).unwrap();
    fs.rename(b"/a/b", b"/moved", IfTaken::Replace).unwrap();
    fs.unlink(b"/l").unwrap();
    assert_eq!(ls(fs, "/"), "a f gone moved");
    assert_eq!(
        (ls(fs, "/a"), ls(fs, "/gone"), ls(fs, "/moved")),
        ("".into(), "".into(), "f g".into())
    );
    assert_eq!((fs.stat(b"/").unwrap().nlink, fs.stat(b"/a").unwrap().nlink), (5, 2));
    assert_sound(&space);
    let seen = dump(&space);
    space.close().unwrap();
    assert_eq!(directory(&lab.disk, &path("base")), before);
    assert_eq!(dump(&lab.open_on("job", &["base"])), seen);
    assert_eq!(dump(&lab.view(&["job", "base"])), seen);
}

/// The order of the list decides, in both directions.
#[test]
fn of_one_name_in_two_logs_the_higher_is_right() {
    let lab = Lab::new();
    for (log, text) in [("one", &b"1"[..]), ("two", b"22")] {
        let space = lab.open(log);
        let fs = space.as_root();
        let dir = fs.mkdir(b"/shared", 0o755).unwrap();
        fs.create_with_at(&dir, b"same", 0o644, text).unwrap();
        fs.create_with_at(&dir, log.as_bytes(), 0o644, text).unwrap();
        match log {
            "one" => drop(fs.mkdir(b"/mixed", 0o755).unwrap()),
            _ => touch(fs, "/mixed"),
        }
    }
    for (order, text, kind) in
        [(["one", "two"], &b"1"[..], Kind::Dir), (["two", "one"], b"22", Kind::File)]
    {
        let view = lab.view(&order);
        let fs = view.as_root();
        assert_eq!(ls(fs, "/shared"), "one same two", "the directory is one");
        assert_eq!(fs.read(b"/shared/same", 0, 9).unwrap(), text);
        assert_eq!(fs.stat(b"/mixed").unwrap().kind, kind);
        let mut conflicts = Vec::new();
        view.conflicts(
            |_, _| false,
            |conflict| {
                let path = conflict.path.escape_ascii().to_string();
                conflicts.push((path, conflict.winner, conflict.loser, conflict.kind));
                true
            },
        )
        .unwrap();
        conflicts.sort();
        assert_eq!(
            conflicts,
            [("/mixed".into(), 0, 1, kind), ("/shared/same".into(), 0, 1, Kind::File)]
        );
        view.conflicts(|above, below| above < below, |_| panic!("all was meant")).unwrap();
    }
}

/// Mode and owner come from the highest log that set them, times are the latest, counts add up.
#[test]
fn attributes_of_a_directory_in_several_logs() {
    let lab = Lab::new();
    let space = lab.open("low");
    space.as_root().mkdir(b"/d", 0o755).unwrap();
    space.as_root().mkdir(b"/d/one", 0o755).unwrap();
    space.close().unwrap();
    let t2 = lab.tick();
    let space = lab.open_on("middle", &["low"]);
    let set = SetAttributes { mode: Some(0o700), gid: Some(7), ..SetAttributes::default() };
    space.as_root().set_attributes(b"/d", &set).unwrap();
    space.as_root().mkdir(b"/d/two", 0o755).unwrap();
    space.close().unwrap();
    let t3 = lab.tick();
    // The highest only makes an entry: it has no opinion on the mode.
    let space = lab.open_on("high", &["low"]);
    touch(space.as_root(), "/d/f");
    space.close().unwrap();
    let view = lab.view(&["high", "middle", "low"]);
    let stat = view.as_root().stat(b"/d").unwrap();
    assert_eq!((stat.mode, stat.gid, stat.nlink, stat.mtime_ns), (0o700, 7, 4, t3));
    assert!(t2 < t3);
    assert_eq!(ls(view.as_root(), "/d"), "f one two");
    let view = lab.view(&["high", "low"]);
    assert_eq!(view.as_root().stat(b"/d").unwrap().mode, 0o755);
    let refused = Namespace::open_read_only_in(lab.fs(), &[path("high")], lab.settings());
    assert!(refused.unwrap_err().to_string().contains("/high: the lowest log has no root"));
}

/// One job removed what another, which knew nothing of it, made as well.
#[test]
fn a_directory_that_only_one_of_two_logs_removed() {
    let lab = Lab::new();
    let space = lab.open("remover");
    space.as_root().mkdir(b"/tmp", 0o755).unwrap();
    space.as_root().rmdir(b"/tmp").unwrap();
    space.close().unwrap();
    let space = lab.open("maker");
    space.as_root().mkdir(b"/tmp", 0o711).unwrap();
    touch(space.as_root(), "/tmp/f");
    space.close().unwrap();
    for order in [["remover", "maker"], ["maker", "remover"]] {
        let view = lab.view(&order);
        assert_eq!(ls(view.as_root(), "/tmp"), "f");
        assert_eq!(view.as_root().stat(b"/tmp").unwrap().mode, 0o711);
    }
}

#[test]
fn every_change_of_a_view_is_refused_and_changes_no_byte() {
    let lab = Lab::new();
    base(&lab);
    let before = directory(&lab.disk, Path::new("/"));
    let view = lab.view(&["base"]);
    let fs = view.as_root();
    let dir = fs.dir(b"/a").unwrap();
    let set = SetAttributes { mode: Some(0), ..SetAttributes::default() };
    let refused = [
        errno(fs.create(b"/new", 0o644, IfExists::Fail)),
        errno(fs.create(b"/new", 0o644, IfExists::Open)),
        errno(fs.create_unchecked_at(&dir, b"new", 0o644)),
        errno(fs.create_with_at(&dir, b"new", 0o644, b"x")),
        errno(fs.mkdir(b"/new", 0o755)),
        errno(fs.symlink(b"x", b"/new")),
        errno(fs.unlink(b"/f")),
        errno(fs.unlink(b"/l")),
        errno(fs.rmdir(b"/gone")),
        errno(fs.rename(b"/f", b"/g", IfTaken::Replace)),
        errno(fs.rename(b"/a", b"/z", IfTaken::Replace)),
        errno(fs.write(b"/f", 0, b"x")),
        errno(fs.replace_at(&view.root().unwrap(), b"f", b"x")),
        errno(fs.set_attributes(b"/f", &set)),
        errno(fs.set_attributes(b"/a", &set)),
        errno(fs.set_attributes(
            b"/a",
            &SetAttributes { mtime: Some(SetTime::Now), ..SetAttributes::default() },
        )),
        errno(fs.remove_tree_at(&view.root().unwrap(), b"a")),
    ];
    assert_eq!(refused, ["EROFS"; 17]);
    // What is there is told first, and what is not is not there.
    assert_eq!(errno(fs.create(b"/f", 0o644, IfExists::Fail)), "EEXIST");
    assert_eq!(errno(fs.create(b"/f", 0o644, IfExists::Open)), "done");
    assert_eq!(errno(fs.unlink(b"/none")), "ENOENT");
    assert_eq!(errno(fs.write(b"/none", 0, b"x")), "ENOENT");
    drop(dir);
    view.close().unwrap();
    assert_eq!(directory(&lab.disk, Path::new("/")), before);
}

/// A reader sees a log as it was when it was opened, whatever its writer does meanwhile.
#[test]
fn readers_beside_a_writer() {
    let (lab, space) = opened();
    touch(space.as_root(), "/one");
    let view = lab.view(&["log"]);
    touch(space.as_root(), "/two");
    space.flush().unwrap();
    assert_eq!(ls(view.as_root(), "/"), "one");
    assert_eq!(ls(lab.view(&["log"]).as_root(), "/"), "one two");
}

/// Chains of 1, 4 and 16 logs, each with creates, replacements and removals of its own, against a
/// map; and what is in no log at all.
#[test]
fn long_chains_against_a_model() {
    for logs in [1, 4, 16] {
        let lab = Lab::new();
        let mut rng = Rng::from_seed(logs);
        let mut model: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut chain: Vec<String> = Vec::new();
        for log in 0..logs {
            let name = format!("log{log}");
            let lower = chain.iter().map(|name| path(name)).collect();
            let settings = Settings { lower, ..lab.settings() };
            let space = Namespace::open_in(lab.fs(), &path(&name), settings).unwrap();
            let fs = space.as_root();
            let dir = match log {
                0 => fs.mkdir(b"/d", 0o755).unwrap(),
                _ => fs.dir(b"/d").unwrap(),
            };
            for _ in 0..60 {
                let name = format!("n{}", rng.below(100));
                let is_there = model.contains_key(&name);
                match rng.below(3) {
                    0 => {
                        let done = errno(fs.unlink_at(&dir, name.as_bytes()));
                        assert_eq!(done, if is_there { "done" } else { "ENOENT" });
                        model.remove(&name);
                    }
                    _ => {
                        let data = rng.below(1000).to_string().into_bytes();
                        let bytes = name.as_bytes();
                        let done = errno(fs.create_with_at(&dir, bytes, 0o644, &data));
                        assert_eq!(done, if is_there { "EEXIST" } else { "done" });
                        if is_there {
                            fs.replace_at(&dir, bytes, &data).unwrap();
                        }
                        model.insert(name, data);
                    }
                }
            }
            space.close().unwrap();
            chain.insert(0, name);
        }
        let names: Vec<&str> = chain.iter().map(String::as_str).collect();
        let view = lab.view(&names);
        let fs = view.as_root();
        let wanted: Vec<&str> = model.keys().map(String::as_str).collect();
        assert_eq!(ls(fs, "/d"), wanted.join(" "), "{logs} logs");
        let dir = fs.dir(b"/d").unwrap();
        for n in 0..100 {
            let name = format!("n{n}");
            let read = fs.read_at(&dir, name.as_bytes(), 0, 99).ok();
            assert_eq!(read.as_ref(), model.get(&name), "{name} of {logs} logs");
            assert_eq!(errno(fs.stat_at(&dir, format!("none{n}").as_bytes())), "ENOENT");
        }
        assert_sound(&view);
    }
}

#[test]
fn a_directory_that_several_logs_made_counts_once() {
    let lab = Lab::new();
    for name in ["r0", "r1", "r2"] {
        let space = lab.open(name);
        let fs = space.as_root();
        fs.mkdir(b"/shared", 0o755).unwrap();
        fs.mkdir(format!("/of-{name}").as_bytes(), 0o755).unwrap();
        space.close().unwrap();
    }
    let view = lab.view(&["r2", "r1", "r0"]);
    let fs = view.as_root();
    assert_eq!(fs.stat(b"/").unwrap().nlink, 2 + 4);
    // And a log on top of them counts on from there.
    let space = lab.open_on("job", &["r2", "r1", "r0"]);
    let fs = space.as_root();
    fs.rmdir(b"/shared").unwrap();
    fs.mkdir(b"/new", 0o755).unwrap();
    fs.mkdir(b"/newer", 0o755).unwrap();
    assert_eq!(fs.stat(b"/").unwrap().nlink, 2 + 5);
    space.close().unwrap();
    let view = lab.view(&["job", "r2", "r1", "r0"]);
    assert_eq!(view.as_root().stat(b"/").unwrap().nlink, 2 + 5);
}
