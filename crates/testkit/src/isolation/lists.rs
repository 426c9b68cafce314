//! The lists of a history: the order of the writes of each key, and what each read has seen.

use super::graph::{Edge, Graph};
use super::history::{Event, Kind, Outcome, Transaction, Violation};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A read of a list as others have left it.
struct Seen {
    transaction: usize,
    key: u64,
    elements: Vec<u64>,
}

pub(super) struct Lists {
    /// The transaction that has appended each element, of whatever outcome.
    writers: HashMap<u64, usize>,
    /// The longest list that was read of each key.
    longest: BTreeMap<u64, Vec<u64>>,
    seen: Vec<Seen>,
    /// Whether each transaction counts as committed.
    pub(super) counted: Vec<bool>,
    pub(super) violations: Vec<Violation>,
}

fn violation(kind: Kind, transactions: Vec<usize>, what: String) -> Violation {
    Violation { kind, transactions, what }
}

impl Lists {
    pub(super) fn of(history: &[Transaction]) -> Self {
        let mut writers = HashMap::new();
        for (at, transaction) in history.iter().enumerate() {
            for event in &transaction.events {
                if let Event::Append { element, .. } = event {
                    assert!(writers.insert(*element, at).is_none(), "{element} is appended twice");
                }
            }
        }
        let counted = counted(history, &writers);
        let mut lists = Lists {
            writers,
            longest: BTreeMap::new(),
            seen: Vec::new(),
            counted,
            violations: Vec::new(),
        };
        for (at, transaction) in history.iter().enumerate() {
            if lists.counted[at] {
                lists.follow(at, transaction);
            }
        }
        lists.find_longest();
        lists.check_reads(history);
        lists.find_lost(history);
        lists
    }

    /// Takes what a transaction has seen of others, and compares the rest with what it has done.
    fn follow(&mut self, at: usize, transaction: &Transaction) {
        // Of each key: the list that the transaction has found, if known, and its own elements.
        let mut known: HashMap<u64, (Option<Vec<u64>>, Vec<u64>)> = HashMap::new();
        for event in &transaction.events {
            match event {
                Event::Append { key, element } => known.entry(*key).or_default().1.push(*element),
                Event::Read { key, elements } => {
                    let (found, own) = known.entry(*key).or_default();
                    let Some(others) = elements.strip_suffix(&own[..]) else {
                        let what = format!("key {key}: {elements:?} without its own {own:?}");
                        self.violations.push(violation(Kind::Internal, vec![at], what));
                        continue;
                    };
                    match found {
                        Some(found) if found != others => {
                            let what = format!("key {key}: {found:?}, and then {others:?}");
                            self.violations.push(violation(Kind::Internal, vec![at], what));
                        }
                        Some(_) => {}
                        None => {
                            *found = Some(others.to_vec());
                            let elements = others.to_vec();
                            self.seen.push(Seen { transaction: at, key: *key, elements });
                        }
                    }
                }
            }
        }
    }

    fn find_longest(&mut self) {
        for seen in &self.seen {
            let longest = self.longest.entry(seen.key).or_default();
            if seen.elements.len() > longest.len() {
                longest.clone_from(&seen.elements);
            }
        }
    }

    fn check_reads(&mut self, history: &[Transaction]) {
        let mut found = Vec::new();
        for (key, list) in &self.longest {
            let distinct: HashSet<&u64> = list.iter().collect();
            if distinct.len() < list.len() {
                found.push(violation(
                    Kind::Garbage,
                    vec![],
                    format!("key {key}: twice in {list:?}"),
                ));
            }
        }
        for Seen { transaction, key, elements } in &self.seen {
            let (at, key) = (*transaction, *key);
            if !self.longest[&key].starts_with(elements) {
                let what = format!("key {key}: {elements:?} and {:?}", self.longest[&key]);
                found.push(violation(Kind::IncompatibleOrder, vec![at], what));
            }
            for element in elements {
                match self.writers.get(element) {
                    None => {
                        let what = format!("key {key}: {element}, which nobody has appended");
                        found.push(violation(Kind::Garbage, vec![at], what));
                    }
                    Some(writer) if history[*writer].outcome == Outcome::Aborted => {
                        let what = format!("key {key}: {element} of an aborted transaction");
                        found.push(violation(Kind::AbortedRead, vec![at, *writer], what));
                    }
                    Some(_) => {}
                }
            }
            found.extend(self.intermediate(history, at, key, elements));
        }
        self.violations.extend(found);
    }

    /// Finds committed appends that are in no list, though a later transaction has read their keys.
    fn find_lost(&mut self, history: &[Transaction]) {
        // Of each key, the reader that began last, and when.
        let mut last_reads: HashMap<u64, (u64, usize)> = HashMap::new();
        for Seen { transaction, key, .. } in &self.seen {
            let read = (history[*transaction].begun, *transaction);
            let last = last_reads.entry(*key).or_insert(read);
            *last = read.max(*last);
        }
        let lists = self.longest.iter();
        let shown: HashSet<(u64, u64)> =
            lists.flat_map(|(key, list)| list.iter().map(|element| (*key, *element))).collect();
        for (at, transaction) in history.iter().enumerate() {
            if transaction.outcome != Outcome::Committed {
                continue;
            }
            for event in &transaction.events {
                let Event::Append { key, element } = event else { continue };
                let Some((begun, reader)) = last_reads.get(key) else { continue };
                if *begun > transaction.ended && !shown.contains(&(*key, *element)) {
                    let what = format!("key {key}: {element} was committed, and is in no list");
                    self.violations.push(violation(Kind::LostWrite, vec![at, *reader], what));
                }
            }
        }
    }

    /// Whether a list ends among the elements that one transaction appends.
    fn intermediate(
        &self,
        history: &[Transaction],
        at: usize,
        key: u64,
        elements: &[u64],
    ) -> Option<Violation> {
        let last = elements.last()?;
        let writer = *self.writers.get(last)?;
        let of_key = history[writer].events.iter().rev().find_map(|event| match event {
            Event::Append { key: other, element } if *other == key => Some(*element),
            _ => None,
        });
        if of_key == Some(*last) {
            return None;
        }
        let what = format!("key {key}: {elements:?} has a part of what was appended");
        Some(violation(Kind::IntermediateRead, vec![at, writer], what))
    }

    pub(super) fn add_edges(&self, graph: &mut Graph) {
        for list in self.longest.values() {
            for pair in list.windows(2) {
                if let (Some(one), Some(other)) = (self.writer(pair[0]), self.writer(pair[1])) {
                    graph.add(one, other, Edge::Overwrites);
                }
            }
        }
        for Seen { transaction, key, elements } in &self.seen {
            if let Some(writer) = elements.last().and_then(|last| self.writer(*last)) {
                graph.add(writer, *transaction, Edge::Reads);
            }
            let next = self.longest[key].get(elements.len());
            if let Some(writer) = next.and_then(|next| self.writer(*next)) {
                graph.add(*transaction, writer, Edge::ReadBefore);
            }
        }
    }

    fn writer(&self, element: u64) -> Option<usize> {
        self.writers.get(&element).copied()
    }
}

/// Which transactions count: those that are committed, and unknown ones that somebody has seen.
fn counted(history: &[Transaction], writers: &HashMap<u64, usize>) -> Vec<bool> {
    let mut counted: Vec<bool> =
        history.iter().map(|transaction| transaction.outcome == Outcome::Committed).collect();
    let mut left: Vec<usize> = (0..history.len()).filter(|at| counted[*at]).collect();
    while let Some(at) = left.pop() {
        for event in &history[at].events {
            let Event::Read { elements, .. } = event else { continue };
            for writer in elements.iter().filter_map(|element| writers.get(element)) {
                if history[*writer].outcome == Outcome::Unknown && !counted[*writer] {
                    counted[*writer] = true;
                    left.push(*writer);
                }
            }
        }
    }
    counted
}
