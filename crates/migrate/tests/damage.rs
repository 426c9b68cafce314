//! Damaged files: an error with its place, or the same rows.

use crate::rows::{fixture, read, read_bytes};
use keyrack_migrate::Error;

/// Asserts that damage has a place in the file.
fn check(found: Result<(crate::rows::Rows, Option<u64>), Error>, bytes: &[u8], what: &str) {
    match found {
        Ok(_) => {}
        Err(Error::Damage { offset, .. }) => {
            assert!(offset <= bytes.len() as u64, "{what}: damage at {offset}");
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn each_spoiled_byte_of_a_snapshot_is_found() {
    for name in ["redis-7.0", "redis-8.0", "valkey-9.1"] {
        let bytes = std::fs::read(fixture(&format!("{name}.rdb"))).unwrap();
        let whole = read_bytes(&bytes).unwrap();
        for at in 0..bytes.len() {
            for mask in [0x01, 0x80, 0xff] {
                let mut spoiled = bytes.clone();
                spoiled[at] ^= mask;
                let found = read_bytes(&spoiled);
                if let Ok(found) = &found {
                    assert_eq!(*found, whole, "{name}: byte {at} ^ {mask}");
                }
                check(found, &spoiled, &format!("{name}: byte {at} ^ {mask}"));
            }
        }
    }
}

/// Without a checksum damage may look like other rows, and never harms.
#[test]
fn each_spoiled_byte_without_a_checksum_does_no_harm() {
    for name in ["redis-7.0", "redis-8.0", "valkey-9.1"] {
        let mut bytes = std::fs::read(fixture(&format!("{name}.rdb"))).unwrap();
        let sum = bytes.len() - 8;
        bytes[sum..].fill(0);
        read_bytes(&bytes).unwrap();
        for at in 0..sum {
            for mask in [0x01, 0x40, 0xff] {
                let mut spoiled = bytes.clone();
                spoiled[at] ^= mask;
                let found = read_bytes(&spoiled);
                check(found, &spoiled, &format!("{name}: byte {at} ^ {mask}"));
            }
        }
    }
}

#[test]
fn a_transaction_without_its_end_before_the_last_part_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let set = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n";
    write("a.manifest", "file one seq 1 type b\nfile two seq 1 type i\n");
    write("one", &format!("{set}*1\r\n$5\r\nMULTI\r\n{set}"));
    write("two", set);
    match read(&dir.path().join("a.manifest")) {
        Err(Error::Damage { name, offset, .. }) => {
            assert!(name.ends_with("one"), "{name}");
            assert_eq!(offset, set.len() as u64);
        }
        found => panic!("{found:?}"),
    }
    write("one", set);
    assert_eq!(read(&dir.path().join("a.manifest")).unwrap().0.commands.len(), 2);
}

#[test]
fn a_cut_snapshot_is_damage_at_its_end() {
    let bytes = std::fs::read(fixture("redis-8.0.rdb")).unwrap();
    for length in 1..bytes.len() {
        let found = read_bytes(&bytes[..length]);
        assert!(found.is_err(), "{length} bytes of {}", bytes.len());
        check(found, &bytes[..length], &format!("{length} bytes"));
    }
}

#[test]
fn a_torn_command_is_told_by_its_offset() {
    let name = "appendonly.aof.2.incr.aof";
    let bytes = std::fs::read(fixture("redis-7.0.aof").join(name)).unwrap();
    let whole = read_bytes(&bytes).unwrap();
    // The transaction counts from its MULTI on.
    let multi = bytes.windows(5).position(|bytes| bytes == b"MULTI").unwrap() - 8;
    let exec = bytes.windows(4).position(|bytes| bytes == b"EXEC").unwrap() + 6;
    let mut begins = vec![];
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'*') {
        begins.push(at + next);
        at += next + 1;
    }
    for length in 1..bytes.len() {
        let (rows, torn) = read_bytes(&bytes[..length]).unwrap();
        let begin = *begins.iter().rfind(|begin| **begin < length).unwrap();
        let is_whole = begins.contains(&length);
        let in_transaction = multi < length && length < exec;
        let expected = match (in_transaction, is_whole) {
            (true, _) => Some(multi as u64),
            (false, true) => None,
            (false, false) => Some(begin as u64),
        };
        assert_eq!(torn, expected, "{length} bytes");
        assert!(whole.0.commands.starts_with(&rows.commands), "{length} bytes");
    }
}

#[test]
fn a_torn_command_before_the_last_file_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "file a seq 1 type i\nfile b seq 2 type i\n";
    std::fs::write(dir.path().join("x.manifest"), manifest).unwrap();
    std::fs::write(dir.path().join("a"), "*1\r\n$4\r\nPI").unwrap();
    std::fs::write(dir.path().join("b"), "*1\r\n$4\r\nPING\r\n").unwrap();
    let error = read(dir.path()).unwrap_err();
    assert!(matches!(error, Error::Damage { offset: 0, .. }), "{error}");
}

#[test]
fn lengths_beyond_the_file_take_no_memory() {
    for tail in [
        // A string of 2^63 bytes, one of 512 MiB, a hash of 2^32 fields, a packed string that
        // would expand to 2^40 bytes.
        &b"\x00\x01k\x81\x7f\xff\xff\xff\xff\xff\xff\xff"[..],
        b"\x00\x01k\x80\x20\x00\x00\x00",
        b"\x04\x01k\x80\xff\xff\xff\xff",
        b"\x00\x01k\xc3\x02\x81\x00\x00\x01\x00\x00\x00\x00\x00ab",
    ] {
        let bytes = [b"REDIS0011", tail].concat();
        let error = read_bytes(&bytes).unwrap_err();
        assert!(matches!(error, Error::Damage { .. }), "{error}");
    }
}
