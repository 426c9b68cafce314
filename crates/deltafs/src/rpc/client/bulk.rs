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

use super::backoff::Backoff;
use super::connection::Client;
use super::directory::DirNumber;
use super::replies::unexpected;
use super::tree::Tree;
use crate::id::{DirId, Inode, LogId, first_number};
use crate::inner::calendar_ns;
use crate::job::random_token;
use crate::name::check_name;
use crate::record::{Attributes, Entry, Key, MODE_BITS};
use crate::rpc::codec::{Reply, Request};
use crate::rpc::error::{Error as CallError, Result as CallResult};
use crate::user::User;
use keyrack_flodb::{Options, SstWriter};
use keyrack_vfs::{Fs, RealFs};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Files that a client has made and nobody knows of yet.
#[derive(Debug)]
pub struct Bulk {
    dir: DirNumber,
    log: LogId,
    names: Vec<Box<[u8]>>,
    options: Options,
}

/// From so many files on a directory is split before they come: else all would go to one server,
/// and on from there.
const SPREAD_AT: usize = 1024;

impl Bulk {
    /// Begins one in a directory.
    #[must_use]
    pub fn new(dir: DirNumber) -> Bulk {
        let (log, options) = (LogId::draw(&[&random_token()]), Options::default());
        Bulk { dir, log, names: Vec::new(), options }
    }

    /// The same, whose tables have the blocks, filters and compression of these options.
    #[must_use]
    pub fn with_tables(self, options: Options) -> Bulk {
        Bulk { options, ..self }
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

    /// Writes the tables into `area` and hands them over. Returns how many files there are now.
    ///
    /// # Errors
    /// [`CallError::Refused`] with the message of a server; what others have taken stays.
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
        let mut next = self.first_attributes(user, mode);
        let (mut count, mut tables, mut backoff) = (0, 0, Backoff::default());
        // Names that a server does not have any more are sent again, by the map that it answers.
        while !self.names.is_empty() {
            let batch = self.tables(tree, &area, &mut tables)?;
            let mut failed = None;
            for (mut table, taken) in send_all(batch, tree, (self.dir, &self.options), &mut next) {
                match taken {
                    Ok(taken) => count += taken,
                    Err(error) => {
                        let at = (self.dir, table.server);
                        match tree.handle_redirect(at, error, &mut backoff) {
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

    /// The attributes of the first file.
    fn first_attributes(&self, user: &User, mode: u32) -> Attributes {
        let now_ns = calendar_ns();
        Attributes {
            inode: Inode::file(self.log, first_number(1)),
            mode: mode & MODE_BITS,
            uid: user.uid,
            gid: user.gid,
            nlink: 1,
            size: 0,
            mtime_ns: now_ns,
            ctime_ns: now_ns,
        }
    }

    /// The names that are left, by server. `count` numbers the tables.
    fn tables(
        &mut self,
        tree: &mut Tree,
        area: &Path,
        count: &mut u64,
    ) -> CallResult<Vec<BulkTable>> {
        let servers = tree.client().servers();
        let mut groups: Vec<Vec<Box<[u8]>>> = vec![Vec::new(); servers];
        for name in std::mem::take(&mut self.names) {
            let server = tree.server_of(self.dir, &name);
            groups[server].push(name);
        }
        // Many clients that all began at the first server would wait for it one after another.
        let first = usize::try_from(self.log.to_bits() % servers as u64).unwrap_or(0);
        let mut tables = Vec::new();
        for server in (first..servers).chain(0..first) {
            let names = std::mem::take(&mut groups[server]);
            if !names.is_empty() {
                let path = area.join(format!("b{:016x}-{count}", self.log.to_bits()));
                let at = tree.number_at(self.dir, server)?;
                tables.push(BulkTable { server, at, names, path });
                *count += 1;
            }
        }
        Ok(tables)
    }
}

/// Writes tables and sends each at once: servers read tables while the next ones are written. Then
/// it waits for all replies, as nothing else may be asked before.
fn send_all(
    tables: Vec<BulkTable>,
    tree: &mut Tree,
    (dir, options): (DirNumber, &Options),
    next: &mut Attributes,
) -> Vec<(BulkTable, CallResult<u64>)> {
    let inode = tree.inode(dir);
    let client = &mut tree.client;
    let mut send = |mut table: BulkTable| {
        let sent = table.write(inode, options, next).and_then(|()| table.send(client));
        (table, sent)
    };
    let sent: Vec<_> = tables.into_iter().map(&mut send).collect();
    let finish = |(table, sent): (BulkTable, CallResult<u8>)| {
        let taken = sent.and_then(|tag| client.finish(table.server, tag, count_reply)?);
        (table, taken)
    };
    sent.into_iter().map(finish).collect()
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
    fn write(&mut self, dir: u128, options: &Options, next: &mut Attributes) -> CallResult<()> {
        self.names.sort_unstable();
        let mut write = || -> keyrack_flodb::Result<()> {
            let mut table = SstWriter::create(&RealFs, &self.path, options)?;
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
