//! The bytes that arrived, given to the protocol that the connection speaks.

use super::connection::{Connection, Dialect, Next};
use super::cx::Cx;
use super::output::Output;
use super::{binary, text};
use keyrack_net::{Served, Verdict};
use keyrack_wire::memcached::{Limits, Sniffed, sniff};

impl Connection {
    /// Carries out the requests in `input`, and appends the replies to `output`.
    pub(crate) fn serve(&mut self, cx: &mut Cx<'_>, input: &[u8], output: &mut Vec<u8>) -> Served {
        let mut at = usize::try_from(self.skip).unwrap_or(usize::MAX).min(input.len());
        self.skip -= at as u64;
        if self.skip > 0 {
            return served(at, Next::Need(1));
        }
        if self.dialect == Dialect::Unknown && at < input.len() {
            self.dialect = match sniff(&input[at..]) {
                None => return served(at, Next::Need(input.len() - at + 1)),
                Some(Sniffed::Binary) => Dialect::Binary,
                Some(Sniffed::Text) => Dialect::Text,
                Some(_) => {
                    cx.counts.errors.add(1);
                    self.broke_protocol("the first byte begins no request");
                    return served(input.len(), Next::Close);
                }
            };
        }
        let mut out = Output::new(output);
        let limits = if self.authenticated { cx.shared.limits } else { Limits::UNAUTHENTICATED };
        let next = match self.dialect {
            Dialect::Binary => binary::serve(self, cx, &limits, input, &mut at, &mut out),
            _ => text::serve(self, cx, &limits, input, &mut at, &mut out),
        };
        served(at, next)
    }
}

fn served(consumed: usize, next: Next) -> Served {
    match next {
        Next::Need(need) => Served { consumed, verdict: Verdict::Continue, need },
        Next::Again => Served { consumed, verdict: Verdict::Again, need: 0 },
        Next::Close => Served { consumed, verdict: Verdict::Close, need: 0 },
    }
}
