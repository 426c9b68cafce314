//! Quotas: up to them everything goes, what is beyond is refused whole, and what goes away makes
//! room. That the count is right beside any mixture of calls, full disks and restarts, is looked at
//! wherever `support::dump` is used.

use crate::support::{Lab, assert_sound, dump, errno, opened, path, touch};
use keyrack_deltafs::{Caller, DEPTH_MAX, IfExists, IfTaken, Namespace, Quota, Result, Settings};

fn open(lab: &Lab, name: &str, lower: &[&str], quota: Quota) -> Namespace {
    let lower = lower.iter().map(|name| path(name)).collect();
    let settings = Settings { lower, quota, ..lab.settings() };
    Namespace::open_in(lab.fs(), &path(name), settings).unwrap()
}

fn names(count: u64) -> Quota {
    Quota { names: Some(count), ..Quota::default() }
}

/// Every way to make a name, under one that is not there.
fn ways(fs: Caller<'_>, name: &str) -> Vec<(&'static str, Result<()>)> {
    let path = format!("/{name}");
    let path = path.as_bytes();
    let root = fs.dir(b"/").unwrap();
    vec![
        ("create", fs.create(path, 0o644, IfExists::Fail).map(drop)),
        ("open", fs.create(path, 0o644, IfExists::Open).map(drop)),
        ("with bytes", fs.create_with_at(&root, name.as_bytes(), 0o644, b"x").map(drop)),
        ("unchecked", fs.create_unchecked_at(&root, name.as_bytes(), 0o644)),
        ("put", fs.put(path, 0o644, b"small").map(drop)),
        ("put much", fs.put(path, 0o644, &[7; 10_000]).map(drop)),
        ("symlink", fs.symlink(b"target", path).map(drop)),
        ("mkdir", fs.mkdir(path, 0o755).map(drop)),
    ]
}

#[test]
fn names_come_up_to_the_quota_and_what_is_beyond_changes_nothing() {
    let lab = Lab::new();
    let space = open(&lab, "log", &[], names(6));
    let fs = space.as_root();
    assert_eq!((space.names(), space.quota().names), (Some(0), Some(6)));
    fs.mkdir(b"/d", 0o755).unwrap();
    touch(fs, "/d/f");
    fs.symlink(b"f", b"/d/l").unwrap();
    fs.put(b"/d/large", 0o644, &[1; 9000]).unwrap();
    fs.create_unchecked_at(&fs.dir(b"/d").unwrap(), b"u", 0o644).unwrap();
    fs.create_unchecked_at(&fs.dir(b"/d").unwrap(), b"u", 0o644).unwrap();
    assert_eq!(space.names(), Some(5), "a name that is replaced is one");
    fs.mkdir(b"/e", 0o755).unwrap();
    let before = dump(&space);
    for (what, made) in ways(fs, "new") {
        let error = made.unwrap_err();
        assert_eq!(error.errno(), "EDQUOT", "{what}: {error}");
        assert!(error.to_string().contains("new: the quota of 6 names is used up"), "{error}");
    }
    assert_eq!(dump(&space), before);
    // What makes no name goes on.
    assert!(!fs.create(b"/d/f", 0o644, IfExists::Open).unwrap().is_new);
    fs.put(b"/d/f", 0o644, &[2; 9000]).unwrap();
    fs.create_unchecked_at(&fs.dir(b"/d").unwrap(), b"u", 0o600).unwrap();
    fs.rename(b"/d/f", b"/e/g", IfTaken::Fail).unwrap();
    assert_eq!(errno(fs.create(b"/d/f", 0o644, IfExists::Fail)), "EDQUOT");
    // Each way to lose a name makes room for one.
    fs.rename(b"/e/g", b"/d/large", IfTaken::Replace).unwrap();
    touch(fs, "/d/1");
    fs.unlink(b"/d/1").unwrap();
    touch(fs, "/d/2");
    fs.rmdir(b"/e").unwrap();
    touch(fs, "/d/3");
    assert_eq!(errno(fs.create(b"/d/4", 0o644, IfExists::Fail)), "EDQUOT");
    assert_eq!(fs.remove_tree(b"/d").unwrap(), 6);
    assert_eq!(space.names(), Some(0));
    for n in 0..6 {
        touch(fs, &format!("/{n}"));
    }
    // A quota is what it is opened with: less than there is leaves what there is.
    space.close().unwrap();
    let space = open(&lab, "log", &[], names(4));
    let fs = space.as_root();
    assert_eq!(space.names(), Some(6));
    fs.unlink(b"/0").unwrap();
    fs.unlink(b"/1").unwrap();
    assert_eq!(errno(fs.create(b"/new", 0o644, IfExists::Fail)), "EDQUOT");
    fs.unlink(b"/2").unwrap();
    touch(fs, "/new");
    assert_eq!(dump(&space).len(), 5, "with the root");
    assert_sound(&space);
    space.close().unwrap();
    assert_eq!(lab.view(&["log"]).names(), None, "nobody counts where nothing can be made");
}

#[test]
fn names_of_logs_below_count_until_they_are_hidden() {
    let lab = Lab::new();
    let base = lab.open("base");
    for path in ["/a", "/b", "/c"] {
        touch(base.as_root(), path);
    }
    base.close().unwrap();
    let space = open(&lab, "log", &["base"], names(4));
    let fs = space.as_root();
    assert_eq!(space.names(), Some(3));
    fs.create_unchecked_at(&fs.dir(b"/").unwrap(), b"a", 0o600).unwrap();
    touch(fs, "/d");
    assert_eq!(errno(fs.mkdir(b"/e", 0o755)), "EDQUOT");
    fs.unlink(b"/b").unwrap();
    fs.mkdir(b"/b", 0o755).unwrap();
    assert_eq!(errno(fs.mkdir(b"/e", 0o755)), "EDQUOT");
    fs.rename(b"/d", b"/c", IfTaken::Replace).unwrap();
    fs.create_unchecked_at(&fs.dir(b"/").unwrap(), b"d", 0o600).unwrap();
    assert_eq!(errno(fs.create_unchecked_at(&fs.dir(b"/").unwrap(), b"e", 0o600)), "EDQUOT");
    assert_eq!(dump(&space).len(), 5, "with the root");
}

#[test]
fn threads_together_make_as_many_names_as_there_may_be() {
    let lab = Lab::new();
    let space = open(&lab, "log", &[], names(150));
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let space = &space;
                scope.spawn(move || {
                    let fs = space.as_root();
                    let make =
                        |n| fs.create(format!("/{thread}-{n}").as_bytes(), 0o644, IfExists::Fail);
                    (0..100).filter(|n| make(*n).is_ok()).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((made, space.names()), (150, Some(150)));
    assert_eq!(dump(&space).len(), 151, "with the root");
}

#[test]
fn directories_come_as_deep_as_the_quota_by_mkdir_and_by_rename() {
    let lab = Lab::new();
    let quota = |depth| Quota { depth, ..Quota::default() };
    let space = open(&lab, "log", &[], quota(3));
    let fs = space.as_root();
    for path in ["/a", "/a/b", "/a/b/c", "/x", "/x/y", "/x/y/z", "/v", "/v/w"] {
        fs.mkdir(path.as_bytes(), 0o755).unwrap();
    }
    touch(fs, "/a/b/c/file");
    let before = dump(&space);
    let error = fs.mkdir(b"/a/b/c/d", 0o755).unwrap_err();
    assert_eq!(error.errno(), "ENAMETOOLONG");
    let words = "the way from the root to the directory is too long: 4, and the limit is 3";
    assert_eq!(error.to_string(), words);
    let mv = |from: &str, to: &str| fs.rename(from.as_bytes(), to.as_bytes(), IfTaken::Fail);
    // What is below a directory counts, where it would come to be.
    for (from, to) in [("/x", "/a/x"), ("/x/y", "/a/b/y"), ("/v", "/a/b/v"), ("/v", "/a/b/c/v")] {
        assert_eq!(errno(mv(from, to)), "ENAMETOOLONG", "{from} {to}");
    }
    assert_eq!(dump(&space), before);
    mv("/v", "/a/v").unwrap();
    mv("/x/y/z", "/a/b/z").unwrap();
    mv("/x/y", "/a/b/y").unwrap();
    assert_sound(&space);
    space.close().unwrap();
    // A tree that is deeper than a later quota can be used, renamed where it is, and removed.
    let space = open(&lab, "log", &[], quota(1));
    let fs = space.as_root();
    touch(fs, "/a/b/c/more");
    fs.rename(b"/a/b/c", b"/a/b/still", IfTaken::Fail).unwrap();
    assert_eq!(errno(fs.rename(b"/a/b", b"/b", IfTaken::Fail)), "ENAMETOOLONG");
    fs.rename(b"/a/b/z", b"/z", IfTaken::Fail).unwrap();
    assert_eq!(errno(fs.mkdir(b"/a/new", 0o755)), "ENAMETOOLONG");
    fs.remove_tree(b"/a").unwrap();
    assert_sound(&space);
    drop(space);
    let space = open(&lab, "flat", &[], quota(0));
    assert_eq!(errno(space.as_root().mkdir(b"/d", 0o755)), "ENAMETOOLONG");
    touch(space.as_root(), "/f");
}

#[test]
fn new_names_are_as_long_as_the_quota_and_old_ones_stay() {
    let (lab, space) = opened();
    space.as_root().mkdir(b"/d", 0o755).unwrap();
    touch(space.as_root(), "/long-name");
    space.close().unwrap();
    let space = open(&lab, "log", &[], Quota { name_bytes: 5, ..Quota::default() });
    let fs = space.as_root();
    let before = dump(&space);
    for (what, made) in ways(fs, "sixsix") {
        let error = made.unwrap_err();
        assert_eq!(error.errno(), "ENAMETOOLONG", "{what}: {error}");
        let words = "the name 'sixsix' is too long: 6, and the limit is 5";
        assert_eq!(error.to_string(), words, "{what}");
    }
    touch(fs, "/five5");
    assert_eq!(errno(fs.rename(b"/five5", b"/sixsix", IfTaken::Fail)), "ENAMETOOLONG");
    fs.unlink(b"/five5").unwrap();
    assert_eq!(dump(&space), before);
    assert!(!fs.create(b"/long-name", 0o644, IfExists::Open).unwrap().is_new);
    fs.rename(b"/long-name", b"/d/long-name", IfTaken::Fail).unwrap();
    assert_eq!(errno(fs.rename(b"/d/long-name", b"/long-nam", IfTaken::Fail)), "ENAMETOOLONG");
    fs.rename(b"/d/long-name", b"/short", IfTaken::Fail).unwrap();
}

#[test]
fn a_quota_that_cannot_be_is_refused_before_a_log_is_made() {
    let lab = Lab::new();
    for quota in [
        Quota { name_bytes: 0, ..Quota::default() },
        Quota { name_bytes: 256, ..Quota::default() },
        Quota { depth: DEPTH_MAX + 1, ..Quota::default() },
    ] {
        let settings = Settings { quota, ..lab.settings() };
        let error = Namespace::open_in(lab.fs(), &path("log"), settings).unwrap_err();
        assert!(error.to_string().starts_with("a quota of "), "{error}");
        assert!(!lab.fs().exists(&path("log")).unwrap());
    }
}
