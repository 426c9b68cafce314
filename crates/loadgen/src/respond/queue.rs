//! One queue before one server, in the order of arrival, over all connections.
//!
//! ```text
//!   arrival    a1  a2        a3
//!   begins     a1  |d1       a3         max(arrival, departure of the one before)
//!   departure      d1   d2       d3     begin + service time drawn from the distribution
//! ```
//!
//! A reply leaves at its departure. The times come from the model and not from when the loop got
//! round to it, so lateness of the loop does not add up: a client sees the model's response time
//! plus the way there and back.

use keyrack_workload::{Distribution, Rng};

#[derive(Debug)]
pub(super) struct QueueModel {
    service_us: Distribution,
    rng: Rng,
    /// When the last request leaves.
    departure_ns: f64,
}

impl QueueModel {
    pub(super) fn new(service_us: Distribution, rng: Rng) -> QueueModel {
        QueueModel { service_us, rng, departure_ns: 0.0 }
    }

    /// When a request that arrives now leaves.
    pub(super) fn departure_ns(&mut self, now_ns: u64) -> u64 {
        let service_ns = self.service_us.sample(&mut self.rng) * 1e3;
        self.departure_ns = self.departure_ns.max(now_ns as f64) + service_ns;
        self.departure_ns as u64
    }
}
