//! The trace of a program as operations.
//!
//! ```text
//!   I  0010a2c4,3           an instruction, left out
//!    L 1ffeffe7e0,8         a load; S a store; M both
//!   @phase 2 get            what the program says, between the lines of the emulator
//! ```
//!
//! Several accesses in a row to one line are one access, or two if the first ones read and the
//! others write: nothing comes between them.

use super::{BEGIN, END, LINE_BYTES, TRACED};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// A stack as far as it is looked at: below the address of a local of its first function, and the
/// rest of that function's frame.
const STACK_BELOW: u64 = 1 << 20;
const STACK_ABOVE: u64 = 256;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waits for the line.
    Read,
    /// Waits for the line, and takes it from all others.
    Write,
    /// Asks for the line. The emulator does not see it; who replays adds it.
    Prefetch,
}

/// An access to a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The number of the line: its address divided by [`LINE_BYTES`].
    pub line: u64,
    /// What it does.
    pub kind: Kind,
}

impl Access {
    /// Whether it writes.
    #[must_use]
    pub fn is_write(self) -> bool {
        self.kind == Kind::Write
    }
}

/// One operation of a thread.
#[derive(Clone, Debug, Default)]
pub struct Operation {
    /// The number of the thread in its phase.
    pub thread: usize,
    /// What the program gave as the kind.
    pub kind: usize,
    /// In the order of the program.
    pub accesses: Vec<Access>,
}

/// The operations of one call of [`perform`](super::perform).
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// As the program called it.
    pub name: String,
    /// Threads that took part.
    pub threads: usize,
    /// In the order in which they were performed.
    pub operations: Vec<Operation>,
    pub(super) names: HashMap<u64, String>,
}

impl Phase {
    /// What the program said about a line.
    #[must_use]
    pub fn name_of(&self, line: u64) -> &str {
        self.names.get(&line).map_or("unnamed", String::as_str)
    }

    /// Lines and their names.
    pub fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter().map(|(line, name)| (*line, name.as_str()))
    }

    fn name_part(&mut self, address: u64, bytes: u64, name: &str) {
        for line in address / LINE_BYTES..=(address + bytes.max(1) - 1) / LINE_BYTES {
            let names = self.names.entry(line).or_default();
            if names.is_empty() {
                *names = name.to_owned();
            } else if !names.split(" + ").any(|known| known == name) {
                *names += " + ";
                *names += name;
            }
        }
    }
}

/// All phases of a program.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In order.
    pub phases: Vec<Phase>,
}

impl Recording {
    /// The phase with this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn phase(&self, name: &str) -> &Phase {
        let phase = self.phases.iter().find(|phase| phase.name == name);
        phase.unwrap_or_else(|| panic!("no phase is called {name}"))
    }
}

/// Whether there is an emulator on this machine.
#[must_use]
pub fn has_emulator() -> bool {
    let mut version = Command::new("valgrind");
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// Runs `program` in the emulator and records the phases that it performs. Its output is dropped.
///
/// # Errors
/// A line that says why there is no recording: the emulator cannot be started, the program failed,
/// or a phase did not end.
pub fn record(program: &Path, arguments: &[&str]) -> Result<Recording, String> {
    let mut emulator = Command::new("valgrind");
    emulator.args(["-q", "--tool=lackey", "--basic-counts=no", "--trace-mem=yes"]);
    // Waiting threads give up their turn in order.
    emulator.arg("--fair-sched=try").arg(program).args(arguments).env(TRACED, "1");
    emulator.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = emulator.spawn().map_err(|error| format!("cannot run valgrind: {error}"))?;
    let mut parser = Parser::default();
    let trace = running.stderr.take().ok_or("standard error is no pipe")?;
    let read = parser.read(BufReader::with_capacity(1 << 20, trace));
    let status = running.wait().map_err(|error| format!("cannot wait for valgrind: {error}"))?;
    read?;
    if !status.success() {
        return Err(format!("the recorded program failed: {status}\n{}", parser.rest));
    }
    if parser.is_inside {
        return Err("the recorded program ended within a phase".to_owned());
    }
    Ok(parser.recording)
}

#[derive(Default)]
struct Parser {
    recording: Recording,
    marks: (u64, u64),
    stacks: Vec<(u64, u64)>,
    thread: usize,
    open: Option<Operation>,
    /// Whether a phase is being performed.
    is_inside: bool,
    /// Lines that are neither of the emulator's trace nor ours.
    rest: String,
}

impl Parser {
    fn read(&mut self, mut trace: impl BufRead) -> Result<(), String> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = trace.read_until(b'\n', &mut line);
            match read.map_err(|error| format!("cannot read the trace: {error}"))? {
                0 => return Ok(()),
                _ => self.line(line.trim_ascii_end())?,
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        match line {
            [b'I', b' ', b' ', ..] => {}
            [b' ', kind @ (b'L' | b'S' | b'M'), b' ', access @ ..] => {
                if self.is_inside {
                    let wrong = || format!("not an access: {}", String::from_utf8_lossy(line));
                    let (address, bytes) = parse_access(access).ok_or_else(wrong)?;
                    self.access(address, bytes, *kind != b'L')?;
                }
            }
            [b'@', words @ ..] => {
                let words = String::from_utf8_lossy(words);
                self.announced(&words).ok_or_else(|| format!("not understood: {words}"))?;
            }
            _ => {
                self.rest += &String::from_utf8_lossy(line);
                self.rest.push('\n');
            }
        }
        Ok(())
    }

    fn access(&mut self, address: u64, bytes: u64, is_write: bool) -> Result<(), String> {
        let (base, size) = self.marks;
        if (base..base + size).contains(&address) {
            return if is_write { self.mark((address - base) as usize) } else { Ok(()) };
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.stacks.iter().any(|(low, high)| (*low..*high).contains(&address)) {
            return Ok(());
        }
        for line in address / LINE_BYTES..=(address + bytes - 1) / LINE_BYTES {
            let last = open.accesses.last();
            let known =
                last.is_some_and(|last| last.line == line && (last.is_write() || !is_write));
            if !known {
                let kind = if is_write { Kind::Write } else { Kind::Read };
                open.accesses.push(Access { line, kind });
            }
        }
        Ok(())
    }

    fn mark(&mut self, code: usize) -> Result<(), String> {
        match code {
            END => {
                let open = self.open.take().ok_or("an operation ends that has not begun")?;
                self.phase()?.operations.push(open);
            }
            0..BEGIN => {
                let thread = self.thread;
                self.open = Some(Operation { thread, kind: code, accesses: Vec::new() });
            }
            BEGIN..END => self.thread = code - BEGIN,
            // The turn.
            _ => {}
        }
        Ok(())
    }

    fn phase(&mut self) -> Result<&mut Phase, String> {
        self.recording.phases.last_mut().ok_or_else(|| "no phase was announced".to_owned())
    }

    fn announced(&mut self, words: &str) -> Option<()> {
        let (what, rest) = words.split_once(' ').unwrap_or((words, ""));
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
        match what {
            "marks" => {
                let (base, size) = rest.split_once(' ')?;
                self.marks = (hexadecimal(base)?, hexadecimal(size)?);
            }
            "phase" => {
                let (threads, name) = rest.split_once(' ')?;
                let (threads, name) = (threads.parse().ok()?, name.to_owned());
                self.recording.phases.push(Phase { name, threads, ..Phase::default() });
                self.stacks.clear();
                self.is_inside = true;
            }
            "stack" => {
                let local = hexadecimal(rest)?;
                self.stacks.push((local - STACK_BELOW, local + STACK_ABOVE));
            }
            "end" => self.is_inside = false,
            "part" => {
                let (address, rest) = rest.split_once(' ')?;
                let (bytes, name) = rest.split_once(' ')?;
                let (address, bytes) = (hexadecimal(address)?, hexadecimal(bytes)?);
                self.recording.phases.last_mut()?.name_part(address, bytes, name);
            }
            _ => return None,
        }
        Some(())
    }
}

/// An address in hexadecimal, a comma, and bytes in decimal.
fn parse_access(words: &[u8]) -> Option<(u64, u64)> {
    let words = str::from_utf8(words).ok()?;
    let (address, bytes) = words.split_once(',')?;
    Some((u64::from_str_radix(address, 16).ok()?, bytes.parse().ok().filter(|bytes| *bytes > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(trace: &str) -> Result<Recording, String> {
        let mut parser = Parser::default();
        parser.read(trace.as_bytes()).map(|()| parser.recording)
    }

    /// Marks are at 0x1000: kinds from there on, threads from 0x1010 on, the end at 0x1050.
    const TRACE: &str = "\
 L 00007000,8
@marks 1000 1000
@phase 2 get
@stack 900000
 S 00001011,1
 S 00001003,1
I  00004000,3
 L 00007000,8
 L 00007008,8
 M 00007010,4
 L 00007020,8
 S 008fff00,8
 L 0000707c,8
 L 00001800,8
 S 00001050,1
 S 00007800,8
@end
@part 7000 8 version
@part 7008 78 keys
";

    #[test]
    fn accesses_between_marks_are_those_of_the_operation() {
        let recording = parse(TRACE).unwrap();
        let phase = recording.phase("get");
        let [operation] = &phase.operations[..] else { panic!("{phase:?}") };
        assert_eq!((phase.threads, operation.thread, operation.kind), (2, 1, 3));
        let line = 0x7000 / LINE_BYTES;
        let expected = [(0, Kind::Read), (0, Kind::Write), (1, Kind::Read), (2, Kind::Read)];
        let expected = expected.map(|(at, kind)| Access { line: line + at, kind });
        assert_eq!(operation.accesses, expected);
        assert_eq!(phase.name_of(line), "version + keys");
        assert_eq!([phase.name_of(line + 1), phase.name_of(line + 2)], ["keys", "unnamed"]);
    }

    #[test]
    fn a_trace_that_is_not_understood_is_an_error() {
        let wrong = "@marks 1000 1000\n@phase 1 get\n L 7000;8\n";
        assert_eq!(parse(wrong).unwrap_err(), "not an access:  L 7000;8");
        let wrong = "@marks 1000 1000\n@phase 1 get\n S 00001050,1\n";
        assert_eq!(parse(wrong).unwrap_err(), "an operation ends that has not begun");
        assert_eq!(parse("@stack\n").unwrap_err(), "not understood: stack");
    }
}
