//! Commands out of a file or a connection.

use crate::args::Args;
use crate::error::Result;
use crate::input::Input;
use keyrack_wire::resp::{Limits, RequestParser};

/// The longest line of an annotation.
const NOTE_BYTES_MAX: usize = 1024;

/// What came next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A whole command.
    Command,
    /// Nothing: the bytes end behind a command.
    End,
    /// A part of a command that begins at this offset: the bytes end within it.
    Torn(u64),
}

/// Finds commands in an input.
pub(crate) struct CommandReader {
    parser: RequestParser,
    limits: Limits,
    /// A file may have lines that begin with `#`; a connection has empty lines.
    is_file: bool,
}

impl CommandReader {
    pub(crate) fn new(is_file: bool) -> Self {
        let limits = Limits { skip_bytes_max: 0, ..Limits::default() };
        CommandReader { parser: RequestParser::new(), limits, is_file }
    }

    /// Replaces `args` by those of the next command. After an error of the connection it can be
    /// called again.
    pub(crate) fn next(&mut self, input: &mut Input<'_>, args: &mut Args) -> Result<Found> {
        loop {
            let at = input.offset();
            match input.peek()? {
                None => return Ok(Found::End),
                Some(b'*') => return self.command(input, args),
                Some(b'#') if self.is_file => {
                    if !pass_note(input)? {
                        return Ok(Found::Torn(at));
                    }
                }
                Some(b'\n' | b'\r') if !self.is_file => input.consume(1),
                Some(_) => return input.damaged("no command begins here"),
            }
        }
    }

    fn command(&mut self, input: &mut Input<'_>, args: &mut Args) -> Result<Found> {
        let at = input.offset();
        while input.buffered().len() < 2 {
            if !input.fill()? {
                return Ok(Found::Torn(at));
            }
        }
        // The parser would pass over a command without arguments, and go on with what follows.
        if !matches!(input.buffered()[1], b'1'..=b'9') {
            return Err(input.damage(at, "a command without arguments"));
        }
        loop {
            let mut bytes = input.buffered();
            let before = bytes.len();
            let found = match self.parser.next(&mut bytes, &self.limits) {
                Ok(Some(request)) => {
                    args.clear();
                    request.args().for_each(|arg| args.push(arg));
                    true
                }
                Ok(None) => false,
                Err(error) => return Err(input.damage(at, error.to_string())),
            };
            let taken = before - bytes.len();
            input.consume(taken);
            if found {
                return Ok(Found::Command);
            }
            if taken > 0 {
                return Err(input.damage(at, "an argument that is too long"));
            }
            if !input.fill()? {
                return Ok(Found::Torn(at));
            }
        }
    }
}

/// Passes over a line, such as the time at which the commands behind it came. False if the file
/// ends within it.
fn pass_note(input: &mut Input<'_>) -> Result<bool> {
    loop {
        if let Some(end) = input.buffered().iter().position(|byte| *byte == b'\n') {
            input.consume(end + 1);
            return Ok(true);
        }
        if input.buffered().len() > NOTE_BYTES_MAX {
            return input.damaged("an annotation without an end");
        }
        if !input.fill()? {
            return Ok(false);
        }
    }
}
