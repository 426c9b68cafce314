//! # The part of msgpack that Masstree's messages are made of
//!
//! ```text
//!   93        2a   02   a3 6b 65 79         [42, 2, "key"]
//!   array(3)  42   2    string(3) k e y
//! ```
//!
//! [`Item`] is one element: a number, a string, or the head of an array or a map, whose elements
//! follow. [`Scan`] finds the end of a whole value in a connection's bytes, a part at a time, with
//! a stack of fixed size. [`Reader`] walks through a value that is whole. The functions `put_*`
//! write, always in the shortest form.
//!
//! Strings are read in all forms (`str`, `bin`, and what old writers call raw, which has the codes
//! of `str`) and written as `str`. Floating-point numbers and extensions are passed over.
//!
//! The public description is the "MessagePack specification" of msgpack.org.

mod int;
mod item;
mod reader;
mod scan;
mod write;

pub use int::Int;
pub use item::{FormatError, Item, item};
pub use reader::Reader;
pub use scan::{DEPTH_MAX, Scan, ScanLimits};
pub use write::{
    put_array, put_array_at, put_bool, put_int, put_map, put_nil, put_str, reserve_array,
};
