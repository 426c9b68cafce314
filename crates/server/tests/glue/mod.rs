//! The server on real sockets: loops, sessions, flushes, the sync thread, the admin page.

use keyrack_rowstore::{ModelRows, Options as RowOptions, RowStore, Rows};
use keyrack_server::{Control, Listen, Options, Server};
use keyrack_store::Durability;
use keyrack_vfs::{Fs, MemFs, RealFs};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;

fn options(listen: &[&str]) -> Options {
    let mut options = Options { engine: "masstree".to_owned(), threads: 2, ..Options::default() };
    options.listen = listen.iter().map(|text| Listen::parse(text).unwrap()).collect();
    options
}

fn start(rows: Box<dyn Rows>, options: &Options) -> (Server, Control) {
    options.check().unwrap();
    let control = Control::new();
    (Server::start(rows, options, &control, &RealFs).unwrap(), control)
}

fn address(server: &Server, index: usize) -> String {
    server.bound()[index].endpoint.to_string()
}

fn ask(address: &str, request: &[u8], reply: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&got),
        String::from_utf8_lossy(reply),
        "to {}",
        String::from_utf8_lossy(request)
    );
}

#[test]
fn all_protocols_meet_on_the_same_rows() {
    let options =
        options(&["memcached://127.0.0.1:0", "resp://127.0.0.1:0", "mixed://127.0.0.1:0"]);
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let (memcached, redis, mixed) = (address(&server, 0), address(&server, 1), address(&server, 2));
    ask(&memcached, b"set k 0 0 1\r\nv\r\n", b"STORED\r\n");
    ask(&redis, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", b"$1\r\nv\r\n");
    ask(&mixed, b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
    ask(&mixed, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", b"$1\r\nv\r\n");
    ask(&mixed, b"\x93\x00\x0e\x80\x93\x01\x02\xa1k", b"\x95\x00\x0f\xc3");
    server.end().unwrap();
}

/// With durability `sync` a reply waits for the thread that syncs, and comes.
#[test]
fn replies_wait_for_the_disk_and_come() {
    let disk = MemFs::new();
    let fs: Arc<dyn Fs> = Arc::new(disk);
    let open = || {
        let options = RowOptions { durability: Durability::Sync, ..RowOptions::default() };
        let options = options.with_segment_bytes(1 << 20);
        Box::new(RowStore::open(Arc::clone(&fs), Path::new("/rows"), options, &|_| {}).unwrap())
    };
    let options = options(&["memcached://127.0.0.1:0", "resp://127.0.0.1:0"]);
    let (server, _) = start(open(), &options);
    let (memcached, redis) = (address(&server, 0), address(&server, 1));
    std::thread::scope(|threads| {
        for client in 0..4 {
            let memcached = &memcached;
            threads.spawn(move || {
                for index in 0..50 {
                    let set = format!("set k{client}.{index} 0 0 1\r\nv\r\n");
                    ask(memcached, set.as_bytes(), b"STORED\r\n");
                }
            });
        }
    });
    ask(&redis, b"*1\r\n$6\r\nDBSIZE\r\n", b":200\r\n");
    server.end().unwrap();
    let rows = open();
    assert_eq!(rows.len(), 200);
}

#[test]
fn a_command_can_end_the_server() {
    let (server, control) = start(Box::new(ModelRows::new()), &options(&["resp://127.0.0.1:0"]));
    let mut stream = TcpStream::connect(address(&server, 0)).unwrap();
    stream.write_all(b"*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n").unwrap();
    assert_eq!(control.wait_for_end(), None);
    server.end().unwrap();
}

/// Masstree's messages cannot say a password, so a mixed port with one does not take them.
#[test]
fn a_mixed_port_with_a_password_takes_no_masstree() {
    let mut options = options(&["mixed://127.0.0.1:0"]);
    options.password = keyrack_server::Password::new(b"secret");
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let mut stream = TcpStream::connect(address(&server, 0)).unwrap();
    stream.write_all(b"\x93\x00\x0e\x80").unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    assert!(reply.is_empty());
    ask(&address(&server, 0), b"set a 0 0 8\r\nu secret\r\nget a\r\n", b"STORED\r\nEND\r\n");
    server.end().unwrap();
}

#[test]
fn a_datagram_is_answered() {
    let (server, _) = start(Box::new(ModelRows::new()), &options(&["masstree+udp://127.0.0.1:0"]));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(b"\x94\x01\x08\xa1k\xa1v", address(&server, 0)).unwrap();
    let mut reply = [0; 64];
    let (bytes, _) = socket.recv_from(&mut reply).unwrap();
    assert_eq!(&reply[..bytes], b"\x93\x01\x09\x01");
    server.end().unwrap();
}

#[test]
fn the_admin_page_shows_what_was_counted() {
    let mut options = options(&["memcached://127.0.0.1:0"]);
    options.admin = Some("127.0.0.1:0".to_owned());
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    ask(&address(&server, 0), b"get a\r\nget b\r\n", b"END\r\nEND\r\n");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(address(&server, 1)).unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
            .unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    assert!(get("/metrics").contains("keyrack_memcached_get_misses_total 2\n"));
    assert!(get("/stats.json").contains("\"get_misses\":2"));
    assert!(get("/").contains("<!doctype html>"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    server.end().unwrap();
}
