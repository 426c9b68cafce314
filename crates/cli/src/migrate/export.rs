//! `keyrack export SOURCE --format resp|json`.

use super::place::{Named, Place, with_access};
use super::shown::Shown;
use super::{begun, failure, number, option};
use clap::{ArgMatches, Command};
use keyrack_console::{DONE, Failure, NO, Outcome, Output, say};
use keyrack_migrate::{Error, Event, JsonWriter, Progress, Report, RespWriter, Url, export};
use keyrack_vfs::{Fs, OutputFile, RealFs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const PROGRAM: &str = "keyrack export";

pub(crate) fn command() -> Command {
    let command = Command::new("export")
        .about("Write the strings and hashes of a server or a directory as commands or JSON lines")
        .long_about(
            "Write the strings and hashes of a running server, or of a directory of keyrack \
             serve that is not in use, as commands of Redis, which redis-cli takes from a pipe, \
             or as lines of JSON. keyrack import reads both.",
        );
    begun(command).arg(option("format", "FORMAT", "resp or json [default: json]")).arg(option(
        "output",
        "FILE",
        "Where to [default: standard output]",
    ))
}

/// Writes, and says what was left out.
pub(crate) fn run(matches: &ArgMatches) -> u8 {
    written(matches).unwrap_or_else(|failure| failure.explain(PROGRAM))
}

fn written(matches: &ArgMatches) -> Outcome {
    let text = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let writer = match text("format") {
        "" | "json" => Writer::Json(JsonWriter::default(), String::new()),
        "resp" => Writer::Resp(RespWriter::default(), Vec::new()),
        other => {
            return Err(Failure::Usage(keyrack_store::unknown("format", other, &["resp", "json"])));
        }
    };
    let named = Named::of(text("source"))?;
    let stop = keyrack_console::flag()?;
    let db = number(matches, "db")?;
    let (from, db) = match named {
        Named::Server(url) => {
            let db = db.or(url.db).unwrap_or(0);
            (Place::server(with_access(url, matches, "password-file")?), db)
        }
        Named::Path(path) => {
            if !RealFs.exists(&path)? {
                let shown = path.display();
                return Err(Failure::Usage(format!("there is no directory {shown}")));
            }
            (Place::directory(&path, matches)?, db.unwrap_or(0))
        }
    };
    let sink = match matches.get_one::<String>("output") {
        Some(path) => {
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            OutputFile::whole(&fs, Path::new(path)).map(|file| Sink::File(Box::new(file)))
        }
        None => Ok(Sink::Stdout(Output::new())),
    };
    let report = match sink {
        Ok(sink) => copied(&from.url, db, &stop, writer, sink),
        Err(error) => Err(error.into()),
    };
    from.close()?;
    let report = report?;
    report.losses().iter().for_each(|line| say!("{PROGRAM}: {line}"));
    Ok(if report.is_complete() { DONE } else { NO })
}

enum Writer {
    Json(JsonWriter, String),
    Resp(RespWriter, Vec<u8>),
}

impl Writer {
    /// Whether an event is a row with flags, and the format has none.
    fn loses_flags_of(&self, event: &Event<'_>) -> bool {
        let has_flags = matches!(event, Event::String { entry, .. } if entry.flags != 0);
        has_flags && matches!(self, Writer::Resp(..))
    }

    /// Writes an event, and lends the bytes if there are many, or if they are the last.
    fn event(&mut self, event: &Event<'_>) -> Result<&[u8], Error> {
        match self {
            Writer::Json(writer, out) => {
                out.clear();
                writer.event(event, out);
                Ok(out.as_bytes())
            }
            Writer::Resp(writer, out) => {
                out.clear();
                writer.event(event, out)?;
                Ok(out)
            }
        }
    }
}

enum Sink {
    Stdout(Output),
    File(Box<OutputFile>),
}

/// Why the copy ends early.
enum End {
    Failed(Failure),
    /// The reader of standard output has gone.
    Unread,
}

fn copied(
    from: &Url,
    db: u32,
    stop: &AtomicBool,
    mut writer: Writer,
    mut sink: Sink,
) -> Result<Report, Failure> {
    let (mut shown, mut report, mut end) = (Shown::new(), Report::default(), None);
    let result = export(from, db, stop, &mut |event| {
        report.note(&event);
        report.flags_lost += u64::from(writer.loses_flags_of(&event));
        if let Event::Progress(progress) = &event {
            step(progress, &report, &mut shown, stop)?;
        }
        let bytes = writer.event(&event)?;
        let ended = match &mut sink {
            Sink::Stdout(out) => match out.write(bytes) {
                Ok(true) => None,
                Ok(false) => Some(End::Unread),
                Err(failure) => Some(End::Failed(failure)),
            },
            Sink::File(file) => file.append(bytes).err().map(|error| End::Failed(error.into())),
        };
        match ended {
            None => Ok(()),
            ended => {
                end = ended;
                Err(Error::Interrupted)
            }
        }
    });
    shown.end();
    match end {
        Some(End::Failed(failure)) => return Err(failure),
        Some(End::Unread) => return Ok(report),
        None => result.map_err(failure)?,
    }
    match sink {
        Sink::Stdout(out) => out.finish().map(drop)?,
        Sink::File(mut file) => file.finish()?,
    }
    Ok(report)
}

fn step(
    progress: &Progress,
    report: &Report,
    shown: &mut Shown,
    stop: &AtomicBool,
) -> Result<(), Error> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    shown.tell(progress, report);
    Ok(())
}
