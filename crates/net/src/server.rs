//! Starts the loops and ends them.
//!
//! Everything that can fail for what the user wrote is done before a thread starts. The handle ends
//! the server when it is dropped, without grace; [`Handle::shutdown`] says how much.
//!
//! **Invariant:** a loop that a panic of its worker has ended closes its connections and takes no
//! others; the other loops go on, and the end of the server does not wait for it.

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use keyrack_measure::Clock;
use mio::Poll;

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::event_loop::{EventLoop, WAKER};
use crate::listen::{self, Share, SocketFile};
use crate::loop_handles::LoopHandles;
use crate::options::Options;
use crate::service::Service;
use crate::stats::Stats;
use crate::waker::Waker;

/// A way to start loops.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Binds all listeners and starts the loops. When this returns, clients can connect.
    ///
    /// # Errors
    /// Options that make no sense, a listener that cannot be bound, no thread.
    pub fn start<S: Service>(service: S, options: Options) -> Result<Handle> {
        options.check()?;
        let bound = listen::bind_all(&options)?;
        let mut polls = Vec::with_capacity(options.threads);
        let mut wakers = Vec::with_capacity(options.threads);
        for _ in 0..options.threads {
            let poll = Poll::new().map_err(Error::machine("make a poll"))?;
            let waker = mio::Waker::new(poll.registry(), WAKER);
            wakers.push(Waker::new(waker.map_err(Error::machine("make a waker"))?));
            polls.push(poll);
        }
        let loops = Arc::new(LoopHandles::new(wakers, options.connections_max));
        let mut handle =
            Handle { loops, local: bound.local, threads: Vec::new(), files: bound.files };
        let (service, options) = (Arc::new(service), Arc::new(options));
        for (index, (poll, share)) in polls.into_iter().zip(bound.shares).enumerate() {
            let job = Job {
                index,
                service: Arc::clone(&service),
                options: Arc::clone(&options),
                loops: Arc::clone(&handle.loops),
            };
            let thread = thread::Builder::new()
                .name(format!("net {index}"))
                .spawn(move || job.run(poll, share))
                .map_err(Error::machine("start a loop thread"))?;
            handle.threads.push(thread);
        }
        Ok(handle)
    }
}

/// The arguments of a loop thread.
struct Job<S> {
    index: usize,
    service: Arc<S>,
    options: Arc<Options>,
    loops: Arc<LoopHandles>,
}

impl<S: Service> Job<S> {
    fn run(self, poll: Poll, share: Share) -> Result<()> {
        let _guard = Guard { loops: &self.loops, index: self.index };
        pin(&self.options.cpus, self.index);
        let waker = self.loops.handle(self.index).waker.clone();
        let worker = self.service.worker(self.index, waker);
        EventLoop::new(self.index, worker, poll, share, &self.loops, &self.options)
            .and_then(EventLoop::run)
            .map_err(Error::machine("wait for events"))
    }
}

/// Tells the others that a loop has ended, however it did.
struct Guard<'a> {
    loops: &'a LoopHandles,
    index: usize,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.loops.close_handle(self.index, thread::panicking());
    }
}

/// Pins this thread. A CPU that may not be used is not: the loop then runs anywhere.
#[cfg(target_os = "linux")]
fn pin(cpus: &[usize], index: usize) {
    if cpus.is_empty() {
        return;
    }
    let cpu = cpus[index % cpus.len()];
    if cpu < rustix::thread::CpuSet::MAX_CPU {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu);
        let _ = rustix::thread::sched_setaffinity(None, &set);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_cpus: &[usize], _index: usize) {}

/// A running server.
pub struct Handle {
    loops: Arc<LoopHandles>,
    local: Vec<Vec<Endpoint>>,
    threads: Vec<JoinHandle<Result<()>>>,
    files: Vec<SocketFile>,
}

impl Handle {
    /// Where the listeners are, in the order of the options: a listener has several addresses when
    /// its name has, or a port for each loop. Port 0 is the kernel's choice here.
    pub fn local_addrs(&self) -> &[Vec<Endpoint>] {
        &self.local
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        self.loops.stats()
    }

    /// The waker of a loop, which makes it ask for its tokens again.
    ///
    /// # Panics
    /// If there is no loop with this index.
    pub fn waker(&self, index: usize) -> Waker {
        self.loops.handle(index).waker.clone()
    }

    /// Ends the server: accepts and reads nothing more, serves what was read, sends all replies,
    /// and closes. What is still open after `grace` is closed as it is. The result is the last
    /// count.
    ///
    /// # Errors
    /// A loop that had ended by a panic, or by a failure of its poll.
    pub fn shutdown(mut self, grace: Duration) -> Result<Stats> {
        self.end(grace)?;
        Ok(self.loops.stats())
    }

    fn end(&mut self, grace: Duration) -> Result<()> {
        let grace_ns = u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX);
        self.loops.stop(Clock::vdso().ticks().saturating_add(grace_ns));
        let (mut count, mut failure) = (0, Ok(()));
        for thread in self.threads.drain(..) {
            match thread.join() {
                Err(_) => count += 1,
                Ok(Err(error)) => failure = Err(error),
                Ok(Ok(())) => {}
            }
        }
        self.files.clear();
        if count > 0 { Err(Error::Panicked { count }) } else { failure }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            // A caller that needs the result calls `shutdown`.
            let _ = self.end(Duration::ZERO);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("local", &self.local).finish_non_exhaustive()
    }
}
