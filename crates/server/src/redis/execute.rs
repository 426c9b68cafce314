//! One request: it is admitted or refused, and then queued or executed.

use keyrack_wire::resp::{Request, Writer};

use crate::redis::call::Call;
use crate::redis::command::{AT_ONCE, EXCLUSIVE, NO_AUTH, NO_MULTI, RUNS_QUEUE};
use crate::redis::commands::transaction;
use crate::redis::context::Context;
use crate::redis::counters::bump;
use crate::redis::dispatch::{Resolved, resolve};
use crate::redis::exec::exec;
use crate::redis::fault::{Done, Fault};
use crate::redis::shown::Shown;
use crate::redis::slowlog::shortened;
use crate::redis::state::{Replies, State};
use crate::redis::table;

/// Executes, queues or refuses one request. `last` becomes its command.
pub(crate) fn handle_request(
    state: &mut State,
    cx: &mut Context<'_, '_>,
    request: Request<'_, '_>,
    output: &mut Vec<u8>,
    last: &mut Option<u16>,
) {
    let place = output.len();
    match admit(state, cx, &request) {
        Ok(found) => {
            *last = Some(found.index);
            let queued = state.queue.is_some() && !found.command.is(AT_ONCE);
            let done = if queued {
                transaction::queue(state, cx.shared, &request, output)
            } else {
                let (counters, index) = (cx.counters(), usize::from(found.index));
                bump(&counters.calls[index], 1);
                let began = cx.local.clock.ticks();
                let done = run(state, cx, found, request, output);
                let taken = cx.local.spent(counters, found.index, began);
                match &mut state.task {
                    // The time of the other slices comes to it.
                    Some(task) => task.note_first(taken, Shown::new(request)),
                    None => noted(cx, state, found.index, taken, || Shown::new(request)),
                }
                bump(&counters.failed_calls[index], u64::from(done.is_err()));
                done
            };
            if let Err(fault) = done {
                state.fail(cx.counters(), &fault, output, place);
            }
        }
        Err(mut fault) => {
            if let Some(index) = table::find(request.arg(0)) {
                bump(&cx.counters().rejected_calls[usize::from(index)], 1);
            }
            if request.arg(0).eq_ignore_ascii_case(b"exec") {
                state.end_transaction();
                fault = fault.aborting();
            }
            refuse(state, cx, fault, output);
        }
    }
    if state.task.is_none() {
        state.drop_unwanted_reply(output, place);
    } else if state.replies != Replies::All {
        // It counts at the end of the task.
        output.truncate(place);
    }
}

/// Notes how long a command took.
#[inline]
fn noted<'p, 'i: 'p>(
    cx: &Context<'_, '_>,
    state: &State,
    index: u16,
    taken: u64,
    request: impl FnOnce() -> Shown<'p, 'i>,
) {
    cx.counters().took(index, taken, 1);
    if cx.shared.is_slow(taken) {
        let args = shortened(request());
        cx.shared.note_slow(&state.client, index, taken, cx.now_ms, args);
    }
}

/// Refuses a request before it is executed. This breaks the transaction that it was for.
#[cold]
pub(crate) fn refuse(state: &mut State, cx: &Context<'_, '_>, fault: Fault, output: &mut Vec<u8>) {
    state.break_queue();
    bump(&cx.counters().rejected, 1);
    state.put_fault(&fault, output);
}

/// The command of a request, if it may be executed.
#[inline]
fn admit(
    state: &State,
    cx: &Context<'_, '_>,
    request: &Request<'_, '_>,
) -> Result<Resolved, Fault> {
    let found = resolve(request)?;
    let command = found.command;
    if !state.is_authenticated && !command.is(NO_AUTH) && cx.shared.settings.is_protected() {
        return Err(Fault::NO_AUTH);
    }
    if command.is(NO_MULTI) && state.queue.is_some() {
        return Err(Fault::Text("ERR Command not allowed inside a transaction"));
    }
    // Each key is at least one unit.
    let units_max = cx.shared.options.transaction_work_max;
    let words = request.len();
    if words as u64 > units_max && command.keys.places(words).count() as u64 > units_max {
        return Err(Fault::too_much_work(units_max));
    }
    Ok(found)
}

/// Executes a command that was admitted.
#[inline]
fn run(
    state: &mut State,
    cx: &mut Context<'_, '_>,
    found: Resolved,
    args: Request<'_, '_>,
    output: &mut Vec<u8>,
) -> Done {
    let command = found.command;
    if command.is(RUNS_QUEUE) {
        return exec(state, cx, output);
    }
    if command.is(EXCLUSIVE) {
        match run_exclusive(state, cx, found, args, output) {
            // COPY of a large hash, which would take long: in slices.
            Err(Fault::Large(_)) => {}
            done => return done,
        }
    }
    let (_, ctx) = cx.split();
    let reply = Writer::new(output, state.protocol());
    let mut call = Call { command, args, reply, ctx, state, is_whole: false };
    (found.run)(&mut call)
}

/// Executes a command over several keys while no other loop serves requests.
fn run_exclusive(
    state: &mut State,
    cx: &mut Context<'_, '_>,
    found: Resolved,
    args: Request<'_, '_>,
    output: &mut Vec<u8>,
) -> Done {
    let command = found.command;
    let (reader, mut ctx) = cx.split();
    let reply = Writer::new(output, state.protocol());
    let units_max = ctx.shared.options.transaction_work_max;
    reader.exclusive(|| {
        ctx.rows.begin_group()?;
        let work = ctx.work;
        let mut call = Call { command, args, reply, ctx: ctx.reborrow(), state, is_whole: true };
        let done = work.limited(units_max, || (found.run)(&mut call));
        match done.unwrap_or_else(|| Err(Fault::too_much_work(units_max))) {
            Ok(()) => {
                ctx.rows.commit_group()?;
                Ok(ctx.rows.flush_headers()?)
            }
            // A command over several keys does all of it or nothing.
            Err(fault) => {
                ctx.rows.cancel_group();
                Err(fault)
            }
        }
    })
}
