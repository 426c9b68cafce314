//! Golden scripts and rows of other kinds: bytes in, bytes out, no sockets.
//!
//! A script's lines are `> what is sent`, `< what comes back` (both without their line ends), `@ n`
//! for n seconds that pass. `{name}` stands for a number: where it is first expected it takes what
//! came. The scripts but `expiry` give the same with memcached 1.6.18.

use super::{Connection, Cx, Facts, Shared};
use crate::password::Password;
use crate::work::Work;
use keyrack_net::Verdict;
use keyrack_rowstore::{ModelRows, RowSession, Rows};
use keyrack_store::Update;
use keyrack_wire::memcached::Limits;
use keyrack_wire::memcached::binary::{Command, Opcode, Reply, Request, Status, StoreMode};
use std::collections::BTreeMap;

const SCRIPTS: &[(&str, &str)] = &[
    ("storage", include_str!("../../tests/memcached/storage.txt")),
    ("arithmetic", include_str!("../../tests/memcached/arithmetic.txt")),
    ("noreply", include_str!("../../tests/memcached/noreply.txt")),
    ("errors", include_str!("../../tests/memcached/errors.txt")),
    ("meta", include_str!("../../tests/memcached/meta.txt")),
    ("lease", include_str!("../../tests/memcached/lease.txt")),
    ("mixed_lines", include_str!("../../tests/memcached/mixed_lines.txt")),
    ("reads", include_str!("../../tests/memcached/reads.txt")),
    ("expiry", include_str!("../../tests/memcached/expiry.txt")),
];

/// When tests begin, in milliseconds since 1970.
const NOW_MS: u64 = 1_700_000_000_000;

#[derive(Debug)]
struct NoFacts;

impl Facts for NoFacts {
    fn visit(&self, visit: &mut dyn FnMut(&str, u64)) {
        visit("curr_items", 0);
    }
}

/// One connection to rows of its own.
struct Bench<'r> {
    rows: Box<dyn RowSession + 'r>,
    shared: Shared,
    connection: Connection,
    scratch: Vec<u8>,
    now_ms: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    closed: bool,
}

impl Bench<'static> {
    /// With rows of its own, which stay until the process ends.
    fn alone() -> Self {
        Bench::new(Box::leak(Box::new(ModelRows::new())), "")
    }
}

impl<'r> Bench<'r> {
    fn new(rows: &'r ModelRows, password: &str) -> Self {
        let password = Password::new(password.as_bytes());
        let limits = Limits { value_bytes_max: 1 << 20, ..Limits::DEFAULT };
        let connection = Connection::new(&password, None);
        let shared = Shared::new(limits, password, 1, NOW_MS, Box::new(NoFacts));
        let mut rows = rows.session().unwrap();
        rows.at(NOW_MS);
        Bench {
            rows,
            shared,
            connection,
            scratch: Vec::new(),
            now_ms: NOW_MS,
            input: Vec::new(),
            output: Vec::new(),
            closed: false,
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now_ms += seconds * 1000;
        self.rows.at(self.now_ms);
        self.shared.flush_if_due(&mut *self.rows, self.now_ms).unwrap();
    }

    /// Gives `bytes` to the connection as a loop would.
    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut again = true;
        while again && !self.closed {
            let mut cx = Cx {
                batch: Default::default(),
                rows: &mut *self.rows,
                work: &Work::default(),
                now_ms: self.now_ms,
                counts: &self.shared.counts[0],
                shared: &self.shared,
                scratch: &mut self.scratch,
            };
            let served = self.connection.serve(&mut cx, &self.input, &mut self.output);
            self.input.drain(..served.consumed);
            let short = served.verdict == Verdict::Continue && served.need > 0;
            assert!(!short || served.need > self.input.len(), "could go on");
            self.closed = served.verdict == Verdict::Close;
            again = served.verdict == Verdict::Again;
        }
    }

    /// What came back since the last time.
    fn replies(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.output)).unwrap()
    }

    /// Sends a binary request and gives its one reply to `look`.
    fn binary(&mut self, command: Command<'_>, cas: u64) -> (u16, u64, Vec<u8>, Vec<u8>) {
        let mut bytes = Vec::new();
        Request { cas, opaque: 77, ..Request::new(command, false) }.write(&mut bytes);
        self.send(&bytes);
        let (reply, rest) = first_reply(&self.output);
        assert_eq!((reply.opaque, rest.len()), (77, 0), "one reply to {command:?}");
        let seen = (reply.status.0, reply.cas, reply.value.to_vec(), reply.extras.to_vec());
        self.output.clear();
        seen
    }
}

fn first_reply(bytes: &[u8]) -> (Reply<'_>, &[u8]) {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (key, extras) = (usize::from(bytes[3]), usize::from(bytes[4]));
    let end = 24 + word(8) as usize;
    let reply = Reply {
        opcode: bytes[1],
        status: Status(u16::from_be_bytes([bytes[6], bytes[7]])),
        opaque: word(12),
        cas: u64::from_be_bytes(bytes[16..24].try_into().unwrap()),
        extras: &bytes[24..24 + extras],
        key: &bytes[24 + extras..24 + extras + key],
        value: &bytes[24 + extras + key..end],
    };
    (reply, &bytes[end..])
}

fn filled(text: &str, names: &BTreeMap<String, String>) -> String {
    names
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Compares a line, and binds the names in `wanted` that are new.
fn matches(wanted: &str, got: &str, names: &mut BTreeMap<String, String>) -> bool {
    let wanted = filled(wanted, names);
    let Some((before, rest)) = wanted.split_once('{') else { return wanted == got };
    let Some((name, after)) = rest.split_once('}') else { return wanted == got };
    let Some(tail) = got.strip_prefix(before) else { return false };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    names.insert(name.to_owned(), tail[..digits].to_owned());
    matches(&format!("{before}{}{after}", &tail[..digits]), got, names)
}

/// Runs a script; what is sent comes in pieces of `piece` bytes.
fn run(name: &str, script: &str, piece: usize) {
    let mut bench = Bench::alone();
    let mut names = BTreeMap::new();
    let mut came = String::new();
    for (number, line) in script.lines().enumerate() {
        let (mark, text) = line.split_at(line.len().min(1));
        let text = text.strip_prefix(' ').unwrap_or(text);
        let place = format!("{name}.txt:{} in pieces of {piece}", number + 1);
        match mark {
            "" | "#" => {}
            "@" => bench.pass(text.parse().unwrap()),
            ">" => {
                let line = filled(text, &names) + "\r\n";
                line.as_bytes().chunks(piece).for_each(|bytes| bench.send(bytes));
                came.push_str(&bench.replies());
            }
            _ => {
                let Some((got, rest)) = came.split_once("\r\n") else {
                    panic!("{place}: wanted {text:?}, got no line but {came:?}");
                };
                assert!(matches(text, got, &mut names), "{place}: wanted {text:?}, got {got:?}");
                came = rest.to_owned();
            }
        }
    }
    assert_eq!(came, "", "{name}: more came than was wanted");
}

#[test]
fn scripts_give_what_they_say() {
    for (name, script) in SCRIPTS {
        for piece in [usize::MAX, 1, 2, 3, 7] {
            run(name, script, piece);
        }
    }
}

/// All lines of a script in one go get the replies that they get one by one.
#[test]
fn a_pipeline_gets_the_replies_of_its_lines() {
    for (name, script) in SCRIPTS.iter().filter(|(_, script)| !script.contains('{')) {
        if script.contains("\n@") {
            continue;
        }
        let (mut sent, mut wanted) = (String::new(), String::new());
        for line in script.lines() {
            let text = line.get(2..).unwrap_or_default();
            match line.get(..1) {
                Some(">") => sent = sent + text + "\r\n",
                Some("<") => wanted = wanted + text + "\r\n",
                _ => {}
            }
        }
        for cut in 0..sent.len() {
            let mut bench = Bench::alone();
            bench.send(&sent.as_bytes()[..cut]);
            bench.send(&sent.as_bytes()[cut..]);
            assert_eq!(bench.replies(), wanted, "{name} cut at {cut}");
        }
    }
}

#[test]
fn a_pipeline_of_large_values_is_answered_in_parts_and_whole() {
    let mut bench = Bench::alone();
    let value = "v".repeat(600_000);
    bench.send(format!("set a 0 0 {}\r\n{value}\r\nset b 0 0 1\r\nx\r\n", value.len()).as_bytes());
    assert_eq!(bench.replies(), "STORED\r\nSTORED\r\n");
    let line = "get a b a a b a\r\ngets nothing\r\nget b\r\ngat 0 a a a a b\r\n";
    bench.input.extend_from_slice(line.as_bytes());
    let mut whole = Vec::new();
    let mut parts = 0;
    while !bench.input.is_empty() {
        let mut cx = Cx {
            batch: Default::default(),
            work: &Work::default(),
            rows: &mut *bench.rows,
            now_ms: bench.now_ms,
            counts: &bench.shared.counts[0],
            shared: &bench.shared,
            scratch: &mut bench.scratch,
        };
        let mut part = Vec::new();
        let served = bench.connection.serve(&mut cx, &bench.input, &mut part);
        assert!(part.len() <= (1 << 20) + 600_100, "{} bytes at once", part.len());
        assert!(bench.scratch.len() <= (1 << 20) + 600_100, "memory is bounded");
        bench.input.drain(..served.consumed);
        whole.extend_from_slice(&part);
        parts += 1;
    }
    let a = format!("VALUE a 0 600000\r\n{value}\r\n");
    let b = "VALUE b 0 1\r\nx\r\n";
    let wanted = format!("{a}{b}{a}{a}{b}{a}END\r\nEND\r\n{b}END\r\n{a}{a}{a}{a}{b}END\r\n");
    assert_eq!(String::from_utf8(whole).unwrap(), wanted);
    assert!(parts >= 4, "{parts}");
}

#[test]
fn values_above_the_limit_are_refused_and_read_over() {
    let mut bench = Bench::alone();
    let limit = 1 << 20;
    bench.send(format!("set a 0 0 {limit}\r\n{}\r\n", "x".repeat(limit)).as_bytes());
    assert_eq!(bench.replies(), "STORED\r\n");
    bench.send(format!("set b 0 0 {}\r\n{}\r\n", limit + 1, "x".repeat(limit + 1)).as_bytes());
    bench.send(b"append a 0 0 1\r\nx\r\nget b\r\nmn\r\n");
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    assert_eq!(bench.replies(), format!("{too_large}{too_large}END\r\nMN\r\n"));
}

#[test]
fn a_hash_is_no_item_and_columns_keep_what_is_not_touched() {
    let mut bench = Bench::alone();
    let hash = |rows: &mut dyn RowSession| {
        rows.update(b"h", &mut |_, row| {
            row.fields();
            row.push_field(b"f", b"1");
            Update::Put
        })
        .unwrap();
    };
    hash(&mut *bench.rows);
    bench.send(b"get h\r\nmg h v\r\nincr h 1\r\ntouch h 0\r\ndelete h\r\nadd h 0 0 1\r\n7\r\n");
    bench.send(b"get h\r\n");
    let wanted = "END\r\nEN\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nSTORED\r\n\
                  VALUE h 0 1\r\n7\r\nEND\r\n";
    assert_eq!(bench.replies(), wanted);
    bench
        .rows
        .update(b"c", &mut |_, row| {
            row.columns();
            row.push(b"5");
            row.push(b"second");
            Update::Put
        })
        .unwrap();
    bench.send(b"get c\r\nincr c 1\r\nappend c 0 0 1\r\n0\r\ntouch c 100\r\nget c\r\n");
    let wanted =
        "VALUE c 0 1\r\n5\r\nEND\r\n6\r\nSTORED\r\nTOUCHED\r\nVALUE c 0 2\r\n60\r\nEND\r\n";
    assert_eq!(bench.replies(), wanted);
    let mut second = Vec::new();
    bench.rows.get(b"c", &mut |row| second = row.column(1).unwrap().to_vec()).unwrap();
    assert_eq!(second, b"second");
}

#[test]
fn http_and_garbage_close() {
    let rows = ModelRows::new();
    for bytes in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /set HTTP/1.1\r\n\r\nflush_all\r\n"] {
        let mut bench = Bench::new(&rows, "");
        bench.send(bytes.as_bytes());
        assert!(bench.closed && bench.replies().is_empty(), "{bytes}");
    }
}

#[test]
fn nothing_is_done_for_a_stranger() {
    let rows = ModelRows::new();
    let mut bench = Bench::new(&rows, "secret");
    bench.send(b"get a\r\nset auth 0 0 11\r\nuser secret\r\n");
    assert_eq!(bench.replies(), "CLIENT_ERROR unauthenticated\r\n");
    assert!(bench.closed);

    let mut bench = Bench::new(&rows, "secret");
    bench.send(b"set auth 0 0 10\r\nuser wrong\r\nget a\r\n");
    assert_eq!(bench.replies(), "CLIENT_ERROR authentication failure\r\n");
    assert!(bench.closed);

    let mut bench = Bench::new(&rows, "secret");
    bench.send(b"set auth 0 0 11\r\nuser secret\r\nget auth\r\nset a 0 0 1\r\n1\r\nget a\r\n");
    assert_eq!(bench.replies(), "STORED\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nEND\r\n");

    let mut bench = Bench::new(&rows, "secret");
    let get = Command::Get { key: b"a", with_key: false, exptime: None };
    assert_eq!(bench.binary(get, 0).0, 0x20);
    assert!(bench.closed);

    let plain = |data| Command::SaslAuth { mechanism: b"PLAIN", data };
    let mut bench = Bench::new(&rows, "secret");
    assert_eq!(bench.binary(Command::SaslList, 0).2, b"PLAIN");
    assert_eq!(bench.binary(plain(b"\0user\0secret"), 0).0, 0);
    assert_eq!(bench.binary(get, 0).2, b"1");

    let mut bench = Bench::new(&rows, "secret");
    assert_eq!(bench.binary(plain(b"\0user\0Secret"), 0).0, 0x20);
    assert!(bench.closed);
}

#[test]
fn binary_commands_answer_as_their_document_says() {
    let mut bench = Bench::alone();
    let get = |with_key| Command::Get { key: b"k", with_key, exptime: None };
    let store = |mode, value| Command::Store { mode, key: b"k", flags: 9, exptime: 0, value };
    assert_eq!(bench.binary(get(false), 0), (1, 0, b"Not found".to_vec(), vec![]));
    assert_eq!(bench.binary(store(StoreMode::Replace, b"v"), 0).0, 1);
    assert_eq!(bench.binary(store(StoreMode::Append, b"v"), 0).0, 5);
    let (status, cas, ..) = bench.binary(store(StoreMode::Set, b"v"), 0);
    assert!(status == 0 && cas != 0);
    assert_eq!(bench.binary(store(StoreMode::Add, b"v"), 0).0, 2);
    assert_eq!(bench.binary(get(true), 0), (0, cas, b"v".to_vec(), vec![0, 0, 0, 9]));
    assert_eq!(bench.binary(store(StoreMode::Set, b"w"), cas + 1).0, 2);
    assert_eq!(bench.binary(store(StoreMode::Set, b"w"), cas).0, 0);
    assert_eq!(bench.binary(store(StoreMode::Prepend, b"-"), 0).0, 0);
    assert_eq!(bench.binary(get(false), 0).2, b"-w");
    let touch = Command::Touch { key: b"k", exptime: 100 };
    assert_eq!(bench.binary(touch, 0).0, 0);
    assert_eq!(bench.binary(Command::Delete { key: b"k" }, 1 << 60).0, 2);
    assert_eq!(bench.binary(Command::Delete { key: b"k" }, 0), (0, 0, vec![], vec![]));
    assert_eq!(bench.binary(Command::Delete { key: b"k" }, 0).0, 1);
    let count = |direction, initial, exptime| Command::Arithmetic {
        direction,
        key: b"n",
        delta: 5,
        initial,
        exptime,
    };
    use keyrack_wire::memcached::text::Direction::{Down, Up};
    assert_eq!(bench.binary(count(Up, 10, u32::MAX), 0).0, 1);
    assert_eq!(bench.binary(count(Up, 10, 0), 0).2, 10u64.to_be_bytes());
    assert_eq!(bench.binary(count(Up, 10, 0), 0).2, 15u64.to_be_bytes());
    assert_eq!(bench.binary(count(Down, 10, 0), 0).2, 10u64.to_be_bytes());
    assert_eq!(bench.binary(Command::Flush { delay: 0 }, 0).0, 0);
    assert_eq!(bench.binary(count(Down, 1, u32::MAX), 0).0, 1);
    assert_eq!(bench.binary(Command::Noop, 0).0, 0);
    assert_eq!(bench.binary(Command::SaslList, 0).0, 0x81);
    assert_eq!(bench.binary(Command::Quit, 0).0, 0);
    assert!(bench.closed);
}

#[test]
fn quiet_commands_say_what_is_not_taken_for_granted() {
    let mut bench = Bench::alone();
    let store = |mode| Command::Store { mode, key: b"k", flags: 0, exptime: 0, value: b"v" };
    let mut bytes = Vec::new();
    let mut quiet = |command, opaque| {
        Request { opaque, ..Request::new(command, true) }.write(&mut bytes);
    };
    let get = |key| Command::Get { key, with_key: false, exptime: None };
    quiet(get(b"k"), 1);
    quiet(store(StoreMode::Set), 2);
    quiet(store(StoreMode::Add), 3);
    quiet(get(b"k"), 4);
    quiet(Command::Delete { key: b"k" }, 5);
    quiet(Command::Delete { key: b"k" }, 6);
    quiet(Command::Noop, 7);
    bench.send(&bytes);
    let mut seen = Vec::new();
    let mut rest = &bench.output[..];
    while !rest.is_empty() {
        let (reply, behind) = first_reply(rest);
        seen.push((reply.opaque, reply.status.0));
        rest = behind;
    }
    assert_eq!(seen, [(3, 2), (4, 0), (6, 1), (7, 0)]);
    assert_eq!(Opcode::Noop.number(), 0x0a);
}

#[test]
fn stats_tell_what_was_done() {
    let mut bench = Bench::alone();
    bench.send(b"set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\ndelete b\r\n");
    bench.replies();
    bench.send(b"stats\r\n");
    let stats = bench.replies();
    for line in
        ["cmd_set 1", "cmd_get 2", "get_hits 1", "get_misses 1", "incr_hits 1", "delete_misses 1"]
    {
        assert!(stats.contains(&format!("STAT {line}\r\n")), "no {line} in {stats}");
    }
    assert!(stats.ends_with("END\r\n"));
    bench.send(b"stats reset\r\nstats\r\n");
    assert!(bench.replies().starts_with("RESET\r\nSTAT pid"), "reset");
    bench.send(b"stats settings\r\n");
    assert!(bench.replies().contains("STAT item_size_max 1048576\r\n"));
    bench.send(b"stats nothing\r\n");
    assert!(bench.replies().starts_with("ERROR"));
}

/// `stats detail` was a text command alone: the binary one was answered with "Not found".
#[test]
fn binary_stats_switch_and_tell_the_details_of_prefixes() {
    let mut bench = Bench::alone();
    let stat = |key| Command::Stat { key };
    assert_eq!(bench.binary(stat(b"detail on"), 0), (0, 0, vec![], vec![]));
    let get = Command::Get { key: b"p:a", with_key: false, exptime: None };
    assert_eq!(bench.binary(get, 0).0, 1);
    let mut request = Vec::new();
    Request::new(stat(b"detail dump"), false).write(&mut request);
    bench.send(&request);
    let output = std::mem::take(&mut bench.output);
    let (told, rest) = first_reply(&output);
    assert_eq!(told.key, b"detail");
    assert_eq!(told.value, b"PREFIX p get 1 hit 0 set 0 del 0\r\n");
    let (end, rest) = first_reply(rest);
    assert_eq!((end.status.0, end.key, end.value, rest), (0, &b""[..], &b""[..], &b""[..]));
    assert_eq!(bench.binary(stat(b"detail off"), 0).0, 0);
    assert_eq!(bench.binary(stat(b"nothing"), 0).0, 1);
}

/// Gets of a pipeline are looked up together: what comes back is what each alone would get, in
/// their order, however the bytes are cut and however often the output is full.
#[test]
fn runs_of_binary_gets_answer_as_single_ones() {
    let mut bench = Bench::alone();
    let large = vec![b'v'; 300_000];
    let key = |n: u32| format!("key-{n}").into_bytes();
    for n in (0..100).filter(|n| n % 3 > 0) {
        let value = if n % 10 == 5 { &large[..] } else { &b"small"[..] };
        let (key, mode) = (key(n), StoreMode::Set);
        bench.binary(Command::Store { mode, key: &key, flags: n, exptime: 0, value }, 0);
    }
    let mut pipeline = Vec::new();
    for n in 0..100 {
        let key = key(n);
        let get = Command::Get { key: &key, with_key: n % 2 == 0, exptime: None };
        Request { opaque: n, ..Request::new(get, n % 5 > 0) }.write(&mut pipeline);
        if n % 40 == 39 {
            Request { opaque: 1000 + n, ..Request::new(Command::Noop, false) }.write(&mut pipeline);
        }
    }
    for cut in [pipeline.len(), 1000, 7] {
        let misses = bench.shared.counts[0].get_misses.get();
        pipeline.chunks(cut).for_each(|bytes| bench.send(bytes));
        let output = std::mem::take(&mut bench.output);
        let (mut rest, mut seen) = (&output[..], Vec::new());
        while !rest.is_empty() {
            let (reply, behind) = first_reply(rest);
            rest = behind;
            let n = reply.opaque;
            seen.push(n);
            let is_hit = n < 100 && n % 3 > 0;
            let status = if is_hit || n >= 1000 { 0 } else { 1 };
            assert_eq!(reply.status.0, status, "{n}");
            if n < 100 && n % 2 == 0 {
                assert_eq!(reply.key, key(n));
            }
            if is_hit {
                assert_eq!(reply.extras, n.to_be_bytes());
                assert_eq!(reply.value.len(), if n % 10 == 5 { 300_000 } else { 5 });
            }
        }
        let mut expected: Vec<u32> = Vec::new();
        for n in 0..100 {
            // A quiet one that finds nothing says nothing.
            if n % 3 > 0 || n % 5 == 0 {
                expected.push(n);
            }
            if n % 40 == 39 {
                expected.push(1000 + n);
            }
        }
        assert_eq!(seen, expected, "cut at {cut}");
        assert_eq!(bench.shared.counts[0].get_misses.get() - misses, 34);
    }
}
