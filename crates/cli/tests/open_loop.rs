//! Offered rates: response time counts from the intended start, a rate that was missed is said, and
//! a search ends with a rate or with none.

use crate::support::{Lab, ONE_GET, cells, field, flags, points, tsv};

/// A percentile of a workload's whole units, `unit` column `row` of the console, in milliseconds.
#[track_caller]
fn unit_ms(stdout: &str, row: &str) -> Vec<f64> {
    let lines = stdout.lines().skip_while(|line| !line.starts_with("unit "));
    let line = lines.skip(1).find(|line| line.starts_with(row));
    let words: Vec<&str> = line.unwrap_or_default().split_whitespace().skip(2).collect();
    let pairs = words.chunks(2);
    let ms = |pair: &[&str]| -> f64 {
        let factor = match pair[1] {
            "ns" => 1e-6,
            "us" => 1e-3,
            "ms" => 1.0,
            "s" => 1e3,
            unit => panic!("what is {unit}: {stdout}"),
        };
        pair[0].parse::<f64>().unwrap() * factor
    };
    let row: Vec<f64> = pairs.map(ms).collect();
    assert_eq!(row.len(), 4, "p50, p99, p99.9, max: {stdout}");
    row
}

/// The store stops for 100 ms. A thousand units become due meanwhile and wait; one of them is in
/// the store. Service time shows the one, response time the thousand.
#[test]
fn a_stall_is_in_the_response_time_of_all_who_waited() {
    let lab = Lab::with("one.lua", ONE_GET);
    // Two stalls or three in three seconds: 1.2 s after the store is opened, and so on. However
    // long the start takes, one is in the run.
    lab.write("stall.cnf", "[null]\nstall_every_ms = 1200\nstall_ms = 100\n");
    let out = lab.run(
        "bench --backend null --config stall.cnf --rate 10k --secs 3 --probe none \
         --report console,json:r.json,tsv:r.tsv one.lua",
    );
    // A machine that others use may miss the rate; then it is said.
    let out = if out.stdout.contains("RATE MISSED") { out.exits(1) } else { out.exits(0) };
    let out = out.says("open loop: offered 10000/sec, achieved ").says("backlog max ");
    let [_, _, response_p999, response_max] = unit_ms(&out.stdout, "response")[..] else {
        panic!()
    };
    let [_, service_p99, _, service_max] = unit_ms(&out.stdout, "service")[..] else { panic!() };
    assert!(response_p999 >= 90.0, "the wait is missing: {}", out.told());
    assert!(response_max >= response_p999 && service_max >= 90.0, "{}", out.told());
    // Three hundred units of 10 ms each would be all of the three seconds.
    assert!(service_p99 < 10.0, "waiting is not service: {}", out.told());
    let unit = &lab.json("r.json")["points"][0]["repeats"][0]["unit"];
    assert_eq!(unit["offered_per_s"], 10_000.0);
    assert!(unit["backlog_max"].as_u64().unwrap() >= 500, "{unit}");
    let rows = tsv(&lab.read("r.tsv"));
    assert_eq!(field(&rows[0], "rate"), "10000.0");
    assert!(field(&rows[0], "resp_p999_ns").parse::<f64>().unwrap() >= 90e6);
}

/// The same store in a closed loop: the loop waits with it, and 99 of 100 units have seen nothing.
#[test]
fn a_closed_loop_hides_the_same_stall() {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.write("stall.cnf", "[null]\nstall_every_ms = 400\nstall_ms = 100\n");
    let out = lab
        .run(
            "bench --backend null --config stall.cnf --secs 1 --probe none \
             --report console,json:r.json,tsv:r.tsv one.lua",
        )
        .exits(0);
    assert!(!out.stdout.contains("response"), "{}", out.told());
    assert!(lab.json("r.json")["points"][0]["repeats"][0]["unit"].is_null());
    let rows = tsv(&lab.read("r.tsv"));
    let ns = |column: &str| field(&rows[0], column).parse::<f64>().unwrap();
    assert!(ns("max_ns") >= 90e6, "{}", out.told());
    assert!(ns("p99_ns") < 10e6, "{}", out.told());
}

/// A rate that no machine reaches with this script: marked in every report, and the status is 1.
#[test]
fn a_missed_rate_is_marked() {
    let lab = Lab::with(
        "busy.lua",
        "return { name = 'busy', run = function() for _ = 1, 3000 do end kv.get('k') end }",
    );
    let out = lab
        .run(
            "bench --backend null --rate 500,5M --secs 0.2 --probe none \
             --report console,json:r.json,tsv:r.tsv busy.lua",
        )
        .exits(1)
        .says("! RATE MISSED: offered 5000000, achieved ")
        .says("busy: sweep summary (medians)");
    assert_eq!(out.stdout.matches("RATE MISSED: offered 5000000").count(), 1, "said once");
    let run = lab.json("r.json");
    assert_eq!(cells(&run), ["busy null t1 rate=500", "busy null t1 rate=5000000"]);
    let missed = &points(&run)[1];
    assert!(flags(missed).contains("RATE MISSED"), "{}", flags(missed));
    let unit = &missed["repeats"][0]["unit"];
    assert!(unit["achieved_per_s"].as_f64().unwrap() < 4.9e6, "{unit}");
    assert!(unit["backlog_end"].as_u64().unwrap() > 0, "who never started is still counted");
    let rows = tsv(&lab.read("r.tsv"));
    assert!(field(&rows[1], "flags").contains("RATE MISSED"), "{:?}", rows[1]);
}

/// Random arrivals bring a few units more or fewer than the rate says. A store that served all that
/// were due has not missed it.
#[test]
fn chance_alone_is_no_missed_rate() {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.run(
        "bench --backend null --rate 500,700,900,1100,1300,1500 --arrivals poisson --secs 0.2 \
         --probe none --report json:r.json one.lua",
    );
    let run = lab.json("r.json");
    assert_eq!(points(&run).len(), 6);
    for point in points(&run) {
        let unit = &point["repeats"][0]["unit"];
        if unit["backlog_end"] == 0 {
            assert_eq!(flags(point), "", "nothing was left waiting: {unit}");
        }
    }
}

/// Random arrivals are random, and the seed decides: two runs offer the same units.
#[test]
fn arrivals_are_drawn_from_the_seed() {
    let lab = Lab::with("one.lua", ONE_GET);
    let units = |flags: &str| {
        lab.run(&format!(
            "bench --backend null --rate 2k --secs 0.3 --probe none \
             --report json:r.json {flags} one.lua"
        ));
        let run = lab.json("r.json");
        let repeat = points(&run)[0]["repeats"][0].clone();
        repeat["units"].as_u64().unwrap() + repeat["unit"]["backlog_end"].as_u64().unwrap()
    };
    assert_eq!(units(""), 600);
    let drawn = units("--arrivals poisson --seed 1");
    assert_eq!(units("--arrivals poisson --seed 1"), drawn);
    let others: Vec<u64> =
        (2..6).map(|s| units(&format!("--arrivals poisson --seed {s}"))).collect();
    assert!(others.iter().any(|other| *other != drawn), "{drawn} {others:?}");
}

/// A count of units under an offered rate, over several threads: all are run.
#[test]
fn a_count_under_a_rate_is_whole() {
    let lab = Lab::with("one.lua", ONE_GET);
    lab.run(
        "bench --backend null --rate 2k --ops 301 --threads 1,3 --probe none \
         --report json:r.json one.lua",
    );
    let run = lab.json("r.json");
    assert_eq!(points(&run).len(), 2);
    for point in points(&run) {
        assert_eq!(point["repeats"][0]["units"], 301);
    }
}

/// Warm-up counts for nothing: units are those of the timed phase.
#[test]
fn warm_up_is_not_counted() {
    let lab = Lab::with(
        "w.lua",
        "return { name = 'w', load = function() kv.put('n', '0') end, run = function()\n\
         kv.put('n', tostring(tonumber(kv.get('n')) + 1)) end }",
    );
    lab.run(
        "bench --backend btree --warmup 0.2 --ops 25 --probe none --timeline 0.05 \
         --report json:r.json,timeline:tl.tsv w.lua",
    )
    .exits(0);
    let run = lab.json("r.json");
    let repeat = &points(&run)[0]["repeats"][0];
    assert_eq!(repeat["units"], 25);
    assert_eq!(repeat["prim_ops"], 50);
    assert_eq!(repeat["warmup_s"], 0.2);
    // And in an open loop.
    lab.write("one.lua", ONE_GET);
    lab.run(
        "bench --backend null --warmup 0.1 --rate 1k --ops 50 --probe none \
         --report json:r.json one.lua",
    );
    assert_eq!(points(&lab.json("r.json"))[0]["repeats"][0]["units"], 50);
}

/// A search ends with a rate, which then is in the report; or with none, and the cell has failed.
#[test]
fn a_search_finds_a_rate_or_says_that_there_is_none() {
    let lab = Lab::with("one.lua", ONE_GET);
    let line = "bench --backend null --secs 0.1 --probe none --report console,json:r.json";
    let out = lab.run_words(
        &[line, "--rate-search p99<10s one.lua"].join(" ").split(' ').collect::<Vec<_>>(),
    );
    let out = match out.status {
        // No probe kept up: only a machine in trouble gets here, and the words are the same.
        1 => out.exits(1).says("no rate meets p99 < 10.00 s"),
        _ => out.exits(0).says("search: ").says(" meet p99 < 10.00 s"),
    };
    if out.status == 0 {
        let run = lab.json("r.json");
        let point = &points(&run)[0];
        assert!(point["notes"].to_string().contains("search: "), "{}", point["notes"]);
        assert!(point["repeats"][0]["unit"]["offered_per_s"].as_f64().unwrap() > 0.0);
    }
    // Nothing is served in less than a nanosecond.
    let out = lab.run(&format!("{line} --rate-search p50<1ns one.lua")).exits(1);
    out.says("failed cells:").says("no rate meets p50 < 1 ns");
    assert_eq!(lab.json("r.json")["failures"].as_array().unwrap().len(), 1);
}
