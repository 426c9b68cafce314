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

/// Does everything that there is to do with a block.
fn use_up(bytes: Vec<u8>) -> Result<()> {
    let block = Block::new(bytes)?;
    let order = Comparator::Bytewise;
    let mut cursor = BlockCursor::default();
    for (key, _) in sample() {
        if let Some(found) = block.find(&order, user_of(&key), u64::MAX)? {
            block.value(&found);
        }
        let trailer = key.last_chunk().map_or(0, |trailer| u64::from_le_bytes(*trailer));
        cursor.seek(&block, &order, user_of(&key), trailer)?;
    }
    cursor.seek_first(&block)?;
    while cursor.next(&block)? {
        block.slice(cursor.value());
    }
    cursor.seek_last(&block)?;
    while cursor.prev(&block)? {
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
