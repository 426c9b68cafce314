//! All sinks of a run together, with names for their errors.

use crate::sink::{self, Dialect, Sink, SinkKind, SinkSpec, Target};
use keyrack_record::{Failure, Header, Point, Probe, Run, TimelineRow};
use keyrack_vfs::{Fs, OpenOptions};
use keyrack_workload::Rng;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// The sinks of a run.
pub struct Outputs {
    sinks: Vec<Named>,
    row_error: Option<String>,
}

struct Named {
    /// The file, or "standard output".
    name: String,
    sink: Box<dyn Sink>,
}

impl std::fmt::Debug for Outputs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.sinks.iter().map(|named| &named.name)).finish()
    }
}

impl Outputs {
    /// Opens the files of `specs`; `stdout` makes the writer of sinks without a file.
    ///
    /// # Errors
    /// One line that names the file that cannot be written.
    pub fn open(
        specs: &[SinkSpec],
        fs: &Arc<dyn Fs>,
        stdout: &dyn Fn() -> Box<dyn Write>,
        dialect: Dialect,
        seed: u64,
    ) -> Result<Outputs, String> {
        let mut sinks = Vec::new();
        for spec in specs {
            let (name, out): (String, Box<dyn Write>) = match &spec.target {
                Target::Stdout => ("standard output".to_owned(), stdout()),
                Target::Path(path) => {
                    let name = path.display().to_string();
                    (name, Box::new(Writer::create(fs, path)?))
                }
            };
            let mut rng = Rng::from_seed(seed);
            let draw = Box::new(move || rng.next_u64());
            sinks.push(Named { name, sink: sink::open(spec.kind, out, dialect, draw) });
        }
        Ok(Outputs { sinks, row_error: None })
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

    /// Tells all sinks; one that fails is dropped, so that the others are still told the rest.
    fn each(&mut self, mut tell: impl FnMut(&mut dyn Sink) -> io::Result<()>) -> Result<(), String> {
        let mut first = None;
        self.sinks.retain_mut(|named| match tell(&mut *named.sink) {
            Ok(()) => true,
            Err(error) => {
                first.get_or_insert(format!("cannot write {}: {error}", named.name));
                false
            }
        });
        first.map_or(Ok(()), Err)
    }

    pub(crate) fn begin(&mut self, header: &Header) -> Result<(), String> {
        self.each(|sink| sink.begin(header))
    }

    pub(crate) fn probe(&mut self, probe: &Probe) -> Result<(), String> {
        self.each(|sink| sink.probe(probe))
    }

    pub(crate) fn point(&mut self, point: &Point, header: &Header) -> Result<(), String> {
        self.each(|sink| sink.point(point, header))
    }

    pub(crate) fn failure(&mut self, failure: &Failure) -> Result<(), String> {
        self.each(|sink| sink.failure(failure))
    }

    /// Rows come from the middle of a measurement, which does not end for a full disk; the error is
    /// kept for [`Outputs::row_error`].
    pub(crate) fn row(&mut self, row: &TimelineRow) {
        if let Err(error) = self.each(|sink| sink.row(row)) {
            self.row_error.get_or_insert(error);
        }
    }

    pub(crate) fn row_error(&mut self) -> Option<String> {
        self.row_error.take()
    }

    pub(crate) fn end(&mut self, run: &Run) -> Result<(), String> {
        self.each(|sink| sink.end(run))
    }
}

/// A file that is written from the front. Its sink says when to flush.
struct Writer {
    file: Arc<dyn keyrack_vfs::File>,
}

impl Writer {
    fn create(fs: &Arc<dyn Fs>, path: &Path) -> Result<Writer, String> {
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let file = fs.open(path, &options).map_err(|error| error.to_string())?;
        Ok(Writer { file })
    }
}

/// The same failure as an `io::Error`, for the `Write` trait.
fn as_io(error: keyrack_vfs::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error.to_string()),
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.append(bytes).map_err(as_io)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
