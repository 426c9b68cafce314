//! Every operation of the file system fails once, and from then on: nothing that was acknowledged
//! is lost, nothing panics, nothing hangs, and what opens afterwards is whole.

use crate::support::{content, get, open, open_with, stat, tiny, with_logs};
use keyrack_rowstore::{Options, RowSession, RowStore, Rows};
use keyrack_store::{Durability, Error, Result};
use keyrack_vfs::{CrashPolicy, FailedSync, Fault, FaultFs, FaultPlan, MemFs, Operation};
use std::sync::Arc;

const KEYS: usize = 10;
const STEPS: u32 = 175;

/// For each key the last value that was acknowledged, and the last one that was tried. Values only
/// grow.
#[derive(Debug, Default)]
struct Told {
    durable: [u32; KEYS],
    tried: [u32; KEYS],
}

impl Told {
    fn check(&self, store: &RowStore, what: &dyn Fn() -> String) {
        let mut session = store.session().unwrap();
        for key in 0..KEYS {
            let found = get(&mut *session, &[key as u8]);
            let found = found.map_or(0, |value| u32::from_le_bytes(value[..4].try_into().unwrap()));
            let may = self.durable[key]..=self.tried[key];
            assert!(may.contains(&found), "{}: key {key} has {found}, not {may:?}", what());
        }
    }
}

fn write(session: &mut dyn RowSession, store: &RowStore, told: &mut Told, n: u32) -> Result<()> {
    let key = n as usize % KEYS;
    let mut value = n.to_le_bytes().to_vec();
    value.resize(4 + (n as usize * 37) % 900, 7);
    told.tried[key] = n;
    session.put(&[key as u8], &value, 0, 0)?;
    let position = session.flush()?;
    store.sync(position)?;
    // What was written before lies below, in the same log.
    told.durable = told.tried;
    Ok(())
}

/// Opens, writes, writes checkpoints, closes. Whatever fails, it goes on as a program would.
fn workload(fs: &FaultFs, told: &mut Told, options: Options) -> Vec<Error> {
    let mut errors = Vec::new();
    let store = match open_with(Arc::new(fs.clone()), options) {
        Ok(store) => store,
        Err(error) => return vec![error],
    };
    let mut session = store.session().unwrap();
    for n in 1..=STEPS {
        errors.extend(write(&mut *session, &store, told, n).err());
        if n % 35 == 0 {
            errors.extend(session.flush().err());
            errors.extend(store.checkpoint().err());
        }
    }
    drop(session);
    errors.extend(Box::new(store).close().err());
    errors
}

fn options() -> Options {
    Options { durability: Durability::Sync, ..tiny() }.with_segment_bytes(16 << 10)
}

/// Runs the workload with each operation failing, and looks at what is left. Returns the errors.
fn sweep(fault: Fault, persists: bool, behaviour: FailedSync) -> usize {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    assert!(workload(&fs, &mut Told::default(), options()).is_empty());
    let operations = fs.operations();
    assert!(operations >= 300, "{operations}");
    let mut errors = 0;
    for at in 1..=operations {
        let disk = MemFs::new();
        disk.set_failed_sync(behaviour);
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let plan = if persists { FaultPlan::from_then_on } else { FaultPlan::once };
        fs.arm(plan(at, fault));
        let mut told = Told::default();
        errors += workload(&fs, &mut told, options()).len();
        fs.disarm();
        let policies = [CrashPolicy::DropAll, CrashPolicy::Reordered, CrashPolicy::KeepAll];
        let policy = policies[at as usize % policies.len()];
        let what = || format!("{fault:?} at {at} ({persists}), then {policy:?}");
        let image = disk.crash_image(at, policy);
        let store = open_with(Arc::new(image), options());
        let store = store.unwrap_or_else(|error| panic!("{}: {error}", what()));
        told.check(&store, &what);
    }
    errors
}

#[test]
fn an_error_at_every_operation_loses_nothing_that_was_acknowledged() {
    for behaviour in [FailedSync::Dropped, FailedSync::Cached, FailedSync::Partly { seed: 3 }] {
        for persists in [false, true] {
            assert!(sweep(Fault::Io, persists, behaviour) > 100);
        }
    }
}

#[test]
fn a_full_disk_and_too_many_files_at_every_operation_lose_nothing() {
    for fault in [Fault::NoSpace, Fault::TooManyFiles] {
        for persists in [false, true] {
            assert!(sweep(fault, persists, FailedSync::Dropped) > 100);
        }
    }
}

#[test]
fn interruptions_and_short_transfers_are_nobodys_business() {
    for fault in [Fault::Interrupted, Fault::Short] {
        assert_eq!(sweep(fault, false, FailedSync::Dropped), 0);
    }
}

#[test]
fn after_a_failed_sync_the_store_only_reads() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let store = open_with(Arc::new(fs.clone()), options()).unwrap();
    let mut session = store.session().unwrap();
    session.put(b"before", b"1", 0, 0).unwrap();
    let position = session.flush().unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Flush, Operation::Sync]));
    assert!(matches!(store.sync(position), Err(Error::Poisoned { .. })));
    assert!(!session.is_durable(position));
    fs.disarm();
    // The next sync would succeed and prove nothing.
    assert!(matches!(store.sync(position), Err(Error::Poisoned { .. })));
    let refused = session.put(b"after", b"2", 0, 0);
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    assert!(matches!(session.remove(b"before"), Err(Error::Poisoned { .. })));
    assert!(matches!(store.checkpoint(), Err(Error::Poisoned { .. })));
    assert_eq!(get(&mut *session, b"before").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&mut *session, b"after"), None);
    assert_eq!(stat(&store, "poisoned"), 1.0);
    drop(session);
    assert!(Box::new(store).close().is_err());
}

#[test]
fn a_full_disk_refuses_and_with_space_again_everything_goes_on() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    disk.set_capacity(300 << 10);
    let mut written = 0_u32;
    let error = loop {
        session.put(&written.to_be_bytes(), &[1; 1000], 0, 0).unwrap();
        match session.flush() {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 1000);
    };
    assert!(error.is_no_space(), "{error}");
    // It can be read, it is not logged, and what comes on top is refused before it is done.
    assert!(get(&mut *session, &written.to_be_bytes()).is_some());
    let refused = (0..100).find_map(|n| session.put(&[n; 9], &[1; 1000], 0, 0).err());
    assert!(refused.expect("a limit on what is not logged").is_no_space());
    let checkpoint = std::thread::scope(|scope| scope.spawn(|| store.checkpoint()).join().unwrap());
    assert!(checkpoint.is_err(), "there is no room for one either");

    disk.set_capacity(64 << 20);
    session.flush().unwrap();
    session.put(b"more", b"", 0, 0).unwrap();
    session.flush().unwrap();
    assert!(store.checkpoint().unwrap());
    let expected = content(&store);
    drop(session);
    let image = disk.process_crash_image();
    drop(store);
    assert!(content(&open(&image, tiny())) == expected);
}

/// What a session that ended could not log is logged later.
#[test]
fn writes_of_a_session_that_ended_on_a_full_disk_are_not_forgotten() {
    let disk = MemFs::new();
    let store = open(&disk, with_logs(2));
    disk.set_capacity(0);
    let mut session = store.session().unwrap();
    let error = loop {
        session.begin_group().unwrap();
        for n in 0..40_u8 {
            session.put(&[n], &[n; 1000], 0, 0).unwrap();
        }
        if let Err(error) = session.flush() {
            break error;
        }
    };
    assert!(error.is_no_space(), "{error}");
    drop(session);
    assert!(store.checkpoint().is_err());
    disk.set_capacity(64 << 20);
    assert!(store.checkpoint().unwrap());
    let image = disk.crash_image(1, CrashPolicy::DropAll);
    assert!(content(&open(&image, tiny())) == content(&store));
    assert_eq!(store.len(), 40);
}
