//! What a tool tells of a run of the harness: notes while it runs, failures and the exit status.

use keyrack_harness::{Event, Stop};
use keyrack_record::Run;

/// Prints a note of the harness as a message of the tool called `name`. A failure of a repeat is
/// left out, since [`status`] prints it.
pub(super) fn note(name: &str, event: &Event<'_>) {
    if let Event::Note(note) = event
        && !note.contains(" repeat 1: ")
    {
        keyrack_console::refuse(name, note);
    }
}

/// Prints the failures of a run. Returns the exit status of the tool called `name`.
pub(super) fn status(name: &str, record: &Run, stop: &Stop) -> u8 {
    for failure in &record.failures {
        keyrack_console::refuse(name, &failure.reason);
    }
    match (stop.is_set(), stop.reason()) {
        (true, None) => {
            keyrack_console::refuse(name, "interrupted");
            keyrack_console::INTERRUPTED
        }
        (true, Some(reason)) => {
            keyrack_console::refuse(name, &format!("stopped: {reason}"));
            keyrack_console::NO
        }
        (false, _) if record.is_clean() => keyrack_console::DONE,
        (false, _) => keyrack_console::NO,
    }
}
