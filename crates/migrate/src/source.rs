//! What to move, and the two ways to do it.

use crate::error::{Error, Result};
use crate::event::{Event, Visit};
use crate::importer::{Importer, Observe, Options};
use crate::input::{FileStream, Input};
use crate::redis::{Fetcher, Method, Plan};
use crate::replay::Replay;
use crate::report::Report;
use crate::url::{Protocol, Url};
use crate::{aof, json, memcached, redis};
use keyrack_vfs::{FileKind, Fs, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Keys that are read again at once.
const AGAIN_BATCH: usize = 512;

/// Where rows come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file or a directory: RDB, append-only, commands, JSON lines.
    File(PathBuf),
    /// A running server.
    Server(Url),
}

/// Moves everything from `source` to the server `to`. `stop` ends the import early; of an import
/// that follows changes it is the end in order.
///
/// # Errors
/// Any kind. What was moved until then stays at the destination.
pub fn import(
    fs: &dyn Fs,
    source: &Source,
    to: &Url,
    options: &Options,
    stop: &AtomicBool,
    observe: Observe<'_>,
) -> Result<Report> {
    let db = options.db.unwrap_or(0);
    let mut importer = Importer::connect(to, options, stop, observe)?;
    match source {
        Source::File(path) => {
            importer.source_is_file();
            let torn = read_file_of(fs, path, db, &mut |event| importer.event(event))?;
            importer.report_mut().torn = torn;
        }
        Source::Server(url) if url.protocol == Protocol::Memcached => {
            let missed = memcached::read(url, db, &mut |event| importer.event(event))?;
            importer.report_mut().gone = missed.gone;
        }
        Source::Server(url) => {
            if !options.no_changes {
                importer.check_changes()?;
            }
            let with_changes = !options.no_changes;
            let Options { method, follow, .. } = *options;
            let plan = Plan { method, db, with_changes, follow, stop };
            let refusal = redis::read(url, &plan, &mut |event| importer.event(event))?;
            importer.report_mut().not_replicated = refusal;
            let keys = importer.take_unclear()?;
            if !keys.is_empty() {
                let mut fetcher = Fetcher::connect(url, db)?;
                importer.event(Event::ReadAgain(keys.len() as u64))?;
                for keys in keys.chunks(AGAIN_BATCH) {
                    fetcher.fetch(keys, &mut |event| importer.event(event))?;
                }
            }
        }
    }
    importer.finish()
}

/// Reads the rows of a running server, without what changes meanwhile.
///
/// # Errors
/// Any kind but damage.
pub fn export(from: &Url, db: u32, stop: &AtomicBool, visit: Visit<'_>) -> Result<()> {
    if from.protocol == Protocol::Memcached {
        return memcached::read(from, db, visit).map(drop);
    }
    let plan = Plan { method: Method::Scan, db, with_changes: false, follow: false, stop };
    redis::read(from, &plan, visit).map(drop)
}

/// Reads a file, or the files of a directory with a manifest. Returns the name and the offset of
/// a torn command at the end.
///
/// # Errors
/// A file cannot be read, or is damaged.
pub fn read_file(fs: &dyn Fs, path: &Path, visit: Visit<'_>) -> Result<Option<(String, u64)>> {
    read_file_of(fs, path, 0, visit)
}

/// Reads a file. Rows of a format without databases are those of `db`.
fn read_file_of(
    fs: &dyn Fs,
    path: &Path,
    db: u32,
    visit: Visit<'_>,
) -> Result<Option<(String, u64)>> {
    let path = match fs.metadata(path)?.kind {
        FileKind::Dir => aof::manifest_in(fs, path)?,
        _ => path.to_owned(),
    };
    let files = aof::files(fs, &path)?;
    let mut replay = Replay::default();
    for (index, path) in files.iter().enumerate() {
        let file = fs.open(path, &OpenOptions::new().read(true))?;
        let bytes = file.len()?;
        let name = path.display().to_string();
        let mut input = Input::new(FileStream::new(file), name.clone(), Some(bytes));
        let Some(first) = input.peek()? else {
            // A server that has just begun a file has written nothing to it.
            if files.len() > 1 {
                continue;
            }
            return Err(Error::usage(format!("{name} is empty")));
        };
        if first == b'{' {
            json::read(&mut input, db, visit)?;
            continue;
        }
        let is_last = index + 1 == files.len();
        if let Some(at) = aof::read(&mut input, &mut replay, is_last, visit)? {
            return Ok(Some((name, at)));
        }
    }
    Ok(None)
}
