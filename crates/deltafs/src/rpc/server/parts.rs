//! Which names of which directories this server has.
//!
//! ```text
//!   directory --> Part --lock--> State   map: what was heard of     shards: what is here
//!                                        locked: names of renames under way
//! ```
//!
//! A call takes the lock shared, asks whether its name is here, and keeps the lock until it is
//! done. A split takes it exclusively, for its steps: see `split`. What is written down, under
//! `part` and the directory's number among the records about the log:
//!
//! ```text
//!   count: u16 | count * (number: u32 | depth: u8 | splits: u8) | map, to the end
//! ```
//!
//! A directory that never split has no record: its one partition is where its number says.
//!
//! **Invariant:** a name has one server at every moment, or none, while it changes hands. Names of
//! directories have one too, which decides who makes them; but all servers have them.

use crate::error::{Error, Result};
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::partition::{Placement, Route, Shard, SplitMap, hash_name};
use crate::record::Key;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Directories whose partitions stay in memory without being used.
const IDLE_MAX: usize = 1 << 16;

/// The partitions of all directories, as one server has them.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) placement: Placement,
    pub(crate) server: u32,
    /// Every server has every name: there is one, or nothing changes.
    pub(crate) has_all: bool,
    /// Files of a partition that make it split.
    pub(crate) split_at: u64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    parts: HashMap<DirId, Arc<Part>>,
    sweep_at: usize,
}

/// One directory.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) dir: DirId,
    state: RwLock<State>,
    /// Files to be made until somebody counts.
    left: AtomicI64,
    /// Whether somebody was told to count.
    is_told: AtomicBool,
}

/// What a server knows of a directory's partitions.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) map: SplitMap,
    pub(crate) shards: Vec<Shard>,
    /// The half that moves may be at the other server already: it is not read either.
    pub(crate) is_sealed: bool,
    /// It splits as far as it goes, however few files it has.
    pub(crate) spreads: bool,
    /// Names that a rename holds, and its number.
    pub(crate) locked: Vec<(Vec<u8>, u128)>,
    /// Renames that put something into it, or replace it: it cannot be removed.
    pub(crate) pins: Vec<u128>,
    /// The rename that replaces it: nothing can be made in it.
    pub(crate) closed: Option<u128>,
}

/// What a call does with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Why a call is not carried out here and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// Another server has the name; the map says more.
    Elsewhere(Vec<u8>),
    /// The name is changing hands, or a rename holds it.
    Retry(&'static str),
}

const MOVES: &str = "the name is moving to another server: ask again";
pub(crate) const LOCKED: &str = "a rename holds the name: ask again";

impl State {
    /// Whether the name is here, and may be used so.
    pub(crate) fn admit(&self, dir: DirId, name: &[u8], access: Access) -> Option<Redirect> {
        if !self.locked.is_empty() && self.locked.iter().any(|locked| locked.0 == name) {
            return Some(Redirect::Retry(LOCKED));
        }
        if access == Access::Write && self.closed.is_some() {
            return Some(Redirect::Retry(LOCKED));
        }
        match (self.route(hash_name(dir.0, name)), access) {
            (Route::Here, _) => None,
            (Route::Moving, Access::Read) if !self.is_sealed => None,
            (Route::Moving, _) => Some(Redirect::Retry(MOVES)),
            (Route::Elsewhere, _) => Some(Redirect::Elsewhere(self.map.to_bytes())),
        }
    }

    fn route(&self, hash: u64) -> Route {
        let routes = self.shards.iter().map(|shard| shard.route(hash));
        routes.into_iter().find(|route| *route != Route::Elsewhere).unwrap_or(Route::Elsewhere)
    }

    /// Whether a listing of this server shows a file of that name.
    pub(crate) fn shows(&self, dir: DirId, name: &[u8]) -> bool {
        self.route(hash_name(dir.0, name)) != Route::Elsewhere
    }

    /// The partitions here, by number and depth.
    pub(crate) fn shards(&self) -> Vec<(u32, u8)> {
        let all = self.shards.iter();
        all.map(|shard| (shard.number(), u8::try_from(shard.depth()).unwrap_or(u8::MAX))).collect()
    }

    /// The record. What renames hold has records of its own.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + 6 * self.shards.len() + 8);
        out.extend_from_slice(&(self.shards.len() as u16).to_le_bytes());
        for shard in &self.shards {
            out.extend_from_slice(&shard.number().to_le_bytes());
            out.push(shard.depth() as u8);
            out.push(u8::from(shard.splitting().is_some()));
        }
        out.extend_from_slice(&self.map.to_bytes());
        out
    }

    fn decode(record: &[u8]) -> Option<State> {
        let (count, rest) = record.split_first_chunk::<2>()?;
        let (shards, map) = rest.split_at_checked(6 * usize::from(u16::from_le_bytes(*count)))?;
        let (shards, _) = shards.as_chunks::<6>();
        let shards: Vec<Shard> = shards
            .iter()
            .map(|[a, b, c, d, depth, splits]| {
                let number = u32::from_le_bytes([*a, *b, *c, *d]);
                Shard::restore(number, u32::from(*depth), *splits != 0)
            })
            .collect::<Option<_>>()?;
        let map = SplitMap::from_bytes(map)?;
        // It was sealed before it was written down.
        let is_sealed = shards.iter().any(|shard| shard.splitting().is_some());
        Some(State { is_sealed, ..State::new(map, shards) })
    }

    /// Whether a record about the log is that of a directory with a split under way.
    pub(crate) fn splits(name: &[u8], record: &[u8]) -> bool {
        name.starts_with(b"part") && State::decode(record).is_some_and(|state| state.is_sealed)
    }

    pub(crate) fn new(map: SplitMap, shards: Vec<Shard>) -> State {
        State {
            map,
            shards,
            is_sealed: false,
            spreads: false,
            locked: Vec::new(),
            pins: Vec::new(),
            closed: None,
        }
    }
}

/// The key of a directory's record.
pub(crate) fn part_key(dir: DirId) -> Key {
    let mut name = [0; 20];
    name[..4].copy_from_slice(b"part");
    name[4..].copy_from_slice(&dir.to_bytes());
    Key::entry(DirId::SYSTEM, &name)
}

impl Part {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files were made. Whether somebody should count; one caller is told.
    #[inline]
    pub(crate) fn made(&self, files: i64) -> bool {
        // Relaxed: a count, which publishes nothing.
        self.left.fetch_sub(files, Ordering::Relaxed) <= files
            && !self.is_told.swap(true, Ordering::Relaxed)
    }

    /// Somebody has counted: after so many files again.
    pub(crate) fn counted(&self, left: u64) {
        self.left.store(i64::try_from(left).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.is_told.store(false, Ordering::Relaxed);
    }
}

impl Parts {
    pub(crate) fn new(servers: u32, server: u32, has_all: bool, split_at: u64) -> Parts {
        let placement = Placement::new(servers);
        let table = Table { parts: HashMap::new(), sweep_at: IDLE_MAX };
        let split_at = split_at.max(2);
        Parts { placement, server, has_all, split_at, table: Mutex::new(table) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The map that clients are given where every server has all: any of them will do, so they
    /// take all in turn.
    pub(crate) fn widest(&self) -> Vec<u8> {
        SplitMap::full(self.placement.depth_max()).to_bytes()
    }

    /// A directory. It is read with the table locked, so that it has one state.
    ///
    /// # Errors
    /// The record cannot be read.
    pub(crate) fn get(&self, space: &Namespace, dir: DirId) -> Result<Arc<Part>> {
        let mut table = self.table();
        if let Some(part) = table.parts.get(&dir) {
            return Ok(Arc::clone(part));
        }
        let state = if self.has_all {
            State::new(SplitMap::new(), vec![Shard::first()])
        } else {
            self.load(space, dir)?
        };
        let part = Arc::new(Part {
            dir,
            state: RwLock::new(state),
            left: AtomicI64::new(i64::try_from(self.split_at).unwrap_or(i64::MAX)),
            is_told: AtomicBool::new(self.has_all),
        });
        if table.parts.len() >= table.sweep_at {
            // Who holds one came through this table; and what only memory knows keeps it.
            table.parts.retain(|_, part| {
                let state = part.read();
                Arc::strong_count(part) > 1
                    || state.shards.iter().any(|shard| shard.splitting().is_some())
                    || state.spreads
                    || state.closed.is_some()
                    || !(state.locked.is_empty() && state.pins.is_empty())
            });
            table.sweep_at = (2 * table.parts.len()).max(IDLE_MAX);
        }
        table.parts.insert(dir, Arc::clone(&part));
        Ok(part)
    }

    /// Several directories, sorted and each once: in this order their locks are taken.
    pub(crate) fn get_all(&self, space: &Namespace, dirs: &[DirId]) -> Result<Vec<Arc<Part>>> {
        let mut dirs = dirs.to_vec();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.into_iter().map(|dir| self.get(space, dir)).collect()
    }

    fn load(&self, space: &Namespace, dir: DirId) -> Result<State> {
        let top = space.inner.top("the partitions of a directory")?;
        if let Some(record) = top.get(&part_key(dir))? {
            return State::decode(&record).ok_or_else(|| Error::Corruption {
                path: top.dir().to_owned(),
                what: format!("the record of the partitions of {dir:?} is damaged"),
            });
        }
        let is_first = self.placement.home(dir.0, 0) == self.server;
        let shards = if is_first { vec![Shard::first()] } else { Vec::new() };
        Ok(State::new(SplitMap::new(), shards))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_comes_back_and_a_split_under_way_is_sealed() {
        let mut first = Shard::first();
        let mut state = State::new(SplitMap::new(), vec![first.clone()]);
        assert!(State::decode(&state.encode()).is_some_and(|read| !read.is_sealed));
        let split = first.begin().unwrap();
        state.shards = vec![first, Shard::restore(6, 3, false).unwrap()];
        state.map.add(6);
        let read = State::decode(&state.encode()).unwrap();
        assert!(read.is_sealed);
        assert_eq!((&read.shards, &read.map), (&state.shards, &state.map));
        assert_eq!(read.shards[0].splitting(), Some(split));
        let record = state.encode();
        for end in 0..record.len() {
            assert!(State::decode(&record[..end]).is_none(), "{end}");
        }
    }

    #[test]
    fn names_are_here_elsewhere_or_between() {
        let dir = DirId(99);
        let mut shard = Shard::first();
        let split = shard.begin().unwrap();
        let mut state = State::new(SplitMap::new(), vec![shard]);
        let name_of = |moves: bool| {
            let all = (0..100_u32).map(|n| format!("{n}").into_bytes());
            all.into_iter().find(|name| split.moves(hash_name(99, name)) == moves).unwrap()
        };
        let (stays, goes) = (name_of(false), name_of(true));
        assert_eq!(state.admit(dir, &stays, Access::Write), None);
        assert_eq!(state.admit(dir, &goes, Access::Read), None);
        assert_eq!(state.admit(dir, &goes, Access::Write), Some(Redirect::Retry(MOVES)));
        state.is_sealed = true;
        assert_eq!(state.admit(dir, &goes, Access::Read), Some(Redirect::Retry(MOVES)));
        assert!(state.shards[0].commit(&split));
        state.is_sealed = false;
        let map = state.map.to_bytes();
        assert_eq!(state.admit(dir, &goes, Access::Read), Some(Redirect::Elsewhere(map)));
        state.locked.push((stays.clone(), 5));
        assert_eq!(state.admit(dir, &stays, Access::Read), Some(Redirect::Retry(LOCKED)));
    }
}
