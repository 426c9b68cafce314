//! A name space on several servers, by paths.
//!
//! ```text
//!   every server   all directories
//!   one server     each file: that of the partition that has (directory, name)
//! ```
//!
//! So a path is resolved where the file is, and a call on a file is one round trip. How far a
//! directory has split is known from opening it, and may be old: a server that has not the name
//! any more says how far it has come, and the call goes on to another. What can be asked for stands
//! in `files`, `directories`, `listing` and `rename`.

use super::backoff::Backoff;
use super::connection::{Client, ClientOptions};
use super::directory::{CreateBatch, DirNumber, Opened};
use super::replies::{data_reply, dir_reply, done_reply, unexpected};
use crate::partition::{Placement, SplitMap, hash_name};
use crate::rpc::codec::{BATCH_NAMES_MAX, Reply, Request};
use crate::rpc::error::{Error, Result};
use crate::rpc::lease_clock::LeaseTimer;
use keyrack_net::Endpoint;
use std::collections::HashMap;
use std::time::Duration;

/// How long splits that were asked for are waited for.
const SPREAD_TIMEOUT: Duration = Duration::from_secs(3);

/// Servers as one name space.
#[derive(Debug)]
pub struct Tree {
    pub(crate) client: Client,
    pub(crate) placement: Placement,
    pub(crate) dirs: Vec<Opened>,
    pub(crate) by_path: HashMap<Vec<u8>, usize>,
    pub(crate) ticker: LeaseTimer,
    /// Names of a batch of creates that are sent behind.
    pub(crate) batch: Option<usize>,
    pub(crate) write_behind: Vec<CreateBatch>,
    /// Creates that failed, by path, and that nobody was told of.
    pub(crate) failed: Vec<(Vec<u8>, &'static str)>,
}

impl Tree {
    /// Asks one server where all are, and connects to them.
    ///
    /// # Errors
    /// [`Error::Peer`], [`Error::Protocol`], [`Error::Refused`].
    pub fn discover(server: Endpoint, options: ClientOptions) -> Result<Tree> {
        let stream = ClientOptions { transport: super::wire::Transport::Stream, ..options.clone() };
        let mut first = Client::new(vec![server], stream);
        let addresses: Vec<String> = first.call(0, &Request::Map, |reply| match reply {
            Reply::Map(list) => {
                list.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
            }
            _ => Vec::new(),
        })?;
        // For connections first, for datagrams behind it.
        let word = match options.transport {
            super::wire::Transport::Stream => 0,
            super::wire::Transport::Datagrams { .. } => 1,
        };
        // A server without datagrams has one word; an empty address is refused below.
        let parse =
            |text: &String| text.split(' ').nth(word).unwrap_or_default().parse::<Endpoint>();
        let endpoints: std::result::Result<Vec<_>, _> = addresses.iter().map(parse).collect();
        match endpoints {
            Ok(endpoints) if !endpoints.is_empty() => Ok(Tree::new(endpoints, options)),
            _ if word == 1 => Err(Error::Usage(
                "the servers take no datagrams; start them with --udp=1, or use TCP".to_owned(),
            )),
            _ => Err(unexpected("map")),
        }
    }

    /// A tree of these servers, in their order.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>, options: ClientOptions) -> Tree {
        Tree::of(Client::new(endpoints, options.clone()), &options)
    }

    /// A tree of the servers of a client.
    pub(crate) fn of(client: Client, options: &ClientOptions) -> Tree {
        let servers = u32::try_from(client.servers()).expect("servers are numbered with 32 bits");
        let placement = Placement::new(servers);
        let root = Opened {
            path: b"/".to_vec(),
            inode: 1,
            at: vec![Some(0); client.servers()],
            map: SplitMap::new(),
            until_ns: u64::MAX,
        };
        let ticker = options.lease_clock.start();
        let by_path = HashMap::from([(b"/".to_vec(), 0)]);
        let batch = options.write_behind.map(|batch| batch.clamp(1, BATCH_NAMES_MAX));
        let (write_behind, failed, dirs) = (Vec::new(), Vec::new(), vec![root]);
        Tree { client, placement, dirs, by_path, ticker, batch, write_behind, failed }
    }

    /// The connections, for calls that are kept under way.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// A directory that is known by its path.
    #[cfg(test)]
    pub(crate) fn by_known(&self, path: &[u8]) -> Option<DirNumber> {
        let known = self.by_path.get(path).copied();
        known.filter(|at| self.dirs[*at].until_ns > self.ticker.now_ns()).map(DirNumber)
    }

    /// How many partitions of a directory are known here.
    #[cfg(test)]
    pub(crate) fn dirs_map(&self, dir: DirNumber) -> u32 {
        self.dirs[dir.0].map.count()
    }

    /// The number of a directory, the same at all servers.
    pub(crate) fn inode(&self, dir: DirNumber) -> u128 {
        self.dirs[dir.0].inode
    }

    /// The server of a name, and the number of the directory there.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn locate(&mut self, dir: DirNumber, name: &[u8]) -> Result<(usize, u32)> {
        let server = self.server_of(dir, name);
        Ok((server, self.number_at(dir, server)?))
    }

    pub(crate) fn server_of(&self, dir: DirNumber, name: &[u8]) -> usize {
        let opened = &self.dirs[dir.0];
        let partition = opened.map.partition_of(hash_name(opened.inode, name));
        self.placement.home(opened.inode, partition) as usize
    }

    /// Takes in what a server has said with [`Error::Elsewhere`]. Whether it was news.
    pub fn learn(&mut self, inode: u128, map: &SplitMap) -> bool {
        let mut is_news = false;
        for opened in self.dirs.iter_mut().filter(|opened| opened.inode == inode) {
            let before = opened.map.count();
            opened.map.merge(map);
            is_news |= opened.map.count() > before;
        }
        is_news
    }

    /// Asks all servers how far a directory has split.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn learn_all(&mut self, dir: DirNumber) -> Result<()> {
        for server in 0..self.client.servers() {
            // A server that was started anew is told the directory once more.
            let make = &|dir| Request::Partitions { dir };
            let map = self.on_server(dir, server, make, data_reply)?;
            let map = SplitMap::from_bytes(&map).ok_or_else(|| unexpected("partitions"))?;
            self.learn(self.dirs[dir.0].inode, &map);
        }
        Ok(())
    }

    /// The number of a directory at a server.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn number_at(&mut self, dir: DirNumber, server: usize) -> Result<u32> {
        let opened = &self.dirs[dir.0];
        if let Some(number) = opened.at[server] {
            return Ok(number);
        }
        let path = opened.path.clone();
        let opened_at = self.open_at(server, &path, dir_reply);
        let (number, inode, map) = match opened_at {
            // Where it was opened first there are links that others have not.
            Err(Error::Refused { errno: "ENOENT", .. }) if server > 0 => {
                let path = self.resolve(&path)?;
                let opened = self.open_at(server, &path, dir_reply)??;
                self.dirs[dir.0].path = path;
                opened
            }
            opened => opened??,
        };
        let opened = &mut self.dirs[dir.0];
        if inode != opened.inode {
            return Err(Error::Refused {
                errno: "ESTALE",
                text: format!("{}: it is another directory by now", opened.path.escape_ascii()),
            });
        }
        opened.map.merge(&map);
        opened.at[server] = Some(number);
        Ok(number)
    }

    /// Splits a directory as far as it goes, before many files come. Where that takes too long, it
    /// goes on without.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub(crate) fn spread(&mut self, dir: DirNumber) -> Result<()> {
        let inode = self.dirs[dir.0].inode;
        let first = self.placement.home(inode, 0) as usize;
        let all = 1 << self.placement.depth_max();
        let mut backoff = Backoff::default();
        while self.dirs[dir.0].map.count() < all {
            self.on_server(dir, first, &|dir| Request::Spread { dir }, done_reply)?;
            self.learn_all(dir)?;
            if backoff.waited > SPREAD_TIMEOUT || !backoff.pause(&self.client) {
                break;
            }
        }
        Ok(())
    }

    /// A call on a name, at whichever server has it.
    pub(crate) fn on_name<'r, R>(
        &mut self,
        dir: DirNumber,
        name: &[u8],
        make: &dyn Fn(u32) -> Request<'r>,
        take: impl Fn(Reply<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut backoff = Backoff::default();
        loop {
            let (server, at) = self.locate(dir, name)?;
            match self.client.call(server, &make(at), &take) {
                Ok(taken) => return taken,
                Err(error) => self.handle_redirect((dir, server), error, &mut backoff)?,
            }
        }
    }

    /// A call on a directory at one server.
    pub(crate) fn on_server<'r, R>(
        &mut self,
        dir: DirNumber,
        server: usize,
        make: &dyn Fn(u32) -> Request<'r>,
        take: impl Fn(Reply<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut backoff = Backoff::default();
        loop {
            let at = self.number_at(dir, server)?;
            match self.client.call(server, &make(at), &take) {
                Ok(taken) => return taken,
                Err(error) => self.handle_redirect((dir, server), error, &mut backoff)?,
            }
        }
    }

    /// What an error means for a call that could go on: it goes on, or the error comes back.
    pub(crate) fn handle_redirect(
        &mut self,
        (dir, server): (DirNumber, usize),
        error: Error,
        backoff: &mut Backoff,
    ) -> Result<()> {
        let goes_on = match &error {
            Error::Elsewhere { dir, map } => self.learn(*dir, map) || backoff.pause(&self.client),
            Error::Refused { errno: "EAGAIN", .. } => {
                self.drop_revoked_leases()?;
                backoff.pause(&self.client)
            }
            // A server that was started anew does not know the numbers that it gave.
            Error::Refused { errno: "ESTALE", .. } if dir.0 > 0 && !backoff.is_reopened => {
                backoff.is_reopened = true;
                self.dirs[dir.0].at[server].take().is_some()
            }
            _ => false,
        };
        if goes_on { Ok(()) } else { Err(error) }
    }

    /// A call on what a path names. A path that was resolved long ago is resolved once more.
    pub(crate) fn on_path<'r, R>(
        &mut self,
        path: &'r [u8],
        make: &dyn Fn(u32, &'r [u8]) -> Request<'r>,
        take: impl Fn(Reply<'_>) -> Result<R>,
    ) -> Result<R> {
        self.flush_creates()?;
        let (parent, name) = self.split(path)?;
        match self.on_name(parent, name, &|dir| make(dir, name), &take) {
            Err(Error::Refused { errno: "ESTALE", .. }) => {}
            done => return done,
        }
        self.forget(parent);
        let (parent, name) = self.split(path)?;
        self.on_name(parent, name, &|dir| make(dir, name), &take)
    }

    /// Directory and name of a path that ends with one.
    pub(crate) fn split<'p>(&mut self, path: &'p [u8]) -> Result<(DirNumber, &'p [u8])> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let path = &path[..end];
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Err(Error::Usage("a path begins with a slash and ends with a name".to_owned()));
        };
        let parent = if slash == 0 { &b"/"[..] } else { &path[..slash] };
        Ok((self.open(parent)?, &path[slash + 1..]))
    }

    /// Makes everything on all servers durable.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn sync(&mut self) -> Result<()> {
        self.flush_creates()?;
        (0..self.client.servers())
            .try_for_each(|server| self.client.call(server, &Request::Flush, |_| ()))
    }
}
