//! The first page of a manifest.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic: `KRMANIF` and a zero byte |
//! | 8..12 | version of the format: 1 |
//! | 12..16 | features, one bit each, that a reader has to know: none |
//! | 16..24 | the number in the file's name |
//! | 24..504 | zeros |
//! | 504..512 | checksum of all before it |
//!
//! Magic, version and checksum stay where they are in all versions, so that every program can say
//! which version it met.

use super::page::PAGE_BYTES;
use crate::checksum::checksum;
use crate::error::{Error, Result};
use std::path::Path;

/// What a manifest begins with.
const MAGIC: [u8; 8] = *b"KRMANIF\0";

/// The version that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 1;

const SUM_AT: usize = PAGE_BYTES - 8;

/// The header of manifest `number`.
pub(crate) fn header(number: u64) -> [u8; PAGE_BYTES] {
    of(VERSION, 0, number)
}

fn of(version: u32, features: u32, number: u64) -> [u8; PAGE_BYTES] {
    let mut page = [0; PAGE_BYTES];
    page[..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&version.to_le_bytes());
    page[12..16].copy_from_slice(&features.to_le_bytes());
    page[16..24].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(&page[..SUM_AT], 0);
    page[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    page
}

/// Checks the header of the file at `path`, which should be manifest `number`.
///
/// # Errors
/// Corruption; or [`Error::Usage`] if the file is sound and a later program wrote it.
pub(crate) fn check(page: &[u8; PAGE_BYTES], path: &Path, number: u64) -> Result<()> {
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
    Ok(())
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
        check(&header(7), Path::new("m"), 7).unwrap();
        assert!(refused(&header(8)).contains("another manifest"));
    }

    #[test]
    fn later_versions_and_features_are_refused_by_name() {
        let message = refused(&of(2, 0, 7));
        let wanted = "/db/MANIFEST-000007 has format version 2, this program reads version 1";
        assert_eq!(message, wanted);
        assert!(refused(&of(1, 4, 7)).contains("features 0x4"));
    }

    #[test]
    fn every_byte_counts() {
        for at in 0..PAGE_BYTES {
            let mut page = header(7);
            page[at] ^= 0x10;
            let error = check(&page, Path::new("m"), 7).unwrap_err();
            assert!(matches!(error, Error::Corruption { offset: 0, .. }), "{at}: {error}");
        }
    }
}
