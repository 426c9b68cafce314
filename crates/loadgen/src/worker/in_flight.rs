//! A request between the moment it is drawn and its reply.

use keyrack_wire::outcome::Kind;

/// One request that is queued or sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    /// When it should have left, in ticks.
    pub(super) intended: u64,
    /// When it left.
    pub(super) sent: u64,
    /// The index of its key.
    pub(super) key: u64,
    /// The size of the value written, or to be written on a miss; of several keys, how many.
    pub(super) size: u32,
    pub(super) ttl_s: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    /// How often it was sent elsewhere, by a cluster or to the second tier.
    pub(super) redirects: u8,
}

/// Bits that say why a request was sent and how its key is kept.
pub(super) mod flags {
    /// Sent because a lookup missed.
    pub(in crate::worker) const FILL: u8 = 1;
    /// Part of the removal half-way.
    pub(in crate::worker) const PURGE: u8 = 2;
    /// Its key is in the key table of the thread; `key` is its index there.
    pub(in crate::worker) const TRACE_KEY: u8 = 4;
    /// Answered out of order.
    pub(in crate::worker) const DONE: u8 = 8;
    /// Part of the loading.
    pub(in crate::worker) const LOAD: u8 = 16;
    /// To be sent after ASKING.
    pub(in crate::worker) const ASK: u8 = 32;
    /// ASKING itself, which is not counted.
    pub(in crate::worker) const ASKING: u8 = 64;
    /// A copy for the other tier.
    pub(in crate::worker) const COPY: u8 = 128;
}
