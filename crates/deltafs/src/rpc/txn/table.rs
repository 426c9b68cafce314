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
//! What is prepared, decided and done at the other's word is synced where something moves, if there
//! is a log: the servers are several machines, and what one of them has given up is with another.
//!
//! Here is what a server holds, and what it decides; `preparing` looks whether it can take part,
//! and `applying` is the part that it does.
//!
//! The server of the old name coordinates for a file; the first server does for directories, one
//! after another, so that no two of them make a circle, and none is made in one that goes. The
//! record of a rename, under `move` and its number among the records about the log:
//!
//! ```text
//!   state: u8 (0 prepared, 1 begun, 2 decided) | coordinator: u32 | the fields of a rename
//! ```

use super::record::{Held, Order, Side, Step, damaged, large_of, read_record, record, record_key};
use crate::caller::Found;
use crate::error::Result;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::record::{Entry, Key, parse_key};
use crate::rpc::codec::What;
use crate::rpc::server::core::{Core, Executed, Refusal};
use crate::rpc::server::parts::{HELD, Part, State};
use crate::user::User;
use keyrack_flodb::{Batch, Db, Durability, WriteOptions};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard};

/// Errands whose results are kept, at most.
const ERRANDS_MAX: usize = 4096;

/// Errands are counted below this bit in each life of a server.
const START_SHIFT: u32 = 32;

/// What an errand came to; `None` while it is under way.
pub(crate) type Outcome = Option<Executed>;

/// The renames of a server.
#[derive(Debug)]
pub(crate) struct Renames {
    held: Mutex<HashMap<u128, Held>>,
    errands: Mutex<Errands>,
}

#[derive(Debug, Default)]
struct Errands {
    last: u64,
    all: HashMap<u64, Outcome>,
}

impl Renames {
    /// Of a server that was started for the `start`-th time. Numbers of errands are not given
    /// twice: who waits for one of before is not told what came of another.
    pub(crate) fn of_start(start: u64) -> Renames {
        let errands = Errands { last: start << START_SHIFT, all: HashMap::new() };
        Renames { held: Mutex::default(), errands: Mutex::new(errands) }
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, HashMap<u128, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a path may be followed here. It may not where another server holds one of its names
    /// for something that it coordinates: that may be decided already, and here nobody knows.
    pub(crate) fn admit(&self, path: &[u8]) -> Executed {
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
    pub(crate) fn begin(&self) -> Executed<u64> {
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

    pub(crate) fn end(&self, errand: u64, outcome: Executed) {
        self.errands().all.insert(errand, Some(outcome));
    }

    /// What came of an errand; asking for it twice is fine.
    pub(crate) fn outcome(&self, errand: u64) -> Executed {
        match self.errands().all.get(&errand) {
            Some(None) => Err(Refusal::new("EAGAIN", "it is under way: ask again")),
            Some(Some(Ok(()))) => Ok(()),
            Some(Some(Err(refusal))) => Err(refusal.clone()),
            None => Err(Refusal::new("ESTALE", "nobody knows any more what came of it: look")),
        }
    }
}

/// The partitions of several directories, locked in the order of their numbers.
pub(crate) struct Locked<'a>(Vec<(DirId, RwLockWriteGuard<'a, State>)>);

impl<'a> Locked<'a> {
    pub(crate) fn new(parts: &'a [Arc<Part>]) -> Locked<'a> {
        Locked(parts.iter().map(|part| (part.dir, part.write())).collect())
    }

    pub(crate) fn of(&mut self, dir: DirId) -> &mut State {
        let at = self.0.iter().position(|held| held.0 == dir);
        &mut self.0[at.expect("the directory was locked")].1
    }
}

/// How a write is made that must survive a power loss before another server is told of it. Without
/// a log nothing does, and tables are not worth it.
pub(crate) fn lasting(top: &Db) -> WriteOptions {
    WriteOptions { sync: top.options().durability != Durability::None }
}

/// Writes the record of a rename.
pub(crate) fn write_record(
    space: &Namespace,
    number: u128,
    record: &[u8],
    lasts: bool,
) -> Result<()> {
    let top = space.inner.top("a rename")?;
    let mut batch = Batch::new();
    batch.put(&record_key(number), record);
    Ok(top.write(&batch, if lasts { lasting(top) } else { WriteOptions::default() })?)
}

impl Core {
    pub(crate) fn parts_of(&self, space: &Namespace, dirs: &[DirId]) -> Result<Vec<Arc<Part>>> {
        let mut dirs = dirs.to_vec();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.into_iter().map(|dir| self.parts.get(space, dir)).collect()
    }

    /// Which side of a rename this server is on.
    pub(crate) fn side(&self, held: &Held) -> Side {
        match (held.order.is_dir(), held.step) {
            (true, _) => Side::Both,
            (false, Step::Prepared) => Side::Target,
            (false, _) => Side::Source,
        }
    }

    /// Keeps others from the names, and from what they stand for.
    pub(crate) fn hold(
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

    /// Bytes of the large file that comes with a rename that is prepared here.
    pub(crate) fn rename_contents(
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
    pub(crate) fn decide(&self, space: &Namespace, number: u128) -> Result<()> {
        let mut all = self.renames.held();
        let held = all.get_mut(&number).expect("names are held until the rename is decided");
        let decided = record(Step::Decided, held.coordinator, &held.order);
        let written = write_record(space, number, &decided, held.order.moves());
        match &written {
            Ok(()) => held.step = Step::Decided,
            Err(_) => held.is_doubtful = true,
        }
        written
    }

    /// Takes a decision back that the store has refused: it may be in the log. Nobody else is told
    /// of an end before that.
    pub(crate) fn undecide(&self, space: &Namespace, number: u128) -> Result<()> {
        let mut all = self.renames.held();
        let held = all.get_mut(&number).expect("names are held until the rename is over");
        let begun = record(Step::Begun, held.coordinator, &held.order);
        write_record(space, number, &begun, held.order.moves())?;
        held.is_doubtful = false;
        Ok(())
    }

    /// Does this server's part, or does not, and lets the names go. Doing it again does nothing.
    /// The coordinator keeps the record until the others have done theirs.
    pub(crate) fn settle(&self, space: &Namespace, number: u128, commits: bool) -> Result<()> {
        // It was settled before.
        let Some(held) = self.renames.held().get(&number).cloned() else { return Ok(()) };
        let order = &held.order;
        let side = self.side(&held);
        if commits {
            self.apply(space, order, side)?;
        } else if let (Side::Target, Some(inode)) = (side, large_of(&order.entry)) {
            space.inner.contents.remove(inode)?;
        }
        if held.step == Step::Prepared || !commits {
            let mut batch = Batch::new();
            batch.delete(&record_key(number));
            // With it everything lasts that was done.
            let lasts = commits && order.moves();
            let top = space.inner.top("a rename")?;
            top.write(&batch, if lasts { lasting(top) } else { WriteOptions::default() })?;
        }
        self.release(space, number, &held, side)?;
        if held.step == Step::Prepared || !commits {
            self.renames.held().remove(&number);
        }
        Ok(())
    }

    /// All have done their parts.
    pub(crate) fn forget(&self, space: &Namespace, number: u128) -> Result<()> {
        space.inner.top("a rename")?.delete(&record_key(number))?;
        self.renames.held().remove(&number);
        Ok(())
    }

    fn release(&self, space: &Namespace, number: u128, held: &Held, side: Side) -> Result<()> {
        let names = held.order.names(side);
        let dirs: Vec<DirId> = names.iter().map(|name| name.0).chain(held.replaced).collect();
        let parts = self.parts_of(space, &dirs)?;
        let mut locked = Locked::new(&parts);
        let mut was_held = false;
        for (_, state) in &mut locked.0 {
            let before = state.held.len();
            state.held.retain(|held| held.1 != number);
            was_held |= state.held.len() < before;
            state.pins.retain(|pin| *pin != number);
            state.closed = state.closed.filter(|closed| *closed != number);
        }
        // A coordinator comes here until all have heard; by then leases may be somebody else's.
        if was_held {
            let changed = held.order.changed(held.replaced);
            changed.into_iter().for_each(|dir| self.leases.changed(dir));
        }
        Ok(())
    }

    /// Holds the names again that were held before a crash.
    pub(crate) fn restore(&self) -> Result<()> {
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
                return Err(damaged(space.inner.store_path()));
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
