//! Random operations against a sorted list.

use super::*;
use crate::key::SEQUENCE_MAX;

/// Keys that trap orders by prefixes: stems around 8 and 16 bytes, zeros, a long one.
fn key(draw: &mut Draw) -> Vec<u8> {
    const STEMS: [&[u8]; 8] = [
        b"",
        b"a",
        b"aaaaaaaa",
        b"aaaaaaaab",
        b"aaaaaaaaaaaaaaaa",
        b"\0\0\0\0\0\0\0\0",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        &[b'l'; 300],
    ];
    let mut key = STEMS[draw.below(STEMS.len())].to_vec();
    for _ in 0..draw.below(3) {
        key.push([0, 1, b'a', 0xff][draw.below(4)]);
    }
    key
}

struct Pair {
    memtable: Arc<Memtable>,
    model: Model,
}

impl Pair {
    /// Inserts a few entries, whose sequences follow `published` and come in a random order.
    fn write(&mut self, draw: &mut Draw, published: u64) -> Result<u64, Full> {
        let mut sequences: Vec<u64> = (1..=draw.below(6) as u64).map(|n| published + n).collect();
        let newest = published + sequences.len() as u64;
        while !sequences.is_empty() {
            let sequence = sequences.swap_remove(draw.below(sequences.len()));
            let (key, value) = (key(draw), vec![sequence as u8; draw.below(40)]);
            let kind = [Kind::Put, Kind::Put, Kind::Delete, Kind::DeleteRange][draw.below(4)];
            insert(&self.memtable, sequence, kind, &key, &value)?;
            self.model.insert(sequence, kind, &key, &value);
        }
        Ok(newest)
    }

    fn check_gets(&self, draw: &mut Draw, published: u64) {
        for _ in 0..10 {
            let (key, sequence) = (key(draw), draw.below(published as usize + 1) as u64);
            assert_eq!(get(&self.memtable, &key, sequence), self.model.get(&key, sequence));
        }
    }

    /// Random steps and seeks, each compared.
    fn check_cursor(&self, draw: &mut Draw, published: u64) {
        let mut cursor = self.memtable.cursor(published);
        let entries = &self.model.entries;
        let mut at: Option<usize> = None;
        for _ in 0..60 {
            match draw.below(10) {
                0 => {
                    cursor.seek_first().unwrap();
                    at = Some(0);
                }
                1 => {
                    cursor.seek_last().unwrap();
                    at = entries.len().checked_sub(1);
                }
                2 | 3 => {
                    let sequence = draw.below(published as usize + 1) as u64;
                    let target = internal(&key(draw), sequence, Kind::LAST);
                    cursor.seek(&target).unwrap();
                    at = Some(self.model.lower_bound(&target));
                }
                step if at.is_some_and(|at| at < entries.len()) => {
                    // Whether an entry has the user key of the one before.
                    let repeats = |at: usize| {
                        let user = |at: usize| key::user_of(&entries[at].0);
                        at > 0 && user(at - 1) == user(at)
                    };
                    if step < 7 {
                        cursor.next().unwrap();
                        at = at.map(|at| at + 1);
                        if let Some(at) = at.filter(|at| *at < entries.len()) {
                            assert_eq!(cursor.repeats(), repeats(at));
                        }
                    } else {
                        cursor.prev().unwrap();
                        at = at.and_then(|at| at.checked_sub(1));
                        if let Some(at) = at {
                            assert_eq!(cursor.may_repeat_before(), repeats(at));
                        }
                    }
                }
                _ => continue,
            }
            let expected = at.and_then(|at| entries.get(at));
            assert_eq!(entry(&cursor).as_ref(), expected);
        }
    }
}

#[test]
fn random_operations_agree_with_a_sorted_list() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        for round in 0..12 {
            let comparator = if round % 3 == 2 { backwards() } else { Comparator::Bytewise };
            let options = MemtableOptions { hash: round % 4 != 3, ..MemtableOptions::default() };
            let capacity = 1 << (12 + draw.below(6));
            let memtable = Arc::new(Memtable::new(capacity, comparator.clone(), options));
            let mut pair = Pair { memtable, model: Model::new(comparator) };
            let mut published = 0;
            for _ in 0..400 {
                match draw.below(20) {
                    0 => pair.memtable.sort_tail(),
                    1 => pair.check_cursor(&mut draw, published),
                    2..6 => pair.check_gets(&mut draw, published),
                    _ => match pair.write(&mut draw, published) {
                        Ok(newest) => published = newest,
                        Err(Full) => break,
                    },
                }
            }
            pair.memtable.make_immutable();
            pair.memtable.wait_for_inserts();
            let all = scan(&mut pair.memtable.cursor(SEQUENCE_MAX));
            assert_eq!(all, pair.model.entries);
            check_lists(&pair);
        }
    }
}

fn check_lists(Pair { memtable, model }: &Pair) {
    let parsed = || model.entries.iter().map(|(key, _)| key::parse(key).unwrap());
    let mut listed: Vec<u64> = memtable.range_tombstones().iter().map(|it| it.sequence).collect();
    listed.sort_unstable();
    let mut expected: Vec<u64> = parsed()
        .filter(|parsed| parsed.kind == Kind::DeleteRange)
        .map(|parsed| parsed.sequence)
        .collect();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}
