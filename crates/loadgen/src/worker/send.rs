//! Requests on their way out: drawn, written behind what waits, sent with one reading of the clock.

use super::connection::{Flight, Trouble, flags};
use super::feed::Feed;
use super::wire::Wire;
use super::{GAPS_MAX, Worker};
use crate::target::{ASKING, Kind, Request, encode};

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
        while self.connections[at].flights.len() < depth {
            let Some(flight) = self.next(at) else { break };
            self.launch(at, flight);
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

    /// Lets a connection send, or where it is gone another that draws from the same lane.
    pub(super) fn wake(&mut self, at: usize) {
        let shares = |other: &usize| match (&self.router, &self.feed) {
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
        self.phase.rate > 0.0 || self.feed.as_ref().is_some_and(Feed::is_paced)
    }

    /// Writes a request behind a connection's output.
    #[inline]
    pub(super) fn launch(&mut self, at: usize, flight: Flight) {
        let plan = self.plan;
        let (lane, connection) = (&mut self.lanes[at], &mut self.connections[at]);
        if flight.flags & (flags::KEPT_KEY | flags::ASK) == 0
            && let (Kind::Get, Some(template), _) | (Kind::Set, _, Some(template)) =
                (flight.kind, &self.lookup, &self.store)
            && (flight.kind == Kind::Get || template.fits(flight.size as usize, flight.ttl_s))
        {
            let opaque = connection.next_opaque();
            let output = connection.output();
            let start = output.len();
            output.extend_from_slice(template.head());
            plan.keys.overwrite(flight.key, template.patch(&mut output[start..], opaque));
            if flight.kind == Kind::Set {
                let value = plan.values.plain(flight.size as usize, &mut lane.offset);
                output.extend_from_slice(value);
                output.extend_from_slice(template.tail());
            }
            return self.add(at, flight);
        }
        self.key.clear();
        if flight.flags & flags::KEPT_KEY != 0 {
            self.key.extend_from_slice(self.kept.key(flight.key));
        } else {
            plan.keys.append(flight.key, &mut self.key);
        }
        let mut request = Request::new(flight.kind, &self.key, &[]);
        if flight.kind == Kind::Mget {
            self.many.clear();
            self.many.push(&self.key);
            for _ in 1..flight.size {
                self.value.clear();
                plan.keys.append(lane.draw_key(), &mut self.value);
                self.many.push(&self.value);
            }
            request.keys = Some(&self.many);
        } else if flight.kind.has_value() {
            request.value = if plan.settings.verify {
                self.value.clear();
                lane.nonce = lane.nonce.wrapping_add(1);
                let size = flight.size as usize;
                plan.values.append_checked(&self.key, lane.nonce, size, &mut self.value);
                &self.value
            } else {
                plan.values.plain(flight.size as usize, &mut lane.offset)
            };
        }
        request.number = match (flight.kind, &self.feed) {
            (Kind::Cas, Some(feed)) => feed.token(&self.key),
            _ => 1,
        };
        request.ttl_s = flight.ttl_s;
        request.opaque = connection.next_opaque();
        request.assoc = plan.settings.assoc;
        if flight.flags & flags::ASK != 0 {
            connection.output().extend_from_slice(ASKING);
            let (kind, flags) = (Kind::Flush, flags::ASKING);
            connection.flights.push_back(Flight { kind, flags, ..flight });
            connection.unstamped += 1;
            self.live.sent.add(1);
        }
        encode(plan.settings.protocol, connection.output(), &request);
        self.add(at, flight);
    }

    /// What was written behind the output is under way.
    #[inline]
    fn add(&mut self, at: usize, flight: Flight) {
        let connection = &mut self.connections[at];
        connection.flights.push_back(flight);
        connection.unstamped += 1;
        self.live.sent.add(1);
        if flight.flags & (flags::LOAD | flags::PURGE) == 0 {
            self.account.depth.record(connection.flights.len() as u64);
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
                if let Some(stream @ Wire::Socket(_)) = &connection.stream
                    && let Err(cause) = self.poller.arm_write(stream, at, is_armed)
                {
                    self.lose(at, Trouble::Broken(cause));
                }
            }
            Err(trouble) => self.lose(at, trouble),
        }
    }
}
