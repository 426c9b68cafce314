//! The first page of a manifest.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic: `KRMANIF` and a zero byte |
//! | 8..12 | version of the format: 1 |
//! | 12..16 | features, one bit each, that a reader has to know: none |
//! | 16..24 | the number in the file's name |
//! | 24..32 | bytes of the file, with its [room](super::page) for edits; 0: an earlier program wrote it |
//! | 32..504 | zeros |
//! | 504..512 | checksum of all before it |
//!
//! Magic, version and checksum stay where they are in all versions, so that every program can say
//! which version it met.

use super::page::PAGE_BYTES;
use crate::checksum::checksum;
use crate::error::{Error, Result};
use keyrack_vfs::File;
use std::path::Path;

/// What a manifest begins with.
const MAGIC: [u8; 8] = *b"KRMANIF\0";

/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 1;

const SUM_AT: usize = PAGE_BYTES - 8;

/// The header of manifest `number`, whose file has `file_bytes`.
pub(crate) fn header(number: u64, file_bytes: u64) -> [u8; PAGE_BYTES] {
    of(VERSION, 0, number, file_bytes)
}

fn of(version: u32, features: u32, number: u64, file_bytes: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    page[..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&version.to_le_bytes());
    page[12..16].copy_from_slice(&features.to_le_bytes());
    page[16..24].copy_from_slice(&number.to_le_bytes());
    page[24..32].copy_from_slice(&file_bytes.to_le_bytes());
    let sum = checksum(&page[..SUM_AT], 0);
    page[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    page
}

/// Reads the header of `file`, which should be manifest `number`. Returns the bytes that the file
/// should have; 0 if an earlier program wrote it.
///
/// # Errors
/// Corruption; [`Error::Usage`] if the file is sound and a later program wrote it; the machine's
/// errors.
pub(crate) fn read(file: &dyn File, number: u64) -> Result<u64> {
    let mut page = [0; PAGE_BYTES];
    if file.read_at(0, &mut page)? < PAGE_BYTES {
        return Err(Error::corruption(file.path(), 0, "the header is cut"));
    }
    check(&page, file.path(), number)
}

fn check(page: &[u8; PAGE_BYTES], path: &Path, number: u64) -> Result<u64> {
    let u32_at =
        |at: usize| u32::from_le_bytes([page[at], page[at + 1], page[at + 2], page[at + 3]]);
    if page[..8] != MAGIC {
        return Err(Error::corruption(path, 0, "not a manifest"));
    }
    if page[SUM_AT..] != checksum(&page[..SUM_AT], 0).to_le_bytes() {
        return Err(Error::corruption(path, 0, "the header does not match its checksum"));
    }
    let (version, features) = (u32_at(8), u32_at(12));
    if version != VERSION {
        return Err(Error::Usage(format!(
            "{} has format version {version}, this program reads version {VERSION}",
            path.display()
        )));
    }
    if features != 0 {
        return Err(Error::Usage(format!(
            "{} uses features {features:#x}, this program knows none",
            path.display()
        )));
    }
    if page[16..24] != number.to_le_bytes() {
        return Err(Error::corruption(path, 16, "the file was another manifest"));
    }
    Ok(u64::from_le_bytes(page[24..32].try_into().expect("these are eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(page: &[u8; PAGE_BYTES]) -> String {
        check(page, Path::new("/db/MANIFEST-000007"), 7).unwrap_err().to_string()
    }

    #[test]
    fn a_header_fits_its_file_alone() {
        assert_eq!(check(&header(7, 99), Path::new("m"), 7).unwrap(), 99);
        assert!(refused(&header(8, 99)).contains("another manifest"));
    }

    #[test]
    fn later_versions_and_features_are_refused_by_name() {
        let message = refused(&of(2, 0, 7, 0));
        let wanted = "/db/MANIFEST-000007 has format version 2, this program reads version 1";
        assert_eq!(message, wanted);
        assert!(refused(&of(1, 4, 7, 0)).contains("features 0x4"));
    }

    #[test]
    fn every_byte_counts() {
        for at in 0..PAGE_BYTES {
            let mut page = header(7, 99);
            page[at] ^= 0x10;
            let error = check(&page, Path::new("m"), 7).unwrap_err();
            assert!(matches!(error, Error::Corruption { offset: 0, .. }), "{at}: {error}");
        }
    }
}
