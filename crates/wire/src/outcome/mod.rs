//! What came of a request, from the bytes of its reply.
//!
//! ```text
//!   input --Parser::step--> More | Eaten(n) | Done(n, Outcome)
//! ```
//!
//! The other parsers of this crate check and lend everything that a reply holds. A load generator
//! asks only where a reply ends and whether it was a hit, and it asks often. These parsers look at
//! no more than that: they skip the bytes of a value without copying them, and count down a value
//! that is longer than the buffer.
//!
//! **Invariant:** a reply means the same however it was cut into reads. An announced length takes
//! no memory.

mod binary;
mod kind;
mod meta;
mod parser;
mod resp;
mod result;
mod state;
mod text;
mod whole;

pub use kind::Kind;
pub use parser::{Dialect, Parser};
pub use result::{Failure, Outcome};
pub use state::{Malformed, Step};
pub use whole::whole_hit;
