//! Iterations that are spent: which connections are served, and in which order.

use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use keyrack_net::{
    Limits, Listener, Options, Peer, Served, Server, Service, Verdict, Waker, Worker,
};

use crate::support::{PATIENCE, address, connect, read_line};

/// A protocol of lines: `hold` waits for the test, `work` spends the iteration, all others are
/// quick.
struct Jobs {
    log: Arc<Mutex<Vec<String>>>,
    is_held: Sender<()>,
    release: Mutex<Receiver<()>>,
}

struct JobsWorker<'a> {
    jobs: &'a Jobs,
    is_quick: bool,
    is_spent: bool,
}

impl Service for Jobs {
    type Worker<'a> = JobsWorker<'a>;

    fn worker(&self, _: usize, _: Waker) -> JobsWorker<'_> {
        JobsWorker { jobs: self, is_quick: false, is_spent: false }
    }
}

impl JobsWorker<'_> {
    fn note(&self, line: &str) {
        let kind = if self.is_quick { "quick" } else { "whole" };
        self.jobs.log.lock().unwrap().push(format!("{kind} {line}"));
    }
}

impl Worker for JobsWorker<'_> {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn begin_iteration(&mut self, _: u64, is_quick: bool) {
        (self.is_quick, self.is_spent) = (is_quick, false);
    }

    fn is_spent(&self) -> bool {
        self.is_spent
    }

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        let mut consumed = 0;
        while let Some(end) = input[consumed..].iter().position(|byte| *byte == b'\n') {
            let line = std::str::from_utf8(&input[consumed..consumed + end]).unwrap();
            let is_work = line.starts_with("work");
            if is_work && (self.is_quick || self.is_spent) {
                return Served { consumed, need: 0, verdict: Verdict::Again };
            }
            self.is_spent |= is_work || line == "hold";
            self.note(line);
            writeln!(output, "{line}").unwrap();
            if line == "hold" {
                self.jobs.is_held.send(()).unwrap();
                self.jobs.release.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            }
            consumed += end + 1;
        }
        Served::all(consumed)
    }
}

/// One client's work was carried out to the end of what it had sent, one after the other, and a
/// small request waited for all of it.
#[test]
fn a_spent_turn_leaves_the_others_to_the_next_and_quick_requests_are_answered_between() {
    let log = Arc::default();
    let ((is_held, held), (releaser, release)) = (channel(), channel());
    let jobs = Jobs { log: Arc::clone(&log), is_held, release: Mutex::new(release) };
    let listeners = vec![Listener::stream("127.0.0.1:0".parse().unwrap())];
    let options = Options { listeners, threads: 1, ..Options::default() };
    let server = Server::start(jobs, options).unwrap();
    let mut holder = connect(&address(&server));
    let mut workers: Vec<_> = (0..3).map(|_| connect(&address(&server))).collect();
    let mut small = connect(&address(&server));
    for (number, client) in workers.iter_mut().enumerate() {
        writeln!(client, "hello {number}").unwrap();
        assert_eq!(read_line(client), format!("hello {number}"));
    }
    holder.write_all(b"hold\n").unwrap();
    held.recv_timeout(PATIENCE).unwrap();
    log.lock().unwrap().clear();
    // All is there when the loop looks again.
    for (number, client) in workers.iter_mut().enumerate() {
        write!(client, "work {number}\nwork {number}\n").unwrap();
    }
    small.write_all(b"ping\n").unwrap();
    releaser.send(()).unwrap();
    assert_eq!(read_line(&mut small), "ping");
    for (number, client) in workers.iter_mut().enumerate() {
        assert_eq!(read_line(client), format!("work {number}"));
        assert_eq!(read_line(client), format!("work {number}"));
    }
    let log = log.lock().unwrap().clone();
    assert_eq!(log[0], "quick ping", "{log:?}");
    assert_eq!(log.len(), 7, "{log:?}");
    assert!(log[1..].iter().all(|line| line.starts_with("whole work")), "{log:?}");
    // Each was served once before any was served twice.
    assert_eq!(log[1..4], log[4..7], "{log:?}");
    drop((holder, workers, small));
    server.shutdown(Duration::from_secs(60)).unwrap();
}
