//! UDP: sizes in both directions, ports.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use keyrack_net::{DatagramPorts, Endpoint, Listener, ListenerKind, Options, Server};

use crate::support::{Board, Lines, PATIENCE};

fn client() -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

fn exchange(client: &UdpSocket, to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    client.send_to(bytes, to).unwrap();
    let mut reply = vec![0; 65_536];
    let (count, from) = client.recv_from(&mut reply).unwrap();
    assert_eq!(from, to, "the reply comes from another port");
    reply.truncate(count);
    reply
}

fn ip(endpoint: &Endpoint) -> SocketAddr {
    let Endpoint::Ip(address) = endpoint else { panic!("no address: {endpoint}") };
    *address
}

#[test]
fn sizes_are_limited_in_both_directions() {
    let kind = ListenerKind::Datagrams {
        ports: DatagramPorts::Shared,
        request_bytes_max: 1_000,
        reply_bytes_max: 1_010,
    };
    let listeners = vec![Listener { endpoint: "127.0.0.1:0".parse().unwrap(), kind }];
    // Every reply is 20 bytes longer than its request.
    let board = Arc::new(Board::default());
    let service = Lines(Arc::clone(&board), 20);
    let server = Server::start(service, Options { listeners, ..Options::default() }).unwrap();
    let (client, to) = (client(), ip(&server.local_addrs()[0][0]));
    assert_eq!(exchange(&client, to, b"ab").len(), 22);
    assert_eq!(exchange(&client, to, &[1; 990]).len(), 1_010);
    // Neither of these is answered, so the next reply is the one to the last.
    client.send_to(&[1; 991], to).unwrap();
    client.send_to(&[1; 1_001], to).unwrap();
    client.send_to(&[1; 60_000], to).unwrap();
    assert_eq!(exchange(&client, to, b"").len(), 20);
    let stats = server.shutdown(PATIENCE).unwrap();
    assert_eq!((stats.datagrams_in, stats.datagrams_out), (4, 3));
    assert_eq!((stats.datagrams_oversized, stats.datagram_replies_oversized), (2, 1));
    assert_eq!(board.facts().served, 4);
}

#[test]
fn loops_share_a_port_or_have_one_each() {
    let endpoint: Endpoint = "127.0.0.1:0".parse().unwrap();
    let listeners = vec![
        Listener::datagrams(endpoint.clone(), DatagramPorts::PerLoop, 100),
        Listener::datagrams(endpoint, DatagramPorts::Shared, 100),
    ];
    let service = Lines::default();
    let options = Options { listeners, threads: 3, ..Options::default() };
    let server = Server::start(service, options).unwrap();
    let ports: BTreeSet<_> = server.local_addrs()[0].iter().map(|local| ip(local).port()).collect();
    assert_eq!(ports.len(), 3);
    for local in server.local_addrs()[0].iter().chain(&server.local_addrs()[1]) {
        for _ in 0..10 {
            assert_eq!(exchange(&client(), ip(local), b"ping"), b"ping");
        }
    }
}
