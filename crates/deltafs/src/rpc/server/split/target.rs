//! The target of a split: it collects the half in memory, and installs it with one batch.

use crate::error::Result;
use crate::id::{DirId, Inode};
use crate::namespace::Namespace;
use crate::partition::{Route, Shard, Split, SplitMap};
use crate::record::{Entry, Key};
use crate::rpc::server::core::{Core, Staged, durable_write};
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::parts::{Part, State, part_key};
use crate::rpc::server::worker::Work;
use keyrack_flodb::Batch;
use std::sync::Arc;

/// What a record takes in a batch beside its name and value, at most.
const RECORD_BYTES_MAX: usize = 40;

impl Core {
    fn part_of(&self, dir: u128) -> RpcResult<Arc<Part>> {
        Ok(self.parts.get(self.space(), DirId(dir))?)
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
        // A part of a half that has come to its target, before the commit here was done.
        let hash = u64::from(split.to);
        if state.shards.iter().any(|shard| shard.route(hash) != Route::Elsewhere) {
            let message = "what the partition was a part of has not gone from here yet: come again";
            return Err(RpcError::new("EAGAIN", message));
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
        if !rest.is_empty() || pairs.iter().any(|[name, _]| crate::name::check_name(name).is_err())
        {
            return Err(RpcError::new("EPROTO", "these are no names and values"));
        }
        // Several servers have no hard links.
        if pairs
            .iter()
            .any(|[_, value]| matches!(Entry::decode(value), None | Some(Entry::Link(_))))
        {
            return Err(RpcError::new("EPROTO", "these are no records of files"));
        }
        let segment = self.space().inner.top("a partition")?.options().segment_bytes;
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
        let Some(coming) = coming else { return Err(old_attempt()) };
        let inode = Inode(inode);
        if !inode.is_file() || (offset > 0 && coming.contents.last() != Some(&inode)) {
            return Err(RpcError::new("EPROTO", "these are no bytes of a file that is coming"));
        }
        self.space().inner.contents.receive(inode, offset, data)?;
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
        // A prepared transaction relies on its checks: nothing may come under its names.
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
        let space = self.space();
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
        install(space, dir, coming, &next)?;
        *state = next;
        staged.remove(&key);
        // It may have to split on.
        if spreads {
            self.enqueue(Work::CheckSplit(dir));
        }
        Ok(())
    }
}

fn old_attempt() -> RpcError {
    RpcError::new("ESTALE", "this move of a partition is over: begin again")
}

/// Writes the half into the log: its files, and the record of the partitions.
fn install(space: &Namespace, dir: DirId, coming: &Staged, next: &State) -> Result<()> {
    let inner = &space.inner;
    let mut batch = Batch::new();
    for (name, value) in &coming.records {
        batch.put(&Key::entry(dir, name), value);
    }
    batch.put(&part_key(dir), &next.encode());
    for inode in &coming.contents {
        inner.contents.keep(*inode)?;
    }
    if !coming.contents.is_empty() {
        // The source removes its own, so these have to last as long as the record.
        inner.contents.sync()?;
    }
    let names = || coming.records.iter().map(|(name, _)| &name[..]);
    let before = inner.count_names(dir, names())?;
    let top = inner.top("a partition")?;
    // The source removes its half, which may have been durable for long.
    top.write(&batch, durable_write(top))?;
    let after = inner.count_names(dir, names())?;
    inner.name_count.adjust(before, after);
    Ok(())
}
