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
use keyrack_wire::resp::{Limits, ProtocolError, Request, RequestParser, Writer};

use crate::log::events;
use crate::redis::clients::Listed;
use crate::redis::command::{FAST, READ, RUNS_QUEUE, WRITE};
use crate::redis::commands::gets::{RUN_AT_FIRST, Run};
use crate::redis::context::Context;
use crate::redis::counters::bump;
use crate::redis::execute::{handle_request, refuse};
use crate::redis::fault::Fault;
use crate::redis::shared::{Options, Shared};
use crate::redis::state::{Replies, State};
use crate::redis::table;

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

    /// Whether the client has authenticated, or need not.
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
        self.state.client.note_arrival(cx.now_ms);
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
        self.state.client.note_read(last, rest.len());
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
        let task = state.task.take();
        state.is_closing |= task.as_ref().is_some_and(|task| task.work.has_begun_reply());
        if task.is_some() && !state.is_closing {
            let place = output.len();
            state.fail(cx.counters(), &Fault::MEMORY, output, place);
            state.drop_unwanted_reply(output, place);
        }
        state.count_memory(0)
    }

    /// Says why the connection ends: there is no memory for what it holds.
    pub(crate) fn out_of_memory(&mut self, output: &mut Vec<u8>) {
        self.listed = None;
        self.state.put_fault(&Fault::MEMORY, output);
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
        if !go_on(state, cx, output) {
            return Verdict::Again;
        }
        if state.is_closing {
            return Verdict::Close;
        }
        let mut run = Run::new();
        let options = &cx.shared.options;
        loop {
            let limits = cx.shared.settings.limits(options, state.is_authenticated);
            let output_max = output_max(options, state);
            let work = cx.work;
            let is_spent =
                |output: &[u8]| output.len() - start >= output_max || work.is_slice_spent();
            while run.len() < *run_max && !is_spent(output) {
                let before = *rest;
                let request = match parser.next(rest, &limits) {
                    Ok(Some(request)) => request,
                    none => {
                        let error = none.err();
                        if let Some(left) = run.answer(cx, state, output, run_max) {
                            return go_back(parser, rest, left);
                        }
                        match without_request(parser, state, cx, error, &limits, output) {
                            Some(verdict) => return verdict,
                            None => continue,
                        }
                    }
                };
                if cx.rows_wait && !is_quick(&request) {
                    // It is read anew then.
                    return go_back(parser, rest, before);
                }
                if let Some(key) = plain_get(&request, state) {
                    run.push(key, before);
                    *last = Some(table::GET);
                    continue;
                }
                if let Some(left) = run.answer(cx, state, output, run_max) {
                    return go_back(parser, rest, left);
                }
                let was_authenticated = state.is_authenticated;
                handle_request(state, cx, request, output, last);
                if state.is_closing {
                    return Verdict::Close;
                }
                if state.task.is_some() {
                    return Verdict::Again;
                }
                if was_authenticated != state.is_authenticated {
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

/// Bytes of output after which the connection yields.
fn output_max(options: &Options, state: &State) -> usize {
    if state.is_authenticated {
        options.iteration_output_bytes_max
    } else {
        options.iteration_output_bytes_max_before_auth
    }
}

/// Handles the cases in which the parser has no request: the input ends, the request was refused
/// for its size, or it breaks the protocol. `None` if the parser goes on.
#[inline]
fn without_request(
    parser: &mut RequestParser,
    state: &mut State,
    cx: &Context<'_, '_>,
    error: Option<ProtocolError>,
    limits: &Limits,
    output: &mut Vec<u8>,
) -> Option<Verdict> {
    if let Some(error) = error {
        bump(&cx.counters().protocol_errors, 1);
        events::protocol_error("redis", &state.client.peer, &error.to_string());
        Writer::new(output, state.protocol()).protocol_error(&error);
        return Some(Verdict::Close);
    }
    if !parser.take_refused() {
        return Some(Verdict::Continue);
    }
    let place = output.len();
    refuse(state, cx, Fault::argument_too_long(limits.bulk_bytes_max), output);
    state.drop_unwanted_reply(output, place);
    None
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

/// Runs a slice of the task under way, if there is one. Whether there is none any more.
fn go_on(state: &mut State, cx: &mut Context<'_, '_>, output: &mut Vec<u8>) -> bool {
    if state.task.is_none() {
        return true;
    }
    if cx.rows_wait {
        return false;
    }
    let Some(mut task) = state.task.take() else { return true };
    let place = output.len();
    let (_, mut ctx) = cx.split();
    let began = ctx.local.clock.ticks();
    let sliced = task.work.slice(&mut ctx, &mut Writer::new(output, state.protocol()));
    // A connection takes no other command before the end of its task.
    let index = state.client.last_command();
    if let Some(index) = index {
        task.spent_ns += ctx.local.spent(ctx.counters(), index, began);
    }
    if let Ok(false) = sliced {
        if !task.work.has_begun_reply() || state.replies != Replies::All {
            output.truncate(place);
        }
        ctx.work.add(0, output.len() - place);
        state.task = Some(task);
        return false;
    }
    if let Some(index) = index {
        ctx.counters().took(index, task.spent_ns, 1);
        if ctx.shared.is_slow(task.spent_ns) {
            let args = std::mem::take(&mut task.args);
            ctx.shared.note_slow(&state.client, index, task.spent_ns, ctx.now_ms, args);
        }
    }
    match sliced {
        Ok(_) => {}
        Err(_) if task.work.has_begun_reply() => {
            // The client has a part of the reply, which cannot be completed.
            output.truncate(place);
            bump(&ctx.counters().failed, 1);
            state.is_closing = true;
        }
        Err(fault) => state.fail(ctx.counters(), &fault, output, place),
    }
    state.drop_unwanted_reply(output, place);
    cx.work.add(0, output.len() - place);
    true
}
