//! Running the binary in a directory of its own, and looking at what it left there.
//!
//! ```text
//!   Lab          a temporary directory; the current directory of every child
//!     .run(line)         words split at blanks -> Outcome {status, stdout, stderr}
//!     .start(words)      a child that is still running, whose stderr is read line by line
//!     .write / .read     files of the test
//!   Outcome
//!     .exits(status)     asserts the status, printing both streams when it differs
//! ```
//!
//! `keyrack bench` gets `--no-pin` unless the line says something else; `.shell` adds nothing.
//!
//! Nothing here sleeps: children are waited for, their output is read to its end, and the watchdog
//! waits on a channel.

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// How long a child may take before it counts as hung: far above what any test needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const BINARY: &str = env!("CARGO_BIN_EXE_keyrack");

/// A script of the tests that does one lookup a unit and loads nothing.
pub(crate) const ONE_GET: &str = "return { name = 'one', run = function() kv.get('k') end }\n";

/// Single verbs in a fixed rotation, over a few keys that `load` puts there.
pub(crate) const ROTATION: &str = r#"
local function key(i) return string.format("k:%06d", i) end
return {
  name = "rotation",
  load = function(ctx)
    for i = ctx.thread, 63, ctx.threads do kv.put(key(i), "value") end
  end,
  run = function(ctx, iter)
    local turn = iter % 4
    if turn == 0 then kv.get(key(iter % 128))
    elseif turn == 1 then kv.put(key(iter % 64), "other")
    elseif turn == 2 then kv.del(key(64 + iter % 64))
    else kv.range(key(0), key(9)) end
  end,
}
"#;

/// What a finished child left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit status; 128 and the signal's number where one ended it.
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// What was run, for messages.
    line: String,
}

impl Outcome {
    #[track_caller]
    pub(crate) fn exits(self, status: i32) -> Outcome {
        assert!(self.status == status, "wanted status {status}\n{}", self.told());
        assert!(!self.stderr.contains("panicked at"), "{}", self.told());
        self
    }

    /// Asserts a refusal: status 2, nothing on standard output, exactly one line on standard error
    /// that holds each of `words`. Returns the line.
    #[track_caller]
    pub(crate) fn refuses(self, words: &[&str]) -> String {
        let outcome = self.exits(2);
        assert_eq!(outcome.stdout, "", "something ran: {}", outcome.told());
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "one line expected: {}", outcome.told());
        for word in words {
            assert!(lines[0].contains(word), "no '{word}' in: {}", outcome.told());
        }
        lines[0].to_owned()
    }

    /// Asserts that standard output holds `text`.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Outcome {
        assert!(self.stdout.contains(text), "no '{text}' on stdout: {}", self.told());
        self
    }

    /// Asserts that standard error holds `text`.
    #[track_caller]
    pub(crate) fn warns(self, text: &str) -> Outcome {
        assert!(self.stderr.contains(text), "no '{text}' on stderr: {}", self.told());
        self
    }

    /// Both streams with the command line, for messages of failed assertions.
    pub(crate) fn told(&self) -> String {
        format!(
            "$ {}\nstatus {}\n--- stdout\n{}--- stderr\n{}---",
            self.line, self.status, self.stdout, self.stderr
        )
    }
}

/// A directory for one test.
pub(crate) struct Lab {
    dir: TempDir,
}

impl Lab {
    pub(crate) fn new() -> Lab {
        Lab { dir: TempDir::with_prefix("keyrack-e2e-").unwrap() }
    }

    /// A directory with one file.
    pub(crate) fn with(name: &str, text: impl AsRef<[u8]>) -> Lab {
        let lab = Lab::new();
        lab.write(name, text);
        lab
    }

    /// A directory with one directory.
    pub(crate) fn with_dir(name: &str) -> Lab {
        let lab = Lab::new();
        lab.make_dir(name);
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file and returns its name.
    pub(crate) fn write<'a>(&self, name: &'a str, text: impl AsRef<[u8]>) -> &'a str {
        fs::write(self.path(name), text).unwrap();
        name
    }

    /// Makes a directory and returns its name.
    pub(crate) fn make_dir<'a>(&self, name: &'a str) -> &'a str {
        fs::create_dir(self.path(name)).unwrap();
        name
    }

    #[track_caller]
    pub(crate) fn read(&self, name: &str) -> String {
        match fs::read_to_string(self.path(name)) {
            Ok(text) => text,
            Err(error) => panic!("{name}: {error}; there is: {:?}", self.names(".")),
        }
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The names in the directory `name`, in order.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        names_in(&self.path(name))
    }

    #[track_caller]
    pub(crate) fn json(&self, name: &str) -> Value {
        parse_json(&self.read(name))
    }

    /// `keyrack` with the words of `line`.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Outcome {
        self.run_words(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// Another program with variables of the environment, still running.
    pub(crate) fn start_with(
        &self,
        program: &str,
        env: &[(String, String)],
        words: &[String],
    ) -> Running {
        let mut command = self.command(Path::new(program), words);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        Running::new(command)
    }

    /// The binary under that name, with a variable of the environment.
    #[track_caller]
    pub(crate) fn called_with(
        &self,
        program: &str,
        (name, value): (&str, &str),
        line: &str,
    ) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.command(&self.link(program), &words);
        command.env(name, value);
        finish(command)
    }

    /// `keyrack` with arguments that may hold blanks.
    #[track_caller]
    pub(crate) fn run_words<S: AsRef<OsStr>>(&self, words: &[S]) -> Outcome {
        finish(self.command(Path::new(BINARY), words))
    }

    /// The binary under the name `keybench`.
    #[track_caller]
    pub(crate) fn keybench(&self, line: &str) -> Outcome {
        self.called("keybench", line)
    }

    /// The binary under the name `name`, which is a link in the directory from then on.
    #[track_caller]
    pub(crate) fn called(&self, name: &str, line: &str) -> Outcome {
        let words: Vec<&str> = line.split_whitespace().collect();
        finish(self.command(&self.link(name), &words))
    }

    pub(crate) fn start_called(&self, name: &str, line: &str) -> Running {
        let words: Vec<&str> = line.split_whitespace().collect();
        Running::new(self.command(&self.link(name), &words))
    }

    pub(crate) fn link(&self, name: &str) -> PathBuf {
        let link = self.path(name);
        if !link.exists() {
            std::os::unix::fs::symlink(BINARY, &link).unwrap();
        }
        link
    }

    /// `sh -c script`, in which `$KEYRACK` is the binary.
    #[track_caller]
    pub(crate) fn shell(&self, script: &str) -> Outcome {
        finish(self.command(Path::new("sh"), &["-c", script]))
    }

    /// Another program, to its end.
    #[track_caller]
    pub(crate) fn tool<S: AsRef<OsStr>>(&self, program: &Path, words: &[S]) -> Outcome {
        finish(self.command(program, words))
    }

    pub(crate) fn start_tool<S: AsRef<OsStr>>(&self, program: &Path, words: &[S]) -> Running {
        Running::new(self.command(program, words))
    }

    /// `keyrack` with a standard output whose reader has gone before the first byte.
    #[track_caller]
    pub(crate) fn run_unread(&self, line: &str) -> Outcome {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.command(Path::new(BINARY), &words);
        command.stdout(writer);
        finish(command)
    }

    pub(crate) fn start(&self, line: &str) -> Running {
        Running::new(self.command(Path::new(BINARY), &line.split_whitespace().collect::<Vec<_>>()))
    }

    fn command<S: AsRef<OsStr>>(&self, program: &Path, words: &[S]) -> Command {
        let mut command = Command::new(program);
        let words: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
        let (first, rest) = words.split_at(usize::from(words.first() == Some(&"bench".as_ref())));
        // Tests run beside each other, and each would pin its first worker to the first CPU.
        let says_so = rest.iter().any(|word| *word == "--pin" || *word == "--no-pin");
        let unpinned = (!first.is_empty() && !says_so).then_some("--no-pin");
        command
            .args(first)
            .args(unpinned)
            .args(rest)
            .current_dir(self.dir.path())
            .env("KEYRACK", BINARY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// The names in a directory, in order.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[track_caller]
pub(crate) fn parse_json(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => panic!("not JSON: {error}\n{text}"),
    }
}

pub(crate) struct Running {
    child: Child,
    stdout: JoinHandle<String>,
    stderr: BufReader<std::process::ChildStderr>,
    seen: String,
    line: String,
    watchdog: Watchdog,
}

impl Running {
    fn new(mut command: Command) -> Running {
        let line = format!("{command:?}");
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let watchdog = Watchdog::over(child.id());
        let stdout = std::thread::spawn(move || stdout.map(read_to_end).unwrap_or_default());
        Running { child, stdout, stderr, seen: String::new(), line, watchdog }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads standard error until a line holds `text`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let found = self.reads(|line| line.contains(text));
        assert!(found, "stderr ended without '{text}':\n{}", self.seen);
    }

    /// Reads standard error until a line is what `is_it` says, or its end: then it was not there.
    pub(crate) fn reads(&mut self, is_it: impl Fn(&str) -> bool) -> bool {
        loop {
            let mut line = Vec::new();
            if self.stderr.read_until(b'\n', &mut line).unwrap() == 0 {
                return false;
            }
            let line = String::from_utf8_lossy(&line);
            self.seen.push_str(&line);
            if is_it(&line) {
                return true;
            }
        }
    }

    /// What has been read of standard error.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Whether the child has ended, without waiting for it.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends a signal by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Ends it as nothing else does: it gets no word in.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the end.
    pub(crate) fn finish(mut self) -> Outcome {
        let rest = read_to_end(&mut self.stderr);
        let stdout = self.stdout.join().unwrap();
        let status = self.child.wait().unwrap();
        let (line, hung) = (self.line, self.watchdog.dismiss());
        assert!(!hung, "$ {line}\nhung and was killed after {PATIENCE:?}\n{stdout}\n{rest}");
        let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Outcome { status, stdout, stderr: self.seen + &rest, line }
    }
}

fn finish(command: Command) -> Outcome {
    Running::new(command).finish()
}

fn read_to_end(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(id: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), id.to_string()]).status();
    assert!(status.unwrap().success(), "kill -{name} {id}");
}

/// Kills a child that takes longer than [`PATIENCE`], or that its test has dropped.
struct Watchdog {
    dismissed: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watchdog {
    fn over(id: u32) -> Watchdog {
        let (dismissed, wait) = channel();
        let thread = std::thread::spawn(move || {
            // Without a word: the time is over, or the test has panicked and forgot its child.
            let late = wait.recv_timeout(PATIENCE).is_err();
            if late {
                let _ = Command::new("kill").args(["-KILL", &id.to_string()]).status();
            }
            late
        });
        Watchdog { dismissed, thread }
    }

    /// Whether it had to bite.
    fn dismiss(self) -> bool {
        // Nobody listens any more when it has bitten.
        let _ = self.dismissed.send(());
        self.thread.join().unwrap()
    }
}

/// The cells of a recorded run in words, in the order in which they were reported.
pub(crate) fn cells(run: &Value) -> Vec<String> {
    points(run).iter().map(cell).collect()
}

/// `rotation btree t2 batch=8 rate=100`.
pub(crate) fn cell(point: &Value) -> String {
    let cell = &point["cell"];
    let mut text = format!(
        "{} {} t{}",
        cell["workload"].as_str().unwrap(),
        cell["engine"].as_str().unwrap(),
        cell["threads"]
    );
    if let Some(sweep) = cell["sweep"].as_object() {
        text.push_str(&format!(" {}={}", sweep["param"].as_str().unwrap(), sweep["value"]));
    }
    if let Some(rate) = cell["rate"].as_f64() {
        text.push_str(&format!(" rate={rate}"));
    }
    text
}

pub(crate) fn points(run: &Value) -> &Vec<Value> {
    run["points"].as_array().unwrap()
}

pub(crate) fn repeats(run: &Value) -> Vec<&Value> {
    points(run).iter().flat_map(|point| point["repeats"].as_array().unwrap()).collect()
}

pub(crate) fn verb<'a>(repeat: &'a Value, name: &str) -> Option<&'a Value> {
    repeat["ops"].as_array().unwrap().iter().find(|op| op["op"] == name)
}

pub(crate) fn flags(point: &Value) -> String {
    let flags = point["flags"].as_array().unwrap();
    flags.iter().map(|flag| flag.as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

/// The one directory that `--report-dir base` made.
#[track_caller]
pub(crate) fn only_report(lab: &Lab, base: &str) -> String {
    let names = lab.names(base);
    assert_eq!(names.len(), 1, "{names:?}");
    format!("{base}/{}", names[0])
}

/// Rows of a tab-separated text as (column, field) pairs, with the header taken off.
pub(crate) fn tsv(text: &str) -> Vec<Vec<(String, String)>> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            assert_eq!(fields.len(), header.len(), "{line}");
            header.iter().zip(fields).map(|(h, f)| ((*h).to_owned(), f.to_owned())).collect()
        })
        .collect()
}

#[track_caller]
pub(crate) fn field<'a>(row: &'a [(String, String)], column: &str) -> &'a str {
    match row.iter().find(|(name, _)| name == column) {
        Some((_, value)) => value,
        None => panic!("no column {column} in {row:?}"),
    }
}
