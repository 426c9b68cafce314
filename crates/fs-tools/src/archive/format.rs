//! The formats of archives, by name or by the ending of a file's name.

use keyrack_console::Failure;
use keyrack_store::unknown;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// The format of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// POSIX headers with PAX records.
    Tar,
    /// Lines of JSON.
    Jsonl,
    /// A file of Parquet.
    Parquet,
}

/// The formats' names.
const FORMATS: [&str; 3] = ["tar", "jsonl", "parquet"];

impl Format {
    /// The format of that name, or else the one that the ending of the file's name says.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is no such format, or not in this build.
    pub fn of(name: Option<&str>, file: &OsStr) -> Result<Format, Failure> {
        match name {
            Some("tar") => Ok(Format::Tar),
            Some("jsonl") => Ok(Format::Jsonl),
            Some("parquet") => Format::parquet(),
            Some(other) => Err(Failure::Usage(unknown("format", other, &FORMATS))),
            None if file.as_bytes().ends_with(b".jsonl") => Ok(Format::Jsonl),
            None if file.as_bytes().ends_with(b".parquet") => Format::parquet(),
            None => Ok(Format::Tar),
        }
    }

    /// Files of Parquet, if this build knows them.
    pub(crate) fn parquet() -> Result<Format, Failure> {
        if cfg!(feature = "parquet") {
            return Ok(Format::Parquet);
        }
        Err(Failure::Usage(
            "this program was built without Parquet; build it with --features parquet, or use \
             --format jsonl"
                .to_owned(),
        ))
    }
}
