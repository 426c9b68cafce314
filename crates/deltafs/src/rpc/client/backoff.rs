//! Pauses between the tries of a call.

use super::connection::Client;
use std::time::Duration;

/// Counts the tries of a call.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pub(crate) waited: Duration,
    pauses: u32,
    /// Whether the directory was opened anew for this call.
    pub(crate) is_reopened: bool,
}

impl Backoff {
    /// Waits before the next try. Returns `false` once the timeout of the client has passed.
    pub(crate) fn pause(&mut self, client: &Client) -> bool {
        self.pauses += 1;
        let pause = Duration::from_millis(u64::from(self.pauses.min(20)));
        self.waited += pause;
        client.pause(pause);
        self.waited < client.timeout()
    }
}
