//! Compression of blocks.
//!
//! ```text
//!   raw block          the bytes
//!   compressed block   raw length: u32 | the codec's own bytes
//! ```
//!
//! Which codec made a block is stored with the block, so tables may mix them. A block stays raw
//! unless a codec saves an eighth of it: below that, reading would pay for nothing.
//!
//! The raw length is checked before memory is asked for. No codec here can shrink a block by more
//! than [`RATIO_MAX`], so a stored length is at most that many times the stored bytes.
//!
//! Each codec is a feature of this crate, with its name. Names and numbers are the same in every
//! build. A build without a codec refuses options that ask for it, and files that need it; that is
//! never taken for damage.

mod codec;

#[cfg(test)]
pub(crate) use codec::without;
pub(crate) use codec::{Codec, CodecSet};

use crate::error::{Error, Result};
use std::fmt;
use std::path::Path;

/// Bytes of the largest block, decompressed: 1 GiB.
pub(crate) const BLOCK_BYTES_MAX: usize = 1 << 30;

/// More than any codec can shrink a block by: a run of 128 KiB is four bytes of zstd.
const RATIO_MAX: usize = 1 << 15;

/// How the blocks of tables are compressed. The codecs are features of the crate: `lz4`, which is
/// on by default, `snappy` and `zstd`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// Snappy: fast.
    Snappy,
    /// LZ4: faster to decompress, of about the same size.
    Lz4,
    /// Zstandard at this level, 1 to 22, or below 0 for the fast ones; 0 is its default. Smaller,
    /// and several times slower than the others.
    Zstd(i32),
}

/// LZ4; none in a build without it.
impl Default for Compression {
    fn default() -> Self {
        if Compression::Lz4.is_built_in() { Compression::Lz4 } else { Compression::None }
    }
}

impl Compression {
    /// Whether this build of the crate has the codec: whether its feature is on. A store refuses
    /// one that it does not have.
    ///
    /// ```
    /// use keyrack_flodb::Compression;
    ///
    /// assert!(Compression::None.is_built_in());
    /// assert_eq!(Compression::Zstd(3).is_built_in(), cfg!(feature = "zstd"));
    /// ```
    #[must_use]
    pub fn is_built_in(self) -> bool {
        self.codec().is_built_in()
    }

    /// What a store says that was opened with a codec that is not built in.
    pub(crate) fn refusal(self) -> String {
        let name = self.codec().name();
        format!(
            "compression: {name} is not built in; build keyrack-flodb with the feature '{name}'"
        )
    }

    pub(crate) fn codec(self) -> Codec {
        match self {
            Compression::None => Codec::Raw,
            Compression::Snappy => Codec::Snappy,
            Compression::Lz4 => Codec::Lz4,
            Compression::Zstd(_) => Codec::Zstd,
        }
    }

    /// The codecs of a list such as `none,snappy,lz4,zstd,zstd:7`, one for each level as in
    /// [`Options::compression`]; `None` where a name is none of these.
    ///
    /// [`Options::compression`]: crate::Options::compression
    ///
    /// ```
    /// # use keyrack_flodb::Compression;
    /// let levels = Compression::parse_list("none,lz4,zstd:7");
    /// assert_eq!(levels, Some(vec![Compression::None, Compression::Lz4, Compression::Zstd(7)]));
    /// assert_eq!(Compression::parse_list("gzip"), None);
    /// ```
    #[must_use]
    pub fn parse_list(list: &str) -> Option<Vec<Compression>> {
        list.split(',').map(|name| Compression::parse(name.trim())).collect()
    }

    pub(crate) fn parse(name: &str) -> Option<Compression> {
        match name {
            "none" => Some(Compression::None),
            "snappy" => Some(Compression::Snappy),
            "lz4" => Some(Compression::Lz4),
            "zstd" => Some(Compression::Zstd(0)),
            other => {
                let level = other.strip_prefix("zstd:")?.parse().ok()?;
                Some(Compression::Zstd(level)).filter(|codec| codec.is_valid())
            }
        }
    }

    /// Whether the level is one that stores take.
    pub(crate) fn is_valid(self) -> bool {
        !matches!(self, Compression::Zstd(level) if !(-100..=22).contains(&level))
    }

    /// The list that [`Compression::parse_list`] reads.
    pub(crate) fn show_list(list: &[Compression]) -> String {
        // Without any codec no level is compressed.
        let list = if list.is_empty() { &[Compression::None] } else { list };
        let name = |codec: &Compression| match codec {
            Compression::Zstd(level) => format!("zstd:{level}"),
            other => other.codec().name().to_owned(),
        };
        list.iter().map(name).collect::<Vec<_>>().join(",")
    }
}

/// Bytes that LZ4 remembers positions in.
#[cfg(feature = "lz4")]
const LZ4_TABLE_BYTES: usize = 16 << 10;

/// Why a block was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unrestored {
    /// What is wrong with it.
    Damaged(&'static str),
    /// This build lacks its codec.
    Unsupported(Codec),
}

impl From<&'static str> for Unrestored {
    fn from(what: &'static str) -> Self {
        Unrestored::Damaged(what)
    }
}

impl Unrestored {
    /// As an error about the block at `offset` of the file at `path`.
    pub(crate) fn at(self, path: &Path, offset: u64) -> Error {
        match self {
            Unrestored::Damaged(what) => Error::corruption(path, offset, what),
            Unrestored::Unsupported(codec) => {
                Error::UnsupportedCompression { path: path.to_owned(), codec: codec.name() }
            }
        }
    }
}

enum Encoder {
    Raw,
    #[cfg(feature = "snappy")]
    Snappy(Box<snap::raw::Encoder>),
    #[cfg(feature = "lz4")]
    Lz4(lz4_flex::block::CompressTable),
    #[cfg(feature = "zstd")]
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Encoder {
    fn new(compression: Compression) -> Result<Self> {
        if !compression.is_built_in() {
            return Err(Error::Usage(compression.refusal()));
        }
        match compression {
            Compression::None => Ok(Encoder::Raw),
            #[cfg(feature = "snappy")]
            Compression::Snappy => Ok(Encoder::Snappy(Box::new(snap::raw::Encoder::new()))),
            #[cfg(feature = "lz4")]
            Compression::Lz4 => Ok(Encoder::Lz4(lz4_flex::block::CompressTable::default())),
            #[cfg(feature = "zstd")]
            Compression::Zstd(level) => {
                let encoder = zstd::bulk::Compressor::new(level);
                encoder.map(Encoder::Zstd).map_err(|error| {
                    Error::Usage(format!("cannot compress with zstd level {level}: {error}"))
                })
            }
            #[cfg(not(all(feature = "snappy", feature = "lz4", feature = "zstd")))]
            missing => unreachable!("{missing:?} was refused: it is not built in"),
        }
    }

    fn codec(&self) -> Codec {
        match self {
            Encoder::Raw => Codec::Raw,
            #[cfg(feature = "snappy")]
            Encoder::Snappy(_) => Codec::Snappy,
            #[cfg(feature = "lz4")]
            Encoder::Lz4(_) => Codec::Lz4,
            #[cfg(feature = "zstd")]
            Encoder::Zstd(_) => Codec::Zstd,
        }
    }

    /// Bytes that a block of `raw` bytes may become.
    fn bytes_max(&self, raw: usize) -> usize {
        match self {
            Encoder::Raw => raw,
            #[cfg(feature = "snappy")]
            Encoder::Snappy(_) => snap::raw::max_compress_len(raw),
            #[cfg(feature = "lz4")]
            Encoder::Lz4(_) => lz4_flex::block::get_maximum_output_size(raw),
            #[cfg(feature = "zstd")]
            Encoder::Zstd(_) => zstd::zstd_safe::compress_bound(raw),
        }
    }

    /// Writes a block, and returns how many bytes it takes. `None` if the codec gives up.
    fn encode(&mut self, raw: &[u8], room: &mut [u8]) -> Option<usize> {
        match self {
            Encoder::Raw => {
                room.get_mut(..raw.len())?.copy_from_slice(raw);
                Some(raw.len())
            }
            #[cfg(feature = "snappy")]
            Encoder::Snappy(encoder) => encoder.compress(raw, room).ok(),
            #[cfg(feature = "lz4")]
            Encoder::Lz4(table) => lz4_flex::block::compress_into_with_table(raw, room, table).ok(),
            #[cfg(feature = "zstd")]
            Encoder::Zstd(encoder) => encoder.compress_to_buffer(raw, room).ok(),
        }
    }
}

/// Compresses block after block, and keeps its memory in between.
pub(crate) struct Compressor {
    encoder: Encoder,
    out: Vec<u8>,
    used: CodecSet,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// # Errors
    /// [`Error::Usage`] if the codec refuses the level, or is not built in.
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        let encoder = Encoder::new(compression)?;
        Ok(Compressor { encoder, out: Vec::new(), used: CodecSet::default() })
    }

    /// The codecs of what was compressed so far.
    pub(crate) fn used(&self) -> CodecSet {
        self.used
    }

    /// Bytes of memory, but for what zstd has.
    pub(crate) fn memory_bytes(&self) -> usize {
        let table = match &self.encoder {
            Encoder::Raw => 0,
            #[cfg(feature = "snappy")]
            Encoder::Snappy(encoder) => size_of_val(&**encoder),
            #[cfg(feature = "lz4")]
            Encoder::Lz4(_) => LZ4_TABLE_BYTES,
            #[cfg(feature = "zstd")]
            Encoder::Zstd(_) => 0,
        };
        table + self.out.capacity()
    }

    /// What to store for a block of at most [`BLOCK_BYTES_MAX`], and what made it. The block itself
    /// if compression saves too little, or if the codec gives up.
    pub(crate) fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        let codec = self.encoder.codec();
        if codec == Codec::Raw {
            return (codec, raw);
        }
        let room = room(&mut self.out, raw, self.encoder.bytes_max(raw.len()));
        match self.encoder.encode(raw, room) {
            Some(written) if LENGTH_BYTES + written <= raw.len() - raw.len() / 8 => {
                self.used.add(codec);
                (codec, &self.out[..LENGTH_BYTES + written])
            }
            _ => (Codec::Raw, raw),
        }
    }
}

const LENGTH_BYTES: usize = size_of::<u32>();

/// Writes the length of `raw`, and makes room for `bytes` behind it.
fn room<'a>(out: &'a mut Vec<u8>, raw: &[u8], bytes: usize) -> &'a mut [u8] {
    if out.len() < LENGTH_BYTES + bytes {
        out.resize(LENGTH_BYTES + bytes, 0);
    }
    out[..LENGTH_BYTES].copy_from_slice(&(raw.len() as u32).to_le_bytes());
    &mut out[LENGTH_BYTES..]
}

/// Restores a block into `out`, whose content is replaced.
///
/// # Errors
/// What is wrong with the bytes, or that this build lacks the codec.
pub(crate) fn decompress(
    codec: Codec,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> std::result::Result<(), Unrestored> {
    out.clear();
    if !codec.is_built_in() {
        return Err(Unrestored::Unsupported(codec));
    }
    if codec == Codec::Raw {
        out.extend_from_slice(stored);
        return Ok(());
    }
    let Some((length, bytes)) = stored.split_first_chunk::<LENGTH_BYTES>() else {
        return Err("a compressed block without its length".into());
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > BLOCK_BYTES_MAX || length > bytes.len().saturating_mul(RATIO_MAX) {
        return Err("a compressed block with an impossible length".into());
    }
    if out.try_reserve_exact(length).is_err() {
        return Err("a block that is larger than memory".into());
    }
    out.resize(length, 0);
    match decode(codec, bytes, out) {
        Some(restored) if restored == length => Ok(()),
        _ => Err("a block that does not decompress".into()),
    }
}

/// Restores bytes of a codec that is built in, and returns how many. `None` if it gives up.
fn decode(codec: Codec, bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    match codec {
        // The decoder would take a larger room than it needs, but not a smaller one.
        #[cfg(feature = "snappy")]
        Codec::Snappy => snap::raw::Decoder::new().decompress(bytes, out).ok(),
        #[cfg(feature = "lz4")]
        Codec::Lz4 => lz4_flex::block::decompress_into(bytes, out).ok(),
        #[cfg(feature = "zstd")]
        Codec::Zstd => unzstd(bytes, out),
        // Raw bytes are what they were.
        _ => {
            out.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        }
    }
}

#[cfg(feature = "zstd")]
thread_local! {
    static ZSTD: std::cell::RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { std::cell::RefCell::new(None) };
}

/// A decompressor is large, so a thread keeps one, until the thread is torn down.
#[cfg(feature = "zstd")]
fn unzstd(bytes: &[u8], out: &mut [u8]) -> Option<usize> {
    let kept = ZSTD.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.is_none() {
            *kept = zstd::bulk::Decompressor::new().ok();
        }
        kept.as_mut()?.decompress_to_buffer(bytes, out).ok()
    });
    kept.unwrap_or_else(|_| {
        zstd::bulk::Decompressor::new().ok()?.decompress_to_buffer(bytes, out).ok()
    })
}

#[cfg(test)]
mod tests;
