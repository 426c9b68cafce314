//! The JSON sink: the whole record at the end of the run, as [`Run::to_json`] gives it.
//!
//! Nothing is written before the end, since half a record is not a record. Where a kill must lose
//! nothing, `tsv` or `hdr` beside it keeps every finished cell.

use super::Sink;
use keyrack_record::{Header, Run};
use std::fmt;
use std::io::{self, Write};

/// See the module.
pub struct Json {
    out: Box<dyn Write>,
}

impl Json {
    /// A sink over `out`.
    #[must_use]
    pub fn new(out: Box<dyn Write>) -> Json {
        Json { out }
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Json").finish_non_exhaustive()
    }
}

impl Sink for Json {
    fn begin(&mut self, _: &Header) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, run: &Run) -> io::Result<()> {
        let text = run.to_json().map_err(io::Error::other)?;
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
