//! Messages in, messages out, no sockets.

use super::{Connection, Counts, Cx, REPLY_BYTES_MAX, datagram};
use crate::work::Work;
use keyrack_net::Verdict;
use keyrack_rowstore::{ModelRows, RowSession, Rows};
use keyrack_store::Update;
use keyrack_wire::masstree::{Command, Limits, Reply, ReplyParser};
use keyrack_wire::msgpack::Int;
use std::cell::Cell;

struct Bench<'r> {
    rows: Box<dyn RowSession + 'r>,
    limits: Limits,
    counts: Counts,
    connection: Connection,
    checkpoints: Cell<u32>,
    scratch: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
    iterations: usize,
    closed: bool,
}

impl Bench<'static> {
    /// With rows of its own, which stay until the process ends.
    fn alone() -> Self {
        Bench::new(Box::leak(Box::new(ModelRows::new())))
    }

    /// A connection that has shaken hands.
    fn welcome() -> Self {
        let mut bench = Bench::alone();
        bench.ask(&[Command::Handshake { core: None, max_key_bytes: 255 }]);
        assert_eq!(bench.replies().len(), 1);
        bench
    }
}

impl<'r> Bench<'r> {
    fn new(rows: &'r ModelRows) -> Self {
        Bench {
            rows: rows.session().unwrap(),
            limits: Limits::default(),
            counts: Counts::default(),
            connection: Connection::new(),
            checkpoints: Cell::new(0),
            scratch: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            iterations: 0,
            closed: false,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut again = true;
        while again && !self.closed {
            let (checkpoints, connection) = (&self.checkpoints, &mut self.connection);
            let mut cx = Cx {
                rows: &mut *self.rows,
                work: &Work::default(),
                limits: &self.limits,
                counts: &self.counts,
                thread: 3,
                checkpoint: &|| checkpoints.set(checkpoints.get() + 1),
                scratch: &mut self.scratch,
            };
            let served = connection.serve(&mut cx, &self.input, &mut self.output);
            self.input.drain(..served.consumed);
            self.iterations += 1;
            self.closed = served.verdict == Verdict::Close;
            again = served.verdict == Verdict::Again;
        }
    }

    fn ask(&mut self, commands: &[Command<'_>]) {
        let mut bytes = Vec::new();
        for (seq, command) in commands.iter().enumerate() {
            command.write(&mut bytes, Int::from(seq as u64));
        }
        self.send(&bytes);
    }

    /// What came back, as text.
    fn replies(&mut self) -> Vec<String> {
        let bytes = std::mem::take(&mut self.output);
        let mut rest = &bytes[..];
        let mut parser = ReplyParser::new();
        let mut replies = Vec::new();
        let limits = Limits { message_bytes_max: 1 << 30, elements_max: 1 << 30, ..self.limits };
        while let Some(reply) = parser.next(&mut rest, &limits).unwrap() {
            replies.push(told(&reply));
        }
        assert!(rest.is_empty(), "half a reply");
        replies
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or("-".to_owned(), |bytes| bytes.escape_ascii().to_string())
}

fn told(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Row { values, .. } if values.len() == 0 => "miss".to_owned(),
        Reply::Row { values, .. } => {
            format!("row {}", values.map(text).collect::<Vec<_>>().join(" "))
        }
        Reply::Scanned { pairs, .. } => {
            let mut told = "scan".to_owned();
            for (key, value) in *pairs {
                let value = match value {
                    keyrack_wire::masstree::ScanValue::One(value) => text(value),
                    keyrack_wire::masstree::ScanValue::Row(values) => {
                        format!("[{}]", values.map(text).collect::<Vec<_>>().join(" "))
                    }
                };
                told += &format!(" {}={value}", text(Some(key)));
            }
            told
        }
        other => {
            let told = format!("{other:?}");
            told.split_once([' ', '{']).map_or(told.clone(), |(name, rest)| {
                let rest = rest.split_once(',').map_or("", |(_, rest)| rest);
                format!("{name}{}", rest.trim_end_matches(['}', ' ']))
            })
        }
    }
}

const GET: Command<'static> = Command::Get { key: b"k", columns: &[] };

#[test]
fn a_row_is_columns_and_a_miss_is_no_row() {
    let mut bench = Bench::welcome();
    bench.ask(&[
        GET,
        Command::Put { key: b"k", changes: &[(0, b"a")] },
        GET,
        Command::Put { key: b"k", changes: &[(2, b"c"), (3, b"d")] },
        GET,
        Command::Get { key: b"k", columns: &[3, 0, 9, 1] },
        Command::Replace { key: b"k", value: b"one" },
        GET,
        Command::Remove { key: b"k" },
        Command::Remove { key: b"k" },
        GET,
    ]);
    let replies = bench.replies();
    let gets: Vec<&String> =
        replies.iter().filter(|r| r.starts_with("row") || r.starts_with("miss")).collect();
    assert_eq!(gets, ["miss", "row a", "row a  c d", "row d a - ", "row one", "miss"]);
    assert_eq!(replies.len(), 11);
    assert_eq!(bench.counts.gets.get(), 6);
    assert_eq!(bench.counts.get_hits.get(), 4);
}

/// The original answered a miss with the key, so that no client could tell it from a hit.
#[test]
fn a_miss_is_the_two_numbers_alone() {
    let mut bench = Bench::welcome();
    bench.ask(&[GET]);
    assert_eq!(bench.output, [0x92, 0x00, 0x03]);
}

#[test]
fn an_answer_does_not_depend_on_how_requests_were_cut() {
    let mut bench = Bench::welcome();
    bench.ask(&[Command::Put { key: b"k", changes: &[(0, b"a"), (1, b"b")] }]);
    bench.replies();
    let mut bytes = Vec::new();
    for seq in 0..40u64 {
        GET.write(&mut bytes, Int::from(seq));
        Command::Scan { first: b"", count: 2, columns: &[1] }.write(&mut bytes, Int::from(seq));
    }
    bench.send(&bytes);
    let whole = bench.replies();
    assert_eq!(whole.len(), 80);
    for cut in 0..bytes.len() {
        bench.send(&bytes[..cut]);
        bench.send(&bytes[cut..]);
        assert_eq!(bench.replies(), whole, "cut at {cut}");
    }
    bytes.chunks(1).for_each(|byte| bench.send(byte));
    assert_eq!(bench.replies(), whole);
}

/// Reads in a row are looked up together, and so are writes; what they answer is what each answers
/// alone. Four keys, so that a run touches one more than once, and more requests than go together.
#[test]
fn runs_of_reads_and_of_writes_keep_the_order_of_requests() {
    let keys = [b"a", b"b", b"c", b"d"];
    let values: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    let command = |step: usize| {
        // Stretches of 1 to 50 reads or writes, and kinds, by multiplication.
        let mixed = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let key = keys[mixed % 4];
        let value = values[mixed / 4 % 10].as_bytes();
        match (step / 50 % 2, mixed / 64 % 4) {
            (0, _) => Command::Get { key, columns: &[] },
            (_, 0) => Command::Remove { key },
            (_, _) => Command::Replace { key, value },
        }
    };
    let commands: Vec<Command<'_>> = (25..525).map(command).collect();
    let (mut apart, mut together) = (Bench::welcome(), Bench::welcome());
    let mut expected = Vec::new();
    for command in &commands {
        apart.ask(std::slice::from_ref(command));
        expected.append(&mut apart.replies());
    }
    together.ask(&commands);
    assert_eq!(together.replies(), expected);
    let gone = expected.iter().filter(|reply| *reply == "miss").count();
    assert!(gone > 0 && gone < 250, "{gone} misses");
}

#[test]
fn a_scan_of_zero_rows_gives_none() {
    let mut bench = Bench::welcome();
    bench.ask(&[
        Command::Replace { key: b"a", value: b"1" },
        Command::Put { key: b"b", changes: &[(0, b"2"), (1, b"3")] },
        Command::Replace { key: b"c", value: b"4" },
    ]);
    bench.replies();
    bench.ask(&[
        Command::Scan { first: b"", count: 0, columns: &[] },
        Command::Scan { first: b"", count: 9, columns: &[] },
        Command::Scan { first: b"b", count: 1, columns: &[] },
        Command::Scan { first: b"b", count: 2, columns: &[1] },
        Command::Scan { first: b"b", count: 2, columns: &[1, 0] },
        Command::Scan { first: b"d", count: 2, columns: &[] },
    ]);
    let wanted = [
        "scan",
        "scan a=1 b=[2 3] c=4",
        "scan b=[2 3]",
        "scan b=3 c=-",
        "scan b=[3 2] c=[- 4]",
        "scan",
    ];
    assert_eq!(bench.replies(), wanted);
}

#[test]
fn a_long_scan_takes_several_iterations_and_gives_every_row() {
    let mut bench = Bench::welcome();
    for index in 0..10_000u32 {
        let key = format!("key{index:05}");
        bench.rows.put(key.as_bytes(), b"v", 0, 0).unwrap();
    }
    let iterations = bench.iterations;
    bench.ask(&[Command::Scan { first: b"key00001", count: 1 << 40, columns: &[] }, GET]);
    assert!(bench.iterations - iterations >= 3, "{} iterations", bench.iterations - iterations);
    let replies = bench.replies();
    assert_eq!(replies.len(), 2);
    assert_eq!(replies[0].matches("=v").count(), 9999);
    assert!(replies[0].ends_with("key09999=v") && replies[1] == "miss");
}

#[test]
fn nothing_is_done_before_the_handshake() {
    let rows = ModelRows::new();
    let mut bench = Bench::new(&rows);
    bench.ask(&[Command::Replace { key: b"k", value: b"v" }]);
    assert!(bench.closed && rows.is_empty());
    let mut bench = Bench::new(&rows);
    bench.ask(&[Command::Handshake { core: None, max_key_bytes: 100_000 }]);
    assert!(bench.closed, "a key length that is too much");
    let mut bench = Bench::new(&rows);
    bench.send(b"GET / HTTP/1.0\r\n\r\n");
    assert!(bench.closed && bench.output.is_empty());
}

/// The handshake of the original had to come in one piece with nothing behind it.
#[test]
fn a_handshake_may_come_in_pieces_with_requests_behind() {
    let mut bench = Bench::alone();
    let mut bytes = Vec::new();
    Command::Handshake { core: Some(1), max_key_bytes: 255 }.write(&mut bytes, Int::from(1u64));
    GET.write(&mut bytes, Int::from(2u64));
    bytes.chunks(1).for_each(|byte| bench.send(byte));
    assert_eq!(bench.replies().len(), 2);
}

/// In the original a key above 255 bytes was taken, and the next scan overran a buffer.
#[test]
fn a_key_above_its_limit_closes() {
    let mut bench = Bench::welcome();
    bench.ask(&[Command::Replace { key: &[b'k'; 300], value: b"v" }]);
    assert!(bench.closed && bench.rows.count() == 0);
}

#[test]
fn fields_are_columns_in_the_order_of_names_and_become_them() {
    let mut bench = Bench::welcome();
    bench
        .rows
        .update(b"k", &mut |_, row| {
            row.fields();
            row.push_field(b"x", b"1");
            row.push_field(b"y", b"2");
            Update::Put
        })
        .unwrap();
    bench.ask(&[GET, Command::Put { key: b"k", changes: &[(1, b"9")] }, GET, Command::Checkpoint]);
    let replies = bench.replies();
    assert_eq!((&replies[0][..], &replies[2][..]), ("row 1 2", "row 1 9"));
    assert_eq!(bench.checkpoints.get(), 1);
    let mut kind = None;
    bench.rows.get(b"k", &mut |row| kind = Some(row.kind())).unwrap();
    assert_eq!(kind, Some(keyrack_rowstore::Kind::Columns));
}

#[test]
fn a_datagram_never_gets_more_than_it_may() {
    let mut bench = Bench::alone();
    bench.rows.put(b"k", &[b'v'; 5000], 0, 0).unwrap();
    bench.rows.put(b"s", b"small", 0, 0).unwrap();
    let mut answer = |bytes: &[u8]| {
        let mut reply = Vec::new();
        let mut cx = Cx {
            work: &Work::default(),
            rows: &mut *bench.rows,
            limits: &bench.limits,
            counts: &bench.counts,
            thread: 0,
            checkpoint: &|| {},
            scratch: &mut bench.scratch,
        };
        datagram(&mut cx, bytes, &mut reply);
        assert!(reply.len() <= REPLY_BYTES_MAX && reply.len() <= bytes.len().max(64));
        reply
    };
    assert!(answer(b"\x93\x01").is_empty(), "half a message gets no answer");
    let mut ask = |command: Command<'_>, padding: usize| {
        let mut bytes = Vec::new();
        command.write(&mut bytes, Int::from(7u64));
        bytes.resize(bytes.len() + padding, 0xc0);
        answer(&bytes)
    };
    let unknown = [0x92, 0x07, 0xff];
    assert_eq!(ask(GET, 0), unknown);
    assert_eq!(ask(GET, 4000), unknown, "above what any datagram gets");
    let small = ask(Command::Get { key: b"s", columns: &[] }, 0);
    assert!(small.ends_with(b"small"));
    assert_eq!(ask(Command::Scan { first: b"", count: 100, columns: &[] }, 0), unknown);
}
