//! The header, made of the sources by cbindgen. `KEYRACK_REWRITE=1` writes it instead of comparing.

use super::source;
use keyrack_testkit::c::{Header, read};

const ABOUT: &str = "/*
 * Keyrack's persistent store for C: ordered keys and values of any bytes, in a directory.
 * docs/keyrack-c.md says how to build with it, and has a first program.
 *
 * Made by cbindgen from crates/flodb-c: change the sources, not this file.
 *
 * ANSWERS. A call that can fail answers a keyrack_code, and has as its last argument the address of
 * an error, or null. The error is null at first: `keyrack_error *error = NULL;`. A failure puts a
 * new one there and frees the old one; a success leaves it. keyrack_error_free frees the last. A
 * result that is a pointer is null after a failure. The library prints nothing and never ends the
 * process.
 *
 * OWNERSHIP. What a call puts into a place of the caller's (`**`) belongs to the caller, who frees
 * it by the call that is named there. What a call returns (`const char *`) belongs to the handle
 * that it was asked of. Arguments are copied before a call returns. A handle keeps what it needs,
 * so handles may be freed in any order, also after the store is closed; a handle that was freed is
 * no handle.
 *
 * THREADS. Any number at once may use a store, a key space and a snapshot. Options, batches,
 * iterators, lists and errors are for one thread at a time, and may go from one to another. So is a
 * transaction together with its iterators. \"Threads\" says it at each call.
 *
 * MISUSE. A null pointer in place of a handle, of a text or of the place of a result is
 * KEYRACK_USAGE or has no effect. So are unknown flags, lengths that no memory has, handles of
 * another store, and calls on a transaction that has ended. After keyrack_close calls answer
 * KEYRACK_CLOSED.
 */";

/// Where the interface is, in the order of the header.
const SOURCES: [&str; 13] = [
    "library",
    "error",
    "options",
    "event",
    "store",
    "space",
    "access",
    "batch",
    "snapshot",
    "iterator",
    "transaction",
    "backup",
    "list",
];

/// Names in the header for types of the crate.
const TYPES: [(&str, &str); 12] = [
    ("Code", "keyrack_code"),
    ("Error", "keyrack_error"),
    ("Event", "keyrack_event"),
    ("Listener", "keyrack_listener"),
    ("Options", "keyrack_options"),
    ("Store", "keyrack_store"),
    ("Space", "keyrack_space"),
    ("Batch", "keyrack_batch"),
    ("Snapshot", "keyrack_snapshot"),
    ("Cursor", "keyrack_iterator"),
    ("Transaction", "keyrack_transaction"),
    ("List", "keyrack_list"),
];

#[test]
fn the_header_is_what_the_sources_say() {
    let header = Header {
        folder: env!("CARGO_MANIFEST_DIR"),
        path: "include/keyrack.h",
        guard: "KEYRACK_H",
        about: ABOUT,
        after_includes: None,
        sources: &SOURCES,
        types: &TYPES,
    };
    header.check(|_| ());
}

/// The comment of a call is the lines before it.
#[test]
fn every_call_says_which_threads_may_make_it() {
    let header = read(&source("include/keyrack.h"));
    let (mut comment, mut calls) = (String::new(), 0);
    for line in header.lines() {
        if line.starts_with("//") {
            comment += line;
        } else {
            if line.contains(" keyrack_") && line.contains('(') {
                calls += 1;
                assert!(comment.contains("// Threads: "), "{line}");
            }
            comment.clear();
        }
    }
    assert!(calls > 60, "{calls}");
}
