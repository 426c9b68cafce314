//! A fence in two halves: one that costs nothing, for who passes often, and one that pays for both.
//!
//! ```text
//!   reader   reserve ---- light ---- read            light: nothing but the order of instructions
//!   scan     unlink, stamp ---- heavy ---- look      heavy: membarrier, a fence in every thread
//! ```
//!
//! The system call `membarrier` (Linux 4.14, PRIVATE_EXPEDITED) makes every running thread of the
//! process pass a full fence before it returns; a thread that is not running passes one when it is
//! switched. That fence falls before the reader's light one or behind it. Behind: what the reader
//! reserved before is seen by who called. Before: what the reader reads afterwards is as new as
//! what was done before the call. So a light and a heavy fence order as two full ones do; two light
//! ones order nothing. The pattern is known from user-space RCU.
//!
//! Where the call is refused, when loom or shuttle explores, and under Miri, both halves are full
//! fences. That is decided once, in the first [`Fences::decide`], which every thread passes before
//! its first fence.

use crate::sync::{Ordering, full_fence};
#[cfg(not(any(loom, shuttle, miri)))]
use rustix::thread::{MembarrierCommand, membarrier};

/// Makes every thread of the process pass a full fence: what another thread did before it, this one
/// sees afterwards, and what this one did before the call, the other sees in what it reads after
/// its fence. For who waits rarely, on behalf of those who pass often and have no fence of their
/// own. `false` where the system has no such call, and the others would need one. A system call.
pub fn fence_all_threads() -> bool {
    let fences = Fences::decide();
    fences.heavy() && fences != Fences::Full
}

/// Which kind of fences a process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    /// Light ones are free, heavy ones a system call.
    #[cfg_attr(any(loom, shuttle, miri), expect(dead_code, reason = "the call is not made there"))]
    Asymmetric,
    /// All are full.
    Full,
}

impl Fences {
    /// The kind of this process, the same at every call.
    pub(crate) fn decide() -> Self {
        #[cfg(any(loom, shuttle, miri))]
        return Fences::Full;
        #[cfg(not(any(loom, shuttle, miri)))]
        {
            static KIND: std::sync::OnceLock<Fences> = std::sync::OnceLock::new();
            *KIND.get_or_init(|| {
                let registered = membarrier(MembarrierCommand::RegisterPrivateExpedited)
                    .and_then(|()| membarrier(MembarrierCommand::PrivateExpedited));
                if registered.is_ok() { Fences::Asymmetric } else { Fences::Full }
            })
        }
    }

    /// The half of who passes often.
    #[inline(always)]
    pub(crate) fn light(self) {
        match self {
            Fences::Asymmetric => std::sync::atomic::compiler_fence(Ordering::SeqCst),
            Fences::Full => full_fence(),
        }
    }

    /// The half of who passes rarely. `false` if there was no fence: then nothing follows from what
    /// is seen afterwards. That is so when a process loses the call after it was granted.
    #[must_use]
    pub(crate) fn heavy(self) -> bool {
        match self {
            #[cfg(not(any(loom, shuttle, miri)))]
            Fences::Asymmetric => {
                full_fence();
                membarrier(MembarrierCommand::PrivateExpedited).is_ok()
            }
            _ => {
                full_fence();
                true
            }
        }
    }
}
