//! Clients of all protocols on one set of keys.

use super::Served;
use crate::support::Lab;

const ALL: &str = "--engine masstree --threads 2 --listen memcached://127.0.0.1:0 \
                   --listen resp://127.0.0.1:0 --listen masstree://127.0.0.1:0 \
                   --listen mixed://127.0.0.1:0";

/// A handshake of Masstree and the start of its answer.
const HANDSHAKE: &[u8] = b"\x93\x00\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff";

#[test]
fn the_same_keys_are_seen_through_all_protocols() {
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let mut memcached = served.connect("memcached");
    memcached.ask("set k 7 0 5\r\nhello\r\n", "STORED\r\n");
    let mut redis = served.connect("resp");
    redis.ask("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "$5\r\nhello\r\n");
    redis.ask("*3\r\n$3\r\nSET\r\n$1\r\nr\r\n$2\r\nv1\r\n", "+OK\r\n");
    redis.ask("*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\n1\r\n", ":1\r\n");
    memcached.ask("get r h\r\n", "VALUE r 0 2\r\nv1\r\nEND\r\n");
    let mut masstree = served.connect("masstree");
    masstree.send(HANDSHAKE);
    assert!(masstree.take(9).ends_with("Bag"));
    masstree.send(b"\x93\x01\x02\xa1r");
    let answer = masstree.take(6);
    assert!(answer.ends_with("v1"), "{answer:?}");
    let seen = served.end();
    assert!(seen.contains("ended"), "{seen}");
}

#[test]
fn a_mixed_port_tells_protocols_apart() {
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let mut memcached = served.connect("mixed");
    memcached.ask("set k 0 0 1\r\nx\r\nget k\r\n", "STORED\r\nVALUE k 0 1\r\nx\r\nEND\r\n");
    let mut redis = served.connect("mixed");
    redis.ask("*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n", "$1\r\nx\r\n+PONG\r\n");
    let mut inline = served.connect("mixed");
    inline.ask("PING\r\n", "+PONG\r\n");
    let mut masstree = served.connect("mixed");
    masstree.send(HANDSHAKE);
    assert!(masstree.take(9).ends_with("Bag"));
    served.end();
}

#[test]
fn http_on_a_cache_port_is_closed() {
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    for scheme in ["memcached", "resp", "masstree"] {
        let mut browser = served.connect(scheme);
        browser
            .send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nset a 0 0 1\r\n1\r\n");
        let _ = browser.rest();
    }
    served.connect("memcached").ask("get a\r\n", "END\r\n");
    served.end();
}

#[test]
fn a_password_is_asked_for_by_every_protocol_that_can() {
    let lab = super::lab_with_secret("open sesame");
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --password-file secret --listen memcached://127.0.0.1:0 \
         --listen resp://127.0.0.1:0",
    );
    let mut memcached = served.connect("memcached");
    memcached.send("get k\r\n");
    assert_eq!(memcached.rest(), "CLIENT_ERROR unauthenticated\r\n");
    let mut memcached = served.connect("memcached");
    memcached.ask("set k 0 0 13\r\nu open sesame\r\n", "STORED\r\n");
    memcached.ask("get k\r\n", "END\r\n");
    let mut redis = served.connect("resp");
    redis.send("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert!(redis.line().starts_with("-NOAUTH"));
    redis.ask("*2\r\n$4\r\nAUTH\r\n$11\r\nopen sesame\r\n", "+OK\r\n");
    redis.ask("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "$-1\r\n");
    let told = served.end();
    assert!(!told.contains("sesame"), "the password is in the log");
}

#[test]
fn a_unix_socket_is_for_its_owner_and_goes_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let lab = Lab::new();
    let path = lab.path("k.sock");
    let words = format!("--engine masstree --threads 2 --listen unix://{}", path.display());
    let served = Served::start(&lab, &words);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).unwrap();
    std::io::Write::write_all(&mut stream, b"version\r\n").unwrap();
    let mut reply = [0; 7];
    std::io::Read::read_exact(&mut stream, &mut reply).unwrap();
    assert_eq!(&reply, b"VERSION");
    drop(stream);
    served.end();
    assert!(!path.exists());
}
