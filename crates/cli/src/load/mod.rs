//! `keyrack load`: load on servers of memcached and Redis, with latencies that are true.
//!
//! ```text
//!   flags --> Options --> Settings --> Plan --> with_fleet: load, measure --> Report
//!                                                                              |
//!                               table on standard output, files, exit status <-+
//! ```
//!
//! | status | |
//! |---|---|
//! | 0 | done |
//! | 1 | something failed: connections broke, requests got errors, a goal was not met; figures are printed |
//! | 2 | could not run: usage, nobody there, a wrong password |
//! | 3 | `--strict`, and the verdict warns |
//! | 130 | interrupted; what was measured is printed |

mod coordinator;
mod options;
mod session;

pub(crate) use options::{Options, TableShape};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use keyrack_compat::LoadStyle;
use keyrack_console::say;
use keyrack_loadgen::output::Columns;
use keyrack_loadgen::respond;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const KEYRACK: LoadStyle = LoadStyle { program: "keyrack load", columns: Columns::Full };

/// The subcommand.
pub(crate) fn command() -> Command {
    Options::augment_args(Command::new("load"))
        .about("Put load on servers of memcached and Redis, and measure it")
        .long_about(
            "Put load on servers of memcached and Redis, and measure it. Without --qps each \
             connection keeps --depth requests under way (a closed loop); with it, requests are \
             due at that rate whatever the server does, and latencies count from when they were \
             due.",
        )
        .after_help(
            "Exit status: 0 done; 1 something failed; 2 could not run; 3 the verdict warns, with \
             --strict; 130 interrupted.",
        )
}

pub(crate) fn run(matches: &ArgMatches) -> u8 {
    run_as(matches, &KEYRACK)
}

/// Runs the options under a name.
pub(crate) fn run_as(matches: &ArgMatches, style: &LoadStyle) -> u8 {
    let result =
        Options::from_arg_matches(matches).map_err(|error| error.to_string()).and_then(|options| {
            match &options.respond {
                Some(kind) => respond(kind, &options),
                None if options.agentmode => coordinator::serve(&options),
                None => session::run(&options, style),
            }
        });
    result.unwrap_or_else(|message| {
        keyrack_console::refuse(style.program, &message);
        keyrack_console::COULD_NOT
    })
}

/// Is a server until a signal comes.
fn respond(kind: &str, options: &Options) -> Result<u8, String> {
    let kind = respond::ResponderKind::parse(kind).map_err(|error| error.to_string())?;
    let mut settings = respond::Settings::on_loopback(kind);
    if !options.listen.is_empty() {
        settings.endpoints.clear();
        for text in &options.listen {
            let place = respond::ListenAddress::parse(text)
                .map_err(|error| format!("--listen: {error}"))?;
            match place {
                respond::ListenAddress::Socket(endpoint) => settings.endpoints.push(endpoint),
                respond::ListenAddress::Memory(path) => settings.shared.push(path),
            }
        }
    }
    settings.threads = options.threads;
    settings.value_bytes = options
        .valuesize
        .parse()
        .map_err(|_| format!("--valuesize {}: a responder has one size", options.valuesize))?;
    settings.miss_share = options.miss_share;
    settings.seed = options.seed;
    let stop = Arc::<AtomicBool>::default();
    keyrack_console::set_on_signals(&stop)?;
    let shared = settings.shared.clone();
    let mut ready = |endpoints: &[keyrack_net::Endpoint]| {
        for endpoint in endpoints {
            say!("listening on {endpoint}");
        }
        for path in &shared {
            say!("listening on shm:{}", path.display());
        }
        say!("ready");
    };
    let counts = respond::run(&settings, &mut ready, &|| stop.load(Ordering::Relaxed))
        .map_err(|error| error.to_string())?;
    Ok(keyrack_console::print(&format!(
        "connections = {}\nrequests = {}\nfaults = {}\n",
        counts.connections, counts.requests, counts.faults
    )))
}
