//! Requests out of a trace: rows of this thread's share, one ahead, with their keys kept until
//! their replies have come.
//!
//! A key has one connection, by its hash, so that requests for it keep their order and find their
//! server. While that connection is full the trace waits, and what waits is late: it counts.

use keyrack_wire::outcome::Kind;
use keyrack_workload::mix64;

use super::in_flight::{InFlight, flags};
use crate::plan::{Filling, Plan};
use crate::trace::{self, Op, Pace, Paced, Reader, Row, Share};

/// Tokens of `gets` that are remembered at most.
const TOKENS_MAX: usize = 1 << 20;

/// Keys that are in use, by number.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    keys: Vec<Vec<u8>>,
    /// Who uses each.
    uses: Vec<u32>,
    free: Vec<u64>,
}

impl KeyTable {
    fn keep(&mut self, key: &[u8]) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.keys.push(Vec::new());
            self.uses.push(0);
            self.keys.len() as u64 - 1
        });
        let place = &mut self.keys[number as usize];
        place.clear();
        place.extend_from_slice(key);
        self.uses[number as usize] = 1;
        number
    }

    /// The key of a request is that of another one as well, if it was kept.
    pub(super) fn share(&mut self, request: &InFlight) {
        if request.flags & flags::TRACE_KEY != 0 {
            self.uses[request.key as usize] += 1;
        }
    }

    #[inline]
    pub(super) fn key(&self, number: u64) -> &[u8] {
        &self.keys[number as usize]
    }

    /// The key of a request is not needed any more, if it was kept.
    #[inline]
    pub(super) fn release(&mut self, request: &InFlight) {
        if request.flags & flags::TRACE_KEY != 0 {
            let uses = &mut self.uses[request.key as usize];
            *uses -= 1;
            if *uses == 0 {
                self.free.push(request.key);
            }
        }
    }
}

#[derive(Debug)]
enum Source {
    /// As fast as something else says.
    Plain(Box<Reader>),
    /// By its own times.
    Paced(Box<Paced>),
}

#[derive(Debug)]
pub(super) struct TraceSource {
    source: Source,
    is_loop: bool,
    filling: Filling,
    /// The row ahead, the hash of its key, and its offset where it has one.
    pub(super) ahead: Option<(InFlight, u64, Option<u64>)>,
    pub(super) is_over: bool,
    tokens: std::collections::HashMap<u64, u64>,
}

impl TraceSource {
    /// Opens the trace for one of `shares`.
    pub(super) fn open(
        plan: &Plan,
        index: u32,
        shares: u32,
    ) -> Result<Option<TraceSource>, trace::Error> {
        let Some(trace) = &plan.settings.trace else { return Ok(None) };
        let share = Share { index, shares };
        let options = trace::Options { share, ..plan.trace_options(trace) };
        let reader = Reader::open(&*trace.fs, &trace.path, options)?;
        let source = match trace.speed {
            Some(speed) => {
                let pace = Pace { speed, is_loop: trace.is_loop };
                Source::Paced(Box::new(Paced::new(reader, pace)))
            }
            None => Source::Plain(Box::new(reader)),
        };
        Ok(Some(TraceSource {
            source,
            is_loop: trace.is_loop,
            filling: plan.settings.filling,
            ahead: None,
            is_over: false,
            tokens: std::collections::HashMap::new(),
        }))
    }

    /// Has every row its own time?
    pub(super) fn is_paced(&self) -> bool {
        matches!(self.source, Source::Paced(_))
    }

    /// Reads the row ahead unless it is there.
    ///
    /// # Errors
    /// The trace cannot be read on.
    #[inline]
    pub(super) fn look_ahead(&mut self, trace_keys: &mut KeyTable) -> Result<(), trace::Error> {
        if self.ahead.is_some() || self.is_over {
            return Ok(());
        }
        let mut has_rewound = false;
        loop {
            let found = match &mut self.source {
                Source::Plain(reader) => reader.next_row()?.map(|row| (None, row)),
                Source::Paced(paced) => paced.next_row()?.map(|(at_ns, row)| (Some(at_ns), row)),
            };
            if let Some((at_ns, row)) = found {
                let hash = hash(row.key);
                let request = request_of(&row, self.filling, trace_keys);
                self.ahead = Some((request, hash, at_ns));
                return Ok(());
            }
            match &mut self.source {
                // A share may be empty: then a second look finds nothing either.
                Source::Plain(reader) if self.is_loop && !has_rewound => reader.rewind(),
                _ => {
                    self.is_over = true;
                    return Ok(());
                }
            }
            has_rewound = true;
        }
    }

    /// What was read so far, in words.
    pub(super) fn counts(&self) -> &trace::Counts {
        match &self.source {
            Source::Plain(reader) => reader.counts(),
            Source::Paced(paced) => paced.reader().counts(),
        }
    }

    pub(super) fn learn(&mut self, key: &[u8], token: u64) {
        if self.tokens.len() >= TOKENS_MAX {
            self.tokens.clear();
        }
        self.tokens.insert(hash(key), token);
    }

    /// The token of a key, or one that no server gives.
    pub(super) fn token(&self, key: &[u8]) -> u64 {
        self.tokens.get(&hash(key)).copied().unwrap_or(u64::MAX)
    }
}

fn hash(key: &[u8]) -> u64 {
    key.chunks(8).fold(key.len() as u64, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mix64(hash ^ u64::from_le_bytes(word))
    })
}

fn request_of(row: &Row<'_>, filling: Filling, trace_keys: &mut KeyTable) -> InFlight {
    let kind = match row.op {
        _ if filling == Filling::GetSet => Kind::Get,
        Op::Get => Kind::Get,
        Op::Gets => Kind::Gets,
        Op::Set => Kind::Set,
        Op::Add => Kind::Add,
        Op::Replace => Kind::Replace,
        Op::Cas => Kind::Cas,
        Op::Append => Kind::Append,
        Op::Prepend => Kind::Prepend,
        Op::Delete => Kind::Delete,
        Op::Incr => Kind::Incr,
        Op::Decr => Kind::Decr,
    };
    let (size, ttl_s) = (row.value_bytes, row.ttl_s);
    let (key, flags) = (trace_keys.keep(row.key), flags::TRACE_KEY);
    InFlight { intended: 0, sent: 0, key, size, ttl_s, kind, flags, redirects: 0 }
}
