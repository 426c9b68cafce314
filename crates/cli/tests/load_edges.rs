//! `keyrack load` where a run is not worth its name, or cannot end as it should: verdicts, signals,
//! readers and disks that are gone, too few descriptors. And what is looked at from outside.

use crate::load::{agent, lab_with_responder, responder};
use crate::support::{Lab, ROTATION};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn a_rate_above_the_capacity_warns_and_strict_makes_it_a_status() {
    let lab = Lab::new();
    // It serves one after the other, a thousand a second.
    let (_server, address) = responder(&lab, "oracle:fixed:1000");
    let line = format!("load -s {address} --noload -q 4000 -t 0.5 -c 2 --drain 0.1 --json j");
    let out = lab.run(&line).exits(0).warns("WARN rate").warns("WARN backlog");
    assert!(out.stderr.contains("offered load not sustained"), "{}", out.told());
    lab.run(&format!("{line} --strict")).exits(3).says("Total QPS");
    let json = lab.json("j");
    let verdict = json["verdict"].as_array().unwrap();
    assert!(verdict.iter().any(|check| check["name"] == "rate" && check["passed"] == false));
    // The queue grows as long as there is load, so the last wait is the longest: of 2000 due in
    // half a second a quarter is served, and the last has waited three quarters of that.
    let class = &json["classes"]["read"]["response"];
    assert!(class["max_ns"].as_f64().unwrap() > 0.3e9, "{class}");
    assert!(class["p50_ns"].as_f64().unwrap() > 0.1e9, "{class}");
}

#[test]
fn a_generator_that_stood_still_is_told_from_a_slow_server() {
    let (lab, _server, address) = lab_with_responder("null");
    let line = format!("load -s {address} --noload -q 1000 -t 1 -i fixed -v --strict");
    let mut running = lab.start(&line);
    running.wait_for("measuring");
    // It is kept from running for a part of its second.
    lab.shell(&format!("kill -STOP {0}; sleep 0.4; kill -CONT {0}", running.id())).exits(0);
    running.finish().exits(3).warns("WARN client delay");
}

#[test]
fn a_term_signal_prints_what_there_is() {
    let (lab, _server, address) = lab_with_responder("null");
    let mut running = lab.start(&format!("load -s {address} -t 600 -v --json j"));
    running.wait_for("measuring");
    running.signal("TERM");
    let out = running.finish().exits(130).says("Total QPS = ");
    assert_eq!(out.stdout.matches("#type").count(), 1, "{}", out.told());
    assert_eq!(lab.json("j")["interrupted"], true);
}

#[test]
fn a_reader_that_is_gone_ends_it_quietly() {
    let (lab, _server, address) = lab_with_responder("null");
    let out = lab.run_unread(&format!("load -s {address} -N 10 --quiet"));
    assert_eq!((out.status, out.stderr.as_str()), (0, ""), "{}", out.told());
}

#[test]
fn a_full_disk_under_samples_is_one_line() {
    let (lab, _server, address) = lab_with_responder("null");
    let out = lab.run(&format!("load -s {address} -N 20000 -d 8 --save /dev/full --quiet"));
    out.refuses(&["/dev/full", "No space left"]);
}

#[test]
fn too_few_descriptors_are_said() {
    let (lab, _server, address) = lab_with_responder("null");
    let script = format!("ulimit -n 64; exec $KEYRACK load -s {address} -c 200 -N 10");
    lab.shell(&script).refuses(&[&address, "Too many open files"]);
}

#[test]
fn a_scan_and_a_search_run_with_agents() {
    let (lab, _server, address) = lab_with_responder("null");
    let agents = [agent(&lab, ""), agent(&lab, "")];
    let list: Vec<String> = agents.iter().map(|(_, address)| format!("-a {address}")).collect();
    let base = format!("load -s {address} --noload -t 0.1 {}", list.join(" "));
    let scan = lab.run(&format!("{base} --scan 500:1000:500 --table std")).exits(0);
    assert_eq!(scan.stdout.lines().count(), 3, "{}", scan.told());
    lab.run(&format!("{base} -T 0 --search p50<1ns")).exits(1).says("Search: ");
}

#[test]
fn rates_change_by_a_file_or_in_steps() {
    let (lab, _server, address) = lab_with_responder("null");
    let base = format!("load -s {address} --noload -i fixed --json j");
    lab.write("ramp", "# seconds, requests a second\n0,0\n0.5,400\n");
    lab.run(&format!("{base} --ramp ramp")).exits(0).says("Offered QPS = 200.0");
    assert_eq!(lab.json("j")["counts"]["ops"], 100);
    lab.run(&format!("{base} --qps-step 200:400:200:0.5")).exits(0).says("Offered QPS = 300.0");
    let json = lab.json("j");
    assert_eq!((&json["counts"]["ops"], &json["loop"]), (&300.into(), &"open".into()));
    let offered = json["series"][0]["offered_qps"].as_f64().unwrap();
    assert!((offered - 300.0).abs() < 5.0, "{offered}");
    // An agent with three connections has three quarters of it, at every moment.
    let (_agent, place) = agent(&lab, "-T 3");
    lab.run(&format!("{base} --ramp ramp -a {place}")).exits(0).says("Offered QPS = 200.0");
    let json = lab.json("j");
    // Each of the four streams has its own first arrival.
    let ops = json["counts"]["ops"].as_u64().unwrap();
    assert!((96..=104).contains(&ops), "{json}");
    let theirs = json["agents"][0]["offered_qps"].as_f64().unwrap();
    assert!((theirs - 150.0).abs() < 0.1, "{json}");
    lab.run(&format!("{base} --ramp ramp -a {place} -Q 5")).refuses(&["--ramp", "--measure_qps"]);
    lab.run(&format!("{base} --ramp none")).refuses(&["--ramp", "none"]);
    lab.write("bad", "0,1\n1;2\n");
    lab.run(&format!("{base} --ramp bad")).refuses(&["bad", "line 2"]);
    lab.run(&format!("{base} --qps-step 200:400")).refuses(&["--qps-step", "FROM:TO"]);
    lab.run(&format!("{base} --qps-step 1:2:1:1 -q 5")).exits(2);
}

#[test]
fn prometheus_sees_the_figures_while_it_goes_on() {
    let (lab, _server, address) = lab_with_responder("null");
    let line = format!("load -s {address} -q 200 -t 600 -v --prometheus 127.0.0.1:0");
    let mut running = lab.start(&line);
    running.wait_for("measuring");
    let place = running.seen().lines().find_map(|line| line.split("figures at http://").nth(1));
    let place = place.unwrap().split('/').next().unwrap().to_owned();
    let ask = || {
        let mut stream = TcpStream::connect(&place).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let count = |name: &str| {
            let line = reply.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        assert_eq!(count("keyrack_load_connections "), 1, "{reply}");
        let is_measuring = count("keyrack_load_stage{stage=\"measuring\"} ") == 1;
        (is_measuring, count("keyrack_load_replies_total "))
    };
    // The word comes a moment before the stage.
    while !ask().0 {}
    let (_, before) = ask();
    while ask().1 < before + 10 {}
    running.signal("INT");
    running.finish().exits(130);
    lab.run(&format!("load -s {address} -t 1 --prometheus nowhere")).refuses(&["--prometheus"]);
}

/// What `/metrics` answers, and a number of it by its name and labels.
fn metrics(place: &str) -> String {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn prometheus_sees_a_bench_while_it_goes_on() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "bench --backend btree --secs 600 --probe none --watch 0 work.lua";
    let mut running = lab.start(line);
    running.wait_for("figures at http://127.0.0.1:");
    let place = running.seen().lines().find_map(|line| line.split("figures at http://").nth(1));
    let place = place.unwrap().split('/').next().unwrap().to_owned();
    let cell = "{phase=\"running\",workload=\"rotation\",engine=\"btree";
    let sum = |page: &str, name: &str| -> u64 {
        let begin = format!("{name}{cell}");
        let lines = page.lines().filter(|line| line.starts_with(&begin));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    };
    let mut page = metrics(&place);
    while sum(&page, "keyrack_bench_operations_total") == 0 {
        page = metrics(&place);
    }
    assert!(page.lines().any(|line| line == "keyrack_bench_stage{stage=\"running\"} 1"), "{page}");
    assert!(page.lines().any(|line| line == "keyrack_bench_measurement_count 1"), "{page}");
    let ops = sum(&page, "keyrack_bench_operations_total");
    assert_eq!(sum(&page, "keyrack_bench_latency_seconds_count"), ops, "{page}");
    assert_eq!(sum(&page, "keyrack_bench_errors_total"), 0, "{page}");
    assert!(page.contains("\nkeyrack_bench_resident_bytes "), "{page}");
    // A place that is taken, or none, is one line, and nothing was measured.
    let line = "bench --backend btree --secs 600 --probe none work.lua --watch";
    lab.run(&format!("{line} {place}")).refuses(&["--watch", "cannot listen on", &place]);
    lab.run(&format!("{line} nowhere")).refuses(&["--watch"]);
    running.signal("INT");
    running.finish().exits(130);
}

#[test]
fn servers_share_keys_or_stand_behind_each_other() {
    let lab = Lab::new();
    let servers: Vec<_> = (0..3).map(|_| responder(&lab, "null")).collect();
    let list: Vec<String> = servers.iter().map(|(_, address)| format!("-s {address}")).collect();
    let line = format!("load {} -N 1000 -r 300 --json j", list.join(" "));
    for shard in ["ketama", "modula", "none"] {
        lab.run(&format!("{line} --shard {shard}")).exits(0);
        assert_eq!(lab.json("j")["counts"]["loaded"], 300);
        assert_eq!(lab.json("j")["settings"]["sharding"], shard);
    }
    lab.run(&format!("{line} --tier")).refuses(&["--tier", "two servers"]);
    lab.run(&format!("{line} --cluster")).refuses(&["--cluster", "--redis"]);
    lab.run(&format!("{line} --shard rendezvous")).exits(2);
    let two = list[..2].join(" ");
    let out = lab.run(&format!("load {two} --tier -N 1000 -r 300 -u 0.1")).exits(0);
    // Our responder has everything: the first tier misses nothing, and stores go through.
    out.says("Copied to the other tier = ");
}

#[test]
fn a_responder_in_shared_memory_counts_the_same_and_its_death_is_said() {
    let lab = Lab::new();
    let mut responder = lab.start("load --respond null --listen shm:ring");
    responder.wait_for("ready");
    assert!(responder.seen().contains("listening on shm:ring"), "{}", responder.seen());
    lab.run("load -s shm:ring -T 2 -c 2 -d 16 -N 4000 -r 100 -u 0.1 --json j").exits(0);
    assert_eq!(lab.json("j")["counts"]["ops"], 4000);
    let mut running = lab.start("load -s shm:ring --noload -t 600 -v --json j");
    running.wait_for("measuring");
    responder.signal("TERM");
    let told = responder.finish().exits(0);
    let requests = told.stdout.lines().find_map(|line| line.strip_prefix("requests = "));
    let requests: u64 = requests.unwrap().parse().unwrap();
    let out = running.finish().exits(1).says("Total QPS = ").warns("shm:ring: the server closed");
    // The last reply may have been lost on its way.
    let ops = lab.json("j")["counts"]["ops"].as_u64().unwrap();
    assert!((4100 + ops..=4101 + ops).contains(&requests), "{requests}: {}", out.told());

    // Killed, it cannot say anything, and leaves its name; the next one takes it over.
    let mut responder = lab.start("load --respond null --listen shm:ring");
    responder.wait_for("ready");
    let mut running = lab.start("load -s shm:ring --noload -t 600 -v");
    running.wait_for("measuring");
    responder.kill();
    running.finish().exits(1).says("Total QPS = ").warns("shm:ring: the server closed");
    assert_eq!(lab.names(".").iter().filter(|name| name.starts_with("ring")).count(), 1);
    lab.run("load -s shm:ring -N 1").refuses(&["shm:ring", "cannot connect"]);
    lab.run("load -s shm:ring --tls-ca ca -N 1").refuses(&["shm:ring", "no TLS"]);
    let mut responder = lab.start("load --respond oracle:fixed:100 --listen shm:ring");
    responder.wait_for("ready");
    lab.run("load -s shm:ring --noload -N 10 -d 4").exits(0);
    responder.kill();
}
