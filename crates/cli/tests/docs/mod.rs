//! The pages against the binary: an option, a command or an engine that a page names exists, and
//! what exists is not called absent.
//!
//! ```text
//!   --help of every command   --+
//!   --help of the old names   --+--> Known <-- held against -- code spans and fences of pages
//!   bench --list              --+                              sentences with "not offered" ...
//! ```
//!
//! Lines of other programs are known by their program; what stands alone has a row with its owner
//! in [`OF_OTHERS`]. A row that no page needs any more is a failure, too.

mod known;
pub(crate) mod pages;

use known::Known;
use pages::Page;
use std::collections::BTreeSet;

/// Programs whose options are not ours, where they begin a line.
const OTHER_PROGRAMS: [&str; 20] = [
    "apt-get",
    "argv",
    "cargo",
    "cc",
    "docker",
    "du",
    "git",
    "mcrouter",
    "memcached",
    "memtier_benchmark",
    "nutcracker",
    "python3",
    "redis-benchmark",
    "redis-cli",
    "redis-server",
    "rustc",
    "rustup",
    "trace_analyzer",
    "valgrind",
    "workload",
];

/// Options of other programs that stand alone in a text, each with whose it is.
const OF_OTHERS: [(&str, &str); 13] = [
    ("--bigkeys", "redis-cli"),
    ("--cfg", "rustc, in RUSTFLAGS"),
    ("--features", "cargo"),
    ("--flag", "a placeholder for any option"),
    ("--help", "every program"),
    ("--keyrack", "mdtest with our backend: --keyrack.server, --keyrack.dir"),
    ("--memkeys", "redis-cli"),
    ("--mpi", "srun"),
    ("--no-default-features", "cargo"),
    ("--pipe", "redis-cli"),
    ("--seconds", "cargo xtask"),
    ("--with-malloc", "Masstree's configure"),
    ("--use_shm", "a fork of mutilate, which load.md says is not offered"),
];

/// Engines that a page makes up.
const EXAMPLES: [(&str, &str); 1] = [("sorted", "docs/adding-an-engine.md writes it")];

/// Words by which a page says that something is not there.
const ABSENT: [&str; 7] = [
    "not offered",
    "not in this version",
    "in this version also absent",
    "not yet",
    "is absent",
    "are absent",
    "not implemented",
];

/// Sentences that say so of something else than the thing that they name.
const NOT_ABOUT_IT: [(&str, &str); 2] = [
    ("`rows` is absent where the workload is not a job", "a field of a record"),
    ("Error texts begin as LevelDB's do", "the beginning of a message"),
];

#[test]
fn pages_name_no_option_command_or_engine_that_does_not_exist() {
    let known = Known::ask();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    // Every command of the page of compatibility is run by tests of its own.
    for page in Page::all().iter().filter(|page| page.name != "docs/compatibility.md") {
        for piece in page.code() {
            for what in check(&known, &piece.text, &mut used) {
                wrong.push(format!("{}:{}: {what}, in: {}", page.name, piece.line, piece.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    let all: String = Page::all().into_iter().map(|page| page.text).collect();
    for (sentence, _) in NOT_ABOUT_IT {
        assert!(all.contains(sentence), "no page says any more: {sentence}");
    }
    for (option, owner) in OF_OTHERS {
        assert!(!known.has_option(option) || option == "--help", "{option} is ours, not {owner}'s");
        assert!(used.contains(option), "no page names {option} of {owner} any more");
    }
}

#[test]
fn pages_do_not_call_absent_what_exists() {
    let known = Known::ask();
    let mut wrong = Vec::new();
    for page in Page::all() {
        for claim in page.claims(&ABSENT) {
            if NOT_ABOUT_IT.iter().any(|(sentence, _)| claim.text.contains(sentence)) {
                continue;
            }
            if let Some(name) = known.named_in(&claim.text, claim.is_item) {
                wrong.push(format!("{}:{}: {name} exists: {}", page.name, claim.line, claim.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_crate_is_described_once_in_the_architecture() {
    let pages = Page::all();
    let page = pages.iter().find(|page| page.name == "docs/architecture.md").unwrap();
    let mut seen = BTreeSet::new();
    for line in page.text.lines() {
        let Some((name, _)) = line.strip_prefix("**").and_then(|rest| rest.split_once(".**"))
        else {
            continue;
        };
        assert!(seen.insert(name), "docs/architecture.md describes {name} twice");
    }
    assert!(seen.len() > 15, "{seen:?}");
}

/// The test can fail: what it is made for is found in pages that are made up.
#[test]
fn the_pages_test_finds_what_is_wrong() {
    let known = Known::ask();
    let mut used = BTreeSet::new();
    let mut found = |text: &str| check(&known, text, &mut used).join("; ");
    for (text, said) in [
        ("keyrack bench --no-such-option", "keyrack bench has no option --no-such-option"),
        ("keyrack fs ls --tui /", "keyrack fs ls has no option --tui"),
        ("keyrack bake", "there is no command keyrack bake"),
        ("FOO=1 keyrack fs frobnicate --db x", "there is no command keyrack fs frobnicate"),
        ("--no-such-option=3", "no program of ours has an option --no-such-option"),
        ("sleep 1 | keyrack bench --backend flodb,rockdb", "there is no engine rockdb"),
        ("mtclient --no-such 1", "mtclient has no option --no-such"),
        ("keyrack fs --tui", "keyrack fs has no option --tui"),
        ("deltafs_bm_svr --dumy_svr=1", "deltafs_bm_svr has no option --dumy_svr"),
    ] {
        assert_eq!(found(text), said, "{text}");
    }
    for text in [
        "keyrack bench --backend flodb,redb? --threads 1..8 samples/x.lua",
        "cargo run --release -- bench --whatever",
        "keyrack fs launch -n 2 -- ./other --option",
        "keyrack fs launch -n 2 -- ./deltafs_bm_svr --dummy_svr=1",
        "keyrack COMMAND --help",
        "keyrack fs --store s3://bucket/prefix",
        "--tui",
        "a --> b <--c-- d",
    ] {
        assert_eq!(found(text), "", "{text}");
    }
    let page = |text: &str| Page { name: "x.md".to_owned(), text: text.to_owned() };
    for text in [
        "The picture (`--tui`) is not offered.",
        "## Not offered\n\n* UDP.\n* A full-screen view (`--tui`).\n",
        "In this version also absent: the mount of the\nmetadata service. More.",
        "The systems whose parts are not in this version (FloDB, IndexFS) have no rows.",
        "| x | `rocksdb` when it was built with it; no `tidesdb` |",
    ] {
        let claims = page(text).claims(&ABSENT);
        let named = claims.iter().find_map(|claim| known.named_in(&claim.text, claim.is_item));
        assert!(named.is_some(), "{text}: {claims:?}");
    }
    for text in ["## Not offered\n\n* UDP.\n\n## Options\n\n* `--tui`\n", "The filter is absent."] {
        let claims = page(text).claims(&ABSENT);
        let named = claims.iter().find_map(|claim| known.named_in(&claim.text, claim.is_item));
        assert_eq!(named, None, "{text}");
    }
}

/// What is wrong with a line of code. The options of others that it names go into `used`.
fn check(known: &Known, line: &str, used: &mut BTreeSet<String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for part in pages::commands(line) {
        let words: Vec<&str> = part.iter().map(String::as_str).collect();
        let is_name = |word: &&str| known.program(word).is_some();
        if let Some(at) = words.iter().position(is_name) {
            let program = known.program(words[at]).expect("it was just found");
            wrong.extend(known.check_call(program, &words[at + 1..]));
        } else if !words.iter().take(2).any(|word| OTHER_PROGRAMS.contains(word)) {
            for option in words.iter().filter_map(|word| pages::option(word)) {
                if let Some((theirs, _)) = OF_OTHERS.iter().find(|(theirs, _)| *theirs == option) {
                    used.insert((*theirs).to_owned());
                } else if !known.has_option(option) {
                    wrong.push(format!("no program of ours has an option {option}"));
                }
            }
        } else {
            continue;
        }
        wrong.extend(known.check_engines(&words, &EXAMPLES));
    }
    wrong
}
