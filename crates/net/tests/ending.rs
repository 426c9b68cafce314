//! The end of a server, ordered and not.

use std::io::Write;
use std::time::Duration;

use keyrack_net::{CloseReason, Error, Options, Timeouts};

use crate::support::{
    PATIENCE, address, ask, connect, read_all, read_line, read_until_closed, start,
};

#[test]
fn everything_that_was_read_is_answered_before_the_end() {
    let (board, server) = start(Options { threads: 2, ..Options::default() });
    let count = 50;
    let mut clients: Vec<_> = (0..count).map(|_| connect(&address(&server))).collect();
    for client in &mut clients {
        // More than the kernel holds, so most of it waits in the server.
        client.write_all(b"big 8000000\necho last\n").unwrap();
    }
    // `big` is counted when it is begun; the rest is owed when the end is ordered.
    board.wait("all are read", |facts| facts.served >= count);
    let end = std::thread::spawn(move || server.shutdown(PATIENCE));
    for client in &mut clients {
        let replies = read_all(client);
        assert_eq!(replies.len(), 8_000_001 + 5);
        assert!(replies.ends_with(b"x\nlast\n"));
    }
    let stats = end.join().unwrap().unwrap();
    assert_eq!((stats.open, stats.closed_for(CloseReason::Shutdown)), (0, count as u64));
}

#[test]
fn idle_clients_see_the_end_and_new_ones_are_not_accepted() {
    let (_board, server) = start(Options { threads: 2, ..Options::default() });
    let endpoint = address(&server);
    let mut clients: Vec<_> = (0..10).map(|_| connect(&endpoint)).collect();
    for client in &mut clients {
        assert_eq!(ask(client, "echo 1"), "1");
    }
    let stats = server.shutdown(PATIENCE).unwrap();
    assert_eq!(stats.closed_for(CloseReason::Shutdown), 10);
    for client in &mut clients {
        assert_eq!(read_all(client), b"");
    }
    assert!(keyrack_net::Stream::connect(&endpoint, &Default::default()).is_err());
}

#[test]
fn a_client_that_never_reads_cannot_hold_up_the_end() {
    let timeouts = Timeouts { stalled_output: None, ..Timeouts::default() };
    let (board, server) = start(Options { timeouts, ..Options::default() });
    let mut client = connect(&address(&server));
    client.write_all(b"big 100000000\n").unwrap();
    board.wait("it is read", |facts| facts.served == 1);
    let stats = server.shutdown(Duration::from_millis(50)).unwrap();
    assert_eq!((stats.open, stats.closed_for(CloseReason::Shutdown)), (0, 1));
}

#[test]
fn a_panic_ends_one_loop_and_neither_the_others_nor_the_shutdown() {
    let (_board, server) = start(Options { threads: 2, ..Options::default() });
    let endpoint = address(&server);
    let mut victim = connect(&endpoint);
    let mut survivor = connect(&endpoint);
    assert_eq!(ask(&mut victim, "echo 1"), "1");
    assert_eq!(ask(&mut survivor, "echo 1"), "1");
    victim.write_all(b"panic\n").unwrap();
    assert_eq!(read_until_closed(&mut victim), b"");
    // The others know a moment after the connections are gone.
    while server.stats().loops_panicked == 0 {
        std::thread::yield_now();
    }
    assert_eq!(ask(&mut survivor, "echo 2"), "2");
    // Clients that come now are all the other loop's.
    for _ in 0..20 {
        assert_eq!(ask(&mut connect(&endpoint), "echo 3"), "3");
    }
    assert!(matches!(server.shutdown(PATIENCE), Err(Error::Panicked { count: 1 })));
}

#[test]
fn a_dropped_handle_ends_the_server() {
    let (_board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    assert_eq!(ask(&mut client, "echo 1"), "1");
    drop(server);
    assert_eq!(read_until_closed(&mut client), b"");
}

#[test]
fn requests_before_the_order_are_answered_while_clients_still_send() {
    let (_board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    assert_eq!(ask(&mut client, "echo first"), "first");
    let mut sender = client.try_clone().unwrap();
    let noise = std::thread::spawn(move || while sender.write_all(b"echo more\n").is_ok() {});
    assert_eq!(read_line(&mut client), "more");
    server.shutdown(PATIENCE).unwrap();
    let rest = read_until_closed(&mut client);
    assert!(rest.chunks(5).all(|reply| b"more\n".starts_with(reply)));
    noise.join().unwrap();
}
