//! The processes of a claim: commands that are waited for, and servers that live beside them.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::definition::{Server, words};
use crate::output::complain;
use crate::stage::{Outcome, Stop};
use crate::workspace::{Workspace, find_program};

/// Where programs of others lie that were built by hand.
const ORIGINALS: &str = "KEYRACK_ORIGINALS";

/// What words begin with that name one of those.
const ORIGINAL: &str = "original/";

/// Names that the binary is called by.
const OWN_NAMES: &[&str] = &["keyrack", "keybench", "mttest", "mtd", "mtclient", "mutilate"];

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where `original/NAME` is, if anybody has said so.
fn original(word: &str) -> Option<PathBuf> {
    let name = word.strip_prefix(ORIGINAL)?;
    std::env::var_os(ORIGINALS).map(|folder| Path::new(&folder).join(name))
}

/// Finds and starts programs, with a scratch folder that goes when this does.
#[derive(Debug)]
pub(super) struct Programs {
    root: PathBuf,
    binary: PathBuf,
    out: PathBuf,
    data: PathBuf,
}

impl Programs {
    /// # Errors
    /// `Broken` when the scratch folder cannot be made.
    pub(super) fn new(workspace: &Workspace, binary: &Path, out: &Path) -> Outcome<Programs> {
        // On the disk of the record, which is no memory file system.
        let data = out.join(format!("data-{}", std::process::id()));
        fs::create_dir_all(&data)
            .map_err(|error| Stop::Broken(format!("cannot make {}: {error}", data.display())))?;
        let root = workspace.root().to_path_buf();
        Ok(Programs { root, binary: binary.to_path_buf(), out: out.to_path_buf(), data })
    }

    /// A command, or nothing when its program or an original that it names is not here. It stays on
    /// the CPU called `cpu`, unless that is empty, or the machine has none of that number.
    fn command(&self, words: &[String], cpu: &str) -> Outcome<Option<Command>> {
        let Some((first, rest)) = words.split_first() else {
            return Err(Stop::Usage("a command without words".to_owned()));
        };
        let program = match first.as_str() {
            "keyrack" => Some(self.binary.clone()),
            name if OWN_NAMES.contains(&name) => Some(self.link(name)?),
            name if name.starts_with(ORIGINAL) => original(name),
            name => find_program(name),
        };
        let Some(program) = program.filter(|program| program.exists()) else { return Ok(None) };
        let (out, data) = (self.shown(&self.out), self.shown(&self.data));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let has_cpu = cpu.parse::<usize>().is_ok_and(|cpu| cpu < cpus);
        let mut command = match find_program("taskset").filter(|_| has_cpu) {
            Some(taskset) => {
                let mut command = Command::new(taskset);
                command.args(["-c", cpu]).arg(program);
                command
            }
            None => {
                let mut command = Command::new(program);
                // The record has the command as it is typed, not where the binary was built.
                if first == "keyrack" {
                    command.arg0(first);
                }
                command
            }
        };
        for word in rest {
            if word.starts_with(ORIGINAL) {
                let Some(path) = original(word).filter(|path| path.exists()) else {
                    return Ok(None);
                };
                command.arg(path);
            } else {
                command.arg(word.replace("{out}", &out).replace("{data}", &data));
            }
        }
        command.current_dir(&self.root).stdin(Stdio::null());
        Ok(Some(command))
    }

    /// A folder as commands are told it: from the root, where they run, so that a record does not
    /// depend on where the checkout lies.
    fn shown(&self, folder: &Path) -> String {
        folder.strip_prefix(&self.root).unwrap_or(folder).display().to_string()
    }

    /// The binary under another name.
    fn link(&self, name: &str) -> Outcome<PathBuf> {
        let link = self.data.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(&self.binary, &link).map_err(|error| {
                Stop::Broken(format!("cannot make {}: {error}", link.display()))
            })?;
        }
        Ok(link)
    }

    /// Runs a command with its output in a file. Whether it succeeded; nothing when its program is
    /// not here.
    ///
    /// # Errors
    /// `Broken` when it cannot be started or its output not be written.
    pub(super) fn run(&self, words: &[String], cpu: &str, to: &Path) -> Outcome<Option<bool>> {
        let Some(mut command) = self.command(words, cpu)? else { return Ok(None) };
        let output = command.output().map_err(|error| {
            Stop::Broken(format!("cannot start `{}`: {error}", words.join(" ")))
        })?;
        fs::write(to, &output.stdout)
            .map_err(|error| Stop::Broken(format!("cannot write {}: {error}", to.display())))?;
        if !output.status.success() {
            let talk = String::from_utf8_lossy(&output.stderr);
            talk.lines().for_each(|line| complain(&format!("   | {line}")));
        }
        Ok(Some(output.status.success()))
    }

    /// Starts a server and waits until it answers; nothing when its program is not here.
    ///
    /// # Errors
    /// `Broken` when its address is taken, `Stage` when it ends or does not answer.
    pub(super) fn serve(&self, server: &Server) -> Outcome<Option<Served>> {
        let Some(mut command) = self.command(&words(&server.command), &server.cpu)? else {
            return Ok(None);
        };
        let address = server.address;
        if TcpStream::connect_timeout(&address, PATIENCE).is_ok() {
            return Err(Stop::Broken(format!("{address} is taken by another program")));
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Stop::Broken(format!("cannot start {}: {error}", server.name)))?;
        let mut served = Served { name: server.name.clone(), child };
        let started = Instant::now();
        while TcpStream::connect_timeout(&address, PATIENCE).is_err() {
            let has_ended = served.child.try_wait().is_ok_and(|status| status.is_some());
            if has_ended || started.elapsed() > PATIENCE {
                let name = &server.name;
                return Err(Stop::Stage(format!("server {name} does not answer at {address}")));
            }
            std::thread::yield_now();
        }
        Ok(Some(served))
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        // What cannot be removed is below a folder that says whose it is.
        let _left_behind = fs::remove_dir_all(&self.data);
    }
}

/// A running server, ended when this goes.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) name: String,
    child: Child,
}

impl Served {
    /// The CPU time of all its threads so far, in seconds; 0 where the kernel does not tell.
    pub(super) fn cpu_s(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let nanoseconds = |path: PathBuf| -> Option<u64> {
            let text = fs::read_to_string(path.join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let tasks = tasks.into_iter().flatten().flatten();
        let all: u64 = tasks.filter_map(|task| nanoseconds(task.path())).sum();
        all as f64 / 1e9
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}
