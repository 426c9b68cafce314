//! The server: what `net`'s loops call.
//!
//! A turn of a connection takes its session's lock once, and carries out all whole frames. Replies
//! leave with one write. Datagrams hold a client's number and frames; a session is the same over
//! both ways, so a client may change between them.
//!
//! **Invariant:** without a hello, and without the token where one is asked for, nothing but the
//! hello is answered.

use super::background::BackgroundThread;
use super::core::{Core, RpcError};
use super::dispatch::execute;
use super::leases::Leases;
use super::parts::Parts;
use super::session::{Known, Opened, Session, Sessions, lock};
use crate::caller::{Kind, Stat};
use crate::id::Inode;
use crate::job::random_token;
use crate::namespace::Namespace;
use crate::rpc::client::connection::ClientOptions;
use crate::rpc::codec::{
    CODE_AT, FRAME_BYTES_MAX, Facts, Frame, REVOKED_BIT, Reply, Request, frame, put_frame,
};
use crate::rpc::errno::code_of;
use crate::rpc::lease_clock::LeaseClock;
use crate::user::User;
use keyrack_net::{
    ConnectOptions, DatagramPorts, Endpoint, Handle, Limits, Listener, ListenerKind,
    OUTPUT_SLICE_BYTES, Options, Peer, Served as Step, Server, Verdict, Waker, Worker,
};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where it listens for connections.
    pub listen: Vec<Listener>,
    /// Where it listens for datagrams, and how many bytes their answers have at most.
    pub datagrams: Vec<(Endpoint, usize)>,
    /// Threads.
    pub threads: usize,
    /// What clients have to show. Without one, whoever can connect is served.
    pub token: Option<Vec<u8>>,
    /// Which of the servers this one is.
    pub server: u32,
    /// How many servers share the names.
    pub servers: u32,
    /// Answers without doing anything, to measure the way there and back.
    pub is_dummy: bool,
    /// Files of a partition that make it split, see [`crate::partition`].
    pub split_at: u64,
    /// How it connects to the other servers.
    pub connect: ConnectOptions,
    /// For how long clients may take the way to a directory as known. Without, they ask each time.
    pub lease: Duration,
    /// What tells how much of a lease is left.
    pub lease_clock: LeaseClock,
}

impl Default for ServeOptions {
    /// One server that listens nowhere yet.
    fn default() -> Self {
        ServeOptions {
            listen: Vec::new(),
            datagrams: Vec::new(),
            threads: 1,
            token: None,
            server: 0,
            servers: 1,
            is_dummy: false,
            split_at: SPLIT_AT,
            connect: ConnectOptions::with_timeout(PEER_TIMEOUT),
            lease: LEASE,
            lease_clock: LeaseClock::Machine,
        }
    }
}

/// Files of a partition that make it split, unless somebody says otherwise.
const SPLIT_AT: u64 = 2048;
/// For how long a lease is given.
const LEASE: Duration = Duration::from_secs(1);
/// How long another server may take for an answer.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// A name space behind the protocol.
#[derive(Debug)]
pub struct Service {
    core: Arc<Core>,
    root: Option<Opened>,
    sessions: Sessions,
    options: ServeOptions,
    map: Arc<OnceLock<Vec<String>>>,
    calls: Arc<AtomicU64>,
}

/// A server that runs.
#[derive(Debug)]
pub struct Served {
    /// The loops.
    pub handle: Handle,
    map: Arc<OnceLock<Vec<String>>>,
    calls: Arc<AtomicU64>,
    pub(crate) core: Arc<Core>,
    peers: ClientOptions,
    /// The thread that works with the other servers.
    background: Mutex<Option<BackgroundThread>>,
}

impl Served {
    /// Says where all servers are. Until then a request for the map is refused, and directories do
    /// not split.
    ///
    /// # Errors
    /// An address is none; what the server left undone cannot be read; a thread that cannot be
    /// started.
    pub fn set_map(
        &self,
        addresses: Vec<String>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let first = |text: &String| -> Result<Endpoint, String> {
            // Behind a blank is the address for datagrams.
            let (first, _) = text.split_once(' ').unwrap_or((text, ""));
            first.parse().map_err(|error| format!("'{text}' is no address of a server: {error}"))
        };
        let endpoints = addresses.iter().map(first).collect::<Result<Vec<_>, _>>()?;
        // The first map stays: servers do not move.
        if self.map.set(addresses).is_ok() {
            let background = BackgroundThread::start(&self.core, endpoints, self.peers.clone())?;
            *self.background.lock().unwrap_or_else(PoisonError::into_inner) = background;
        }
        Ok(())
    }

    /// Ends it: first what it does with other servers, then its clients.
    ///
    /// # Errors
    /// A loop that failed; what it could not do with other servers because its store refused it.
    pub fn shutdown(self, grace: Duration) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let background = self.background.into_inner().unwrap_or_else(PoisonError::into_inner);
        let ended = background.map_or(Ok(()), BackgroundThread::end);
        self.handle.shutdown(grace)?;
        Ok(ended?)
    }

    /// Calls that were carried out.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }
}

/// Starts a server; a dummy needs no name space.
///
/// # Errors
/// Listeners that cannot be bound, options that make no sense; a name space without a root.
pub fn serve(
    space: Option<Namespace>,
    options: ServeOptions,
) -> Result<Served, Box<dyn std::error::Error + Send + Sync>> {
    let mut listeners = options.listen.clone();
    for (endpoint, bytes) in &options.datagrams {
        listeners.push(Listener::datagrams(endpoint.clone(), DatagramPorts::Shared, *bytes));
    }
    let threads = options.threads.max(1);
    let peers = ClientOptions {
        // Where none is asked for, any is right.
        token: options.token.clone().unwrap_or_default(),
        timeout: PEER_TIMEOUT,
        connect: options.connect.clone(),
        ..ClientOptions::default()
    };
    let start = match &space {
        Some(space) if !space.is_read_only() => space.epoch() as u32,
        // Nothing counts these starts.
        _ => {
            let [a, b, c, d, ..] = random_token();
            u32::from_le_bytes([a, b, c, d])
        }
    };
    let service = Service::new(space, options, start)?;
    let (map, calls) = (Arc::clone(&service.map), Arc::clone(&service.calls));
    let core = Arc::clone(&service.core);
    let limits =
        Limits { input_bytes_max: FRAME_BYTES_MAX + (64 << 10), output_bytes_max: 8 << 20 };
    let handle =
        Server::start(service, Options { threads, listeners, limits, ..Options::default() })?;
    Ok(Served { handle, map, calls, core, peers, background: Mutex::new(None) })
}

impl keyrack_net::Service for Service {
    type Worker<'a> = Loop<'a>;

    fn worker(&self, _: usize, _: Waker) -> Loop<'_> {
        self.new_loop()
    }
}

/// One thread's part.
#[derive(Debug)]
pub struct Loop<'a> {
    service: &'a Service,
    /// Of each listener, what a datagram's answer may have.
    reply_bytes: Vec<usize>,
}

/// What is known of a connection.
#[derive(Debug, Default)]
pub struct Connection {
    session: Option<Arc<Mutex<Session>>>,
}

impl Worker for Loop<'_> {
    type Connection = Connection;

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) -> Connection {
        Connection::default()
    }

    fn serve(
        &mut self,
        connection: &mut Connection,
        input: &[u8],
        output: &mut Vec<u8>,
        _: &mut Limits,
    ) -> Step {
        let mut consumed = 0;
        let mut calls = 0;
        if connection.session.is_none() {
            match frame(input) {
                Frame::Whole { call, tag, fields, bytes } => {
                    connection.session = self.service.hello(call, tag, fields, output);
                    consumed = bytes;
                }
                Frame::Partial(need) => {
                    return Step { consumed, need, verdict: Verdict::Continue };
                }
                Frame::Broken => {}
            }
        }
        let Some(session) = &connection.session else {
            return Step { consumed, need: 0, verdict: Verdict::Close };
        };
        let mut session = lock(session);
        let turn = loop {
            match frame(&input[consumed..]) {
                Frame::Whole { call, tag, fields, bytes } => {
                    self.service.call(&mut session, call, tag, fields, output);
                    consumed += bytes;
                    calls += 1;
                    if output.len() > OUTPUT_SLICE_BYTES {
                        break Step { consumed, need: 0, verdict: Verdict::Again };
                    }
                }
                Frame::Partial(need) => {
                    break Step { consumed, need, verdict: Verdict::Continue };
                }
                Frame::Broken => break Step { consumed, need: 0, verdict: Verdict::Close },
            }
        };
        // Relaxed: a count for people.
        self.service.calls.fetch_add(calls, Ordering::Relaxed);
        turn
    }

    fn datagram(&mut self, listener: usize, _: SocketAddr, bytes: &[u8], reply: &mut Vec<u8>) {
        let Some((head, mut rest)) = bytes.split_first_chunk::<DATAGRAM_HEAD_BYTES>() else {
            return;
        };
        let (magic, client) = head.split_first_chunk::<4>().expect("a head has a magic number");
        let client: [u8; 16] = client.try_into().expect("the rest of a head is a client");
        if magic != DATAGRAM_MAGIC {
            return;
        }
        let (start, limit) = (reply.len(), self.reply_bytes.get(listener).copied().unwrap_or(0));
        let mut session = self.service.sessions.get(&client);
        let mut calls = 0;
        while let Frame::Whole { call, tag, fields, bytes } = frame(rest) {
            rest = &rest[bytes..];
            let before = reply.len();
            match (&session, tag) {
                (_, 1) => session = self.service.hello(call, tag, fields, reply),
                (Some(session), _) => {
                    self.service.call(&mut lock(session), call, tag, fields, reply);
                }
                (None, _) => refuse(reply, call, "ENOTCONN", "say hello first"),
            }
            calls += 1;
            if reply.len() - start > limit {
                reply.truncate(before);
                let words = "the answer needs a larger datagram: ask for less, or use TCP";
                refuse(reply, call, "EMSGSIZE", words);
                if reply.len() - start > limit {
                    // No room for this either: the client asks again, with fewer calls.
                    reply.truncate(before);
                    break;
                }
            }
        }
        self.service.calls.fetch_add(calls, Ordering::Relaxed);
    }
}

fn refuse(out: &mut Vec<u8>, call: u64, errno: &str, words: &str) {
    put_frame(out, call, code_of(errno), |out| out.extend_from_slice(words.as_bytes()));
}

impl Service {
    pub(crate) fn new(
        space: Option<Namespace>,
        options: ServeOptions,
        start: u32,
    ) -> crate::error::Result<Service> {
        let has_all = options.servers <= 1 || space.as_ref().is_none_or(Namespace::is_read_only);
        if let Some(space) = &space {
            space.serve_as(options.server, options.servers)?;
        }
        let parts = Parts::new(options.servers, options.server, has_all, options.split_at);
        let is_again =
            space.as_ref().is_some_and(|space| !space.is_read_only() && space.epoch() > 1);
        let leases = Leases::new(&options.lease_clock, options.lease, is_again);
        let core = Arc::new(Core::new(space, parts, leases));
        core.restore_txns()?;
        let root = match &core.space {
            Some(space) => {
                let dir = space.root()?;
                let part = core.parts.get(space, dir.state.id)?;
                Some(Opened { dir, part })
            }
            None => None,
        };
        let (map, calls) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(0)));
        Ok(Service { core, root, sessions: Sessions::new(start), options, map, calls })
    }

    /// Without sockets.
    #[cfg(test)]
    pub(crate) fn for_tests(space: Option<Namespace>, options: ServeOptions) -> Service {
        Service::new(space, options, 0).unwrap()
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn new_loop(&self) -> Loop<'_> {
        let reply_bytes: Vec<usize> = self
            .options
            .listen
            .iter()
            .map(|listener| match listener.kind {
                ListenerKind::Datagrams { reply_bytes_max, .. } => reply_bytes_max,
                ListenerKind::Stream { .. } => 0,
            })
            .chain(self.options.datagrams.iter().map(|(_, bytes)| *bytes))
            .collect();
        Loop { service: self, reply_bytes }
    }

    /// The first request of a client. Without a session the connection is closed.
    fn hello(
        &self,
        call: u64,
        tag: u8,
        fields: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Arc<Mutex<Session>>> {
        let Some(Request::Hello { client, uid, gid, groups, token }) = Request::decode(tag, fields)
        else {
            refuse(out, call, "EPROTO", "this is a server of keyrack fs, version 1: say hello");
            return None;
        };
        if !self.options.token.as_deref().is_none_or(|expected| is_same(expected, token)) {
            refuse(out, call, "EACCES", "the token is not the one of this server");
            return None;
        }
        let user = User { uid, gid, groups };
        let session = self.sessions.enter(client, user, self.root.as_ref());
        put_frame(out, call, 0, |out| {
            let welcome = Reply::Welcome {
                server: self.options.server,
                servers: self.options.servers,
                is_read_only: self.core.space.as_ref().is_some_and(Namespace::is_read_only),
            };
            welcome.fields(out);
        });
        Some(session)
    }

    /// One call of a session: carried out, or answered from memory.
    fn call(&self, session: &mut Session, call: u64, tag: u8, fields: &[u8], out: &mut Vec<u8>) {
        let is_change = Request::is_change(tag);
        if is_change {
            match session.known(call) {
                Known::New => {}
                Known::Answered(bytes) => {
                    put_frame(out, call, bytes[0], |out| out.extend_from_slice(&bytes[1..]));
                    return;
                }
                Known::Forgotten => {
                    let words = "nobody knows any more what came of this call: look";
                    return refuse(out, call, "ESTALE", words);
                }
            }
        }
        let start = out.len();
        self.answer(session, call, tag, fields, out);
        if is_change {
            session.keep(call, &out[start..]);
        }
        if self.core.leases.has_revoked(&session.client)
            && let Some(code) = out.get_mut(start + CODE_AT)
        {
            *code |= REVOKED_BIT;
        }
    }

    fn answer(&self, session: &mut Session, call: u64, tag: u8, fields: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let Some(request) = Request::decode(tag, fields) else {
            let words = format!("no {} request is like this", Request::name(tag));
            return refuse(out, call, "EPROTO", &words);
        };
        if request == Request::Map {
            let Some(map) = self.map.get() else {
                return refuse(out, call, "EBUSY", "the servers are still meeting: ask again");
            };
            let addresses = map.iter().map(String::as_bytes).collect();
            return put_frame(out, call, 0, |out| Reply::Map(addresses).fields(out));
        }
        let mut failure = None;
        put_frame(out, call, 0, |out| {
            let done = match &self.core.space {
                Some(space) => execute(&self.core, space, session, &request, out),
                None => {
                    pretend(&request, out);
                    Ok(())
                }
            };
            failure = done.err();
        });
        if let Some(RpcError { code, fields }) = failure {
            out.truncate(start);
            put_frame(out, call, code, |out| out.extend_from_slice(&fields));
        }
    }
}

/// What a dummy answers: that all is well.
pub(crate) fn pretend(request: &Request<'_>, out: &mut Vec<u8>) {
    let stat = Stat {
        kind: Kind::File,
        inode: Inode(0),
        mode: 0o660,
        uid: 0,
        gid: 0,
        nlink: 1,
        size: 0,
        mtime_ns: 0,
        ctime_ns: 0,
        has_data: true,
    };
    // One partition, all of it here.
    let map = &[1, 0, 0, 0, 0, 0, 0, 0];
    // Every request is named: one that comes to be has to say what a dummy answers.
    let reply = match request {
        Request::OpenDir { .. } | Request::Mkdir { .. } => {
            Reply::Dir { dir: 0, inode: 1, lease_ms: 0, map }
        }
        Request::Create { .. } | Request::CreateWith { .. } => {
            Reply::Made { is_new: true, inode: 0 }
        }
        Request::CreateMany { names, .. } => {
            return Reply::Codes(&vec![0; names.len()]).fields(out);
        }
        Request::Lookup { .. }
        | Request::Stat { .. }
        | Request::StatDir { .. }
        | Request::SetAttributes { .. }
        | Request::Symlink { .. }
        | Request::Write { .. } => Reply::Facts(Facts(stat)),
        Request::ReadDir { .. } => {
            Reply::Page { entries: Vec::new(), next: None, shards: vec![(0, 0)] }
        }
        Request::Partitions { .. } => Reply::Data(map),
        Request::ReadLink { .. } | Request::Read { .. } => Reply::Data(&[]),
        // How many, or the number of an operation, which is done when it is asked about.
        Request::BulkIn { .. }
        | Request::RenameAcross { .. }
        | Request::MkdirAcross { .. }
        | Request::RmdirAcross { .. } => Reply::Count(0),
        Request::Revoked => Reply::Inodes(Vec::new()),
        Request::CloseDir { .. }
        | Request::Unlink { .. }
        | Request::Rmdir { .. }
        | Request::Rename { .. }
        | Request::Flush
        | Request::Spread { .. }
        | Request::Operation { .. } => Reply::Done,
        // Answered before this, or by servers that have something.
        Request::Hello { .. } | Request::Map | Request::Ping | Request::Peer(_) => Reply::Done,
    };
    reply.fields(out);
}

/// Takes as long for any token of the right length.
fn is_same(expected: &[u8], given: &[u8]) -> bool {
    expected.len() == given.len()
        && expected.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
