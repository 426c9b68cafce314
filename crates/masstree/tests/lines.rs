//! Which cache lines two threads write, recorded by an emulator of the processor.
//!
//! The test runs itself again in the emulator ([`keyrack_testkit::lines`]), where two threads take
//! turns. Then it looks for lines that one of them writes and the other reads or writes: each such
//! line travels between processors. The account in `docs/engines/masstree.md` names all of them.
//!
//! | operation | lines that it may share |
//! |---|---|
//! | get, scan | none, whatever the other thread does |
//! | put, insert, remove in border nodes of its own | none |
//! | insert with a split or a share | those of the parents, and of the memory that nodes come from |
//! | put of a value with memory of its own | the era, and the reservations that a scan looks at |
//!
//! It needs `valgrind`. A planted counter shows that a shared line is found.

#![expect(clippy::print_stdout, reason = "the counts, and why a test is skipped")]

use keyrack_concurrent::pin;
use keyrack_masstree::{Bytes, Slot, Tree};
use keyrack_testkit::lines::{
    Account, Operation, Phase, Recording, has_emulator, is_traced, name_parts, perform, record,
};
use keyrack_testkit::random::Draw;
use std::collections::BTreeMap;
use std::env;
use std::ops::ControlFlow;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys of each thread. Between the two ranges there is a gap wider than a node.
const KEYS: u64 = 400;
const GAP: u64 = 100;

const GET: usize = 0;
const PUT: usize = 1;
const INSERT: usize = 2;
const REMOVE: usize = 3;
const SCAN: usize = 4;
const KINDS: [&str; 5] = ["get", "put", "insert", "remove", "scan"];

/// What only a split touches: memory for nodes.
const MEMORY: &str = "arena: lock of a stripe";

fn key(thread: usize, number: u64) -> [u8; 8] {
    ((thread as u64 * (KEYS + GAP) + number) << 32).to_be_bytes()
}

fn tree<V: Slot>(value: impl Fn() -> V::In<'static>) -> Tree<V> {
    let tree = Tree::new();
    let numbers = (0..2 * KEYS + GAP).map(|number| (key(0, number), value()));
    tree.bulk_load(numbers, &mut pin()).unwrap();
    tree
}

fn name_tree<V: Slot>(tree: &mut Tree<V>) {
    let parts = tree.parts().into_iter().chain(keyrack_concurrent::parts());
    name_parts(parts.map(|part| (part.name, part.address, part.bytes)));
}

/// What is recorded. It is no test unless the emulator runs it.
#[test]
fn recorded() {
    if !is_traced() {
        return;
    }
    let mut tree = tree::<u64>(|| 1);
    perform("gets beside puts of the same keys", 2, 100, |performer, turn| {
        let key = key(0, Draw::new(turn as u64 / 4).below(KEYS));
        match performer.thread() {
            0 => performer.operation(GET, || assert!(tree.get(&key, &pin()).is_some())),
            _ => performer.operation(PUT, || assert!(tree.insert(&key, 2, &pin()).is_some())),
        }
    });
    name_tree(&mut tree);
    planted(&tree);
    apart(&mut tree);
    inserts(&mut tree);
    blobs();
}

/// Gets that count themselves.
fn planted(tree: &Tree<u64>) {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    perform("planted", 2, 10, |performer, turn| {
        performer.operation(GET, || {
            COUNTER.fetch_add(1, Ordering::Relaxed);
            tree.get(&key(performer.thread(), turn as u64), &pin())
        });
    });
    let bytes = size_of::<AtomicU64>();
    name_parts([("planted counter", COUNTER.as_ptr().addr(), bytes)]);
}

/// Every operation but inserts, in nodes of its own.
fn apart(tree: &mut Tree<u64>) {
    perform("apart", 2, 100, |performer, turn| {
        let mut draw = Draw::new((2 * turn + performer.thread()) as u64);
        let key = key(performer.thread(), draw.below(KEYS - 50));
        performer.operation(GET, || tree.get(&key, &pin()));
        performer.operation(PUT, || tree.insert(&key, 2, &pin()));
        performer.operation(REMOVE, || assert!(tree.remove(&key, &pin()).is_some()));
        performer.operation(INSERT, || assert!(tree.insert(&key, 1, &pin()).is_none()));
        let mut left = 49;
        let visited = performer.operation(SCAN, || {
            tree.scan(&key, None, |_, _| {
                left -= 1;
                if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
        });
        assert_eq!(visited, 50);
    });
    name_tree(tree);
}

/// Full nodes that split.
fn inserts(tree: &mut Tree<u64>) {
    perform("inserts", 2, 200, |performer, turn| {
        let mut key = key(performer.thread(), Draw::new(turn as u64).below(KEYS));
        key[4..].copy_from_slice(&(turn as u32 + 1).to_be_bytes());
        performer.operation(INSERT, || assert!(tree.insert(&key, 1, &pin()).is_none()));
    });
    name_tree(tree);
}

/// Values that are retired when they are replaced, enough for a scan of the retired ones.
fn blobs() {
    const VALUE: &[u8] = b"a value of more than a word";
    const TURNS: usize = 10;
    const PUTS: u64 = 150;
    let mut tree = Tree::<Bytes>::new();
    perform("blobs", 2, TURNS, |performer, turn| {
        // In the turn that is not recorded, each thread makes the values that it will replace.
        let count = if turn == 0 { KEYS + GAP / 2 } else { PUTS };
        for number in 0..count {
            let key = key(performer.thread(), number);
            performer.operation(PUT, || tree.insert(&key, VALUE, &pin()).is_some());
        }
    });
    name_tree(&mut tree);
}

/// The recording, made once. `None` where there is no emulator, or none that can run this program.
fn recording(test: &str) -> Option<&'static Recording> {
    static RECORDING: LazyLock<Recording> = LazyLock::new(|| {
        let program = env::current_exe().unwrap();
        let arguments = ["--exact", "lines::recorded", "--test-threads=1"];
        record(&program, &arguments).unwrap_or_else(|error| panic!("{error}"))
    });
    if env::var_os("ASAN_OPTIONS").is_some() {
        println!("SKIPPED {test}: a program with AddressSanitizer does not run in an emulator");
        return None;
    }
    if !has_emulator() {
        assert!(env::var_os("CI").is_none(), "{test}: there is no valgrind on this machine");
        println!("SKIPPED {test}: there is no valgrind on this machine");
        return None;
    }
    Some(&RECORDING)
}

/// The accounts of the chosen operations, by their kinds.
fn accounts(phase: &Phase, chosen: impl Fn(&Operation) -> bool) -> BTreeMap<usize, Account> {
    let mut accounts = BTreeMap::new();
    for (kind, name) in KINDS.iter().enumerate() {
        let account = phase.account(|operation| operation.kind == kind && chosen(operation));
        if account.operations > 0 {
            println!("| {}: {name} | {account} |", phase.name);
            accounts.insert(kind, account);
        }
    }
    accounts
}

fn touches(phase: &Phase, operation: &Operation, name: &str) -> bool {
    operation.accesses.iter().any(|access| phase.name_of(access.line).contains(name))
}

#[test]
fn a_get_writes_no_line_that_another_thread_touches() {
    let Some(recording) = recording("a_get_writes") else { return };
    let phase = recording.phase("gets beside puts of the same keys");
    let accounts = accounts(phase, |_| true);
    assert_eq!((accounts[&GET].operations, accounts[&PUT].operations), (100, 100));
    assert_eq!(accounts[&GET].shared, BTreeMap::new());
    // The puts write what the gets read: the recording has seen both.
    let shared: Vec<_> = accounts[&PUT].shared.keys().collect();
    assert_eq!(shared, ["border: entries", "border: version"]);
}

#[test]
fn operations_in_nodes_of_their_own_share_no_written_line() {
    let Some(recording) = recording("operations_in_nodes_of_their_own") else { return };
    let phase = recording.phase("apart");
    let accounts = accounts(phase, |_| true);
    assert_eq!(accounts.len(), KINDS.len());
    for (kind, account) in &accounts {
        assert_eq!(account.operations, 200, "{}", KINDS[*kind]);
        assert_eq!(account.shared, BTreeMap::new(), "{}", KINDS[*kind]);
        // Its reservation at least, or the recording has missed something.
        assert!(account.written >= account.operations, "{}", KINDS[*kind]);
    }
}

#[test]
fn an_insert_shares_a_line_only_if_it_splits_a_node() {
    let Some(recording) = recording("an_insert_shares_a_line") else { return };
    let phase = recording.phase("inserts");
    let parents = |name: &str| name.starts_with("interior: ") || name.starts_with("root: ");
    let moves = |operation: &Operation| {
        let written = operation.accesses.iter().filter(|access| access.is_write());
        let is_parent = |line| phase.name_of(line).split(", ").any(parents);
        touches(phase, operation, MEMORY) || written.map(|access| access.line).any(is_parent)
    };
    let plain = accounts(phase, |operation| !moves(operation));
    assert!(plain[&INSERT].operations > 200, "{plain:?}");
    assert_eq!(plain[&INSERT].shared, BTreeMap::new());
    let splits = accounts(phase, moves);
    let Account { operations, shared, .. } = &splits[&INSERT];
    assert!(*operations > 20, "{splits:?}");
    assert!(shared.keys().any(|name| parents(name)), "{shared:?}");
    let known = |name: &String| parents(name) || name.starts_with("arena: ");
    assert!(shared.keys().all(known), "{shared:?}");
}

#[test]
fn a_put_of_a_blob_shares_the_era_and_what_scans_look_at() {
    let Some(recording) = recording("a_put_of_a_blob") else { return };
    let phase = recording.phase("blobs");
    let accounts = accounts(phase, |_| true);
    let Account { operations, shared, .. } = &accounts[&PUT];
    let known = |name: &str| name.contains("era") || name == "thread: reservation";
    assert!(shared.keys().all(|name| known(name)), "{shared:?}");
    // Once for each batch.
    let eras: usize = shared.iter().filter(|(name, _)| name.contains("era")).map(|(_, n)| n).sum();
    assert!((1..=operations / 50).contains(&eras), "{operations}: {shared:?}");
}

/// A counter that all gets write is what these tests are to find.
#[test]
fn a_planted_counter_is_found() {
    let Some(recording) = recording("a_planted_counter") else { return };
    let accounts = accounts(recording.phase("planted"), |_| true);
    let Account { operations, shared, .. } = &accounts[&GET];
    assert_eq!((*operations, shared.get("planted counter")), (20, Some(&20)), "{shared:?}");
}
