//! Making a backup.
//!
//! ```text
//!   for each file of the set
//!     identity in an older manifest, its object there   nothing is read           (kept)
//!     else: read it, compute its SHA-256
//!           an object of that name there, and whole     nothing is written        (found)
//!           else: read it again, into the object                                  (copied)
//!     the hold on the file is dropped
//!   sync, manifest
//! ```
//!
//! **Account.** A store of 100 GB of which 1 % is new: 1 GB is read, and 1 GB is written. Of the
//! other 99 GB one listing of the objects is read, and the manifests: about 200 bytes a file each.
//! If objects were found by their content alone, each backup would read 100 GB. If they were named
//! by identity alone, two copies of a store would share nothing after a restore.
//!
//! A file that is copied is read twice, the second time from the page cache as a rule: tables and
//! blob files are a few dozen megabytes. In return an object has its name from the start, and
//! nothing is written that is there already. The second reading has to give the same digest.
//!
//! **Interrupted**, a backup leaves objects and no manifest. The next one reads the files again,
//! finds the objects by their names, and compares their bytes, since nothing else vouches for them.
//!
//! **Damage in the store.** The first reading goes through the check that the engine has of the
//! file ([`keyrack_store::ContentCheck`]), so what has an identity has the bytes that were written
//! under it. A file that fails ends the backup.

use crate::digest::{Digest, Hasher};
use crate::dir_target::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::manifest::{FileEntry, Manifest};
use crate::pace::Pace;
use crate::progress::{Progress, Watch};
use crate::repository::{BackupId, BackupInfo, Repository, object_name};
use crate::target::Sink;
use keyrack_store::{FileContent, FileSet, HeldFile, Unsound};
use keyrack_vfs::{Fs, OpenOptions, Operation};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// A backup to be made.
pub struct Backup<'a> {
    set: FileSet,
    bytes_per_second: u64,
    watch: Box<Watch<'a>>,
}

impl fmt::Debug for Backup<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, bytes_per_second, watch: _ } = self;
        f.debug_struct("Backup").field("set", set).field("limit", bytes_per_second).finish()
    }
}

/// What a backup was made of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Saved {
    /// The backup.
    pub info: BackupInfo,
    /// Files that were copied to the repository.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Files that were read, and whose objects were there: an interrupted backup has copied them,
    /// or another store has them.
    pub found_files: u64,
}

/// The objects of the repository.
struct Objects {
    /// With their bytes.
    present: HashMap<Digest, u64>,
    /// Of manifests: what has that identity and so many bytes.
    known: HashMap<(String, u64), Digest>,
}

/// What became of a file.
enum Outcome {
    Kept,
    Found,
    Copied,
}

impl<'a> Backup<'a> {
    /// A backup of these files.
    #[must_use]
    pub fn of(set: FileSet) -> Backup<'a> {
        Backup { set, bytes_per_second: 0, watch: Box::new(|_| ()) }
    }

    /// Reads at most so many bytes a second, from the store and the repository together; 0 for no
    /// limit. A file that is copied is read twice.
    #[must_use]
    pub fn limit(mut self, bytes_per_second: u64) -> Self {
        self.bytes_per_second = bytes_per_second;
        self
    }

    /// Calls `watch` after each file, and after each MiB of one.
    #[must_use]
    pub fn watch(mut self, watch: impl FnMut(Progress) + 'a) -> Self {
        self.watch = Box::new(watch);
        self
    }

    /// Saves the files. After an error there is no backup, and the next one uses what was copied;
    /// unless the error is of the last step, which makes the name of the manifest durable: then
    /// there is perhaps a whole one.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process writes to the repository. [`Error::Corruption`] if a
    /// file is not what the set tells of. The machine's.
    pub fn save_to(self, repository: &Repository) -> Result<Saved> {
        let Backup { set, bytes_per_second, watch } = self;
        let _guard = repository.target.lock()?;
        let manifests = repository.manifests()?;
        let mut progress = Progress::begin(set.files.len(), set.bytes());
        let mut save = Save {
            repository,
            fs: Arc::clone(&set.fs),
            objects: Objects::of(repository, &manifests)?,
            pace: Pace::new(bytes_per_second),
        };
        let taken_ns = keyrack_measure::wall::unix_ns();
        let newest = repository.ids()?.pop();
        let id = BackupId::after(newest.as_ref(), taken_ns)?;
        let (mut copied_files, mut copied_bytes, mut found_files) = (0, 0, 0);
        let mut watch = watch;
        let mut files = Vec::with_capacity(set.files.len());
        for file in set.files {
            let (entry, outcome) = save.file(&file, &mut progress.watched(&mut *watch))?;
            match outcome {
                Outcome::Kept => {}
                Outcome::Found => found_files += 1,
                Outcome::Copied => {
                    copied_files += 1;
                    copied_bytes += entry.bytes;
                }
            }
            progress.end_file(entry.bytes, &mut *watch);
            files.push(entry);
        }
        let engine = set.engine.to_owned();
        let manifest = Manifest { engine, taken_ns, log: set.log, files };
        let text = manifest.encode()?;
        repository.target.sync()?;
        repository.target.create(&id.object(), &text)?;
        let info = BackupInfo::of(&id, &manifest);
        Ok(Saved { info, copied_files, copied_bytes, found_files })
    }
}

impl Objects {
    fn of(repository: &Repository, manifests: &[(BackupId, Result<Manifest>)]) -> Result<Objects> {
        let mut known = HashMap::new();
        // A manifest that cannot be read vouches for nothing. The newest one counts.
        for manifest in manifests.iter().filter_map(|(_, manifest)| manifest.as_ref().ok()) {
            for file in &manifest.files {
                if let Some(identity) = &file.identity {
                    known.insert((identity.clone(), file.bytes), file.object);
                }
            }
        }
        Ok(Objects { present: repository.objects()?, known })
    }

    fn is_present(&self, object: Digest, bytes: u64) -> bool {
        self.present.get(&object) == Some(&bytes)
    }
}

struct Save<'a> {
    repository: &'a Repository,
    fs: Arc<dyn Fs>,
    objects: Objects,
    pace: Pace,
}

impl Save<'_> {
    /// Sees to it that there is an object with the bytes of the file.
    fn file(&mut self, file: &HeldFile, read: &mut dyn FnMut(u64)) -> Result<(FileEntry, Outcome)> {
        let entry = |object| FileEntry {
            object,
            bytes: file.bytes,
            identity: file.identity.clone(),
            name: file.name.clone(),
        };
        let known = file.identity.as_ref().and_then(|identity| {
            // A key is a pair of owned values; files are few beside their bytes.
            self.objects.known.get(&(identity.clone(), file.bytes))
        });
        if let Some(&object) = known
            && self.objects.is_present(object, file.bytes)
        {
            return Ok((entry(object), Outcome::Kept));
        }
        let object = self.digest_of(file, read)?;
        if self.objects.is_present(object, file.bytes) && self.is_whole(object)? {
            return Ok((entry(object), Outcome::Found));
        }
        self.copy(file, object)?;
        self.objects.present.insert(object, file.bytes);
        Ok((entry(object), Outcome::Copied))
    }

    fn digest_of(&self, file: &HeldFile, read: &mut dyn FnMut(u64)) -> Result<Digest> {
        let mut hasher = Hasher::default();
        let mut check = file.check.as_ref().map(|new_check| new_check());
        self.read(file, &mut |chunk| {
            hasher.update(chunk);
            if let Some(check) = &mut check {
                check.take(chunk).map_err(|unsound| self.unsound(file, &unsound))?;
            }
            self.pace.wait_for(chunk.len());
            read(chunk.len() as u64);
            Ok(())
        })?;
        if let Some(check) = &mut check {
            check.end().map_err(|unsound| self.unsound(file, &unsound))?;
        }
        Ok(hasher.finish())
    }

    fn copy(&self, file: &HeldFile, object: Digest) -> Result<()> {
        self.repository.target.put(&object_name(object), &mut |sink| {
            let mut hasher = Hasher::default();
            self.read(file, &mut |chunk| {
                hasher.update(chunk);
                self.pace.wait_for(chunk.len());
                sink(chunk)
            })?;
            if hasher.finish() == object {
                return Ok(());
            }
            let what = "read twice, its bytes are not the same; check the disk, and try again";
            Err(Error::corruption(self.place(file), what))
        })
    }

    /// Whether an object has the bytes that its name says.
    fn is_whole(&self, object: Digest) -> Result<bool> {
        let mut hasher = Hasher::default();
        let found = self.repository.target.read(&object_name(object), &mut |chunk| {
            hasher.update(chunk);
            self.pace.wait_for(chunk.len());
            Ok(())
        });
        match found {
            // What the disk cannot read is written again.
            Err(Error::Io(error)) if error.operation() == Operation::Read => Ok(false),
            found => Ok(found? && hasher.finish() == object),
        }
    }

    /// Gives `sink` the bytes of a file, all of them.
    fn read(&self, file: &HeldFile, sink: &mut Sink<'_>) -> Result<()> {
        let path = match &file.content {
            FileContent::Memory(bytes) => {
                assert_eq!(bytes.len() as u64, file.bytes, "the bytes of {}", file.name);
                return sink(bytes);
            }
            FileContent::File(path) => path,
        };
        let source = self.fs.open(path, &OpenOptions::new().read(true))?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut offset = 0;
        while offset < file.bytes {
            let wanted = usize::try_from(file.bytes - offset).unwrap_or(usize::MAX);
            let wanted = wanted.min(chunk.len());
            let count = source.read_at(offset, &mut chunk[..wanted])?;
            sink(&chunk[..count])?;
            offset += count as u64;
            if count < wanted {
                let remedy = "check the store, and repair it or restore a backup of it";
                let what = format!("it has {offset} bytes, not {}; {remedy}", file.bytes);
                return Err(Error::corruption(self.place(file), what));
            }
        }
        Ok(())
    }

    /// A file whose bytes are not those that its engine wrote is in no backup.
    fn unsound(&self, file: &HeldFile, unsound: &Unsound) -> Error {
        let Unsound { offset, what } = unsound;
        let remedy = "no backup was made; check the store, and repair it or restore a backup of it";
        Error::corruption(self.place(file), format!("at byte {offset}: {what}; {remedy}"))
    }

    fn place(&self, file: &HeldFile) -> String {
        match &file.content {
            FileContent::File(path) => path.display().to_string(),
            FileContent::Memory(_) => file.name.to_string(),
        }
    }
}
