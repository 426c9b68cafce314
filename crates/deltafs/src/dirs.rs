//! The directories in use: one state for each, whoever holds it.
//!
//! ```text
//!   handles, calls --Arc--> DirState <--Arc-- table, 64 parts by number
//! ```
//!
//! A state is in the table as long as somebody holds it, so a directory never has two. Its lock is
//! what keeps calls on one directory apart:
//!
//! | call | holds |
//! |---|---|
//! | create, unlink, setattr of a file, write | shared; the key itself is changed in one step |
//! | mkdir, setattr of the directory | exclusive |
//! | rmdir | parent and directory, exclusive |
//! | rename, link | all directories of it, exclusive |
//!
//! A thread that takes several locks takes them in the order of the numbers: no deadlock.
//!
//! **Times.** A create moves its directory's time in memory. The record follows when it is a second
//! behind, and when the state leaves the table, at [`Namespace::flush`](crate::Namespace::flush) or
//! at the end: so a create is one write, not two. After a kill the time of a directory may be up to
//! a second too old; entries and counts are exact.

use crate::error::Result;
use crate::id::DirId;
use crate::layers::{Folded, Layers};
use crate::record::{DirNode, Key, Node, Touched};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const PARTS: usize = 64;

/// How far the record of a directory's time may be behind.
const STALE_NS: u64 = 1_000_000_000;

/// A directory in use.
#[derive(Debug)]
pub(crate) struct DirState {
    pub(crate) id: DirId,
    info: RwLock<DirInfo>,
    /// When its entries last changed. Creates move it with the lock shared.
    mtime_ns: AtomicU64,
    /// When an entry last came or went; that is when the directory changed, whatever its
    /// modification time was set to.
    moved_ns: AtomicU64,
    /// What the record says of the modification time.
    stored_ns: AtomicU64,
}

/// What is known about a directory.
#[derive(Clone, Debug)]
pub(crate) struct DirInfo {
    pub(crate) is_removed: bool,
    pub(crate) node: DirNode,
    /// Directories in it.
    pub(crate) subdirs: i64,
    /// Those that the writable log has added.
    pub(crate) own_subdirs: i64,
    /// Whether the writable log has the node.
    pub(crate) own_is_full: bool,
    /// When mode or owner last changed; entries count as well, see [`DirState::times`].
    pub(crate) ctime_ns: u64,
}

impl DirState {
    pub(crate) fn new(id: DirId, info: DirInfo, mtime_ns: u64) -> DirState {
        let (mtime_ns, stored_ns) = (AtomicU64::new(mtime_ns), AtomicU64::new(mtime_ns));
        let moved_ns = AtomicU64::new(info.ctime_ns);
        DirState { id, info: RwLock::new(info), mtime_ns, moved_ns, stored_ns }
    }

    /// What the logs say of a directory.
    pub(crate) fn of(id: DirId, folded: Folded) -> DirState {
        let info = DirInfo {
            is_removed: false,
            node: folded.node,
            subdirs: folded.all.subdirs,
            own_subdirs: folded.own_subdirs,
            own_is_full: folded.own_is_full,
            ctime_ns: folded.all.ctime_ns,
        };
        DirState::new(id, info, folded.all.mtime_ns)
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, DirInfo> {
        self.info.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, DirInfo> {
        self.info.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Modification and change time.
    pub(crate) fn times(&self, info: &DirInfo) -> (u64, u64) {
        // Relaxed: the time is all that is read, and it publishes nothing.
        let mtime_ns = self.mtime_ns.load(Ordering::Relaxed);
        (mtime_ns, info.ctime_ns.max(self.moved_ns.load(Ordering::Relaxed)))
    }

    /// An entry came or went at `now_ns`. Whether the record should follow; one caller is told.
    #[inline]
    pub(crate) fn touch(&self, now_ns: u64) -> bool {
        self.mtime_ns.store(now_ns, Ordering::Relaxed);
        self.moved_ns.store(now_ns, Ordering::Relaxed);
        let stored = self.stored_ns.load(Ordering::Relaxed);
        now_ns.abs_diff(stored) > STALE_NS
            && self
                .stored_ns
                .compare_exchange(stored, now_ns, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// The same with the lock held exclusively, by who writes the record in any case.
    pub(crate) fn touch_and_store(&self, now_ns: u64) {
        self.moved_ns.store(now_ns, Ordering::Relaxed);
        self.set_mtime(now_ns);
    }

    /// Somebody says when its entries last changed. The lock is held exclusively, by who writes the
    /// record.
    pub(crate) fn set_mtime(&self, mtime_ns: u64) {
        self.mtime_ns.store(mtime_ns, Ordering::Relaxed);
        self.stored_ns.store(mtime_ns, Ordering::Relaxed);
    }

    /// Whether the record has another time. If so it counts as written from now on.
    fn take_unstored(&self) -> bool {
        let mtime_ns = self.mtime_ns.load(Ordering::Relaxed);
        self.stored_ns.swap(mtime_ns, Ordering::Relaxed) != mtime_ns
    }

    /// The record for the writable log. The lock is held.
    pub(crate) fn record(&self, info: &DirInfo) -> Vec<u8> {
        let (mtime_ns, ctime_ns) = self.times(info);
        let touched = Touched { subdirs: info.own_subdirs, mtime_ns, ctime_ns };
        let node = if info.own_is_full {
            Node::Dir(info.node.clone(), touched)
        } else {
            Node::Touched(touched)
        };
        node.encode()
    }

    /// Writes the record if only memory has the time.
    pub(crate) fn store_time(&self, layers: &Layers) -> Result<()> {
        // A name space that is only read has no new times.
        let Some(top) = layers.top() else { return Ok(()) };
        let info = self.write();
        if !info.is_removed && self.take_unstored() {
            top.put(&Key::node(self.id), &self.record(&info))?;
        }
        Ok(())
    }
}

/// The states, by number.
#[derive(Debug)]
pub(crate) struct Dirs {
    parts: Vec<Mutex<Part>>,
    /// States of a part that may be idle.
    idle_max: usize,
}

#[derive(Debug, Default)]
struct Part {
    states: HashMap<DirId, Arc<DirState>>,
    /// At how many states idle ones go.
    sweep_at: usize,
}

impl Dirs {
    /// About `idle_max` directories stay without being held.
    pub(crate) fn new(idle_max: usize) -> Dirs {
        let idle_max = idle_max.div_ceil(PARTS);
        let part = || Mutex::new(Part { states: HashMap::new(), sweep_at: idle_max });
        Dirs { parts: (0..PARTS).map(|_| part()).collect(), idle_max }
    }

    fn part(&self, id: DirId) -> MutexGuard<'_, Part> {
        // The numbers are digests: any bits will do.
        let index = (id.0 as usize) % PARTS;
        self.parts[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a directory; `None` if there is no such directory. It is read with the part
    /// locked, so that nothing older can come in beside what somebody changes.
    pub(crate) fn get(&self, layers: &Layers, id: DirId) -> Result<Option<Arc<DirState>>> {
        let mut part = self.part(id);
        if let Some(state) = part.states.get(&id) {
            return Ok(Some(Arc::clone(state)));
        }
        let Some(folded) = layers.node(id)? else { return Ok(None) };
        let state = Arc::new(DirState::of(id, folded));
        part.insert(&state, self.idle_max, layers)?;
        Ok(Some(state))
    }

    /// A state that is in use already.
    pub(crate) fn peek(&self, id: DirId) -> Option<Arc<DirState>> {
        self.part(id).states.get(&id).cloned()
    }

    /// Adds the state of a new directory. Its parent is locked, so nobody else can.
    pub(crate) fn add(&self, layers: &Layers, state: &Arc<DirState>) -> Result<()> {
        self.part(state.id).insert(state, self.idle_max, layers)
    }

    /// Writes all times that only memory has.
    pub(crate) fn store_times(&self, layers: &Layers) -> Result<()> {
        for part in &self.parts {
            let part = part.lock().unwrap_or_else(PoisonError::into_inner);
            let states: Vec<_> = part.states.values().cloned().collect();
            drop(part);
            for state in states {
                state.store_time(layers)?;
            }
        }
        Ok(())
    }
}

impl Part {
    fn insert(&mut self, state: &Arc<DirState>, idle_max: usize, layers: &Layers) -> Result<()> {
        if self.states.len() >= self.sweep_at {
            self.sweep(layers)?;
            self.sweep_at = (2 * self.states.len()).max(idle_max);
        }
        self.states.insert(state.id, Arc::clone(state));
        Ok(())
    }

    /// Removes what nobody holds. New holders come through this part, so the counts only fall.
    fn sweep(&mut self, layers: &Layers) -> Result<()> {
        let is_idle = |state: &Arc<DirState>| Arc::strong_count(state) == 1;
        for state in self.states.values().filter(|state| is_idle(state)) {
            state.store_time(layers)?;
        }
        self.states.retain(|_, state| !is_idle(state));
        Ok(())
    }
}
