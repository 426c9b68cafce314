//! A queue of jobs: each line of standard input is one, workers take them under leases that expire,
//! and the change feed wakes the workers and shows what happens.
//!
//! ```text
//!   printf 'tea\ncrash\ncake\n' | cargo run -p keyrack-flodb --example job_queue -- DIR [WORKERS]
//! ```
//!
//! ```text
//!   key         value                     goes by itself
//!   job/ID      the text                  when nobody has done it for an hour
//!   lease/ID    the worker that has it    when the worker is late: then another takes the job
//!   done/ID     the result                after a day
//!   next        the next ID
//! ```
//!
//! A worker does its job between two transactions, and the second one asks whether the lease is
//! still its own. So a job has one result, also where two workers did it. A text that begins with
//! `crash` ends the first worker that takes it, as the end of a machine would. Whatever a program
//! that ended before has left in DIR is done by the next.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example is its own program")]

use keyrack_flodb::{BatchWrite, Changes, Db, Error, Options, Result};
use std::collections::HashSet;
use std::io::BufRead;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, io, process, thread};

const LEASE: Duration = Duration::from_secs(1);
const JOB: Duration = Duration::from_secs(3600);
const RESULT: Duration = Duration::from_secs(24 * 3600);

fn main() {
    let mut args = env::args_os().skip(1);
    let dir = args.next();
    let workers = args.next().map_or(Some(2), |number| number.to_str()?.parse().ok());
    let (Some(dir), Some(workers @ 1..=64), None) = (dir, workers, args.next()) else {
        eprintln!("usage: job_queue DIR [WORKERS] < JOBS, with 1 to 64 workers");
        process::exit(2);
    };
    if let Err(error) = run(Path::new(&dir), workers) {
        eprintln!("job_queue: {error}");
        process::exit(1);
    }
}

/// What the threads share.
struct Queue {
    db: Db,
    /// Whether no more jobs come.
    is_closed: AtomicBool,
    /// The jobs that have ended a worker.
    crashed: Mutex<HashSet<Vec<u8>>>,
}

fn run(dir: &Path, workers: usize) -> Result<()> {
    let db = Db::open(dir, Options::new())?;
    let mut feed = db.changes(db.position())?;
    let queue = Queue { db, is_closed: AtomicBool::new(false), crashed: Mutex::default() };
    let mut counts = [0; 3];
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=workers)
            .map(|number| {
                let queue = &queue;
                scope.spawn(move || {
                    // A worker that ends has a successor.
                    let mut life = 1;
                    while !work(queue, &format!("worker {number}.{life}"))? {
                        life += 1;
                    }
                    Result::<()>::Ok(())
                })
            })
            .collect();
        let fed = feed_jobs(&queue.db);
        queue.is_closed.store(true, Ordering::Release);
        while threads.iter().any(|thread| !thread.is_finished()) {
            feed.wait(LEASE / 10)?;
            show(&mut feed, &mut counts)?;
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("a worker panicked"))?;
        fed
    })?;
    show(&mut feed, &mut counts)?;
    let [added, taken, done] = counts;
    println!("{added} added, {taken} taken, {done} done");
    for entry in queue.db.prefix("done/") {
        let (key, result) = entry?;
        println!("{} {}", key.escape_ascii(), String::from_utf8_lossy(&result));
    }
    queue.db.close()
}

/// Makes a job of each line.
fn feed_jobs(db: &Db) -> Result<()> {
    for line in io::stdin().lock().split(b'\n') {
        let text = line.map_err(|error| Error::Usage(format!("standard input: {error}")))?;
        let id = db.fetch_and_add(b"next", 1)?;
        db.put_with_ttl(format!("job/{id:016x}").as_bytes(), &text, JOB)?;
    }
    Ok(())
}

/// Does jobs until no more come, and there are none. False if a job ends it.
fn work(queue: &Queue, name: &str) -> Result<bool> {
    let Queue { db, is_closed, crashed } = queue;
    let mut feed = db.changes(db.position())?;
    loop {
        // Before the jobs are looked at: what comes later ends the wait.
        let no_more_come = is_closed.load(Ordering::Acquire);
        feed.by_ref().try_for_each(|batch| batch.map(drop))?;
        if let Some((id, text)) = take(db, name)? {
            let is_first = || crashed.lock().expect("no worker panics").insert(id.clone());
            if text.starts_with(b"crash") && is_first() {
                return Ok(false);
            }
            finish(db, name, &id, &text.to_ascii_uppercase())?;
        } else if no_more_come && db.prefix("job/").next().is_none() {
            return Ok(true);
        } else {
            // A lease that expires is no change, so somebody has to look.
            feed.wait(LEASE / 10)?;
        }
    }
}

/// Takes the first job that nobody has.
fn take(db: &Db, name: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
    db.retry(100, |transaction| {
        for entry in transaction.prefix("job/") {
            let (key, text) = entry?;
            let id = key["job/".len()..].to_vec();
            let lease = [b"lease/", &id[..]].concat();
            if transaction.get(&lease)?.is_none() {
                transaction.put_with_ttl(&lease, name.as_bytes(), LEASE)?;
                return Ok(Some((id, text)));
            }
        }
        Ok(None)
    })
}

/// Puts the result in the place of the job. Nothing happens if the lease is over.
fn finish(db: &Db, name: &str, id: &[u8], result: &[u8]) -> Result<()> {
    let key = |kind: &[u8]| [kind, id].concat();
    db.retry(100, |transaction| {
        if transaction.get(&key(b"lease/"))?.as_deref() == Some(name.as_bytes()) {
            transaction.delete(&key(b"job/"))?;
            transaction.delete(&key(b"lease/"))?;
            transaction.put_with_ttl(&key(b"done/"), result, RESULT)?;
        }
        Ok(())
    })
}

/// Prints what has happened, and counts jobs added, taken and done.
fn show(feed: &mut Changes, counts: &mut [u64; 3]) -> Result<()> {
    for batch in feed {
        let batch = batch?;
        for write in batch.writes() {
            let BatchWrite::PutUntil { key, value, .. } = write else { continue };
            let kinds = ["job/", "lease/", "done/"];
            let Some(kind) = kinds.iter().position(|kind| key.starts_with(kind.as_bytes())) else {
                continue;
            };
            counts[kind] += 1;
            let (key, value) = (key.escape_ascii(), String::from_utf8_lossy(value));
            println!("at {}: {key} {value}", batch.position());
        }
    }
    Ok(())
}
