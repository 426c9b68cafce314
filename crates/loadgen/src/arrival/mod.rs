//! When requests are due, and which stream of random numbers belongs to whom.
//!
//! ```text
//!   -i TEXT --parse--> Distribution --schedule(rate, stream)--> ArrivalSchedule
//!   seed, agent, thread, connection --Stream::rng(purpose)--> Rng
//! ```
//!
//! The distributions and the schedule are those of `workload`. Here is what a load generator adds:
//! the file of a measured distribution, one stream for each connection and purpose, and a share of
//! the rate for each.
//!
//! **Invariant:** no two of (agent, thread, connection, purpose) draw the same numbers, and what a
//! connection draws for one purpose does not depend on how much it drew for another: a run with the
//! same seed sends the same requests, however replies come.

mod sizes;

use std::path::Path;

use keyrack_vfs::{FileKind, Fs};
use keyrack_workload::{ArrivalSchedule, Distribution, Error, Phase, Rng, mix64};

pub use sizes::Sizes;
pub(crate) use sizes::VALUE_BYTES_MAX;

/// The largest file of a measured distribution.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What random numbers are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Purpose {
    /// Gaps between requests.
    Gaps = 1,
    /// Which key.
    Keys = 2,
    /// Sizes and places of values.
    Values = 3,
    /// Which operation.
    Mix = 4,
    /// Which connection of a thread takes a request.
    Connection = 5,
    /// What goes wrong, in a responder that makes faults.
    Faults = 6,
}

/// Whose random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    /// The seed of the run.
    pub seed: u64,
    /// Which process: 0 is the master, or the only one.
    pub agent: u32,
    /// Which thread of it.
    pub thread: u32,
    /// Which connection of that thread, over all servers.
    pub connection: u32,
}

impl Stream {
    /// The stream of one purpose.
    #[must_use]
    pub fn rng(&self, purpose: Purpose) -> Rng {
        // The agent is folded in as the other coordinates are: mixed, added, mixed again.
        let seed = mix64(self.seed).wrapping_add(u64::from(self.agent));
        Rng::stream(seed, Phase::Other(purpose as u32), self.thread, self.connection)
    }
}

/// Reads a distribution: the text form of [`Distribution::parse`], or `cdf:PATH` for a file of
/// [`Distribution::empirical`].
///
/// # Errors
/// As those two; a file that cannot be read, or is larger than 64 MiB, is a syntax error with the
/// reason.
pub fn distribution(text: &str, fs: &dyn Fs) -> Result<Distribution, Error> {
    let Some(path) = text.strip_prefix("cdf:") else { return Distribution::parse(text) };
    let refuse = |problem: String| Error::Syntax {
        what: "distribution file",
        text: path.to_owned(),
        problem,
    };
    let path_of_file = Path::new(path);
    let metadata = fs.metadata(path_of_file).map_err(|error| refuse(error.to_string()))?;
    // A device has no length, and need not have an end.
    if metadata.kind != FileKind::File {
        return Err(refuse("it is no regular file".to_owned()));
    }
    if metadata.len > FILE_BYTES_MAX {
        return Err(refuse(format!("{} bytes, at most {FILE_BYTES_MAX}", metadata.len)));
    }
    let content = fs.read_to_string(path_of_file).map_err(|error| refuse(error.to_string()))?;
    // The line itself is not shown: the name may come from a master, and the file is not for it.
    Distribution::empirical(&content).map_err(|error| match error {
        Error::Syntax { problem, .. } => refuse(problem),
        other => other,
    })
}

/// The schedule of one of `schedules` that share a rate alike: the offsets of its arrivals, which
/// counted together are `rate_per_s` a second.
///
/// Equal gaps are staggered, so that the whole is evenly spaced; random schedules begin at a random
/// moment of their lives, each in its own stream.
///
/// # Errors
/// A rate out of range, a distribution that cannot have it.
///
/// # Panics
/// Unless `index < schedules`.
pub fn schedule(
    distribution: &Distribution,
    rate_per_s: f64,
    stream: &Stream,
    index: u32,
    schedules: u32,
) -> Result<ArrivalSchedule, Error> {
    assert!(index < schedules, "a schedule is one of those that share the rate");
    let share = rate_per_s / f64::from(schedules);
    let schedule =
        ArrivalSchedule::from_distribution(distribution, share, stream.rng(Purpose::Gaps))?;
    Ok(schedule.stationary().staggered(index, schedules))
}

#[cfg(test)]
mod tests;
