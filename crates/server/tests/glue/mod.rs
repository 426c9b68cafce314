//! The server on real sockets: loops, sessions, flushes, the sync thread, the admin page.

mod log;
mod memory;
mod metrics;

use keyrack_net::{ConnectOptions, Stream, TlsClient};
use keyrack_rowstore::{ModelRows, Options as RowOptions, RowStore, Rows};
use keyrack_server::{Control, Listen, Options, Password, Server};
use keyrack_store::Durability;
use keyrack_vfs::{Fs, MemFs, RealFs};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

pub(crate) fn options(listen: &[&str]) -> Options {
    let mut options = Options { engine: "masstree".to_owned(), threads: 2, ..Options::default() };
    options.listen = listen.iter().map(|text| Listen::parse(text).unwrap()).collect();
    options
}

pub(crate) fn start(rows: Box<dyn Rows>, options: &Options) -> (Server, Control) {
    options.check().unwrap();
    let control = Control::new();
    (Server::start(rows, options, &control, &RealFs).unwrap(), control)
}

pub(crate) fn address(server: &Server, index: usize) -> String {
    server.bound()[index].endpoint.to_string()
}

/// A connection that sends text and reads lines.
pub(crate) struct Client<S = TcpStream>(pub(crate) BufReader<S>);

impl Client {
    /// To the first listener.
    pub(crate) fn of(server: &Server) -> Client {
        Client(BufReader::new(TcpStream::connect(address(server, 0)).unwrap()))
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    /// Sends a line; its reply as text, of an array the elements with blanks between.
    pub(crate) fn ask(&mut self, request: &str) -> String {
        self.send(&format!("{request}\r\n"));
        self.reply()
    }

    fn reply(&mut self) -> String {
        let head = self.line();
        let count = |text: &str| text.parse::<usize>().unwrap();
        match head.split_at_checked(1) {
            Some(("$", length)) if length != "-1" => {
                let mut bytes = vec![0; count(length) + 2];
                self.0.read_exact(&mut bytes).unwrap();
                String::from_utf8_lossy(&bytes[..bytes.len() - 2]).into_owned()
            }
            Some(("*", elements)) => {
                (0..count(elements)).map(|_| self.reply()).collect::<Vec<_>>().join(" ")
            }
            _ => head,
        }
    }
}

/// A server of others on a unix socket, which ends with the test.
pub(crate) struct Real {
    process: Child,
    pub(crate) socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Real {
    /// Starts `program`, if there is one of the version that we follow. The socket comes behind
    /// `arguments`, and the line `ready` when it listens.
    pub(crate) fn start(
        program: &str,
        version: &str,
        arguments: &[&str],
        ready: &str,
    ) -> Option<Real> {
        let told = Command::new(program).arg("--version").output().ok()?;
        if !String::from_utf8_lossy(&told.stdout).contains(version) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let (reader, writer) = std::io::pipe().unwrap();
        let process = Command::new(program)
            .args(arguments)
            .arg(&socket)
            .current_dir(directory.path())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(reader).lines();
        let is_ready = lines.any(|line| line.unwrap().contains(ready));
        assert!(is_ready, "{program} starts");
        // What it says from here on is of no interest, but it must not wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Real { process, socket, _directory: directory })
    }
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
    options.password = Password::new(b"secret");
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
    let get_with = |path: &str, headers: &str| {
        let mut stream = TcpStream::connect(address(&server, 1)).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    let get = |path: &str| get_with(path, "Host: localhost\r\n");
    assert!(get("/metrics").contains("keyrack_memcached_get_misses_total 2\n"));
    assert!(get("/stats.json").contains("\"get_misses\":2"));
    assert!(get("/").contains("<!doctype html>"));
    assert!(get("/nothing").starts_with("HTTP/1.1 404"));
    // A page of another site whose name leads here reads nothing.
    for headers in ["Host: attacker.example\r\n", ""] {
        for path in ["/", "/metrics"] {
            assert!(get_with(path, headers).starts_with("HTTP/1.1 403"), "{path} with {headers:?}");
        }
    }
    server.end().unwrap();
}

/// Reads to the end of the connection, which has to come.
pub(crate) fn rest(stream: &mut impl Read) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A client that says nothing is closed by CLIENT KILL all the same, whichever loop it is on.
#[test]
fn a_killed_client_is_closed_though_it_is_idle() {
    let options = options(&["resp://127.0.0.1:0", "mixed://127.0.0.1:0"]);
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let mut idle: Vec<TcpStream> = (0..6)
        .map(|index| {
            let mut client = TcpStream::connect(address(&server, index % 2)).unwrap();
            client.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
            client.read_exact(&mut [0; 7]).unwrap();
            client
        })
        .collect();
    ask(&address(&server, 0), b"CLIENT KILL TYPE normal SKIPME yes\r\n", b":6\r\n");
    for client in &mut idle {
        assert_eq!(rest(client), "");
    }
    server.end().unwrap();
}

/// CONFIG SET requirepass is the password of all protocols, from the next connection on.
#[test]
fn a_new_password_is_asked_for_by_all_protocols() {
    let options =
        options(&["resp://127.0.0.1:0", "memcached://127.0.0.1:0", "mixed://127.0.0.1:0"]);
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let (redis, memcached, mixed) = (address(&server, 0), address(&server, 1), address(&server, 2));
    let set = |password: &str| {
        let length = password.len();
        format!(
            "*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$11\r\nrequirepass\r\n${length}\r\n{password}\r\n"
        )
    };
    ask(&redis, set("secret").as_bytes(), b"+OK\r\n");
    ask(&redis, b"*1\r\n$4\r\nPING\r\n", b"-NOAUTH");
    ask(&memcached, b"set a 0 0 7\r\nu wrong\r\n", b"CLIENT_ERROR");
    ask(&memcached, b"set a 0 0 8\r\nu secret\r\nget a\r\n", b"STORED\r\nEND\r\n");
    let mut masstree = TcpStream::connect(&mixed).unwrap();
    masstree.write_all(b"\x93\x00\x0e\x80").unwrap();
    assert_eq!(rest(&mut masstree), "");
    let auth = b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    ask(&mixed, &[&auth[..], set("").as_bytes()].concat(), b"+OK\r\n+OK\r\n");
    ask(&redis, b"*1\r\n$4\r\nPING\r\n", b"+PONG\r\n");
    ask(&memcached, b"get a\r\n", b"END\r\n");
    server.end().unwrap();
}

/// Who listens to others keeps a password.
#[test]
fn an_exposed_server_keeps_its_password() {
    let mut options = options(&["resp://0.0.0.0:0"]);
    options.password = Password::new(b"secret");
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let port = address(&server, 0).rsplit(':').next().unwrap().to_owned();
    let auth = b"*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    let clear = b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$11\r\nrequirepass\r\n$0\r\n\r\n";
    let both = [&auth[..], &clear[..]].concat();
    ask(&format!("127.0.0.1:{port}"), &both, b"+OK\r\n-ERR CONFIG SET failed");
    server.end().unwrap();
}

/// The protocols behind TLS: the same rows; who does not speak it, or does not trust the server,
/// gets nothing.
#[test]
fn a_listener_with_tls_serves_those_who_trust_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["server", "stranger"] {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let write = |name: String, text: String| {
            RealFs.write_atomic(&path(&name), text.as_bytes()).unwrap();
        };
        write(format!("{name}.crt"), made.cert.pem());
        write(format!("{name}.key"), made.signing_key.serialize_pem());
    }
    let mut options = options(&[
        "rediss://127.0.0.1:0",
        "memcached+tls://127.0.0.1:0",
        "mixed+tls://127.0.0.1:0",
    ]);
    options.tls_cert = Some(path("server.crt"));
    options.tls_key = Some(path("server.key"));
    let (server, _) = start(Box::new(ModelRows::new()), &options);
    let dial = |index: usize, trusted: &str| {
        let ca = path(&format!("{trusted}.crt"));
        let tls = TlsClient::from_pem(&RealFs, &ca, "localhost", None).unwrap();
        let connect = ConnectOptions { tls: Some(tls), ..ConnectOptions::default() };
        Stream::connect(&server.bound()[index].endpoint, &connect).unwrap()
    };
    let talk = |index: usize, request: &[u8], reply: &[u8]| {
        let mut stream = dial(index, "server");
        stream.write_all(request).unwrap();
        let mut got = vec![0; reply.len()];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(reply));
    };
    let large = "v".repeat(200_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$200000\r\n{large}\r\n");
    talk(0, set.as_bytes(), b"+OK\r\n");
    talk(1, b"get k\r\n", format!("VALUE k 0 200000\r\n{large}\r\nEND\r\n").as_bytes());
    talk(2, b"\x93\x00\x0e\x80\x93\x01\x02\xa1x", b"\x95\x00\x0f\xc3");
    let mut plain = TcpStream::connect(address(&server, 0)).unwrap();
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    assert!(!rest(&mut plain).contains("PONG"));
    let mut stranger = dial(0, "stranger");
    let told = stranger.write_all(b"PING\r\n").and_then(|()| stranger.read_exact(&mut [0; 1]));
    assert!(told.is_err(), "it trusts whom it does not know");
    server.end().unwrap();
}
