//! Limits: connections, sizes of requests, what comes before authentication.

use std::io::Write;
use std::time::Duration;

use keyrack_net::{CloseReason, Limits, Options};

use crate::support::{
    REFUSAL, address, ask, connect, read_all, read_line, read_until_closed, start,
};

const GRACE: Duration = Duration::from_secs(60);

#[test]
fn one_client_too_many_is_told_and_the_next_place_is_taken() {
    let (board, server) = start(Options { connections_max: 3, threads: 2, ..Options::default() });
    let mut clients: Vec<_> = (0..3).map(|_| connect(&address(&server))).collect();
    for client in &mut clients {
        assert_eq!(ask(client, "echo in"), "in");
    }
    for _ in 0..5 {
        assert_eq!(read_all(&mut connect(&address(&server))), REFUSAL);
    }
    assert_eq!(server.stats().open, 3);
    drop(clients.pop());
    board.wait("one has left", |facts| facts.closed == 1);
    assert_eq!(server.stats().open, 2);
    let mut late = connect(&address(&server));
    assert_eq!(ask(&mut late, "echo at last"), "at last");
    assert_eq!(ask(&mut clients[0], "echo still"), "still");
    let stats = server.shutdown(GRACE).unwrap();
    assert_eq!((stats.accepted, stats.refused, stats.open), (4, 5, 0));
}

#[test]
fn a_request_above_its_limit_is_closed_after_the_replies_before_it() {
    let limits = Limits { input_bytes_max: 10_000, ..Limits::default() };
    let (_board, server) = start(Options { limits, ..Options::default() });
    // One that says how much it is, one that does not end, one of exactly the limit.
    let mut client = connect(&address(&server));
    client.write_all(b"echo before\nput 99999999999999\n").unwrap();
    assert_eq!(read_line(&mut client), "before");
    assert_eq!(read_until_closed(&mut client), b"");
    let mut client = connect(&address(&server));
    client.write_all(&[b'e'; 10_000]).unwrap();
    assert_eq!(read_until_closed(&mut client), b"");
    let mut client = connect(&address(&server));
    let mut request = b"put 9991\n".to_vec();
    request.resize(9_999, 0);
    client.write_all(&request).unwrap();
    client.write_all(&[0]).unwrap();
    assert_eq!(read_line(&mut client), "stored 9991 0");
    drop(client);
    assert_eq!(server.shutdown(GRACE).unwrap().closed_for(CloseReason::Oversized), 2);
}

#[test]
fn a_worker_changes_the_limits_of_a_connection() {
    let limits = Limits { input_bytes_max: 100, output_bytes_max: 1 << 16 };
    let (_board, server) = start(Options { limits, ..Options::default() });
    let mut known = connect(&address(&server));
    assert_eq!(ask(&mut known, "limit 1000000 1000000"), "ok");
    let mut request = b"put 500000\n".to_vec();
    request.resize(request.len() + 500_000, 1);
    known.write_all(&request).unwrap();
    assert_eq!(read_line(&mut known), "stored 500000 500000");
    let mut unknown = connect(&address(&server));
    unknown.write_all(b"put 500000\n").unwrap();
    assert_eq!(read_until_closed(&mut unknown), b"");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for options in [
        Options { threads: 0, ..Options::default() },
        Options { threads: 100_000, ..Options::default() },
        Options { connections_max: 0, ..Options::default() },
    ] {
        let refused = keyrack_net::Server::start(crate::support::Lines::default(), options);
        assert!(matches!(refused, Err(keyrack_net::Error::Usage(_))), "{refused:?}");
    }
}

#[test]
fn loops_stay_on_their_cpus() {
    let (board, server) = start(Options { cpus: vec![0], threads: 2, ..Options::default() });
    let facts = board.wait("both have started", |facts| facts.cpus.len() == 2);
    assert_eq!(facts.cpus, [1, 1]);
    assert_eq!(ask(&mut connect(&address(&server)), "echo x"), "x");
}
