//! Which of how many servers a log belongs to, written into it: under `server` among the records
//! about the log, number and count, both u32.
//!
//! Names are spread over as many servers as there were. With another count most of them would be
//! looked for where they are not.

use crate::error::{Error, Result};
use crate::id::DirId;
use crate::inner::Inner;
use crate::namespace::Namespace;
use crate::record::Key;
use std::sync::atomic::Ordering;

impl Namespace {
    /// Makes the log that of server `server` of `servers`, or sees that it is.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is another's.
    pub(crate) fn serve_as(&self, server: u32, servers: u32) -> Result<()> {
        // A log that is only read is nobody's.
        let Some(top) = self.inner.layers.top() else { return Ok(()) };
        if servers > 1 && self.inner.has_links.load(Ordering::Relaxed) {
            return Err(Error::Usage(format!(
                "{}: it has hard links, which several servers cannot have; serve it with one",
                top.dir().display()
            )));
        }
        let key = Key::entry(DirId::SYSTEM, b"server");
        let record = [server.to_le_bytes(), servers.to_le_bytes()].concat();
        let refused = |whose: &str| {
            let (dir, remedy) = (top.dir().display(), "merge the logs first: keyrack fs merge");
            let what = format!("it cannot be served as number {server} of {servers}");
            Err(Error::Usage(format!("{dir}: the log is {whose}, and {what}; {remedy}")))
        };
        match self.inner.server()? {
            Some(there) if there == (server, servers) => Ok(()),
            Some((server, servers)) => refused(&format!("that of server {server} of {servers}")),
            None if servers <= 1 => Ok(()),
            None if self.epoch() > 1 => refused("of no server, or of a single one"),
            None => Ok(top.put(&key, &record)?),
        }
    }
}

impl Inner {
    /// Which server of how many writes the log; `None` if none does, or a single one.
    pub(crate) fn server(&self) -> Result<Option<(u32, u32)>> {
        let log = &self.layers.all()[0];
        let record = log.get(&Key::entry(DirId::SYSTEM, b"server"))?;
        Ok(record.map(|record| {
            let (words, _) = record.as_chunks::<4>();
            let word = |at: usize| words.get(at).map_or(0, |word| u32::from_le_bytes(*word));
            (word(0), word(1))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IfExists, Settings};
    use keyrack_vfs::MemFs;
    use std::path::Path;
    use std::sync::Arc;

    /// A name space over several servers has no hard links, whichever of the two comes first.
    #[test]
    fn several_servers_and_hard_links_refuse_each_other() {
        let fs = MemFs::new();
        let open = |dir: &str| {
            Namespace::open_in(Arc::new(fs.clone()), Path::new(dir), Settings::default()).unwrap()
        };
        let space = open("/served");
        space.serve_as(1, 3).unwrap();
        let caller = space.as_root();
        caller.create(b"/a", 0o644, IfExists::Fail).unwrap();
        let error = caller.link(b"/a", b"/b").unwrap_err();
        assert_eq!(error.errno(), "EOPNOTSUPP");
        assert_eq!(
            error.to_string(),
            "/served: hard links need a name space of one log, and this log is that of server 1 \
             of 3; merge the logs first: keyrack fs merge"
        );
        assert_eq!(caller.stat(b"/a").unwrap().nlink, 1);
        assert_eq!(caller.stat(b"/b").unwrap_err().errno(), "ENOENT");

        let space = open("/linked");
        let caller = space.as_root();
        caller.create(b"/a", 0o644, IfExists::Fail).unwrap();
        caller.link(b"/a", b"/b").unwrap();
        space.serve_as(0, 1).unwrap();
        let refused = space.serve_as(0, 2).unwrap_err().to_string();
        assert_eq!(
            refused,
            "/linked: it has hard links, which several servers cannot have; serve it with one"
        );
    }
}
