//! Ranks as threads of one process; ranks as processes are in `tests/job.rs`.

use super::pmi_server::{Action, Book};
use super::*;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;

const SOON: Duration = Duration::from_secs(20);

/// A job of `size` threads; `work` gets each rank's part, and its results come in their order.
fn job_of<R: Send>(size: u32, work: impl Fn(Job) -> R + Sync) -> Vec<R> {
    let listener = collectives::listen("127.0.0.1:0").unwrap();
    let address = format!("127.0.0.1:{}", collectives::port_of(&listener).unwrap());
    let exchange = Exchange::Address;
    let job = |rank, collectives| Job { rank, size, exchange, collectives, pmi: None };
    thread::scope(|scope| {
        let leaves: Vec<_> = (1..size)
            .map(|rank| {
                let (address, work) = (&address, &work);
                scope.spawn(move || {
                    let collectives =
                        Collectives::leaf(address, rank, size, [7; 16], SOON).unwrap();
                    work(job(rank, collectives))
                })
            })
            .collect();
        let root = work(job(0, Collectives::root(listener, size, [7; 16], SOON).unwrap()));
        let others = leaves.into_iter().map(|leaf| leaf.join().unwrap());
        std::iter::once(root).chain(others).collect()
    })
}

#[test]
fn everybody_gets_the_same_sums() {
    for size in [1, 2, 5] {
        let n = u64::from(size);
        let results = job_of(size, |mut job| {
            let rank = u64::from(job.rank());
            let sum = job.fold(&[rank, 1], Fold::Sum).unwrap();
            let least = job.fold(&[rank + 3], Fold::Min).unwrap();
            let most = job.fold(&[rank, u64::MAX], Fold::Max).unwrap();
            let all = job.all_gather(&vec![b'x'; job.rank() as usize]).unwrap();
            let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
            let word = job.broadcast(format!("from {rank}").as_bytes()).unwrap();
            job.finish().unwrap();
            (sum, least, most, lengths, word)
        });
        let lengths: Vec<usize> = (0..size as usize).collect();
        let expected =
            (vec![n * (n - 1) / 2, n], vec![3], vec![n - 1, u64::MAX], lengths, b"from 0".to_vec());
        assert_eq!(results, vec![expected; size as usize]);
    }
}

#[test]
fn histograms_are_added_up_at_the_root() {
    let sums = job_of(3, |mut job| {
        let mut mine = Histogram::new();
        mine.record_n(100 * (u64::from(job.rank()) + 1), 10);
        job.merge(&mine).unwrap()
    });
    let sum = sums[0].as_ref().unwrap();
    assert_eq!((sum.count(), sum.min(), sum.percentile(100.0)), (30, Some(100), sum.max()));
    assert!(sums[1].is_none() && sums[2].is_none());
}

#[test]
fn a_rank_that_is_gone_fails_all_others_with_its_number() {
    let failures = job_of(4, |mut job| match job.rank() {
        2 => None,
        _ => Some(job.fold(&[1], Fold::Sum).unwrap_err().to_string()),
    });
    for rank in [0, 1, 3] {
        let failure = failures[rank].as_ref().unwrap();
        assert!(failure.starts_with("rank 2 is gone"), "rank {rank}: {failure}");
    }
}

#[test]
fn a_rank_that_gives_up_says_why_to_all() {
    let failures = job_of(3, |mut job| match job.rank() {
        1 => {
            job.abort("no room on the disk");
            None
        }
        _ => Some(job.barrier().unwrap_err().to_string()),
    });
    for rank in [0, 2] {
        assert_eq!(failures[rank].as_deref(), Some("rank 1 gave up: no room on the disk"));
    }
}

#[test]
fn steps_that_differ_are_noticed() {
    let failures = job_of(2, |mut job| {
        if job.rank() == 0 {
            return job.fold(&[1, 2], Fold::Sum).unwrap_err().to_string();
        }
        job.fold(&[1], Fold::Sum).unwrap_err().to_string()
    });
    assert!(failures[0].starts_with("rank 1 is at another step"), "{}", failures[0]);
    assert_eq!(failures[0], failures[1]);
}

#[test]
fn strangers_do_not_become_ranks_and_absent_ranks_are_named() {
    let listener = collectives::listen("127.0.0.1:0").unwrap();
    let port = collectives::port_of(&listener).unwrap();
    let stranger = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(bytes).unwrap();
        stream
    };
    let hello = |token: u8, rank: u32, size: u32| {
        [&b"KRS1"[..], &[token; 16], &rank.to_le_bytes(), &size.to_le_bytes()].concat()
    };
    let guests = [
        stranger(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        stranger(&hello(8, 1, 3)),
        stranger(&hello(7, 3, 3)),
        stranger(&hello(7, 0, 3)),
        stranger(&hello(7, 1, 4)),
        stranger(&hello(7, 1, 3)),
    ];
    let error = Collectives::root(listener, 3, [7; 16], Duration::from_millis(300)).unwrap_err();
    assert!(error.to_string().starts_with("rank 2 of the job did not come"), "{error}");
    drop(guests);
}

#[test]
fn a_barrier_of_the_launcher_is_left_by_all_or_none() {
    let mut book = Book::new(2);
    assert_eq!(book.line(0, "cmd=barrier_in"), Action::Wait);
    let put = "cmd=put kvsname=kvs_0 key=a value=b";
    assert_eq!(book.line(1, put), Action::Reply("cmd=put_result rc=0 msg=success\n".to_owned()));
    assert_eq!(book.line(1, "cmd=barrier_in"), Action::ReplyAll("cmd=barrier_out\n".to_owned()));
    assert_eq!(book.line(1, "cmd=barrier_in"), Action::Wait);
    let got = "cmd=get_result rc=0 msg=success value=b\n";
    assert_eq!(book.line(0, "cmd=get kvsname=kvs_0 key=a"), Action::Reply(got.to_owned()));
    let Action::Reply(absent) = book.line(0, "cmd=get key=b") else { panic!("no reply") };
    assert!(absent.contains("rc=-1"), "{absent}");
    let Action::Reply(long) = book.line(0, &format!("cmd=put key=k value={}", "v".repeat(2000)))
    else {
        panic!("no reply")
    };
    assert!(long.contains("rc=-1"), "{long}");
    assert_eq!(
        book.line(0, "cmd=abort exitcode=7 message=so_be_it"),
        Action::Abort(7, "so be it".to_owned())
    );
    assert!(!book.is_open(0));
    book.line(0, "cmd=init pmi_version=1 pmi_subversion=1");
    assert!(book.is_open(0));
    book.line(0, "cmd=finalize");
    assert!(!book.is_open(0));
}

/// A launcher that answers each line with the next of `answers`, and keeps what it was told.
fn scripted(stream: UnixStream, answers: &'static [&'static str]) -> Vec<String> {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    let mut heard = Vec::new();
    for answer in answers {
        heard.push(lines.next().unwrap().unwrap());
        stream.write_all(answer.as_bytes()).unwrap();
    }
    heard
}

const GREETING: [&str; 4] = [
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
    "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=20\n",
    "cmd=appnum appnum=0\n",
    "cmd=my_kvsname kvsname=kvs_1_2\n",
];

#[test]
fn a_rank_speaks_as_the_launchers_of_mpi_expect() {
    static ANSWERS: [&str; 7] = [
        GREETING[0],
        GREETING[1],
        GREETING[2],
        GREETING[3],
        "cmd=put_result rc=0 msg=success\n",
        "cmd=barrier_out\n",
        "cmd=get_result rc=-1 msg=key_not_found value=unknown\n",
    ];
    let (ours, theirs) = UnixStream::pair().unwrap();
    let launcher = thread::spawn(move || scripted(theirs, &ANSWERS));
    let mut pmi = Pmi::over(ours, 1, 2, true).unwrap();
    pmi.put("k", "v").unwrap();
    assert!(pmi.put("k", &"v".repeat(21)).is_err(), "the launcher said 20");
    pmi.barrier().unwrap();
    let error = pmi.get("k").unwrap_err().to_string();
    assert!(error.contains("key_not_found"), "{error}");
    let heard = launcher.join().unwrap();
    assert_eq!(
        heard,
        [
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=get_maxes",
            "cmd=get_appnum",
            "cmd=get_my_kvsname",
            "cmd=put kvsname=kvs_1_2 key=k value=v",
            "cmd=barrier_in",
            "cmd=get kvsname=kvs_1_2 key=k",
        ]
    );
}

#[test]
fn a_launcher_that_speaks_otherwise_is_an_error_that_quotes_it() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    static ANSWERS: [&str; 1] = ["cmd=fullinit-response;pmirank=0\n"];
    let launcher = thread::spawn(move || scripted(theirs, &ANSWERS));
    let error = Pmi::over(ours, 0, 2, true).unwrap_err().to_string();
    assert!(error.contains("fullinit-response"), "{error}");
    launcher.join().unwrap();
}

#[test]
fn ranks_by_flags_need_all_three() {
    let rendezvous = |rank, size| Rendezvous { address: Some("127.0.0.1:1".into()), rank, size };
    for (rank, size) in [(None, Some(2)), (Some(0), None), (Some(2), Some(2)), (Some(0), Some(0))] {
        let error = Job::join(&rendezvous(rank, size)).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
}

#[test]
fn a_meeting_point_by_flags_makes_a_job() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sums: Vec<Vec<u64>> = thread::scope(|scope| {
        let ranks: Vec<_> = (0..3)
            .map(|rank| {
                let free = free.clone();
                scope.spawn(move || {
                    let address = Some(free);
                    let rendezvous = Rendezvous { address, rank: Some(rank), size: Some(3) };
                    let mut job = Job::join(&rendezvous).unwrap();
                    let sum = job.fold(&[u64::from(rank)], Fold::Sum).unwrap();
                    job.finish().unwrap();
                    sum
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    });
    assert_eq!(sums, vec![vec![3]; 3]);
}

/// Ranks as threads that see variables and a directory, and not the environment of the test.
fn join_in(dir: &Path, rank: u32, size: u32, timeout: Duration) -> Result<Job> {
    let (rank, size) = (rank.to_string(), size.to_string());
    let get = |name: &str| match name {
        "SLURM_PROCID" => Some(rank.clone()),
        "SLURM_NTASKS" => Some(size.clone()),
        "KEYRACK_JOB_ID" => Some("seventeen".to_owned()),
        "KEYRACK_FS_RENDEZVOUS" => Some(dir.display().to_string()),
        _ => None,
    };
    Job::join_with(&Rendezvous::default(), &get, timeout)
}

fn sums_of_three(dir: &Path) -> Vec<Vec<u64>> {
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..3_u32)
            .map(|rank| {
                scope.spawn(move || {
                    let mut job = join_in(dir, rank, 3, SOON).unwrap();
                    let sum = job.fold(&[u64::from(rank) + 1], Fold::Sum).unwrap();
                    job.finish().unwrap();
                    sum
                })
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn ranks_meet_in_a_directory_and_leave_nothing_there() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(sums_of_three(dir.path()), vec![vec![6]; 3]);
    assert!(RealFs.list(dir.path()).unwrap().is_empty());
}

/// A job crashed, and left its file. Its port belongs to somebody else by now, or to nobody.
#[test]
fn the_file_of_a_crashed_job_keeps_nobody() {
    let other = collectives::listen("127.0.0.1:0").unwrap();
    let port = collectives::port_of(&other).unwrap();
    let free = collectives::listen("127.0.0.1:0").unwrap();
    let nobody = collectives::port_of(&free).unwrap();
    drop(free);
    thread::spawn(move || {
        for stream in other.incoming() {
            drop(stream);
        }
    });
    let token = collectives::hex(&[7; 16]);
    for text in [
        format!("127.0.0.1:{port}/{token}"),
        format!("127.0.0.1:{nobody}/{token}"),
        format!("127.0.0.1:{nobody}/"),
        String::new(),
    ] {
        let dir = tempfile::tempdir().unwrap();
        RealFs.write_atomic(&dir.path().join("keyrack-job-seventeen"), text.as_bytes()).unwrap();
        let sums = thread::scope(|scope| {
            let leaf = scope.spawn(|| {
                let mut job = join_in(dir.path(), 1, 2, SOON).unwrap();
                job.fold(&[5], Fold::Sum).unwrap()
            });
            let mut root = join_in(dir.path(), 0, 2, SOON).unwrap();
            (root.fold(&[2], Fold::Sum).unwrap(), leaf.join().unwrap())
        });
        assert_eq!(sums, (vec![7], vec![7]), "{text}");
    }
}

#[test]
fn ranks_that_do_not_come_to_the_directory_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let soon = Duration::from_millis(200);
    let error = join_in(dir.path(), 0, 4, soon).unwrap_err().to_string();
    assert!(error.starts_with("ranks 1, 2, 3 of the job did not come within"), "{error}");
    assert!(RealFs.list(dir.path()).unwrap().is_empty(), "nothing is left for the next job");
    let error = join_in(dir.path(), 2, 4, soon).unwrap_err().to_string();
    assert!(error.starts_with("rank 0 of the job did not come within"), "{error}");
}

#[test]
fn a_place_to_meet_that_cannot_be_used_is_an_error_with_its_remedy() {
    let slurm = |name: &str| match name {
        "SLURM_PROCID" => Some("1".to_owned()),
        "SLURM_NTASKS" => Some("2".to_owned()),
        _ => None,
    };
    let refused = |address: Option<&str>, get: Lookup<'_>| {
        let rendezvous = Rendezvous { address: address.map(str::to_owned), rank: None, size: None };
        Job::join_with(&rendezvous, get, SOON).unwrap_err().to_string()
    };
    let error = refused(None, &slurm);
    assert!(error.contains("KEYRACK_FS_RENDEZVOUS"), "several machines: {error}");
    let dir = tempfile::tempdir().unwrap();
    let error = refused(dir.path().to_str(), &slurm);
    assert!(error.contains("set KEYRACK_JOB_ID"), "{error}");
    let error = refused(Some("nowhere/at-all"), &slurm);
    assert!(error.starts_with("'nowhere/at-all' is no place to meet"), "{error}");
    let error = refused(Some("127.0.0.1:1"), &|_| None);
    assert!(error.contains("needs --rank and --size, or a launcher"), "{error}");
}
