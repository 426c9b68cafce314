//! What is asked for and what is stored: keys, which of them, values.
//!
//! ```text
//!   Popularity --index--> KeyText --bytes--> request
//!                            |
//!                 Values: a slice of a pool, or bytes that follow from the key (--verify)
//! ```
//!
//! Which random number makes what is in `arrival`; the distributions of popularity are those of
//! `workload`.

mod keys;
mod popularity;
mod sample;
mod values;

pub use keys::{KeyText, split_assoc};
pub use popularity::Popularity;
pub use sample::Sample;
pub use values::{Damage, Values};

#[cfg(test)]
mod tests;
