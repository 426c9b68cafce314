//! Random ranges beside a model, for the tests that change a store at random.

use crate::support::Rows;
use keyrack_flodb::{Range, Result};
use keyrack_testkit::random::Draw;
use std::ops::Bound;

pub(crate) type Pair = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn bound(draw: &mut Draw, key: &impl Fn(&mut Draw) -> Vec<u8>) -> Bound<Vec<u8>> {
    match draw.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key(draw)),
        _ => Bound::Excluded(key(draw)),
    }
}

/// Random ranges of a store or a key space beside `rows`, which is all that it has, in its order:
/// that of bytes or, `is_backwards`, its contrary.
pub(crate) fn compare(
    range: impl Fn(Pair) -> Range,
    rows: &Rows,
    is_backwards: bool,
    draw: &mut Draw,
    key: impl Fn(&mut Draw) -> Vec<u8>,
) {
    for _ in 0..4 {
        let bounds = (bound(draw, &key), bound(draw, &key));
        let order = |a: &[u8], b: &[u8]| if is_backwards { b.cmp(a) } else { a.cmp(b) };
        let is_within = |key: &[u8]| {
            let is_behind_low = match &bounds.0 {
                Bound::Unbounded => true,
                Bound::Included(low) => order(low, key).is_le(),
                Bound::Excluded(low) => order(low, key).is_lt(),
            };
            let is_before_high = match &bounds.1 {
                Bound::Unbounded => true,
                Bound::Included(high) => order(key, high).is_le(),
                Bound::Excluded(high) => order(key, high).is_lt(),
            };
            is_behind_low && is_before_high
        };
        let expected: Rows = rows.iter().filter(|(key, _)| is_within(key)).cloned().collect();
        drain(range(bounds.clone()), &expected, draw, &format!("{bounds:?}"));
    }
}

/// A random prefix beside `rows`, which is all that there is, in the order of bytes.
pub(crate) fn compare_prefix(
    prefix: impl Fn(&[u8]) -> Range,
    rows: &Rows,
    draw: &mut Draw,
    key: impl Fn(&mut Draw) -> Vec<u8>,
) {
    let mut wanted = key(draw);
    wanted.truncate(draw.below(wanted.len() + 1));
    if draw.below(8) == 0 {
        wanted.push(0xff);
    }
    let is_within = |(key, _): &&(Vec<u8>, Vec<u8>)| key.starts_with(&wanted);
    let expected: Rows = rows.iter().filter(is_within).cloned().collect();
    drain(prefix(&wanted), &expected, draw, &format!("prefix {wanted:?}"));
}

/// Takes the entries of a range in one of the ways there are: from one end, or from both.
fn drain(mut range: Range, expected: &Rows, draw: &mut Draw, what: &str) {
    match draw.below(6) {
        0 => assert_eq!(&range.collect::<Result<Rows>>().unwrap(), expected, "{what}"),
        1 => {
            let mut found = range.rev().collect::<Result<Rows>>().unwrap();
            found.reverse();
            assert_eq!(&found, expected, "{what}");
        }
        2 => {
            let keys: Vec<Vec<u8>> = range.keys().collect::<Result<_>>().unwrap();
            let expected: Vec<Vec<u8>> = expected.iter().map(|(key, _)| key.clone()).collect();
            assert_eq!(keys, expected, "{what}");
        }
        3 => assert_eq!(range.count(), expected.len(), "{what}"),
        // Runs of steps from both ends, some of which stop early.
        _ => {
            let (mut left, mut from_front) = (&expected[..], draw.below(2) == 0);
            let steps = draw.below(2 * expected.len() + 2);
            for _ in 0..steps {
                from_front ^= draw.below(4) == 0;
                let (found, next) = if from_front {
                    (step_front(&mut range, draw), left.split_first())
                } else {
                    (step_back(&mut range, draw), left.split_last())
                };
                assert_eq!(found.as_ref(), next.map(|(next, _)| next), "{what}");
                left = next.map_or(&[], |(_, rest)| rest);
            }
        }
    }
}

type Row = (Vec<u8>, Vec<u8>);

fn own((key, value): (&[u8], &[u8])) -> Row {
    (key.to_vec(), value.to_vec())
}

fn step_front(range: &mut Range, draw: &mut Draw) -> Option<Row> {
    if draw.below(2) == 0 {
        range.next().transpose().unwrap()
    } else {
        range.next_entry().unwrap().map(own)
    }
}

fn step_back(range: &mut Range, draw: &mut Draw) -> Option<Row> {
    if draw.below(2) == 0 {
        range.next_back().transpose().unwrap()
    } else {
        range.next_entry_back().unwrap().map(own)
    }
}
