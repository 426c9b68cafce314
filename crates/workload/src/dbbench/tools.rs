//! Jobs that read and write no rows: compaction, what the store says about itself, and codecs.

use super::params::{Draws, Shape, Tally, stream};
use crate::kvtest::{Client, Halt, Row, Value};
use crate::sizes::SizeDistribution;
use crate::values::{ValueSource, ValueSpec};
use crc_fast::CrcAlgorithm;
use std::hint::black_box;

/// Bytes of a block, which is what an operation of a codec works on.
const BLOCK_BYTES: u32 = 4096;
/// Bytes that `db/crc32c` reads, as in the original.
const CHECKSUM_BYTES: u64 = 500 << 20;
/// Bytes that a codec reads or writes, as in the original.
const CODEC_BYTES: u64 = 1 << 30;
/// The level of `db/zstdcomp`, as in the original.
const ZSTD_LEVEL: i32 = 1;

/// Compacts the whole store.
pub(super) fn compact(client: &mut dyn Client) -> Result<(), Halt> {
    let tally = Tally::begin(client);
    if !client.compact()? {
        return Err(Halt::failed("this engine has no compactions"));
    }
    Tally { ops: 1, ..tally }.report(client)
}

/// Reports what the store says under `name`. Thread 0 asks.
pub(super) fn property(client: &mut dyn Client, name: &str) -> Result<(), Halt> {
    if client.id() > 0 {
        return Ok(());
    }
    let Some(text) = client.property(name) else {
        return Err(Halt::failed(format!("this engine has no property '{name}'")));
    };
    client.count_ops(1)?;
    let mut row = Row::new();
    row.set("ops", Value::Count(1));
    row.set("text", Value::List(text.lines().map(str::to_owned).collect()));
    client.report(row);
    Ok(())
}

/// What compresses a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Snappy,
    Zstd,
}

impl Codec {
    fn compress(self, block: &[u8]) -> Result<Vec<u8>, Halt> {
        match self {
            Codec::Snappy => snap::raw::Encoder::new().compress_vec(block).map_err(failed),
            Codec::Zstd => zstd::bulk::compress(block, ZSTD_LEVEL).map_err(failed),
        }
    }

    fn decompress(self, block: &[u8]) -> Result<Vec<u8>, Halt> {
        match self {
            Codec::Snappy => snap::raw::Decoder::new().decompress_vec(block).map_err(failed),
            Codec::Zstd => zstd::bulk::decompress(block, BLOCK_BYTES as usize).map_err(failed),
        }
    }
}

fn failed(error: impl std::fmt::Display) -> Halt {
    Halt::failed(format!("codec: {error}"))
}

/// Computes the checksum of a block over and over.
pub(super) fn crc32c(client: &mut dyn Client) -> Result<(), Halt> {
    Shape::of(client)?;
    let block = vec![b'x'; BLOCK_BYTES as usize];
    let tally = repeat(client, CHECKSUM_BYTES, || {
        let block = black_box(block.as_slice());
        black_box(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, block));
        Ok(())
    })?;
    report(client, tally, "(4K per op)".to_owned())
}

/// Compresses a block over and over.
pub(super) fn compress(client: &mut dyn Client, codec: Codec) -> Result<(), Halt> {
    let block = block(client)?;
    let mut produced = 0;
    let tally = repeat(client, CODEC_BYTES, || {
        produced += codec.compress(&block)?.len() as u64;
        Ok(())
    })?;
    let percent = 100.0 * produced as f64 / tally.bytes.unwrap_or(0).max(1) as f64;
    report(client, tally, format!("(output: {percent:.1}%)"))
}

/// Decompresses a block over and over.
pub(super) fn decompress(client: &mut dyn Client, codec: Codec) -> Result<(), Halt> {
    let block = block(client)?;
    let compressed = codec.compress(&block)?;
    let mut is_right = true;
    let tally = repeat(client, CODEC_BYTES, || {
        is_right &= codec.decompress(&compressed)?.len() == block.len();
        Ok(())
    })?;
    if !is_right {
        return Err(Halt::failed("codec: a block has another length than before its compression"));
    }
    report(client, tally, String::new())
}

/// A block that compresses as values do.
fn block(client: &dyn Client) -> Result<Vec<u8>, Halt> {
    let values = Shape::of(client)?.values;
    let spec = ValueSpec { size: SizeDistribution::Fixed(BLOCK_BYTES), ..values };
    let source = ValueSource::new(&spec, stream(client, Draws::Values));
    Ok(source.map_err(failed)?.next_value().to_vec())
}

/// Calls `each` for every block of so many bytes, or as often as the limit says.
fn repeat(
    client: &mut dyn Client,
    bytes: u64,
    mut each: impl FnMut() -> Result<(), Halt>,
) -> Result<Tally, Halt> {
    let count = (bytes / u64::from(BLOCK_BYTES)).min(client.limit());
    let mut tally = Tally::begin(client);
    while tally.ops < count && !client.expired(0) {
        each()?;
        client.count_ops(1)?;
        tally.ops += 1;
    }
    Ok(Tally { bytes: Some(tally.ops * u64::from(BLOCK_BYTES)), ..tally })
}

fn report(client: &mut dyn Client, tally: Tally, note: String) -> Result<(), Halt> {
    let mut row = tally.row(client);
    if !note.is_empty() {
        row.set("note", Value::Text(note));
    }
    client.report(row);
    Ok(())
}
