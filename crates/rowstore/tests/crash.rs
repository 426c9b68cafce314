//! Crashes by the ten thousand: at operations of the file system in the middle of batches, groups,
//! checkpoints, openings and closings, in recoveries after a crash, and in recoveries after those.
//!
//! ```text
//!   history    lives of one store on one disk, from a seed: open, write, checkpoint, close or die,
//!      |       with other options the next time
//!      v  at every few operations
//!   image      a disk that a crash at that moment could leave
//!      |       opened: must hold a beginning of each writer's steps, with all that was promised
//!      v  some of them
//!   life       on that disk, with images of its own: now all that was found must stay
//! ```
//!
//! A writer's step is a batch or a group: whatever of it is there, the whole of it is. Each writer
//! has keys of its own, a session and so a log of its own, or shares a log with others.

use crate::support::{Content, Held, content, open_with, set_element, with_logs};
use keyrack_rowstore::{Options, RowSession, RowStore, Rows};
use keyrack_store::Durability;
use keyrack_testkit::camera::{self, Camera, Shot};
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultPlan, Fs, Lie, MemFs, Operation};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// What one writer did: the state of its keys after each step, and how far it is.
#[derive(Clone, Default)]
struct Line {
    states: Vec<Content>,
    /// Steps that were flushed.
    flushed: usize,
    /// Steps that are durable.
    durable: usize,
}

impl Line {
    fn begun(&self) -> usize {
        self.states.len() - 1
    }
}

/// What all writers did.
#[derive(Default)]
struct Journal {
    lines: Mutex<Vec<Line>>,
}

/// The keys of a writer begin with its letter.
fn letter(writer: usize) -> u8 {
    b'a' + writer as u8
}

fn of_writer(all: &Content, writer: usize) -> Content {
    let own = all.iter().filter(|(key, _)| key[0] == letter(writer));
    own.map(|(key, held)| (key.clone(), held.clone())).collect()
}

impl Journal {
    /// Writers that begin with what is in `found`, which is durable.
    fn new(found: &Content, writers: usize) -> Arc<Self> {
        let line = |writer| Line { states: vec![of_writer(found, writer)], ..Line::default() };
        Arc::new(Journal { lines: Mutex::new((0..writers).map(line).collect()) })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Vec<Line>) -> T) -> T {
        work(&mut self.lines.lock().unwrap())
    }

    /// From which step to which each writer may be, after a crash now.
    fn bounds(&self, keeps_flushed: bool) -> Vec<(usize, usize)> {
        self.with(|lines| {
            let least = |line: &Line| if keeps_flushed { line.flushed } else { line.durable };
            lines.iter().map(|line| (least(line), line.begun())).collect()
        })
    }

    /// Everything that was flushed is durable.
    fn all_durable(&self) {
        self.with(|lines| lines.iter_mut().for_each(|line| line.durable = line.flushed));
    }

    /// Compares what is there with what may be.
    fn check(&self, found: &Content, bounds: &[(usize, usize)], what: &dyn Fn() -> String) {
        self.with(|lines| {
            for (writer, (line, (least, most))) in lines.iter().zip(bounds).enumerate() {
                let own = of_writer(found, writer);
                if line.states[*least..=*most].contains(&own) {
                    continue;
                }
                let differ = |state: &Content| {
                    let keys = state.keys().chain(own.keys());
                    keys.filter(|key| state.get(*key) != own.get(*key)).count()
                };
                let counts: Vec<_> = line.states.iter().map(differ).collect();
                panic!(
                    "{}: writer {writer} is at none of {least}..={most}; keys that differ from \
                     each state: {counts:?}",
                    what()
                );
            }
        });
    }
}

/// The journal, as the camera asks for it.
struct Promises(Arc<Journal>);

impl camera::Journal for Promises {
    fn promised(&self, policy: CrashPolicy) -> Vec<usize> {
        // A process whose page cache survives whole loses nothing that was flushed.
        let bounds = self.0.bounds(policy == CrashPolicy::KeepAll);
        bounds.into_iter().map(|(least, _)| least).collect()
    }

    fn begun(&self) -> Vec<usize> {
        self.0.bounds(false).into_iter().map(|(_, most)| most).collect()
    }
}

/// The disk with the camera at it, which may lie.
fn watched(camera: &Arc<Camera<Promises>>, lie: Option<&FaultPlan>) -> Arc<dyn Fs> {
    let fs = camera.fs();
    if let Some(plan) = lie {
        fs.arm(plan.clone());
    }
    fs
}

/// Which way a history goes.
#[derive(Clone, Copy)]
struct Plan {
    writers: usize,
    /// Whether checkpoints are written by a thread of the store as well.
    has_thread: bool,
    depth: usize,
}

fn options(plan: Plan, draw: &mut Draw) -> Options {
    let durability = match draw.below(4) {
        0 => Durability::Sync,
        1 if plan.has_thread => Durability::Interval(1),
        _ => Durability::Os,
    };
    Options {
        durability,
        threads: 1 + draw.below(2),
        checkpoint_log_bytes: if plan.has_thread { 3000 } else { 0 },
        checkpoint_on_close: draw.below(3) == 0,
        // Parts in a directory below the store's, as they would be on another disk.
        checkpoint_dirs: vec![std::path::PathBuf::new(); draw.below(3)],
        ..with_logs(1 + draw.below(3))
    }
    .with_segment_bytes([16 << 10, 64 << 10][draw.below(2)])
}

/// One write of a step.
enum Write {
    Put(Vec<u8>),
    Remove,
    /// Sets or removes an element by its name.
    Element(Vec<u8>, Option<Vec<u8>>),
}

impl Write {
    fn apply(&self, state: &mut Content, key: &[u8]) {
        match self {
            Write::Put(value) => {
                let held = Held { flags: 3, expires_ms: 0, parts: vec![value.clone()] };
                state.insert(key.to_vec(), held);
            }
            Write::Remove => drop(state.remove(key)),
            Write::Element(name, value) => {
                let old = state.remove(key).map_or_else(Vec::new, |held| held.parts);
                let pairs = old.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                let mut elements: BTreeMap<Vec<u8>, Vec<u8>> = pairs.collect();
                match value {
                    Some(value) => elements.insert(name.clone(), value.clone()),
                    None => elements.remove(name),
                };
                if !elements.is_empty() {
                    let parts = elements.into_iter().flat_map(|(name, value)| [name, value]);
                    let parts = parts.collect();
                    state.insert(key.to_vec(), Held { flags: 0, expires_ms: 0, parts });
                }
            }
        }
    }
}

/// One step of one writer: one batch, or one group, or writes that are not flushed yet.
fn step(
    store: &RowStore,
    session: &mut dyn RowSession,
    (writer, writers): (usize, usize),
    journal: &Journal,
    draw: &mut Draw,
) {
    let mut state = journal.with(|lines| lines[writer].states.last().unwrap().clone());
    let mut writes = Vec::new();
    for _ in 0..1 + draw.below(4) {
        let key = [&[letter(writer)][..], &vec![b'k'; draw.below(30)]].concat();
        let len = [0, 5, 60, 60, 700, 2600][draw.below(6)];
        let value = vec![draw.next() as u8; len];
        let write = match draw.below(9) {
            0 | 1 => Write::Remove,
            2..=4 => {
                Write::Element(vec![b'n'; draw.below(4)], (draw.below(3) > 0).then_some(value))
            }
            _ => Write::Put(value),
        };
        let key = match &write {
            // A collection has a key of its own, where a row may replace it.
            Write::Element(..) => vec![letter(writer), b'h'],
            _ if draw.below(12) == 0 => vec![letter(writer), b'h'],
            _ => key,
        };
        if let Write::Element(..) = &write
            && state.get(&key).is_some_and(|held| held.flags == 3)
        {
            state.remove(&key);
            writes.push((key.clone(), Write::Remove));
        }
        write.apply(&mut state, &key);
        writes.push((key, write));
    }
    // Only one writer can remove everything and know what is left.
    let clears = writers == 1 && draw.below(25) == 0;
    if clears {
        state.clear();
        writes.clear();
    }
    journal.with(|lines| lines[writer].states.push(state));
    // A batch is one piece only as long as it is small; a group always is.
    if writes.len() != 1 || draw.below(3) == 0 {
        session.begin_group().unwrap();
    }
    if clears {
        session.clear().unwrap();
    }
    for (key, write) in &writes {
        match write {
            Write::Put(value) => drop(session.put(key, value, 3, 0).unwrap()),
            Write::Remove => drop(session.remove(key).unwrap()),
            Write::Element(name, value) => set_element(session, key, name, value.as_deref(), 0),
        }
    }
    if draw.below(5) == 0 {
        return;
    }
    let position = session.flush().unwrap();
    let is_synced = store.durability() == Durability::Sync;
    // A log that is to be synced may be memory, which the end of the process loses.
    if !is_synced {
        journal.with(|lines| lines[writer].flushed = lines[writer].begun());
    }
    if is_synced || draw.below(6) == 0 {
        store.sync(position).unwrap();
        assert!(session.is_durable(position));
        journal.with(|lines| lines[writer].flushed = lines[writer].begun());
        journal.with(|lines| lines[writer].durable = lines[writer].flushed);
    }
}

/// Hands over what a session has, so that the end of the process does not lose it.
fn flush(store: &RowStore, session: &mut dyn RowSession) {
    let position = session.flush().unwrap();
    if store.durability() == Durability::Sync {
        store.sync(position).unwrap();
    }
}

/// Some steps of all writers in turn.
fn live(
    store: &RowStore,
    plan: Plan,
    journal: &Journal,
    camera: &Camera<Promises>,
    draw: &mut Draw,
) {
    let mut sessions: Vec<_> = (0..plan.writers).map(|_| store.session().unwrap()).collect();
    for _ in 0..12 + draw.below(40) {
        let writer = draw.below(plan.writers);
        step(store, &mut *sessions[writer], (writer, plan.writers), journal, draw);
        camera.shoot(&|| "between two steps".to_owned());
        if draw.below(20) == 0 {
            for (writer, session) in sessions.iter_mut().enumerate() {
                flush(store, &mut **session);
                journal.with(|lines| lines[writer].flushed = lines[writer].begun());
            }
            assert!(store.checkpoint().unwrap());
            journal.all_durable();
        }
    }
    // A group that is under way is over with its flush; without it, nothing of it was made.
    for session in &mut sessions {
        flush(store, &mut **session);
    }
    drop(sessions);
    journal.with(|lines| lines.iter_mut().for_each(|line| line.flushed = line.begun()));
}

/// Lives of one store on a disk that may lie. Returns how many images were looked at.
fn history(seed: u64, plan: Plan, lie: Option<&FaultPlan>) -> usize {
    let mut draw = Draw::new(seed);
    let mut disk = MemFs::new();
    let mut images = 0;
    let journal = Journal::new(&Content::new(), plan.writers);
    for life in 0..3 {
        let what = || format!("life {life}");
        let camera = Camera::new(&disk, Promises(Arc::clone(&journal)), draw.next(), 5);
        let store = open_with(watched(&camera, lie), options(plan, &mut draw)).unwrap();
        journal.check(&content(&store), &journal.bounds(true), &what);
        // What a recovery has found is durable from then on.
        journal.all_durable();
        live(&store, plan, &journal, &camera, &mut draw);
        match draw.below(3) {
            0 => {
                Box::new(store).close().unwrap();
                journal.all_durable();
            }
            1 => drop(store),
            _ => {
                let left = disk.process_crash_image();
                drop(store);
                disk = left;
            }
        }
        images += examine(camera.stop(), &journal, plan, &mut draw);
    }
    images
}

/// Opens each image and compares it with the journal; lets some of them live on.
fn examine(shots: Vec<Shot>, journal: &Journal, plan: Plan, draw: &mut Draw) -> usize {
    let mut images = 0;
    for Shot { image, policy, at_least, at_most, what } in shots {
        images += 1;
        let bounds: Vec<_> = at_least.into_iter().zip(at_most).collect();
        let what = || format!("{policy:?} at {what}, depth {}", plan.depth);
        let lives_on = plan.depth > 0 && draw.below(6) == 0;
        let disk =
            if lives_on { image.crash_image(0, CrashPolicy::KeepAll) } else { image.clone() };
        let store = open_with(Arc::new(disk), options(plan, draw));
        let store = store.unwrap_or_else(|error| panic!("{}: {error}", what()));
        let found = content(&store);
        assert_eq!(store.len(), found.len() as u64, "{}", what());
        drop(store);
        journal.check(&found, &bounds, &what);
        if lives_on {
            images += live_on(&image, &found, Plan { depth: plan.depth - 1, ..plan }, draw);
        }
    }
    images
}

/// A life on a disk where everything is durable that can be seen.
fn live_on(image: &MemFs, found: &Content, plan: Plan, draw: &mut Draw) -> usize {
    let journal = Journal::new(found, plan.writers);
    let camera = Camera::new(image, Promises(Arc::clone(&journal)), draw.next(), 3);
    let store = open_with(camera.fs(), options(plan, draw)).unwrap();
    assert!(content(&store) == *found, "the second time otherwise");
    let mut session = store.session().unwrap();
    for _ in 0..draw.below(8) {
        step(&store, &mut *session, (0, plan.writers), &journal, draw);
    }
    flush(&store, &mut *session);
    drop(session);
    journal.with(|lines| lines.iter_mut().for_each(|line| line.flushed = line.begun()));
    if draw.below(2) == 0 {
        store.checkpoint().unwrap();
        journal.all_durable();
    }
    drop(store);
    examine(camera.stop(), &journal, plan, draw)
}

fn histories(plan: Plan, images_min: usize) {
    let seeds = seeds();
    for seed in &seeds {
        let mut images = 0;
        for number in 0.. {
            let seed = seed.wrapping_add(number);
            let _seed = Announced(seed);
            images += history(seed, plan, None);
            if images * seeds.len() >= images_min * factor() {
                break;
            }
        }
    }
}

#[test]
fn one_writer_keeps_its_promises_in_eight_thousand_crashes() {
    histories(Plan { writers: 1, has_thread: false, depth: 2 }, 8000);
}

#[test]
fn several_writers_keep_their_promises_in_eight_thousand_crashes() {
    histories(Plan { writers: 3, has_thread: false, depth: 2 }, 8000);
}

#[test]
fn writers_beside_the_checkpoint_thread_keep_their_promises_in_five_thousand_crashes() {
    histories(Plan { writers: 2, has_thread: true, depth: 1 }, 5000);
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
        let fault = FaultPlan::from_then_on(1, Fault::Lie(lie)).only(&[kind]);
        let plan = Plan { writers: 1, has_thread: false, depth: 1 };
        let found_out = |seed: u64| {
            let run = || history(seed, plan, Some(&fault));
            let cause = catch_unwind(AssertUnwindSafe(run)).err()?;
            Some(cause.downcast_ref::<String>().expect("a line").clone())
        };
        let mut texts = (0..40).filter_map(found_out);
        let is_found_out = texts.any(|text| text.contains("is at none of"));
        assert!(is_found_out, "{lie:?}, {kind}");
    }
}
