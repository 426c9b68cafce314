//! The service that the event loops call.
//!
//! A step of a connection takes its session's lock once, and carries out all whole frames. Replies
//! leave with one write. Datagrams hold a client's number and frames; a session is the same over
//! both ways, so a client may change between them.
//!
//! **Invariant:** without a hello, and without the token where one is required, nothing but the
//! hello is answered.

use super::core::Core;
use super::dispatch::execute;
use super::dummy::pretend;
use super::error::RpcError;
use super::leases::Leases;
use super::options::ServeOptions;
use super::parts::Parts;
use super::session::{Known, Opened, Session, Sessions, lock};
use crate::namespace::Namespace;
use crate::rpc::codec::{
    CODE_AT, DATAGRAM_HEAD_BYTES, DATAGRAM_MAGIC, Frame, REVOKED_BIT, Reply, Request, frame,
    put_frame,
};
use crate::rpc::errno::code_of;
use keyrack_net::{
    Limits, ListenerKind, OUTPUT_SLICE_BYTES, Peer, Served as Step, Verdict, Waker, Worker,
};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// A name space behind the protocol.
#[derive(Debug)]
pub struct Service {
    pub(crate) core: Arc<Core>,
    root: Option<Opened>,
    sessions: Sessions,
    options: ServeOptions,
    pub(crate) map: Arc<OnceLock<Vec<String>>>,
    pub(crate) calls: Arc<AtomicU64>,
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
        let Some(Request::Hello { client, user, token, .. }) = Request::decode(tag, fields) else {
            refuse(out, call, "EPROTO", "this is a server of keyrack fs, version 1: say hello");
            return None;
        };
        if !self.options.token.as_deref().is_none_or(|expected| is_same(expected, token)) {
            refuse(out, call, "EACCES", "the token is not the one of this server");
            return None;
        }
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

/// Takes as long for any token of the right length.
fn is_same(expected: &[u8], given: &[u8]) -> bool {
    expected.len() == given.len()
        && expected.iter().zip(given).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
