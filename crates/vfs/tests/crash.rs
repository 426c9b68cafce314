//! Power losses, told as stories: what a program did, and which disks it may find afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyrack_vfs::{CrashPolicy, File, Fs, MemFs, OpenOptions};

use crate::at;
use keyrack_testkit::random::{Draw, successive_seeds};

const SECTOR: usize = 512;

fn open(fs: &dyn Fs, path: &str) -> Arc<dyn File> {
    fs.open(at(path), &OpenOptions::new().read(true).write(true).create(true)).unwrap()
}

/// A file whose bytes and name are durable.
fn durable(fs: &MemFs, path: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = open(fs, path);
    file.write_at(0, bytes).unwrap();
    file.sync_data().unwrap();
    fs.sync_parent(at(path)).unwrap();
    file
}

/// Contents of a file in a few hundred images; `None` where it does not exist.
fn outcomes(fs: &MemFs, path: &str, policy: CrashPolicy) -> BTreeSet<Option<Vec<u8>>> {
    (0..300)
        .map(|seed| {
            let image = fs.crash_image(seed, policy);
            image.exists(at(path)).unwrap().then(|| image.read(at(path)).unwrap())
        })
        .collect()
}

fn names(fs: &MemFs, dir: &str) -> Vec<String> {
    let entries = fs.list(at(dir)).unwrap();
    entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

#[test]
fn unsynced_bytes_are_lost_and_synced_bytes_are_not() {
    let fs = MemFs::new();
    let file = durable(&fs, "/log", b"synced");
    file.append(b" and not").unwrap();
    assert_eq!(fs.crash_image(1, CrashPolicy::DropAll).read(at("/log")).unwrap(), b"synced");
    let kept = fs.crash_image(1, CrashPolicy::KeepAll);
    assert_eq!(kept.read(at("/log")).unwrap(), b"synced and not");
    file.sync_data().unwrap();
    for policy in [CrashPolicy::DropAll, CrashPolicy::Ordered, CrashPolicy::Reordered] {
        let only = BTreeSet::from([Some(b"synced and not".to_vec())]);
        assert_eq!(outcomes(&fs, "/log", policy), only);
    }
}

#[test]
fn an_image_leaves_the_disk_alone_and_is_durable_itself() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", b"old");
    file.write_at(0, b"new").unwrap();
    let image = fs.crash_image(3, CrashPolicy::DropAll);
    open(&image, "/f").write_at(0, b"xxx").unwrap();
    assert_eq!(fs.read(at("/f")).unwrap(), b"new");
    assert_eq!(image.crash_image(0, CrashPolicy::DropAll).read(at("/f")).unwrap(), b"old");
}

#[test]
fn a_torn_write_breaks_between_sectors_and_never_inside_one() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", &[b'a'; SECTOR * 6]);
    file.write_at(0, &[b'b'; SECTOR * 6]).unwrap();
    let found = outcomes(&fs, "/f", CrashPolicy::Reordered);
    let patterns: BTreeSet<String> = found
        .iter()
        .map(|bytes| {
            let sectors = bytes.as_ref().unwrap().chunks(SECTOR);
            sectors
                .map(|sector| {
                    assert!(sector.iter().all(|byte| *byte == sector[0]), "torn inside a sector");
                    char::from(sector[0])
                })
                .collect()
        })
        .collect();
    assert!(patterns.contains("aaaaaa") && patterns.contains("bbbbbb"), "{patterns:?}");
    assert!(patterns.contains("bbbaaa"), "the front of the write: {patterns:?}");
    assert!(patterns.iter().any(|pattern| pattern.contains("ab")), "reordered: {patterns:?}");
}

#[test]
fn a_sector_rewritten_before_the_sync_may_hold_any_of_its_contents() {
    let fs = MemFs::new();
    let file = durable(&fs, "/header", b"1");
    file.write_at(0, b"2").unwrap();
    file.write_at(0, b"3").unwrap();
    let expected = BTreeSet::from([b"1", b"2", b"3"].map(|bytes| Some(bytes.to_vec())));
    assert_eq!(outcomes(&fs, "/header", CrashPolicy::Reordered), expected);
}

#[test]
fn the_length_may_be_lost_or_kept_apart_from_the_bytes() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", b"");
    file.write_at(0, &[b'x'; SECTOR * 2]).unwrap();
    let found = outcomes(&fs, "/f", CrashPolicy::Ordered);
    let has = |wanted: &[u8]| found.iter().any(|bytes| bytes.as_deref() == Some(wanted));
    assert!(has(b""), "bytes or not, the length was lost");
    assert!(has(&[0; SECTOR * 2]), "the length was kept, the bytes were not");
    assert!(has(&[b'x'; SECTOR * 2]), "both were kept");
    let lens: BTreeSet<_> = found.iter().map(|bytes| bytes.as_ref().unwrap().len()).collect();
    assert!(lens.iter().any(|len| *len > 0 && *len < SECTOR * 2), "cut in between: {lens:?}");
}

#[test]
fn a_cut_that_was_not_synced_may_be_undone() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", &[b'a'; 10_000]);
    file.set_len(0).unwrap();
    let dropped = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(dropped.read(at("/f")).unwrap(), [b'a'; 10_000]);
    assert_eq!(fs.crash_image(0, CrashPolicy::KeepAll).read(at("/f")).unwrap(), b"");
    file.sync_data().unwrap();
    assert_eq!(outcomes(&fs, "/f", CrashPolicy::Reordered), BTreeSet::from([Some(Vec::new())]));
}

#[test]
fn bytes_beyond_a_synced_cut_never_come_back() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", &[b'a'; 1_000]);
    for len in [100, 1_000] {
        file.set_len(len).unwrap();
        file.sync_data().unwrap();
    }
    let image = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(image.read(at("/f")).unwrap(), [vec![b'a'; 100], vec![0; 900]].concat());
}

#[test]
fn bytes_beyond_a_lost_length_never_come_back() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", b"");
    file.write_at(0, &[b'x'; 3_000]).unwrap();
    let mut shortened = 0;
    for seed in 0..200 {
        let image = fs.crash_image(seed, CrashPolicy::Ordered);
        let file = open(&image, "/f");
        let len = file.len().unwrap() as usize;
        file.set_len(3_000).unwrap();
        let all = image.read(at("/f")).unwrap();
        assert!(all[len..].iter().all(|byte| *byte == 0), "SEED={seed}");
        shortened += usize::from(len < 3_000 && all[..len].contains(&b'x'));
    }
    assert!(shortened > 0, "some image keeps bytes and loses length");
}

#[test]
fn a_synced_file_in_an_unsynced_directory_may_vanish() {
    let fs = MemFs::new();
    let file = open(&fs, "/new");
    file.write_at(0, b"bytes").unwrap();
    file.sync_all().unwrap();
    let expected = BTreeSet::from([None, Some(b"bytes".to_vec())]);
    assert_eq!(outcomes(&fs, "/new", CrashPolicy::Ordered), expected);
    fs.sync_dir(at("/")).unwrap();
    let expected = BTreeSet::from([Some(b"bytes".to_vec())]);
    assert_eq!(outcomes(&fs, "/new", CrashPolicy::Ordered), expected);
}

#[test]
fn a_synced_directory_in_an_unsynced_parent_may_vanish_with_all_its_files() {
    let fs = MemFs::new();
    fs.create_dir(at("/db")).unwrap();
    durable(&fs, "/db/f", b"bytes");
    assert!(names(&fs.crash_image(0, CrashPolicy::DropAll), "/").is_empty());
    fs.sync_dir(at("/")).unwrap();
    let image = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(image.read(at("/db/f")).unwrap(), b"bytes");
}

#[test]
fn a_rename_without_directory_sync_leaves_the_old_state_or_the_new_one() {
    let fs = MemFs::new();
    durable(&fs, "/current", b"old");
    durable(&fs, "/next", b"new");
    fs.rename(at("/next"), at("/current")).unwrap();
    let mut found = BTreeSet::new();
    for seed in 0..100 {
        let image = fs.crash_image(seed, CrashPolicy::Reordered);
        found.insert((names(&image, "/"), image.read(at("/current")).unwrap()));
    }
    let before = (vec!["current".to_owned(), "next".to_owned()], b"old".to_vec());
    let after = (vec!["current".to_owned()], b"new".to_vec());
    assert_eq!(found, BTreeSet::from([before, after]));
    fs.sync_dir(at("/")).unwrap();
    let dropped = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(dropped.read(at("/current")).unwrap(), b"new");
    assert_eq!(names(&dropped, "/"), ["current"]);
}

#[test]
fn a_rename_before_the_file_is_synced_may_show_an_empty_file() {
    let fs = MemFs::new();
    durable(&fs, "/current", b"old");
    open(&fs, "/next").write_at(0, b"new").unwrap();
    fs.rename(at("/next"), at("/current")).unwrap();
    fs.sync_dir(at("/")).unwrap();
    let found = outcomes(&fs, "/current", CrashPolicy::Ordered);
    assert!(found.contains(&Some(Vec::new())), "the model must catch this bug: {found:?}");
    assert!(!found.contains(&Some(b"old".to_vec())), "the rename itself is durable");
}

#[test]
fn directory_changes_keep_their_order_or_not_by_policy() {
    let fs = MemFs::new();
    for name in ["/1", "/2", "/3"] {
        open(&fs, name);
    }
    let sets = |policy| -> BTreeSet<Vec<String>> {
        (0..200).map(|seed| names(&fs.crash_image(seed, policy), "/")).collect()
    };
    let lists = |lists: &[&[&str]]| -> BTreeSet<Vec<String>> {
        lists.iter().map(|names| names.iter().map(|&name| name.to_owned()).collect()).collect()
    };
    let ordered = lists(&[&[], &["1"], &["1", "2"], &["1", "2", "3"]]);
    assert_eq!(sets(CrashPolicy::Ordered), ordered);
    assert_eq!(sets(CrashPolicy::Reordered).len(), 8, "any subset");
}

#[test]
fn an_unsynced_removal_may_be_undone() {
    let fs = MemFs::new();
    durable(&fs, "/f", b"bytes");
    fs.remove_file(at("/f")).unwrap();
    let expected = BTreeSet::from([None, Some(b"bytes".to_vec())]);
    assert_eq!(outcomes(&fs, "/f", CrashPolicy::Reordered), expected);
    fs.sync_dir(at("/")).unwrap();
    assert_eq!(outcomes(&fs, "/f", CrashPolicy::Reordered), BTreeSet::from([None]));
}

#[test]
fn a_removed_tree_comes_back_in_part_at_most() {
    let fs = MemFs::new();
    fs.create_dir_all(at("/t/d")).unwrap();
    durable(&fs, "/t/d/f", b"1");
    for dir in ["/t", "/"] {
        fs.sync_dir(at(dir)).unwrap();
    }
    fs.remove_dir_all(at("/t")).unwrap();
    let mut counts = BTreeSet::new();
    for seed in 0..100 {
        let image = fs.crash_image(seed, CrashPolicy::Reordered);
        let here = ["/t", "/t/d", "/t/d/f"].map(|path| image.exists(at(path)).unwrap());
        assert!(here.is_sorted_by(|outer, inner| outer >= inner), "SEED={seed} {here:?}");
        counts.insert(here.iter().filter(|exists| **exists).count());
    }
    assert_eq!(counts, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_directory_is_not_removed_before_what_was_moved_out_of_it() {
    let fs = MemFs::new();
    fs.create_dir(at("/d")).unwrap();
    fs.sync_dir(at("/")).unwrap();
    durable(&fs, "/d/f", b"bytes");
    fs.rename(at("/d/f"), at("/f")).unwrap();
    fs.remove_dir(at("/d")).unwrap();
    let mut found = BTreeSet::new();
    for seed in 0..100 {
        let image = fs.crash_image(seed, CrashPolicy::Reordered);
        let here = ["/d", "/d/f", "/f"].map(|path| image.exists(at(path)).unwrap());
        assert_ne!(here[1], here[2], "SEED={seed}: the file has one name, {here:?}");
        found.insert(here);
    }
    assert_eq!(found.len(), 3, "before, between and after: {found:?}");
}

#[test]
fn links_share_their_fate() {
    let fs = MemFs::new();
    let file = durable(&fs, "/a", b"old");
    fs.hard_link(at("/a"), at("/b")).unwrap();
    fs.sync_dir(at("/")).unwrap();
    file.write_at(0, b"new").unwrap();
    for seed in 0..50 {
        let image = fs.crash_image(seed, CrashPolicy::Reordered);
        assert_eq!(image.read(at("/a")).unwrap(), image.read(at("/b")).unwrap(), "SEED={seed}");
        open(&image, "/a").append(b"!").unwrap();
        assert_eq!(image.read(at("/b")).unwrap().len(), 4);
    }
}

#[test]
fn mapped_stores_are_unsynced_until_they_are_flushed() {
    let fs = MemFs::new();
    let file = durable(&fs, "/seg", &[0; 3 * 4_096]);
    let mapping = file.map(0, 3 * 4_096).unwrap();
    mapping.write(0, b"one").unwrap();
    mapping.write(2 * 4_096, b"two").unwrap();
    let head = |image: &MemFs, offset| {
        let mut bytes = [0; 3];
        open(image, "/seg").read_exact_at(offset, &mut bytes).unwrap();
        bytes
    };
    let image = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!([head(&image, 0), head(&image, 2 * 4_096)], [[0; 3], [0; 3]]);
    mapping.flush(0, 3).unwrap();
    let image = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!([&head(&image, 0), &head(&image, 2 * 4_096)], [b"one", &[0; 3]]);
    file.sync_data().unwrap();
    let image = fs.crash_image(0, CrashPolicy::DropAll);
    assert_eq!([&head(&image, 0), &head(&image, 2 * 4_096)], [b"one", b"two"]);
}

#[test]
fn a_process_crash_keeps_everything_and_syncs_nothing() {
    let fs = MemFs::new();
    let file = durable(&fs, "/f", b"old");
    let _lock = fs.lock(at("/LOCK")).unwrap();
    file.set_len(5).unwrap();
    file.write_at(0, b"newer").unwrap();
    let _mapping = file.map(0, 5).unwrap();
    open(&fs, "/unsynced");
    let image = fs.process_crash_image();
    assert_eq!(image.read(at("/f")).unwrap(), b"newer");
    assert_eq!(names(&image, "/"), ["LOCK", "f", "unsynced"]);
    image.lock(at("/LOCK")).expect("the lock died with the process");
    open(&image, "/f").set_len(0).expect("the mapping died with the process");
    let power = fs.process_crash_image().crash_image(0, CrashPolicy::DropAll);
    assert_eq!(power.read(at("/f")).unwrap(), b"old");
    assert_eq!(names(&power, "/"), ["f"]);
}

#[test]
fn a_process_crash_frees_files_that_only_handles_kept() {
    let fs = MemFs::new();
    fs.set_capacity(4 * 4_096);
    let file = durable(&fs, "/f", &[1; 4 * 4_096]);
    fs.remove_file(at("/f")).unwrap();
    fs.sync_dir(at("/")).unwrap();
    assert_eq!(fs.space(at("/")).unwrap().free_bytes, 0, "the handle keeps the space");
    let image = fs.process_crash_image();
    assert_eq!(image.space(at("/")).unwrap().free_bytes, 4 * 4_096);
    drop(file);
    assert_eq!(fs.space(at("/")).unwrap().free_bytes, 4 * 4_096);
}

#[test]
fn a_full_disk_is_met_at_reservation_and_not_after_it() {
    let fs = MemFs::new();
    fs.set_capacity(8 * 4_096);
    let file = open(&fs, "/f");
    file.allocate(0, 6 * 4_096).unwrap();
    let other = open(&fs, "/g");
    let error = other.allocate(0, 3 * 4_096).unwrap_err();
    assert!(error.is_no_space());
    assert_eq!(other.len().unwrap(), 0);
    // A write takes what there is and then says so; what is reserved stays usable.
    let error = other.write_at(0, &[1; 3 * 4_096]).unwrap_err();
    assert!(error.is_no_space());
    assert_eq!(other.len().unwrap(), 2 * 4_096);
    file.write_at(0, &[1; 6 * 4_096]).unwrap();
    // A hole needs space before it can be mapped.
    file.set_len(8 * 4_096).unwrap();
    assert!(file.map(0, 8 * 4_096).unwrap_err().is_no_space());
    file.map(0, 6 * 4_096).unwrap();
    drop(other);
    fs.remove_file(at("/g")).unwrap();
    file.map(0, 8 * 4_096).unwrap();
}

/// Everything in an image, for comparison.
fn contents(fs: &MemFs) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = fs.read(&at("/").join(&name)).unwrap();
        (name, bytes)
    };
    names(fs, "/").into_iter().map(read).collect()
}

#[test]
fn equal_seeds_give_equal_images() {
    let history = || {
        let fs = MemFs::new();
        for number in 0..20_u8 {
            let file = open(&fs, &format!("/{number}"));
            file.write_at(0, &vec![number; 300 * usize::from(number)]).unwrap();
            if number.is_multiple_of(3) {
                file.sync_data().unwrap();
            }
            if number == 7 {
                fs.sync_dir(at("/")).unwrap();
            }
        }
        fs
    };
    let (first, second) = (history(), history());
    let mut images = BTreeSet::new();
    for seed in 0..20 {
        let image = contents(&first.crash_image(seed, CrashPolicy::Reordered));
        let again = contents(&second.crash_image(seed, CrashPolicy::Reordered));
        assert_eq!(image, again, "SEED={seed}");
        images.insert(image);
    }
    assert!(images.len() > 10, "different seeds differ");
}

/// Random writes and syncs on one file; an oracle keeps, for each sector, the contents that a power
/// loss may leave.
#[test]
fn every_sector_of_every_image_holds_something_that_was_written_there() {
    const SECTORS: usize = 24;
    let (mut lost, mut kept, mut between) = (0, 0, 0);
    for seed in successive_seeds(30) {
        let mut draw = Draw::new(seed);
        let fs = MemFs::new();
        let file = durable(&fs, "/f", &[0; SECTORS * SECTOR]);
        // Contents since the last sync, the synced one first.
        let mut allowed: Vec<Vec<Vec<u8>>> = vec![vec![vec![0; SECTOR]]; SECTORS];
        let mut live = vec![0; SECTORS * SECTOR];
        for step in 0..60_u8 {
            if draw.below(8) == 0 {
                file.sync_data().unwrap();
                for contents in &mut allowed {
                    contents.drain(..contents.len() - 1);
                }
            } else {
                let offset = draw.below((SECTORS * SECTOR) as u64) as usize;
                let len = (1 + draw.below(3 * SECTOR as u64) as usize).min(live.len() - offset);
                live[offset..offset + len].fill(step + 1);
                file.write_at(offset as u64, &vec![step + 1; len]).unwrap();
                let touched = offset / SECTOR..(offset + len).div_ceil(SECTOR);
                let contents = live.chunks(SECTOR).skip(touched.start);
                for (history, content) in allowed[touched].iter_mut().zip(contents) {
                    history.push(content.to_vec());
                }
            }
            let image_seed = seed.wrapping_mul(1_000).wrapping_add(u64::from(step));
            let image = fs.crash_image(image_seed, CrashPolicy::Reordered);
            let bytes = image.read(at("/f")).unwrap();
            assert_eq!(bytes.len(), live.len(), "SEED={seed} step {step}");
            for (sector, found) in bytes.chunks(SECTOR).enumerate() {
                let contents = &allowed[sector];
                let index = contents.iter().position(|content| content == found);
                let index = index.unwrap_or_else(|| panic!("SEED={seed} step {step} {sector}"));
                match index {
                    _ if contents.len() == 1 => {}
                    0 => lost += 1,
                    last if last == contents.len() - 1 => kept += 1,
                    _ => between += 1,
                }
            }
        }
    }
    assert!(lost > 0 && kept > 0 && between > 0, "{lost} lost, {kept} kept, {between} between");
}
