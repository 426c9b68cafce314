//! Append-only files: the commands that changed a server, in the order in which it executed them.
//!
//! ```text
//!   appendonly.aof                one file: commands, or a snapshot and commands
//!   appendonlydir/*.manifest      since Redis 7: a base (snapshot or commands), then increments
//!   file.resp                     commands for redis-cli --pipe
//! ```
//!
//! A server that stops in the middle of a write leaves a torn command at the end of the last file.
//! It is not executed, as the server would not; the caller is told its place. A transaction
//! without its end is torn as well.

mod commands;
mod manifest;

pub(crate) use commands::{CommandReader, Found};
pub(crate) use manifest::{files, manifest_in};

use crate::args::Args;
use crate::error::Result;
use crate::event::{Event, Phase, Progress, Visit};
use crate::input::Input;
use crate::rdb;
use crate::replay::Replay;

/// Reads a file to its end. Returns the offset of a torn command, which only the last file of
/// several may have.
pub(crate) fn read(
    input: &mut Input<'_>,
    replay: &mut Replay,
    is_last: bool,
    visit: Visit<'_>,
) -> Result<Option<u64>> {
    if input.peek()?.is_some_and(|first| first != b'*' && first != b'#') {
        rdb::read(input, visit)?;
    }
    let mut reader = CommandReader::new(true);
    let mut args = Args::default();
    let torn = loop {
        let at = input.offset();
        match reader.next(input, &mut args)? {
            Found::Command => replay.command(&args, at, input, visit)?,
            Found::End => break None,
            Found::Torn(at) => break Some(at),
        }
        let (done, total) = (input.offset(), input.bytes_total());
        visit(Event::Progress(Progress { phase: Phase::Bytes, done, total }))?;
    };
    let torn = replay.take_open_transaction().or(torn);
    match torn {
        Some(at) if !is_last => {
            Err(input.damage(at, "a torn command or transaction before the last file"))
        }
        torn => Ok(torn),
    }
}
