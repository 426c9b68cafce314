//! What a connection sends next: what a reply has caused, a record of the loading, a removal, a row
//! of the trace, a drawn request; and when it is due.

use std::cmp::Reverse;

use super::in_flight::InFlight;
use super::workload::{NEVER, StridedIndexes};
use super::{OUTPUT_BYTES_MAX, SKIP_ABOVE_NS, SKIP_TO_NS, Worker};

impl Worker<'_> {
    /// The next request of a connection, if one is to leave now.
    #[inline]
    pub(super) fn next(&mut self, at: usize) -> Option<InFlight> {
        if let Some(request) = self.connections[at].queue.pop_front() {
            return Some(request);
        }
        if self.phase.is_load {
            if self.connections[at].output_bytes() > OUTPUT_BYTES_MAX {
                return None;
            }
        } else if self.trace.is_some() {
            return if self.is_spent() { None } else { self.next_of_trace(at) };
        }
        if self.router.is_some() {
            return self.next_routed(at);
        }
        self.next_of(at)
    }

    /// The next request that a workload draws, if one is to leave now.
    #[inline]
    pub(super) fn next_of(&mut self, at: usize) -> Option<InFlight> {
        let workload = &mut self.workloads[at];
        if self.phase.is_load {
            return workload.next_load(self.plan);
        }
        if !workload.purge.is_over()
            && let Some(request) = workload.next_purge(self.plan)
        {
            return Some(request);
        }
        if self.is_spent() {
            return None;
        }
        if self.phase.rate > 0.0 {
            return self.next_due(at);
        }
        if !self.is_drawing {
            return None;
        }
        Some(self.drawn(at, 0))
    }

    /// The next row of the trace, if it is for this connection; rows in front of it that are for
    /// others are put there.
    fn next_of_trace(&mut self, at: usize) -> Option<InFlight> {
        loop {
            let trace = self.trace.as_mut()?;
            if let Err(error) = trace.look_ahead(&mut self.trace_keys) {
                self.done.troubles.push(error.to_string());
                trace.is_over = true;
            }
            let (mut request, hash, at_ns) = trace.ahead?;
            let place = match &self.router {
                None => spread(hash, self.connections.len()),
                Some(router) => {
                    let client = spread(hash, router.clients);
                    self.node_of(&request) * self.plan.settings.connections + client
                }
            };
            let is_full = self.connections[place].in_flight.len() >= self.plan.settings.depth;
            if is_full && self.connections[place].is_alive() {
                return None;
            }
            if self.router.is_some() && self.connections[place].is_awaited {
                return None;
            }
            request.intended = self.trace_is_due(at_ns)?;
            let trace = self.trace.as_mut()?;
            trace.ahead = None;
            self.drawn += 1;
            self.account.counts.offered += 1;
            if !self.connections[place].is_alive() {
                self.account.counts.unsent += 1;
                self.trace_keys.release(&request);
            } else if place == at {
                return Some(request);
            } else {
                self.write_request(place, request);
                self.touched.push(place);
            }
            if self.is_spent() {
                return None;
            }
        }
    }

    /// When the row ahead is intended, if it may leave now; else a timer is set.
    fn trace_is_due(&mut self, at_ns: Option<u64>) -> Option<u64> {
        let due = match at_ns {
            Some(at_ns) if at_ns >= self.phase.length_ns => return None,
            Some(at_ns) => self.phase.start + self.clock.ticks_of_ns(at_ns),
            None if self.phase.rate > 0.0 => self.workloads[0].due,
            None => return self.is_drawing.then_some(0),
        };
        if due == NEVER {
            return None;
        }
        if due > self.clock.ticks() {
            if self.is_drawing && !self.workloads[0].is_timed {
                self.workloads[0].is_timed = true;
                self.timers.push(Reverse((due, 0)));
            }
            return None;
        }
        if at_ns.is_none() {
            self.workloads[0].advance(&self.phase, &self.clock);
        }
        Some(due)
    }

    /// The next request of a schedule, if it is due; else a timer is set.
    fn next_due(&mut self, at: usize) -> Option<InFlight> {
        let now = self.clock.ticks();
        let workload = &mut self.workloads[at];
        if self.plan.settings.skip && self.clock.ns_between(workload.due, now) > SKIP_ABOVE_NS {
            while workload.due != NEVER && self.clock.ns_between(workload.due, now) > SKIP_TO_NS {
                self.account.counts.skipped += 1;
                workload.advance(&self.phase, &self.clock);
            }
        }
        let workload = &mut self.workloads[at];
        let from =
            if workload.due == NEVER { NEVER } else { workload.due.max(workload.not_before) };
        if from > now {
            if from != NEVER && !workload.is_timed {
                workload.is_timed = true;
                self.timers.push(Reverse((from, at)));
            }
            return None;
        }
        // Under --moderate the gap behind the last send is our own: the server is not charged for
        // it. A wake-up that is a little late does not move the sends after it.
        let intended = workload.due.max(workload.not_before);
        if self.moderation > 0 {
            let is_prompt = now - intended < self.moderation / 2;
            workload.not_before = if is_prompt { intended } else { now } + self.moderation;
        }
        workload.advance(&self.phase, &self.clock);
        Some(self.drawn(at, intended))
    }

    /// Draws a request, which counts.
    #[inline]
    fn drawn(&mut self, at: usize, intended: u64) -> InFlight {
        self.drawn += 1;
        self.account.counts.offered += 1;
        let request = self.workloads[at].draw(self.plan, intended);
        if self.plan.settings.delete90 && !self.has_purged && self.is_half_way(intended) {
            self.has_purged = true;
            self.start_purge();
        }
        request
    }

    /// Is half of the requests drawn, or half of the time over?
    fn is_half_way(&self, intended: u64) -> bool {
        match self.phase.budget {
            Some(budget) => self.drawn >= budget / 2,
            None => {
                let now = if intended > 0 { intended } else { self.clock.ticks() };
                self.clock.ns_between(self.phase.start, now) >= self.phase.length_ns / 2
            }
        }
    }

    /// Gives each connection its part of the records to remove.
    fn start_purge(&mut self) {
        if let Some(router) = &self.router {
            let clients = router.clients as u64;
            let step = self.plan.settings.threads as u64 * clients;
            for (at, workload) in (0..clients).zip(&mut self.workloads) {
                let first = self.thread as u64 * clients + at;
                workload.purge = StridedIndexes::new(first, step, self.plan.records);
            }
            return;
        }
        let per_server = self.plan.settings.connections as u64;
        for at in 0..self.workloads.len() {
            let (first, step) = self.plan.place_at(self.thread, self.connections[at].server);
            let (place, step) = (first * per_server + at as u64 % per_server, step * per_server);
            self.workloads[at].purge = StridedIndexes::new(place, step, self.plan.records);
        }
    }
}

/// One of so many places, by a hash.
fn spread(hash: u64, places: usize) -> usize {
    ((u128::from(hash) * places as u128) >> 64) as usize
}
