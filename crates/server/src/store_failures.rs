//! Lines in the log about commands that failed for what the machine did: an engine that writes at
//! once, as `flodb` does, meets a full disk in the command itself.

use crate::log::events;
use keyrack_store::Error;

/// Logs an error of the machine, damage, or that rows need more memory than they may have. Any
/// other error concerns its client alone.
#[cold]
pub(crate) fn log(error: &Error) {
    match error {
        Error::Io { .. } | Error::Poisoned { .. } | Error::Corruption { .. } => {
            events::command_failed(&error.to_string());
        }
        Error::OutOfMemory { .. } => events::memory_full(&error.to_string()),
        _ => {}
    }
}
