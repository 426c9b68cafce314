//! A server of one loop or more in a test: connections that are fed bytes, and replies as text.

use keyrack_net::{ClientMemory, LoopMemory, Verdict};
use keyrack_rowstore::{ModelRows, RowSession, Rows};
use keyrack_server::redis::{Checkpoint, Connection, Context, Host, Local, Options, Shared};
use keyrack_server::{Counted, ReaderSlots, Work};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// 2023-11-14 22:13:20 UTC, when tests begin.
pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// What the commands asked the process for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) checkpoints: AtomicU64,
    pub(crate) is_running: AtomicBool,
    pub(crate) shutdowns: AtomicU64,
}

struct Process(Arc<Asked>);

impl Host for Process {
    fn begin_checkpoint(&self) -> bool {
        self.0.checkpoints.fetch_add(1, SeqCst);
        !self.0.is_running.load(SeqCst)
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint { is_running: self.0.is_running.load(SeqCst), last_ms: 0, failure: None }
    }

    fn shutdown(&self) {
        self.0.shutdowns.fetch_add(1, SeqCst);
    }

    fn info(&self, section: &str, visit: &mut dyn FnMut(&str, &str)) {
        if section == "server" {
            visit("tcp_port", "6379");
        }
    }
}

/// Rows, and what the loops that serve them share.
pub(crate) struct Site {
    pub(crate) rows: Box<dyn Rows>,
    pub(crate) readers: ReaderSlots,
    pub(crate) shared: Shared,
    pub(crate) memory: Arc<ClientMemory>,
    pub(crate) asked: Arc<Asked>,
}

impl Site {
    pub(crate) fn new(options: Options, loops: usize) -> Self {
        let asked = Arc::new(Asked::default());
        let host = Box::new(Process(Arc::clone(&asked)));
        let memory = Arc::clone(&options.memory);
        Site {
            rows: Box::new(ModelRows::new()),
            readers: ReaderSlots::new(loops),
            shared: Shared::new(options, loops, START_MS, host),
            memory,
            asked,
        }
    }

    /// The one loop of a site, and a client of it. The site stays until the process ends, so that
    /// the loop can borrow from it.
    pub(crate) fn serve(self) -> (&'static Site, Loop<'static>, Client) {
        let site: &'static Site = Box::leak(Box::new(self));
        let the_loop = site.a_loop(0);
        let client = the_loop.client();
        (site, the_loop, client)
    }

    pub(crate) fn a_loop(&self, loop_index: usize) -> Loop<'_> {
        let work = Rc::new(Work::default());
        let session = Counted::new(self.rows.session().unwrap(), Rc::clone(&work));
        let session = Box::new(session);
        Loop {
            site: self,
            loop_index,
            session,
            work,
            rows_wait: false,
            local: Local::new(loop_index, 7),
            memory: LoopMemory::new(&self.memory),
            now_ms: START_MS,
        }
    }
}

pub(crate) struct Loop<'s> {
    pub(crate) site: &'s Site,
    loop_index: usize,
    pub(crate) session: Box<dyn RowSession + 's>,
    pub(crate) work: Rc<Work>,
    pub(crate) rows_wait: bool,
    local: Local,
    pub(crate) memory: LoopMemory,
    pub(crate) now_ms: u64,
}

/// A connection with what it has not consumed.
pub(crate) struct Client {
    pub(crate) connection: Connection,
    pub(crate) input: Vec<u8>,
    pub(crate) output: Vec<u8>,
    pub(crate) is_closed: bool,
}

impl Loop<'_> {
    pub(crate) fn client(&self) -> Client {
        let (shared, memory) = (&self.site.shared, &self.memory);
        let (peer, local) = ("127.0.0.1:50000", "127.0.0.1:6379");
        let connection = Connection::new(shared, memory, peer, local, self.now_ms);
        Client { connection, input: Vec::new(), output: Vec::new(), is_closed: false }
    }

    /// One iteration with one connection. What it was told to do next.
    pub(crate) fn iterate(&mut self, client: &mut Client) -> Verdict {
        let verdict = self.serve(client);
        self.session.flush().unwrap();
        verdict
    }

    /// An iteration without the flush at its end.
    pub(crate) fn serve(&mut self, client: &mut Client) -> Verdict {
        self.session.at(self.now_ms);
        let mut reader = self.site.readers.enter(self.loop_index);
        let mut cx = Context {
            session: &mut *self.session,
            store: &*self.site.rows,
            reader: &mut reader,
            work: &self.work,
            rows_wait: self.rows_wait,
            shared: &self.site.shared,
            local: &mut self.local,
            now_ms: self.now_ms,
        };
        let served = client.connection.serve(&mut cx, &client.input, &mut client.output);
        drop(reader);
        self.memory.trim();
        assert!(served.consumed <= client.input.len());
        client.input.drain(..served.consumed);
        client.is_closed |= matches!(served.verdict, Verdict::Close | Verdict::OutOfMemory);
        served.verdict
    }

    /// Feeds `bytes`, and iterates until more is needed. The replies.
    pub(crate) fn feed(&mut self, client: &mut Client, bytes: &[u8]) -> Vec<u8> {
        if client.is_closed {
            return Vec::new();
        }
        client.input.extend_from_slice(bytes);
        while self.iterate(client) == Verdict::Again {}
        std::mem::take(&mut client.output)
    }

    /// Sends words as a request. The reply as text.
    pub(crate) fn ask(&mut self, client: &mut Client, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = Vec::new();
        keyrack_wire::resp::command(&mut bytes, &words);
        String::from_utf8_lossy(&self.feed(client, &bytes)).replace("\r\n", " ").trim_end().into()
    }
}

/// The words of a line, with quotes and escapes as redis-cli reads them.
pub(crate) fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    while let Some(&byte) = bytes.peek() {
        if byte == b' ' {
            bytes.next();
            continue;
        }
        let mut word = Vec::new();
        let is_quoted = byte == b'"';
        if is_quoted {
            bytes.next();
        }
        loop {
            match bytes.next() {
                None => break,
                Some(b' ') if !is_quoted => break,
                Some(b'"') if is_quoted => break,
                Some(b'\\') if is_quoted => word.push(match bytes.next().unwrap() {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b'x' => {
                        let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
                        let digits = std::str::from_utf8(&digits).unwrap();
                        u8::from_str_radix(digits, 16).unwrap()
                    }
                    other => other,
                }),
                Some(other) => word.push(other),
            }
        }
        words.push(word);
    }
    words
}

/// Replies as people read them: one element a line, nested ones indented.
pub(crate) fn draw(mut replies: &[u8]) -> String {
    let mut text = String::new();
    while !replies.is_empty() {
        draw_one(&mut replies, 0, &mut text);
    }
    text
}

fn line<'a>(replies: &mut &'a [u8]) -> &'a str {
    let end = replies.windows(2).position(|two| two == b"\r\n").expect("a whole line");
    let (line, rest) = replies.split_at(end);
    *replies = &rest[2..];
    std::str::from_utf8(line).unwrap()
}

fn draw_one(replies: &mut &[u8], depth: usize, text: &mut String) {
    use std::fmt::Write;
    let head = line(replies);
    let (kind, rest) = head.split_at(1);
    let indent = "  ".repeat(depth);
    let mut aggregate = |name: &str, elements: usize, replies: &mut &[u8]| {
        writeln!(text, "{indent}{name}({rest})").unwrap();
        (0..elements).for_each(|_| draw_one(replies, depth + 1, text));
    };
    match kind {
        "+" => writeln!(text, "{indent}{rest}").unwrap(),
        "-" => writeln!(text, "{indent}! {rest}").unwrap(),
        ":" => writeln!(text, "{indent}(integer) {rest}").unwrap(),
        "," => writeln!(text, "{indent}(double) {rest}").unwrap(),
        "#" => writeln!(text, "{indent}(boolean) {rest}").unwrap(),
        "_" => writeln!(text, "{indent}(null)").unwrap(),
        "$" | "*" if rest == "-1" => writeln!(text, "{indent}(nil{kind})").unwrap(),
        "$" | "=" => {
            let length: usize = rest.parse().unwrap();
            let (bytes, behind) = replies.split_at(length);
            *replies = behind.strip_prefix(b"\r\n").expect("an end of a string");
            writeln!(text, "{indent}\"{}\"", bytes.escape_ascii()).unwrap();
        }
        "*" => aggregate("array", rest.parse().unwrap(), replies),
        "~" => aggregate("set", rest.parse().unwrap(), replies),
        "%" => aggregate("map", 2 * rest.parse::<usize>().unwrap(), replies),
        other => panic!("a reply of kind {other}"),
    }
}
