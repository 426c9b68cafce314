//! Faults of the daemon that this server takes the place of, each with the real binary, as users
//! met them: a message, a kill, a restart. The finer tests stand beside the codecs and the store.

use super::{Client, Served};
use crate::support::Lab;

const HANDSHAKE: &[u8] = b"\x93\x00\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff";

fn words(threads: usize, logs: usize) -> String {
    let dirs: String = (0..logs).map(|log| format!("--log-dir log-{log} ")).collect();
    format!(
        "--data-dir data --threads {threads} {dirs} --listen masstree://127.0.0.1:0 \
         --listen resp://127.0.0.1:0"
    )
}

fn welcome(served: &Served) -> Client {
    let mut client = served.connect("masstree");
    client.send(HANDSHAKE);
    assert!(client.take(9).ends_with("Bag"));
    client
}

fn kill(mut served: Served) {
    served.child.kill();
    served.child.finish().exits(128 + 9);
}

/// Faults 1 and 4: a log with a removal in it crashed every later start; a kill lost what had been
/// acknowledged last.
#[test]
fn put_remove_kill_restart() {
    let lab = Lab::new();
    let served = Served::start(&lab, &words(1, 1));
    let mut client = welcome(&served);
    client.send(b"\x94\x01\x08\xa1a\xa11\x94\x02\x08\xa1b\xa12");
    assert_eq!(client.take_bytes(8), b"\x93\x01\x09\x01\x93\x02\x09\x01");
    client.send(b"\x93\x03\x0a\xa1a");
    assert_eq!(client.take_bytes(4), b"\x93\x03\x0b\xc3");
    kill(served);
    for _ in 0..2 {
        let served = Served::start(&lab, &words(1, 1));
        let mut client = welcome(&served);
        client.send(b"\x93\x04\x02\xa1a\x93\x05\x02\xa1b");
        assert_eq!(client.take_bytes(3), b"\x92\x04\x03");
        assert_eq!(client.take_bytes(5), b"\x93\x05\x03\xa12");
        kill(served);
    }
}

/// Fault 2: of 3,000 puts of columns in one pipeline, those that straddled a buffer were logged
/// with rubbish in them. Fault 6: rows of more than 64 KiB were cut.
#[test]
fn a_pipeline_of_column_puts_and_a_large_row_come_back() {
    let lab = Lab::new();
    let served = Served::start(&lab, &words(1, 1));
    let mut client = welcome(&served);
    let mut request = Vec::new();
    for n in 0..3000_u32 {
        request.extend(b"\x97\x01\x06\xa4");
        request.extend(format!("{n:04}").into_bytes());
        request.extend(b"\x00\xa3one\x02\xa5three");
    }
    request.extend(b"\x94\x01\x08\xa3big\xdb");
    request.extend(70_000_u32.to_be_bytes());
    request.extend(vec![b'x'; 70_000]);
    client.send(&request);
    for _ in 0..=3000 {
        let answer = client.take_bytes(4);
        assert!(matches!(answer[..], [0x93, 1, 7 | 9, 1]), "{answer:?}");
    }
    kill(served);
    let served = Served::start(&lab, &words(2, 1));
    let mut client = welcome(&served);
    for n in 0..3000_u32 {
        client.send([&b"\x93\x01\x02\xa4"[..], format!("{n:04}").as_bytes()].concat());
        assert_eq!(client.take_bytes(3 + 4 + 1 + 6), b"\x95\x01\x03\xa3one\xa0\xa5three");
    }
    client.send(b"\x93\x01\x02\xa3big");
    let answer = client.take_bytes(3 + 5 + 70_000);
    assert_eq!(answer[3..8], [&[0xdb][..], &70_000_u32.to_be_bytes()].concat()[..]);
    assert!(answer[8..].iter().all(|byte| *byte == b'x'));
    served.end();
}

/// Faults 3 and 5: started with fewer threads, it ignored the logs beyond their number; the empty
/// key was taken and never came back.
#[test]
fn fewer_threads_and_logs_read_all_that_was_logged() {
    let lab = Lab::new();
    let mut count = 0;
    for (threads, logs) in [(4, 4), (1, 1), (2, 3), (1, 2)] {
        let served = Served::start(&lab, &words(threads, logs));
        served.connect("resp").ask("DBSIZE\r\n", &format!(":{count}\r\n"));
        if count > 0 {
            served.connect("resp").ask("GET \"\"\r\n", "$5\r\nempty\r\n");
        } else {
            served.connect("resp").ask("SET \"\" empty\r\n", "+OK\r\n");
            count += 1;
        }
        // Connections are spread over the threads, and so over the logs.
        for client in 0..8 {
            served.connect("resp").ask(format!("SET {threads}:{client} x\r\n"), "+OK\r\n");
        }
        count += if threads == 1 && logs == 2 { 0 } else { 8 };
        kill(served);
    }
    let served = Served::start(&lab, &words(1, 1));
    served.connect("resp").ask("DBSIZE\r\n", &format!(":{count}\r\n"));
    served.end();
}

/// Fault 9: a key of 300 bytes was taken, and the next scan overran a buffer. Fault 12: a scan of
/// no rows gave the whole table.
#[test]
fn a_long_key_and_a_scan_of_nothing_harm_nobody() {
    let lab = Lab::new();
    let served = Served::start(&lab, &words(1, 1));
    let mut client = welcome(&served);
    let mut request = b"\x94\x01\x08\xda\x01\x2c".to_vec();
    request.extend(vec![b'k'; 300]);
    request.extend(b"\xa1v");
    client.send(&request);
    let _ = client.rest();
    let mut client = welcome(&served);
    client.send(b"\x94\x01\x08\xa1k\xa1v\x94\x02\x04\xa0\x00\x94\x03\x04\xa0\x0a");
    assert_eq!(client.take_bytes(4), b"\x93\x01\x09\x01");
    assert_eq!(client.take_bytes(7), b"\xdd\x00\x00\x00\x02\x02\x05");
    assert_eq!(client.take_bytes(11), b"\xdd\x00\x00\x00\x04\x03\x05\xa1k\xa1v");
    served.end();
}

/// Fault 10: half a request stopped all connections of its thread. Fault 13: a handshake had to
/// come in one read, with nothing behind it.
#[test]
fn a_handshake_in_pieces_stops_nobody_else() {
    let lab = Lab::new();
    let served = Served::start(&lab, &words(1, 1));
    let mut slow = served.connect("masstree");
    for byte in HANDSHAKE {
        slow.send([*byte]);
        served.connect("resp").ask("PING\r\n", "+PONG\r\n");
    }
    assert!(slow.take(9).ends_with("Bag"));
    let mut fast = served.connect("masstree");
    fast.send([HANDSHAKE, b"\x94\x01\x08\xa1k\xa1v"].concat());
    assert!(fast.take(9).ends_with("Bag"));
    assert_eq!(fast.take_bytes(4), b"\x93\x01\x09\x01");
    served.end();
}

/// Fault 11: a datagram that was cut was completed by the one before it; lost ones stopped clients.
#[test]
fn a_datagram_is_not_completed_by_the_one_before_it() {
    let lab = Lab::new();
    let served = Served::start(&lab, &(words(1, 1) + " --listen masstree+udp://127.0.0.1:0"));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(served.address("masstree+udp")).unwrap();
    let mut answer = [0; 100];
    let mut ask = |messages: &[&[u8]]| {
        for message in messages {
            socket.send(message).unwrap();
        }
        let count = socket.recv(&mut answer).unwrap();
        answer[..count].to_vec()
    };
    assert_eq!(ask(&[b"\x94\x01\x08\xa1k\xa1v"]), b"\x93\x01\x09\x01");
    // The half gets no answer, so the next that comes is that of the get.
    assert_eq!(ask(&[b"\x94\x02\x08\xa1k", b"\x93\x03\x02\xa1k"]), b"\x93\x03\x03\xa1v");
    served.end();
}
