//! A small server of Masstree's protocol for tests of its clients: rows in a `BTreeMap`, a thread
//! for each connection, a port that the system chooses.
//!
//! It can go away after so many writes, as a server that is killed: every connection is closed
//! without an answer to what came after.

use keyrack_wire::masstree::{Limits, ReplyWriter, Request, RequestParser};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

type Rows = BTreeMap<Vec<u8>, BTreeMap<u32, Vec<u8>>>;

/// See the module.
#[derive(Clone)]
pub(crate) struct MasstreeServer {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    rows: Mutex<Rows>,
    /// Writes that are still answered; `u64::MAX` has no end.
    writes_left: AtomicU64,
    is_gone: AtomicBool,
    checkpoints: AtomicU64,
    connections: AtomicU64,
}

impl MasstreeServer {
    pub(crate) fn start() -> Self {
        Self::with(Rows::new(), u64::MAX)
    }

    /// One that holds `rows` and goes away after so many writes.
    pub(crate) fn with(rows: Rows, writes_left: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            rows: Mutex::new(rows),
            writes_left: AtomicU64::new(writes_left),
            ..Shared::default()
        });
        let server = MasstreeServer { address, shared };
        let accepting = server.clone();
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = accepting.clone();
                server.shared.connections.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || server.serve(stream.unwrap()));
            }
        });
        server
    }

    pub(crate) fn rows(&self) -> Rows {
        self.shared.rows.lock().unwrap().clone()
    }

    pub(crate) fn checkpoints(&self) -> u64 {
        self.shared.checkpoints.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    fn serve(&self, mut stream: TcpStream) {
        let (mut parser, limits) = (RequestParser::new(), Limits::default());
        let (mut input, mut output, mut part) = (Vec::new(), Vec::new(), vec![0; 1 << 16]);
        loop {
            match stream.read(&mut part) {
                Ok(0) | Err(_) => return,
                Ok(bytes) => input.extend_from_slice(&part[..bytes]),
            }
            let mut rest = &input[..];
            while let Some(request) = parser.next(&mut rest, &limits).unwrap() {
                if self.shared.is_gone.load(Ordering::Relaxed) {
                    return;
                }
                self.answer(&request, &mut output);
            }
            let left = rest.len();
            input.drain(..input.len() - left);
            if stream.write_all(&output).is_err() {
                return;
            }
            output.clear();
        }
    }

    /// Counts a write; once they are used up the server is gone.
    fn write(&self) {
        if self.shared.writes_left.load(Ordering::Relaxed) == u64::MAX {
            return;
        }
        if self.shared.writes_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.shared.is_gone.store(true, Ordering::Relaxed);
        }
    }

    fn answer(&self, request: &Request<'_>, output: &mut Vec<u8>) {
        let mut reply = ReplyWriter::new(output);
        let mut rows = self.shared.rows.lock().unwrap();
        match *request {
            Request::Handshake { seq, .. } => reply.handshake(seq, 0),
            Request::Get { seq, key, columns } => match rows.get(key) {
                None => reply.miss(seq),
                Some(row) if columns.len() == 0 => {
                    reply.row(seq, row.len() as u32);
                    row.values().for_each(|value| reply.value(Some(value)));
                }
                Some(row) => {
                    reply.row(seq, columns.len() as u32);
                    columns.for_each(|column| reply.value(row.get(&column).map(Vec::as_slice)));
                }
            },
            Request::Put { seq, key, changes } => {
                self.write();
                let row = rows.entry(key.to_vec());
                reply.put(seq, matches!(row, std::collections::btree_map::Entry::Vacant(_)));
                let row = row.or_default();
                changes.for_each(|(column, value)| _ = row.insert(column, value.to_vec()));
            }
            Request::Replace { seq, key, value } => {
                self.write();
                let row = BTreeMap::from([(0, value.to_vec())]);
                reply.replace(seq, rows.insert(key.to_vec(), row).is_none());
            }
            Request::Remove { seq, key } => reply.remove(seq, rows.remove(key).is_some()),
            Request::Scan { seq, first, count, .. } => {
                let mut scan = reply.scan(seq);
                for (key, row) in rows.range(first.to_vec()..).take(count as usize) {
                    scan.one(key, row.get(&0).map(Vec::as_slice));
                }
            }
            Request::Checkpoint { seq } => {
                self.shared.checkpoints.fetch_add(1, Ordering::Relaxed);
                reply.checkpoint(seq);
            }
            _ => reply.unknown(request.seq()),
        }
    }
}
