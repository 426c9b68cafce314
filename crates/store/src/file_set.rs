//! The files that are a store at one moment, held while somebody copies them.
//!
//! ```text
//!   engine ---> FileSet    name           content             bytes   identity
//!                          000004.table   /store/000004.table  1302   "9f..-4-.."
//!                          MANIFEST-7     bytes in memory      8192
//!                          CURRENT        bytes in memory        20   <-- last: makes it whole
//! ```
//!
//! An engine that keeps immutable files can say which of them are the store at a moment, and keep
//! them while writers go on. So a copy needs no second directory, and no writer waits for it. A
//! copier needs to know nothing of the engine: neither which file is a table, nor what a log is.
//!
//! **Invariant:** until its [`HeldFile`] is dropped, the first `bytes` of a file stay as they are.
//!
//! **Invariant:** the files with these names and bytes in an otherwise empty directory are a store.
//! Without the last one, it is one that an opening refuses as damaged, or an empty one.

use crate::LogPosition;
use keyrack_vfs::{Fs, RelativePath};
use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of an identity, at most.
pub const IDENTITY_BYTES_MAX: usize = 128;

/// The files that are a store at one moment.
#[derive(Debug)]
pub struct FileSet {
    /// Where the files are.
    pub fs: Arc<dyn Fs>,
    /// The engine that makes them, such as `flodb`.
    pub engine: &'static str,
    /// Where in its log the store is. `None` where the engine has no log to be shipped.
    pub log: Option<LogPosition>,
    /// In the order in which a copy is to be written.
    pub files: Vec<HeldFile>,
}

/// A file of a [`FileSet`]. It may be removed by its store when this is dropped.
pub struct HeldFile {
    /// Its name in the directory of the store.
    pub name: RelativePath,
    /// Where its bytes are.
    pub content: FileContent,
    /// How many of them belong to it; the file may have more.
    pub bytes: u64,
    /// Two files with one identity and length have the same bytes, whichever stores they belong to.
    /// Printable ASCII without spaces, at most [`IDENTITY_BYTES_MAX`] bytes. `None` where the
    /// engine does not know.
    pub identity: Option<String>,
    /// Makes a check of the bytes, for who reads all of them. `None` where the engine has none.
    pub check: Option<NewCheck>,
    /// What keeps the file.
    pub hold: Box<dyn Any + Send + Sync>,
}

/// Makes a [`ContentCheck`] of a file.
pub type NewCheck = Box<dyn Fn() -> Box<dyn ContentCheck> + Send + Sync>;

/// Compares the bytes of a file with what its engine knows of them, while somebody reads them.
pub trait ContentCheck {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// They are not those that were written.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Unsound>;

    /// There are no more bytes.
    ///
    /// # Errors
    /// Bytes are missing, or all of them together are not those that were written.
    fn end(&mut self) -> Result<(), Unsound>;
}

/// What is wrong with the bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// Where, in bytes of the file.
    pub offset: u64,
    /// What it is.
    pub what: String,
}

/// Where the bytes of a file are.
#[derive(Clone, PartialEq, Eq)]
pub enum FileContent {
    /// In a file.
    File(PathBuf),
    /// Here.
    Memory(Vec<u8>),
}

impl FileSet {
    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

impl fmt::Debug for HeldFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, content, bytes, identity, check: _, hold: _ } = self;
        write!(f, "{name}: {bytes} bytes, {content:?}, {identity:?}")
    }
}

impl fmt::Debug for FileContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileContent::File(path) => write!(f, "{}", path.display()),
            FileContent::Memory(bytes) => write!(f, "{} bytes in memory", bytes.len()),
        }
    }
}
