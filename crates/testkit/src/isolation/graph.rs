//! The graph of a history, and its worst cycles.

use super::history::{Kind, Transaction, Violation};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Why one transaction comes before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edge {
    /// It had ended before the other one began: `rt`.
    RealTime,
    /// The other one has written over it: `ww`.
    Overwrites,
    /// The other one has read it: `wr`.
    Reads,
    /// It has read what the other one has written over: `rw`.
    ReadBefore,
}

impl Edge {
    fn name(self) -> &'static str {
        match self {
            Edge::RealTime => "rt",
            Edge::Overwrites => "ww",
            Edge::Reads => "wr",
            Edge::ReadBefore => "rw",
        }
    }
}

pub(super) struct Graph {
    /// Of each transaction, the ones that come after it.
    next: Vec<BTreeSet<(usize, Edge)>>,
}

impl Graph {
    pub(super) fn new(transactions: usize) -> Self {
        Graph { next: vec![BTreeSet::new(); transactions] }
    }

    pub(super) fn add(&mut self, one: usize, other: usize, edge: Edge) {
        if one != other {
            self.next[one].insert((other, edge));
        }
    }

    /// Adds the order of those that did not overlap. Of the ones that had ended, a transaction gets
    /// edges from those alone that come directly before it.
    pub(super) fn add_real_time(&mut self, history: &[Transaction], counted: &[bool]) {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (at, transaction) in history.iter().enumerate().filter(|(at, _)| counted[*at]) {
            moments.push((transaction.begun, false, at));
            moments.push((transaction.ended, true, at));
        }
        moments.sort_unstable();
        let mut last: BTreeSet<usize> = BTreeSet::new();
        let mut before: HashMap<usize, BTreeSet<usize>> = HashMap::new();
        for (_, is_end, at) in moments {
            if is_end {
                let before = before.remove(&at).unwrap_or_default();
                last.retain(|other| !before.contains(other));
                last.insert(at);
            } else {
                last.iter().for_each(|other| self.add(*other, at, Edge::RealTime));
                before.insert(at, last.clone());
            }
        }
    }

    fn edges(&self, at: usize) -> impl Iterator<Item = (usize, Edge)> {
        self.next[at].iter().copied()
    }

    /// The strongly connected parts with more than one transaction (Tarjan, 1972, without
    /// recursion).
    fn components(&self) -> Vec<BTreeSet<usize>> {
        const UNSEEN: usize = usize::MAX;
        let count = self.next.len();
        let (mut index, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let (mut stack, mut is_on_stack) = (Vec::new(), vec![false; count]);
        let (mut clock, mut found) = (0, Vec::new());
        for root in 0..count {
            let mut work = vec![(root, self.edges(root).collect::<Vec<_>>())];
            if index[root] != UNSEEN {
                continue;
            }
            while let Some((at, edges)) = work.last_mut() {
                let at = *at;
                if index[at] == UNSEEN {
                    (index[at], low[at]) = (clock, clock);
                    clock += 1;
                    stack.push(at);
                    is_on_stack[at] = true;
                }
                if let Some((next, _)) = edges.pop() {
                    if index[next] == UNSEEN {
                        work.push((next, self.edges(next).collect()));
                    } else if is_on_stack[next] {
                        low[at] = low[at].min(index[next]);
                    }
                    continue;
                }
                work.pop();
                if let Some((parent, _)) = work.last() {
                    low[*parent] = low[*parent].min(low[at]);
                }
                if low[at] == index[at] {
                    let begin = stack.iter().rposition(|other| *other == at);
                    let begin = begin.expect("it is on the stack");
                    let part: BTreeSet<usize> = stack.drain(begin..).collect();
                    part.iter().for_each(|other| is_on_stack[*other] = false);
                    if part.len() > 1 {
                        found.push(part);
                    }
                }
            }
        }
        found
    }

    /// The shortest cycle in a part whose first edge is `first`, and whose others are `others`. If
    /// `alternates`, edges of the first sort may come again, but not one after the other.
    fn cycle(
        &self,
        part: &BTreeSet<usize>,
        first: &[Edge],
        others: &[Edge],
        alternates: bool,
    ) -> Option<Vec<(usize, Edge)>> {
        for start in part {
            let begins = self.edges(*start).filter(|(_, edge)| first.contains(edge));
            for (second, edge) in begins.filter(|(second, _)| part.contains(second)) {
                let steps = self.path((second, true), *start, (part, first, others, alternates));
                if let Some(steps) = steps {
                    return Some([vec![(*start, edge)], steps].concat());
                }
            }
        }
        None
    }

    /// The steps of the shortest way from a transaction, and whether the edge to it was of the
    /// first sort, back to `end`.
    fn path(
        &self,
        from: (usize, bool),
        end: usize,
        (part, first, others, alternates): (&BTreeSet<usize>, &[Edge], &[Edge], bool),
    ) -> Option<Vec<(usize, Edge)>> {
        type Place = (usize, bool);
        let mut came: HashMap<Place, (Place, Edge)> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(place) = queue.pop_front() {
            let (at, was_first) = place;
            for (next, edge) in self.edges(at).filter(|(next, _)| part.contains(next)) {
                let is_first = !others.contains(&edge);
                if is_first && (!alternates || was_first || !first.contains(&edge)) {
                    continue;
                }
                if next == end && !is_first {
                    let mut steps = vec![(at, edge)];
                    let mut place = place;
                    while place != from {
                        let (before, edge) = came[&place];
                        steps.push((before.0, edge));
                        place = before;
                    }
                    steps.reverse();
                    return Some(steps);
                }
                if next != end && (next, is_first) != from && !came.contains_key(&(next, is_first))
                {
                    came.insert((next, is_first), (place, edge));
                    queue.push_back((next, is_first));
                }
            }
        }
        None
    }
}

/// The worst cycle of each strongly connected part.
pub(super) fn cycles(graph: &Graph) -> Vec<Violation> {
    use Edge::{Overwrites, ReadBefore, Reads, RealTime};
    let all = [RealTime, Overwrites, Reads, ReadBefore];
    let worst = |part: &BTreeSet<usize>| {
        let sorts: [(Kind, &[Edge], &[Edge], bool); 5] = [
            (Kind::DirtyWrite, &[Overwrites], &[Overwrites, RealTime], false),
            (Kind::CircularFlow, &[Reads], &[Reads, Overwrites, RealTime], false),
            (Kind::ReadSkew, &[ReadBefore], &[Reads, Overwrites, RealTime], false),
            (Kind::LongFork, &[ReadBefore], &[Reads, Overwrites, RealTime], true),
            (Kind::WriteSkew, &all, &all, false),
        ];
        let found = sorts.into_iter().find_map(|(kind, first, others, alternates)| {
            Some((kind, graph.cycle(part, first, others, alternates)?))
        });
        let (kind, steps) = found.expect("a connected part has a cycle");
        let step = |(at, edge): &(usize, Edge)| format!("T{at} -{}-> ", edge.name());
        let what: String = steps.iter().map(step).collect();
        let what = format!("{what}T{}", steps[0].0);
        Violation { kind, transactions: steps.into_iter().map(|(at, _)| at).collect(), what }
    };
    graph.components().iter().map(worst).collect()
}
