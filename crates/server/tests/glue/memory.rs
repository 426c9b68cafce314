//! The memory of the connections of all protocols and loops together, on sockets.

use super::{Client, address, options, start};
use keyrack_rowstore::ModelRows;
use keyrack_server::Options;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

const VALUE_BYTES: usize = 1_000_000;

/// Rounds of asking in which something has to happen.
const ASKED_MAX: usize = 50_000;

/// Two loops, and the least memory with which a request of 2 MiB can be taken in.
fn tight() -> Options {
    let mut options = options(&[
        "resp://127.0.0.1:0",
        "memcached://127.0.0.1:0",
        "masstree://127.0.0.1:0",
        "mixed://127.0.0.1:0",
    ]);
    options.value_bytes_max = Some(1 << 20);
    options.request_bytes_max = Some(2 << 20);
    options.clients_memory_bytes_max = Some((4 << 20) / 3 * 4 + 4);
    options
}

/// A client of Redis' that asks for little, whatever the others do.
impl Client {
    fn number(&mut self, section: &str, name: &str) -> usize {
        let info = self.ask(&format!("INFO {section}"));
        let found = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name} in {info}")).parse().unwrap()
    }

    fn held(&mut self) -> usize {
        self.number("memory", "mem_clients_normal")
    }

    fn closed(&mut self) -> usize {
        self.number("stats", "evicted_clients")
    }

    /// Asks until something is so.
    fn wait(&mut self, what: &str, mut is_so: impl FnMut(&mut Client) -> bool) {
        for _ in 0..ASKED_MAX {
            if is_so(self) {
                return;
            }
        }
        panic!("never happened: {what}");
    }
}

/// The beginning of a set, to the listener with this index.
fn set(listener: usize) -> Vec<u8> {
    match listener {
        0 | 3 => format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE_BYTES}\r\n").into_bytes(),
        1 => format!("set k 0 0 {VALUE_BYTES}\r\n").into_bytes(),
        _ => {
            // A handshake; then sequence, operation, key, and a value of 32 bits of length.
            let mut bytes = b"\x93\x00\x0e\x80\x94\x01\x08\xa1k\xc6".to_vec();
            bytes.extend_from_slice(&u32::try_from(VALUE_BYTES).unwrap().to_be_bytes());
            bytes
        }
    }
}

/// What Masstree's handshake is answered with.
const HANDSHAKE_REPLY_BYTES: usize = 9;

/// To how many the server has sent something, or has closed the connection.
fn answered_among(clients: &[(usize, TcpStream)]) -> usize {
    let is_answered = |(_, client): &&(usize, TcpStream)| {
        client.set_nonblocking(true).unwrap();
        let peeked = client.peek(&mut [0]);
        client.set_nonblocking(false).unwrap();
        !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    clients.iter().filter(is_answered).count()
}

#[test]
fn half_sent_values_of_all_protocols_together_had_no_limit() {
    let options = tight();
    let limit = usize::try_from(options.clients_memory_bytes_max()).unwrap();
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let mut small = Client::of(&server);
    let told = small.ask("CONFIG GET maxmemory-clients");
    assert_eq!(told, format!("maxmemory-clients {limit}"));
    let mut clients = Vec::new();
    let closed_before = small.closed();
    for number in 0..10 {
        let (held, answered) = (small.held(), answered_among(&clients));
        let mut client = TcpStream::connect(address(&server, number % 4)).unwrap();
        let mut bytes = set(number % 4);
        bytes.resize(bytes.len() + VALUE_BYTES - 1, b'v');
        // The server may close before everything is written, or taken.
        let _ = client.write_all(&bytes);
        if number % 4 == 2 {
            let _ = client.read_exact(&mut [0; HANDSHAKE_REPLY_BYTES]);
        }
        clients.push((number % 4, client));
        small.wait("it is held, or one is refused", |small| {
            assert!(small.held() <= limit);
            assert_eq!(small.ask("PING"), "+PONG");
            assert_eq!(small.ask("SET s 1"), "+OK");
            // Loops take in steps, and may have had some of it.
            let is_held = small.held() + (400 << 10) >= held + VALUE_BYTES;
            is_held || answered_among(&clients) > answered
        });
    }
    // Those that are held complete their requests; the others are told why not.
    let (mut completed, mut refused) = (0, 0);
    for (protocol, client) in &mut clients {
        let (end, reply, refusal) = match protocol {
            0 | 3 => (
                &b"v\r\n"[..],
                &b"+OK\r\n"[..],
                "-ERR out of memory: connections hold what --clients-memory-max allows\r\n",
            ),
            1 => (
                &b"v\r\n"[..],
                &b"STORED\r\n"[..],
                "SERVER_ERROR out of memory: connections hold what clients-memory-max allows\r\n",
            ),
            // Its request has number 1, and a row of that name was there or not.
            _ => (&b"v"[..], &b"\x93\x01\x09"[..], ""),
        };
        // A connection that was closed takes no more; what was sent may reset it, and take the
        // words with it.
        let _ = client.write_all(end).and_then(|()| client.shutdown(Shutdown::Write));
        let mut words = Vec::new();
        let is_whole = client.read_to_end(&mut words).is_ok();
        if words.windows(reply.len()).any(|part| part == reply) {
            completed += 1;
            continue;
        }
        refused += 1;
        let words = String::from_utf8_lossy(&words);
        assert!(!is_whole || words.ends_with(refusal), "{protocol}: {words}");
    }
    assert!(completed >= 3 && refused >= 4, "{completed} and {refused}");
    drop(clients);
    small.wait("all are closed", |small| small.closed() == closed_before + refused);
    small.wait("all is given back", |small| small.held() < VALUE_BYTES);
    server.end().unwrap();
}

#[test]
fn replies_that_nobody_reads_had_no_limit_in_sum() {
    let options = tight();
    let limit = usize::try_from(options.clients_memory_bytes_max()).unwrap();
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let mut small = Client::of(&server);
    let mut other = Client::of(&server);
    other.0.get_mut().write_all(&set(0)).unwrap();
    other.0.get_mut().write_all(&[b'v'; VALUE_BYTES]).unwrap();
    assert_eq!(other.ask(""), "+OK");
    // Each asks for 60 MB and may have 16 MiB waiting. Clients of memcached's are closed; those of
    // Redis' get an error for each value for which there is no memory.
    let ask_for_60 = |listener: usize| -> Vec<TcpStream> {
        let ask = |_| {
            let mut client = TcpStream::connect(address(&server, listener)).unwrap();
            client.write_all(&b"get k\r\n".repeat(60)).unwrap();
            client
        };
        (0..6).map(ask).collect()
    };
    let silent = ask_for_60(1);
    small.wait("all are closed", |small| {
        assert!(small.held() <= limit);
        assert_eq!(small.ask("GET nothing"), "$-1");
        small.closed() == silent.len()
    });
    drop(silent);
    let silent = ask_for_60(0);
    small.wait("all are answered", |small| {
        assert!(small.held() <= limit);
        assert_eq!(small.ask("GET nothing"), "$-1");
        // Two that take the last of it at the same moment may still be closed.
        let closed = small.closed() - silent.len();
        small.number("stats", "keyspace_hits") + 60 * closed >= 60 * silent.len()
    });
    drop((other, silent));
    small.wait("all is given back", |small| small.held() < VALUE_BYTES);
    server.end().unwrap();
}

/// A scan collects its rows before it is answered.
#[test]
fn what_a_scan_of_masstree_collects_was_not_counted() {
    let options = tight();
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let mut small = Client::of(&server);
    for key in 0..8000 {
        assert_eq!(small.ask(&format!("SET {key:0300} {key:0300}")), "+OK");
    }
    let scan = |rows: u16| {
        let mut client = TcpStream::connect(address(&server, 2)).unwrap();
        // A handshake; then sequence, operation, first key, and how many rows.
        let mut bytes = b"\x93\x00\x0e\x80\x94\x01\x04\xa0\xcd".to_vec();
        bytes.extend_from_slice(&rows.to_be_bytes());
        client.write_all(&bytes).unwrap();
        client
    };
    let mut words = Vec::new();
    scan(4200).take(4200 * 600).read_to_end(&mut words).unwrap();
    assert_eq!(words.len(), 4200 * 600, "{:?}", words.first_chunk::<9>());
    words.clear();
    scan(8000).read_to_end(&mut words).unwrap();
    assert!(words.len() < 100 && words.ends_with(b"\x92\x01\xff"), "{} bytes", words.len());
    small.wait("all is given back", |small| small.held() < VALUE_BYTES);
    server.end().unwrap();
}
