//! The shipped log of stores with key spaces: every position and every time mark gives the spaces
//! and keys that the store had, whatever was made and dropped around it.

use crate::failing::{Failing, WHENS};
use crate::support::*;
use keyrack_backup::{Backup, Error, Moment, Repository, Shipper, Target};
use keyrack_flodb::{Comparator, Compare, KeySpace, Options, Spaces, SpacesBatch, WriteOptions};
use keyrack_store::{FeedError, LogEntry, LogFeed, LogReplay, LogSource};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

struct Backwards;

impl Compare for Backwards {
    fn name(&self) -> &str {
        "test.backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

fn backwards() -> Comparator {
    Comparator::Custom(Arc::new(Backwards))
}

/// By the name of the space: the name of its order, and its keys.
type State = BTreeMap<String, (String, Model)>;

fn open_spaces(fs: &Arc<dyn Fs>, dir: &str) -> Spaces {
    // A power loss makes no hole in a log that is kept.
    let options = Options { log_retention_bytes: 8 << 20, ..tiny() };
    Spaces::open_in(Arc::clone(fs), Path::new(dir), options, &[backwards()]).unwrap()
}

fn keys(space: &KeySpace) -> Model {
    space.range(..).map(Result::unwrap).collect()
}

fn state(spaces: &Spaces) -> State {
    let named = |(name, order): (String, String)| {
        let keys = keys(&spaces.get(&name).unwrap());
        (name, (order, keys))
    };
    spaces.list().into_iter().map(named).collect()
}

fn backup(spaces: &Spaces, repository: &Repository) -> u64 {
    let saved = Backup::of(spaces.file_set().unwrap()).save_to(repository).unwrap();
    saved.info.log.unwrap().position
}

/// Restores a moment to a disk of its own.
fn state_at(repository: &Repository, moment: Moment) -> keyrack_backup::Result<State> {
    let fs = shared(&MemFs::new());
    let mut replay =
        |dir: &Path| Ok(Box::new(open_spaces(&fs, dir.to_str().unwrap())) as Box<dyn LogReplay>);
    let place = (&*fs, Path::new(RESTORED));
    repository.restore_at(moment, None, place, &mut replay, |_| ())?;
    let comparator = Spaces::comparator(&[backwards()]).unwrap();
    let options = Options { comparator, ..Options::default() };
    let report = keyrack_flodb::verify(Arc::clone(&fs), Path::new(RESTORED), &options).unwrap();
    assert!(report.is_sound() && report.findings.is_empty(), "{report:?}");
    let spaces = open_spaces(&fs, RESTORED);
    let restored = state(&spaces);
    // It goes on.
    spaces.create("later", &Comparator::Bytewise).unwrap().put(b"key", b"value").unwrap();
    Ok(restored)
}

/// A log with a mark after each batch: what is committed up to a position was committed by the time
/// that is the position.
struct Marked<'a>(&'a Spaces);

struct MarkedFeed {
    inner: Box<dyn LogFeed>,
    ready: VecDeque<LogEntry>,
}

impl LogSource for Marked<'_> {
    fn log_id(&self) -> u64 {
        self.0.log_id()
    }

    fn feed(&self, from: u64) -> Result<Box<dyn LogFeed>, FeedError> {
        // After a mark of this source, which the store does not have.
        let inner = self.0.feed(from - from % 2)?;
        Ok(Box::new(MarkedFeed { inner, ready: VecDeque::new() }))
    }
}

impl LogFeed for MarkedFeed {
    fn next(&mut self) -> Result<Option<LogEntry>, FeedError> {
        while self.ready.is_empty() {
            match self.inner.next()? {
                None => return Ok(None),
                Some(LogEntry::Time { .. }) => {}
                Some(entry) => {
                    let end = entry.position();
                    assert_eq!(end % 2, 0, "records are aligned");
                    let mark = LogEntry::Time { position: end + 1, unix_ms: end };
                    self.ready.extend([entry, mark]);
                }
            }
        }
        Ok(self.ready.pop_front())
    }

    fn wait(&mut self, timeout: Duration) -> Result<bool, FeedError> {
        Ok(!self.ready.is_empty() || self.inner.wait(timeout)?)
    }
}

/// A store, and what it had at each position.
struct Scene {
    spaces: Spaces,
    states: BTreeMap<u64, State>,
    operations: u64,
}

impl Scene {
    fn new(fs: &Arc<dyn Fs>) -> Scene {
        let mut scene =
            Scene { spaces: open_spaces(fs, STORE), states: BTreeMap::new(), operations: 0 };
        scene.act(|spaces| drop(spaces.get_or_create("always", &Comparator::Bytewise).unwrap()));
        scene
    }

    fn position(&self) -> u64 {
        self.spaces.position().into()
    }

    fn act(&mut self, act: impl FnOnce(&Spaces)) {
        let before = self.spaces.position();
        act(&self.spaces);
        let after = state(&self.spaces);
        // A drop is a batch, and the removal of the keys another one.
        for change in self.spaces.changes(before).unwrap() {
            self.states.insert(change.unwrap().position().into(), after.clone());
        }
        self.states.insert(self.position(), after);
    }

    /// Makes or drops a space, or writes a batch over several.
    fn step(&mut self, draw: &mut Draw) {
        self.operations += 1;
        let name = format!("space{}", draw.below(4_u32));
        match draw.below(10) {
            0..3 => {
                let order = if draw.one_in(2) { backwards() } else { Comparator::Bytewise };
                self.act(|spaces| drop(spaces.create(&name, &order)));
            }
            3 => self.act(|spaces| {
                spaces.drop_space(&name).unwrap();
            }),
            _ => {
                let mut batch = SpacesBatch::new();
                let list = self.spaces.list();
                for _ in 0..1 + draw.below(6) {
                    let space = self.spaces.get(&draw.one_of(&list).0).unwrap();
                    let key = |draw: &mut Draw| vec![b'a' + draw.below(8_u8)];
                    let (a, b) = (key(draw), key(draw));
                    let bytes = if draw.one_in(9) { 2000 } else { 9 };
                    let value = draw.bytes(bytes);
                    match draw.below(6) {
                        0 => batch.delete(&space, &a),
                        1 => batch.delete_range(&space, &a, &b),
                        _ => batch.put(&space, &a, &value),
                    }
                }
                let always = self.spaces.get("always").unwrap();
                batch.put(&always, b"operation", &self.operations.to_le_bytes());
                self.act(|spaces| spaces.write(&batch, WriteOptions::default()).unwrap());
            }
        }
    }

    /// After a power loss: what the store has lost is forgotten.
    fn recover(&mut self, fs: &Arc<dyn Fs>, shipped_to: u64) {
        self.spaces = open_spaces(fs, STORE);
        let found = state(&self.spaces);
        let last = self.states.iter().rev().find(|(_, known)| **known == found);
        let last = *last.expect("the store has a state that it had").0;
        let shipped = self.states.range(..=shipped_to).next_back();
        assert!(
            shipped.is_none_or(|(position, _)| *position <= last),
            "a position was shipped that a power loss takes"
        );
        self.states.retain(|position, _| *position <= last);
    }
}

/// Batches over random spaces, creations, drops, flushes, backups, new shippers and power losses.
#[test]
fn every_position_and_time_gives_its_spaces_and_keys() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut disk = MemFs::new();
        let mut scene = Scene::new(&shared(&disk));
        let repository = create(&shared(&MemFs::new())).unwrap();
        let first = backup(&scene.spaces, &repository);
        scene.states.retain(|position, _| first <= *position);
        let begin = |scene: &Scene| Shipper::begin(&repository, &Marked(&scene.spaces)).unwrap();
        let (mut shipper, mut shipped_to) = (begin(&scene), 0);
        for _ in 0..150 {
            match draw.below(20) {
                0..14 => scene.step(&mut draw),
                14 => scene.spaces.flush().unwrap(),
                15 => drop(backup(&scene.spaces, &repository)),
                16 => shipper = begin(&scene),
                17 | 18 => shipped_to = shipper.ship().unwrap().position,
                _ => {
                    drop(shipper);
                    disk = disk.crash_image(draw.next(), CrashPolicy::DropAll);
                    scene.recover(&shared(&disk), shipped_to);
                    let base = backup(&scene.spaces, &repository);
                    let now = state(&scene.spaces);
                    scene.states.insert(scene.position().max(base), now);
                    shipper = begin(&scene);
                    // What was not shipped, and is perhaps not in the log any more.
                    scene.states.retain(|known, _| *known <= shipped_to || base <= *known);
                }
            }
        }
        shipper.ship().unwrap();
        assert!(repository.verify(None, |_| ()).unwrap().is_sound());
        let mut known: Vec<(u64, State)> = scene.states.into_iter().collect();
        let last = known.pop().unwrap();
        let mut tried = vec![last];
        for _ in 0..12 {
            tried.push(known.swap_remove(draw.below(known.len())));
        }
        for (position, expected) in tried {
            let restored = state_at(&repository, Moment::Position(position)).unwrap();
            assert!(restored == expected, "position {position}: {restored:?} {expected:?}");
        }
    }
}

/// Each position and each time between a creation and a drop, one after the other.
#[test]
fn a_moment_between_a_creation_and_a_drop_is_exact() {
    let fs = shared(&MemFs::new());
    let mut scene = Scene::new(&fs);
    let repository = create(&shared(&MemFs::new())).unwrap();
    let first = backup(&scene.spaces, &repository);
    let mut draw = Draw::new(3);
    for _ in 0..25 {
        scene.step(&mut draw);
    }
    for order in [Comparator::Bytewise, backwards()] {
        scene.act(|spaces| drop(spaces.create("short", &order).unwrap()));
        let space = scene.spaces.get("short").unwrap();
        scene.act(|_| space.put(b"key", b"value").unwrap());
        scene.act(|spaces| assert!(spaces.drop_space("short").unwrap()));
    }
    Shipper::begin(&repository, &Marked(&scene.spaces)).unwrap().ship().unwrap();
    let mut feed = scene.spaces.feed(first).unwrap();
    let entries = std::iter::from_fn(|| feed.next().unwrap());
    let batches = entries.filter(|entry| matches!(entry, LogEntry::Batch { .. }));
    let positions: Vec<u64> = batches.map(|entry| entry.position()).collect();
    assert!(positions.len() > 20, "{positions:?}");
    for position in positions {
        let expected = scene.states.range(position..).next().unwrap().1;
        for moment in [Moment::Position(position), Moment::UnixMs(position)] {
            let restored = state_at(&repository, moment).unwrap();
            assert!(restored == *expected, "{moment:?}: {restored:?} {expected:?}");
        }
    }
}

/// A backup between the drop of a space and the removal of its keys, and a thread that has asked
/// for the space before the drop.
#[test]
fn a_late_write_to_a_dropped_space_leaves_nothing() {
    let fs = shared(&MemFs::new());
    let scene = Scene::new(&fs);
    let repository = create(&shared(&MemFs::new())).unwrap();
    backup(&scene.spaces, &repository);
    let space = scene.spaces.create("late", &Comparator::Bytewise).unwrap();
    space.put(b"key", &[7; 100]).unwrap();
    let mut feed = scene.spaces.feed(0).unwrap();
    let late = std::iter::from_fn(|| feed.next().unwrap())
        .filter_map(|entry| match entry {
            LogEntry::Batch { payload, .. } => Some(payload),
            _ => None,
        })
        .last()
        .unwrap();
    scene.spaces.drop_space("late").unwrap();
    let restored = Path::new(RESTORED);
    backup(&scene.spaces, &repository);
    repository.restore(&repository.newest().unwrap(), &*fs, restored, |_| ()).unwrap();
    let mut replay: Box<dyn LogReplay> = Box::new(open_spaces(&fs, RESTORED));
    replay.apply(&late).unwrap();
    replay.end().unwrap();
    let spaces = open_spaces(&fs, RESTORED);
    spaces.compact().unwrap();
    // Nothing but the catalog and its one space.
    assert_eq!(spaces.list().len(), 1);
    let entries = |spaces: &Spaces| {
        let mut entries = 0.0;
        spaces.stats(&mut |name, number| {
            if name.starts_with("level") && name.ends_with("_entries") {
                entries += number;
            }
        });
        entries
    };
    let after = entries(&spaces);
    let fresh = shared(&MemFs::new());
    repository.restore(&repository.newest().unwrap(), &*fresh, restored, |_| ()).unwrap();
    let expected = open_spaces(&fresh, RESTORED);
    expected.flush().unwrap();
    expected.compact().unwrap();
    assert_eq!(after, entries(&expected));
}

#[test]
fn a_space_in_an_order_that_is_not_there_is_refused() {
    let fs = shared(&MemFs::new());
    let scene = Scene::new(&fs);
    let repository = create(&shared(&MemFs::new())).unwrap();
    backup(&scene.spaces, &repository);
    scene.spaces.create("times", &backwards()).unwrap().put(b"a", b"1").unwrap();
    Shipper::begin(&repository, &scene.spaces).unwrap().ship().unwrap();
    let fs = shared(&MemFs::new());
    let mut replay = |dir: &Path| {
        Ok(Box::new(Spaces::open_in(Arc::clone(&fs), dir, tiny(), &[])?) as Box<dyn LogReplay>)
    };
    let moment = Moment::Position(scene.position());
    let place = (&*fs, Path::new(RESTORED));
    let error = repository.restore_at(moment, None, place, &mut replay, |_| ()).unwrap_err();
    assert!(matches!(error, Error::Store(_)), "{error:?}");
    let line = error.to_string();
    assert!(line.contains("\"times\"") && line.contains("\"test.backwards\""), "{line}");
    assert!(names(&*fs, "/").is_empty(), "nothing is left");
}

#[test]
fn a_shipper_of_spaces_goes_on_whichever_call_fails() {
    for when in WHENS {
        for at in 1.. {
            let fs = shared(&MemFs::new());
            let mut scene = Scene::new(&fs);
            let target: Arc<dyn Target> = target(&shared(&MemFs::new()));
            let repository = Repository::create(Arc::clone(&target)).unwrap();
            let first = backup(&scene.spaces, &repository);
            scene.states.retain(|position, _| first <= *position);
            let failing = Failing::new(Arc::clone(&target), at, when, false);
            let what = format!("{when:?} at {at}");
            let failing_target = Arc::clone(&failing) as Arc<dyn Target>;
            let mut shipper = Repository::open(failing_target)
                .and_then(|repository| Shipper::begin(&repository, &scene.spaces));
            let mut draw = Draw::new(at);
            for step in 0..3 {
                scene.act(|spaces| drop(spaces.create("short", &Comparator::Bytewise).unwrap()));
                scene.step(&mut draw);
                // The next time it goes on.
                let _ = shipper.as_mut().map(Shipper::ship);
                if step < 2 {
                    scene.act(|spaces| assert!(spaces.drop_space("short").unwrap()));
                }
            }
            let is_over = !failing.has_failed();
            let mut shipper = Shipper::begin(&repository, &scene.spaces).unwrap();
            shipper.ship().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(repository.verify(None, |_| ()).unwrap().is_sound(), "{what}");
            for (position, expected) in scene.states {
                let restored = state_at(&repository, Moment::Position(position)).unwrap();
                assert!(restored == expected, "{what}, position {position}");
            }
            if is_over {
                assert!(at > 6, "{what}");
                break;
            }
        }
    }
}
