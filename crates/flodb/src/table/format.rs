//! Footer, handles, and how a block is framed.
//!
//! ```text
//!   block on disk = contents | type: u8 | codec: u8 | checksum: u64
//! ```
//!
//! The checksum covers contents, type and codec, and the offset of the block. A handle is the place
//! of a block with the checksum expected there, so that an older block of the same place, or one of
//! another table, does not pass either.

use crate::checksum::checksum;
use crate::coding::{Reader, put_varint};
use crate::compress::{self, BLOCK_BYTES_MAX, Codec, Unrestored};
use crate::error::{Error, Result};
use keyrack_vfs::File;
use std::cell::Cell;
use std::path::Path;

/// Type, codec and checksum.
pub(super) const TRAILER_BYTES: usize = 10;
pub(super) const FOOTER_BYTES: usize = 48;

/// The last bytes of every table.
const MAGIC: [u8; 8] = *b"KRtable\n";
pub(super) const VERSION: u32 = 1;

/// Where the version is in the footer, and the checksum, and the magic.
const VERSION_AT: usize = 24;
const CHECKSUM_AT: usize = 32;
const MAGIC_AT: usize = 40;

/// What a block is for. The numbers are in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BlockType {
    Data = 1,
    Filter = 2,
    RangeDeletes = 3,
    Index = 4,
    Properties = 5,
}

/// Where a block is, and which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) offset: u64,
    /// Of the contents, as stored.
    pub(super) bytes: u32,
    pub(super) checksum: u64,
}

impl Handle {
    /// Bytes of the block with its trailer.
    pub(super) fn framed_bytes(self) -> usize {
        self.bytes as usize + TRAILER_BYTES
    }

    /// The first byte behind the block.
    pub(super) fn end(self) -> u64 {
        self.offset.saturating_add(self.framed_bytes() as u64)
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, u64::from(self.bytes));
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub(super) fn take(reader: &mut Reader<'_>) -> Option<Self> {
        let offset = reader.varint()?;
        let bytes = u32::try_from(reader.varint()?).ok()?;
        Some(Handle { offset, bytes, checksum: reader.u64()? })
    }
}

/// Appends a block to `out`, which begins at `base` of the file.
pub(super) fn append_block(
    out: &mut Vec<u8>,
    offset: u64,
    block_type: BlockType,
    codec: Codec,
    contents: &[u8],
) -> Handle {
    debug_assert!(contents.len() <= BLOCK_BYTES_MAX, "the writer limits blocks");
    let at = out.len();
    out.extend_from_slice(contents);
    out.extend_from_slice(&[block_type as u8, codec as u8]);
    let checksum = checksum(&out[at..], offset);
    out.extend_from_slice(&checksum.to_le_bytes());
    Handle { offset, bytes: contents.len() as u32, checksum }
}

/// Checks a framed block. Its contents as stored, and the codec. Without `verify`, the checksum of
/// the contents is not computed; that it is the one expected here is checked in any case.
fn unframe(
    framed: &[u8],
    handle: Handle,
    block_type: BlockType,
    verify: bool,
) -> std::result::Result<(&[u8], Codec), &'static str> {
    let (covered, stored) = framed.split_last_chunk::<8>().ok_or("a block without a trailer")?;
    if verify && checksum(covered, handle.offset) != u64::from_le_bytes(*stored) {
        return Err("a block with a wrong checksum");
    }
    if u64::from_le_bytes(*stored) != handle.checksum {
        return Err("a block that is not the one expected here");
    }
    let (contents, [kind, codec]) =
        covered.split_last_chunk::<2>().ok_or("a block without a trailer")?;
    if *kind != block_type as u8 {
        return Err("a block of another type than expected");
    }
    Ok((contents, Codec::from_byte(*codec).ok_or("a block of an unknown codec")?))
}

/// Checks and decompresses a framed block into `out`, whose content is replaced. Whether the
/// checksum is computed is `verify`.
pub(super) fn decode_block(
    path: &Path,
    framed: &[u8],
    handle: Handle,
    block_type: BlockType,
    verify: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    unframe(framed, handle, block_type, verify)
        .map_err(Unrestored::from)
        .and_then(|(contents, codec)| compress::decompress(codec, contents, out))
        .map_err(|why| why.at(path, handle.offset))
}

/// A thread that reads blocks keeps so much memory for the next one.
const FRAMED_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// For a block as it is in the file. The memory that a block stays in is not zeroed first then,
    /// and is written once.
    static FRAMED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Reads, checks and decompresses a block.
pub(super) fn read_block(
    file: &dyn File,
    handle: Handle,
    block_type: BlockType,
) -> Result<Vec<u8>> {
    read_block_with(file, handle, block_type, true)
}

/// As [`read_block`]; whether the checksum is computed is `verify`.
pub(super) fn read_block_with(
    file: &dyn File,
    handle: Handle,
    block_type: BlockType,
    verify: bool,
) -> Result<Vec<u8>> {
    // A thread that is torn down keeps none.
    let mut framed = FRAMED.try_with(Cell::take).unwrap_or_default();
    let bytes = handle.framed_bytes();
    if framed.len() < bytes {
        framed.resize(bytes, 0);
    }
    let mut out = Vec::new();
    let read = read_exact(file, handle.offset, &mut framed[..bytes]).and_then(|()| {
        decode_block(file.path(), &framed[..bytes], handle, block_type, verify, &mut out)
    });
    if framed.len() <= FRAMED_BYTES_MAX {
        let _ = FRAMED.try_with(|kept| kept.set(framed));
    }
    read.map(|()| out)
}

/// Reads bytes that must be there.
pub(super) fn read_exact(file: &dyn File, offset: u64, buf: &mut [u8]) -> Result<()> {
    file.read_exact_at(offset, buf).map_err(|error| match error {
        keyrack_vfs::Error::UnexpectedEnd { .. } => {
            Error::corruption(file.path(), offset, "the file ends within a block")
        }
        other => other.into(),
    })
}

/// The last bytes of a table, which begin at `offset`.
pub(super) fn footer(properties: Handle, offset: u64) -> [u8; FOOTER_BYTES] {
    let mut footer = [0; FOOTER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| footer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &properties.offset.to_le_bytes());
    put(8, &u64::from(properties.bytes).to_le_bytes());
    put(16, &properties.checksum.to_le_bytes());
    put(VERSION_AT, &VERSION.to_le_bytes());
    put(MAGIC_AT, &MAGIC);
    let checksum = checksum(&footer[..CHECKSUM_AT], offset);
    footer[CHECKSUM_AT..MAGIC_AT].copy_from_slice(&checksum.to_le_bytes());
    footer
}

/// Reads the footer: where the properties are. Also returns where the footer is.
///
/// # Errors
/// [`Error::Corruption`], or [`Error::Usage`] for a table of a later format.
pub(super) fn read_footer(file: &dyn File) -> Result<(Handle, u64)> {
    let len = file.len()?;
    let Some(offset) = len.checked_sub(FOOTER_BYTES as u64) else {
        return Err(Error::corruption(file.path(), len, "a file too short to be a table"));
    };
    let mut footer = [0; FOOTER_BYTES];
    read_exact(file, offset, &mut footer)?;
    let damage = |what| Error::corruption(file.path(), offset, what);
    if footer[MAGIC_AT..] != MAGIC {
        return Err(damage("the file does not end as a table"));
    }
    let mut reader = Reader::new(&footer[CHECKSUM_AT..]);
    if reader.u64() != Some(checksum(&footer[..CHECKSUM_AT], offset)) {
        return Err(damage("a footer with a wrong checksum"));
    }
    let mut reader = Reader::new(&footer[VERSION_AT..]);
    let (Some(version), Some(flags)) = (reader.u32(), reader.u32()) else {
        return Err(damage("a footer with a wrong checksum"));
    };
    if version != VERSION || flags != 0 {
        let path = file.path().display();
        return Err(Error::Usage(format!(
            "{path}: a table of format version {version}, flags {flags:#x}; this program reads \
             version {VERSION} without flags"
        )));
    }
    let mut reader = Reader::new(&footer);
    let (Some(at), Some(bytes), Some(checksum)) = (reader.u64(), reader.u64(), reader.u64()) else {
        return Err(damage("a footer with a wrong checksum"));
    };
    let bytes = u32::try_from(bytes).ok();
    let properties = bytes.map(|bytes| Handle { offset: at, bytes, checksum });
    match properties.filter(|properties| properties.end() == offset) {
        Some(properties) => Ok((properties, offset)),
        None => Err(damage("the properties do not end at the footer")),
    }
}
