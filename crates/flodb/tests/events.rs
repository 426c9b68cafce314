//! What a listener is told, in which order, and what it may do meanwhile.

use crate::support::{DIR, idle, open, stat, tiny, try_open};
use keyrack_flodb::{
    CompactionFilter, CompactionReason, Comparator, Db, Decision, Error, Event, EventField,
    IngestOptions, Options, Spaces, SstWriter, Stall, StallCause,
};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, MemFs, Operation};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

const PAGE: &str = include_str!("../../../docs/engines/flodb.md");

/// Options with a listener that sends what it hears.
fn heard(options: Options) -> (Options, mpsc::Receiver<Event>) {
    let (told, hears) = mpsc::channel();
    let told = Mutex::new(told);
    // Without a test that looks, nobody needs it.
    let listener = move |event: &Event| drop(told.lock().unwrap().send(event.clone()));
    (options.listener(listener), hears)
}

/// The first event that `choose` chooses. Waits for it.
fn wait_for<T>(hears: &mpsc::Receiver<Event>, choose: impl Fn(Event) -> Option<T>) -> T {
    hears.iter().find_map(choose).expect("the store told of it before it was closed")
}

fn stalls(event: &Event) -> Option<Stall> {
    if let Event::WriteStall { stall, .. } = event { Some(*stall) } else { None }
}

fn fill(db: &Db, count: u32) {
    for n in 0..count {
        db.put(&n.to_be_bytes(), &[n as u8; 2_000]).unwrap();
    }
}

/// The numbers of tables that were written and not removed.
fn live_tables(events: &[Event]) -> BTreeSet<u64> {
    let mut live = BTreeSet::new();
    for event in events {
        match event {
            Event::FlushEnded { result: Ok(outputs), .. }
            | Event::CompactionEnded { result: Ok(outputs), .. } => live.extend(&outputs.tables),
            Event::FileRemoved { path, .. } => {
                let number = path.file_stem().unwrap().to_str().unwrap();
                live.remove(&number.parse().unwrap());
            }
            _ => {}
        }
    }
    live
}

#[test]
fn each_job_has_a_begin_and_an_end_that_agree_with_the_counters() {
    let disk = MemFs::new();
    let (options, hears) = heard(idle().blob_bytes_min(1_500));
    let db = open(&disk, options);
    for _ in 0..2 {
        fill(&db, 100);
        db.flush().unwrap();
    }
    db.compact_range(None, None).unwrap();
    let numbers = ["flushes", "flush_bytes", "compaction_bytes_written", "blob_bytes_written"];
    let numbers = numbers.map(|name| stat(&db, name));
    let compactions = stat(&db, "compactions");
    db.close().unwrap();

    let events: Vec<Event> = hears.iter().collect();
    let (mut open_jobs, mut begun) = (BTreeMap::new(), BTreeMap::new());
    let (mut flushes, mut flush_bytes, mut ends) = (0, 0, 0);
    let (mut compaction_bytes, mut blob_bytes) = (0, 0);
    for event in &events {
        match event {
            Event::FlushBegun { job, memtable_bytes, .. } => {
                assert!(*memtable_bytes > 0 && open_jobs.insert(*job, "flush").is_none());
            }
            Event::FlushEnded { job, result, .. } => {
                assert_eq!(open_jobs.remove(job), Some("flush"));
                let outputs = result.as_ref().unwrap();
                assert_eq!(outputs.tables.len(), 1);
                assert_eq!(outputs.blobs.is_empty(), outputs.blob_bytes == 0);
                flushes += 1;
                flush_bytes += outputs.table_bytes;
                blob_bytes += outputs.blob_bytes;
            }
            Event::CompactionBegun { job, reason, level, output_level, tables, .. } => {
                assert_eq!(*reason, CompactionReason::Caller);
                assert!(level <= output_level && !tables.is_empty());
                assert!(open_jobs.insert(*job, "compaction").is_none());
                begun.insert(*job, (*level, *output_level));
            }
            Event::CompactionEnded { job, level, output_level, result, .. } => {
                assert_eq!(open_jobs.remove(job), Some("compaction"));
                let outputs = result.as_ref().unwrap();
                assert_eq!(begun[job], (*level, *output_level));
                ends += 1;
                compaction_bytes += outputs.table_bytes;
                blob_bytes += outputs.blob_bytes;
            }
            _ => {}
        }
    }
    assert!(open_jobs.is_empty(), "{open_jobs:?}");
    assert!(flushes > 2 && ends > 0 && blob_bytes > 0, "{flushes} {ends} {blob_bytes}");
    assert_eq!([flushes, flush_bytes, compaction_bytes, blob_bytes], numbers);
    assert_eq!(ends, compactions);

    let number = |name: &str| Some(name.strip_suffix(".table")?.parse::<u64>().unwrap());
    let on_disk = crate::disk::files(&disk).into_keys();
    let on_disk = on_disk.filter_map(|path| number(path.file_name()?.to_str()?));
    let (on_disk, live) = (on_disk.collect::<BTreeSet<_>>(), live_tables(&events));
    assert!(!on_disk.is_empty() && on_disk.is_subset(&live), "{on_disk:?} {live:?}");
}

#[test]
fn a_move_is_a_compaction_that_writes_nothing() {
    let (options, hears) = heard(tiny());
    let db = open(&MemFs::new(), options);
    // Keys ascend, so tables of a level meet none of the level below.
    fill(&db, 1_500);
    db.flush().unwrap();
    let closed = db.clone();
    db.close().unwrap();
    let (mut inputs, mut moves) = (BTreeMap::new(), 0);
    for event in hears.try_iter() {
        match event {
            Event::CompactionBegun { job, tables, .. } => drop(inputs.insert(job, tables)),
            Event::CompactionEnded { job, result, .. } => {
                let outputs = result.unwrap();
                if !outputs.tables.is_empty() && outputs.table_bytes == 0 {
                    assert_eq!(outputs.tables, inputs[&job], "the table stays");
                    moves += 1;
                }
            }
            _ => {}
        }
    }
    assert!(moves > 0);
    assert_eq!(moves, stat(&closed, "trivial_moves"));
}

/// Blocks a compaction at its first value until it is told to go on.
struct Blocks(Mutex<mpsc::Receiver<()>>);

impl CompactionFilter for Blocks {
    fn name(&self) -> &str {
        "test.blocks"
    }

    fn filter(&self, _: usize, _: &[u8], _: &[u8]) -> Decision {
        // Without a sender it goes on.
        let _ = self.0.lock().unwrap().recv();
        Decision::Keep
    }
}

#[test]
fn a_stall_is_told_with_its_cause_and_its_end() {
    let (go, goes) = mpsc::channel();
    let options = Options { level0_tables: 2, level0_slow: 3, level0_stop: 3, ..tiny() };
    let (options, hears) = heard(options.compaction_filter(Blocks(Mutex::new(goes))));
    let db = open(&MemFs::new(), options);
    for n in 0..3 {
        db.put(b"key", &[n]).unwrap();
        db.flush().unwrap();
    }
    let told = wait_for(&hears, |event| stalls(&event));
    assert_eq!(told, Stall::Stop(StallCause::Level0));
    drop(go);
    let reason = |event| match event {
        Event::CompactionBegun { reason, .. } => Some(reason),
        _ => None,
    };
    assert_eq!(db.get(b"key").unwrap(), Some(vec![2]));
    assert_eq!(wait_for(&hears, |event| stalls(&event)), Stall::None);
    db.put(b"key", b"goes on").unwrap();
    for _ in 0..2 {
        db.put(b"key", b"again").unwrap();
        db.flush().unwrap();
    }
    assert_eq!(wait_for(&hears, reason), CompactionReason::Levels);
    db.close().unwrap();
}

#[test]
fn a_full_disk_is_raised_once_and_cleared() {
    let disk = MemFs::new();
    let (options, hears) = heard(idle());
    let db = open(&disk, options);
    db.put(b"key", b"value").unwrap();
    disk.set_capacity(0);
    assert!(db.flush().is_err() && db.flush().is_err());
    disk.set_capacity(1 << 30);
    db.resume().unwrap();
    db.put(b"key", b"again").unwrap();
    db.close().unwrap();
    let mut told = Vec::new();
    for event in hears.iter() {
        match event {
            Event::FlushEnded { result, .. } => {
                told.push(if result.is_ok() { "flushed" } else { "failed" });
            }
            Event::BackgroundErrorRaised { error, is_final, .. } => {
                assert!(matches!(error, Error::NoSpace(_)) && !is_final);
                told.push("raised");
            }
            Event::BackgroundErrorCleared { error, .. } => {
                assert!(matches!(error, Error::NoSpace(_)));
                told.push("cleared");
            }
            _ => {}
        }
    }
    // The background tries again by itself, so there may be more failures.
    told.dedup();
    told.retain(|what| *what != "failed");
    assert_eq!(told, ["raised", "flushed", "cleared"]);
}

#[test]
fn a_failure_that_is_final_is_told_once_and_a_close_is_none() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let (options, hears) = heard(idle());
    let db = open(&fs, options);
    db.put(b"key", b"value").unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Sync]));
    assert!(db.flush().is_err() && db.flush().is_err());
    assert!(matches!(db.put(b"key", b"again"), Err(Error::Poisoned(_))));
    assert!(db.close().is_err());
    let raised = |event| match event {
        Event::BackgroundErrorRaised { error, is_final, .. } => Some((error.to_string(), is_final)),
        _ => None,
    };
    let raised: Vec<_> = hears.iter().filter_map(raised).collect();
    assert!(raised.len() == 1 && raised[0].1, "{raised:?}");
}

/// A segment that could not be synced ended the writes, and neither event nor property said so.
#[test]
fn a_log_that_cannot_go_on_is_a_background_error() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let (options, hears) = heard(Options { memtable_bytes: 16 << 20, ..idle() });
    let db = open(&fs, options);
    fs.arm(FaultPlan::from_then_on(1, Fault::Io).only(&[Operation::Sync, Operation::SyncDir]));
    let refused = (0..10_000_u32).find_map(|n| db.put(&n.to_be_bytes(), &[7; 2_000]).err());
    assert!(matches!(refused, Some(Error::Poisoned(_))), "{refused:?}");
    assert!(db.property("keyrack.background-error").is_some_and(|reason| !reason.is_empty()));
    assert!(db.close().is_err());
    assert!(hears.iter().any(|event| matches!(event, Event::BackgroundErrorRaised { .. })));
}

/// Where a listener finds the store once it is open.
type Place = Arc<Mutex<Option<Db>>>;

fn with_place(
    options: Options,
    act: impl Fn(&Place, &Event) + Send + Sync + 'static,
) -> (Options, Place) {
    let place = Place::default();
    let of_listener = Arc::clone(&place);
    (options.listener(move |event: &Event| act(&of_listener, event)), place)
}

#[test]
fn a_listener_uses_the_store_in_every_event_also_where_writers_wait() {
    let used = Arc::new(Mutex::new(BTreeSet::new()));
    let uses = Arc::clone(&used);
    let (options, place) = with_place(
        Options { immutable_memtables_max: 1, level0_slow: 2, level0_stop: 3, ..tiny() },
        move |place, event| {
            // The lock is not held meanwhile: the main thread takes the store away at the end.
            let db = place.lock().unwrap().clone();
            let Some(db) = db else { return };
            let is_new = uses.lock().unwrap().insert(event.name());
            db.put(b"told", &[7; 2_000]).unwrap();
            assert_eq!(db.get(b"told").unwrap(), Some(vec![7; 2_000]));
            assert!(db.metrics().len() > 20 && db.range(..).next().is_some());
            if is_new {
                db.flush().unwrap();
                db.compact_range(None, None).unwrap();
            }
        },
    );
    let db = open(&MemFs::new(), options);
    *place.lock().unwrap() = Some(db.clone());
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..300_u32 {
                    db.put(&[&[thread], &n.to_be_bytes()[..]].concat(), &[n as u8; 2_000]).unwrap();
                }
            });
        }
    });
    db.compact_range(None, None).unwrap();
    // All of these wait to be told by now, or were.
    let kinds = ["flush_begun", "flush_ended", "compaction_begun", "compaction_ended"];
    while !kinds.iter().all(|kind| used.lock().unwrap().contains(kind)) {
        std::thread::yield_now();
    }
    *place.lock().unwrap() = None;
    assert_eq!(stat(&db, "listener_panics"), 0);
    db.close().unwrap();
}

#[test]
fn a_listener_that_waits_delays_nobody() {
    let (go, goes) = mpsc::channel::<()>();
    let goes = Mutex::new(goes);
    let count = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&count);
    let options = tiny().listener(move |_: &Event| {
        *counts.lock().unwrap() += 1;
        let _ = goes.lock().unwrap().recv();
    });
    let db = open(&MemFs::new(), options);
    // All of it is done while the listener is in its first call.
    fill(&db, 200);
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(db.range(..).count(), 200);
    assert!(*count.lock().unwrap() <= 1);
    drop(go);
    db.close().unwrap();
    assert!(*count.lock().unwrap() > 4, "a close waits until all are told");
}

#[test]
fn a_listener_closes_the_store_or_drops_its_last_handle() {
    for closes in [true, false] {
        let (done, is_done) = mpsc::channel();
        let done = Mutex::new(done);
        let (options, place) = with_place(idle(), move |place, event| {
            if !matches!(event, Event::FlushEnded { .. }) {
                return;
            }
            let taken = place.lock().unwrap().take();
            let Some(db) = taken else { return };
            if closes {
                db.close().unwrap();
            } else {
                drop(db);
            }
            done.lock().unwrap().send(()).unwrap();
        });
        let disk = MemFs::new();
        let db = open(&disk, options);
        db.put(b"key", b"value").unwrap();
        *place.lock().unwrap() = Some(db.clone());
        if closes {
            db.flush().unwrap();
            is_done.recv().unwrap();
            assert!(matches!(db.put(b"key", b"again"), Err(Error::Closed)));
            drop(db);
        } else {
            // Memory that is full is flushed by a thread of the store.
            fill(&db, 40);
            drop(db);
            is_done.recv().unwrap();
        }
        let db = open(&disk, idle());
        assert_eq!(db.get(b"key").unwrap(), Some(b"value".to_vec()));
    }
}

#[test]
fn a_panic_of_a_listener_ends_its_call_alone() {
    let count = Arc::new(Mutex::new(0));
    let counts = Arc::clone(&count);
    let db = open(
        &MemFs::new(),
        idle().listener(move |_: &Event| {
            *counts.lock().unwrap_or_else(|held| held.into_inner()) += 1;
            panic!("on purpose");
        }),
    );
    for _ in 0..3 {
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
    }
    // The first six are told at some time.
    while stat(&db, "listener_panics") < 6 {
        std::thread::yield_now();
    }
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    assert_eq!(*count.lock().unwrap(), 6);
}

#[test]
fn the_key_spaces_of_a_store_have_one_listener() {
    let (options, hears) = heard(idle());
    let spaces = Spaces::open_in(Arc::new(MemFs::new()), Path::new(DIR), options, &[]).unwrap();
    for name in ["one", "two"] {
        let space = spaces.get_or_create(name, &Comparator::Bytewise).unwrap();
        space.put(b"key", b"value").unwrap();
    }
    spaces.flush().unwrap();
    spaces.close().unwrap();
    let names: Vec<_> = hears.iter().map(|event| event.name()).collect();
    assert_eq!(names, ["flush_begun", "flush_ended"], "both spaces are in one memtable");
}

#[test]
fn a_store_that_is_only_read_tells_nothing() {
    let disk = MemFs::new();
    let writer = open(&disk, idle());
    writer.put(b"key", b"value").unwrap();
    let (options, hears) = heard(idle());
    let fs = || Arc::new(disk.clone());
    let reader = Db::open_read_only_in(fs(), Path::new(DIR), options.clone()).unwrap();
    let mut follower = Db::follow_in(fs(), Path::new(DIR), options.clone()).unwrap();
    writer.flush().unwrap();
    assert!(follower.catch_up().unwrap());
    assert!(reader.flush().is_err() && reader.put(b"key", b"again").is_err());
    assert_eq!(reader.property("keyrack.listener_panics"), None);
    drop((reader, follower, options));
    assert_eq!(hears.iter().count(), 0);
}

#[test]
fn an_ingestion_and_a_checkpoint_are_told_and_a_failed_one_is_not() {
    let disk = MemFs::new();
    let (options, hears) = heard(idle());
    let db = open(&disk, options);
    let mut table = SstWriter::create(&disk, "/new.sst".as_ref(), db.options()).unwrap();
    table.put(b"a", b"1").unwrap();
    table.put(b"b", b"2").unwrap();
    table.finish().unwrap();
    assert!(db.ingest(&["/missing.sst"], IngestOptions::default()).is_err());
    db.ingest(&["/new.sst"], IngestOptions::default()).unwrap();
    db.checkpoint("/copy").unwrap();
    assert!(db.checkpoint("/copy").is_err());
    db.close().unwrap();
    let told: Vec<Event> = hears.iter().collect();
    let [Event::Ingested { tables, table_bytes, entries, .. }, copied] = &told[..] else {
        panic!("{told:?}");
    };
    assert!(tables.len() == 1 && *table_bytes > 0 && *entries == 2);
    assert!(matches!(copied, Event::CheckpointMade { path, .. } if path == Path::new("/copy")));
}

/// The names of the kinds and of their fields, as the page lists them.
#[test]
fn the_page_has_every_event_and_its_fields() {
    let disk = MemFs::new();
    let (options, hears) = heard(idle());
    let db = open(&disk, options);
    db.put(b"key", b"value").unwrap();
    disk.set_capacity(0);
    assert!(db.flush().is_err());
    disk.set_capacity(1 << 30);
    db.resume().unwrap();
    db.compact_range(None, None).unwrap();
    db.rewrite().unwrap();
    db.checkpoint("/copy").unwrap();
    db.close().unwrap();
    let mut kinds = BTreeMap::<&str, BTreeSet<&str>>::new();
    for event in hears.iter() {
        let fields = kinds.entry(event.name()).or_default();
        event.visit(&mut |name, field| {
            fields.insert(name);
            if let EventField::Text(text) = field {
                assert!(!text.is_empty(), "{name} of {event:?}");
            }
        });
    }
    assert!(kinds.len() >= 7, "{kinds:?}");
    for (kind, fields) in kinds {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/engines/flodb.md needs a row for {kind}"));
        for field in fields {
            assert!(row.contains(&format!("`{field}`")), "{field} of {kind}");
        }
    }
    assert!(try_open(&disk, idle()).is_ok());
}
