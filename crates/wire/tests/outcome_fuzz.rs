//! Replies that a server made up: the parser says the same of them whole, in pieces and byte by
//! byte, keeps nothing that did not come, and takes each byte once.

use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use keyrack_wire::outcome::{Dialect, Kind, Malformed, Outcome, Parser, Step, whole_hit};

/// The first byte of an input selects the dialect, the second the command that it answers.
const DIALECTS: [Dialect; 4] = [Dialect::Text, Dialect::Binary, Dialect::Meta, Dialect::Resp];

/// Bytes of an error that are kept.
const WORDS_BYTES_MAX: usize = 200;

/// Commands whose replies differ in shape.
const KINDS: [Kind; 4] = [Kind::Get, Kind::Gets, Kind::Mget, Kind::Set];

/// What a parser says of bytes that come in reads which end at `cuts`: the outcomes, and how it
/// ended: bytes that were not taken, or what was wrong.
fn outcomes(
    dialect: Dialect,
    kind: Kind,
    bytes: &[u8],
    cuts: &[usize],
) -> (Vec<Outcome>, Result<bool, Malformed>) {
    let mut parser = Parser::new(dialect, false);
    let (mut found, mut at) = (Vec::new(), 0);
    for &cut in cuts {
        loop {
            match parser.step(&bytes[at..cut], kind) {
                Ok(Step::More) => break,
                Ok(Step::Eaten(count)) => {
                    assert!(count > 0 && count <= cut - at, "{count} of {}", cut - at);
                    at += count;
                }
                Ok(Step::Done(count, outcome)) => {
                    assert!(count <= cut - at, "{count} of {}", cut - at);
                    at += count;
                    found.push(outcome);
                    assert!(found.len() <= bytes.len(), "more replies than bytes");
                }
                Err(malformed) => return (found, Err(malformed)),
            }
        }
    }
    assert!(parser.words().len() <= WORDS_BYTES_MAX);
    (found, Ok(parser.is_between_replies()))
}

fn check_replies(dialect: Dialect, input: &[u8], dice: &mut Dice) -> Shape {
    let Some((kind, bytes)) = input.split_first() else { return 0 };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let whole = outcomes(dialect, kind, bytes, &[bytes.len()]);
    let same = |other: &(Vec<Outcome>, Result<bool, Malformed>)| {
        // A line that is too long may be told before what else is wrong with it.
        other.0 == whole.0 && other.1.is_ok() == whole.1.is_ok()
    };
    let pieces = outcomes(dialect, kind, bytes, &dice.cuts(bytes.len()));
    assert!(same(&pieces), "in pieces {pieces:?}, whole {whole:?}");
    let each: Vec<usize> = (1..=bytes.len()).collect();
    let bytewise = outcomes(dialect, kind, bytes, &each);
    assert!(same(&bytewise), "byte by byte {bytewise:?}, whole {whole:?}");
    let fast = whole_hit(dialect, bytes, 3);
    if let Some(taken) = fast {
        assert!(taken > 0 && taken <= bytes.len());
        // What is skipped was asked for; no key has a space or the end of a line.
        let is_asked_for = dialect != Dialect::Text || bytes[6..9].iter().all(|byte| *byte > b' ');
        if kind == Kind::Get && is_asked_for {
            assert!(matches!(whole.0.first(), Some(Outcome::Hit { .. })), "{whole:?}");
        }
    }
    let first = whole.0.first().map(|outcome| format!("{outcome:?}"));
    let first: Option<String> =
        first.map(|text| text.chars().filter(|c| !c.is_ascii_digit()).take(40).collect());
    shape((dialect as u8, kind as u8, whole.0.len().min(4), first, whole.1.err().map(|it| it.0)))
}

#[test]
fn fuzzed_replies_mean_the_same_however_they_come() {
    let text = b"VALUE abc 0 3\r\nxyz\r\nEND\r\nSTORED\r\nNOT_FOUND\r\nSERVER_ERROR out\r\n";
    let meta = b"VA 3 c7\r\nabc\r\nEN\r\nHD\r\nNS\r\nMN\r\n";
    let resp = b"$3\r\nabc\r\n$-1\r\n*2\r\n$1\r\na\r\n$-1\r\n:5\r\n+OK\r\n-ERR no\r\n_\r\n%1\r\n\
                 +k\r\n:1\r\n";
    let mut header = [0; 24];
    (header[0], header[4], header[11]) = (0x81, 4, 7);
    let binary = [&header[..], &[0, 0, 0, 5], b"abc"].concat();
    let mut fuzzer = Fuzzer::new("wire.outcomes", env!("CARGO_MANIFEST_DIR"), 20_000).words(&[
        b"\r\n",
        b"VALUE ",
        b"END\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"VA ",
        b"-MOVED 1 a:1",
    ]);
    for kind in 0..KINDS.len() as u8 {
        for (dialect, bytes) in [(0, &text[..]), (1, &binary[..]), (2, &meta[..]), (3, &resp[..])] {
            fuzzer = fuzzer.sample([&[dialect, kind], bytes].concat());
        }
    }
    fuzzer.run(|input, dice| {
        let Some((dialect, bytes)) = input.split_first() else { return 0 };
        check_replies(DIALECTS[usize::from(*dialect) % DIALECTS.len()], bytes, dice)
    });
}
