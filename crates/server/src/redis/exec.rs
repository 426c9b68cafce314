//! EXEC: runs the commands that a transaction has queued, or none of them.

use keyrack_store::Error;
use keyrack_wire::resp::{Limits, RequestParser, Writer};

use crate::redis::call::Call;
use crate::redis::commands::transaction::version_of;
use crate::redis::context::{CommandContext, Context};
use crate::redis::counters::bump;
use crate::redis::dispatch::resolve;
use crate::redis::fault::{Done, Fault};
use crate::redis::shown::Shown;
use crate::redis::slowlog::shortened;
use crate::redis::state::{Queue, State};

/// EXEC. It answers an error, and changes nothing, if the queue is broken or costs too much.
pub(crate) fn exec(state: &mut State, cx: &mut Context<'_, '_>, output: &mut Vec<u8>) -> Done {
    let watched = std::mem::take(&mut state.watched);
    let Some(queue) = state.queue.take() else {
        state.watched = watched;
        return Err(Fault::Text("ERR EXEC without MULTI"));
    };
    state.end_transaction();
    if queue.is_broken {
        return Err(Fault::EXEC_ABORT);
    }
    let (reader, mut ctx) = cx.split();
    let units_max = ctx.shared.options.transaction_work_max;
    if queue.count as u64 > units_max {
        return Err(Fault::too_much_work(units_max).aborting());
    }
    reader.exclusive(|| {
        for (key, version) in &watched.versions {
            if version_of(&mut ctx, key)? != *version {
                Writer::new(output, state.protocol()).null_array();
                return Ok(());
            }
        }
        ctx.rows.begin_group()?;
        let work = ctx.work;
        state.is_executing = true;
        let done = work.limited(units_max, || run_all(state, &mut ctx, &queue, output));
        state.is_executing = false;
        let Some(()) = done else {
            ctx.rows.cancel_group();
            return Err(Fault::too_much_work(units_max).aborting());
        };
        // Refused as a whole, before anything was changed.
        ctx.rows.commit_group().map_err(|error| match error {
            Error::Usage { .. } | Error::OutOfMemory { .. } => Fault::from(error).aborting(),
            error => error.into(),
        })?;
        Ok(ctx.rows.flush_headers()?)
    })
}

/// Runs the queued commands, up to the one that exceeds the limit of work.
fn run_all(state: &mut State, ctx: &mut CommandContext<'_>, queue: &Queue, output: &mut Vec<u8>) {
    let start = output.len();
    Writer::new(output, state.protocol()).array(queue.count);
    let mut parser = RequestParser::new();
    let limits = Limits {
        bulk_bytes_max: u64::MAX >> 1,
        message_bytes_max: u64::MAX >> 1,
        ..Limits::default()
    };
    let mut rest = &queue.requests[..];
    // The requests were written by `queue`, so they are whole.
    while let Ok(Some(args)) = parser.next(&mut rest, &limits) {
        let place = output.len();
        let done = resolve(&args).and_then(|found| {
            let index = usize::from(found.index);
            let counters = ctx.counters();
            bump(&counters.calls[index], 1);
            let reply = Writer::new(output, state.protocol());
            let began = ctx.local.clock.ticks();
            let command = found.command;
            let mut call =
                Call { command, args, reply, ctx: ctx.reborrow(), state, is_whole: true };
            let done = (found.run)(&mut call);
            let taken = ctx.local.spent(counters, found.index, began);
            counters.took(found.index, taken, 1);
            if ctx.shared.is_slow(taken) {
                let args = shortened(Shown::new(args));
                ctx.shared.note_slow(&state.client, found.index, taken, ctx.now_ms, args);
            }
            bump(&counters.failed_calls[index], u64::from(done.is_err()));
            done
        });
        // A transaction may ask for more reply bytes than it may have. Its writes still happen.
        let is_too_large = output.len() - start > ctx.shared.options.reply_bytes_max;
        match done {
            Ok(()) if is_too_large => {
                state.fail(ctx.counters(), &Fault::REPLY_TOO_LARGE, output, place);
            }
            Ok(()) => {}
            Err(fault) => state.fail(ctx.counters(), &fault, output, place),
        }
        ctx.work.add(1, output.len() - place);
        if ctx.work.is_over() {
            return;
        }
    }
}
