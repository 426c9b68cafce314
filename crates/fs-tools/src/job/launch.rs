//! Ranks of a job on this machine, as `mpirun` starts them.

use super::document::Document;
use keyrack_deltafs::job::{Launch, Outcome};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// From SIGTERM to SIGKILL, for ranks that do not end.
const GRACE: Duration = Duration::from_secs(5);

/// Starts a command as so many ranks, and waits for the end. Returns the exit status.
#[must_use]
pub fn launch(
    ranks: u32,
    command: Vec<String>,
    environment: Vec<(String, String)>,
    json: Option<&str>,
) -> u8 {
    let mut document = Document::new("launch", json);
    document.put("ranks", ranks);
    document.put("command", command.clone());
    let launch = Launch { ranks, command, environment, grace: GRACE };
    let launched = document.begin(true).and_then(|()| run(&launch, &mut document));
    let status = launched.unwrap_or_else(|why| {
        document.error(&why);
        keyrack_console::refuse("keyrack fs launch", &why);
        keyrack_console::COULD_NOT
    });
    document.end("keyrack fs launch", status)
}

fn run(launch: &Launch, document: &mut Document) -> Result<u8, String> {
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
