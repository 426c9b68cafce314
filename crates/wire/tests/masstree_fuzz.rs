//! Random messages of Masstree's protocol, whole and damaged: as `resp_fuzz`.

use keyrack_testkit::fuzz::{corpus, kept};
use keyrack_wire::masstree::{Command, Limits, ReplyWriter, datagram};
use keyrack_wire::msgpack::Int;

use crate::dice::{Dice, budget_per_seed, seeds};
use crate::masstree_messages::{replies, requests};

/// The name of both halves of the protocol, for the kept corpus and for what fails.
const TARGET: &str = "wire.masstree";

/// Heads of elements, the largest of each kind among them.
const WORDS: &[&[u8]] = &[
    b"\x90",
    b"\x93",
    b"\x9f",
    b"\xdc\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\x80",
    b"\x8f",
    b"\xdf\xff\xff\xff\xff",
    b"\xa0",
    b"\xbf",
    b"\xd9\xff",
    b"\xda\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc0",
    b"\xc1",
    b"\xc2",
    b"\xc4\xff",
    b"\xc6\x00\x00\x00\x01a",
    b"\xc7\xff",
    b"\xc9\xff\xff\xff\xff",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd3\x80\0\0\0\0\0\0\0",
    b"\xff",
    b"\x02",
    b"\x06",
    b"\x0e",
];

fn limits() -> Limits {
    Limits {
        key_bytes_max: 700,
        value_bytes_max: 700,
        columns_max: 300,
        elements_max: 60,
        message_bytes_max: 4_000,
    }
}

fn seq(dice: &mut Dice) -> Int {
    let number = dice.number();
    if dice.once_in(3) { Int::from(number.cast_signed()) } else { Int::from(number) }
}

/// Writes a request and says it.
fn request(dice: &mut Dice, out: &mut Vec<u8>) -> String {
    let seq = seq(dice);
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let (key, value) = (dice.bytes(), dice.bytes());
    let mut columns: Vec<u32> = (0..dice.below(5)).map(|_| dice.below(300) as u32).collect();
    match dice.below(7) {
        0 => {
            let core = dice.once_in(2).then(|| dice.below(1_000) as u32);
            let max_key_bytes = 1 + dice.below(300) as u32;
            Command::Handshake { core, max_key_bytes }.write(out, seq);
            format!("{seq} hello {core:?} Some({max_key_bytes})")
        }
        1 => {
            Command::Get { key: &key, columns: &columns }.write(out, seq);
            format!("{seq} get {} {columns:?}", text(&key))
        }
        2 => {
            columns.push(dice.below(300) as u32);
            columns.sort_unstable();
            columns.dedup();
            let values: Vec<Vec<u8>> = columns.iter().map(|_| dice.bytes()).collect();
            let changes: Vec<(u32, &[u8])> =
                columns.iter().zip(&values).map(|(&column, value)| (column, &value[..])).collect();
            Command::Put { key: &key, changes: &changes }.write(out, seq);
            let changes: Vec<String> =
                changes.iter().map(|(column, value)| format!("{column}={}", text(value))).collect();
            format!("{seq} put {} {changes:?}", text(&key))
        }
        3 => {
            Command::Replace { key: &key, value: &value }.write(out, seq);
            format!("{seq} replace {} {}", text(&key), text(&value))
        }
        4 => {
            Command::Remove { key: &key }.write(out, seq);
            format!("{seq} remove {}", text(&key))
        }
        5 => {
            let count = dice.number();
            Command::Scan { first: &key, count, columns: &columns }.write(out, seq);
            format!("{seq} scan {} {count} {columns:?}", text(&key))
        }
        _ => {
            Command::Checkpoint.write(out, seq);
            format!("{seq} checkpoint")
        }
    }
}

/// Writes a reply and says it.
fn reply(dice: &mut Dice, out: &mut Vec<u8>) -> String {
    let seq = seq(dice);
    let mut writer = ReplyWriter::new(out);
    let yes = dice.once_in(2);
    match dice.below(9) {
        0 => {
            writer.miss(seq);
            format!("{seq} row []")
        }
        1 => {
            let values = values(dice);
            writer.row(seq, values.len() as u32);
            values.iter().for_each(|value| writer.value(value.as_deref()));
            format!("{seq} row {:?}", said(&values))
        }
        2 => {
            if dice.once_in(2) {
                writer.put(seq, yes);
            } else {
                writer.replace(seq, yes);
            }
            format!("{seq} stored {yes}")
        }
        3 => {
            writer.remove(seq, yes);
            format!("{seq} removed {yes}")
        }
        4 => {
            let mut rows = writer.scan(seq);
            let mut pairs = Vec::new();
            for _ in 0..dice.below(5) {
                let (key, values) = (dice.bytes(), values(dice));
                let name = key.escape_ascii();
                if values.len() == 1 {
                    rows.one(&key, values[0].as_deref());
                    pairs.push(format!("{name}={}", said(&values)[0]));
                } else {
                    rows.row(&key, values.len() as u32);
                    values.iter().for_each(|value| rows.value(value.as_deref()));
                    pairs.push(format!("{name}={:?}", said(&values)));
                }
            }
            format!("{seq} scanned {pairs:?}")
        }
        5 => {
            let thread = dice.word() as u32;
            writer.handshake(seq, thread);
            format!("{seq} hello {thread} Bag")
        }
        6 => {
            writer.refuse_handshake(seq);
            format!("{seq} refused bad maxkeylen")
        }
        7 => {
            writer.checkpoint(seq);
            format!("{seq} checkpoint")
        }
        _ => {
            writer.unknown(seq);
            format!("{seq} unknown")
        }
    }
}

fn values(dice: &mut Dice) -> Vec<Option<Vec<u8>>> {
    (0..dice.below(4)).map(|_| (!dice.once_in(4)).then(|| dice.bytes())).collect()
}

fn said(values: &[Option<Vec<u8>>]) -> Vec<String> {
    let say = |value: &Option<Vec<u8>>| {
        value.as_ref().map_or("nil".to_owned(), |bytes| bytes.escape_ascii().to_string())
    };
    values.iter().map(say).collect()
}

type Read<'a> = &'a dyn Fn(&[u8], Vec<usize>) -> (Vec<String>, Option<usize>);

/// Makes messages, damages every second round of them, and reads them cut in many ways.
fn run(make: fn(&mut Dice, &mut Vec<u8>) -> String, read: Read<'_>) {
    for seed in seeds() {
        let mut dice = Dice::new(seed);
        for bytes in corpus(TARGET, env!("CARGO_MANIFEST_DIR")) {
            kept(TARGET, seed, &bytes, || check(&bytes, &mut dice, None, read));
        }
        let (mut bytes, mut made) = (Vec::new(), Vec::new());
        let mut budget = budget_per_seed(2);
        while budget.spend_many(1 + made.len() as u64) {
            bytes.clear();
            made = (0..=dice.below(4)).map(|_| make(&mut dice, &mut bytes)).collect();
            let damaged = dice.once_in(2);
            if damaged {
                dice.damage(&mut bytes, WORDS);
            }
            let made = (!damaged).then_some(&made);
            kept(TARGET, seed, &bytes, || check(&bytes, &mut dice, made, read));
        }
    }
}

/// Reads messages whole, in pieces and byte by byte; `made` is what they are, where that is known.
fn check(bytes: &[u8], dice: &mut Dice, made: Option<&Vec<String>>, read: Read<'_>) {
    let shown = || bytes.escape_ascii().to_string();
    let whole = read(bytes, vec![bytes.len()]);
    if let Some(made) = made {
        assert_eq!((&whole.0, whole.1), (made, Some(0)), "{}", shown());
    }
    let cuts = dice.cuts(bytes.len());
    assert_eq!(read(bytes, cuts), whole, "{}", shown());
    if dice.once_in(4) {
        let each = read(bytes, (1..=bytes.len()).collect());
        assert_eq!(each, whole, "{}", shown());
    }
    // Whatever a datagram holds, there is an answer or none.
    let _ = datagram(bytes, &limits());
}

#[test]
fn requests_survive_and_damage_harms_nobody() {
    run(request, &|bytes, cuts| {
        let (said, end) = requests(bytes, cuts, &limits());
        (said, end.ok())
    });
}

#[test]
fn replies_survive_and_damage_harms_nobody() {
    run(reply, &|bytes, cuts| {
        let (said, end) = replies(bytes, cuts, &limits());
        (said, end.ok())
    });
}
