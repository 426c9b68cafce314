//! # keyrack-python: the native module of the Python package `keyrack`
//!
//! ```text
//!   keyrack/__init__.py   what is public          _errors.py   the classes of exceptions
//!   keyrack/fs.py         files of name spaces    fsspec.py    a file system of fsspec over them
//!      |
//!   _keyrack              this crate
//!      View ---------- KeySpace ---- Store        classes, from the left on bases
//!        |--- Snapshot                            Spaces, Batch, Range, Repository
//!        '--- Transaction
//!      Changes --- Change --- Write             the feed of a store
//!      Files           the calls of name spaces
//!      source, writes     what views read, what they change
//!      handle             an open store, and what ends with it
//!      listener           events of a store for a function
//!      gil, bytes, expiry, error  the lock of the interpreter, arguments, exceptions
//! ```
//!
//! Each call gives the lock of the interpreter up while it may wait or read a disk. A read copies
//! the value once, into the object that it gives. `docs/python.md` has the rules for users.
#![deny(unsafe_code)]

mod backup;
mod batch;
mod bytes;
mod changes;
mod control;
mod error;
mod expiry;
mod files;
mod gil;
mod handle;
mod key_space;
mod listener;
mod merge;
mod options;
mod range;
mod snapshot;
mod source;
mod store;
mod transaction;
mod view;
mod writes;

use pyo3::prelude::*;

/// The native part of `keyrack`.
#[pymodule]
mod _keyrack {
    #[pymodule_export]
    use crate::backup::{BackupInfo, Repository};
    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::changes::{Change, Changes, Write};
    #[pymodule_export]
    use crate::files::{Files, Stat};
    #[pymodule_export]
    use crate::handle::_forked;
    #[pymodule_export]
    use crate::key_space::KeySpace;
    #[pymodule_export]
    use crate::listener::_ending;
    #[pymodule_export]
    use crate::merge::{decode_set, encode_set};
    #[pymodule_export]
    use crate::range::Range;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::store::{Spaces, Store, open, open_spaces};
    #[pymodule_export]
    use crate::transaction::Transaction;
    #[pymodule_export]
    use crate::view::View;
}
