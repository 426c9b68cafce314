//! Tests of blocks on their own: damage that a checksum would have found.

use super::*;
use crate::key::tests::put_key as internal;
use keyrack_testkit::random::{Announced, Draw, seeds};

fn block_of(entries: &[(Vec<u8>, Vec<u8>)], interval: usize) -> Vec<u8> {
    let mut builder = BlockBuilder::new(interval);
    let mut bound = builder.bytes();
    for (key, value) in entries {
        bound += BlockBuilder::entry_bytes_max(key, value);
        builder.add(key, value);
        assert!(builder.bytes() <= bound);
    }
    let bytes = builder.bytes();
    let finished = builder.finish().to_vec();
    assert_eq!(finished.len(), bytes);
    finished
}

fn sample() -> Vec<(Vec<u8>, Vec<u8>)> {
    let users = [&b""[..], b"a", b"ab", b"abc", b"abd", b"b", b"ba", b"bab"];
    let entry = |user: &&[u8]| (internal(user, 9), user.repeat(2));
    users.iter().map(entry).collect()
}

/// Does everything that there is to do with a block, with and without a prefix index.
fn use_up(bytes: Vec<u8>) -> Result<()> {
    let indexed = Block::new(bytes.clone())?;
    indexed.index_prefixes();
    let answers = [use_up_block(&Block::new(bytes)?), use_up_block(&indexed)];
    answers.into_iter().collect()
}

fn use_up_block(block: &Block) -> Result<()> {
    let order = Comparator::Bytewise;
    let mut cursor = BlockCursor::default();
    for (key, _) in sample() {
        if let Some(found) = block.find(&order, user_of(&key), u64::MAX)? {
            block.value(&found);
        }
        let trailer = key.last_chunk().map_or(0, |trailer| u64::from_le_bytes(*trailer));
        cursor.seek(block, &order, user_of(&key), trailer)?;
    }
    cursor.seek_first(block)?;
    while cursor.next(block)? {
        block.slice(cursor.value());
    }
    cursor.seek_last(block)?;
    while cursor.prev(block)? {
        block.slice(cursor.value());
    }
    block.verify(&order, |_, _| Ok::<_, Damage>(()))
}

#[test]
fn damage_is_an_error_or_other_entries_but_no_panic() {
    for interval in [1, 3, 100] {
        let whole = block_of(&sample(), interval);
        use_up(whole.clone()).unwrap();
        for at in 0..whole.len() {
            for byte in 0..=255 {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                let _ = use_up(damaged);
            }
            let _ = use_up(whole[..at].to_vec());
        }
    }
}

#[test]
fn noise_is_no_block_and_no_panic() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..5_000 {
            let len = draw.below(60);
            let mut bytes: Vec<u8> = (0..len).map(|_| draw.below(12) as u8).collect();
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&[1, 0, 0, 0]);
            let _ = use_up(bytes);
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let what = |bytes: Vec<u8>| use_up(bytes).unwrap_err().what;
    assert_eq!(what(vec![0; 3]), "a block without a tail");
    assert_eq!(what(vec![0; 4]), "a block without entries");
    assert_eq!(what(vec![0, 0, 0, 0, 1, 0, 0, 0]), "a block without entries");
    assert_eq!(what(vec![0, 0, 0, 0, 2, 0, 0, 0]), "a block with too many restarts");
    let (a, b) = ((internal(b"a", 1), Vec::new()), (internal(b"b", 1), Vec::new()));
    let mut unordered = Block::new(block_of(&[b.clone(), a], 16)).unwrap();
    let verify = |block: &Block| {
        block.verify(&Comparator::Bytewise, |_, _| Ok::<_, Damage>(())).unwrap_err().what
    };
    assert_eq!(verify(&unordered), "an entry out of order");
    unordered = Block::new(block_of(&[b.clone(), b], 16)).unwrap();
    assert_eq!(verify(&unordered), "an entry out of order");
}

#[test]
fn a_builder_begins_again_in_its_memory() {
    let mut builder = BlockBuilder::new(4);
    assert!(builder.is_empty());
    for _ in 0..3 {
        for (key, value) in sample() {
            builder.add(&key, &value);
        }
        assert!(!builder.is_empty());
        assert_eq!(builder.finish(), block_of(&sample(), 4));
        builder.clear();
        assert!(builder.is_empty());
    }
}

/// Entries whose keys have much or little in common, end in zeros, or have many versions.
fn random_entries(draw: &mut Draw) -> Vec<(Vec<u8>, Vec<u8>)> {
    let common = b"shared by all of them/".repeat(draw.below(3));
    let alphabet = *draw.one_of(&[&b"\0\x01\xff"[..], b"0123456789", b"aab"]);
    let (length_max, value_max) = (1 + draw.below(20), 1 + draw.below(200));
    let mut entries = Vec::new();
    for _ in 0..1 + draw.below(60) {
        let mut user = common.clone();
        user.extend((0..draw.below(length_max)).map(|_| *draw.one_of(alphabet)));
        let versions = if draw.below(8) == 0 { 1 + draw.below(30) } else { 1 };
        for _ in 0..versions {
            let value = vec![b'v'; draw.below(value_max)];
            entries.push((internal(&user, 1 + draw.below(99) as u64), value));
        }
    }
    entries.sort_by(|a, b| Comparator::Bytewise.internal(&a.0, &b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
    entries
}

/// Where a search by restarts and one by prefixes end.
fn both_ends(plain: &Block, indexed: &Block, target: &[u8]) -> [Option<Found>; 2] {
    let parsed = crate::key::parse(target).unwrap();
    let trailer = crate::key::trailer(parsed.sequence, parsed.kind);
    let order = Comparator::Bytewise;
    let (mut one, mut other) = (BlockCursor::default(), BlockCursor::default());
    let found = one.seek(plain, &order, parsed.user, trailer).unwrap();
    assert_eq!(other.seek(indexed, &order, parsed.user, trailer).unwrap(), found);
    if found {
        assert_eq!((one.key(), one.value()), (other.key(), other.value()));
    }
    [plain, indexed].map(|block| block.find(&order, parsed.user, trailer).unwrap())
}

#[test]
fn a_search_by_prefixes_ends_where_one_by_restarts_does() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        for _ in 0..300 {
            let entries = random_entries(&mut draw);
            let bytes = block_of(&entries, *draw.one_of(&[1, 2, 7, 16, 1_000]));
            let plain = Block::new(bytes.clone()).unwrap();
            let indexed = Block::new(bytes).unwrap();
            indexed.index_prefixes();
            assert!(indexed.prefixes().is_some(), "a sorted block of {} entries", entries.len());
            assert!(indexed.memory_bytes() > plain.memory_bytes());
            let mut targets: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).collect();
            for _ in 0..60 {
                let mut user = user_of(&draw.one_of(&entries).0).to_vec();
                user.truncate(draw.below(user.len() + 1));
                user.extend((0..draw.below(4)).map(|_| *draw.one_of(b"\0\x01a5\xff")));
                targets.push(internal(&user, 1 + draw.below(99) as u64));
            }
            for target in &targets {
                let [by_restarts, by_prefixes] = both_ends(&plain, &indexed, target);
                assert_eq!(by_prefixes, by_restarts, "{target:?} in {entries:?}");
            }
        }
    }
}

/// Of keys that differ within their prefixes, an entry is found without a look at another one.
#[test]
fn a_search_by_prefixes_begins_at_its_entry() {
    let entries: Vec<(Vec<u8>, Vec<u8>)> = (0..40_u32)
        .map(|at| (internal(format!("user{:08}", 7 * at).as_bytes(), 9), vec![b'v'; 100]))
        .collect();
    let block = Block::new(block_of(&entries, 16)).unwrap();
    block.index_prefixes();
    let prefixes = block.prefixes().unwrap();
    let mut at = 0;
    for (key, _) in &entries {
        assert_eq!(prefixes.start(user_of(key)).unwrap().at, at);
        at = block.entry(at).unwrap().next;
    }
    assert_eq!(prefixes.start(b"user00000999").unwrap().at, block.entries_end);
    assert_eq!(prefixes.start(b"user1"), None, "a key without what all have in common");
    assert!(block.memory_bytes() < block.bytes.capacity() * 9 / 8, "a tenth, or so");
}

#[test]
fn a_block_that_offsets_cannot_describe_has_no_prefixes() {
    let entry = |user: &[u8], bytes| (internal(user, 9), vec![b'v'; bytes]);
    for (bytes, has_prefixes) in [(60_000, true), (70_000, false)] {
        let entries = [entry(b"a", 10), entry(b"b", bytes), entry(b"c", 10)];
        let block = Block::new(block_of(&entries, 16)).unwrap();
        block.index_prefixes();
        assert_eq!(block.prefixes().is_some(), has_prefixes, "{bytes}");
        let found = block.find(&Comparator::Bytewise, b"c", u64::MAX).unwrap().unwrap();
        assert!(found.is_same_user);
    }
}
