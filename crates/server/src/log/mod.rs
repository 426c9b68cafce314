//! The log of a server: one line an event.
//!
//! ```text
//!   event --level? limit?--> line --> queue (1 MiB) --thread "log"--> standard error
//!                                       | full: the line is lost and counted
//!
//!   text   2026-01-02T03:04:05.678Z WARN auth-refused protocol=redis peer="127.0.0.1:5" user=x
//!   json   {"time":"2026-01-02T03:04:05.678Z","level":"warn","event":"auth-refused",...}
//! ```
//!
//! [`events`] is the table of all events. A thread of its own writes the lines, so an
//! event loop never waits for the reader of standard error: it formats the line, and holds a lock
//! for the time of a copy. A pipe that is full stops that thread alone. Lines that the queue has no
//! room for are lost, and `lines-lost` says how many once the pipe is read again. If the pipe is
//! closed, lines are dropped. The end of the process waits at most a second for a full pipe.
//!
//! Events that clients can cause are limited: of each kind the first `LINES_MAX` in ten seconds
//! are written, and then `left-out` says how many were not. Admission is one atomic addition; the
//! thread sets the counts back, so no clock is read for a line that is left out.
//!
//! There is one log a process, as there is one standard error. Before [`start`] nothing is
//! written.

pub mod events;
mod line;
mod queue;

use line::Value;
use queue::{Queue, Tick};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Lines of a limited event that are written in an interval.
const LINES_MAX: u64 = 10;

/// The interval of limited events.
const INTERVAL: Duration = Duration::from_secs(10);

/// How long the end waits for the lines to be written.
const END_WAIT: Duration = Duration::from_secs(1);

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum LogLevel {
    /// The server cannot do what it is for, or something was lost.
    Error,
    /// Something is refused, or near a limit.
    Warn,
    /// A step in the life of the server.
    #[default]
    Info,
    /// What single connections do.
    Debug,
}

impl LogLevel {
    /// All, the gravest first.
    pub const ALL: [LogLevel; 4] =
        [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug];

    /// Its name, in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }
}

impl std::str::FromStr for LogLevel {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = LogLevel::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| format!("'{name}' is not one of error, warn, info, debug"))
    }
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Whether the lines of an event are limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// All are written: the server causes them itself.
    Unlimited,
    /// Clients can cause them: some are written, the others counted.
    Limited,
}

/// A row of the table of events.
#[derive(Clone, Copy, Debug)]
pub struct EventFacts {
    /// Its name in every line.
    pub name: &'static str,
    /// Its level.
    pub level: LogLevel,
    /// Whether its lines are limited.
    pub rate: Rate,
    /// Its fields, in their order.
    pub fields: &'static [&'static str],
    /// Its meaning, in a sentence.
    pub meaning: &'static str,
}

/// What the process has of it.
struct Log {
    format: LogFormat,
    level: AtomicU8,
    queue: Queue,
    /// For each limited event the lines asked for in this interval.
    asked: [AtomicU64; events::COUNT],
}

static LOG: OnceLock<Log> = OnceLock::new();

/// Writes events of `level` and graver ones to `sink` from now on. The first call counts.
pub fn start(level: LogLevel, format: LogFormat, sink: Box<dyn Write + Send>) {
    let log = Log {
        format,
        level: AtomicU8::new(level as u8),
        queue: Queue::default(),
        asked: [const { AtomicU64::new(0) }; events::COUNT],
    };
    if LOG.set(log).is_err() {
        return;
    }
    let Some(log) = LOG.get() else { return };
    let tick = |tick| match tick {
        Tick::Interval => log.end_interval(),
        Tick::Lost(lines) => events::lines_lost(lines),
    };
    let run = move || log.queue.write_to(sink, INTERVAL, &tick);
    if std::thread::Builder::new().name("log".to_owned()).spawn(run).is_err() {
        // Without a thread there is no log, and the server goes on.
        log.level.store(OFF, Relaxed);
    }
}

/// Below all levels.
const OFF: u8 = u8::MAX;

/// Writes events of `level` and graver ones from now on.
pub fn set_level(level: LogLevel) {
    if let Some(log) = LOG.get() {
        log.level.store(level as u8, Relaxed);
    }
}

/// The level of the log that is written; `None` while there is no log.
#[must_use]
pub fn level() -> Option<LogLevel> {
    let level = LOG.get()?.level.load(Relaxed);
    LogLevel::ALL.into_iter().find(|known| *known as u8 == level)
}

/// Whether events of `level` are written.
#[must_use]
pub fn is_on(level: LogLevel) -> bool {
    LOG.get().is_some_and(|log| log.is_on(level))
}

/// Writes a line for scripts that wait for it. A log of objects has no such lines.
pub fn plain(text: &str) {
    if let Some(log) = LOG.get()
        && log.format == LogFormat::Text
    {
        log.queue.push(&format!("{text}\n"));
    }
}

/// The address of a client as text.
pub(crate) fn peer_text(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "unix".to_owned(), |address| address.to_string())
}

/// Writes what is in the queue, for at most a second, and how many lines were left out. Lines that
/// come later are written too, as long as the process lives.
pub fn finish() {
    if let Some(log) = LOG.get() {
        log.end_interval();
        log.queue.wait_until_written(END_WAIT);
    }
}

/// Writes an event of the table, if its level and its limit allow it.
fn emit(event: usize, fields: &[Value<'_>]) {
    let Some(log) = LOG.get() else { return };
    let facts = &events::EVENTS[event];
    if !log.is_on(facts.level) {
        return;
    }
    // Relaxed: the count alone is shared.
    if facts.rate == Rate::Limited && log.asked[event].fetch_add(1, Relaxed) >= LINES_MAX {
        return;
    }
    let line = line::format(log.format, keyrack_measure::wall::unix_ns(), facts, fields);
    if events::REPORTS.contains(&event) {
        log.queue.push_report(&line);
    } else {
        log.queue.push(&line);
    }
}

impl Log {
    fn is_on(&self, level: LogLevel) -> bool {
        let on = self.level.load(Relaxed);
        on != OFF && level as u8 <= on
    }

    /// Says how many lines were left out, and begins to count anew.
    fn end_interval(&self) {
        for (facts, asked) in events::EVENTS.iter().zip(&self.asked) {
            let left_out = asked.swap(0, Relaxed).saturating_sub(LINES_MAX);
            if left_out > 0 {
                events::left_out(facts.name, left_out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_their_names() {
        for level in LogLevel::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert!("INFO".parse::<LogLevel>().unwrap_err().contains("error, warn, info, debug"));
        assert!(LogLevel::Error < LogLevel::Debug);
    }
}
