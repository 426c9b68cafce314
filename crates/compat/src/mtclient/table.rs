//! The tests by name: jobs that `mttest` has too, and the client's own.

use super::client::NetClient;
use super::{checkpoints, crash, long, passing, plain, volt};
use keyrack_workload::kvtest::{self, Halt, Job, Lcg};

/// A test.
#[derive(Debug)]
pub(super) struct Test {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) body: Body,
    /// The window that it has, whatever the options say.
    pub(super) window: Option<u32>,
    /// Whether it goes by datagrams, whatever the options say.
    pub(super) is_by_datagrams: bool,
}

/// What a child does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    /// What a thread of `mttest` does, over the network.
    Job(&'static Job),
    /// The client's own.
    Own(Own),
}

pub(super) type Own = fn(&mut NetClient<'_>, &mut Lcg) -> Result<(), Halt>;

/// Jobs that need nothing but what the protocol has.
const JOBS: &[&str] = &[
    "rw1",
    "rw1puts",
    "rw1fixed",
    "rw1long",
    "rw2",
    "rw2g90",
    "rw2g98",
    "rw2fixed",
    "rw2fixedg90",
    "rw2fixedg98",
    "rw3",
    "rw4",
    "rw4fixed",
    "same",
    "rwsmall24",
    "rwsep24",
    "wd1",
    "wd1m1",
    "wd1m2",
    "wscale",
    "ruscale_init",
    "rscale",
    "uscale",
    "wcol1",
    "rcol1",
    "wcol1o1",
    "rcol1o1",
    "wcol1o2",
    "rcol1o2",
    "url",
];

const OWN: &[(&str, &str, Own)] = &[
    ("rw16", "rw1 with keys of 16 digits", plain::rw16),
    ("w1", "put 4 million random keys of 10 digits", plain::w1),
    ("r1", "get what w1 has put, in random order", plain::r1),
    ("w1b", "put random keys out of 10 million until the time is over", plain::w1b),
    ("u1", "put 10 million times into a million keys", plain::u1),
    ("scantest", "put 200 keys, scan them from many places, checked", plain::scantest),
    ("udp1", "put by datagrams, then get all of it", plain::udp1),
    ("cpa", "put, and ask for a checkpoint half way", checkpoints::cpa),
    ("cpb", "get what cpa has put", checkpoints::cpb),
    ("cpc", "put, then overwrite and remove during a checkpoint", checkpoints::cpc),
    ("cpd", "get what cpc has left", checkpoints::cpd),
    ("wd1check", "after wd1: what it has left has no gaps", |c, _| {
        passing::wd1_check(c, 10_000_000, 1)
    }),
    ("wd1m1check", "after wd1m1: the same", |c, _| passing::wd1_check(c, 100_000_000, 1)),
    ("wd1m2check", "after wd1m2: the same", |c, _| passing::wd1_check(c, 1_000_000_000, 4)),
    ("wd2", "put 1000 keys, remove them, round after round, until the server goes away", {
        passing::wd2
    }),
    ("wd2check", "after wd2: what is there is of one round, without gaps", |c, _| {
        passing::wd2_check(c)
    }),
    ("tri1", "three children hand keys on to each other, until the server goes away", {
        passing::tri1
    }),
    ("tri1check", "after tri1: no key is twice there, and few are on their way", |c, _| {
        passing::tri1_check(c)
    }),
    ("volt1a", "put a million rows of one value", |c, _| volt::load(c, volt::ONE)),
    ("volt1b", "get and put rows of volt1a at random", |c, r| volt::mix(c, r, volt::ONE)),
    ("volt2a", "put a million rows of ten columns", |c, _| volt::load(c, volt::TEN)),
    ("volt2b", "get and put columns of volt2a at random", |c, r| volt::mix(c, r, volt::TEN)),
    ("long_init", "put keys as --keylen and the options behind it say", long::init),
    ("long_go", "get and put keys of long_init at random", long::go),
    ("over1", "all children put the same keys, until the server goes away", crash::over1),
    ("over2", "after over1: all children find the same values", crash::over2),
    ("rec1", "put ascending keys, until the server goes away", crash::rec1),
    ("rec2", "after rec1: what is there has no gaps", crash::rec2),
];

/// All tests, in the order of the help.
pub(super) fn all() -> Vec<Test> {
    let job = |name: &&'static str| kvtest::job(name);
    let jobs = JOBS.iter().filter_map(job).map(|job| Test {
        name: job.name,
        about: job.about,
        body: Body::Job(job),
        window: None,
        is_by_datagrams: false,
    });
    let sync = kvtest::job("rw1").map(|job| Test {
        name: "sync_rw1",
        about: "rw1 that waits for each answer",
        body: Body::Job(job),
        window: Some(1),
        is_by_datagrams: false,
    });
    let own = OWN.iter().map(|&(name, about, run)| Test {
        name,
        about,
        body: Body::Own(run),
        window: None,
        is_by_datagrams: name == "udp1",
    });
    jobs.chain(sync).chain(own).collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn every_job_of_the_list_is_one_and_no_name_stands_twice() {
        let names: Vec<&str> = all().iter().map(|test| test.name).collect();
        assert_eq!(names.len(), JOBS.len() + 1 + OWN.len());
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name}");
        }
    }
}
