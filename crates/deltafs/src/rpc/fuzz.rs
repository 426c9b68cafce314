//! Frames of the protocol and records of a log that somebody made up: what is read of them can be
//! written, and is then the same; what is not read is refused before memory is taken.

use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};

use super::codec::{Frame, Reply, Request, frame};
use super::server::dummy::pretend;
use super::tests::{conversation, reply_bytes, requests};
use super::txn::record::decode_record;
use crate::id::{DirId, Inode, LogId};
use crate::partition::SplitMap;
use crate::record::{Attributes, DirNode, Entry, Node, Touched, parse_key};

/// Which reader an input goes to is its first byte.
const REQUESTS: u8 = 0;
const REPLY: u8 = 1;
const ENTRY: u8 = 2;
const NODE: u8 = 3;
const MAP: u8 = 4;
const ORDER: u8 = 5;

const KINDS: u8 = 6;

fn headed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}

/// The frames at the beginning of `bytes` as they come in pieces that end at `cuts`: calls, tags
/// and fields, and whether one was broken.
fn frames(bytes: &[u8], cuts: &[usize]) -> (Vec<(u64, u8, Vec<u8>)>, bool) {
    let (mut found, mut at) = (Vec::new(), 0);
    for &cut in cuts {
        loop {
            match frame(&bytes[at..cut]) {
                Frame::Whole { call, tag, fields, bytes } => {
                    found.push((call, tag, fields.to_vec()));
                    at += bytes;
                }
                Frame::Partial(needed) => {
                    assert!(needed > cut - at, "more is asked for than there is");
                    break;
                }
                Frame::Broken => return (found, true),
            }
        }
    }
    (found, false)
}

fn check_requests(bytes: &[u8], dice: &mut Dice) -> Shape {
    let whole = frames(bytes, &[bytes.len()]);
    assert_eq!(frames(bytes, &dice.cuts(bytes.len())), whole, "in pieces");
    let each: Vec<usize> = (0..=bytes.len()).collect();
    assert_eq!(frames(bytes, &each), whole, "byte by byte");
    let mut shapes = Vec::new();
    for (call, tag, fields) in &whole.0 {
        let request = Request::decode(*tag, fields);
        shapes.push((*tag, request.is_some()));
        let Some(request) = request else { continue };
        let mut again = Vec::new();
        request.encode(*call, &mut again);
        let Frame::Whole { tag, fields, .. } = frame(&again) else { panic!("{request:?}") };
        assert_eq!(Request::decode(tag, fields).as_ref(), Some(&request));
    }
    shape((shapes, whole.1))
}

fn check_reply(bytes: &[u8]) -> Shape {
    let Some((tag, fields)) = bytes.split_first() else { return 0 };
    let Some(reply) = Reply::decode(*tag, fields) else { return shape((REPLY, tag)) };
    let mut again = Vec::new();
    reply.fields(&mut again);
    assert_eq!(Reply::decode(*tag, &again).as_ref(), Some(&reply));
    shape((REPLY, tag, fields.len() / 8))
}

fn check_record(kind: u8, bytes: &[u8]) -> Shape {
    match kind {
        ENTRY => {
            let _ = parse_key(bytes);
            let Some(entry) = Entry::decode(bytes) else {
                return shape((ENTRY, bytes.first(), bytes.len()));
            };
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
            shape((ENTRY, bytes[0], true))
        }
        NODE => {
            let Some(node) = Node::decode(bytes) else {
                return shape((NODE, bytes.first(), bytes.len()));
            };
            assert_eq!(Node::decode(&node.encode()).as_ref(), Some(&node));
            shape((NODE, bytes[0], true))
        }
        MAP => {
            let Some(map) = SplitMap::from_bytes(bytes) else { return shape((MAP, bytes.len())) };
            assert_eq!(
                SplitMap::from_bytes(&map.to_bytes()).map(|map| map.count()),
                Some(map.count())
            );
            assert!(
                (0..64).all(|bit| map.has(map.partition_of(1 << bit))),
                "a hash has a partition"
            );
            shape((MAP, map.count().min(40)))
        }
        _ => match decode_record(bytes) {
            Some(pending) => {
                let again = super::txn::record::encode_record(
                    pending.phase,
                    pending.coordinator,
                    &pending.txn,
                );
                assert_eq!(decode_record(&again).map(|pending| pending.txn), Some(pending.txn));
                shape((ORDER, pending.phase as u8))
            }
            None => shape((ORDER, bytes.len())),
        },
    }
}

#[test]
fn frames_and_records_that_were_made_up_are_refused_or_can_be_written() {
    let attributes = Attributes {
        inode: Inode::file(LogId(4), 3),
        mode: 0o644,
        uid: 1,
        gid: u32::MAX,
        nlink: 2,
        size: 5,
        mtime_ns: 1_700_000_000_000_000_000,
        ctime_ns: 1_600_000_000_000_000_000,
    };
    let touched = Touched { subdirs: -3, mtime_ns: 5, ctime_ns: 7 };
    let node = DirNode { mode: 0o755, uid: 1, gid: 2, parent: DirId(9), name: b"name".to_vec() };
    let mut fuzzer = Fuzzer::new("deltafs.frames", env!("CARGO_MANIFEST_DIR"), 30_000)
        .sample(headed(REQUESTS, &conversation()))
        .sample(headed(ENTRY, &Entry::File(attributes, b"bytes").encode()))
        .sample(headed(ENTRY, &Entry::Sized(attributes).encode()))
        .sample(headed(ENTRY, &Entry::Symlink(attributes, b"../x").encode()))
        .sample(headed(ENTRY, &Entry::Whiteout.encode()))
        .sample(headed(ENTRY, &Entry::Link(attributes.inode).encode()))
        .sample(headed(NODE, &Node::Dir(node, touched).encode()))
        .sample(headed(NODE, &Node::Touched(touched).encode()))
        .sample(headed(MAP, &[0b1111, 0, 0, 0, 0, 0, 0, 0]));
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(7, &mut bytes);
        fuzzer = fuzzer.sample(headed(REQUESTS, &bytes));
    }
    for (tag, fields) in reply_bytes() {
        fuzzer = fuzzer.sample([&[REPLY, tag], &fields[..]].concat());
    }
    // A step, a coordinator, and the rename, which is what a request to prepare ends with.
    let txns = requests().into_iter().filter_map(|request| match request {
        Request::Peer(super::codec::Peer::Prepare { txn, .. }) => {
            let mut bytes = vec![ORDER, 1, 2, 0, 0, 0];
            txn.fields(&mut bytes);
            Some(bytes)
        }
        _ => None,
    });
    for txn in txns {
        fuzzer = fuzzer.sample(txn);
    }
    fuzzer.run(|input, dice| {
        let Some((kind, bytes)) = input.split_first() else { return 0 };
        match kind % KINDS {
            REQUESTS => check_requests(bytes, dice),
            REPLY => check_reply(bytes),
            kind => check_record(kind, bytes),
        }
    });
}

#[test]
fn a_dummy_answers_every_request_in_the_words_of_its_reply() {
    for request in requests() {
        if matches!(request, Request::Hello { .. } | Request::Map | Request::Peer(_)) {
            continue;
        }
        let mut out = Vec::new();
        pretend(&request, &mut out);
        assert!(Reply::decode(request.tag(), &out).is_some(), "{request:?}");
    }
}
