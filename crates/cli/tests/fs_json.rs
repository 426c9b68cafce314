//! `--json` of the benchmark and of jobs: every number that is printed is in the document, and how
//! it ended. Creates that are sent behind, with what fails of them.

use crate::support::{Lab, Outcome, parse_json};
use serde_json::Value;

/// Numbers in a text, as they stand there.
fn numbers(text: &str) -> Vec<&str> {
    let all = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    all.map(|word| word.trim_matches('.')).filter(|word| !word.is_empty()).collect()
}

/// All numbers of a document, and those in its texts and names.
fn collect(value: &Value, found: &mut Vec<f64>, texts: &mut Vec<String>) {
    let mut text = |text: &str| texts.extend(numbers(text).into_iter().map(str::to_owned));
    match value {
        Value::Number(number) => found.push(number.as_f64().unwrap()),
        Value::String(string) => text(string),
        Value::Array(list) => list.iter().for_each(|value| collect(value, found, texts)),
        Value::Object(object) => {
            object.keys().for_each(|key| text(key));
            object.values().for_each(|value| collect(value, found, texts));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Numbers of a text that a document does not have. There units are nanoseconds and bytes.
fn missing<'t>(text: &'t str, document: &Value) -> Vec<&'t str> {
    let (mut found, mut texts) = (Vec::new(), Vec::new());
    collect(document, &mut found, &mut texts);
    let has = |number: &&str| {
        let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let is = |value: f64| format!("{value:.decimals$}") == **number;
        let of = |value: &f64| {
            let scaled = [1.0, 1e3, 1024.0, 1_048_576.0].map(|unit| value / unit);
            scaled.iter().any(|value| is(*value) || is(value.floor()))
        };
        texts.iter().any(|text| text == number) || found.iter().any(of)
    };
    numbers(text).into_iter().filter(|number| !has(number)).collect()
}

#[track_caller]
fn complete(lab: &Lab, out: &Outcome, file: &str, program: &str, status: u8) -> Value {
    let document = parse_json(&lab.read(file));
    assert_eq!(missing(&out.stdout, &document), Vec::<&str>::new(), "{document:#}\n{}", out.told());
    assert_eq!(
        (&document["document"], &document["version"]),
        (&"keyrack.fs.job".into(), &1.into())
    );
    assert_eq!((&document["program"], &document["status"]), (&program.into(), &status.into()));
    document
}

#[test]
fn every_number_of_a_job_is_in_its_document() {
    let lab = Lab::new();
    let keyrack = lab.link("keyrack").display().to_string();
    let out = lab
        .run(&format!(
            "fs launch -n 2 --json launch.json -- {keyrack} fs clients --db src --n 50 --shared \
             --json clients.json"
        ))
        .exits(0);
    let document = complete(&lab, &out, "clients.json", "clients", 0);
    assert_eq!(document["header"]["Num ranks"], 2);
    assert!(document["durability"].as_str().unwrap().starts_with("os"));
    let phases = document["phases"].as_array().unwrap();
    assert_eq!(
        (phases.len(), &phases[0]["name"], &phases[0]["ops"]),
        (2, &"insert".into(), &100.into())
    );
    for field in ["us_per_op", "mops", "seconds", "cpu_us_per_op", "cpu_seconds"] {
        assert!(phases[0][field].is_f64(), "{field}");
    }
    assert!(phases[1]["latency_ns"]["p99.9"].is_u64());
    assert!(document["store"]["bytes_written"].as_u64().unwrap() > 0);
    // What is not there would be found to be missing.
    let mut less = document.clone();
    less["phases"] = Value::Null;
    assert!(missing(&out.stdout, &less).len() > 5);
    let launch = parse_json(&lab.read("launch.json"));
    assert_eq!((&launch["status"], &launch["ranks"]), (&0.into(), &2.into()));
    assert_eq!(launch["command"][0], Value::from(keyrack.as_str()));

    let out = lab.run("fs merge --from src --to dst --parts 3 --json merge.json").exits(0);
    let document = complete(&lab, &out, "merge.json", "merge", 0);
    let records = &document["records"];
    assert!(records["read"].as_u64() > records["written"].as_u64(), "{records}");
    assert!(document["bytes_written"].as_u64().unwrap() > 0);

    // The original's name, with a line for each rank.
    let client = lab.link("deltafs_bm_cli");
    let words = ["--fs_use_local=1", "--db=own", "--n=20", "--step_interval=0", "--json=own.json"];
    let words = [&words[..], &["--print_per_rank_stats=1"]].concat();
    let out = lab.tool(&client, &words).exits(0);
    let document = complete(&lab, &out, "own.json", "clients", 0);
    assert_eq!(document["phases"][0]["ranks"][0]["ops"], 20);

    let line = "fs bench --db b --n 20 --ranks 2 --step_interval 0 --list_phases 1 --json b.json";
    let out = lab.run(line).exits(0);
    let document = complete(&lab, &out, "b.json", "bench", 0);
    assert_eq!(document["header"]["Num ranks"], 2);
    let line = "fs bench --db md --n 5 --mdtest --json md.json";
    let out = lab.run(line).exits(0);
    complete(&lab, &out, "md.json", "bench", 0);
}

#[test]
fn a_job_that_fails_has_its_errors_in_its_document() {
    let lab = Lab::new();
    let status = |file: &str| parse_json(&lab.read(file));
    lab.run("fs clients --db none --existing --n 5 --json c.json").exits(1);
    let document = status("c.json");
    assert_eq!(document["status"], 1);
    assert!(document["errors"][0].as_str().unwrap().contains("none"), "{document}");
    lab.run("fs launch -n 2 --json l.json -- false").exits(1);
    let document = status("l.json");
    let error = document["errors"][0].as_str().unwrap();
    assert!(error.contains("the job is over") && document["failed_rank"].is_u64(), "{document}");
    lab.run("fs merge --from none --to x --json nowhere/m.json").exits(1);
    lab.run("fs clients --db d --n 5 --json nowhere/c.json").exits(1).warns("--json");
    lab.run("fs bench --db b --n 5 --json nowhere/b.json").refuses(&["--json"]);
    lab.run("fs bench --db b --n 5 --step_interval 0").exits(0);
    lab.run("fs bench --db b --n 5 --json b.json").exits(2);
    let document = status("b.json");
    assert!(document["errors"][0].as_str().unwrap().contains("a log already"), "{document}");
}

/// Both settings against one server; then names that are there already, told at the end by path.
#[test]
fn creates_behind_are_a_setting_and_their_failures_are_told_at_the_end() {
    let lab = Lab::new();
    let mut server = lab.start("fs serve --db s --port 0 --json s.json");
    server.wait_for("listening on ");
    let line = server.seen().lines().last().unwrap().to_owned();
    let address = line.rsplit(' ').next().unwrap().trim().to_owned();
    let clients =
        |more: &str| lab.run(&format!("fs clients --server {address} --n 40 --json c.json {more}"));
    let document = |out: &Outcome, status| complete(&lab, out, "c.json", "clients", status);
    let out = clients("--create-behind 16").exits(0);
    assert_eq!(document(&out, 0)["header"]["Creats behind"], "16 (sent together)");
    assert_eq!(document(&out, 0)["phases"][0]["ops"], 40);
    let together = parse_json(&lab.read("s.json"));
    assert_eq!(together["status"], Value::Null, "it still runs");
    // The names are there: without, the first create fails; with, the end of the phase does.
    clients("--create-behind off").exits(1).warns("it exists already");
    clients("--create-behind on").exits(1).warns("earlier creates failed: /++++++++++++/");
    let out = clients("--create-behind on --keep-going").exits(1).warns("40 failed: earlier");
    let document = document(&out, 1);
    let phases = &document["phases"];
    assert_eq!((&phases[0]["ops"], &phases[0]["failed"]), (&0.into(), &40.into()));
    assert_eq!(phases[1]["ops"], 40, "the files are there");
    assert!(document["errors"][0].as_str().unwrap().contains("EEXIST, and 37 more"), "{document}");
    for wrong in ["0", "maybe"] {
        clients(&format!("--create-behind {wrong}")).refuses(&["--create-behind", "on, off"]);
    }
    server.signal("INT");
    let served = server.finish();
    let document = complete(&lab, &served, "s.json", "serve", 0);
    assert!(document["calls"].as_u64().unwrap() > 0 && document["store"].is_object());
    assert_eq!(document["listening"], Value::from(address));
}

/// A server for the time of a job: it goes when nobody calls any more.
#[test]
fn a_read_server_ends_by_itself_when_nobody_calls() {
    let lab = Lab::new();
    lab.run("fs clients --db src --n 30").exits(0);
    let served = lab.run("fs serve --db src --read-only --idle 1 --port 0 --json s.json").exits(0);
    assert!(served.stdout.ends_with("Bye\n"), "{}", served.told());
    complete(&lab, &served, "s.json", "serve", 0);
    let keyrack = lab.link("keyrack").display().to_string();
    lab.run(&format!("fs launch -n 2 -- {keyrack} fs serve --db s --port 0 --idle 1"))
        .exits(1)
        .warns("--idle: of several servers");
    lab.run("fs serve --db s --idle 0").refuses(&["--idle"]);
}

/// Servers of several ranks: what the whole did, and what each did.
#[test]
fn numbers_of_all_servers_are_told_and_not_those_of_the_first_alone() {
    let lab = Lab::new();
    let keyrack = lab.link("keyrack").display().to_string();
    let line = format!("fs launch -n 3 -- {keyrack} fs serve --db s --port 0 --json s.json");
    let mut server = lab.start(&line);
    server.wait_for("listening on ");
    let line = server.seen().lines().last().unwrap().to_owned();
    let address = line.rsplit(' ').next().unwrap().trim().to_owned();
    // Directories of their own: their files are at several servers.
    let clients = format!("fs launch -n 4 -- {keyrack} fs clients --server {address} --n 100");
    lab.run(&clients).exits(0);
    server.signal("TERM");
    let served = server.finish();
    let document = complete(&lab, &served, "s.json", "serve", 0);
    let ranks = document["ranks"].as_array().unwrap();
    assert_eq!(ranks.len(), 3, "{document}");
    let calls: Vec<u64> = ranks.iter().map(|rank| rank["calls"].as_u64().unwrap()).collect();
    assert!(calls.iter().all(|calls| *calls > 0), "{calls:?}");
    assert_eq!(document["calls"].as_u64().unwrap(), calls.iter().sum::<u64>());
    assert!(calls.iter().sum::<u64>() >= 800, "a create and a stat of 400 files: {calls:?}");
    let written = |of: &Value| of["store"]["bytes_written"].as_u64().unwrap();
    assert!(written(&document) > 0 && ranks.iter().all(|rank| written(rank) > 0), "{document}");
    assert_eq!(written(&document), ranks.iter().map(written).sum::<u64>());
    for (rank, calls) in calls.iter().enumerate() {
        let line = format!("\nRank {rank}: {calls} calls, CPU ");
        assert!(served.stdout.contains(&line), "{}", served.told());
    }
}

/// Nobody waits for the numbers of a server that is gone.
#[test]
fn a_server_that_was_killed_has_no_numbers_and_the_others_have_theirs() {
    let lab = Lab::new();
    let keyrack = lab.link("keyrack");
    let script = format!(
        "echo $$ > pid.$PMI_RANK; exec {} fs serve --db s --port 0 --json s.json",
        keyrack.display()
    );
    let words = ["fs", "launch", "-n", "2", "--", "sh", "-c", &script];
    let mut server = lab.start_tool(&keyrack, &words);
    server.wait_for("listening on ");
    let pid = lab.read("pid.1").trim().to_owned();
    lab.tool("kill".as_ref(), &["-KILL", &pid]).exits(0);
    let served = server.finish().exits(1);
    let document = parse_json(&lab.read("s.json"));
    assert!(document["calls"].is_u64(), "{document} {}", served.told());
    let why = document["ranks"][1]["error"].as_str().unwrap();
    assert!(why.starts_with("rank 1 is gone: "), "{why}");
    served.says("\nRank 1: no numbers: rank 1 is gone: ");
}
