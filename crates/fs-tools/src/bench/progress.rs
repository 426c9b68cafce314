//! How far a phase is, while it runs: a line on a terminal, and lines of OpenTSDB by datagrams.

use super::plan::Clients;
use keyrack_deltafs::job::Job;
use keyrack_measure::Clock;
use std::io::{IsTerminal, Write as _};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A thread that says how far rank 0 is, on a terminal.
pub(super) struct Progress {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// The time between two readings.
const READING_NS: u64 = 100_000_000;

impl Progress {
    pub(super) fn start(job: &Job, total: u64, done: &Arc<AtomicU64>) -> Progress {
        let is_over = Arc::new(AtomicBool::new(false));
        if !job.is_root() || total == 0 || !std::io::stderr().is_terminal() {
            return Progress { is_over, thread: None };
        }
        let (done, over) = (Arc::clone(done), Arc::clone(&is_over));
        let show = move || {
            let clock = Clock::vdso();
            while !over.load(Ordering::Relaxed) {
                let count = done.load(Ordering::Relaxed);
                let percent = 100.0 * count as f64 / total as f64;
                let line = format!("\r0: Finished {count} ops ({percent:.1}%){:30}", "");
                let _ = std::io::stderr().write_all(line.as_bytes());
                clock.wait_until(clock.ticks() + READING_NS);
            }
            let _ = std::io::stderr().write_all(format!("\r{:60}\r", "").as_bytes());
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(show).ok();
        Progress { is_over, thread }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A thread that sends how far this rank is, in lines of OpenTSDB.
pub(super) struct Monitor {
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Monitor {
    pub(super) fn start(
        plan: &Clients,
        rank: u32,
        done: &Arc<AtomicU64>,
    ) -> Result<Option<Monitor>, String> {
        let Some((uri, interval)) = &plan.monitor else { return Ok(None) };
        let failed = |error: std::io::Error| format!("--mon_uri={uri}: {error}");
        let Some(address) = uri.strip_prefix("udp://") else {
            return Err(format!("--mon_uri={uri}: give udp://HOST:PORT"));
        };
        let socket = UdpSocket::bind("0.0.0.0:0").map_err(failed)?;
        socket.connect(address).map_err(failed)?;
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (done, interval) = (Arc::clone(done), (*interval).max(Duration::from_millis(10)));
        let send = move || {
            use std::sync::mpsc::RecvTimeoutError::Timeout;
            while stopped.recv_timeout(interval) == Err(Timeout) {
                let (now, count) =
                    (keyrack_measure::wall::unix_ms() / 1000, done.load(Ordering::Relaxed));
                // Whether anybody listens is no concern of the run.
                let _ = socket.send(format!("myfs.ops {now} {count} rank={rank}\n").as_bytes());
            }
        };
        let thread = thread::Builder::new().name("monitor".to_owned()).spawn(send);
        Ok(Some(Monitor { stop: Some(stop), thread: Some(thread.map_err(failed)?) }))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
