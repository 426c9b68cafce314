//! Scans over a range of keys, in either direction, beside concurrent writers.
//!
//! A scan copies one border node after the other along its path (`path.rs`), and visits the entries
//! without any lock. If a node of the path has changed, it continues from the root, after the last
//! key that was visited; what came before it is not visited again.
//!
//! The scan pins again for each node, so that it does not delay the reclamation of removed memory.
//! The lines of the next nodes, and the cells of the current one, are prefetched before the entries
//! are visited.

use crate::path::{At, Copy, Direction, Path};
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, pin};
use std::ops::ControlFlow;

/// Gets key, value and the guard under which the value may be read.
type Visit<'v> = dyn FnMut(&[u8], u64, &Guard) -> ControlFlow<()> + 'v;

/// Visits `low <= key < high` upward.
pub(crate) fn ascend(shape: &Shape, low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>) -> u64 {
    Scan::new(shape, Direction::Up).run(Some(low), high, visit)
}

/// Visits `low <= key < high` downward.
pub(crate) fn descend(
    shape: &Shape,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> u64 {
    Scan::new(shape, Direction::Down).run(high, Some(low), visit)
}

struct Scan<'t> {
    guard: Guard,
    path: Path<'t>,
    /// The key that was read last.
    key: Vec<u8>,
    /// The key visited last, once the scan has begun anew.
    last: Option<Vec<u8>>,
    visited: u64,
}

impl<'t> Scan<'t> {
    fn new(shape: &'t Shape, direction: Direction) -> Self {
        let path = Path::new(shape, direction);
        Scan { guard: pin(), path, key: Vec::with_capacity(64), last: None, visited: 0 }
    }

    /// Visits the keys from `start` to `end`, in the direction of the scan. Returns how many.
    fn run(&mut self, start: Option<&[u8]>, end: Option<&[u8]>, visit: &mut Visit<'_>) -> u64 {
        let mut backoff = Backoff::new();
        while let ControlFlow::Continue(()) = self.pass(start, end, visit) {
            backoff.wait();
        }
        self.visited
    }

    /// From the start, or after the key visited last, until all is done or a node has changed.
    fn pass(
        &mut self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let direction = self.path.direction;
        let last = self.last.clone();
        // Keys that are not inside yet come before the scan.
        let mut inside = false;
        let is_inside = |key: &[u8]| match (&last, direction) {
            (Some(last), Direction::Up) => key > &last[..],
            (Some(last), Direction::Down) => key < &last[..],
            (None, Direction::Up) => start.is_none_or(|start| key >= start),
            (None, Direction::Down) => start.is_none_or(|start| key < start),
        };
        let is_beyond = |key: &[u8]| match direction {
            Direction::Up => end.is_some_and(|end| key >= end),
            Direction::Down => end.is_some_and(|end| key < end),
        };
        let mut at = self.path.seek(last.as_deref().or(start));
        loop {
            let copy = match at {
                At::Border(border, version) => {
                    self.guard.repin();
                    Copy::of(border, version, &self.guard)
                }
                At::End => return ControlFlow::Break(()),
                At::Changed => None,
            };
            let Some(copy) = copy else { return self.keep_last(inside) };
            self.path.prefetch(&copy);
            let entries = copy.entries();
            for at in 0..entries.len() {
                let index = if direction == Direction::Up { at } else { entries.len() - 1 - at };
                let entry = &entries[index];
                if index == copy.middle() {
                    self.path.prefetch_below(&copy);
                }
                let read = self.path.read(entry, at == 0, &mut self.key, &self.guard);
                let Some(value) = read else { return self.keep_last(inside) };
                inside = inside || is_inside(&self.key);
                if inside {
                    if is_beyond(&self.key) {
                        return ControlFlow::Break(());
                    }
                    self.visited += 1;
                    visit(&self.key, value, &self.guard)?;
                }
            }
            at = self.path.next();
        }
    }

    /// Keeps the key visited last, which is that read last if the pass has come inside the scan.
    fn keep_last(&mut self, inside: bool) -> ControlFlow<()> {
        if inside {
            self.last = Some(self.key.clone());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    /// This holds for any number of passes, with or without visits in between.
    #[test]
    fn a_scan_continues_after_the_last_key_that_it_visited() {
        for direction in [Direction::Up, Direction::Down] {
            let mut tree = Tree::<u64>::new();
            let put = |key: &[u8]| assert!(tree.insert(key, 0, &pin()).is_none());
            let mut keys = vec![b"before".to_vec(), b"zz, after".to_vec()];
            keys.extend((0..40).map(|n: u8| [&b"of one beginning: "[..], &[n]].concat()));
            keys.iter().for_each(|key| put(key));
            keys.sort();
            if direction == Direction::Down {
                keys.reverse();
            }
            let mut scan = Scan::new(&tree.shape, direction);
            let mut seen = Vec::new();
            let first = scan.pass(None, None, &mut |key, _, _| {
                seen.push(key.to_vec());
                if seen.len() == 1 {
                    // The root, which has the layer as a child, gets another one.
                    put(b"of one gap");
                }
                ControlFlow::Continue(())
            });
            assert!(first.is_continue(), "the root has changed");
            for _ in 0..2 {
                assert_eq!(scan.last.as_ref(), Some(&keys[0]));
                // It has read one that was visited, which may be another one than the last.
                scan.key = b"a key".to_vec();
                assert!(scan.keep_last(false).is_continue(), "a pass that came to no key");
            }
            let rest = scan.pass(None, None, &mut |key, _, _| {
                seen.push(key.to_vec());
                ControlFlow::Continue(())
            });
            assert!(rest.is_break(), "all is done");
            seen.retain(|key| key != b"of one gap");
            assert_eq!((seen.len(), scan.visited), (keys.len(), keys.len() as u64 + 1));
            assert_eq!(seen, keys);
            tree.check().unwrap();
        }
    }
}
