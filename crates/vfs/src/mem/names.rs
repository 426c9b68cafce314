//! Directory entries as a journal of changes, and which of them a power loss may undo.
//!
//! A change enters at most one entry and removes at most one; a rename does both and is atomic.
//! Changes are kept in the order they were made until a directory sync makes them durable. Four
//! rules say what can survive without what:
//!
//! 1. *One name changes in order.* A change of an entry needs every earlier change of the same
//!    entry.
//! 2. *A directory goes last.* Removing or replacing a directory needs every earlier change inside
//!    it.
//! 3. *Directories move one at a time.* A directory that moves to another parent needs every
//!    earlier change (Linux takes one lock per file system for this). Without it, directories could
//!    end up inside each other.
//! 4. *Nothing moves into the void.* A rename into a directory needs the creation of this
//!    directory and of those above it.
//!
//! Rules 1 to 3 hold for syncs too: making a change durable takes along what it needs. Rule 4 holds
//! for a power loss only. A program that renames a file into a new directory, syncs that one, and
//! forgets the parent, loses the file in our images; one that relies on the file system's kindness
//! here should find out.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::mem::policy::CrashPolicy;
use crate::mix::Mix;

/// The number of a file or directory.
pub(crate) type NodeId = u64;

/// A name in a directory.
pub(crate) type Entry = (NodeId, OsString);

/// One change of the name space.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// The entry that goes, if it still stands for `node`.
    pub(crate) removed: Option<Entry>,
    /// The entry that from now on stands for `node`.
    pub(crate) entered: Option<Entry>,
    /// The file or directory that is named.
    pub(crate) node: NodeId,
    /// The empty directory that ceases to exist, by removal or replacement.
    pub(crate) emptied: Option<NodeId>,
    /// Does a directory move to another parent?
    pub(crate) moves_dir: bool,
}

impl Change {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.removed.iter().chain(&self.entered)
    }

    fn is_in(&self, dir: NodeId) -> bool {
        self.entries().any(|(of, _)| *of == dir)
    }

    fn is_move(&self) -> bool {
        self.removed.is_some() && self.entered.is_some()
    }
}

/// Splits the journal at a sync of `dir`: the changes that become durable, and those that stay.
/// Both keep their order. O(n log n) for n pending changes.
pub(crate) fn split_for_sync(journal: Vec<Change>, dir: NodeId) -> (Vec<Change>, Vec<Change>) {
    let mut synced = vec![false; journal.len()];
    // What the changes synced so far need, walking from the newest change to the oldest.
    let mut entries: BTreeSet<&Entry> = BTreeSet::new();
    let mut emptied: BTreeSet<NodeId> = BTreeSet::new();
    let mut needs_all = false;
    for (change, is_synced) in journal.iter().zip(&mut synced).rev() {
        *is_synced = needs_all
            || change.is_in(dir)
            || change.entries().any(|entry| entries.contains(entry))
            || change.entries().any(|(of, _)| emptied.contains(of));
        if *is_synced {
            entries.extend(change.entries());
            emptied.extend(change.emptied);
            needs_all |= change.moves_dir;
        }
    }
    let mut marks = synced.into_iter();
    journal.into_iter().partition(|_| marks.next().unwrap_or(false))
}

/// The pending changes that one power loss leaves, in order. O(n log n) for n pending changes.
pub(crate) fn survivors<'a>(
    journal: &'a [Change],
    policy: CrashPolicy,
    mix: &mut Mix,
) -> Vec<&'a Change> {
    match policy {
        CrashPolicy::DropAll => Vec::new(),
        CrashPolicy::KeepAll => journal.iter().collect(),
        CrashPolicy::Ordered => {
            let kept = mix.below(journal.len() as u64 + 1);
            journal.iter().take(kept as usize).collect()
        }
        CrashPolicy::Reordered => reordered(journal, mix),
    }
}

/// Tosses a coin for each change that the rules allow to survive.
fn reordered<'a>(journal: &'a [Change], mix: &mut Mix) -> Vec<&'a Change> {
    let mut kept = Vec::new();
    let mut lost_entries: BTreeSet<&Entry> = BTreeSet::new();
    let mut lost_in_dirs: BTreeSet<NodeId> = BTreeSet::new();
    let mut is_all_kept = true;
    let mut unnamed_nodes: BTreeSet<NodeId> = BTreeSet::new();
    for change in journal {
        let moves_into_void =
            change.is_move() && change.entered.iter().any(|(dir, _)| unnamed_nodes.contains(dir));
        let is_possible = !change.entries().any(|entry| lost_entries.contains(entry))
            && !change.emptied.is_some_and(|dir| lost_in_dirs.contains(&dir))
            && (is_all_kept || !change.moves_dir)
            && !moves_into_void;
        let is_kept = is_possible && mix.coin();
        if let Some((dir, _)) = &change.entered
            && !change.is_move()
            && (!is_kept || unnamed_nodes.contains(dir))
        {
            // What is made in a directory without a name has no path either.
            unnamed_nodes.insert(change.node);
        }
        if is_kept {
            kept.push(change);
            continue;
        }
        is_all_kept = false;
        lost_entries.extend(change.entries());
        lost_in_dirs.extend(change.entries().map(|(dir, _)| *dir));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(dir: NodeId, name: &str) -> Option<Entry> {
        Some((dir, name.into()))
    }

    fn create(dir: NodeId, name: &str, node: NodeId) -> Change {
        Change { removed: None, entered: entry(dir, name), node, emptied: None, moves_dir: false }
    }

    fn rename(from: Option<Entry>, to: Option<Entry>, node: NodeId) -> Change {
        Change { removed: from, entered: to, node, emptied: None, moves_dir: false }
    }

    fn nodes(changes: &[Change]) -> Vec<NodeId> {
        changes.iter().map(|change| change.node).collect()
    }

    #[test]
    fn sync_takes_the_directory_and_what_its_changes_need() {
        let journal = vec![
            create(1, "a", 10),
            create(1, "b", 11),
            // Directory 2 is synced; the move out of directory 1 needs the creation of "a" there.
            rename(entry(1, "a"), entry(2, "a"), 10),
            create(3, "c", 12),
        ];
        let (synced, pending) = split_for_sync(journal, 2);
        assert_eq!(nodes(&synced), [10, 10]);
        assert_eq!(nodes(&pending), [11, 12]);
    }

    #[test]
    fn sync_of_a_removed_directory_takes_the_moves_out_of_it() {
        let remove = Change { emptied: Some(5), ..rename(entry(0, "d"), None, 5) };
        let journal = vec![rename(entry(5, "x"), entry(7, "x"), 10), remove];
        let (synced, pending) = split_for_sync(journal, 0);
        assert_eq!((synced.len(), pending.len()), (2, 0));
    }

    #[test]
    fn changes_of_one_name_survive_in_order_only() {
        let journal = [
            create(1, "a", 10),
            rename(entry(1, "a"), entry(1, "b"), 10),
            create(1, "a", 11),
            create(1, "other", 12),
        ];
        let mut seen_other_alone = false;
        for seed in 0..200 {
            let kept = survivors(&journal, CrashPolicy::Reordered, &mut Mix::new(seed));
            let related = kept.iter().filter(|change| change.node != 12).count();
            for (kept, made) in kept.iter().zip(&journal[..related]) {
                assert!(std::ptr::eq(*kept, made), "SEED={seed}");
            }
            seen_other_alone |= related == 0 && kept.len() == 1;
        }
        assert!(seen_other_alone, "an unrelated name survives by itself");
    }

    #[test]
    fn a_move_needs_the_directory_that_it_goes_to() {
        let journal = [create(0, "d", 5), rename(entry(0, "x"), entry(5, "x"), 10)];
        for seed in 0..100 {
            let kept = survivors(&journal, CrashPolicy::Reordered, &mut Mix::new(seed));
            assert!(kept.first().is_none_or(|change| change.node == 5), "SEED={seed}");
        }
    }

    #[test]
    fn a_move_needs_the_directories_above_the_one_that_it_goes_to() {
        let journal =
            [create(0, "d", 5), create(5, "e", 6), rename(entry(0, "x"), entry(6, "x"), 10)];
        for seed in 0..200 {
            let kept = survivors(&journal, CrashPolicy::Reordered, &mut Mix::new(seed));
            let has = |node| kept.iter().any(|change| change.node == node);
            assert!(!has(10) || (has(5) && has(6)), "SEED={seed}: moved into no directory");
        }
    }

    #[test]
    fn a_directory_that_moves_takes_all_earlier_changes_along() {
        // Live: /a/b moves to /b, then /a moves into it. The second move alone would detach both.
        let outward = Change { moves_dir: true, ..rename(entry(1, "b"), entry(0, "b"), 2) };
        let inward = Change { moves_dir: true, ..rename(entry(0, "a"), entry(2, "a"), 1) };
        let journal = vec![outward, inward];
        for seed in 0..50 {
            let kept = survivors(&journal, CrashPolicy::Reordered, &mut Mix::new(seed));
            assert!(kept.first().is_none_or(|change| change.node == 2), "SEED={seed}");
        }
        let (synced, _) = split_for_sync(journal, 2);
        assert_eq!(nodes(&synced), [2, 1]);
    }

    #[test]
    fn ordered_keeps_every_prefix_and_nothing_else() {
        let journal = [create(1, "a", 10), create(1, "b", 11)];
        let mut seen = [false; 3];
        for seed in 0..100 {
            let kept = survivors(&journal, CrashPolicy::Ordered, &mut Mix::new(seed));
            assert!(kept.iter().zip(&journal).all(|(kept, made)| std::ptr::eq(*kept, made)));
            seen[kept.len()] = true;
        }
        assert_eq!(seen, [true; 3]);
    }
}
