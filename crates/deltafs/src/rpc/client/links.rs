//! Links at the end of a path. The calls of a tree do not follow them: a caller that needs their
//! target asks for its path first.
//!
//! ```text
//!   /a/link   ->  ../x/file        one call for the facts of each name, one for each target
//!   /a/./     ->  a directory      name by name, each at the server that has it
//! ```

use super::tree::Tree;
use crate::caller::Kind;
use crate::name::{LINKS_MAX, check_path, join};
use crate::rpc::error::{Error, Result};

impl Tree {
    /// The path of what a path names, without links at its end. Nothing needs to be there.
    ///
    /// # Errors
    /// As for [`Tree::open`]; `ELOOP`; `ENOTDIR` if the path ends with a slash, `.` or `..` and
    /// does not name a directory.
    pub fn follow(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        check_path(path).map_err(Error::from_store)?;
        let mut at = path.to_vec();
        for _ in 0..=LINKS_MAX {
            let slash = at.iter().rposition(|byte| *byte == b'/').ok_or_else(|| {
                Error::Usage(format!("'{}': a path must begin with a slash", path.escape_ascii()))
            })?;
            if matches!(&at[slash + 1..], b"" | b"." | b"..") {
                return self.resolve(&at);
            }
            match self.stat(&at) {
                Ok(found) if found.kind == Kind::Symlink => {}
                Ok(_) | Err(Error::Refused { errno: "ENOENT", .. }) => return Ok(at),
                Err(error) => return Err(error),
            }
            let target = self.read_link(&at)?;
            at = match target.first() {
                Some(b'/') => target,
                _ => join(&at[..slash.max(1)], &target),
            };
        }
        let text = format!("{}: too many symbolic links", path.escape_ascii());
        Err(Error::Refused { errno: "ELOOP", text })
    }
}
