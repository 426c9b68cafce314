//! Traces as files: written, read back, cut, damaged; and those of others.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod foreign;
mod native;
