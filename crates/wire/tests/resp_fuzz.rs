//! Random messages of Redis' protocol, whole and damaged.
//!
//! Each round makes a few messages, of which the arguments or tokens are known, and reads them
//! whole, in random reads and byte by byte. Every second round damages the bytes first. Then
//! nothing is known but that there is no panic, that all three agree, and that memory stays within
//! what came.

use keyrack_testkit::fuzz::{corpus, kept};
use keyrack_wire::resp::{Limits, Stream, Token, command};

use crate::dice::{Dice, budget_per_seed, seeds};
use crate::{resp_reply, resp_request};

/// The name of both halves of the protocol, for the kept corpus and for what fails.
const TARGET: &str = "wire.redis";

/// Bytes that mean something where a length, a type or an end is looked for.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r",
    b"\n",
    b"*",
    b"$",
    b"*1\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"-",
    b"+",
    b"0",
    b"9223372036854775807",
    b"18446744073709551615",
    b"4294967297",
    b"*1048576\r\n",
    b"\"",
    b"'",
    b"\\x",
    b"$?\r\n",
    b"*?\r\n",
    b"%?\r\n",
    b".\r\n",
    b";0\r\n",
    b";1\r\n",
    b"|1\r\n",
    b">1\r\n",
    b"_\r\n",
];

fn limits() -> Limits {
    Limits {
        elements_max: 40,
        bulk_bytes_max: 800,
        skip_bytes_max: 800,
        message_bytes_max: 2_000,
        line_bytes_max: 3_000,
        ..Limits::default()
    }
}

/// A line with each argument in double quotes, in single quotes, or as it is where that will do.
fn line(dice: &mut Dice, args: &[Vec<u8>], out: &mut Vec<u8>) {
    for arg in args {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"*$-+:.".contains(byte);
        out.extend_from_slice(dice.pick(&[&b" "[..], b"\t ", b"  "]));
        if !arg.is_empty() && arg.iter().all(plain) && dice.once_in(2) {
            out.extend_from_slice(arg);
            continue;
        }
        out.push(b'"');
        for &byte in arg {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                b' '..=b'~' if dice.below(8) > 0 => out.push(byte),
                _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        out.push(b'"');
    }
    out.extend_from_slice(if dice.once_in(2) { b"\r\n" } else { b"\n" });
}

#[test]
fn requests_survive_and_damage_harms_nobody() {
    for seed in seeds() {
        let mut dice = Dice::new(seed);
        let (mut bytes, mut made) = (Vec::new(), Vec::new());
        for bytes in corpus(TARGET, env!("CARGO_MANIFEST_DIR")) {
            kept(TARGET, seed, &bytes, || check_requests(&bytes, &mut dice, None));
        }
        let mut budget = budget_per_seed(2);
        while budget.spend_many(1 + made.len() as u64) {
            bytes.clear();
            made.clear();
            for _ in 0..=dice.below(4) {
                let args: Vec<Vec<u8>> = (0..=dice.below(5)).map(|_| dice.bytes()).collect();
                let total: usize = args.iter().map(|arg| arg.len() + 16).sum();
                if total > 1_900 || args[0].eq_ignore_ascii_case(b"post") {
                    continue;
                }
                if dice.once_in(4) && total < 700 {
                    line(&mut dice, &args, &mut bytes);
                } else {
                    let borrowed: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                    command(&mut bytes, &borrowed);
                }
                made.push(args);
            }
            let damaged = dice.once_in(2);
            if damaged {
                dice.damage(&mut bytes, WORDS);
            }
            let made = (!damaged).then_some(&made);
            kept(TARGET, seed, &bytes, || check_requests(&bytes, &mut dice, made));
        }
    }
}

/// Reads requests whole, in pieces and byte by byte; `made` is what they are, where that is known.
fn check_requests(bytes: &[u8], dice: &mut Dice, made: Option<&Vec<Vec<Vec<u8>>>>) {
    let shown = || bytes.escape_ascii().to_string();
    let whole = resp_request::parse(bytes, [bytes.len()], &limits());
    if let Some(made) = made {
        assert_eq!((&whole.0, whole.1), (made, Ok(0)), "{}", shown());
    }
    let cuts = dice.cuts(bytes.len());
    assert_eq!(resp_request::parse(bytes, cuts, &limits()), whole, "{}", shown());
    if dice.once_in(4) {
        let each = resp_request::parse(bytes, 1..=bytes.len(), &limits());
        assert_eq!(each, whole, "{}", shown());
    }
}

/// A token of a reply that is being made, with its bytes.
#[derive(Clone, Debug)]
enum Part {
    Line(u8, Vec<u8>),
    Text(u8, Vec<u8>),
    Head(u8, usize),
    Open(u8),
}

impl Part {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Part::Line(kind, text) => {
                out.push(*kind);
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Part::Text(kind, text) => {
                out.push(*kind);
                out.extend_from_slice(format!("{}\r\n", text.len()).as_bytes());
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            Part::Head(kind, count) => {
                out.push(*kind);
                out.extend_from_slice(format!("{count}\r\n").as_bytes());
            }
            Part::Open(kind) => out.extend_from_slice(&[*kind, b'?', b'\r', b'\n']),
        }
    }

    /// What a parser should say to it.
    fn token(&self) -> Token<'_> {
        let number = |text: &[u8]| std::str::from_utf8(text).unwrap().to_owned();
        match self {
            Part::Line(b'+', text) => Token::Simple(text),
            Part::Line(b'-', text) | Part::Text(b'!', text) => Token::Error(text),
            Part::Line(b':', text) => Token::Integer(number(text).parse().unwrap()),
            Part::Line(b',', text) => Token::Double(number(text).parse().unwrap()),
            Part::Line(b'(', text) => Token::BigNumber(text),
            Part::Line(b'#', text) => Token::Boolean(text == b"t"),
            Part::Line(b'.', _) | Part::Line(b';', _) => Token::End,
            Part::Line(..) => Token::Null,
            Part::Text(b'=', text) => {
                Token::Verbatim { format: *text.first_chunk().unwrap(), text: &text[4..] }
            }
            Part::Text(b';', text) => Token::Chunk(text),
            Part::Text(_, text) => Token::Bulk(text),
            Part::Head(b'*', count) => Token::Array(*count),
            Part::Head(b'%', count) => Token::Map(*count),
            Part::Head(b'~', count) => Token::Set(*count),
            Part::Head(b'>', count) => Token::Push(*count),
            Part::Head(_, count) => Token::Attribute(*count),
            Part::Open(b'$') => Token::Stream(Stream::String),
            Part::Open(b'*') => Token::Stream(Stream::Array),
            Part::Open(b'~') => Token::Stream(Stream::Set),
            Part::Open(_) => Token::Stream(Stream::Map),
        }
    }
}

fn scalar(dice: &mut Dice) -> Part {
    let mut line = dice.bytes();
    line.retain(|byte| !b"\r\n".contains(byte));
    let integer = dice.number().cast_signed();
    match dice.below(11) {
        0 => Part::Line(b'+', line),
        1 => Part::Line(b'-', line),
        2 => Part::Line(b':', integer.to_string().into_bytes()),
        3 => Part::Line(b',', (integer as f64 / 1000.0).to_string().into_bytes()),
        4 => Part::Line(b'(', format!("{integer}00000").into_bytes()),
        5 => Part::Line(b'#', dice.pick(&[b"t", b"f"]).to_vec()),
        6 => [(b'_', &b""[..]), (b'$', b"-1"), (b'*', b"-1")]
            .map(|(kind, text)| Part::Line(kind, text.to_vec()))[dice.below(3)]
        .clone(),
        7 => Part::Text(b'!', dice.bytes()),
        8 => Part::Text(b'=', [b"txt:", &dice.bytes()[..]].concat()),
        _ => Part::Text(b'$', dice.bytes()),
    }
}

/// Makes a value of at most `depth` levels.
fn value(dice: &mut Dice, depth: usize, parts: &mut Vec<Part>) {
    if dice.once_in(12) && depth > 0 {
        let count = dice.below(3);
        parts.push(Part::Head(b'|', count));
        (0..2 * count).for_each(|_| value(dice, depth - 1, parts));
    }
    if depth == 0 || dice.below(3) > 0 {
        return parts.push(scalar(dice));
    }
    let count = dice.below(4);
    let kind = *dice.pick(&[b"*", b"*", b"%", b"~"]);
    let elements = if kind == *b"%" { 2 * count } else { count };
    let stream = dice.once_in(5);
    if stream && dice.once_in(3) {
        parts.push(Part::Open(b'$'));
        for _ in 0..count {
            parts.push(Part::Text(b';', [&b"x"[..], &dice.bytes()].concat()));
        }
        return parts.push(Part::Line(b';', b"0".to_vec()));
    }
    parts.push(if stream { Part::Open(kind[0]) } else { Part::Head(kind[0], count) });
    (0..elements).for_each(|_| value(dice, depth - 1, parts));
    if stream {
        parts.push(Part::Line(b'.', Vec::new()));
    }
}

#[test]
fn replies_survive_and_damage_harms_nobody() {
    for seed in seeds() {
        let mut dice = Dice::new(seed);
        for bytes in corpus(TARGET, env!("CARGO_MANIFEST_DIR")) {
            kept(TARGET, seed, &bytes, || check_replies(&bytes, &mut dice, None));
        }
        let (mut bytes, mut made) = (Vec::new(), Vec::new());
        let mut budget = budget_per_seed(2);
        while budget.spend_many(1 + made.len() as u64) {
            bytes.clear();
            made.clear();
            for _ in 0..=dice.below(4) {
                let mut parts = Vec::new();
                if dice.once_in(10) {
                    let count = dice.below(3);
                    parts.push(Part::Head(b'>', count));
                    (0..count).for_each(|_| value(&mut dice, 2, &mut parts));
                } else {
                    value(&mut dice, 3, &mut parts);
                }
                parts.iter().for_each(|part| part.write(&mut bytes));
                made.push(parts);
            }
            let damaged = dice.once_in(2);
            if damaged {
                dice.damage(&mut bytes, WORDS);
            }
            let made = (!damaged).then_some(&made);
            kept(TARGET, seed, &bytes, || check_replies(&bytes, &mut dice, made));
        }
    }
}

/// As [`check_requests`].
fn check_replies(bytes: &[u8], dice: &mut Dice, made: Option<&Vec<Vec<Part>>>) {
    let limits = Limits { elements_max: 5_000, message_bytes_max: 100_000, ..limits() };
    let shown = || bytes.escape_ascii().to_string();
    let whole = resp_reply::parse(bytes, [bytes.len()], &limits);
    if let Some(made) = made {
        let tokens: Vec<Vec<Token<'_>>> =
            made.iter().map(|parts| parts.iter().map(Part::token).collect()).collect();
        assert_eq!((&whole.0, whole.1), (&tokens, Ok(0)), "{}", shown());
    }
    // A line that is too long may be told before what else is wrong with it.
    let same = |other: &(Vec<Vec<Token<'_>>>, Result<usize, _>)| {
        other.0 == whole.0 && other.1.ok() == whole.1.ok()
    };
    let cut = resp_reply::parse(bytes, dice.cuts(bytes.len()), &limits);
    assert!(same(&cut), "{}\n{cut:?}\n{whole:?}", shown());
    if dice.once_in(4) {
        let each = resp_reply::parse(bytes, 1..=bytes.len(), &limits);
        assert!(same(&each), "{}\n{each:?}\n{whole:?}", shown());
    }
}
