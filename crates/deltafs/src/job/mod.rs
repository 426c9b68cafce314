//! Several processes that work on one thing: who am I, how many are we, and sums over all.
//!
//! ```text
//!   flags: --rank, --size     launchers: variables with rank and size      neither
//!            |                     |                                         |
//!            v                     v                                         v
//!      HOST:PORT, or a file      PMI_FD: lines of PMI-1; a PMIx server;   rank 0 of 1
//!      in a shared directory     or the same as with flags
//!            |                     |
//!            +---- collectives ----+
//!         rank 0 holds a connection to every other rank
//! ```
//!
//! No MPI library is linked. `launcher` has the variables; `pmi`, `pmix` and `meet` find rank 0.
//! What is exchanged afterwards (addresses, sums, histograms: a few hundred bytes a rank) goes over
//! the star. A collective costs two messages a rank.
//!
//! **Invariant:** a rank that is gone is an error of every other rank's present or next collective,
//! with the number of the rank that is gone. Nobody waits for the dead.

mod address;
mod collectives;
mod error;
mod launch;
mod launcher;
mod meet;
mod pmi;
mod pmi_server;
mod pmix;

pub use error::{Error, Result};
pub use launch::{Launch, Launched, Outcome, Signaller};

use address::Offer;
use collectives::Collectives;
use keyrack_hdr as hdr;
use keyrack_measure::Histogram;
use keyrack_vfs::{FileKind, Fs, OpenOptions, RealFs};
use launcher::{Lookup, Place};
use pmi::Pmi;
use std::path::Path;
use std::time::Duration;

/// How long ranks wait for each other at the start.
pub const MEET_TIMEOUT: Duration = Duration::from_secs(60);

/// The name under which rank 0 says where it is.
const ADDRESS_KEY: &str = "keyrack-star";

/// The variable with the meeting point of ranks whose command line has none.
const MEETING: &str = "KEYRACK_FS_RENDEZVOUS";

/// What helps ranks that have no way to meet.
const REMEDY: &str = "give --rendezvous, or set KEYRACK_FS_RENDEZVOUS, to HOST:PORT or to a \
                      directory that all ranks see";

/// How ranks find each other.
#[derive(Clone, Debug, Default)]
pub struct Rendezvous {
    /// Where rank 0 listens, `HOST:PORT`, or a directory that all ranks see.
    pub address: Option<String>,
    /// This rank, if no launcher says it.
    pub rank: Option<u32>,
    /// How many ranks, together with `rank`.
    pub size: Option<u32>,
}

/// This process as one of several.
#[derive(Debug)]
pub struct Job {
    rank: u32,
    size: u32,
    exchange: Exchange,
    collectives: Collectives,
    pmi: Option<Pmi>,
}

/// How the ranks of a job found each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// There is one rank.
    Alone,
    /// Rank 0 listens at an address that all were given.
    Address,
    /// A file in a directory.
    Directory,
    /// The launcher's PMI-1.
    Pmi,
    /// The launcher's PMIx.
    Pmix,
}

impl Exchange {
    /// Its name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Exchange::Alone => "none",
            Exchange::Address => "address",
            Exchange::Directory => "directory",
            Exchange::Pmi => "pmi-1",
            Exchange::Pmix => "pmix",
        }
    }
}

/// What is left of several numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their sum; it stops at the largest number.
    Sum,
    /// The least.
    Min,
    /// The largest.
    Max,
}

impl Job {
    /// A job of one process.
    #[must_use]
    pub fn alone() -> Job {
        let (exchange, collectives) = (Exchange::Alone, Collectives::alone());
        Job { rank: 0, size: 1, exchange, collectives, pmi: None }
    }

    /// The job that the environment, or `rendezvous`, describes; alone if neither does.
    ///
    /// # Errors
    /// [`Error::Usage`] for a description that makes no sense, [`Error::Missing`] for ranks that
    /// do not come, [`Error::Pmi`] if the launcher speaks neither PMI-1 nor PMIx.
    pub fn join(rendezvous: &Rendezvous) -> Result<Job> {
        Job::join_with(rendezvous, &|name| std::env::var(name).ok(), MEET_TIMEOUT)
    }

    fn join_with(rendezvous: &Rendezvous, get: Lookup<'_>, timeout: Duration) -> Result<Job> {
        let place = match (rendezvous.rank, rendezvous.size) {
            (Some(rank), Some(size)) => Some(Place::by_flags(rank, size, get)),
            (None, None) => Place::from_environment(get)?,
            _ => return Err(Error::Usage("--rank and --size go together; give both".to_owned())),
        };
        let Some(place) = place else {
            return match &rendezvous.address {
                None => Ok(Job::alone()),
                Some(address) => Err(Error::Usage(format!(
                    "--rendezvous {address} needs --rank and --size, or a launcher of ranks"
                ))),
            };
        };
        let (rank, size) = (place.rank, place.size);
        check_rank(rank, size)?;
        let meeting = rendezvous.address.clone().or_else(|| get(MEETING));
        let (exchange, collectives) = match (&meeting, &place.pmi_fd) {
            (Some(meeting), _) => by_meeting(meeting, &place, timeout)?,
            (None, Some(fd)) => {
                return Job::by_pmi(Pmi::open(fd, rank, size, place.is_one_machine)?);
            }
            (None, None) => without_meeting(&place, get, timeout)?,
        };
        Ok(Job { rank, size, exchange, collectives, pmi: None })
    }

    fn by_pmi(mut pmi: Pmi) -> Result<Job> {
        let (rank, size) = (pmi.rank(), pmi.size());
        let (exchange, collectives) = if size == 1 {
            (Exchange::Alone, Collectives::alone())
        } else if rank == 0 {
            let offer = Offer::listen(pmi.is_one_machine())?;
            pmi.put(ADDRESS_KEY, &offer.text)?;
            pmi.barrier()?;
            let root = Collectives::root(offer.listener, size, offer.token, MEET_TIMEOUT)?;
            (Exchange::Pmi, root)
        } else {
            pmi.barrier()?;
            (Exchange::Pmi, leaf_of(&pmi.get(ADDRESS_KEY)?, rank, size, MEET_TIMEOUT)?)
        };
        Ok(Job { rank, size, exchange, collectives, pmi: Some(pmi) })
    }

    /// How the ranks found each other.
    #[must_use]
    pub fn exchange(&self) -> Exchange {
        self.exchange
    }

    /// This process: below [`Job::size`].
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Whether this process talks for all.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.rank == 0
    }

    /// Waits until all ranks are here.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`].
    pub fn barrier(&mut self) -> Result<()> {
        self.broadcast_of(&[]).map(|_| ())
    }

    /// What each rank has, in the order of ranks; rank 0 alone gets it.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`].
    pub fn gather(&mut self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let all = self.collectives.gather(mine)?;
        let _ = self.collectives.broadcast(&[])?;
        Ok(all)
    }

    /// What rank 0 has. What the others hand in is of no consequence.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`].
    pub fn broadcast(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        let mine = if self.is_root() { mine } else { &[] };
        self.broadcast_of(mine)
    }

    fn broadcast_of(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        self.collectives.gather(&[])?;
        self.collectives.broadcast(mine)
    }

    /// What each rank has, in the order of ranks.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`].
    pub fn all_gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let all = self.collectives.gather(mine)?;
        // The root alone has them, and sends.
        let joined = all.map(|parts| collectives::join(&parts)).unwrap_or_default();
        let joined = self.collectives.broadcast(&joined)?;
        collectives::split(&joined, self.size).ok_or(Error::Protocol { rank: 0 })
    }

    /// Folds numbers over all ranks, each place for itself; every rank gets the result.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`]; [`Error::Protocol`] if a rank hands in another count.
    pub fn fold(&mut self, numbers: &[u64], fold: Fold) -> Result<Vec<u64>> {
        let mine: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let folded = match self.collectives.gather(&mine)? {
            Some(parts) => match folded(&parts, mine.len(), fold) {
                Ok(folded) => folded,
                Err((rank, error)) => {
                    self.collectives.report_loss(rank, &error);
                    return Err(error);
                }
            },
            None => Vec::new(),
        };
        let result = self.collectives.broadcast(&folded)?;
        Ok(result.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }

    /// Adds histograms up; rank 0 alone gets the sum.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`]; [`Error::Protocol`] if a rank sends something else.
    pub fn merge(&mut self, histogram: &Histogram) -> Result<Option<Histogram>> {
        let Some(parts) = self.gather(hdr::export(histogram).as_bytes())? else { return Ok(None) };
        let mut sum = Histogram::new();
        for (rank, part) in (0..).zip(&parts) {
            let part = std::str::from_utf8(part).ok().and_then(|text| hdr::import(text).ok());
            sum.merge(&part.ok_or(Error::Protocol { rank })?);
        }
        Ok(Some(sum))
    }

    /// What each rank has to say at the end, in the order of ranks; rank 0 alone gets it, and waits
    /// at most so long. A rank that is gone or says nothing is an error of its own, and does not
    /// keep the others; they do not wait for an answer. Afterwards the job can only be left.
    pub fn last_words(&mut self, mine: &[u8], patience: Duration) -> Option<Vec<Result<Vec<u8>>>> {
        self.collectives.last_words(mine, patience)
    }

    /// Tells all others that this rank gives up, and why. The launcher sees it when the process
    /// ends without having left: told before, it would end the job before anybody has read why.
    pub fn abort(mut self, why: &str) {
        self.collectives.abort(self.rank, why);
    }

    /// Leaves the job without waiting for the others.
    ///
    /// # Errors
    /// [`Error::Pmi`].
    pub fn leave(mut self) -> Result<()> {
        match &mut self.pmi {
            Some(pmi) => pmi.finalize(),
            None => Ok(()),
        }
    }

    /// Leaves the job in order: waits until all ranks do.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Aborted`], [`Error::Pmi`].
    pub fn finish(mut self) -> Result<()> {
        self.barrier()?;
        match &mut self.pmi {
            Some(pmi) => pmi.finalize(),
            None => Ok(()),
        }
    }
}

/// The folded numbers, or the rank that is at another step.
fn folded(
    parts: &[Vec<u8>],
    bytes: usize,
    fold: Fold,
) -> std::result::Result<Vec<u8>, (u32, Error)> {
    let numbers = |part: &Vec<u8>| -> Vec<u64> {
        part.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
    };
    let mut result = numbers(&parts[0]);
    for (rank, part) in (0..).zip(parts) {
        if part.len() != bytes {
            return Err((rank, Error::Protocol { rank }));
        }
        if rank == 0 {
            continue;
        }
        for (kept, number) in result.iter_mut().zip(numbers(part)) {
            *kept = match fold {
                Fold::Sum => kept.saturating_add(number),
                Fold::Min => number.min(*kept),
                Fold::Max => number.max(*kept),
            };
        }
    }
    Ok(result.iter().flat_map(|number| number.to_le_bytes()).collect())
}

/// Connects the ranks by what the launcher has, or by the directory for temporary files.
fn without_meeting(
    place: &Place,
    get: Lookup<'_>,
    timeout: Duration,
) -> Result<(Exchange, Collectives)> {
    let (rank, size) = (place.rank, place.size);
    if size == 1 {
        return Ok((Exchange::Alone, Collectives::alone()));
    }
    let pmix = launcher::has_pmix_server(get).then(|| pmix::Functions::load(pmix::LIBRARY));
    let why = match pmix {
        Some(Ok(library)) => {
            return Ok((Exchange::Pmix, by_pmix(library, place, timeout)?));
        }
        _ if place.is_one_machine => {
            let dir = get("TMPDIR").unwrap_or_else(|| "/tmp".to_owned());
            return by_meeting(&dir, place, timeout);
        }
        Some(Err(why)) => format!(" by PMIx ({why})"),
        None => String::new(),
    };
    Err(Error::Usage(format!("rank {rank} of {size} cannot find rank 0{why}; {REMEDY}")))
}

fn by_pmix(library: pmix::Functions, place: &Place, timeout: Duration) -> Result<Collectives> {
    let (rank, size) = (place.rank, place.size);
    let exchange = |mine: Option<&str>| {
        library.exchange(rank, mine, timeout).map_err(|error| match error {
            Error::Pmi(why) => Error::Pmi(format!("{why}; {REMEDY}")),
            other => other,
        })
    };
    if rank == 0 {
        let offer = Offer::listen(place.is_one_machine)?;
        exchange(Some(&offer.text))?;
        return Collectives::root(offer.listener, size, offer.token, timeout);
    }
    leaf_of(&exchange(None)?, rank, size, timeout)
}

/// Connects to rank 0, which is where that text of a launcher says.
fn leaf_of(text: &str, rank: u32, size: u32, timeout: Duration) -> Result<Collectives> {
    let Some((address, token)) = address::parse(text) else {
        let text = text.escape_debug();
        return Err(Error::Pmi(format!("'{text}' is no address of rank 0")));
    };
    Collectives::leaf(&address, rank, size, token, timeout)
}

/// Connects the ranks at `HOST:PORT`, or by a file in a directory.
fn by_meeting(meeting: &str, place: &Place, timeout: Duration) -> Result<(Exchange, Collectives)> {
    let (rank, size) = (place.rank, place.size);
    let port = meeting.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if !meeting.contains('/') && port.is_some() {
        let met = match rank {
            0 => Collectives::root(collectives::listen(meeting)?, size, [0; 16], timeout)?,
            _ => Collectives::leaf(meeting, rank, size, [0; 16], timeout)?,
        };
        return Ok((Exchange::Address, met));
    }
    let dir = Path::new(meeting);
    if !RealFs.metadata(dir).is_ok_and(|found| found.kind == FileKind::Dir) {
        return Err(Error::Usage(format!(
            "'{meeting}' is no place to meet; give HOST:PORT, or a directory that exists"
        )));
    }
    let Some(job) = &place.job else {
        return Err(Error::Usage(format!(
            "the ranks cannot meet in {meeting} without a name of the job; set KEYRACK_JOB_ID to \
             one that no other job has"
        )));
    };
    Ok((Exchange::Directory, meet::in_directory(dir, (place, job), timeout)?))
}

fn check_rank(rank: u32, size: u32) -> Result<()> {
    if rank < size && size <= collectives::RANKS_MAX {
        Ok(())
    } else {
        Err(Error::Usage(format!(
            "rank {rank} of {size}: ranks count from 0, and there are 1 to {}",
            collectives::RANKS_MAX
        )))
    }
}

/// Sixteen bytes that nobody guesses: what connections of a job show to each other.
pub(crate) fn random_token() -> [u8; 16] {
    let mut token = [0; 16];
    let device = RealFs.open(Path::new("/dev/urandom"), &OpenOptions::new().read(true));
    let read = device.and_then(|device| device.read_at(0, &mut token));
    if read.is_ok_and(|bytes| bytes == 16) {
        return token;
    }
    // Without the device: different, though not secret.
    token[..8].copy_from_slice(&RealFs.unique_number().to_be_bytes());
    token[8..].copy_from_slice(&keyrack_measure::wall::unix_ms().to_be_bytes());
    token
}

#[cfg(test)]
mod tests;
