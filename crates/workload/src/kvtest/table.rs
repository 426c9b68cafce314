//! The jobs by name.

use super::client::{Client, Halt};
use super::random::Lcg;
use super::{churn, layers, mixed, queues, readback, rowjobs, scale, scans, url};

/// A workload that each thread runs once.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The name in every list and report.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// What ends it.
    pub end: End,
    /// The parameters that it takes.
    pub params: &'static [&'static str],
    /// Those of them that name a file.
    pub files: &'static [&'static str],
    /// Threads that run it beside those that were asked for. Their numbers follow, and what they do
    /// is not counted as operations of the job.
    pub beside: u32,
    /// Whether it wants a store without rows. Such a job comes first in a sequence.
    pub wants_fresh: bool,
    /// Whether it makes puts that are synced.
    pub syncs: bool,
    pub(crate) load: Option<Load>,
    pub(crate) run: Run,
}

/// What a thread does before the first job of a sequence, without being counted.
pub(crate) type Load = fn(&mut dyn Client) -> Result<(), Halt>;

/// What ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The limit of operations or the end of the time, whichever comes first.
    LimitOrTime,
    /// The end of the time alone.
    Time,
    /// Its own count, of which the limit may leave less.
    Count,
    /// Its own count, of which the limit may leave less, or the end of the time where one was set.
    CountOrTime,
}

impl Job {
    /// Runs the job on one thread. `random` is the thread's own; it starts as [`Lcg::default`] with
    /// the first job on a store and goes on from one job to the next.
    ///
    /// # Errors
    /// [`Halt::Stopped`] when the client said so, [`Halt::Failed`] with the first failure.
    pub fn run(&self, client: &mut dyn Client, random: &mut Lcg) -> Result<(), Halt> {
        (self.run)(client, random)
    }

    /// Whether it loads a store when it is the first of its sequence.
    #[must_use]
    pub fn has_load(&self) -> bool {
        self.load.is_some()
    }

    /// Loads this thread's share of what the job works on.
    ///
    /// # Errors
    /// As [`Job::run`].
    pub fn load(&self, client: &mut dyn Client) -> Result<(), Halt> {
        self.load.map_or(Ok(()), |load| load(client))
    }
}

/// All jobs, in the order of lists.
#[must_use]
pub fn jobs() -> &'static [Job] {
    JOBS
}

/// The job called `name`. O(jobs).
#[must_use]
pub fn job(name: &str) -> Option<&'static Job> {
    JOBS.iter().find(|job| job.name == name)
}

pub(crate) type Run = fn(&mut dyn Client, &mut Lcg) -> Result<(), Halt>;

pub(crate) const fn limited(name: &'static str, about: &'static str, run: Run) -> Job {
    Job {
        name,
        about,
        end: End::LimitOrTime,
        params: &[],
        files: &[],
        beside: 0,
        wants_fresh: false,
        syncs: false,
        load: None,
        run,
    }
}

const fn timed(name: &'static str, about: &'static str, run: Run) -> Job {
    Job { end: End::Time, ..limited(name, about, run) }
}

const fn counted(name: &'static str, about: &'static str, run: Run) -> Job {
    Job { end: End::Count, ..limited(name, about, run) }
}

const fn with(params: &'static [&'static str], job: Job) -> Job {
    Job { params, ..job }
}

const JOBS: &[Job] = &[
    limited("rw1", "put random keys, then get them all in random order", readback::rw1),
    limited("rw1puts", "the puts of rw1 alone", readback::rw1puts),
    limited("rw1fixed", "rw1 with keys of at most 8 digits", readback::rw1fixed),
    limited("rw1long", "rw1 with a word in front of each key", readback::rw1long),
    limited("rw1b", "rw1 in batches of 32 keys", readback::rw1b),
    limited("rw1fixedb", "rw1fixed in batches of 32 keys", readback::rw1fixedb),
    limited("rw2", "half puts of new keys, half gets of earlier ones", |c, r| {
        mixed::rw2(c, r, 0.5, u32::MAX)
    }),
    limited("rw2g90", "rw2 with 90 % gets", |c, r| mixed::rw2(c, r, 0.9, u32::MAX)),
    limited("rw2g98", "rw2 with 98 % gets", |c, r| mixed::rw2(c, r, 0.98, u32::MAX)),
    limited("rw2fixed", "rw2 with keys of at most 8 digits", |c, r| {
        mixed::rw2(c, r, 0.5, mixed::FIXED)
    }),
    limited("rw2fixedg90", "rw2fixed with 90 % gets", |c, r| mixed::rw2(c, r, 0.9, mixed::FIXED)),
    limited("rw2fixedg98", "rw2fixed with 98 % gets", |c, r| mixed::rw2(c, r, 0.98, mixed::FIXED)),
    limited("rw3", "put ascending keys, then get them in order", |c, _| {
        readback::in_order(c, |n| n)
    }),
    limited("rw4", "put keys descending from 2^31-1, then get them in order", |c, _| {
        readback::in_order(c, |n| 2_147_483_647u32.wrapping_sub(n))
    }),
    limited("rw4fixed", "put keys descending from 99999999, then get them in order", |c, _| {
        readback::in_order(c, |n| 99_999_999u32.wrapping_sub(n))
    }),
    limited("same", "put ten keys over and over", mixed::same),
    limited("rwsmall24", "24 keys for all threads, 7 of 8 operations are gets", mixed::rwsmall24),
    limited("rwsep24", "24 keys for each thread, 7 of 8 operations are gets", mixed::rwsep24),
    limited("wd1", "even threads put ascending keys, odd ones remove them behind", |c, _| {
        churn::wd1(c, 10_000_000, 1)
    }),
    limited("wd1m1", "wd1 from key 10^8 on", |c, _| churn::wd1(c, 100_000_000, 1)),
    limited("wd1m2", "wd1 from key 10^9 on, in steps of 4", |c, _| churn::wd1(c, 1_000_000_000, 4)),
    with(
        &["rangesize", "nkeys", "prefix"],
        timed("wd3", "insert, get, remove and miss a range for each thread, checked", |c, _| {
            churn::wd3(c)
        }),
    ),
    timed("wscale", "put random keys until the time is over", scale::wscale),
    with(
        &["partsize", "part"],
        counted("ruscale_init", "put a part of 8.75 million keys for each thread, shuffled", {
            scale::ruscale_init
        }),
    ),
    with(
        &["partsize", "parts", "rscale_ncores"],
        Job {
            load: Some(scale::load_parts),
            ..timed("rscale", "get random keys of the parts of ruscale_init", scale::rscale)
        },
    ),
    with(
        &["partsize", "parts"],
        timed("uscale", "put random keys of the 16 parts of ruscale_init", scale::uscale),
    ),
    with(
        &["records", "gets"],
        counted("bdb", "put 500000 keys of 8 letters, then get 10 million; 1 thread", |c, _| {
            scale::bdb(c)
        }),
    ),
    counted("wcol1", "put 4 million columns; thread t puts column t % 24", |c, r| {
        rowjobs::put_columns(c, r, 0)
    }),
    counted("rcol1", "get what wcol1 has put", |c, r| rowjobs::get_columns(c, r, 0)),
    counted("wcol1o1", "wcol1 with the next column", |c, r| rowjobs::put_columns(c, r, 1)),
    counted("rcol1o1", "get what wcol1o1 has put", |c, r| rowjobs::get_columns(c, r, 1)),
    counted("wcol1o2", "wcol1 with the column after the next", |c, r| {
        rowjobs::put_columns(c, r, 2)
    }),
    counted("rcol1o2", "get what wcol1o2 has put", |c, r| rowjobs::get_columns(c, r, 2)),
    timed("scan1", "thread 0 scans and checks; others insert and remove in the gaps", |c, r| {
        scans::scan1(c, r, 0.0)
    }),
    timed("scan1q80", "scan1 whose other threads are idle 80 % of the time", |c, r| {
        scans::scan1(c, r, 0.8)
    }),
    timed("rscan1", "scan1 with descending scans", |c, r| scans::rscan1(c, r, 0.0)),
    timed("rscan1q80", "rscan1 whose other threads are idle 80 % of the time", |c, r| {
        scans::rscan1(c, r, 0.8)
    }),
    timed("splitremove1", "splits against the removal of layers, checked", |c, _| {
        layers::splitremove1(c)
    }),
    with(
        &["prefixlen", "rangelen", "rangesize", "scansize"],
        timed("conflictscan1", "thread 0 scans queues of the others and counts changes", {
            queues::conflictscan1
        }),
    ),
    Job {
        files: &["file"],
        ..with(
            &["file"],
            counted("url", "insert ten and remove five URLs of file=FILE in turn, get the rest", {
                |c, _| url::url(c)
            }),
        )
    },
];
