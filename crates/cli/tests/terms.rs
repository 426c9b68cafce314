//! Equal terms: `[common]` in every engine's own words, optional engines, engines from libraries,
//! and the samples that list and use all of it.

use crate::support::{Lab, points};
use serde_json::Value;

const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples");

/// Where `samples/engines.toml` comes to engines that are no default.
const OTHER_BUILDS: &str =
    "\n# Engines of other builds: `keyrack bench --list` says how to get them.\n";

/// The lines of the engines in `--list`.
fn listed(lab: &Lab) -> Vec<String> {
    let text = lab.run("bench --list").exits(0).stdout;
    let lines = text.lines().skip(1).take_while(|line| line.starts_with("  "));
    lines.map(str::to_owned).collect()
}

fn names(lines: &[String]) -> Vec<String> {
    let engines = lines.iter().filter(|line| !line.starts_with("    "));
    engines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Whether a library is missing, said where it is.
fn lacks(test: &str, told: &str, engine: &str) -> bool {
    let missing = told.contains(&format!("backend '{engine}': no lib"));
    if missing {
        assert!(std::env::var_os("CI").is_none(), "{engine} is not here: {told}");
        println!("SKIPPED {test} of {engine}: its library is not on this machine");
    }
    missing
}

/// The line of an engine in the probe `common`.
fn terms<'r>(run: &'r Value, engine: &str) -> Option<&'r str> {
    let probes = run["probes"].as_array().unwrap();
    let common = probes.iter().find(|probe| probe["name"] == "common").unwrap();
    let fields = common["fields"].as_array().unwrap();
    fields.iter().find(|field| field[0] == engine)?[1].as_str()
}

#[test]
fn every_engine_gets_the_common_settings_in_its_own_terms() {
    let lab = Lab::with_dir("data");
    let mut names = names(&listed(&lab));
    // Its keys have eight bytes, those of YCSB more.
    names.retain(|name| name != "congee");
    let backend: Vec<String> = names.iter().map(|name| format!("\"{name}?\"")).collect();
    let config = format!(
        "[bench]\nbackend = [{}]\nops = 20\nitems = 20\nworkload = [\"ycsb/a\"]\n\
         report = \"json:r.json\"\nprobe = \"none\"\n[common]\nmemory_bytes = \"1M\"\n\
         cache_bytes = \"2M\"\ncompression = \"snappy\"\nfilter_bits = 7\ndurability = \"os\"\n\
         [lmdb]\nmap_bytes = \"1G\"\n",
        backend.join(", ")
    );
    lab.write("c.toml", config);
    let out = lab.run("bench --config c.toml --data-dir data").exits(0);
    let run = lab.json("r.json");
    let all = "memory_bytes=1M cache_bytes=2M compression=snappy filter_bits=7 durability=os";
    let table = [
        ("skiplist", "durability=none no memory_bytes, cache_bytes, compression, filter_bits"),
        ("btree", "durability=none no memory_bytes, cache_bytes, compression, filter_bits"),
        ("arctic", "durability=none no memory_bytes, cache_bytes, compression, filter_bits"),
        ("scc", "durability=none no memory_bytes, cache_bytes, compression, filter_bits"),
        ("masstree", "durability=none no memory_bytes, cache_bytes, compression, filter_bits"),
        ("rowstore", "durability=os no memory_bytes, cache_bytes, compression, filter_bits"),
        ("lmdb", "durability=os no memory_bytes, cache_bytes, compression, filter_bits"),
        ("sqlite", "cache_bytes=2M durability=os no memory_bytes, compression, filter_bits"),
        ("redb", "cache_bytes=2M durability=sync no memory_bytes, compression, filter_bits"),
        ("flodb", all),
        ("rocksdb", all),
        ("leveldb", all),
        (
            "fjall",
            "memory_bytes=1M cache_bytes=2M compression=none,none,lz4 (its default) filter_bits=7 \
             durability=os",
        ),
    ];
    for name in &names {
        if lacks("equal terms", &out.stderr, name) {
            continue;
        }
        let Some((_, wanted)) = table.iter().find(|(engine, _)| engine == name) else {
            // It holds nothing, and is in no comparison.
            assert_eq!((name.as_str(), terms(&run, name)), ("null", None));
            continue;
        };
        assert_eq!(terms(&run, name), Some(*wanted), "{name}");
        assert!(out.stderr.contains(&format!("{name}: {wanted}")), "{}", out.told());
        let point = points(&run).iter().find(|point| point["cell"]["engine"] == **name).unwrap();
        let durability = point["durability"].as_str().unwrap();
        assert!(wanted.contains(&format!("durability={durability}")), "{name}: {durability}");
        // Whatever departs from the section stands at the result, and only there.
        let notes = point["notes"].to_string();
        let lacking = wanted.contains(" no ");
        assert_eq!(notes.contains("has no equivalent"), lacking, "{name}: {notes}");
        assert_eq!(
            notes.contains("does not take it: compression: 'snappy'")
                || notes.contains("'snappy' is not one of"),
            name == "fjall",
            "{name}: {notes}"
        );
        assert_eq!(notes.contains("does not have it, and runs at"), durability != "os", "{notes}");
        assert!(!notes.contains(": null "), "{notes}");
    }
    lab.write("bad.toml", "[common]\ncache_byte = 1\n");
    lab.run("bench --config bad.toml").refuses(&["bad.toml:2:", "did you mean 'cache_bytes'?"]);
    lab.write("bad.toml", "[bench]\nops = 1\n[common]\ndurability = \"fsync\"\n");
    lab.run("bench --config bad.toml").refuses(&["bad.toml:4:", "[common] durability", "fsync"]);
}

/// A section wins over `[common]` and a flag over both; a durability may stand in any section.
#[test]
fn sections_and_flags_win_over_the_common_settings() {
    let lab = Lab::with_dir("data");
    lab.write(
        "c.cnf",
        "backend = flodb,redb\nops = 5\nitems = 5\nworkload = ycsb/a\nreport = json:r.json\n\
         [common]\ncache_bytes = 2M\ndurability = os\n[flodb]\ncache_bytes = 3M\n[redb]\n\
         durability = none\n",
    );
    lab.run("bench --config c.cnf --data-dir data").exits(0);
    let run = lab.json("r.json");
    assert!(terms(&run, "flodb").unwrap().contains("cache_bytes=3M"), "{run}");
    assert!(terms(&run, "redb").unwrap().contains("cache_bytes=2M durability=none"), "{run}");
    let durabilities: Vec<&Value> = points(&run).iter().map(|point| &point["durability"]).collect();
    assert_eq!(durabilities, ["os", "none"]);
    let out = lab.run("bench --config c.cnf --data-dir data --durability sync");
    out.refuses(&["[redb] durability", "none", "sync"]);
    lab.run("bench --config c.cnf --data-dir data --backend flodb --durability none").exits(0);
    assert!(terms(&lab.json("r.json"), "flodb").unwrap().contains("durability=none"));
}

/// One number for the memory of a store, by itself or beside the sizes that it had before.
#[test]
fn flodb_is_given_a_memory_budget() {
    let lab = Lab::with_dir("data");
    let line = "bench --config c.toml --data-dir data --backend flodb --ops 50 --items 200 \
                --probe none ycsb/a";
    let with = |section: &str| {
        lab.write("c.toml", format!("[flodb]\n{section}\n"));
        lab.run(line)
    };
    with("memory_budget = \"16M\"").exits(0).says("engine=flodb");
    with("memory_budget = \"auto\"").exits(0);
    with("memory_budget = \"32M\"\nmemory_bytes = \"1M\"\ncache_bytes = \"8M\"").exits(0);
    with("memory_budget = \"1M\"").refuses(&["memory_budget", "at least 8388608", "1048576"]);
    with("memory_budget = \"lots\"").refuses(&["memory_budget", "'lots' is not a size"]);
    with("memory_budget = \"16M\"\ncache_bytes = \"32M\"").refuses(&[
        "memory_budget",
        "a cache of 33554432 bytes",
        "give at least",
    ]);
    with("memory_budgets = \"16M\"").refuses(&["did you mean 'memory_budget'?"]);
    // The section of all engines has what all of them have.
    lab.write("c.toml", "[common]\nmemory_budget = \"16M\"\n");
    lab.run(line).refuses(&["c.toml:2:", "memory_budget"]);
}

/// With a question mark an engine may be missing; without, its absence is refused with the remedy.
#[test]
fn an_engine_whose_library_is_missing_can_be_left_out() {
    let lab = Lab::with_dir("data");
    let line = "bench --ops 5 --items 5 --data-dir data --rocksdb-lib /no/such/lib.so ycsb/a";
    lab.run(&format!("{line} --backend rocksdb")).refuses(&[
        "backend 'rocksdb'",
        "/no/such/lib.so",
        "cannot open",
    ]);
    let out = lab.run(&format!("{line} --backend rocksdb?,btree --probe none")).exits(0);
    let out = out.warns("left out: backend 'rocksdb'").says("engine=btree");
    assert!(!out.stdout.contains("engine=rocksdb"), "{}", out.told());
    lab.run(&format!("{line} --backend rocksdb?")).refuses(&["every backend was left out"]);
    lab.run("bench --backend rucksdb? ycsb/a").refuses(&["did you mean 'rocksdb'?"]);
}

/// Every report of a library with assertions says so: console, TSV and JSON.
#[test]
fn a_library_with_assertions_warns_in_every_report() {
    let lab = Lab::with_dir("data");
    for engine in ["rocksdb", "leveldb"] {
        let line = format!(
            "bench --ops 5 --items 5 --data-dir data --backend {engine}?,btree --probe none \
             --report console,tsv:r.tsv,json:r.json ycsb/a"
        );
        let out = lab.run(&line).exits(0);
        if lacks("assertions", &out.stderr, engine) {
            continue;
        }
        let run = lab.json("r.json");
        let notes = points(&run)[0]["notes"].to_string();
        if !notes.contains("assertions") {
            println!("SKIPPED assertions of {engine}: this machine's library has none");
            continue;
        }
        for (place, text) in
            [("console", &out.stdout), ("stderr", &out.stderr), ("tsv", &lab.read("r.tsv"))]
        {
            assert!(text.contains("was built with assertions"), "{place}: {text}");
        }
        assert!(run["header"]["warnings"].to_string().contains("assertions"), "{run}");
        assert!(!points(&run)[1]["notes"].to_string().contains("assertions"), "btree has none");
    }
}

/// The one command of the sample, small: all of its engines on all of its workloads.
#[test]
fn the_shootout_runs_by_one_command() {
    let lab = Lab::with_dir("data");
    let line = format!(
        "bench --config {SAMPLES}/embedded-shootout.toml --data-dir data --report-dir R --ops 10 \
         --items 30 --users 5 --warmup 0 --repeat 1"
    );
    let out = lab.run(&line).exits(0);
    let dir = crate::support::only_report(&lab, "R");
    let run = lab.json(&format!("{dir}/run.json"));
    let engines = if lacks("the shootout", &out.stderr, "rocksdb") { 7 } else { 8 };
    assert_eq!(points(&run).len(), engines * 8, "{}", out.told());
    // Its replay file settles the same terms again.
    lab.run(&format!("bench --config {dir}/replay.cnf --ops 1 --report-dir again")).exits(0);
    let again = lab.json(&format!("{}/run.json", crate::support::only_report(&lab, "again")));
    for engine in ["flodb", "redb", "masstree"] {
        assert_eq!(terms(&run, engine), terms(&again, engine), "{engine}");
    }
}

/// Engines that are no default, in the order of the sample.
const OPTIONAL: [&str; 2] = ["sqlite", "tidesdb"];

/// The section of an engine that is marked whole, with the blank line and what it says above it.
fn section<'a>(sample: &'a str, name: &str) -> &'a str {
    let Some(title) = sample.find(&format!("\n# [{name}]\n")) else { return "" };
    let start = sample[..title].rfind("\n\n").map_or(0, |at| at + 1);
    let length = sample[title..].find("\n\n").map_or(sample.len() - title, |at| at + 1);
    &sample[start..title + length]
}

/// `samples/engines.toml` is what `--list` says. `KEYRACK_REWRITE=1` writes it anew.
#[test]
fn the_sample_lists_every_option_of_every_engine_with_its_default() {
    let lab = Lab::new();
    let text = String::from(
        "# Every option of every engine beside its default, as `keyrack bench --list` tells them.\n\
         # A section goes into the file of `keyrack bench --config`, without the marks of what is\n\
         # to be set. What all engines have under one name can stand in [common] once.\n\n\
         [common]\n# memory_bytes = \"64M\"\n# cache_bytes = \"64M\"\n\
         # compression = [\"none\", \"none\", \"lz4\"]\n# filter_bits = 10\n\
         # durability = \"os\"\n",
    );
    // Sections of engines that only some builds have are marked whole, at the end.
    let mut others: Vec<(String, String)> = Vec::new();
    let mut ours = text.clone();
    let mut into = &mut ours;
    for line in listed(&lab) {
        let Some(option) = line.strip_prefix("    ") else {
            let (name, about) = line.trim_start().split_once(' ').unwrap();
            let is_optional = OPTIONAL.contains(&name) || name == "rocksdb-bundled";
            into = if is_optional {
                others.push((name.to_owned(), String::new()));
                &mut others.last_mut().unwrap().1
            } else {
                &mut ours
            };
            let mark = if is_optional { "# " } else { "" };
            *into += &format!("\n# {}\n{mark}[{name}]\n", about.trim());
            continue;
        };
        let (key, rest) = option.split_once(' ').unwrap();
        let (about, default) = rest.trim().rsplit_once(" [default: ").unwrap();
        let default = default.trim_end_matches(']');
        *into += &match key {
            "*" => format!("# {about}.\n"),
            _ if default == "none" && about.contains("path") => {
                format!("# {about}\n# {key} = \"\"\n")
            }
            _ => format!("# {about}\n# {key} = \"{default}\"\n"),
        };
    }
    let path = format!("{SAMPLES}/engines.toml");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let default_text = ours.clone();
    let mut text = ours + OTHER_BUILDS;
    // A build without one cannot tell; RocksDB's options are those of the loaded one.
    for name in OPTIONAL {
        let own = others.iter().find(|(other, _)| other == name);
        text += own.map_or_else(|| section(&before, name), |(_, section)| section);
    }
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, text, "samples/engines.toml is stale: run this test with KEYRACK_REWRITE=1");
    // As it stands it is a configuration, and with all marks gone, but for comments, too.
    let set: Vec<&str> = default_text
        .lines()
        .filter_map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = \"") && !rest.contains("lib = ") => Some(rest),
            Some(_) => None,
            None => Some(line),
        })
        .collect();
    lab.write("all.toml", set.join("\n"));
    for config in [path.as_str(), "all.toml"] {
        lab.run(&format!("bench --config {config} --backend btree --ops 5 --probe none ycsb/a"))
            .exits(0);
    }
}

/// `samples/rocksdb-options.toml` is every option of RocksDB with the value that it has when
/// nothing is set, as the library wrote them down for a fresh store. Other versions have others.
#[test]
fn the_sample_lists_every_option_of_rocksdb_as_the_library_tells_them() {
    let lab = Lab::new();
    let store = lab.path("store");
    let line = "bench --backend rocksdb?,btree --data-dir . --ops 1 --items 1 --probe none ycsb/a";
    if lacks("RocksDB's options", &lab.run(line).exits(0).stderr, "rocksdb") {
        return;
    }
    let line = line.replace("?,btree --data-dir .", " --store store --report json:r.json");
    lab.run(&line).exits(0);
    let run = lab.json("r.json");
    let version = points(&run)[0]["engine_version"].as_str().unwrap().to_owned();
    let mut names = lab.names("store");
    names.retain(|name| name.starts_with("OPTIONS-"));
    names.sort();
    let found = std::fs::read_to_string(store.join(names.last().unwrap())).unwrap();
    let mut text = format!(
        "# Every option of {version},\n\
         # as that library wrote them down for a store of this engine with nothing set: its\n\
         # defaults, but for those that samples/engines.toml has under our names. A line without\n\
         # its mark goes into a section of a configuration; those of a table into\n\
         # block_based_table_factory = \"{{key=value;key=value}}\".\n\n[rocksdb]\n"
    );
    // The first section is about the file itself.
    let (_, found) = found.split_once("[DBOptions]").unwrap();
    for line in ["[DBOptions]"].into_iter().chain(found.lines()).map(str::trim) {
        let part = line.strip_prefix('[').and_then(|rest| rest.split([' ', ']']).next());
        match (part, line.split_once('=')) {
            (Some(part), _) => text += &format!("\n# {part}\n"),
            (None, Some((key, value))) => {
                // What differs from store to store is no default.
                let is_own = value.contains(store.to_str().unwrap());
                if !is_own && !line.starts_with('#') {
                    text += &format!("# {key} = \"{}\"\n", value.replace('\\', "\\\\"));
                }
            }
            (None, None) => {}
        }
    }
    let path = format!("{SAMPLES}/rocksdb-options.toml");
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let listed = std::fs::read_to_string(&path).unwrap_or_default();
    if !listed.starts_with(&format!("# Every option of {version},")) {
        println!("SKIPPED RocksDB's options: the sample is of another version than {version}");
        return;
    }
    assert!(listed == text, "{path} is stale: run this test with KEYRACK_REWRITE=1");
    for key in ["max_open_files", "write_buffer_size", "block_size"] {
        assert!(text.contains(&format!("\n# {key} = ")), "{key}: {text}");
    }
}
