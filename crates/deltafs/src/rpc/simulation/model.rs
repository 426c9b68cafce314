//! The tree that is right, as far as one client's names go, and the calls that change it.

use std::collections::BTreeMap;

/// A call, as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Create {
        path: String,
        is_exclusive: bool,
    },
    Write {
        path: String,
        offset: u64,
        count: usize,
        byte: u8,
    },
    Read {
        path: String,
    },
    Stat {
        path: String,
    },
    Chmod {
        path: String,
        mode: u32,
    },
    Unlink {
        path: String,
    },
    Mkdir {
        path: String,
    },
    Rmdir {
        path: String,
    },
    Symlink {
        target: String,
        path: String,
    },
    ReadLink {
        path: String,
    },
    Rename {
        from: String,
        to: String,
        replace: bool,
    },
    /// By pages of so many entries.
    List {
        dir: String,
        count: usize,
    },
    /// All splits at once.
    Spread {
        dir: String,
    },
}

impl Op {
    /// Whether it may change something.
    pub(super) fn is_change(&self) -> bool {
        !matches!(self, Op::Read { .. } | Op::Stat { .. } | Op::ReadLink { .. } | Op::List { .. })
    }
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File { mode: u32, data: Vec<u8> },
    Link(String),
}

/// What a call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Done,
    IsNew(bool),
    Data(Vec<u8>),
    /// What it is, and of a file its mode and size.
    Facts(char, Option<(u32, u64)>),
    Names(Vec<(String, char)>),
}

/// Reply, or the name of an error number.
pub(super) type Answer = Result<Reply, &'static str>;

/// Entries by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) entries: BTreeMap<String, Node>,
    /// Directories that all share, and which names in them are this client's.
    shared: Vec<String>,
    prefix: String,
}

impl Model {
    pub(super) fn new(shared: &[&str], own: &str, prefix: &str) -> Model {
        let mut entries = BTreeMap::new();
        for dir in shared.iter().copied().chain([own]) {
            entries.insert(dir.to_owned(), Node::Dir);
        }
        let shared = shared.iter().map(|dir| (*dir).to_owned()).collect();
        Model { entries, shared, prefix: prefix.to_owned() }
    }

    /// Whether a name of that directory is this client's to look at.
    pub(super) fn is_own(&self, dir: &str, name: &str) -> bool {
        !self.shared.iter().any(|shared| shared == dir) || name.starts_with(&self.prefix)
    }

    /// The directories at which its names begin.
    pub(super) fn roots(&self) -> Vec<String> {
        let is_root = |path: &&String| path.rfind('/') == Some(0);
        self.entries.keys().filter(is_root).cloned().collect()
    }

    fn parent(path: &str) -> &str {
        &path[..path.rfind('/').unwrap_or(0)]
    }

    fn check_parent(&self, path: &str) -> Result<(), &'static str> {
        match self.entries.get(Model::parent(path)) {
            Some(Node::Dir) => Ok(()),
            Some(Node::File { .. }) => Err("ENOTDIR"),
            // No link leads anywhere.
            Some(Node::Link(_)) | None => Err("ENOENT"),
        }
    }

    fn get(&self, path: &str) -> Result<&Node, &'static str> {
        self.check_parent(path)?;
        self.entries.get(path).ok_or("ENOENT")
    }

    fn below(&self, path: &str) -> Vec<String> {
        let start = format!("{path}/");
        let all = self.entries.range(start.clone()..).map(|(path, _)| path);
        all.take_while(|path| path.starts_with(&start)).cloned().collect()
    }

    fn children(&self, dir: &str) -> Vec<(String, char)> {
        let all = self.below(dir).into_iter().filter(|path| Model::parent(path) == dir);
        all.map(|path| (path[dir.len() + 1..].to_owned(), letter(&self.entries[&path]))).collect()
    }

    fn make(&mut self, path: &str, node: Node) -> Result<(), &'static str> {
        self.check_parent(path)?;
        if self.entries.contains_key(path) {
            return Err("EEXIST");
        }
        self.entries.insert(path.to_owned(), node);
        Ok(())
    }

    /// Carries a call out.
    pub(super) fn apply(&mut self, op: &Op) -> Answer {
        match op {
            Op::Create { path, is_exclusive } => self.create(path, *is_exclusive),
            Op::Write { path, offset, count, byte } => {
                self.get(path)?;
                match self.entries.get_mut(path) {
                    Some(Node::Dir) => Err("EISDIR"),
                    Some(Node::File { data, .. }) => {
                        let start = *offset as usize;
                        data.resize(data.len().max(start + count), 0);
                        data[start..start + count].fill(*byte);
                        Ok(Reply::Done)
                    }
                    _ => Err("EINVAL"),
                }
            }
            Op::Read { path } => match self.get(path)? {
                Node::Dir => Err("EISDIR"),
                Node::File { data, .. } => Ok(Reply::Data(data.clone())),
                Node::Link(_) => Err("EINVAL"),
            },
            Op::Stat { path } => Ok(facts(self.get(path)?)),
            Op::Chmod { path, mode: new } => {
                self.get(path)?;
                if let Some(Node::File { mode, .. }) = self.entries.get_mut(path) {
                    *mode = *new;
                }
                Ok(Reply::Done)
            }
            Op::Unlink { path } => match self.get(path)? {
                Node::Dir => Err("EISDIR"),
                _ => {
                    self.entries.remove(path);
                    Ok(Reply::Done)
                }
            },
            Op::Mkdir { path } => self.make(path, Node::Dir).map(|()| Reply::Done),
            Op::Rmdir { path } => match self.get(path)? {
                Node::Dir if !self.below(path).is_empty() => Err("ENOTEMPTY"),
                Node::Dir => {
                    self.entries.remove(path);
                    Ok(Reply::Done)
                }
                _ => Err("ENOTDIR"),
            },
            Op::Symlink { target, path } => {
                self.make(path, Node::Link(target.clone())).map(|()| Reply::Done)
            }
            Op::ReadLink { path } => match self.get(path)? {
                Node::Link(target) => Ok(Reply::Data(target.clone().into_bytes())),
                _ => Err("EINVAL"),
            },
            Op::Rename { from, to, replace } => self.rename(from, to, *replace),
            Op::Spread { .. } => Ok(Reply::Done),
            Op::List { dir, .. } => match self.entries.get(dir) {
                Some(Node::Dir) => Ok(Reply::Names(self.children(dir))),
                _ => Err("ENOENT"),
            },
        }
    }

    fn create(&mut self, path: &str, is_exclusive: bool) -> Answer {
        self.check_parent(path)?;
        match self.entries.get(path) {
            None => {
                let file = Node::File { mode: 0o600, data: Vec::new() };
                self.entries.insert(path.to_owned(), file);
                Ok(Reply::IsNew(true))
            }
            Some(_) if is_exclusive => Err("EEXIST"),
            Some(Node::Dir) => Err("EISDIR"),
            Some(Node::Link(_)) => Err("EEXIST"),
            Some(Node::File { .. }) => Ok(Reply::IsNew(false)),
        }
    }

    fn rename(&mut self, from: &str, to: &str, replace: bool) -> Answer {
        self.check_parent(from)?;
        self.check_parent(to)?;
        let source = self.entries.get(from).ok_or("ENOENT")?.clone();
        if from == to && replace {
            return Ok(Reply::Done);
        }
        let target = self.entries.get(to);
        if source == Node::Dir && to.starts_with(&format!("{from}/")) {
            return Err("EINVAL");
        }
        if target.is_some() && !replace {
            return Err("EEXIST");
        }
        match (&source, target) {
            (_, None) => {}
            (Node::Dir, Some(Node::Dir)) if !self.below(to).is_empty() => return Err("ENOTEMPTY"),
            (Node::Dir, Some(Node::Dir)) => {}
            (Node::Dir, Some(_)) => return Err("ENOTDIR"),
            (_, Some(Node::Dir)) => return Err("EISDIR"),
            (_, Some(_)) => {}
        }
        for path in self.below(from).into_iter().chain([from.to_owned()]) {
            if let Some(node) = self.entries.remove(&path) {
                self.entries.insert(format!("{to}{}", &path[from.len()..]), node);
            }
        }
        Ok(Reply::Done)
    }
}

/// The letter of what it is.
pub(super) fn letter(node: &Node) -> char {
    match node {
        Node::Dir => 'd',
        Node::File { .. } => 'f',
        Node::Link(_) => 'l',
    }
}

fn facts(node: &Node) -> Reply {
    match node {
        Node::File { mode, data } => Reply::Facts('f', Some((*mode, data.len() as u64))),
        node => Reply::Facts(letter(node), None),
    }
}
