//! Snapshots, append-only files and lines that somebody made up: they are refused with a place, or
//! can be used, and what was reported is the same when it comes in pieces.

use crate::aof;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::input::Input;
use crate::json;
use crate::replay::Replay;
use crc_fast::{CrcAlgorithm, checksum};
use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::Path;

/// Gives its bytes in small pieces.
struct Pieces<'a> {
    rest: &'a [u8],
    piece: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.piece.min(self.rest.len()).min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest = &self.rest[count..];
        Ok(count)
    }
}

type ReadOne = fn(&mut Input<'_>, &mut dyn FnMut(Event<'_>) -> Result<()>) -> Result<Option<u64>>;

/// What was reported, as a number, how many events, and how it ended.
fn outcome(bytes: &[u8], piece: usize, read: ReadOne) -> (u64, usize, String) {
    let mut hasher = DefaultHasher::new();
    let mut events = 0;
    let mut in_hash = false;
    let source = Pieces { rest: bytes, piece };
    let mut input = Input::new(source, "file", Some(bytes.len() as u64));
    let read = read(&mut input, &mut |event| {
        match event {
            Event::Progress(_) => return Ok(()),
            Event::Hash(_) => assert!(!std::mem::replace(&mut in_hash, true), "hashes nest"),
            Event::EndHash => assert!(std::mem::replace(&mut in_hash, false), "no hash ends"),
            Event::Field { .. } => assert!(in_hash, "a field without a hash"),
            _ => assert!(!in_hash, "something within a hash"),
        }
        format!("{event:?}").hash(&mut hasher);
        events += 1;
        Ok(())
    });
    let end = match read {
        Ok(torn) => format!("{torn:?}"),
        Err(Error::Damage { offset, what, .. }) => {
            assert!(offset <= bytes.len() as u64, "damage lies in the file");
            what
        }
        Err(error) => panic!("{error}"),
    };
    (hasher.finish(), events, end)
}

fn check(bytes: &[u8], dice: &mut Dice, read: ReadOne) -> Shape {
    let whole = outcome(bytes, usize::MAX, read);
    let piece = 1 + dice.below(7);
    assert_eq!(outcome(bytes, piece, read), whole, "pieces of {piece} bytes");
    let words: String = whole.2.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    shape((words, whole.1.min(32)))
}

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    keyrack_vfs::Fs::read(&keyrack_vfs::RealFs, &path).unwrap()
}

fn append_only(
    input: &mut Input<'_>,
    visit: &mut dyn FnMut(Event<'_>) -> Result<()>,
) -> Result<Option<u64>> {
    aof::read(input, &mut Replay::default(), true, visit)
}

/// A snapshot whose checksum is right, mostly.
fn with_checksum(input: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = input.to_vec();
    if !dice.once_in(8)
        && let Some((body, sum)) = bytes.split_last_chunk_mut::<8>()
    {
        *sum = checksum(CrcAlgorithm::Crc64Redis, body).to_le_bytes();
    }
    bytes
}

#[test]
fn made_up_snapshots_are_refused_or_can_be_used() {
    let mut fuzzer = Fuzzer::new("migrate.rdb", env!("CARGO_MANIFEST_DIR"), 20_000);
    for name in ["redis-7.0.rdb", "redis-8.0.rdb", "valkey-9.1.rdb"] {
        fuzzer = fuzzer.sample(fixture(name));
    }
    // Forms that these servers no longer write: a zip list, a zip map, text scores, a module.
    let old = b"REDIS0003\xfe\x00\x0d\x01z\x11\x11\x00\x00\x00\x0d\x00\x00\x00\x02\x00\
                \x00\x01a\x03\x01b\xff\x09\x01m\x08\x01\x01a\x01\x00b\xff\x03\x01s\x02\
                \x01a\x011\x01b\xfd\x07\x01o\x01\x02\x05\x05\x01x\x00\xff";
    fuzzer.sample(&old[..]).run(|input, dice| {
        let bytes = with_checksum(input, dice);
        check(&bytes, dice, append_only)
    });
}

#[test]
fn made_up_commands_are_refused_or_can_be_used() {
    Fuzzer::new("migrate.aof", env!("CARGO_MANIFEST_DIR"), 20_000)
        .sample(fixture("redis-7.0.aof/appendonly.aof.2.incr.aof"))
        .sample(&b"#TS:1700000000\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n*1\r\n$4\r\nEXEC\r\n"[..])
        .words(&[b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n", b"*0\r\n", b"#x\n"])
        .run(|input, dice| check(input, dice, append_only));
}

#[test]
fn made_up_lines_are_refused_or_can_be_used() {
    let lines = b"{\"key\":\"k\",\"type\":\"string\",\"value\":\"v\",\"flags\":7}\n\
                  {\"key_hex\":\"ff\",\"type\":\"hash\",\"fields\":{\"a\":\"b\"},\"more\":true}\n\
                  {\"key_hex\":\"ff\",\"type\":\"hash\",\"fields_hex\":{\"00\":\"ff\"}}\n";
    Fuzzer::new("migrate.json", env!("CARGO_MANIFEST_DIR"), 20_000)
        .sample(&lines[..])
        .words(&[b"\"expires_at_ms\":1", b"\"more\":true", b"\"value_hex\":\"f\"", b"\n"])
        .run(|input, dice| {
            check(input, dice, |input, visit| json::read(input, 0, visit).map(|()| None))
        });
}
