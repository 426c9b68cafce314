//! Finding entries: a walk with conditions, all of which must hold.

use crate::Place;
use crate::glob::matches_glob;
use crate::paths::{for_each, last_name, shown};
use crate::query::object;
use keyrack_console::{Failure, Outcome, Output};
use keyrack_deltafs::{Caller, Kind, Stat, Walked};

/// A size to compare with.
#[derive(Clone, Copy, Debug)]
pub enum Size {
    /// Exactly so many bytes.
    Is(u64),
    /// More bytes.
    Above(u64),
    /// Fewer bytes.
    Below(u64),
}

/// What an entry has to fulfil, all of it.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// A pattern of its name.
    pub name: Option<Vec<u8>>,
    /// What it is.
    pub kind: Option<Kind>,
    /// Its size.
    pub size: Option<Size>,
    /// Changed after this time, in nanoseconds since 1970.
    pub newer_ns: Option<u64>,
    /// Changed after this entry of the name space.
    pub newer: Option<Vec<u8>>,
    /// Its owner.
    pub user: Option<u64>,
    /// Its group.
    pub group: Option<u64>,
    /// Its permission bits.
    pub mode: Option<u32>,
    /// A file of no bytes, or a directory without entries.
    pub empty: bool,
    /// How deep it is at least.
    pub depth_min: u64,
    /// How deep it is at most.
    pub depth_max: Option<u64>,
}

/// How found entries are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Their paths, printable, a line each.
    Lines,
    /// Their paths as they are, with a NUL byte after each.
    Nul,
    /// An object a line, with all facts.
    Json,
    /// Only how many there are.
    Count,
}

impl Conditions {
    /// Whether all hold but that for emptiness, which may need a look into a directory.
    fn hold(&self, Walked { path, stat, depth }: &Walked) -> bool {
        let name = last_name(path);
        let name = if path == b"/" { b"/" } else { name };
        *depth as u64 >= self.depth_min
            && self.kind.is_none_or(|kind| kind == stat.kind)
            && self.user.is_none_or(|uid| uid == u64::from(stat.uid))
            && self.group.is_none_or(|gid| gid == u64::from(stat.gid))
            && self.mode.is_none_or(|mode| mode == stat.mode)
            && self.newer_ns.is_none_or(|ns| stat.mtime_ns > ns)
            && self.size.is_none_or(|size| fits(size, stat))
            && self.name.as_ref().is_none_or(|glob| matches_glob(glob, name))
    }
}

fn fits(size: Size, stat: &Stat) -> bool {
    match size {
        Size::Is(bytes) => stat.size == bytes,
        Size::Above(bytes) => stat.size > bytes,
        Size::Below(bytes) => stat.size < bytes,
    }
}

/// Prints the entries that fulfil the conditions, below each path or `/`.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn find(place: &Place, paths: &[&[u8]], conditions: &Conditions, form: Form) -> Outcome {
    let mut conditions = conditions.clone();
    let user = place.user();
    let space = place.open_to_read()?;
    let fs = space.by(&user);
    if let Some(path) = &conditions.newer {
        let newer_ns = fs.lstat(path)?.mtime_ns;
        conditions.newer_ns = Some(conditions.newer_ns.unwrap_or(0).max(newer_ns));
    }
    let paths = if paths.is_empty() { &[&b"/"[..]][..] } else { paths };
    let mut finding = Finding { fs, conditions, form, out: Output::new(), count: 0 };
    let status = for_each("find", paths.iter().copied(), |path| finding.below(path))?;
    if form == Form::Count {
        let line = format!("{}\n", finding.count);
        finding.out.write(line.as_bytes())?;
    }
    Ok(status.max(finding.out.finish()?))
}

/// A walk with conditions, and what it prints.
struct Finding<'a> {
    fs: Caller<'a>,
    conditions: Conditions,
    form: Form,
    out: Output,
    count: u64,
}

impl Finding<'_> {
    fn below(&mut self, path: &[u8]) -> Result<(), Failure> {
        let depth_max = self.conditions.depth_max.unwrap_or(u64::MAX);
        let mut is_whole = true;
        let fs = self.fs;
        let mut walk = fs.walk(path)?;
        while let Some(walked) = walk.next() {
            let walked = match walked {
                Ok(walked) => walked,
                Err((walked, error)) => {
                    keyrack_console::refuse("keyrack fs find", &error.to_string());
                    is_whole = false;
                    let Some(walked) = walked else { continue };
                    walked
                }
            };
            if walked.depth as u64 >= depth_max {
                walk.leave(&walked);
            }
            let fits = self.conditions.hold(&walked)
                && (!self.conditions.empty || self.is_empty(&walked)?);
            if fits && !self.print(&walked)? {
                return Ok(());
            }
        }
        if is_whole {
            return Ok(());
        }
        Err(Failure::Failed(format!("{}: not all of it could be read", shown(path))))
    }

    fn is_empty(&self, walked: &Walked) -> Result<bool, Failure> {
        Ok(match walked.stat.kind {
            Kind::File => walked.stat.size == 0,
            Kind::Symlink => false,
            Kind::Dir => {
                let dir = self.fs.dir(&walked.path)?;
                self.fs.list_at(&dir, None, 1)?.entries.is_empty()
            }
        })
    }

    /// Prints an entry; false if the reader has gone.
    fn print(&mut self, walked: &Walked) -> Result<bool, Failure> {
        self.count += 1;
        let path = &walked.path;
        match self.form {
            Form::Count => Ok(true),
            Form::Json => {
                let object = object(path, &walked.stat, None);
                self.out.write((object.to_string() + "\n").as_bytes())
            }
            Form::Nul => self.out.write(&[&path[..], b"\0"].concat()),
            Form::Lines => self.out.write((shown(path) + "\n").as_bytes()),
        }
    }
}
