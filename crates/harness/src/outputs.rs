//! All sinks of a run together, with names for their errors.

use crate::notebook_file::NotebookFile;
use crate::sink::{self, Dialect, NotebookSink, Sink, SinkKind, SinkSpec, Target};
use keyrack_record::{Failure, Header, Point, Probe, Run, TimelineRow};
use keyrack_vfs::{Fs, OutputFile};
use keyrack_workload::Rng;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// The sinks of a run.
pub struct Outputs {
    sinks: Vec<Named>,
    first_error: Option<String>,
    /// Whether `first_error` is that the reader of standard output went away.
    is_reader_gone: bool,
}

struct Named {
    /// The file, or "standard output".
    name: String,
    is_stdout: bool,
    sink: Box<dyn Sink>,
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.sinks.iter().map(|named| &named.name)).finish()
    }
}

impl Outputs {
    /// Opens the files of `specs`; `stdout` makes the writer of sinks without a file. Without any
    /// the run is only returned.
    ///
    /// # Errors
    /// One line that names the file that cannot be written, or that is no notebook.
    pub fn open(
        specs: &[SinkSpec],
        fs: &Arc<dyn Fs>,
        stdout: &dyn Fn() -> Box<dyn Write>,
        dialect: Dialect,
        seed: u64,
    ) -> Result<Outputs, String> {
        let mut sinks = Vec::new();
        for spec in specs {
            if let (SinkKind::Notebook, Target::Path(path)) = (spec.kind, &spec.target) {
                let page = NotebookFile::open(fs, path)?;
                let sink = Box::new(NotebookSink::new(Box::new(page)));
                sinks.push(Named { name: path.display().to_string(), is_stdout: false, sink });
                continue;
            }
            let (name, out): (String, Box<dyn Write>) = match &spec.target {
                Target::Stdout => ("standard output".to_owned(), stdout()),
                Target::Path(path) => {
                    let name = path.display().to_string();
                    (name, open_file(spec.kind, fs, path)?)
                }
            };
            let mut rng = Rng::from_seed(seed);
            let draw = Box::new(move || rng.next_u64());
            let is_stdout = matches!(spec.target, Target::Stdout);
            sinks.push(Named { name, is_stdout, sink: sink::open(spec.kind, out, dialect, draw) });
        }
        Ok(Outputs { sinks, first_error: None, is_reader_gone: false })
    }

    /// The sinks of a report directory: the console again, points, timeline and the whole record.
    #[must_use]
    pub fn report_files(dir: &Path) -> Vec<SinkSpec> {
        [
            (SinkKind::Console, "report.txt"),
            (SinkKind::Tsv, "points.tsv"),
            (SinkKind::Timeline, "timeline.tsv"),
            (SinkKind::Json, "run.json"),
        ]
        .into_iter()
        .map(|(kind, file)| SinkSpec { kind, target: Target::Path(dir.join(file)) })
        .collect()
    }

    /// Tells all sinks. One that fails is dropped and its error kept, so that the others are told
    /// the rest: a full disk under one report does not lose the others.
    fn each(&mut self, mut tell: impl FnMut(&mut dyn Sink) -> io::Result<()>) {
        let Outputs { sinks, first_error, is_reader_gone } = self;
        sinks.retain_mut(|named| match tell(&mut *named.sink) {
            Ok(()) => true,
            Err(error) => {
                let is_reader = named.is_stdout && error.kind() == io::ErrorKind::BrokenPipe;
                // A reader that went away is no failure, so it hides none.
                if first_error.is_none() || *is_reader_gone && !is_reader {
                    *first_error = Some(format!("cannot write {}: {error}", named.name));
                    *is_reader_gone = is_reader;
                }
                false
            }
        });
    }

    /// Whether nobody is left to be told.
    pub(crate) fn all_failed(&self) -> bool {
        self.sinks.is_empty() && self.first_error.is_some()
    }

    /// Whether the run's error is that the reader of standard output went away, such as `head`.
    #[must_use]
    pub fn is_reader_gone(&self) -> bool {
        self.is_reader_gone
    }

    /// What the sinks say to the user of what they have written, a line each.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        self.sinks.iter().filter_map(|named| named.sink.said()).collect()
    }

    /// The first failure, which names its file.
    pub(crate) fn take_error(&mut self) -> Option<String> {
        self.first_error.take()
    }

    pub(crate) fn begin(&mut self, header: &Header) {
        self.each(|sink| sink.begin(header));
    }

    pub(crate) fn probe(&mut self, probe: &Probe) {
        self.each(|sink| sink.probe(probe));
    }

    pub(crate) fn point(&mut self, point: &Point, header: &Header) {
        self.each(|sink| sink.point(point, header));
    }

    pub(crate) fn failure(&mut self, failure: &Failure) {
        self.each(|sink| sink.failure(failure));
    }

    pub(crate) fn row(&mut self, row: &TimelineRow) {
        self.each(|sink| sink.row(row));
    }

    pub(crate) fn end(&mut self, run: &Run) {
        self.each(|sink| sink.end(run));
    }
}

/// A file that counts when it is whole: its sink flushes once, at the end of the run.
struct Whole(OutputFile);

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.finish().map_err(as_io)
    }
}

/// Opens the file of a sink. A record replaces the file before it at the end of the run; the other
/// sinks may be read while the run goes on.
fn open_file(kind: SinkKind, fs: &Arc<dyn Fs>, path: &Path) -> Result<Box<dyn Write>, String> {
    let failed = |error: keyrack_vfs::Error| error.to_string();
    Ok(match kind {
        SinkKind::Json => Box::new(Whole(OutputFile::whole(fs, path).map_err(failed)?)),
        _ => Box::new(OutputFile::growing(&**fs, path).map_err(failed)?),
    })
}

/// The same failure as an `io::Error`, for the `Write` trait.
pub(crate) fn as_io(error: keyrack_vfs::Error) -> io::Error {
    error.into_io()
}
