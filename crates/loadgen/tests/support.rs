//! A small memcached to test with, real servers, and runs without ceremony.
//!
//! The small one keeps its data in a map, speaks the text commands that the tests use, a thread for
//! each connection, and does on request what servers do at the worst moment.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use keyrack_loadgen::account::{Report, Sampled};
use keyrack_loadgen::plan::{Plan, Settings};
use keyrack_loadgen::run::{Event, Surroundings, run};
use keyrack_measure::Clock;
use keyrack_vfs::{Fs, OutputFile, RealFs};
use tempfile::TempDir;

/// What a small server does besides answering.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Manners {
    /// At this lookup it stands still, for all connections, so many milliseconds.
    pub(crate) freeze_at: Option<(u64, u64)>,
    /// Each lookup takes so many milliseconds.
    pub(crate) slow_ms: u64,
    /// After this lookup it closes the connection that asked.
    pub(crate) close_after: Option<u64>,
    /// Instead of answering this lookup it sends something else.
    pub(crate) garbage_at: Option<u64>,
    /// Sends a line before anything is asked.
    pub(crate) has_banner: bool,
    /// Sends each reply byte by byte.
    pub(crate) drips: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) data: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    pub(crate) gets: AtomicU64,
    pub(crate) sets: AtomicU64,
    pub(crate) deletes: AtomicU64,
}

/// A small memcached on a port of its own. It lives as long as the test's process.
pub(crate) struct Small {
    pub(crate) address: String,
    pub(crate) shared: Arc<Shared>,
}

impl Small {
    pub(crate) fn start(manners: Manners) -> Small {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&theirs);
                std::thread::spawn(move || serve(stream, &shared, manners));
            }
        });
        Small { address, shared }
    }
}

/// Answers until the client is gone.
fn serve(stream: TcpStream, shared: &Shared, manners: Manners) -> Option<()> {
    let clock = Clock::vdso();
    stream.set_nodelay(true).ok()?;
    let mut output = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    if manners.has_banner {
        output.write_all(b"hello\r\n").ok()?;
    }
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&[u8]> = line.trim_ascii_end().split(|byte| *byte == b' ').collect();
        let mut reply = Vec::new();
        match words[0] {
            b"get" => {
                let number = shared.gets.fetch_add(1, Ordering::Relaxed) + 1;
                clock.wait_until(clock.ticks() + clock.ticks_of_ns(manners.slow_ms * 1_000_000));
                let data = shared.data.lock().unwrap();
                if let Some((at, ms)) = manners.freeze_at
                    && number == at
                {
                    clock.wait_until(clock.ticks() + clock.ticks_of_ns(ms * 1_000_000));
                }
                if manners.garbage_at == Some(number) {
                    reply.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n");
                }
                for key in &words[1..] {
                    if let Some(value) = data.get(*key) {
                        reply.extend_from_slice(b"VALUE ");
                        reply.extend_from_slice(key);
                        reply.extend_from_slice(format!(" 0 {}\r\n", value.len()).as_bytes());
                        reply.extend_from_slice(value);
                        reply.extend_from_slice(b"\r\n");
                    }
                }
                reply.extend_from_slice(b"END\r\n");
                if manners.close_after == Some(number) {
                    let _ = output.shutdown(Shutdown::Both);
                    return None;
                }
            }
            b"set" => {
                let bytes: usize = std::str::from_utf8(words[4]).ok()?.parse().ok()?;
                let mut value = vec![0; bytes + 2];
                input.read_exact(&mut value).ok()?;
                value.truncate(bytes);
                shared.sets.fetch_add(1, Ordering::Relaxed);
                shared.data.lock().unwrap().insert(words[1].to_vec(), value);
                reply.extend_from_slice(b"STORED\r\n");
            }
            b"delete" => {
                shared.deletes.fetch_add(1, Ordering::Relaxed);
                let was = shared.data.lock().unwrap().remove(words[1]);
                let word: &[u8] = if was.is_some() { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" };
                reply.extend_from_slice(word);
            }
            _ => reply.extend_from_slice(b"ERROR\r\n"),
        }
        // A batch is answered together, as servers do.
        if manners.drips {
            for byte in reply {
                output.write_all(&[byte]).ok()?;
            }
        } else {
            output.write_all(&reply).ok()?;
        }
    }
}

/// Settings against a server, short enough for a test.
pub(crate) fn settings(server: &str) -> Settings {
    Settings {
        servers: vec![server.to_owned()],
        time_s: 0.0,
        queries: 1000,
        records: 100,
        ..Settings::default()
    }
}

/// Runs the settings to their end.
pub(crate) fn load(settings: Settings) -> Report {
    try_load(settings, None).unwrap()
}

pub(crate) fn try_load(settings: Settings, save: Option<&Path>) -> keyrack_loadgen::Result<Report> {
    load_with(settings, save, Arc::default(), &mut |_| {})
}

/// Runs the settings until the flag is set.
pub(crate) fn try_load_until(
    settings: Settings,
    stop: Arc<AtomicBool>,
) -> keyrack_loadgen::Result<Report> {
    load_with(settings, None, stop, &mut |_| {})
}

fn load_with(
    settings: Settings,
    save: Option<&Path>,
    stop: Arc<AtomicBool>,
    observer: &mut dyn FnMut(&Event<'_>),
) -> keyrack_loadgen::Result<Report> {
    let fs: &dyn Fs = &RealFs;
    let plan = Arc::new(Plan::new(settings, fs)?);
    let save = save.map(|path| OutputFile::growing(fs, path)).transpose()?;
    let clock = Clock::calibrated();
    let began = clock.ticks();
    run(&plan, &mut Surroundings { clock, stop, observer, fs, save, began })
}

/// Runs the settings; what the threads let others see is looked at when all is over.
pub(crate) fn load_seen(settings: Settings) -> (Report, Sampled) {
    let mut threads = Vec::new();
    let report = load_with(settings, None, Arc::default(), &mut |event| {
        if let Event::Connected { live, .. } = event {
            threads = live.to_vec();
        }
    });
    (report.unwrap(), Sampled::of(threads.iter().map(|live| &**live)))
}

/// Asks again and again until it is so.
pub(crate) fn patiently(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = Clock::vdso();
    let patience = clock.ticks() + clock.ticks_of_ns(60_000_000_000);
    while !is_so() {
        assert!(clock.ticks() < patience, "it was waited for in vain that {what}");
        clock.wait_until(clock.ticks() + clock.ticks_of_ns(10_000_000));
    }
}

/// A server of somebody else, in a directory of its own, ended with the test.
pub(crate) struct Real {
    program: String,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
    child: Child,
    pub(crate) dir: TempDir,
    pub(crate) address: String,
}

impl Real {
    /// Starts `program` on a Unix socket `s` in a new directory, and on the port where it has one.
    /// `None` where it is not installed, which is said.
    pub(crate) fn start(program: &str, args: impl Fn(&str, u16) -> Vec<String>) -> Option<Real> {
        Real::start_with(program, &[], args)
    }

    /// As [`Real::start`], with variables of its own.
    pub(crate) fn start_with(
        program: &str,
        env: &[(&'static str, String)],
        args: impl Fn(&str, u16) -> Vec<String>,
    ) -> Option<Real> {
        let dir = TempDir::with_prefix("keyrack-load-").unwrap();
        // A port that was free a moment ago: the servers take no listening socket.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let path = dir.path().to_str().unwrap().to_owned();
        let (program, args) = (program.to_owned(), args(&path, port));
        let env = env.to_vec();
        let Ok(child) = spawn(&program, &args, &env, &dir) else {
            return skipped(&format!("{program} is not installed"));
        };
        let address = format!("127.0.0.1:{port}");
        let mut real = Real { program, args, env, child, dir, address };
        real.wait();
        Some(real)
    }

    /// Waits until it listens.
    fn wait(&mut self) {
        let clock = Clock::vdso();
        let patience = clock.ticks() + clock.ticks_of_ns(20_000_000_000);
        while TcpStream::connect(&self.address).is_err() {
            assert!(clock.ticks() < patience, "{} does not listen", self.program);
            assert!(self.child.try_wait().unwrap().is_none(), "{} ended", self.program);
            clock.wait_until(clock.ticks() + clock.ticks_of_ns(5_000_000));
        }
    }

    /// Kills it, and starts it again where it was.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.program, &self.args, &self.env, &self.dir).unwrap();
        self.wait();
    }

    /// Waits until a memcached has served so many lookups.
    pub(crate) fn wait_for_lookups(&self, count: u64) {
        let mut asked = TcpStream::connect(&self.address).unwrap();
        let mut served = 0;
        while served < count {
            asked.write_all(b"stats\r\n").unwrap();
            let lines = BufReader::new(&asked).lines().map_while(Result::ok);
            let stats: Vec<String> = lines.take_while(|line| line != "END").collect();
            let gets = stats.iter().find_map(|line| line.strip_prefix("STAT cmd_get "));
            served = gets.and_then(|count| count.parse().ok()).unwrap_or(0);
        }
    }

    pub(crate) fn memcached(more: &[&str]) -> Option<Real> {
        Real::start("memcached", |_, port| {
            let mut args = vec!["-l".to_owned(), "127.0.0.1".to_owned(), "-p".to_owned()];
            args.extend([port.to_string(), "-u".to_owned(), "nobody".to_owned()]);
            args.extend(more.iter().map(|arg| (*arg).to_owned()));
            args
        })
    }

    pub(crate) fn redis(more: &[&str]) -> Option<Real> {
        Real::start("redis-server", |_, port| {
            let mut args = vec!["--bind".to_owned(), "127.0.0.1".to_owned(), "--port".to_owned()];
            args.push(port.to_string());
            args.extend(["--save", "", "--unixsocket", "s"].map(str::to_owned));
            args.extend(more.iter().map(|arg| (*arg).to_owned()));
            args
        })
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says that a test shows nothing here. Where everything has to be there, that is a failure.
pub(crate) fn skipped<T>(why: &str) -> Option<T> {
    println!("SKIPPED: {why}: this test shows nothing");
    assert!(std::env::var_os("CI").is_none(), "{why}, and CI is set");
    None
}

fn spawn(
    program: &str,
    args: &[String],
    env: &[(&'static str, String)],
    dir: &TempDir,
) -> std::io::Result<Child> {
    Command::new(program)
        .args(args)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}
