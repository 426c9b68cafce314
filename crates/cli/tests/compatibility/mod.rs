//! Commands, options, output lines and variables of the programs that this one re-creates, each run
//! by the name of its program. `docs/compatibility.md` is made of the same files.
//!
//! ```text
//!   keybench.txt, masstree.txt, ...  --read--> System {runs, rows}
//!                                                |-- run: every command; every row is looked for
//!                                                |-- page: the tables of docs/compatibility.md
//! ```
//!
//! [`script`] has the shape of the files. `KEYRACK_REWRITE=1` writes the page.

mod script;

use crate::docs::pages;
use crate::support::{Lab, Outcome, Running};
use script::{Row, See, Step, System};
use std::collections::BTreeMap;

/// Files in the order of the page.
const SYSTEMS: [(&str, &str); 6] = [
    ("keybench", include_str!("keybench.txt")),
    ("masstree", include_str!("masstree.txt")),
    ("leveldb", include_str!("leveldb.txt")),
    ("flodb", include_str!("flodb.txt")),
    ("mutilate", include_str!("mutilate.txt")),
    ("deltafs", include_str!("deltafs.txt")),
];

/// Names that the binary is called by.
const PROGRAMS: [&str; 13] = [
    "keyrack",
    "keybench",
    "plot.py",
    "mttest",
    "mtd",
    "mtclient",
    "db_test",
    "db_bench",
    "mutilate",
    "deltafs_bm_svr",
    "deltafs_bm_srv",
    "deltafs_bm_cli",
    "parallel_compactor",
];

const PAGE: &str = "docs/compatibility.md";

const HEAD: &str = "\
# Compatibility

Every command, option, output line and environment variable of the five systems, and what becomes of
it when the binary is called through a link by the name of the program. A test runs each command on
this page and looks for each row in what it prints; another makes the page of the same files
(`crates/cli/tests/compatibility`).

* **same**: a script that uses it needs no change.
* **more**: as before, with something besides.
* **differs**: the reason is in the row.

Of a line, `*` stands for any text, and blanks count as one. An option that no program knows is
refused by all of them, so a row without an output line says that the option is taken.

";

#[test]
fn the_page_of_compatibility_has_every_row() {
    let mut page = HEAD.to_owned();
    SYSTEMS.iter().for_each(|(name, text)| page += &System::read(name, text).page());
    let page = page.trim_end().to_owned() + "\n";
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        std::fs::write(pages::root().join(PAGE), &page).unwrap();
    }
    let found = pages::read(PAGE);
    let line = found.lines().zip(page.lines()).position(|(a, b)| a != b);
    assert!(found == page, "{PAGE} differs from line {line:?} on; KEYRACK_REWRITE=1 writes it");
}

#[test]
fn keybench_does_what_the_page_says() {
    run(0);
}

#[test]
fn masstree_does_what_the_page_says() {
    run(1);
}

#[test]
fn leveldb_does_what_the_page_says() {
    run(2);
}

#[test]
fn flodb_does_what_the_page_says() {
    run(3);
}

#[test]
fn mutilate_does_what_the_page_says() {
    run(4);
}

#[test]
fn deltafs_does_what_the_page_says() {
    run(5);
}

/// Rows that are not as the page says would otherwise pass where nothing is looked for.
#[test]
fn no_program_takes_an_option_that_it_does_not_know() {
    let lab = Lab::new();
    for program in &PROGRAMS[1..] {
        let out = lab.called(program, "--no-such-option=1");
        assert!(out.status != 0, "{}", out.told());
        let said = out.stdout.clone() + &out.stderr;
        assert!(said.contains("no-such-option"), "{}", out.told());
    }
}

fn run(index: usize) {
    let (name, text) = SYSTEMS[index];
    let system = System::read(name, text);
    let mut bench = Bench::new();
    let mut wrong = Vec::new();
    for step in &system.steps {
        bench.take(step, &mut wrong);
    }
    assert!(bench.servers.is_empty(), "{name}: a server is never stopped");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A directory in which commands run one after the other.
struct Bench {
    lab: Lab,
    servers: BTreeMap<String, Running>,
    addresses: Vec<(String, String)>,
    /// The last command and what it did.
    last: Option<(String, Outcome)>,
}

impl Bench {
    fn new() -> Bench {
        let lab = Lab::with("one.lua", crate::support::ONE_GET);
        Bench { lab, servers: BTreeMap::new(), addresses: Vec::new(), last: None }
    }

    fn take(&mut self, step: &Step, wrong: &mut Vec<String>) {
        match step {
            Step::Text(_) => {}
            Step::File { name, text } => _ = self.lab.write(name, text),
            Step::Dir(name) => _ = self.lab.make_dir(name),
            Step::Run { line, status } => {
                let (env, words) = self.words(line);
                let out = self.lab.start_with(&words[0], &env, &words[1..]).finish();
                if out.status != *status {
                    wrong.push(format!("wanted status {status}\n{}", out.told()));
                }
                self.last = Some((line.clone(), out));
            }
            Step::Start { name, line } => {
                let (env, words) = self.words(line);
                let mut child = self.lab.start_with(&words[0], &env, &words[1..]);
                let found = child.reads(|line| address(line).is_some());
                assert!(found, "$ {line}\nlistens nowhere:\n{}", child.seen());
                let place = child.seen().lines().find_map(address).expect("just seen").to_owned();
                // That of an earlier server of the name is over.
                self.addresses.retain(|(known, _)| known != name);
                self.addresses.push((name.clone(), place));
                self.servers.insert(name.clone(), child);
            }
            Step::Stop(name) => {
                let child = self.servers.remove(name).expect("a server of that name");
                child.signal("INT");
                self.last = Some((format!("stop {name}"), child.finish().exits(0)));
            }
            Step::Row(row) => self.check(row, wrong),
        }
    }

    /// Variables and words of a line, with programs as links and servers as addresses.
    fn words(&self, line: &str) -> (Vec<(String, String)>, Vec<String>) {
        let mut line = line.to_owned();
        for (name, place) in &self.addresses {
            let port = place.rsplit(':').next().expect("at least one part");
            line = line.replace(&format!("{{{name}.port}}"), port);
            line = line.replace(&format!("{{{name}}}"), place);
        }
        let (mut env, mut words) = (Vec::new(), Vec::new());
        for word in line.split_whitespace() {
            match word.split_once('=').filter(|_| words.is_empty()) {
                Some((name, value)) => env.push((name.to_owned(), value.to_owned())),
                None if PROGRAMS.contains(&word.trim_start_matches("./")) => {
                    let link = self.lab.link(word.trim_start_matches("./"));
                    words.push(link.to_str().expect("a path of the test").to_owned());
                }
                None => words.push(word.to_owned()),
            }
        }
        (env, words)
    }

    fn check(&self, row: &Row, wrong: &mut Vec<String>) {
        let (line, out) = self.last.as_ref().expect("a command above the row");
        let is_there = match &row.see {
            See::Taken => line.split_whitespace().any(|word| row.is_named_by(word)),
            See::Out(pattern) => out.stdout.split(['\n', '\r']).any(|line| matches(pattern, line)),
            See::Err(pattern) => out.stderr.split(['\n', '\r']).any(|line| matches(pattern, line)),
            See::File(name, pattern) => {
                self.lab.read(name).lines().any(|line| matches(pattern, line))
            }
        };
        if !is_there {
            wrong.push(format!("no row: {:?} {:?}\n{}", row.item, row.see, out.told()));
        }
    }
}

/// What a line says that the server listens on, without a scheme.
fn address(line: &str) -> Option<&str> {
    let (_, place) = line.split_once("listening on ")?;
    let place = place.split_once("://").map_or(place, |(_, place)| place);
    place.split_whitespace().next()
}

/// Whether the line has the parts of the pattern between `*`, in order, the first at its start and
/// the last at its end; blanks count as one.
fn matches(pattern: &str, line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ");
    let parts: Vec<&str> = pattern.split('*').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return line == pattern };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[test]
fn a_pattern_is_the_whole_line() {
    assert!(matches("a * c", "a  b   c") && matches("*b*", "abc") && matches("a", " a "));
    assert!(!matches("a * c", "a b c d") && !matches("b", "abc") && !matches("a * b * c", "a c"));
}
