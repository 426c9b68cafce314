//! A partition on its way from one server to another.
//!
//! ```text
//!   source                                              target
//!   begin: the half is not written any more
//!                       -- begin(attempt) -->          forgets older attempts
//!                       -- put, put, put  -->          in memory
//!                       -- contents       -->          bytes of large files, not named yet
//!   seal: not read any more; written down
//!                       -- install        -->          files and record: one batch   <- decides
//!   commit: files go, record: one batch
//! ```
//!
//! A source that comes back after a crash finds the seal, and begins again: the target says that it
//! has the partition, or takes it anew. A target that crashes has all of it or nothing. So no name
//! is lost, and none is used in two places. What the target did not decide can be given up.
//!
//! The target may split its half on before the source has heard that the half came. A part of it
//! may belong to the source. That part waits until the source has committed: the commit removes all
//! names of the half, and what the source has of them until then is old.
//!
//! A half whose records do not fit into one batch, which is one record of the target's log, is
//! refused before anything is sealed: it stays where it is until somebody looks again.
//!
//! Names of directories stay: all servers have them. Whiteouts are copied and stay as well, for
//! they may hide a directory of a log below.

use super::background::{BackgroundWorker, Progress};
use super::core::{Core, RpcError, RpcResult, Work};
use super::parts::{Part, part_key};
use crate::error::{Error, Result};
use crate::id::{DirId, Inode};
use crate::job::random_token;
use crate::namespace::Namespace;
use crate::partition::{Route, Shard, Split, SplitMap, hash_name};
use crate::record::{Entry, Key, parse_key};
use crate::rpc::codec::{Peer, Reply, Request};
use crate::rpc::error::Error as CallError;
use crate::rpc::txn::table::durable_write;
use keyrack_flodb::{Batch, WriteOptions};
use std::sync::{MutexGuard, PoisonError};

/// Records of a message, at most, and their bytes.
const PUT_RECORDS: usize = 2000;
const PUT_BYTES: usize = 512 << 10;
/// What a record takes in a batch beside its name and value, at most.
const RECORD_BYTES_MAX: usize = 40;
/// Bytes of a large file in a message, at most.
const CONTENTS_BYTES: usize = 512 << 10;

/// Names and values as they are in the log.
pub(crate) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// A partition that is coming.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    attempt: u64,
    records: Records,
    bytes: usize,
    /// Large files whose bytes have come.
    contents: Vec<Inode>,
}

/// What came of giving a half away.
enum Transfer {
    /// It is at the other server.
    Done,
    /// It is to be tried again.
    Retry,
    /// It does not go as it is.
    Stays,
}

impl Core {
    fn staged(&self) -> MutexGuard<'_, std::collections::HashMap<(DirId, u32), Staged>> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn part_of(&self, dir: u128) -> RpcResult<std::sync::Arc<Part>> {
        let Some(space) = &self.space else {
            return Err(RpcError::new("EROFS", "a dummy has no partitions"));
        };
        Ok(self.parts.get(space, DirId(dir))?)
    }

    /// The name space: only servers with one have partitions.
    pub(crate) fn space(&self) -> &Namespace {
        self.space.as_ref().expect("a dummy has no partitions")
    }

    /// Shows all records of a directory in the log that is written to, but for directories.
    ///
    /// # Errors
    /// [`Error::Corruption`] for a record that is none; those of the store.
    pub(crate) fn each_file(
        &self,
        dir: DirId,
        visit: &mut dyn FnMut(&[u8], &[u8], &Entry<'_>),
    ) -> Result<()> {
        let space = self.space();
        let mut iter = space.inner.top("a partition")?.iter()?;
        iter.seek(&Key::entry(dir, &[0]))?;
        while let Some((key, value)) = iter.entry() {
            match parse_key(key) {
                Some((of, name)) if of == dir => {
                    let entry = Entry::read(space.inner.store_path(), dir, name, value)?;
                    if !matches!(entry, Entry::Dir(_)) {
                        visit(name, value, &entry);
                    }
                }
                _ => break,
            }
            iter.next()?;
        }
        Ok(())
    }

    pub(crate) fn split_begin(&self, dir: u128, split: &Split, attempt: u64) -> RpcResult<u64> {
        let part = self.part_of(dir)?;
        let state = part.write();
        if self.parts.placement.home(dir, split.to) != self.parts.server {
            return Err(RpcError::new("EINVAL", "that partition belongs to another server"));
        }
        let key = (DirId(dir), split.to);
        if state.map.has(split.to) {
            self.staged().remove(&key);
            return Ok(1);
        }
        // A part of a half that has come to its target, while the commit here is still to be done.
        let hash = u64::from(split.to);
        if state.shards.iter().any(|shard| shard.route(hash) != Route::Elsewhere) {
            let words = "what the partition was a part of has not gone from here yet: come again";
            return Err(RpcError::new("EAGAIN", words));
        }
        self.staged().insert(key, Staged { attempt, ..Staged::default() });
        Ok(0)
    }

    pub(crate) fn split_put(
        &self,
        dir: u128,
        to: u32,
        attempt: u64,
        records: &[&[u8]],
    ) -> RpcResult {
        let mut staged = self.staged();
        let coming = staged.get_mut(&(DirId(dir), to)).filter(|at| at.attempt == attempt);
        let Some(coming) = coming else { return Err(old_attempt()) };
        let (pairs, rest) = records.as_chunks::<2>();
        if !rest.is_empty() || pairs.iter().any(|[name, _]| crate::check_name(name).is_err()) {
            return Err(RpcError::new("EPROTO", "these are no names and values"));
        }
        if pairs.iter().any(|[_, value]| Entry::decode(value).is_none()) {
            return Err(RpcError::new("EPROTO", "these are no records of files"));
        }
        let Some(space) = &self.space else { return Err(old_attempt()) };
        let segment = space.inner.top("a partition")?.options().segment_bytes;
        // The record of the partition comes with them.
        let bytes_max = usize::try_from(segment - segment / 16).unwrap_or(usize::MAX);
        coming.bytes += records.iter().map(|bytes| bytes.len()).sum::<usize>();
        coming.bytes += RECORD_BYTES_MAX * pairs.len();
        if coming.bytes > bytes_max {
            staged.remove(&(DirId(dir), to));
            return Err(RpcError::new("EFBIG", "the partition is too large to move"));
        }
        coming.records.extend(pairs.iter().map(|[name, value]| (name.to_vec(), value.to_vec())));
        Ok(())
    }

    pub(crate) fn split_contents(
        &self,
        (dir, to, attempt): (u128, u32, u64),
        inode: u128,
        offset: u64,
        data: &[u8],
    ) -> RpcResult {
        let mut staged = self.staged();
        let coming = staged.get_mut(&(DirId(dir), to)).filter(|at| at.attempt == attempt);
        let (Some(coming), Some(space)) = (coming, &self.space) else { return Err(old_attempt()) };
        let inode = Inode(inode);
        if !inode.is_file() || (offset > 0 && coming.contents.last() != Some(&inode)) {
            return Err(RpcError::new("EPROTO", "these are no bytes of a file that is coming"));
        }
        space.inner.contents.receive(inode, offset, data)?;
        if offset == 0 {
            coming.contents.push(inode);
        }
        Ok(())
    }

    pub(crate) fn split_install(
        &self,
        dir: u128,
        split: &Split,
        attempt: u64,
        count: u64,
        (spreads, map): (bool, &[u8]),
    ) -> RpcResult {
        let part = self.part_of(dir)?;
        let dir = DirId(dir);
        let mut state = part.write();
        if state.map.has(split.to) {
            return Ok(());
        }
        // A rename that has looked here relies on what it saw: nothing comes under its names.
        if !state.locked.is_empty() || state.closed.is_some() {
            return Err(RpcError::new(
                "EAGAIN",
                "a rename holds names of the directory: come again",
            ));
        }
        let mut staged = self.staged();
        let key = (dir, split.to);
        let is_all = |at: &&Staged| at.attempt == attempt && at.records.len() as u64 == count;
        let Some(coming) = staged.get(&key).filter(is_all) else { return Err(old_attempt()) };
        let Some(map) = SplitMap::from_bytes(map) else {
            return Err(RpcError::new("EPROTO", "that is no map of partitions"));
        };
        let Some(space) = &self.space else { return Err(old_attempt()) };
        let gone = || RpcError::new("ENOENT", "the directory is not here, or not any more");
        let Some(known) = space.inner.dirs.get(&space.inner.layers, dir)? else {
            return Err(gone());
        };
        // Nobody removes it until its files are here.
        let info = known.read();
        if info.is_removed {
            return Err(gone());
        }
        let mut next = state.clone();
        next.map.merge(&map);
        next.map.add(split.to);
        next.shards.push(Shard::made_by(split));
        next.spreads |= spreads;
        let mut batch = Batch::new();
        for (name, value) in &coming.records {
            batch.put(&Key::entry(dir, name), value);
        }
        batch.put(&part_key(dir), &next.encode());
        for inode in &coming.contents {
            space.inner.contents.keep(*inode)?;
        }
        if !coming.contents.is_empty() {
            // The source removes its own, so these have to last as long as the record.
            space.inner.contents.sync()?;
        }
        let names = || coming.records.iter().map(|(name, _)| &name[..]);
        let before = space.inner.count_names(dir, names())?;
        let top = space.inner.top("a partition")?;
        // The source removes its half, which may have been durable for long.
        top.write(&batch, durable_write(top))?;
        let after = space.inner.count_names(dir, names())?;
        space.inner.name_count.adjust(before, after);
        *state = next;
        staged.remove(&key);
        // It may be that it has to go on.
        if spreads {
            self.enqueue(Work::CheckSplit(dir));
        }
        Ok(())
    }
}

fn old_attempt() -> RpcError {
    RpcError::new("ESTALE", "this move of a partition is over: begin again")
}

impl BackgroundWorker {
    /// Splits a directory as long as one of its partitions here is too large; and finishes what
    /// was begun.
    pub(crate) fn check_split(&mut self, dir: DirId) -> Result<Progress> {
        let core = std::sync::Arc::clone(&self.core);
        let part = core.parts.get(core.space(), dir)?;
        let (depth_max, split_at) = (core.parts.placement.depth_max(), core.parts.split_at);
        loop {
            let begun = part.read().shards.iter().find_map(Shard::splitting);
            if let Some(split) = begun {
                match self.transfer(&part, &split)? {
                    Transfer::Done => continue,
                    Transfer::Retry => return Ok(Progress::Later),
                    Transfer::Stays => return Ok(Progress::Done),
                }
            }
            let shards: Vec<Shard> = {
                let state = part.read();
                let all = state.shards.iter().filter(|shard| shard.depth() < depth_max);
                all.cloned().collect()
            };
            if shards.is_empty() {
                // It has its final shape: nobody has to count any more.
                part.counted(u64::MAX);
                return Ok(Progress::Done);
            }
            let mut counts = vec![0_u64; shards.len()];
            core.each_file(dir, &mut |name, _, entry| {
                let hash = hash_name(dir.0, name);
                let here = Route::Here;
                let at = shards.iter().position(|shard| shard.route(hash) == here);
                if let Some(at) = at.filter(|_| *entry != Entry::Whiteout) {
                    counts[at] += 1;
                }
            })?;
            let most = (0..shards.len()).max_by_key(|at| counts[*at]).unwrap_or(0);
            let mut state = part.write();
            if counts[most] < split_at && !state.spreads {
                let left = (split_at - counts[most]).max(split_at / 4);
                part.counted(left);
                return Ok(Progress::Done);
            }
            if !state.locked.is_empty() {
                return Ok(Progress::Later);
            }
            let number = shards[most].number();
            let shard = state.shards.iter_mut().find(|shard| shard.number() == number);
            if shard.and_then(Shard::begin).is_none() {
                part.counted(split_at);
                return Ok(Progress::Done);
            }
        }
    }

    /// Gives the half away, or takes up where it was.
    fn transfer(&mut self, part: &Part, split: &Split) -> Result<Transfer> {
        let core = std::sync::Arc::clone(&self.core);
        let dir = part.dir;
        let target = core.parts.placement.home(dir.0, split.to) as usize;
        let token = random_token();
        let (attempt, _) = token.split_first_chunk::<8>().expect("a token has 16 bytes");
        let attempt = u64::from_le_bytes(*attempt);
        let begin = Peer::SplitBegin { dir: dir.0, split: *split, attempt };
        match self.ask(target, begin, |reply| matches!(reply, Reply::Count(1))) {
            Ok(true) => return core.commit(part, split).map(|()| Transfer::Done),
            Ok(false) => {}
            // It has a commit to do, which comes soon: the wish to spread stays.
            Err(CallError::Refused { errno: "EAGAIN", .. }) => {
                let spreads = part.read().spreads;
                let given = abort_split(&core, part, false);
                part.write().spreads |= spreads;
                return given;
            }
            // The target is away, or busy: it is asked again.
            Err(_) => return abort_split(&core, part, false),
        }
        let mut records: Records = Vec::new();
        core.each_file(dir, &mut |name, value, _| {
            if split.takes(hash_name(dir.0, name)) {
                records.push((name.to_vec(), value.to_vec()));
            }
        })?;
        for chunk in chunks(&records) {
            let list = chunk.iter().flat_map(|(name, value)| [&name[..], &value[..]]).collect();
            let put = Peer::SplitPut { dir: dir.0, to: split.to, attempt, records: list };
            match self.ask(target, put, |_| ()) {
                Ok(()) => {}
                // It has not the half, and this was the one attempt to give it.
                Err(CallError::Refused { errno: "EFBIG", .. }) => {
                    abort_split(&core, part, true)?;
                    part.counted(core.parts.split_at);
                    return Ok(Transfer::Stays);
                }
                // As above.
                Err(_) => return abort_split(&core, part, false),
            }
        }
        for (_, value) in &records {
            let number = (dir.0, split.to, attempt);
            // As above; what cannot be read here is another matter.
            if self.send_large_file(target, value, number)?.is_err() {
                return abort_split(&core, part, false);
            }
        }
        let (map, spread) = {
            let mut state = part.write();
            state.is_sealed = true;
            core.write_down(dir, &state.encode())?;
            (state.map.to_bytes(), state.spreads)
        };
        let (count, split) = (records.len() as u64, *split);
        let install = Peer::SplitInstall { dir: dir.0, split, attempt, count, spread, map: &map };
        match self.ask(target, install, |_| ()) {
            Ok(()) => core.commit(part, &split).map(|()| Transfer::Done),
            Err(CallError::Refused { errno: "ENOENT", .. }) => abort_split(&core, part, true),
            // Nobody knows what came of it, so it stays sealed until somebody does.
            Err(_) => Ok(Transfer::Retry),
        }
    }

    /// Sends the bytes of a large file that the log has: what the target says.
    fn send_large_file(
        &mut self,
        target: usize,
        value: &[u8],
        (dir, to, attempt): (u128, u32, u64),
    ) -> Result<crate::rpc::error::Result<()>> {
        let core = std::sync::Arc::clone(&self.core);
        each_chunk(&core, value, &mut |inode, offset, data| {
            let inode = inode.to_u128();
            let part = Peer::SplitContents { dir, to, attempt, inode, offset, data };
            self.ask(target, part, |_| ())
        })
    }

    /// One request to another server.
    pub(crate) fn ask<R>(
        &mut self,
        server: usize,
        peer: Peer<'_>,
        take: impl FnOnce(Reply<'_>) -> R,
    ) -> crate::rpc::error::Result<R> {
        self.peers.call(server, &Request::Peer(peer), take)
    }
}

/// The bytes outside of a record that this log has, in pieces; at least one, if there are any. What
/// `visit` says, if it refuses one.
///
/// # Errors
/// The bytes cannot be read.
pub(crate) fn each_chunk(
    core: &Core,
    value: &[u8],
    visit: &mut dyn FnMut(Inode, u64, &[u8]) -> crate::rpc::error::Result<()>,
) -> Result<crate::rpc::error::Result<()>> {
    // Records were read before; what makes a directory has none.
    let Some(Entry::Sized(attributes)) = Entry::decode(value) else { return Ok(Ok(())) };
    let (inode, size) = (attributes.inode, attributes.size);
    let Some(file) = core.space().inner.contents.own(inode)? else { return Ok(Ok(())) };
    let mut chunk = vec![0; CONTENTS_BYTES];
    let mut offset = 0;
    loop {
        let count = usize::try_from(size - offset).unwrap_or(usize::MAX).min(chunk.len());
        file.read_at(offset, &mut chunk[..count])?;
        let refused = visit(inode, offset, &chunk[..count]);
        offset += count as u64;
        if refused.is_err() || offset >= size {
            return Ok(refused);
        }
    }
}

/// All is as before, if the target cannot have decided. It is tried again later in any case.
fn abort_split(core: &Core, part: &Part, is_refused: bool) -> Result<Transfer> {
    let mut state = part.write();
    if state.is_sealed && !is_refused {
        return Ok(Transfer::Retry);
    }
    let was_sealed = std::mem::replace(&mut state.is_sealed, false);
    state.shards.iter_mut().for_each(Shard::abort);
    state.spreads = false;
    if was_sealed {
        core.write_down(part.dir, &state.encode())?;
    }
    drop(state);
    part.counted(core.parts.split_at / 4 + 1);
    // Not at once: the thread has other things to do, such as to end.
    Ok(Transfer::Retry)
}

fn chunks(records: &Records) -> Vec<&[(Vec<u8>, Vec<u8>)]> {
    let (mut all, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, (name, value)) in records.iter().enumerate() {
        bytes += name.len() + value.len();
        if bytes > PUT_BYTES || at - start >= PUT_RECORDS {
            all.push(&records[start..at]);
            (start, bytes) = (at, name.len() + value.len());
        }
    }
    if start < records.len() {
        all.push(&records[start..]);
    }
    all
}

impl Core {
    pub(crate) fn write_down(&self, dir: DirId, record: &[u8]) -> Result<()> {
        Ok(self.space().inner.top("a partition")?.put(&part_key(dir), record)?)
    }

    /// The other server has the half: here it goes, with one batch.
    fn commit(&self, part: &Part, split: &Split) -> Result<()> {
        let mut state = part.write();
        let mut batch = Batch::new();
        let (mut large, mut gone) = (Vec::new(), Vec::new());
        let space = self.space();
        let is_counted = space.inner.name_count.is_counted();
        self.each_file(part.dir, &mut |name, _, entry| {
            if *entry != Entry::Whiteout && split.takes(hash_name(part.dir.0, name)) {
                batch.delete(&Key::entry(part.dir, name));
                if is_counted {
                    gone.push(name.to_vec());
                }
                if let Entry::Sized(attributes) = entry {
                    large.push(attributes.inode);
                }
            }
        })?;
        let mut next = state.clone();
        next.shards.iter_mut().for_each(|shard| {
            shard.commit(split);
        });
        next.map.add(split.to);
        next.is_sealed = false;
        batch.put(&part_key(part.dir), &next.encode());
        let contents = &space.inner.contents;
        if !large.is_empty() {
            contents.mark()?;
        }
        space.inner.top("a partition")?.write(&batch, WriteOptions::default())?;
        // The log has it so: whatever fails from here on, readers go by it.
        *state = next;
        // What lower logs have of them is seen again.
        let left = space.inner.count_names(part.dir, gone.iter().map(Vec::as_slice))?;
        space.inner.name_count.adjust(gone.len() as u64, left);
        // Those that cannot be removed do not keep the others.
        let mut removed = Ok(());
        for inode in large {
            removed = removed.and(contents.remove(inode));
        }
        removed
    }

    /// Ends the splits of a directory that were under way, by whether the target has its half.
    pub(crate) fn finish_splits(
        &self,
        dir: DirId,
        has_come: &dyn Fn(&Split) -> Result<bool>,
    ) -> Result<()> {
        let part = self.parts.get(self.space(), dir)?;
        loop {
            let begun = part.read().shards.iter().find_map(Shard::splitting);
            // None is left.
            let Some(split) = begun else { return Ok(()) };
            if has_come(&split)? {
                self.commit(&part, &split)?;
                continue;
            }
            let mut state = part.write();
            let splits = |shard: &&mut Shard| shard.splitting() == Some(split);
            state.shards.iter_mut().filter(splits).for_each(Shard::abort);
            state.is_sealed = false;
            self.write_down(dir, &state.encode())?;
        }
    }

    /// Directories with a split that a crash interrupted.
    pub(crate) fn unfinished(&self) -> Result<Vec<DirId>> {
        let mut all = Vec::new();
        let space = self.space();
        let mut iter = space.inner.top("partitions")?.iter()?;
        iter.seek(&Key::entry(DirId::SYSTEM, b"part"))?;
        while let Some((key, _)) = iter.entry() {
            let Some((DirId::SYSTEM, name)) = parse_key(key) else { break };
            let Some(dir) = name.strip_prefix(b"part") else { break };
            let dir = <[u8; 16]>::try_from(dir).map_err(|_| Error::Corruption {
                path: space.inner.store_path().to_owned(),
                what: format!("the key '{}' of a partition is damaged", key.escape_ascii()),
            })?;
            let part = self.parts.get(space, DirId(u128::from_be_bytes(dir)))?;
            if part.read().shards.iter().any(|shard| shard.splitting().is_some()) {
                all.push(part.dir);
            }
            iter.next()?;
        }
        Ok(all)
    }
}
