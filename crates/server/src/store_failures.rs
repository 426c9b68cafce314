//! Lines in the log about commands that failed for what the machine did: an engine that writes at
//! once, as `flodb` does, meets a full disk in the command itself.

use crate::log_rate::LogRate;
use keyrack_measure::wall;
use keyrack_store::Error;
use std::sync::LazyLock;

/// Of all loops and protocols together.
static RATE: LazyLock<LogRate> = LazyLock::new(LogRate::default);

/// Logs an error of the machine or damage, if not too many were logged lately. Any other error
/// concerns its client alone.
#[cold]
pub(crate) fn log(error: &Error) {
    let concerns_operator =
        matches!(error, Error::Io { .. } | Error::Poisoned { .. } | Error::Corruption { .. });
    if concerns_operator && let Some(unsaid) = RATE.admit(wall::unix_ms()) {
        tracing::error!(%error, unsaid, "the store failed a command");
    }
}
