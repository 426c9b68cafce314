//! A tree with all that layers can be, and what can happen to it under a reader.

use super::*;

/// A key that continues after one of its group.
fn deep(group: u8, n: u64) -> Vec<u8> {
    [&grouped(group, 7)[..], b" deeper ", &number(n)].concat()
}

fn ended(group: u8) -> Vec<u8> {
    vec![group; 8]
}

/// Keys of the layer of three levels, and every which of them stays.
const MANY: u64 = 320;
const MANY_STAY: u64 = 25;

/// Layers of 40 keys in a row with gaps between them; after them
/// - 70: a node that can begin a layer;
/// - 80: a layer that can become one node;
/// - 90: a layer of one node, the prefix of which can grow;
/// - 100: a node of one slice that cares for keys before, too, so that they must be detached;
/// - 110: a layer of three levels, the nodes of which can merge.
pub(crate) fn among_layers() -> Tree<u64> {
    let tree = Tree::<u64>::new();
    for group in [10, 20, 30, 40, 50, 60, 80] {
        put(&tree, (0..40).map(|n| grouped(group, n)), 7);
    }
    put(&tree, (0..10).map(|n| grouped(70, n)), 7);
    put(&tree, (0..GROUP).map(|n| grouped(90, n)), 7);
    remove(&tree, (1..GROUP).map(|n| grouped(90, n)));
    put(&tree, (0..14).map(|n| deep(90, n)), 7);
    remove(&tree, [grouped(90, 0)].into_iter());
    put(&tree, [ended(100)].into_iter(), 7);
    put(&tree, (0..14).map(|n| grouped(100, n)), 7);
    remove(&tree, [ended(100)].into_iter());
    put(&tree, (0..MANY).map(|n| grouped(110, n * 7919 % MANY)), 7);
    tree
}

/// The keys of [`among_layers`] that none of the changes removes, ascending.
pub(crate) fn staying() -> Vec<Vec<u8>> {
    let mut keys: Vec<_> = (0..40)
        .flat_map(|n| [10, 20, 30, 50, 60].map(|group| grouped(group, n)))
        .chain((0..10).map(|n| grouped(70, n)))
        .chain((0..5).map(|n| grouped(80, n)))
        .chain((0..14).flat_map(|n| [deep(90, n), grouped(100, n)]))
        .chain((0..MANY).step_by(MANY_STAY as usize).map(|n| grouped(110, n)))
        .collect();
    keys.sort();
    keys
}

type Change = fn(&Tree<u64>);

pub(crate) const CHANGES: [(&str, Change); 12] = [
    ("a layer goes", |tree| remove(tree, (0..40).map(|n| grouped(40, n)))),
    ("a layer comes", |tree| put(tree, (0..40).map(|n| grouped(45, n)), 1)),
    ("a layer goes, and others get its memory", |tree| {
        remove(tree, (0..40).map(|n| grouped(40, n)));
        [5, 41, 105].iter().for_each(|g| put(tree, (0..40).map(|n| grouped(*g, n)), 1));
    }),
    ("gaps are filled", |tree| {
        for len in [3, 8, 12] {
            put(tree, (0..255).map(|byte| vec![byte; len]), 1);
        }
    }),
    ("prefixes are divided", |tree| {
        for (group, at) in [(10, 8), (20, 16), (30, 8), (50, 16), (60, 23), (90, 9)] {
            for byte in [0, 255] {
                let mut key = deep(group, 0);
                key[at] = byte;
                put(tree, [key].into_iter(), 1);
            }
        }
    }),
    ("roots are cut", |tree| {
        for group in [10, 20, 30, 50, 60] {
            put(tree, (1000..1400).map(|n| grouped(group, n)), 1);
        }
    }),
    ("a root with a single child makes way", |tree| {
        remove(tree, (5..40).map(|n| grouped(80, n)));
    }),
    ("a node begins a layer", |tree| put(tree, (100..130).map(|n| grouped(70, n)), 1)),
    ("a prefix grows", |tree| put(tree, (100..130).map(|n| deep(90, n)), 1)),
    ("keys are detached", |tree| put(tree, (100..130).map(|n| grouped(100, n)), 1)),
    ("border nodes merge", |tree| thin_out(tree, 100..160)),
    ("interior nodes merge", |tree| thin_out(tree, 0..MANY)),
];

/// Removes keys of the layer of three levels that do not stay, each second one first.
fn thin_out(tree: &Tree<u64>, range: std::ops::Range<u64>) {
    for second in [0, 1] {
        let goes = |n: &u64| n % 2 == second && !n.is_multiple_of(MANY_STAY);
        remove(tree, range.clone().filter(goes).map(|n| grouped(110, n)));
    }
}

/// Each change is what its name says.
#[test]
fn the_changes_take_place() {
    let layer = |tree: &Tree<u64>, key: &[u8]| {
        let leaf = leaf_of(tree, key);
        (leaf.border.version().load().is_root(), leaf.rest.bytes.len())
    };
    for (name, change) in CHANGES {
        let mut tree = among_layers();
        let before = tree.check().unwrap();
        for key in staying() {
            assert_eq!(tree.get(&key, &pin()), Some(7));
        }
        assert_eq!(layer(&tree, &grouped(70, 0)).1, 32, "in the first layer");
        assert!(!layer(&tree, &grouped(80, 0)).0, "below an interior node");
        assert_eq!(layer(&tree, &deep(90, 0)), (true, 24), "after three words");
        let low = leaf_of(&tree, &grouped(100, 0)).border.low();
        assert!(!low.continuing, "it cares for keys that end");
        change(&tree);
        let after = tree.stats();
        let changed = match name {
            "a layer goes" => after.layers + 1 == before.layers,
            "a layer comes" => after.layers == before.layers + 1,
            "a layer goes, and others get its memory" => after.layers == before.layers + 2,
            "gaps are filled" => after.borders >= before.borders + 60,
            "prefixes are divided" => after.layers >= before.layers + 6,
            "roots are cut" => after.interiors >= before.interiors + 5,
            "a root with a single child makes way" => layer(&tree, &grouped(80, 0)).0,
            "a node begins a layer" => layer(&tree, &grouped(70, 0)).1 == 8,
            "a prefix grows" => layer(&tree, &deep(90, 0)).1 == 8,
            "keys are detached" => layer(&tree, &grouped(100, 0)).1 == 8,
            "border nodes merge" => {
                after.interiors == before.interiors && after.borders + 3 <= before.borders
            }
            "interior nodes merge" => after.interiors + 2 == before.interiors,
            _ => panic!("an unknown change"),
        };
        assert!(changed, "{name}: {before:?}, {after:?}");
        assert_eq!(tree.check().unwrap(), after);
    }
}
