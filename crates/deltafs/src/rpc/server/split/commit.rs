//! The end of a split at its source: the half goes, or the split is aborted.

use crate::error::Result;
use crate::id::DirId;
use crate::partition::{Shard, Split, hash_name};
use crate::record::{Entry, Key};
use crate::rpc::server::core::Core;
use crate::rpc::server::parts::{Part, part_key};
use keyrack_flodb::{Batch, WriteOptions};

impl Core {
    /// The other server has the half: here it goes, with one batch.
    pub(crate) fn commit_split(&self, part: &Part, split: &Split) -> Result<()> {
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
                self.commit_split(&part, &split)?;
                continue;
            }
            let mut state = part.write();
            let splits = |shard: &&mut Shard| shard.splitting() == Some(split);
            state.shards.iter_mut().filter(splits).for_each(Shard::abort);
            state.is_sealed = false;
            self.write_down(dir, &state.encode())?;
        }
    }
}
