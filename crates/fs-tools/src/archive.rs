//! `keyrack fs import` and `export`: trees as archives of tar, as lines of JSON, and as files of
//! Parquet.
//!
//! Both directions stream: one entry is in memory at a time, and of a large file a piece.
//! Directories get their times and rights at the end, as entries in them come later.
//!
//! **Invariant:** an import stays below its directory. Paths are checked (`entry_path`), and each
//! directory on the way is opened from the one before: a symbolic link is refused, whether the
//! archive brought it or it was there.

use super::{beginning, finish, flag, open, open_to_read, option, os};
use super::{jsonl, path_arg, path_bytes, reading, tar, text, user};
use clap::{Arg, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome, say};
use keyrack_deltafs::{Caller, Dir, Error, IfExists, IfTaken, Kind, SetAttributes, SetTime, Stat};
use keyrack_vfs::{File, Fs, OutputFile, RealFs};
use std::ffi::{OsStr, OsString};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

pub(super) fn commands() -> Vec<Command> {
    let format = || {
        let help = "What it is [default: by the name of the file, else tar]";
        option("format", "tar|jsonl|parquet", help)
    };
    vec![
        beginning("import", "ItemSink in an archive, lines of JSON, or a file of Parquet")
            .arg(format())
            .arg(flag("overwrite", "Replace files that are there"))
            .arg(flag(
                "metadata-only",
                "Of files of more than 3,901 bytes, note only what is known",
            ))
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .value_parser(value_parser!(OsString))
                    .help("Which; - is standard input"),
            )
            .arg(path_arg("path", "The directory to put it in [default: /]").required(false)),
        reading("export", "Write a tree as an archive, lines of JSON, or a file of Parquet")
            .arg(format())
            .arg(flag("metadata-only", "Write files whose bytes are elsewhere without them"))
            .arg(flag("no-data", "Write no bytes of files at all, only what is known about them"))
            .arg(path_arg("path", "What to write"))
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .value_parser(value_parser!(OsString))
                    .help("Where to [default: standard output]"),
            ),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    match name {
        "import" => Some(import(matches)),
        "export" => Some(export(matches)),
        _ => None,
    }
}

/// One entry on its way, in either direction. The path is relative, without a slash at its end;
/// that of the tree itself is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime_ns: u64,
    pub(super) size: u64,
    /// The bytes of a file, the target of a link; `None` if the bytes are elsewhere, or too many.
    pub(super) data: Option<Vec<u8>>,
    /// What is told of it, and cannot be set; `None` of what comes in.
    pub(super) facts: Option<Facts>,
}

/// Facts that every name space makes its own of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) inode: u128,
    pub(super) nlink: u64,
    pub(super) ctime_ns: u64,
}

/// Gives one entry after the other, a large file with what reads its bytes.
pub(super) type ItemSource<'a> = dyn FnMut() -> Result<Option<Given<'a>>, Failure> + 'a;

/// An entry, and what reads the bytes of a large file.
type Given<'a> = (Item, Option<Box<dyn Read + 'a>>);

/// Takes one entry, a large file with what reads its bytes.
pub(super) type ItemSink<'a> = dyn FnMut(Item, Option<&mut dyn Read>) -> Result<(), Failure> + 'a;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Tar,
    Jsonl,
    Parquet,
}

/// The formats' names.
const FORMATS: [&str; 3] = ["tar", "jsonl", "parquet"];

impl Format {
    fn of(matches: &ArgMatches, file: &OsStr) -> Result<Format, Failure> {
        match text(matches, "format") {
            Some("tar") => Ok(Format::Tar),
            Some("jsonl") => Ok(Format::Jsonl),
            Some("parquet") => Format::parquet(),
            Some(other) => Err(Failure::Usage(keyrack_store::unknown("format", other, &FORMATS))),
            None if file.as_bytes().ends_with(b".jsonl") => Ok(Format::Jsonl),
            None if file.as_bytes().ends_with(b".parquet") => Format::parquet(),
            None => Ok(Format::Tar),
        }
    }

    /// Files of Parquet, if this program knows them.
    fn parquet() -> Result<Format, Failure> {
        match cfg!(feature = "parquet") {
            true => Ok(Format::Parquet),
            false => Err(Failure::Usage(
                "this program was built without Parquet; build it with --features parquet, or use \
                 --format jsonl"
                    .to_owned(),
            )),
        }
    }
}

/// Reads a local file from its beginning on.
pub(super) struct Stream {
    file: Arc<dyn File>,
    offset: u64,
}

impl Stream {
    pub(super) fn new(file: Arc<dyn File>) -> Stream {
        Stream::at(file, 0)
    }

    /// From a place on.
    pub(super) fn at(file: Arc<dyn File>, offset: u64) -> Stream {
        Stream { file, offset }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let count = self.file.read_at(self.offset, buf).map_err(std::io::Error::other)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// The path of an entry that comes in, relative: without dots in it, or a slash at its end.
///
/// # Errors
/// What is wrong with a path that is absolute, goes up, or holds a NUL, in words.
pub(super) fn entry_path(path: &[u8]) -> Result<Vec<u8>, String> {
    let wrong = |why: &str| Err(format!("{}: {why}", super::shown(path)));
    if path.starts_with(b"/") {
        return wrong(
            "the path is absolute; write the archive with relative paths, as tar does without -P",
        );
    }
    if path.contains(&0) {
        return wrong("the path holds a NUL byte");
    }
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let parts: Vec<&[u8]> = parts.collect();
    match parts.contains(&&b".."[..]) {
        true => wrong("the path goes up; an entry must stay below the directory of the import"),
        false => Ok(parts.join(&b'/')),
    }
}

/// Takes items in below a directory.
struct Import<'a> {
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

impl Import<'_> {
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
        let is_without = made.map_err(|error| {
            let shown = super::shown(&full);
            match error {
                Error::Exists(_) => Failure::Failed(format!(
                    "{shown}: it is there already; remove it, or import with --overwrite"
                )),
                Error::NoData(_) => Failure::Failed(format!(
                    "{shown}: its {} bytes are not in there; import with --metadata-only to note \
                     only what is known about such files",
                    item.size
                )),
                Error::Source { error, .. } if error.kind() == ErrorKind::UnexpectedEof => {
                    Failure::Usage(format!("{shown}: {error}"))
                }
                error => error.into(),
            }
        })?;
        self.without_bytes += u64::from(is_without);
        Ok(())
    }

    /// The directory of a path below that of the import, made where it is missing. No link is
    /// followed on the way.
    fn dir_of(&self, path: &[u8]) -> Result<Dir, Failure> {
        let base = if self.base.is_empty() { b"/" } else { &self.base[..] };
        super::mutate::make_all(self.fs, base, 0o755)?;
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
                    super::shown(&at),
                    super::shown(&target)
                )),
                (Error::NotDir(_), Err(_)) => Error::NotDir(super::shown(&at)).into(),
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
            use keyrack_vfs::OpenOptions;
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
        Ok(Source::Bytes(BufReader::with_capacity(1 << 16, super::mutate::read_local(file)?)))
    }

    fn read(&mut self, format: Format, sink: &mut ItemSink<'_>) -> Result<(), Failure> {
        match self {
            Source::Bytes(source) if format == Format::Jsonl => jsonl::read(source, sink),
            Source::Bytes(source) => tar::read(source, sink),
            #[cfg(feature = "parquet")]
            Source::File(file) => super::parquet::read(Arc::clone(file), sink),
        }
    }
}

fn import(matches: &ArgMatches) -> Outcome {
    let file = os(matches, "file").unwrap_or_default();
    let format = Format::of(matches, file)?;
    let mut source = Source::open(format, file)?;
    let user = user(matches)?;
    let space = open(matches, true)?;
    let base = super::mutate::trimmed(path_bytes(matches, "path").unwrap_or(b"/")).to_vec();
    let mut import = Import {
        fs: space.by(&user),
        base,
        overwrite: matches.get_flag("overwrite"),
        metadata_only: matches.get_flag("metadata-only"),
        keeps_owners: user.uid == 0,
        dirs: Vec::new(),
        last: None,
        count: 0,
        without_bytes: 0,
    };
    let stop = keyrack_console::flag()?;
    let mut sink = |item: Item, bytes: Option<&mut dyn Read>| {
        keyrack_console::check(&stop)?;
        import.add(item, bytes)
    };
    let taken = source.read(format, &mut sink);
    // What came before a failure is there, and as it should be.
    for (path, set) in import.dirs.iter().rev() {
        import.fs.set_dir_attributes(&import.dir_of(path)?, set)?;
    }
    let (count, without_bytes) = (import.count, import.without_bytes);
    finish(space)?;
    taken?;
    say!("{count} entries taken in, {without_bytes} of them without their bytes");
    Ok(keyrack_console::DONE)
}

fn export(matches: &ArgMatches) -> Outcome {
    let file = os(matches, "file").unwrap_or(OsStr::new("-"));
    let format = Format::of(matches, file)?;
    let user = user(matches)?;
    let space = open_to_read(matches)?;
    let fs = space.by(&user);
    let no_data = matches.get_flag("no-data");
    let metadata_only = no_data || matches.get_flag("metadata-only") || format != Format::Tar;
    let path = path_bytes(matches, "path").unwrap_or_default();
    let mut walk = fs.walk(path)?;
    let base = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let local: Arc<dyn Fs> = Arc::new(RealFs);
    let mut output = match file == "-" {
        true => None,
        false => Some(OutputFile::whole(&local, Path::new(file))?),
    };
    let sink: Box<dyn Write + Send + '_> = match &mut output {
        None => Box::new(std::io::stdout()),
        Some(output) => Box::new(output),
    };
    let mut items = || -> Result<Option<Given<'_>>, Failure> {
        let Some(walked) = walk.next() else { return Ok(None) };
        let walked = walked.map_err(|(_, error)| error)?;
        let stat: Stat = walked.stat;
        let mut bytes: Option<Box<dyn Read + '_>> = None;
        let data = match stat.kind {
            Kind::Dir => None,
            Kind::Symlink => Some(fs.read_link(&walked.path)?),
            Kind::File if stat.size == 0 => Some(Vec::new()),
            Kind::File if no_data => None,
            Kind::File if stat.has_data => Some(fs.read(&walked.path, 0, usize::MAX)?),
            Kind::File if metadata_only => None,
            Kind::File => match fs.read(&walked.path, 0, 1) {
                Err(Error::NoData(_)) => {
                    return Err(Failure::Failed(format!(
                        "{}: its bytes are not kept here; export with --metadata-only, or as jsonl",
                        super::shown(&walked.path)
                    )));
                }
                first => {
                    first?;
                    let (path, offset) = (walked.path.clone(), 0);
                    bytes = Some(Box::new(Bytes { fs, path, offset }));
                    None
                }
            },
        };
        let relative = walked.path.get(base..).unwrap_or_default();
        let relative = relative.strip_prefix(b"/").unwrap_or(relative).to_vec();
        // A single file has its own name.
        let path = match (relative.is_empty(), stat.kind) {
            (true, Kind::File | Kind::Symlink) => {
                walked.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec()
            }
            _ => relative,
        };
        let Stat { kind, mode, uid, gid, mtime_ns, size, nlink, ctime_ns, .. } = stat;
        let facts = Some(Facts { inode: stat.inode.to_u128(), nlink, ctime_ns });
        Ok(Some((Item { path, kind, mode, uid, gid, mtime_ns, size, data, facts }, bytes)))
    };
    let mut sink = BufWriter::with_capacity(1 << 16, sink);
    let status = match format {
        Format::Tar => tar::write(&mut sink, &mut items),
        Format::Jsonl => jsonl::write(&mut sink, &mut items),
        #[cfg(feature = "parquet")]
        Format::Parquet => super::parquet::write(&mut sink, &mut items),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Format::parquet().map(|_| keyrack_console::DONE),
    }?;
    drop(sink);
    if let Some(output) = &mut output {
        output.finish()?;
    }
    Ok(status)
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

/// A failure of the local side.
pub(super) fn local(what: &str, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{what}: {error}"))
}

/// Ends an output. A reader that went away has all it wanted.
pub(super) fn end_output(written: std::io::Result<()>) -> Outcome {
    match written {
        Ok(()) => Ok(keyrack_console::DONE),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(keyrack_console::DONE),
        Err(error) => Err(local("cannot write the archive", &error)),
    }
}
