//! The messages that workers send to their leader.

use std::convert::Infallible;
use std::sync::mpsc::Sender;

/// A message of a worker to its leader.
#[derive(Debug)]
pub(crate) enum WorkerMessage {
    /// Its clock, a fake one, has come to this tick. It goes on when the sender is dropped.
    SampleDue(u64, Sender<Infallible>),
    /// It has ended, at this tick; 0 when it never began.
    Ended(u64),
    /// A line for the user from a job.
    Notice {
        /// Which worker.
        thread: u32,
        /// The line.
        text: String,
        /// Whether the results cannot be read without it.
        is_warning: bool,
    },
}
