//! What a request costs: an echo server and its clients in two processes, or in one.
//!
//! ```text
//!   cargo run --release -p keyrack-net --example echo -- serve ADDRESS THREADS
//!   cargo run --release -p keyrack-net --example echo -- ask ADDRESS CLIENTS REQUESTS DEPTH
//!   cargo run --release -p keyrack-net --example echo -- both CLIENTS REQUESTS DEPTH
//! ```
//!
//! `serve` runs until its standard input ends, then prints what it has counted. `ask` sends from
//! one thread for each client: DEPTH requests of 32 bytes at once, then reads as many replies. To
//! see the system calls of a request: `strace -f -c` before `serve`, and one client at depth 1.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

use keyrack_measure::{Clock, usage};
use keyrack_net::{
    ConnectOptions, Endpoint, Handle, Limits, Listener, Options, Peer, Result, Served, Server,
    Service, Stream, Waker, Worker,
};
use std::io::{Read, Write};
use std::time::Duration;

const REQUEST: [u8; 32] = *b"0123456789abcdef0123456789abcde\n";

struct Echo;

impl Service for Echo {
    type Worker<'a> = Echo;

    fn worker(&self, _: usize, _: Waker) -> Echo {
        Echo
    }
}

impl Worker for Echo {
    type Connection = ();

    fn open(&mut self, _: usize, _: &Peer, _: &mut Limits) {}

    fn serve(&mut self, (): &mut (), input: &[u8], output: &mut Vec<u8>, _: &mut Limits) -> Served {
        let complete = input.len() - input.len() % REQUEST.len();
        output.extend_from_slice(&input[..complete]);
        Served::all(complete)
    }
}

fn start(endpoint: Endpoint, threads: usize) -> Result<Handle> {
    let listeners = vec![Listener::stream(endpoint)];
    let handle = Server::start(Echo, Options { threads, listeners, ..Options::default() })?;
    println!("{}", handle.local_addrs()[0][0]);
    Ok(handle)
}

fn ask(endpoint: &Endpoint, clients: usize, requests: usize, depth: usize) -> Result<()> {
    let clock = Clock::vdso();
    let begin = clock.ticks();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(move || {
                let mut stream = Stream::connect(endpoint, &ConnectOptions::default())
                    .expect("the server is there");
                let batch = REQUEST.repeat(depth);
                let mut replies = vec![0; batch.len()];
                for _ in 0..requests / depth {
                    stream.write_all(&batch).expect("the server reads");
                    stream.read_exact(&mut replies).expect("the server answers");
                    assert_eq!(replies, batch);
                }
            });
        }
    });
    let seconds = clock.ns_between(begin, clock.ticks()) as f64 / 1e9;
    let count = clients * (requests / depth * depth);
    println!("{count} requests, {:.0} a second", count as f64 / seconds);
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| -> std::result::Result<usize, Box<dyn std::error::Error>> {
        Ok(arguments.get(index).ok_or("an argument is missing")?.parse()?)
    };
    match arguments.first().map(String::as_str) {
        Some("serve") => {
            let server = start(arguments[1].parse()?, number(2)?)?;
            std::io::stdin().read_to_end(&mut Vec::new())?;
            let used = usage::process();
            let cpu_s = (used.user_ns + used.system_ns) as f64 / 1e9;
            println!("{cpu_s:.2} s of CPU, {} KiB at most", used.peak_rss_kib);
            println!("{:?}", server.shutdown(Duration::from_secs(1))?);
        }
        Some("ask") => ask(&arguments[1].parse()?, number(2)?, number(3)?, number(4)?)?,
        Some("both") => {
            let server = start("127.0.0.1:0".parse()?, 1)?;
            ask(&server.local_addrs()[0][0].clone(), number(1)?, number(2)?, number(3)?)?;
            println!("{:?}", server.shutdown(Duration::from_secs(1))?);
        }
        _ => {
            return Err("serve ADDRESS THREADS, ask ADDRESS CLIENTS REQUESTS DEPTH, or both".into());
        }
    }
    Ok(())
}
