//! The header, made of the sources by cbindgen. `KEYRACK_REWRITE=1` writes it instead of comparing.

use super::source;
use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use std::{env, fs};

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

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        header: Some(ABOUT.to_owned()),
        include_guard: Some("KEYRACK_FS_H".to_owned()),
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        no_includes: true,
        cpp_compat: true,
        style: Style::Both,
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        tab_width: 4,
        ..Config::default()
    };
    let names = TYPES.map(|(here, there)| (here.to_owned(), there.to_owned()));
    config.export.rename = names.into_iter().collect();
    config
}

fn generate() -> String {
    let builder = SOURCES.iter().fold(Builder::new().with_config(config()), |builder, name| {
        builder.with_src(source(&format!("src/{name}.rs")))
    });
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    without_safety(&String::from_utf8(text).unwrap())
}

/// What callers in Rust promise about pointers goes without saying in C.
fn without_safety(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in text.lines() {
        if line.trim() == "// # Safety" {
            is_safety = true;
            // The empty line before it.
            kept.pop();
        }
        is_safety &= line.trim_start().starts_with("//");
        if !is_safety {
            kept.push(line.trim_end());
        }
    }
    kept.join("\n") + "\n"
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = source("include/keyrack_fs.h");
    let found = generate();
    if env::var_os("KEYRACK_REWRITE").is_some() {
        fs::write(&path, found).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "keyrack_fs.h:{}; KEYRACK_REWRITE=1 accepts it", number + 1);
    }
    assert_eq!(found, expected, "KEYRACK_REWRITE=1 accepts it");
}
