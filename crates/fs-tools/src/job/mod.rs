//! The commands of `keyrack fs` that run as one job of several processes, and the names under which
//! people know them.
//!
//! ```text
//!   keyrack fs launch -n 4 -- COMMAND     ranks on this machine, without MPI
//!   keyrack fs serve                      deltafs_bm_svr
//!   keyrack fs bench --server ADDRESS     deltafs_bm_cli
//!   keyrack fs merge                      parallel_compactor
//! ```
//!
//! A rank that fails says why, tells the others, and ends with status 1.

mod behind;
mod bench;
mod commands;
mod document;
mod flags;
mod header;
mod launch;
mod merge;
mod names;
mod original;
mod remote;
mod result;
mod serve;
mod shares;
mod store;
mod target;
mod totals;

pub(crate) use commands::{commands, run};
pub(crate) use document::Document;
pub use original::{client, compactor, server};

use keyrack_deltafs::job::{Job, Rendezvous};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::mpsc::{Receiver, channel};

/// Runs something as a rank of the job that this process is in, and ends the document of it.
fn as_job(
    program: &str,
    rendezvous: &Rendezvous,
    mut document: Document,
    work: impl FnOnce(&mut Job, &mut Document) -> Result<u8, String>,
) -> u8 {
    let status = worked(program, rendezvous, &mut document, work);
    document.end(program, status)
}

fn worked(
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

/// A line by one write, so that those of several ranks do not mix.
fn write_line(line: &str) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Gets something when the process is asked to end.
fn interrupts() -> Result<Receiver<()>, String> {
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
