//! Which of how many servers a log belongs to, written into it: under `server` among the records
//! about the log, number and count, both u32.
//!
//! Names are spread over as many servers as there were. With another count most of them would be
//! looked for where they are not.

use crate::error::{Error, Result};
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::record::Key;

impl Namespace {
    /// Makes the log that of server `server` of `servers`, or sees that it is.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is another's.
    pub(crate) fn serve_as(&self, server: u32, servers: u32) -> Result<()> {
        // A log that is only read is nobody's.
        let Some(top) = self.inner.layers.top() else { return Ok(()) };
        let key = Key::entry(DirId::SYSTEM, b"server");
        let record = [server.to_le_bytes(), servers.to_le_bytes()].concat();
        let refused = |whose: &str| {
            let (dir, remedy) = (top.dir().display(), "merge the logs first: keyrack fs merge");
            let what = format!("it cannot be served as number {server} of {servers}");
            Err(Error::Usage(format!("{dir}: the log is {whose}, and {what}; {remedy}")))
        };
        match top.get(&key)? {
            Some(there) if there == record => Ok(()),
            Some(there) => {
                let (words, _) = there.as_chunks::<4>();
                let word = |at: usize| words.get(at).map_or(0, |word| u32::from_le_bytes(*word));
                refused(&format!("that of server {} of {}", word(0), word(1)))
            }
            None if servers <= 1 => Ok(()),
            None if self.epoch() > 1 => refused("of no server, or of a single one"),
            None => Ok(top.put(&key, &record)?),
        }
    }
}
