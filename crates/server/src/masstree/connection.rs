//! A connection: the handshake, then requests whose answers keep their order.

use super::scan::{self, Scan};
use super::{Cx, execute};
use crate::ordered::{Ordered, TOGETHER_MAX};
use keyrack_net::{Served, Verdict};
use keyrack_wire::masstree::{Columns, Limits, ReplyWriter, Request, RequestParser};
use keyrack_wire::msgpack::Int;

/// Bytes of answers after which a connection gives the turn away.
const TURN_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    parser: RequestParser,
    /// Bytes of keys that the handshake agreed on; nothing before it.
    key_bytes_max: Option<usize>,
    /// A scan under way, whose answer comes before all others.
    scan: Option<Box<Scan>>,
}

/// A get that waits for others to be looked up with.
#[derive(Clone, Copy)]
struct Get<'i> {
    seq: Int,
    key: &'i [u8],
    columns: Columns<'i>,
    /// Where in the input its request begins.
    at: usize,
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Carries out the requests in `input`, and appends the answers to `output`.
    pub(crate) fn serve(&mut self, cx: &mut Cx<'_>, input: &[u8], output: &mut Vec<u8>) -> Served {
        let full_at = output.len().saturating_add(TURN_OUTPUT_BYTES_MAX);
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
        let mut gets: [Option<Get<'_>>; TOGETHER_MAX] = [None; TOGETHER_MAX];
        let mut waiting = 0;
        let mut rest = input;
        loop {
            let at = input.len() - rest.len();
            if waiting == TOGETHER_MAX {
                match look_up(cx, &gets[..waiting], output, full_at) {
                    Ok(None) => waiting = 0,
                    Ok(Some(left_at)) => return self.again(left_at),
                    Err(verdict) => return served(at, verdict),
                }
            }
            if output.len() >= full_at && waiting == 0 {
                return self.again(at);
            }
            let limits = self.limits(cx.limits);
            let parsed = self.parser.next(&mut rest, &limits);
            if let (Ok(Some(Request::Get { seq, key, columns })), Some(_)) =
                (&parsed, self.key_bytes_max)
            {
                cx.counts.requests.add(1);
                gets[waiting] = Some(Get { seq: *seq, key, columns: *columns, at });
                waiting += 1;
                continue;
            }
            match look_up(cx, &gets[..waiting], output, full_at) {
                Ok(None) => waiting = 0,
                Ok(Some(left_at)) => return self.again(left_at),
                Err(verdict) => return served(at, verdict),
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
                    cx.counts.errors.add(1);
                    return served(input.len(), Verdict::Close);
                }
            }
        }
    }

    /// Gives the turn away; the request at `at` is read anew.
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
                    cx.counts.errors.add(1);
                    ReplyWriter::new(output).refuse_handshake(seq);
                    return Verdict::Close;
                };
                self.key_bytes_max = Some(key_bytes_max);
                ReplyWriter::new(output).handshake(seq, cx.thread);
                Verdict::Continue
            }
            (Request::Handshake { seq, .. }, Some(_)) | (Request::Unknown { seq }, _) => {
                cx.counts.errors.add(1);
                ReplyWriter::new(output).unknown(seq);
                Verdict::Close
            }
            (request, None) => {
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
            (request, Some(_)) => match execute::execute(cx, &request, output) {
                true => Verdict::Continue,
                false => Verdict::Close,
            },
        }
    }
}

/// Looks up what waits. Where the output is full before the end, says where the first get that was
/// left stands in the input.
fn look_up(
    cx: &mut Cx<'_>,
    gets: &[Option<Get<'_>>],
    output: &mut Vec<u8>,
    full_at: usize,
) -> Result<Option<usize>, Verdict> {
    if gets.is_empty() {
        return Ok(None);
    }
    let mut keys: [&[u8]; TOGETHER_MAX] = [&[]; TOGETHER_MAX];
    for (key, get) in keys.iter_mut().zip(gets.iter().flatten()) {
        *key = get.key;
    }
    let mut hits = 0;
    let begun = output.len();
    let mut ordered = Ordered::new(output, full_at, cx.scratch);
    let found = cx.rows.multi_get(&keys[..gets.len()], &mut |index, row| {
        let Some(Some(get)) = gets.get(index) else { return };
        hits += u64::from(row.is_some());
        ordered.take(index, |out| {
            let mut reply = ReplyWriter::new(out);
            match &row {
                Some(row) => execute::write_row(&mut reply, get.seq, row, get.columns),
                None => reply.miss(get.seq),
            }
        });
    });
    let written = ordered.written();
    if found.is_err() {
        cx.counts.errors.add(1);
        output.truncate(begun);
        if let Some(Some(get)) = gets.first() {
            ReplyWriter::new(output).unknown(get.seq);
        }
        return Err(Verdict::Close);
    }
    cx.counts.gets.add(written as u64);
    cx.counts.get_hits.add(hits);
    Ok(gets.get(written).copied().flatten().map(|get| get.at))
}

fn served(consumed: usize, verdict: Verdict) -> Served {
    Served { consumed, need: 0, verdict }
}
