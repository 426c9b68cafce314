//! Directories of LevelDB: some that LevelDB 1.23 wrote, kept in `fixtures`, and some made here.
//!
//! Beside each kept directory stands what LevelDB itself listed when it wrote it: a line for each
//! key, with the key in hexadecimal, the length of the value, and the value's CRC-32C.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test says what went wrong by panicking")]

mod crafted;
mod damage;
mod fixtures;
mod support;
