//! Ranks meet by a file in a directory that all of them see.
//!
//! ```text
//!   rank 0                                      the others
//!   listens at a free port                      read DIR/keyrack-job-ID, again and again
//!   writes DIR/keyrack-job-ID: HOST:PORT/TOKEN  connect, show the token, meet at a barrier
//!   removes the file when all are there         without an answer: read the file again
//! ```
//!
//! A job that crashed leaves its file. Its address answers no more, or somebody else answers who
//! closes the connection: the token is another one. A rank that has read such a file reads it
//! again until rank 0 has replaced it. The file belongs to the user, and nobody else can read it.

use super::address::{self, Offer};
use super::collectives::Collectives;
use super::error::{Error, Result};
use super::launcher::Place;
use keyrack_measure::Clock;
use keyrack_vfs::{Fs, OpenOptions, RealFs};
use std::path::Path;
use std::time::Duration;

/// Between two looks at the file.
const RETRY_NS: u64 = 20_000_000;

/// Connects the ranks of the job that has that name; waits at most `timeout`.
pub(super) fn in_directory(
    dir: &Path,
    (place, job): (&Place, &str),
    timeout: Duration,
) -> Result<Collectives> {
    let path = dir.join(format!("keyrack-job-{job}"));
    if place.rank == 0 { root(&path, place, timeout) } else { leaf(&path, place, timeout) }
}

fn root(path: &Path, place: &Place, timeout: Duration) -> Result<Collectives> {
    let offer = Offer::listen(place.is_one_machine)?;
    publish(path, &offer.text)?;
    let met = Collectives::root(offer.listener, place.size, offer.token, timeout);
    let removed = RealFs.remove_file(path).map_err(|error| unusable(path, &error));
    let mut met = met?;
    removed?;
    met.greet(timeout)?;
    Ok(met)
}

/// Writes the file in one step, for this user alone.
fn publish(path: &Path, text: &str) -> Result<()> {
    let unfinished = path.with_extension(format!("{:x}", RealFs.unique_number()));
    let options = OpenOptions::new().write(true).create_new(true).mode(Some(0o600));
    let written = RealFs
        .open(&unfinished, &options)
        .and_then(|file| file.append(text.as_bytes()))
        .and_then(|_| RealFs.rename(&unfinished, path));
    written.map_err(|error| {
        // Nothing may be there, and the first failure is the one to report.
        let _ = RealFs.remove_file(&unfinished);
        unusable(path, &error)
    })
}

fn leaf(path: &Path, place: &Place, timeout: Duration) -> Result<Collectives> {
    let clock = Clock::vdso();
    let deadline = clock.ticks().saturating_add(timeout.as_nanos() as u64);
    let mut failure = Error::Missing { ranks: "rank 0".to_owned(), seconds: timeout.as_secs() };
    loop {
        let left_ns = deadline.saturating_sub(clock.ticks());
        if left_ns == 0 {
            return Err(failure);
        }
        if let Some((address, token)) = read(path)? {
            let (rank, size) = (place.rank, place.size);
            let met = Collectives::leaf(&address, rank, size, token, Duration::ZERO);
            match met.and_then(|mut met| met.greet(Duration::from_nanos(left_ns)).map(|()| met)) {
                Ok(met) => return Ok(met),
                Err(error) => failure = error,
            }
        }
        clock.wait_until((clock.ticks() + RETRY_NS).min(deadline));
    }
}

/// The address and the token in the file; `None` if it is not there, or is cut short.
fn read(path: &Path) -> Result<Option<(String, [u8; 16])>> {
    let text = match RealFs.read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(unusable(path, &error)),
    };
    check_owner(path)?;
    Ok(address::parse(&text))
}

/// Anybody can write into a directory for temporary files.
fn check_owner(path: &Path) -> Result<()> {
    let owner = rustix::fs::stat(path).map(|stat| stat.st_uid);
    let own = rustix::process::geteuid().as_raw();
    match owner {
        Ok(owner) if owner != own => Err(Error::Usage(format!(
            "{} belongs to user {owner}, not to {own}; give --rendezvous another directory",
            path.display()
        ))),
        // It may have been removed, which the next look shows.
        _ => Ok(()),
    }
}

fn unusable(path: &Path, error: &keyrack_vfs::Error) -> Error {
    Error::Usage(format!("the ranks cannot meet at {}: {}", path.display(), error.cause()))
}
