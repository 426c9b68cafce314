//! Random pieces there and back over many connections: what comes back is what was sent.

use std::io::{Read, Write};
use std::thread;

use keyrack_net::{
    Limits, Listener, Options, Peer, Served, Server, Service, Stream, Verdict, Waker, Worker,
};

use crate::support::{PATIENCE, connect};
use keyrack_testkit::random::{Draw, seed_or};

/// Sends back what it gets; how much of it at once, and whether it stops early, is drawn.
struct Echo {
    seed: u64,
}

struct EchoWorker {
    draw: Draw,
}

impl Service for Echo {
    type Worker<'a> = EchoWorker;

    fn worker(&self, index: usize, _: Waker) -> EchoWorker {
        EchoWorker { draw: Draw::new(self.seed ^ index as u64) }
    }
}

impl Worker for EchoWorker {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        let draw = self.draw.next();
        let consumed = match draw % 4 {
            0 => self.draw.below(input.len() + 1),
            _ => input.len(),
        };
        output.extend_from_slice(&input[..consumed]);
        // Whoever leaves something must come again, since the client may wait for it.
        let is_all = consumed == input.len() && !draw.is_multiple_of(3);
        let verdict = if is_all { Verdict::Continue } else { Verdict::Again };
        Served { consumed, need: 0, verdict }
    }
}

/// Mostly small, now and then large.
fn size(draw: &mut Draw) -> usize {
    let limit = [1, 10, 1_000, 20_000, 200_000][draw.below(5)];
    draw.below(limit) + 1
}

fn write_pieces(mut stream: Stream, seed: u64, bytes_max: usize) {
    let (mut content, mut pieces) = (Draw::new(seed), Draw::new(!seed));
    let mut left = bytes_max;
    while left > 0 {
        let size = size(&mut pieces).min(left);
        let piece: Vec<u8> = (0..size).map(|_| content.next() as u8).collect();
        stream.write_all(&piece).unwrap();
        left -= size;
    }
    stream.shutdown_write().unwrap();
}

fn read_pieces(mut stream: Stream, seed: u64, bytes_max: usize) {
    let (mut content, mut pieces) = (Draw::new(seed), Draw::new(seed ^ 0x55));
    let mut seen = 0;
    let mut memory = vec![0; 200_000];
    loop {
        let count = stream.read(&mut memory[..size(&mut pieces)]).unwrap();
        if count == 0 {
            break;
        }
        for byte in &memory[..count] {
            assert_eq!(*byte, content.next() as u8, "byte {seen} of stream {seed}");
            seen += 1;
        }
    }
    assert_eq!(seen, bytes_max, "stream {seed} was cut");
}

#[test]
fn what_comes_back_is_what_was_sent() {
    let seed = seed_or(1);
    let directory = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", directory.path().join("socket").display());
    let listeners = vec![
        Listener::stream("127.0.0.1:0".parse().unwrap()),
        Listener::stream(path.parse().unwrap()),
    ];
    let limits = Limits { output_bytes_max: 300_000, ..Limits::default() };
    let options = Options { listeners, threads: 2, limits, ..Options::default() };
    let server = Server::start(Echo { seed }, options).unwrap();
    let streams = 24;
    let bytes_max = 700_000;
    thread::scope(|scope| {
        for index in 0..streams {
            let stream_seed = seed.wrapping_mul(1_000).wrapping_add(index);
            let endpoint = &server.local_addrs()[usize::from(index % 3 == 0)][0];
            let stream = connect(endpoint);
            let writer = stream.try_clone().unwrap();
            scope.spawn(move || write_pieces(writer, stream_seed, bytes_max));
            scope.spawn(move || read_pieces(stream, stream_seed, bytes_max));
        }
    });
    let stats = server.shutdown(PATIENCE).unwrap();
    assert_eq!((stats.bytes_in, stats.bytes_out), (stats.bytes_out, streams * bytes_max as u64));
}
