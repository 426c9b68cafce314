//! Replies that wait for their iteration to be durable.

use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

use keyrack_net::{ConnectOptions, DatagramPorts, Endpoint, Listener, Options, Stream};

use crate::support::{PATIENCE, address, ask, connect, read_all, read_line, start};

#[test]
fn replies_of_a_turn_wait_for_its_token() {
    let (board, server) = start(Options::default());
    let mut writer = connect(&address(&server));
    let mut reader = connect(&address(&server));
    writer.write_all(b"later first\n").unwrap();
    board.wait("the iteration waits", |facts| facts.token == 1);
    // Others are served meanwhile, and the one that waits is not read.
    writer.write_all(b"echo second\n").unwrap();
    for _ in 0..100 {
        assert_eq!(ask(&mut reader, "echo other"), "other");
    }
    let facts = board.facts();
    assert_eq!((facts.served, facts.done), (101, 0), "a deferred connection was served");
    assert!(server.stats().bytes_out <= 600, "a reply was sent before its time");
    board.finish(1);
    assert_eq!(read_line(&mut writer), "first");
    assert_eq!(read_line(&mut writer), "second");
    assert_eq!(server.stats().iterations_deferred, 1);
}

#[test]
fn iterations_are_released_in_order_by_one_token() {
    let (board, server) = start(Options::default());
    let mut clients: Vec<_> = (0..20).map(|_| connect(&address(&server))).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.write_all(format!("later {index}\n").as_bytes()).unwrap();
        board.wait("the iteration waits", |facts| facts.token == index as u64 + 1);
    }
    board.finish(10);
    for (index, client) in clients.iter_mut().enumerate().take(10) {
        assert_eq!(read_line(client), index.to_string());
    }
    assert_eq!(server.stats().writes, 10);
    board.finish(20);
    for (index, client) in clients.iter_mut().enumerate().skip(10) {
        assert_eq!(read_line(client), index.to_string());
    }
}

#[test]
fn many_threads_finish_iterations_and_no_wake_is_lost() {
    let (board, server) = start(Options { threads: 2, ..Options::default() });
    let endpoint = address(&server);
    let (clients, requests) = (8, 300);
    std::thread::scope(|scope| {
        let board = &board;
        for _ in 0..clients {
            let endpoint = &endpoint;
            scope.spawn(move || {
                let mut client = connect(endpoint);
                for number in 0..requests {
                    let text = number.to_string();
                    assert_eq!(ask(&mut client, &format!("later {text}")), text);
                }
                board.visitor_done();
            });
        }
        scope.spawn(move || board.finish_iterations(clients));
    });
    drop(server);
}

#[test]
fn a_shutdown_waits_for_deferred_replies_and_takes_what_is_unread() {
    let (board, server) = start(Options::default());
    let endpoint = address(&server);
    let mut client = connect(&endpoint);
    client.write_all(b"later safe\n").unwrap();
    board.wait("the iteration waits", |facts| facts.token == 1);
    client.write_all(b"echo unread\n").unwrap();
    let end = std::thread::spawn(move || server.shutdown(PATIENCE));
    // The order has arrived when nobody is let in any more.
    while Stream::connect(&endpoint, &ConnectOptions::with_timeout(PATIENCE)).is_ok() {}
    board.finish(1);
    assert_eq!(read_line(&mut client), "safe");
    assert_eq!(read_all(&mut client), b"", "the end is said, not a reset");
    end.join().unwrap().unwrap();
}

#[test]
fn a_shutdown_without_grace_sends_nothing_that_is_not_durable() {
    let (board, server) = start(Options::default());
    let mut client = connect(&address(&server));
    client.write_all(b"later lost\n").unwrap();
    board.wait("the iteration waits", |facts| facts.token == 1);
    let stats = server.shutdown(Duration::ZERO).unwrap();
    assert_eq!((stats.bytes_out, stats.open), (0, 0));
}

#[test]
fn replies_to_datagrams_wait_as_well() {
    let endpoint = "127.0.0.1:0".parse().unwrap();
    let listeners = vec![Listener::datagrams(endpoint, DatagramPorts::Shared, 100)];
    let (board, server) = start(Options { listeners, ..Options::default() });
    let Endpoint::Ip(to) = address(&server) else { panic!("no address") };
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(b"later", to).unwrap();
    board.wait("the iteration waits", |facts| facts.token == 1);
    assert_eq!(server.stats().datagrams_out, 0);
    board.finish(1);
    let mut reply = [0; 10];
    assert_eq!(client.recv(&mut reply).unwrap(), 5);
}
