//! Records of a directory and of its partitions, as a split reads and writes them.

use crate::error::{Error, Result};
use crate::id::{DirId, Inode};
use crate::record::{Entry, Key, parse_key};
use crate::rpc::server::core::Core;
use crate::rpc::server::parts::part_key;

/// Bytes of a large file in a message, at most.
const CONTENTS_BYTES: usize = 512 << 10;

impl Core {
    /// Visits all records of a directory in the log that is written to, except those of
    /// subdirectories.
    ///
    /// # Errors
    /// [`Error::Corruption`] for a damaged record; those of the store.
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

    /// Writes the record of a directory's partitions.
    pub(crate) fn write_down(&self, dir: DirId, record: &[u8]) -> Result<()> {
        Ok(self.space().inner.top("a partition")?.put(&part_key(dir), record)?)
    }

    /// Directories with a split that a crash interrupted.
    pub(crate) fn unfinished_splits(&self) -> Result<Vec<DirId>> {
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

/// Visits the bytes of a large file that this log has, in chunks. A file has at least one chunk.
/// The inner result is the error of `visit`, which ends the visit.
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
