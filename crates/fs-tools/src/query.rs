//! Looking into a name space without a change: lists, facts, sums, trees, contents.

use crate::Place;
use crate::archive::jsonl::put_bytes;
use crate::paths::{for_each, last_name, shown, trimmed};
use keyrack_calendar as calendar;
use keyrack_console::{Failure, Outcome, Output};
use keyrack_deltafs::{Caller, Kind, ListEntry, Stat, Walked};
use keyrack_vfs::{Fs, OutputFile, RealFs};
use serde_json::json;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

/// Entries that are listed at once.
const PAGE: usize = 4096;

/// Opens for reading and calls `body` for each path, `/` if there are none.
fn on_paths(
    command: &str,
    place: &Place,
    paths: &[&[u8]],
    mut body: impl FnMut(Caller<'_>, &[u8], &mut Output) -> Result<(), Failure>,
) -> Outcome {
    let user = place.user();
    let space = place.open_to_read()?;
    let paths = if paths.is_empty() { &[&b"/"[..]][..] } else { paths };
    let mut out = Output::new();
    let status =
        for_each(command, paths.iter().copied(), |path| body(space.by(&user), path, &mut out))?;
    Ok(status.max(out.finish()?))
}

/// `drwxr-xr-x`, as `ls -l` has it.
fn letters(stat: &Stat) -> String {
    let mut text = String::with_capacity(10);
    text.push(if stat.kind == Kind::File { '-' } else { stat.kind.letter() });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = stat.mode >> shift & 7;
        text.push(if bits & 4 > 0 { 'r' } else { '-' });
        text.push(if bits & 2 > 0 { 'w' } else { '-' });
        text.push(match (bits & 1 > 0, stat.mode & special > 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// The facts as a JSON object, with the path and, of a link, the target.
pub(crate) fn object(path: &[u8], stat: &Stat, target: Option<&[u8]>) -> serde_json::Value {
    let mut object = json!({
        "type": stat.kind.letter().to_string(),
        "inode": stat.inode.to_string(),
        "mode": format!("{:04o}", stat.mode),
        "uid": stat.uid,
        "gid": stat.gid,
        "nlink": stat.nlink,
        "size": stat.size,
        "mtime_ns": stat.mtime_ns,
        "ctime_ns": stat.ctime_ns,
    });
    put_bytes(&mut object, "path", path);
    if let Some(target) = target {
        put_bytes(&mut object, "target", target);
    }
    if !stat.has_data {
        object["has_data"] = false.into();
    }
    object
}

fn target(fs: Caller<'_>, path: &[u8], stat: &Stat) -> Result<Option<Vec<u8>>, Failure> {
    Ok(match stat.kind {
        Kind::Symlink => Some(fs.read_link(path)?),
        Kind::File | Kind::Dir => None,
    })
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    [trimmed(dir), b"/", name].concat()
}

/// How `ls` lists.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// Mode, names, owner, group, bytes and time of each entry.
    pub long: bool,
    /// The number of each entry.
    pub inode: bool,
    /// An object a line.
    pub json: bool,
    /// Directories themselves, not their entries.
    pub itself: bool,
}

impl Listing {
    /// Writes the line of an entry; false if the reader has gone.
    fn write(
        self,
        (fs, out): (Caller<'_>, &mut Output),
        name: &[u8],
        full: &[u8],
        stat: Option<&Stat>,
    ) -> Result<bool, Failure> {
        let Some(stat) = stat else { return out.write((shown(name) + "\n").as_bytes()) };
        let target = if self.long || self.json { target(fs, full, stat)? } else { None };
        if self.json {
            let object = object(full, stat, target.as_deref());
            return out.write((object.to_string() + "\n").as_bytes());
        }
        let mut text = String::new();
        if self.inode {
            text = format!("{} ", stat.inode);
        }
        if self.long {
            text += &format!(
                "{} {:>2} {:>5} {:>5} {:>8} {} ",
                letters(stat),
                stat.nlink,
                stat.uid,
                stat.gid,
                stat.size,
                calendar::rfc3339_of_ns(stat.mtime_ns)
            );
        }
        text += &shown(name);
        if let Some(target) = target {
            text += &format!(" -> {}", shown(&target));
        }
        out.write((text + "\n").as_bytes())
    }
}

/// Lists directories.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn ls(place: &Place, paths: &[&[u8]], listing: Listing) -> Outcome {
    let Listing { long, inode, json, itself } = listing;
    let has_facts = long || inode || json;
    let several = paths.len() > 1;
    let mut is_first = true;
    on_paths("ls", place, paths, |fs, path, out| {
        let stat = if itself || long { fs.lstat(path)? } else { fs.stat(path)? };
        let lists = !itself && stat.kind == Kind::Dir;
        if lists && several && !json {
            let blank = if is_first { "" } else { "\n" };
            out.write(format!("{blank}{}:\n", shown(path)).as_bytes())?;
        }
        is_first = false;
        if !lists {
            listing.write((fs, out), path, path, has_facts.then_some(&stat))?;
            return Ok(());
        }
        let dir = fs.dir(path)?;
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = if has_facts {
                fs.list_plus_at(&dir, after.as_deref(), PAGE)?
            } else {
                fs.list_at(&dir, after.as_deref(), PAGE)?
            };
            for ListEntry { name, stat, .. } in &page.entries {
                if !listing.write((fs, &mut *out), name, &join(path, name), stat.as_ref())? {
                    return Ok(());
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    })
}

/// Prints all that is known about paths; with `follow`, about what a link leads to.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn stat(place: &Place, paths: &[&[u8]], json: bool, follow: bool) -> Outcome {
    on_paths("stat", place, paths, |fs, bytes, out| {
        let stat = if follow { fs.stat(bytes)? } else { fs.lstat(bytes)? };
        let target = target(fs, bytes, &stat)?;
        if json {
            let object = object(bytes, &stat, target.as_deref());
            out.write((object.to_string() + "\n").as_bytes())?;
            return Ok(());
        }
        let kind = match (stat.kind, stat.has_data) {
            (Kind::File, true) => "file",
            (Kind::File, false) => "file, its bytes are elsewhere",
            (Kind::Dir, _) => "directory",
            (Kind::Symlink, _) => "symbolic link",
        };
        let arrow = target.map(|target| format!(" -> {}", shown(&target))).unwrap_or_default();
        let text = format!(
            "path   {}{arrow}\nkind   {kind}\ninode  {}\nmode   {:04o} {}\nowner  {}:{}\n\
             nlink  {}\nsize   {}\nmtime  {} {}\nctime  {} {}\n",
            shown(bytes),
            stat.inode,
            stat.mode,
            letters(&stat),
            stat.uid,
            stat.gid,
            stat.nlink,
            stat.size,
            stat.mtime_ns,
            calendar::rfc3339_of_ns(stat.mtime_ns),
            stat.ctime_ns,
            calendar::rfc3339_of_ns(stat.ctime_ns),
        );
        out.write(text.as_bytes())?;
        Ok(())
    })
}

/// What a directory adds up to.
struct Sum {
    path: Vec<u8>,
    depth: usize,
    bytes: u64,
    entries: u64,
}

/// Adds up bytes and entries of directories; with `only_named`, prints the sums of the paths alone.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn du(place: &Place, paths: &[&[u8]], only_named: bool) -> Outcome {
    on_paths("du", place, paths, |fs, path, out| {
        let mut open: Vec<Sum> = Vec::new();
        let mut close = |open: &mut Vec<Sum>, depth: usize| -> Result<(), Failure> {
            while open.last().is_some_and(|sum| sum.depth >= depth) {
                let Some(sum) = open.pop() else { break };
                if !only_named || sum.depth == 0 {
                    let Sum { bytes, entries, .. } = sum;
                    let line = format!("{bytes}\t{entries}\t{}\n", shown(&sum.path));
                    out.write(line.as_bytes())?;
                }
                if let Some(parent) = open.last_mut() {
                    parent.bytes += sum.bytes;
                    parent.entries += sum.entries;
                }
            }
            Ok(())
        };
        let mut failed = None;
        // Files with hard links that were added already.
        let mut added = HashSet::new();
        for walked in fs.walk(path)? {
            let Walked { path, stat, depth } = match walked {
                Ok(walked) => walked,
                Err((walked, error)) => {
                    let Some(walked) = walked else { return Err(error.into()) };
                    keyrack_console::refuse("keyrack fs du", &error.to_string());
                    failed = Some(error);
                    walked
                }
            };
            close(&mut open, depth)?;
            let is_again = stat.kind != Kind::Dir && stat.nlink > 1 && !added.insert(stat.inode);
            if let Some(parent) = open.last_mut() {
                parent.bytes += if is_again { 0 } else { stat.size };
                parent.entries += 1;
            }
            if stat.kind == Kind::Dir {
                open.push(Sum { path, depth, bytes: 0, entries: 0 });
            } else if depth == 0 {
                open.push(Sum { path, depth, bytes: stat.size, entries: 1 });
            }
        }
        close(&mut open, 0)?;
        match failed {
            None => Ok(()),
            Some(_) => Err(Failure::Failed("the sums lack what could not be read".to_owned())),
        }
    })
}

/// Draws trees, at most `depth_max` deep.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn tree(place: &Place, paths: &[&[u8]], depth_max: u64) -> Outcome {
    on_paths("tree", place, paths, |fs, path, out| {
        let (mut dirs, mut others) = (0_u64, 0_u64);
        let mut failed = None;
        let mut walk = fs.walk(path)?;
        while let Some(walked) = walk.next() {
            let walked = match walked {
                Ok(walked) => walked,
                Err((Some(walked), error)) => {
                    failed = Some(error);
                    walked
                }
                Err((None, error)) => return Err(error.into()),
            };
            let Walked { path, stat, depth } = &walked;
            if *depth as u64 >= depth_max {
                walk.leave(&walked);
            }
            let name = if *depth == 0 { &path[..] } else { last_name(path) };
            let mut line = "  ".repeat(*depth) + &shown(name);
            match stat.kind {
                Kind::Dir if *depth == 0 => {}
                Kind::Dir => {
                    dirs += 1;
                    line.push('/');
                }
                Kind::File => others += 1,
                Kind::Symlink => {
                    others += 1;
                    line += &format!(" -> {}", shown(&fs.read_link(path)?));
                }
            }
            if !out.write((line + "\n").as_bytes())? {
                return Ok(());
            }
        }
        out.write(format!("\n{dirs} directories, {others} files\n").as_bytes())?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    })
}

/// Bytes of a file that are read at once.
const CHUNK: usize = 1 << 20;

/// Reads a file, to a local file or to standard output.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn get(place: &Place, path: &[u8], file: Option<&OsStr>) -> Outcome {
    let user = place.user();
    let space = place.open_to_read()?;
    let fs = space.by(&user);
    let each = |sink: &mut dyn FnMut(u64, &[u8]) -> Result<bool, Failure>| {
        let mut offset = 0;
        loop {
            let bytes = fs.read(path, offset, CHUNK)?;
            let is_last = bytes.len() < CHUNK;
            if !sink(offset, &bytes)? || is_last {
                return Ok::<(), Failure>(());
            }
            offset += bytes.len() as u64;
        }
    };
    match file.filter(|file| *file != "-") {
        None => {
            let mut out = Output::new();
            each(&mut |_, bytes| out.write(bytes))?;
            out.finish()
        }
        Some(file) => {
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            let mut output = OutputFile::whole(&fs, Path::new(file))?;
            each(&mut |_, bytes| {
                output.append(bytes)?;
                Ok(true)
            })?;
            output.finish()?;
            Ok(keyrack_console::DONE)
        }
    }
}
