//! The responder that costs as little as possible: net's loops, a batch of replies per read.

use std::sync::Arc;

use keyrack_net::{
    Handle, Limits, Listener, OUTPUT_SLICE_BYTES, Options, Peer, Served, Server, Service, Verdict,
    Waker, Worker,
};

use super::answer::{Answerer, Taken, Talk};
use super::{Error, Settings, Tally};
use crate::arrival::{Purpose, Stream};

/// Starts the loops.
pub(super) fn start(settings: &Settings, tally: &Arc<Tally>) -> Result<Handle, Error> {
    let service = Null {
        value_bytes: settings.value_bytes,
        miss_share: settings.miss_share,
        seed: settings.seed,
        tally: Arc::clone(tally),
    };
    let listeners = settings.endpoints.iter().cloned().map(Listener::stream).collect();
    let threads = settings.threads.max(1);
    Ok(Server::start(service, Options { listeners, threads, ..Options::default() })?)
}

struct Null {
    value_bytes: usize,
    miss_share: f64,
    seed: u64,
    tally: Arc<Tally>,
}

impl Service for Null {
    type Worker<'a> = NullWorker<'a>;

    fn worker(&self, index: usize, _: Waker) -> NullWorker<'_> {
        let thread = u32::try_from(index).unwrap_or(0);
        let stream = Stream { seed: self.seed, agent: 0, thread, connection: 0 };
        let rng = stream.rng(Purpose::Faults);
        NullWorker {
            answerer: Answerer::new(self.value_bytes, self.miss_share, rng),
            tally: &self.tally,
            requests: 0,
        }
    }
}

struct NullWorker<'a> {
    answerer: Answerer,
    tally: &'a Tally,
    /// Requests of this iteration, which are counted together.
    requests: u64,
}

#[derive(Default)]
struct Conversation {
    talk: Talk,
    skip: u64,
}

impl Worker for NullWorker<'_> {
    type Connection = Conversation;

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) -> Conversation {
        Tally::add(&self.tally.connections, 1);
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
            let Conversation { talk, skip } = connection;
            match self.answerer.answer(talk, skip, &input[consumed..], output) {
                Taken::Request(bytes) => {
                    consumed += bytes;
                    self.requests += 1;
                    if output.len() - start > OUTPUT_SLICE_BYTES {
                        break Verdict::Again;
                    }
                }
                Taken::Skip(bytes) => consumed += bytes,
                Taken::Partial => break Verdict::Continue,
                Taken::Close => break Verdict::Close,
            }
        };
        Served { consumed, need: 0, verdict }
    }

    fn end_iteration(&mut self) -> keyrack_net::IterationEnd {
        Tally::add(&self.tally.requests, std::mem::take(&mut self.requests));
        keyrack_net::IterationEnd::Durable
    }
}
