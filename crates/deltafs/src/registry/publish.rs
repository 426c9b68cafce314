//! Publishing: the log is copied, and its text gets a version that only one publisher can have.

use super::handle::Registry;
use super::names::{below, check_registry_name, version_name};
use super::publication::{Publication, Reference};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use keyrack_measure::wall;
use keyrack_vfs::RelativePath;

impl Registry {
    /// Publishes what is in the log of `space` under `name`. With `expected`, only as that version;
    /// otherwise as the next.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the version is there already; [`Error::ReadOnly`]; [`Error::Usage`]
    /// for a name that cannot be one; those of the store, of the machine and of the network.
    pub fn publish(
        &self,
        space: &Namespace,
        name: &str,
        expected: Option<u64>,
    ) -> Result<Publication> {
        check_registry_name(name)?;
        let top = space.inner.top("the view")?;
        let last = self.versions(name)?.last().copied().unwrap_or(0);
        let version = expected.unwrap_or(last + 1);
        if version <= last {
            return Err(taken(name, version));
        }
        if version != last + 1 {
            return Err(Error::Usage(format!(
                "the next version of '{name}' is {}, not {version}",
                last + 1
            )));
        }
        space.store_times()?;
        let fs = self.storage.fs();
        // The number alone comes again where processes have the same number after each start.
        let unique = fs.unique_number() ^ wall::unix_ns();
        let directory = below(&format!("{}-{unique:016x}", space.log()))?;
        let staged = self.storage.begin_copy(top.dir(), &directory)?;
        let described: Result<Publication> = (|| {
            let contents = space.inner.contents.publish(top, &staged)?;
            let directory = directory.clone();
            let described = self.describe(&staged, name, version, directory, contents)?;
            self.storage.complete_copy(&staged, &described.directory, &described.files)?;
            Ok(described)
        })();
        self.storage.end_copy(&staged, &directory);
        let claimed = match described {
            Ok(publication) => self.claim(&publication).map(|()| publication),
            Err(error) => {
                self.drop_copy(&directory);
                return Err(error);
            }
        };
        // Behind any other error the text may be there, or get there when a request arrives late.
        if matches!(claimed, Err(Error::Conflict(_))) {
            self.drop_copy(&directory);
        }
        claimed
    }

    /// Removes a copy that no text names. What stays is left to [`Registry::gc`].
    fn drop_copy(&self, directory: &RelativePath) {
        // The error of the publisher is the one to report.
        let _ = self.storage.remove_copy(directory);
    }

    /// Gives the publication its version, if nobody has it.
    fn claim(&self, publication: &Publication) -> Result<()> {
        let Publication { name, version, .. } = publication;
        let at = version_name(&Reference { name: name.clone(), version: *version })?;
        let text = serde_json::to_vec_pretty(publication)
            .map_err(|error| Error::Usage(error.to_string()))?;
        if !self.storage.create(&at, &text)? {
            return Err(taken(name, *version));
        }
        // Those of an older program, or of a publisher that crashed, have no notes yet.
        let of = format!("names/{name}");
        let noted = self.noted(&of)?;
        let mut versions = self.versions(name)?;
        versions.retain(|version| !noted.contains(version));
        versions.into_iter().try_for_each(|version| self.note(&of, version))
    }
}

fn taken(name: &str, version: u64) -> Error {
    Error::Conflict(format!(
        "{name}@{version} is published already: somebody was first; look at it, and publish as the \
         next version, or under another name"
    ))
}
