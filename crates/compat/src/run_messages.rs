//! How a run of the harness ended, as a tool says it.

use keyrack_harness::Stop;
use keyrack_record::Run;

/// Says the failures of a run. Returns the exit status of the tool called `name`.
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
