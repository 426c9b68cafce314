//! What a registry says about a published log.

use super::names::{self, check_registry_name, hex};
use crate::error::{Error, Result};
use keyrack_vfs::RelativePath;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The format of the text of a publication. Format 1 has no digest.
pub(super) const FORMAT: u32 = 2;

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
    #[serde(serialize_with = "names::write_path", deserialize_with = "names::read_path")]
    pub name: RelativePath,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// What a version of a name stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The format of this text: 2, or 1 for one without a digest.
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
    #[serde(serialize_with = "names::write_path", deserialize_with = "names::read_directory")]
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
    /// SHA-256 of this text without this field, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
}

impl Publication {
    /// What is wrong with a text that was read as this version of a name, if anything is.
    pub(super) fn flaw(&self, reference: &Reference) -> Result<Option<String>> {
        if !(1..=FORMAT).contains(&self.format) {
            return Ok(Some(format!(
                "its format is {}, and this program reads up to {FORMAT}; use a newer keyrack",
                self.format
            )));
        }
        let has_digest = self.format > 1 || !self.sha256.is_empty();
        if has_digest && self.digest()? != self.sha256 {
            return Ok(Some("its digest is not that of its content".to_owned()));
        }
        if (&self.name, self.version) != (&reference.name, reference.version) {
            return Ok(Some(format!("it is the text of {}@{}", self.name, self.version)));
        }
        Ok(self.base.iter().find_map(Reference::flaw))
    }

    /// The digest that belongs to the rest.
    pub(super) fn digest(&self) -> Result<String> {
        digest_of(&Publication { sha256: String::new(), ..self.clone() })
    }
}

/// SHA-256 of the text of something.
pub(super) fn digest_of(text: &impl Serialize) -> Result<String> {
    let text = serde_json::to_vec(text).map_err(|error| Error::Usage(error.to_string()))?;
    Ok(hex(&Sha256::digest(text)))
}

impl Reference {
    /// What is wrong with a reference that was read, if anything is.
    pub(super) fn flaw(&self) -> Option<String> {
        check_registry_name(&self.name).err().map(|error| error.to_string())
    }
}
