//! A process as one rank of a job. A rank that fails says why, tells the others, and ends with
//! status 1.

use super::document::Document;
use keyrack_deltafs::job::{Job, Rendezvous};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::mpsc::{Receiver, channel};

/// Runs `work` as a rank of the job that this process is in, and ends its document. Returns the
/// exit status.
pub fn as_rank(
    program: &str,
    rendezvous: &Rendezvous,
    mut document: Document,
    work: impl FnOnce(&mut Job, &mut Document) -> Result<u8, String>,
) -> u8 {
    let status = work_in_job(program, rendezvous, &mut document, work);
    document.end(program, status)
}

fn work_in_job(
    program: &str,
    rendezvous: &Rendezvous,
    document: &mut Document,
    work: impl FnOnce(&mut Job, &mut Document) -> Result<u8, String>,
) -> u8 {
    let mut job = match Job::join(rendezvous) {
        Ok(job) => job,
        Err(error) => {
            keyrack_console::refuse(program, &error.to_string());
            return keyrack_console::COULD_NOT;
        }
    };
    let rank = job.rank();
    document.put("exchange", job.exchange().name());
    let worked = document.begin(job.is_root()).and_then(|()| work(&mut job, document));
    match worked {
        Ok(status) => match job.leave() {
            Ok(()) => status,
            Err(error) => {
                document.error(&error.to_string());
                keyrack_console::refuse(program, &error.to_string());
                keyrack_console::NO
            }
        },
        Err(why) => {
            document.error(&why);
            let who = if job.size() > 1 { format!("rank {rank}: ") } else { String::new() };
            write_line(&format!("{program}: {who}{}\n", why.replace('\n', " ")));
            job.abort(&why);
            keyrack_console::NO
        }
    }
}

pub(crate) fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Writes a line to standard error by one call, so that the lines of several ranks do not mix.
pub fn write_line(line: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// A channel that gets a message for each SIGINT and SIGTERM.
pub(super) fn interrupts() -> Result<Receiver<()>, String> {
    let failed = |error: std::io::Error| format!("cannot watch for signals: {error}");
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let (send, receive) = channel();
    let watch = move || {
        for _ in signals.forever() {
            // Nobody waits any more once the end has begun.
            let _ = send.send(());
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(failed)?;
    Ok(receive)
}
