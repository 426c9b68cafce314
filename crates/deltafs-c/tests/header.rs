//! The header, made of the sources by cbindgen. `KEYRACK_REWRITE=1` writes it instead of comparing.

use keyrack_testkit::c::Header;

const ABOUT: &str = "/*
 * Name spaces of files, for C. See docs/fs-c.md for how to build with it.
 *
 * Made by cbindgen from crates/deltafs-c: change the sources, not this file.
 *
 * Every call returns 0 or more when it succeeded and a negated errno value when it did not;
 * keyrack_fs_message() then has a line for a person. Paths are bytes that begin with a slash and
 * end with a zero. Any number of threads may use one keyrack_fs at once; a keyrack_fs_dir belongs
 * to one thread at a time.
 */";

/// Where the interface is, in the order of the header.
const SOURCES: [&str; 5] = ["constants", "status", "open", "calls", "listing"];

/// Names in the header for types of the crate.
const TYPES: [(&str, &str); 4] = [
    ("Fs", "keyrack_fs"),
    ("Listing", "keyrack_fs_dir"),
    ("Facts", "keyrack_fs_stat"),
    ("Entry", "keyrack_fs_entry"),
];

#[test]
fn the_header_is_what_the_sources_say() {
    let header = Header {
        folder: env!("CARGO_MANIFEST_DIR"),
        path: "include/keyrack_fs.h",
        guard: "KEYRACK_FS_H",
        about: ABOUT,
        after_includes: None,
        sources: &SOURCES,
        types: &TYPES,
    };
    header.check(|_| ());
}
