//! Files that Redis 7.0, Redis 8.0 and Valkey 9.1 wrote: `fixtures/README.md` has their commands.

use crate::rows::{Rows, Value, fixture, read};
use keyrack_migrate::{Event, JsonWriter, RespWriter, read_file};
use keyrack_vfs::RealFs;
use std::collections::BTreeMap;

const LATER_MS: u64 = 4_102_444_800_000;
const NAMES: [&str; 3] = ["redis-7.0", "redis-8.0", "valkey-9.1"];

fn string(text: &[u8]) -> (Value, Option<u64>) {
    (Value::String(text.to_vec()), None)
}

fn hash(pairs: &[(&str, &str)]) -> (Value, Option<u64>) {
    let bytes = |text: &str| text.as_bytes().to_vec();
    let fields = pairs.iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
    (Value::Hash(fields), None)
}

fn numbered() -> (Value, Option<u64>) {
    let fields = (1..=20).map(|n| (format!("f{n}").into_bytes(), format!("v{n}").into_bytes()));
    (Value::Hash(fields.collect()), None)
}

/// What the commands make.
fn expected(name: &str) -> BTreeMap<(u32, Vec<u8>), (Value, Option<u64>)> {
    let packed = b"ab".repeat(200);
    let text = "x".repeat(100);
    let small = [
        ("name", "value"),
        ("zero", "0"),
        ("seven", "7"),
        ("minus", "-7"),
        ("kilo", "4000"),
        ("short", "30000"),
        ("three", "8000000"),
        ("int", "2000000000"),
        ("long", "9000000000000"),
        ("text", &text),
    ];
    let mut rows = vec![
        ("text", string(b"hello")),
        ("int8", string(b"-5")),
        ("int16", string(b"-3000")),
        ("int32", string(b"100000000")),
        ("long", string(b"123456789012345")),
        ("empty", string(b"")),
        ("packed", string(&packed)),
        ("binary", string(b"\xff\x00\n")),
        ("later", (string(b"v").0, Some(LATER_MS))),
        ("small", hash(&small)),
        ("wide", numbered()),
        ("dated", (hash(&[("a", "1")]).0, Some(LATER_MS))),
    ];
    if name != "redis-7.0" {
        rows.extend([("fields", hash(&[("a", "1"), ("b", "2")])), ("many", numbered())]);
    }
    let rows = rows.into_iter().map(|(key, row)| ((0, key.as_bytes().to_vec()), row));
    rows.chain([((1, b"other".to_vec()), string(b"db"))]).collect()
}

fn check_others(rows: &Rows, name: &str) {
    let mut left_out = rows.left_out.clone();
    left_out.sort();
    let kinds = [
        ("list", "list"),
        ("set", "numbers"),
        ("set", "set"),
        ("sorted set", "scores"),
        ("stream", "stream"),
    ];
    let kinds = kinds.map(|(kind, key)| (kind.to_owned(), key.as_bytes().to_vec()));
    assert_eq!(left_out, kinds, "{name}");
    let dated = if name == "redis-7.0" { vec![] } else { vec![b"a".to_vec(), b"f1".to_vec()] };
    let mut found = rows.dated_fields.clone();
    found.sort();
    assert_eq!(found, dated, "{name}");
}

#[test]
fn snapshots_of_each_server_are_read_whole() {
    for name in NAMES {
        let (rows, torn) = read(&fixture(&format!("{name}.rdb"))).unwrap();
        assert_eq!(rows.rows, expected(name), "{name}");
        assert_eq!(torn, None);
        check_others(&rows, name);
    }
}

#[test]
fn append_only_files_are_a_base_and_changes() {
    for name in NAMES {
        let (rows, torn) = read(&fixture(&format!("{name}.aof"))).unwrap();
        assert_eq!((&rows.rows, torn), (&expected(name), None), "{name}");
        check_others(&rows, name);
        let commands = [
            "APPEND text -more",
            "HDEL small name",
            "HINCRBY small seven 3",
            "DEL empty",
            "PEXPIREAT int8 4102444800000",
            "SET in-transaction 1",
            "INCR in-transaction",
        ];
        assert_eq!(rows.commands, commands, "{name}");
        let unclear = [("SETBIT".to_owned(), Some(b"bits".to_vec())), ("LPUSH".to_owned(), None)];
        assert_eq!(rows.unclear, unclear, "{name}");
    }
}

/// What is written as JSON or as commands is read back as the same rows.
#[test]
fn written_rows_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    for name in NAMES {
        let (mut json, mut resp) = (JsonWriter::default(), RespWriter::default());
        let (mut lines, mut commands) = (String::new(), Vec::new());
        // Database 1 has no place in either format.
        let mut wanted = expected(name);
        wanted.retain(|(db, _), _| *db == 0);
        let mut is_ours = true;
        read_file(&RealFs, &fixture(&format!("{name}.rdb")), &mut |event| {
            if let Event::String { entry, .. } | Event::Hash(entry) = &event {
                is_ours = entry.db == 0;
            }
            if is_ours {
                json.event(&event, &mut lines);
                resp.event(&event, &mut commands)?;
            }
            Ok(())
        })
        .unwrap();
        let path = dir.path().join("rows.json");
        std::fs::write(&path, &lines).unwrap();
        assert_eq!(read(&path).unwrap().0.rows, wanted, "{name}");
        let path = dir.path().join("rows.resp");
        std::fs::write(&path, &commands).unwrap();
        let found = read(&path).unwrap().0;
        let sets = found.commands.iter().filter(|line| line.starts_with("SET ")).count();
        let hashes = found.commands.iter().filter(|line| line.starts_with("HSET ")).count();
        assert_eq!(sets + hashes, wanted.len(), "{name}");
        assert!(found.commands.contains(&format!("SET later v PXAT {LATER_MS}")));
        assert!(found.commands.contains(&format!("PEXPIREAT dated {LATER_MS}")));
    }
}

#[test]
fn a_hash_of_several_lines_is_one_hash() {
    let dir = tempfile::tempdir().unwrap();
    let (mut json, mut lines) = (JsonWriter::default(), String::new());
    let value = vec![b'v'; 300_000];
    json.event(&Event::Hash(keyrack_migrate::Entry::new(b"big\xff")), &mut lines);
    for name in 0..10u8 {
        json.event(
            &Event::Field { name: &[name, 0xfe], value: &value, expires_ms: None },
            &mut lines,
        );
    }
    json.event(&Event::EndHash, &mut lines);
    assert_eq!(lines.lines().count(), 3);
    let path = dir.path().join("rows.json");
    std::fs::write(&path, &lines).unwrap();
    let (rows, _) = read(&path).unwrap();
    let fields = (0..10u8).map(|name| (vec![name, 0xfe], value.clone())).collect();
    assert_eq!(rows.rows[&(0, b"big\xff".to_vec())], (Value::Hash(fields), None));
    // Without its last line the hash has no end.
    let cut = lines.lines().take(2).map(|line| line.to_owned() + "\n").collect::<String>();
    std::fs::write(&path, &cut).unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains(&format!("damaged at byte {}", cut.len())), "{error}");
}
