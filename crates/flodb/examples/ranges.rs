//! What an entry of a range costs beside one of the cursor: to be run under a counter of
//! instructions, once for each way.
//!
//! ```text
//!   cargo build --release -p keyrack-flodb --example ranges
//!   valgrind --tool=cachegrind --cache-sim=no target/release/examples/ranges cursor 20
//! ```
//!
//! A store in memory of 20,000 entries of 16 + 100 bytes, half of them in one level and half in the
//! memtable, is read from end to end as often as the second argument says. The difference of two
//! counts is what the passes between cost.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use keyrack_flodb::{Db, Options, Result};
use keyrack_vfs::MemFs;
use std::path::Path;
use std::sync::Arc;

const ENTRIES: u32 = 20_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let way = arguments.next().unwrap_or_else(|| "cursor".to_owned());
    let passes: u32 = arguments.next().and_then(|passes| passes.parse().ok()).unwrap_or(1);
    let options = Options { compaction_threads: 0, ..Options::default() };
    let db = Db::open_in(Arc::new(MemFs::new()), Path::new("/store"), options)?;
    for half in 0..2 {
        for number in (half..ENTRIES).step_by(2) {
            db.put(format!("key {number:012}").as_bytes(), &[7; 100])?;
        }
        if half == 0 {
            db.compact_range(None, None)?;
        }
    }
    let mut bytes = 0;
    for _ in 0..passes {
        bytes += pass(&db, &way)?;
    }
    println!("{way}: {passes} passes over {ENTRIES} entries, {bytes} bytes");
    Ok(())
}

fn pass(db: &Db, way: &str) -> Result<usize> {
    let mut bytes = 0;
    match way {
        "lent" => {
            let mut range = db.range("key ".."kez");
            while let Some((key, value)) = range.next_entry()? {
                bytes += key.len() + value.len();
            }
        }
        "owned" => {
            for entry in db.range("key ".."kez") {
                let (key, value) = entry?;
                bytes += key.len() + value.len();
            }
        }
        "keys" => {
            for key in db.range("key ".."kez").keys() {
                bytes += key?.len();
            }
        }
        "lent-back" => {
            let mut range = db.range("key ".."kez");
            while let Some((key, value)) = range.next_entry_back()? {
                bytes += key.len() + value.len();
            }
        }
        "cursor-back" => {
            let mut iter = db.iter()?;
            iter.seek_back(b"kez")?;
            while let Some((key, value)) = iter.entry().filter(|(key, _)| *key >= &b"key "[..]) {
                bytes += key.len() + value.len();
                iter.prev()?;
            }
        }
        // As a caller without ranges writes it, who has to look at the bound as well.
        _ => {
            let mut iter = db.iter()?;
            iter.seek(b"key ")?;
            while let Some((key, value)) = iter.entry().filter(|(key, _)| *key < &b"kez"[..]) {
                bytes += key.len() + value.len();
                iter.next()?;
            }
        }
    }
    Ok(bytes)
}
