//! Requests to an object store, by calls that wait for the answer.
//!
//! The rest of the program knows no futures. One runtime with one thread of its own keeps the
//! connections; callers wait on their own threads, any number at a time.

use crate::failure::Whose;
use futures_util::{StreamExt as _, TryStreamExt as _};
use keyrack_deltafs::{Error, Result, Tag, Text};
use keyrack_vfs::{Fs, OpenOptions, RelativePath};
use object_store::path::Path as Key;
use object_store::{
    ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload, UpdateVersion,
    WriteMultipart,
};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Files of up to this are put at once; larger ones in parts of this.
const PART_BYTES: usize = 8 << 20;
/// Parts of a file under way.
const PARTS_MAX: usize = 4;
/// Files under way.
const FILES_MAX: usize = 8;

/// A prefix of an object store.
#[derive(Debug)]
pub(crate) struct Remote {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    whose: Whose,
    runtime: Runtime,
}

/// An object by its name below some directory.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) changed_ns: u64,
}

impl Remote {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: &str, whose: Whose) -> Result<Remote> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("objects")
            .enable_all()
            .build()
            .map_err(|error| Error::Remote(format!("cannot start a thread: {error}")))?;
        Ok(Remote { store, prefix: prefix.to_owned(), whose, runtime })
    }

    /// The key of a name below the prefix.
    fn key(&self, name: &RelativePath) -> Key {
        if self.prefix.is_empty() {
            Key::from(name.as_str())
        } else {
            Key::from(format!("{}/{name}", self.prefix))
        }
    }

    fn wait<T>(
        &self,
        request: impl Future<Output = std::result::Result<T, object_store::Error>>,
    ) -> std::result::Result<T, object_store::Error> {
        self.runtime.block_on(request)
    }

    fn failed(&self, error: object_store::Error) -> Error {
        self.whose.error(&error)
    }

    /// Asks whether the store is there, and lets us in.
    pub(crate) fn probe(&self) -> Result<()> {
        let key = Key::from(self.prefix.as_str());
        let asked = self.wait(self.store.list_with_delimiter(Some(&key)));
        asked.map(|_| ()).map_err(|error| self.whose.first_error(&error))
    }

    /// A text; `None` if it is not there.
    pub(crate) fn get(&self, name: &RelativePath) -> Result<Option<Text>> {
        let key = self.key(name);
        let got = self.wait(async {
            let found = self.store.get(&key).await?;
            let tag = Tag { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            Ok(Text { bytes: found.bytes().await?.to_vec(), tag })
        });
        match got {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            got => got.map(Some).map_err(|error| self.failed(error)),
        }
    }

    /// Puts a text if there is none. `false` if there is another.
    pub(crate) fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<bool> {
        self.put_if(name, bytes, PutMode::Create)
    }

    /// Puts a text if the one there is that which was seen.
    pub(crate) fn replace(&self, name: &RelativePath, bytes: &[u8], seen: &Tag) -> Result<bool> {
        let seen = UpdateVersion { e_tag: seen.e_tag.clone(), version: seen.version.clone() };
        self.put_if(name, bytes, PutMode::Update(seen))
    }

    fn put_if(&self, name: &RelativePath, bytes: &[u8], mode: PutMode) -> Result<bool> {
        let key = self.key(name);
        let payload = PutPayload::from(bytes.to_vec());
        let Err(error) = self.wait(self.store.put_opts(&key, payload, mode.into())) else {
            return Ok(true);
        };
        // A put that is sent again because its answer was lost meets itself. So what is there says
        // who was first, if it can be read.
        let is_ours = |text: &Option<Text>| text.as_ref().is_some_and(|text| text.bytes == bytes);
        match error {
            object_store::Error::AlreadyExists { .. }
            | object_store::Error::Precondition { .. }
            | object_store::Error::NotFound { .. } => self.get(name).map(|text| is_ours(&text)),
            error => match self.get(name) {
                Ok(text) if is_ours(&text) => Ok(true),
                _ => Err(self.failed(error)),
            },
        }
    }

    /// Removes an object. It is fine if it is not there.
    pub(crate) fn remove(&self, name: &RelativePath) -> Result<()> {
        let key = self.key(name);
        match self.wait(self.store.delete(&key)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The names directly below a directory, without it.
    pub(crate) fn list(&self, directory: &RelativePath) -> Result<Vec<String>> {
        let key = self.key(directory);
        let listed = self.wait(self.store.list_with_delimiter(Some(&key)));
        let listed = listed.map_err(|error| self.failed(error))?;
        let objects = listed.objects.iter().filter_map(|object| object.location.filename());
        let directories = listed.common_prefixes.iter().filter_map(Key::filename);
        let mut names: Vec<String> = objects.chain(directories).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    fn all_below(&self, directory: &RelativePath) -> Result<(Key, Vec<ObjectMeta>)> {
        let key = self.key(directory);
        let listed = self.wait(self.store.list(Some(&key)).try_collect());
        Ok((key, listed.map_err(|error| self.failed(error))?))
    }

    /// Everything below a directory.
    pub(crate) fn list_all(&self, directory: &RelativePath) -> Result<Vec<Listed>> {
        let (key, found) = self.all_below(directory)?;
        let named = found.into_iter().filter_map(|object| {
            let parts: Vec<_> = object.location.prefix_match(&key)?.collect();
            let parts: Vec<&str> = parts.iter().map(|part| part.as_ref()).collect();
            // A time that does not fit is taken for the latest: what is young is not removed.
            let changed = object.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX);
            Some(Listed {
                name: parts.join("/"),
                bytes: object.size,
                changed_ns: u64::try_from(changed).unwrap_or(0),
            })
        });
        Ok(named.collect())
    }

    /// Removes everything below a directory.
    pub(crate) fn remove_all(&self, directory: &RelativePath) -> Result<()> {
        let (_, found) = self.all_below(directory)?;
        let keys = found.into_iter().map(|object| object_store::Result::Ok(object.location));
        let keys = futures_util::stream::iter(keys).boxed();
        let removed = self.store.delete_stream(keys).try_for_each(|_| async { Ok(()) });
        match self.wait(removed) {
            // Somebody else removes it, too.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Bytes of an object.
    pub(crate) fn range(&self, name: &RelativePath, range: Range<u64>) -> Result<Vec<u8>> {
        let key = self.key(name);
        let got = self.wait(self.store.get_range(&key, range));
        Ok(got.map_err(|error| self.failed(error))?.to_vec())
    }

    /// Puts files, several at a time: the names, and where each is.
    pub(crate) fn put_files(&self, fs: &dyn Fs, files: Vec<(RelativePath, PathBuf)>) -> Result<()> {
        let puts = files.into_iter().map(|(name, path)| self.put_file(fs, name, path));
        self.runtime.block_on(async {
            futures_util::stream::iter(puts).buffer_unordered(FILES_MAX).try_collect::<()>().await
        })
    }

    async fn put_file(&self, fs: &dyn Fs, name: RelativePath, path: PathBuf) -> Result<()> {
        let key = self.key(&name);
        let file = fs.open(&path, &OpenOptions::new().read(true))?;
        let bytes = file.len()?;
        if bytes <= PART_BYTES as u64 {
            let mut whole = vec![0; usize::try_from(bytes).unwrap_or(PART_BYTES)];
            file.read_exact_at(0, &mut whole)?;
            let put = self.store.put(&key, PutPayload::from(whole)).await;
            return put.map(|_| ()).map_err(|error| self.failed(error));
        }
        let upload = self.store.put_multipart(&key).await.map_err(|error| self.failed(error))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut part = vec![0; PART_BYTES];
        let mut at = 0;
        while at < bytes {
            let count = usize::try_from(bytes - at).unwrap_or(PART_BYTES).min(PART_BYTES);
            file.read_exact_at(at, &mut part[..count])?;
            upload.wait_for_capacity(PARTS_MAX).await.map_err(|error| self.failed(error))?;
            upload.write(&part[..count]);
            at += count as u64;
        }
        upload.finish().await.map(|_| ()).map_err(|error| self.failed(error))
    }
}
