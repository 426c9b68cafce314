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

use super::record::{
    PendingTxn, Phase, Role, Transaction, damaged, decode_record, encode_record, large_of,
    record_key,
};
use crate::caller::Found;
use crate::error::Result;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::record::{Entry, Key, parse_key};
use crate::rpc::codec::Action;
use crate::rpc::server::core::{Core, RpcError, RpcResult};
use crate::rpc::server::parts::{LOCKED, Part, State};
use crate::user::User;
use keyrack_flodb::{Batch, Db, Durability, WriteOptions};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLockWriteGuard};

/// Operations whose results are kept, at most.
const OPERATIONS_MAX: usize = 4096;

/// Operations are counted below this bit in each life of a server.
const START_SHIFT: u32 = 32;

/// What an operation came to; `None` while it is under way.
pub(crate) type Outcome = Option<RpcResult>;

/// The renames of a server.
#[derive(Debug)]
pub(crate) struct Transactions {
    pending: Mutex<HashMap<u128, PendingTxn>>,
    operations: Mutex<Operations>,
}

#[derive(Debug, Default)]
struct Operations {
    last: u64,
    all: HashMap<u64, Outcome>,
}

impl Transactions {
    /// Of a server that was started for the `start`-th time. Numbers of operations are not given
    /// twice: who waits for one of before is not told what came of another.
    pub(crate) fn new(start: u64) -> Transactions {
        let operations = Operations { last: start << START_SHIFT, all: HashMap::new() };
        Transactions { pending: Mutex::default(), operations: Mutex::new(operations) }
    }

    pub(crate) fn pending(&self) -> MutexGuard<'_, HashMap<u128, PendingTxn>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a path may be followed here. It may not where another server holds one of its names
    /// for something that it coordinates: that may be decided already, and here nobody knows.
    pub(crate) fn admit(&self, path: &[u8]) -> RpcResult {
        let pending = self.pending();
        let holds = |pending: &PendingTxn, name: &[u8]| {
            let Transaction { name: old, to_name: new, .. } = &pending.txn;
            pending.phase == Phase::Prepared && !name.is_empty() && (old == name || new == name)
        };
        let mut names = path.split(|byte| *byte == b'/');
        match names.any(|name| pending.values().any(|pending| holds(pending, name))) {
            true => Err(RpcError::new("EAGAIN", LOCKED)),
            false => Ok(()),
        }
    }

    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new operation.
    pub(crate) fn begin_operation(&self) -> RpcResult<u64> {
        let mut operations = self.operations();
        if operations.all.len() >= OPERATIONS_MAX {
            let oldest = operations.all.iter().filter(|(_, outcome)| outcome.is_some());
            let Some(oldest) = oldest.map(|(id, _)| *id).min() else {
                return Err(RpcError::new("EBUSY", "too many renames are under way: come again"));
            };
            operations.all.remove(&oldest);
        }
        operations.last += 1;
        let id = operations.last;
        operations.all.insert(id, None);
        Ok(id)
    }

    pub(crate) fn finish_operation(&self, operation: u64, outcome: RpcResult) {
        self.operations().all.insert(operation, Some(outcome));
    }

    /// What came of an operation; asking for it twice is fine.
    pub(crate) fn operation_outcome(&self, operation: u64) -> RpcResult {
        match self.operations().all.get(&operation) {
            Some(None) => Err(RpcError::new("EAGAIN", "it is under way: ask again")),
            Some(Some(Ok(()))) => Ok(()),
            Some(Some(Err(error))) => Err(error.clone()),
            None => Err(RpcError::new("ESTALE", "nobody knows any more what came of it: look")),
        }
    }
}

/// The partitions of several directories, locked in the order of their numbers.
pub(crate) struct LockedParts<'a>(Vec<(DirId, RwLockWriteGuard<'a, State>)>);

impl<'a> LockedParts<'a> {
    pub(crate) fn new(parts: &'a [Arc<Part>]) -> LockedParts<'a> {
        LockedParts(parts.iter().map(|part| (part.dir, part.write())).collect())
    }

    pub(crate) fn state(&mut self, dir: DirId) -> &mut State {
        let at = self.0.iter().position(|pending| pending.0 == dir);
        &mut self.0[at.expect("the directory was locked")].1
    }
}

/// How a write is made that must survive a power loss before another server is told of it. Without
/// a log nothing does, and tables are not worth it.
pub(crate) fn durable_write(top: &Db) -> WriteOptions {
    WriteOptions { sync: top.options().durability != Durability::None }
}

/// Writes the record of a rename.
pub(crate) fn put_record(space: &Namespace, id: u128, record: &[u8], lasts: bool) -> Result<()> {
    let top = space.inner.top("a rename")?;
    let mut batch = Batch::new();
    batch.put(&record_key(id), record);
    Ok(top.write(&batch, if lasts { durable_write(top) } else { WriteOptions::default() })?)
}

impl Core {
    pub(crate) fn parts_of(&self, space: &Namespace, dirs: &[DirId]) -> Result<Vec<Arc<Part>>> {
        let mut dirs = dirs.to_vec();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.into_iter().map(|dir| self.parts.get(space, dir)).collect()
    }

    /// Which side of a rename this server is on.
    pub(crate) fn role(&self, pending: &PendingTxn) -> Role {
        match (pending.txn.is_dir(), pending.phase) {
            (true, _) => Role::Both,
            (false, Phase::Prepared) => Role::Target,
            (false, _) => Role::Source,
        }
    }

    /// Keeps others from the names, and from what they stand for.
    pub(crate) fn lock_names(
        &self,
        locked: &mut LockedParts<'_>,
        id: u128,
        txn: &Transaction,
        (role, replaced): (Role, Option<DirId>),
    ) {
        for (dir, name) in txn.locked_names(role) {
            locked.state(dir).locked.push((name.to_vec(), id));
        }
        match txn.action {
            Action::Rmdir => {}
            Action::Mkdir => locked.state(txn.from).pins.push(id),
            Action::Rename | Action::Replace if role == Role::Source => {}
            Action::Rename | Action::Replace => locked.state(txn.to).pins.push(id),
        }
        if let Some(replaced) = replaced {
            locked.state(replaced).closed = Some(id);
        }
    }

    /// Bytes of the large file that comes with a rename that is prepared here.
    pub(crate) fn receive_contents(
        &self,
        space: &Namespace,
        id: u128,
        offset: u64,
        data: &[u8],
    ) -> RpcResult {
        let all = self.txns.pending();
        let pending = all.get(&id).filter(|pending| pending.phase == Phase::Prepared);
        let entry = pending.and_then(|pending| Entry::decode(&pending.txn.entry));
        let Some(Entry::Sized(attributes)) = entry else {
            return Err(RpcError::new("ESTALE", "no rename of a large file is prepared here"));
        };
        Ok(space.inner.contents.receive(attributes.inode, offset, data)?)
    }

    /// The coordinator has decided: from here on it will be done.
    pub(crate) fn decide(&self, space: &Namespace, id: u128) -> Result<()> {
        let mut all = self.txns.pending();
        let pending = all.get_mut(&id).expect("names are held until the rename is decided");
        let decided = encode_record(Phase::Decided, pending.coordinator, &pending.txn);
        let written = put_record(space, id, &decided, pending.txn.is_rename());
        match &written {
            Ok(()) => pending.phase = Phase::Decided,
            Err(_) => pending.is_uncertain = true,
        }
        written
    }

    /// Takes a decision back that the store has refused: it may be in the log. Nobody else is told
    /// of an end before that.
    pub(crate) fn retract_decision(&self, space: &Namespace, id: u128) -> Result<()> {
        let mut all = self.txns.pending();
        let pending = all.get_mut(&id).expect("names are held until the rename is over");
        let begun = encode_record(Phase::Begun, pending.coordinator, &pending.txn);
        put_record(space, id, &begun, pending.txn.is_rename())?;
        pending.is_uncertain = false;
        Ok(())
    }

    /// Does this server's part, or does not, and lets the names go. Doing it again does nothing.
    /// The coordinator keeps the record until the others have done theirs.
    pub(crate) fn finish_txn(&self, space: &Namespace, id: u128, commits: bool) -> Result<()> {
        // It was settled before.
        let Some(pending) = self.txns.pending().get(&id).cloned() else { return Ok(()) };
        let txn = &pending.txn;
        let role = self.role(&pending);
        if commits {
            self.apply(space, txn, role)?;
        } else if let (Role::Target, Some(inode)) = (role, large_of(&txn.entry)) {
            space.inner.contents.remove(inode)?;
        }
        if pending.phase == Phase::Prepared || !commits {
            let mut batch = Batch::new();
            batch.delete(&record_key(id));
            // With it everything lasts that was done.
            let lasts = commits && txn.is_rename();
            let top = space.inner.top("a rename")?;
            top.write(&batch, if lasts { durable_write(top) } else { WriteOptions::default() })?;
        }
        self.unlock_names(space, id, &pending, role)?;
        if pending.phase == Phase::Prepared || !commits {
            self.txns.pending().remove(&id);
        }
        Ok(())
    }

    /// All have done their parts.
    pub(crate) fn forget_txn(&self, space: &Namespace, id: u128) -> Result<()> {
        space.inner.top("a rename")?.delete(&record_key(id))?;
        self.txns.pending().remove(&id);
        Ok(())
    }

    fn unlock_names(
        &self,
        space: &Namespace,
        id: u128,
        pending: &PendingTxn,
        role: Role,
    ) -> Result<()> {
        let names = pending.txn.locked_names(role);
        let dirs: Vec<DirId> = names.iter().map(|name| name.0).chain(pending.replaced).collect();
        let parts = self.parts_of(space, &dirs)?;
        let mut locked = LockedParts::new(&parts);
        let mut was_held = false;
        for (_, state) in &mut locked.0 {
            let before = state.locked.len();
            state.locked.retain(|pending| pending.1 != id);
            was_held |= state.locked.len() < before;
            state.pins.retain(|pin| *pin != id);
            state.closed = state.closed.filter(|closed| *closed != id);
        }
        // A coordinator comes here until all have heard; by then leases may be somebody else's.
        if was_held {
            let changed = pending.txn.changed_dirs(pending.replaced);
            changed.into_iter().for_each(|dir| self.leases.change_done(dir));
        }
        Ok(())
    }

    /// Holds the names again that were held before a crash.
    pub(crate) fn restore_txns(&self) -> Result<()> {
        let Some(space) = self.space.as_ref().filter(|_| !self.parts.has_all) else {
            return Ok(());
        };
        let mut found = Vec::new();
        let mut iter = space.inner.top("renames")?.iter()?;
        iter.seek(&Key::entry(DirId::SYSTEM, b"move"))?;
        while let Some((key, value)) = iter.entry() {
            let Some((DirId::SYSTEM, name)) = parse_key(key) else { break };
            let Some(id) = name.strip_prefix(b"move") else { break };
            let pending = decode_record(value).zip(<[u8; 16]>::try_from(id).ok());
            let Some((pending, id)) = pending else {
                return Err(damaged(space.inner.store_path()));
            };
            found.push((u128::from_be_bytes(id), pending));
            iter.next()?;
        }
        for (id, mut pending) in found {
            let role = self.role(&pending);
            let root = User::root();
            let replaced = match role {
                Role::Both if pending.txn.action != Action::Mkdir => {
                    let (dir, name) = pending.txn.removed_name();
                    let is_moved = |id| Entry::decode(&pending.txn.entry) == Some(Entry::Dir(id));
                    match space.by(&root).lookup(dir, name)? {
                        // What has come already replaces nothing any more.
                        Some(Found::Dir(id))
                            if pending.txn.action == Action::Rmdir || !is_moved(id) =>
                        {
                            Some(id)
                        }
                        _ => None,
                    }
                }
                _ => None,
            };
            let names = pending.txn.locked_names(role);
            let dirs: Vec<DirId> = names.iter().map(|name| name.0).chain(replaced).collect();
            let parts = self.parts_of(space, &dirs)?;
            self.lock_names(&mut LockedParts::new(&parts), id, &pending.txn, (role, replaced));
            pending.replaced = replaced;
            self.txns.pending().insert(id, pending);
        }
        Ok(())
    }
}
