//! A child's way to the server: the [`Client`] of the jobs over a [`Window`].
//!
//! Puts, removals without an answer and checked lookups go through the window; what needs its
//! answer at once waits for all before it. The clock is read once every half window, when requests
//! are written anyway.

use super::datagram_window::DatagramWindow;
use super::settings::{PORTS, Server, Settings};
use super::slot::Wanted;
use super::stream_window::StreamWindow;
use super::window::Window;
use keyrack_console::say;
use keyrack_measure::Clock;
use keyrack_net::ConnectOptions;
use keyrack_wire::masstree::{Command, Reply, ScanValue, Values};
use keyrack_workload::kvtest::{Client, GlibcRandom, Halt, Row};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The name in messages.
pub(super) const PROGRAM: &str = "mtclient";

/// Rows that one request of a scan asks for, at most.
const SCAN_ROWS_MAX: u64 = 1024;
/// The longest sleep of a pause between two looks for a failure of others.
const NAP_NS: u64 = 20_000_000;

/// What all children share.
pub(super) struct Run<'o> {
    pub(super) settings: &'o Settings,
    /// What `-i` names.
    input: Option<Vec<u8>>,
    clock: Clock,
    /// Tick of the common start.
    start: AtomicU64,
    /// Whether a child has failed.
    halted: AtomicBool,
    /// Children that are through.
    through: AtomicU32,
    random: Mutex<GlibcRandom>,
    /// What the children of `over2` have found, by the number of the key.
    seen: Mutex<HashMap<u64, Option<Vec<u8>>>>,
}

impl<'o> Run<'o> {
    pub(super) fn new(settings: &'o Settings, clock: Clock, input: Option<Vec<u8>>) -> Self {
        Run {
            settings,
            input,
            clock,
            start: AtomicU64::new(0),
            halted: AtomicBool::new(false),
            through: AtomicU32::new(0),
            random: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Lets the time begin; called before there are threads.
    pub(super) fn start(&self) {
        self.start.store(self.clock.ticks(), Ordering::Relaxed);
    }
}

/// One child.
pub(super) struct NetClient<'r> {
    run: &'r Run<'r>,
    window: Window,
    id: u32,
    children: u32,
    /// Operations between two looks at the clock, and those left.
    stride: u32,
    left: u32,
    /// Which stages are over.
    is_over: [bool; 2],
    row: Row,
}

impl<'r> NetClient<'r> {
    pub(super) fn connect(run: &'r Run<'r>, id: u32, children: u32) -> Result<Self, String> {
        let Settings { server, timeout, in_flight: size, .. } = run.settings;
        let size = *size;
        let window = match server {
            Server::Stream(endpoint) => {
                let connect = ConnectOptions::with_timeout(*timeout);
                Window::Stream(StreamWindow::connect(endpoint, &connect, size)?)
            }
            Server::Datagrams { host, port, is_shared, local_port } => {
                // That the ports exist was checked with the options.
                let port = if *is_shared { *port } else { port + (id % PORTS) as u16 };
                let local_port = local_port.map(|port| port + id as u16);
                let window = DatagramWindow::new(host, port, local_port, size, *timeout)?;
                Window::Datagrams(window)
            }
        };
        let stride = (size / 2).max(1);
        Ok(NetClient {
            run,
            window,
            id,
            children,
            stride,
            left: 0,
            is_over: [false; 2],
            row: Row::new(),
        })
    }

    pub(super) fn settings(&self) -> &'r Settings {
        self.run.settings
    }

    pub(super) fn seen(&self) -> &Mutex<HashMap<u64, Option<Vec<u8>>>> {
        &self.run.seen
    }

    pub(super) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Waits for all answers and says what was done.
    pub(super) fn finish(&mut self) -> Result<(), Halt> {
        if !self.window.is_lost() {
            self.window.drain()?;
        }
        self.run.through.fetch_add(1, Ordering::Relaxed);
        if !self.settings().is_quiet {
            say!("{} {}", self.id, crate::rows::line(&self.row));
        }
        Ok(())
    }

    pub(super) fn into_row(self) -> Row {
        self.row
    }

    pub(super) fn halt_others(&self) {
        self.run.halted.store(true, Ordering::Relaxed);
    }

    /// Insists that `key` is not there.
    pub(super) fn check_absent(&mut self, key: &[u8]) -> Result<(), Halt> {
        self.check_others()?;
        let get = Command::Get { key, columns: &[] };
        self.window.send(&get, Wanted::Nothing, key, &[])
    }

    /// Puts several columns of one row, ascending, as one step.
    pub(super) fn put_columns(&mut self, key: &[u8], changes: &[(u32, &[u8])]) -> Result<(), Halt> {
        self.check_others()?;
        self.window.send(&Command::Put { key, changes }, Wanted::Stored, &[], &[])
    }

    pub(super) fn ask_for_checkpoint(&mut self) -> Result<(), Halt> {
        self.window.send(&Command::Checkpoint, Wanted::Checkpoint, &[], &[])
    }

    /// Ends the child when another one has failed.
    fn check_others(&self) -> Result<(), Halt> {
        if self.run.halted.load(Ordering::Relaxed) { Err(Halt::Stopped) } else { Ok(()) }
    }

    #[cold]
    fn look_at_clock(&mut self) {
        self.left = self.stride;
        let seconds = self.seconds();
        let [first, second] = self.settings().durations_s;
        self.is_over[0] |= first > 0.0 && seconds >= first;
        self.is_over[1] |= second > 0.0 && seconds >= first + second;
    }

    fn scanned(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        let scan = Command::Scan { first, count: rows_max, columns: &[] };
        let answer = self.window.ask(&scan, |reply| {
            let Reply::Scanned { pairs, .. } = reply else { return None };
            let mut rows = 0;
            for (key, value) in *pairs {
                rows += 1;
                let value = match value {
                    ScanValue::One(value) => value,
                    ScanValue::Row(mut values) => values.next().flatten(),
                };
                visit(key, value.unwrap_or_default());
            }
            Some(rows)
        })?;
        answer.ok_or_else(|| other_kind("a scan"))
    }

    fn looked_up(
        &mut self,
        key: &[u8],
        columns: &[u32],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Halt> {
        let answer = self.window.ask(&Command::Get { key, columns }, |reply| match reply {
            Reply::Row { values, .. } => Some(shown(*values, visit)),
            _ => None,
        })?;
        answer.ok_or_else(|| other_kind("a lookup"))
    }
}

/// Lends the first value, if there is one.
fn shown(mut values: Values<'_>, visit: &mut dyn FnMut(&[u8])) -> bool {
    let value = values.next().flatten();
    value.inspect(|value| visit(value)).is_some()
}

fn other_kind(what: &str) -> Halt {
    Halt::failed(format!("server: does not answer {what}"))
}

/// What no request of the protocol does.
fn absent(what: &str) -> Halt {
    Halt::failed(format!("Masstree's protocol has no {what}"))
}

impl Client for NetClient<'_> {
    fn id(&self) -> u32 {
        self.id
    }

    fn threads(&self) -> u32 {
        self.children
    }

    fn limit(&self) -> u64 {
        self.settings().limit.unwrap_or(u64::MAX)
    }

    /// Somebody else may have written: tests that read come after those that write.
    fn is_first(&self) -> bool {
        false
    }

    fn place(&self) -> u32 {
        0
    }

    fn seed(&self) -> u64 {
        u64::from(self.settings().first_seed)
    }

    fn random_seed(&self) -> u32 {
        self.settings().first_seed.wrapping_add(self.id)
    }

    fn is_alone(&self) -> bool {
        self.run.through.load(Ordering::Relaxed) >= self.children
    }

    #[inline]
    fn expired(&mut self, stage: u32) -> bool {
        if self.left == 0 {
            self.look_at_clock();
        }
        self.left -= 1;
        self.is_over[(stage as usize).min(1)]
    }

    fn seconds(&self) -> f64 {
        let start = self.run.start.load(Ordering::Relaxed);
        self.run.clock.ns_between(start, self.run.clock.ticks()) as f64 / 1e9
    }

    fn param(&self, name: &str) -> Option<&str> {
        self.settings().param(name)
    }

    fn file(&self, _name: &str) -> Option<&[u8]> {
        self.run.input.as_deref()
    }

    fn shared_random(&self) -> &Mutex<GlibcRandom> {
        &self.run.random
    }

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Halt> {
        self.check_others()?;
        self.window.send(&Command::Replace { key, value }, Wanted::Stored, &[], &[])
    }

    fn put_synced(&mut self, _key: &[u8], _value: &[u8]) -> Result<(), Halt> {
        Err(absent("synced put"))
    }

    fn insert_new(&mut self, _key: &[u8], _value: &[u8]) -> Result<bool, Halt> {
        Err(absent("insertion of absent keys alone"))
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool, Halt> {
        self.check_others()?;
        self.looked_up(key, &[], visit)
    }

    #[inline]
    fn check(&mut self, key: &[u8], expected: &[u8]) -> Result<(), Halt> {
        self.check_others()?;
        let get = Command::Get { key, columns: &[] };
        self.window.send(&get, Wanted::Value(None), key, expected)
    }

    fn check_column(&mut self, key: &[u8], column: u16, expected: &[u8]) -> Result<(), Halt> {
        self.check_others()?;
        let get = Command::Get { key, columns: &[column.into()] };
        self.window.send(&get, Wanted::Value(Some(column)), key, expected)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Halt> {
        self.check_others()?;
        self.window.send(&Command::Remove { key }, Wanted::Removed, &[], &[])
    }

    fn delete_existing(&mut self, key: &[u8]) -> Result<bool, Halt> {
        self.check_others()?;
        let answer = self.window.ask(&Command::Remove { key }, |reply| match reply {
            Reply::Removed { removed, .. } => Some(*removed),
            _ => None,
        })?;
        answer.ok_or_else(|| other_kind("a removal"))
    }

    fn scan(
        &mut self,
        first: &[u8],
        rows_max: u64,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        self.check_others()?;
        self.scanned(first, rows_max.min(SCAN_ROWS_MAX), visit).map(|_| ())
    }

    fn scan_rev(
        &mut self,
        _first: &[u8],
        _rows_max: u64,
        _visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Halt> {
        Err(absent("descending scan"))
    }

    fn walk(&mut self, rows_max: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64, Halt> {
        self.check_others()?;
        self.scanned(&[], rows_max.min(SCAN_ROWS_MAX), visit)
    }

    fn walk_rev(
        &mut self,
        _rows_max: u64,
        _visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        Err(absent("descending scan"))
    }

    fn range(
        &mut self,
        _low: &[u8],
        _high: &[u8],
        _visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<u64, Halt> {
        Err(absent("range with an upper end"))
    }

    fn put_many(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), Halt> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn remove_many(&mut self, keys: &[&[u8]]) -> Result<(), Halt> {
        keys.iter().try_for_each(|key| self.remove(key))
    }

    fn get_many(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<(), Halt> {
        for (index, key) in keys.iter().enumerate() {
            if !self.get(key, &mut |value| visit(index, Some(value)))? {
                visit(index, None);
            }
        }
        Ok(())
    }

    fn put_column(&mut self, key: &[u8], column: u16, value: &[u8]) -> Result<(), Halt> {
        self.check_others()?;
        let put = Command::Put { key, changes: &[(column.into(), value)] };
        self.window.send(&put, Wanted::Stored, &[], &[])
    }

    fn get_column(
        &mut self,
        key: &[u8],
        column: u16,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Halt> {
        self.check_others()?;
        self.looked_up(key, &[column.into()], visit)
    }

    fn wait_all(&mut self) -> Result<(), Halt> {
        self.window.drain()
    }

    fn pause(&mut self, seconds: f64) -> Result<(), Halt> {
        let clock = &self.run.clock;
        let end = clock.ticks().saturating_add(clock.ticks_of_ns((seconds * 1e9) as u64));
        loop {
            self.check_others()?;
            let now = clock.ticks();
            if now >= end {
                return Ok(());
            }
            clock.wait_until(end.min(now + clock.ticks_of_ns(NAP_NS)));
        }
    }

    fn notice(&mut self, text: &str) {
        if !self.settings().is_quiet {
            say!("{} {text}", self.id);
        }
    }

    fn warn(&mut self, text: &str) {
        keyrack_console::refuse(PROGRAM, text);
    }

    fn report(&mut self, row: Row) {
        self.row.merge(row);
    }
}
