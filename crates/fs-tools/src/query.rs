//! `keyrack fs ls`, `stat`, `du`, `tree`, `get`: looking, without changing anything.

use super::{
    flag, for_each, open_to_read, option, os, path_arg, path_bytes, paths_of, reading, shown, user,
};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use keyrack_console::{Failure, Outcome, Output};
use keyrack_deltafs::{Caller, Kind, ListEntry, Stat, Walked};
use keyrack_measure::wall;
use keyrack_vfs::{Fs, OutputFile, RealFs};
use serde_json::json;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// Entries that are listed at once.
const PAGE: usize = 4096;

fn some_paths() -> Arg {
    let help = "Paths, from / [default: /]";
    let parser = value_parser!(OsString);
    Arg::new("path").value_name("PATH").action(ArgAction::Append).value_parser(parser).help(help)
}

pub(super) fn commands() -> Vec<Command> {
    vec![
        reading("ls", "List directories")
            .arg(flag("long", "Mode, names, owner, group, bytes and time of each").short('l'))
            .arg(flag("directory", "Directories themselves, not what is in them").short('d'))
            .arg(flag("inode", "The number of each").short('i'))
            .arg(flag("json", "An object a line"))
            .arg(some_paths()),
        reading("stat", "Print all that is known about paths")
            .arg(flag("json", "An object a line"))
            .arg(flag("dereference", "What a link leads to, not the link").short('L'))
            .arg(some_paths()),
        reading("du", "Add up bytes and entries of directories")
            .arg(flag("summarize", "Only what was named").short('s'))
            .arg(some_paths()),
        reading("tree", "Draw the tree").arg(option("depth", "N", "How deep")).arg(some_paths()),
        reading("get", "Read a file").arg(path_arg("path", "Which")).arg(
            Arg::new("file")
                .value_name("FILE")
                .value_parser(value_parser!(OsString))
                .help("A local file to write to [default: standard output]"),
        ),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    let run: fn(&ArgMatches) -> Outcome = match name {
        "ls" => ls,
        "stat" => stat,
        "du" => du,
        "tree" => tree,
        "get" => get,
        _ => return None,
    };
    Some(run(matches))
}

/// Opens for reading and does `body` for each path, `/` if there are none.
fn on_paths(
    name: &str,
    matches: &ArgMatches,
    mut body: impl FnMut(Caller<'_>, &[u8], &mut Output) -> Result<(), Failure>,
) -> Outcome {
    let user = user(matches)?;
    let space = open_to_read(matches)?;
    let mut given = paths_of(matches, "path");
    if given.is_empty() {
        given.push(b"/");
    }
    let mut out = Output::new();
    let status = for_each(name, given, |path| body(space.by(&user), path, &mut out))?;
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
pub(super) fn object(path: &[u8], stat: &Stat, target: Option<&[u8]>) -> serde_json::Value {
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
    super::jsonl::put_bytes(&mut object, "path", path);
    if let Some(target) = target {
        super::jsonl::put_bytes(&mut object, "target", target);
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
    [super::mutate::trimmed(dir), b"/", name].concat()
}

fn ls(matches: &ArgMatches) -> Outcome {
    let (long, inode) = (matches.get_flag("long"), matches.get_flag("inode"));
    let (json, itself) = (matches.get_flag("json"), matches.get_flag("directory"));
    let facts = long || inode || json;
    let several = paths_of(matches, "path").len() > 1;
    let mut is_first = true;
    on_paths("ls", matches, |fs, path, out| {
        let bytes = path;
        let stat = if itself || long { fs.lstat(bytes)? } else { fs.stat(bytes)? };
        let lists = !itself && stat.kind == Kind::Dir;
        if lists && several && !json {
            let blank = if is_first { "" } else { "\n" };
            out.write(format!("{blank}{}:\n", shown(bytes)).as_bytes())?;
        }
        is_first = false;
        let mut line = |name: &[u8], full: &[u8], stat: Option<&Stat>| -> Result<bool, Failure> {
            let Some(stat) = stat else { return out.write((shown(name) + "\n").as_bytes()) };
            let target = if long || json { target(fs, full, stat)? } else { None };
            if json {
                let object = object(full, stat, target.as_deref());
                return out.write((object.to_string() + "\n").as_bytes());
            }
            let mut text = String::new();
            if inode {
                text = format!("{} ", stat.inode);
            }
            if long {
                text += &format!(
                    "{} {:>2} {:>5} {:>5} {:>8} {} ",
                    letters(stat),
                    stat.nlink,
                    stat.uid,
                    stat.gid,
                    stat.size,
                    wall::rfc3339_of_ns(stat.mtime_ns)
                );
            }
            text += &shown(name);
            if let Some(target) = target {
                text += &format!(" -> {}", shown(&target));
            }
            out.write((text + "\n").as_bytes())
        };
        if !lists {
            line(bytes, bytes, facts.then_some(&stat))?;
            return Ok(());
        }
        let dir = fs.dir(bytes)?;
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = match facts {
                true => fs.list_plus_at(&dir, after.as_deref(), PAGE)?,
                false => fs.list_at(&dir, after.as_deref(), PAGE)?,
            };
            for ListEntry { name, stat, .. } in &page.entries {
                if !line(name, &join(path, name), stat.as_ref())? {
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

fn stat(matches: &ArgMatches) -> Outcome {
    let (json, follow) = (matches.get_flag("json"), matches.get_flag("dereference"));
    on_paths("stat", matches, |fs, bytes, out| {
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
            wall::rfc3339_of_ns(stat.mtime_ns),
            stat.ctime_ns,
            wall::rfc3339_of_ns(stat.ctime_ns),
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

fn du(matches: &ArgMatches) -> Outcome {
    let only_named = matches.get_flag("summarize");
    on_paths("du", matches, |fs, path, out| {
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
            if let Some(parent) = open.last_mut() {
                parent.bytes += stat.size;
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

fn tree(matches: &ArgMatches) -> Outcome {
    let depth_max = super::find::number(matches, "depth")?.unwrap_or(u64::MAX);
    on_paths("tree", matches, |fs, path, out| {
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
            let name = match depth {
                0 => &path[..],
                _ => path.rsplit(|byte| *byte == b'/').next().unwrap_or_default(),
            };
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

fn get(matches: &ArgMatches) -> Outcome {
    let user = user(matches)?;
    let space = open_to_read(matches)?;
    let fs = space.by(&user);
    let path = path_bytes(matches, "path").unwrap_or_default();
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
    match os(matches, "file").filter(|file| *file != "-") {
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
