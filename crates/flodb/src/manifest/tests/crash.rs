//! The power goes, or an operation fails, at every point of a history of edits.
//!
//! The history makes tables, logs edits that add them and take older ones away, replaces its
//! manifest every few edits, opens the store anew in between, and removes what is obsolete as soon
//! as it may. So after a crash there must be a state, it must be the last acknowledged one or the
//! one that was about to be, and every table that it names must be there with its bytes.

use super::{create, create_with, dir, disk, open};
use crate::error::{Error, Result};
use crate::key::Comparator;
use crate::manifest::{Manifest, State, table_name};
use crate::version::VersionEdit;
use crate::version::tests::{adding, file};
use keyrack_testkit::random::{Draw, seeds_or};
use keyrack_vfs::{
    CrashPolicy, FailedSync, Fault, FaultFs, FaultPlan, Fs, MemFs, OpenOptions, Operation,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Edits of a history.
const EDITS: usize = 14;

/// Tables that a state has.
const TABLES: usize = 3;

/// What is comparable between histories that met different numbers.
type Shape = (Vec<String>, u64);

/// The tables' first keys, which tell them apart, and where the log begins.
fn shape(state: &State) -> Shape {
    let keys = state.version.files(0).iter();
    (keys.map(|file| String::from_utf8(file.first().to_vec()).unwrap()).collect(), state.log_from)
}

fn write_table(fs: &dyn Fs, number: u64, content: &str) -> Result<()> {
    let path = dir().join(table_name(number));
    let table = fs.open(&path, &OpenOptions::new().write(true).create(true).truncate(true))?;
    table.write_at(0, content.as_bytes())?;
    table.sync_all()?;
    fs.sync_dir(dir())?;
    Ok(())
}

fn remove_obsolete(fs: &dyn Fs, manifest: &Manifest) -> Result<()> {
    for path in manifest.obsolete(HashSet::new)? {
        fs.remove_file(&path)?;
    }
    Ok(())
}

/// One step of the history: a table, and the edit that adds it. `attempt` says what to do with the
/// failure of a part, which is tried again if it returns.
fn step(
    fs: &dyn Fs,
    manifest: &mut Manifest,
    index: usize,
    attempt: &mut dyn FnMut(Error) -> Result<()>,
) -> Result<()> {
    let mut until = |part: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        while let Err(error) = part() {
            attempt(error)?;
        }
        Ok(())
    };
    let number = manifest.numbers().issue();
    let name = format!("{index:02}");
    until(&mut || write_table(fs, number.get(), &name))?;
    let files = manifest.state().version.files(0);
    let oldest = files.get(TABLES - 1).map(|file| (0, file.number));
    let edit = VersionEdit {
        deleted: oldest.into_iter().collect(),
        log_from: Some(index as u64 * 100),
        ..adding(&[(0, file(number.get(), &name, "z"))])
    };
    until(&mut || manifest.log(&edit))?;
    until(&mut || remove_obsolete(fs, manifest))
}

/// The whole history. Pushes the shape of every acknowledged state.
fn history(
    fs: &Arc<dyn Fs>,
    acknowledged: &mut Vec<Shape>,
    attempt: &mut dyn FnMut(Error) -> Result<()>,
) -> Result<()> {
    let make = || -> Result<Manifest> {
        if Manifest::exists(&**fs, dir())? {
            let mut manifest = Manifest::open(Arc::clone(fs), dir(), Comparator::Bytewise)?;
            manifest.set_edit_bytes_max(1_024);
            manifest.log(&VersionEdit::default())?;
            return Ok(manifest);
        }
        create_with(Arc::clone(fs), 1_024)
    };
    let made = |attempt: &mut dyn FnMut(Error) -> Result<()>| -> Result<Manifest> {
        loop {
            match make() {
                Ok(manifest) => return Ok(manifest),
                Err(error) => attempt(error)?,
            }
        }
    };
    let mut manifest = made(attempt)?;
    acknowledged.push(shape(manifest.state()));
    for index in 1..=EDITS {
        if index % 5 == 0 {
            if index % 10 == 0 {
                while let Err(error) = manifest.end() {
                    attempt(error)?;
                }
            }
            manifest = made(attempt)?;
        }
        step(&**fs, &mut manifest, index, attempt)?;
        acknowledged.push(shape(manifest.state()));
    }
    Ok(())
}

/// The shapes of all states of the history, and the number of its operations.
fn undisturbed() -> (Vec<Shape>, u64) {
    let fs = FaultFs::new(Arc::new(disk()));
    let mut shapes = Vec::new();
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    history(&shared, &mut shapes, &mut Err).unwrap();
    assert_eq!(shapes.len(), EDITS + 1);
    (shapes, fs.operations())
}

/// The history on a disk that fails as planned: what was acknowledged, how it ended, and the file
/// system.
fn disturbed(
    disk: &MemFs,
    plan: FaultPlan,
    attempt: &mut dyn FnMut(Error) -> Result<()>,
) -> (Vec<Shape>, Result<()>, FaultFs) {
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.arm(plan);
    let mut acknowledged = Vec::new();
    let shared: Arc<dyn Fs> = Arc::new(fs.clone());
    let ended = history(&shared, &mut acknowledged, attempt);
    (acknowledged, ended, fs)
}

/// A disk that a crash could leave, and how it was drawn.
struct Image {
    how: String,
    seed: u64,
    disk: MemFs,
}

/// Some of the disks that a power loss could leave. `salt` makes other ones of equal seeds.
fn images(disk: &MemFs, seed_count: u64, salt: u64) -> Vec<Image> {
    let image = |how: &str, seed: u64, policy| Image {
        how: how.to_owned(),
        seed: seed ^ salt << 32,
        disk: disk.crash_image(seed ^ salt << 32, policy),
    };
    let mut images = vec![
        image("nothing unsynced", 0, CrashPolicy::DropAll),
        image("everything", 0, CrashPolicy::KeepAll),
    ];
    for seed in seeds_or(1..=seed_count) {
        for policy in [CrashPolicy::Ordered, CrashPolicy::Reordered] {
            images.push(image(&format!("{policy:?} SEED={seed}"), seed, policy));
        }
    }
    images
}

/// Opens what a crash left. Returns the state's index in the history, `None` if there is no store.
#[track_caller]
fn check_image(image: &MemFs, shapes: &[Shape], acknowledged: usize, what: &str) -> Option<usize> {
    if !Manifest::exists(image, dir()).unwrap_or_else(|error| panic!("{what}: {error}")) {
        assert_eq!(acknowledged, 0, "{what}: the store is gone");
        create(image.clone());
        return None;
    }
    let (_, state) = open(image.clone()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = shape(&state);
    let index = shapes.iter().position(|shape| *shape == found);
    let index = index.unwrap_or_else(|| panic!("{what}: a state that never was: {state:?}"));
    let allowed = acknowledged.saturating_sub(1)..=acknowledged;
    assert!(allowed.contains(&index), "{what}: state {index}, not one of {allowed:?}");
    for file in state.version.files(0) {
        let bytes = image.read(&dir().join(table_name(file.number)));
        let bytes = bytes.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(bytes, file.first(), "{what}: table {}", file.number);
        assert!(file.number < state.next_file);
    }
    Some(index)
}

/// Goes on with the store after a crash, as every opening does, and crashes once more on the way.
fn crash_again(image: &MemFs, shapes: &[Shape], index: usize, what: &str, seed: u64) {
    let mut draw = Draw::new(seed);
    let recover = |fs: &FaultFs| -> Result<()> {
        let (mut manifest, _) = open(fs.clone())?;
        manifest.log(&VersionEdit::default())?;
        remove_obsolete(fs, &manifest)
    };
    let whole = FaultFs::new(Arc::new(image.crash_image(0, CrashPolicy::KeepAll)));
    recover(&whole).unwrap_or_else(|error| panic!("{what}: {error}"));
    let fs = FaultFs::new(Arc::new(image.clone()));
    fs.arm(FaultPlan::from_then_on(1 + draw.below(whole.operations()), Fault::PowerOut));
    assert!(recover(&fs).is_err(), "{what}");
    let seed = draw.next();
    let policy = [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered];
    let policy = policy[draw.below(3)];
    let what = format!("{what}, then {policy:?} SEED={seed}");
    let second = image.crash_image(seed, policy);
    // No edit was under way, so there is one state that it can be.
    let found = check_image(&second, shapes, index, &what);
    assert_eq!(found, Some(index), "{what}");
}

#[test]
fn the_power_goes_at_every_operation() {
    let (shapes, operations) = undisturbed();
    assert!(operations > 150, "{operations}");
    let mut found = [0; 2];
    for at in 1..=operations {
        let disk = disk();
        let plan = FaultPlan::from_then_on(at, Fault::PowerOut);
        let (acknowledged, ended, _) = disturbed(&disk, plan, &mut Err);
        assert!(ended.is_err());
        assert_eq!(acknowledged, shapes[..acknowledged.len()]);
        for Image { how, seed, disk } in images(&disk, 8, at) {
            let what = format!("operation {at}, {how}");
            if let Some(index) = check_image(&disk, &shapes, acknowledged.len(), &what) {
                found[usize::from(index == acknowledged.len())] += 1;
                crash_again(&disk, &shapes, index, &what, seed);
            }
        }
    }
    assert!(found[0] > 100 && found[1] > 10, "both outcomes were met: {found:?}");
}

#[test]
fn the_process_dies_at_every_operation() {
    let (shapes, operations) = undisturbed();
    for at in 1..=operations {
        let disk = disk();
        let plan = FaultPlan::from_then_on(at, Fault::PowerOut);
        let (acknowledged, ended, _) = disturbed(&disk, plan, &mut Err);
        assert!(ended.is_err());
        // The next process reads what is only in the page cache, goes on, and loses power at once:
        // what it saw must not vanish under what it did.
        let restarted = disk.process_crash_image();
        let what = format!("operation {at}");
        let Some(index) = check_image(&restarted, &shapes, acknowledged.len(), &what) else {
            continue;
        };
        let (mut manifest, _) = open(restarted.clone()).unwrap();
        manifest.log(&VersionEdit::default()).unwrap();
        remove_obsolete(&restarted, &manifest).unwrap();
        for Image { how, disk: image, .. } in images(&restarted, 2, at) {
            let what = format!("operation {at}, {how}");
            assert_eq!(check_image(&image, &shapes, index, &what), Some(index), "{what}");
        }
    }
}

/// Syncs fail one by one, and leave of the unsynced bytes what `failed_sync` says.
fn failed_syncs(failed_sync: FailedSync) {
    let (shapes, operations) = undisturbed();
    let mut finals = 0;
    for at in 1..=operations {
        let disk = disk();
        disk.set_failed_sync(failed_sync);
        let plan = FaultPlan::once(at, Fault::Io).only(&[Operation::Sync, Operation::SyncDir]);
        let (acknowledged, ended, fs) = disturbed(&disk, plan, &mut Err);
        if fs.injected() == 0 {
            break;
        }
        finals += usize::from(matches!(ended, Err(Error::Poisoned(_))));
        // The next process may read the edit from the page cache, where no later sync finds it.
        let restarted = disk.process_crash_image();
        let what = format!("{failed_sync:?}, sync {at}");
        let Some(index) = check_image(&restarted, &shapes, acknowledged.len(), &what) else {
            continue;
        };
        let (mut manifest, _) = open(restarted.clone()).unwrap();
        manifest.log(&VersionEdit::default()).unwrap();
        for Image { how, disk: image, .. } in images(&restarted, 2, at) {
            let what = format!("{what}, {how}");
            let (_, state) = open(image).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(shape(&state), shapes[index], "{what}");
        }
    }
    assert!(finals > 20, "{finals} edits met a failed sync");
}

#[test]
fn what_a_failed_sync_left_readable_is_not_believed() {
    failed_syncs(FailedSync::Cached);
}

#[test]
fn what_a_failed_sync_wrote_in_part_is_whole_or_torn() {
    for seed in seeds_or(1..=2) {
        failed_syncs(FailedSync::Partly { seed });
    }
}

#[test]
fn every_operation_fails_once() {
    let (shapes, operations) = undisturbed();
    for fault in [Fault::Io, Fault::NoSpace, Fault::TooManyFiles, Fault::Short, Fault::Interrupted]
    {
        let mut finals = 0;
        for at in 1..=operations {
            let disk = disk();
            let what = format!("operation {at}, {fault:?}");
            let mut failures = 0;
            let mut attempt = |error| {
                failures += 1;
                match error {
                    Error::Io(_) if failures == 1 => Ok(()),
                    error => Err(error),
                }
            };
            let (acknowledged, done, fs) =
                disturbed(&disk, FaultPlan::once(at, fault), &mut attempt);
            assert_eq!(fs.injected(), 1, "{what}");
            if matches!(fault, Fault::Short | Fault::Interrupted) {
                assert!(done.is_ok() && failures == 0, "{what}: {done:?}");
            }
            match done {
                Ok(()) => assert_eq!(acknowledged, shapes, "{what}"),
                Err(Error::Poisoned(_)) => finals += 1,
                Err(error) => panic!("{what}: {error}"),
            }
            for Image { how, disk: image, .. } in images(&disk, 2, at) {
                check_image(&image, &shapes, acknowledged.len(), &format!("{what}, {how}"));
            }
        }
        let can_be_final = !matches!(fault, Fault::Short | Fault::Interrupted);
        assert_eq!(finals > 0, can_be_final, "{fault:?}: {finals} failed syncs");
    }
}

#[test]
fn every_operation_fails_from_some_point_on() {
    let (shapes, operations) = undisturbed();
    for at in 1..=operations {
        let disk = disk();
        let mut patience = 5;
        let mut attempt = |error| {
            patience -= 1;
            if patience > 0 { Ok(()) } else { Err(error) }
        };
        let plan = FaultPlan::from_then_on(at, Fault::Io);
        let (acknowledged, ended, _) = disturbed(&disk, plan, &mut attempt);
        assert!(ended.is_err());
        for Image { how, disk: image, .. } in images(&disk, 2, at) {
            let what = format!("from operation {at} on, {how}");
            check_image(&image, &shapes, acknowledged.len(), &what);
        }
    }
}
