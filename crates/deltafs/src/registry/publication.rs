//! What a registry says about a published log.

use crate::registry::{check_registry_name, texts};
use keyrack_vfs::RelativePath;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The format of the text of a publication.
pub(super) const FORMAT: u32 = 1;

/// A publication by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// Its version, from 1 on.
    pub version: u64,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// A file of a published log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedFile {
    /// Its path in the directory of the log.
    #[serde(with = "texts::path")]
    pub name: RelativePath,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// What a version of a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The format of this text: 1.
    pub format: u32,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// The number of the log, in hexadecimal.
    pub log: String,
    /// The epoch of the log: of two publications of one log the later has the same or a larger one.
    pub epoch: u64,
    /// The directory of the log below `logs`: a single name.
    #[serde(with = "texts::directory")]
    pub directory: RelativePath,
    /// Its files.
    pub files: Vec<PublishedFile>,
    /// Records in the log, of all kinds.
    pub records: u64,
    /// The first and the last key, in hexadecimal.
    pub keys: Option<(String, String)>,
    /// What the log was begun on, the highest first.
    pub base: Vec<Reference>,
    /// When, in nanoseconds since 1970.
    pub published_ns: u64,
}

impl Publication {
    /// What is wrong with a text that was read as this version of a name, if anything is.
    pub(super) fn flaw(&self, reference: &Reference) -> Option<String> {
        if self.format != FORMAT {
            return Some(format!(
                "its format is {}, and this program reads {FORMAT}; use a newer keyrack",
                self.format
            ));
        }
        if (&self.name, self.version) != (&reference.name, reference.version) {
            return Some(format!("it is the text of {}@{}", self.name, self.version));
        }
        self.base.iter().find_map(Reference::flaw)
    }
}

impl Reference {
    /// What is wrong with a reference that was read, if anything is.
    pub(super) fn flaw(&self) -> Option<String> {
        check_registry_name(&self.name).err().map(|error| error.to_string())
    }
}
