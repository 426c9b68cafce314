//! Called as `db_test`: that test's command line, and its shapes, since people's scripts read them.

use crate::support::{Lab, Outcome};

#[track_caller]
fn db_test(lab: &Lab, line: &str) -> Outcome {
    lab.called("db_test", &format!("--set-cpu 0 {line}"))
}

/// Cells of a line of the table.
#[track_caller]
fn cells<'o>(out: &'o Outcome, name: &str) -> Vec<&'o str> {
    let line = out.stdout.lines().find_map(|line| line.strip_prefix(name));
    let Some(line) = line else { panic!("no {name} in {}", out.told()) };
    line.trim_start_matches(':').split('|').map(str::trim).collect()
}

#[track_caller]
fn number(text: &str) -> f64 {
    text.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("no number: '{text}'"))
}

/// Files at each level, before and after.
fn levels(out: &Outcome) -> Vec<u64> {
    let lines = out.stdout.lines().filter_map(|line| line.strip_prefix("Files at level "));
    lines.map(|line| line.split_once(": ").unwrap().1.parse().unwrap()).collect()
}

#[test]
fn the_report_has_the_lines_of_the_original() {
    let lab = Lab::new();
    let out = db_test(&lab, "-n2 -i1000 -u50 -d600 --db st").exits(0);
    assert_eq!(out.stderr, "");
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "** rounding up initial (to make it power of 2): old: 1000 / new: 1024",
            "## Update rate: 0.500000 / Put rate: 0.250000",
            "## Initial: 1024 / Range: 2048",
            "Levelmax = 10",
        ]
    );
    assert_eq!(lines[4], "Files at level 0: 0");
    assert_eq!(
        lines[11],
        "    : total      | success    | succ %      | total %     | effective %"
    );
    let (srch, insr, rems) = (cells(&out, "srch"), cells(&out, "insr"), cells(&out, "rems"));
    let total = number(srch[0]) + number(insr[0]) + number(rems[0]);
    assert!(total > 0.0 && number(srch[1]) <= number(srch[0]), "{}", out.told());
    assert_eq!((insr[0], insr[2]), (insr[1], "100.0%"));
    let shares = number(srch[3]) + number(insr[3]) + number(rems[3]);
    assert!((shares - 100.0).abs() < 0.2, "{}", out.told());
    let txs = out.stdout.lines().find_map(|line| line.strip_prefix("#txs 2\t(")).unwrap();
    let mops = out.stdout.lines().find_map(|line| line.strip_prefix("#Mops ")).unwrap();
    assert!((number(txs.trim()) / 1e6 - number(mops)).abs() < 0.001, "{}", out.told());
    let levels = levels(&out);
    assert_eq!(levels.len(), 14, "{}", out.told());
    let created: i64 = levels[7..].iter().sum::<u64>() as i64;
    assert!(out.stdout.ends_with(&format!("Total files created: {created}\n")), "{}", out.told());
    assert!(lab.exists("st/CURRENT"));
}

#[test]
fn a_store_of_an_earlier_call_is_used_as_it_is() {
    let lab = Lab::new();
    let found = |line: &str| {
        let out = db_test(&lab, &format!("-n1 -d500 -i2000 -u0 {line}")).exits(0);
        let srch = cells(&out, "srch").into_iter().map(str::to_owned).collect::<Vec<_>>();
        number(&srch[2])
    };
    // With nothing in it, nothing is found; then the upper half is.
    assert_eq!(found("--db st --init none"), 0.0);
    let half = found("--db st --init seq");
    assert!((25.0..75.0).contains(&half), "{half}");
    let again = found("--db st");
    assert!((25.0..75.0).contains(&again), "{again}");
    let out = lab
        .shell("ln -s $KEYRACK db_test; TEST_TMPDIR=$PWD/tmp ./db_test -n1 -d20 -i100 --set-cpu 0")
        .exits(0);
    assert!(lab.exists("tmp/db_test/CURRENT"), "{}", out.told());
}

#[test]
fn the_compile_flags_do_what_they_did() {
    let lab = Lab::new();
    let out = db_test(&lab, "-n1 -d50 -u40 --one-writer --engine masstree").exits(0);
    let counts = ["srch", "rems"].map(|name| number(cells(&out, name)[0]));
    assert_eq!(counts, [0.0, 0.0], "the first thread only puts: {}", out.told());
    let out = db_test(&lab, "-n1 -d50 --scans --skew 2 --engine btree").exits(0);
    assert_eq!(number(cells(&out, "srch")[0]) % 100.0, 0.0);
    let line = "-n1 -i1000 -d100 -u100 --list-mb 1 --hash-mb 1 --use-ht 0 --durability none \
                --collect-stats --drain-threads 1 --clht-k 16";
    let out = db_test(&lab, line).exits(0);
    let stats = out.says("Updates total: ").says("\nReads total: 0\n").says("\nmemory_bytes: ");
    let talk: Vec<&str> = stats.stderr.lines().collect();
    assert_eq!(talk.len(), 2, "{}", stats.told());
    assert!(
        talk[0].starts_with("db_test: --drain-threads (N_DRAINING_THREADS) has no meaning here: "),
        "{talk:?}"
    );
    assert!(talk[1].starts_with("db_test: --clht-k (CLHT_K) has no meaning here: "), "{talk:?}");
}

#[test]
fn mistakes_are_one_line_and_status_1() {
    let lab = Lab::new();
    for (line, words) in [
        ("-n0", "-n expects a whole number from 1 to 1024, not '0'"),
        ("-x", "unknown option '-x'"),
        ("--init all", "--init expects seq, random or none"),
        ("--engine flobd", "unknown engine 'flobd'; did you mean 'flodb'?"),
        ("--durability fsync", "durability 'fsync'"),
        ("--engine btree --durability sync", "backend 'btree'"),
    ] {
        let out = db_test(&lab, line).exits(1).warns(words);
        assert!(out.stderr.starts_with("db_test: "), "{}", out.told());
        assert_eq!(out.stdout, "", "{}", out.told());
    }
    lab.write("file", "not a directory");
    db_test(&lab, "--db file -n1").exits(1).warns("file");
    let out = db_test(&lab, "-h").exits(0).says("-n, --num-threads <N>").says("--drain-threads");
    assert_eq!(out.stderr, "");
}

#[test]
fn a_signal_ends_the_test() {
    let lab = Lab::new();
    let mut child = lab.start_called("db_test", "-n1 -d600000 --power --engine masstree");
    child.wait_for("--power (POWER) has no meaning");
    child.signal("INT");
    child.finish().exits(130).warns("interrupted");
}

#[test]
fn the_memory_component_alone_writes_no_table_and_reads_are_told_by_level() {
    let lab = Lab::new();
    let line = "-n2 -i20000 -u50 -d400 --list-mb 1 --dummy-persist --collect-stats --db st";
    let out = db_test(&lab, line).exits(0).says("Total files created: 0\n");
    let told = |name: &str| -> f64 {
        let line = out.stdout.lines().find_map(|line| line.strip_prefix(name));
        number(line.unwrap_or_else(|| panic!("no {name} in {}", out.told())))
    };
    assert!(told("flushes: ") > 0.0 && told("flush_bytes: ") == 0.0, "{}", out.told());
    assert!(told("Reads from membuffer: ") > 0.0, "{}", out.told());
    assert_eq!((told("Reads from memtable: "), told("Reads from disk: ")), (0.0, 0.0));
    let by_level = ["from membuffer", "from memtable", "from disk", "found nowhere"];
    let sum: f64 = by_level.iter().map(|level| told(&format!("Reads {level}: "))).sum();
    assert_eq!(sum, told("Reads total: "), "{}", out.told());
    assert_eq!(told("Updates directly membuffer: "), told("Updates total: "));
    let disk =
        db_test(&lab, "-n1 -i2000 -u0 -d100 -w1 --list-mb 1 --collect-stats --db d").exits(0);
    assert!(disk.stdout.contains("Reads from membuffer: "), "{}", disk.told());
}

#[test]
fn times_are_printed_as_they_go_and_by_operation() {
    let lab = Lab::new();
    let out = db_test(&lab, "-n1 -i1000 -u50 -d800 --time-test --latency 1").exits(0);
    let rates: Vec<f64> = out
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("Throughput: ")?.strip_suffix(" Mops"))
        .map(number)
        .collect();
    assert!(rates.first().is_some_and(|rate| *rate > 0.0), "{}", out.told());
    assert_eq!(number(cells(&out, "insr")[0]), 0.0, "updates come in the tenth second");
    let mut lines = out.stdout.lines().skip_while(|line| !line.starts_with("#thread srch_suc"));
    let means: Vec<f64> = lines.nth(1).unwrap().split_whitespace().map(number).collect();
    assert_eq!((means.len(), means[0]), (7, 1.0), "{}", out.told());
    assert!(means[1] > 0.0 && means[2] > 0.0 && means[3] == 0.0, "{}", out.told());
    let updates = db_test(&lab, "-n1 -i1000 -u100 -d100 --latency 5").exits(0);
    let mut lines = updates.stdout.lines().skip_while(|line| !line.starts_with("#thread srch"));
    let means: Vec<f64> = lines.nth(1).unwrap().split_whitespace().map(number).collect();
    assert!(means[1] == 0.0 && means[3] > 0.0 && means[5] > 0.0, "{}", updates.told());
    let plain = db_test(&lab, "-n1 -i1000 -u50 -d100").exits(0);
    assert!(!plain.stdout.contains("Throughput") && !plain.stdout.contains("#thread"));
}
