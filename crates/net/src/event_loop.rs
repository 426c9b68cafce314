//! One loop thread: it waits for the kernel's events, runs an iteration, and starts again.
//!
//! ```text
//!   epoll_wait -> events, wakes, mail -> accept
//!              -> [ begin_iteration, steps, end_iteration ] -> writes -> deadlines
//! ```
//!
//! A request at depth 1 costs three system calls: `epoll_wait`, `read`, `write`. A short read has
//! emptied the socket, so the loop does not read again until the kernel reports new bytes. A write
//! is tried at once; the loop waits for room only when the socket is full. It reads the clock once
//! an iteration.
//!
//! A connection gets one step an iteration, with one read at most. A connection with more to do is
//! queued for the next iteration, which then does not wait. So a client that sends much does not
//! delay the others. A worker that has used up its units ends an iteration early: the connections
//! that are left come first in the next. Before that, a quick iteration answers cheap commands.
//!
//! **Invariants:** a connection is queued whenever [`Connection::can_step`] holds and it is not in
//! the iteration that runs. The replies of an iteration are sent, or deferred, after its
//! `end_iteration`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use keyrack_measure::Clock;
use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Token};

use crate::acceptor::{Accepted, Acceptor};
use crate::buffer::POOL_BYTES_MAX;
use crate::closer::Closer;
use crate::connection::{CONNECTION_BYTES, Connection, Phase, SharedBuffers};
use crate::datagrams::{self, Bound, Replies};
use crate::deferred_replies::DeferredReplies;
use crate::listen::Share;
use crate::loop_handles::{AcceptedSocket, LoopHandle, LoopHandles};
use crate::memory::LoopMemory;
#[cfg(feature = "tls")]
use crate::options::ListenerKind;
use crate::options::Options;
use crate::service::{IterationEnd, Peer, Worker};
use crate::slab::{Key, Slab};
use crate::socket::Socket;
use crate::stats::CloseReason;
use crate::transport::{self, Sent, Transport};
use crate::wheel::{Reminder, Wheel};

const EVENTS_MAX: usize = 1024;
const ACCEPTS_PER_ITERATION_MAX: usize = 64;
/// The divisor of the memory of all connections that gives the share of the pools of all loops.
const POOLS_SHARE: usize = 8;
/// Reads that empty a socket when its connection is closed for a shutdown.
const LAST_READS_MAX: usize = 16;

/// The token of the waker. Those of listeners, datagram sockets and connections follow.
pub(crate) const WAKER: Token = Token(0);

/// The state of one loop thread.
pub(crate) struct EventLoop<'a, W: Worker> {
    index: usize,
    worker: W,
    poll: Poll,
    loops: &'a Arc<LoopHandles>,
    handle: &'a LoopHandle,
    options: &'a Options,
    clock: Clock,
    now_ns: u64,
    acceptor: Acceptor,
    sockets: Vec<Bound>,
    /// The token of the first connection.
    first_token: usize,
    connections: Slab<Connection<W::Connection>>,
    /// Connections that the next iteration steps.
    queue: Vec<Key>,
    /// The last iteration used up its units before all connections were stepped, or with the last.
    is_behind: bool,
    /// Connections that this iteration stepped and that have something to send.
    touched: Vec<Key>,
    replies: Replies,
    deferred: DeferredReplies,
    wheel: Wheel,
    memory: LoopMemory,
    buffers: SharedBuffers,
    datagram_memory: Vec<u8>,
    due: Vec<Reminder>,
    accepted: Vec<AcceptedSocket>,
    endings: Vec<Key>,
    /// When the loop ends, once it was told to.
    stop_ns: Option<u64>,
}

impl<'a, W: Worker> EventLoop<'a, W> {
    /// Registers what the loop listens on.
    pub(crate) fn new(
        index: usize,
        worker: W,
        poll: Poll,
        share: Share,
        loops: &'a Arc<LoopHandles>,
        options: &'a Options,
    ) -> io::Result<Self> {
        let clock = Clock::vdso();
        let now_ns = clock.ticks();
        let memory = LoopMemory::new(&options.memory);
        let pool_bytes_max = options.memory.bytes_max() / POOLS_SHARE / options.threads;
        let Share { mut listeners, datagrams: mut sockets } = share;
        let mut next_token = WAKER.0 + 1;
        for listener in &mut listeners {
            listener.socket.register(poll.registry(), Token(next_token))?;
            next_token += 1;
        }
        for bound in &mut sockets {
            bound.socket.register(poll.registry(), Token(next_token), Interest::READABLE)?;
            next_token += 1;
        }
        Ok(EventLoop {
            index,
            worker,
            poll,
            loops,
            handle: loops.handle(index),
            options,
            clock,
            now_ns,
            acceptor: Acceptor::new(listeners),
            sockets,
            first_token: next_token,
            connections: Slab::new(),
            queue: Vec::new(),
            is_behind: false,
            touched: Vec::new(),
            replies: Replies::default(),
            deferred: DeferredReplies::new(memory.charge()),
            wheel: Wheel::new(now_ns),
            buffers: SharedBuffers::new(&memory, pool_bytes_max.min(POOL_BYTES_MAX)),
            memory,
            datagram_memory: Vec::new(),
            due: Vec::new(),
            accepted: Vec::new(),
            endings: Vec::new(),
            stop_ns: None,
        })
    }

    /// Runs until it was told to stop and everything is closed.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut serving = Vec::new();
        loop {
            match self.poll.poll(&mut events, self.patience()) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                polled => polled?,
            }
            self.now_ns = self.clock.ticks();
            for event in &events {
                self.note_event(event);
            }
            self.look_around();
            std::mem::swap(&mut self.queue, &mut serving);
            if self.is_behind {
                self.iterate(&mut serving, true);
                std::mem::swap(&mut self.queue, &mut serving);
            }
            self.iterate(&mut serving, false);
            self.expire();
            self.memory.trim();
            if self.is_over() {
                return Ok(());
            }
        }
    }

    /// How long the kernel may wait.
    fn patience(&self) -> Option<Duration> {
        let has_work = !self.queue.is_empty()
            || self.acceptor.is_ready()
            || self.sockets.iter().any(|bound| bound.is_ready);
        if has_work {
            return Some(Duration::ZERO);
        }
        let until = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(self.now_ns));
        let moments = [
            self.wheel.wait(self.now_ns),
            self.acceptor.retry_ns().map(until),
            self.stop_ns.map(until),
        ];
        moments.into_iter().flatten().min()
    }

    /// Notes what the kernel tells.
    fn note_event(&mut self, event: &Event) {
        let token = event.token().0;
        if token >= self.first_token {
            self.note_connection_event(token - self.first_token, event);
        } else if token > WAKER.0 {
            let index = token - WAKER.0 - 1;
            let listeners = self.acceptor.listeners.len();
            if let Some(listener) = self.acceptor.listeners.get_mut(index) {
                listener.is_ready = true;
            } else if let Some(bound) = self.sockets.get_mut(index - listeners) {
                bound.is_ready = true;
            }
        }
    }

    fn note_connection_event(&mut self, index: usize, event: &Event) {
        // The entry may have a new connection since: it is read once in vain.
        let Some(key) = self.connections.key_at(index) else { return };
        let Some(connection) = self.connections.get_mut(key) else { return };
        let is_broken = event.is_error() || event.is_write_closed();
        if event.is_read_closed() || is_broken {
            connection.is_hung_up = true;
            connection.is_readable = true;
        }
        connection.is_readable |= event.is_readable();
        let has_room = connection.awaits_room && (event.is_writable() || is_broken);
        if has_room && !connection.is_deferred {
            self.send(key);
        } else {
            self.enqueue(key);
        }
    }

    /// Queues a connection if there is something to do.
    fn enqueue(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let is_wanted = self.stop_ns.is_none() || connection.phase != Phase::Open;
        if !connection.is_queued && connection.can_step() && (is_wanted || connection.is_busy()) {
            connection.is_queued = true;
            self.queue.push(key);
        }
    }

    /// Everything that is not a connection's own: stop, durable iterations, mail, listeners.
    fn look_around(&mut self) {
        let was_woken = self.handle.waker.consume();
        if was_woken && let Some(deadline_ns) = self.loops.stop_deadline_ns() {
            self.begin_stop(deadline_ns);
        }
        if !self.deferred.is_empty() {
            self.release_deferred();
        }
        if was_woken {
            self.collect_mail();
        }
        self.acceptor.advance(self.now_ns);
        if self.acceptor.is_ready() {
            self.accept();
        }
    }

    fn release_deferred(&mut self) {
        self.worker.poll_deferred();
        while let Some(mut group) = self.deferred.release(|token| self.worker.is_done(token)) {
            group.replies.send(&self.sockets, &self.handle.counters);
            for key in &group.keys {
                if let Some(connection) = self.connections.get_mut(*key) {
                    connection.is_deferred = false;
                    self.send(*key);
                }
            }
            self.deferred.recycle(group);
        }
    }

    fn accept(&mut self) {
        for index in 0..self.acceptor.listeners.len() {
            for _ in 0..ACCEPTS_PER_ITERATION_MAX {
                if !self.acceptor.listeners[index].is_ready || self.acceptor.is_paused() {
                    break;
                }
                let listener = self.acceptor.listeners[index].listener;
                let accepted = {
                    let _others_accept_too = self.loops.while_accepting();
                    self.acceptor.accept(index)
                };
                match accepted {
                    Accepted::Client(socket, address) => {
                        self.admit(AcceptedSocket { socket, listener, address });
                    }
                    Accepted::Exhausted => self.refuse_by_spare(index, listener),
                    Accepted::Nobody => break,
                    Accepted::Failed => self.handle.counters.accept_errors.add(1),
                }
            }
        }
    }

    /// Refuses one client, with the spare descriptor.
    fn refuse_by_spare(&mut self, index: usize, listener: usize) {
        let _no_other_accepts = self.loops.while_no_other_accepts();
        if let Some(socket) = self.acceptor.accept_by_spare(index, self.now_ns) {
            self.handle.counters.accept_errors.add(1);
            self.refuse(socket, listener);
        }
        self.acceptor.restore(self.now_ns);
    }

    fn admit(&mut self, accepted: AcceptedSocket) {
        if !self.loops.reserve_connection() {
            self.refuse(accepted.socket, accepted.listener);
        } else if let Some(accepted) = self.loops.assign(self.index, accepted) {
            self.open(accepted);
        }
    }

    /// Replies that there are too many clients, and closes.
    fn refuse(&mut self, mut socket: Socket, listener: usize) {
        self.handle.counters.refused.add(1);
        let reply = self.worker.refusal(listener);
        if !self.is_encrypted(listener) {
            // Best effort: the client may be gone.
            let _ = socket.send(reply);
        }
        socket.shutdown_write();
        self.buffers.empty(&socket, LAST_READS_MAX);
    }

    #[cfg(feature = "tls")]
    fn is_encrypted(&self, listener: usize) -> bool {
        matches!(self.options.listeners[listener].kind, ListenerKind::Stream { tls: Some(_), .. })
    }

    #[cfg(not(feature = "tls"))]
    fn is_encrypted(&self, _listener: usize) -> bool {
        false
    }

    #[cfg(feature = "tls")]
    fn transport(&self, socket: Socket, listener: usize) -> Option<Transport> {
        let session = match &self.options.listeners[listener].kind {
            ListenerKind::Stream { tls: Some(tls), .. } => Some(tls.session()?),
            _ => None,
        };
        Some(Transport::new(socket, session))
    }

    #[cfg(not(feature = "tls"))]
    fn transport(&self, socket: Socket, _listener: usize) -> Option<Transport> {
        Some(Transport::new(socket))
    }

    fn collect_mail(&mut self) {
        let mut accepted = std::mem::take(&mut self.accepted);
        let mut endings = std::mem::take(&mut self.endings);
        self.handle.collect(&mut accepted, &mut endings);
        for accepted in accepted.drain(..) {
            if self.stop_ns.is_some() {
                self.loops.release_connection(self.index);
            } else {
                self.open(accepted);
            }
        }
        self.accepted = accepted;
        for key in endings.drain(..) {
            self.end(key);
        }
        self.endings = endings;
    }

    /// Ends a connection at the request of another thread. Its replies are sent first, deferred
    /// ones after their token.
    fn end(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.phase == Phase::Open {
            connection.end(CloseReason::Worker);
            if !connection.is_deferred {
                self.send(key);
            }
        }
    }

    /// Opens a connection that is counted and was assigned to this loop.
    fn open(&mut self, accepted: AcceptedSocket) {
        let AcceptedSocket { socket, listener, address } = accepted;
        let mut charge = self.memory.charge();
        let bytes = CONNECTION_BYTES + transport::memory_bytes(self.is_encrypted(listener));
        if !charge.set(bytes) {
            self.loops.release_connection(self.index);
            self.refuse(socket, listener);
            return;
        }
        socket.set_up();
        let local = socket.local_address();
        let peer = Peer { address, local, is_encrypted: self.is_encrypted(listener) };
        let Some(transport) = self.transport(socket, listener) else {
            self.loops.release_connection(self.index);
            return;
        };
        let mut limits = self.options.limits;
        let state = self.worker.open(listener, &peer, &mut limits);
        let connection = Connection::new(state, transport, charge, limits, self.now_ns);
        self.handle.counters.accepted.add(1);
        // There are fewer connections than descriptors, and those are fewer than 2^31.
        let Some(key) = self.connections.insert(connection) else { return };
        let token = Token(self.first_token + key.index());
        let registry = self.poll.registry();
        let Some(connection) = self.connections.get_mut(key) else { return };
        if connection.transport.socket.register(registry, token, Interest::READABLE).is_err() {
            self.close(key, CloseReason::Io);
            return;
        }
        self.worker.opened(&mut connection.state, Closer::new(self.loops, self.index, key));
        self.remind(key);
    }

    /// Steps every connection of the queue once, until the iteration is spent, and sends or defers
    /// what came of it. A quick iteration is for all of them.
    fn iterate(&mut self, serving: &mut Vec<Key>, is_quick: bool) {
        let has_datagrams = self.sockets.iter().any(|bound| bound.is_ready);
        if serving.is_empty() && !has_datagrams {
            self.is_behind = false;
            return;
        }
        self.handle.counters.iterations.add(1);
        self.worker.begin_iteration(self.now_ns, is_quick);
        let mut stepped = 0;
        while stepped < serving.len() && (is_quick || !self.worker.is_spent()) {
            self.step(serving[stepped]);
            stepped += 1;
        }
        self.is_behind = !is_quick && self.worker.is_spent();
        // Connections that were not stepped are the first of the next iteration.
        serving.drain(..stepped);
        self.queue.splice(..0, serving.drain(..));
        if has_datagrams {
            self.serve_datagrams();
        }
        match self.worker.end_iteration() {
            IterationEnd::Durable => {
                self.replies.send(&self.sockets, &self.handle.counters);
                let mut touched = std::mem::take(&mut self.touched);
                for key in touched.drain(..) {
                    self.send_touched(key);
                }
                self.touched = touched;
            }
            IterationEnd::Wait(token) => self.defer(token),
        }
    }

    fn serve_datagrams(&mut self) {
        for index in 0..self.sockets.len() {
            if self.sockets[index].is_ready {
                datagrams::serve(
                    &mut self.sockets,
                    index,
                    &mut self.worker,
                    &mut self.datagram_memory,
                    &mut self.replies,
                    &self.handle.counters,
                );
            }
        }
    }

    fn step(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.is_queued = false;
        if !connection.can_step() {
            return;
        }
        let (worker, buffers) = (&mut self.worker, &mut self.buffers);
        let had_request = connection.request_since_ns();
        let stepped = connection.step(worker, buffers, &self.handle.counters, self.now_ns);
        if let Err(reason) = stepped {
            self.close(key, reason);
            return;
        }
        if self.stop_ns.is_some() {
            connection.end_unless_busy();
        }
        let is_late_now = had_request.is_none() && connection.request_since_ns().is_some();
        if connection.wants_to_send() {
            if !connection.is_touched {
                connection.is_touched = true;
                self.touched.push(key);
            }
        } else {
            self.enqueue(key);
        }
        if is_late_now {
            self.remind(key);
        }
    }

    fn send_touched(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.is_touched = false;
            self.send(key);
        }
    }

    /// Lets the replies of this iteration wait.
    fn defer(&mut self, token: u64) {
        self.handle.counters.iterations_deferred.add(1);
        let mut group = self.deferred.group();
        std::mem::swap(&mut group.replies, &mut self.replies);
        let mut touched = std::mem::take(&mut self.touched);
        for key in touched.drain(..) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.output.is_empty() {
                // A handshake, or an end without a reply: nothing that could be lost.
                self.send_touched(key);
            } else {
                connection.is_touched = false;
                connection.is_deferred = true;
                group.keys.push(key);
            }
        }
        self.touched = touched;
        if group.keys.is_empty() && group.replies.is_empty() {
            self.deferred.recycle(group);
        } else {
            let lost = self.deferred.defer(token, group);
            self.handle.counters.datagram_replies_lost.add(lost);
        }
    }

    /// Sends what a connection has, and goes on with whatever follows from that.
    fn send(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let sent = connection.transport.send(&mut connection.output, &self.handle.counters);
        match sent {
            Err(_) => self.close(key, CloseReason::Io),
            Ok(Sent::All) => {
                connection.stalled_since_ns = None;
                connection.output.return_if_empty(&mut self.buffers.pool);
                // Less than before, so it is there.
                let is_counted = connection.count_memory(&mut self.buffers.pool);
                debug_assert!(is_counted, "less can always be held");
                let phase = connection.phase;
                if connection.awaits_room {
                    self.await_room(key, false);
                }
                match phase {
                    Phase::Flushing(reason) => self.conclude(key, reason),
                    Phase::Open | Phase::Lingering { .. } => self.enqueue(key),
                }
            }
            Ok(Sent::Part { has_moved }) => {
                connection.output.compact(&mut self.buffers.pool);
                if !connection.count_memory(&mut self.buffers.pool) {
                    // It does not read what it would have to be told.
                    self.close(key, CloseReason::Memory);
                    return;
                }
                if has_moved || connection.stalled_since_ns.is_none() {
                    connection.stalled_since_ns = Some(self.now_ns);
                }
                if !connection.awaits_room {
                    self.await_room(key, true);
                    self.remind(key);
                }
                self.enqueue(key);
            }
        }
    }

    /// Asks the kernel to tell when there is room, or no longer to.
    fn await_room(&mut self, key: Key, is_wanted: bool) {
        let token = Token(self.first_token + key.index());
        let Some(connection) = self.connections.get_mut(key) else { return };
        let mut interest = Interest::READABLE;
        if is_wanted {
            interest |= Interest::WRITABLE;
        }
        let registry = self.poll.registry();
        connection.awaits_room = is_wanted;
        if connection.transport.socket.reregister(registry, token, interest).is_err() {
            self.close(key, CloseReason::Io);
        }
    }

    /// All replies of an ending connection are sent.
    fn conclude(&mut self, key: Key, reason: CloseReason) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let lingers = connection.begin_lingering(reason, &self.handle.counters, self.now_ns);
        if lingers && self.stop_ns.is_none() {
            self.remind(key);
            self.enqueue(key);
            return;
        }
        if lingers {
            // The loop does not wait for clients at the end. It reads what they have sent, so that
            // the kernel has no reason to reset the connection.
            self.buffers.empty(&connection.transport.socket, LAST_READS_MAX);
        }
        self.close(key, reason);
    }

    fn close(&mut self, key: Key, reason: CloseReason) {
        let Some(mut connection) = self.connections.remove(key) else { return };
        // Closing the descriptor takes it out of the poll.
        connection.output.discard(&mut self.buffers.pool);
        connection.release_memory();
        if self.connections.len() == 0 {
            self.buffers.pool.clear();
        }
        self.memory.trim();
        self.handle.counters.count_closed(reason);
        self.loops.release_connection(self.index);
        // Last, so that the worker finds the connection and its memory released.
        self.worker.closed(connection.state, reason);
    }

    /// Enters the next deadline of a connection, if it is before what is entered.
    fn remind(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some((at_ns, _)) = connection.deadline(&self.options.timeouts) else { return };
        let tick = self.wheel.place(at_ns);
        if tick < connection.tick {
            connection.tick = tick;
            self.wheel.enter(key, tick);
        }
    }

    /// Closes the connections whose deadlines have passed.
    fn expire(&mut self) {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(self.now_ns, &mut due);
        for Reminder { key, tick } in due.drain(..) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            if connection.tick != tick {
                continue;
            }
            connection.tick = crate::wheel::NEVER;
            match connection.deadline(&self.options.timeouts) {
                Some((at_ns, reason)) if at_ns <= self.now_ns => self.close(key, reason),
                _ => self.remind(key),
            }
        }
        self.due = due;
    }

    /// Accepts and reads nothing more: requests that were read are served, their replies are sent,
    /// and the connections are closed.
    fn begin_stop(&mut self, deadline_ns: u64) {
        self.stop_ns = Some(deadline_ns);
        self.acceptor = Acceptor::new(Vec::new());
        for bound in &mut self.sockets {
            bound.is_ready = false;
            // The socket itself stays: replies may be deferred. A failure costs needless wakes.
            let _ = bound.socket.deregister(self.poll.registry());
        }
        for key in self.connections.keys() {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.end_unless_busy();
            match connection.phase {
                Phase::Flushing(_) if !connection.is_deferred => self.send(key),
                Phase::Lingering { reason, .. } => self.close(key, reason),
                Phase::Open | Phase::Flushing(_) => self.enqueue(key),
            }
        }
    }

    /// Was the loop told to stop, and is everything done, or the time up?
    fn is_over(&mut self) -> bool {
        let Some(stop_ns) = self.stop_ns else { return false };
        if self.connections.len() == 0 && self.deferred.is_empty() {
            return true;
        }
        if self.now_ns < stop_ns {
            return false;
        }
        for key in self.connections.keys() {
            self.close(key, CloseReason::Shutdown);
        }
        true
    }
}
