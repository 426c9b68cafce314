//! The simulated disk: files and directories by number, and the two views of the name space.
//!
//! ```text
//!   live entries     --- what a running process sees
//!   durable entries  --- what the disk holds
//!   journal          --- the changes that lead from durable to live, oldest first
//! ```
//!
//! A node (file or directory) stays as long as anything refers to it: a live entry or an open
//! handle (counted as `live`), a durable entry or a pending change (counted as `durable`). Without
//! live references its pages count as free space, yet a power loss may still bring its name back.
//!
//! Errors are plain error numbers here; the layer above knows the paths. **Invariant:**
//! `used_pages` is the sum of the live pages of all files with live references.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::io::Errno;

use crate::fs::OpenOptions;
use crate::mem::content::{Budget, Content, Loss, PAGE_BYTES};
use crate::mem::names::{Change, Entry, NodeId, split_for_sync, survivors};
use crate::mem::policy::{CrashPolicy, FailedSync};
use crate::mix::Mix;

/// A result whose error is the system's number alone.
pub(crate) type Raw<T> = Result<T, Errno>;

/// The root directory.
pub(crate) const ROOT: NodeId = 0;
/// Bytes of a name, as on every common file system.
const NAME_BYTES_MAX: usize = 255;
/// Largest file length and offset, in bytes.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// The entries of a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dir {
    pub(crate) live: BTreeMap<OsString, NodeId>,
    durable: BTreeMap<OsString, NodeId>,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    File(Content),
    Dir(Dir),
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) body: Body,
    /// Number of the last change of the content.
    pub(crate) modified: u64,
    pub(crate) is_locked: bool,
    /// Ends of the live mappings.
    pub(crate) mapped_ends: Vec<u64>,
    live: usize,
    durable: usize,
}

impl Node {
    fn new(body: Body, modified: u64) -> Self {
        let mapped_ends = Vec::new();
        Self { body, modified, is_locked: false, mapped_ends, live: 0, durable: 0 }
    }

    /// What a power loss leaves of the content; entries are left to the caller.
    fn crash(&self, id: NodeId, seed: u64, policy: CrashPolicy) -> Self {
        let body = match &self.body {
            Body::Dir(_) => Body::Dir(Dir::default()),
            // Each file has its own sequence, so that its fate does not depend on the other files.
            Body::File(content) => {
                let own_seed = Mix::new(seed ^ Mix::new(id).next()).next();
                Body::File(content.crash(policy, &mut Mix::new(own_seed)))
            }
        };
        Self::new(body, self.modified)
    }

    fn live_pages(&self) -> u64 {
        match &self.body {
            Body::File(content) => content.live_pages(),
            Body::Dir(_) => 0,
        }
    }
}

/// Everything on one simulated disk.
#[derive(Debug, Clone)]
pub(crate) struct State {
    nodes: BTreeMap<NodeId, Node>,
    next_id: NodeId,
    changes: u64,
    journal: Vec<Change>,
    used_pages: u64,
    pub(crate) capacity_pages: u64,
    pub(crate) failed_sync: FailedSync,
    /// Can files be mapped past the page cache?
    pub(crate) maps_direct: bool,
    /// Failed syncs that were drawn from a seed.
    failed_syncs: u64,
    pub(crate) names_given: u64,
}

impl State {
    /// An empty disk.
    pub(crate) fn new(capacity_pages: u64) -> Self {
        let mut root = Node::new(Body::Dir(Dir::default()), 0);
        (root.live, root.durable) = (1, 1);
        Self {
            nodes: BTreeMap::from([(ROOT, root)]),
            next_id: ROOT + 1,
            changes: 0,
            journal: Vec::new(),
            used_pages: 0,
            capacity_pages,
            failed_sync: FailedSync::Dropped,
            maps_direct: true,
            failed_syncs: 0,
            names_given: 0,
        }
    }

    pub(crate) fn free_pages(&self) -> u64 {
        self.capacity_pages.saturating_sub(self.used_pages)
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(&id).expect("a reference keeps its node")
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("a reference keeps its node")
    }

    pub(crate) fn dir(&self, id: NodeId) -> Raw<&Dir> {
        match &self.node(id).body {
            Body::Dir(dir) => Ok(dir),
            Body::File(_) => Err(Errno::NOTDIR),
        }
    }

    pub(crate) fn file(&self, id: NodeId) -> Raw<&Content> {
        match &self.node(id).body {
            Body::File(content) => Ok(content),
            Body::Dir(_) => Err(Errno::ISDIR),
        }
    }

    fn is_dir(&self, id: NodeId) -> bool {
        matches!(self.node(id).body, Body::Dir(_))
    }

    /// The node that a path stands for.
    pub(crate) fn find(&self, path: &Path) -> Raw<NodeId> {
        let mut at = ROOT;
        for name in names_of(path)? {
            at = *self.dir(at)?.live.get(name).ok_or(Errno::NOENT)?;
        }
        Ok(at)
    }

    /// The directory and the name that a path consists of; `None` for the root.
    fn split(&self, path: &Path) -> Raw<Option<Entry>> {
        let mut names = names_of(path)?;
        let Some(last) = names.pop() else { return Ok(None) };
        let mut at = ROOT;
        for name in names {
            at = *self.dir(at)?.live.get(name).ok_or(Errno::NOENT)?;
        }
        self.dir(at)?;
        Ok(Some((at, last.to_owned())))
    }

    fn lookup(&self, entry: &Entry) -> Option<NodeId> {
        match &self.node(entry.0).body {
            Body::Dir(dir) => dir.live.get(&entry.1).copied(),
            Body::File(_) => None,
        }
    }

    /// Opens a file and holds it; pair with [`State::close`]. Truncation is left to the caller.
    pub(crate) fn open(&mut self, path: &Path, options: &OpenOptions) -> Raw<NodeId> {
        if !options.is_valid() {
            return Err(Errno::INVAL);
        }
        let entry = self.split(path)?.ok_or(Errno::ISDIR)?;
        let id = match self.lookup(&entry) {
            Some(_) if options.create_new => return Err(Errno::EXIST),
            Some(id) if self.is_dir(id) => return Err(Errno::ISDIR),
            Some(id) => id,
            None if options.create || options.create_new => {
                self.add(entry, Body::File(Content::default()))
            }
            None => return Err(Errno::NOENT),
        };
        self.hold(id);
        Ok(id)
    }

    /// Counts one more handle to an open file.
    pub(crate) fn hold(&mut self, id: NodeId) {
        self.node_mut(id).live += 1;
    }

    /// Lets go of a handle.
    pub(crate) fn close(&mut self, id: NodeId) {
        self.release_live(id);
    }

    pub(crate) fn create_dir(&mut self, path: &Path) -> Raw<()> {
        let entry = self.split(path)?.ok_or(Errno::EXIST)?;
        if self.lookup(&entry).is_some() {
            return Err(Errno::EXIST);
        }
        self.add(entry, Body::Dir(Dir::default()));
        Ok(())
    }

    pub(crate) fn link(&mut self, existing: &Path, link: &Path) -> Raw<()> {
        let node = self.find(existing)?;
        let entry = self.split(link)?.ok_or(Errno::EXIST)?;
        if self.lookup(&entry).is_some() {
            return Err(Errno::EXIST);
        }
        if self.is_dir(node) {
            return Err(Errno::PERM);
        }
        self.change(naming(entry, node));
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> Raw<()> {
        let entry = self.split(path)?.ok_or(Errno::ISDIR)?;
        let node = self.lookup(&entry).ok_or(Errno::NOENT)?;
        if self.is_dir(node) {
            return Err(Errno::ISDIR);
        }
        self.change(removal(entry, node, None));
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) -> Raw<()> {
        let entry = self.split(path)?.ok_or(Errno::BUSY)?;
        let node = self.lookup(&entry).ok_or(Errno::NOENT)?;
        if !self.dir(node)?.live.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        self.change(removal(entry, node, Some(node)));
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> Raw<()> {
        let source = self.split(from)?.ok_or(Errno::BUSY)?;
        let target = self.split(to)?.ok_or(Errno::BUSY)?;
        let node = self.lookup(&source).ok_or(Errno::NOENT)?;
        let is_dir = self.is_dir(node);
        let (from_names, to_names) = (names_of(from)?, names_of(to)?);
        if source != target && to_names.starts_with(&from_names) {
            // A file has no names below it, so this is a directory on its way into itself.
            return Err(Errno::INVAL);
        }
        if source != target && from_names.starts_with(&to_names) {
            return Err(Errno::NOTEMPTY);
        }
        let replaced = self.lookup(&target);
        match replaced.map(|replaced| (is_dir, self.is_dir(replaced))) {
            // Two names of one file: nothing to do, as POSIX has it.
            _ if replaced == Some(node) => return Ok(()),
            Some((true, false)) => return Err(Errno::NOTDIR),
            Some((false, true)) => return Err(Errno::ISDIR),
            _ => {}
        }
        let emptied = replaced.filter(|_| is_dir);
        if let Some(dir) = emptied
            && !self.dir(dir)?.live.is_empty()
        {
            return Err(Errno::NOTEMPTY);
        }
        let moves_dir = is_dir && source.0 != target.0;
        let (removed, entered) = (Some(source), Some(target));
        self.change(Change { removed, entered, node, emptied, moves_dir });
        Ok(())
    }

    /// Makes the entries of a directory durable.
    pub(crate) fn sync_dir(&mut self, path: &Path) -> Raw<()> {
        let dir = self.find(path)?;
        self.dir(dir)?;
        let (synced, pending) = split_for_sync(std::mem::take(&mut self.journal), dir);
        self.journal = pending;
        for change in synced {
            let node = change.node;
            self.apply_durable(&change);
            self.release_durable(node);
            for (of, _) in change.removed.iter().chain(&change.entered) {
                self.release_durable(*of);
            }
        }
        Ok(())
    }

    /// Writes to a file as many bytes as there is room for, but at least one.
    pub(crate) fn write(&mut self, id: NodeId, offset: u64, bytes: &[u8]) -> Raw<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        check_extent(offset, bytes.len() as u64)?;
        self.with_budget(id, |content, budget| match content.write(offset, bytes, budget) {
            0 => Err(Errno::NOSPC),
            written => Ok(written),
        })
    }

    pub(crate) fn reserve(&mut self, id: NodeId, offset: u64, len: u64, keep: bool) -> Raw<()> {
        if len == 0 {
            return Ok(());
        }
        check_extent(offset, len)?;
        self.with_budget(id, |content, budget| {
            content.reserve(offset, len, keep, budget).then_some(()).ok_or(Errno::NOSPC)
        })
    }

    /// Sets the length, which the caller has compared with the mappings.
    pub(crate) fn set_len(&mut self, id: NodeId, len: u64) -> Raw<()> {
        check_extent(0, len)?;
        let changes = self.changes + 1;
        let node = self.node_mut(id);
        let Body::File(content) = &mut node.body else { return Err(Errno::ISDIR) };
        let freed = content.set_len(len);
        node.modified = changes;
        self.changes = changes;
        self.used_pages -= freed;
        Ok(())
    }

    pub(crate) fn sync_file(&mut self, id: NodeId, offset: u64, len: u64) {
        if let Body::File(content) = &mut self.node_mut(id).body {
            content.sync(offset, len);
        }
    }

    /// Makes whole pages durable, as a write past the page cache does.
    pub(crate) fn sync_pages(&mut self, id: NodeId, from: u64, to: u64) {
        if let Body::File(content) = &mut self.node_mut(id).body {
            content.sync_pages(from, to);
        }
    }

    pub(crate) fn lose_unsynced(&mut self, id: NodeId, offset: u64, len: u64) {
        let mut loss = match self.failed_sync {
            FailedSync::Dropped => Loss { keep_cached: false, written: None },
            FailedSync::Cached => Loss { keep_cached: true, written: None },
            FailedSync::Partly { seed } => {
                // Another failure of the same history draws something else.
                self.failed_syncs += 1;
                let own_seed = Mix::new(seed ^ Mix::new(self.failed_syncs).next()).next();
                let mut mix = Mix::new(own_seed);
                Loss { keep_cached: mix.coin(), written: Some(mix) }
            }
        };
        if let Body::File(content) = &mut self.node_mut(id).body {
            content.lose(offset, len, &mut loss);
        }
    }

    /// The disk after a power loss. O(files + pages + pending changes).
    pub(crate) fn crash(&self, seed: u64, policy: CrashPolicy) -> Self {
        let mut mix = Mix::new(seed);
        let mut entries = BTreeMap::new();
        for (id, node) in &self.nodes {
            if let Body::Dir(dir) = &node.body {
                entries.insert(*id, dir.durable.clone());
            }
        }
        for change in survivors(&self.journal, policy, &mut mix) {
            play(change, &mut entries);
        }
        let mut image = Self::new(self.capacity_pages);
        image.next_id = self.next_id;
        image.changes = self.changes;
        image.failed_sync = self.failed_sync;
        image.maps_direct = self.maps_direct;
        image.failed_syncs = self.failed_syncs;
        image.names_given = self.names_given;
        // Whatever cannot be reached from the root is lost, with everything below it.
        let mut pending = vec![ROOT];
        while let Some(id) = pending.pop() {
            let names = entries.remove(&id).unwrap_or_default();
            for child in names.values() {
                if !image.nodes.contains_key(child) {
                    let node = self.node(*child).crash(*child, seed, policy);
                    image.used_pages += node.live_pages();
                    image.nodes.insert(*child, node);
                    pending.push(*child);
                }
                let node = image.node_mut(*child);
                node.live += 1;
                node.durable += 1;
            }
            if let Body::Dir(dir) = &mut image.node_mut(id).body {
                *dir = Dir { live: names.clone(), durable: names };
            }
        }
        image
    }

    /// The disk after the process died: the page cache lives on, handles and locks are gone.
    pub(crate) fn without_process(&self) -> Self {
        let mut image = self.clone();
        for node in image.nodes.values_mut() {
            node.is_locked = false;
            node.mapped_ends.clear();
            node.live = 0;
        }
        for id in self.live_entries() {
            image.node_mut(id).live += 1;
        }
        image.node_mut(ROOT).live += 1;
        image.nodes.retain(|_, node| node.live + node.durable > 0);
        let in_use = image.nodes.values().filter(|node| node.live > 0);
        image.used_pages = in_use.map(Node::live_pages).sum();
        image
    }

    fn live_entries(&self) -> impl Iterator<Item = NodeId> {
        let dirs = self.nodes.values().filter_map(|node| match &node.body {
            Body::Dir(dir) => Some(dir),
            Body::File(_) => None,
        });
        dirs.flat_map(|dir| dir.live.values().copied())
    }

    fn with_budget<T>(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut Content, &mut Budget) -> Raw<T>,
    ) -> Raw<T> {
        let free = self.free_pages();
        let mut budget = Budget(free);
        let changes = self.changes + 1;
        let node = self.node_mut(id);
        let Body::File(content) = &mut node.body else { return Err(Errno::ISDIR) };
        let done = act(content, &mut budget);
        if done.is_ok() {
            node.modified = changes;
            self.changes = changes;
        }
        self.used_pages += free - budget.0;
        done
    }

    fn add(&mut self, entry: Entry, body: Body) -> NodeId {
        let id = self.next_id;
        self.next_id += 1;
        self.nodes.insert(id, Node::new(body, self.changes + 1));
        self.change(naming(entry, id));
        id
    }

    /// Makes a change visible and enters it into the journal.
    fn change(&mut self, change: Change) {
        self.changes += 1;
        let changes = self.changes;
        // The journal's references come first, so that nothing is freed in between.
        self.node_mut(change.node).durable += 1;
        for (dir, _) in change.removed.iter().chain(&change.entered) {
            let node = self.node_mut(*dir);
            node.durable += 1;
            node.modified = changes;
        }
        if let Some((dir, name)) = &change.entered {
            self.node_mut(change.node).live += 1;
            if let Some(replaced) = self.live_of(*dir).insert(name.clone(), change.node) {
                self.release_live(replaced);
            }
        }
        if let Some((dir, name)) = &change.removed {
            self.live_of(*dir).remove(name);
            self.release_live(change.node);
        }
        self.journal.push(change);
    }

    /// Plays a change on the durable entries.
    fn apply_durable(&mut self, change: &Change) {
        if let Some((dir, name)) = &change.entered {
            self.node_mut(change.node).durable += 1;
            if let Some(replaced) = self.durable_of(*dir).insert(name.clone(), change.node) {
                self.release_durable(replaced);
            }
        }
        if let Some((dir, name)) = &change.removed {
            let entries = self.durable_of(*dir);
            if entries.get(name) == Some(&change.node) {
                entries.remove(name);
                self.release_durable(change.node);
            }
        }
    }

    fn live_of(&mut self, dir: NodeId) -> &mut BTreeMap<OsString, NodeId> {
        match &mut self.node_mut(dir).body {
            Body::Dir(dir) => &mut dir.live,
            Body::File(_) => unreachable!("entries are made in directories"),
        }
    }

    fn durable_of(&mut self, dir: NodeId) -> &mut BTreeMap<OsString, NodeId> {
        match &mut self.node_mut(dir).body {
            Body::Dir(dir) => &mut dir.durable,
            Body::File(_) => unreachable!("entries are made in directories"),
        }
    }

    fn release_live(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.live -= 1;
        if node.live == 0 {
            let freed = node.live_pages();
            self.used_pages -= freed;
        }
        self.collect(id);
    }

    fn release_durable(&mut self, id: NodeId) {
        self.node_mut(id).durable -= 1;
        self.collect(id);
    }

    /// Frees a node without references, and what only it referred to.
    fn collect(&mut self, id: NodeId) {
        let mut pending = vec![id];
        while let Some(id) = pending.pop() {
            let node = self.node(id);
            if node.live + node.durable > 0 {
                continue;
            }
            let Some(Node { body: Body::Dir(dir), .. }) = self.nodes.remove(&id) else { continue };
            assert!(dir.live.is_empty(), "a directory is removed when it is empty");
            for child in dir.durable.into_values() {
                self.node_mut(child).durable -= 1;
                pending.push(child);
            }
        }
    }
}

/// The change that gives `node` a name.
fn naming(entry: Entry, node: NodeId) -> Change {
    Change { removed: None, entered: Some(entry), node, emptied: None, moves_dir: false }
}

/// The change that takes a name from `node`; `emptied` is the node itself if it is a directory.
fn removal(entry: Entry, node: NodeId, emptied: Option<NodeId>) -> Change {
    Change { removed: Some(entry), entered: None, node, emptied, moves_dir: false }
}

/// Plays a change on bare durable entries, as [`State::apply_durable`] does on counted ones.
fn play(change: &Change, entries: &mut BTreeMap<NodeId, BTreeMap<OsString, NodeId>>) {
    if let Some((dir, name)) = &change.entered {
        entries.entry(*dir).or_default().insert(name.clone(), change.node);
    }
    if let Some((dir, name)) = &change.removed
        && let Some(names) = entries.get_mut(dir)
        && names.get(name) == Some(&change.node)
    {
        names.remove(name);
    }
}

/// The names of a path below the root, with `.` and `..` resolved. There are no links, so this is
/// exact.
pub(crate) fn names_of(path: &Path) -> Raw<Vec<&OsStr>> {
    if path.as_os_str().is_empty() {
        return Err(Errno::NOENT);
    }
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) if name.len() > NAME_BYTES_MAX => {
                return Err(Errno::NAMETOOLONG);
            }
            Component::Normal(name) if name.as_bytes().contains(&0) => return Err(Errno::INVAL),
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(names)
}

/// Checks that a range is one that a file can have.
fn check_extent(offset: u64, len: u64) -> Raw<()> {
    match offset.checked_add(len) {
        Some(end) if end <= FILE_BYTES_MAX => Ok(()),
        _ => Err(Errno::FBIG),
    }
}

/// Pages that hold `bytes`.
pub(crate) fn pages_of(bytes: u64) -> u64 {
    bytes / PAGE_BYTES as u64
}

#[cfg(test)]
mod tests;
