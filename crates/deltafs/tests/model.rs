//! Random calls against a tree in memory: every answer, and the whole tree now and then.
//!
//! ```text
//!   seed --> calls --> name space and model --> answers compared      differ: calls are left out
//!                                                                     while they still differ
//! ```
//!
//! Names are few, so that calls meet. In between the log is closed and opened, or finished and
//! another begun on top of it, so that the same calls go through one log and through many.
//! `KEYRACK_SEED=N` replays one seed.

use crate::support::{Lab, dump, path};
use keyrack_deltafs::{IfExists, IfTaken, Namespace, SetAttributes, Settings};
use keyrack_testkit::random::seeds_or;
use keyrack_workload::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

#[derive(Clone, Debug)]
enum Call {
    Mkdir(String, u32),
    Create(String, bool),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, bool),
    Symlink(String, String),
    /// A hard link.
    Link(String, String),
    Write(String, u64, Vec<u8>),
    Resize(String, u64),
    Chmod(String, u32),
    Read(String),
    Stat(String),
    List(String),
    Reopen,
    /// The log is finished, and another begun on top of it.
    Stack,
    Check,
}

fn draw(rng: &mut Rng) -> Call {
    let path = |rng: &mut Rng| {
        let names = ["a", "b", "c", "d", "..", "."];
        let mut path = String::new();
        for _ in 0..=rng.below(3) {
            path.push('/');
            let of = if rng.below(12) == 0 { 6 } else { 4 };
            path.push_str(names[rng.below(of) as usize]);
        }
        if rng.below(20) == 0 {
            path.push('/');
        }
        path
    };
    match rng.below(100) {
        0..18 => Call::Mkdir(path(rng), [0o755, 0o700][rng.below(2) as usize]),
        18..34 => Call::Create(path(rng), rng.below(2) == 0),
        34..42 => Call::Unlink(path(rng)),
        42..49 => Call::Rmdir(path(rng)),
        49..59 => Call::Rename(path(rng), path(rng), rng.below(5) == 0),
        59..64 => Call::Link(path(rng), path(rng)),
        64..70 => {
            let target = path(rng);
            let is_relative = rng.below(2) == 0;
            let target = if is_relative { target[1..].to_owned() } else { target };
            Call::Symlink(target, path(rng))
        }
        70..76 => Call::Write(path(rng), rng.below(20), vec![b'x'; rng.below(9) as usize]),
        76..80 => Call::Resize(path(rng), [0, 3, 3901, 5000][rng.below(4) as usize]),
        80..83 => Call::Chmod(path(rng), 0o600 + rng.below(0o100) as u32),
        83..86 => Call::Read(path(rng)),
        86..90 => Call::Stat(path(rng)),
        90..94 => Call::List(path(rng)),
        94..96 => Call::Reopen,
        96..98 => Call::Stack,
        _ => Call::Check,
    }
}

/// The tree that is right.
#[derive(Debug)]
struct Model {
    nodes: Vec<Node>,
    /// Files that have outgrown their records.
    large: BTreeSet<usize>,
}

#[derive(Debug)]
enum Body {
    Dir(BTreeMap<String, usize>, usize),
    File(Vec<u8>, Option<u64>),
    Link(String),
}

#[derive(Debug)]
struct Node {
    mode: u32,
    body: Body,
}

type Answer = Result<String, &'static str>;

/// Where a path ends: the directory, and the name in it unless it is the directory itself.
type Resolved = (usize, Option<String>, bool);

impl Model {
    fn new() -> Model {
        let root = Node { mode: 0o777, body: Body::Dir(BTreeMap::new(), 0) };
        Model { nodes: vec![root], large: BTreeSet::new() }
    }

    fn entry(&self, dir: usize, name: &str) -> Option<usize> {
        match &self.nodes[dir].body {
            Body::Dir(entries, _) => entries.get(name).copied(),
            _ => None,
        }
    }

    fn entries(&mut self, dir: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes[dir].body {
            Body::Dir(entries, _) => entries,
            _ => unreachable!("only directories are asked"),
        }
    }

    fn is_dir(&self, node: usize) -> bool {
        matches!(self.nodes[node].body, Body::Dir(..))
    }

    fn resolve(&self, from: usize, path: &str, links: usize) -> Result<Resolved, &'static str> {
        if links > 40 {
            return Err("ELOOP");
        }
        let mut dir = if path.starts_with('/') { 0 } else { from };
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            match *part {
                "." => {}
                ".." => {
                    dir = match &self.nodes[dir].body {
                        Body::Dir(_, parent) => *parent,
                        _ => return Err("ENOTDIR"),
                    }
                }
                _ if is_last => return Ok((dir, Some((*part).to_owned()), path.ends_with('/'))),
                _ => {
                    let next = self.entry(dir, part).ok_or("ENOENT")?;
                    match &self.nodes[next].body {
                        Body::Dir(..) => dir = next,
                        Body::File(..) => return Err("ENOTDIR"),
                        Body::Link(target) => {
                            let mut rest = parts[index + 1..].join("/");
                            if path.ends_with('/') {
                                rest.push('/');
                            }
                            return self.resolve(dir, &format!("{target}/{rest}"), links + 1);
                        }
                    }
                }
            }
        }
        Ok((dir, None, true))
    }

    fn followed(&self, path: &str) -> Result<Resolved, &'static str> {
        let mut place = self.resolve(0, path, 0)?;
        for links in 0..=40 {
            let (dir, Some(name), slash) = &place else { return Ok(place) };
            let Some(Body::Link(target)) =
                self.entry(*dir, name).map(|node| &self.nodes[node].body)
            else {
                return Ok(place);
            };
            let target = if *slash { format!("{target}/") } else { target.clone() };
            place = self.resolve(*dir, &target, links + 1)?;
        }
        Err("ELOOP")
    }

    /// What a path leads to, links followed.
    fn node(&self, path: &str) -> Result<usize, &'static str> {
        let (dir, name, slash) = self.followed(path)?;
        let Some(name) = name else { return Ok(dir) };
        let node = self.entry(dir, &name).ok_or("ENOENT")?;
        if slash && !self.is_dir(node) { Err("ENOTDIR") } else { Ok(node) }
    }

    fn add(&mut self, dir: usize, name: String, mode: u32, body: Body) {
        self.nodes.push(Node { mode, body });
        let node = self.nodes.len() - 1;
        self.entries(dir).insert(name, node);
    }

    fn subdirs(&self, node: usize) -> usize {
        match &self.nodes[node].body {
            Body::Dir(entries, _) => entries.values().filter(|node| self.is_dir(**node)).count(),
            _ => 0,
        }
    }

    fn call(&mut self, call: &Call) -> Answer {
        match call {
            Call::Mkdir(path, mode) => self.mkdir(path, *mode),
            Call::Create(path, exclusive) => self.create(path, *exclusive),
            Call::Unlink(path) => self.unlink(path),
            Call::Rmdir(path) => self.rmdir(path),
            Call::Rename(from, to, fail) => self.rename(from, to, *fail),
            Call::Symlink(target, path) => self.symlink(target, path),
            Call::Link(from, to) => self.link(from, to),
            Call::Write(path, offset, bytes) => self.write(path, *offset, bytes),
            Call::Resize(path, size) => self.resize(path, *size),
            Call::Chmod(path, mode) => self.chmod(path, *mode),
            Call::Read(path) => self.read(path),
            Call::Stat(path) => self.stat(path),
            Call::List(path) => self.list(path),
            Call::Reopen | Call::Stack => Ok(String::new()),
            Call::Check => Ok(self.dump().join("\n")),
        }
    }

    fn mkdir(&mut self, path: &str, mode: u32) -> Answer {
        let (dir, name, _) = self.resolve(0, path, 0)?;
        let name = name.ok_or("EEXIST")?;
        if self.entry(dir, &name).is_some() {
            return Err("EEXIST");
        }
        self.add(dir, name, mode, Body::Dir(BTreeMap::new(), dir));
        Ok(String::new())
    }

    fn create(&mut self, path: &str, exclusive: bool) -> Answer {
        let (dir, name, slash) =
            if exclusive { self.resolve(0, path, 0)? } else { self.followed(path)? };
        let name = name.ok_or("EISDIR")?;
        if slash {
            return Err("EISDIR");
        }
        match self.entry(dir, &name) {
            Some(_) if exclusive => Err("EEXIST"),
            Some(node) if self.is_dir(node) => Err("EISDIR"),
            Some(_) => Ok("old".to_owned()),
            None => {
                self.add(dir, name, 0o644, Body::File(Vec::new(), None));
                Ok("new".to_owned())
            }
        }
    }

    fn unlink(&mut self, path: &str) -> Answer {
        let (dir, name, slash) = self.resolve(0, path, 0)?;
        let name = name.ok_or("EISDIR")?;
        let node = self.entry(dir, &name).ok_or("ENOENT")?;
        match (self.is_dir(node), slash) {
            (true, _) => Err("EISDIR"),
            (false, true) => Err("ENOTDIR"),
            (false, false) => {
                self.entries(dir).remove(&name);
                Ok(String::new())
            }
        }
    }

    fn rmdir(&mut self, path: &str) -> Answer {
        let (dir, name, _) = self.resolve(0, path, 0)?;
        let name = name.ok_or("EINVAL")?;
        let node = self.entry(dir, &name).ok_or("ENOENT")?;
        match &self.nodes[node].body {
            Body::Dir(entries, _) if entries.is_empty() => {}
            Body::Dir(..) => return Err("ENOTEMPTY"),
            _ => return Err("ENOTDIR"),
        }
        self.entries(dir).remove(&name);
        Ok(String::new())
    }

    fn rename(&mut self, from: &str, to: &str, fail: bool) -> Answer {
        let (old, new) = (self.resolve(0, from, 0)?, self.resolve(0, to, 0)?);
        let (old_dir, old_name, old_slash) = old;
        let (new_dir, new_name, new_slash) = new;
        let (old_name, new_name) = (old_name.ok_or("EINVAL")?, new_name.ok_or("EINVAL")?);
        let source = self.entry(old_dir, &old_name).ok_or("ENOENT")?;
        if (old_slash || new_slash) && !self.is_dir(source) {
            return Err("ENOTDIR");
        }
        let target = self.entry(new_dir, &new_name);
        if target == Some(source) && !fail {
            return Ok(String::new());
        }
        if self.is_dir(source) {
            let mut at = new_dir;
            loop {
                if at == source {
                    return Err("EINVAL");
                }
                match &self.nodes[at].body {
                    Body::Dir(_, parent) if at != 0 => at = *parent,
                    _ => break,
                }
            }
        }
        if target.is_some() && fail {
            return Err("EEXIST");
        }
        if let Some(target) = target {
            match (self.is_dir(source), &self.nodes[target].body) {
                (true, Body::Dir(entries, _)) if !entries.is_empty() => {
                    return Err("ENOTEMPTY");
                }
                (true, Body::Dir(..)) | (false, Body::File(..) | Body::Link(_)) => {}
                (true, _) => return Err("ENOTDIR"),
                (false, Body::Dir(..)) => return Err("EISDIR"),
            }
        }
        self.entries(old_dir).remove(&old_name);
        self.entries(new_dir).insert(new_name, source);
        if let Body::Dir(_, parent) = &mut self.nodes[source].body {
            *parent = new_dir;
        }
        Ok(String::new())
    }

    fn symlink(&mut self, target: &str, path: &str) -> Answer {
        let (dir, name, slash) = self.resolve(0, path, 0)?;
        let name = match name {
            Some(_) if slash => return Err("ENOENT"),
            name => name.ok_or("EINVAL")?,
        };
        if self.entry(dir, &name).is_some() {
            return Err("EEXIST");
        }
        self.add(dir, name, 0o777, Body::Link(target.to_owned()));
        Ok(String::new())
    }

    fn link(&mut self, from: &str, to: &str) -> Answer {
        let (dir, name, slash) = self.resolve(0, from, 0)?;
        let node = self.entry(dir, &name.ok_or("EPERM")?).ok_or("ENOENT")?;
        if slash && !self.is_dir(node) {
            return Err("ENOTDIR");
        }
        let (dir, name, slash) = self.resolve(0, to, 0)?;
        let name = name.ok_or("EEXIST")?;
        if slash {
            return Err("ENOENT");
        }
        if self.entry(dir, &name).is_some() {
            return Err("EEXIST");
        }
        if self.is_dir(node) {
            return Err("EPERM");
        }
        self.entries(dir).insert(name, node);
        Ok(self.names(node).to_string())
    }

    /// How many names a file has. What was removed has no entries.
    fn names(&self, node: usize) -> usize {
        let dirs = self.nodes.iter().filter_map(|node| match &node.body {
            Body::Dir(entries, _) => Some(entries),
            Body::File(..) | Body::Link(_) => None,
        });
        dirs.flat_map(BTreeMap::values).filter(|entry| **entry == node).count()
    }

    fn write(&mut self, path: &str, offset: u64, bytes: &[u8]) -> Answer {
        let (dir, name, _) = self.followed(path)?;
        let name = name.ok_or("EISDIR")?;
        let node = self.entry(dir, &name).ok_or("ENOENT")?;
        match &mut self.nodes[node].body {
            Body::Dir(..) => Err("EISDIR"),
            Body::File(_, Some(_)) if !bytes.is_empty() => Err("ENODATA"),
            Body::File(_, Some(_)) => Ok(String::new()),
            Body::File(data, None) => {
                if !bytes.is_empty() {
                    let start = offset as usize;
                    let end = start + bytes.len();
                    if end > 3901 {
                        return Err("EFBIG");
                    }
                    data.resize(data.len().max(end), 0);
                    data[start..end].copy_from_slice(bytes);
                }
                Ok(String::new())
            }
            Body::Link(_) => Err("EINVAL"),
        }
    }

    fn resize(&mut self, path: &str, size: u64) -> Answer {
        let node = self.node(path)?;
        match &mut self.nodes[node].body {
            Body::Dir(..) => Err("EISDIR"),
            Body::Link(_) => Err("EINVAL"),
            Body::File(data, elsewhere) => {
                match (size, &elsewhere) {
                    (0, _) => {
                        (*data, *elsewhere) = (Vec::new(), None);
                        self.large.remove(&node);
                    }
                    (_, Some(_)) => *elsewhere = Some(size),
                    (3902.., None) if data.is_empty() => *elsewhere = Some(size),
                    (_, None) => {
                        data.resize(size as usize, 0);
                        if size > 3901 {
                            self.large.insert(node);
                        }
                    }
                }
                Ok(String::new())
            }
        }
    }

    fn chmod(&mut self, path: &str, mode: u32) -> Answer {
        let node = self.node(path)?;
        self.nodes[node].mode = mode;
        Ok(String::new())
    }

    fn read(&mut self, path: &str) -> Answer {
        let (dir, name, _) = self.followed(path)?;
        let name = name.ok_or("EISDIR")?;
        let node = self.entry(dir, &name).ok_or("ENOENT")?;
        match &self.nodes[node].body {
            Body::Dir(..) => Err("EISDIR"),
            Body::File(_, Some(_)) => Err("ENODATA"),
            Body::File(data, None) => Ok(data.escape_ascii().to_string()),
            Body::Link(_) => Err("EINVAL"),
        }
    }

    fn stat(&mut self, path: &str) -> Answer {
        let node = self.node(path)?;
        let (mode, links) = (self.nodes[node].mode, self.subdirs(node));
        let names = self.names(node);
        Ok(match &self.nodes[node].body {
            Body::Dir(..) => format!("d {mode:o} {}", links + 2),
            Body::File(data, None) => format!("f {mode:o} {} {names}", data.len()),
            Body::File(_, Some(size)) => format!("f {mode:o} {size} {names}"),
            Body::Link(_) => return Err("ENOENT"),
        })
    }

    fn list(&mut self, path: &str) -> Answer {
        let (dir, name, _) = self.followed(path)?;
        let node = match name {
            None => dir,
            Some(name) => self.entry(dir, &name).ok_or("ENOENT")?,
        };
        match &self.nodes[node].body {
            Body::Dir(entries, _) => Ok(entries.keys().cloned().collect::<Vec<_>>().join(" ")),
            _ => Err("ENOTDIR"),
        }
    }

    /// As [`dump`] prints it.
    fn dump(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.dump_into(0, "/", &mut lines);
        lines
    }

    fn dump_into(&self, node: usize, path: &str, lines: &mut Vec<String>) {
        let mode = self.nodes[node].mode;
        let names = match self.names(node) {
            0 | 1 => String::new(),
            count => format!(" {count} names"),
        };
        match &self.nodes[node].body {
            Body::File(data, None) if self.large.contains(&node) => {
                lines.push(format!("{path} f {mode:o} 0:0 {} bytes{names}", data.len()));
            }
            Body::File(data, None) => {
                lines.push(format!("{path} f {mode:o} 0:0 {}{names}", data.escape_ascii()));
            }
            Body::File(_, Some(size)) => {
                lines.push(format!("{path} f {mode:o} 0:0 {size} bytes{names}"));
            }
            Body::Link(target) => lines.push(format!("{path} l {mode:o} 0:0 {target}{names}")),
            Body::Dir(entries, _) => {
                lines.push(format!("{path} d {mode:o} 0:0 {} links", self.subdirs(node) + 2));
                for (name, node) in entries {
                    let slash = if path == "/" { "" } else { "/" };
                    self.dump_into(*node, &format!("{path}{slash}{name}"), lines);
                }
            }
        }
    }
}

/// The name space, over as many logs as there were stacks.
struct Subject {
    lab: Lab,
    space: Option<Namespace>,
    logs: Vec<PathBuf>,
}

impl Subject {
    fn new() -> Subject {
        let mut subject = Subject { lab: Lab::new(), space: None, logs: vec![path("log0")] };
        subject.open();
        subject
    }

    fn open(&mut self) {
        let settings = Settings { lower: self.logs[1..].to_vec(), ..self.lab.settings() };
        let space = Namespace::open_in(self.lab.fs(), &self.logs[0], settings);
        self.space = Some(space.unwrap());
    }

    fn call(&mut self, call: &Call) -> Answer {
        if matches!(call, Call::Reopen | Call::Stack) {
            self.space.take().unwrap().close().unwrap();
            if matches!(call, Call::Stack) {
                self.logs.insert(0, path(&format!("log{}", self.logs.len())));
            }
            self.open();
            return Ok(String::new());
        }
        self.lab.tick();
        let space = self.space.as_ref().unwrap();
        let fs = space.as_root();
        let none = SetAttributes::default();
        let nothing = String::new;
        let answer = match call {
            Call::Mkdir(path, mode) => fs.mkdir(path.as_bytes(), *mode).map(|_| nothing()),
            Call::Create(path, exclusive) => {
                let if_exists = if *exclusive { IfExists::Fail } else { IfExists::Open };
                let made = fs.create(path.as_bytes(), 0o644, if_exists);
                made.map(|made| if made.is_new { "new" } else { "old" }.to_owned())
            }
            Call::Unlink(path) => fs.unlink(path.as_bytes()).map(|()| nothing()),
            Call::Rmdir(path) => fs.rmdir(path.as_bytes()).map(|()| nothing()),
            Call::Rename(from, to, fail) => {
                let if_taken = if *fail { IfTaken::Fail } else { IfTaken::Replace };
                fs.rename(from.as_bytes(), to.as_bytes(), if_taken).map(|()| nothing())
            }
            Call::Symlink(target, path) => {
                fs.symlink(target.as_bytes(), path.as_bytes()).map(|_| nothing())
            }
            Call::Link(from, to) => {
                fs.link(from.as_bytes(), to.as_bytes()).map(|stat| stat.nlink.to_string())
            }
            Call::Write(path, offset, bytes) => {
                fs.write(path.as_bytes(), *offset, bytes).map(|_| nothing())
            }
            Call::Resize(path, size) => {
                let set = SetAttributes { size: Some(*size), ..none };
                fs.set_attributes(path.as_bytes(), &set).map(|_| nothing())
            }
            Call::Chmod(path, mode) => {
                let set = SetAttributes { mode: Some(*mode), ..none };
                fs.set_attributes(path.as_bytes(), &set).map(|_| nothing())
            }
            Call::Read(path) => {
                fs.read(path.as_bytes(), 0, usize::MAX).map(|data| data.escape_ascii().to_string())
            }
            Call::Stat(path) => fs.stat(path.as_bytes()).map(|stat| match stat.kind.letter() {
                'd' => format!("d {:o} {}", stat.mode, stat.nlink),
                letter => format!("{letter} {:o} {} {}", stat.mode, stat.size, stat.nlink),
            }),
            Call::List(path) => fs.dir(path.as_bytes()).and_then(|dir| {
                let page = fs.list_at(&dir, None, usize::MAX)?;
                let names = page.entries.into_iter();
                let names = names.map(|entry| String::from_utf8(entry.name).unwrap());
                Ok(names.collect::<Vec<_>>().join(" "))
            }),
            Call::Check => {
                let flaws = space.fsck().unwrap().flaws;
                assert_eq!(flaws, []);
                Ok(dump(space).join("\n"))
            }
            Call::Reopen | Call::Stack => Ok(nothing()),
        };
        answer.map_err(|error| error.errno())
    }
}

/// Where the two differ, if they do.
fn compare(calls: &[Call]) -> Option<String> {
    let run = || {
        let (mut subject, mut model) = (Subject::new(), Model::new());
        for (index, call) in calls.iter().chain([&Call::Reopen, &Call::Check]).enumerate() {
            let (got, want) = (subject.call(call), model.call(call));
            if got != want {
                return Some(format!("call {index}, {call:?}\ngot  {got:?}\nwant {want:?}"));
            }
        }
        None
    };
    // A panic is a difference as well, and can be made smaller.
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| Some("it panicked; see above".to_owned()))
}

/// Leaves calls out, more and more of them, as long as the two still differ.
fn shrink(mut calls: Vec<Call>) -> Vec<Call> {
    let mut chunk = calls.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start < calls.len() {
            let end = (start + chunk).min(calls.len());
            let fewer = [&calls[..start], &calls[end..]].concat();
            if compare(&fewer).is_some() {
                calls = fewer;
            } else {
                start = end;
            }
        }
        chunk /= 2;
    }
    calls
}

#[test]
fn random_calls_answer_as_a_tree_in_memory() {
    for seed in seeds_or(1..9) {
        let mut rng = Rng::from_seed(seed);
        let calls: Vec<Call> = (0..300).map(|_| draw(&mut rng)).collect();
        if compare(&calls).is_some() {
            let calls = shrink(calls);
            let why = compare(&calls).unwrap_or_default();
            panic!("SEED={seed}\n{calls:#?}\n{why}");
        }
    }
}

/// The driver finds what it is there to find, and makes it small.
#[test]
fn a_planted_difference_is_made_small() {
    let mut rng = Rng::from_seed(5);
    let mut calls: Vec<Call> = (0..60).map(|_| draw(&mut rng)).collect();
    calls.push(Call::Mkdir("/planted".into(), 0o755));
    // The model takes a mode as it is; the name space keeps the bits of a mode.
    calls.push(Call::Chmod("/planted".into(), 0o10_755));
    calls.extend((0..20).map(|_| draw(&mut rng)));
    assert!(compare(&calls).is_some());
    let small = shrink(calls);
    assert_eq!(small.len(), 2, "{small:?}");
    assert!(matches!(&small[0], Call::Mkdir(path, _) if path == "/planted"));
}
