//! The benchmark of DeltaFS: each rank makes files, waits, and asks for each of its files.
//!
//! ```text
//!   prepare    mkdir, or lstat of what is there
//!   insert     names of the rank, shuffled          write_phases times
//!   fstats     the same names, shuffled again       read_phases times
//! ```
//!
//! Against servers calls are kept under way, `depth` at most, and sent in bursts; at 1 each waits
//! for its answer. What is printed has the shapes of the original, and behind each result what it
//! leaves out: latencies, and processor time of the ranks.

use super::document::Document;
use super::header::Header;
use super::names;
use super::result::{PhaseResult, RankResult};
use super::store::StoreSettings;
use super::target::{Measured, Target};
use super::totals::Totals;
use keyrack_deltafs::job::{Error as JobError, Fold, Job};
use keyrack_measure::{Clock, usage};
use keyrack_net::{Endpoint, TlsClient};
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use keyrack_workload::Rng;
use serde_json::json;
use std::io::{IsTerminal, Write as _};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What is done with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Insert,
    Stat,
}

/// A benchmark.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) count: u64,
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) write_phases: u32,
    pub(super) read_phases: u32,
    pub(super) interval: Duration,
    pub(super) is_shared: bool,
    pub(super) is_random: bool,
    pub(super) is_local: bool,
    pub(super) use_existing: bool,
    pub(super) is_checked: bool,
    /// Tables are handed over instead of names.
    pub(super) is_bulk: bool,
    /// Names of a call, with batches.
    pub(super) batch: Option<usize>,
    /// Creates that go together, though each is a call that returns at once.
    pub(super) create_behind: Option<usize>,
    pub(super) db: PathBuf,
    pub(super) data_bytes: usize,
    pub(super) server: Endpoint,
    pub(super) server_text: String,
    pub(super) timeout: Duration,
    pub(super) is_udp: bool,
    pub(super) token: Vec<u8>,
    /// Whom it trusts, where servers have certificates.
    pub(super) tls: Option<TlsClient>,
    pub(super) abort_on_errors: bool,
    pub(super) monitor: Option<(String, Duration)>,
    pub(super) shows_ranks: bool,
    pub(super) depth: usize,
    pub(super) store: StoreSettings,
}

/// Where the bytes of files go, with `data_size`.
const DATA_DIR: &str = "/tmp/deltafs_data";

impl Plan {
    pub(super) fn rank_dir(&self, rank: u32) -> PathBuf {
        self.db.join(format!("r{rank}"))
    }

    /// The bytes of a file, written and synced beside it.
    pub(super) fn write_data(&self, name: &[u8]) -> Result<(), String> {
        if self.data_bytes == 0 {
            return Ok(());
        }
        let path = Path::new(DATA_DIR).join(String::from_utf8_lossy(name).as_ref());
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let written = RealFs.open(&path, &options).and_then(|file| {
            file.append(&vec![0; self.data_bytes])?;
            file.sync_data()
        });
        written.map_err(|error| error.to_string())
    }

    fn header(&self, job: &Job) -> Header {
        let mut header = Header::new();
        header.line("Num ranks", job.size());
        let first = if self.use_existing { "lstat" } else { "mkdir" };
        let existing = format!("{} (prepare_run={first})", u8::from(self.use_existing));
        header.line("Fs use existing", existing);
        header.flag("Fs use local", self.is_local);
        let place = if self.is_local { "N/A" } else { &self.server_text };
        header.line("Fs infosvr locatio", place);
        header.flag("Fs skip checks", !self.is_checked);
        match self.is_local {
            true => header.line("RPC timeout", "N/A"),
            false => header.line("RPC timeout", format!("{} s", self.timeout.as_secs())),
        }
        if !self.is_local {
            let way = if self.is_udp { "UDP" } else { "TCP" };
            header.line("RPC depth", format!("{} (calls under way, {way})", self.depth));
        }
        let kib = self.data_bytes >> 10;
        let creates = format!("{} x {}", self.writes, self.write_phases);
        header.line("Creats", format!("{creates} per rank ({kib} KB data per file)"));
        match self.batch {
            Some(batch) => header.line("Batched creats", batch),
            None => header.line("Batched creats", "OFF"),
        }
        if let Some(count) = self.create_behind {
            header.line("Creats behind", format!("{count} (sent together)"));
        }
        header.line("Bulk in", if self.is_bulk { "1" } else { "OFF" });
        header.line("Lstats", format!("{} x {} per rank", self.reads, self.read_phases));
        match &self.monitor {
            Some((uri, interval)) => {
                header.line("Mon", format!("{uri} (every {}s)", interval.as_secs()));
            }
            None => header.line("Mon", "OFF"),
        }
        header.flag("Random key order", self.is_random);
        header.flag("Share dir", self.is_shared);
        if self.is_local {
            header.title("CLIENT DB:");
            self.store.describe(&mut header, &format!("{}/r<rank>", self.db.display()));
        }
        header
    }
}

/// The numbers of a rank's files, in the order of a phase.
fn order(plan: &Plan, rank: u32, phase: u32, count: u64) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..plan.count).collect();
    if plan.is_random {
        let mut random = Rng::from_seed(1000 * u64::from(rank) + u64::from(phase));
        for last in (1..ids.len()).rev() {
            let other = random.below(last as u64 + 1) as usize;
            ids.swap(last, other);
        }
    }
    let wanted = usize::try_from(count).unwrap_or(usize::MAX);
    let numbers = ids.iter().map(|id| names::number(plan.is_shared, rank, *id));
    numbers.take(wanted).collect()
}

/// Runs the benchmark as one rank. Rank 0 prints.
pub(super) fn run(plan: &Plan, job: &mut Job, document: &mut Document) -> Result<u8, String> {
    let gone = |error: keyrack_deltafs::job::Error| error.to_string();
    let say = |job: &Job, text: &str| {
        if job.is_root() { keyrack_console::print(text) } else { keyrack_console::DONE }
    };
    if plan.writes > plan.count || plan.reads > plan.count {
        return Err("writes and reads are at most n: no name is made twice".to_owned());
    }
    let header = plan.header(job);
    document.header(&header);
    document.put("pause_seconds", plan.interval.as_secs());
    if plan.is_local {
        document.put("durability", plan.store.durability());
    }
    say(job, &header.end());
    if plan.data_bytes > 0 {
        RealFs.create_dir_all(Path::new(DATA_DIR)).map_err(|error| error.to_string())?;
    }
    let mut target = Target::open(plan, job.rank())?;
    say(job, "preparing run...\n");
    job.barrier().map_err(gone)?;
    target.prepare(plan, job.rank())?;
    let done = Arc::new(AtomicU64::new(0));
    let monitor = Monitor::start(plan, job.rank(), &done)?;
    let mut failures = 0;
    let phases = (0..plan.write_phases)
        .map(|_| Phase::Insert)
        .chain((0..plan.read_phases).map(|_| Phase::Stat));
    for (index, phase) in (0_u32..).zip(phases) {
        if index > 0 && !plan.interval.is_zero() {
            say(job, &format!("sleeping for {} seconds...\n", plan.interval.as_secs()));
            let clock = Clock::vdso();
            clock.wait_until(clock.ticks() + plan.interval.as_nanos() as u64);
        }
        let wanted = if phase == Phase::Insert { plan.writes } else { plan.reads };
        let numbers = order(plan, job.rank(), index, wanted);
        done.store(0, Ordering::Relaxed);
        job.barrier().map_err(gone)?;
        let cpu = usage::process();
        let thread_cpu_ns = usage::thread_cpu_ns();
        let measured = {
            let _progress = Progress::start(job, wanted, &done);
            target.run(plan, phase, &numbers, &done)?
        };
        let after = usage::process();
        let cpu_ns = after.user_ns + after.system_ns - cpu.user_ns - cpu.system_ns;
        let thread_cpu_ns = usage::thread_cpu_ns() - thread_cpu_ns;
        failures +=
            report(plan, job, phase, &measured, (cpu_ns, thread_cpu_ns), document).map_err(gone)?;
    }
    drop(monitor);
    if let Some(space) = target.space() {
        let totals = Totals::of(space.stores());
        document.put("store", totals.json());
        say(job, &totals.text());
    }
    target.close()?;
    Ok(if failures > 0 { keyrack_console::NO } else { keyrack_console::DONE })
}

/// Adds up what the ranks measured, and prints it. How many operations failed.
fn report(
    plan: &Plan,
    job: &mut Job,
    phase: Phase,
    measured: &Measured,
    (cpu_ns, thread_cpu_ns): (u64, u64),
    document: &mut Document,
) -> keyrack_deltafs::job::Result<u64> {
    let spent_ns = measured.end_ns.saturating_sub(measured.start_ns);
    let mut ranks = Vec::new();
    if plan.shows_ranks {
        let mine = [measured.ops, spent_ns, thread_cpu_ns].map(u64::to_le_bytes).concat();
        for (rank, bytes) in job.gather(&mine)?.into_iter().flatten().enumerate() {
            let result = RankResult::from_bytes(rank, &bytes);
            let result = result.ok_or(JobError::Protocol { rank: rank as u32 })?;
            keyrack_console::print(&result.text());
            ranks.push(result.json());
        }
    }
    let sums = [measured.ops, measured.errors, spent_ns, cpu_ns];
    let sums = job.fold(&sums, Fold::Sum)?;
    let first = job.fold(&[measured.start_ns], Fold::Min)?[0];
    let last = job.fold(&[measured.end_ns], Fold::Max)?[0];
    let latency = job.merge(&measured.latency_ns)?;
    let why = job.gather(measured.first_error.as_deref().unwrap_or_default().as_bytes())?;
    if let (Some(latency), Some(why)) = (latency, why) {
        let result = PhaseResult {
            name: if phase == Phase::Insert { "insert" } else { "fstats" },
            ops: sums[0],
            failed: sums[1],
            spent_ns: sums[2],
            wall_ns: last.saturating_sub(first),
            cpu_ns: sums[3],
            latency_ns: Some(latency),
        };
        keyrack_console::print(&result.text());
        let mut value = result.json();
        if plan.shows_ranks {
            value["ranks"] = json!(ranks);
        }
        document.push("phases", value);
        if let Some(first) = why.iter().find(|why| !why.is_empty()) {
            let first = String::from_utf8_lossy(first);
            let what = format!("{} failed: {first}", sums[1]);
            document.error(&what);
            keyrack_console::refuse("keyrack fs bench", &what);
        }
    }
    Ok(sums[1])
}

/// A thread that says how far rank 0 is, on a terminal.
struct Progress {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Between two looks.
const LOOK_NS: u64 = 100_000_000;

impl Progress {
    fn start(job: &Job, total: u64, done: &Arc<AtomicU64>) -> Progress {
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
                clock.wait_until(clock.ticks() + LOOK_NS);
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
struct Monitor {
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Monitor {
    fn start(plan: &Plan, rank: u32, done: &Arc<AtomicU64>) -> Result<Option<Monitor>, String> {
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
