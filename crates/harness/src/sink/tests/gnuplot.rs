//! Candlestick scripts: the published example, the places on the x axis, and what gnuplot makes of
//! them.

use super::notebook::example;
use super::sample::kept_run;
use super::*;
use std::process::{Command, Stdio};

type Trials = Vec<(String, Vec<Value>)>;

fn plot(trials: &Trials) -> Candlesticks<'_> {
    Candlesticks {
        machine: Some("mat"),
        cores: 2,
        normalize: Normalize::PerTest,
        yrange: None,
        trials,
    }
}

/// A trial whose threads had these rates.
fn trial(key: &str, statistic: &str, rates: &[f64]) -> (String, Vec<Value>) {
    let row = |rate: &f64| Value::Object(vec![(statistic.to_owned(), Value::Real(*rate))]);
    (key.to_owned(), rates.iter().map(row).collect())
}

/// The first numbers of the lines of the n-th block.
fn places(script: &str, block: usize) -> Vec<String> {
    let data = script.split("notitle\n").last().unwrap();
    let block = data.split("e\n").nth(block).unwrap();
    block.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// gnuplot's picture of a script. It must have nothing to say.
fn drawn(script: &str) -> Vec<u8> {
    let child = Command::new("gnuplot")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        panic!("this test draws with gnuplot, which is not installed (Debian: gnuplot-nox)");
    };
    let mut input = child.stdin.take().unwrap();
    input.write_all(script.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && talk.trim().is_empty(), "{talk}\n{script}");
    output.stdout
}

fn is_picture(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x89PNG\r\n\x1a\n") && bytes.windows(4).any(|chunk| chunk == b"IEND")
}

#[test]
fn the_published_example_comes_out() {
    let example = example();
    let trials: Trials =
        example.trials.into_iter().map(|trial| (trial.key(), trial.rows)).collect();
    let script = plot(&trials).script().unwrap();
    let wanted = r#"set title "mat (2 cores)"
set terminal png
set termoption noenhanced
set xrange [0.96:1.44]
set xtics rotate by 45 right ("rw1/mb" 1, "rw1/mb" 1.2, "rw1/mb" 1.4) font "Verdana,9"
set key top left Left reverse
set ylabel "count, normalized per test"
plot  '-' using 1:($3/$6):($2/$6):($5/$6):($4/$6) with candlesticks lt 1 title 'ops_per_sec', \
 '-' using 1:($2/$3):($2/$3):($2/$3):($2/$3) with candlesticks lt 1 notitle, \
 '-' using 1:($3/$6):($2/$6):($5/$6):($4/$6) with candlesticks lt 2 title 'puts_per_sec', \
 '-' using 1:($2/$3):($2/$3):($2/$3):($2/$3) with candlesticks lt 2 notitle, \
 '-' using 1:($3/$6):($2/$6):($5/$6):($4/$6) with candlesticks lt 3 title 'gets_per_sec', \
 '-' using 1:($2/$3):($2/$3):($2/$3):($2/$3) with candlesticks lt 3 notitle
1 1398395.26601 1400193.98096 1403791.41085 1405590.1258 1401992.6959
e
1 1401992.6959 1401992.6959
e
1.2 1324397.45602 1324421.10584 1324468.40549 1324492.05531 1324444.75567
e
1.2 1324444.75567 1324444.75567
e
1.4 1481151.35726 1485180.30276 1493238.19378 1497267.13928 1489209.24827
e
1.4 1489209.24827 1489209.24827
e
"#;
    for (found, expected) in script.lines().zip(wanted.lines()) {
        // The example was printed from more digits than it shows: the last one may differ.
        let numbers = |line: &str| -> Option<Vec<f64>> {
            line.split(' ').map(|word| word.parse().ok()).collect()
        };
        match (numbers(found), numbers(expected)) {
            (Some(found), Some(expected)) => {
                let close = |(a, b): (&f64, &f64)| (a - b).abs() < 2e-5;
                assert!(found.iter().zip(&expected).all(close), "{found:?} {expected:?}");
                assert_eq!(found.len(), expected.len());
            }
            _ => assert_eq!(found, expected),
        }
    }
    assert_eq!(script.lines().count(), wanted.lines().count());
}

#[test]
fn trials_tables_tests_and_statistics_have_their_distances() {
    let statistic = "ops_per_sec";
    let mut trials = vec![
        trial("rw3/mb/1", statistic, &[4.0]),
        trial("rw3/mb/0", statistic, &[2.0]),
        trial("x10/rw3/mb/0", statistic, &[8.0]),
        trial("x9/rw3/mb/0", statistic, &[6.0]),
        trial("rw3/skiplist/0", statistic, &[10.0]),
        trial("same/mb/0", "puts_per_sec", &[3.0]),
        trial("wd1/mb/0", statistic, &[5.0]),
    ];
    let script = plot(&trials).script().unwrap();
    assert_eq!(places(&script, 0), ["1", "1.015", "1.055", "1.095", "1.135", "1.215"], "{script}");
    assert_eq!(places(&script, 2), ["1.415"], "{script}");
    let labels = script.lines().find(|line| line.starts_with("set xtics")).unwrap();
    assert!(
        labels.contains(
            "(\"rw3/mb\" 1.0075, \"x9/rw3/mb\" 1.055, \"x10/rw3/mb\" 1.095, \"rw3/skiplist\" \
             1.135, \"wd1/mb\" 1.215, \"same/mb\" 1.415)"
        ),
        "{labels}"
    );
    assert!(script.contains("set xrange [0.96:1.455]\n"), "{script}");
    // The first trial of each test is the measure of its others.
    let medians = "1 2 2\n1.015 4 2\n1.055 6 2\n1.095 8 2\n1.135 10 2\n1.215 5 5\ne\n";
    assert!(script.contains(medians), "{script}");
    // The order in which trials were measured does not matter.
    trials.reverse();
    assert_eq!(plot(&trials).script().unwrap(), script);
    assert!(is_picture(&drawn(&script)));
}

#[test]
fn values_are_divided_by_what_was_asked_for() {
    let trials = vec![
        trial("rw1/mb/0", "ops_per_sec", &[2.0, 6.0]),
        trial("rw3/mb/0", "ops_per_sec", &[10.0]),
        trial("rw3/mb/0", "gets_per_sec", &[0.0]),
    ];
    let script = |normalize| Candlesticks { normalize, ..plot(&trials) }.script().unwrap();
    let none = script(Normalize::None);
    assert!(none.contains("set ylabel \"count\"\n") && none.contains("1 4 1\n"), "{none}");
    let first = script(Normalize::FirstTest);
    assert!(first.contains("set ylabel \"normalized count (1=4.000000)\"\n"), "{first}");
    assert!(first.contains("1 4 4\n") && first.contains("1.08 10 4\n"), "{first}");
    let each = script(Normalize::PerTest);
    assert!(each.contains("1 4 4\n") && each.contains("1.08 10 10\n"), "{each}");
    assert!(each.contains("1.28 0 1\n"), "nothing is divided by 0: {each}");
}

#[test]
fn a_range_of_y_is_passed_on() {
    let trials = vec![trial("rw1/mb/0", "ops_per_sec", &[2.0])];
    let script = Candlesticks { yrange: Some("0:2"), ..plot(&trials) }.script().unwrap();
    assert!(script.contains("set yrange [0:2]\n"), "{script}");
    assert!(is_picture(&drawn(&script)));
}

#[test]
fn nothing_to_draw_is_no_script() {
    assert_eq!(plot(&Vec::new()).script(), None);
    let trials = vec![trial("same/mb/0", "rounds", &[2.0]), ("x/y/0".to_owned(), Vec::new())];
    assert_eq!(plot(&trials).script(), None);
}

/// A name that ended its text ran commands.
#[test]
fn names_stay_within_their_quotes() {
    let evil = "a\"b\\c`touch ran`'d'{x_1}^@e\nf/mb/0";
    let trials = vec![trial(evil, "ops_per_sec", &[2.0, 3.0, 5.0])];
    let script = Candlesticks { machine: Some(evil), ..plot(&trials) }.script().unwrap();
    assert!(!script.contains('`'), "{script}");
    assert!(is_picture(&drawn(&script)));
}

#[test]
fn a_recorded_run_is_drawn() {
    let script = rendered(SinkKind::Gnuplot, Dialect::Keyrack, &kept_run());
    assert!(script.contains("\"mixed t4/btree\" "), "{script}");
    assert!(is_picture(&drawn(&script)));
}
