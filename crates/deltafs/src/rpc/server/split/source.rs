//! The source of a split, in the background worker: it finds the partitions that are too large, and
//! sends half of each to its new server.

use super::records::each_chunk;
use crate::error::Result;
use crate::id::DirId;
use crate::job::random_token;
use crate::partition::{Route, Shard, Split, hash_name};
use crate::record::Entry;
use crate::rpc::codec::{Peer, Reply};
use crate::rpc::error::Error as CallError;
use crate::rpc::server::core::{Core, Records};
use crate::rpc::server::parts::Part;
use crate::rpc::server::worker::{BackgroundWorker, Progress};
use std::sync::Arc;

/// Records of a message, at most.
const PUT_RECORDS: usize = 2000;
/// Bytes of the records of a message, at most.
const PUT_BYTES: usize = 512 << 10;

/// The outcome of an attempt to move a half.
enum Transfer {
    /// The other server has it.
    Done,
    /// It is to be tried again.
    Retry,
    /// The other server is away. All is as it was before, and is tried again after a pause.
    Away,
    /// It cannot move as it is.
    Stays,
}

impl BackgroundWorker {
    /// Splits a directory as long as one of its partitions here is too large; and finishes what
    /// was begun.
    pub(crate) fn check_split(&mut self, dir: DirId) -> Result<Progress> {
        let core = Arc::clone(&self.core);
        let part = core.parts.get(core.space(), dir)?;
        let (depth_max, split_at) = (core.parts.placement.depth_max(), core.parts.split_at);
        loop {
            let begun = part.read().shards.iter().find_map(Shard::splitting);
            if let Some(split) = begun {
                match self.transfer(&part, &split)? {
                    Transfer::Done => continue,
                    Transfer::Retry => return Ok(Progress::Later),
                    Transfer::Away => return Ok(Progress::Paused),
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
        let core = Arc::clone(&self.core);
        let dir = part.dir;
        let target = core.parts.placement.home(dir.0, split.to) as usize;
        let token = random_token();
        let (attempt, _) = token.split_first_chunk::<8>().expect("a token has 16 bytes");
        let attempt = u64::from_le_bytes(*attempt);
        let begin = Peer::SplitBegin { dir: dir.0, split: *split, attempt };
        match self.ask(target, begin, |reply| matches!(reply, Reply::Count(1))) {
            Ok(true) => return core.commit_split(part, split).map(|()| Transfer::Done),
            Ok(false) => {}
            // The target is away, or has a commit to do first: it is asked again.
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
            Ok(()) => core.commit_split(part, &split).map(|()| Transfer::Done),
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
        let core = Arc::clone(&self.core);
        each_chunk(&core, value, &mut |inode, offset, data| {
            let inode = inode.to_u128();
            let part = Peer::SplitContents { dir, to, attempt, inode, offset, data };
            self.ask(target, part, |_| ())
        })
    }
}

/// Makes all as it was before, if the target cannot have decided. A split that the target has
/// refused ends the wish to spread; any other is tried again.
fn abort_split(core: &Core, part: &Part, is_refused: bool) -> Result<Transfer> {
    let mut state = part.write();
    if state.is_sealed && !is_refused {
        return Ok(Transfer::Retry);
    }
    let was_sealed = std::mem::replace(&mut state.is_sealed, false);
    state.shards.iter_mut().for_each(Shard::abort);
    state.spreads &= !is_refused;
    if was_sealed {
        core.write_down(part.dir, &state.encode())?;
    }
    drop(state);
    part.counted(core.parts.split_at / 4 + 1);
    // Not at once: the worker has other things to do, such as to end.
    Ok(if is_refused { Transfer::Retry } else { Transfer::Away })
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
