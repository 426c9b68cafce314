//! The manifest: names the valid checkpoint, the logs, and the LSN from which each log is read.
//!
//! ```text
//!   magic "KEYRROWM" | version | sizes | watermarks | logs | parts | checksum of all before
//! ```
//!
//! The file is replaced atomically. Parts that it does not name do not belong to the store: their
//! checkpoints were not completed, or are being removed.
//!
//! A log is *new* until its first record is synced. From then on its absence is damage. It is
//! *dropped* when a checkpoint contains all its rows. Then its files are removed.

use crate::options::{LOGS_MAX, PARTS_MAX};
use crate::watermarks::STRIPES;
use crc_fast::crc32_iscsi;
use keyrack_store::{Error, Result};
use std::path::{Path, PathBuf};

/// The file's name in the directory of the store.
pub(crate) const MANIFEST_NAME: &str = "MANIFEST";
const MAGIC: &[u8; 8] = b"KEYRROWM";
/// Version 1 has no identities of logs and no checksums of parts. Version 2 has all parts in the
/// store's directory, and is written where that is so. Version 4 is version 3 with parts that have
/// elements, headers or escaped keys (see `keys`).
const VERSION: u32 = 4;
const VERSION_OF_PLAIN_KEYS: u32 = 3;
const VERSION_OF_ONE_DIR: u32 = 2;
const CHECKSUM_BYTES: usize = 4;
/// The maximum size of a manifest.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// The longest path of a log, or of a directory of parts.
const PATH_BYTES_MAX: u64 = 4096;
/// Delete watermarks that a manifest may have: a power of two.
const STRIPES_MAX: u64 = 1 << 20;

/// The name of a store's directory in each of the directories of parts.
pub(crate) fn parts_dir_name(id: u64) -> String {
    format!("checkpoint-{id:016x}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogState {
    /// It may have no record yet.
    New,
    /// It has records.
    Begun,
    /// Its records are not needed any more.
    Dropped,
}

/// A log of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    /// Its directory, relative to that of the store.
    pub(crate) path: PathBuf,
    /// Records below this LSN are not needed.
    pub(crate) start: u64,
    pub(crate) state: LogState,
    /// The identity in its segments; 0 until it has one.
    pub(crate) id: u64,
}

/// A file of the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartEntry {
    /// Its directory, relative to that of the store.
    pub(crate) dir: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) rows: u64,
    /// The checksum of its blocks' checksums; 0 if an earlier version wrote it.
    pub(crate) checksum: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The generation of the checkpoint; 0 if there is none.
    pub(crate) generation: u64,
    /// In the names of the directories of parts; 0 without such directories.
    pub(crate) id: u64,
    /// No row in the checkpoint, and no row removed before it, has a larger version.
    pub(crate) clock: u64,
    /// Delete watermarks: an entry is skipped if its version is not above that of its key.
    pub(crate) watermarks: Vec<u64>,
    pub(crate) logs: Vec<LogEntry>,
    pub(crate) parts: Vec<PartEntry>,
    /// Whether keys that begin like reserved ones are user keys that were not escaped.
    pub(crate) has_plain_keys: bool,
}

impl Manifest {
    /// The manifest of an empty store.
    pub(crate) fn empty() -> Self {
        Manifest {
            generation: 0,
            id: 0,
            clock: 0,
            watermarks: vec![0; STRIPES],
            logs: Vec::new(),
            parts: Vec::new(),
            has_plain_keys: true,
        }
    }

    /// The watermark of a key by its hash.
    pub(crate) fn delete_watermark(&self, hash: u64) -> u64 {
        let bits = self.watermarks.len().trailing_zeros();
        let stripe = hash.checked_shr(u64::BITS - bits).unwrap_or(0);
        self.watermarks.get(stripe as usize).copied().unwrap_or(0)
    }

    /// Bytes of the checkpoint.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        let version = match (self.has_plain_keys, self.id) {
            (false, _) => VERSION,
            (true, 0) => VERSION_OF_ONE_DIR,
            (true, _) => VERSION_OF_PLAIN_KEYS,
        };
        out.extend_from_slice(&version.to_le_bytes());
        for count in [self.watermarks.len(), self.logs.len(), self.parts.len()] {
            out.extend_from_slice(&(count as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.clock.to_le_bytes());
        if version >= VERSION_OF_PLAIN_KEYS {
            out.extend_from_slice(&self.id.to_le_bytes());
        }
        for watermark in &self.watermarks {
            out.extend_from_slice(&watermark.to_le_bytes());
        }
        for log in &self.logs {
            out.extend_from_slice(&log.start.to_le_bytes());
            out.push(match log.state {
                LogState::New => 0,
                LogState::Begun => 1,
                LogState::Dropped => 2,
            });
            push_path(&mut out, &log.path)?;
            out.extend_from_slice(&log.id.to_le_bytes());
        }
        for part in &self.parts {
            out.extend_from_slice(&part.bytes.to_le_bytes());
            out.extend_from_slice(&part.rows.to_le_bytes());
            out.extend_from_slice(&part.checksum.to_le_bytes());
            if version >= VERSION_OF_PLAIN_KEYS {
                push_path(&mut out, &part.dir)?;
            }
        }
        let checksum = crc32_iscsi(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        Ok(out)
    }

    /// The manifest in `bytes` of the file `path`.
    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Self> {
        let refuse = |offset: usize, what: &str| {
            Err(Error::corruption(path, offset as u64, what.to_owned()))
        };
        if bytes.len() as u64 > MANIFEST_BYTES_MAX {
            return refuse(0, "larger than any manifest");
        }
        let Some((body, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return refuse(bytes.len(), "the file ends in its head");
        };
        if !body.starts_with(MAGIC) {
            return refuse(0, "not a manifest");
        }
        let found = crc32_iscsi(body);
        let wanted = u32::from_le_bytes(*checksum);
        if found != wanted {
            let what = format!("checksum {wanted:#x}, but that of the content is {found:#x}");
            return refuse(body.len(), &what);
        }
        let mut reader = Reader { bytes: body, at: MAGIC.len() };
        match Self::read(&mut reader) {
            Ok(manifest) if reader.at == body.len() => Ok(manifest),
            Ok(_) => refuse(reader.at, "bytes after the last part"),
            Err(what) => refuse(reader.at, what),
        }
    }

    fn read(reader: &mut Reader<'_>) -> std::result::Result<Self, &'static str> {
        let version = reader.u32()?;
        if version == 0 || version > VERSION {
            return Err("a manifest of another version");
        }
        let (watermarks, logs, parts) = (reader.u32()?, reader.u32()?, reader.u32()?);
        if !watermarks.is_power_of_two() || u64::from(watermarks) > STRIPES_MAX {
            return Err("an impossible number of delete watermarks");
        }
        // Dropped logs stand beside those in use.
        if logs as usize > 2 * LOGS_MAX || parts as usize > PARTS_MAX {
            return Err("an impossible number of logs or parts");
        }
        let (generation, clock) = (reader.u64()?, reader.u64()?);
        let id = if version < VERSION_OF_PLAIN_KEYS { 0 } else { reader.u64()? };
        let watermarks =
            (0..watermarks).map(|_| reader.u64()).collect::<std::result::Result<_, _>>()?;
        let logs = (0..logs).map(|_| reader.log(version)).collect::<std::result::Result<_, _>>()?;
        let part = |_| {
            let (bytes, rows) = (reader.u64()?, reader.u64()?);
            let checksum = if version == 1 { 0 } else { reader.u32()? };
            let dir =
                if version < VERSION_OF_PLAIN_KEYS { PathBuf::new() } else { reader.path()? };
            // Files are removed there.
            if !dir.as_os_str().is_empty() && !dir.ends_with(parts_dir_name(id)) {
                return Err("a part in a directory of another store");
            }
            Ok(PartEntry { dir, bytes, rows, checksum })
        };
        let parts = (0..parts).map(part).collect::<std::result::Result<_, &'static str>>()?;
        let has_plain_keys = version < VERSION;
        Ok(Manifest { generation, id, clock, watermarks, logs, parts, has_plain_keys })
    }
}

/// A reader of the bytes of a manifest.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> std::result::Result<[u8; N], &'static str> {
        let found = self.bytes[self.at..].first_chunk().ok_or("the file ends too early")?;
        self.at += N;
        Ok(*found)
    }

    fn u32(&mut self) -> std::result::Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> std::result::Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }

    fn log(&mut self, version: u32) -> std::result::Result<LogEntry, &'static str> {
        let start = self.u64()?;
        let state = match self.array::<1>()? {
            [0] => LogState::New,
            [1] => LogState::Begun,
            [2] => LogState::Dropped,
            _ => return Err("an unknown state of a log"),
        };
        let path = self.path()?;
        let id = if version == 1 { 0 } else { self.u64()? };
        Ok(LogEntry { path, start, state, id })
    }

    fn path(&mut self) -> std::result::Result<PathBuf, &'static str> {
        let len = self.u32()?;
        if u64::from(len) > PATH_BYTES_MAX {
            return Err("an impossible path");
        }
        let rest = &self.bytes[self.at..];
        let path = rest.get(..len as usize).ok_or("the file ends too early")?;
        let path = std::str::from_utf8(path).map_err(|_| "a path that is not UTF-8")?;
        self.at += len as usize;
        Ok(PathBuf::from(path))
    }
}

fn push_path(out: &mut Vec<u8>, path: &Path) -> Result<()> {
    let Some(text) = path.to_str().filter(|path| path.len() as u64 <= PATH_BYTES_MAX) else {
        return Err(Error::usage(format!(
            "the path of a log or of parts is UTF-8 of at most {PATH_BYTES_MAX} bytes, not '{}'",
            path.display()
        )));
    };
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let log =
            |path: &str, start, state| LogEntry { path: path.into(), start, state, id: start };
        Manifest {
            generation: 5,
            id: 0,
            clock: 99,
            watermarks: vec![1, 2, 3, 4],
            has_plain_keys: true,
            logs: vec![
                log("log", 77, LogState::Begun),
                log("/other/disk", 0, LogState::New),
                log("old", 8, LogState::Dropped),
            ],
            parts: vec![
                PartEntry { dir: PathBuf::new(), bytes: 10, rows: 1, checksum: 5 },
                PartEntry { dir: PathBuf::new(), bytes: 20, rows: 2, checksum: 6 },
            ],
        }
    }

    fn spread() -> Manifest {
        let mut manifest = Manifest { id: 7, ..sample() };
        manifest.parts[1].dir = Path::new("../b").join(parts_dir_name(7));
        manifest
    }

    #[test]
    fn what_was_written_is_read() {
        let escaped = |manifest: Manifest| Manifest { has_plain_keys: false, ..manifest };
        let all = [sample(), spread(), Manifest::empty(), escaped(sample()), escaped(spread())];
        for manifest in all {
            let bytes = manifest.encode().unwrap();
            assert_eq!(Manifest::decode(Path::new("/m"), &bytes).unwrap(), manifest);
        }
    }

    #[test]
    fn watermarks_go_by_the_highest_bits() {
        let manifest = sample();
        assert_eq!(
            [0, 1 << 62, 3 << 62, u64::MAX].map(|hash| manifest.delete_watermark(hash)),
            [1, 2, 4, 4]
        );
        assert_eq!(Manifest { watermarks: vec![7], ..manifest }.delete_watermark(u64::MAX), 7);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = spread().encode().unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = Manifest::decode(Path::new("/m"), &bytes).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "bit {bit}: {error}");
        }
        for cut in 0..bytes.len() {
            assert!(Manifest::decode(Path::new("/m"), &bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_part_in_the_directory_of_another_store_is_refused() {
        let manifest = Manifest { id: 8, ..spread() };
        let error = Manifest::decode(Path::new("/m"), &manifest.encode().unwrap()).unwrap_err();
        assert!(error.to_string().contains("directory of another store"), "{error}");
    }

    /// A checksum that is right does not make content believable.
    #[test]
    fn impossible_content_is_refused_whatever_its_checksum() {
        let whole = spread().encode().unwrap();
        let body = &whole[..whole.len() - CHECKSUM_BYTES];
        for at in MAGIC.len()..body.len() {
            for byte in [0, 3, 0x80, 0xff] {
                let mut bytes = body.to_vec();
                bytes[at] = byte;
                let checksum = crc32_iscsi(&bytes);
                bytes.extend_from_slice(&checksum.to_le_bytes());
                // Whatever comes of it, nothing panics and nothing huge is allocated.
                let _ = Manifest::decode(Path::new("/m"), &bytes);
            }
        }
    }
}
