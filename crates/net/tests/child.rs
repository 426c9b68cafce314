//! Tests that need a process of their own for the server: what it may open, what it holds. The test
//! starts its own binary again, with itself as the only test and a variable set; that process is
//! the server, which says where it is on its standard error and ends with its standard input.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};

use keyrack_net::{Endpoint, Options};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{PATIENCE, REFUSAL, address, ask, connect, read_all, start};

const VARIABLE: &str = "KEYRACK_NET_CHILD";
/// What marks a line that is meant for the parent.
const MARK: &str = "child: ";

/// The server's process, as its parent sees it.
struct Remote {
    process: Child,
    talk: BufReader<ChildStderr>,
}

impl Remote {
    fn start(test: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(VARIABLE, test)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let talk = BufReader::new(process.stderr.take().unwrap());
        Remote { process, talk }
    }

    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.talk.read_line(&mut line).unwrap() > 0, "the child has ended");
            if let Some(said) = line.trim_end().strip_prefix(MARK) {
                return said.to_owned();
            }
        }
    }

    fn signal(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        let mut rest = String::new();
        self.talk.read_to_string(&mut rest).unwrap();
        assert!(self.process.wait().unwrap().success(), "{rest}");
    }
}

fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

fn say(text: &str) {
    eprintln!("{MARK}{text}");
}

/// Waits for the parent; false when it has nothing more to say.
fn hear() -> bool {
    std::io::stdin().read(&mut [0]).unwrap() > 0
}

/// Lets this process open so many files, or as many as it may; says how many that is.
fn allow_files(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: Some(wanted), maximum: now.maximum.map(|max| max.max(wanted)) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        let most = Rlimit { current: now.maximum, maximum: now.maximum };
        setrlimit(Resource::Nofile, most).unwrap();
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[test]
fn ten_thousand_idle_connections_cost_less_than_2_kib_each() {
    const WANTED: usize = 10_000;
    if is_child() {
        allow_files(WANTED as u64 + 500);
        let (board, server) = start(Options { threads: 2, ..Options::default() });
        say(&address(&server).to_string());
        let before_kib = keyrack_measure::usage::process().peak_rss_kib;
        while hear() {
            let facts = board.facts();
            let grown_kib = keyrack_measure::usage::process().peak_rss_kib - before_kib;
            say(&format!("{} {grown_kib}", facts.opened - facts.closed));
        }
        server.shutdown(PATIENCE).unwrap();
        return;
    }
    let files = allow_files(WANTED as u64 + 2_500);
    let count = WANTED.min(usize::try_from(files).unwrap_or(usize::MAX).saturating_sub(2_000));
    if count < WANTED {
        eprintln!("only {count} connections: {files} files may be open");
    }
    let mut server =
        Remote::start("child::ten_thousand_idle_connections_cost_less_than_2_kib_each");
    let endpoint: Endpoint = server.line().parse().unwrap();
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = connect(&endpoint);
        assert_eq!(ask(&mut client, "echo here"), "here");
        clients.push(client);
    }
    server.signal();
    let line = server.line();
    let (open, grown_kib) = line.split_once(' ').unwrap();
    assert_eq!(open.parse::<usize>().unwrap(), count);
    let grown_kib: usize = grown_kib.parse().unwrap();
    eprintln!("{count} connections: {grown_kib} KiB");
    assert!(grown_kib < 2 * count, "{grown_kib} KiB for {count} connections");
    for client in clients.iter_mut().step_by(97) {
        assert_eq!(ask(client, "echo still here"), "still here");
    }
    drop(clients);
    server.end();
}

#[test]
fn a_server_without_descriptors_refuses_and_recovers() {
    if is_child() {
        let (board, server) = start(Options { threads: 2, ..Options::default() });
        let now = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..now }).unwrap();
        say(&address(&server).to_string());
        while hear() {
            let left = board.facts().opened;
            board.wait("all are gone", |facts| facts.closed == left);
            let stats = server.stats();
            say(&format!("{} {} {}", stats.accepted, stats.refused, stats.accept_errors));
        }
        server.shutdown(PATIENCE).unwrap();
        return;
    }
    let mut server = Remote::start("child::a_server_without_descriptors_refuses_and_recovers");
    let endpoint: Endpoint = server.line().parse().unwrap();
    let (mut served, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        let mut client = connect(&endpoint);
        client.write_all(b"echo 1\n").unwrap();
        let mut first = [0; 2];
        client.read_exact(&mut first).unwrap();
        if &first == b"1\n" {
            served.push(client);
        } else {
            let mut told = first.to_vec();
            told.extend(read_all(&mut client));
            assert_eq!(told, REFUSAL);
            refused += 1;
        }
    }
    assert!(served.len() >= 20 && refused >= 20, "{} served, {refused} refused", served.len());
    for client in &mut served {
        assert_eq!(ask(client, "echo 2"), "2");
    }
    let count = served.len();
    drop(served);
    server.signal();
    assert_eq!(server.line(), format!("{count} {refused} {refused}"));
    assert_eq!(ask(&mut connect(&endpoint), "echo 3"), "3");
    server.end();
}
