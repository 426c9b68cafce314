//! Bytes of the manifest and of `CURRENT` that are not what was written, and missing files.

use super::{add, create, dir, disk, end_of_records, message, open, touch};
use crate::error::{Error, Result};
use crate::key::Comparator;
use crate::manifest::page::{PAGE_BYTES, put_record};
use crate::manifest::{
    CURRENT, LOG_DIR, Manifest, State, current, header, manifest_name, table_name,
};
use crate::version::VersionEdit;
use crate::version::tests::{adding, file};
use keyrack_vfs::{Fs, MemFs, OpenOptions};
use std::sync::Arc;

/// A sound store, and the states that its manifest went through.
fn sound() -> (MemFs, Vec<State>) {
    let disk = disk();
    let mut manifest = create(disk.clone());
    let mut states = vec![manifest.state().clone()];
    for index in 0..4 {
        add(&mut manifest);
        states.push(manifest.state().clone());
        if index == 1 {
            // A record of several pages.
            let number = manifest.numbers().issue();
            let long = "k".repeat(1_200);
            manifest.log(&adding(&[(2, file(number.get(), "a", &long))])).unwrap();
            states.push(manifest.state().clone());
        }
    }
    (disk, states)
}

/// The disk with the bytes of one file replaced.
fn with(disk: &MemFs, name: &str, bytes: &[u8]) -> MemFs {
    let copy = disk.process_crash_image();
    copy.write_atomic(&dir().join(name), bytes).unwrap();
    copy
}

fn bytes_of(disk: &MemFs, name: &str) -> Vec<u8> {
    disk.read(&dir().join(name)).unwrap()
}

#[track_caller]
fn is_clean<T>(result: Result<T>, what: &str) {
    match result {
        Ok(_) => panic!("{what}: nobody noticed"),
        Err(Error::Corruption { .. } | Error::Usage(_)) => {}
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn every_byte_counts() {
    let (disk, _) = sound();
    for name in [CURRENT, "MANIFEST-000001"] {
        let good = bytes_of(&disk, name);
        for at in 0..good.len() {
            for change in [0x01, 0x80, good[at]] {
                let mut bytes = good.clone();
                bytes[at] ^= change;
                if bytes != good {
                    let what = format!("byte {at} of {name} changed by {change:#x}");
                    is_clean(open(with(&disk, name, &bytes)), &what);
                }
            }
        }
    }
}

#[test]
fn a_wrong_page_is_named_by_its_offset() {
    let (disk, _) = sound();
    let mut bytes = bytes_of(&disk, "MANIFEST-000001");
    bytes[3 * PAGE_BYTES + 100] ^= 1;
    let error = open(with(&disk, "MANIFEST-000001", &bytes)).unwrap_err();
    let wanted = "/db/MANIFEST-000001: byte 1536: the page does not match its checksum";
    assert_eq!(error.to_string(), wanted);
}

/// Earlier programs wrote no length into the header.
#[test]
fn a_cut_manifest_of_an_earlier_program_has_an_earlier_state_or_none() {
    let (disk, states) = sound();
    let mut good = bytes_of(&disk, "MANIFEST-000001");
    good.truncate(end_of_records(&good));
    good[..PAGE_BYTES].copy_from_slice(&header::header(1, 0));
    let mut met = vec![0; states.len()];
    for len in 0..=good.len() {
        match open(with(&disk, "MANIFEST-000001", &good[..len])) {
            Ok((manifest, state)) => {
                let same = |earlier: &State| earlier.version == state.version;
                met[states.iter().position(same).expect("a state that never was")] += 1;
                assert_eq!(manifest.dropped().end, len as u64 / 512 * 512, "{len} bytes");
            }
            Err(error) => {
                assert!(matches!(error, Error::Corruption { .. }), "{len}: {error}");
                assert!(len < 2 * PAGE_BYTES, "the snapshot is whole from then on: {error}");
            }
        }
    }
    assert!(met.iter().all(|count| *count > 0), "{met:?}");
}

#[test]
fn a_blank_page_is_a_torn_edit_at_the_end_and_damage_elsewhere() {
    let (disk, states) = sound();
    let good = bytes_of(&disk, "MANIFEST-000001");
    let pages = end_of_records(&good) / PAGE_BYTES;
    for page in 0..pages {
        let mut bytes = good.clone();
        bytes[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        let opened = open(with(&disk, "MANIFEST-000001", &bytes));
        if page == pages - 1 {
            let (manifest, state) = opened.unwrap();
            assert!(manifest.dropped().is_empty(), "nothing of it is there");
            assert_eq!(state.version, states[states.len() - 2].version);
        } else {
            assert!(matches!(opened, Err(Error::Corruption { .. })), "page {page}");
        }
    }
}

#[test]
fn pages_in_another_place_are_damage() {
    let (disk, _) = sound();
    let good = bytes_of(&disk, "MANIFEST-000001");
    let pages = end_of_records(&good) / PAGE_BYTES;
    for one in 0..pages {
        for other in 0..good.len() / PAGE_BYTES {
            let mut bytes = good.clone();
            bytes[other * PAGE_BYTES..][..PAGE_BYTES]
                .copy_from_slice(&good[one * PAGE_BYTES..][..PAGE_BYTES]);
            if one != other {
                let what = format!("page {one} in place of {other}");
                is_clean(open(with(&disk, "MANIFEST-000001", &bytes)), &what);
            }
        }
    }
}

#[test]
fn what_lies_behind_the_last_edit_is_damage() {
    let (disk, _) = sound();
    let good = bytes_of(&disk, "MANIFEST-000001");
    for len in [1, 17, PAGE_BYTES, 3 * PAGE_BYTES + 1] {
        let longer = [good.clone(), vec![0; len]].concat();
        let message = message(open(with(&disk, "MANIFEST-000001", &longer)));
        let (found, said) = (longer.len(), good.len());
        let place = format!("/db/MANIFEST-000001: byte {said}: ");
        let what = format!("the file has {found} bytes, its header says {said}");
        assert_eq!(message, place + &what);
    }
    let mut garbage = good.clone();
    garbage[good.len() - PAGE_BYTES..].fill(7);
    is_clean(open(with(&disk, "MANIFEST-000001", &garbage)), "garbage");
}

#[test]
fn a_torn_edit_may_lack_any_of_its_pages() {
    let (disk, states) = sound();
    let good = bytes_of(&disk, "MANIFEST-000001");
    let record = states.len() as u32;
    let end = end_of_records(&good);
    let first = (end / PAGE_BYTES) as u64;
    let mut torn = Vec::new();
    put_record(&mut torn, 1, first, record, &[1; 3 * PAGE_BYTES]);
    assert_eq!(torn.len(), 4 * PAGE_BYTES);
    assert!(good.len() >= end + 5 * PAGE_BYTES, "there is room");
    let overwritten = |at: usize, bytes: &mut Vec<u8>, with: &[u8]| {
        bytes[at..at + with.len()].copy_from_slice(with);
    };
    for lost in 1..16_usize {
        let mut tail = torn.clone();
        for page in (0..4).filter(|page| lost >> page & 1 == 1) {
            tail[page * PAGE_BYTES..][..PAGE_BYTES].fill(0);
        }
        let left = end_of_records(&tail);
        let mut bytes = good.clone();
        overwritten(end, &mut bytes, &tail);
        let (manifest, state) = open(with(&disk, "MANIFEST-000001", &bytes)).unwrap();
        assert_eq!(manifest.dropped(), end as u64..(end + left) as u64);
        assert_eq!(&state, &states[states.len() - 1], "pages lost: {lost:#b}");

        let mut next = Vec::new();
        put_record(&mut next, 1, first + 4, record + 1, b"");
        let what = format!("an edit behind one without pages {lost:#b}");
        overwritten(end + torn.len(), &mut bytes, &next);
        is_clean(open(with(&disk, "MANIFEST-000001", &bytes)), &what);
    }
}

#[test]
fn the_file_that_current_names_counts_and_must_be_there() {
    let (disk, states) = sound();
    let old = bytes_of(&disk, CURRENT);
    let (mut manifest, _) = open(disk.clone()).unwrap();
    add(&mut manifest);
    let newer = manifest.path();
    assert_eq!(open(disk.clone()).unwrap().1, *manifest.state());
    let (manifest, state) = open(with(&disk, CURRENT, &old)).unwrap();
    assert_eq!(state.version, states[states.len() - 1].version, "two manifests are there");
    assert!(manifest.state().next_file > 7, "the number of the newer one is not given again");

    disk.remove_file(&newer).unwrap();
    let missing = message(open(disk.clone()));
    assert!(missing.starts_with("/db/CURRENT: byte 0: names MANIFEST-"), "{missing}");
    assert!(missing.ends_with("which is missing"), "{missing}");
    is_clean(open(disk), "the manifest is missing");
}

#[test]
fn a_store_without_current_is_damaged() {
    let missing = "/db/CURRENT: byte 0: the file is missing, but the store is not";
    let with_table = disk();
    touch(&with_table, &table_name(4));
    let with_log = disk();
    with_log.create_dir(&dir().join(LOG_DIR)).unwrap();
    touch(&with_log, &format!("{LOG_DIR}/segment"));
    for disk in [with_table, with_log] {
        touch(&disk, &manifest_name(1));
        assert_eq!(message(open(disk.clone())), missing);
        assert_eq!(message(Manifest::exists(&disk, dir())), missing);
        let made = Manifest::create(Arc::new(disk.clone()), dir(), Comparator::Bytewise);
        assert_eq!(message(made), missing, "nothing is made over it");
    }
    let begun = disk();
    touch(&begun, &manifest_name(1));
    begun.create_dir(&dir().join(LOG_DIR)).unwrap();
    assert!(!Manifest::exists(&begun, dir()).unwrap(), "its making was interrupted");
    let manifest = create(begun.clone());
    assert_eq!(manifest.path(), dir().join(manifest_name(2)));
    assert_eq!(open(begun).unwrap().1, *manifest.state());
}

#[test]
fn a_manifest_longer_than_any_is_not_read() {
    let (disk, _) = sound();
    let options = OpenOptions::new().write(true);
    disk.open(&dir().join("MANIFEST-000001"), &options).unwrap().set_len(1 << 40).unwrap();
    let message = message(open(disk));
    assert!(message.ends_with("longer than any manifest"), "{message}");
}

/// A manifest whose checksums are right, with these records.
fn crafted(records: &[Vec<u8>]) -> MemFs {
    let disk = disk();
    let mut bytes = header::header(3, 0).to_vec();
    for (record, content) in records.iter().enumerate() {
        let page = (bytes.len() / PAGE_BYTES) as u64;
        put_record(&mut bytes, 3, page, record as u32, content);
    }
    disk.write_atomic(&dir().join(manifest_name(3)), &bytes).unwrap();
    current::write(&disk, dir(), 3).unwrap();
    disk
}

fn encoded(edit: &VersionEdit) -> Vec<u8> {
    let mut bytes = Vec::new();
    edit.encode(&mut bytes);
    bytes
}

#[test]
fn records_that_contradict_the_state_are_damage() {
    let next_file = Some(50);
    let snapshot = VersionEdit { next_file, ..State::new(Comparator::Bytewise).snapshot() };
    let two = VersionEdit { log_from: Some(10), ..adding(&[(1, file(5, "a", "c"))]) };
    for (edit, what) in [
        (adding(&[(1, file(6, "b", "d"))]), "tables 5 and 6 of level 1 share keys"),
        (adding(&[(0, file(5, "x", "y"))]), "table 5 is added, and there already"),
        (adding(&[(0, file(50, "x", "y"))]), "table 50 has a number that was never given out"),
        (adding(&[(8, file(6, "x", "y"))]), "there is no level 8"),
        (
            VersionEdit { deleted: vec![(2, 5)], ..VersionEdit::default() },
            "from level 2, where it is not",
        ),
        (VersionEdit { log_from: Some(9), ..VersionEdit::default() }, "goes back from 10 to 9"),
        (VersionEdit { next_file: Some(4), ..VersionEdit::default() }, "goes back from 50 to 4"),
        (VersionEdit { next_file: Some(u64::MAX), ..VersionEdit::default() }, "beyond its range"),
        (
            VersionEdit { last_sequence: Some(u64::MAX), ..VersionEdit::default() },
            "beyond its range",
        ),
    ] {
        let records = [encoded(&snapshot), encoded(&two), encoded(&edit)];
        let message = message(open(crafted(&records)));
        assert!(message.starts_with("/db/MANIFEST-000003: byte 1536: "), "{message}");
        assert!(message.ends_with(what), "{message}");
    }
}

#[test]
fn what_a_later_version_wrote_is_refused_as_such() {
    let snapshot = encoded(&State::new(Comparator::Bytewise).snapshot());
    assert!(open(crafted(std::slice::from_ref(&snapshot))).is_ok());
    let known = crafted(&[snapshot.clone(), vec![21, 1, 0]]);
    assert!(open(known).is_ok(), "an odd field that need not be known");
    let error = open(crafted(&[snapshot.clone(), vec![20, 1, 0]])).unwrap_err();
    assert!(matches!(error, Error::Usage(_)));
    assert_eq!(
        error.to_string(),
        "/db/MANIFEST-000003: byte 1024: field 20 was written by a later version of this program"
    );
    let malformed = message(open(crafted(&[snapshot, vec![4, 200]])));
    let wanted = "/db/MANIFEST-000003: byte 1024: a field is longer than its record";
    assert_eq!(malformed, wanted);
}

#[test]
fn a_manifest_begins_with_a_snapshot() {
    let none = message(open(crafted(&[])));
    assert_eq!(none, "/db/MANIFEST-000003: byte 512: the snapshot is not complete");
    let nameless = message(open(crafted(&[Vec::new()])));
    assert_eq!(nameless, "/db/MANIFEST-000003: byte 512: the snapshot names no order of keys");
}

#[test]
fn records_are_numbered_without_gaps() {
    let snapshot = encoded(&State::new(Comparator::Bytewise).snapshot());
    let mut bytes = header::header(3, 0).to_vec();
    put_record(&mut bytes, 3, 1, 0, &snapshot);
    put_record(&mut bytes, 3, 2, 2, b"");
    let disk = with(&crafted(&[]), &manifest_name(3), &bytes);
    let message = message(open(disk));
    assert_eq!(message, "/db/MANIFEST-000003: byte 1024: the page belongs to another record");
}
