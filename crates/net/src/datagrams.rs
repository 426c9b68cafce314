//! UDP sockets of one loop: what arrives goes to the worker at once, replies wait for the end of
//! the iteration.
//!
//! The address of a datagram proves nothing, so a reply has a limit that its listener fixes
//! ([`ListenerKind::Datagrams`](crate::ListenerKind)). A datagram that is too large is read into
//! one byte more than the limit, which tells it apart on every system; it is dropped whole.

use std::io;
use std::net::SocketAddr;

use mio::net::UdpSocket;

use crate::service::Worker;
use crate::stats::Counters;

const DATAGRAMS_PER_ITERATION_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) socket: UdpSocket,
    pub(crate) listener: usize,
    pub(crate) request_bytes_max: usize,
    pub(crate) reply_bytes_max: usize,
    /// May it have something to read?
    pub(crate) is_ready: bool,
}

/// One reply: its socket, its destination, and where its bytes end.
#[derive(Debug)]
struct Reply {
    socket: usize,
    to: SocketAddr,
    end: usize,
}

/// Replies of one iteration, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    replies: Vec<Reply>,
    bytes: Vec<u8>,
}

impl Replies {
    pub(crate) fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.replies.clear();
        self.bytes.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.replies.capacity() * size_of::<Reply>()
    }

    /// Drops them and their memory. Returns how many they were.
    pub(crate) fn drop_all(&mut self) -> u64 {
        let count = self.replies.len() as u64;
        *self = Replies::default();
        count
    }

    /// Sends them. What the kernel does not take is lost and counted, as datagrams are.
    pub(crate) fn send(&mut self, sockets: &[Bound], counters: &Counters) {
        let mut start = 0;
        for reply in &self.replies {
            let bytes = &self.bytes[start..reply.end];
            start = reply.end;
            let sent = sockets.get(reply.socket).map(|bound| bound.socket.send_to(bytes, reply.to));
            match sent {
                Some(Ok(_)) => counters.datagrams_out.add(1),
                Some(Err(_)) | None => counters.datagram_replies_lost.add(1),
            }
        }
        self.clear();
    }
}

/// Receives what one socket has, up to a limit an iteration, and has it answered.
pub(crate) fn serve<W: Worker>(
    sockets: &mut [Bound],
    index: usize,
    worker: &mut W,
    memory: &mut Vec<u8>,
    replies: &mut Replies,
    counters: &Counters,
) {
    let bound = &mut sockets[index];
    memory.resize(bound.request_bytes_max + 1, 0);
    for _ in 0..DATAGRAMS_PER_ITERATION_MAX {
        let (length, from) = match bound.socket.recv_from(memory) {
            Ok(received) => received,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                bound.is_ready = false;
                return;
            }
            // An earlier reply was refused by its receiver; the socket goes on.
            Err(_) => continue,
        };
        if length > bound.request_bytes_max {
            counters.datagrams_oversized.add(1);
            continue;
        }
        counters.datagrams_in.add(1);
        counters.bytes_in.add(length as u64);
        let start = replies.bytes.len();
        worker.datagram(bound.listener, from, &memory[..length], &mut replies.bytes);
        let reply_length = replies.bytes.len().saturating_sub(start);
        if reply_length > bound.reply_bytes_max {
            counters.datagram_replies_oversized.add(1);
            replies.bytes.truncate(start);
        } else if reply_length > 0 {
            counters.bytes_out.add(reply_length as u64);
            replies.replies.push(Reply { socket: index, to: from, end: replies.bytes.len() });
        }
    }
}
