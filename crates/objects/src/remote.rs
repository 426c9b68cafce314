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
pub(crate) const PART_BYTES: usize = 8 << 20;
/// Parts of a file under way.
pub(crate) const PARTS_MAX: usize = 4;
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
    pub(crate) fn key(&self, name: &RelativePath) -> Key {
        if self.prefix.is_empty() {
            Key::from(name.as_str())
        } else {
            Key::from(format!("{}/{name}", self.prefix))
        }
    }

    pub(crate) fn wait<T>(
        &self,
        request: impl Future<Output = std::result::Result<T, object_store::Error>>,
    ) -> std::result::Result<T, object_store::Error> {
        self.runtime.block_on(request)
    }

    fn failed(&self, error: object_store::Error) -> Error {
        self.whose.error(&error)
    }

    pub(crate) fn failed_at(&self, name: &RelativePath, error: object_store::Error) -> Error {
        self.whose.error_at(name, &error)
    }

    pub(crate) fn store(&self) -> &dyn ObjectStore {
        &*self.store
    }

    /// All of it, or an object, as people write it.
    pub(crate) fn place(&self, name: Option<&RelativePath>) -> String {
        self.whose.place(name)
    }

    /// Asks whether the store is there, and lets us in.
    pub(crate) fn probe(&self) -> Result<()> {
        let key = Key::from(self.prefix.as_str());
        let asked = self.wait(self.store.list_with_delimiter(Some(&key)));
        asked.map(|_| ()).map_err(|error| self.whose.first_error(&error))
    }

    /// A text; `None` if it is not there.
    pub(crate) fn get(&self, name: &RelativePath) -> Result<Option<Text>> {
        Ok(self.get_dated(name)?.map(|(text, _)| text))
    }

    /// A text, and when it was put by the clock of the store, in nanoseconds since 1970.
    pub(crate) fn get_dated(&self, name: &RelativePath) -> Result<Option<(Text, i64)>> {
        let key = self.key(name);
        let got = self.wait(async {
            let found = self.store.get(&key).await?;
            let tag = Tag { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            let put_ns = found.meta.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX);
            Ok((Text { bytes: found.bytes().await?.to_vec(), tag }, put_ns))
        });
        match got {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            got => got.map(Some).map_err(|error| self.failed_at(name, error)),
        }
    }

    /// Puts a text if there is none. `false` if there is another.
    pub(crate) fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<bool> {
        Ok(self.create_tagged(name, bytes)?.is_some())
    }

    /// Puts a text if the one there is that which was seen.
    pub(crate) fn replace(&self, name: &RelativePath, bytes: &[u8], seen: &Tag) -> Result<bool> {
        Ok(self.replace_tagged(name, bytes, seen)?.is_some())
    }

    /// As [`create`](Remote::create), and gives the tag of what was put.
    pub(crate) fn create_tagged(&self, name: &RelativePath, bytes: &[u8]) -> Result<Option<Tag>> {
        self.put_if(name, bytes, PutMode::Create)
    }

    /// As [`replace`](Remote::replace), and gives the tag of what was put.
    pub(crate) fn replace_tagged(
        &self,
        name: &RelativePath,
        bytes: &[u8],
        seen: &Tag,
    ) -> Result<Option<Tag>> {
        let seen = UpdateVersion { e_tag: seen.e_tag.clone(), version: seen.version.clone() };
        self.put_if(name, bytes, PutMode::Update(seen))
    }

    fn put_if(&self, name: &RelativePath, bytes: &[u8], mode: PutMode) -> Result<Option<Tag>> {
        let key = self.key(name);
        let payload = PutPayload::from(bytes.to_vec());
        let error = match self.wait(self.store.put_opts(&key, payload, mode.into())) {
            Ok(put) => return Ok(Some(Tag { e_tag: put.e_tag, version: put.version })),
            Err(error) => error,
        };
        // A put that is sent again because its answer was lost meets itself. So what is there says
        // who was first, if it can be read.
        let ours = |text: Option<Text>| text.filter(|text| text.bytes == bytes).map(|it| it.tag);
        match error {
            object_store::Error::AlreadyExists { .. }
            | object_store::Error::Precondition { .. }
            | object_store::Error::NotFound { .. } => self.get(name).map(ours),
            error => match self.get(name).ok().and_then(ours) {
                Some(tag) => Ok(Some(tag)),
                None => Err(self.failed_at(name, error)),
            },
        }
    }

    /// Removes an object. It is fine if it is not there.
    pub(crate) fn remove(&self, name: &RelativePath) -> Result<()> {
        let key = self.key(name);
        match self.wait(self.store.delete(&key)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed_at(name, error)),
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

    /// Calls `visit` with the name and the bytes of each object in a directory, page by page.
    pub(crate) fn each_in(
        &self,
        directory: &RelativePath,
        mut visit: impl FnMut(&str, u64),
    ) -> Result<()> {
        let key = self.key(directory);
        let listed = self.wait(self.store.list(Some(&key)).try_for_each(|object| {
            if let Some([part]) = parts_below(&object.location, &key).as_deref() {
                visit(part, object.size);
            }
            async { Ok(()) }
        }));
        listed.map_err(|error| self.failed_at(directory, error))
    }

    /// An object whose name below the prefix is such a one.
    pub(crate) fn find(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Option<String>> {
        let key = Key::from(self.prefix.as_str());
        let mut listed = self.store.list(Some(&key));
        while let Some(object) = self.wait(async { listed.try_next().await }).transpose() {
            let location = object.map_err(|error| self.failed(error))?.location;
            let name = parts_below(&location, &key).unwrap_or_default().join("/");
            if is_wanted(&name) {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Gives `sink` the bytes of an object as they come. `false` if there is none.
    pub(crate) fn read<E>(
        &self,
        name: &RelativePath,
        wrap: fn(Error) -> E,
        sink: &mut (dyn FnMut(&[u8]) -> std::result::Result<(), E> + '_),
    ) -> std::result::Result<bool, E> {
        let failed = |error| wrap(self.failed_at(name, error));
        let mut chunks = match self.wait(self.store.get(&self.key(name))) {
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            found => found.map_err(failed)?.into_stream(),
        };
        while let Some(chunk) = self.wait(async { chunks.try_next().await }).transpose() {
            sink(&chunk.map_err(failed)?)?;
        }
        Ok(true)
    }

    /// Everything below a directory.
    pub(crate) fn list_all(&self, directory: &RelativePath) -> Result<Vec<Listed>> {
        let (key, found) = self.all_below(directory)?;
        let named = found.into_iter().filter_map(|object| {
            let parts = parts_below(&object.location, &key)?;
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

/// The parts of a key that come after those of another one.
fn parts_below(key: &Key, above: &Key) -> Option<Vec<String>> {
    Some(key.prefix_match(above)?.map(|part| part.as_ref().to_owned()).collect())
}
