//! Requests on their way out: drawn, written behind what waits, sent with one reading of the clock.

use keyrack_wire::outcome::Kind;

use super::connection::ConnectionError;
use super::in_flight::{InFlight, flags};
use super::trace_source::TraceSource;
use super::transport::Transport;
use super::{GAPS_MAX, Worker};
use crate::target::{ASKING, Request, encode};

impl Worker<'_> {
    /// Puts as many requests on a connection as may be under way, and sends them.
    pub(super) fn pump(&mut self, at: usize) {
        if self.is_plain {
            return self.pump_plain(at);
        }
        if !self.connections[at].is_alive() {
            return;
        }
        let depth = self.depth();
        while self.connections[at].in_flight.len() < depth {
            let Some(request) = self.next(at) else { break };
            self.write_request(at, request);
        }
        if self.connections[at].has_output() || self.connections[at].unstamped > 0 {
            self.flush(at);
        }
        while let Some(other) = self.touched.pop() {
            self.flush(other);
        }
    }

    /// How many requests may be under way on a connection.
    #[inline]
    pub(super) fn depth(&self) -> usize {
        if self.phase.is_load { self.plan.load_depth } else { self.plan.settings.depth }
    }

    /// Lets a connection send, or where it is gone another that draws from the same workload.
    pub(super) fn wake(&mut self, at: usize) {
        let shares = |other: &usize| match (&self.router, &self.trace) {
            (_, Some(_)) => true,
            (Some(router), None) => other % router.clients == at % router.clients,
            (None, None) => *other == at,
        };
        let is_alive = |at: &usize| self.connections[*at].is_alive();
        let others = (0..self.connections.len()).filter(shares);
        if let Some(at) = std::iter::once(at).chain(others).find(is_alive) {
            self.pump(at);
        }
    }

    /// Do latencies count from an intended start?
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.phase.rate > 0.0 || self.trace.as_ref().is_some_and(TraceSource::is_paced)
    }

    /// Writes a request behind a connection's output.
    #[inline]
    pub(super) fn write_request(&mut self, at: usize, request: InFlight) {
        let plan = self.plan;
        let (workload, connection) = (&mut self.workloads[at], &mut self.connections[at]);
        if request.flags & (flags::TRACE_KEY | flags::ASK) == 0
            && let (Kind::Get, Some(template), _) | (Kind::Set, _, Some(template)) =
                (request.kind, &self.lookup, &self.store)
            && (request.kind == Kind::Get || template.fits(request.size as usize, request.ttl_s))
        {
            let opaque = connection.next_opaque();
            let output = connection.output();
            let start = output.len();
            output.extend_from_slice(template.head());
            plan.keys.overwrite(request.key, template.patch(&mut output[start..], opaque));
            if request.kind == Kind::Set {
                let value = plan.values.plain(request.size as usize, &mut workload.offset);
                output.extend_from_slice(value);
                output.extend_from_slice(template.tail());
            }
            return self.add(at, request);
        }
        self.key.clear();
        if request.flags & flags::TRACE_KEY != 0 {
            self.key.extend_from_slice(self.trace_keys.key(request.key));
        } else {
            plan.keys.append(request.key, &mut self.key);
        }
        let mut encoded = Request::new(request.kind, &self.key, &[]);
        if request.kind == Kind::Mget {
            self.many.clear();
            self.many.push(&self.key);
            for _ in 1..request.size {
                self.value.clear();
                plan.keys.append(workload.draw_key(), &mut self.value);
                self.many.push(&self.value);
            }
            encoded.keys = Some(&self.many);
        } else if request.kind.has_value() {
            encoded.value = if plan.settings.verify {
                self.value.clear();
                workload.nonce = workload.nonce.wrapping_add(1);
                let size = request.size as usize;
                plan.values.append_checked(&self.key, workload.nonce, size, &mut self.value);
                &self.value
            } else {
                plan.values.plain(request.size as usize, &mut workload.offset)
            };
        }
        encoded.number = match (request.kind, &self.trace) {
            (Kind::Cas, Some(trace)) => trace.token(&self.key),
            _ => 1,
        };
        encoded.ttl_s = request.ttl_s;
        encoded.opaque = connection.next_opaque();
        encoded.assoc = plan.settings.assoc;
        if request.flags & flags::ASK != 0 {
            connection.output().extend_from_slice(ASKING);
            let (kind, flags) = (Kind::Flush, flags::ASKING);
            connection.in_flight.push_back(InFlight { kind, flags, ..request });
            connection.unstamped += 1;
            self.live.sent.add(1);
        }
        encode(plan.settings.protocol, connection.output(), &encoded);
        self.add(at, request);
    }

    /// What was written behind the output is under way.
    #[inline]
    fn add(&mut self, at: usize, request: InFlight) {
        let connection = &mut self.connections[at];
        connection.in_flight.push_back(request);
        connection.unstamped += 1;
        self.live.sent.add(1);
        if request.flags & (flags::LOAD | flags::PURGE) == 0 {
            self.account.depth.record(connection.in_flight.len() as u64);
        }
    }

    /// Sends what a connection has, by one reading of the clock.
    #[inline]
    pub(super) fn flush(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let count = connection.unstamped as u64;
        if count > 0 {
            let now = self.clock.ticks();
            connection.stamp(now);
            if self.phase.rate > 0.0 && self.done.gaps_ns.len() < GAPS_MAX {
                if self.last_send > 0 {
                    self.done.gaps_ns.push(self.clock.ns_between(self.last_send, now));
                    let more = (count - 1).min(GAPS_MAX as u64) as usize;
                    self.done.gaps_ns.extend(std::iter::repeat_n(0, more));
                }
                self.last_send = now;
            }
        }
        match connection.flush() {
            Ok(None) => {}
            Ok(Some(is_armed)) => {
                // Memory wakes by itself when there is room.
                if let Some(stream @ Transport::Socket(_)) = &connection.stream
                    && let Err(cause) = self.poller.arm_write(stream, at, is_armed)
                {
                    self.lose(at, ConnectionError::Broken(cause));
                }
            }
            Err(trouble) => self.lose(at, trouble),
        }
    }
}
