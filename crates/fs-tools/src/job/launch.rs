//! `keyrack fs launch`: ranks on this machine.

use super::document::Document;
use clap::ArgMatches;
use keyrack_deltafs::job::{Launch, Outcome};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// From SIGTERM to SIGKILL, for ranks that do not end.
const GRACE: Duration = Duration::from_secs(5);

/// Launches, and waits for the end.
pub(super) fn run(matches: &ArgMatches) -> u8 {
    let path = matches.get_one::<String>("json").map(String::as_str);
    let mut document = Document::new("launch", path);
    let launched = document.begin(true).and_then(|()| launch(matches, &mut document));
    let status = launched.unwrap_or_else(|why| {
        document.error(&why);
        keyrack_console::refuse("keyrack fs launch", &why);
        keyrack_console::COULD_NOT
    });
    document.end("keyrack fs launch", status)
}

fn launch(matches: &ArgMatches, document: &mut Document) -> Result<u8, String> {
    let words = |name: &str| -> Vec<String> {
        matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
    };
    let mut environment = Vec::new();
    for pair in words("env") {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(format!("--env {pair}: give NAME=VALUE"));
        };
        environment.push((name.to_owned(), value.to_owned()));
    }
    let ranks = matches.get_one::<u32>("ranks").copied().unwrap_or(1);
    document.put("ranks", ranks);
    document.put("command", words("command"));
    let launch = Launch { ranks, command: words("command"), environment, grace: GRACE };
    let failed = |error: std::io::Error| format!("cannot watch for signals: {error}");
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let launched = launch.start().map_err(|error| error.to_string())?;
    let signaller = launched.signaller();
    let was_asked = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&was_asked);
    let forward = move || {
        for signal in signals.forever() {
            asked.store(true, Ordering::Relaxed);
            signaller.send(signal);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(forward).map_err(failed)?;
    Ok(match launched.wait() {
        Outcome::Done => keyrack_console::DONE,
        Outcome::Failed { .. } if was_asked.load(Ordering::Relaxed) => keyrack_console::INTERRUPTED,
        Outcome::Failed { rank, how } => {
            let job = "the job is over; it can be started again";
            let what = format!("rank {rank} {how}; {job}");
            document.put("failed_rank", rank);
            document.error(&what);
            keyrack_console::refuse("keyrack fs launch", &what);
            keyrack_console::NO
        }
    })
}
