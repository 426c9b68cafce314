//! Scans: what is between two nodes, or behind a layer, changes under them.

use super::*;

/// A scan copies a node while its slots change hands: it must copy again.
#[test]
fn a_copy_for_a_scan_is_of_one_version() {
    let (tree, guard) = (numbers(0..15), pin());
    let (border, version, _) = stopped(&tree, &number(3));
    let copy = Copy::of(border, version, &guard);
    assert!(copy.is_some());
    tree.remove(&number(3), &guard);
    tree.insert(&number(100), 100, &guard);
    assert!(Copy::of(border, version, &guard).is_none());
    assert!(Copy::of(border, border.version().stable(), &guard).is_some());
}

/// A scan that stands between two nodes goes on where it was, whatever became of them.
#[test]
fn a_scan_goes_on_where_its_node_was() {
    for backwards in [false, true] {
        let (mut tree, mut seen) = (numbers(0..600), Vec::new());
        let visit = |key: &[u8]| {
            let n = u64::from_be_bytes(key.try_into().unwrap());
            seen.push(n);
            // Empties the nodes around, except for the multiples of 50.
            let around = n.saturating_sub(30)..(n + 30).min(600);
            for other in around.filter(|other| !other.is_multiple_of(50)) {
                tree.remove(&number(other), &pin());
            }
            std::ops::ControlFlow::Continue(())
        };
        let mut visit = visit;
        if backwards {
            tree.range_rev(b"", None, |key, _| visit(key));
            seen.reverse();
        } else {
            tree.range(b"", None, |key, _| visit(key));
        }
        assert!(seen.is_sorted_by(|a, b| a < b));
        let stayed: Vec<_> = seen.into_iter().filter(|n| n.is_multiple_of(50)).collect();
        assert_eq!(stayed, (0..12).map(|n| n * 50).collect::<Vec<_>>());
        tree.check().unwrap();
    }
}

/// A layer goes while a scan is in it; its memory is used again at once, or not at all.
#[test]
fn a_scan_goes_on_behind_a_layer_that_went() {
    let key = |group: u64, n: u64| format!("{group:016}{n:016}").into_bytes();
    for (backwards, again) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut tree = Tree::<u64>::new();
        for group in 0..20 {
            (0..40).for_each(|n| assert!(tree.insert(&key(group, n), n, &pin()).is_none()));
        }
        let mut seen = Vec::new();
        let visit = |seen: &mut Vec<Vec<u8>>, found: &[u8]| {
            seen.push(found.to_vec());
            let text = std::str::from_utf8(found).unwrap();
            let (group, n): (u64, u64) = (text[..16].parse().unwrap(), text[16..].parse().unwrap());
            if group.is_multiple_of(3) && n == 20 {
                for n in 0..40 {
                    tree.remove(&key(group, n), &pin());
                }
                for n in (0..40).filter(|_| again) {
                    assert!(tree.insert(&key(group + 100, n), n, &pin()).is_none());
                }
            }
            std::ops::ControlFlow::Continue(())
        };
        if backwards {
            tree.range_rev(b"", Some(&key(99, 0)), |key, _| visit(&mut seen, key));
            seen.reverse();
        } else {
            tree.range(b"", Some(&key(99, 0)), |key, _| visit(&mut seen, key));
        }
        assert!(seen.is_sorted_by(|a, b| a < b));
        for group in (0..20).filter(|group: &u64| !group.is_multiple_of(3)) {
            let whole = (0..40).all(|n| seen.contains(&key(group, n)));
            assert!(whole, "group {group}");
        }
        tree.check().unwrap();
    }
}

/// While a scan is in a layer, the entry of that layer and its neighbours move into a layer of
/// their slice. When the scan comes back, it must not begin that layer at its end.
#[test]
fn a_scan_goes_on_in_the_midst_of_a_group_that_moved() {
    let flat = |n: u64| format!("ONESLICE{n:08}").into_bytes();
    let below = |n: u64| [&flat(7)[..], &number(n)].concat();
    for backwards in [false, true] {
        let mut tree = Tree::<u64>::new();
        for n in 0..14 {
            tree.insert(&flat(n), n, &pin());
        }
        (0..2).for_each(|n| assert!(tree.insert(&below(n), n, &pin()).is_none()));
        assert_eq!(tree.stats().layers, 2);
        let mut seen = Vec::new();
        let visit = |seen: &mut Vec<Vec<u8>>, key: &[u8]| {
            if key.len() > 16 {
                tree.insert(b"ONESLICE9", 0, &pin());
                tree.insert(b"ONESLICE90", 0, &pin());
            }
            seen.push(key.to_vec());
            std::ops::ControlFlow::Continue(())
        };
        if backwards {
            tree.range_rev(b"", Some(b"ONESLICE8"), |key, _| visit(&mut seen, key));
            seen.reverse();
        } else {
            tree.range(b"", Some(b"ONESLICE8"), |key, _| visit(&mut seen, key));
        }
        let mut expected: Vec<_> = (0..14).map(flat).chain((0..2).map(below)).collect();
        expected.sort_unstable();
        assert_eq!(seen, expected, "backwards: {backwards}");
        assert_eq!(tree.check().unwrap().layers, 3);
    }
}

/// A long key is removed after its node was copied, and before it is visited.
#[test]
fn a_scan_passes_a_key_that_went() {
    let key = |n: u64| format!("{n:08} with an end that needs a cell").into_bytes();
    for backwards in [false, true] {
        let tree = Tree::<Bytes>::new();
        (0..3).for_each(|n| assert!(tree.insert(&key(n), b"a long value", &pin()).is_none()));
        let mut seen = Vec::new();
        let visit = |seen: &mut Vec<Vec<u8>>, found: &[u8], value: &[u8]| {
            assert_eq!(value, b"a long value");
            seen.push(found.to_vec());
            tree.remove(&key(1), &pin());
            std::ops::ControlFlow::Continue(())
        };
        if backwards {
            tree.range_rev(b"", None, |key, value| visit(&mut seen, key, &value));
            seen.reverse();
        } else {
            tree.range(b"", None, |key, value| visit(&mut seen, key, &value));
        }
        assert_eq!(seen, [key(0), key(2)]);
    }
}
