//! The counters of the loops. Each loop has counters of its own on cache lines of their own,
//! written by its thread alone; a reader adds them up.

use std::fmt;

use keyrack_measure::LiveCounter;

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CloseReason {
    /// The client closed it, or its side of it.
    Peer,
    /// The worker said so: an end that was asked for, or an error of the protocol.
    Worker,
    /// A request larger than its limit.
    Oversized,
    /// No first request in time.
    FirstRequest,
    /// An incomplete request that was not completed in time.
    Request,
    /// No bytes from the client for too long.
    Idle,
    /// Replies that the client did not read in time.
    StalledOutput,
    /// Memory that it needed and that all connections together may not have.
    Memory,
    /// The other side did not speak TLS, or broke it.
    Tls,
    /// The kernel reported an error, as a reset.
    Io,
    /// The server ended.
    Shutdown,
}

impl CloseReason {
    /// All reasons, in the order of [`Stats::closed`].
    pub const ALL: [CloseReason; 11] = [
        CloseReason::Peer,
        CloseReason::Worker,
        CloseReason::Oversized,
        CloseReason::FirstRequest,
        CloseReason::Request,
        CloseReason::Idle,
        CloseReason::StalledOutput,
        CloseReason::Memory,
        CloseReason::Tls,
        CloseReason::Io,
        CloseReason::Shutdown,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            CloseReason::Peer => "peer",
            CloseReason::Worker => "worker",
            CloseReason::Oversized => "oversized",
            CloseReason::FirstRequest => "first_request_timeout",
            CloseReason::Request => "request_timeout",
            CloseReason::Idle => "idle_timeout",
            CloseReason::StalledOutput => "stalled_output_timeout",
            CloseReason::Memory => "memory",
            CloseReason::Tls => "tls",
            CloseReason::Io => "io",
            CloseReason::Shutdown => "shutdown",
        }
    }
}

impl CloseReason {
    /// Is it a limit that the client met, or a fault of the client?
    pub fn is_failure(self) -> bool {
        !matches!(
            self,
            CloseReason::Peer
                | CloseReason::Worker
                | CloseReason::Idle
                | CloseReason::Io
                | CloseReason::Shutdown
        )
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of a server since its start, all loops together.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// Connections that are open.
            pub open: u64,
            /// Connections closed, by reason, in the order of [`CloseReason::ALL`].
            pub closed: [u64; CloseReason::ALL.len()],
            /// Loops that a panic has ended.
            pub loops_panicked: u64,
        }

        #[repr(align(128))]
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: LiveCounter,)*
            pub(crate) closed: [LiveCounter; CloseReason::ALL.len()],
        }

        impl Counters {
            /// Adds what this loop has counted.
            pub(crate) fn add_to(&self, stats: &mut Stats) {
                $(stats.$name += self.$name.get();)*
                for (sum, counter) in stats.closed.iter_mut().zip(&self.closed) {
                    *sum += counter.get();
                }
            }
        }
    };
}

counters! {
    /// Connections accepted and served.
    accepted,
    /// Connections refused, since there were too many, or no descriptor or memory was left.
    refused,
    /// Accepts that failed.
    accept_errors,
    /// Iterations of the loops in which something was served.
    iterations,
    /// Calls of `read`.
    reads,
    /// Calls of `write`.
    writes,
    /// Bytes read, as they came through the sockets.
    bytes_in,
    /// Bytes written, as they went through the sockets.
    bytes_out,
    /// Iterations whose replies waited for their token.
    iterations_deferred,
    /// Datagrams received and given to the worker.
    datagrams_in,
    /// Replies sent as datagrams.
    datagrams_out,
    /// Datagrams dropped, since they were larger than the listener's limit.
    datagrams_oversized,
    /// Replies dropped, since they were larger than the listener's limit.
    datagram_replies_oversized,
    /// Replies that the kernel did not take.
    datagram_replies_lost,
}

impl Counters {
    pub(crate) fn count_closed(&self, reason: CloseReason) {
        self.closed[reason as usize].add(1);
    }
}

impl Stats {
    /// How many connections were closed for a reason.
    pub fn closed_for(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_in_the_order_of_their_counters() {
        let mut names = std::collections::BTreeSet::new();
        for (index, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            assert!(names.insert(reason.to_string()));
        }
        let counters = Counters::default();
        counters.count_closed(CloseReason::Tls);
        counters.reads.add(3);
        let mut stats = Stats::default();
        counters.add_to(&mut stats);
        counters.add_to(&mut stats);
        assert_eq!((stats.closed_for(CloseReason::Tls), stats.reads), (2, 6));
    }
}
