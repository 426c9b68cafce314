//! A connection: bytes in, replies out, commands carried out in between.
//!
//! ```text
//!   input    GET a  GET b  GET c  SET d 1  KEYS *  GET e
//!            `------------------'    |       |     waits in the input
//!              one multi_get        put    a task: a slice now, the others in later iterations
//! ```
//!
//! * Replies come in the order of requests. Neighbouring GETs are looked up together, which hides
//!   the memory's latency, and are answered in their order.
//! * **Invariant:** what is answered does not depend on how the input was cut.
//! * **Invariant:** a connection stops when it has written enough for an iteration, so a pipeline
//!   of small requests for large values cannot grow the output beyond that and what one run of gets
//!   gives.
//! * While a task is under way the connection takes no further request.

use std::sync::atomic::Ordering::Relaxed;

use keyrack_net::{Closer, LoopMemory, Served, Verdict};
use keyrack_wire::resp::{Request, RequestParser, Writer};

use crate::redis::call::Call;
use crate::redis::clients::Listed;
use crate::redis::command::{
    AT_ONCE, Command, EXCLUSIVE, FAST, NO_AUTH, NO_MULTI, READ, RUNS_QUEUE, WRITE,
};
use crate::redis::context::{CommandContext, Context};
use crate::redis::fault::{Done, Fault, unknown_command, unknown_subcommand};
use crate::redis::gets::{RUN_AT_FIRST, Run};
use crate::redis::shared::{Shared, bump};
use crate::redis::state::State;
use crate::redis::{table, transaction};

/// One client's connection.
#[derive(Debug)]
pub struct Connection {
    parser: RequestParser,
    state: State,
    /// The place in the list of connections, given up when the connection is to be closed.
    listed: Option<Listed>,
    /// GETs that are looked up together.
    run_max: usize,
}

impl Connection {
    /// A connection from `peer` to `local`, both as CLIENT LIST is to show them. What it keeps is
    /// counted in `memory`.
    #[must_use]
    pub fn new(shared: &Shared, memory: &LoopMemory, peer: &str, local: &str, now_ms: u64) -> Self {
        let listed = shared.clients.add(peer, local, now_ms);
        let is_authenticated = !shared.settings.is_protected();
        Connection {
            parser: RequestParser::new(),
            state: State::new(listed.client.clone(), is_authenticated, memory.charge()),
            listed: Some(listed),
            run_max: RUN_AT_FIRST,
        }
    }

    /// The number by which CLIENT LIST knows it.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.state.client.id
    }

    /// Says what ends it from another thread, for CLIENT KILL. Said once; without it, a connection
    /// that was killed ends when its client sends something.
    pub fn closes_by(&self, closer: Closer) {
        // The first one stays, and there is no other.
        let _ = self.state.client.closer.set(closer);
    }

    /// Whether the peer has said who it is, or need not.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.state.is_authenticated
    }

    /// Carries out the requests in `input` and appends their replies to `output`. What is not
    /// consumed has to be at the front of the next call's input. After [`Verdict::Again`] it is to
    /// be called again even if there is no more input.
    pub fn serve(
        &mut self,
        cx: &mut Context<'_, '_>,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Served {
        let mut rest = input;
        let mut last = None;
        let mut verdict = if self.state.client.is_killed.load(Relaxed) {
            Verdict::Close
        } else {
            self.serve_requests(cx, &mut rest, output, &mut last)
        };
        self.state.parser_bytes = self.parser.memory_bytes();
        if !self.state.count_memory(0) && !self.give_up_task(cx, output) {
            self.out_of_memory(output);
            verdict = Verdict::OutOfMemory;
        }
        self.state.client.saw(cx.now_ms, last, rest.len());
        if verdict == Verdict::Close {
            self.listed = None;
        }
        cx.local.shrink();
        let need = if verdict == Verdict::Continue { self.parser.wanted_bytes() } else { 0 };
        Served { consumed: input.len() - rest.len(), need, verdict }
    }

    /// Ends the task under way with an error, since there is no memory for what it found. Whether
    /// that was all that was too much.
    #[cold]
    fn give_up_task(&mut self, cx: &mut Context<'_, '_>, output: &mut Vec<u8>) -> bool {
        let state = &mut self.state;
        if state.task.take().is_some() {
            let place = output.len();
            let (_, ctx) = cx.split();
            fail(state, &ctx, &Fault::MEMORY, output, place);
            state.drop_unwanted_reply(output, place);
        }
        state.count_memory(0)
    }

    /// Says why the connection ends: there is no memory for what it holds.
    pub(crate) fn out_of_memory(&mut self, output: &mut Vec<u8>) {
        self.listed = None;
        put_fault(&self.state, &Fault::MEMORY, output);
    }

    fn serve_requests(
        &mut self,
        cx: &mut Context<'_, '_>,
        rest: &mut &[u8],
        output: &mut Vec<u8>,
        last: &mut Option<u16>,
    ) -> Verdict {
        let Connection { parser, state, run_max, .. } = self;
        let start = output.len();
        if cx.rows_wait && state.task.is_some() {
            return Verdict::Again;
        }
        if !go_on(state, cx, output) {
            return Verdict::Again;
        }
        cx.work.add(0, output.len() - start);
        let mut run = Run::new();
        let options = &cx.shared.options;
        loop {
            let limits = cx.shared.settings.limits(options, state.is_authenticated);
            let output_max = match state.is_authenticated {
                true => options.iteration_output_bytes_max,
                false => options.iteration_output_bytes_max_before_auth,
            };
            let work = cx.work;
            let is_spent =
                |output: &[u8]| output.len() - start >= output_max || work.is_slice_spent();
            while run.len() < *run_max && !is_spent(output) {
                let before = *rest;
                let request = match parser.next(rest, &limits) {
                    Ok(Some(request)) => request,
                    Ok(None) => {
                        if let Some(left) = run.answer(cx, state, output, run_max) {
                            return go_back(parser, rest, left);
                        }
                        if !parser.take_refused() {
                            return Verdict::Continue;
                        }
                        let place = output.len();
                        refuse(state, cx, Fault::argument_too_long(limits.bulk_bytes_max), output);
                        state.drop_unwanted_reply(output, place);
                        continue;
                    }
                    Err(error) => {
                        if let Some(left) = run.answer(cx, state, output, run_max) {
                            return go_back(parser, rest, left);
                        }
                        bump(&cx.shared.counters_of(cx.local.loop_index).protocol_errors, 1);
                        Writer::new(output, state.protocol()).protocol_error(&error);
                        return Verdict::Close;
                    }
                };
                if cx.rows_wait && !is_quick(&request) {
                    // It is read anew then.
                    *rest = before;
                    *parser = RequestParser::new();
                    return Verdict::Again;
                }
                if let Some(key) = plain_get(&request, state) {
                    run.push(key, before);
                    *last = Some(table::GET);
                    continue;
                }
                if let Some(left) = run.answer(cx, state, output, run_max) {
                    return go_back(parser, rest, left);
                }
                let limits_before = state.is_authenticated;
                handle_request(state, cx, request, output, last);
                if state.is_closing {
                    return Verdict::Close;
                }
                if state.task.is_some() {
                    return Verdict::Again;
                }
                if limits_before != state.is_authenticated {
                    break;
                }
            }
            if let Some(left) = run.answer(cx, state, output, run_max) {
                return go_back(parser, rest, left);
            }
            if is_spent(output) {
                return Verdict::Again;
            }
        }
    }
}

/// Yields: the request that `left` begins with is read anew.
fn go_back<'i>(parser: &mut RequestParser, rest: &mut &'i [u8], left: &'i [u8]) -> Verdict {
    *rest = left;
    *parser = RequestParser::new();
    Verdict::Again
}

/// The key, if the request is a GET that may be looked up with its neighbours.
#[inline]
fn plain_get<'i>(request: &Request<'_, 'i>, state: &State) -> Option<&'i [u8]> {
    let is_get = request.len() == 2 && request.arg(0).eq_ignore_ascii_case(b"get");
    if is_get && state.is_plain() { request.borrowed(1) } else { None }
}

/// Whether a command costs next to nothing, whatever there is.
fn is_quick(request: &Request<'_, '_>) -> bool {
    let command = table::find(request.arg(0)).map(|index| &table::COMMANDS[usize::from(index)]);
    command.is_some_and(|command| command.is(FAST) && !command.is(READ | WRITE | RUNS_QUEUE))
}

/// Carries out a slice of the task under way. Whether there is none any more.
fn go_on(state: &mut State, cx: &mut Context<'_, '_>, output: &mut Vec<u8>) -> bool {
    let Some(mut task) = state.task.take() else { return true };
    let place = output.len();
    let (_, mut ctx) = cx.split();
    let began = ctx.local.clock.ticks();
    let sliced = task.slice(&mut ctx, &mut Writer::new(output, state.protocol()));
    // A connection takes no other command before the end of its task.
    if let Some(index) = state.client.last_command() {
        ctx.local.spent(ctx.counters(), index, began);
    }
    match sliced {
        Ok(false) => {
            output.truncate(place);
            state.task = Some(task);
            return false;
        }
        Ok(true) => {}
        Err(fault) => fail(state, &ctx, &fault, output, place),
    }
    state.drop_unwanted_reply(output, place);
    true
}

/// Carries out, queues or refuses one request.
fn handle_request(
    state: &mut State,
    cx: &mut Context<'_, '_>,
    request: Request<'_, '_>,
    output: &mut Vec<u8>,
    last: &mut Option<u16>,
) {
    let place = output.len();
    match admit(state, cx, &request) {
        Ok((index, command)) => {
            *last = Some(index);
            let queued = state.queue.is_some() && !command.is(AT_ONCE);
            let done = if queued {
                transaction::queue(state, cx.shared, &request, output)
            } else {
                let counters = cx.shared.counters_of(cx.local.loop_index);
                bump(&counters.calls[usize::from(index)], 1);
                let began = cx.local.clock.ticks();
                let done = run(state, cx, command, request, output);
                cx.local.spent(counters, index, began);
                bump(&counters.failed_calls[usize::from(index)], u64::from(done.is_err()));
                done
            };
            if let Err(fault) = done {
                let (_, ctx) = cx.split();
                fail(state, &ctx, &fault, output, place);
            }
        }
        Err(mut fault) => {
            if let Some(index) = table::find(request.arg(0)) {
                let counters = cx.shared.counters_of(cx.local.loop_index);
                bump(&counters.rejected_calls[usize::from(index)], 1);
            }
            if request.arg(0).eq_ignore_ascii_case(b"exec") {
                state.end_transaction();
                fault = fault.aborting();
            }
            refuse(state, cx, fault, output);
        }
    }
    state.drop_unwanted_reply(output, place);
}

/// Refuses a request before it is carried out. A transaction that it was for is broken.
#[cold]
fn refuse(state: &mut State, cx: &Context<'_, '_>, fault: Fault, output: &mut Vec<u8>) {
    state.break_queue();
    bump(&cx.shared.counters_of(cx.local.loop_index).rejected, 1);
    put_fault(state, &fault, output);
}

/// The command of a request, and its place in the table, if it may be carried out.
#[inline]
fn admit(
    state: &State,
    cx: &Context<'_, '_>,
    request: &Request<'_, '_>,
) -> Result<(u16, &'static Command), Fault> {
    let (index, command) = resolve(request)?;
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
    Ok((index, command))
}

/// The command or subcommand that a request names, with as many words as it takes.
#[inline]
pub(crate) fn resolve(request: &Request<'_, '_>) -> Result<(u16, &'static Command), Fault> {
    let Some(index) = table::find(request.arg(0)) else {
        return Err(unknown_command(request.arg(0), request.args().skip(1)));
    };
    let command = &table::COMMANDS[usize::from(index)];
    if command.subcommands.is_empty() || request.len() < 2 {
        return match command.takes(request.len()) {
            true => Ok((index, command)),
            false => Err(Fault::arity(command.name, None)),
        };
    }
    let Some(subcommand) = command.subcommand(request.arg(1)) else {
        return Err(unknown_subcommand(command.name, request.arg(1)));
    };
    match subcommand.takes(request.len()) {
        true => Ok((index, subcommand)),
        false => Err(Fault::arity(subcommand.name, Some(command.name))),
    }
}

/// Carries out a command that was admitted.
#[inline]
fn run(
    state: &mut State,
    cx: &mut Context<'_, '_>,
    command: &'static Command,
    args: Request<'_, '_>,
    output: &mut Vec<u8>,
) -> Done {
    if command.is(RUNS_QUEUE) {
        return transaction::exec(state, cx, output);
    }
    let (reader, mut ctx) = cx.split();
    let reply = Writer::new(output, state.protocol());
    if !command.is(EXCLUSIVE) {
        let mut call = Call { command, args, reply, ctx, state, is_whole: false };
        return (command.run)(&mut call);
    }
    let units_max = ctx.shared.options.transaction_work_max;
    reader.exclusive(|| {
        ctx.rows.begin_group()?;
        let work = ctx.work;
        let mut call = Call { command, args, reply, ctx: ctx.reborrow(), state, is_whole: true };
        let done = work.limited(units_max, || (command.run)(&mut call));
        match done.unwrap_or_else(|| Err(Fault::too_much_work(units_max))) {
            Ok(()) => ctx.rows.commit_group().map_err(Fault::from),
            // A command over several keys does all of it or nothing.
            Err(fault) => {
                ctx.rows.cancel_group();
                Err(fault)
            }
        }
    })
}

/// Replaces what was written since `place` by an error.
pub(crate) fn fail(
    state: &State,
    ctx: &CommandContext<'_>,
    fault: &Fault,
    output: &mut Vec<u8>,
    place: usize,
) {
    output.truncate(place);
    bump(&ctx.counters().failed, 1);
    put_fault(state, fault, output);
}

#[cold]
fn put_fault(state: &State, fault: &Fault, output: &mut Vec<u8>) {
    fault.with_line(|line| Writer::new(output, state.protocol()).error(line));
}
