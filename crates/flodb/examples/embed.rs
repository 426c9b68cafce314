//! A store in twenty lines.
//!
//! ```text
//!   cargo run --release -p keyrack-flodb --example embed -- DIRECTORY
//! ```
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use keyrack_flodb::{Batch, Db, Options, WriteOptions};

fn main() -> keyrack_flodb::Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "flodb-example".to_owned());
    let db = Db::open(&dir, Options::new())?;
    db.put(b"fruit/apple", b"red")?;
    let before = db.snapshot();
    let mut batch = Batch::new();
    batch.put(b"fruit/pear", b"green");
    batch.delete(b"fruit/apple");
    db.write(&batch, WriteOptions { sync: true })?;
    println!("apple now: {:?}", db.get(b"fruit/apple")?);
    println!("apple then: {:?}", db.get_at(&before, b"fruit/apple", <[u8]>::to_vec)?);
    for entry in db.prefix("fruit/") {
        let (key, value) = entry?;
        println!("{} is {}", key.escape_ascii(), value.escape_ascii());
    }
    db.close()
}
