//! A connection: the handshake, then requests whose answers keep their order.

use super::scan::{self, Scan};
use super::{Cx, execute};
use crate::ordered::{Ordered, TOGETHER_MAX};
use keyrack_net::{Served, Verdict};
use keyrack_wire::masstree::{Limits, ReplyWriter, Request, RequestParser};

/// Bytes of answers after which a connection yields.
const ITERATION_OUTPUT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Connection {
    parser: RequestParser,
    /// Bytes of keys that the handshake agreed on; nothing before it.
    key_bytes_max: Option<usize>,
    /// A scan under way, whose answer comes before all others.
    scan: Option<Box<Scan>>,
    /// Whether the client sent what is no message, or none that may come then.
    pub(crate) broke_protocol: bool,
}

/// A request that waits for others, so that their keys are looked up together.
#[derive(Clone, Copy)]
struct Waiting<'i> {
    request: Request<'i>,
    key: &'i [u8],
    /// Where in the input it begins.
    at: usize,
}

/// Requests in a row that read one row each, or that write one each.
struct Run<'i> {
    slots: [Option<Waiting<'i>>; TOGETHER_MAX],
    count: usize,
    /// Whether they write.
    writes: bool,
}

/// Why a connection does not go on with its input.
enum Left {
    /// The output is full; the request that begins there comes next time.
    At(usize),
    /// The connection is over.
    Close,
}

/// The key of a request that reads or writes one row, and whether it writes.
fn key_of<'i>(request: &Request<'i>) -> Option<(&'i [u8], bool)> {
    match *request {
        Request::Get { key, .. } => Some((key, false)),
        Request::Put { key, .. } | Request::Replace { key, .. } | Request::Remove { key, .. } => {
            Some((key, true))
        }
        _ => None,
    }
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Bytes that it keeps from one iteration to the next.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.scan.as_ref().map_or(0, |scan| scan.memory_bytes())
    }

    /// Forgets what it keeps, since there is no memory for it, before its end. The protocol has no
    /// words for why; the scan gets the answer of what is refused.
    pub(crate) fn out_of_memory(&mut self, output: &mut Vec<u8>) {
        if let Some(scan) = self.scan.take() {
            ReplyWriter::new(output).unknown(scan.seq());
        }
    }

    /// Carries out the requests in `input`, and appends the answers to `output`.
    pub(crate) fn serve(&mut self, cx: &mut Cx<'_>, input: &[u8], output: &mut Vec<u8>) -> Served {
        let full_at = output.len().saturating_add(ITERATION_OUTPUT_BYTES_MAX);
        if let Some(scan) = &mut self.scan {
            match scan.go_on(cx, output) {
                Ok(false) => return served(0, Verdict::Again),
                Ok(true) => self.scan = None,
                Err(_) => {
                    cx.counts.errors.add(1);
                    ReplyWriter::new(output).unknown(scan.seq());
                    return served(input.len(), Verdict::Close);
                }
            }
        }
        let mut run = Run { slots: [const { None }; TOGETHER_MAX], count: 0, writes: false };
        let mut rest = input;
        loop {
            let at = input.len() - rest.len();
            if run.count == 0 && (output.len() >= full_at || cx.work.is_slice_spent()) {
                return self.again(at);
            }
            let limits = self.limits(cx.limits);
            let parsed = self.parser.next(&mut rest, &limits);
            let single = match &parsed {
                Ok(Some(request)) if self.key_bytes_max.is_some() => {
                    key_of(request).map(|(key, writes)| (*request, key, writes))
                }
                _ => None,
            };
            let joins = single.is_some_and(|(_, _, writes)| run.takes(writes));
            if !joins && let Err(left) = run.carry_out(cx, output, full_at) {
                return match left {
                    Left::At(left_at) => self.again(left_at),
                    Left::Close => served(at, Verdict::Close),
                };
            }
            if let Some((request, key, writes)) = single {
                cx.counts.requests.add(1);
                run.push(Waiting { request, key, at }, writes);
                continue;
            }
            match parsed {
                Ok(None) => {
                    let need = if rest.is_empty() { 0 } else { self.parser.wanted_bytes() };
                    return Served { consumed: at, need, verdict: Verdict::Continue };
                }
                Ok(Some(request)) => {
                    cx.counts.requests.add(1);
                    let verdict = self.execute(cx, &request, output);
                    if verdict != Verdict::Continue {
                        return served(input.len() - rest.len(), verdict);
                    }
                }
                Err(_) => {
                    self.broke_protocol = true;
                    cx.counts.errors.add(1);
                    return served(input.len(), Verdict::Close);
                }
            }
        }
    }

    /// Yields: the request at `at` is read anew.
    fn again(&mut self, at: usize) -> Served {
        self.parser = RequestParser::new();
        served(at, Verdict::Again)
    }

    fn limits(&self, limits: &Limits) -> Limits {
        match self.key_bytes_max {
            None => Limits::before_handshake(),
            Some(key_bytes_max) => Limits { key_bytes_max, ..*limits },
        }
    }

    fn execute(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, output: &mut Vec<u8>) -> Verdict {
        match (*request, self.key_bytes_max) {
            (Request::Handshake { seq, handshake }, None) => {
                let Some(key_bytes_max) = handshake.agree(cx.limits.key_bytes_max) else {
                    self.broke_protocol = true;
                    cx.counts.errors.add(1);
                    ReplyWriter::new(output).refuse_handshake(seq);
                    return Verdict::Close;
                };
                self.key_bytes_max = Some(key_bytes_max);
                ReplyWriter::new(output).handshake(seq, cx.thread);
                Verdict::Continue
            }
            (Request::Handshake { seq, .. }, Some(_)) | (Request::Unknown { seq }, _) => {
                self.broke_protocol = true;
                cx.counts.errors.add(1);
                ReplyWriter::new(output).unknown(seq);
                Verdict::Close
            }
            (request, None) => {
                self.broke_protocol = true;
                cx.counts.errors.add(1);
                ReplyWriter::new(output).unknown(request.seq());
                Verdict::Close
            }
            (Request::Scan { seq, first, count, columns }, Some(_)) => {
                let begun = output.len();
                match scan::begin(cx, (seq, first, count), columns, output) {
                    Ok(None) => Verdict::Continue,
                    Ok(scan) => {
                        self.scan = scan;
                        Verdict::Again
                    }
                    Err(_) => {
                        cx.counts.errors.add(1);
                        output.truncate(begun);
                        ReplyWriter::new(output).unknown(seq);
                        Verdict::Close
                    }
                }
            }
            (request, Some(_)) => {
                if execute::execute(cx, &request, output) {
                    Verdict::Continue
                } else {
                    Verdict::Close
                }
            }
        }
    }
}

impl<'i> Run<'i> {
    /// Can one more come in that writes, or does not?
    fn takes(&self, writes: bool) -> bool {
        self.count == 0 || (self.writes == writes && self.count < TOGETHER_MAX)
    }

    fn push(&mut self, waiting: Waiting<'i>, writes: bool) {
        self.slots[self.count] = Some(waiting);
        self.count += 1;
        self.writes = writes;
    }

    /// Carries out all, in their order, until the output is full.
    fn carry_out(
        &mut self,
        cx: &mut Cx<'_>,
        output: &mut Vec<u8>,
        full_at: usize,
    ) -> Result<(), Left> {
        let count = std::mem::take(&mut self.count);
        let mut keys: [&[u8]; TOGETHER_MAX] = [&[]; TOGETHER_MAX];
        for (key, waiting) in keys.iter_mut().zip(self.slots[..count].iter().flatten()) {
            *key = waiting.key;
        }
        match (count, self.writes) {
            (0, _) => Ok(()),
            (_, true) => write(cx, &self.slots[..count], &keys[..count], output, full_at),
            (_, false) => look_up(cx, &self.slots[..count], &keys[..count], output, full_at),
        }
    }
}

/// Writes one after the other.
fn write(
    cx: &mut Cx<'_>,
    slots: &[Option<Waiting<'_>>],
    keys: &[&[u8]],
    output: &mut Vec<u8>,
    full_at: usize,
) -> Result<(), Left> {
    cx.rows.prefetch(keys);
    for waiting in slots.iter().flatten() {
        if output.len() >= full_at {
            return Err(Left::At(waiting.at));
        }
        if !execute::execute(cx, &waiting.request, output) {
            return Err(Left::Close);
        }
    }
    Ok(())
}

/// Looks all up side by side.
fn look_up(
    cx: &mut Cx<'_>,
    slots: &[Option<Waiting<'_>>],
    keys: &[&[u8]],
    output: &mut Vec<u8>,
    full_at: usize,
) -> Result<(), Left> {
    let mut hits = 0;
    let begun = output.len();
    let mut ordered = Ordered::new(output, full_at, cx.scratch);
    let found = cx.rows.multi_get(keys, &mut |index, row| {
        let Some(Some(Waiting { request: Request::Get { seq, columns, .. }, .. })) =
            slots.get(index)
        else {
            return;
        };
        hits += u64::from(row.is_some());
        ordered.add(index, |out| {
            let mut reply = ReplyWriter::new(out);
            match &row {
                Some(row) => execute::write_row(&mut reply, *seq, row, *columns),
                None => reply.miss(*seq),
            }
        });
    });
    let written = ordered.written();
    if found.is_err() {
        cx.counts.errors.add(1);
        output.truncate(begun);
        if let Some(Some(first)) = slots.first() {
            ReplyWriter::new(output).unknown(first.request.seq());
        }
        return Err(Left::Close);
    }
    cx.counts.gets.add(written as u64);
    cx.counts.get_hits.add(hits);
    match slots.get(written) {
        Some(Some(left)) => Err(Left::At(left.at)),
        _ => Ok(()),
    }
}

fn served(consumed: usize, verdict: Verdict) -> Served {
    Served { consumed, need: 0, verdict }
}
