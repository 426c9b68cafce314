//! Sessions over the network: servers of a few canned answers for what goes wrong, and the real
//! memcached and redis-server, on Unix sockets, for what goes right. Where one of those two is not
//! installed its test says so and tests nothing (Debian: memcached, redis-server).

use keyrack_peers::servers;
use keyrack_store::{Batch, Error, OpenOptions, Registry, Removed, Session, Store, Update};
use keyrack_vfs::RealFs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

fn try_open(url: &str) -> keyrack_store::Result<Box<dyn Store>> {
    let backend = Registry::new(Vec::new()).with_servers(servers()).backend(url).expect("a server");
    let options =
        OpenOptions { options: backend.options, ..OpenOptions::in_memory(Arc::new(RealFs)) };
    (backend.engine.open)(&options)
}

/// A server that reads so many bytes and then answers with the text beside them, in turn; its last
/// answer is the end of the connection. The first connection is that of the opening and gets the
/// hello alone.
fn canned(hello: (usize, &'static [u8]), answers: &'static [(usize, &'static [u8])]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (index, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let steps = [hello].into_iter().chain(answers.iter().copied().filter(|_| index > 0));
            for (bytes, answer) in steps {
                let mut request = vec![0; bytes];
                if stream.read_exact(&mut request).is_err() || stream.write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    address.to_string()
}

const MEMCACHED_HELLO: (usize, &[u8]) = (9, b"VERSION 1.2.3\r\n");
/// Bytes of `set k 0 0 1\r\nv\r\n`.
const SET: usize = 16;

#[test]
fn a_refused_put_surfaces_at_the_call_that_reads_its_answer() {
    let address =
        canned(MEMCACHED_HELLO, &[(SET, b"SERVER_ERROR out of memory storing object\r\n")]);
    let store = try_open(&format!("memcached://{address}")).unwrap();
    assert_eq!(store.info().version, "memcached server 1.2.3");
    let error = store.session().unwrap().put(b"k", b"v").unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.starts_with(&format!("memcached://{address}: write: ")), "{said}");
}

/// The binary protocol writes it with a capital letter.
#[test]
fn out_of_memory_of_the_binary_protocol_was_another_failure() {
    const HELLO: (usize, &[u8]) =
        (24, b"\x81\x0b\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\x001.2.3");
    const REFUSED: &[u8] = b"\x81\x01\0\0\0\0\0\x82\0\0\0\x0d\0\0\0\0\0\0\0\0\0\0\0\0Out of memory";
    let address = canned(HELLO, &[(24 + 8 + 2, REFUSED)]);
    let store = try_open(&format!("memcached://{address}?protocol=binary")).unwrap();
    let error = store.session().unwrap().put(b"k", b"v").unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
}

#[test]
fn with_a_depth_puts_return_before_their_answers_and_no_refusal_is_lost() {
    const TWO: &[(usize, &[u8])] = &[(2 * SET, b"STORED\r\nSERVER_ERROR no\r\n")];
    let url = |address: &str| format!("memcached://{address}?depth=8");
    // Waited for.
    let store = try_open(&url(&canned(MEMCACHED_HELLO, TWO))).unwrap();
    let mut session = store.session().unwrap();
    session.put(b"k", b"v").unwrap();
    session.put(b"k", b"v").unwrap();
    assert!(session.flush().unwrap_err().to_string().contains("no"));
    session.flush().unwrap();
    drop(session);
    store.close().unwrap();
    // Found by the end of the session, told by the end of the store.
    let store = try_open(&url(&canned(MEMCACHED_HELLO, TWO))).unwrap();
    let mut session = store.session().unwrap();
    session.put(b"k", b"v").unwrap();
    session.put(b"k", b"v").unwrap();
    drop(session);
    assert!(store.close().unwrap_err().to_string().contains("write: no"));
    // Told by the lookup that follows, whose own answer is read all the same.
    const THEN_GET: &[(usize, &[u8])] =
        &[(SET + 7, b"SERVER_ERROR no\r\nEND\r\n"), (7, b"VALUE k 0 1\r\nw\r\nEND\r\n")];
    let store = try_open(&url(&canned(MEMCACHED_HELLO, THEN_GET))).unwrap();
    let mut session = store.session().unwrap();
    session.put(b"k", b"v").unwrap();
    assert!(session.get(b"k", &mut |_| {}).is_err());
    let mut value = Vec::new();
    assert!(session.get(b"k", &mut |found| value = found.to_vec()).unwrap());
    assert_eq!(value, b"w");
}

#[test]
fn a_server_that_goes_away_or_lies_is_named_by_every_later_call() {
    for answer in [b"".as_slice(), b"VALUE k 0 1\r\nwrong\r\n", b"VALUE k 0 99999999999\r\n"] {
        let answers = Vec::leak(vec![(7, answer)]);
        let address = canned(MEMCACHED_HELLO, answers);
        let store = try_open(&format!("memcached://{address}?timeout_ms=5000")).unwrap();
        let mut session = store.session().unwrap();
        for _ in 0..3 {
            let error = session.get(b"k", &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::Io { .. }), "{error:?}");
            assert!(error.to_string().contains(&address), "{error}");
        }
        assert!(session.put(b"k", b"v").is_err() && session.flush().is_err());
    }
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = try_open(&format!("redis://:secret@{nobody}")).err().unwrap().to_string();
    assert!(error.contains("connect") && !error.contains("secret"), "{error}");
}

#[test]
fn what_a_protocol_has_not_is_the_callers_mistake() {
    let address = canned(MEMCACHED_HELLO, &[]);
    let store = try_open(&format!("memcached://{address}")).unwrap();
    let mut session = store.session().unwrap();
    let is_usage = |result: keyrack_store::Result<u64>| {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Usage { .. }), "{error:?}");
    };
    is_usage(session.scan(b"", None, &mut |_, _| std::ops::ControlFlow::Continue(())));
    for key in [b"".as_slice(), b"a b", b"a\n", &[b'k'; 251]] {
        is_usage(session.put(key, b"v").map(|()| 0));
        is_usage(session.get(key, &mut |_| {}).map(u64::from));
    }
}

/// A server of Debian's on a Unix socket, in a directory of its own; killed when dropped.
struct Real {
    child: Child,
    socket: String,
    _dir: TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts it and connects as soon as that works; `None` where it is not installed.
fn real(scheme: &str, command: &str, args: &dyn Fn(&Path) -> Vec<String>) -> Option<Real> {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("socket");
    let started = Command::new(command)
        .args(args(&socket))
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        eprintln!("{command} is not installed: nothing tested");
        return None;
    };
    // redis says when it is ready; memcached, told to be verbose, when it listens.
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let is_ready =
        |line: &str| line.contains("eady to accept") || line.contains("server listening");
    let lines: Box<dyn BufRead> = match scheme {
        "redis" => Box::new(BufReader::new(out)),
        _ => Box::new(BufReader::new(err)),
    };
    let found = lines.lines().map_while(Result::ok).any(|line| is_ready(&line));
    assert!(found, "{command} ended before it listened");
    let socket = format!("{scheme}+unix://{}", socket.display());
    Some(Real { child, socket, _dir: dir })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// What every protocol can do, at every depth.
fn exercise(url: &str) {
    let store = try_open(url).unwrap();
    let mut session = store.session().unwrap();
    let keys: Vec<Vec<u8>> = (0..300).map(|n| format!("key-{n}").into_bytes()).collect();
    for (n, key) in keys.iter().enumerate() {
        session.put(key, &vec![b'v'; n * 7]).unwrap();
    }
    let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).chain([&b"none"[..]]).collect();
    let mut seen = vec![None; 301];
    session.multi_get(&borrowed, &mut |n, value| seen[n] = Some(value.map(<[u8]>::len))).unwrap();
    let expected: Vec<_> = (0..300).map(|n| Some(Some(n * 7))).chain([Some(None)]).collect();
    assert_eq!(seen, expected, "{url}");
    assert_eq!(session.remove(b"key-1").unwrap(), Removed::Existed);
    assert_eq!(session.remove(b"key-1").unwrap(), Removed::Absent);
    let mut batch = Batch::new();
    batch.put(b"key-1", b"\r\nnew\r\n");
    batch.remove(b"key-2");
    session.apply(&batch).unwrap();
    let mut value = Vec::new();
    assert!(session.get(b"key-1", &mut |found| value = found.to_vec()).unwrap());
    assert_eq!(value, b"\r\nnew\r\n");
    assert!(!session.get(b"key-2", &mut |_| {}).unwrap());
    counts(store.as_ref());
    updates(session.as_mut());
    drop(session);
    store.close().unwrap();
}

/// Two sessions add to one counter, and none of it is lost.
fn counts(store: &dyn Store) {
    let add = || {
        let mut session = store.session().unwrap();
        for _ in 0..200 {
            let add_one = |old: Option<&[u8]>, new: &mut Vec<u8>| {
                let count = old.map_or(0, |old| std::str::from_utf8(old).unwrap().parse().unwrap());
                new.extend_from_slice((count + 1_u64).to_string().as_bytes());
                Update::Put
            };
            session.update(b"counter", &mut { add_one }).unwrap();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(add);
        scope.spawn(add);
    });
    let mut count = Vec::new();
    let mut session = store.session().unwrap();
    session.get(b"counter", &mut |found| count = found.to_vec()).unwrap();
    assert_eq!(count, b"400");
    assert_eq!(session.remove(b"counter").unwrap(), Removed::Existed);
}

fn updates(session: &mut dyn Session) {
    session
        .update(b"absent", &mut |old, _| {
            assert_eq!(old, None);
            Update::Remove
        })
        .unwrap();
    session
        .update(b"key-3", &mut |old, _| {
            assert_eq!(old.map(<[u8]>::len), Some(21));
            Update::Keep
        })
        .unwrap();
    assert!(session.get(b"key-3", &mut |_| {}).unwrap());
    session.update(b"key-3", &mut |_, _| Update::Remove).unwrap();
    assert!(!session.get(b"key-3", &mut |_| {}).unwrap());
}

#[test]
fn memcached_is_a_store() {
    let args = |socket: &Path| {
        let socket = text(socket);
        ["-vv", "-u", "root", "-s", &socket, "-m", "64"].map(str::to_owned).to_vec()
    };
    let Some(server) = real("memcached", "memcached", &args) else { return };
    for depth in [1, 2, 7, 512] {
        for protocol in ["text", "meta", "binary"] {
            exercise(&format!("{}?depth={depth}&protocol={protocol}", server.socket));
        }
    }
    let error = try_open(&format!("{}?protocol=udp", server.socket)).err().unwrap().to_string();
    assert!(error.contains("'udp' is not one of text, meta, binary"), "{error}");
}

#[test]
fn redis_is_a_store() {
    let args = |socket: &Path| {
        let socket = text(socket);
        let args = ["--port", "0", "--unixsocket", &socket, "--save", "", "--requirepass", "p@s"];
        args.map(str::to_owned).to_vec()
    };
    let Some(server) = real("redis", "redis-server", &args) else { return };
    let place = server.socket.strip_prefix("redis+unix://").unwrap();
    for options in ["depth=1", "depth=64", "depth=3&protocol=3"] {
        exercise(&format!("redis+unix://:p%40s@{place}?{options}"));
    }
    let error = try_open(&format!("redis+unix://:wrong@{place}")).err().unwrap().to_string();
    assert!(error.contains("AUTH") && !error.contains("wrong@"), "{error}");
    let store = try_open(&format!("redis+unix://:p%40s@{place}")).unwrap();
    let mut session = store.session().unwrap();
    let scan = session.scan(b"", None, &mut |_, _| std::ops::ControlFlow::Continue(()));
    assert!(scan.unwrap_err().to_string().contains("KR.RANGE"));
}
