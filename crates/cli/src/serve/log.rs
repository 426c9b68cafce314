//! The log of the server: one line an event on standard error, `key=value` behind the words.

use std::io::IsTerminal;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

/// The time as in records of runs.
struct Stamp;

impl FormatTime for Stamp {
    fn format_time(&self, writer: &mut Writer<'_>) -> std::fmt::Result {
        writer.write_str(&keyrack_measure::wall::rfc3339_now())
    }
}

/// Sends events to standard error from now on.
pub(crate) fn start() {
    // It fails when there is a log already, which then goes on.
    let _ = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_timer(Stamp)
        .with_target(false)
        .try_init();
}
