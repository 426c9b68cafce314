//! Another process with the store on a real disk, killed while it writes.

use crate::support::get;
use keyrack_rowstore::{Options, RowStore, Rows};
use keyrack_vfs::RealFs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Where the child finds its store; without it, its test does nothing.
const DIR_VARIABLE: &str = "KEYRACK_TEST_ROWS";
const KEYS: u64 = 50;

fn open(dir: &Path) -> keyrack_store::Result<RowStore> {
    let options = Options { checkpoint_log_bytes: 200_000, ..Options::default() };
    RowStore::open(Arc::new(RealFs), dir, options.with_segment_bytes(1 << 20), &|_| {})
}

/// The other process: numbers its writes, and says each number once it is flushed.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else { return };
    let store = open(Path::new(&dir)).unwrap();
    let mut session = store.session().unwrap();
    let mut n = (0..KEYS)
        .filter_map(|key| get(&mut *session, &key.to_be_bytes()))
        .map(|value| u64::from_le_bytes(value[..8].try_into().unwrap()))
        .max()
        .unwrap_or(0);
    let mut out = std::io::stdout().lock();
    loop {
        n += 1;
        let mut value = n.to_le_bytes().to_vec();
        value.resize(8 + (n % 300) as usize, 1);
        session.put(&(n % KEYS).to_be_bytes(), &value, 0, 0).unwrap();
        if n.is_multiple_of(3) {
            session.flush().unwrap();
            // The one who listens ends us; when he has gone, we end.
            if writeln!(out, "SAID {n}").and_then(|()| out.flush()).is_err() {
                return;
            }
        }
    }
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
        .env(DIR_VARIABLE, dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_process_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let mut last = 0;
    for kill in 1..=8_u64 {
        let mut child = start(&dir);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut heard = 0;
        while heard < 300 * kill {
            let line = lines.next().expect("the child goes on until it is killed").unwrap();
            if let Some((_, n)) = line.split_once("SAID ") {
                last = n.parse().unwrap();
                heard += 1;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts as well.
        for line in lines.map_while(|line| line.ok()) {
            if let Some(n) = line.split_once("SAID ").and_then(|(_, n)| n.parse().ok()) {
                last = n;
            }
        }
        let store = open(&dir).unwrap();
        let mut session = store.session().unwrap();
        for n in last - KEYS + 1..=last {
            let value = get(&mut *session, &(n % KEYS).to_be_bytes()).unwrap();
            let found = u64::from_le_bytes(value[..8].try_into().unwrap());
            assert!(found >= n, "kill {kill}: {found}, but {n} was acknowledged");
            assert_eq!(value.len() as u64, 8 + found % 300);
        }
    }
}
