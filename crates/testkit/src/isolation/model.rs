//! A store of lists in memory whose isolation can be broken on purpose, to see that the checker
//! finds it.
//!
//! One thread plays several, in an order that a seed draws. Transactions read at the moment when
//! they began, and a commit checks that what they have read, or under snapshot isolation written,
//! has no newer version.

use super::history::{Event, Level, Outcome, Step, Transaction, draw_steps};
use crate::random::Draw;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What the store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A commit does not check what was read.
    UncheckedReads,
    /// Each read is of the moment when it happens, and a commit checks from its own moment on.
    LateSnapshot,
    /// A commit writes its first key and then the others; reads come between.
    SplitCommit,
}

const KEYS: u64 = 5;
const THREADS: usize = 5;

#[derive(Default)]
struct Lists {
    versions: BTreeMap<u64, Vec<(u64, Vec<u64>)>>,
    clock: u64,
}

impl Lists {
    fn at(&self, key: u64, moment: u64) -> Vec<u64> {
        let versions = self.versions.get(&key).map_or(&[][..], Vec::as_slice);
        let seen = versions.iter().rev().find(|(written, _)| *written <= moment);
        seen.map_or_else(Vec::new, |(_, list)| list.clone())
    }

    fn is_changed(&self, key: u64, since: u64) -> bool {
        let newest = self.versions.get(&key).and_then(|versions| versions.last());
        newest.is_some_and(|(written, _)| *written > since)
    }

    fn write(&mut self, writes: impl IntoIterator<Item = (u64, Vec<u64>)>) {
        self.clock += 1;
        for (key, list) in writes {
            self.versions.entry(key).or_default().push((self.clock, list));
        }
    }
}

#[derive(Default)]
struct Running {
    steps: VecDeque<Step>,
    since: u64,
    begun: u64,
    events: Vec<Event>,
    reads: BTreeSet<u64>,
    writes: BTreeMap<u64, Vec<u64>>,
    /// What a commit in two parts has not written yet.
    rest: Option<BTreeMap<u64, Vec<u64>>>,
}

/// A history of `count` transactions of a store that promises `level` and has a bug, or none.
#[must_use]
pub fn run_model(seed: u64, level: Level, bug: Option<Bug>, count: usize) -> Vec<Transaction> {
    let mut run = Run { draw: Draw::new(seed), level, bug, ..Run::default() };
    let mut threads: [Option<Running>; THREADS] = Default::default();
    while run.history.len() < count {
        let at = run.draw.below(THREADS);
        let running = threads[at].take();
        threads[at] = run.tick(running);
    }
    // The ones that still run are forgotten. All lists as they are at the end.
    let mut last = Running { since: run.lists.clock, begun: run.now(), ..Running::default() };
    (0..KEYS).for_each(|key| run.read(&mut last, key));
    run.end(last, Outcome::Committed);
    run.history
}

struct Run {
    draw: Draw,
    level: Level,
    bug: Option<Bug>,
    lists: Lists,
    history: Vec<Transaction>,
    moments: u64,
    elements: u64,
}

impl Default for Run {
    fn default() -> Self {
        let (draw, level) = (Draw::new(0), Level::Serializable);
        let (lists, history) = (Lists::default(), Vec::new());
        Run { draw, level, bug: None, lists, history, moments: 0, elements: 0 }
    }
}

impl Run {
    fn now(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    /// The next thing that a thread does.
    fn tick(&mut self, running: Option<Running>) -> Option<Running> {
        let Some(mut running) = running else {
            let steps = draw_steps(&mut self.draw, KEYS).into();
            let (since, begun) = (self.lists.clock, self.now());
            return Some(Running { steps, since, begun, ..Running::default() });
        };
        if let Some(rest) = running.rest.take() {
            if !self.draw.one_in(4) {
                return Some(Running { rest: Some(rest), ..running });
            }
            self.lists.write(rest);
            self.end(running, Outcome::Committed);
            return None;
        }
        match running.steps.pop_front() {
            None => return self.commit(running),
            Some(Step::Read(key)) => self.read(&mut running, key),
            Some(Step::Scan) => (0..KEYS).for_each(|key| self.read(&mut running, key)),
            Some(Step::Append(key)) => {
                self.elements += 1;
                let element = self.elements;
                let mut list = self.list(&running, key);
                running.reads.insert(key);
                list.push(element);
                running.writes.insert(key, list);
                running.events.push(Event::Append { key, element });
            }
        }
        Some(running)
    }

    fn list(&self, running: &Running, key: u64) -> Vec<u64> {
        let since =
            if self.bug == Some(Bug::LateSnapshot) { self.lists.clock } else { running.since };
        running.writes.get(&key).cloned().unwrap_or_else(|| self.lists.at(key, since))
    }

    fn read(&mut self, running: &mut Running, key: u64) {
        let elements = self.list(running, key);
        running.reads.insert(key);
        running.events.push(Event::Read { key, elements });
    }

    fn commit(&mut self, mut running: Running) -> Option<Running> {
        let since =
            if self.bug == Some(Bug::LateSnapshot) { self.lists.clock } else { running.since };
        let mut checked: Vec<u64> = match self.level {
            Level::Serializable => running.reads.iter().copied().collect(),
            Level::Snapshot => running.writes.keys().copied().collect(),
        };
        if self.bug == Some(Bug::UncheckedReads) {
            checked.clear();
        }
        let mut writes = std::mem::take(&mut running.writes);
        if !writes.is_empty() && checked.iter().any(|key| self.lists.is_changed(*key, since)) {
            self.end(running, Outcome::Aborted);
            return None;
        }
        if self.bug == Some(Bug::SplitCommit) && writes.len() > 1 {
            let first = writes.pop_first();
            self.lists.write(first);
            running.rest = Some(writes);
            return Some(running);
        }
        if !writes.is_empty() {
            self.lists.write(writes);
        }
        self.end(running, Outcome::Committed);
        None
    }

    fn end(&mut self, running: Running, outcome: Outcome) {
        let (begun, ended) = (running.begun, self.now());
        self.history.push(Transaction { events: running.events, outcome, begun, ended });
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::check;
    use super::super::history::Kind;
    use super::*;
    use crate::random::seeds_or;

    const LEVELS: [Level; 2] = [Level::Serializable, Level::Snapshot];

    fn kinds(seed: u64, level: Level, bug: Option<Bug>) -> BTreeSet<Kind> {
        let history = run_model(seed, level, bug, 400);
        check(&history, level).into_iter().map(|violation| violation.kind).collect()
    }

    #[test]
    fn a_right_store_has_no_violations() {
        for seed in seeds_or(1..=20) {
            for level in LEVELS {
                assert_eq!(kinds(seed, level, None), BTreeSet::new(), "SEED={seed} {level:?}");
            }
        }
    }

    #[test]
    fn snapshot_isolation_is_not_serializable() {
        let skewed = |seed: &u64| {
            let history = run_model(*seed, Level::Snapshot, None, 400);
            let found = check(&history, Level::Serializable);
            assert!(found.iter().all(|it| it.kind == Kind::WriteSkew), "SEED={seed} {found:?}");
            !found.is_empty()
        };
        assert!((1..=20).filter(skewed).count() > 15);
    }

    #[test]
    fn each_bug_is_found_with_every_seed() {
        for seed in seeds_or(1..=20) {
            for level in LEVELS {
                let found = kinds(seed, level, Some(Bug::UncheckedReads));
                assert!(found.iter().any(|kind| *kind >= Kind::IncompatibleOrder), "SEED={seed}");
                let found = kinds(seed, level, Some(Bug::LateSnapshot));
                assert!(!found.is_empty(), "SEED={seed}");
                let found = kinds(seed, level, Some(Bug::SplitCommit));
                assert!(!found.is_empty(), "SEED={seed}");
            }
        }
    }
}
