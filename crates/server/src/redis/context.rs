//! The context that a loop lends to the connections that it serves.

use keyrack_measure::Clock;
use keyrack_rowstore::{RowSession, Rows};
use keyrack_workload::Rng;

use crate::exclusive::ReaderGuard;
use crate::redis::counters::{Counters, bump};
use crate::redis::shared::Shared;
use crate::work::Work;

/// The context of [`crate::redis::Connection::serve`], which the loop lends for an iteration.
pub struct Context<'c, 'g> {
    /// The thread's session, whose time has been set.
    pub session: &'c mut (dyn RowSession + 'c),
    /// The store of the session.
    pub store: &'c dyn Rows,
    /// The loop's reader slot, which this iteration holds.
    pub reader: &'c mut ReaderGuard<'g>,
    /// The work that requests cost; `session` counts its operations there.
    pub work: &'c Work,
    /// The state that all connections share.
    pub shared: &'c Shared,
    /// The state that the connections of the loop share.
    pub local: &'c mut Local,
    /// The time of the iteration, in milliseconds since 1970.
    pub now_ms: u64,
    /// Commands on rows have to wait for another iteration; those that cost next to nothing do not.
    pub rows_wait: bool,
}

impl std::fmt::Debug for Context<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now_ms", &self.now_ms).finish_non_exhaustive()
    }
}

impl<'c, 'g> Context<'c, 'g> {
    #[inline]
    pub(crate) fn counters(&self) -> &'c Counters {
        self.shared.counters_of(self.local.loop_index)
    }

    /// The reader guard, and all the rest.
    #[inline]
    pub(crate) fn split(&mut self) -> (&mut ReaderGuard<'g>, CommandContext<'_>) {
        let ctx = CommandContext {
            rows: &mut *self.session,
            store: self.store,
            work: self.work,
            shared: self.shared,
            local: &mut *self.local,
            now_ms: self.now_ms,
        };
        (&mut *self.reader, ctx)
    }
}

/// The state of a loop for all its connections: memory that their commands share, so that none has
/// to allocate its own.
#[derive(Debug)]
pub struct Local {
    pub(crate) loop_index: usize,
    pub(crate) rng: Rng,
    /// The clock that measures commands.
    pub(crate) clock: Clock,
    /// Indices of arguments, in the order of what they say.
    pub(crate) order: Vec<u32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) more_bytes: Vec<u8>,
}

/// Bytes of shared memory that stay from one command to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

impl Local {
    /// For the loop with this index. `seed` is what RANDOMKEY and HRANDFIELD draw from.
    #[must_use]
    pub fn new(loop_index: usize, seed: u64) -> Self {
        Local {
            loop_index,
            rng: Rng::from_seed(seed),
            clock: Clock::calibrated(),
            order: Vec::new(),
            bytes: Vec::new(),
            more_bytes: Vec::new(),
        }
    }

    /// Adds the time since `began`, in ticks, to that of a command. Returns it in nanoseconds.
    #[inline]
    pub(crate) fn spent(&self, counters: &Counters, index: u16, began: u64) -> u64 {
        let taken = self.clock.ns_between(began, self.clock.ticks());
        bump(&counters.spent_ns[usize::from(index)], taken);
        taken
    }

    /// Gives back the memory of an unusual command.
    pub(crate) fn shrink(&mut self) {
        for bytes in [&mut self.bytes, &mut self.more_bytes] {
            if bytes.capacity() > KEPT_BYTES_MAX {
                *bytes = Vec::new();
            }
        }
        if self.order.capacity() > KEPT_BYTES_MAX / 4 {
            self.order = Vec::new();
        }
    }
}

/// A [`Context`] without its reader guard: what a command works with.
pub(crate) struct CommandContext<'a> {
    pub(crate) rows: &'a mut (dyn RowSession + 'a),
    pub(crate) store: &'a dyn Rows,
    pub(crate) work: &'a Work,
    pub(crate) shared: &'a Shared,
    pub(crate) local: &'a mut Local,
    pub(crate) now_ms: u64,
}

impl<'a> CommandContext<'a> {
    /// The same for a shorter time.
    #[inline]
    pub(crate) fn reborrow(&mut self) -> CommandContext<'_> {
        CommandContext {
            rows: &mut *self.rows,
            store: self.store,
            work: self.work,
            shared: self.shared,
            local: &mut *self.local,
            now_ms: self.now_ms,
        }
    }

    #[inline]
    pub(crate) fn counters(&self) -> &'a Counters {
        self.shared.counters_of(self.local.loop_index)
    }
}
