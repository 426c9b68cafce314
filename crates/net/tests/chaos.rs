//! Clients that do everything wrong in a random order, beside one that does nothing wrong. In the
//! end every connection is closed, counted once, and its place is free.

use std::io::{Read, Write};
use std::thread;

use keyrack_net::{Endpoint, Limits, Options};

use crate::support::{PATIENCE, address, ask, connect, read_line, read_until_closed, start};
use keyrack_testkit::random::{Draw, seed_or};

const THREADS: u64 = 6;
const ROUNDS: usize = 120;
const CHECKS: usize = 400;

/// One connection and what its client does with it, well or badly.
fn visit(endpoint: &Endpoint, draw: &mut Draw) {
    let mut client = connect(endpoint);
    for _ in 0..draw.below(4) {
        match draw.below(9) {
            0 => assert_eq!(ask(&mut client, "echo well"), "well"),
            1 => assert_eq!(ask(&mut client, "later well"), "well"),
            // A request in two pieces.
            2 => {
                client.write_all(b"put 10\n012345").unwrap();
                client.write_all(b"6789").unwrap();
                assert_eq!(read_line(&mut client), "stored 10 525");
            }
            // Gone in the middle of a request.
            3 => return client.write_all(b"put 1000000\nxyz").unwrap(),
            // Gone with replies unread: the kernel resets.
            4 => return client.write_all(b"big 3000000\nlater x\necho y\n").unwrap(),
            // Half closed, and read to the end.
            5 => {
                client.write_all(b"later a\nbig 400000\necho z\nech").unwrap();
                client.shutdown_write().unwrap();
                assert_eq!(read_until_closed(&mut client).len(), 2 + 400_001 + 2);
                return;
            }
            // More than the limit, after a reply.
            6 => {
                client.write_all(b"echo b\nput 9999999999\nmore").unwrap();
                assert_eq!(read_line(&mut client), "b");
                read_until_closed(&mut client);
                return;
            }
            // Asked to leave, and still talking.
            7 => {
                let noise = "echo noise\n".repeat(draw.below(20_000));
                client.write_all(format!("quit\n{noise}").as_bytes()).unwrap();
                assert_eq!(read_line(&mut client), "bye");
                return;
            }
            // Reads a part of what it has asked for.
            _ => {
                client.write_all(b"big 2000000\n").unwrap();
                let mut part = vec![0; draw.below(1_000_000) + 1];
                client.read_exact(&mut part).unwrap();
                return;
            }
        }
    }
}

#[test]
fn a_crowd_that_does_everything_wrong_harms_nobody_and_leaves_nothing() {
    let seed = seed_or(1);
    let limits = Limits { input_bytes_max: 2 << 20, output_bytes_max: 300_000 };
    let (board, server) = start(Options { threads: 2, limits, ..Options::default() });
    let endpoint = address(&server);
    thread::scope(|scope| {
        let (board, endpoint) = (&board, &endpoint);
        for index in 0..THREADS {
            scope.spawn(move || {
                let mut draw = Draw::new(seed.wrapping_mul(100) + index);
                for _ in 0..ROUNDS {
                    visit(endpoint, &mut draw);
                }
                board.visitor_done();
            });
        }
        scope.spawn(move || {
            let mut client = connect(endpoint);
            for check in 0..CHECKS {
                let word = if check % 7 == 0 { "later" } else { "echo" };
                assert_eq!(ask(&mut client, &format!("{word} {check}")), check.to_string());
            }
            board.visitor_done();
        });
        scope.spawn(move || board.finish_iterations(THREADS as usize + 1));
    });
    // Iterations that nobody waited for may still be deferred.
    board.finish(u64::MAX);
    let visits = THREADS as usize * ROUNDS + 1;
    board.wait("all have come and gone", |facts| (facts.opened, facts.closed) == (visits, visits));
    let stats = server.shutdown(PATIENCE).unwrap();
    assert_eq!((stats.accepted, stats.open, stats.refused), (visits as u64, 0, 0));
    assert_eq!(stats.closed.iter().sum::<u64>(), visits as u64, "{stats:?}");
}
