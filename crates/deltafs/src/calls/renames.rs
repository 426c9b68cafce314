//! What several servers do to a name together: renames of a file whose new name is another
//! server's, and of directories, which all servers have; and making and removing these.
//!
//! ```text
//!   coordinator                                    others
//!   checks, holds the names, writes "begun"
//!                        -- prepare -->            checks, holds, writes "prepared"
//!   a large file:        -- bytes   -->            keeps them, not named yet
//!   writes "decided"                                                         <- decides
//!   does its part        -- settle  -->            does its part; record and holds go
//!   record and holds go
//! ```
//!
//! Who holds a name answers calls on it with "later", reads too: so nobody sees the file under both
//! names, or under none. A coordinator that comes back and finds "begun" undoes it, and finishes
//! what it finds "decided". Another that finds "prepared" holds the names, and asks.
//!
//! The server of the old name coordinates for a file; the first server does for directories, one
//! after another, so that no two of them make a circle, and none is made in one that goes. The
//! record of a rename, under `move` and its number among the records about the log:
//!
//! ```text
//!   state: u8 (0 prepared, 1 begun, 2 decided) | coordinator: u32 | the fields of a rename
//! ```

use super::codec::What;
use super::core::{Core, Executed, Refusal, Work};
use super::orders::{Held, Order, Side, Step, large_of, read_record, record, record_key};
use super::parts::{Access, HELD, Part, State};
use super::replica::Original;
use crate::caller::{Caller, Found};
use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::namespace::{Dir, Namespace};
use crate::record::{Attributes, Entry, Key, Node, parse_key};
use crate::rename::IfTaken;
use crate::user::{PASS, User, WRITE};
use keyrack_flodb::{Batch, WriteOptions};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard};

/// Errands whose results are kept, at most.
const ERRANDS_MAX: usize = 4096;

/// What an errand came to; `None` while it is under way.
pub(super) type Outcome = Option<Executed>;

/// The renames of a server.
#[derive(Debug, Default)]
pub(super) struct Renames {
    held: Mutex<HashMap<u128, Held>>,
    errands: Mutex<Errands>,
}

#[derive(Debug, Default)]
struct Errands {
    last: u64,
    all: HashMap<u64, Outcome>,
}

impl Renames {
    pub(super) fn held(&self) -> MutexGuard<'_, HashMap<u128, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a path may be followed here. It may not where another server holds one of its names
    /// for something that it coordinates: that may be decided already, and here nobody knows.
    pub(super) fn admit(&self, path: &[u8]) -> Executed {
        let held = self.held();
        let holds = |held: &Held, name: &[u8]| {
            let Order { name: old, to_name: new, .. } = &held.order;
            held.step == Step::Prepared && !name.is_empty() && (old == name || new == name)
        };
        let mut names = path.split(|byte| *byte == b'/');
        match names.any(|name| held.values().any(|held| holds(held, name))) {
            true => Err(Refusal::new("EAGAIN", HELD)),
            false => Ok(()),
        }
    }

    fn errands(&self) -> MutexGuard<'_, Errands> {
        self.errands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new errand.
    pub(super) fn begin(&self) -> Executed<u64> {
        let mut errands = self.errands();
        if errands.all.len() >= ERRANDS_MAX {
            let oldest = errands.all.iter().filter(|(_, outcome)| outcome.is_some());
            let Some(oldest) = oldest.map(|(number, _)| *number).min() else {
                return Err(Refusal::new("EBUSY", "too many renames are under way: come again"));
            };
            errands.all.remove(&oldest);
        }
        errands.last += 1;
        let number = errands.last;
        errands.all.insert(number, None);
        Ok(number)
    }

    pub(super) fn end(&self, errand: u64, outcome: Executed) {
        self.errands().all.insert(errand, Some(outcome));
    }

    /// What came of an errand; asking for it twice is fine.
    pub(super) fn outcome(&self, errand: u64) -> Executed {
        match self.errands().all.get(&errand) {
            Some(None) => Err(Refusal::new("EAGAIN", "it is under way: ask again")),
            Some(Some(Ok(()))) => Ok(()),
            Some(Some(Err(refusal))) => Err(refusal.clone()),
            None => Err(Refusal::new("ESTALE", "nobody knows any more what came of it: look")),
        }
    }
}

/// The partitions of several directories, locked in the order of their numbers.
struct Locked<'a>(Vec<(DirId, RwLockWriteGuard<'a, State>)>);

impl<'a> Locked<'a> {
    fn new(parts: &'a [Arc<Part>]) -> Locked<'a> {
        Locked(parts.iter().map(|part| (part.dir, part.write())).collect())
    }

    fn of(&mut self, dir: DirId) -> &mut State {
        let at = self.0.iter().position(|held| held.0 == dir);
        &mut self.0[at.expect("the directory was locked")].1
    }
}

impl Core {
    fn parts_of(&self, space: &Namespace, dirs: &[DirId]) -> Result<Vec<Arc<Part>>> {
        let mut dirs = dirs.to_vec();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.into_iter().map(|dir| self.parts.get(space, dir)).collect()
    }

    /// Which side of a rename this server is on.
    pub(super) fn side(&self, held: &Held) -> Side {
        match (held.order.is_dir(), held.step) {
            (true, _) => Side::Both,
            (false, Step::Prepared) => Side::Target,
            (false, _) => Side::Source,
        }
    }

    /// Looks whether this server can do its part; if so it holds the names from here on, and the
    /// record is written. The coordinator gets the entry into its order.
    pub(super) fn prepare(
        &self,
        space: &Namespace,
        number: u128,
        (step, coordinator): (Step, u32),
        order: &mut Order,
    ) -> Executed {
        if self.renames.held().contains_key(&number) {
            return Ok(());
        }
        let inner = &space.inner;
        let caller = space.by(&order.user);
        let stale = |name: &[u8]| Refusal::from(Error::Stale(shown(name)));
        let open = |dir: DirId, name: &[u8]| -> Executed<Dir> {
            let state = inner.dirs.get(&inner.layers, dir)?.ok_or_else(|| stale(name))?;
            Ok(Dir { state })
        };
        if step == Step::Begun {
            let from = open(order.from, &order.name)?;
            (order.to, order.entry) = match order.what {
                What::Mkdir => caller.dir_to_make(&from, &order.name, order.target)?,
                _ => (order.to, self.entry_of(&caller, &from, &order.name)?),
            };
            match (order.what, Entry::decode(&order.entry)) {
                (What::Rmdir, Some(Entry::Dir(child))) => order.to = child,
                (What::Rmdir, _) => return Err(Error::NotDir(shown(&order.name)).into()),
                _ => {}
            }
        }
        let side = match (order.is_dir(), step) {
            (true, _) => Side::Both,
            (false, Step::Prepared) => Side::Target,
            (false, _) => Side::Source,
        };
        let replaced_now = || -> Result<Option<DirId>> {
            let (dir, name) = order.goes();
            match caller.lookup(dir, name)? {
                Some(Found::Dir(id)) if side == Side::Both && order.what != What::Mkdir => {
                    Ok(Some(id))
                }
                _ => Ok(None),
            }
        };
        let replaced = replaced_now()?;
        let dirs: Vec<DirId> =
            order.names(side).iter().map(|name| name.0).chain(replaced).collect();
        let parts = self.parts_of(space, &dirs)?;
        let mut locked = Locked::new(&parts);
        if replaced_now()? != replaced {
            return Err(Refusal::new("EAGAIN", "the new name changed meanwhile: ask again"));
        }
        for (dir, name) in order.names(side) {
            match locked.of(dir).admit(dir, name, Access::Write) {
                // Whoever has a directory's name, all take part.
                Some(super::parts::Detour::Elsewhere(_)) if side == Side::Both => {}
                Some(detour) => return Err(Refusal::detour(dir, detour)),
                None => {}
            }
        }
        if let Some(replaced) = replaced {
            let state = locked.of(replaced);
            if !state.pins.is_empty() || state.closed.is_some() {
                let words = "something comes into the directory: ask again";
                return Err(Refusal::new("EAGAIN", words));
            }
        }
        match side {
            Side::Both if order.what == What::Mkdir => {
                let from = open(order.from, &order.name)?;
                caller.may_make_as(&from, &order.name, order.to)?;
            }
            Side::Both if order.what == What::Rmdir => {
                let from = open(order.from, &order.name)?;
                match replaced {
                    Some(here) if here == order.to => {
                        caller.rmdir_or_check(&from, &order.name, true)?;
                    }
                    // It is gone here already.
                    None if step == Step::Prepared => {}
                    _ => return Err(stale(&order.name)),
                }
            }
            Side::Source => {
                let from = open(order.from, &order.name)?;
                self.may_leave(&caller, &from, &order.name)?;
            }
            Side::Target => {
                let to = open(order.to, &order.to_name)?;
                self.may_come(&caller, &to, &order.to_name, order.what == What::Replace)?;
            }
            Side::Both => {
                let (from, to) = (open(order.from, &order.name)?, open(order.to, &order.to_name)?);
                let found = caller.lookup(order.from, &order.name)?;
                let is_same = match (found, Entry::decode(&order.entry)) {
                    (Some(Found::Dir(here)), Some(Entry::Dir(there))) => here == there,
                    _ => false,
                };
                if !is_same {
                    return Err(stale(&order.name));
                }
                let how = (order.if_taken(), true);
                caller.rename_or_check(&from, &order.name, &to, &order.to_name, how)?;
            }
        }
        let changed = order.changed(replaced);
        for (taken, dir) in changed.iter().enumerate() {
            if let Err(refusal) = self.take_back(*dir, None) {
                changed[..taken].iter().for_each(|dir| self.leases.changed(*dir));
                return Err(refusal);
            }
        }
        let top = inner.top(&shown(&order.name))?;
        top.put(&record_key(number), &record(step, coordinator, order))?;
        self.hold(&mut locked, number, order, (side, replaced));
        drop(locked);
        let held = Held { step, coordinator, order: order.clone(), replaced, turns: 0 };
        self.renames.held().insert(number, held);
        if step == Step::Prepared {
            self.tell(Work::Ask(number));
        }
        Ok(())
    }

    fn hold(
        &self,
        locked: &mut Locked<'_>,
        number: u128,
        order: &Order,
        (side, replaced): (Side, Option<DirId>),
    ) {
        for (dir, name) in order.names(side) {
            locked.of(dir).held.push((name.to_vec(), number));
        }
        match order.what {
            What::Rmdir => {}
            What::Mkdir => locked.of(order.from).pins.push(number),
            What::Rename | What::Replace if side == Side::Source => {}
            What::Rename | What::Replace => locked.of(order.to).pins.push(number),
        }
        if let Some(replaced) = replaced {
            locked.of(replaced).closed = Some(number);
        }
    }

    /// The record of what is to be renamed.
    fn entry_of(&self, caller: &Caller<'_>, from: &Dir, name: &[u8]) -> Executed<Vec<u8>> {
        crate::check_name(name)?;
        caller.check(&from.state.read(), PASS, name)?;
        let now_ns = caller.inner.time.now_ns();
        let entry = caller.inner.layers.find(from.state.id, name, |entry| match entry {
            Entry::File(attributes, data) => {
                Entry::File(Attributes { ctime_ns: now_ns, ..attributes }, data).encode()
            }
            Entry::Sized(attributes) => {
                Entry::Sized(Attributes { ctime_ns: now_ns, ..attributes }).encode()
            }
            other => other.encode(),
        })?;
        let entry =
            entry.filter(|entry| Entry::decode(entry).is_some_and(|e| e != Entry::Whiteout));
        entry.ok_or_else(|| Refusal::from(Error::NotFound(shown(name))))
    }

    fn may_leave(&self, caller: &Caller<'_>, from: &Dir, name: &[u8]) -> Executed {
        let info = from.state.read();
        caller.check(&info, WRITE | PASS, name)?;
        match caller.lookup(from.state.id, name)? {
            Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
            // It was something else a moment ago.
            _ => Err(Refusal::from(Error::NotFound(shown(name)))),
        }
    }

    fn may_come(&self, caller: &Caller<'_>, to: &Dir, name: &[u8], replace: bool) -> Executed {
        crate::check_name(name)?;
        let info = to.state.read();
        caller.check(&info, WRITE | PASS, name)?;
        match caller.lookup(to.state.id, name)? {
            None => Ok(()),
            Some(_) if !replace => Err(Refusal::from(Error::Exists(shown(name)))),
            Some(Found::Dir(_)) => Err(Refusal::from(Error::IsDir(shown(name)))),
            Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
        }
    }

    /// Bytes of the large file that comes with a rename that is prepared here.
    pub(super) fn rename_contents(
        &self,
        space: &Namespace,
        number: u128,
        offset: u64,
        data: &[u8],
    ) -> Executed {
        let all = self.renames.held();
        let held = all.get(&number).filter(|held| held.step == Step::Prepared);
        let entry = held.and_then(|held| Entry::decode(&held.order.entry));
        let Some(Entry::Sized(attributes)) = entry else {
            return Err(Refusal::new("ESTALE", "no rename of a large file is prepared here"));
        };
        Ok(space.inner.contents.receive(attributes.inode, offset, data)?)
    }

    /// The coordinator has decided: from here on it will be done.
    pub(super) fn decide(&self, space: &Namespace, number: u128) -> Result<()> {
        let mut all = self.renames.held();
        let Some(held) = all.get_mut(&number) else { return Ok(()) };
        let top = space.inner.top("a rename")?;
        top.put(&record_key(number), &record(Step::Decided, held.coordinator, &held.order))?;
        held.step = Step::Decided;
        Ok(())
    }

    /// Does this server's part, or does not, and lets the names go. Doing it again does nothing.
    /// The coordinator keeps the record until the others have done theirs.
    pub(super) fn settle(&self, space: &Namespace, number: u128, commits: bool) -> Result<()> {
        let Some(held) = self.renames.held().get(&number).cloned() else { return Ok(()) };
        let order = &held.order;
        let side = self.side(&held);
        if commits {
            self.apply(space, order, side)?;
        } else if let (Side::Target, Some(inode)) = (side, large_of(&order.entry)) {
            space.inner.contents.remove(inode)?;
        }
        if held.step == Step::Prepared || !commits {
            space.inner.top("a rename")?.delete(&record_key(number))?;
        }
        self.release(space, number, &held, side)?;
        if held.step == Step::Prepared || !commits {
            self.renames.held().remove(&number);
        }
        Ok(())
    }

    /// All have done their parts.
    pub(super) fn forget(&self, space: &Namespace, number: u128) -> Result<()> {
        space.inner.top("a rename")?.delete(&record_key(number))?;
        self.renames.held().remove(&number);
        Ok(())
    }

    fn release(&self, space: &Namespace, number: u128, held: &Held, side: Side) -> Result<()> {
        let names = held.order.names(side);
        let dirs: Vec<DirId> = names.iter().map(|name| name.0).chain(held.replaced).collect();
        let parts = self.parts_of(space, &dirs)?;
        let mut locked = Locked::new(&parts);
        for (_, state) in &mut locked.0 {
            state.held.retain(|held| held.1 != number);
            state.pins.retain(|pin| *pin != number);
            state.closed = state.closed.filter(|closed| *closed != number);
        }
        let changed = held.order.changed(held.replaced);
        changed.into_iter().for_each(|dir| self.leases.changed(dir));
        Ok(())
    }

    fn apply(&self, space: &Namespace, order: &Order, side: Side) -> Result<()> {
        let inner = &space.inner;
        let root = User::root();
        let caller = space.by(&root);
        let now_ns = inner.time.now_ns();
        if order.what == What::Mkdir {
            let node = Node::read(inner.store_path(), order.to, &order.entry)?;
            let Node::Dir(node, _) = node else { return Ok(()) };
            let (mode, uid, gid) = (node.mode, node.uid, node.gid);
            let original = Original { mode, uid, gid, inode: order.to.0 };
            return caller.mkdir_as(&inner.dir(order.from)?, &order.name, &original).map(|_| ());
        }
        let Some(entry) = Entry::decode(&order.entry) else { return Ok(()) };
        match (side, Found::of(entry)) {
            (Side::Both, Some(Found::Dir(id))) if order.what == What::Rmdir => {
                match caller.lookup(order.from, &order.name)? {
                    Some(Found::Dir(here)) if here == id => {
                        caller.rmdir_at(&inner.dir(order.from)?, &order.name)
                    }
                    _ => Ok(()),
                }
            }
            (Side::Both, Some(Found::Dir(id))) => {
                let found = caller.lookup(order.from, &order.name)?;
                if !matches!(found, Some(Found::Dir(here)) if here == id) {
                    return Ok(());
                }
                let (from, to) = (inner.dir(order.from)?, inner.dir(order.to)?);
                caller.rename_at(&from, &order.name, &to, &order.to_name, IfTaken::Replace)
            }
            (Side::Source, Some(Found::Other(stat))) => {
                let found = caller.lookup(order.from, &order.name)?;
                if !matches!(found, Some(Found::Other(here)) if here.inode == stat.inode) {
                    return Ok(());
                }
                let from = inner.dir(order.from)?;
                let info = from.state.read();
                let mut batch = Batch::new();
                inner.hide(&mut batch, order.from, &order.name)?;
                let large = large_of(&order.entry);
                if large.is_some() {
                    inner.contents.mark()?;
                }
                inner.top("a rename")?.write(&batch, WriteOptions::default())?;
                large.map_or(Ok(()), |inode| inner.contents.remove(inode))?;
                caller.touch(&from, &info, now_ns)
            }
            (Side::Target, Some(Found::Other(_))) => {
                let to = inner.dir(order.to)?;
                let info = to.state.read();
                let replaced = match caller.lookup(order.to, &order.to_name)? {
                    Some(Found::Other(there)) if !there.has_data => Some(there.inode),
                    _ => None,
                };
                let come = large_of(&order.entry);
                if let Some(inode) = come {
                    inner.contents.settle_received(inode)?;
                }
                let top = inner.top("a rename")?;
                top.put(&Key::entry(order.to, &order.to_name), &order.entry)?;
                if let Some(inode) = replaced.filter(|inode| Some(*inode) != come) {
                    inner.contents.remove(inode)?;
                }
                caller.touch(&to, &info, now_ns)
            }
            _ => Ok(()),
        }
    }

    /// Holds the names again that were held before a crash.
    pub(super) fn restore(&self) -> Result<()> {
        let Some(space) = self.space.as_ref().filter(|_| !self.parts.has_all) else {
            return Ok(());
        };
        let mut found = Vec::new();
        let mut iter = space.inner.top("renames")?.iter()?;
        iter.seek(&Key::entry(DirId::SYSTEM, b"move"))?;
        while let Some((key, value)) = iter.entry() {
            let Some((DirId::SYSTEM, name)) = parse_key(key) else { break };
            let Some(number) = name.strip_prefix(b"move") else { break };
            let held = read_record(value).zip(<[u8; 16]>::try_from(number).ok());
            let Some((held, number)) = held else {
                return Err(Error::Corruption {
                    path: space.inner.store_path().to_owned(),
                    what: "the record of a rename is damaged".to_owned(),
                });
            };
            found.push((u128::from_be_bytes(number), held));
            iter.next()?;
        }
        for (number, mut held) in found {
            let side = self.side(&held);
            let root = User::root();
            let replaced = match side {
                Side::Both if held.order.what != What::Mkdir => {
                    let (dir, name) = held.order.goes();
                    let is_moved = |id| Entry::decode(&held.order.entry) == Some(Entry::Dir(id));
                    match space.by(&root).lookup(dir, name)? {
                        // What has come already replaces nothing any more.
                        Some(Found::Dir(id)) if held.order.what == What::Rmdir || !is_moved(id) => {
                            Some(id)
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            let names = held.order.names(side);
            let dirs: Vec<DirId> = names.iter().map(|name| name.0).chain(replaced).collect();
            let parts = self.parts_of(space, &dirs)?;
            self.hold(&mut Locked::new(&parts), number, &held.order, (side, replaced));
            held.replaced = replaced;
            self.renames.held().insert(number, held);
        }
        Ok(())
    }
}
