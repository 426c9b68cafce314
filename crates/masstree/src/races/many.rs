//! Interleaved searches: the tree changes between two of their steps.

use super::*;
use crate::many::search_many;

/// When one search is done, others are at a node, before one, or before cells. All find their keys
/// wherever these are then.
#[test]
fn searches_meet_changes_between_their_steps() {
    let stays = staying();
    for (name, change) in CHANGES {
        for moment in 0..20 {
            let mut tree = among_layers();
            let guard = pin();
            // Keys that are nowhere are done first: before a layer, in a gap, without a prefix.
            let absent: Vec<Vec<u8>> =
                (0..20).flat_map(|n| [vec![n], vec![13 + n; 8], [10; 20].to_vec()]).collect();
            let keys = || absent.iter().zip(stays.iter().cycle().skip(moment * 13).step_by(7));
            let keys: Vec<&[u8]> = keys().flat_map(|(a, b)| [&a[..], &b[..]]).collect();
            let mut dones = 0;
            let mut seen = vec![false; keys.len()];
            search_many(
                &tree.shape,
                keys.iter().copied(),
                &guard,
                |_| true,
                |index, found| {
                    assert!(!std::mem::replace(&mut seen[index], true), "once");
                    if stays.binary_search_by(|key| key[..].cmp(keys[index])).is_ok() {
                        let entry = found.entry.unwrap_or_else(|| {
                            panic!("{name} at {moment}: {:?} is there", keys[index])
                        });
                        let value = value_of(&tree.shape, entry, &guard);
                        assert!(matches!(value, Value::Is(7)), "{name} at {moment}");
                    }
                    dones += 1;
                    if dones == moment + 1 {
                        change(&tree);
                    }
                },
            );
            assert!(seen.iter().all(|seen| *seen));
            drop(guard);
            tree.check().unwrap();
        }
    }
}
