//! The memory of all connections together: what is refused at its limit, and who is served on.

use std::io::Write;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use keyrack_net::{
    ClientMemory, CloseReason, DatagramPorts, Limits, Listener, Options, Server, Stream,
};

use crate::support::{
    Board, Lines, NO_MEMORY, PATIENCE, REFUSAL, address, ask, connect, read_all, read_line,
    read_until_closed, start, wait_until,
};

const GRACE: Duration = Duration::from_secs(60);

/// What a connection is counted for that holds no large buffer.
const CONNECTION_BYTES: u64 = 8 << 10;

fn options(memory: &Arc<ClientMemory>, threads: usize) -> Options {
    Options { memory: Arc::clone(memory), threads, ..Options::default() }
}

/// All of a request but its last byte.
fn send_nearly_all(client: &mut Stream, bytes: usize) {
    let mut request = format!("put {bytes}\n").into_bytes();
    request.resize(request.len() + bytes - 1, 1);
    client.write_all(&request).unwrap();
}

#[test]
fn half_sent_requests_of_several_connections_exceeded_any_sum() {
    let memory = ClientMemory::new(4 << 20);
    let (board, server) = start(options(&memory, 2));
    let mut small = connect(&address(&server));
    assert_eq!(ask(&mut small, "echo before"), "before");
    let mut first = connect(&address(&server));
    send_nearly_all(&mut first, 3_000_000);
    wait_until("the first request is there", || memory.bytes() >= 3_000_000);
    for round in 1..=3 {
        let mut other = connect(&address(&server));
        // The server may close before everything is written.
        let mut request = b"put 3000000\n".to_vec();
        request.resize(2_000_000, 1);
        let _ = other.write_all(&request);
        let told = read_until_closed(&mut other);
        assert!(told.is_empty() || told == NO_MEMORY, "{told:?}");
        board.wait("it was closed", |facts| facts.out_of_memory == round);
        assert!(memory.bytes() <= memory.bytes_max());
        assert_eq!(ask(&mut small, "echo beside"), "beside");
    }
    first.write_all(&[1]).unwrap();
    assert_eq!(read_line(&mut first), "stored 3000000 3000000");
    drop((first, small));
    board.wait("all have left", |facts| facts.closed == 5);
    assert_eq!(memory.bytes(), 0);
    assert_eq!(server.shutdown(GRACE).unwrap().closed_for(CloseReason::Memory), 3);
}

#[test]
fn clients_that_never_read_held_their_replies_without_a_common_limit() {
    let memory = ClientMemory::new(16 << 20);
    let (board, server) = start(options(&memory, 2));
    let mut small = connect(&address(&server));
    // Each may have 16 MiB of replies waiting, and the kernel takes some.
    let mut silent: Vec<Stream> = (0..8).map(|_| connect(&address(&server))).collect();
    for client in &mut silent {
        client.write_all(b"big 100000000\n").unwrap();
    }
    let mut rounds = 0;
    while board.facts().closed < 7 {
        assert_eq!(ask(&mut small, "echo beside"), "beside");
        assert!(memory.bytes() <= memory.bytes_max());
        rounds += 1;
    }
    assert!(rounds > 0);
    drop((small, silent));
    board.wait("all have left", |facts| facts.closed == 9);
    assert_eq!(memory.bytes(), 0);
    let stats = server.shutdown(GRACE).unwrap();
    assert!(stats.closed_for(CloseReason::Memory) >= 7, "{stats:?}");
}

/// A reply that is too large is dropped whole: the client is told why it gets none.
#[test]
fn a_reply_for_which_there_is_no_memory_is_replaced_by_the_reason() {
    let memory = ClientMemory::new(256 << 10);
    let (board, server) = start(options(&memory, 1));
    let mut client = connect(&address(&server));
    client.write_all(b"echo before\n").unwrap();
    assert_eq!(read_line(&mut client), "before");
    client.write_all(b"big 1000000\n").unwrap();
    assert_eq!(read_until_closed(&mut client), NO_MEMORY);
    board.wait("it has left", |facts| facts.closed == 1);
    assert_eq!(memory.bytes(), 0);
    assert_eq!(server.shutdown(GRACE).unwrap().closed_for(CloseReason::Memory), 1);
}

/// The limit holds to the byte: five connections fit into the memory of five, and four into a byte
/// less. Small requests are served though nothing is left.
#[test]
fn a_connection_for_which_there_is_no_memory_is_refused() {
    for (bytes, fit) in [(5 * CONNECTION_BYTES, 5), (5 * CONNECTION_BYTES - 1, 4)] {
        let memory = ClientMemory::new(bytes);
        let (board, server) = start(options(&memory, 1));
        let mut clients: Vec<Stream> = (0..fit).map(|_| connect(&address(&server))).collect();
        for client in &mut clients {
            assert_eq!(ask(client, "echo in"), "in");
        }
        assert_eq!(read_all(&mut connect(&address(&server))), REFUSAL);
        assert_eq!(server.stats().open, fit);
        for client in &mut clients {
            client.write_all(b"echo half").unwrap();
            assert_eq!(ask(client, ""), "half");
        }
        drop(clients.pop());
        board.wait("one has left", |facts| facts.closed == 1);
        let mut late = connect(&address(&server));
        assert_eq!(ask(&mut late, "echo at last"), "at last");
        drop((late, clients));
        board.wait("all have left", |facts| facts.closed == fit as usize + 1);
        assert_eq!(memory.bytes(), 0);
        let stats = server.shutdown(GRACE).unwrap();
        assert_eq!((stats.accepted, stats.refused), (fit + 1, 1));
    }
}

/// Small and larger requests, one after the other: nothing is written that other loops read.
#[test]
fn a_request_writes_to_no_memory_that_loops_share() {
    let memory = ClientMemory::new(64 << 20);
    let (_board, server) = start(options(&memory, 2));
    let mut clients: Vec<Stream> = (0..4).map(|_| connect(&address(&server))).collect();
    let mut ask_all = || {
        for client in &mut clients {
            assert_eq!(ask(client, "echo x"), "x");
            client.write_all(b"big 20000\n").unwrap();
            assert_eq!(read_line(client).len(), 20_000);
        }
    };
    ask_all();
    let moves = memory.moves();
    (0..200).for_each(|_| ask_all());
    assert_eq!(memory.moves(), moves);
}

/// What a worker keeps for its connections is counted by it; a request that fits exactly is taken.
#[test]
fn a_request_is_taken_up_to_the_memory_that_large_holders_may_have() {
    let memory = ClientMemory::new(8 << 20);
    let limits = Limits { input_bytes_max: 64 << 20, ..Limits::default() };
    let (board, server) = start(Options { limits, ..options(&memory, 1) });
    let mut client = connect(&address(&server));
    send_nearly_all(&mut client, 6_000_000);
    wait_until("the request is there", || memory.bytes() >= 6_000_000);
    client.write_all(&[1]).unwrap();
    assert_eq!(read_line(&mut client), "stored 6000000 6000000");
    let mut client = connect(&address(&server));
    let mut request = b"put 8000000\n".to_vec();
    request.resize(7_500_000, 1);
    let _ = client.write_all(&request);
    read_until_closed(&mut client);
    board.wait("it was closed", |facts| facts.out_of_memory == 1);
    drop(server);
    assert_eq!(memory.bytes(), 0);
}

/// Replies to datagrams that wait for the disk have no connection, and no limit of one.
#[test]
fn deferred_replies_to_datagrams_had_no_limit() {
    const REPLY_BYTES: usize = 8 << 10;
    let memory = ClientMemory::new(256 << 10);
    let board = Arc::new(Board::default());
    let endpoint = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::datagrams(endpoint, DatagramPorts::PerLoop, 2 * REPLY_BYTES);
    let options = Options { listeners: vec![listener], ..options(&memory, 1) };
    let server = Server::start(Lines(Arc::clone(&board), REPLY_BYTES), options).unwrap();
    let to = address(&server).to_string();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    for number in 1..=100 {
        client.send_to(b"later", &to).unwrap();
        // Each in its own iteration, because one iteration could hold too much.
        board.wait("its iteration waits", |facts| facts.token == number);
        assert!(memory.bytes() <= memory.bytes_max());
    }
    let token = board.facts().token;
    board.finish(token);
    let mut reply = vec![0; 2 * REPLY_BYTES];
    assert_eq!(client.recv_from(&mut reply).unwrap().0, REPLY_BYTES + 5);
    wait_until("all are sent", || server.stats().datagrams_out >= 10);
    wait_until("all is given back", || memory.bytes() == 0);
    let stats = server.shutdown(GRACE).unwrap();
    assert_eq!(stats.datagrams_out + stats.datagram_replies_lost, 100);
    assert!(stats.datagram_replies_lost >= 70, "{stats:?}");
}
