//! The closed loop of lookups alone, by which generators are compared: what is the same for all
//! requests of a batch is done once for the batch.
//!
//! ```text
//!   output   | GET 0..0017 | GET 0..4711 | GET 0..0042 |   stays where it is when it was sent;
//!                   ^             ^             ^          the next batch overwrites the digits
//!   replies  that came in one read, to requests of one write, have one latency: they are counted
//!            together
//! ```
//!
//! Draws are those of the general way, so a seed makes the same requests. What is no whole hit, a
//! miss, an error, a reply in pieces, goes the general way, one by one.

use super::connection::ConnectionError;
use super::{Phase, Worker};
use crate::plan::{Filling, Plan};
use crate::target::{Class, Protocol};

pub(super) fn is_plain(plan: &Plan, phase: &Phase) -> bool {
    let settings = &plan.settings;
    let is_closed = !phase.is_load && phase.rate == 0.0 && settings.trace.is_none();
    let looks_up = settings.update == 0.0 && settings.filling == Filling::Never;
    let is_usual = settings.mget <= 1 && settings.assoc.is_none() && !settings.sharding.is_some();
    let is_counted_alone = settings.verify
        || settings.successful
        || settings.delete90
        || settings.misswindow > 0
        || phase.samples.is_some();
    // Binary replies come in any order.
    let is_in_order = settings.protocol != Protocol::Binary;
    is_closed && looks_up && is_usual && is_in_order && !is_counted_alone
}

/// How many requests were under way when one was added, by differences: a batch from 3 to 7 adds 1
/// at 3 and takes it away at 8.
#[derive(Debug, Default)]
pub(super) struct Depths {
    steps: Vec<i64>,
}

impl Depths {
    #[inline]
    fn add(&mut self, first: usize, count: usize) {
        if self.steps.len() <= first + count {
            self.steps.resize(first + count + 1, 0);
        }
        self.steps[first] += 1;
        self.steps[first + count] -= 1;
    }

    /// Hands out each depth with its count, and forgets them.
    pub(super) fn drain(&mut self, mut visit: impl FnMut(u64, u64)) {
        let mut count = 0;
        for (depth, step) in std::mem::take(&mut self.steps).into_iter().enumerate() {
            count += step;
            visit(depth as u64, count.unsigned_abs());
        }
    }
}

impl Worker<'_> {
    /// Puts as many lookups on a connection as may be under way, and sends them.
    pub(super) fn pump_plain(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        if !connection.is_alive() {
            return;
        }
        let under_way = connection.in_flight.len();
        let left = self.phase.budget.map_or(u64::MAX, |budget| budget.saturating_sub(self.drawn));
        let room = self.plan.settings.depth.saturating_sub(under_way) as u64;
        let count = if self.is_drawing { room.min(left) } else { 0 };
        if let (Some(template), true) = (&self.lookup, count > 0) {
            let (workload, keys) = (&mut self.workloads[at], &self.plan.keys);
            for _ in 0..count {
                let request = workload.lookup();
                let opaque = connection.next_opaque();
                keys.overwrite(request.key, template.patch(connection.copy_of(template), opaque));
                connection.in_flight.push_back(request);
            }
            connection.unstamped += count as usize;
            self.live.sent.add(count);
            self.drawn += count;
            self.account.counts.offered += count;
            self.depths.add(under_way + 1, count as usize);
        }
        if self.connections[at].has_output() || self.connections[at].unstamped > 0 {
            self.flush(at);
        }
    }

    /// Takes all whole replies of a connection, hits by batches.
    pub(super) fn read_plain_replies(
        &mut self,
        at: usize,
        now: u64,
    ) -> Result<(), ConnectionError> {
        let key_bytes = self.plan.keys.fixed_len().unwrap_or(0);
        loop {
            let (sent, count) = self.connections[at].read_hits(key_bytes);
            if count > 0 {
                self.measure_hits(sent, count, now);
                continue;
            }
            let Some((request, outcome)) = self.connections[at].next_reply()? else {
                return Ok(());
            };
            self.complete(at, &request, outcome, now);
        }
    }

    /// Accounts for hits that were sent at one time and received at one.
    #[inline]
    fn measure_hits(&mut self, sent: u64, count: u64, now: u64) {
        self.done.last_reply = now;
        let latency_ns = self.clock.ns_between(sent, now);
        let passed_ns = self.clock.ns_between(self.phase.start, now);
        let counts = &mut self.account.counts;
        counts.gets += count;
        counts.ops += count;
        counts.ops_in_time += if passed_ns <= self.phase.length_ns { count } else { 0 };
        self.account.tally_mut(Class::Read).response.record_n(latency_ns, count);
        self.live.ops.add(count);
        self.live.completed.add(count);
        self.live.latency[Class::Read as usize].record_n(latency_ns, count);
    }
}

#[cfg(test)]
mod tests {
    use super::Depths;

    #[test]
    fn depths_of_batches_are_those_of_single_requests() {
        let (mut depths, mut single) = (Depths::default(), [0; 20]);
        for (first, count) in [(1, 16), (3, 5), (16, 1), (1, 1), (7, 12)] {
            depths.add(first, count);
            (first..first + count).for_each(|depth| single[depth] += 1);
        }
        let mut found = [0; 20];
        depths.drain(|depth, count| found[depth as usize] += count);
        assert_eq!(found, single);
        depths.drain(|_, _| panic!("they are forgotten"));
    }
}
