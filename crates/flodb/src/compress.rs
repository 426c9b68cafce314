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

use crate::error::{Error, Result};
use lz4_flex::block::CompressTable;
use std::cell::RefCell;
use std::fmt;

/// Bytes of the largest block, decompressed: 1 GiB.
pub(crate) const BLOCK_BYTES_MAX: usize = 1 << 30;

/// More than any codec can shrink a block by: a run of 128 KiB is four bytes of zstd.
const RATIO_MAX: usize = 1 << 15;

/// How the blocks of tables are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// Snappy: fast.
    Snappy,
    /// LZ4: faster to decompress, of about the same size.
    #[default]
    Lz4,
    /// Zstandard at this level, 1 to 22, or below 0 for the fast ones; 0 is its default. Smaller,
    /// and several times slower than the others.
    Zstd(i32),
}

impl Compression {
    /// The codecs of a list such as `none,snappy,lz4,zstd,zstd:7`, one for each level as in
    /// [`Options::compression`]; `None` where a name is none of these.
    ///
    /// [`Options::compression`]: crate::Options::compression
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
            Compression::None => "none".to_owned(),
            Compression::Snappy => "snappy".to_owned(),
            Compression::Lz4 => "lz4".to_owned(),
            Compression::Zstd(level) => format!("zstd:{level}"),
        };
        list.iter().map(name).collect::<Vec<_>>().join(",")
    }
}

/// Bytes that LZ4 remembers positions in.
const LZ4_TABLE_BYTES: usize = 16 << 10;

/// What made the bytes of a block. The numbers are in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Codec {
    Raw = 0,
    Snappy = 1,
    Lz4 = 2,
    Zstd = 3,
}

impl Codec {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Codec::Raw, Codec::Snappy, Codec::Lz4, Codec::Zstd]
            .into_iter()
            .find(|codec| *codec as u8 == byte)
    }
}

enum Encoder {
    Raw,
    Snappy(Box<snap::raw::Encoder>),
    Lz4(CompressTable),
    Zstd(zstd::bulk::Compressor<'static>),
}

/// Compresses block after block, and keeps its memory in between.
pub(crate) struct Compressor {
    encoder: Encoder,
    out: Vec<u8>,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compressor")
    }
}

impl Compressor {
    /// # Errors
    /// [`Error::Usage`] if the codec refuses the level.
    pub(crate) fn new(compression: Compression) -> Result<Self> {
        let encoder = match compression {
            Compression::None => Encoder::Raw,
            Compression::Snappy => Encoder::Snappy(Box::new(snap::raw::Encoder::new())),
            Compression::Lz4 => Encoder::Lz4(CompressTable::default()),
            Compression::Zstd(level) => {
                Encoder::Zstd(zstd::bulk::Compressor::new(level).map_err(|error| {
                    Error::Usage(format!("cannot compress with zstd level {level}: {error}"))
                })?)
            }
        };
        Ok(Compressor { encoder, out: Vec::new() })
    }

    /// Bytes of memory, but for what zstd has.
    pub(crate) fn memory_bytes(&self) -> usize {
        let table = match &self.encoder {
            Encoder::Raw | Encoder::Zstd(_) => 0,
            Encoder::Snappy(encoder) => size_of_val(&**encoder),
            Encoder::Lz4(_) => LZ4_TABLE_BYTES,
        };
        table + self.out.capacity()
    }

    /// What to store for a block of at most [`BLOCK_BYTES_MAX`], and what made it. The block itself
    /// if compression saves too little, or if the codec gives up.
    pub(crate) fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        let (codec, written) = match &mut self.encoder {
            Encoder::Raw => return (Codec::Raw, raw),
            Encoder::Snappy(encoder) => {
                let room = room(&mut self.out, raw, snap::raw::max_compress_len(raw.len()));
                (Codec::Snappy, encoder.compress(raw, room).ok())
            }
            Encoder::Lz4(table) => {
                let bytes = lz4_flex::block::get_maximum_output_size(raw.len());
                let room = room(&mut self.out, raw, bytes);
                (Codec::Lz4, lz4_flex::block::compress_into_with_table(raw, room, table).ok())
            }
            Encoder::Zstd(encoder) => {
                let bytes = zstd::zstd_safe::compress_bound(raw.len());
                let room = room(&mut self.out, raw, bytes);
                (Codec::Zstd, encoder.compress_to_buffer(raw, room).ok())
            }
        };
        match written {
            Some(written) if LENGTH_BYTES + written <= raw.len() - raw.len() / 8 => {
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

thread_local! {
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { RefCell::new(None) };
}

/// Restores a block into `out`, whose content is replaced.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn decompress(
    codec: Codec,
    stored: &[u8],
    out: &mut Vec<u8>,
) -> std::result::Result<(), &'static str> {
    out.clear();
    if codec == Codec::Raw {
        out.extend_from_slice(stored);
        return Ok(());
    }
    let Some((length, bytes)) = stored.split_first_chunk::<LENGTH_BYTES>() else {
        return Err("a compressed block without its length");
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > BLOCK_BYTES_MAX || length > bytes.len().saturating_mul(RATIO_MAX) {
        return Err("a compressed block with an impossible length");
    }
    if out.try_reserve_exact(length).is_err() {
        return Err("a block that is larger than memory");
    }
    out.resize(length, 0);
    let restored = match codec {
        Codec::Raw => Some(length),
        // The decoder would take a larger room than it needs, but not a smaller one.
        Codec::Snappy => snap::raw::Decoder::new().decompress(bytes, out).ok(),
        Codec::Lz4 => lz4_flex::block::decompress_into(bytes, out).ok(),
        Codec::Zstd => unzstd(bytes, out),
    };
    if restored == Some(length) { Ok(()) } else { Err("a block that does not decompress") }
}

/// A decompressor is large, so a thread keeps one, until the thread is torn down.
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
mod tests {
    use super::*;

    const ALL: [Compression; 6] = [
        Compression::None,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd(0),
        Compression::Zstd(-5),
        Compression::Zstd(19),
    ];

    /// Bytes that are the same for the same seed.
    fn noise(seed: u64) -> impl FnMut() -> u8 {
        let mut noise = seed;
        move || {
            noise = noise.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (noise >> 56) as u8
        }
    }

    fn samples() -> Vec<Vec<u8>> {
        let mut draw = noise(1);
        let mut samples = vec![Vec::new(), vec![7], b"abc".repeat(1365), vec![0; 3 << 20]];
        samples.push((0..4096).map(|_| draw()).collect());
        samples.push((0..70_000).map(|at| if at % 64 < 32 { draw() } else { b'x' }).collect());
        samples
    }

    #[test]
    fn blocks_come_back_and_raw_ones_stay_raw() {
        for compression in ALL {
            let mut compressor = Compressor::new(compression).unwrap();
            for raw in samples() {
                let (codec, stored) = compressor.compress(&raw);
                let mut out = vec![1; 10];
                decompress(codec, stored, &mut out).unwrap();
                assert!(out == raw, "{compression:?} of {} bytes", raw.len());
                if codec == Codec::Raw {
                    assert_eq!(stored, raw);
                } else {
                    assert!(stored.len() <= raw.len() * 7 / 8 + 1);
                }
            }
            let (codec, _) = compressor.compress(&samples()[4]);
            assert_eq!(codec, Codec::Raw, "noise does not shrink");
            let (codec, _) = compressor.compress(&samples()[2]);
            assert_eq!(codec == Codec::Raw, compression == Compression::None);
        }
    }

    /// Damage that a checksum would have found: no panic, and no more memory than the length says.
    #[test]
    fn damaged_blocks_do_not_panic() {
        for compression in ALL {
            let mut compressor = Compressor::new(compression).unwrap();
            let raw = b"some words, and some words again, and again some words".repeat(8);
            let (codec, stored) = compressor.compress(&raw);
            let stored = stored.to_vec();
            let mut out = Vec::new();
            for at in 0..stored.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut damaged = stored.clone();
                    damaged[at] ^= flip;
                    let _ = decompress(codec, &damaged, &mut out);
                }
                if codec != Codec::Raw {
                    assert!(decompress(codec, &stored[..at], &mut out).is_err(), "{compression:?}");
                }
            }
        }
        let mut out = Vec::new();
        let claims_4_gib = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        assert!(decompress(Codec::Zstd, &claims_4_gib, &mut out).is_err());
        assert!(out.capacity() < 4096);
    }

    /// Decoders write with pointers. Each damage gets memory of its own, of just the size, so that
    /// a byte read or written outside is one that the sanitizer of the stage `asan` finds.
    #[test]
    fn decoders_stay_within_their_memory() {
        const SEEDS: u64 = 4000;
        for compression in [Compression::Lz4, Compression::Snappy, Compression::Zstd(1)] {
            let mut compressor = Compressor::new(compression).unwrap();
            let mut refused = 0;
            for seed in 0..SEEDS {
                let mut draw = noise(seed);
                let period = 1 + usize::from(draw()) % 80;
                let some = usize::from(draw()) % period;
                let bytes = 16 * (1 + usize::from(draw()));
                let raw: Vec<u8> =
                    (0..bytes).map(|at| if at % period < some { draw() } else { b'x' }).collect();
                let (codec, stored) = compressor.compress(&raw);
                if codec == Codec::Raw {
                    continue;
                }
                let mut damaged = stored.to_vec();
                for _ in 0..1 + draw() % 4 {
                    let at = (usize::from(draw()) << 8 | usize::from(draw())) % damaged.len();
                    damaged[at] = draw();
                }
                if draw().is_multiple_of(2) {
                    damaged.truncate(LENGTH_BYTES + usize::from(draw()) * damaged.len() / 256);
                }
                // The length is right, a little wrong, or whatever came of it.
                let length = match draw() % 3 {
                    0 => bytes,
                    1 => bytes + usize::from(draw()) % 64 - usize::from(draw()) % 16,
                    _ => usize::from(draw()),
                };
                let room = damaged.len().max(LENGTH_BYTES);
                damaged.resize(room, 0);
                damaged[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
                refused += u64::from(decompress(codec, &damaged, &mut Vec::new()).is_err());
            }
            assert!(refused > SEEDS / 10, "{compression:?}: {refused} of {SEEDS} refused");
        }
    }

    #[test]
    fn codecs_have_their_numbers() {
        for byte in 0..=255 {
            assert_eq!(Codec::from_byte(byte).map(|codec| codec as u8), (byte < 4).then_some(byte));
        }
    }
}
