//! An open store, and what ends with it.
//!
//! ```text
//!   Store, KeySpace, Snapshot --> Place --> Handle --> Opened     None once it is closed
//!   Range ------> Kept<cursor> ------------> |
//!   Transaction -> Kept<transaction> ------> + kept: all of them, weakly
//! ```
//!
//! Objects of Python live as long as somebody has them, and a store must close when it is told to:
//! its directory is free then. So the store itself is in one place, which a call locks for reading
//! and `close` for writing; and what refers to the store by itself is in [`Kept`] places, which
//! `close` empties.
//!
//! `close` ends transactions that are idle first. Those that wait for a row of them go on then, see
//! that the store is closed, and end themselves. So no order of the list can block it.
//!
//! **Invariant:** no thread waits for one of these locks while it has that of the interpreter.
//!
//! A process that was forked has no threads of the store, and perhaps locks that nobody frees. A
//! handle remembers how often the process was forked, refuses calls in a child, and there leaves
//! the store as it is instead of closing it.

use crate::error::{Failure, Result};
use keyrack_flodb::{Db, KeySpace, Spaces};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError, Weak};

/// How often this process came out of a fork since the module was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Tells all handles that they are in a child.
#[pyfunction]
pub(crate) fn _forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Refuses what was opened before the process was forked.
pub(crate) fn check_forks(forks: u64) -> Result<()> {
    if forks == FORKS.load(Ordering::Relaxed) {
        return Ok(());
    }
    Err(Failure::Usage(
        "this was opened before the process was forked; open it in the child, or start processes \
         by \"spawn\""
            .to_owned(),
    ))
}

pub(crate) fn forks() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

/// The lock, also after a panic of another holder.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// A store, with or without key spaces.
pub(crate) enum Opened {
    Db(Db),
    /// With the handles of key spaces by name; an empty name is that of one that was dropped.
    Spaces(Spaces, RwLock<Vec<(String, KeySpace)>>),
}

/// Where keys are.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    Db(&'a Db),
    Space(&'a KeySpace),
}

/// Makes the same call on a store and on a key space.
macro_rules! on_both {
    ($at:expr, $keys:ident => $call:expr) => {
        match $at {
            $crate::handle::At::Db($keys) => $call,
            $crate::handle::At::Space($keys) => $call,
        }
    };
}
pub(crate) use on_both;

/// What refers to an open store by itself.
trait Ends: Send + Sync {
    /// Drops it, unless somebody uses it.
    fn try_end(&self);
    /// Drops it; waits for who uses it.
    fn end(&self);
}

/// Something that ends with its store at the latest.
pub(crate) struct Kept<T> {
    handle: Arc<Handle>,
    value: Mutex<Option<T>>,
    /// What a call is told after the end.
    ended: &'static str,
}

impl<T: Send + 'static> Kept<T> {
    pub(crate) fn new(handle: &Arc<Handle>, value: T, ended: &'static str) -> Arc<Kept<T>> {
        let value = Mutex::new(Some(value));
        let kept = Arc::new(Kept { handle: Arc::clone(handle), value, ended });
        let mut list = lock(&handle.kept);
        // Each that is gone is passed once: the list is looked through when it has doubled.
        if list.len() == list.capacity() {
            list.retain(|kept| kept.strong_count() > 0);
        }
        list.push(Arc::downgrade(&kept) as Weak<dyn Ends>);
        drop(list);
        // Whoever closes has perhaps seen the list without it.
        kept.end_if_closed();
        kept
    }

    /// Makes a call. Not with the lock of the interpreter.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.handle.check()?;
        let done = match lock(&self.value).as_mut() {
            Some(value) => call(value),
            None => Err(Failure::Closed(self.ended.to_owned())),
        };
        self.end_if_closed();
        done
    }

    /// Makes a call, and takes it if the call succeeds. Not with the lock of the interpreter.
    pub(crate) fn take_after(&self, call: impl FnOnce(&mut T) -> Result<()>) -> Result<()> {
        self.handle.check()?;
        let mut value = lock(&self.value);
        let done = match value.as_mut() {
            Some(value) => call(value),
            None => Err(Failure::Closed(self.ended.to_owned())),
        };
        let taken = if done.is_ok() { value.take() } else { None };
        drop(value);
        drop(taken);
        self.end_if_closed();
        done
    }

    /// Makes a call that is quick, if nobody makes another.
    pub(crate) fn try_with<R>(&self, call: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        self.handle.check().ok()?;
        let found = match self.value.try_lock() {
            Ok(mut value) => call(value.as_mut()?),
            Err(_) => None,
        };
        self.end_if_closed();
        found
    }

    /// Takes it. Not with the lock of the interpreter.
    pub(crate) fn take(&self) -> Result<T> {
        self.handle.check()?;
        lock(&self.value).take().ok_or_else(|| Failure::Closed(self.ended.to_owned()))
    }

    /// Whether it was taken, while the store is open. Not with the lock of the interpreter.
    pub(crate) fn is_taken(&self) -> bool {
        let is_taken = self.handle.check().is_ok() && lock(&self.value).is_none();
        self.end_if_closed();
        is_taken
    }

    /// A close that came during a call has left it to the call. Waits for nobody, since a read ends
    /// with the lock of the interpreter: who uses it now comes here as well when that is done.
    fn end_if_closed(&self) {
        if self.handle.is_closed.load(Ordering::SeqCst) {
            self.try_end();
        }
    }
}

impl<T: Send> Ends for Kept<T> {
    fn try_end(&self) {
        let taken = match self.value.try_lock() {
            Ok(mut value) => value.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        drop(taken);
    }

    fn end(&self) {
        drop(lock(&self.value).take());
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        let value = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.handle.forks != forks() {
            std::mem::forget(value);
        }
    }
}

/// An open store.
pub(crate) struct Handle {
    path: PathBuf,
    forks: u64,
    /// Set before anything of it ends. Pairs with the check at the end of each call.
    is_closed: AtomicBool,
    opened: RwLock<Option<Opened>>,
    kept: Mutex<Vec<Weak<dyn Ends>>>,
}

impl Handle {
    pub(crate) fn new(path: &Path, opened: Opened) -> Arc<Handle> {
        Arc::new(Handle {
            path: path.to_owned(),
            forks: forks(),
            is_closed: AtomicBool::new(false),
            opened: RwLock::new(Some(opened)),
            kept: Mutex::default(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<()> {
        check_forks(self.forks)?;
        if self.is_closed() { Err(self.closed()) } else { Ok(()) }
    }

    fn closed(&self) -> Failure {
        let path = self.path.display();
        Failure::Closed(format!("the store {path} is closed; open it again"))
    }

    /// Removes a key space; `false` if there is none of that name. Not with the lock of the
    /// interpreter.
    pub(crate) fn drop_space(&self, name: &str) -> Result<bool> {
        self.with(|opened| {
            let Opened::Spaces(spaces, handles) = opened else { return Ok(false) };
            let mut handles = handles.write().unwrap_or_else(PoisonError::into_inner);
            let was_there = spaces.drop_space(name);
            // Also after an error: the name may be gone, and the handle with it.
            if let Some((known, _)) = handles.iter_mut().find(|(known, _)| known == name) {
                known.clear();
            }
            Ok(was_there?)
        })
    }

    /// Makes a call on the store. Not with the lock of the interpreter.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&Opened) -> Result<R>) -> Result<R> {
        self.check()?;
        call(read(&self.opened).as_ref().ok_or_else(|| self.closed())?)
    }

    /// Closes the store, once: later calls have nothing to do. Not with the lock of the
    /// interpreter.
    pub(crate) fn close(&self) -> Result<()> {
        check_forks(self.forks)?;
        self.is_closed.store(true, Ordering::SeqCst);
        let kept: Vec<_> = std::mem::take(&mut *lock(&self.kept));
        let kept: Vec<Arc<dyn Ends>> = kept.iter().filter_map(Weak::upgrade).collect();
        kept.iter().for_each(|kept| kept.try_end());
        kept.iter().for_each(|kept| kept.end());
        let opened = self.opened.write().unwrap_or_else(PoisonError::into_inner).take();
        match opened {
            None => Ok(()),
            Some(Opened::Db(db)) => Ok(db.close()?),
            Some(Opened::Spaces(spaces, handles)) => {
                drop(handles);
                Ok(spaces.close()?)
            }
        }
    }
}

impl Drop for Handle {
    /// The last object of the store is gone, and nobody is told what failed.
    fn drop(&mut self) {
        let opened = self.opened.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(opened) = opened else { return };
        if self.forks != forks() {
            std::mem::forget(opened);
            return;
        }
        // Background threads are waited for.
        let mut opened = Some(opened);
        let mut close = || drop(opened.take());
        if Python::try_attach(|py| py.detach(&mut close)).is_none() {
            close();
        }
    }
}

/// A store, or one of its key spaces.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) handle: Arc<Handle>,
    /// Which of the handles of key spaces.
    space: Option<usize>,
}

impl Place {
    pub(crate) fn store(handle: &Arc<Handle>) -> Place {
        Place { handle: Arc::clone(handle), space: None }
    }

    /// A key space by its name, made if it is not there and `creates`; `None` if it is not there.
    /// Not with the lock of the interpreter.
    pub(crate) fn space(handle: &Arc<Handle>, name: &str, creates: bool) -> Result<Option<Place>> {
        let index = handle.with(|opened| {
            let Opened::Spaces(spaces, handles) = opened else {
                return Err(Failure::Usage(
                    "the store has no key spaces; keyrack.open_spaces makes one that has"
                        .to_owned(),
                ));
            };
            // First: nobody drops the space between here and the list.
            let mut handles = handles.write().unwrap_or_else(PoisonError::into_inner);
            let space = match creates {
                true => Some(spaces.get_or_create(name, &keyrack_flodb::Comparator::Bytewise)?),
                false => spaces.get(name),
            };
            let Some(space) = space else { return Ok(None) };
            if let Some(index) = handles.iter().position(|(known, _)| known == name) {
                return Ok(Some(index));
            }
            handles.push((name.to_owned(), space));
            Ok(Some(handles.len() - 1))
        })?;
        Ok(index.map(|space| Place { handle: Arc::clone(handle), space: Some(space) }))
    }

    /// Makes a call on where the keys are. Not with the lock of the interpreter.
    pub(crate) fn with<R>(&self, call: impl FnOnce(At<'_>) -> Result<R>) -> Result<R> {
        self.handle.with(|opened| self.within(opened, call))
    }

    /// As [`Place::with`], of a handle that is locked already.
    pub(crate) fn within<R>(
        &self,
        opened: &Opened,
        call: impl FnOnce(At<'_>) -> Result<R>,
    ) -> Result<R> {
        match (opened, self.space) {
            (Opened::Db(db), _) => call(At::Db(db)),
            (Opened::Spaces(_, handles), Some(index)) => {
                // The list is free meanwhile: who waits for a row must not keep others from it.
                let space = read(handles)[index].1.clone();
                call(At::Space(&space))
            }
            (Opened::Spaces(..), None) => {
                Err(Failure::Kind("keys are in key spaces; choose one by .space(name)".to_owned()))
            }
        }
    }

    /// The name of the key space.
    pub(crate) fn name(&self) -> Result<Option<String>> {
        if self.space.is_none() {
            return Ok(None);
        }
        self.with(|at| match at {
            At::Db(_) => Ok(None),
            At::Space(space) => Ok(Some(space.name().to_owned())),
        })
    }
}
