//! A registry in an object store.
//!
//! A copy is made beside its log, in `publishing`, and then put object by object. It takes no room
//! on the disk but for the bytes of large files; one that a crash leaves behind is removed by a
//! publisher a day later.

use crate::files::Files;
use crate::remote::Remote;
use keyrack_deltafs::{CopyFacts, Error, PublishedFile, Result, Storage, Tag, Text, copy_name};
use keyrack_measure::wall;
use keyrack_vfs::{Fs, RelativePath};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The directory of a log with copies that are being published.
const PUBLISHING: &str = "publishing";
/// How old a copy is that nobody publishes any more.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A prefix of an object store, as a place for a registry.
#[derive(Debug)]
pub(crate) struct ObjectStorage {
    root: PathBuf,
    remote: Arc<Remote>,
    local: Arc<dyn Fs>,
    files: Arc<Files>,
}

impl ObjectStorage {
    pub(crate) fn new(remote: Remote, address: &str, local: Arc<dyn Fs>) -> ObjectStorage {
        let (root, remote) = (PathBuf::from(address), Arc::new(remote));
        let files = Files::new(Arc::clone(&local), root.clone(), Arc::clone(&remote));
        ObjectStorage { root, remote, local, files: Arc::new(files) }
    }

    /// Removes what crashes have left behind long ago. Nothing depends on it.
    fn tidy(&self, dir: &Path) {
        let now = UNIX_EPOCH + Duration::from_nanos(wall::unix_ns());
        for entry in self.local.list(dir).unwrap_or_default() {
            let path = dir.join(entry.name);
            let changed = self.local.metadata(&path).map(|found| found.modified);
            if changed.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > ABANDONED)) {
                let _ = self.local.remove_dir_all(&path);
            }
        }
    }
}

impl Storage for ObjectStorage {
    fn root(&self) -> PathBuf {
        self.root.clone()
    }

    fn fs(&self) -> Arc<dyn Fs> {
        Arc::clone(&self.files) as Arc<dyn Fs>
    }

    fn get(&self, name: &RelativePath) -> Result<Option<Text>> {
        self.remote.get(name)
    }

    fn create(&self, name: &RelativePath, bytes: &[u8]) -> Result<bool> {
        self.remote.create(name, bytes)
    }

    fn replace(&self, name: &RelativePath, bytes: &[u8], seen: &Tag) -> Result<bool> {
        self.remote.replace(name, bytes, seen)
    }

    fn remove(&self, name: &RelativePath) -> Result<()> {
        self.remote.remove(name)
    }

    fn list(&self, directory: &RelativePath) -> Result<Vec<String>> {
        self.remote.list(directory)
    }

    fn begin_copy(&self, log: &Path, directory: &RelativePath) -> Result<PathBuf> {
        let dir = log.join(PUBLISHING);
        self.local.create_dir_all(&dir)?;
        self.tidy(&dir);
        Ok(directory.under(&dir))
    }

    fn complete_copy(
        &self,
        staged: &Path,
        directory: &RelativePath,
        files: &[PublishedFile],
    ) -> Result<()> {
        let copy = copy_name(directory)?;
        let puts = files.iter().map(|file| {
            let name = copy.join(&file.name).map_err(|error| Error::Usage(error.to_string()))?;
            Ok((name, file.name.under(staged)))
        });
        self.remote.put_files(&*self.local, puts.collect::<Result<_>>()?)
    }

    fn end_copy(&self, staged: &Path, _: &RelativePath) {
        let _ = self.local.remove_dir_all(staged);
    }

    fn copy_facts(&self, directory: &RelativePath) -> Result<Option<CopyFacts>> {
        let objects = self.remote.list_all(&copy_name(directory)?)?;
        let changed = objects.iter().map(|object| object.changed_ns).max();
        Ok(changed.map(|changed_ns| CopyFacts {
            bytes: objects.iter().map(|object| object.bytes).sum(),
            changed_ns,
        }))
    }

    fn remove_copy(&self, directory: &RelativePath) -> Result<()> {
        self.remote.remove_all(&copy_name(directory)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Whose;
    use keyrack_deltafs::{GcOptions, Registry};
    use keyrack_vfs::MemFs;
    use object_store::memory::InMemory;

    fn name(text: &str) -> RelativePath {
        RelativePath::new(text).unwrap()
    }

    /// As with a directory: the text is refused where it is read, and no object is removed.
    #[test]
    fn gc_removed_whatever_objects_the_text_of_a_publication_named() {
        let disk: Arc<dyn Fs> = Arc::new(MemFs::new());
        for directory in ["../../victim", "/victim", "", "..", "x/../../victim", "x/y"] {
            let remote = Remote::new(Arc::new(InMemory::new()), "", Whose::memory()).unwrap();
            let storage = Arc::new(ObjectStorage::new(remote, "memory:", Arc::clone(&disk)));
            let text = format!(
                r#"{{"format":1,"name":"job","version":1,"log":"01","epoch":1,
                "directory":"{directory}","files":[],"records":0,"keys":null,"base":[],
                "published_ns":0}}"#
            );
            assert!(storage.create(&name("victim/1"), b"precious").unwrap());
            assert!(storage.create(&name("names/job/1"), text.as_bytes()).unwrap());
            let before = storage.remote.list_all(&name("victim")).unwrap().len();

            let registry = Registry::on(Arc::clone(&storage) as Arc<dyn Storage>);
            let all = GcOptions { keep_versions: Some(0), ..GcOptions::default() };
            let error = registry.gc(&all).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{directory:?}: {error}");
            let line = error.to_string();
            assert!(line.contains("names/job/1") && line.contains("directory"), "{line}");
            assert_eq!(storage.remote.list_all(&name("victim")).unwrap().len(), before);
            assert!(storage.get(&name("names/job/1")).unwrap().is_some(), "{directory:?}");
        }
    }
}
