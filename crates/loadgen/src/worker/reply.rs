//! What a reply changes: the account, the window of misses, the store that fills a miss.

use keyrack_wire::outcome::{Kind, Outcome};

use super::connection::ConnectionError;
use super::in_flight::{InFlight, flags};
use super::workload::MissWindow;
use super::{SAMPLES, Sample, Worker};
use crate::account::Window;
use crate::error::Error;
use crate::plan::{Filling, Headline};
use crate::target::{Class, ErrorClass, wants_password};

/// Takes a window that is full, or the last.
pub(super) fn window(thread: usize, connection: usize, open: &mut MissWindow) -> Window {
    let gets_so_far = open.gets_so_far;
    let closed = std::mem::replace(open, MissWindow { gets_so_far, ..MissWindow::default() });
    Window { thread, connection, gets_so_far, gets: closed.gets, misses: closed.misses }
}

impl Worker<'_> {
    pub(super) fn read_replies(&mut self, at: usize, now: u64) -> Result<(), ConnectionError> {
        if self.is_plain {
            return self.read_plain_replies(at, now);
        }
        let verifies = self.plan.settings.verify;
        loop {
            let next = if verifies {
                self.next_verified(at)?
            } else {
                self.connections[at].next_reply()?
            };
            let Some((request, outcome)) = next else { return Ok(()) };
            self.complete(at, &request, outcome, now);
        }
    }

    /// The next reply, its value checked.
    fn next_verified(&mut self, at: usize) -> Result<Option<(InFlight, Outcome)>, ConnectionError> {
        let (plan, key, trace_keys) = (self.plan, &mut self.key, &self.trace_keys);
        let (mut verified, mut damaged) = (0, None);
        let next = self.connections[at].next_reply_with(&mut |request, value| {
            key.clear();
            if request.flags & flags::TRACE_KEY != 0 {
                key.extend_from_slice(trace_keys.key(request.key));
            } else {
                plan.keys.append(request.key, key);
            }
            verified += 1;
            if let Err(damage) = plan.values.check(key, value) {
                damaged = Some(format!("key {}: {damage}", String::from_utf8_lossy(key)));
            }
        });
        self.account.counts.verified += verified;
        if let Some(words) = damaged {
            self.account.errors.add(ErrorClass::Corrupt, 1, || words);
            self.live.errors.add(1);
        }
        next
    }

    /// Accounts for one reply.
    #[inline]
    pub(super) fn complete(&mut self, at: usize, request: &InFlight, outcome: Outcome, now: u64) {
        self.done.last_reply = now;
        self.live.completed.add(1);
        if let Outcome::Failed(failure) = outcome {
            let class = ErrorClass::from(failure);
            if self.redirect(at, request, class) {
                return;
            }
            let parser = &self.connections[at].parser;
            self.account
                .errors
                .add(class, 1, || String::from_utf8_lossy(parser.words()).into_owned());
            self.live.errors.add(1);
            if class == ErrorClass::Auth && self.refusal.is_none() {
                self.refusal = self.wants_password(at);
            }
        }
        if request.flags & flags::ASKING != 0 {
            return;
        }
        if request.flags & flags::COPY != 0 {
            return self.note_copy(request, outcome);
        }
        if request.flags & (flags::LOAD | flags::PURGE) != 0 {
            if outcome == Outcome::Stored {
                let is_load = request.flags & flags::LOAD != 0;
                self.done.loaded += u64::from(is_load);
                self.account.counts.purged += u64::from(!is_load);
            }
            return;
        }
        if self.try_second_tier(at, request, outcome) {
            return;
        }
        self.copy_to_other_tier(at, request, outcome, now);
        let is_success = self.count(at, request, outcome, now);
        if let Outcome::Failed(_) = outcome {
            return;
        }
        if self.plan.settings.successful && !is_success {
            return;
        }
        self.measure(request, now);
    }

    /// The error of a server that wants a password where none was given. A user who may not do
    /// everything (`NOPERM`) may do the rest.
    fn wants_password(&self, at: usize) -> Option<Error> {
        let connection = &self.connections[at];
        let words = connection.parser.words();
        if self.plan.settings.credentials.is_some() || words.starts_with(b"NOPERM") {
            return None;
        }
        let server = self.nodes[connection.server].server.name.clone();
        Some(Error::Server { server, cause: wants_password(words) })
    }

    /// Counts a reply by its outcome. Was it a success?
    #[inline]
    fn count(&mut self, at: usize, request: &InFlight, outcome: Outcome, now: u64) -> bool {
        let counts = &mut self.account.counts;
        let is_read = request.kind.is_lookup();
        let is_success = match outcome {
            Outcome::Hit { .. } => {
                counts.gets += 1;
                true
            }
            Outcome::Miss if is_read => {
                counts.gets += 1;
                counts.misses += 1;
                self.live.misses.add(1);
                false
            }
            Outcome::Hits(hits) => {
                let keys = u64::from(request.size);
                let misses = keys.saturating_sub(u64::from(hits));
                counts.gets += keys;
                counts.misses += misses;
                self.live.misses.add(misses);
                misses == 0
            }
            Outcome::Stored | Outcome::Miss => {
                counts.sets += u64::from(request.kind.has_value());
                outcome == Outcome::Stored
            }
            Outcome::NotStored => {
                counts.sets += 1;
                counts.not_stored += 1;
                false
            }
            Outcome::Failed(_) => false,
        };
        let is_fill = request.flags & flags::FILL != 0;
        counts.fills += u64::from(is_fill);
        if self.plan.settings.misswindow > 0 && !is_fill {
            self.count_in_window(at, is_read, outcome == Outcome::Miss);
        }
        if is_read && outcome == Outcome::Miss && self.plan.settings.filling != Filling::Never {
            let fill = InFlight {
                intended: now,
                kind: Kind::Set,
                flags: (request.flags & !flags::ASK) | flags::FILL,
                redirects: 0,
                ..*request
            };
            self.connections[at].queue.push_back(fill);
        } else if request.flags & flags::TRACE_KEY != 0 {
            if let (Kind::Gets, Outcome::Hit { token }, Some(trace)) =
                (request.kind, outcome, &mut self.trace)
            {
                trace.learn(self.trace_keys.key(request.key), token);
            }
            self.trace_keys.release(request);
        }
        is_success
    }

    fn count_in_window(&mut self, at: usize, is_read: bool, is_miss: bool) {
        let open = &mut self.workloads[at].window;
        open.accesses += 1;
        if is_read {
            open.gets += 1;
            open.gets_so_far += 1;
            open.misses += u64::from(is_miss);
        }
        if open.accesses >= self.plan.settings.misswindow {
            self.done.windows.push(window(self.thread, at, open));
        }
    }

    /// Files the latencies of a reply.
    #[inline]
    fn measure(&mut self, request: &InFlight, now: u64) {
        let is_open = self.is_open();
        let service_ns = self.clock.ns_between(request.sent, now);
        // What was sent elsewhere began with its first send.
        let response_ns = if is_open || request.redirects > 0 {
            self.clock.ns_between(request.intended, now)
        } else {
            service_ns
        };
        let account = &mut self.account;
        account.counts.ops += 1;
        let passed_ns = self.clock.ns_between(self.phase.start, now);
        let is_in_time = passed_ns <= self.phase.length_ns;
        account.counts.ops_in_time += u64::from(is_in_time);
        if is_open {
            account.delay.record(self.clock.ns_between(request.intended, request.sent));
        }
        let tally = account.tally_mut(Class::of(request.kind));
        tally.response.record(response_ns);
        if is_open {
            tally.service.record(service_ns);
        }
        let headline_ns = match self.plan.settings.headline {
            Headline::Intended => response_ns,
            Headline::Sent => service_ns,
        };
        self.live.ops.add(1);
        self.live.latency[Class::of(request.kind) as usize].record(headline_ns);
        if self.phase.samples.is_some() && request.kind.is_lookup() {
            let from = if is_open { request.intended } else { request.sent };
            let start_ns = self.clock.ns_between(self.phase.start, from);
            self.samples.push(Sample { start_ns, latency_ns: headline_ns });
            if self.samples.len() >= SAMPLES {
                self.send_samples();
            }
        }
    }

    /// Hands samples to whoever writes them.
    pub(super) fn send_samples(&mut self) {
        if let Some(sender) = &self.phase.samples
            && !self.samples.is_empty()
        {
            // A writer that failed has said so itself.
            let _ = sender.send(std::mem::take(&mut self.samples));
        }
    }
}
