//! `keyrack load`, and the binary called as `mutilate`, against our own responder.

use crate::support::{Lab, Outcome, Running};

/// A child that ends with its test.
pub(crate) struct Server(Running);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// A responder that says yes to everything, and where it is.
pub(crate) fn responder(lab: &Lab, kind: &str) -> (Server, String) {
    let (running, address) = start(lab, kind);
    (Server(running), address)
}

/// A lab with a responder that goes with it.
pub(crate) fn lab_with_responder(kind: &str) -> (Lab, Server, String) {
    let lab = Lab::new();
    let (server, address) = responder(&lab, kind);
    (lab, server, address)
}

fn start(lab: &Lab, kind: &str) -> (Running, String) {
    let line = format!("load --respond {kind} --listen 127.0.0.1:0");
    let mut running = lab.start(&line);
    running.wait_for("ready");
    let address = running.seen().lines().find_map(|line| line.strip_prefix("listening on "));
    let address = address.unwrap().to_owned();
    (running, address)
}

/// The text with every digit as `9`, runs of them as one, and blanks as one: shapes without
/// figures.
fn shape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '9' } else { c };
        if (c == '9' || c == ' ') && out.ends_with(c) {
            continue;
        }
        out.push(c);
    }
    out
}

#[test]
fn a_closed_loop_prints_its_table() {
    let lab = Lab::new();
    let (server, address) = start(&lab, "null");
    let out = lab.run(&format!("load -s {address} -N 2000 -T 2 -c 2 -d 4 -u 0.1 -r 100")).exits(0);
    let out = out.says("#type       avg     std").says("(2000 / ").says("closed loop");
    let names: Vec<&str> =
        out.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[..4], ["#type", "read", "update", "op_q"], "{}", out.told());
    server.signal("INT");
    server.finish().exits(0).says("requests = 2100");
}

#[test]
fn mutilate_prints_the_table_of_its_readme() {
    let (lab, _server, address) = lab_with_responder("null");
    let out: Outcome = lab.called("mutilate", &format!("-s {address} -t 0.5 -r 100")).exits(0);
    let expected = "\
#type avg min 9st 9th 9th 9th 9th 9th
read 9.9 9.9 9.9 9.9 9.9 9.9 9.9 9.9
update 9.9 9.9 9.9 9.9 9.9 9.9 9.9 9.9
op_q 9.9 9.9 9.9 9.9 9.9 9.9 9.9 9.9

Total QPS = 9.9 (9 / 9.9s)

Misses = 9 (9.9%)

RX 9 bytes : 9.9 MB/s
TX 9 bytes : 9.9 MB/s
";
    assert_eq!(shape(&out.stdout), expected, "{}", out.told());
    let header = "#type       avg     min     1st     5th    10th    90th    95th    99th\n";
    assert!(out.stdout.starts_with(header));
    // Long options may be abbreviated, as gengetopt has it, and may not be given twice.
    lab.called("mutilate", &format!("--serv {address} --quer 10 --noload --blocking")).exits(0);
    lab.called("mutilate", &format!("-s {address} --ti 0.1 --rec=9")).exits(0);
    lab.called("mutilate", &format!("-s {address} -t 1 -t 2")).exits(2);
    lab.called("mutilate", "--version").exits(0).says("mutilate 0.1");
    let only = lab.called("mutilate", &format!("-s {address} --loadonly")).exits(0);
    assert_eq!(only.stdout, "");
    // The verdict comes under this name, too, and --quiet leaves it out.
    let line = format!("-s {address} -N 50 --noload");
    let judged = lab.called("mutilate", &line).exits(0);
    assert!(judged.stderr.contains(" cpu: thread "), "{}", judged.told());
    let quiet = lab.called("mutilate", &format!("{line} --quiet")).exits(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_rate_is_kept_and_files_are_written() {
    let (lab, _server, address) = lab_with_responder("null");
    let files = "--json out.json --csv out.csv --hgrm out.hgrm --save out.save";
    lab.run(&format!("load -s {address} --redis -q 1000 -t 1 -d 8 --verify --noload {files}"))
        .exits(1)
        .says("Errors: corrupt");
    lab.run(&format!("load -s {address} --redis -q 1000 -t 1 -d 8 -i fixed --noload {files}"))
        .exits(0)
        .says("Offered QPS = 1000.0");
    let json = lab.json("out.json");
    assert_eq!(json["loop"], "open");
    assert_eq!(json["counts"]["offered"], 1000);
    assert_eq!(json["counts"]["ops"], 1000);
    assert_eq!(json["classes"]["read"]["response"]["count"], 1000);
    assert_eq!(lab.read("out.save").lines().count(), 1000);
    assert_eq!(lab.read("out.csv").lines().count(), 2);
    assert!(lab.read("out.hgrm").contains("Total count    =         1000"));
    let piped = lab.run(&format!("load -s {address} -N 10 --json -")).exits(0);
    assert_eq!(crate::support::parse_json(&piped.stdout)["counts"]["ops"], 10);
}

#[test]
fn rates_are_scanned_and_searched() {
    let (lab, _server, address) = lab_with_responder("null");
    let base = format!("load -s {address} --noload -t 0.1");
    let scan = lab.run(&format!("{base} --scan 1000:3000:1000 --table std")).exits(0);
    let rows: Vec<&str> = scan.stdout.lines().collect();
    assert_eq!(rows.len(), 4, "{}", scan.told());
    assert!(rows[0].ends_with("99th      QPS   target"));
    for (row, target) in rows[1..].iter().zip(["1000", "2000", "3000"]) {
        assert!(row.starts_with("read ") && row.ends_with(target), "{row}");
    }
    lab.run(&format!("{base} --search p50<30s")).exits(0).says("Search: ").says("Peak QPS  = ");
    lab.run(&format!("{base} --search p50<1ns")).exits(1).says("Search: ");
    lab.run(&format!("{base} -d 4 --until p50:ci<90%")).exits(0).says("Interval: p50 within");
    lab.run(&format!("{base} --repeat 3")).exits(0).says("Median QPS = ");
}

#[test]
fn what_cannot_be_is_one_line() {
    let lab = Lab::new();
    lab.run("load").refuses(&["--server"]);
    lab.run("load -s 127.0.0.1:1 --noload").refuses(&["127.0.0.1:1", "refused"]);
    lab.run("load -s nobody.invalid:1").refuses(&["nobody.invalid:1"]);
    lab.run("load -s 127.0.0.1 -t 0").refuses(&["--time"]);
    lab.run("load -s 127.0.0.1 -K 300").refuses(&["--keysize", "250"]);
    lab.run("load -s 127.0.0.1 --assoc 4").refuses(&["--assoc", "--redis"]);
    lab.run("load -s 127.0.0.1 --search fast").refuses(&["--search", "fast"]);
    lab.run("load -s 127.0.0.1 --respond what").refuses(&["null"]);
    lab.called("mutilate", "--frob").refuses(&["--frob"]);
}

#[test]
fn an_interrupted_run_prints_what_it_has() {
    let (lab, _server, address) = lab_with_responder("null");
    let mut running = lab.start(&format!("load -s {address} -t 600 -v --csv out.csv"));
    running.wait_for("records written");
    running.signal("INT");
    running.finish().exits(130).says("Total QPS = ").says("#type");
    assert!(lab.exists("out.csv"));
}

/// An agent on a port of its own.
pub(crate) fn agent(lab: &Lab, line: &str) -> (Server, String) {
    let mut running = lab.start_called("mutilate", &format!("-A -p 0 {line}"));
    running.wait_for("ready");
    let address = running.seen().lines().find_map(|line| line.strip_prefix("agent listening on "));
    let address = address.unwrap().to_owned();
    (Server(running), address)
}

#[test]
fn the_example_of_the_readme_runs_with_eight_agents_on_one_machine() {
    let (lab, _server, address) = lab_with_responder("null");
    lab.called("mutilate", &format!("-s {address} --loadonly")).exits(0);
    let agents: Vec<(Server, String)> = (0..8).map(|_| agent(&lab, "-T 2")).collect();
    let list: Vec<String> = agents.iter().map(|(_, address)| format!("-a {address}")).collect();
    let list = list.join(" ");
    let out = lab
        .called(
            "mutilate",
            &format!(
                "-s {address} --noload -B -T 2 -Q 200 -D 4 -C 4 {list} -c 4 -q 2000 -t 1 --json j"
            ),
        )
        .exits(0);
    assert!(out.stdout.starts_with("#type       avg     min     1st"), "{}", out.told());
    let json = lab.json("j");
    let qps = json["qps"].as_f64().unwrap();
    assert!((1700.0..2300.0).contains(&qps), "{}", out.told());
    let offered = json["agents"].as_array().unwrap();
    assert_eq!(offered.len(), 8);
    for agent in offered {
        assert!((agent["offered_qps"].as_f64().unwrap() - 225.0).abs() < 1e-9, "{agent}");
    }
    let ops = json["counts"]["ops"].as_u64().unwrap();
    let master = json["master"]["ops"].as_u64().unwrap();
    assert!(master < ops / 4, "the master has its own rate: {master} of {ops}");
    assert_eq!(json["classes"]["read"]["response"]["count"], ops, "all samples are merged");
}

#[test]
fn agents_are_named_when_they_fail() {
    let (lab, _server, address) = lab_with_responder("null");
    lab.run(&format!("load -s {address} -a 127.0.0.1:1 -t 1")).refuses(&["127.0.0.1:1"]);
    let (mut one, first) = agent(&lab, "");
    let (_two, second) = agent(&lab, "");
    let line = format!("load -s {address} -T 0 -q 1000 -t 30 -a {first} -a {second} -v");
    let mut master = lab.start(&line);
    master.wait_for("measuring");
    one.0.kill();
    master.signal("INT");
    let out = master.finish();
    assert!(out.stderr.contains(&first) && out.stderr.contains("is lost"), "{}", out.told());
    assert_eq!(out.status, 130, "{}", out.told());
    lab.write("token", "sesame\n");
    let with = format!("load -s {address} -T 0 -t 1 -a {second} --agent-token token");
    lab.run(&with).refuses(&["token"]);
    lab.run("load -A --agent-listen 0.0.0.0").refuses(&["token"]);
}

/// What the kernel is asked for: the wait, the read and the write. Counted is the difference of two
/// runs, so that start and end are not in it.
#[test]
fn a_request_at_depth_1_costs_three_system_calls_at_most() {
    if !std::process::Command::new("strace").arg("-V").output().is_ok_and(|o| o.status.success()) {
        println!("SKIPPED a_request_at_depth_1_costs_three_system_calls_at_most: no strace here");
        return;
    }
    let (lab, _server, address) = lab_with_responder("null");
    let calls_of = |requests: u64| {
        let line = format!(
            "strace -f -c -o calls $KEYRACK load -s {address} -N {requests} -T 1 -c 4 -d 1 -u 0 \
             -r 100 --noload"
        );
        lab.shell(&line).exits(0);
        let calls = lab.read("calls");
        let total = calls.lines().find(|line| line.ends_with("total")).unwrap();
        total.split_whitespace().nth(3).unwrap().parse::<u64>().unwrap()
    };
    let (few, many) = (calls_of(1000), calls_of(5000));
    let per_request = (many - few) as f64 / 4000.0;
    assert!(per_request <= 3.01, "{per_request} calls a request: {few} for 1000, {many} for 5000");
}
