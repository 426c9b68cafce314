//! What a program owes its caller: results on standard output, messages on standard error, an
//! exit status, an orderly end after a signal, and a log.
//!
//! | file | holds |
//! |---|---|
//! | `output` | standard output and standard error, also while a screen covers the terminal |
//! | `failure` | why a command ends early, and the exit status of that |
//! | `signals` | the first SIGINT or SIGTERM ends the work, a later one the process |
//! | `usage` | an error of the command line in one line |
//! | `text` | bytes as text: hexadecimal, or printable |
//! | `log`, `server` | the log of a server, and a server that runs until a signal comes |
//!
//! The command `keyrack` and the tools below it print through this crate alone.
#![forbid(unsafe_code)]

mod failure;
mod log;
mod output;
mod server;
mod signals;
mod text;
mod usage;

pub use failure::{Failure, Outcome};
pub use log::{announce, log_start, start as start_log};
pub use output::{Output, Screen, Stdout, print, refuse, release, say_line, set_screen};
pub use server::{log_progress, open_logged, row_options, serve_until_end};
pub use signals::{check, flag, on_signals, set_on_signals};
pub use text::{escaped, from_hex, hex};
pub use usage::{explain, usage_line};

/// Done, and the answer is yes.
pub const DONE: u8 = 0;
/// Done, and the answer is no.
pub const NO: u8 = 1;
/// Could not run.
pub const COULD_NOT: u8 = 2;
/// Files are damaged.
pub const DAMAGED: u8 = 3;
/// Ended by a signal; what was measured has been written.
pub const INTERRUPTED: u8 = 130;

/// Writes a line to standard error, as `eprintln!` does. If the reader has gone (`2>&1 | head`),
/// the line is lost and the run goes on, where `eprintln!` would panic.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::say_line(format_args!($($text)*)) };
}
