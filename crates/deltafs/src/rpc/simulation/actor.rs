//! A client that makes drawn calls on names that are its own, and holds each answer against its
//! model.
//!
//! What was answered must be right. A call whose answer got lost, or that met a crash, may have
//! been done or not, and nothing else: the client waits until nothing of it can be under way,
//! looks at all that is its own, and takes up whichever of the two it finds.

use super::model::{Answer, Model, Node, Op, Reply};
use super::state::{Act, Who};
use super::world::{DATAGRAM_BYTES, World};
use crate::caller::Kind;
use crate::make::IfExists;
use crate::rpc::client::connection::ClientOptions;
use crate::rpc::client::tree::Tree;
use crate::rpc::client::wire::Transport;
use crate::rpc::codec::SetFields;
use crate::rpc::error::{Error, Result as CallResult};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// After so long nothing of a call is under way any more.
const QUIET: Duration = Duration::from_secs(20);
/// How often it looks before what it finds is said to be wrong.
const LOOKS: usize = 20;

/// One client.
pub(super) struct Actor {
    world: Arc<World>,
    number: usize,
    tree: Tree,
    model: Model,
    ops: VecDeque<Op>,
    /// Calls that were answered, and those of which nobody knew what came of them.
    counts: [u64; 2],
}

/// A tree over all servers.
pub(super) fn tree(world: &Arc<World>, number: usize) -> Tree {
    let transport = match number % 2 {
        0 => Transport::Stream,
        _ => Transport::Datagrams { bytes_max: DATAGRAM_BYTES },
    };
    let lease_clock = world.lease_clock();
    let options = ClientOptions { transport, lease_clock, ..ClientOptions::default() };
    Tree::of(world.client(Who::Client(number), options.clone()), &options)
}

impl Actor {
    pub(super) fn new(world: &Arc<World>, number: usize, model: Model, ops: Vec<Op>) -> Actor {
        Actor {
            world: Arc::clone(world),
            number,
            tree: tree(world, number),
            model,
            ops: ops.into(),
            counts: [0; 2],
        }
    }

    fn wrong(&self, op: &Op, told: &str, expected: &Answer) -> String {
        format!("client {}: {op:?}: it says {told}, and should say {expected:?}", self.number)
    }
}

impl Act for Actor {
    fn is_done(&self) -> bool {
        self.ops.is_empty()
    }

    fn outcome(&self) -> (&Model, [u64; 2]) {
        (&self.model, self.counts)
    }

    fn act(&mut self) -> Result<(), String> {
        let Some(op) = self.ops.pop_front() else { return Ok(()) };
        let crashes = self.world.crashes();
        let (mut after, before) = (self.model.clone(), self.model.clone());
        let expected = after.apply(&op);
        let told = call(&mut self.tree, &self.model, &op);
        let had_crash = self.world.crashes() != crashes;
        let is_known = match &told {
            Ok(_) => true,
            Err(Error::Peer { .. }) => false,
            // It was waited for in vain, or the servers cannot reach each other.
            Err(error) if matches!(error.errno(), "EAGAIN" | "EBUSY" | "EIO") => {
                if !self.world.has_faults() {
                    return Err(self.wrong(&op, &format!("{error}"), &expected));
                }
                false
            }
            // What was done before the crash is not remembered after it.
            Err(_) => !had_crash,
        };
        let told: Answer = told.map_err(|error| error.errno());
        if is_known && told == expected {
            self.model = after;
            self.counts[0] += 1;
            return Ok(());
        }
        // A change that was carried out before the crash, and once more after it.
        let may_be_again = had_crash && op.is_change();
        if is_known && !may_be_again {
            return Err(self.wrong(&op, &format!("{told:?}"), &expected));
        }
        self.counts[1] += 1;
        let mut seen = BTreeMap::new();
        for _ in 0..LOOKS {
            self.tree.client().pause(QUIET);
            let Ok(found) = look(&mut self.tree, &self.model) else { continue };
            for model in [&before, &after] {
                if found == model.entries {
                    self.model = model.clone();
                    return Ok(());
                }
            }
            seen = found;
        }
        Err(format!(
            "client {} met a fault with {op:?}, and was told {told:?}. After it there is {}",
            self.number,
            differences(&before.entries, &seen)
        ))
    }
}

/// What is there, other than it should be.
pub(super) fn differences(
    expected: &BTreeMap<String, Node>,
    found: &BTreeMap<String, Node>,
) -> String {
    let shown = |node: Option<&Node>| match node {
        Some(Node::File { mode, data }) => {
            format!("a file of {} bytes, {:?}.., mode {mode:o}", data.len(), data.first())
        }
        node => format!("{node:?}"),
    };
    let paths = expected.keys().chain(found.keys().filter(|path| !expected.contains_key(*path)));
    let differs = paths.filter(|path| expected.get(*path) != found.get(*path));
    let lines = differs.map(|path| {
        format!("{path}: {} for {}", shown(found.get(path)), shown(expected.get(path)))
    });
    lines.collect::<Vec<_>>().join("; ")
}

fn call(tree: &mut Tree, model: &Model, op: &Op) -> CallResult<Reply> {
    let done = |()| Reply::Done;
    match op {
        Op::Create { path, is_exclusive } => {
            let if_exists = if *is_exclusive { IfExists::Fail } else { IfExists::Open };
            tree.create(path.as_bytes(), 0o600, if_exists).map(Reply::IsNew)
        }
        Op::Write { path, offset, count, byte } => {
            tree.write(path.as_bytes(), *offset, &vec![*byte; *count]).map(|_| Reply::Done)
        }
        Op::Read { path } => tree.read(path.as_bytes(), 0, 60_000).map(Reply::Data),
        Op::Stat { path } => {
            let stat = tree.stat(path.as_bytes())?;
            let is_file = stat.kind == Kind::File;
            Ok(Reply::Facts(stat.kind.letter(), is_file.then_some((stat.mode, stat.size))))
        }
        Op::Chmod { path, mode } => {
            let set = SetFields { mode: Some(*mode), ..SetFields::default() };
            tree.set_attributes(path.as_bytes(), set).map(|_| Reply::Done)
        }
        Op::Unlink { path } => tree.unlink(path.as_bytes()).map(done),
        Op::Mkdir { path } => tree.mkdir(path.as_bytes(), 0o755).map(done),
        Op::Rmdir { path } => tree.rmdir(path.as_bytes()).map(done),
        Op::Symlink { target, path } => tree.symlink(target.as_bytes(), path.as_bytes()).map(done),
        Op::ReadLink { path } => tree.read_link(path.as_bytes()).map(Reply::Data),
        Op::Rename { from, to, replace } => {
            tree.rename(from.as_bytes(), to.as_bytes(), *replace).map(done)
        }
        Op::Spread { dir } => {
            let dir = tree.open(dir.as_bytes())?;
            tree.spread(dir).map(done)
        }
        Op::List { dir, count } => {
            let mut names = list(tree, dir, *count)?;
            names.retain(|(name, _)| model.is_own(dir, name));
            Ok(Reply::Names(names))
        }
    }
}

fn list(tree: &mut Tree, path: &str, count: usize) -> CallResult<Vec<(String, char)>> {
    let dir = tree.open(path.as_bytes())?;
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = tree.page(dir, after.as_deref(), count, false)?;
        let entry = |entry: crate::list::ListEntry| {
            (String::from_utf8(entry.name).unwrap(), entry.kind.letter())
        };
        names.extend(page.entries.into_iter().map(entry));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(names),
        }
    }
}

/// All that is a client's.
pub(super) fn look(tree: &mut Tree, model: &Model) -> CallResult<BTreeMap<String, Node>> {
    let mut found = BTreeMap::new();
    let mut dirs = model.roots();
    while let Some(dir) = dirs.pop() {
        for (name, letter) in list(tree, &dir, 1000)? {
            if !model.is_own(&dir, &name) {
                continue;
            }
            let path = format!("{dir}/{name}");
            let node = match letter {
                'd' => {
                    dirs.push(path.clone());
                    continue;
                }
                'l' => {
                    let target = tree.read_link(path.as_bytes())?;
                    Node::Link(String::from_utf8(target).unwrap())
                }
                _ => {
                    let mode = tree.stat(path.as_bytes())?.mode;
                    Node::File { mode, data: tree.read(path.as_bytes(), 0, 60_000)? }
                }
            };
            found.insert(path, node);
        }
        found.insert(dir, Node::Dir);
    }
    Ok(found)
}
