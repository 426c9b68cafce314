//! Power losses by the ten thousand: at operations of the file system in the middle of puts,
//! batches, syncs, flushes, compactions, openings and closings, in recoveries after a power loss,
//! and in recoveries after those.
//!
//! ```text
//!   history    lives of one store on one disk, from a seed: open, write, flush, compact, close
//!      |       or die, with other options the next time
//!      v  at every few operations
//!   image      a disk that a power loss at that moment could leave
//!      |       opened: must hold a beginning of each writer's steps, with all that was synced
//!      v  some of them
//!   life       on that disk, with images of its own: now all that was found must stay
//! ```

use crate::journal::Journal;
use crate::support::{Model, Write, appends, open, put_until, still, tiny, try_open};
use keyrack_flodb::{Compression, Db, Durability, Options, WriteOptions};
use keyrack_testkit::camera::{self, Camera, Shot};
use keyrack_testkit::random::{Announced, Draw, factor, is_brief, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultPlan, Lie, MemFs, Operation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn options(draw: &mut Draw, durability: Durability) -> Options {
    Options {
        durability,
        unordered_max: [4, 1000][draw.below(2)],
        segment_bytes: [16 << 10, 32 << 10, 64 << 10][draw.below(3)],
        block_bytes: [200, 4096][draw.below(2)],
        compression: vec![[Compression::None, Compression::Lz4][draw.below(2)]],
        level0_tables: [2, 4][draw.below(2)],
        level_base_bytes: 32 << 10,
        blob_bytes_min: [0, 1024][draw.below(2)],
        compaction_threads: draw.below(2),
        clock: still(),
        ..tiny()
    }
    .merge_operator(appends())
}

fn durability(draw: &mut Draw) -> Durability {
    match draw.below(8) {
        0 => Durability::None,
        1..=2 => Durability::Sync,
        3 => Durability::Interval(1),
        _ => Durability::Os,
    }
}

/// Everything in the store, by a walk; some of it, and of what is not there, by gets.
fn rows(db: &Db, draw: &mut Draw, what: &dyn Fn() -> String) -> Model {
    let shown = crate::support::walk(db.iter().unwrap()).unwrap();
    let count = shown.len();
    let rows: Model = shown.into_iter().collect();
    assert_eq!(rows.len(), count, "{}: twice", what());
    for _ in 0..8 {
        let key = key(["", "a", "b", "c"][draw.below(4)], draw);
        assert_eq!(db.get(&key).unwrap().as_ref(), rows.get(&key), "{}: {key:?}", what());
    }
    rows
}

fn key(prefix: &str, draw: &mut Draw) -> Vec<u8> {
    format!("{prefix}{:03}", draw.below(80)).into_bytes()
}

/// One step of a writer, which may be synced.
fn step(db: &Db, journal: &Journal, writer: (usize, &str), draw: &mut Draw, number: usize) {
    let (index, prefix) = writer;
    let count = if draw.below(3) == 0 { 1 + draw.below(6) } else { 1 };
    let write = |_| {
        let len = [0, 10, 100, 100, 700, 2500][draw.below(6)];
        let mut value = format!("{index}:{number}:").into_bytes();
        value.resize(len.max(value.len()), b'v');
        let (key, other) = (key(prefix, draw), key(prefix, draw));
        match draw.below(32) {
            0 if key < other => Write::DeleteRange(key, other),
            0..8 => Write::Delete(key),
            8..13 => put_until(draw, key, value),
            13..18 => Write::Merge(key, value),
            _ => Write::Put(key, value),
        }
    };
    let writes = (0..count).map(write).collect();
    let options = WriteOptions { sync: draw.below(8) == 0 };
    let before = journal.returned();
    let step = journal.begin(index, writes);
    match &step.writes[..] {
        [Write::Put(key, value)] => db.put_with(key, value, options).unwrap(),
        [Write::PutUntil(key, value, at)] => {
            db.put_until_with(key, value, *at, options).unwrap();
        }
        [Write::Merge(key, operand)] => db.merge_with(key, operand, options).unwrap(),
        [Write::Delete(key)] => db.delete_with(key, options).unwrap(),
        _ => db.write(&step.batch(), options).unwrap(),
    }
    journal.returned_from(index);
    if options.sync || db.options().durability == Durability::Sync {
        let mut durable = before;
        durable[index] += 1;
        journal.synced_up_to(&durable);
    }
}

/// The journal of one life, as the camera asks for it.
struct Life {
    journal: Arc<Journal>,
    /// Without a log, the end of the process loses what was not synced.
    has_log: bool,
}

impl camera::Journal for Life {
    fn promised(&self, policy: CrashPolicy) -> Vec<usize> {
        // A process whose page cache survives whole loses nothing of a log.
        let is_cached = policy == CrashPolicy::KeepAll && self.has_log;
        if is_cached { self.journal.returned() } else { self.journal.synced() }
    }

    fn begun(&self) -> Vec<usize> {
        self.journal.begun()
    }
}

/// Opens each image and compares it with the journal; lets some of them live on, up to `depth`
/// times. Returns how many disks were looked at.
fn examine(shots: Vec<Shot>, journal: &Journal, draw: &mut Draw, depth: usize) -> usize {
    let mut images = 0;
    for Shot { image, policy, at_least, at_most, what } in shots {
        images += 1;
        let what = || format!("{policy:?} at {what}, depth {depth}");
        let lives_on = depth > 0 && draw.below(6) == 0;
        let disk =
            if lives_on { image.crash_image(0, CrashPolicy::KeepAll) } else { image.clone() };
        let durability = durability(draw);
        let options = options(draw, durability);
        let db = try_open(&disk, options).unwrap_or_else(|error| panic!("{}: {error}", what()));
        let found = rows(&db, draw, &what);
        drop(db);
        if let Err(wrong) = journal.find(&found, &at_least, &at_most) {
            panic!("{}: {wrong}", what());
        }
        if lives_on {
            images += live_on(&image, found, draw, depth - 1);
        }
    }
    images
}

/// A life on a disk where everything is durable that can be seen: `found`.
fn live_on(image: &MemFs, found: Model, draw: &mut Draw, depth: usize) -> usize {
    let journal = Arc::new(Journal::new(&found, &[""]));
    let life = Life { journal: Arc::clone(&journal), has_log: false };
    let camera = Camera::new(image, life, draw.next(), 6);
    let durability = durability(draw);
    let options = options(draw, durability);
    let db = open(&*camera.fs(), options);
    let what = || format!("recovery, depth {depth}");
    assert!(rows(&db, draw, &what) == found, "{}: the second time otherwise", what());
    for number in 0..draw.below(12) {
        let prefix = ["", "a", "b", "c"][draw.below(4)];
        step(&db, &journal, (0, prefix), draw, number);
    }
    if draw.below(3) == 0 {
        db.flush().unwrap();
        journal.synced_up_to(&journal.returned());
    }
    let seen = rows(&db, draw, &what);
    let all = journal.returned();
    drop(db);
    let shots = camera.stop();
    let images = examine(shots, &journal, draw, depth);
    journal.find(&seen, &all, &all).unwrap_or_else(|wrong| panic!("{}: {wrong}", what()));
    images
}

/// Lives of one store with these writers, on a disk that may lie. Returns how many images were
/// looked at.
fn history(seed: u64, prefixes: &[&str], lie: Option<&FaultPlan>) -> usize {
    let _seed = Announced(seed);
    let mut draw = Draw::new(seed);
    let mut disk = MemFs::new();
    // A log that syncs every record writes it past the page cache, where the disk can do that.
    disk.set_map_direct(draw.below(4) > 0);
    let journal = Arc::new(Journal::new(&Model::new(), prefixes));
    let mut images = 0;
    for life in 0..3 {
        let what = || format!("life {life}");
        let durability = durability(&mut draw);
        let has_log = durability != Durability::None;
        let promises = Life { journal: Arc::clone(&journal), has_log };
        let camera = Camera::new(&disk, promises, draw.next(), 24);
        let before = journal.returned();
        let fs = camera.fs();
        if let Some(plan) = lie {
            fs.arm(plan.clone());
        }
        let db = open(&*fs, options(&mut draw, durability));
        let found = rows(&db, &mut draw, &what);
        journal
            .find(&found, &before, &before)
            .unwrap_or_else(|wrong| panic!("{}: {wrong}", what()));
        live(&db, &journal, &camera, &mut draw, (life, prefixes));

        let all = journal.returned();
        let seen = rows(&db, &mut draw, &what);
        journal.find(&seen, &all, &all).unwrap_or_else(|wrong| panic!("{}: {wrong}", what()));
        match draw.below(3) {
            0 => db.close().unwrap(),
            1 => drop(db),
            _ => {
                camera.pause();
                disk = disk.process_crash_image();
                drop(db);
            }
        }
        images += examine(camera.stop(), &journal, &mut draw, 2);
        // After a kill without a log, what was flushed is there, and what a life before had logged.
        let least = |(synced, before): (usize, usize)| synced.max(before);
        let least: Vec<_> = journal.synced().into_iter().zip(before).map(least).collect();
        let copy = disk.crash_image(0, CrashPolicy::KeepAll);
        let db = open(&copy, options(&mut draw, Durability::Os));
        let found = rows(&db, &mut draw, &what);
        drop(db);
        let there = journal.find(&found, if has_log { &all } else { &least }, &all);
        let there = there.unwrap_or_else(|wrong| panic!("{}, its end: {wrong}", what()));
        journal.cut(&there);
        journal.settle();
    }
    images
}

/// What writers do in a life: the first one flushes and compacts, too.
fn live(
    db: &Db,
    journal: &Journal,
    camera: &Camera<Life>,
    draw: &mut Draw,
    (life, prefixes): (usize, &[&str]),
) {
    let seeds: Vec<u64> = prefixes.iter().map(|_| draw.next()).collect();
    std::thread::scope(|scope| {
        let others = prefixes.iter().zip(&seeds).enumerate().skip(1);
        for (index, (prefix, seed)) in others {
            scope.spawn(move || {
                let mut draw = Draw::new(*seed);
                for number in 0..40 {
                    step(db, journal, (index, prefix), &mut draw, life * 1000 + number);
                }
            });
        }
        for number in 0..60 {
            step(db, journal, (0, prefixes[0]), draw, life * 1000 + number);
            camera.shoot(&|| "between two writes".to_owned());
            match draw.below(40) {
                0 => {
                    let before = journal.returned();
                    db.flush().unwrap();
                    journal.synced_up_to(&before);
                }
                1 => db.compact_range(None, None).unwrap(),
                2 => {
                    let (low, high) = (key("", draw), key("b", draw));
                    db.compact_range(Some(&low), Some(&high)).unwrap();
                }
                _ => {}
            }
        }
    });
}

/// Histories of as many images, or of a tenth.
fn histories(prefixes: &[&str], images_min: usize) {
    let images_min = if is_brief() { images_min / 10 } else { images_min };
    let seeds = seeds();
    for seed in &seeds {
        let mut images = 0;
        for number in 0.. {
            images += history(seed.wrapping_add(number), prefixes, None);
            if images * seeds.len() >= images_min * factor() {
                break;
            }
        }
    }
}

#[test]
fn one_writer_loses_nothing_that_was_synced_in_twelve_thousand_power_losses() {
    histories(&["a"], 12_000);
}

#[test]
fn several_writers_lose_nothing_that_was_synced_in_nine_thousand_power_losses() {
    histories(&["a", "b", "c"], 9_000);
}

/// The harness itself: a store with the fault that each of these disks stands for is found out.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    for (lie, kind) in [
        (Lie::Omitted, Operation::Flush),
        (Lie::Late, Operation::Flush),
        (Lie::Retried, Operation::Flush),
        (Lie::Omitted, Operation::SyncDir),
    ] {
        let plan = FaultPlan::from_then_on(1, Fault::Lie(lie)).only(&[kind]);
        let found_out = |seed: u64| {
            let run = || history(seed, &["a"], Some(&plan));
            let cause = catch_unwind(AssertUnwindSafe(run)).err()?;
            Some(cause.downcast_ref::<String>().expect("a line").clone())
        };
        let mut texts = (0..40).filter_map(found_out);
        let is_found_out = texts.any(|text| text.contains("no state from step"));
        assert!(is_found_out, "{lie:?}, {kind}");
    }
}
