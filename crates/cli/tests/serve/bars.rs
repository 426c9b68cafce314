//! What a server lets others do to it, and to those whom it serves: exposure, hostile lengths, slow
//! clients and those that never read, strangers, files.
//!
//! Each is shown with the real binary, spoken to over sockets, and looked at through `/proc`. The
//! finer tests stand beside the codecs and the event loop.

use super::{Client, Served};
use crate::support::Lab;
use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;

const ALL: &str = "--engine masstree --threads 1 --listen memcached://127.0.0.1:0 \
                   --listen resp://127.0.0.1:0 --listen masstree://127.0.0.1:0 \
                   --listen mixed://127.0.0.1:0";

/// A number of KiB of `/proc/PID/status`.
fn status_kib(served: &Served, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// Local addresses of the sockets of a process, from the tables of the kernel: `(table, address)`,
/// hexadecimal, of those that wait for somebody.
fn waiting_sockets(served: &Served) -> Vec<(&'static str, String)> {
    let dir = format!("/proc/{}/fd", served.child.id());
    let links =
        fs::read_dir(dir).unwrap().filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let inodes: Vec<String> = links
        .filter_map(|link| {
            let name = link.to_string_lossy().into_owned();
            Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = Vec::new();
    // State 0A is a listening TCP socket, 07 a UDP socket without a peer.
    for (table, state) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        // A kernel without IPv6 has no such tables.
        let text = fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_ours = inodes.iter().any(|inode| inode == words[9]);
            if is_ours && words[3] == state {
                found.push((table, words[1].split(':').next().unwrap().to_owned()));
            }
        }
    }
    found
}

#[track_caller]
pub(crate) fn is_local_alone(served: &Served, at_least: usize) {
    let sockets = waiting_sockets(served);
    assert!(sockets.len() >= at_least, "{sockets:?}");
    for (table, address) in &sockets {
        // 127.0.0.1 and ::1, as the kernel writes them.
        let local = ["0100007F", "00000000000000000000000001000000"];
        assert!(local.contains(&address.as_str()), "{table} {address}: others can reach it");
    }
}

#[test]
fn a_server_listens_to_this_machine_alone() {
    let lab = Lab::new();
    let words = format!("{ALL} --listen masstree+udp://127.0.0.1:0 --admin 127.0.0.1:0");
    let served = Served::start(&lab, &words);
    is_local_alone(&served, 6);
    served.end();
    // As it comes, without a word about where to listen: unless somebody else has those ports.
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    if [11_211, 6379, 2117].iter().all(is_free) {
        let served = Served::start(&lab, "--engine masstree --threads 1");
        is_local_alone(&served, 3);
        served.end();
    } else {
        println!("the usual ports are taken");
    }
}

/// Asks for something ordinary on every protocol.
#[track_caller]
fn others_are_served(served: &Served) {
    served.connect("memcached").ask("set fine 0 0 1\r\ny\r\n", "STORED\r\n");
    served.connect("resp").ask("*2\r\n$3\r\nGET\r\n$4\r\nfine\r\n", "$1\r\ny\r\n");
    let mut masstree = served.connect("masstree");
    masstree.ask(b"\x93\x00\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff\x93\x01\x02\xa4fine", "");
    assert!(masstree.take(9 + 5).ends_with('y'));
}

/// A request of memcached's binary protocol with lengths that need not fit.
fn binary(opcode: u8, key: u16, extras: u8, body: u32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x80, opcode];
    bytes.extend(key.to_be_bytes());
    bytes.extend([extras, 0, 0, 0]);
    bytes.extend(body.to_be_bytes());
    bytes.extend([0; 12]);
    bytes.extend_from_slice(rest);
    bytes
}

/// Lengths and counts at the edges of what numbers can be, where each protocol takes one. Some are
/// answered, some close; none takes memory or holds up anybody.
#[test]
fn lengths_at_the_edges_harm_nobody() {
    const EDGES: [&str; 12] = [
        "-1",
        "-9223372036854775808",
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "4294967297",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
    ];
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    served.connect("resp").ask("SET s value\r\n", "+OK\r\n");
    served.connect("resp").ask("HSET h f 1\r\n", ":1\r\n");
    let mut hostile: Vec<(&str, Vec<u8>)> = Vec::new();
    for edge in EDGES {
        for text in [
            format!("set k 0 0 {edge}\r\nx\r\n"),
            format!("append k 0 0 {edge}\r\nx\r\n"),
            format!("set k {edge} {edge} 1\r\nx\r\n"),
            format!("cas k 0 0 {edge} {edge}\r\nx\r\n"),
            format!("ms k {edge}\r\nx\r\n"),
            format!("incr k {edge}\r\n"),
            format!("touch k {edge}\r\n"),
        ] {
            hostile.push(("memcached", text.into_bytes()));
        }
        for text in [
            format!("*{edge}\r\n"),
            format!("*1\r\n${edge}\r\n"),
            format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${edge}\r\nx\r\n"),
            format!("SETRANGE s {edge} x\r\n"),
            format!("GETRANGE s {edge} {edge}\r\n"),
            format!("HRANDFIELD h {edge}\r\n"),
            format!("HRANDFIELD h {edge} WITHVALUES\r\n"),
            format!("SCAN {edge} COUNT {edge}\r\n"),
            format!("KR.RANGE a z LIMIT {edge}\r\n"),
            format!("PEXPIRE s {edge}\r\nPERSIST s\r\n"),
            format!("INCRBY n {edge}\r\n"),
        ] {
            hostile.push(("resp", text.into_bytes()));
        }
    }
    for (key, extras, body) in
        [(5, 0, 2), (0, 255, 1), (65_535, 255, 3), (1, 8, u32::MAX), (0, 0, 1 << 31), (4, 20, 23)]
    {
        for opcode in [0x00, 0x01, 0x0e, 0x0f, 0x19, 0x1c, 0x21] {
            hostile.push(("memcached", binary(opcode, key, extras, body, b"0123456789")));
        }
    }
    let hello = b"\x93\x00\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff";
    for message in [
        &b"\xdd\xff\xff\xff\xff\x01"[..],
        b"\x94\x01\x08\xdb\xff\xff\xff\xffk",
        b"\x94\x01\x08\xa1k\xc6\xff\xff\xff\xffv",
        b"\x94\x01\x04\xa1k\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x95\x01\x06\xa1k\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1v",
        b"\xdf\xff\xff\xff\xff",
    ] {
        hostile.push(("masstree", [&hello[..], message].concat()));
    }
    let before_kib = status_kib(&served, "VmHWM");
    for (scheme, bytes) in &hostile {
        let mut client = served.connect(scheme);
        client.send(bytes);
        client.end_sending();
        // It is answered or closed; which of both is tested with the codecs.
        let _ = client.rest();
    }
    others_are_served(&served);
    let grown_kib = status_kib(&served, "VmHWM") - before_kib;
    assert!(grown_kib < 64 << 10, "{} messages took {grown_kib} KiB", hostile.len());
    served.end();
}

/// Redis grew by 70 MB here.
#[test]
fn ten_thousand_replies_that_nobody_reads_cost_little() {
    const VALUE_BYTES: usize = 100_000;
    const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let mut other = served.connect("resp");
    let value = "v".repeat(VALUE_BYTES);
    other.ask(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${VALUE_BYTES}\r\n{value}\r\n"), "+OK\r\n");
    // What any client costs is there before: code, buffers of the loop.
    let length = format!("${VALUE_BYTES}\r\n").len() + VALUE_BYTES + 2;
    for _ in 0..4 {
        other.send(REQUEST.repeat(4));
        other.take_bytes(4 * length);
    }
    let before_kib = status_kib(&served, "VmHWM");
    let mut silent = TcpStream::connect(served.address("resp")).unwrap();
    silent.set_nonblocking(true).unwrap();
    let mut rest = REQUEST.repeat(10_000);
    let mut refused = 0;
    // It goes on sending as far as it is let while somebody else is answered. Each answer is a turn
    // of the one loop there is.
    for _ in 0..500 {
        match silent.write(&rest) {
            Ok(count) => drop(rest.drain(..count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            Err(error) => panic!("{error}"),
        }
        other.ask("PING\r\n", "+PONG\r\n");
    }
    let grown_kib = status_kib(&served, "VmHWM") - before_kib;
    println!("{grown_kib} KiB; {} bytes of requests were not taken, {refused} times", rest.len());
    // The limit is 16 MiB of replies, and what one turn wrote above it. A gigabyte was asked for.
    let limit_kib = 17 * 1024 + 512;
    assert!(grown_kib < limit_kib, "{grown_kib} KiB");
    drop(silent);
    others_are_served(&served);
    served.end();
}

#[test]
fn five_hundred_half_sent_requests_hold_up_nobody() {
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let halves: [(&str, &[u8]); 4] = [
        ("memcached", b"set k 0 0 100\r\nhalf"),
        ("memcached", b"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00"),
        ("resp", b"*3\r\n$3\r\nSET\r\n$1"),
        ("masstree", b"\x93\x00\x0e\x82\xa4core"),
    ];
    let mut slow: Vec<(Client, &[u8])> = Vec::new();
    for index in 0..500 {
        let (scheme, bytes) = halves[index % halves.len()];
        let mut client = served.connect(scheme);
        client.send(&bytes[..1]);
        slow.push((client, &bytes[1..]));
    }
    for byte in 0..8 {
        for (client, bytes) in &mut slow {
            client.send(&bytes[byte..=byte]);
        }
        others_are_served(&served);
    }
    drop(slow);
    others_are_served(&served);
    served.end();
}

#[test]
fn a_stranger_can_send_and_ask_for_little() {
    let lab = super::lab_with_secret("open sesame");
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --password-file secret --listen memcached://127.0.0.1:0 \
         --listen resp://127.0.0.1:0",
    );
    let before_kib = status_kib(&served, "VmHWM");
    for bytes in
        ["*11\r\n", "*2\r\n$3\r\nGET\r\n$16385\r\n", "*1048576\r\n", "*1\r\n$536870912\r\n"]
    {
        let mut client = served.connect("resp");
        client.send(bytes);
        assert!(client.rest().starts_with("-ERR Protocol error: unauthenticated"), "{bytes}");
    }
    for bytes in ["set auth 0 0 20000\r\n", "get a\r\n", "set auth 0 0 9\r\nu guessed\r\n"] {
        let mut client = served.connect("memcached");
        client.send(bytes);
        client.end_sending();
        let told = client.rest();
        assert!(!told.contains("STORED") && !told.contains("END"), "{bytes}: {told}");
    }
    // Errors without end, of which none is read.
    let mut silent = TcpStream::connect(served.address("resp")).unwrap();
    silent.set_nonblocking(true).unwrap();
    let errors = b"GET k\r\n".repeat(10_000);
    for _ in 0..200 {
        // A stranger who talks too much may be closed.
        let _ = silent.write(&errors);
        served.connect("resp").ask("PING\r\n", "-NOAUTH");
    }
    let grown_kib = status_kib(&served, "VmHWM") - before_kib;
    assert!(grown_kib < 8 << 10, "{grown_kib} KiB for strangers");
    let mut friend = served.connect("resp");
    friend.ask("AUTH wrong\r\n", "-WRONGPASS");
    drop(friend);
    served.connect("resp").ask("AUTH \"open sesame\"\r\nPING\r\n", "+OK\r\n+PONG\r\n");
    served.end();
}

/// A datagram in somebody else's name must not hit him harder than its sender could.
#[test]
fn an_answer_to_a_datagram_is_no_longer_than_its_request() {
    let lab = Lab::new();
    let words = format!("{ALL} --listen masstree+udp://127.0.0.1:0");
    let served = Served::start(&lab, &words);
    let value = "v".repeat(50_000);
    let set = format!("set k 0 0 {}\r\n{value}\r\n", value.len());
    served.connect("memcached").ask(set, "STORED\r\n");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(served.address("masstree+udp")).unwrap();
    let get: &[u8] = b"\x93\x07\x02\xa1k";
    for padding in [0, 60, 1000, 4000] {
        let request = [get, &vec![0xc0; padding]].concat();
        socket.send(&request).unwrap();
        let mut answer = vec![0; 65_536];
        let count = socket.recv(&mut answer).unwrap();
        assert!(count <= request.len().max(64), "{count} bytes for {}", request.len());
    }
    served.end();
}

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Files of mode 0600 in directories of mode 0700, whatever the mask of whoever starts it.
#[track_caller]
fn is_private(dir: &std::path::Path) {
    assert_eq!(mode(dir), 0o700, "{}", dir.display());
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            is_private(&path);
        } else {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}

#[test]
fn files_are_their_owners_alone() {
    let lab = Lab::new();
    for engine in ["rowstore", "flodb"] {
        let dir = format!("data-{engine}");
        let served = Served::start(
            &lab,
            &format!(
                "--engine {engine} --data-dir {dir} --threads 1 --listen memcached://127.0.0.1:0 \
                 --listen resp://127.0.0.1:0"
            ),
        );
        served.connect("memcached").ask("set k 0 0 1\r\ny\r\n", "STORED\r\n");
        served.connect("resp").ask("SAVE\r\n", "+OK\r\n");
        is_private(&lab.path(&dir));
        served.end();
        is_private(&lab.path(&dir));
    }
}
