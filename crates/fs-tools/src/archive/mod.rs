//! Trees as archives of tar, as lines of JSON, and as files of Parquet.
//!
//! ```text
//!   import    a reader of the format --items--> the name space
//!   export    a walk of the name space --items--> a writer of the format
//! ```
//!
//! Both directions stream: one entry is in memory at a time, and a piece of a large file.
//! Directories get their times and rights at the end, because entries in them come later.

mod export;
mod format;
mod import;
mod item;
pub(crate) mod jsonl;
#[cfg(feature = "parquet")]
mod parquet;
mod tar;

pub use export::{Export, export};
pub use format::Format;
pub use import::{Import, import};
