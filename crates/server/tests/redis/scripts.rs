//! Golden scripts: commands, and below each what it answers.
//!
//! ```text
//!   > SET a 1            a request of connection 0
//!   OK
//!   2> GET a             one of connection 2
//!   "1"
//!   @ 5000               the clock goes on by so many milliseconds
//!   # what follows is ours alone, and is not compared with the real one
//!   #! ours
//!   #! same
//! ```
//!
//! With `KEYRACK_REWRITE=1` the files are written instead of compared. Where redis-server is
//! installed the parts that are the same are compared with it (`compare`).

use crate::redis::tool::{Client, Site, draw, words};
use keyrack_server::redis::Options;
use keyrack_vfs::{Fs as _, RealFs};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redis/scripts")
}

/// The scripts, by name.
pub(crate) fn scripts() -> Vec<(String, String)> {
    let entries = RealFs.list(&directory()).unwrap();
    let names = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned());
    let mut scripts: Vec<(String, String)> = names
        .map(|name| {
            let bytes = RealFs.read(&directory().join(&name)).unwrap();
            (name, String::from_utf8(bytes).unwrap())
        })
        .collect();
    scripts.sort();
    assert!(scripts.len() > 5, "the scripts are there");
    scripts
}

/// A request in a script: of which connection, and its words.
pub(crate) fn request(line: &str) -> Option<(usize, &str)> {
    let (who, words) = line.split_once("> ")?;
    let who = if who.is_empty() { 0 } else { who.parse().ok()? };
    Some((who, words))
}

fn run(script: &str) -> String {
    let mut options = Options::default();
    if script.contains("#! password") {
        options.password = keyrack_server::Password::new(b"secret");
    }
    let site = Site::new(options, 1);
    let mut the_loop = site.a_loop(0);
    let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
    let mut text = String::new();
    for line in script.lines() {
        if line.starts_with('#') || line.is_empty() {
            text.push_str(line);
            text.push('\n');
            continue;
        }
        if let Some(ms) = line.strip_prefix("@ ") {
            the_loop.now_ms += ms.parse::<u64>().unwrap();
        } else if let Some((who, request)) = request(line) {
            let client = clients.entry(who).or_insert_with(|| the_loop.client());
            text.push_str(line);
            text.push('\n');
            let args = words(request);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let mut bytes = Vec::new();
            keyrack_wire::resp::command(&mut bytes, &args);
            text.push_str(&draw(&the_loop.feed(client, &bytes)));
            if client.is_closed {
                text.push_str("closed\n");
            }
            continue;
        } else {
            continue;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

#[test]
fn every_script_is_answered_as_it_says() {
    let rewrite = std::env::var_os("KEYRACK_REWRITE").is_some();
    for (name, script) in scripts() {
        let found = run(&script);
        if rewrite {
            RealFs.write_atomic(&directory().join(&name), found.as_bytes()).unwrap();
            continue;
        }
        let lines = script.lines().zip(found.lines()).enumerate();
        for (index, (expected, found)) in lines {
            assert_eq!(expected, found, "{name}, line {}", index + 1);
        }
        assert_eq!(script.lines().count(), found.lines().count(), "{name}");
    }
}
