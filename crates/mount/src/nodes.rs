//! The numbers that the kernel has for files, and what they stand for.
//!
//! The kernel names a file by a number that a lookup gave it, as long as it has not forgotten it.
//! Calls on name spaces take a directory and a name; so each number has these, and a rename changes
//! them. A file with several names is called by its number in the log: the kernel may not know all
//! of its names, and goes on with the file when those that it knows go. A file that is removed
//! while it is open keeps its bytes here until it is closed.

use keyrack_deltafs::{Dir, Inode, LargeFile, LinkedFile, Stat};
use std::collections::HashMap;

/// The number of the root.
pub(crate) const ROOT: u64 = 1;

/// Something that the kernel knows.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) inode: Inode,
    pub(crate) location: Location,
    /// Replies that gave it, less what was forgotten.
    lookups: u64,
    /// Handles of it.
    pub(crate) opens: u64,
}

/// Where something is.
#[derive(Clone, Debug)]
pub(crate) enum Location {
    /// A directory.
    Dir(Dir),
    /// An entry of a directory: a file or a symbolic link.
    Entry(Dir, Vec<u8>),
    /// A file or a symbolic link with hard links, whatever they are called.
    Linked(LinkedFile),
    /// Nowhere: it was removed.
    Removed(Removed),
}

/// A file without a name.
#[derive(Clone, Debug)]
pub(crate) struct Removed {
    pub(crate) stat: Stat,
    pub(crate) bytes: RemovedBytes,
}

/// Its bytes.
#[derive(Clone, Debug)]
pub(crate) enum RemovedBytes {
    Memory(Vec<u8>),
    /// Those that the name had. They are only read: lower logs may share them.
    Shared(LargeFile),
    /// A file of its own.
    File(LargeFile),
}

/// All that the kernel knows.
#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: HashMap<u64, Node>,
}

impl Nodes {
    pub(crate) fn new(root: &Dir) -> Nodes {
        let location = Location::Dir(root.clone());
        let node = Node { inode: root.inode(), location, lookups: 1, opens: 0 };
        Nodes { nodes: HashMap::from([(ROOT, node)]) }
    }

    /// The number of a file: of its own number 64 bits, or the next that is free if another has
    /// them, which hardly ever happens.
    pub(crate) fn number(&self, inode: Inode) -> u64 {
        let mut number = inode.short();
        loop {
            let is_taken = match self.nodes.get(&number) {
                Some(node) => node.inode != inode,
                None => number <= ROOT,
            };
            if !is_taken {
                return number;
            }
            number = number.wrapping_add(1);
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&number)
    }

    /// Notes that the kernel is told of a file that is at `location`. Returns its number.
    pub(crate) fn add_lookup(&mut self, inode: Inode, location: Location) -> u64 {
        let number = self.number(inode);
        let node = self.nodes.entry(number).or_insert_with(|| Node {
            inode,
            location: location.clone(),
            lookups: 0,
            opens: 0,
        });
        node.lookups += 1;
        node.location = location;
        number
    }

    /// The kernel forgets so many replies.
    pub(crate) fn forget(&mut self, number: u64, count: u64) {
        if number == ROOT {
            return;
        }
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(count);
            if node.lookups == 0 {
                self.nodes.remove(&number);
            }
        }
    }

    /// An entry has another place.
    pub(crate) fn moved(&mut self, inode: Inode, location: Location) {
        let number = self.number(inode);
        if let Some(node) = self.nodes.get_mut(&number) {
            node.location = location;
        }
    }

    /// Whether somebody has the file open.
    pub(crate) fn is_open(&self, inode: Inode) -> bool {
        self.nodes.get(&self.number(inode)).is_some_and(|node| node.opens > 0)
    }
}
