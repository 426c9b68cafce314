//! Injected faults: at every operation, of every kind, once and for good.

use std::sync::Arc;

use keyrack_vfs::{
    CrashPolicy, Error, FailedSync, Fault, FaultFs, FaultPlan, File, Fs, INTERRUPTS_MAX, Lie,
    MemFs, OpenOptions, Operation,
};

use crate::at;

fn pair() -> (MemFs, FaultFs) {
    let disk = MemFs::new();
    let faulty = FaultFs::new(Arc::new(disk.clone()));
    (disk, faulty)
}

fn open(fs: &dyn Fs, path: &str) -> Arc<dyn File> {
    fs.open(at(path), &OpenOptions::new().read(true).write(true).create(true)).unwrap()
}

/// A small program that uses most of the interface. Its result is durable when it returns `Ok`.
fn workload(fs: &dyn Fs) -> Result<(), Error> {
    fs.create_dir_all(at("/db"))?;
    fs.sync_dir(at("/"))?;
    let _lock = fs.lock(at("/db/LOCK"))?;
    let options = OpenOptions::new().read(true).write(true).create(true);
    let log = fs.open(at("/db/log"), &options)?;
    log.allocate(0, 8_192)?;
    let mapping = log.map(0, 8_192)?;
    for round in 0..3_u8 {
        mapping.write(u64::from(round) * 700, &[round + 1; 700])?;
        mapping.flush(u64::from(round) * 700, 700)?;
    }
    drop(mapping);
    log.set_len(2_100)?;
    log.append(b"tail")?;
    log.sync_data()?;
    let mut all = vec![0; 2_104];
    log.read_exact_at(0, &mut all)?;
    assert_eq!(&all[2_100..], b"tail", "a read that succeeds is right");
    fs.hard_link(at("/db/log"), at("/db/log.1"))?;
    fs.sync_dir(at("/db"))?;
    fs.write_atomic(at("/db/CURRENT"), b"log")?;
    fs.remove_file(at("/db/log.1"))?;
    fs.sync_dir(at("/db"))?;
    Ok(())
}

fn is_complete(fs: &dyn Fs) -> bool {
    let names = fs.list(at("/db")).unwrap_or_default();
    let names: Vec<_> = names.iter().map(|entry| entry.name.to_str().unwrap()).collect();
    names == ["CURRENT", "LOCK", "log"] && fs.read(at("/db/log")).unwrap().len() == 2_104
}

#[test]
fn operations_are_counted_by_kind() {
    let (_, fs) = pair();
    workload(&fs).unwrap();
    assert_eq!(fs.operations_of(Operation::Flush), 3);
    assert_eq!(fs.operations_of(Operation::Rename), 1);
    assert_eq!(fs.operations_of(Operation::Sync), 2);
    assert_eq!(fs.operations_of(Operation::SyncDir), 4);
    let total = fs.operations();
    fs.reset();
    assert_eq!(fs.operations(), 0);
    assert_eq!(fs.injected(), 0);
    let (_, again) = pair();
    workload(&again).unwrap();
    assert_eq!(again.operations(), total, "equal runs count equally");
}

#[test]
fn a_fault_at_any_operation_is_reported_or_absorbed_and_never_a_lie() {
    let (_, counting) = pair();
    workload(&counting).unwrap();
    let count = counting.operations();
    assert!(count > 20, "{count}");
    let faults = [
        Fault::Io,
        Fault::NoSpace,
        Fault::TooManyFiles,
        Fault::Interrupted,
        Fault::Short,
        Fault::PowerOut,
        Fault::Errno(13),
    ];
    for fault in faults {
        for at in 1..=count {
            for plan in [FaultPlan::once(at, fault), FaultPlan::from_then_on(at, fault)] {
                let (disk, fs) = pair();
                fs.arm(plan.clone());
                let result = workload(&fs);
                assert!(fs.injected() > 0, "{plan:?} never struck");
                if result.is_ok() {
                    assert!(is_complete(&disk), "{plan:?}");
                    assert!(is_complete(&disk.crash_image(at, CrashPolicy::DropAll)), "{plan:?}");
                }
                if plan == FaultPlan::once(at, Fault::Short) {
                    result.unwrap_or_else(|error| panic!("{plan:?}: {error}"));
                }
                if plan == FaultPlan::once(at, Fault::Interrupted) {
                    assert!(is_complete(&disk), "{plan:?}");
                }
            }
        }
    }
}

#[test]
fn atomic_writes_leave_old_or_new_wherever_the_power_goes_out() {
    let mut seen = [false; 2];
    for n in 1.. {
        let (disk, fs) = pair();
        disk.write_atomic(at("/CURRENT"), b"the old content").unwrap();
        fs.arm(FaultPlan::from_then_on(n, Fault::PowerOut));
        let result = fs.write_atomic(at("/CURRENT"), b"new");
        for policy in [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered] {
            for seed in 0..50 {
                let image = disk.crash_image(seed, policy);
                let found = image.read(at("/CURRENT")).unwrap();
                let is_new = found == b"new";
                assert!(is_new || found == b"the old content", "n={n} SEED={seed} {found:?}");
                assert!(is_new || result.is_err(), "n={n} SEED={seed}: ok, yet the old content");
                seen[usize::from(is_new)] = true;
            }
        }
        if fs.injected() == 0 {
            result.unwrap();
            break;
        }
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn a_failed_sync_drops_its_bytes_and_the_next_one_does_not_bring_them_back() {
    let (disk, fs) = pair();
    let file = open(&fs, "/f");
    fs.sync_dir(at("/")).unwrap();
    file.write_at(0, b"old").unwrap();
    file.sync_data().unwrap();
    file.write_at(0, b"new").unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Sync]));
    file.sync_data().unwrap_err();
    file.sync_data().expect("the retry succeeds, which is the trap");
    assert_eq!(disk.read(at("/f")).unwrap(), b"old");
    let image = disk.crash_image(0, CrashPolicy::KeepAll);
    assert_eq!(image.read(at("/f")).unwrap(), b"old");
    file.write_at(0, b"new").unwrap();
    file.sync_data().unwrap();
    let image = disk.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(image.read(at("/f")).unwrap(), b"new", "bytes written again are written");
}

#[test]
fn a_failed_sync_may_leave_bytes_readable_until_the_power_goes_out() {
    let (disk, fs) = pair();
    disk.set_failed_sync(FailedSync::Cached);
    let file = open(&fs, "/f");
    fs.sync_dir(at("/")).unwrap();
    file.write_at(0, &[b'a'; 1_536]).unwrap();
    file.sync_data().unwrap();
    file.write_at(0, &[b'b'; 1_536]).unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Sync]));
    file.sync_data().unwrap_err();
    // Only the sectors that are written again reach the disk.
    for (offset, byte) in [(512, b'c'), (1_024, b'd')] {
        file.write_at(offset, &[byte; 512]).unwrap();
        file.sync_data().unwrap();
    }
    let sectors = |bytes: [u8; 3]| bytes.map(|byte| [byte; 512]).concat();
    assert_eq!(disk.read(at("/f")).unwrap(), sectors(*b"bcd"));
    for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
        let image = disk.crash_image(5, policy);
        assert_eq!(image.read(at("/f")).unwrap(), sectors(*b"acd"));
    }
}

/// Four sectors are synced as `a`, written as `b` and again as `c`; then the sync fails half-way.
#[test]
fn a_failed_sync_may_have_written_any_part_of_its_bytes() {
    let sectors_of = |bytes: &[u8]| -> String {
        let sectors = bytes.chunks(512);
        sectors
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "torn inside a sector");
                char::from(sector[0])
            })
            .collect()
    };
    let failed = |seed| {
        let (disk, fs) = pair();
        disk.set_failed_sync(FailedSync::Partly { seed });
        let file = open(&fs, "/f");
        fs.sync_dir(at("/")).unwrap();
        for byte in *b"abc" {
            file.write_at(0, &[byte; 2_048]).unwrap();
            if byte == b'a' {
                file.sync_data().unwrap();
            }
        }
        fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Sync]));
        file.sync_data().unwrap_err();
        file.sync_data().expect("the retry succeeds, which is the trap");
        let read = sectors_of(&disk.read(at("/f")).unwrap());
        let images = [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered]
            .map(|policy| sectors_of(&disk.crash_image(seed, policy).read(at("/f")).unwrap()));
        assert!(images.iter().all(|image| *image == images[0]), "SEED={seed}: all is clean");
        // Bytes written again are written.
        file.write_at(0, &[b'd'; 2_048]).unwrap();
        file.sync_data().unwrap();
        let again = disk.crash_image(seed, CrashPolicy::DropAll).read(at("/f")).unwrap();
        assert_eq!(sectors_of(&again), "dddd", "SEED={seed}");
        (read, images[0].clone())
    };
    let (mut dropped, mut cached, mut disks) = (0, 0, std::collections::BTreeSet::new());
    for seed in 0..300 {
        let (read, on_disk) = failed(seed);
        assert_eq!((read.clone(), on_disk.clone()), failed(seed), "SEED={seed} twice");
        match read.as_str() {
            _ if read == on_disk => dropped += 1,
            "cccc" => cached += 1,
            _ => panic!("SEED={seed}: reads {read}, the disk holds {on_disk}"),
        }
        disks.insert(on_disk);
    }
    assert!(dropped > 50 && cached > 50, "{dropped} {cached}");
    assert!(disks.len() > 60, "of 81 combinations: {disks:?}");
}

/// Two failures of one history do not draw the same sectors.
#[test]
fn each_failed_sync_draws_anew() {
    let (disk, fs) = pair();
    disk.set_failed_sync(FailedSync::Partly { seed: 7 });
    let file = open(&fs, "/f");
    fs.sync_dir(at("/")).unwrap();
    let mut found = Vec::new();
    for _ in 0..8 {
        file.write_at(0, &[b'a'; 16 * 512]).unwrap();
        file.sync_data().unwrap();
        file.write_at(0, &[b'b'; 16 * 512]).unwrap();
        fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Sync]));
        file.sync_data().unwrap_err();
        found.push(disk.crash_image(0, CrashPolicy::DropAll).read(at("/f")).unwrap());
    }
    found.sort();
    found.dedup();
    assert!(found.len() > 4, "{} of 8", found.len());
}

#[test]
fn a_failed_sync_of_new_bytes_leaves_the_length_and_zeros() {
    let (disk, fs) = pair();
    let file = open(&fs, "/f");
    file.write_at(0, b"bytes").unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Sync]));
    file.sync_all().unwrap_err();
    assert_eq!(disk.read(at("/f")).unwrap(), [0; 5]);
}

#[test]
fn a_failed_flush_drops_the_pages_of_its_range_alone() {
    let (disk, fs) = pair();
    let file = open(&fs, "/f");
    file.allocate(0, 4 * 4_096).unwrap();
    let mapping = file.map(4_096, 3 * 4_096).unwrap();
    mapping.write(0, b"one").unwrap();
    mapping.write(2 * 4_096, b"two").unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io));
    let error = mapping.flush(0, 10).unwrap_err();
    assert_eq!(error.operation(), Operation::Flush);
    let mut bytes = [1; 3];
    mapping.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 3]);
    mapping.read(2 * 4_096, &mut bytes).unwrap();
    assert_eq!(&bytes, b"two");
    mapping.flush(0, mapping.len()).unwrap();
    disk.sync_dir(at("/")).unwrap();
    let image = disk.crash_image(0, CrashPolicy::DropAll);
    let all = image.read(at("/f")).unwrap();
    assert_eq!((&all[4_096..4_099], &all[3 * 4_096..3 * 4_096 + 3]), (&[0; 3][..], &b"two"[..]));
}

#[test]
fn short_transfers_are_absorbed_down_to_the_last_byte() {
    let (disk, fs) = pair();
    let file = open(&fs, "/f");
    let bytes: Vec<u8> = (0..1_000_u32).map(|n| (n % 250) as u8).collect();
    fs.arm(FaultPlan::from_then_on(1, Fault::Short));
    file.write_at(0, &bytes).unwrap();
    assert_eq!(file.append(b"end").unwrap(), 1_000);
    let mut back = vec![0; 1_000];
    file.read_exact_at(0, &mut back).unwrap();
    assert_eq!(back, bytes);
    assert_eq!(disk.read(at("/f")).unwrap().len(), 1_003);
    assert!(fs.operations_of(Operation::Write) >= 10, "each write was cut in halves");
    assert!(fs.operations_of(Operation::Read) >= 10, "each read was cut in halves");
}

#[test]
fn interruptions_are_absorbed_but_not_for_ever() {
    let (disk, fs) = pair();
    let file = open(&fs, "/f");
    for n in 1..=4 {
        fs.arm(FaultPlan::once(n, Fault::Interrupted));
        file.write_at(0, b"abc").unwrap();
        file.read_exact_at(0, &mut [0; 3]).unwrap();
        assert_eq!(disk.read(at("/f")).unwrap(), b"abc");
        assert_eq!(fs.injected(), u64::from(n <= 2));
    }
    fs.arm(FaultPlan::from_then_on(1, Fault::Interrupted));
    assert!(file.write_at(0, b"x").unwrap_err().is_interrupted());
    assert!(file.read_at(0, &mut [0; 1]).unwrap_err().is_interrupted());
    assert_eq!(fs.injected(), 2 * (u64::from(INTERRUPTS_MAX) + 1));
    // Whatever is retried below this layer succeeds.
    file.sync_data().unwrap();
    fs.sync_dir(at("/")).unwrap();
}

#[test]
fn errors_look_like_the_system_s_own() {
    let (_, fs) = pair();
    let file = open(&fs, "/f");
    fs.arm(FaultPlan::from_then_on(1, Fault::NoSpace).only(&[Operation::Write]));
    let error = file.write_at(0, b"x").unwrap_err();
    assert!(error.is_no_space());
    assert_eq!(error.to_string(), "cannot write '/f': No space left on device");
    file.sync_data().expect("other kinds pass");
    fs.disarm();
    file.write_at(0, b"x").expect("there is space again");
    fs.arm(FaultPlan::once(1, Fault::TooManyFiles).only(&[Operation::Open]));
    let error = fs.open(at("/f"), &OpenOptions::new().read(true)).unwrap_err();
    assert!(error.is_too_many_files());
    fs.open(at("/f"), &OpenOptions::new().read(true)).unwrap();
}

#[test]
fn power_out_freezes_the_disk_for_all_kinds_and_for_mappings() {
    let (disk, fs) = pair();
    let file = open(&fs, "/f");
    file.allocate(0, 100).unwrap();
    let mapping = file.map(0, 100).unwrap();
    mapping.write(0, b"before").unwrap();
    fs.arm(FaultPlan::from_then_on(1, Fault::PowerOut).only(&[Operation::Flush]));
    mapping.flush(0, 6).unwrap_err();
    mapping.write(0, b"after!").unwrap();
    file.write_at(0, b"after!").unwrap_err();
    fs.remove_file(at("/f")).unwrap_err();
    let bytes = disk.read(at("/f")).unwrap();
    assert_eq!(&bytes[..6], b"before", "neither lost by the flush nor overwritten");
}

/// The watcher is told before anything has happened, and may look at the disk below.
#[test]
fn a_sync_of_a_file_that_lies_succeeds_and_the_power_loss_tells() {
    for (kind, lie, at_once, later) in [
        (Operation::Sync, Lie::Omitted, &b""[..], &b""[..]),
        (Operation::Sync, Lie::Late, b"", b"bytes"),
        (Operation::Sync, Lie::Retried, &[0; 5], &[0; 5]),
        (Operation::Flush, Lie::Omitted, &[0; 5], &[0; 5]),
        (Operation::Flush, Lie::Late, &[0; 5], b"bytes"),
        (Operation::Flush, Lie::Retried, &[0; 5], &[0; 5]),
    ] {
        let (disk, fs) = pair();
        let file = open(&fs, "/log");
        if kind == Operation::Flush {
            file.set_len(5).unwrap();
            file.sync_all().unwrap();
        }
        fs.sync_dir(at("/")).unwrap();
        fs.arm(FaultPlan::once(1, Fault::Lie(lie)).only(&[kind]));
        if kind == Operation::Flush {
            let mapping = file.map(0, 5).unwrap();
            mapping.write(0, b"bytes").unwrap();
            mapping.flush(0, 5).unwrap();
        } else {
            file.append(b"bytes").unwrap();
            file.sync_data().unwrap();
        }
        assert_eq!(fs.injected(), 1);
        let left = || disk.crash_image(1, CrashPolicy::DropAll).read(at("/log")).unwrap();
        assert_eq!(left(), at_once, "{kind} {lie:?}");
        fs.metadata(at("/log")).unwrap();
        assert_eq!(left(), later, "{kind} {lie:?}");
        if lie == Lie::Omitted && kind == Operation::Sync {
            file.sync_data().unwrap();
            assert_eq!(left(), b"bytes", "the next one does not lie");
        }
    }
}

#[test]
fn a_sync_of_a_directory_that_lies_leaves_its_names_out() {
    for (lie, at_once, later) in
        [(Lie::Omitted, false, false), (Lie::Late, false, true), (Lie::Retried, true, true)]
    {
        let (disk, fs) = pair();
        fs.arm(FaultPlan::from_then_on(1, Fault::Lie(lie)).only(&[Operation::SyncDir]));
        open(&fs, "/new").sync_all().unwrap();
        fs.sync_dir(at("/")).unwrap();
        let is_left = || disk.crash_image(1, CrashPolicy::DropAll).exists(at("/new")).unwrap();
        assert_eq!(is_left(), at_once, "{lie:?}");
        fs.metadata(at("/new")).unwrap();
        assert_eq!(is_left(), later, "{lie:?}");
    }
}

#[test]
fn a_watcher_is_told_of_every_operation_before_it_happens() {
    use std::sync::Mutex;
    let (disk, fs) = pair();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (below, notes) = (disk.clone(), Arc::clone(&told));
    fs.watch(move |operation, path| {
        let len = below.metadata(at("/f")).map_or(0, |found| found.len);
        notes.lock().unwrap().push((operation, path.to_owned(), len));
    });
    let file = open(&fs, "/f");
    file.write_at(0, b"four").unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io));
    file.sync_data().unwrap_err();
    fs.rename(at("/f"), at("/g")).unwrap();
    let told = told.lock().unwrap();
    let of = |operation, len| (operation, at("/f").to_owned(), len);
    assert_eq!(
        *told,
        [
            of(Operation::Open, 0),
            of(Operation::Write, 0),
            of(Operation::Sync, 4),
            of(Operation::Rename, 4)
        ]
    );
    assert_eq!(fs.operations(), told.len() as u64);
}
