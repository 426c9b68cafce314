//! The responder that costs as little as possible: net's loops, a batch of replies per read.

use std::sync::Arc;

use keyrack_net::{
    Handle, Limits, Listener, OUTPUT_SLICE_BYTES, Options, Peer, Served, Server, Service, Verdict,
    Waker, Worker,
};

use super::answer::{Answered, Answerer, ConnectionProtocol};
use super::counts::LiveCounts;
use super::error::Error;
use super::settings::Settings;
use crate::arrival::{Purpose, Stream};

pub(super) fn start(settings: &Settings, counts: &Arc<LiveCounts>) -> Result<Handle, Error> {
    let service = Null {
        value_bytes: settings.value_bytes,
        miss_share: settings.miss_share,
        seed: settings.seed,
        counts: Arc::clone(counts),
    };
    let listeners = settings.endpoints.iter().cloned().map(Listener::stream).collect();
    let threads = settings.threads.max(1);
    Ok(Server::start(service, Options { listeners, threads, ..Options::default() })?)
}

struct Null {
    value_bytes: usize,
    miss_share: f64,
    seed: u64,
    counts: Arc<LiveCounts>,
}

impl Service for Null {
    type Worker<'a> = NullWorker<'a>;

    fn worker(&self, index: usize, _: Waker) -> NullWorker<'_> {
        let thread = u32::try_from(index).unwrap_or(0);
        let stream = Stream { seed: self.seed, agent: 0, thread, connection: 0 };
        let rng = stream.rng(Purpose::Faults);
        NullWorker {
            answerer: Answerer::new(self.value_bytes, self.miss_share, rng),
            counts: &self.counts,
            requests: 0,
        }
    }
}

struct NullWorker<'a> {
    answerer: Answerer,
    counts: &'a LiveCounts,
    /// Requests of this iteration, which are counted together.
    requests: u64,
}

#[derive(Default)]
struct Conversation {
    protocol: ConnectionProtocol,
    skip: u64,
}

impl Worker for NullWorker<'_> {
    type Connection = Conversation;

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) -> Conversation {
        LiveCounts::add(&self.counts.connections, 1);
        Conversation::default()
    }

    fn serve(
        &mut self,
        connection: &mut Conversation,
        input: &[u8],
        output: &mut Vec<u8>,
        _: &mut Limits,
    ) -> Served {
        let (start, mut consumed) = (output.len(), 0);
        let verdict = loop {
            let Conversation { protocol, skip } = connection;
            match self.answerer.answer(protocol, skip, &input[consumed..], output) {
                Answered::Request(bytes) => {
                    consumed += bytes;
                    self.requests += 1;
                    if output.len() - start > OUTPUT_SLICE_BYTES {
                        break Verdict::Again;
                    }
                }
                Answered::Skip(bytes) => consumed += bytes,
                Answered::Partial => break Verdict::Continue,
                Answered::Close => break Verdict::Close,
            }
        };
        Served { consumed, need: 0, verdict }
    }

    fn end_iteration(&mut self) -> keyrack_net::IterationEnd {
        LiveCounts::add(&self.counts.requests, std::mem::take(&mut self.requests));
        keyrack_net::IterationEnd::Durable
    }
}
