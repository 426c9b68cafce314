//! A store that is open, which every handle keeps, in one of two kinds.
//!
//! ```text
//!   Kind::Plain(Db)        Keys::Whole(Db)          the store is one ordered set of keys
//!   Kind::Spaces(Spaces)   Keys::Space(KeySpace)    it has some, each with a name
//! ```
//!
//! A program uses both by handles of key spaces: in a plain store the space with the empty name, a
//! name that no other has, is the store.

use crate::error::{Code, Error};
use crate::library::KEYRACK_SYNC;
use keyrack_flodb::{Db, Error as StoreError, KeySpace, Snapshot as Moment, Spaces, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A store of either kind.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Plain(Db),
    Spaces(Spaces),
}

/// The keys of a space, or of a plain store.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    Whole(Db),
    Space(KeySpace),
}

/// Calls what a store of either kind has.
macro_rules! on_kind {
    ($kind:expr, $store:ident => $call:expr) => {
        match $kind {
            $crate::open::Kind::Plain($store) => $call,
            $crate::open::Kind::Spaces($store) => $call,
        }
    };
}

/// Calls what keys of either kind have.
macro_rules! on_keys {
    ($keys:expr, $it:ident => $call:expr) => {
        match $keys {
            $crate::open::Keys::Whole($it) => $call,
            $crate::open::Keys::Space($it) => $call,
        }
    };
}

pub(crate) use {on_keys, on_kind};

/// A store that was opened.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) kind: Kind,
    is_closed: AtomicBool,
}

impl Open {
    pub(crate) fn new(kind: Kind) -> Arc<Open> {
        Arc::new(Open { kind, is_closed: AtomicBool::new(false) })
    }

    /// # Errors
    /// It was closed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        // Relaxed: a call that runs beside the close is before or after it, and safe in both.
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::new(Code::KEYRACK_CLOSED, "the store was closed"));
        }
        Ok(())
    }

    /// Closes it for all handles. A second call waits for the first, and for the listener unless
    /// the listener makes it.
    pub(crate) fn close(&self) -> Result<(), Error> {
        self.is_closed.store(true, Ordering::Relaxed);
        match on_kind!(&self.kind, store => store.clone().close()) {
            // Another call has closed it, and tells what has failed.
            Err(StoreError::Closed) => Ok(()),
            closed => Ok(closed?),
        }
    }

    pub(crate) fn moment(&self) -> Moment {
        on_kind!(&self.kind, store => store.snapshot())
    }
}

/// # Errors
/// Two handles are not of one store.
pub(crate) fn check_same(a: &Arc<Open>, b: &Arc<Open>, what: &str) -> Result<(), Error> {
    if Arc::ptr_eq(a, b) {
        return Ok(());
    }
    Err(Error::usage(format_args!("the {what} is of another store, or of an earlier opening")))
}

/// # Errors
/// There are flags other than the known ones.
pub(crate) fn check_flags(flags: u32, known: u32) -> Result<(), Error> {
    if flags & !known == 0 {
        return Ok(());
    }
    Err(Error::usage(format_args!("unknown flags: {:#x}; known here: {known:#x}", flags & !known)))
}

/// How a write with these flags is done.
///
/// # Errors
/// As for [`check_flags`].
pub(crate) fn writes(flags: u32) -> Result<WriteOptions, Error> {
    check_flags(flags, KEYRACK_SYNC)?;
    Ok(WriteOptions { sync: flags & KEYRACK_SYNC != 0 })
}
