//! Blocks that are found without index and footer.

use super::*;
use crate::table::{Unsound, salvage};

/// What is found in these bytes, and what is wrong with them.
fn salvaged(bytes: &[u8], order: &Comparator) -> (Vec<Entry>, Vec<Unsound>) {
    let fs = file_of(bytes);
    let file = fs.open(path(), &OpenOptions::new().read(true)).unwrap();
    let (mut entries, mut unsound) = (Vec::new(), Vec::new());
    let mut entry = |key: &[u8], value: &[u8]| {
        entries.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    let mut ranges = |range| panic!("{range:?} was never removed");
    salvage(&*file, order, &mut entry, &mut ranges, &mut |it| unsound.push(it)).unwrap();
    (entries, unsound)
}

fn sample(compression: Compression, order: &Comparator) -> (Vec<Entry>, Vec<u8>) {
    let mut draw = Draw::new(5);
    let mut entries: Vec<Entry> = (1..300)
        .map(|n| (internal(&random_user(&mut draw), n, Kind::Put), random_value(&mut draw)))
        .collect();
    sort(&mut entries, order);
    let options = TableOptions {
        block_bytes: 400,
        compression,
        comparator: order.clone(),
        ..TableOptions::default()
    };
    let (fs, _) = written(&options, &entries);
    (entries, fs.read(path()).unwrap())
}

#[test]
fn a_whole_table_is_found_whole() {
    for compression in COMPRESSIONS {
        let (entries, bytes) = sample(compression, &Comparator::Bytewise);
        let (found, unsound) = salvaged(&bytes, &Comparator::Bytewise);
        assert!(found == entries, "{compression:?}");
        assert_eq!(unsound, [], "{compression:?}");
    }
}

#[test]
fn of_a_cut_table_the_blocks_before_the_cut_are_found() {
    let (entries, bytes) = sample(Compression::Lz4, &Comparator::Bytewise);
    let mut before = 0;
    for len in (0..bytes.len()).step_by(251).chain([bytes.len() - 1]) {
        let (found, unsound) = salvaged(&bytes[..len], &Comparator::Bytewise);
        assert!(entries.starts_with(&found) && found.len() >= before, "cut at {len}");
        assert!(unsound.len() == 1 || len == 0, "cut at {len}: {unsound:?}");
        before = found.len();
    }
    assert_eq!(before, entries.len());
}

#[test]
fn a_damaged_block_costs_itself() {
    for compression in [Compression::None, Compression::Zstd(1)] {
        let (entries, bytes) = sample(compression, &Comparator::Bytewise);
        for at in (0..bytes.len()).step_by(173) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let (found, unsound) = salvaged(&damaged, &Comparator::Bytewise);
            assert!(found.iter().all(|entry| entries.contains(entry)), "{at}");
            assert!(found.is_sorted_by(|a, b| Comparator::Bytewise.internal(&a.0, &b.0).is_lt()));
            let first_lost = entries.iter().position(|entry| !found.contains(entry));
            let lost = entries.len() - found.len();
            if let Some(first) = first_lost {
                let gap = &entries[first..first + lost];
                assert!(gap.iter().all(|entry| !found.contains(entry)), "{at}: two gaps");
                let said = unsound.iter().find_map(|it| it.lost.clone()).unwrap();
                let before = first.checked_sub(1).map(|before| entries[before].0.clone());
                assert_eq!(said.after, before, "{at}");
                assert_eq!(said.until, entries.get(first + lost).map(|it| it.0.clone()), "{at}");
            }
            // The footer may be damaged without notice.
            assert!(!unsound.is_empty() || at >= bytes.len() - 48, "{at}");
        }
    }
}

/// Whatever is in a file, the search comes to an end, and what it finds was written.
#[test]
fn noise_is_searched_in_bounded_time() {
    let mut draw = Draw::new(7);
    let noise = [draw.bytes(30_000), vec![1; 3_000], vec![0; 3_000], [1, 0].repeat(1_500)];
    for bytes in noise {
        let (found, unsound) = salvaged(&bytes, &Comparator::Bytewise);
        assert!(found.is_empty() && unsound.len() == 1, "{unsound:?}");
    }
    let (entries, bytes) = sample(Compression::Lz4, &Comparator::Bytewise);
    let buried = [draw.bytes(1_000), bytes].concat();
    let (found, _) = salvaged(&buried, &Comparator::Bytewise);
    assert!(found.is_empty() && !entries.is_empty(), "blocks of another place do not count");
}
