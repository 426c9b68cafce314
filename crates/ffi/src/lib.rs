//! # keyrack-ffi: the border to C
//!
//! The libraries with an interface for C (`deltafs-c`, `leveldb-c`, `flodb-c`) get pointers and
//! lengths, and give handles and memory of `malloc`. Here these become references, slices and boxes
//! of Rust, and back.
//!
//! ```text
//!   const void *key, size_t len  --bytes-->   &[u8]        null and absurd lengths are errors
//!   const char *path             --text-->    &[u8]
//!   handle *                     --handle-->  &T           give makes one, destroy frees it
//!   char *                       <--copy-->   &[u8]        memory of malloc
//!   failure                      <--caught--  a panic
//! ```
//!
//! A pointer that is null where it must not be is [`BadPointer`], which each library reports in its
//! own manner. Everything else about pointers is the caller's promise, and stands at each function
//! under "Safety".

mod memory;
mod panics;
mod pointers;

pub use memory::{copy_bytes, copy_text};
pub use panics::{Panicked, caught, or_else};
pub use pointers::{
    BadPointer, bytes, destroy, give, handle, handle_mut, put, required, room, text,
};
