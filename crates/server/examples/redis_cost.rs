//! What a Redis command costs beside the rows: pipelines of GET and of SET through a connection, on
//! a session that answers every lookup with one row and takes every write. Prints nanoseconds a
//! command, the best of some rounds.
//!
//! ```text
//! cargo run --release -p keyrack-server --example redis_cost
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use keyrack_measure::Clock;
use keyrack_net::{ClientMemory, LoopMemory, Verdict};
use keyrack_rowstore::{Collection, ModelRows, Position, Row, RowBuf, RowSession, Rows};
use keyrack_server::redis::{Checkpoint, Connection, Context, Host, Local, Options, Shared};
use keyrack_server::{Counted, ReaderSlots, Work};
use keyrack_store::Update;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Commands in a read of 64 KiB, more or less.
const COMMANDS: usize = 1000;

const ROUNDS: usize = 200;

struct Nobody;

impl Host for Nobody {
    fn begin_checkpoint(&self) -> bool {
        false
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::default()
    }

    fn shutdown(&self) {}

    fn info(&self, _: &str, _: &mut dyn FnMut(&str, &str)) {}
}

/// Always finds the same row.
struct One {
    row: Vec<u8>,
    buf: RowBuf,
}

impl RowSession for One {
    fn at(&mut self, _: u64) {}

    fn get(&mut self, _: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> keyrack_store::Result<bool> {
        visit(Row::of(&self.row));
        Ok(true)
    }

    fn update(
        &mut self,
        _: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> keyrack_store::Result<u64> {
        self.buf.clear();
        decide(Some(Row::of(&self.row)), &mut self.buf);
        Ok(1)
    }

    fn scan(
        &mut self,
        _: &[u8],
        _: Option<&[u8]>,
        _: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> keyrack_store::Result<u64> {
        Ok(0)
    }

    fn scan_rev(
        &mut self,
        _: &[u8],
        _: Option<&[u8]>,
        _: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> keyrack_store::Result<u64> {
        Ok(0)
    }

    fn create_collection(&mut self) -> keyrack_store::Result<Arc<Collection>> {
        Err(keyrack_store::Error::usage("one row has no elements"))
    }

    fn collection(&self, _: u64) -> Option<Arc<Collection>> {
        None
    }

    fn element_count(&self, _: &Collection) -> u64 {
        0
    }

    fn clear(&mut self) -> keyrack_store::Result<()> {
        Ok(())
    }

    fn count(&self) -> u64 {
        1
    }

    fn begin_group(&mut self) -> keyrack_store::Result<()> {
        Ok(())
    }

    fn commit_group(&mut self) -> keyrack_store::Result<()> {
        Ok(())
    }

    fn cancel_group(&mut self) {}

    fn flush(&mut self) -> keyrack_store::Result<Position> {
        Ok(Position::default())
    }

    fn is_durable(&self, _: Position) -> bool {
        true
    }
}

fn main() {
    let mut value = RowBuf::new();
    value.set_value(&[b'v'; 32]);
    let mut session = One { row: Vec::new(), buf: RowBuf::new() };
    value.encode(1, &mut session.row);
    let work = Rc::new(Work::default());
    let mut session = Counted::new(Box::new(session), Rc::clone(&work));
    let store: &dyn Rows = &ModelRows::new();
    let readers = ReaderSlots::new(1);
    let shared = Shared::new(Options::default(), 1, 1, Box::new(Nobody));
    let mut local = Local::new(0, 1);
    let memory = LoopMemory::new(&ClientMemory::unlimited());
    let clock = Clock::vdso();
    for (name, words) in [
        ("GET, pipelined", &[&b"GET"[..], b"key:0000000001"][..]),
        ("GET, each between others", &[b"STRLEN", b"key:0000000001"]),
        ("SET", &[b"SET", b"key:0000000001", b"0123456789abcdef0123456789abcdef"]),
        ("INCRBY of no number", &[b"INCRBY", b"key:0000000001", b"1"]),
        ("PING", &[b"PING"]),
    ] {
        let mut input = Vec::new();
        (0..COMMANDS).for_each(|_| keyrack_wire::resp::command(&mut input, words));
        let mut connection = Connection::new(&shared, &memory, "peer", "local", 1);
        let mut output = Vec::new();
        let mut best = u64::MAX;
        for _ in 0..ROUNDS {
            output.clear();
            let start = clock.ticks();
            let mut reader = readers.enter(0);
            let mut cx = Context {
                session: &mut session,
                store,
                reader: &mut reader,
                work: &work,
                rows_wait: false,
                shared: &shared,
                local: &mut local,
                now_ms: 1,
            };
            let served = connection.serve(&mut cx, &input, &mut output);
            drop(reader);
            best = best.min(clock.ns_between(start, clock.ticks()));
            assert_eq!((served.consumed, served.verdict), (input.len(), Verdict::Continue));
        }
        println!("{name:<26} {:6.1} ns", best as f64 / COMMANDS as f64);
    }
}
