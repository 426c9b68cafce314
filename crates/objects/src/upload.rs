//! An object that is put as its bytes come, in bounded memory.
//!
//! ```text
//!   up to PART_BYTES      kept, and put with one request
//!   more                  an upload of parts: PARTS_MAX under way, whoever writes waits for one
//! ```
//!
//! The object has its name when [`Upload::finish`] returns. A process that is killed leaves parts
//! without a name, which the service removes if the bucket has such a rule.

use crate::remote::{PART_BYTES, PARTS_MAX, Remote};
use keyrack_deltafs::{Error, Result};
use keyrack_vfs::RelativePath;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt as _, PutPayload, WriteMultipart};

/// Parts of an object, at most: the services take no more.
const PARTS_OF_OBJECT_MAX: u64 = 10_000;
/// Bytes of an object, at most: 78 GiB.
const OBJECT_BYTES_MAX: u64 = PARTS_OF_OBJECT_MAX * PART_BYTES as u64;

/// An object whose bytes are coming.
pub(crate) struct Upload<'a> {
    remote: &'a Remote,
    name: &'a RelativePath,
    key: Key,
    bytes: u64,
    /// What has come while there are no parts.
    small: Vec<u8>,
    parts: Option<WriteMultipart>,
}

impl<'a> Upload<'a> {
    pub(crate) fn new(remote: &'a Remote, name: &'a RelativePath) -> Upload<'a> {
        Upload { remote, name, key: remote.key(name), bytes: 0, small: Vec::new(), parts: None }
    }

    /// Takes the next bytes. Waits while [`PARTS_MAX`] are under way.
    ///
    /// # Errors
    /// [`Error::Usage`] beyond [`OBJECT_BYTES_MAX`]; [`Error::Remote`].
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if self.bytes > OBJECT_BYTES_MAX {
            let place = self.remote.place(Some(self.name));
            let what = "more bytes than an object may have";
            let remedy = "back up to a directory, or keep smaller values in the store";
            return Err(Error::Usage(format!("{place}: {what} ({OBJECT_BYTES_MAX}); {remedy}")));
        }
        if self.parts.is_none() {
            self.small.extend_from_slice(bytes);
            if self.small.len() <= PART_BYTES {
                return Ok(());
            }
            let begun = self.remote.wait(self.remote.store().put_multipart(&self.key));
            let upload = begun.map_err(|error| self.remote.failed_at(self.name, error))?;
            self.parts = Some(WriteMultipart::new_with_chunk_size(upload, PART_BYTES));
            let kept = std::mem::take(&mut self.small);
            return self.write_part(&kept);
        }
        self.write_part(bytes)
    }

    fn write_part(&mut self, bytes: &[u8]) -> Result<()> {
        let parts = self.parts.as_mut().expect("there are parts");
        let written = self.remote.wait(async {
            parts.wait_for_capacity(PARTS_MAX).await?;
            parts.write(bytes);
            Ok(())
        });
        written.map_err(|error| self.remote.failed_at(self.name, error))
    }

    /// Gives the object its name.
    ///
    /// # Errors
    /// [`Error::Remote`]: the object has its name, or not.
    pub(crate) fn finish(self) -> Result<()> {
        let put = match self.parts {
            None => self.remote.wait(async {
                self.remote.store().put(&self.key, PutPayload::from(self.small)).await.map(drop)
            }),
            Some(parts) => self.remote.wait(async { parts.finish().await.map(drop) }),
        };
        put.map_err(|error| self.remote.failed_at(self.name, error))
    }

    /// Gives up: there is no object. The service is asked to drop the parts.
    pub(crate) fn abort(self) {
        if let Some(parts) = self.parts {
            // The first error is the one to report.
            let _ = self.remote.wait(parts.abort());
        }
    }
}
