//! What a transaction sees of its own writes, beside a model.

use crate::support::{backwards, idle, open, walk};
use keyrack_flodb::{Comparator, Db, Options, Transaction};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::MemFs;
use std::collections::BTreeMap;

/// Gets, multi-gets and iterators of a transaction, beside a model of the store and its writes.
#[test]
fn a_transaction_reads_its_own_writes() {
    for seed in seeds() {
        let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
        for (comparator, blob_bytes_min) in [(Comparator::Bytewise, 0), (backwards(), 1024)] {
            let db = open(
                &MemFs::new(),
                Options { comparator: comparator.clone(), blob_bytes_min, ..idle() },
            );
            let mut model = BTreeMap::new();
            for _ in 0..6 {
                own_writes(&db, &mut model, comparator.name() != "test.backwards", &mut draw);
                let stored: Vec<_> = walk(db.iter().unwrap()).unwrap();
                assert_eq!(stored.into_iter().collect::<BTreeMap<_, _>>(), model);
                if draw.one_in(2) {
                    db.flush().unwrap();
                }
            }
        }
    }
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(draw: &mut Draw) -> Vec<u8> {
    format!("{:02}", draw.below(40)).into_bytes()
}

fn own_writes(db: &Db, model: &mut Rows, is_forward: bool, draw: &mut Draw) {
    let transaction = db.transaction();
    let before = model.clone();
    let mut saved = Vec::new();
    for step in 0..120 {
        let (one, other) = (key(draw), key(draw));
        match draw.below(16) {
            0..5 => {
                let value = vec![b'0' + step % 10; [1, 30, 3000][draw.below(3)]];
                transaction.put(&one, &value).unwrap();
                model.insert(one, value);
            }
            5..8 => {
                transaction.delete(&one).unwrap();
                model.remove(&one);
            }
            8 => {
                transaction.delete_range(&one, &other).unwrap();
                let has = |key: &Vec<u8>| {
                    if is_forward {
                        one <= *key && *key < other
                    } else {
                        other < *key && *key <= one
                    }
                };
                model.retain(|key, _| !has(key));
            }
            9 => {
                transaction.save_point();
                saved.push(model.clone());
            }
            10 if !saved.is_empty() => {
                if draw.one_in(3) {
                    transaction.release_save_point().unwrap();
                    saved.pop();
                } else {
                    transaction.roll_back_to_save_point().unwrap();
                    *model = saved.pop().unwrap();
                }
            }
            11 => {
                let keys = [one, other, key(draw)];
                let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
                let mut found = Vec::new();
                let visit =
                    |at: usize, value: Option<&[u8]>| found.push((at, value.map(<[u8]>::to_vec)));
                transaction.multi_get(&keys, visit).unwrap();
                let expected = keys.iter().map(|key| model.get(*key).cloned()).enumerate();
                assert_eq!(found, expected.collect::<Vec<_>>());
            }
            12 => walk_about(&transaction, model, is_forward, draw),
            _ => assert_eq!(transaction.get(&one).unwrap().as_ref(), model.get(&one)),
        }
    }
    if draw.one_in(4) {
        transaction.roll_back();
        *model = before;
    } else {
        transaction.commit().unwrap();
    }
}

/// Random moves of an iterator, compared with those in the list of the model.
fn walk_about(transaction: &Transaction, model: &Rows, is_forward: bool, draw: &mut Draw) {
    let mut list: Vec<_> = model.iter().collect();
    if !is_forward {
        list.reverse();
    }
    let is_before = |a: &[u8], b: &[u8]| if is_forward { a < b } else { b < a };
    let mut iter = transaction.iter().unwrap();
    let mut at: Option<usize> = None;
    for _ in 0..20 {
        let target = key(draw);
        match draw.below(8) {
            0 => {
                iter.seek_first().unwrap();
                at = (!list.is_empty()).then_some(0);
            }
            1 => {
                iter.seek_last().unwrap();
                at = list.len().checked_sub(1);
            }
            2 => {
                iter.seek(&target).unwrap();
                at = list.iter().position(|(key, _)| !is_before(key, &target));
            }
            3 => {
                iter.seek_back(&target).unwrap();
                at = list.iter().rposition(|(key, _)| !is_before(&target, key));
            }
            4 | 5 => {
                iter.next().unwrap();
                at = at.map(|at| at + 1).filter(|at| *at < list.len());
            }
            _ => {
                iter.prev().unwrap();
                at = at.and_then(|at| at.checked_sub(1));
            }
        }
        let expected = at.map(|at| (&list[at].0[..], &list[at].1[..]));
        assert_eq!(iter.entry(), expected);
        assert_eq!(iter.is_valid(), expected.is_some());
    }
}
