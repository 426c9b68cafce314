//! What writers did, step by step, and which of their steps a store shows after a power loss.
//!
//! Each writer has keys of its own, which begin with its prefix. Of each writer, a beginning of its
//! steps must be there: at least those that were synced, at most those that were begun, and each
//! step whole. And what a step saw finished when it began must be there if the step is.

use crate::support::{Model, Write};
use keyrack_flodb::Batch;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes that were one batch. No range ends before it begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) writes: Vec<Write>,
    /// How many steps of each writer had returned when this one began.
    saw: Vec<usize>,
}

impl Step {
    pub(crate) fn batch(&self) -> Batch {
        let mut batch = Batch::new();
        self.writes.iter().for_each(|write| write.add_to(&mut batch));
        batch
    }

    fn apply(&self, model: &mut Model) {
        self.writes.iter().for_each(|write| write.apply(model));
    }

    /// The keys that it names, and those of `found` and `others` in its ranges.
    fn touched(&self, found: &Model, others: &BTreeSet<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut touched = Vec::new();
        for write in &self.writes {
            match write {
                Write::Put(key, _)
                | Write::PutUntil(key, ..)
                | Write::Merge(key, _)
                | Write::Delete(key) => {
                    touched.push(key.clone());
                }
                Write::DeleteRange(from, to) => {
                    touched.extend(found.range(from.clone()..to.clone()).map(|row| row.0.clone()));
                    touched.extend(others.range(from.clone()..to.clone()).cloned());
                }
            }
        }
        touched
    }
}

struct Writer {
    prefix: Vec<u8>,
    steps: Mutex<Vec<Step>>,
    /// Steps that returned.
    returned: AtomicUsize,
    /// Steps that are durable.
    synced: AtomicUsize,
    /// The content after so many steps; nobody asks about earlier ones any more.
    settled: Mutex<(usize, Model)>,
}

/// The steps of all writers.
pub(crate) struct Journal {
    writers: Vec<Writer>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Writers with these prefixes, who find `base`.
    pub(crate) fn new(base: &Model, prefixes: &[&str]) -> Self {
        let writer = |prefix: &&str| {
            let prefix = prefix.as_bytes().to_vec();
            let own = base.iter().filter(|(key, _)| key.starts_with(&prefix));
            let own = own.map(|(key, value)| (key.clone(), value.clone())).collect();
            Writer {
                prefix,
                steps: Mutex::default(),
                returned: AtomicUsize::new(0),
                synced: AtomicUsize::new(0),
                settled: Mutex::new((0, own)),
            }
        };
        Journal { writers: prefixes.iter().map(writer).collect() }
    }

    /// Notes what `writer` is about to do.
    pub(crate) fn begin(&self, writer: usize, writes: Vec<Write>) -> Step {
        let step = Step { writes, saw: self.returned() };
        lock(&self.writers[writer].steps).push(step.clone());
        step
    }

    /// The last step that `writer` began was refused: nothing of it was done.
    pub(crate) fn withdraw(&self, writer: usize) {
        lock(&self.writers[writer].steps).pop();
    }

    /// The last step of `writer` has returned.
    pub(crate) fn returned_from(&self, writer: usize) {
        self.writers[writer].returned.fetch_add(1, Ordering::AcqRel);
    }

    /// These steps of each writer are durable.
    pub(crate) fn synced_up_to(&self, counts: &[usize]) {
        for (writer, count) in self.writers.iter().zip(counts) {
            writer.synced.fetch_max(*count, Ordering::AcqRel);
        }
    }

    pub(crate) fn begun(&self) -> Vec<usize> {
        self.writers.iter().map(|writer| lock(&writer.steps).len()).collect()
    }

    pub(crate) fn returned(&self) -> Vec<usize> {
        self.writers.iter().map(|writer| writer.returned.load(Ordering::Acquire)).collect()
    }

    pub(crate) fn synced(&self) -> Vec<usize> {
        self.writers.iter().map(|writer| writer.synced.load(Ordering::Acquire)).collect()
    }

    /// Forgets the steps behind these counts: they are lost, and no power loss brings them back.
    pub(crate) fn cut(&self, counts: &[usize]) {
        for (writer, count) in self.writers.iter().zip(counts) {
            lock(&writer.steps).truncate(*count);
            writer.returned.store(*count, Ordering::Release);
        }
    }

    /// No lower bound below what is synced now will come any more.
    pub(crate) fn settle(&self) {
        for (writer, synced) in self.writers.iter().zip(self.synced()) {
            let steps = lock(&writer.steps);
            let mut settled = lock(&writer.settled);
            let (count, model) = &mut *settled;
            steps[*count..synced].iter().for_each(|step| step.apply(model));
            *count = synced;
        }
    }

    /// How many steps of each writer `found` shows, the least that explain it.
    pub(crate) fn find(
        &self,
        found: &Model,
        at_least: &[usize],
        at_most: &[usize],
    ) -> Result<Vec<usize>, String> {
        let mut rest = found.len();
        let mut matches = Vec::new();
        for (index, writer) in self.writers.iter().enumerate() {
            let own = |key: &Vec<u8>| key.starts_with(&writer.prefix);
            rest -= found.keys().filter(|key| own(key)).count();
            let steps = lock(&writer.steps).clone();
            let (settled, mut model) = lock(&writer.settled).clone();
            let count = at_least[index];
            steps[settled..count].iter().for_each(|step| step.apply(&mut model));
            let keys = model.keys().chain(found.keys().filter(|key| own(key)));
            let unequal = keys.filter(|key| model.get(*key) != found.get(*key));
            let mut unequal: BTreeSet<Vec<u8>> = unequal.cloned().collect();
            let mut fits = Vec::new();
            let mut distances = vec![unequal.len()];
            if unequal.is_empty() {
                fits.push(count);
            }
            for (at, step) in steps.iter().enumerate().take(at_most[index]).skip(count) {
                step.apply(&mut model);
                for key in step.touched(found, &unequal) {
                    if model.get(&key) == found.get(&key) {
                        unequal.remove(&key);
                    } else {
                        unequal.insert(key);
                    }
                }
                distances.push(unequal.len());
                if unequal.is_empty() {
                    fits.push(at + 1);
                }
            }
            let (Some(first), Some(last)) = (fits.first(), fits.last()) else {
                return Err(format!(
                    "writer {index}: no state from step {} to {} is there; keys that differ from \
                     each: {distances:?}; {}",
                    at_least[index],
                    at_most[index],
                    self.difference(index, found, at_least[index])
                ));
            };
            matches.push((*first, *last));
        }
        if rest > 0 {
            return Err(format!("{rest} keys that nobody wrote"));
        }
        for (index, (writer, (first, _))) in self.writers.iter().zip(&matches).enumerate() {
            let Some(last_step) = first.checked_sub(1) else { continue };
            for (other, saw) in lock(&writer.steps)[last_step].saw.iter().enumerate() {
                if *saw > matches[other].1 {
                    return Err(format!(
                        "step {first} of writer {index} is there, but of writer {other} only {} \
                         steps of the {saw} before it",
                        matches[other].1
                    ));
                }
            }
        }
        Ok(matches.into_iter().map(|(first, _)| first).collect())
    }

    /// Some keys that are not as the lower bound has them.
    fn difference(&self, index: usize, found: &Model, at_least: usize) -> String {
        let writer = &self.writers[index];
        let (settled, mut model) = lock(&writer.settled).clone();
        let steps = &lock(&writer.steps)[settled..at_least];
        steps.iter().for_each(|step| step.apply(&mut model));
        let short = |value: Option<&Vec<u8>>| {
            value.map(|value| String::from_utf8_lossy(&value[..value.len().min(12)]).into_owned())
        };
        let own = found.keys().filter(|key| key.starts_with(&writer.prefix));
        let keys: BTreeSet<_> = model.keys().chain(own).collect();
        let differ = keys.into_iter().filter(|key| model.get(*key) != found.get(*key)).take(5);
        let rows = differ.map(|key| {
            let name = String::from_utf8_lossy(key).into_owned();
            format!("{name}: {:?} for {:?}", short(found.get(key)), short(model.get(key)))
        });
        rows.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Vec<Write> {
        vec![Write::Put(key.into(), value.into())]
    }

    fn model(rows: &[(&str, &str)]) -> Model {
        rows.iter().map(|(key, value)| (key.as_bytes().into(), value.as_bytes().into())).collect()
    }

    /// The journal itself sees what it is there to see.
    #[test]
    fn lost_torn_reordered_and_resurrected_steps_are_seen() {
        let journal = Journal::new(&model(&[("a0", "base")]), &["a", "b"]);
        let step = |writer, writes| {
            journal.begin(writer, writes);
            journal.returned_from(writer);
        };
        step(0, [put("a1", "1"), put("a2", "1")].concat());
        step(1, put("b1", "1"));
        step(0, vec![Write::DeleteRange(b"a1".to_vec(), b"a2".to_vec())]);
        let all = model(&[("a0", "base"), ("a2", "1"), ("b1", "1")]);
        let find = |found: &Model, floor: [usize; 2]| journal.find(found, &floor, &[2, 1]);
        assert_eq!(find(&all, [0, 0]).unwrap(), [2, 1]);
        let base = model(&[("a0", "base")]);
        assert_eq!(find(&base, [0, 0]).unwrap(), [0, 0]);
        let without_first = model(&[("a0", "base"), ("b1", "1")]);
        assert!(find(&without_first, [0, 0]).unwrap_err().contains("only 0 steps of the 1"));
        let torn = model(&[("a0", "base"), ("a1", "1")]);
        assert!(find(&torn, [0, 0]).unwrap_err().contains("no state"));
        let strange = model(&[("a0", "base"), ("c", "1")]);
        assert!(find(&strange, [0, 0]).unwrap_err().contains("nobody wrote"));
        assert!(find(&base, [1, 0]).unwrap_err().contains("no state"), "lost what was synced");
        let back = model(&[("a0", "base"), ("a1", "1"), ("a2", "1"), ("b1", "1")]);
        assert_eq!(find(&back, [1, 0]).unwrap(), [1, 1], "not synced yet");
        assert!(find(&back, [2, 0]).unwrap_err().contains("no state"), "a removal was undone");
    }
}
