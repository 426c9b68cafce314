//! TLS: the same service through it, and what happens to those who do not speak it.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::thread;

use keyrack_net::{
    CloseReason, ConnectOptions, Endpoint, Error, Handle, Listener, Options, Stream, TlsClient,
    TlsServer,
};
use keyrack_vfs::{Fs, MemFs};

use crate::support::{
    PATIENCE, address, ask, connect, read_all, read_line, read_until_closed, start,
};

/// A disk with certificates for `localhost`: one that clients trust, one that they do not.
struct Files {
    fs: MemFs,
}

impl Files {
    fn new() -> Self {
        let fs = MemFs::new();
        for name in ["server", "client", "stranger"] {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            let write = |kind: &str, text: String| {
                fs.write_atomic(&path(name, kind), text.as_bytes()).unwrap();
            };
            write("crt", made.cert.pem());
            write("key", made.signing_key.serialize_pem());
        }
        Files { fs }
    }

    fn server(&self, client_ca: Option<&str>) -> TlsServer {
        let ca = client_ca.map(|name| path(name, "crt"));
        let (chain, key) = (path("server", "crt"), path("server", "key"));
        TlsServer::from_pem(&self.fs, &chain, &key, ca.as_deref()).unwrap()
    }

    fn client(&self, trusted: &str, identity: Option<&str>) -> ConnectOptions {
        let files = identity.map(|name| (path(name, "crt"), path(name, "key")));
        let identity = files.as_ref().map(|(chain, key)| (chain.as_path(), key.as_path()));
        let ca = path(trusted, "crt");
        let tls = TlsClient::from_pem(&self.fs, &ca, "localhost", identity).unwrap();
        ConnectOptions { tls: Some(tls), ..ConnectOptions::with_timeout(PATIENCE) }
    }
}

fn path(name: &str, kind: &str) -> PathBuf {
    Path::new("/").join(format!("{name}.{kind}"))
}

fn serve(tls: TlsServer) -> Handle {
    let listeners = vec![Listener::encrypted("127.0.0.1:0".parse().unwrap(), tls)];
    start(Options { listeners, threads: 2, ..Options::default() }).1
}

fn dial(server: &Handle, options: &ConnectOptions) -> Stream {
    Stream::connect(&address(server), options).unwrap()
}

#[test]
fn the_same_lines_go_through_tls() {
    let files = Files::new();
    let server = serve(files.server(None));
    let mut client = dial(&server, &files.client("server", None));
    assert_eq!(ask(&mut client, "echo hidden"), "hidden");
    for size in [100, 100_000, 3_000_000] {
        let mut request = format!("put {size}\n").into_bytes();
        request.resize(request.len() + size, 2);
        client.write_all(&request).unwrap();
        assert_eq!(read_line(&mut client), format!("stored {size} {}", 2 * size));
        client.write_all(format!("big {size}\n").as_bytes()).unwrap();
        let mut reply = vec![0; size + 1];
        client.read_exact(&mut reply).unwrap();
        assert!(reply[..size].iter().all(|byte| *byte == b'x') && reply[size] == b'\n');
    }
    assert_eq!(ask(&mut client, "quit"), "bye");
    assert_eq!(read_all(&mut client), b"", "the end is said, not cut");
    assert_eq!(server.shutdown(PATIENCE).unwrap().closed_for(CloseReason::Worker), 1);
}

#[test]
fn a_client_that_does_not_read_is_bounded_through_tls_as_well() {
    let files = Files::new();
    let server = serve(files.server(None));
    let mut glutton = dial(&server, &files.client("server", None));
    glutton.write_all("big 1000000\n".repeat(60).as_bytes()).unwrap();
    let mut other = dial(&server, &files.client("server", None));
    assert_eq!(ask(&mut other, "echo x"), "x");
    glutton.shutdown_write().unwrap();
    assert_eq!(read_all(&mut glutton).len(), 60 * 1_000_001);
}

#[test]
fn many_encrypted_clients_at_once() {
    let files = Files::new();
    let server = serve(files.server(None));
    let options = files.client("server", None);
    thread::scope(|scope| {
        for client in 0..8 {
            let (server, options) = (&server, &options);
            scope.spawn(move || {
                for round in 0..5 {
                    let mut stream = dial(server, options);
                    for request in 0..50 {
                        let text = format!("{client} {round} {request}");
                        assert_eq!(ask(&mut stream, &format!("echo {text}")), text);
                    }
                }
            });
        }
    });
}

#[test]
fn a_plain_client_on_an_encrypted_port_is_closed_and_counted() {
    let files = Files::new();
    let server = serve(files.server(None));
    let mut client = connect(&address(&server));
    client.write_all(b"echo in clear\n").unwrap();
    let answer = read_until_closed(&mut client);
    assert!(!answer.starts_with(b"in clear"));
    let mut good = dial(&server, &files.client("server", None));
    assert_eq!(ask(&mut good, "echo x"), "x");
    assert_eq!(server.shutdown(PATIENCE).unwrap().closed_for(CloseReason::Tls), 1);
}

#[test]
fn an_encrypted_client_on_a_plain_port_gets_an_error() {
    let files = Files::new();
    let (_board, server) = start(Options::default());
    let mut client = dial(&server, &files.client("server", None));
    let failed = client.write_all(b"echo x\n").and_then(|()| client.flush());
    // The greeting of TLS may hold the end of a line, which the service then refuses, or not, and
    // then the service waits for more. Either way the client gets nothing that it takes for TLS.
    if failed.is_ok() {
        client.shutdown_write().unwrap();
        assert!(client.read(&mut [0]).is_err());
    }
    assert_eq!(ask(&mut connect(&address(&server)), "echo plain"), "plain");
}

#[test]
fn whom_one_does_not_trust_one_does_not_talk_to() {
    let files = Files::new();
    let server = serve(files.server(Some("client")));
    let mut known = dial(&server, &files.client("server", Some("client")));
    assert_eq!(ask(&mut known, "echo known"), "known");
    for identity in [None, Some("stranger")] {
        let mut client = dial(&server, &files.client("server", identity));
        let talked = client.write_all(b"echo x\n").and_then(|()| client.read_exact(&mut [0]));
        assert!(talked.is_err(), "{identity:?} was let in");
    }
    let mut wary = dial(&server, &files.client("stranger", Some("client")));
    assert!(wary.write_all(b"echo x\n").is_err());
}

#[test]
fn files_that_do_not_serve_are_named() {
    let files = Files::new();
    let crt = path("server", "crt");
    let refuse =
        |chain: &Path, key: &Path| TlsServer::from_pem(&files.fs, chain, key, None).unwrap_err();
    assert!(matches!(refuse(&path("nobody", "crt"), &crt), Error::File(_)));
    let text = refuse(&crt, &crt).to_string();
    assert!(text.starts_with("/server.crt: no private key"), "{text}");
    let text = refuse(&path("server", "key"), &path("server", "key")).to_string();
    assert_eq!(text, "/server.key: no certificate");
    let mismatch = refuse(&crt, &path("client", "key"));
    assert!(matches!(mismatch, Error::Certificate { .. }), "{mismatch:?}");
    let shown = format!("{:?}", files.server(None));
    assert_eq!(shown, "TlsServer { .. }", "secrets are not printed");
    let nameless = TlsClient::from_pem(&files.fs, &crt, "no name", None);
    assert!(matches!(nameless, Err(Error::Usage(_))));
}

#[test]
fn a_handshake_byte_by_byte_or_cut_harms_nobody() {
    let files = Files::new();
    let server = serve(files.server(None));
    let Endpoint::Ip(to) = address(&server) else { panic!("no address") };
    // A record of a handshake that says it has 512 bytes, cut at every length.
    let mut greeting = vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];
    greeting.resize(300, 7);
    for length in (0..greeting.len()).step_by(13) {
        let mut client = std::net::TcpStream::connect(to).unwrap();
        for byte in &greeting[..length] {
            client.write_all(&[*byte]).unwrap();
        }
        drop(client);
    }
    let mut good = dial(&server, &files.client("server", None));
    assert_eq!(ask(&mut good, "echo x"), "x");
}
