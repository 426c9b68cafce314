//! `mtd --test`: a test of `mttest` on the rows that the server would serve, in this process.
//!
//! ```text
//!   threads, each with a session of the rows: load, wait for the others, run
//!     standard error:   ID: now getting             stats of the store at the end
//!     standard output:  a line of JSON a thread, totals, rows if asked for
//! ```
//!
//! Every write is in the log before the next operation begins, as durable as was asked for, and a
//! column is a column of its row: what a test has put, clients find later.

use super::PROGRAM;
use super::options::Options;
use crate::rows as report;
use keyrack_console::say;
use keyrack_harness::sink::Value;
use keyrack_measure::{Clock, wall};
use keyrack_rowstore::{Row as Stored, RowSession, Rows};
use keyrack_server::{Error, Result as Served};
use keyrack_store::Update;
use keyrack_workload::kvtest::{Client, GlibcRandom, Halt, Job, Lcg, Row};
use std::io::Write;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};

/// Operations between two looks at the clock.
const STRIDE: u32 = 64;
/// The longest sleep of a pause between two looks for a failure of others.
const NAP_NS: u64 = 20_000_000;

/// What all threads share.
struct Run<'r> {
    options: &'r Options,
    rows: &'r dyn Rows,
    clock: Clock,
    is_first: bool,
    halted: AtomicBool,
    expired: AtomicBool,
    through: AtomicU32,
    random: Mutex<GlibcRandom>,
    loaded: Barrier,
}

/// Runs the test, prints, and closes the rows. Returns the exit status.
pub(super) fn run(job: &'static Job, options: &Options, rows: Box<dyn Rows>) -> Served<u8> {
    if job.wants_fresh && !rows.is_empty() {
        keyrack_console::refuse(
            PROGRAM,
            &format!("{} wants no rows, and there are {}", job.name, rows.len()),
        );
    }
    let all = options.threads + job.beside;
    let run = Run {
        options,
        rows: &*rows,
        clock: Clock::vdso(),
        is_first: rows.is_empty(),
        halted: AtomicBool::new(false),
        expired: AtomicBool::new(false),
        through: AtomicU32::new(0),
        random: Mutex::default(),
        loaded: Barrier::new(all as usize),
    };
    let ends: Vec<(Row, Result<(), Halt>)> = std::thread::scope(|scope| {
        let run = &run;
        let handles: Vec<_> =
            (0..all).map(|id| scope.spawn(move || thread(run, job, id))).collect();
        let joined = |end: std::thread::Result<_>| end.unwrap_or_else(|panic| resume_unwind(panic));
        handles.into_iter().map(|handle| joined(handle.join())).collect()
    });
    let (mut reports, mut status) = (Vec::new(), keyrack_console::DONE);
    for (id, (row, end)) in ends.into_iter().enumerate() {
        match end {
            Ok(()) if id < options.threads as usize => reports.push(report::json(row)),
            Err(Halt::Failed(why)) => {
                keyrack_console::refuse(PROGRAM, &format!("{}: thread {id}: {why}", job.name));
                status = keyrack_console::NO;
            }
            // It ran beside the others, or another one's failure has ended it.
            _ => {}
        }
    }
    let lines: Vec<String> = reports.iter().map(|row| row.one_line() + "\n").collect();
    status = status.max(keyrack_console::print(&(lines.concat() + &report::totals(&reports))));
    let mut stats = Vec::new();
    rows.stats(&mut |name, value| {
        stats.push(format!("{name} {}", Value::rounded(value).one_line()));
    });
    say!("mb: {}", stats.join(", "));
    if options.prints {
        print_rows(&*rows)?;
    }
    rows.close()?;
    Ok(status)
}

/// One thread, from its share of the load to its last check.
fn thread(run: &Run<'_>, job: &Job, id: u32) -> (Row, Result<(), Halt>) {
    let session = run.rows.session();
    let start = run.clock.ticks();
    let mut client = match session {
        Ok(session) => Direct { run, session, id, start, left: 0, row: Row::new() },
        Err(error) => {
            run.halted.store(true, Ordering::Relaxed);
            run.loaded.wait();
            return (Row::new(), Err(in_words(&error)));
        }
    };
    client.session.at(wall::unix_ms());
    let loaded = job.load(&mut client);
    run.loaded.wait();
    client.start = run.clock.ticks();
    let result = loaded.and_then(|()| job.run(&mut client, &mut Lcg::default()));
    if result.is_err() {
        run.halted.store(true, Ordering::Relaxed);
    }
    if id < run.options.threads {
        run.through.fetch_add(1, Ordering::Relaxed);
    }
    (client.row, result)
}

fn in_words(error: &keyrack_store::Error) -> Halt {
    Halt::failed(error.to_string())
}

/// A thread's way to its rows.
struct Direct<'r> {
    run: &'r Run<'r>,
    session: Box<dyn RowSession + 'r>,
    id: u32,
    start: u64,
    /// Questions until the next look at the clock.
    left: u32,
    row: Row,
}

impl Direct<'_> {
    fn begin(&self) -> Result<(), Halt> {
        if self.run.halted.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }

    /// Logs what was written.
    fn log(&mut self) -> Result<(), Halt> {
        let position = self.session.flush().map_err(|error| in_words(&error))?;
        if !self.session.is_durable(position) {
            self.run.rows.sync(position).map_err(|error| in_words(&error))?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Stored<'_>>, &mut keyrack_rowstore::RowBuf) -> Update,
    ) -> Result<(), Halt> {
        self.begin()?;
        self.session.update(key, decide).map_err(|error| in_words(&error))?;
        self.log()
    }

    fn look_up(&mut self, key: &[u8], visit: &mut dyn FnMut(Stored<'_>)) -> Result<bool, Halt> {
        self.begin()?;
        self.session.get(key, visit).map_err(|error| in_words(&error))
    }

    /// Rows of a range, at most so many.
    fn visit(
        &mut self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.begin()?;
        let mut visited = 0;
        let mut each = |key: &[u8], row: Stored<'_>| {
            visit(key, row.value());
            visited += 1;
            if visited < rows_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let found = match (rows_max, is_reverse) {
            (0, _) => Ok(0),
            (_, false) => self.session.scan(low, high, &mut each),
            (_, true) => self.session.scan_rev(low, high, &mut each),
        };
        found.map_err(|error| in_words(&error))
    }
}

impl Client for Direct<'_> {
    fn id(&self) -> u32 {
        self.id
    }

    fn threads(&self) -> u32 {
        self.run.options.threads
    }

    fn limit(&self) -> u64 {
        self.run.options.limit.unwrap_or(u64::MAX)
    }

    fn is_first(&self) -> bool {
        self.run.is_first
    }

    fn place(&self) -> u32 {
        0
    }

    fn seed(&self) -> u64 {
        1
    }

    fn is_alone(&self) -> bool {
        self.begin().is_err()
            || self.run.through.load(Ordering::Relaxed) >= self.run.options.threads
    }

    fn expired(&mut self, stage: u32) -> bool {
        // There is no second duration.
        if stage > 0 || self.run.options.duration_s == 0.0 {
            return false;
        }
        if self.run.expired.load(Ordering::Relaxed) {
            return true;
        }
        if self.left == 0 {
            self.left = STRIDE;
            if self.seconds() >= self.run.options.duration_s {
                self.run.expired.store(true, Ordering::Relaxed);
                return true;
            }
        }
        self.left -= 1;
        false
    }

    fn seconds(&self) -> f64 {
        let clock = &self.run.clock;
        clock.ns_between(self.start, clock.ticks()) as f64 / 1e9
    }

    fn param(&self, _name: &str) -> Option<&str> {
        None
    }

    fn file(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    fn shared_random(&self) -> &Mutex<GlibcRandom> {
        &self.run.random
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.begin()?;
        self.session.put(key, value, 0, 0).map_err(|error| in_words(&error))?;
        self.log()
    }

    fn put_synced(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.begin()?;
        self.session.put(key, value, 0, 0).map_err(|error| in_words(&error))?;
        let position = self.session.flush().map_err(|error| in_words(&error))?;
        self.run.rows.sync(position).map_err(|error| in_words(&error))
    }

    fn insert_new(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Halt> {
        let mut is_new = false;
        self.write(key, &mut |old, new| {
            is_new = old.is_none();
            if !is_new {
                return Update::Keep;
            }
            new.set_value(value);
            Update::Put
        })?;
        Ok(is_new)
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool, Halt> {
        self.look_up(key, &mut |row| visit(row.value()))
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Halt> {
        self.delete_existing(key).map(|_| ())
    }

    fn delete_existing(&mut self, key: &[u8]) -> Result<bool, Halt> {
        self.begin()?;
        let was_there = self.session.remove(key).map_err(|error| in_words(&error))?;
        self.log().map(|()| was_there)
    }

    fn scan(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        self.visit((first, None), false, rows_max, visit).map(|_| ())
    }

    fn scan_rev(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        // The upper end of a range is not in it; the next key above is.
        let high = [first, &[0]].concat();
        self.visit((&[], Some(&high)), true, rows_max, visit).map(|_| ())
    }

    fn walk(&mut self, rows_max: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64, Halt> {
        self.visit((&[], None), false, rows_max, visit)
    }

    fn walk_rev(
        &mut self,
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.visit((&[], None), true, rows_max, visit)
    }

    fn range(
        &mut self,
        low: &[u8],
        high: &[u8],
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        self.visit((low, Some(high)), false, u64::MAX, visit)
    }

    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Halt> {
        self.begin()?;
        for (key, value) in pairs {
            self.session.put(key, value, 0, 0).map_err(|error| in_words(&error))?;
        }
        self.log()
    }

    fn remove_many(&mut self, keys: &[&[u8]]) -> Result<(), Halt> {
        self.begin()?;
        for key in keys {
            self.session.remove(key).map_err(|error| in_words(&error))?;
        }
        self.log()
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Halt> {
        self.begin()?;
        let mut each = |index, row: Option<Stored<'_>>| visit(index, row.map(|row| row.value()));
        self.session.multi_get(keys, &mut each).map_err(|error| in_words(&error))
    }

    fn put_column(&mut self, key: &[u8], column: u16, value: &[u8]) -> Result<(), Halt> {
        let column = usize::from(column);
        self.write(key, &mut |old, new| {
            let count = old.map_or(0, |row| row.columns()).max(column + 1);
            if count == 1 {
                new.set_value(value);
                return Update::Put;
            }
            new.columns();
            for index in 0..count {
                let kept = || old.and_then(|row| row.column(index)).unwrap_or_default();
                new.push(if index == column { value } else { kept() });
            }
            Update::Put
        })
    }

    fn get_column(
        &mut self,
        key: &[u8],
        column: u16,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Halt> {
        let mut found = false;
        self.look_up(key, &mut |row| {
            if let Some(value) = row.column(column.into()) {
                found = true;
                visit(value);
            }
        })?;
        Ok(found)
    }

    fn pause(&mut self, seconds: f64) -> Result<(), Halt> {
        let clock = &self.run.clock;
        let end = clock.ticks().saturating_add(clock.ticks_of_ns((seconds * 1e9) as u64));
        loop {
            self.begin()?;
            let now = clock.ticks();
            if now >= end {
                return Ok(());
            }
            clock.wait_until(end.min(now + clock.ticks_of_ns(NAP_NS)));
        }
    }

    fn notice(&mut self, text: &str) {
        say!("{}: {text}", self.id);
    }

    fn warn(&mut self, text: &str) {
        keyrack_console::refuse(PROGRAM, text);
    }

    fn report(&mut self, row: Row) {
        self.row.merge(row);
    }
}

/// Every row on standard output, its columns one behind the other, bytes that are no letters
/// escaped.
fn print_rows(rows: &dyn Rows) -> Served<()> {
    let mut session = rows.session()?;
    session.at(wall::unix_ms());
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut write = |key: &[u8], row: Stored<'_>| {
        let columns = (0..row.columns()).filter_map(|index| row.column(index));
        let columns: Vec<String> = columns.map(|value| value.escape_ascii().to_string()).collect();
        match writeln!(out, "{}: {}", key.escape_ascii(), columns.join(" ")) {
            Ok(()) => ControlFlow::Continue(()),
            // A reader that went away, such as `head`, has all it wanted.
            Err(_) => ControlFlow::Break(()),
        }
    };
    session.scan(b"", None, &mut write).map_err(Error::from)?;
    let _ = out.flush();
    Ok(())
}
