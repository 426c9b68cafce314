//! Called as `mttest`: that tool's command line, and its shapes with the numbers masked, since
//! people's parsers read them.

use crate::support::{Lab, Outcome, parse_json};
use crate::terminal::{in_a_pane, lab_with_tmux};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Stdio};

/// `text` with every number that does not end a name replaced by N.
fn masked(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let is_part = |(i, c): (usize, char)| {
            c.is_ascii_digit()
                || c == '.'
                || (c == 'e' && number[i + 1..].starts_with(['+', '-']))
                || ("+-".contains(c) && number[..i].ends_with('e'))
        };
        let end = number.char_indices().find(|part| !is_part(*part)).map_or(number.len(), |p| p.0);
        out.push_str(before);
        let ends_a_name = before.ends_with(|c: char| c.is_ascii_alphabetic() || c == '@');
        out.push_str(if ends_a_name { &number[..end] } else { "N" });
        rest = &number[end..];
    }
    out + rest
}

#[track_caller]
fn mttest(lab: &Lab, line: &str) -> Outcome {
    lab.called("mttest", line)
}

/// The rows on standard error: thread and JSON.
#[track_caller]
fn rows(out: &Outcome) -> Vec<(u64, Value)> {
    let lines = out.stderr.lines().filter_map(|line| line.split_once(": {"));
    lines.map(|(id, row)| (id.parse().unwrap(), parse_json(&format!("{{{row}")))).collect()
}

/// The lines `RUN/TOTAL test/tree`, without their numbers.
fn announced(out: &Outcome) -> Vec<&str> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let lines = out.stderr.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(run, _)| run.split_once('/').is_some_and(|(n, m)| is_number(n) && is_number(m)))
        .map(|(_, what)| what)
        .collect()
}

fn keys(notebook: &Value, member: &str) -> BTreeSet<String> {
    notebook[member].as_object().unwrap().keys().cloned().collect()
}

/// gnuplot's picture of a script. It must have nothing to say but that all values may be alike.
#[track_caller]
fn assert_draws(script: &str) {
    let child = Command::new("gnuplot")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        panic!("this test draws with gnuplot, which is not installed (Debian: gnuplot-nox)");
    };
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, script.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    let complaints: Vec<&str> =
        talk.lines().filter(|l| !l.trim().is_empty() && !l.contains("empty y range")).collect();
    assert!(output.status.success() && complaints.is_empty(), "{talk}\n{script}");
    assert!(output.stdout.starts_with(b"\x89PNG"), "{script}");
}

const PLOT: &str = r#"set title "HOST (N cores)"
set terminal png
set termoption noenhanced
set xrange [N:N]
set xtics rotate by N right ("rw1/mb" N, "rw1/mb" N, "rw1/mb" N) font "Verdana,N"
set key top left Left reverse
set ylabel "count, normalized per test"
plot  '-' using N:($N/$N):($N/$N):($N/$N):($N/$N) with candlesticks lt N title 'ops_per_sec', \
 '-' using N:($N/$N):($N/$N):($N/$N):($N/$N) with candlesticks lt N notitle, \
 '-' using N:($N/$N):($N/$N):($N/$N):($N/$N) with candlesticks lt N title 'puts_per_sec', \
 '-' using N:($N/$N):($N/$N):($N/$N):($N/$N) with candlesticks lt N notitle, \
 '-' using N:($N/$N):($N/$N):($N/$N):($N/$N) with candlesticks lt N title 'gets_per_sec', \
 '-' using N:($N/$N):($N/$N):($N/$N):($N/$N) with candlesticks lt N notitle
N N N N N N
e
N N N
e
N N N N N N
e
N N N
e
N N N N N N
e
N N N
e
"#;

const ROW: &str = "{\"table\":\"mb\",\"test\":\"rw1\",\"trial\":N,\"thread\":N,\"puts\":N,\
                   \"puts_per_sec\":N,\"gets\":N,\"gets_per_sec\":N,\"ops\":N,\"ops_per_sec\":N}";

const NOTEBOOK: &str = "{
  \"experiments\": {
    \"x0\": {
      \"git-revision\": \"REVISION\",
      \"time\": \"TIME\",
      \"machine\": \"HOST\",
      \"cores\": N,
      \"runs\": [\"x0\\/rw1\\/mb\\/N\"]
    }
  },
  \"data\": {
    \"x0\\/rw1\\/mb\\/N\": [
      {
\t\"table\": \"mb\",
\t\"test\": \"rw1\",
\t\"trial\": N,
\t\"thread\": N,
\t\"puts\": N,
\t\"puts_per_sec\": N,
\t\"gets\": N,
\t\"gets_per_sec\": N,
\t\"ops\": N,
\t\"ops_per_sec\": N
      },
      {
\t\"table\": \"mb\",
\t\"test\": \"rw1\",
\t\"trial\": N,
\t\"thread\": N,
\t\"puts\": N,
\t\"puts_per_sec\": N,
\t\"gets\": N,
\t\"gets_per_sec\": N,
\t\"ops\": N,
\t\"ops_per_sec\": N
      }
    ]
  }
}
";

/// The first command of the manual, but for its duration.
#[test]
fn the_default_run_has_the_published_shapes() {
    let lab = Lab::new();
    let out = mttest(&lab, "-d 0.2 -j2").exits(0);
    let mut lines: Vec<String> = out.stderr.lines().map(masked).collect();
    assert_eq!(lines.remove(0), "N/N rw1/m", "{}", out.told());
    let told: Vec<String> = lines.drain(..2).collect();
    assert_eq!(told, ["N: now getting"; 2], "{}", out.told());
    let row = format!("N: {ROW}");
    assert_eq!(lines, [row.as_str(), &row, "EXPERIMENT x0"], "{}", out.told());
    assert!(out.stderr.starts_with("1/1 rw1/m\n"), "{}", out.told());
    for notice in ["\n0: now getting\n", "\n1: now getting\n"] {
        assert!(out.stderr.contains(notice), "{}", out.told());
    }
    let threads: Vec<u64> = rows(&out).iter().map(|(id, _)| *id).collect();
    assert_eq!(threads, [0, 1]);
    for (id, row) in rows(&out) {
        assert_eq!((&row["thread"], &row["trial"]), (&Value::from(id), &Value::from(0)));
        let puts = row["puts"].as_u64().unwrap();
        assert!(puts > 0, "{row}");
        assert_eq!(row["gets"].as_u64(), Some(puts), "everything put is got: {row}");
        assert_eq!(row["ops"].as_u64(), Some(2 * puts), "{row}");
    }
    let host =
        parse_json(&lab.read("notebook-mttest.json"))["experiments"]["x0"]["machine"].clone();
    let host = host.as_str().unwrap();
    assert!(out.stdout.starts_with(&format!("set title \"{host} (2 cores)\"\n")), "{}", out.told());
    assert_eq!(masked(&out.stdout.replacen(host, "HOST", 1)), PLOT, "{}", out.told());
    assert!(out.stdout.contains("set xrange [0.96:1.44]\n"), "{}", out.told());
    let plot = &out.stdout;
    assert!(plot.contains("(\"rw1/mb\" 1, \"rw1/mb\" 1.2, \"rw1/mb\" 1.4)"), "{}", out.told());
    assert_draws(&out.stdout);
}

#[test]
fn a_notebook_grows_by_an_experiment_a_run() {
    let lab = Lab::new();
    mttest(&lab, "-b notebook.json -d 0.2 -j2").exits(0).warns("EXPERIMENT x0");
    let first = lab.read("notebook.json");
    let time_at = first.find("\"time\": \"").unwrap() + 9;
    let time = &first[time_at..time_at + 24];
    assert!(time.split_whitespace().count() == 5 && &time[19..20] == " ", "{time}");
    let shown = first.replacen(time, "TIME", 1);
    let member =
        |name: &str| parse_json(&first)["experiments"]["x0"][name].as_str().unwrap().to_owned();
    let revision = member("git-revision");
    assert_eq!(revision, option_env!("KEYRACK_REVISION").unwrap_or(env!("CARGO_PKG_VERSION")));
    let shown = shown.replacen(&revision, "REVISION", 1);
    assert_eq!(masked(&shown.replacen(&member("machine"), "HOST", 1)), NOTEBOOK);
    mttest(&lab, "--notebook=notebook.json -g mine -l 50 -j1 same").exits(0).warns("EXPERIMENT x1");
    let notebook = lab.json("notebook.json");
    assert_eq!(keys(&notebook, "experiments"), BTreeSet::from(["x0", "x1"].map(str::to_owned)));
    assert_eq!(notebook["experiments"]["x1"]["gid"], "mine");
    assert_eq!(notebook["experiments"]["x1"]["cores"], 1);
    assert_eq!(notebook["data"]["x1/same/mb/0"][0]["puts"], 51, "a limit counts from 0");
    // What was there is there still, byte for byte.
    let (head, _) = first.split_once("\n    }\n  },\n").unwrap();
    assert!(lab.read("notebook.json").starts_with(head));
    let names: Vec<String> = lab.names(".").into_iter().filter(|n| n != "mttest").collect();
    assert_eq!(names, ["notebook.json"], "nothing else is left");
    mttest(&lab, "-l 50 -j1 same --no-notebook").exits(0);
    assert!(!lab.exists("notebook-mttest.json"));
}

#[test]
fn a_file_that_is_no_notebook_is_left_alone() {
    let lab = Lab::new();
    for text in ["{\"experiments\": {\"x0\": ", "{\"mine\": 1}", "[]", "text\n"] {
        lab.write("book.json", text);
        let out = mttest(&lab, "-l 50 -j1 same -b book.json").exits(1);
        assert!(out.stderr.starts_with("mttest: book.json: not a notebook"), "{}", out.told());
        assert_eq!(out.stderr.lines().count(), 1, "nothing ran: {}", out.told());
        assert_eq!(out.stdout, "");
        assert_eq!(lab.read("book.json"), text);
        assert!(!lab.exists("book.json~"));
    }
    let out = mttest(&lab, "-l 50 -j1 same -b absent/book.json").exits(1);
    let line = "mttest: cannot write 'absent/book.json': No such file or directory\n";
    assert_eq!(out.stderr, line);
    mttest(&lab, "-l 50 -j1 same -b /dev/null").exits(1).warns("no regular file");
}

#[test]
fn a_dash_reads_and_writes_streams() {
    let lab = Lab::new();
    lab.link("mttest");
    let out =
        lab.shell("./mttest -l 50 -j1 same -b - </dev/null | sed '/^set title/,$d' >one").exits(0);
    out.warns("EXPERIMENT x0");
    let line = "./mttest -l 50 -j1 same -b - <one | sed '/^set title/,$d' >two";
    lab.shell(line).exits(0).warns("EXPERIMENT x1");
    let data = keys(&lab.json("two"), "data");
    assert_eq!(data, BTreeSet::from(["x0/same/mb/0", "x1/same/mb/0"].map(str::to_owned)));
    let out = lab.shell("echo mine | ./mttest -l 50 -j1 same -b -").exits(1);
    assert_eq!(out.stdout, "", "{}", out.told());
    out.warns("standard input: not a notebook");
}

#[test]
fn trials_tests_and_trees_run_in_a_drawn_order() {
    let lab = Lab::new();
    let line = "-j2 -T2 -l 200 rw3 same m skiplist";
    let out = mttest(&lab, line).exits(0).warns("order: seed 1\n");
    let order = announced(&out);
    assert_eq!(order.len(), 8, "{}", out.told());
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let pairs = ["rw3/m", "rw3/skiplist", "same/m", "same/skiplist"];
    assert_eq!(sorted, pairs.map(|pair| [pair, pair]).concat());
    for number in 1..=8 {
        assert!(out.stderr.contains(&format!("{number}/8 ")), "{}", out.told());
    }
    let rows = rows(&out);
    assert_eq!(rows.len(), 16);
    let tables: BTreeSet<&str> =
        rows.iter().map(|(_, row)| row["table"].as_str().unwrap()).collect();
    assert_eq!(tables, BTreeSet::from(["mb", "skiplist"]));
    let data = keys(&lab.json("notebook-mttest.json"), "data");
    let wanted: BTreeSet<String> = ["rw3/mb", "rw3/skiplist", "same/mb", "same/skiplist"]
        .iter()
        .flat_map(|run| [format!("x0/{run}/0"), format!("x0/{run}/1")])
        .collect();
    assert_eq!(data, wanted);
    assert!(out.stdout.contains("\"rw3/mb\" 1.0075, \"rw3/skiplist\" "), "{}", out.told());
    assert_draws(&out.stdout);
    let again = mttest(&lab, line).exits(0);
    assert_eq!(announced(&again), order, "the same seed draws the same order");
    let others: Vec<Outcome> =
        (2..6).map(|seed| mttest(&lab, &format!("{line} --seed {seed}")).exits(0)).collect();
    assert!(others.iter().any(|other| announced(other) != order), "{order:?}");
}

/// The later trial of one name took the place of the earlier in the notebook.
#[test]
fn two_names_of_one_tree_are_two_trials() {
    let lab = Lab::new();
    let out = mttest(&lab, "-j1 -l 20 same m mb").exits(0);
    let mut runs = announced(&out);
    runs.sort_unstable();
    assert_eq!(runs, ["same/m", "same/mb"]);
    let data = keys(&lab.json("notebook-mttest.json"), "data");
    assert_eq!(data, BTreeSet::from(["x0/same/mb/0", "x0/same/mb/1"].map(str::to_owned)));
}

#[test]
fn a_sequence_runs_on_one_tree() {
    let lab = Lab::new();
    let out = mttest(&lab, "-j2 -l 100 wcol1,rcol1").exits(0);
    assert_eq!(announced(&out), ["wcol1,rcol1/m"]);
    let tests: Vec<(u64, String)> = rows(&out)
        .iter()
        .map(|(id, row)| (*id, row["test"].as_str().unwrap().to_owned()))
        .collect();
    let wanted = [0, 1].map(|place| format!("wcol1,rcol1@{place}"));
    let [first, second] = &wanted;
    let wanted = [(0, first), (1, first), (0, second), (1, second)];
    assert_eq!(tests, wanted.map(|(id, test)| (id, test.clone())), "{}", out.told());
    let notebook = lab.json("notebook-mttest.json");
    assert_eq!(
        notebook["experiments"]["x0"]["runs"],
        serde_json::json!(["x0/wcol1,rcol1@0/mb/0", "x0/wcol1,rcol1@1/mb/0"])
    );
    // Alone it has nothing of wcol1's to read, and is no failure.
    mttest(&lab, "-j1 -l 100 rcol1 --no-notebook").exits(0);
}

#[test]
fn quiet_keeps_the_results_and_nothing_else() {
    let lab = Lab::new();
    let out = mttest(&lab, "-q -j1 -l 20 rw1").exits(0);
    let blank = " ".repeat(60);
    assert_eq!(out.stderr, format!("1/1 rw1/m      \r{blank}\rEXPERIMENT x0\n"));
    assert!(out.stdout.starts_with("set title "), "{}", out.told());
    assert!(lab.exists("notebook-mttest.json"));
}

#[test]
fn parameters_reach_the_test() {
    let lab = Lab::new();
    let out = mttest(&lab, "-j1 -l 0 same prefix=\"a\"").exits(1);
    assert!(out.stderr.contains("prefix"), "{}", out.told());
    lab.write("urls", "0 a/b\n0 a/c\n0 d\n");
    let out = mttest(&lab, "-j1 url file=urls --no-notebook").exits(0);
    assert_eq!(rows(&out).len(), 1, "{}", out.told());
}

#[test]
fn a_test_that_cannot_run_as_asked_is_one_line_and_exit_status_1() {
    let lab = Lab::new();
    let out = mttest(&lab, "-j1 -l 20 url same").exits(1);
    let line = out.stderr.lines().find(|line| line.starts_with("mttest: url/m: "));
    assert!(line.is_some_and(|line| line.contains("file")), "{}", out.told());
    // Its row says so too, and the other run is whole.
    let notebook = lab.json("notebook-mttest.json");
    assert_eq!(notebook["data"]["x0/url/mb/0"][0]["ok"], false, "{notebook}");
    assert_eq!(notebook["data"]["x0/same/mb/0"][0]["puts"], 21, "{notebook}");
}

/// The failure of a cell, which has no row.
#[test]
fn a_test_that_fails_is_one_line_and_the_others_run() {
    let lab = Lab::new();
    let out = mttest(&lab, "-j1 -l 20 -d 0.1 conflictscan1 same").exits(1);
    let lines: Vec<&str> = out.stderr.lines().filter(|l| l.starts_with("mttest: ")).collect();
    assert_eq!(lines.len(), 1, "{}", out.told());
    assert!(lines[0].starts_with("mttest: conflictscan1/m: "), "{}", out.told());
    assert!(lines[0].contains("two threads"), "{}", out.told());
    let data = keys(&lab.json("notebook-mttest.json"), "data");
    assert_eq!(data, BTreeSet::from(["x0/same/mb/0".to_owned()]), "{}", out.told());
    assert!(!out.stdout.contains("conflictscan1"), "{}", out.told());
}

#[test]
fn what_is_not_understood_is_said_before_anything_runs() {
    let lab = Lab::new();
    for (line, why, has_usage) in [
        ("--bogus", "mttest: unknown option '--bogus'", true),
        ("-j x rw1", "mttest: -j expects a number from 1 to 1024, not 'x'", true),
        ("-l 10x same", "mttest: -l expects a number such as 5000 or 1.5m, not '10x'", true),
        ("rw11", "mttest: unknown test 'rw11'; did you mean 'rw1'?", false),
        ("rw1,nosuchtest", "mttest: unknown test 'nosuchtest'", false),
        ("redb same", "mttest: engine 'redb' is no tree in memory", false),
        ("-c x0 --no-notebook same", "mttest: -c compares with experiments of the notebook", false),
        ("-p --cores 4000 same", "mttest: --cores: this process may not use CPU 4000", false),
    ] {
        let out = mttest(&lab, line).exits(1);
        assert!(out.stderr.starts_with(why), "{}", out.told());
        assert_eq!(out.stdout, "");
        let usage = "Usage: mttest [-jN] TESTS...\nTry 'mttest --help' for options.\n";
        assert_eq!(out.stderr.ends_with(usage), has_usage, "{}", out.told());
        assert!(!lab.exists("notebook-mttest.json"), "{line}");
    }
    let out = mttest(&lab, "--help").exits(0);
    for word in ["-j, --threads=THREADS", "conflictscan1", "wd1m2", "masstree", "skiplist"] {
        assert!(out.stdout.contains(word), "no {word}: {}", out.told());
    }
    assert!(!out.stdout.contains("redb"), "{}", out.told());
    assert_eq!(out.stderr, "");
}

#[test]
fn rows_and_statistics_of_the_tree_are_printed() {
    let lab = Lab::new();
    let out = mttest(&lab, "-j1 -l 30 same --print --stats --tree-stats").exits(0);
    let (printed, _) = out.stdout.split_once("set title ").unwrap();
    let keys: Vec<&str> =
        printed.lines().filter_map(|line| line.split_once(": ")).map(|(key, _)| key).collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"], "{}", out.told());
    assert!(out.stderr.contains("\nmb: keys 10, "), "{}", out.told());
    assert!(out.stderr.contains("\"keys\":10,") || out.stderr.contains("\"keys\": 10,"));
    let row = &lab.json("notebook-mttest.json")["data"]["x0/same/mb/0"][0];
    assert_eq!((&row["puts"], &row["keys"]), (&Value::from(31), &Value::from(10)));
    assert!(rows(&out).iter().all(|(_, row)| row.get("keys").is_none()), "{}", out.told());
}

#[test]
fn older_experiments_are_plotted_beside() {
    let lab = Lab::new();
    mttest(&lab, "-j2 -l 100 rw3").exits(0);
    mttest(&lab, "-j2 -l 100 same").exits(0);
    let out = mttest(&lab, "-j2 -l 100 rw3 -c x0 --normalize none --yrange 0:1e9").exits(0);
    assert!(out.stdout.contains("(\"rw3/mb\" 1, \"x0/rw3/mb\" 1.04, "), "{}", out.told());
    assert!(out.stdout.contains("set yrange [0:1e9]\nset "), "{}", out.told());
    assert!(out.stdout.contains("set ylabel \"count\"\n"), "{}", out.told());
    assert_draws(&out.stdout);
    // Without a run.
    let before = lab.read("notebook-mttest.json");
    let out = mttest(&lab, "-n -c x1 -c rw3").exits(0);
    assert_eq!(out.stderr, "", "{}", out.told());
    for label in ["\"x0/rw3/mb\"", "\"x2/rw3/mb\"", "\"x1/same/mb\""] {
        assert!(out.stdout.contains(label), "no {label}: {}", out.told());
    }
    assert_eq!(lab.read("notebook-mttest.json"), before);
    let out = mttest(&lab, "-n -c x9").exits(1).warns("-c x9: the notebook has no such experiment");
    assert_eq!(out.stdout, "");
    let out = mttest(&lab, "-n").exits(0);
    assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("", ""));
}

#[test]
fn threads_are_pinned_where_that_is_asked_for() {
    let lab = Lab::new();
    mttest(&lab, "-p -j2 -l 20 same --no-notebook").exits(0);
    let out = lab.shell("taskset -pc $$ | sed 's/.*: //; s/[-,].*//'").exits(0);
    let first = out.stdout.trim();
    mttest(&lab, &format!("--pin --cores {first}+0 -j2 -l 20 same --no-notebook")).exits(0);
}

#[test]
fn a_signal_ends_it_and_keeps_what_was_whole() {
    let lab = Lab::new();
    // Of this order the first run is counted and short, the second would last an hour.
    let seeds = (1..64).map(|seed| (seed, format!("-j1 -l 20 -d 3600 same wscale --seed {seed}")));
    let mut ended = None;
    for (seed, line) in seeds {
        let mut child = lab.start_called("mttest", &line);
        child.wait_for("1/2 ");
        let order = child.seen().to_owned();
        if order.contains("1/2 same/m") {
            child.wait_for("2/2 wscale/m");
            child.signal("INT");
            ended = Some(child.finish());
            break;
        }
        child.signal("INT");
        let out = child.finish().exits(130);
        assert!(!lab.exists("notebook-mttest.json"), "seed {seed}: {}", out.told());
    }
    let out = ended.unwrap().exits(130).warns("interrupted");
    assert!(out.stderr.contains("EXPERIMENT x0"), "{}", out.told());
    let data = keys(&lab.json("notebook-mttest.json"), "data");
    assert_eq!(data, BTreeSet::from(["x0/same/mb/0".to_owned()]));
}

#[test]
fn a_terminal_gets_no_plot() {
    let Some(lab) = lab_with_tmux("a_terminal_gets_no_plot") else { return };
    lab.link("mttest");
    in_a_pane(&lab, "./mttest -j1 -l 20 same").exits(0);
    let seen = lab.read("seen");
    assert!(seen.contains("EXPERIMENT x0") && !seen.contains("set title"), "{seen}");
    in_a_pane(&lab, "./mttest -n -c x0").exits(0);
    assert!(lab.read("seen").contains("set title"), "{}", lab.read("seen"));
}

/// The same sinks under our own name.
#[test]
fn a_bench_writes_notebook_and_plot_too() {
    let lab = Lab::new();
    let line = "bench rw1 --backend masstree,skiplist --threads 2 --ops 200 --repeat 2 --probe \
                system --report notebook:book.json,gnuplot:plot.gp";
    let out = lab.run(line).exits(0).warns("EXPERIMENT x0\n");
    assert_eq!(out.stdout, "", "{}", out.told());
    let notebook = lab.json("book.json");
    let wanted = ["masstree/0", "masstree/1", "skiplist/0", "skiplist/1"];
    assert_eq!(keys(&notebook, "data"), wanted.map(|run| format!("x0/rw1/{run}")).into());
    for (key, rows) in notebook["data"].as_object().unwrap() {
        let threads: Vec<&Value> =
            rows.as_array().unwrap().iter().map(|row| &row["thread"]).collect();
        assert_eq!(threads, [0, 1], "{key}");
    }
    let plot = lab.read("plot.gp");
    assert!(plot.contains("\"rw1/masstree\" 1.0075, \"rw1/skiplist\" "), "{plot}");
    assert_draws(&plot);
    lab.run(line).exits(0).warns("EXPERIMENT x1\n");
    lab.write("book.json", "mine");
    lab.run(line).refuses(&["book.json: not a notebook"]);
    assert_eq!(lab.read("book.json"), "mine");
}
