//! `N` processes of one command on this machine, as `mpirun -n N` would start them.
//!
//! ```text
//!   launcher --socket pair--> rank 0      PMI_FD, PMI_RANK, PMI_SIZE; lines of PMI-1
//!       |    --socket pair--> rank 1
//!       |         ...
//!       +-- a thread for each rank that answers its lines, one that waits for its end
//! ```
//!
//! A rank that ends with another status than 0, by a signal, or without saying goodbye to the
//! launcher, ends the job: the others get SIGTERM, and SIGKILL when that does not help. The
//! outcome names the first.

use super::error::{Error, Result};
use super::launcher::FOREIGN;
use super::pmi::{LINE_BYTES_MAX, take_line};
use super::pmi_server::{Action, Book};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fmt;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Processes of one launch, at most.
const RANKS_MAX: u32 = 1024;

/// What is launched.
#[derive(Clone, Debug)]
pub struct Launch {
    /// How many.
    pub ranks: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables that they get beside ours.
    pub environment: Vec<(String, String)>,
    /// From SIGTERM to SIGKILL, when a rank has failed.
    pub grace: Duration,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every rank ended with status 0.
    Done,
    /// A rank failed, and the others were ended.
    Failed {
        /// The first that failed.
        rank: u32,
        /// In words.
        how: String,
    },
}

/// Ranks that run.
#[derive(Debug)]
pub struct Launched {
    events: Receiver<Event>,
    signaller: Signaller,
    grace: Duration,
    ranks: usize,
    book: Arc<Mutex<Board>>,
}

/// Sends signals to the ranks of a launch, from any thread.
#[derive(Clone)]
pub struct Signaller {
    processes: Arc<Vec<OwnedFd>>,
}

impl Signaller {
    /// Sends the signal with that number to all ranks that still run.
    pub fn send(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            self.signal(signal);
        }
    }

    fn signal(&self, signal: Signal) {
        for process in &*self.processes {
            // One that has ended cannot be reached, and need not.
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

impl fmt::Debug for Signaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signaller").field("processes", &self.processes.len()).finish()
    }
}

#[derive(Debug)]
enum Event {
    Ended(usize, Option<ExitStatus>),
    Abort(usize, i32, String),
}

/// What the threads share: the state of the protocol, and where replies go.
#[derive(Debug)]
struct Board {
    book: Book,
    writers: Vec<UnixStream>,
}

impl Launch {
    /// Starts the ranks.
    ///
    /// # Errors
    /// [`Error::Usage`] for no ranks, or too many; [`Error::Io`] if the program cannot be started;
    /// those that were are ended.
    pub fn start(&self) -> Result<Launched> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err(Error::Usage("there is no command to launch".to_owned()));
        };
        if !(1..=RANKS_MAX).contains(&self.ranks) {
            return Err(Error::Usage(format!("a launch has 1 to {RANKS_MAX} ranks")));
        }
        let ranks = self.ranks as usize;
        let mut children: Vec<(Child, UnixStream)> = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            match self.spawn(program, arguments, rank) {
                Ok(child) => children.push(child),
                Err(error) => {
                    for (child, _) in &mut children {
                        // They may have ended by themselves; the first error is the one to report.
                        let _ = child.kill();
                        let _ = child.wait();
                    }
                    return Err(error);
                }
            }
        }
        let processes: std::io::Result<Vec<OwnedFd>> = children
            .iter()
            .map(|(child, _)| {
                let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let pid = pid.ok_or(std::io::ErrorKind::NotFound)?;
                Ok(pidfd_open(pid, PidfdFlags::empty())?)
            })
            .collect();
        let processes = processes.map_err(Error::io("watch the ranks"))?;
        let writers: std::io::Result<Vec<UnixStream>> =
            children.iter().map(|(_, stream)| stream.try_clone()).collect();
        let writers = writers.map_err(Error::io("answer the ranks"))?;
        let book = Arc::new(Mutex::new(Board { book: Book::new(ranks), writers }));
        let (send, events) = channel();
        for (rank, (mut child, stream)) in children.into_iter().enumerate() {
            let (ended, said, board) = (send.clone(), send.clone(), Arc::clone(&book));
            thread::Builder::new()
                .name(format!("rank {rank}"))
                .spawn(move || answer(rank, stream, &board, &said))
                .map_err(Error::io("start a thread"))?;
            thread::Builder::new()
                .name(format!("end of rank {rank}"))
                .spawn(move || {
                    // A goodbye was answered before the rank ended, so it is known by then.
                    let status = child.wait().ok();
                    // Nobody listens any more when the launch was given up.
                    let _ = ended.send(Event::Ended(rank, status));
                })
                .map_err(Error::io("start a thread"))?;
        }
        let signaller = Signaller { processes: Arc::new(processes) };
        Ok(Launched { events, signaller, grace: self.grace, ranks, book })
    }

    fn spawn(
        &self,
        program: &str,
        arguments: &[String],
        rank: usize,
    ) -> Result<(Child, UnixStream)> {
        // The end of the rank is inherited, ours is not.
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)
                .and_then(|(ours, theirs)| {
                    fcntl_setfd(&ours, FdFlags::CLOEXEC)?;
                    Ok((ours, theirs))
                })
                .map_err(|error| Error::io("make a socket pair")(error.into()))?;
        let mut command = Command::new(program);
        for name in FOREIGN {
            command.env_remove(name);
        }
        let child = command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("PMI_FD", theirs.as_raw_fd().to_string())
            .env("PMI_RANK", rank.to_string())
            .env("PMI_SIZE", self.ranks.to_string())
            .env("MPI_LOCALRANKID", rank.to_string())
            .env("MPI_LOCALNRANKS", self.ranks.to_string())
            .spawn()
            .map_err(Error::io(format!("start '{program}'")))?;
        drop(theirs);
        Ok((child, UnixStream::from(ours)))
    }
}

impl Launched {
    /// What sends signals to the ranks.
    #[must_use]
    pub fn signaller(&self) -> Signaller {
        self.signaller.clone()
    }

    /// Waits for the end of all ranks.
    #[must_use]
    pub fn wait(self) -> Outcome {
        let mut running = self.ranks;
        let mut failure: Option<(u32, String)> = None;
        let mut is_killed = false;
        while running > 0 {
            let event = match (&failure, is_killed) {
                (Some(_), false) => self.events.recv_timeout(self.grace),
                _ => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let (rank, how) = match event {
                Ok(Event::Ended(rank, status)) => {
                    running -= 1;
                    (rank, self.how_it_failed(rank, status))
                }
                Ok(Event::Abort(rank, status, why)) => {
                    (rank, Some(format!("gave up with status {status}: {why}")))
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.signaller.signal(Signal::KILL);
                    is_killed = true;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let (Some(how), None) = (how, &failure) {
                // There are fewer: see `RANKS_MAX`.
                failure = Some((u32::try_from(rank).unwrap_or(u32::MAX), how));
                self.signaller.signal(Signal::TERM);
            }
        }
        match failure {
            None => Outcome::Done,
            Some((rank, how)) => Outcome::Failed { rank, how },
        }
    }

    fn how_it_failed(&self, rank: usize, status: Option<ExitStatus>) -> Option<String> {
        let Some(status) = status else { return Some("cannot be waited for".to_owned()) };
        match (status.code(), status.signal()) {
            (Some(0), _) => locked(&self.book)
                .book
                .is_open(rank)
                .then(|| "ended without leaving the job".to_owned()),
            (Some(code), _) => Some(format!("ended with status {code}")),
            (None, Some(signal)) => Some(format!("was ended by signal {signal}")),
            (None, None) => Some("ended somehow".to_owned()),
        }
    }
}

fn locked(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers the lines of one rank until it has no more.
fn answer(rank: usize, mut stream: UnixStream, board: &Mutex<Board>, said: &Sender<Event>) {
    let mut input = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        match stream.read(&mut chunk) {
            Ok(bytes) if bytes > 0 => input.extend_from_slice(&chunk[..bytes]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            _ => return,
        }
        while let Some(line) = take_line(&mut input) {
            let mut board = locked(board);
            let Board { book, writers } = &mut *board;
            // A rank that is gone gets nothing; its end is told by another thread.
            match book.line(rank, &line) {
                Action::Reply(text) => {
                    let _ = writers[rank].write_all(text.as_bytes());
                }
                Action::ReplyAll(text) => {
                    for writer in writers {
                        // As for one.
                        let _ = writer.write_all(text.as_bytes());
                    }
                }
                Action::Wait => {}
                Action::Abort(status, why) => {
                    // As for the end of a rank.
                    let _ = said.send(Event::Abort(rank, status, why));
                }
            }
        }
        if input.len() > LINE_BYTES_MAX {
            return;
        }
    }
}
