//! The text of a list of publications.

use super::publication::{Reference, digest_of};
use crate::error::Result;
use serde::{Deserialize, Serialize};

/// The format of the text of a list. Format 1 is the bare list: of revision 0, without a digest.
const FORMAT: u32 = 2;

/// A list of publications, as its text has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct List {
    format: u32,
    /// Its path in the registry.
    name: String,
    /// How often it was saved.
    pub(super) revision: u64,
    pub(super) references: Vec<Reference>,
    /// Of this text with an empty digest, in hexadecimal.
    sha256: String,
}

impl List {
    pub(super) fn new(name: &str, revision: u64, references: &[Reference]) -> Result<List> {
        let references = references.to_vec();
        let mut list = List {
            format: FORMAT,
            name: name.to_owned(),
            revision,
            references,
            sha256: String::new(),
        };
        list.sha256 = digest_of(&list)?;
        Ok(list)
    }

    /// Reads the text `name`. The reason if it is none.
    pub(super) fn read(name: &str, text: &[u8]) -> Result<std::result::Result<List, String>> {
        if text.first() == Some(&b'[') {
            let read: serde_json::Result<Vec<Reference>> = serde_json::from_slice(text);
            let list = read.map_err(|error| error.to_string()).map(|references| List {
                format: 1,
                name: name.to_owned(),
                revision: 0,
                references,
                sha256: String::new(),
            });
            return Ok(list);
        }
        let read: List = match serde_json::from_slice(text) {
            Ok(read) => read,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if read.format != FORMAT {
            return Ok(Err(format!(
                "its format is {}, and this program reads {FORMAT}; use a newer keyrack",
                read.format
            )));
        }
        if read.name != name {
            return Ok(Err(format!("it is the text of {}", read.name)));
        }
        let bare = List { sha256: String::new(), ..read.clone() };
        if digest_of(&bare)? == read.sha256 {
            Ok(Ok(read))
        } else {
            Ok(Err("its digest is not that of its content".to_owned()))
        }
    }
}
