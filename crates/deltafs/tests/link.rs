//! Hard links: names that share a file, what they refuse, logs on top of logs, kills in between.

use crate::support::{Lab, assert_sound, dump, errno, ls, opened, path, touch};
use keyrack_deltafs::merge::Merge;
use keyrack_deltafs::{IfExists, IfTaken, Kind, Namespace, Said, SetAttributes, Settings, User};
use keyrack_flodb::{Db, Durability, Options};
use keyrack_testkit::damage::directory;
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs};
use keyrack_workload::Rng;
use std::sync::Arc;

/// What the log `name` says about its format.
fn format_of(lab: &Lab, name: &str) -> String {
    let options = Options { create_if_missing: false, compaction_threads: 0, ..Options::default() };
    let db = Db::open_read_only_in(lab.fs(), &path(name), options).unwrap();
    String::from_utf8(db.get(&[&[0; 16][..], b"format"].concat()).unwrap().unwrap()).unwrap()
}

/// Files with bytes outside of the log `log`.
fn large_files(lab: &Lab) -> usize {
    let shards = lab.disk.list(&path("log/contents")).unwrap();
    let shards = shards.iter().filter(|entry| entry.name != "unfinished");
    shards.map(|shard| lab.disk.list(&path("log/contents").join(&shard.name)).unwrap().len()).sum()
}

#[test]
fn names_share_a_file_until_the_last_goes() {
    let (lab, space) = opened();
    let fs = space.as_root();
    fs.mkdir(b"/d", 0o755).unwrap();
    touch(fs, "/a");
    fs.write(b"/a", 0, b"one").unwrap();
    assert_eq!(format_of(&lab, "log"), "keyrack-deltafs 2");
    let before = fs.stat(b"/a").unwrap();
    let now = lab.tick();
    let linked = fs.link(b"/a", b"/d/b").unwrap();
    assert_eq!((linked.inode, linked.nlink, linked.ctime_ns), (before.inode, 2, now));
    assert_eq!(fs.stat(b"/a").unwrap(), linked);
    assert_eq!(fs.stat(b"/d/b").unwrap(), linked);
    assert_eq!(fs.stat(b"/d").unwrap().mtime_ns, now);
    assert_eq!(fs.link(b"/d/b", b"/c").unwrap().nlink, 3);
    assert_eq!(format_of(&lab, "log"), "keyrack-deltafs 3");
    // A change by one name is one by all.
    fs.write(b"/c", 3, b" two").unwrap();
    fs.set_attributes(b"/d/b", &SetAttributes { mode: Some(0o600), ..SetAttributes::default() })
        .unwrap();
    assert_eq!(fs.read(b"/a", 0, 99).unwrap(), b"one two");
    assert_eq!(fs.stat(b"/c").unwrap().mode, 0o600);
    assert_eq!(errno(fs.create(b"/c", 0o644, IfExists::Fail)), "EEXIST");
    let taken = fs.create(b"/c", 0o644, IfExists::Open).unwrap();
    assert_eq!((taken.is_new, taken.stat.inode), (false, before.inode));
    space.close().unwrap();
    let space = lab.open("log");
    let fs = space.as_root();
    assert_sound(&space);
    let now = lab.tick();
    fs.unlink(b"/a").unwrap();
    let stat = fs.stat(b"/c").unwrap();
    assert_eq!((stat.nlink, stat.ctime_ns, fs.stat(b"/d/b").unwrap()), (2, now, stat));
    fs.unlink(b"/d/b").unwrap();
    assert_eq!(fs.read(b"/c", 0, 99).unwrap(), b"one two");
    assert_eq!(fs.stat(b"/c").unwrap().nlink, 1);
    assert_eq!(dump(&space).len(), 3);
    fs.link(b"/c", b"/again").unwrap();
    fs.unlink(b"/c").unwrap();
    fs.unlink(b"/again").unwrap();
    assert_eq!(ls(fs, "/"), "d");
    assert_sound(&space);
    assert_eq!(space.fsck().unwrap().files, 0, "the record went with the last name");
    touch(fs, "/a");
    assert_ne!(fs.stat(b"/a").unwrap().inode, before.inode);
}

#[test]
fn a_symbolic_link_has_names_as_well() {
    let (_, space) = opened();
    let fs = space.as_root();
    fs.mkdir(b"/d", 0o755).unwrap();
    touch(fs, "/d/f");
    fs.symlink(b"d", b"/l").unwrap();
    let stat = fs.link(b"/l", b"/m").unwrap();
    assert_eq!((stat.kind, stat.nlink), (Kind::Symlink, 2));
    assert_eq!(fs.read_link(b"/m").unwrap(), b"d");
    assert!(fs.stat(b"/m/f").is_ok(), "the way leads over it");
    let page = fs.list_at(&fs.dir(b"/").unwrap(), None, 9).unwrap();
    let kinds: Vec<Kind> = page.entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [Kind::Dir, Kind::Symlink, Kind::Symlink]);
    assert_sound(&space);
    assert_eq!(space.fsck().unwrap().symlinks, 1);
}

#[test]
fn what_cannot_be_linked() {
    let lab = Lab::new();
    let mut settings = lab.settings();
    settings.quota.names = Some(6);
    let space = Namespace::open_in(lab.fs(), &path("log"), settings).unwrap();
    let fs = space.as_root();
    fs.mkdir(b"/d", 0o755).unwrap();
    fs.mkdir(b"/mine", 0o700).unwrap();
    touch(fs, "/f");
    touch(fs, "/g");
    let link = |from: &str, to: &str| errno(fs.link(from.as_bytes(), to.as_bytes()));
    assert_eq!(link("/d", "/e"), "EPERM");
    assert_eq!(link("/", "/e"), "EPERM");
    assert_eq!(link("/none", "/g"), "ENOENT");
    assert_eq!(link("/none", "/f/x"), "ENOENT");
    assert_eq!(link("/f", "/g"), "EEXIST");
    assert_eq!(link("/d", "/g"), "EEXIST");
    assert_eq!(link("/f", "/f"), "EEXIST");
    assert_eq!(link("/f", "/none/x"), "ENOENT");
    assert_eq!(link("/f", "/g/x"), "ENOTDIR");
    assert_eq!(link("/f/", "/x"), "ENOTDIR");
    assert_eq!(link("/f", "/x/"), "ENOENT");
    assert_eq!(link("/f", "/d/."), "EEXIST");
    assert_eq!(link("/f", &format!("/{}", "n".repeat(256))), "ENAMETOOLONG");
    let other = User { uid: 7, gid: 7, groups: Vec::new() };
    let theirs = space.by(&other);
    assert_eq!(errno(theirs.link(b"/f", b"/d/x")), "EACCES");
    assert_eq!(errno(theirs.link(b"/f", b"/mine/x")), "EACCES");
    assert_eq!(errno(theirs.link(b"/mine/x", b"/x")), "EACCES");
    assert_eq!(format_of(&lab, "log"), "keyrack-deltafs 2", "a refused link changes nothing");
    assert_eq!((link("/f", "/x"), link("/f", "/y"), link("/f", "/z")), ("done", "done", "EDQUOT"));
    assert_eq!(fs.stat(b"/f").unwrap().nlink, 3);
    let page = fs.linked_at(&fs.dir(b"/").unwrap(), b"g").unwrap();
    assert_eq!(page, None, "a file with one name is known by it");
    dump(&space);
    space.close().unwrap();
    let view = lab.view(&["log"]);
    let fs = view.as_root();
    assert_eq!(errno(fs.link(b"/f", b"/new")), "EROFS");
    assert_eq!(errno(fs.unlink(b"/f")), "EROFS");
    assert_eq!(errno(fs.write(b"/f", 0, b"x")), "EROFS");
}

#[test]
fn a_file_has_at_most_65_000_names() {
    let (_, space) = opened();
    let fs = space.as_root();
    touch(fs, "/f");
    let root = fs.dir(b"/").unwrap();
    for n in 1..65_000 {
        fs.link_at(&root, b"f", &root, format!("{n:05}").as_bytes()).unwrap();
    }
    let error = fs.link(b"/f", b"/more").unwrap_err();
    assert_eq!(error.errno(), "EMLINK");
    assert_eq!(error.to_string(), "/f: it has 65000 names, the most that a file may have");
    assert_eq!(fs.stat(b"/00001").unwrap().nlink, 65_000);
    fs.unlink(b"/00001").unwrap();
    assert_eq!(fs.link(b"/f", b"/more").unwrap().nlink, 65_000);
    assert_sound(&space);
}

#[test]
fn renames_of_links() {
    let (lab, space) = opened();
    let fs = space.as_root();
    fs.mkdir(b"/d", 0o755).unwrap();
    touch(fs, "/a");
    fs.link(b"/a", b"/b").unwrap();
    let mv =
        |from: &str, to: &str| errno(fs.rename(from.as_bytes(), to.as_bytes(), IfTaken::Replace));
    // Two names of one file: POSIX has both stay.
    assert_eq!(mv("/a", "/b"), "done");
    assert_eq!(ls(fs, "/"), "a b d");
    assert_eq!(errno(fs.rename(b"/a", b"/b", IfTaken::Fail)), "EEXIST");
    let now = lab.tick();
    assert_eq!(mv("/a", "/d/c"), "done");
    let stat = fs.stat(b"/b").unwrap();
    assert_eq!((stat.nlink, stat.ctime_ns, fs.stat(b"/d/c").unwrap()), (2, now, stat));
    // A name that is replaced is one name less.
    touch(fs, "/x");
    assert_eq!(mv("/x", "/b"), "done");
    assert_eq!((fs.stat(b"/b").unwrap().nlink, fs.stat(b"/d/c").unwrap().nlink), (1, 1));
    assert_ne!(fs.stat(b"/b").unwrap().inode, stat.inode);
    assert_eq!(mv("/b", "/d/c"), "done");
    assert_eq!(space.fsck().unwrap().files, 1, "the record went with the last name");
    // A link replaces a link of another file.
    touch(fs, "/y");
    fs.link(b"/y", b"/z").unwrap();
    fs.link(b"/d/c", b"/c").unwrap();
    assert_eq!(mv("/z", "/c"), "done");
    assert_eq!((fs.stat(b"/c").unwrap().nlink, fs.stat(b"/d/c").unwrap().nlink), (2, 1));
    assert_eq!(fs.stat(b"/c").unwrap().inode, fs.stat(b"/y").unwrap().inode);
    assert_eq!(mv("/c", "/d"), "EISDIR");
    assert_eq!(mv("/d", "/c"), "ENOTDIR");
    dump(&space);
    assert_sound(&space);
}

#[test]
fn large_bytes_go_with_the_last_name() {
    let (lab, space) = opened();
    let fs = space.as_root();
    fs.put(b"/a", 0o644, &[7; 9000]).unwrap();
    fs.link(b"/a", b"/b").unwrap();
    fs.write(b"/b", 8999, b"xyz").unwrap();
    assert_eq!(fs.read(b"/a", 8998, 99).unwrap(), b"\x07xyz");
    // Small bytes grow out of the record under the number.
    touch(fs, "/s");
    fs.link(b"/s", b"/t").unwrap();
    fs.write(b"/t", 0, &[1; 5000]).unwrap();
    assert_eq!(fs.read(b"/s", 4999, 9).unwrap(), [1]);
    assert_eq!(large_files(&lab), 2);
    // All bytes are replaced at once: all names have the new ones.
    let before = fs.stat(b"/a").unwrap();
    fs.put(b"/b", 0o600, &[9; 20_000]).unwrap();
    let after = fs.stat(b"/a").unwrap();
    assert_eq!((after.size, after.nlink, fs.stat(b"/b").unwrap()), (20_000, 2, after));
    assert_ne!(after.inode, before.inode);
    assert!(fs.read(b"/a", 0, 99_999).unwrap() == [9; 20_000]);
    assert_eq!(fs.link(b"/a", b"/c").unwrap().nlink, 3);
    assert_eq!(large_files(&lab), 2);
    space.close().unwrap();
    let space = lab.open("log");
    assert_sound(&space);
    assert_eq!(space.check_contents().unwrap(), []);
    let fs = space.as_root();
    fs.unlink(b"/a").unwrap();
    touch(fs, "/new");
    fs.rename(b"/new", b"/b", IfTaken::Replace).unwrap();
    assert!(fs.read(b"/c", 0, 99_999).unwrap() == [9; 20_000]);
    fs.unlink(b"/c").unwrap();
    assert_eq!(large_files(&lab), 1);
    fs.put(b"/t", 0o644, b"few").unwrap();
    assert_eq!(fs.read(b"/s", 0, 9).unwrap(), b"few");
    assert_eq!(large_files(&lab), 0);
    assert_sound(&space);
}

/// A crash leaves `unfinished`: what the next opening sweeps is not the bytes of a file with links.
#[test]
fn a_sweep_spares_the_bytes_of_links_and_damage_is_told_at_every_name() {
    let (lab, space) = opened();
    let fs = space.as_root();
    fs.put(b"/a", 0o644, &[7; 9000]).unwrap();
    fs.link(b"/a", b"/b").unwrap();
    let after = Lab { disk: lab.disk.process_crash_image(), now: Arc::clone(&lab.now) };
    let swept = after.open("log");
    assert!(swept.as_root().read(b"/b", 0, 99_999).unwrap() == [7; 9000]);
    space.close().unwrap();
    let shard = &lab.disk.list(&path("log/contents")).unwrap()[0].name;
    let shard = path("log/contents").join(shard);
    let file = shard.join(&lab.disk.list(&shard).unwrap()[0].name);
    let options = keyrack_vfs::OpenOptions::new().read(true).write(true);
    lab.disk.open(&file, &options).unwrap().write_at(5, b"damage").unwrap();
    let flaws = lab.open("log").check_contents().unwrap();
    let paths: Vec<&[u8]> = flaws.iter().map(|flaw| &flaw.path[..]).collect();
    assert_eq!(paths, [&b"/a"[..], b"/b"]);
}

/// What a log says: `+` a name, `-` none, `~` a change of what is below.
fn said(space: &Namespace) -> Vec<String> {
    let mut lines = Vec::new();
    let visit = |path: &[u8], said: Said, _: Option<&keyrack_deltafs::Stat>| {
        let sign = match said {
            Said::Is(_) => '+',
            Said::IsNot => '-',
            Said::Changed => '~',
        };
        lines.push(format!("{sign}{}", path.escape_ascii()));
        true
    };
    space.changes(visit).unwrap();
    lines.sort();
    lines
}

#[test]
fn a_log_links_and_unlinks_what_is_below_without_touching_it() {
    let lab = Lab::new();
    let space = lab.open("base");
    let fs = space.as_root();
    fs.put(b"/f", 0o644, &[5; 9000]).unwrap();
    touch(fs, "/g");
    fs.link(b"/g", b"/h").unwrap();
    space.close().unwrap();
    let before = directory(&lab.disk, &path("base"));

    let space = lab.open_on("job", &["base"]);
    assert_eq!(format_of(&lab, "job"), "keyrack-deltafs 3", "what is below has links");
    let fs = space.as_root();
    assert_eq!(fs.stat(b"/g").unwrap().nlink, 2);
    fs.write(b"/h", 0, b"job").unwrap();
    assert_eq!(fs.read(b"/g", 0, 9).unwrap(), b"job");
    assert_eq!(said(&space), ["~/g", "~/h"]);
    fs.link(b"/f", b"/e").unwrap();
    fs.write(b"/e", 0, b"job").unwrap();
    assert_eq!(fs.read(b"/f", 0, 4).unwrap(), b"job\x05");
    fs.unlink(b"/g").unwrap();
    assert_eq!((fs.stat(b"/h").unwrap().nlink, errno(fs.stat(b"/g"))), (1, "ENOENT"));
    assert_eq!(said(&space), ["+/e", "+/f", "-/g", "~/h"]);
    assert_sound(&space);
    let seen = dump(&space);
    space.close().unwrap();
    assert_eq!(dump(&lab.view(&["job", "base"])), seen);

    let space = lab.open_on("top", &["job", "base"]);
    let fs = space.as_root();
    assert_eq!(errno(fs.create(b"/h", 0o644, IfExists::Fail)), "EEXIST");
    assert!(!fs.create(b"/h", 0o644, IfExists::Open).unwrap().is_new);
    for name in [&b"/e"[..], b"/f", b"/h"] {
        fs.unlink(name).unwrap();
        assert_eq!(errno(fs.unlink(name)), "ENOENT");
    }
    assert_eq!((ls(fs, "/"), space.names()), (String::new(), Some(0)));
    assert_sound(&space);
    touch(fs, "/h");
    space.close().unwrap();
    assert_eq!(ls(lab.view(&["top", "job", "base"]).as_root(), "/"), "h");
    assert_eq!(dump(&lab.view(&["job", "base"])), seen);
    assert_eq!(directory(&lab.disk, &path("base")), before);
}

/// Two logs that do not know of each other change the names of one file.
#[test]
fn logs_that_do_not_know_of_each_other() {
    let lab = Lab::new();
    let space = lab.open("base");
    touch(space.as_root(), "/f");
    touch(space.as_root(), "/gone");
    space.close().unwrap();
    for (log, name) in [("one", &b"/a"[..]), ("two", b"/b")] {
        let space = lab.open_on(log, &["base"]);
        let fs = space.as_root();
        fs.link(b"/f", name).unwrap();
        match log {
            "one" => fs.unlink(b"/gone").unwrap(),
            _ => drop(fs.link(b"/gone", b"/kept").unwrap()),
        }
        space.close().unwrap();
    }
    let logs = ["one", "two", "base"];
    let view = lab.view(&logs);
    assert_eq!(ls(view.as_root(), "/"), "a b f kept");
    let mut conflicts = Vec::new();
    let built_on = |above: usize, below: usize| above < 2 && below == 2;
    view.conflicts(built_on, |found| {
        conflicts.push((found.path.escape_ascii().to_string(), found.winner, found.loser));
        true
    })
    .unwrap();
    conflicts.sort();
    assert_eq!(conflicts, [("/a".into(), 0, 1), ("/b".into(), 0, 1), ("/f".into(), 0, 1)]);
    view.conflicts(|above, below| above < below, |_| panic!("all was meant")).unwrap();
    // The count is that of the highest, and the record goes with the last name all the same.
    let space = lab.open_on("top", &logs);
    let fs = space.as_root();
    assert_eq!(fs.stat(b"/b").unwrap().nlink, 2);
    for name in [&b"/f"[..], b"/a"] {
        fs.unlink(name).unwrap();
        assert!(fs.stat(b"/b").is_ok(), "{}", name.escape_ascii());
    }
    fs.write(b"/kept", 0, b"kept").unwrap();
    assert_eq!(fs.read(b"/kept", 0, 9).unwrap(), b"kept");
    fs.unlink(b"/b").unwrap();
    assert_sound(&space);
    assert_eq!(space.fsck().unwrap().files, 1);
}

/// One log removed the last name, another gave the file one more: that name still has its file.
#[test]
fn a_file_that_only_one_of_two_logs_removed() {
    let lab = Lab::new();
    let space = lab.open("base");
    touch(space.as_root(), "/f");
    space.as_root().write(b"/f", 0, b"base").unwrap();
    space.as_root().link(b"/f", b"/g").unwrap();
    space.close().unwrap();
    for log in ["one", "two"] {
        let space = lab.open_on(log, &["base"]);
        let fs = space.as_root();
        match log {
            "one" => [&b"/f"[..], b"/g"].into_iter().for_each(|name| fs.unlink(name).unwrap()),
            _ => drop(fs.link(b"/f", b"/h").unwrap()),
        }
        space.close().unwrap();
    }
    let view = lab.view(&["one", "two", "base"]);
    assert_eq!(ls(view.as_root(), "/"), "h");
    assert_eq!(view.as_root().read(b"/h", 0, 9).unwrap(), b"base");
    assert_sound(&view);
    let space = lab.open_on("top", &["one", "two", "base"]);
    let fs = space.as_root();
    fs.write(b"/h", 4, b" top").unwrap();
    assert_eq!(fs.read(b"/h", 0, 9).unwrap(), b"base top");
    fs.unlink(b"/h").unwrap();
    assert_eq!(ls(fs, "/"), "");
    assert_sound(&space);
}

#[test]
fn differences_and_walks_know_links() {
    let lab = Lab::new();
    let space = lab.open("old");
    touch(space.as_root(), "/f");
    space.close().unwrap();
    let space = lab.open_on("new", &["old"]);
    space.as_root().link(b"/f", b"/g").unwrap();
    space.as_root().write(b"/g", 0, b"x").unwrap();
    space.close().unwrap();
    let mut lines = Vec::new();
    let (old, new) = (lab.view(&["old"]), lab.view(&["new", "old"]));
    old.diff(&new, |path, difference, kind| {
        lines.push(format!("{difference:?} {} {}", path.escape_ascii(), kind.letter()));
        true
    })
    .unwrap();
    assert_eq!(lines, ["Changed /f f", "Added /g f"]);
    new.diff(&new, |path, _, _| panic!("{}", path.escape_ascii())).unwrap();
}

#[test]
fn a_merge_refuses_logs_with_links() {
    let (lab, space) = opened();
    touch(space.as_root(), "/f");
    space.as_root().link(b"/f", b"/g").unwrap();
    space.close().unwrap();
    let refused = Merge::open(lab.fs(), &[path("log")]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "/log: it has hard links, which a merge cannot keep; publish it, and read it in a view"
    );
}

/// A check finds a name without its file, and a count that is not that of the names.
#[test]
fn a_check_finds_counts_that_are_wrong() {
    let (lab, space) = opened();
    for name in ["/f", "/x"] {
        touch(space.as_root(), name);
        space.as_root().link(name.as_bytes(), format!("{name}2").as_bytes()).unwrap();
    }
    let numbers = ["/f", "/x"].map(|name| space.as_root().stat(name.as_bytes()).unwrap().inode);
    space.close().unwrap();
    let db = Db::open_in(lab.fs(), &path("log"), Options::default()).unwrap();
    let root = 1_u128.to_be_bytes();
    db.delete(&[&root[..], b"f2"].concat()).unwrap();
    db.delete(&numbers[1].to_u128().to_be_bytes()).unwrap();
    db.close().unwrap();
    let space = lab.open("log");
    let mut flaws: Vec<String> = space.fsck().unwrap().flaws.into_iter().map(|f| f.what).collect();
    flaws.sort();
    let [f, x] = numbers;
    assert_eq!(
        flaws,
        [
            format!("it is a name of the file {x}, which is not there"),
            format!("the file {f} counts 2 names, and has 1"),
        ]
    );
    let error = space.as_root().stat(b"/x").unwrap_err();
    assert_eq!(error.errno(), "EIO");
    assert!(error.to_string().contains(&format!("a name of the file {x}, which no log has")));
}

/// Call `n` of a script of links that come, move, replace one another and go.
fn call(space: &Namespace, n: u64) -> keyrack_deltafs::Result<()> {
    let fs = space.as_root();
    let round = n / 8;
    let name = |round: u64, letter: char| format!("/d{}/{letter}{}", round % 2, round / 2);
    let [file, one, two, moved] = ['f', 'a', 'b', 'm'].map(|letter| name(round, letter));
    let before = name(round.saturating_sub(1), 'a');
    match n % 8 {
        0 => fs.create(file.as_bytes(), 0o644, IfExists::Fail).map(drop),
        1 => fs.link(file.as_bytes(), one.as_bytes()).map(drop),
        2 => fs.link(one.as_bytes(), two.as_bytes()).map(drop),
        3 => fs.write(two.as_bytes(), 0, round.to_string().as_bytes()).map(drop),
        4 => fs.rename(two.as_bytes(), moved.as_bytes(), IfTaken::Fail),
        // From the second round on, another file has that name.
        5 => fs.rename(moved.as_bytes(), before.as_bytes(), IfTaken::Replace),
        6 => fs.unlink(file.as_bytes()),
        // The last name of the file of two rounds ago.
        _ if round >= 2 => fs.unlink(name(round - 2, 'a').as_bytes()),
        _ => Ok(()),
    }
}

const CALLS: u64 = 64;

fn prepare(space: &Namespace) {
    space.as_root().mkdir(b"/d0", 0o755).unwrap();
    space.as_root().mkdir(b"/d1", 0o755).unwrap();
}

/// Power goes at a drawn operation: what the disk has by chance is the state between two calls.
#[test]
fn power_losses_leave_names_and_counts_that_agree() {
    let (_, space) = opened();
    prepare(&space);
    let mut states = vec![dump(&space)];
    for n in 0..CALLS {
        call(&space, n).unwrap();
        states.push(dump(&space));
    }
    let seed = 20_261_127;
    println!("SEED={seed}");
    let mut rng = Rng::from_seed(seed);
    let mut survived = 0;
    for round in 0..90 {
        let lab = Lab::new();
        let fs = FaultFs::new(lab.fs());
        let mut settings: Settings = lab.settings();
        settings.store.durability = Durability::Sync;
        settings.store.memtable_bytes = 64 << 10;
        settings.store.segment_bytes = 64 << 10;
        let space =
            Namespace::open_in(Arc::new(fs.clone()), &path("log"), settings.clone()).unwrap();
        prepare(&space);
        fs.arm(FaultPlan::from_then_on(rng.range(1, 120), Fault::PowerOut));
        let mut acknowledged = 0;
        while acknowledged < CALLS && call(&space, acknowledged).is_ok() {
            acknowledged += 1;
        }
        let policy = [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered];
        let disk = lab.disk.crash_image(rng.next_u64(), policy[round % 3]);
        drop(space);
        let after = Lab { disk, now: Arc::clone(&lab.now) };
        let space = Namespace::open_in(after.fs(), &path("log"), settings).unwrap();
        assert_sound(&space);
        let (found, at) = (dump(&space), acknowledged as usize);
        let next = states.get(at + 1);
        assert!(found == states[at] || Some(&found) == next, "call {at}: {found:#?}");
        survived += acknowledged;
    }
    assert!(survived > 500, "the rounds were too short: {survived}");
}

/// A kill at durability `os` loses nothing.
#[test]
fn a_kill_loses_no_link() {
    let (lab, space) = opened();
    prepare(&space);
    let mut images = Vec::new();
    for n in 0..CALLS {
        call(&space, n).unwrap();
        images.push((lab.disk.process_crash_image(), dump(&space)));
    }
    for (n, (disk, before)) in images.into_iter().enumerate() {
        let space = Lab { disk, now: Arc::clone(&lab.now) }.open("log");
        assert_eq!(dump(&space), before, "kill {n}");
        assert_sound(&space);
    }
}

/// Threads link, unlink, rename, write and read names of a few files.
#[test]
fn threads_agree_on_names_and_counts() {
    let (_, space) = opened();
    let fs = space.as_root();
    for dir in ["/d0", "/d1", "/d2"] {
        fs.mkdir(dir.as_bytes(), 0o777).unwrap();
        touch(fs, &format!("{dir}/0"));
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let space = &space;
            scope.spawn(move || {
                let fs = space.as_root();
                let mut rng = Rng::from_seed(thread);
                let name = |rng: &mut Rng| format!("/d{}/{}", rng.below(3), rng.below(4));
                for _ in 0..4000 {
                    let (one, other) = (name(&mut rng), name(&mut rng));
                    let (one, other) = (one.as_bytes(), other.as_bytes());
                    let done = match rng.below(8) {
                        0 | 1 => errno(fs.link(one, other)),
                        2 => errno(fs.unlink(one)),
                        3 => errno(fs.rename(one, other, IfTaken::Replace)),
                        4 => errno(fs.create(one, 0o644, IfExists::Open)),
                        5 => errno(fs.write(one, 0, &[b'x'; 9])),
                        6 => errno(fs.put(one, 0o644, &[7; 5000])),
                        _ => errno(fs.read(one, 0, 9999)),
                    };
                    assert!(["done", "ENOENT", "EEXIST"].contains(&done), "{done}");
                }
            });
        }
    });
    assert_sound(&space);
    assert_eq!(space.check_contents().unwrap(), []);
    dump(&space);
}
