//! The files of the store at one moment, kept for whoever copies them.
//!
//! ```text
//!   flush                    everything up to now is in tables, as for a checkpoint
//!   state and read state     of one moment
//!   tables, blob files       each kept by its own reference, until its copy is made
//!   manifest, CURRENT        written in memory: the directory gets nothing
//! ```
//!
//! A checkpoint makes a second directory, whose links keep the files. Here the references do, which
//! readers keep files with, too. That costs a flush and a manifest in memory, about 200 bytes a
//! table. It writes no name, needs no file system with links, and leaves nothing after a crash. The
//! read state itself is not kept: its memtables would take memory as long as a slow copy goes on.
//!
//! **Identities.** The store never gives a number twice, and the identity of its log tells it from
//! every other store, from its own copies too. With the checksum that the manifest has of a file
//! they name its bytes. A store that never had a log has 0 in that place; then the checksum has 64
//! bits that tell two files of one number and length apart.

use super::Db;
use crate::blob::BlobCheck;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, State, blob_name, table_name};
use crate::open_blob::{OpenBlob, blob_path};
use crate::open_table::{OpenTable, table_path};
use crate::read_state::ReadState;
use crate::table::TableCheck;
use keyrack_store::{FileContent, FileSet, HeldFile, LogPosition, NewCheck};
use keyrack_vfs::{FileKind, Fs, MemFs, RelativePath};
use std::any::Any;
use std::path::Path;
use std::sync::Arc;

/// What a held file needs besides its own reference: the directory stays locked for this store.
struct Hold<T> {
    _file: T,
    _db: Db,
}

impl Db {
    /// The files that are the store as it is at a moment during the call, kept until they are
    /// dropped, one by one. What is in memory goes to tables first. Writers go on meanwhile;
    /// ingestions wait until what is in memory is in tables.
    ///
    /// The store closes with the last handle, and each file counts as one. O(tables).
    ///
    /// # Errors
    /// [`Error::Usage`] if the store is open for reading only. A failure of the flush is final as
    /// always.
    pub fn file_set(&self) -> Result<FileSet> {
        let inner = self.inner();
        if inner.is_read_only() {
            let dir = inner.dir.display();
            let what = "is open for reading only; take its files from the handle that writes";
            return Err(Error::Usage(format!("{dir}: {what}")));
        }
        let (state, read_state) = inner.state_in_tables()?;
        let mut files = self.held_tables(&state, &read_state);
        files.extend(self.held_blobs(&state, &read_state));
        // A store that never had a log has no identity of one.
        let log = (state.log_id != 0)
            .then_some(LogPosition { log_id: state.log_id, position: state.log_from });
        files.extend(manifest_of(state)?);
        Ok(FileSet { fs: Arc::clone(&inner.fs), engine: "flodb", log, files })
    }

    fn held_tables(&self, state: &State, read_state: &ReadState) -> Vec<HeldFile> {
        let dir = &self.inner().dir;
        let tables = read_state.levels.iter().flat_map(|level| level.iter());
        let held = |table: &Arc<OpenTable>| {
            let file = table.file();
            // Of an earlier program, which kept no checksum.
            let known = file.checksum != 0;
            HeldFile {
                name: name(&table_name(file.number)),
                content: FileContent::File(table_path(dir, file.number)),
                bytes: file.bytes,
                identity: known.then(|| identity(state, "table", file.number, file.checksum)),
                check: Some(table_check(Arc::clone(table))),
                hold: self.hold(Arc::clone(table)),
            }
        };
        tables.map(held).collect()
    }

    fn held_blobs(&self, state: &State, read_state: &ReadState) -> Vec<HeldFile> {
        let dir = &self.inner().dir;
        let held = |blob: &Arc<OpenBlob>| {
            let meta = *blob.meta();
            HeldFile {
                name: name(&blob_name(meta.number)),
                content: FileContent::File(blob_path(dir, meta.number)),
                bytes: meta.file_bytes(),
                identity: Some(identity(state, "blob", meta.number, meta.digest)),
                check: Some(Box::new(move || Box::new(BlobCheck::new(meta)))),
                hold: self.hold(Arc::clone(blob)),
            }
        };
        read_state.blobs.iter().map(held).collect()
    }

    fn hold(&self, file: impl Any + Send + Sync) -> Box<dyn Any + Send + Sync> {
        Box::new(Hold { _file: file, _db: self.clone() })
    }
}

/// The check holds the table, since the index of the table says what its blocks are.
fn table_check(table: Arc<OpenTable>) -> NewCheck {
    Box::new(move || Box::new(TableCheck::new(Arc::clone(&table))))
}

fn identity(state: &State, kind: &str, number: u64, checksum: u64) -> String {
    format!("flodb-{:016x}-{kind}-{number}-{checksum:016x}", state.log_id)
}

fn name(text: &str) -> RelativePath {
    RelativePath::new(text).expect("the files of a store have plain names")
}

/// The manifest of a store with that state and no log, and then `CURRENT`.
fn manifest_of(state: State) -> Result<Vec<HeldFile>> {
    let (memory, dir) = (MemFs::new(), Path::new("/"));
    Manifest::create_from(Arc::new(memory.clone()), dir, state)?;
    let mut files = Vec::new();
    for entry in memory.list(dir)? {
        assert_eq!(entry.kind, FileKind::File, "a manifest is made of files alone");
        let content = memory.read(&dir.join(&entry.name))?;
        let text = entry.name.to_str().expect("the names of manifests are ASCII");
        files.push(HeldFile {
            name: name(text),
            bytes: content.len() as u64,
            content: FileContent::Memory(content),
            identity: None,
            check: None,
            hold: Box::new(()),
        });
    }
    // Sorted, `CURRENT` is the first. It names the manifest, so it comes last.
    files.reverse();
    Ok(files)
}
