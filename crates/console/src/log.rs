//! The log of a server, on standard error.

use keyrack_server::{LogFormat, LogLevel, Options, Server, log};

/// Sends events of `level` and graver ones to standard error from now on.
pub fn start(level: LogLevel, format: LogFormat) {
    log::start(level, format, Box::new(std::io::stderr()));
}

/// Logs the settings in effect.
pub fn log_start(options: &Options) {
    let pid = u64::from(std::process::id());
    log::events::start(env!("CARGO_PKG_VERSION"), pid, &keyrack_server::effective(options));
}

/// Says where the server listens, and that clients can connect: a line each for scripts, and an
/// event.
pub fn announce(server: &Server) {
    let bound: Vec<String> = server.bound().iter().map(ToString::to_string).collect();
    bound.iter().for_each(|url| log::plain(&format!("listening on {url}")));
    log::events::ready(&bound.join(","));
    log::plain("ready");
}
