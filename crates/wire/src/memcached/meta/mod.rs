//! The meta commands of the text protocol: one command for each thing that can be done to a row,
//! and flags for how and what to tell about it.
//!
//! ```text
//!   mg KEY FLAG*\r\n            HD FLAG*\r\n          EN\r\n
//!                               VA BYTES FLAG*\r\n DATA\r\n
//!   ms KEY BYTES FLAG*\r\n      HD NS EX NF FLAG*\r\n
//!   DATA\r\n
//!   md ma KEY FLAG*\r\n         as above
//!   me KEY [b]\r\n              ME KEY NAME=VALUE*\r\n
//!   mn\r\n                      MN\r\n
//! ```
//!
//! A flag is a letter, and for some letters a word right after it. Capitals take a word and change
//! what is done; small letters mostly ask for something in the reply, and stand there in the order
//! in which they were asked for.

mod flags;
mod reply;
mod request;

pub(super) mod parse;

pub use flags::{Flag, FlagWords, Flags};
pub use reply::{Code, Facts, Reply, ReplyLine, write_reply};
pub use request::{Key, Request, SetMode, Verb};
