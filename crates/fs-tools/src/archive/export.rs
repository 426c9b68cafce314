//! Exports: a tree of a name space becomes an archive.

use super::format::Format;
use super::item::{Facts, Given, Item};
#[cfg(feature = "parquet")]
use super::parquet;
use super::{jsonl, tar};
use crate::Place;
use crate::paths::{last_name, shown, trimmed};
#[cfg(not(feature = "parquet"))]
use keyrack_console::DONE;
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::{Caller, Error, Kind, Stat, Walked};
use keyrack_vfs::{Fs, OutputFile, RealFs};
use std::ffi::OsStr;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// What is exported, and how.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// The tree.
    pub path: &'a [u8],
    /// The local file; `-` is standard output.
    pub file: &'a OsStr,
    /// Its format.
    pub format: Format,
    /// Whether files whose bytes are elsewhere are written without them.
    pub metadata_only: bool,
    /// Whether no bytes of files are written at all.
    pub no_data: bool,
}

/// Writes a tree as an archive.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn export(place: &Place, what: &Export<'_>) -> Outcome {
    let user = place.user();
    let space = place.open_to_read()?;
    let fs = space.by(&user);
    let mut walk = fs.walk(what.path)?;
    let local: Arc<dyn Fs> = Arc::new(RealFs);
    let mut output = match what.file {
        file if file == "-" => None,
        file => Some(OutputFile::whole(&local, Path::new(file))?),
    };
    let sink: Box<dyn Write + Send + '_> = match &mut output {
        None => Box::new(std::io::stdout()),
        Some(output) => Box::new(output),
    };
    let mut items = || match walk.next() {
        None => Ok(None),
        Some(walked) => given(fs, what, &walked.map_err(|(_, error)| error)?).map(Some),
    };
    let mut sink = BufWriter::with_capacity(1 << 16, sink);
    let status = match what.format {
        Format::Tar => tar::write(&mut sink, &mut items),
        Format::Jsonl => jsonl::write(&mut sink, &mut items),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::write(&mut sink, &mut items),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Format::parquet().map(|_| DONE),
    }?;
    drop(sink);
    if let Some(output) = &mut output {
        output.finish()?;
    }
    Ok(status)
}

/// An entry as an item, a large file with what reads its bytes.
fn given<'a>(
    fs: Caller<'a>,
    what: &Export<'_>,
    Walked { path, stat, .. }: &Walked,
) -> Result<Given<'a>, Failure> {
    let keeps_facts = what.no_data || what.metadata_only || what.format != Format::Tar;
    let mut bytes: Option<Box<dyn Read + 'a>> = None;
    let data = match stat.kind {
        Kind::Dir => None,
        Kind::Symlink => Some(fs.read_link(path)?),
        Kind::File if stat.size == 0 => Some(Vec::new()),
        Kind::File if what.no_data => None,
        Kind::File if stat.has_data => Some(fs.read(path, 0, usize::MAX)?),
        Kind::File if keeps_facts => None,
        Kind::File => match fs.read(path, 0, 1) {
            Err(Error::NoData(_)) => {
                return Err(Failure::Failed(format!(
                    "{}: its bytes are not kept here; export with --metadata-only, or as jsonl",
                    shown(path)
                )));
            }
            first => {
                first?;
                bytes = Some(Box::new(Bytes { fs, path: path.clone(), offset: 0 }));
                None
            }
        },
    };
    let relative = path.get(trimmed(what.path).len()..).unwrap_or_default();
    let relative = relative.strip_prefix(b"/").unwrap_or(relative);
    // A single file has its own name.
    let is_single = relative.is_empty() && stat.kind != Kind::Dir;
    let path = if is_single { last_name(path) } else { relative }.to_vec();
    let Stat { kind, mode, uid, gid, mtime_ns, size, nlink, ctime_ns, .. } = *stat;
    let facts = Some(Facts { inode: stat.inode.to_u128(), nlink, ctime_ns });
    Ok((Item { path, kind, mode, uid, gid, mtime_ns, size, data, facts }, bytes))
}

/// The bytes of a large file, read as they are needed.
struct Bytes<'a> {
    fs: Caller<'a>,
    path: Vec<u8>,
    offset: u64,
}

impl Read for Bytes<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fs.read(&self.path, self.offset, buf.len());
        let bytes = read.map_err(std::io::Error::other)?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}
