//! Kills and power losses: what was acknowledged is there, and nothing is half.

use crate::support::{Lab, assert_sound, dump, errno, opened, path};
use keyrack_deltafs::{IfExists, IfTaken, Namespace, Settings};
use keyrack_flodb::Durability;
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, OpenOptions};
use keyrack_workload::Rng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A script of moves: a file and a directory that change places, and files that come and go.
fn step(space: &Namespace, n: u64) -> Result<(), keyrack_deltafs::Error> {
    let fs = space.as_root();
    let (from, to) = if n.is_multiple_of(2) { ("/a", "/b") } else { ("/b", "/a") };
    fs.rename(format!("{from}/file").as_bytes(), format!("{to}/file").as_bytes(), IfTaken::Fail)?;
    fs.rename(format!("{from}/dir").as_bytes(), format!("{to}/dir").as_bytes(), IfTaken::Fail)?;
    fs.create(format!("/made/{n:04}").as_bytes(), 0o644, IfExists::Fail)?;
    let sub = format!("/made/d{n}");
    fs.mkdir(sub.as_bytes(), 0o755)?;
    fs.create(format!("{sub}/x").as_bytes(), 0o644, IfExists::Fail)?;
    fs.unlink(format!("{sub}/x").as_bytes())?;
    fs.rmdir(sub.as_bytes())
}

fn prepare(space: &Namespace) {
    let fs = space.as_root();
    for dir in ["/a", "/b", "/a/dir", "/made"] {
        fs.mkdir(dir.as_bytes(), 0o755).unwrap();
    }
    fs.create(b"/a/file", 0o644, IfExists::Fail).unwrap();
    fs.create(b"/a/dir/in", 0o644, IfExists::Fail).unwrap();
    space.flush().unwrap();
}

/// Asserts that nothing is half, and gives how many steps are whole.
fn check(space: &Namespace, context: &str) -> u64 {
    assert_eq!(space.fsck().unwrap().flaws, [], "{context}");
    let fs = space.as_root();
    for name in ["file", "dir/in"] {
        let places = ["/a/", "/b/"].map(|dir| fs.stat(format!("{dir}{name}").as_bytes()).is_ok());
        assert!(places[0] != places[1], "{context}: {name} in {places:?}");
    }
    let dir = fs.dir(b"/made").unwrap();
    let page = fs.list_at(&dir, None, usize::MAX).unwrap();
    let files: Vec<_> = page.entries.into_iter().filter(|entry| entry.name[0] != b'd').collect();
    for (n, entry) in files.iter().enumerate() {
        assert_eq!(entry.name, format!("{n:04}").as_bytes(), "{context}");
    }
    files.len() as u64
}

/// Synced: power goes at a drawn operation, and what the disk has by chance is looked at.
#[test]
fn power_losses_leave_a_beginning_with_all_that_was_acknowledged() {
    let seed = 20_261_122;
    println!("SEED={seed}");
    let mut rng = Rng::from_seed(seed);
    let mut survived = 0;
    for round in 0..60 {
        let lab = Lab::new();
        let fs = FaultFs::new(lab.fs());
        let mut settings = lab.settings();
        settings.store.durability = Durability::Sync;
        settings.store.memtable_bytes = 64 << 10;
        settings.store.segment_bytes = 64 << 10;
        let space = Namespace::open_in(Arc::new(fs.clone()), &path("log"), settings.clone());
        let space = space.unwrap();
        prepare(&space);
        fs.arm(FaultPlan::from_then_on(rng.range(1, 120), Fault::PowerOut));
        let mut acknowledged = 0;
        while acknowledged < 40 && step(&space, acknowledged).is_ok() {
            acknowledged += 1;
        }
        let policy = [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered];
        let disk = lab.disk.crash_image(rng.next_u64(), policy[round % 3]);
        drop(space);
        let after = Lab { disk, now: Arc::clone(&lab.now) };
        let space = Namespace::open_in(after.fs(), &path("log"), settings).unwrap();
        let found = check(&space, &format!("round {round}"));
        assert!(found == acknowledged || found == acknowledged + 1, "{found} of {acknowledged}");
        survived += acknowledged;
        // It goes on, and no number comes again.
        if found == acknowledged {
            let _ = step(&space, found);
        }
        assert_sound(&space);
    }
    assert!(survived > 100, "the rounds were too short: {survived}");
}

/// At `os` a kill loses nothing that was acknowledged: neither entries nor bytes; times of
/// directories are at most a second old.
#[test]
fn a_kill_loses_nothing() {
    let (lab, space) = opened();
    prepare(&space);
    let mut images = Vec::new();
    for n in 0..30 {
        lab.now.fetch_add(300_000_000, std::sync::atomic::Ordering::Relaxed);
        step(&space, n).unwrap();
        let created = format!("/made/{n:04}");
        space.as_root().write(created.as_bytes(), 0, b"bytes").unwrap();
        let made = space.as_root().stat(b"/made").unwrap();
        images.push((n, lab.disk.process_crash_image(), dump(&space), made.mtime_ns));
    }
    for (n, disk, before, mtime_ns) in images {
        let after = Lab { disk, now: Arc::clone(&lab.now) };
        let space = after.open("log");
        assert_eq!(check(&space, &format!("kill {n}")), n + 1);
        assert_eq!(dump(&space), before, "kill {n}");
        let found = space.as_root().stat(b"/made").unwrap().mtime_ns;
        assert!(found <= mtime_ns && mtime_ns - found <= 1_000_000_000, "kill {n}");
    }
}

/// What failed is told, the name space reads on, and after a new opening it is whole.
#[test]
fn a_full_disk_is_an_error_and_nothing_else() {
    let lab = Lab::new();
    let fs = FaultFs::new(lab.fs());
    let mut settings: Settings = lab.settings();
    settings.store.memtable_bytes = 64 << 10;
    settings.store.segment_bytes = 64 << 10;
    let space = Namespace::open_in(Arc::new(fs.clone()), &path("log"), settings.clone()).unwrap();
    prepare(&space);
    fs.arm(FaultPlan::from_then_on(1, Fault::NoSpace));
    let mut done = 0;
    let error = loop {
        match step(&space, done) {
            Ok(()) => done += 1,
            Err(error) => break error,
        }
        assert!(done < 100_000, "the disk is full");
    };
    assert_eq!(error.errno(), "ENOSPC", "{error}");
    assert!(space.as_root().stat(b"/made/0000").is_ok() || done == 0);
    drop(space);
    fs.disarm();
    let space = Namespace::open_in(Arc::new(fs), &path("log"), settings).unwrap();
    let found = check(&space, "after the full disk");
    assert!(found == done || found == done + 1, "{found} of {done}");
}

/// The order of what reaches the disk: a publication's name comes after all of its files, and the
/// number of the epoch before anything is written in it.
#[test]
fn the_epoch_is_synced_before_the_first_create() {
    let (lab, space) = opened();
    // Nothing was synced since the opening, and power goes: the next numbers must be others.
    let first = space.as_root().create(b"/f", 0o644, IfExists::Fail).unwrap().stat.inode;
    let disk = lab.disk.crash_image(1, CrashPolicy::DropAll);
    let after = Lab { disk, now: Arc::clone(&lab.now) };
    let space = after.open("log");
    assert_eq!(errno(space.as_root().stat(b"/f")), "ENOENT");
    let second = space.as_root().create(b"/f", 0o644, IfExists::Fail).unwrap().stat.inode;
    assert_ne!(first, second);
    assert_eq!(space.epoch(), 2);
}

/// A torn end of the log drops the end, a missing or damaged file is named.
#[test]
fn missing_and_damaged_files_are_named() {
    let (lab, space) = opened();
    prepare(&space);
    space.close().unwrap();
    let names: Vec<String> = lab
        .disk
        .list(&path("log"))
        .unwrap()
        .into_iter()
        .filter_map(|entry| entry.name.into_string().ok())
        .filter(|name| name.ends_with(".table") || name.starts_with("MANIFEST"))
        .collect();
    assert!(names.len() >= 2, "{names:?}");
    let seen = Mutex::new(BTreeMap::new());
    for name in &names {
        for is_missing in [true, false] {
            let disk = lab.disk.process_crash_image();
            let file = path("log").join(name);
            if is_missing {
                disk.remove_file(&file).unwrap();
            } else {
                let len = disk.metadata(&file).unwrap().len;
                let open = disk.open(&file, &OpenOptions::new().read(true).write(true)).unwrap();
                open.set_len(len / 3).unwrap();
            }
            let after = Lab { disk, now: Arc::clone(&lab.now) };
            let opened = Namespace::open_in(after.fs(), &path("log"), after.settings());
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(name.as_str()), "{name}: {error}");
            seen.lock().unwrap().insert((name.clone(), is_missing), error);
        }
    }
}
