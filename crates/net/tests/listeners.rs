//! What is listened on, and what is left behind.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use keyrack_net::{Endpoint, Error, Handle, Listener, ListenerKind, Options, Result, Server};
use keyrack_vfs::{Fs, RealFs};

use crate::support::{Lines, PATIENCE, address, ask, connect, start};

fn unix(path: &Path) -> Endpoint {
    format!("unix:{}", path.display()).parse().unwrap()
}

fn serve(listener: Listener) -> Result<Handle> {
    let listeners = vec![listener];
    Server::start(Lines::default(), Options { listeners, threads: 2, ..Options::default() })
}

#[test]
fn the_file_of_a_socket_is_its_owners_alone_and_goes_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let server = serve(Listener::stream(unix(&path))).unwrap();
    let metadata = std::fs::symlink_metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    let mut clients: Vec<_> = (0..4).map(|_| connect(&address(&server))).collect();
    for client in &mut clients {
        assert_eq!(ask(client, "echo by path"), "by path");
    }
    server.shutdown(PATIENCE).unwrap();
    assert!(!RealFs.exists(&path).unwrap());
}

#[test]
fn a_wider_mode_is_what_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let mut listener = Listener::stream(unix(&path));
    if let ListenerKind::Stream { unix_mode, .. } = &mut listener.kind {
        *unix_mode = 0o666;
    }
    let server = serve(listener).unwrap();
    let metadata = std::fs::symlink_metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o666);
    drop(server);
}

#[test]
fn an_abandoned_socket_is_replaced_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(RealFs.exists(&path).unwrap(), "the file was to be left behind");
    let server = serve(Listener::stream(unix(&path))).unwrap();
    assert_eq!(ask(&mut connect(&address(&server)), "echo new"), "new");

    let second = serve(Listener::stream(unix(&path)));
    assert!(matches!(second, Err(Error::PathTaken { .. })), "{second:?}");
    assert_eq!(ask(&mut connect(&address(&server)), "echo mine"), "mine");

    let file = directory.path().join("file");
    RealFs.write_atomic(&file, b"precious").unwrap();
    let on_file = serve(Listener::stream(unix(&file)));
    assert!(matches!(on_file, Err(Error::PathTaken { .. })), "{on_file:?}");
    assert_eq!(RealFs.read(&file).unwrap(), b"precious");
}

#[test]
fn a_socket_that_somebody_else_has_put_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let server = serve(Listener::stream(unix(&path))).unwrap();
    RealFs.remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    let inode = std::fs::symlink_metadata(&path).unwrap().ino();
    server.shutdown(PATIENCE).unwrap();
    assert_eq!(std::fs::symlink_metadata(&path).unwrap().ino(), inode);
    drop(other);
}

#[test]
fn a_port_is_not_shared_with_another_server() {
    let (_board, server) = start(Options { threads: 2, ..Options::default() });
    let second = serve(Listener::stream(address(&server)));
    assert!(matches!(second, Err(Error::Endpoint { .. })), "{second:?}");
    let text = second.unwrap_err().to_string();
    assert!(text.starts_with(&format!("cannot listen on {}: ", address(&server))), "{text}");
}

#[test]
fn names_and_both_families_are_listened_on() {
    let server = serve(Listener::stream("localhost:0".parse().unwrap())).unwrap();
    for local in &server.local_addrs()[0] {
        assert!(local.is_loopback() && local.port() != Some(0), "{local}");
        assert_eq!(ask(&mut connect(local), "echo hello"), "hello");
    }
    // Where there is IPv6, its wildcard leaves the port of IPv4 alone.
    let Ok(server) = serve(Listener::stream("[::]:0".parse().unwrap())) else { return };
    let port = server.local_addrs()[0][0].port().unwrap();
    let v4 = serve(Listener::stream(format!("127.0.0.1:{port}").parse().unwrap()));
    assert!(!matches!(v4, Err(Error::Usage(_))));
    let v6: Endpoint = format!("[::1]:{port}").parse().unwrap();
    assert_eq!(ask(&mut connect(&v6), "echo six"), "six");
}

#[test]
fn one_server_has_many_listeners() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let listeners = vec![
        Listener::stream("127.0.0.1:0".parse().unwrap()),
        Listener::stream(unix(&path)),
        Listener::stream("127.0.0.1:0".parse().unwrap()),
    ];
    let (_board, server) = start(Options { listeners, ..Options::default() });
    for local in server.local_addrs() {
        assert_eq!(ask(&mut connect(&local[0]), "echo x"), "x");
    }
}
