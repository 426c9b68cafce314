//! Bulk insertion: a client hands over sorted tables of new files, not the files one by one.
//!
//! ```text
//!   client: names --> for each server, sorted --> table in a directory that both can read
//!   server: path --> read whole, each entry checked --> taken into the store by a link
//! ```
//!
//! After BatchFS (PDSW 2014) and the `bukin` of DeltaFS. There the server renames whatever files it
//! finds; here a table is refused whole if it is damaged, cut, out of order, or holds anything but
//! new files of one directory that belong to the caller. Names that are there refuse it too, but
//! for a table that was taken in before: that changes nothing.
//!
//! The directory is locked meanwhile, so nobody makes a name between the check and the taking in.
//! The numbers of the files are those of a log that the client draws, so they meet no others.

use super::connection::Client;
use super::tree::{Backoff, DirNumber, Tree, unexpected};
use crate::caller::Caller;
use crate::error::{Error, Result, shown};
use crate::id::{DirId, Inode, LogId, first_number};
use crate::inner::Dir;
use crate::job::random_token;
use crate::name::check_name;
use crate::record::{Attributes, Entry, Key, MODE_BITS, parse_key};
use crate::rpc::codec::{Reply, Request};
use crate::rpc::error::{Error as CallError, Result as CallResult};
use crate::user::{PASS, User, WRITE};
use keyrack_flodb::{IngestOptions, Options, SstWriter, Transfer};
use keyrack_measure::wall;
use keyrack_vfs::{FileKind, Fs, RealFs};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Files that a client has made and nobody knows of yet.
#[derive(Debug)]
pub struct Bulk {
    dir: DirNumber,
    log: LogId,
    names: Vec<Box<[u8]>>,
}

/// From so many files on a directory is split before they come: else all would go to one server,
/// and on from there.
const SPREAD_AT: usize = 1024;

impl Bulk {
    /// Begins one in a directory.
    #[must_use]
    pub fn new(dir: DirNumber) -> Bulk {
        Bulk { dir, log: LogId::draw(&[&random_token()]), names: Vec::new() }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// [`CallError::Usage`] for what is no name.
    pub fn add(&mut self, name: &[u8]) -> CallResult<()> {
        check_name(name).map_err(|error| CallError::Usage(error.to_string()))?;
        self.names.push(name.into());
        Ok(())
    }

    /// Writes the tables into `area` and hands them over. How many files there are now.
    ///
    /// # Errors
    /// [`CallError::Refused`] with the words of a server; what others have taken stays.
    pub fn commit(
        mut self,
        tree: &mut Tree,
        area: &Path,
        user: &User,
        mode: u32,
    ) -> CallResult<u64> {
        RealFs.create_dir_all(area).map_err(|error| local(&error))?;
        let area = RealFs.canonicalize(area).map_err(|error| local(&error))?;
        if self.names.len() >= SPREAD_AT {
            tree.spread(self.dir)?;
        }
        let attributes = Attributes {
            inode: Inode::file(self.log, first_number(1)),
            mode: mode & MODE_BITS,
            uid: user.uid,
            gid: user.gid,
            nlink: 1,
            size: 0,
            mtime_ns: wall::unix_ns(),
            ctime_ns: 0,
        };
        let mut next = Attributes { ctime_ns: attributes.mtime_ns, ..attributes };
        let (mut count, mut number, mut backoff) = (0, 0, Backoff::default());
        // What a server does not have any more comes again, with what is known then.
        while !self.names.is_empty() {
            let servers = tree.client().servers();
            let mut groups: Vec<Vec<Box<[u8]>>> = vec![Vec::new(); servers];
            for name in std::mem::take(&mut self.names) {
                let server = tree.server_of(self.dir, &name);
                groups[server].push(name);
            }
            // Many clients that begin at the same one would stand in a row behind it.
            let first = usize::try_from(self.log.to_bits() % servers as u64).unwrap_or(0);
            let mut tables = Vec::new();
            for server in (first..servers).chain(0..first) {
                let names = std::mem::take(&mut groups[server]);
                if !names.is_empty() {
                    let path = area.join(format!("b{:016x}-{number}", self.log.to_bits()));
                    tables.push(BulkTable {
                        server,
                        at: tree.number_at(self.dir, server)?,
                        names,
                        path,
                    });
                    number += 1;
                }
            }
            let inode = tree.inode(self.dir);
            // A table is written while servers look at those before.
            let mut sent = Vec::new();
            for mut table in tables {
                let written = table.write(inode, &mut next);
                let begun = written.and_then(|()| table.send(&mut tree.client));
                sent.push((table, begun));
            }
            // All of them before anything else is asked.
            let client = &mut tree.client;
            let end = |(table, begun): (BulkTable, CallResult<u8>)| {
                let taken = begun.and_then(|tag| client.finish(table.server, tag, count_reply)?);
                (table, taken)
            };
            let taken: Vec<(BulkTable, CallResult<u64>)> = sent.into_iter().map(end).collect();
            let mut failed = None;
            for (mut table, taken) in taken {
                match taken {
                    Ok(taken) => count += taken,
                    Err(error) => {
                        match tree.handle_redirect((self.dir, table.server), error, &mut backoff) {
                            Ok(()) => self.names.append(&mut table.names),
                            Err(error) => failed = failed.or(Some(error)),
                        }
                    }
                }
            }
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(count)
    }
}

/// Names that go to one server.
struct BulkTable {
    server: usize,
    /// The directory, as the server numbers it.
    at: u32,
    names: Vec<Box<[u8]>>,
    path: PathBuf,
}

impl BulkTable {
    /// Writes the table; each file takes a number.
    fn write(&mut self, dir: u128, next: &mut Attributes) -> CallResult<()> {
        self.names.sort_unstable();
        let mut write = || -> keyrack_flodb::Result<()> {
            let mut table = SstWriter::create(&RealFs, &self.path, &Options::default())?;
            for name in &self.names {
                let entry = Entry::File(*next, &[]).encode();
                table.put(&Key::entry(DirId(dir), name), &entry)?;
                next.inode = Inode(next.inode.0 + 1);
            }
            table.finish()
        };
        write().map_err(|error| local(&error))
    }

    fn send(&self, client: &mut Client) -> CallResult<u8> {
        let entries = self.names.len() as u64;
        let paths = vec![self.path.as_os_str().as_bytes()];
        client.begin(self.server, &Request::BulkIn { dir: self.at, entries, paths })
    }
}

impl Drop for BulkTable {
    fn drop(&mut self) {
        // The server has it under a name of its own, or does not want it; one that is left is no
        // harm.
        let _ = RealFs.remove_file(&self.path);
    }
}

fn local(error: &dyn std::fmt::Display) -> CallError {
    CallError::Usage(error.to_string())
}

fn count_reply(reply: Reply<'_>) -> CallResult<u64> {
    match reply {
        Reply::Count(count) => Ok(count),
        _ => Err(unexpected("bulkin")),
    }
}

impl Caller<'_> {
    /// Takes tables with new files of a directory in, whole or not at all. How many files.
    /// `is_here` says whether this server has a name; the first that it has not refuses all.
    pub(crate) fn bulk_in(
        &self,
        dir: &Dir,
        entries: u64,
        paths: &[&[u8]],
        is_here: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<u64> {
        let inner = self.inner;
        let paths: Vec<PathBuf> =
            paths.iter().map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
        if paths.is_empty() || paths.iter().any(|path| !path.is_absolute()) {
            return Err(Error::Invalid("tables are named by absolute paths".to_owned()));
        }
        for path in &paths {
            // Opening a pipe would wait for a writer, with the directory locked.
            if inner.contents.fs().metadata(path)?.kind != FileKind::File {
                let what = "it is no file, and no table";
                return Err(Error::Invalid(format!("{}: {what}", path.display())));
            }
        }
        let info = dir.state.write();
        self.check(&info, PASS | WRITE, b"")?;
        let top = inner.top("")?;
        let is_empty = inner.is_empty(dir.state.id)?;
        let mut known = 0;
        let tables = top.check_tables(&paths, |key, value| {
            known += u64::from(self.verify(dir, (key, value), is_empty, is_here)?);
            Ok::<(), Error>(())
        })?;
        let count = tables.entries();
        if count != entries {
            let what = format!("the tables hold {count} files, not {entries}: they are cut");
            return Err(Error::Invalid(what));
        }
        if known == count {
            return Ok(count);
        }
        let name = if info.node.name.is_empty() { b"/" } else { &info.node.name[..] };
        inner.name_count.reserve(name, count - known)?;
        if let Err(error) = tables.ingest(IngestOptions { transfer: Transfer::Link }) {
            inner.name_count.release(count - known);
            return Err(error.into());
        }
        self.touch(dir, &info, inner.time.now_ns())?;
        Ok(count)
    }

    /// Looks at an entry. Is it there already just so?
    fn verify(
        &self,
        dir: &Dir,
        (key, value): (&[u8], Option<&[u8]>),
        is_empty: bool,
        is_here: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        let foreign = || {
            let what = "holds something else than new files of the directory, by the caller";
            Error::Invalid(format!("'{}': {what}", key.escape_ascii()))
        };
        let (parent, name) = parse_key(key).ok_or_else(foreign)?;
        let Some(Entry::File(attributes, data)) = value.and_then(Entry::decode) else {
            return Err(foreign());
        };
        let is_ours = parent == dir.state.id
            && data.is_empty()
            && attributes.nlink == 1
            && self.user.owns(attributes.uid)
            && (self.user.uid == 0 || self.user.is_in(attributes.gid));
        if !is_ours {
            return Err(foreign());
        }
        check_name(name)?;
        self.inner.name_count.check_length(name)?;
        if !is_here(name) {
            return Err(Error::Stale(shown(name)));
        }
        if is_empty {
            return Ok(false);
        }
        let found = self.inner.layers.find(parent, name, |entry| match entry {
            Entry::File(there, _) => Some(there.inode),
            _ => None,
        })?;
        match found {
            None => Ok(false),
            Some(Some(inode)) if inode == attributes.inode => Ok(true),
            Some(_) => Err(Error::Exists(shown(name))),
        }
    }
}
