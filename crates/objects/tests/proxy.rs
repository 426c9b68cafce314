//! A wire between a client and a server that can be cut after a number of bytes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Where the server is.
#[derive(Clone, Debug)]
pub(crate) enum Upstream {
    Tcp(u16),
    Unix(PathBuf),
}

trait Stream: Read + Write + Send {
    fn copy(&self) -> Box<dyn Stream>;
    fn close(&self);
}

impl Stream for TcpStream {
    fn copy(&self) -> Box<dyn Stream> {
        Box::new(self.try_clone().unwrap())
    }

    fn close(&self) {
        // It may be closed already.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for UnixStream {
    fn copy(&self) -> Box<dyn Stream> {
        Box::new(self.try_clone().unwrap())
    }

    fn close(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Upstream {
    fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Upstream::Tcp(port) => Box::new(TcpStream::connect(("127.0.0.1", *port))?),
            Upstream::Unix(path) => Box::new(UnixStream::connect(path)?),
        })
    }
}

/// How far the wire goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Never,
    /// So many bytes of requests get through.
    Requests(u64),
    /// So many bytes of answers get through: what was asked is done, and nobody hears of it.
    Answers(u64),
}

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    answers: AtomicU64,
    is_cut: AtomicBool,
}

/// The wire. Once it is cut nothing gets through any more.
pub(crate) struct Proxy {
    port: u16,
    counts: Arc<Counts>,
    streams: Arc<Mutex<Vec<Box<dyn Stream>>>>,
}

impl Proxy {
    pub(crate) fn new(upstream: Upstream, cut: Cut) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let counts = Arc::new(Counts::default());
        let streams: Arc<Mutex<Vec<Box<dyn Stream>>>> = Arc::default();
        let (all, counted) = (Arc::clone(&streams), Arc::clone(&counts));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = if counted.is_cut.load(Ordering::SeqCst) {
                    continue;
                } else {
                    upstream.connect()
                };
                let Ok(server) = server else { continue };
                let mut known = all.lock().unwrap();
                known.extend([client.copy(), server.copy()]);
                let requests = match cut {
                    Cut::Requests(bytes) => bytes,
                    _ => u64::MAX,
                };
                let answers = match cut {
                    Cut::Answers(bytes) => bytes,
                    _ => u64::MAX,
                };
                let client: Box<dyn Stream> = Box::new(client);
                pass(client.copy(), server.copy(), requests, false, &counted, &all);
                pass(server, client, answers, true, &counted, &all);
            }
        });
        Proxy { port, counts, streams }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Bytes of requests and of answers so far.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let counts = &self.counts;
        (counts.requests.load(Ordering::SeqCst), counts.answers.load(Ordering::SeqCst))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.counts.is_cut.store(true, Ordering::SeqCst);
        close(&self.streams);
    }
}

fn close(streams: &Mutex<Vec<Box<dyn Stream>>>) {
    for stream in streams.lock().unwrap().drain(..) {
        stream.close();
    }
}

/// Passes bytes on in a thread until `limit` of its direction are through.
fn pass(
    mut from: Box<dyn Stream>,
    mut to: Box<dyn Stream>,
    limit: u64,
    is_answer: bool,
    counts: &Arc<Counts>,
    streams: &Arc<Mutex<Vec<Box<dyn Stream>>>>,
) {
    let (counts, streams) = (Arc::clone(counts), Arc::clone(streams));
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count) = from.read(&mut bytes) {
            let counter = if is_answer { &counts.answers } else { &counts.requests };
            let before = counter.fetch_add(count as u64, Ordering::SeqCst);
            let allowed = limit.saturating_sub(before).min(count as u64) as usize;
            let is_over = count == 0 || to.write_all(&bytes[..allowed]).is_err();
            if allowed < count {
                counts.is_cut.store(true, Ordering::SeqCst);
                close(&streams);
            }
            if is_over || allowed < count {
                break;
            }
        }
        from.close();
        to.close();
    });
}
