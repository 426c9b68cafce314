//! Replies cut at every byte, and bytes that are no replies.

use keyrack_wire::outcome::{Dialect, Failure, Kind, Malformed, Outcome, Parser, Step};

/// The longest line of a reply.
const LINE_BYTES_MAX: usize = 64 << 10;

/// All outcomes of a stream that comes in pieces of `piece` bytes, each answering its kind.
fn outcomes(
    dialect: Dialect,
    keeps_values: bool,
    stream: &[u8],
    kinds: &[Kind],
    piece: usize,
) -> Result<Vec<Outcome>, Malformed> {
    let mut parser = Parser::new(dialect, keeps_values);
    let mut buffer = Vec::new();
    let mut found = Vec::new();
    for part in stream.chunks(piece) {
        buffer.extend_from_slice(part);
        while found.len() < kinds.len() {
            match parser.step(&buffer, kinds[found.len()])? {
                Step::More => break,
                Step::Eaten(count) => {
                    assert!(count > 0, "a step that takes nothing would repeat for ever");
                    buffer.drain(..count);
                }
                Step::Done(count, outcome) => {
                    buffer.drain(..count);
                    found.push(outcome);
                }
            }
        }
    }
    assert!(buffer.is_empty(), "left over: {:?}", String::from_utf8_lossy(&buffer));
    Ok(found)
}

/// The same outcomes wherever the stream is cut.
fn assert_outcomes(dialect: Dialect, stream: &[u8], expected: &[(Kind, Outcome)]) {
    let kinds: Vec<Kind> = expected.iter().map(|(kind, _)| *kind).collect();
    let wanted: Vec<Outcome> = expected.iter().map(|(_, outcome)| *outcome).collect();
    for keeps_values in [false, true] {
        for piece in 1..=stream.len() {
            let found = outcomes(dialect, keeps_values, stream, &kinds, piece);
            assert_eq!(found.as_ref(), Ok(&wanted), "{dialect:?} in pieces of {piece}");
        }
    }
}

const HIT: Outcome = Outcome::Hit { token: 0 };

#[test]
fn text_replies_mean_the_same_however_they_are_cut() {
    let stream = b"VALUE k 0 3\r\nabc\r\nEND\r\nEND\r\nVALUE k 0 0\r\n\r\nEND\r\n\
        VALUE k 5 8\r\nEND\r\n$-1\r\nEND\r\nVALUE k 0 1 77\r\nx\r\nEND\r\nSTORED\r\nNOT_STORED\r\n\
        VALUE a 0 1\r\nx\r\nVALUE b 0 2\r\nyz\r\nEND\r\nEND\r\nDELETED\r\nNOT_FOUND\r\n5\r\n\
        SERVER_ERROR object too large for cache\r\nCLIENT_ERROR bad\r\nERROR\r\n\
        SERVER_ERROR out of memory storing object\r\n";
    let failed = Outcome::Failed;
    assert_outcomes(
        Dialect::Text,
        stream,
        &[
            (Kind::Get, HIT),
            (Kind::Get, Outcome::Miss),
            (Kind::Get, HIT),
            (Kind::Get, HIT),
            (Kind::Gets, Outcome::Hit { token: 77 }),
            (Kind::Set, Outcome::Stored),
            (Kind::Add, Outcome::NotStored),
            (Kind::Mget, Outcome::Hits(2)),
            (Kind::Mget, Outcome::Hits(0)),
            (Kind::Delete, Outcome::Stored),
            (Kind::Delete, Outcome::Miss),
            (Kind::Incr, Outcome::Stored),
            (Kind::Set, failed(Failure::TooLarge)),
            (Kind::Get, failed(Failure::Client)),
            (Kind::Get, failed(Failure::UnknownCommand)),
            (Kind::Set, failed(Failure::OutOfMemory)),
        ],
    );
}

#[test]
fn meta_replies_mean_the_same_however_they_are_cut() {
    let stream = b"VA 3\r\nabc\r\nEN\r\nVA 0 c12\r\n\r\nHD\r\nNS\r\nEX\r\nNF\r\n\
        VA 2\r\nMN\r\nVA 1\r\nx\r\nMN\r\nMN\r\nSERVER_ERROR busy\r\n";
    assert_outcomes(
        Dialect::Meta,
        stream,
        &[
            (Kind::Get, HIT),
            (Kind::Get, Outcome::Miss),
            (Kind::Gets, Outcome::Hit { token: 12 }),
            (Kind::Set, Outcome::Stored),
            (Kind::Set, Outcome::NotStored),
            (Kind::Cas, Outcome::NotStored),
            (Kind::Delete, Outcome::Miss),
            (Kind::Mget, Outcome::Hits(2)),
            (Kind::Mget, Outcome::Hits(0)),
            (Kind::Get, Outcome::Failed(Failure::Busy)),
        ],
    );
}

#[test]
fn redis_replies_mean_the_same_however_they_are_cut() {
    let stream = b"$3\r\nabc\r\n$-1\r\n$0\r\n\r\n$6\r\n$-1\r\n!\r\n_\r\n+OK\r\n:0\r\n:1\r\n\
        *3\r\n$1\r\na\r\n$-1\r\n$2\r\nbc\r\n*0\r\n>2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$1\r\nx\r\n\
        |1\r\n+ttl\r\n:3\r\n$1\r\ny\r\n%1\r\n+proto\r\n:3\r\n-ERR unknown command 'X'\r\n\
        !9\r\nOOM there\r\n";
    assert_outcomes(
        Dialect::Resp,
        stream,
        &[
            (Kind::Get, HIT),
            (Kind::Get, Outcome::Miss),
            (Kind::Get, HIT),
            (Kind::Get, HIT),
            (Kind::Get, Outcome::Miss),
            (Kind::Set, Outcome::Stored),
            (Kind::Delete, Outcome::Miss),
            (Kind::Delete, Outcome::Stored),
            (Kind::Mget, Outcome::Hits(2)),
            (Kind::Mget, Outcome::Hits(0)),
            (Kind::Get, HIT),
            (Kind::Get, HIT),
            (Kind::Get, HIT),
            (Kind::Get, Outcome::Failed(Failure::UnknownCommand)),
            (Kind::Get, Outcome::Failed(Failure::OutOfMemory)),
        ],
    );
}

#[test]
fn redirections_and_refusals_of_redis_have_their_classes() {
    for (text, class) in [
        ("-MOVED 12 127.0.0.1:1\r\n", Failure::Moved),
        ("-ASK 12 127.0.0.1:1\r\n", Failure::Ask),
        ("-LOADING Redis is loading\r\n", Failure::Busy),
        ("-BUSY script\r\n", Failure::Busy),
        ("-OOM command not allowed\r\n", Failure::OutOfMemory),
        ("-NOAUTH Authentication required.\r\n", Failure::Auth),
        ("-WRONGTYPE Operation\r\n", Failure::Other),
        ("-ERR syntax error\r\n", Failure::Server),
    ] {
        assert_outcomes(Dialect::Resp, text.as_bytes(), &[(Kind::Get, Outcome::Failed(class))]);
    }
    // An error inside an array makes the whole reply one, and the next is clean.
    let stream = b"*2\r\n-ERR one\r\n$1\r\na\r\n$1\r\nb\r\n";
    let first = (Kind::Mget, Outcome::Failed(Failure::Server));
    assert_outcomes(Dialect::Resp, stream, &[first, (Kind::Get, HIT)]);
}

/// A reply of the binary dialect.
fn message(opcode: u8, status: u16, opaque: u32, extras: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x81, opcode, 0, 0, extras.len() as u8, 0];
    bytes.extend_from_slice(&status.to_be_bytes());
    bytes.extend_from_slice(&((extras.len() + value.len()) as u32).to_be_bytes());
    bytes.extend_from_slice(&opaque.to_be_bytes());
    bytes.extend_from_slice(&9u64.to_be_bytes());
    bytes.extend_from_slice(extras);
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn binary_replies_mean_the_same_however_they_are_cut() {
    let stream = [
        message(0x00, 0, 1, &[0; 4], b"abc"),
        message(0x00, 1, 2, &[], b"Not found"),
        message(0x01, 0, 3, &[], b""),
        message(0x01, 3, 4, &[], b"Too large."),
        message(0x00, 0x20, 5, &[], b"Auth failure."),
        message(0x01, 2, 6, &[], b"exists"),
        message(0x09, 0, 7, &[0; 4], b"one"),
        message(0x09, 0, 7, &[0; 4], b"two"),
        message(0x0a, 0, 7, &[], b""),
        message(0x0a, 0, 8, &[], b""),
    ]
    .concat();
    assert_outcomes(
        Dialect::Binary,
        &stream,
        &[
            (Kind::Get, Outcome::Hit { token: 9 }),
            (Kind::Get, Outcome::Miss),
            (Kind::Set, Outcome::Stored),
            (Kind::Set, Outcome::Failed(Failure::TooLarge)),
            (Kind::Get, Outcome::Failed(Failure::Auth)),
            (Kind::Cas, Outcome::NotStored),
            (Kind::Mget, Outcome::Hits(2)),
            (Kind::Mget, Outcome::Hits(0)),
        ],
    );
}

#[test]
fn what_is_no_reply_is_refused_without_taking_memory() {
    let huge_line = vec![b'x'; LINE_BYTES_MAX + 2];
    let cases: &[(Dialect, &[u8])] = &[
        (Dialect::Text, b"HTTP/1.1 400 Bad Request\r\n"),
        (Dialect::Text, b"VALUE k 0 -1\r\n"),
        (Dialect::Text, b"VALUE k 0 9223372036854775808\r\n"),
        (Dialect::Text, b"VALUE k 0\r\n"),
        (Dialect::Text, b"VALUE k 0 1\r\nxENDD"),
        (Dialect::Text, b"END\n"),
        (Dialect::Text, &huge_line),
        (Dialect::Meta, b"VA x\r\n"),
        (Dialect::Meta, b"?? 1\r\n"),
        (Dialect::Resp, b"$x\r\n"),
        (Dialect::Resp, b"$-2\r\n"),
        (Dialect::Resp, b"*99999999999999\r\n"),
        (Dialect::Resp, b"$1\r\nxyz"),
        (Dialect::Resp, b"\r\n"),
        (Dialect::Resp, b"STORED\r\n"),
        (Dialect::Binary, b"VALUE k 0 1"),
        (Dialect::Binary, b"\x81\0\0\x09\x04\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0x"),
    ];
    for (dialect, bytes) in cases {
        let kinds = [Kind::Get];
        let found = outcomes(*dialect, false, bytes, &kinds, bytes.len());
        assert!(found.is_err(), "{dialect:?} took {:?}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_value_longer_than_any_buffer_is_counted_down() {
    const BYTES: u64 = 3 << 30;
    let mut parser = Parser::new(Dialect::Text, false);
    let head = format!("VALUE k 0 {BYTES}\r\n");
    let taken = parser.step(head.as_bytes(), Kind::Get);
    assert_eq!(taken, Ok(Step::Eaten(head.len())));
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..BYTES >> 20 {
        assert_eq!(parser.step(&piece, Kind::Get), Ok(Step::Eaten(piece.len())));
    }
    assert_eq!(parser.step(b"\r\nEND\r\n", Kind::Get), Ok(Step::Eaten(2)));
    assert_eq!(parser.step(b"END\r\n", Kind::Get), Ok(Step::Done(5, HIT)));
}

#[test]
fn values_can_be_looked_at() {
    for (dialect, stream) in [
        (Dialect::Text, b"VALUE k 0 3\r\nabc\r\nEND\r\n".to_vec()),
        (Dialect::Meta, b"VA 3\r\nabc\r\n".to_vec()),
        (Dialect::Resp, b"$3\r\nabc\r\n".to_vec()),
        (Dialect::Binary, message(0, 0, 1, &[0; 4], b"abc")),
    ] {
        for cut in 0..stream.len() {
            let mut parser = Parser::new(dialect, true);
            let mut buffer = stream[..cut].to_vec();
            let mut seen = Vec::new();
            let mut fed = false;
            loop {
                match parser.step(&buffer, Kind::Get).unwrap() {
                    Step::More if fed => break,
                    Step::More => {
                        buffer.extend_from_slice(&stream[cut..]);
                        fed = true;
                    }
                    Step::Eaten(count) | Step::Done(count, _) => {
                        if let Some(range) = parser.take_value() {
                            seen = buffer[range].to_vec();
                        }
                        buffer.drain(..count);
                    }
                }
            }
            assert_eq!(seen, b"abc", "{dialect:?} cut at {cut}");
        }
    }
}
