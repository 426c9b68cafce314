//! The dispatch table: the handler of each command, in the order of the table of commands.
//!
//! ```text
//!   request --find name--> index --+--> table::COMMANDS[index]   the facts
//!                                  +--> HANDLERS[index]          the function
//! ```

use keyrack_wire::resp::Request;

use crate::redis::call::Handler;
use crate::redis::command::Command;
use crate::redis::commands::{
    arithmetic, client, config, expiry, gets, hash_expiry, hash_scan, hashes, info, introspect,
    keys, scan, server, session, slow, strings, transaction,
};
use crate::redis::fault::{Fault, unknown_command, unknown_subcommand};
use crate::redis::table::{self, for_each_command};

/// The handler of a command, and those of its subcommands.
struct Handlers {
    run: Handler,
    subcommands: &'static [Handler],
}

/// The last column but one of the rows.
macro_rules! handlers {
    ($($family:ident { $(
        $name:literal, $arity:literal, $flags:expr, $keys:expr, $since:literal, $run:path,
        $summary:literal $({ $(
            $sub_name:literal, $sub_arity:literal, $sub_flags:expr, $sub_keys:expr,
            $sub_since:literal, $sub_run:path, $sub_summary:literal;
        )* })?;
    )* })*) => {
        [$($(Handlers { run: $run, subcommands: &[$($($sub_run,)*)?] },)*)*]
    };
}

static HANDLERS: [Handlers; table::COUNT] = for_each_command!(handlers);

/// The command or subcommand that a request names.
#[derive(Clone, Copy)]
pub(crate) struct Resolved {
    /// The place of the command, or of the subcommand's command, in the table.
    pub(crate) index: u16,
    pub(crate) command: &'static Command,
    pub(crate) run: Handler,
}

/// Finds the command of a request, which must have as many words as the command takes.
#[inline(always)]
pub(crate) fn resolve(request: &Request<'_, '_>) -> Result<Resolved, Fault> {
    let Some(index) = table::find(request.arg(0)) else {
        return Err(unknown_command(request.arg(0), request.args().skip(1)));
    };
    let command = &table::COMMANDS[usize::from(index)];
    if !command.subcommands.is_empty() && request.len() >= 2 {
        return resolve_subcommand(index, request);
    }
    if command.takes(request.len()) {
        Ok(Resolved { index, command, run: HANDLERS[usize::from(index)].run })
    } else {
        Err(Fault::arity(command.name, None))
    }
}

/// As [`resolve`], for the second word of a command that has subcommands.
#[inline(never)]
fn resolve_subcommand(index: u16, request: &Request<'_, '_>) -> Result<Resolved, Fault> {
    let command = &table::COMMANDS[usize::from(index)];
    let Some(sub_index) = command.subcommand_index(request.arg(1)) else {
        return Err(unknown_subcommand(command.name, request.arg(1)));
    };
    let subcommand = &command.subcommands[sub_index];
    if subcommand.takes(request.len()) {
        let run = HANDLERS[usize::from(index)].subcommands[sub_index];
        Ok(Resolved { index, command: subcommand, run })
    } else {
        Err(Fault::arity(subcommand.name, Some(command.name)))
    }
}
