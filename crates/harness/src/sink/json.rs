//! The JSON sink: the whole record at the end of the run, as [`Run::to_json`] gives it.
//!
//! Nothing is written before the end, since half a record is not a record. Where a kill must lose
//! nothing, `tsv` or `hdr` beside it keeps every finished cell.

use super::Sink;
use keyrack_record::Run;
use std::io::{self, Write};

/// See the module.
pub(super) struct Json {
    pub(super) out: Box<dyn Write>,
}

impl Sink for Json {
    fn end(&mut self, run: &Run) -> io::Result<()> {
        let text = run.to_json().map_err(io::Error::other)?;
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}
