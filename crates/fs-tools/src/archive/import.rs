//! Imports: the entries of an archive become files, directories and links of a name space.
//!
//! **Invariant:** an import stays below its directory. Paths are checked, and each directory on the
//! way is opened from the one before: a symbolic link is refused, whether the archive brought it or
//! it was there.

use super::format::Format;
use super::item::{Item, ItemSink};
#[cfg(feature = "parquet")]
use super::parquet;
use super::{jsonl, tar};
use crate::Place;
use crate::local::read_local;
use crate::mutate::make_all;
use crate::paths::{shown, trimmed};
use crate::place::finish;
use keyrack_console::{DONE, Failure, Outcome, say};
use keyrack_deltafs::{Caller, Dir, Error, IfExists, IfTaken, Kind, SetAttributes, SetTime};
#[cfg(feature = "parquet")]
use keyrack_vfs::{File, Fs, OpenOptions, RealFs};
use std::ffi::OsStr;
use std::io::{BufReader, ErrorKind, Read};
#[cfg(feature = "parquet")]
use std::path::Path;
#[cfg(feature = "parquet")]
use std::sync::Arc;

/// What is imported, and how.
#[derive(Clone, Copy, Debug)]
pub struct Import<'a> {
    /// The local file; `-` is standard input.
    pub file: &'a OsStr,
    /// Its format.
    pub format: Format,
    /// The directory to put it in.
    pub path: &'a [u8],
    /// Whether files that exist are replaced.
    pub overwrite: bool,
    /// Whether of large files only the facts are noted.
    pub metadata_only: bool,
}

/// Takes an archive into the name space.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn import(place: &Place, what: &Import<'_>) -> Outcome {
    let mut source = Source::open(what.format, what.file)?;
    let user = place.user();
    let space = place.open_or_begin()?;
    let mut importer = Importer {
        fs: space.by(&user),
        base: trimmed(what.path).to_vec(),
        overwrite: what.overwrite,
        metadata_only: what.metadata_only,
        keeps_owners: user.uid == 0,
        dirs: Vec::new(),
        last: None,
        count: 0,
        without_bytes: 0,
    };
    let stop = keyrack_console::flag()?;
    let mut sink = |item: Item, bytes: Option<&mut dyn Read>| {
        keyrack_console::check(&stop)?;
        importer.add(item, bytes)
    };
    let read = source.read(what.format, &mut sink);
    // What came before a failure stays, with its rights and times.
    for (path, set) in importer.dirs.iter().rev() {
        importer.fs.set_dir_attributes(&importer.dir_of(path)?, set)?;
    }
    let (count, without_bytes) = (importer.count, importer.without_bytes);
    finish(space)?;
    read?;
    say!("{count} entries taken in, {without_bytes} of them without their bytes");
    Ok(DONE)
}

/// Takes items in below a directory.
struct Importer<'a> {
    fs: Caller<'a>,
    /// The directory to put it in. Its own path may lead over links.
    base: Vec<u8>,
    overwrite: bool,
    metadata_only: bool,
    /// Only user 0 gives entries to others.
    keeps_owners: bool,
    /// Directories whose rights and times come at the end.
    dirs: Vec<(Vec<u8>, SetAttributes)>,
    /// The directory of the last entry: mostly that of the next.
    last: Option<(Vec<u8>, Dir)>,
    count: u64,
    without_bytes: u64,
}

impl Importer<'_> {
    fn add(&mut self, item: Item, bytes: Option<&mut dyn Read>) -> Result<(), Failure> {
        let set = SetAttributes {
            mode: Some(item.mode),
            uid: self.keeps_owners.then_some(item.uid),
            gid: self.keeps_owners.then_some(item.gid),
            size: None,
            mtime: Some(SetTime::Ns(item.mtime_ns)),
        };
        self.count += 1;
        if item.kind == Kind::Dir {
            self.dir_of(&item.path)?;
            self.dirs.push((item.path, set));
            return Ok(());
        }
        let end = item.path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match end {
            Some(end) => (&item.path[..end], &item.path[end + 1..]),
            None => (&[][..], &item.path[..]),
        };
        if self.last.as_ref().is_none_or(|(path, _)| path != parent) {
            self.last = Some((parent.to_vec(), self.dir_of(parent)?));
        }
        let (_, dir) = self.last.as_ref().expect("the directory was opened above");
        let full = [&self.base[..], b"/", &item.path].concat();
        let made = self.make(dir, name, &item, bytes).and_then(|set_size| {
            let set = SetAttributes { size: set_size, ..set };
            self.fs.set_attributes_at(dir, name, &set).map(|_| set_size.is_some())
        });
        let is_without = made.map_err(|error| explain(error, &full, item.size))?;
        self.without_bytes += u64::from(is_without);
        Ok(())
    }

    /// The directory of a path below that of the import, made where it is missing. No link is
    /// followed on the way.
    fn dir_of(&self, path: &[u8]) -> Result<Dir, Failure> {
        let base = if self.base.is_empty() { b"/" } else { &self.base[..] };
        make_all(self.fs, base, 0o755)?;
        let mut dir = self.fs.dir(base)?;
        let mut at = self.base.clone();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            at.push(b'/');
            at.extend_from_slice(name);
            let made = match self.fs.mkdir_at(&dir, name, 0o755) {
                Err(Error::Exists(_)) => self.fs.dir_at(&dir, name),
                made => made,
            };
            dir = made.map_err(|error| match (&error, self.fs.read_link_at(&dir, name)) {
                (Error::NotDir(_), Ok(target)) => Failure::Failed(format!(
                    "{}: it is a symbolic link to {}, which an import does not follow; remove it, \
                     or import into another directory",
                    shown(&at),
                    shown(&target)
                )),
                (Error::NotDir(_), Err(_)) => Error::NotDir(shown(&at)).into(),
                _ => error.into(),
            })?;
        }
        Ok(dir)
    }

    /// Makes a file or a link. Returns the size that is to be set, if its bytes are elsewhere.
    fn make(
        &self,
        dir: &Dir,
        name: &[u8],
        item: &Item,
        bytes: Option<&mut dyn Read>,
    ) -> keyrack_deltafs::Result<Option<u64>> {
        let fs = self.fs;
        if self.overwrite {
            match fs.unlink_at(dir, name) {
                Ok(()) | Err(Error::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match (&item.data, item.kind) {
            (Some(target), Kind::Symlink) => fs.symlink_at(target, dir, name).map(|_| None),
            (Some(data), _) => fs.create_with_at(dir, name, item.mode, data).map(|_| None),
            (None, _) if self.metadata_only => {
                fs.create_at(dir, name, item.mode, IfExists::Fail)?;
                Ok(Some(item.size))
            }
            (None, _) => match bytes {
                Some(bytes) => {
                    fs.put_from_at(dir, name, item.mode, (IfTaken::Fail, bytes)).map(|_| None)
                }
                None => Err(Error::NoData(String::new())),
            },
        }
    }
}

/// The failure of an entry, with what helps.
fn explain(error: Error, path: &[u8], size: u64) -> Failure {
    let shown = shown(path);
    match error {
        Error::Exists(_) => {
            Failure::Failed(format!("{shown}: it exists; remove it, or import with --overwrite"))
        }
        Error::NoData(_) => Failure::Failed(format!(
            "{shown}: its {size} bytes are not in the archive; import with --metadata-only to note \
             only the facts of such files"
        )),
        Error::Source { error, .. } if error.kind() == ErrorKind::UnexpectedEof => {
            Failure::Usage(format!("{shown}: {error}"))
        }
        error => error.into(),
    }
}

/// What is taken in.
enum Source {
    /// From its beginning to its end.
    Bytes(BufReader<Box<dyn Read>>),
    /// From its end, and then here and there.
    #[cfg(feature = "parquet")]
    File(Arc<dyn File>),
}

impl Source {
    fn open(format: Format, file: &OsStr) -> Result<Source, Failure> {
        #[cfg(feature = "parquet")]
        if format == Format::Parquet {
            if file == "-" {
                return Err(Failure::Usage(
                    "files of Parquet are read from their end, so not from standard input: name a \
                     file"
                        .to_owned(),
                ));
            }
            return Ok(Source::File(RealFs.open(Path::new(file), &OpenOptions::new().read(true))?));
        }
        debug_assert!(format != Format::Parquet, "refused when the options were read");
        Ok(Source::Bytes(BufReader::with_capacity(1 << 16, read_local(file)?)))
    }

    fn read(&mut self, format: Format, sink: &mut ItemSink<'_>) -> Result<(), Failure> {
        match self {
            Source::Bytes(source) if format == Format::Jsonl => jsonl::read(source, sink),
            Source::Bytes(source) => tar::read(source, sink),
            #[cfg(feature = "parquet")]
            Source::File(file) => parquet::read(Arc::clone(file), sink),
        }
    }
}
