//! Rows and changes as a replica gets them.
//!
//! ```text
//!   us                                    server
//!   REPLCONF capa eof capa psync2         +OK
//!   REPLCONF version 9.0.0                +OK, or an error
//!   PSYNC ? -1                            +FULLRESYNC id offset
//!                                         $bytes | $EOF:mark     the snapshot, then the mark
//!   REPLCONF ACK offset, each second      SELECT 0, SET a 1, ...
//! ```
//!
//! The server begins the stream of commands at the moment of its snapshot, so nothing is missed
//! and nothing comes twice. It keeps the commands in memory while we read the snapshot, up to its
//! `client-output-buffer-limit replica`; beyond it closes the connection.
//!
//! The import has caught up when it has executed everything up to the server's offset, and the
//! offset has not moved on meanwhile.

use super::{Plan, ROUNDS_MAX};
use crate::aof::{CommandReader, Found};
use crate::args::Args;
use crate::client::{Client, Value};
use crate::error::{Error, Result};
use crate::event::{Event, Phase, Progress, Visit};
use crate::input::Input;
use crate::rdb;
use crate::replay::Replay;
use crate::url::Url;
use keyrack_measure::Clock;
use keyrack_net::Link;
use keyrack_wire::{parse_u64, resp};
use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The version of Valkey whose snapshots we read.
const VALKEY_VERSION: &[u8] = b"9.0.0";
/// The longest line before the snapshot.
const LINE_BYTES_MAX: usize = 1024;
/// Bytes of the mark behind a snapshot of unknown length.
const MARK_BYTES: usize = 40;
/// The server hears from us so often, so that it does not take us for dead.
const ACK_NS: u64 = 1_000_000_000;
/// A read waits so long before we look whether to stop.
const READ_TIMEOUT: Duration = Duration::from_millis(200);
/// Reads without a byte before the server counts as gone: a minute.
const SILENT_READS_MAX: u32 = 300;

/// Where the conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The server collects replicas before it makes a snapshot. It begins when all are silent for
    /// a moment, so we are.
    Waiting,
    /// The snapshot comes. An empty line each second says that we are here.
    Snapshot,
    /// Commands come. A read that brings nothing returns, so that its caller can acknowledge.
    Commands,
}

/// The connection, for reading and for saying that we are here.
struct Wire {
    link: Rc<RefCell<Link>>,
    clock: Clock,
    said: u64,
    stage: Rc<Cell<Stage>>,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut link = self.link.borrow_mut();
        let mut silent = 0;
        while link.input().is_empty() {
            let now = self.clock.ticks();
            let stage = self.stage.get();
            if stage == Stage::Snapshot && self.clock.ns_between(self.said, now) > ACK_NS {
                self.said = now;
                link.output().push(b'\n');
                link.flush()?;
            }
            match link.fill() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error)
                    if error.kind() == io::ErrorKind::TimedOut
                        && stage != Stage::Commands
                        && silent < SILENT_READS_MAX =>
                {
                    silent += 1;
                }
                Err(error) => return Err(error),
            }
        }
        let count = link.input().len().min(buffer.len());
        buffer[..count].copy_from_slice(&link.input()[..count]);
        link.consume(count);
        Ok(count)
    }
}

/// Reads the snapshot and the changes. Returns why the server refuses, if it does so before the
/// first row.
pub(super) fn read(url: &Url, plan: &Plan<'_>, visit: Visit<'_>) -> Result<Option<String>> {
    let mut control = Client::connect(url)?;
    let mut replica = Client::connect(url)?;
    let reply = replica.ask(&[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])?;
    if let Value::Error(why) = reply {
        return Ok(Some(why));
    }
    // Valkey 9 sends expiries of fields only to replicas that say so. Others refuse the option.
    replica.ask(&[b"REPLCONF", b"version", VALKEY_VERSION])?;
    // What answers INFO without an offset has no stream of commands.
    let Some(_) = offset(&mut control)? else {
        return Ok(Some("the server has no replication".to_owned()));
    };
    let link = Rc::new(RefCell::new(replica.into_link(READ_TIMEOUT)?));
    resp::command(link.borrow_mut().output(), &[b"PSYNC", b"?", b"-1"]);
    link.borrow_mut().flush().map_err(|cause| Error::io(&url.name(), cause))?;
    let clock = Clock::vdso();
    let said = clock.ticks();
    let stage = Rc::new(Cell::new(Stage::Waiting));
    let wire = Wire { link: Rc::clone(&link), clock, said, stage: Rc::clone(&stage) };
    let input = Input::new(wire, url.name(), None);
    let mut stream = Stream { input, link, offset: 0, start: 0 };
    let answer = stream.line()?;
    let Some(rest) = answer.strip_prefix("+FULLRESYNC ") else {
        return Ok(Some(answer.trim_start_matches('-').to_owned()));
    };
    let number = rest.split(' ').nth(1).and_then(|text| parse_u64(text.as_bytes()));
    let Some(offset) = number else { return stream.input.damaged("no FULLRESYNC") };
    stream.offset = offset;
    let head = stream.line()?;
    stage.set(Stage::Snapshot);
    let (total, mut done) = (key_count(&mut control)?, 0);
    stream.snapshot(&head, &mut |event| {
        done += u64::from(matches!(
            event,
            Event::String { .. } | Event::Hash(_) | Event::LeftOut { .. }
        ));
        // A snapshot that the server makes while it sends it has no length.
        visit(match event {
            Event::Progress(Progress { total: None, .. }) => {
                Event::Progress(Progress { phase: Phase::Keys, done, total })
            }
            event => event,
        })
    })?;
    stage.set(Stage::Commands);
    stream.acknowledge()?;
    stream.changes(&mut control, plan, visit)?;
    Ok(None)
}

/// `master_repl_offset` of INFO.
fn offset(control: &mut Client) -> Result<Option<u64>> {
    let reply = control.ask(&[b"INFO", b"replication"])?;
    let text = control.expect_no_error(reply)?;
    let text = String::from_utf8_lossy(text.text().unwrap_or_default()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    Ok(line.and_then(|number| parse_u64(number.as_bytes())))
}

/// The keys of all databases, by INFO: `db0:keys=2,expires=1,...`.
fn key_count(control: &mut Client) -> Result<Option<u64>> {
    let reply = control.ask(&[b"INFO", b"keyspace"])?;
    let text = control.expect_no_error(reply)?;
    let text = String::from_utf8_lossy(text.text().unwrap_or_default()).into_owned();
    let keys = |line: &str| {
        let (_, numbers) = line.strip_prefix("db")?.split_once(":keys=")?;
        parse_u64(numbers.split(',').next()?.as_bytes())
    };
    Ok(text.lines().filter_map(keys).reduce(u64::saturating_add))
}

struct Stream<'r> {
    input: Input<'r>,
    link: Rc<RefCell<Link>>,
    /// Of the server, at the first byte of the stream of commands.
    offset: u64,
    /// Of the input, there.
    start: u64,
}

impl Stream<'_> {
    /// The next line that is not empty. The server sends empty ones while it makes the snapshot.
    fn line(&mut self) -> Result<String> {
        let mut line = Vec::new();
        loop {
            match self.input.byte()? {
                b'\n' if !line.is_empty() => {
                    return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
                }
                b'\n' => {}
                byte => line.push(byte),
            }
            if line.len() > LINE_BYTES_MAX {
                return self.input.damaged("a line without an end");
            }
        }
    }

    /// The snapshot that `head` announces.
    fn snapshot(&mut self, head: &str, visit: Visit<'_>) -> Result<()> {
        let size = head.strip_prefix('$').unwrap_or_default();
        if let Some(mark) = size.strip_prefix("EOF:") {
            rdb::read(&mut self.input, visit)?;
            let found: [u8; MARK_BYTES] = self.input.array()?;
            if mark.as_bytes() != found {
                return self.input.damaged("the snapshot does not end with its mark");
            }
        } else {
            let Some(bytes) = parse_u64(size.as_bytes()) else {
                return self.input.damaged(format!("no snapshot but {head}"));
            };
            let end = self.input.offset().saturating_add(bytes);
            self.input.set_end(Some(end));
            rdb::read(&mut self.input, visit)?;
            if self.input.offset() != end {
                return self.input.damaged("the snapshot has another length than announced");
            }
            self.input.set_end(None);
        }
        self.start = self.input.offset();
        Ok(())
    }

    /// The server's offset up to which everything was executed.
    fn done(&self) -> u64 {
        self.offset + (self.input.offset() - self.start)
    }

    fn acknowledge(&mut self) -> Result<()> {
        let done = self.done().to_string();
        let mut link = self.link.borrow_mut();
        resp::command(link.output(), &[b"REPLCONF", b"ACK", done.as_bytes()]);
        link.flush().map_err(|cause| Error::io(self.input.name(), cause))
    }

    fn changes(&mut self, control: &mut Client, plan: &Plan<'_>, visit: Visit<'_>) -> Result<()> {
        let clock = Clock::vdso();
        let mut told = clock.ticks();
        let (mut reader, mut replay) = (CommandReader::new(false), Replay::default());
        let mut args = Args::default();
        let mut goal = offset(control)?.unwrap_or(0);
        let (mut rounds, mut silent) = (0, 0);
        loop {
            if self.done() >= goal && !replay.is_open() {
                if plan.follow && plan.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if !plan.follow {
                    rounds += 1;
                    let now = offset(control)?.unwrap_or(goal);
                    if now <= self.done() || rounds == ROUNDS_MAX {
                        return Ok(());
                    }
                    goal = now;
                }
            }
            if clock.ns_between(told, clock.ticks()) > ACK_NS {
                told = clock.ticks();
                self.acknowledge()?;
            }
            if self.input.buffered().is_empty() {
                let (done, total) = (replay.count(), None);
                visit(Event::Progress(Progress { phase: Phase::Changes, done, total }))?;
            }
            let at = self.input.offset();
            match reader.next(&mut self.input, &mut args) {
                Ok(Found::Command) => {
                    silent = 0;
                    replay.command(&args, at, &self.input, visit)?;
                }
                Ok(Found::End | Found::Torn(_)) => {
                    return Err(Error::server(
                        self.input.name(),
                        "the server ended the replication; if it ran out of memory for us, raise \
                         its client-output-buffer-limit replica",
                    ));
                }
                Err(error) if error.is_timeout() && silent < SILENT_READS_MAX => silent += 1,
                Err(error) => return Err(error),
            }
        }
    }
}
