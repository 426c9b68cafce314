//! `mtd`, Masstree's server: rows in memory with logs and checkpoints, for clients of its protocol.
//!
//! ```text
//!   options --> directories --> rows (recovered) --> loops, TCP and UDP --> signal --> end
//!      standard output:  mb, Bag, pin-threads disabled, logging enabled
//!                        no ./kvd-ckp-gen                   a line for each file of a checkpoint
//!                        no ./kvd-ckp-0-0                   that is not there
//!                        2 udp threads (ports 2117-2118)
//!                        2 tcp threads (port 2117)
//! ```
//!
//! Options and banner are those of the original; exit status 2 says that what was asked for cannot
//! be, 1 that the store failed, 3 that its files are damaged. What differs, on purpose:
//!
//! - What was answered survives a kill, and by `--durability` a power loss too. SIGINT and SIGTERM
//!   end in order. A restart may have any number of threads.
//! - Checkpoints are written when there is enough log, and logs go with them; `-c` adds a time.
//! - It listens to this machine alone, since the protocol has no passwords: `--host`, `--insecure`.
//! - A thread is a loop that serves TCP and UDP; a thread's log is its own.
//! - Files of the original are not read, and not overlooked either: see [`places`].

mod options;
mod places;
mod tester;

use super::line::Tool;
use keyrack_console::Failure;
use keyrack_harness::probe::{Host, LinuxHost};
use keyrack_net::Endpoint;
use keyrack_rowstore::{Options as RowOptions, Progress, RowStore, Rows};
use keyrack_server::{Control, Error, Listen, Options as ServerOptions, Result, Server, log};
use keyrack_vfs::{Fs, RealFs};
use options::{Checkpoints, Options};
use places::Places;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const PROGRAM: &str = "mtd";

/// Threads that one checkpoint or recovery can use.
const CHECKPOINT_THREADS_MAX: usize = 64;

const TOOL: Tool = Tool {
    name: PROGRAM,
    hint: "Usage: mtd [-jN] [--logdir=A,B] [--ckpdir=C]\nTry 'mtd --help' for options.",
    refused: keyrack_console::COULD_NOT,
};

/// `mtd [OPTIONS]`. Returns the exit status.
pub(super) fn main(argv: &[String]) -> u8 {
    TOOL.main(Options::parse(argv), options::help, |options| {
        Ok(run(options).unwrap_or_else(|error| Failure::from(error).explain(PROGRAM)))
    })
}

fn run(options: &Options) -> Result<u8> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let places = if options.has_log { Some(Places::of(options, &*fs)?) } else { None };
    let server = server_options(options, places.as_ref())?;
    for line in &options.explained {
        keyrack_console::refuse(PROGRAM, line);
    }
    keyrack_console::start_log(server.log_level, server.log_format);
    keyrack_vfs::keep_private();
    let control = Control::new();
    let ender = control.clone();
    keyrack_console::on_signals(move || ender.end("signal")).map_err(Error::usage)?;
    keyrack_console::print(&banner(options));
    let rows = keyrack_console::open_logged(|| open(options, &server, places, &fs, &control))?;
    if options.runs_nothing {
        let count = rows.len();
        rows.close()?;
        // By the thread of the log, so it is the last line.
        log::plain(&format!("{count} rows"));
        log::finish();
        return Ok(keyrack_console::DONE);
    }
    if let Some(job) = options.test {
        let tested = tester::run(job, options, rows);
        log::finish();
        return tested;
    }
    let server = Server::start(rows, &server, &control, &*fs)?;
    keyrack_console::print(&threads(&server, options.threads));
    keyrack_console::announce(&server);
    Ok(keyrack_console::serve_until_end(PROGRAM, server, &control))
}

/// What a server is started with to be what the options ask for.
fn server_options(options: &Options, places: Option<&Places>) -> Result<ServerOptions> {
    let listen =
        |scheme: &str| Listen::parse(&format!("{scheme}://{}:{}", options.host, options.port));
    let is_on_disk = places.is_some();
    let dirs = places.map(|places| (places.store.clone(), places.logs.clone()));
    let (data_dir, log_dirs) = dirs.unzip();
    let every = match options.checkpoints {
        Checkpoints::Every(interval) if is_on_disk => interval,
        _ => std::time::Duration::ZERO,
    };
    let mut server = ServerOptions {
        listen: vec![listen("masstree")?, listen("masstree+udp")?],
        engine: if is_on_disk { "rowstore" } else { "masstree" }.to_owned(),
        data_dir,
        log_dirs: log_dirs.unwrap_or_default(),
        durability: is_on_disk.then_some(options.durability),
        checkpoint_interval: every,
        threads: options.threads as usize,
        pin: options.is_pinned,
        insecure: options.is_insecure,
        ..ServerOptions::default()
    };
    if options.checkpoints == Checkpoints::Never {
        server.checkpoint_log_bytes = 0;
    }
    if let Some(cores) = &options.cores {
        server.cpus =
            cores.allowed(options.threads, &LinuxHost.affinity()).map_err(Error::usage)?;
    }
    server.check()?;
    Ok(server)
}

/// Opens the rows, and says which files of a checkpoint there are not.
fn open(
    options: &Options,
    server: &ServerOptions,
    places: Option<Places>,
    fs: &Arc<dyn Fs>,
    control: &Control,
) -> Result<Box<dyn Rows>> {
    let threads = options.threads as usize;
    let row_options = keyrack_console::row_options(server);
    let row_options = RowOptions {
        checkpoint_parts: threads,
        threads: threads.min(CHECKPOINT_THREADS_MAX),
        ..row_options
    };
    let Some(places) = places else {
        return Ok(Box::new(RowStore::in_memory(row_options)?));
    };
    let row_options = RowOptions { checkpoint_dirs: places.checkpoints, ..row_options };
    let shown = AtomicU64::new(0);
    let report = |progress: Progress| keyrack_console::log_progress(progress, &shown, control);
    let store = RowStore::open(Arc::clone(fs), &places.store, row_options, &report)?;
    if store.recovered().generation == 0 {
        let missing = Places::looked_for(options);
        let lines: Vec<String> =
            missing.iter().map(|path| format!("no {}\n", path.display())).collect();
        keyrack_console::print(&lines.concat());
    }
    Ok(Box::new(store))
}

/// The first line.
fn banner(options: &Options) -> String {
    let able = |is: bool| if is { "enabled" } else { "disabled" };
    format!("mb, Bag, pin-threads {}, logging {}\n", able(options.is_pinned), able(options.has_log))
}

/// The last lines: who listens where.
fn threads(server: &Server, threads: u32) -> String {
    let ports = |scheme: &str| -> Vec<u16> {
        let bound = server.bound().iter().filter(|bound| bound.scheme == scheme);
        bound.filter_map(|bound| Endpoint::port(&bound.endpoint)).collect()
    };
    let line = |scheme: &str, what: &str| {
        let plural = if threads == 1 { "" } else { "s" };
        format!("{threads} {what} thread{plural} ({})\n", in_words(&ports(scheme)))
    };
    line("masstree+udp", "udp") + &line("masstree", "tcp")
}

/// `port 1`, `ports 1-3`, or one by one where they do not follow each other.
fn in_words(ports: &[u16]) -> String {
    let mut ports = ports.to_vec();
    // A name may have several addresses.
    ports.dedup();
    let follow = |pair: &[u16]| pair[0].checked_add(1) == Some(pair[1]);
    match ports[..] {
        [port] => format!("port {port}"),
        [first, .., last] if ports.windows(2).all(follow) => format!("ports {first}-{last}"),
        _ => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("ports {}", ports.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_number_a_range_or_a_list() {
        assert_eq!(in_words(&[2117]), "port 2117");
        assert_eq!(in_words(&[2117, 2117]), "port 2117");
        assert_eq!(in_words(&[2117, 2118, 2119]), "ports 2117-2119");
        assert_eq!(in_words(&[7, 9]), "ports 7,9");
    }
}
