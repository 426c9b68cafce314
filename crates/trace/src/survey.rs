//! What a trace has in it: one pass over the file before anything is run, which also checks it.

use crate::error::{Error, Result};
use crate::record::{Record, Write};
use crate::recorder::Origin;
use crate::trace::{Format, Trace};
use crate::which::Which;
use keyrack_vfs::Fs;
use std::path::Path;

/// What is in a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    /// Records before the timed part, by thread.
    pub before: Vec<u64>,
    /// Records of the timed part, by thread.
    pub timed: Vec<u64>,
    /// The first and the last time of the timed part, in nanoseconds.
    pub span_ns: Option<(u64, u64)>,
    /// Whether records have times.
    pub has_times: bool,
    /// Bytes of the largest value that is written.
    pub value_bytes_max: u32,
    /// The share of the values' bytes that compresses away, where the trace says so.
    pub compress: Option<f64>,
    /// Whether there are keys of another space than the first.
    pub has_spaces: bool,
    /// Where it is from, where the trace says so.
    pub origin: Option<Origin>,
    /// What was passed over, in words.
    pub skipped: Option<String>,
}

impl Survey {
    /// Records of the timed part.
    #[must_use]
    pub fn timed_records(&self) -> u64 {
        self.timed.iter().sum()
    }
}

/// Threads of a trace at most.
const THREADS_MAX: usize = 4096;

/// Reads the whole trace. `thread_of` says which thread a record of the timed part is counted for,
/// of the number that the trace has for it.
///
/// # Errors
/// Whatever would stop a replay: the file cannot be read to its end, a line or a block is not what
/// the format says, or there is no operation in it.
pub fn survey(
    fs: &dyn Fs,
    path: &Path,
    format: Format,
    thread_of: &dyn Fn(&Record, u32) -> u32,
) -> Result<Survey> {
    let mut survey = Survey::default();
    let mut record = Record::default();
    for timed in [false, true] {
        let mut trace = Trace::open(fs, path, format, Which { timed, thread: None })?;
        while trace.next(&mut record)? {
            let (_, thread) = trace.place();
            let thread = if timed { thread_of(&record, thread) } else { thread } as usize;
            if thread >= THREADS_MAX {
                let why = format!("more than {THREADS_MAX} threads");
                return Err(Error::unusable(path, why));
            }
            survey.take(timed, thread, &record);
        }
        survey.has_times = trace.has_times();
        survey.compress = trace.compress();
        survey.origin = trace.origin().cloned();
        survey.skipped = trace.skipped();
    }
    if survey.timed.is_empty() {
        return Err(Error::unusable(path, "there is no operation in it"));
    }
    Ok(survey)
}

impl Survey {
    fn take(&mut self, timed: bool, thread: usize, record: &Record) {
        let counts = if timed { &mut self.timed } else { &mut self.before };
        if counts.len() <= thread {
            counts.resize(thread + 1, 0);
        }
        counts[thread] += 1;
        if timed {
            let (first, last) = self.span_ns.unwrap_or((record.at_ns, record.at_ns));
            self.span_ns = Some((first.min(record.at_ns), last.max(record.at_ns)));
        }
        self.has_spaces |= record.space != 0;
        for entry in record.entries() {
            if let Write::Put(bytes) = entry.write {
                self.value_bytes_max = self.value_bytes_max.max(bytes);
            }
        }
    }
}
