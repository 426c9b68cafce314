//! Requests in one piece, in two, and byte by byte are answered the same; so are runs of gets.

use crate::redis::tool::{Loop, Site, draw};
use keyrack_net::Verdict;
use keyrack_rowstore::{Collection, Position, Row, RowBuf, RowSession};
use keyrack_server::redis::Options;
use keyrack_store::Update;
use keyrack_testkit::random::seed_or;
use keyrack_workload::Rng;
use std::ops::ControlFlow;
use std::sync::Arc;

fn pipeline() -> Vec<u8> {
    let mut bytes = Vec::new();
    let requests: &[&[&str]] = &[
        &["SET", "a", "1"],
        &["GET", "a"],
        &["GET", "nothing"],
        &["HSET", "h", "f", "v"],
        &["GET", "h"],
        &["GET", "a"],
        &["MULTI"],
        &["GET", "a"],
        &["INCR", "a"],
        &["EXEC"],
        &["KEYS", "*"],
        &["GET", "a"],
        &["NOSUCH", "x"],
        &["HELLO", "3"],
        &["GET", "nothing"],
        &["HGETALL", "h"],
        &["CLIENT", "REPLY", "SKIP"],
        &["GET", "a"],
        &["GET", "a"],
        &["QUIT"],
        &["GET", "a"],
    ];
    for words in requests {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        keyrack_wire::resp::command(&mut bytes, &words);
    }
    bytes
}

fn whole(bytes: &[u8]) -> Vec<u8> {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let replies = the_loop.feed(&mut client, bytes);
    assert!(client.is_closed, "QUIT closes");
    replies
}

#[test]
fn replies_do_not_depend_on_how_requests_are_cut() {
    let bytes = pipeline();
    let expected = whole(&bytes);
    for cut in 0..bytes.len() {
        let site = Site::new(Options::default(), 1);
        let mut the_loop = site.a_loop(0);
        let mut client = the_loop.client();
        let mut replies = the_loop.feed(&mut client, &bytes[..cut]);
        replies.extend(the_loop.feed(&mut client, &bytes[cut..]));
        assert_eq!(draw(&replies), draw(&expected), "cut at {cut}");
    }
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let one_by_one = bytes.iter().flat_map(|&byte| the_loop.feed(&mut client, &[byte]));
    assert_eq!(draw(&one_by_one.collect::<Vec<u8>>()), draw(&expected));
}

#[test]
fn words_on_a_line_are_a_request() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let replies =
        the_loop.feed(&mut client, b"SET a \"x \\x41\"\r\nGET a\nGET \"a\"\r\n\r\nPING\r\n");
    assert_eq!(draw(&replies), "OK\n\"x A\"\n\"x A\"\nPONG\n");
}

/// A session that looks keys up from behind: replies are in order all the same.
struct Backwards<'s>(Box<dyn RowSession + 's>);

impl RowSession for Backwards<'_> {
    fn at(&mut self, now_ms: u64) {
        self.0.at(now_ms);
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> keyrack_store::Result<bool> {
        self.0.get(key, visit)
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> keyrack_store::Result<()> {
        for (index, key) in keys.iter().enumerate().rev() {
            if !self.0.get(key, &mut |row| visit(index, Some(row)))? {
                visit(index, None);
            }
        }
        Ok(())
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> keyrack_store::Result<u64> {
        // As a store under contention does, the closure is called more than once.
        self.0.update(key, &mut |row, buf| {
            let mut first = RowBuf::new();
            decide(row, &mut first);
            decide(row, buf)
        })
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> keyrack_store::Result<u64> {
        self.0.scan(low, high, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> keyrack_store::Result<u64> {
        self.0.scan_rev(low, high, visit)
    }

    fn create_collection(&mut self) -> keyrack_store::Result<Arc<Collection>> {
        self.0.create_collection()
    }

    fn collection(&self, id: u64) -> Option<Arc<Collection>> {
        self.0.collection(id)
    }

    fn element_count(&self, collection: &Collection) -> u64 {
        self.0.element_count(collection)
    }

    fn get_element(
        &mut self,
        id: u64,
        name: &[u8],
        visit: &mut dyn FnMut(Row<'_>),
    ) -> keyrack_store::Result<bool> {
        self.0.get_element(id, name, visit)
    }

    fn update_element(
        &mut self,
        id: u64,
        name: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> keyrack_store::Result<u64> {
        self.0.update_element(id, name, &mut |row, buf| {
            let mut first = RowBuf::new();
            decide(row, &mut first);
            decide(row, buf)
        })
    }

    fn scan_elements(
        &mut self,
        id: u64,
        range: (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> keyrack_store::Result<u64> {
        self.0.scan_elements(id, range, is_reverse, visit)
    }

    fn clear(&mut self) -> keyrack_store::Result<()> {
        self.0.clear()
    }

    fn count(&self) -> u64 {
        self.0.count()
    }

    fn begin_group(&mut self) -> keyrack_store::Result<()> {
        self.0.begin_group()
    }

    fn commit_group(&mut self) -> keyrack_store::Result<()> {
        self.0.commit_group()
    }

    fn cancel_group(&mut self) {
        self.0.cancel_group();
    }

    fn flush(&mut self) -> keyrack_store::Result<Position> {
        self.0.flush()
    }

    fn is_durable(&self, position: Position) -> bool {
        self.0.is_durable(position)
    }
}

#[test]
fn closures_called_twice_and_rows_from_behind_change_nothing() {
    let bytes = pipeline();
    let site = Site::new(Options::default(), 1);
    let mut the_loop = site.a_loop(0);
    let inner = std::mem::replace(&mut the_loop.session, site.rows.session().unwrap());
    the_loop.session = Box::new(Backwards(inner));
    let mut client = the_loop.client();
    let replies = the_loop.feed(&mut client, &bytes);
    assert_eq!(draw(&replies), draw(&whole(&bytes)));
}

#[test]
fn gets_are_answered_in_their_order_however_many() {
    let mut rng = Rng::from_seed(seed_or(2));
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    for key in 0..50 {
        the_loop.ask(&mut client, &["SET", &key.to_string(), &format!("value {key}")]);
    }
    for count in [1, 2, 15, 16, 17, 63, 64, 65, 200, 1000] {
        let (mut bytes, mut expected) = (Vec::new(), String::new());
        for _ in 0..count {
            let key = rng.below(60);
            keyrack_wire::resp::command(&mut bytes, &[b"GET", key.to_string().as_bytes()]);
            match key {
                0..50 => expected.push_str(&format!("\"value {key}\"\n")),
                _ => expected.push_str("(nil$)\n"),
            }
        }
        assert_eq!(draw(&the_loop.feed(&mut client, &bytes)), expected);
    }
}

/// Feeds a pipeline and returns the most that one iteration appended.
fn most_of_an_iteration(the_loop: &mut Loop<'_>, bytes: &[u8]) -> usize {
    let mut client = the_loop.client();
    client.input.extend_from_slice(bytes);
    let mut most = 0;
    loop {
        let verdict = the_loop.iterate(&mut client);
        most = most.max(client.output.len());
        client.output.clear();
        if verdict != Verdict::Again {
            return most;
        }
    }
}

#[test]
fn a_pipeline_of_gets_of_large_values_does_not_fill_the_memory() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    the_loop.ask(&mut client, &["SET", "large", &"x".repeat(100_000)]);
    let mut bytes = Vec::new();
    (0..2000).for_each(|_| keyrack_wire::resp::command(&mut bytes, &[b"GET", b"large"]));
    // The first run of a connection has 16 gets; after it one at a time.
    assert!(most_of_an_iteration(&mut the_loop, &bytes) < 17 * 100_020 + (256 << 10));
    let many = format!("MGET{}\r\n", " large".repeat(10)).repeat(50);
    assert!(most_of_an_iteration(&mut the_loop, many.as_bytes()) < 11 * 100_020 + (256 << 10));
}
