//! Jobs from the command line: every one of the list on our own index, their rows, their failures.

use crate::support::{Lab, flags, points, repeats};
use serde_json::Value;

/// The names of the list of jobs, but for those that have tests of their own.
fn listed(lab: &Lab) -> Vec<String> {
    let out = lab.run("bench --list").exits(0);
    let lines = out.stdout.lines().skip_while(|line| !line.starts_with("jobs,")).skip(1);
    let names = lines.take_while(|line| line.starts_with("  ")).filter(|l| !l.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| !name.contains('/')).collect()
}

/// Jobs that cannot run as the others do: alone, on one and on two threads, without parameters.
const OWN_WAY: [&str; 5] = ["bdb", "conflictscan1", "rscale", "ruscale_init", "url"];

fn rows(repeat: &Value) -> &Vec<Value> {
    repeat["rows"].as_array().unwrap()
}

#[test]
fn every_listed_job_runs_on_masstree() {
    let lab = Lab::new();
    let names = listed(&lab);
    assert!(names.len() > 35 && names.contains(&"splitremove1".to_owned()), "{names:?}");
    assert!(OWN_WAY.iter().all(|name| names.iter().any(|known| known == name)));
    let others: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !OWN_WAY.contains(name)).collect();
    let line = format!(
        "bench --backend masstree --threads 1,2 --secs 0.03 --limit 500 --probe none \
         --report json:r.json {}",
        others.join(" ")
    );
    lab.run(&line).exits(0);
    let run = lab.json("r.json");
    assert_eq!(points(&run).len(), 2 * others.len());
    for point in points(&run) {
        let threads = point["cell"]["threads"].as_u64().unwrap();
        for row in rows(&point["repeats"][0]) {
            assert_eq!(row["test"], point["cell"]["workload"]);
            assert_ne!(row["fields"]["ok"], Value::Bool(false), "{row}");
        }
        let ids: Vec<u64> =
            rows(&point["repeats"][0]).iter().map(|row| row["thread"].as_u64().unwrap()).collect();
        assert_eq!(ids, (0..threads).collect::<Vec<_>>());
    }
}

#[test]
fn jobs_with_needs_of_their_own_run_on_masstree() {
    let lab = Lab::new();
    let urls: String = (0..40).map(|n| format!("get http://example/{n}\n")).collect();
    lab.write("urls.txt", urls);
    let run = |line: &str| {
        let line = format!("bench --backend masstree --probe none --report json:r.json {line}");
        let out = lab.run(&line).exits(0);
        let run = lab.json("r.json");
        assert_eq!(flags(&points(&run)[0]), "", "{}", out.told());
        repeats(&run)[0].clone()
    };
    let repeat = run("--secs 60 -P records=300 -P gets=1000 bdb");
    assert_eq!(rows(&repeat)[0]["fields"]["ops"], 1000);
    let repeat = run("--secs 0.5 --threads 3 conflictscan1");
    assert!(rows(&repeat)[0]["fields"]["scans"].as_u64().unwrap() > 0);
    assert!(rows(&repeat)[2]["fields"]["inserts"].as_u64().unwrap() > 0);
    let repeat =
        run("--secs 0.05 --threads 2 -P partsize=500 -P parts=2 ruscale_init,rscale,uscale");
    let alone = run("--secs 0.05 --threads 2 -P partsize=500 rscale");
    assert!(rows(&alone)[1]["fields"]["gets"].as_u64().unwrap() > 0);
    assert_eq!(alone["load"]["keys"], 1000, "a part for each thread");
    let tests: Vec<&str> = rows(&repeat).iter().map(|row| row["test"].as_str().unwrap()).collect();
    assert_eq!(tests[0], "ruscale_init,rscale,uscale@0");
    assert_eq!(tests[5], "ruscale_init,rscale,uscale@2");
    assert!(rows(&repeat)[2]["fields"]["gets"].as_u64().unwrap() > 0);
    let repeat = run("--secs 60 -P file=urls.txt url");
    let fields = &rows(&repeat)[0]["fields"];
    // Four rounds of 10 and 5, and one that finds the end of the file.
    assert_eq!((&fields["puts"], &fields["removes"]), (&40.into(), &25.into()));
    assert_eq!(fields["gets"], 15);
}

#[test]
fn the_rows_of_rw1_are_in_the_order_of_the_tester() {
    let lab = Lab::new();
    let out = lab
        .run(
            "bench rw1 --backend masstree,skiplist --threads 1,2 --ops 300 --probe none \
             --report console,json:r.json",
        )
        .exits(0);
    for line in ["puts/s ", "gets/s ", "ops/s "] {
        let found: Vec<&str> = out.stdout.lines().filter(|l| l.starts_with(line)).collect();
        assert_eq!(found.len(), 4, "{}", out.told());
        assert!(found[1].ends_with("(sum over 2 threads)"), "{}", out.told());
    }
    let text = lab.read("r.json");
    let start = text.find("\"fields\": {\n").unwrap();
    let fields = text[start..].lines().skip(1).take(6);
    let names: Vec<&str> =
        fields.map(|line| line.trim_start().split('"').nth(1).unwrap()).collect();
    let expected = ["puts", "puts_per_sec", "gets", "gets_per_sec", "ops", "ops_per_sec"];
    assert_eq!(names, expected);
    assert_eq!(rows(repeats(&lab.json("r.json"))[0])[0]["fields"]["ops"], 602);
}

#[test]
fn a_failed_check_is_a_failed_cell_and_status_1() {
    let lab = Lab::new();
    let out = lab.run("bench --backend null --ops 10 --probe none rw1").exits(1);
    let out = out.says("failed cells:").says("rw1 on thread 0: key \"").says(", found \"");
    assert!(!out.stdout.contains("=== rw1 ==="), "{}", out.told());
    let line = "bench --backend masstree --secs 0.05 --limit 50 --probe none rw1puts,scan1";
    lab.run(line).exits(1).says("! WRONG: rw1puts,scan1@1 on thread 0: ");
    let out = lab.run("bench --backend masstree --secs 0.05 --probe none conflictscan1").exits(1);
    out.says("two threads or more");
    lab.run("bench --backend masstree --ops 9 --probe none wd1").exits(0).warns("nobody removes");
}

#[test]
fn what_is_no_job_and_what_a_job_cannot_do_is_refused() {
    let lab = Lab::new();
    lab.run("bench --backend btree wcol1,rcoll1").refuses(&["unknown job 'rcoll1'", "'rcol1'"]);
    lab.run("bench --backend btree rwx1").refuses(&["unknown workload 'rwx1'", "'rw1'"]);
    lab.run("bench --backend btree --rate 1000 rw1").refuses(&["rw1 is a job", "--rate"]);
    lab.run("bench --backend btree -P nkeys=1 rw1").refuses(&["parameter 'nkeys'"]);
    lab.run("bench --backend btree -P file=absent.txt url").refuses(&["url: file: ", "absent.txt"]);
    lab.run("bench --overhead rw1").refuses(&["rw1: a job has no units"]);
}

#[test]
fn a_signal_ends_a_job_with_what_was_done() {
    let lab = Lab::new();
    let mut child = lab.start(
        "bench --backend masstree --threads 2 --secs 600 --probe none --progress plain \
         --report json:r.json wscale,rw1",
    );
    child.wait_for(" wu/s");
    child.signal("INT");
    child.finish().exits(130).warns("interrupted");
    let run = lab.json("r.json");
    assert!(flags(&points(&run)[0]).contains("PARTIAL"));
    assert!(repeats(&run)[0]["units"].as_u64().unwrap() > 0);
}
