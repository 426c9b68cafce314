//! Settings, notebooks, captured machines and the texts of workloads that somebody made up: each is
//! refused with one line that names its place, or read.

use keyrack_record::Run;
use keyrack_testkit::fuzz::{Fuzzer, Shape, shape};
use keyrack_workload::{Arrivals, Distribution, KeyDistribution, KeyFormat, SizeDistribution};

use crate::config::Config;
use crate::probe::CapturedHost;
use crate::sink::{Notebook, SinkSpec};

/// Which reader an input goes to is its first byte.
const CONFIG: u8 = 0;
const TOML: u8 = 1;
const NOTEBOOK: u8 = 2;
const RECORD: u8 = 3;
const MACHINE: u8 = 4;
const WORKLOAD: u8 = 5;

fn headed(kind: u8, text: &str) -> Vec<u8> {
    [&[kind], text.as_bytes()].concat()
}

/// The letters of a complaint, without what it quotes; it must be one line.
fn words(complaint: &str) -> String {
    assert!(complaint.lines().count() <= 1, "one line: {complaint}");
    complaint.chars().filter(|c| c.is_ascii_alphabetic() || *c == ' ').take(40).collect()
}

fn check_config(read: Result<Config, (usize, String)>, text: &str) -> Shape {
    match read {
        Ok(config) => shape(format!("{config:?}").matches("Entry").count().min(20)),
        Err((line, _)) => {
            // What is missing at the end is missed behind the last line.
            let lines = text.split('\n').count();
            assert!(line <= lines, "line {line} of {lines}");
            shape((CONFIG, line.min(9)))
        }
    }
}

fn check_workload(text: &str) -> Shape {
    let complaints = [
        KeyDistribution::parse(text).err().map(|error| error.to_string()),
        SizeDistribution::parse(text).err().map(|error| error.to_string()),
        KeyFormat::parse(text).err().map(|error| error.to_string()),
        Arrivals::parse(text).err().map(|error| error.to_string()),
        Distribution::parse(text).err().map(|error| error.to_string()),
        keyrack_store::parse_size(text).err(),
        SinkSpec::parse(text).err().map(|error| error.to_string()),
    ];
    shape(complaints.map(|complaint| {
        complaint.map(|text| {
            let letters = text.chars().filter(|c| c.is_ascii_alphabetic());
            letters.take(20).collect::<String>()
        })
    }))
}

#[test]
fn texts_that_were_made_up_are_refused_or_read() {
    let ini =
        "# a comment\n[bench]\nbackend = flodb\nvalue.json = \"a\\n\"\n[workload:a]\nmix = get:1\n";
    let toml = "[bench]\nworkload = [\"a\", \"b\"]\nthreads = 4\n[workload.a]\nmix = { get = 1 }\n";
    let notebook = "{\"experiments\":{\"x1\":{\"runs\":[\"x1/0\"],\"cores\":2}},\
                    \"data\":{\"x1/0\":[1,2.5,-3]}}";
    let record = "{\"schema\":1,\"points\":[{\"repeats\":[{\"seconds\":1.5}]}]}";
    let machine = "@file /proc/cpuinfo\nprocessor : 0\n@cpus 2\n";
    let mut fuzzer = Fuzzer::new("harness.texts", env!("CARGO_MANIFEST_DIR"), 8_000)
        .words(&[b"[", b"]", b" = ", b"\n", b"{", b"}", b"\"", b":", b",", b"1e308", b"-0", b"\\u"])
        .sample(headed(CONFIG, ini))
        .sample(headed(TOML, toml))
        .sample(headed(NOTEBOOK, notebook))
        .sample(headed(RECORD, record))
        .sample(headed(MACHINE, machine));
    for text in
        ["zipfian:0.99", "normal:100,10", "user%d08", "poisson", "fb_ia", "64kib", "json,tsv:x"]
    {
        fuzzer = fuzzer.sample(headed(WORKLOAD, text));
    }
    fuzzer.run(|input, _| {
        let Some((kind, bytes)) = input.split_first() else { return 0 };
        let text = String::from_utf8_lossy(bytes);
        match kind % 6 {
            CONFIG => check_config(Config::parse(&text), &text),
            TOML => check_config(crate::config_toml::parse(&text), &text),
            NOTEBOOK => match Notebook::parse(&text) {
                Ok(notebook) => {
                    let written = notebook.text();
                    let again = Notebook::parse(&written).expect("what was read can be written");
                    assert_eq!(again.text(), written);
                    shape((NOTEBOOK, written.len() / 16))
                }
                Err(error) => shape(words(&error.to_string())),
            },
            RECORD => match Run::from_json(&text) {
                Ok(_) => 1,
                Err(error) => shape(words(&error.to_string())),
            },
            MACHINE => match CapturedHost::parse(&text) {
                Ok(_) => shape((MACHINE, text.len() / 16)),
                Err(line) => {
                    assert!(line > 0 && line <= text.lines().count());
                    shape((MACHINE, line.min(9), false))
                }
            },
            _ => check_workload(&text),
        }
    });
}
