//! The file `CURRENT`: one line that says which manifest counts.
//!
//! ```text
//!   keyrack-flodb 1 MANIFEST-000007 6d3f0c9b5e21a874
//!   magic      version  name        xxh3 of what is before it, in hex, and a line feed behind
//! ```
//!
//! It is replaced at one stroke by a rename. The checksum is there because one wrong digit could
//! name an older manifest that is still in the directory.

use super::names::{CURRENT, FileName, manifest_name};
use crate::checksum::checksum;
use crate::error::{Error, Result};
use keyrack_vfs::{Fs, OpenOptions};
use std::ffi::OsStr;
use std::path::Path;

const MAGIC: &str = "keyrack-flodb";
const VERSION: u32 = 1;

/// Longer files are not read further.
const BYTES_MAX: usize = 256;

pub(super) fn line(version: u32, name: &str) -> String {
    let said = format!("{MAGIC} {version} {name} ");
    let sum = checksum(said.as_bytes(), 0);
    format!("{said}{sum:016x}\n")
}

/// Makes manifest `number` the one that counts. Its name must be durable already.
///
/// # Errors
/// The machine's. A failed sync leaves it open which manifest counts after a power loss.
pub(crate) fn write(fs: &dyn Fs, dir: &Path, number: u64) -> keyrack_vfs::Result<()> {
    fs.write_atomic(&dir.join(CURRENT), line(VERSION, &manifest_name(number)).as_bytes())
}

/// The number of the manifest that counts; `None` without the file.
///
/// # Errors
/// The file is damaged, or of a later version, or the machine fails.
pub(crate) fn read(fs: &dyn Fs, dir: &Path) -> Result<Option<u64>> {
    let path = dir.join(CURRENT);
    let file = match fs.open(&path, &OpenOptions::new().read(true)) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let mut bytes = [0; BYTES_MAX];
    let len = file.read_at(0, &mut bytes)?;
    parse(&path, &bytes[..len]).map(Some)
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<u64> {
    let damaged = |what: &str| Error::corruption(path, 0, what);
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("not text"))?;
    let words: Vec<&str> = text.split(' ').collect();
    let &[magic, version, name, _] = words.as_slice() else {
        return Err(damaged("not four words"));
    };
    let said = text.len() - words[3].len();
    if words[3] != format!("{:016x}\n", checksum(&bytes[..said], 0)) {
        return Err(damaged("the line does not match its checksum"));
    }
    if magic != MAGIC {
        return Err(damaged("not a line of this format"));
    }
    if version != VERSION.to_string() {
        return Err(Error::Usage(format!(
            "{} has format version {version}, this program reads version {VERSION}",
            path.display()
        )));
    }
    match FileName::parse(OsStr::new(name)) {
        Some(FileName::Manifest(number)) => Ok(number),
        _ => Err(damaged("names no manifest")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<u64> {
        parse(Path::new("/db/CURRENT"), text.as_bytes())
    }

    #[test]
    fn the_line_names_the_manifest() {
        assert_eq!(parsed(&line(1, "MANIFEST-000012")).unwrap(), 12);
        assert!(line(1, "MANIFEST-000012").starts_with("keyrack-flodb 1 MANIFEST-000012 "));
    }

    #[test]
    fn a_later_version_is_refused_by_name() {
        let error = parsed(&line(9, "MANIFEST-000012")).unwrap_err();
        assert!(matches!(error, Error::Usage(_)));
        assert_eq!(
            error.to_string(),
            "/db/CURRENT has format version 9, this program reads version 1"
        );
    }

    #[test]
    fn any_other_line_is_damage() {
        let good = line(1, "MANIFEST-000012");
        let mut bad =
            vec![String::new(), good.repeat(2), format!("{good} "), line(1, "000012.table")];
        bad.extend((0..good.len()).map(|len| good[..len].to_owned()));
        for text in bad {
            let error = parsed(&text).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{text:?}: {error}");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bytes = good.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let error = parse(Path::new("/db/CURRENT"), &bytes).unwrap_err();
                assert!(matches!(error, Error::Corruption { .. }), "{at}: {error}");
            }
        }
    }
}
