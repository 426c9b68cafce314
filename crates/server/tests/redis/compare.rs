//! The same requests given to a real Redis and to ours, where redis-server is installed.

use crate::glue::Real;
use crate::redis::scripts::{request, scripts};
use crate::redis::tool::{Site, draw, words};
use keyrack_server::redis::Options;
use keyrack_testkit::random::seed_or;
use keyrack_wire::resp::{Limits, reply_bytes};
use keyrack_workload::Rng;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Requests of the random comparison.
const REQUESTS: u64 = 20_000;

/// Starts a Redis, if there is one of the version that we follow.
pub(super) fn redis() -> Option<Real> {
    let arguments = ["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"];
    Real::start("redis-server", "v=7.0", &arguments, "ready to accept connections")
}

pub(super) struct RealClient {
    stream: UnixStream,
    pending: Vec<u8>,
}

impl RealClient {
    pub(super) fn of(real: &Real) -> RealClient {
        RealClient { stream: UnixStream::connect(&real.socket).unwrap(), pending: Vec::new() }
    }

    pub(super) fn ask(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        keyrack_wire::resp::command(&mut bytes, args);
        self.stream.write_all(&bytes).unwrap();
        let mut chunk = [0; 4096];
        loop {
            if let Some(length) = reply_bytes(&self.pending, &Limits::default()).unwrap() {
                return self.pending.drain(..length).collect();
            }
            let read = self.stream.read(&mut chunk).unwrap();
            assert!(read > 0, "redis-server answers {:?}", String::from_utf8_lossy(&bytes));
            self.pending.extend_from_slice(&chunk[..read]);
        }
    }
}

#[test]
fn a_real_redis_answers_the_scripts_alike() {
    let Some(real) = redis() else {
        println!("redis-server 7.0 is not installed: nothing compared");
        return;
    };
    let mut differences = Vec::new();
    for (name, script) in scripts() {
        let mut clients: BTreeMap<usize, RealClient> = BTreeMap::new();
        RealClient::of(&real).ask(&[b"FLUSHALL"]);
        RealClient::of(&real).ask(&[b"CONFIG", b"RESETSTAT"]);
        let mut is_ours = false;
        let mut lines = script.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            match line {
                "#! ours" => is_ours = true,
                "#! same" => is_ours = false,
                _ => {}
            }
            let Some((who, text)) = request(line) else { continue };
            let mut expected = String::new();
            while let Some((_, answer)) =
                lines.next_if(|(_, line)| request(line).is_none() && !line.starts_with(['#', '@']))
            {
                expected.push_str(answer);
                expected.push('\n');
            }
            // A hello is said to both, though they answer it differently.
            if is_ours && !text.starts_with("HELLO") {
                continue;
            }
            let args = words(text);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let found = clients.entry(who).or_insert_with(|| RealClient::of(&real)).ask(&args);
            let found = draw(&found);
            let expected = expected.replace("closed\n", "");
            if !is_ours && found != expected && !are_times(text, &found, &expected) {
                differences.push(format!("{name}:{}: {text}\n{found}", number + 1));
            }
        }
    }
    assert!(differences.is_empty(), "redis-server answers:\n{}", differences.join("\n"));
}

/// Whether both replies say that there is time left, or how long a key was idle. How much depends
/// on how long the test takes.
fn are_times(request: &str, found: &str, expected: &str) -> bool {
    let least = match request.split(' ').next() {
        Some("TTL" | "PTTL") => 1,
        Some("OBJECT") if request.starts_with("OBJECT IDLETIME ") => 0,
        _ => return false,
    };
    let is_time = |reply: &str| {
        let number = reply.trim().strip_prefix("(integer) ");
        number.and_then(|number| number.parse::<i64>().ok()).is_some_and(|number| number >= least)
    };
    is_time(found) && is_time(expected)
}

#[test]
fn a_time_may_differ_and_a_missing_one_may_not() {
    assert!(are_times("TTL k", "(integer) 9\n", "(integer) 10\n"));
    assert!(!are_times("TTL k", "(integer) -1\n", "(integer) 10\n"));
    assert!(are_times("OBJECT IDLETIME k", "(integer) 1\n", "(integer) 0\n"));
    assert!(!are_times("OBJECT IDLETIME k", "(nil)\n", "(integer) 0\n"));
    assert!(!are_times("OBJECT FREQ k", "(integer) 1\n", "(integer) 0\n"));
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", ""];
const NAMES: [&str; 5] = ["f", "g", "h", "10", "9"];
const VALUES: [&str; 10] =
    ["1", "-7", "abc", "", "2.5", "12.25", "007", "x y", "\r\n", "longer text"];

/// A request of which both answer the same, whatever the time.
fn draw_request(rng: &mut Rng) -> Vec<String> {
    const SHAPES: &[&str] = &[
        "SET k v",
        "SET k v NX",
        "SET k v XX GET",
        "SET k v KEEPTTL",
        "SET k v EXAT u",
        "GET k",
        "SETNX k v",
        "GETSET k v",
        "GETDEL k",
        "GETEX k PERSIST",
        "GETEX k EXAT u",
        "MGET k k k",
        "MSET k v k v",
        "MSETNX k v k v",
        "INCR k",
        "DECR k",
        "INCRBY k i",
        "DECRBY k i",
        "INCRBYFLOAT k d",
        "APPEND k v",
        "STRLEN k",
        "GETRANGE k i i",
        "SETRANGE k s v",
        "HSET k n v",
        "HSET k n v n v",
        "HSETNX k n v",
        "HMSET k n v n v",
        "HGET k n",
        "HMGET k n n",
        "HGETALL k",
        "HDEL k n",
        "HDEL k n n n",
        "HEXISTS k n",
        "HKEYS k",
        "HVALS k",
        "HLEN k",
        "HSTRLEN k n",
        "HINCRBY k n i",
        "HINCRBYFLOAT k n d",
        "DEL k",
        "DEL k k",
        "EXISTS k k",
        "TYPE k",
        "EXPIREAT k t",
        "EXPIREAT k t NX",
        "EXPIREAT k t XX",
        "EXPIREAT k t GT",
        "EXPIREAT k t LT",
        "PEXPIREAT k t",
        "EXPIRETIME k",
        "PEXPIRETIME k",
        "PERSIST k",
        "RENAME k k",
        "RENAMENX k k",
        "COPY k k",
        "COPY k k REPLACE",
        "KEYS *",
        "KEYS [a-c]",
        "DBSIZE",
        "TOUCH k",
        "EXPIRE k -5",
        "EXPIRE k x",
        "HRANDFIELD k 100",
        "HSCAN k 0",
        "SCAN 0 COUNT 1000",
        "MULTI",
        "EXEC",
        "DISCARD",
        "PING v",
        "SUBSTR k i i",
    ];
    let shape = SHAPES[rng.below(SHAPES.len() as u64) as usize];
    let mut pick = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    let word = |word: &str| match word {
        "k" => pick(&KEYS),
        "n" => pick(&NAMES),
        "v" => pick(&VALUES),
        "i" => pick(&["0", "1", "-1", "3", "-3", "100", "x", "9007199254740992"]),
        "d" => pick(&["1", "0.5", "-2.5", "1e2", "x", "0.25"]),
        "s" => pick(&["0", "1", "5", "20", "-1"]),
        "t" => pick(&["9999999999", "9999999998", "8888888888", "1"]),
        // Redis counts what was set with a time in the past until it looks at it.
        "u" => pick(&["9999999999", "8888888888"]),
        other => other.to_owned(),
    };
    shape.split(' ').map(word).collect()
}

/// The reply with what has no order sorted: fields of a hash, and keys.
fn in_order(reply: &str, command: &str) -> String {
    let mut lines: Vec<&str> = reply.lines().collect();
    let first = usize::from(!lines.is_empty());
    match command {
        "KEYS" | "HKEYS" | "HVALS" | "HRANDFIELD" => lines[first..].sort_unstable(),
        "SCAN" if lines.len() > 3 => lines[3..].sort_unstable(),
        "HGETALL" | "HSCAN" => {
            let first = if command == "HSCAN" { lines.len().min(3) } else { first };
            let mut pairs: Vec<[&str; 2]> = lines
                .split_off(first)
                .chunks(2)
                .map(|pair| [pair[0], pair.get(1).copied().unwrap_or_default()])
                .collect();
            pairs.sort_unstable();
            lines.extend(pairs.concat());
        }
        _ => {}
    }
    lines.join("\n")
}

#[test]
fn a_real_redis_answers_random_requests_alike() {
    let Some(real) = redis() else {
        println!("redis-server 7.0 is not installed: nothing compared");
        return;
    };
    let mut rng = Rng::from_seed(seed_or(1));
    let site = Site::new(Options::default(), 1);
    let mut the_loop = site.a_loop(0);
    let mut ours = [the_loop.client(), the_loop.client()];
    let mut theirs = [RealClient::of(&real), RealClient::of(&real)];
    // Requests whose replies are inside of the reply of EXEC, where they are not sorted.
    let mut in_multi = [false, false];
    for round in 0..REQUESTS {
        let words = draw_request(&mut rng);
        let who = rng.below(2) as usize;
        let command = words[0].as_str();
        let unordered = ["KEYS", "HKEYS", "HVALS", "HRANDFIELD", "SCAN", "HGETALL", "HSCAN"];
        if in_multi[who] && unordered.contains(&command) {
            continue;
        }
        match command {
            "MULTI" => in_multi[who] = true,
            "EXEC" | "DISCARD" => in_multi[who] = false,
            _ => {}
        }
        let args: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let mut bytes = Vec::new();
        keyrack_wire::resp::command(&mut bytes, &args);
        let found = draw(&the_loop.feed(&mut ours[who], &bytes));
        let expected = draw(&theirs[who].ask(&args));
        let (found, expected) = (in_order(&found, command), in_order(&expected, command));
        let differs =
            found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
        assert!(found == expected, "request {round}: {words:?}: {differs:?}\n{found}");
    }
    assert!(Path::new(&real.socket).exists());
}
