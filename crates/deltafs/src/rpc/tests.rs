//! The codec against cut, changed and random bytes; the server without sockets, and with them.

use super::server::service::Connection;
use super::*;
use crate::caller::{Kind, Stat};
use crate::id::{DirId, Inode};
use crate::list::ListEntry;
use crate::make::IfExists;
use crate::namespace::Namespace;
use crate::open::Settings;
use crate::user::User;
use keyrack_net::Worker as _;
use keyrack_net::{Endpoint, Limits, Listener, Served as Turn, Verdict};
use keyrack_testkit::random::Draw;
use keyrack_vfs::{Fs as _, MemFs};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn space() -> Namespace {
    Namespace::open_in(Arc::new(MemFs::new()), Path::new("/log"), Settings::default()).unwrap()
}

fn serve_options() -> ServeOptions {
    ServeOptions {
        listen: any_port(),
        datagrams: vec![("127.0.0.1:0".parse().unwrap(), 1432)],
        threads: 2,
        ..ServeOptions::default()
    }
}

/// Listens wherever there is room.
pub(super) fn any_port() -> Vec<Listener> {
    vec![Listener::stream("127.0.0.1:0".parse().unwrap())]
}

pub(super) fn address(served: &Served) -> Endpoint {
    served.handle.local_addrs()[0][0].clone()
}

/// A server that is the only one, and a tree of it.
pub(super) fn alone(space: Namespace) -> (Served, Tree) {
    let options = ServeOptions { listen: any_port(), ..ServeOptions::default() };
    let served = serve(Some(space), options).unwrap();
    let tree = Tree::new(vec![address(&served)], ClientOptions::default());
    (served, tree)
}

fn started() -> (Served, Endpoint, Endpoint) {
    let served = serve(Some(space()), serve_options()).unwrap();
    let addresses = served.handle.local_addrs();
    let (stream, datagrams) = (addresses[0][0].clone(), addresses[1][0].clone());
    (served, stream, datagrams)
}

fn facts(number: u128) -> Stat {
    Stat {
        kind: Kind::Symlink,
        inode: Inode(number),
        mode: 0o4755,
        uid: 1,
        gid: u32::MAX,
        nlink: u64::MAX,
        size: 3901,
        mtime_ns: 5,
        ctime_ns: 6,
        has_data: false,
    }
}

pub(super) fn requests() -> Vec<Request<'static>> {
    let (dir, name, mode) = (7, &b"name"[..], 0o640);
    let split = crate::partition::Split { from: 1, to: 3, depth: 2 };
    let txn = codec::Transaction {
        user: User { uid: 1, gid: 2, groups: vec![3] },
        from: DirId(4),
        name: name.to_vec(),
        to: DirId(5),
        to_name: b"other".to_vec(),
        action: codec::Action::Rmdir,
        target: 1,
        entry: b"record".to_vec(),
    };
    let some = SetFields { mode: Some(1), size: Some(0), ..SetFields::default() };
    vec![
        Request::Hello {
            protocol: Protocol,
            client: [9; 16],
            user: User { uid: 1, gid: 2, groups: vec![3, 4] },
            token: b"secret",
        },
        Request::Map,
        Request::Ping,
        Request::OpenDir { path: b"/a/b" },
        Request::CloseDir { dir },
        Request::Mkdir { dir, name, mode },
        Request::MkdirAcross { dir, name, mode },
        Request::RmdirAcross { dir, name },
        Request::Create { dir, name, mode, how: How::Unchecked },
        Request::CreateMany { dir, mode, how: How::Fail, names: vec![b"a", b"", b"ccc"] },
        Request::CreateWith { dir, name, mode, data: b"some" },
        Request::Lookup { dir, name },
        Request::Stat { dir, name },
        Request::StatDir { dir },
        Request::SetAttributes { dir, name, set: some },
        Request::ReadDir { dir, after: b"", count: 5, plus: true },
        Request::Unlink { dir, name },
        Request::Rmdir { dir, name },
        Request::Rename { dir, name, to_dir: 0, to_name: b"other", replace: true },
        Request::Symlink { dir, name, target: b"../x" },
        Request::ReadLink { dir, name },
        Request::Read { dir, name, offset: 1 << 40, count: 9 },
        Request::Write { dir, name, offset: 3, data: b"bytes" },
        Request::BulkIn { dir, entries: 4, paths: vec![b"/x"] },
        Request::Flush,
        Request::Partitions { dir },
        Request::Spread { dir },
        Request::RenameAcross { dir, name, to_dir: 0, to_name: b"n", replace: true, target: 3 },
        Request::Operation { number: 1 << 40 },
        Request::Revoked,
        Request::Peer(Peer::SplitBegin { dir: 1, split, attempt: 5 }),
        Request::Peer(Peer::SplitPut { dir: 1, to: 3, attempt: 5, records: vec![b"a", b"v"] }),
        Request::Peer(Peer::SplitInstall {
            dir: 1,
            split,
            attempt: 5,
            count: 1,
            spread: true,
            map: b"words",
        }),
        Request::Peer(Peer::Prepare { id: 1 << 127, coordinator: 2, txn }),
        Request::Peer(Peer::Decision { id: 8, commits: true }),
        Request::Peer(Peer::Outcome { id: 8 }),
    ]
}

#[test]
fn requests_come_back_and_no_cut_of_them_is_one() {
    for request in requests() {
        let mut bytes = Vec::new();
        request.encode(99, &mut bytes);
        let Frame::Whole { call, tag, fields, bytes: taken } = frame(&bytes) else {
            panic!("{request:?}")
        };
        assert_eq!((call, tag, taken), (99, request.tag(), bytes.len()));
        assert_eq!(Request::decode(tag, fields).as_ref(), Some(&request));
        for end in 0..bytes.len() {
            let need = if end < 4 { 4 } else { bytes.len() };
            assert_eq!(frame(&bytes[..end]), Frame::Partial(need));
        }
        for end in 0..fields.len() {
            let cut = Request::decode(tag, &fields[..end]);
            assert_eq!(cut, None, "{request:?} cut at {end}");
        }
        assert_eq!(Request::decode(tag, &[fields, &[0]].concat()), None);
    }
}

fn replies() -> Vec<(u8, Reply<'static>)> {
    vec![
        (1, Reply::Welcome { server: 1, servers: 4, is_read_only: true }),
        (2, Reply::Map(vec![b"127.0.0.1:1", b"unix:/x"])),
        (5, Reply::Done),
        (6, Reply::Dir { dir: 4, inode: 1 << 100, lease_ms: 7, map: b"words" }),
        (8, Reply::Made { is_new: false, inode: 77 }),
        (9, Reply::Codes(&[0, 3, 0])),
        (12, Reply::Facts(facts(8))),
        (
            15,
            Reply::Page {
                entries: vec![
                    ListEntry { name: b"a".to_vec(), kind: Kind::Dir, stat: None },
                    ListEntry { name: b"b".to_vec(), kind: Kind::Symlink, stat: Some(facts(9)) },
                ],
                next: Some(b"b"),
                shards: vec![(0, 1), (3, 2)],
            },
        ),
        (21, Reply::Data(b"bytes")),
        (23, Reply::Count(5)),
        (25, Reply::Data(b"map")),
        (29, Reply::Inodes(vec![1, 1 << 120])),
    ]
}

/// The operation that each reply answers, and its fields.
pub(super) fn reply_bytes() -> Vec<(u8, Vec<u8>)> {
    let fields = |(tag, reply): (u8, Reply<'_>)| {
        let mut fields = Vec::new();
        reply.fields(&mut fields);
        (tag, fields)
    };
    replies().into_iter().map(fields).collect()
}

#[test]
fn replies_come_back() {
    for ((tag, reply), (_, fields)) in replies().into_iter().zip(reply_bytes()) {
        assert_eq!(Reply::decode(tag, &fields).as_ref(), Some(&reply));
        for end in 0..fields.len() {
            assert_eq!(Reply::decode(tag, &fields[..end]), None, "{reply:?} cut at {end}");
        }
    }
}

#[test]
fn lengths_above_the_limits_are_refused_before_memory_is_taken() {
    let oversize = [&(FRAME_BYTES_MAX as u32 + 1).to_le_bytes()[..], &[0; 9]].concat();
    assert_eq!(frame(&oversize), Frame::Broken);
    assert_eq!(frame(&[8, 0, 0, 0, 0]), Frame::Broken, "no room for a call");
    // 65,535 names in no bytes; 4,096 of them are the most.
    let many = [&7_u32.to_le_bytes()[..], &[0; 4], &[0], &[0xff, 0xff]].concat();
    assert_eq!(Request::decode(9, &many), None);
    let page = [&[0, 0, 0, 0, 0, 0][..], &u32::MAX.to_le_bytes()].concat();
    assert_eq!(Reply::decode(15, &page), None);
}

/// A server without sockets, and what it answers to bytes that come in pieces.
fn answered(service: &Service, pieces: &[&[u8]]) -> (Vec<u8>, Verdict) {
    let mut worker = service.new_loop();
    let mut connection = Connection::default();
    let mut limits = Limits::default();
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut verdict = Verdict::Continue;
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let turn: Turn = worker.serve(&mut connection, &input, &mut output, &mut limits);
            input.drain(..turn.consumed);
            verdict = turn.verdict;
            if verdict != Verdict::Again {
                break;
            }
        }
        if verdict == Verdict::Close {
            break;
        }
    }
    (output, verdict)
}

fn hello(client: u8) -> Vec<u8> {
    hello_of(client, User::root(), b"")
}

fn hello_of(client: u8, user: User, token: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Request::Hello { protocol: Protocol, client: [client; 16], user, token }.encode(0, &mut out);
    out
}

fn create(dir: u32, name: &[u8]) -> Request<'_> {
    Request::Create { dir, name, mode: 0o644, how: How::Fail }
}

pub(super) fn conversation() -> Vec<u8> {
    let mut out = hello(1);
    let (dir, mode) = (0, 0o755);
    for (call, request) in (1..).zip([
        Request::Mkdir { dir, name: b"d", mode },
        create(1, b"f"),
        create(1, b"f"),
        Request::Lookup { dir: 1, name: b"absent" },
        Request::CreateMany { dir: 1, mode, how: How::Fail, names: vec![b"a", b"f", b"a/b"] },
        Request::Write { dir: 1, name: b"f", offset: 0, data: b"hello" },
        Request::Read { dir: 1, name: b"f", offset: 1, count: 100 },
        Request::ReadDir { dir: 1, after: b"", count: 10, plus: false },
        Request::Rmdir { dir, name: b"d" },
        Request::CloseDir { dir: 1 },
        Request::StatDir { dir: 1 },
        Request::Flush,
    ]) {
        request.encode(call, &mut out);
    }
    out
}

/// The error numbers of the replies, by name.
fn errnos(mut bytes: &[u8]) -> String {
    let mut errnos = Vec::new();
    while let Frame::Whole { tag, bytes: taken, .. } = frame(bytes) {
        errnos.push(errno::name_of(tag));
        bytes = &bytes[taken..];
    }
    assert!(bytes.is_empty());
    errnos.join(" ")
}

#[test]
fn a_conversation_means_the_same_however_it_is_cut() {
    let bytes = conversation();
    let service = || Service::for_tests(Some(space()), serve_options());
    let (whole, verdict) = answered(&service(), &[&bytes]);
    assert_eq!(verdict, Verdict::Continue);
    let expected = "OK OK OK EEXIST ENOENT OK OK OK OK ENOTEMPTY OK ESTALE OK";
    assert_eq!(errnos(&whole), expected);
    let text = whole.escape_ascii().to_string();
    assert!(text.contains("ello") && text.contains("absent: no such file"), "{text}");
    for step in [1, 2, 3, 7, 64] {
        let pieces: Vec<&[u8]> = bytes.chunks(step).collect();
        assert_eq!(errnos(&answered(&service(), &pieces).0), expected, "pieces of {step}");
    }
}

#[test]
fn hostile_bytes_end_a_connection_and_nothing_else() {
    let seed = 11;
    let mut draw = Draw::new(seed);
    let service = Service::for_tests(Some(space()), serve_options());
    for round in 0..3000 {
        let mut bytes = match round % 3 {
            0 => Vec::new(),
            _ => conversation(),
        };
        if bytes.is_empty() {
            bytes = (0..draw.below(80)).map(|_| draw.next() as u8).collect();
        }
        for _ in 0..=draw.below(4) {
            if !bytes.is_empty() {
                let at = draw.below(bytes.len());
                bytes[at] = draw.next() as u8;
            }
        }
        let (output, _) = answered(&service, &[&bytes]);
        // Whatever came, what is answered is frames.
        errnos(&output);
    }
    let (output, verdict) = answered(&service, &[b"GET / HTTP/1.1\r\n\r\n"]);
    assert_eq!((output.len(), verdict), (0, Verdict::Close), "SEED={seed}");
    let mut unknown = hello(3);
    codec::put_frame(&mut unknown, 1, 200, |_| ());
    assert_eq!(errnos(&answered(&service, &[&unknown]).0), "OK EPROTO");
}

#[test]
fn a_call_that_comes_again_is_answered_and_not_done_again() {
    let service = Service::for_tests(Some(space()), serve_options());
    let mut first = hello(5);
    let create = create(0, b"f");
    create.encode(1, &mut first);
    let (once, _) = answered(&service, &[&first]);
    // The same connection again: another connection of the same client.
    assert_eq!(answered(&service, &[&first]).0, once);
    // Another client does it, and finds the file.
    let mut other = hello(6);
    create.encode(1, &mut other);
    assert_eq!(errnos(&answered(&service, &[&other]).0), "OK EEXIST");
    // Behind a whole window the old answer is gone.
    let mut later = hello(5);
    create.encode(1 + WINDOW as u64, &mut later);
    create.encode(1, &mut later);
    assert_eq!(errnos(&answered(&service, &[&later]).0), "OK EEXIST ESTALE");
}

#[test]
fn without_the_token_nothing_is_answered() {
    let options = ServeOptions { token: Some(b"secret".to_vec()), ..serve_options() };
    let service = Service::for_tests(Some(space()), options);
    let (output, verdict) = answered(&service, &[&conversation()]);
    assert_eq!((&errnos(&output)[..], verdict), ("EACCES", Verdict::Close));
    let mut right = hello_of(1, User::new(1, 1), b"secret");
    // User 1 may not write to the root.
    create(0, b"f").encode(1, &mut right);
    let (output, _) = answered(&service, &[&right]);
    assert_eq!(errnos(&output), "OK EACCES");
}

#[test]
fn one_server_renames_anything() {
    let (_served, stream, _) = started();
    let mut tree = Tree::new(vec![stream], ClientOptions::default());
    tree.mkdir(b"/d", 0o755).unwrap();
    tree.create(b"/d/f", 0o600, IfExists::Fail).unwrap();
    let before = tree.stat(b"/d/f").unwrap().inode;
    tree.rename(b"/d", b"/e", false).unwrap();
    assert_eq!(tree.stat(b"/e/f").unwrap().inode, before);
    assert_eq!(tree.stat(b"/d/f").unwrap_err().errno(), "ENOENT");
}

/// Creates `count` files with many calls under way; each must be new, and be there.
fn creates_once(endpoint: &Endpoint, options: ClientOptions, count: u64) {
    let mut client = Client::new(vec![endpoint.clone()], options);
    let (mut submitted, mut seen) = (0, 0);
    while seen < count {
        while submitted < count && client.in_flight(0) < 48 {
            let name = format!("file-{submitted}");
            client.submit(0, &create(0, name.as_bytes()), submitted).unwrap();
            submitted += 1;
        }
        client
            .drain(0, &mut |answer| {
                let reply = answer.reply().map_err(|error| format!("{}: {error}", answer.ticket));
                assert!(matches!(reply, Ok(Reply::Made { is_new: true, .. })), "{reply:?}");
                seen += 1;
            })
            .unwrap();
    }
    let mut names = 0;
    let mut after = Some(Vec::new());
    while let Some(name) = after {
        let request = Request::ReadDir { dir: 0, after: &name, count: 15, plus: false };
        after = client
            .call(0, &request, |reply| match reply {
                Reply::Page { entries, next, .. } => {
                    names += entries.len() as u64;
                    next.map(<[u8]>::to_vec)
                }
                other => panic!("{other:?}"),
            })
            .unwrap();
    }
    assert_eq!(names, count);
}

fn datagrams(bytes_max: usize) -> ClientOptions {
    ClientOptions { transport: Transport::Datagrams { bytes_max }, ..ClientOptions::default() }
}

#[test]
fn datagrams_of_any_size_are_whole_or_refused() {
    for bytes_max in [400, 1432, 60_000] {
        let (_served, _, endpoint) = started();
        creates_once(&endpoint, datagrams(bytes_max), 150);
    }
    let (_served, _, endpoint) = started();
    let mut client = Client::new(vec![endpoint], datagrams(200));
    let name = vec![b'x'; 250];
    let error = client.call(0, &create(0, &name), |_| ()).unwrap_err();
    assert!(error.to_string().contains("does not fit: 180 at most"), "{error}");
    // A page whose answer fits no datagram says what to do.
    let names: Vec<Vec<u8>> = (0..40).map(|n| format!("{n:0100}").into_bytes()).collect();
    for name in &names {
        client.call(0, &create(0, name), |_| ()).unwrap();
    }
    let request = Request::ReadDir { dir: 0, after: b"", count: 40, plus: false };
    assert_eq!(client.call(0, &request, |_| ()).unwrap_err().errno(), "EMSGSIZE");
}

/// Passes datagrams on, but loses, doubles and delays some, as a seed says.
fn bad_road(
    to: Endpoint,
    seed: u64,
    is_over: Arc<AtomicBool>,
) -> (Endpoint, thread::JoinHandle<()>) {
    let Endpoint::Ip(to) = to else { panic!("no address") };
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(to).unwrap();
    for socket in [&front, &back] {
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    }
    let address = Endpoint::Ip(front.local_addr().unwrap());
    let road = thread::spawn(move || {
        let mut draw = Draw::new(seed);
        let mut client = None;
        let mut late: Vec<(bool, Vec<u8>)> = Vec::new();
        let mut memory = vec![0; 70_000];
        while !is_over.load(Ordering::Relaxed) {
            let mut come = Vec::new();
            if let Ok((bytes, from)) = front.recv_from(&mut memory) {
                client = Some(from);
                come.push((true, memory[..bytes].to_vec()));
            }
            if let Ok(bytes) = back.recv(&mut memory) {
                come.push((false, memory[..bytes].to_vec()));
            }
            for (is_request, bytes) in come {
                match draw.below(10) {
                    0 | 1 => {}
                    2 => late.push((is_request, bytes)),
                    3 => {
                        late.push((is_request, bytes.clone()));
                        late.push((is_request, bytes));
                    }
                    _ => late.insert(0, (is_request, bytes)),
                }
            }
            let keep = if draw.below(3) == 0 { 0 } else { late.len().min(1) };
            for (is_request, bytes) in late.drain(..late.len() - keep) {
                if is_request {
                    let _ = back.send(&bytes);
                } else if let Some(client) = client {
                    let _ = front.send_to(&bytes, client);
                }
            }
        }
    });
    (address, road)
}

#[test]
fn lost_doubled_and_late_datagrams_change_nothing() {
    let seed = 3;
    let (_served, _, endpoint) = started();
    let is_over = Arc::new(AtomicBool::new(false));
    let (road_end, road) = bad_road(endpoint, seed, Arc::clone(&is_over));
    creates_once(&road_end, datagrams(1432), 120);
    is_over.store(true, Ordering::Relaxed);
    road.join().unwrap();
}

#[test]
fn connections_that_break_change_nothing() {
    let (_served, stream, _) = started();
    let Endpoint::Ip(to) = stream else { panic!("no address") };
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Ip(front.local_addr().unwrap());
    // Each connection is cut after so many bytes of answers, in the middle of one.
    let cutter = thread::spawn(move || {
        for limit in [30_usize, 700, 1333, usize::MAX] {
            let (mut client, _) = front.accept().unwrap();
            let mut server = TcpStream::connect(to).unwrap();
            let (mut from_client, mut to_server) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            let up = thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut to_server);
                let _ = to_server.shutdown(std::net::Shutdown::Both);
            });
            let mut left = limit;
            let mut memory = [0; 512];
            while left > 0 {
                let room = memory.len().min(left);
                let Ok(bytes) = server.read(&mut memory[..room]) else { break };
                if bytes == 0 || client.write_all(&memory[..bytes]).is_err() {
                    break;
                }
                left -= bytes;
            }
            let _ = client.shutdown(std::net::Shutdown::Both);
            let _ = server.shutdown(std::net::Shutdown::Both);
            up.join().unwrap();
        }
    });
    creates_once(&endpoint, ClientOptions::default(), 300);
    cutter.join().unwrap();
}

#[test]
fn unix_sockets_work_and_a_silent_server_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = Endpoint::Unix(dir.path().join("fs.sock"));
    let listen = vec![Listener::stream(path.clone())];
    let served = serve(Some(space()), ServeOptions { listen, ..serve_options() }).unwrap();
    creates_once(&path, ClientOptions::default(), 100);
    drop(served);

    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Ip(mute.local_addr().unwrap());
    let options = ClientOptions { timeout: Duration::from_millis(200), ..ClientOptions::default() };
    let mut client = Client::new(vec![endpoint.clone()], options.clone());
    let request = Request::OpenDir { path: b"/" };
    let error = client.call(0, &request, |_| ()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{endpoint}: opendir: no answer within")), "{error}");

    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Ip(silent.local_addr().unwrap());
    let transport = Transport::Datagrams { bytes_max: 1432 };
    let mut client = Client::new(vec![endpoint.clone()], ClientOptions { transport, ..options });
    let error = client.call(0, &request, |_| ()).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{endpoint}: opendir: no answer within")), "{error}");
}

#[test]
fn a_dummy_answers_without_a_name_space_and_users_are_whom_they_say() {
    let served = serve(None, ServeOptions { is_dummy: true, ..serve_options() }).unwrap();
    let options = ClientOptions { user: User::new(1, 1), ..ClientOptions::default() };
    let mut tree = Tree::new(vec![address(&served)], options);
    tree.mkdir(b"/d", 0o755).unwrap();
    assert!(tree.create(b"/d/f", 0, IfExists::Fail).unwrap());
    assert_eq!(tree.stat(b"/d/f").unwrap().kind, Kind::File);
}

/// A table with entries of a directory, as somebody made it.
fn table(path: &Path, dir: u128, uid: u32, names: &[&str]) {
    use crate::id::LogId;
    use crate::record::{Attributes, Entry, Key};
    let options = keyrack_flodb::Options::default();
    let fs = keyrack_vfs::RealFs;
    let mut writer = keyrack_flodb::SstWriter::create(&fs, path, &options).unwrap();
    for (number, name) in (0..).zip(names) {
        let inode = Inode::file(LogId::from_bits(77), number);
        let (mode, gid, nlink, size, mtime_ns, ctime_ns) = (0o600, uid, 1, 0, 1, 1);
        let attributes = Attributes { inode, mode, uid, gid, nlink, size, mtime_ns, ctime_ns };
        let key = Key::entry(DirId(dir), name.as_bytes());
        writer.put(&key, &Entry::File(attributes, &[]).encode()).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn tables_are_taken_whole_or_refused_whole() {
    use std::os::unix::ffi::OsStrExt as _;
    let temporary = tempfile::tempdir().unwrap();
    let area = temporary.path().join("area");
    let settings = Settings { root_mode: 0o777, ..Settings::default() };
    let space = Namespace::open(temporary.path().join("r0"), settings).unwrap();
    let served = serve(Some(space), serve_options()).unwrap();
    let user = User::new(5, 5);
    let options = ClientOptions { user: user.clone(), ..ClientOptions::default() };
    let mut tree = Tree::new(vec![address(&served)], options);
    tree.mkdir(b"/d", 0o755).unwrap();
    let dir = tree.open(b"/d").unwrap();
    let bulk_of = |tree: &mut Tree, names: &[&str]| {
        let mut bulk = Bulk::new(dir);
        for name in names {
            bulk.add(name.as_bytes()).unwrap();
        }
        bulk.commit(tree, &area, &user, 0o640)
    };
    assert_eq!(bulk_of(&mut tree, &["b", "a", "c"]).unwrap(), 3);
    let stat = tree.stat(b"/d/a").unwrap();
    assert_eq!((stat.mode, stat.uid, stat.nlink), (0o640, 5, 1));
    assert!(stat.mtime_ns > 0 && stat.inode != tree.stat(b"/d/b").unwrap().inode);
    // One name of many is there: none of them comes.
    tree.create(b"/d/x", 0o600, IfExists::Fail).unwrap();
    assert_eq!(bulk_of(&mut tree, &["w", "x", "y"]).unwrap_err().errno(), "EEXIST");
    assert_eq!(bulk_of(&mut tree, &["w", "w"]).unwrap_err().errno(), "EINVAL");
    let listed = |tree: &mut Tree| -> Vec<String> {
        let all = tree.list(b"/d").unwrap();
        all.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
    };
    assert_eq!(listed(&mut tree), ["a", "b", "c", "x"]);

    let inode = tree.inode(dir);
    let (_, number) = tree.locate(dir, b"").unwrap();
    let hand_over = |tree: &mut Tree, path: &Path, entries: u64| {
        let paths = vec![path.as_os_str().as_bytes()];
        let request = Request::BulkIn { dir: number, entries, paths };
        tree.client().call(0, &request, |_| ()).map_err(|error| error.errno())
    };
    let fs = keyrack_vfs::RealFs;
    fs.create_dir_all(&area).unwrap();
    let path = |name: &str| area.join(name);
    table(&path("foreign"), inode + 1, 5, &["f"]);
    table(&path("forged"), inode, 0, &["f"]);
    table(&path("good"), inode, 5, &["f", "g"]);
    assert_eq!(hand_over(&mut tree, &path("foreign"), 1), Err("EINVAL"));
    assert_eq!(hand_over(&mut tree, &path("forged"), 1), Err("EINVAL"));
    assert_eq!(hand_over(&mut tree, &path("good"), 3), Err("EINVAL"), "one is missing");
    assert_eq!(hand_over(&mut tree, Path::new("good"), 2), Err("EINVAL"), "not absolute");
    assert_eq!(hand_over(&mut tree, &path("absent"), 2), Err("EIO"));
    let bytes = fs.read(&path("good")).unwrap();
    fs.write_atomic(&path("cut"), &bytes[..bytes.len() - 7]).unwrap();
    assert!(hand_over(&mut tree, &path("cut"), 2).is_err());
    for at in [3, bytes.len() / 2, bytes.len() - 20] {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        fs.write_atomic(&path("bad"), &bad).unwrap();
        assert!(hand_over(&mut tree, &path("bad"), 2).is_err(), "byte {at}");
    }
    assert_eq!(listed(&mut tree), ["a", "b", "c", "x"]);
    // Taken twice it is there once.
    for _ in 0..2 {
        assert_eq!(hand_over(&mut tree, &path("good"), 2), Ok(()));
        assert_eq!(listed(&mut tree), ["a", "b", "c", "f", "g", "x"]);
    }
    let rest = fs.list(temporary.path()).unwrap().into_iter().map(|entry| entry.name);
    assert_eq!(rest.collect::<Vec<_>>(), ["area", "r0"], "nothing is left behind");
}

#[test]
fn readers_of_a_directory_see_all_or_nothing_of_tables_that_come() {
    let temporary = tempfile::tempdir().unwrap();
    let space = Namespace::open(temporary.path().join("r0"), Settings::default()).unwrap();
    let served = serve(Some(space), serve_options()).unwrap();
    let endpoint = address(&served);
    let mut tree = Tree::new(vec![endpoint.clone()], ClientOptions::default());
    tree.mkdir(b"/d", 0o755).unwrap();
    tree.create(b"/d/before", 0o600, IfExists::Fail).unwrap();
    let reader = thread::spawn(move || {
        let mut tree = Tree::new(vec![endpoint], ClientOptions::default());
        let mut counts = std::collections::BTreeSet::new();
        // Until the last batch is seen.
        while !counts.contains(&501) {
            counts.insert(tree.list(b"/d").unwrap().len());
            assert_eq!(tree.stat(b"/d/before").unwrap().mode, 0o600);
        }
        counts
    });
    for batch in 0..10 {
        let mut bulk = Bulk::new(tree.open(b"/d").unwrap());
        for number in 0..50 {
            bulk.add(format!("b{batch}-{number:02}").as_bytes()).unwrap();
        }
        let area = temporary.path().join("area");
        bulk.commit(&mut tree, &area, &User::root(), 0o640).unwrap();
    }
    let counts = reader.join().unwrap();
    assert!(counts.iter().all(|count| count % 50 == 1), "{counts:?}");
}
