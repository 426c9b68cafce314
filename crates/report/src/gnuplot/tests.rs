//! The script of runs made by hand: its text, its choice of figures, and what gnuplot makes of it.
//!
//! With `KEYRACK_REWRITE=1` the file of `golden/` is written instead of compared. The tests that
//! draw are skipped, loudly, where there is no gnuplot.

use crate::gnuplot_script;
use crate::tests::golden;
use crate::tests::sample::{open, run};
use crate::tests::shown::{point, small_run, swept, timeline};
use keyrack_record::{Point, Run};
use std::path::Path;
use std::process::Command;

/// Bytes that an empty picture of this size does not reach.
const PNG_BYTES_MIN: usize = 5_000;
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The names of the files that a script draws.
fn outputs(script: &str) -> Vec<&str> {
    let names = script.lines().filter_map(|line| line.strip_prefix("set output 'figures/"));
    names.filter_map(|rest| rest.split(".'").next()).collect()
}

/// What gnuplot made of a run: the names and the bytes of the files in `figures/`.
struct Drawn {
    files: Vec<(String, Vec<u8>)>,
    /// Names in the directory of the script.
    beside: Vec<String>,
}

impl Drawn {
    fn names(&self) -> Vec<&str> {
        self.files.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// Draws `run` in a directory of its own; `None` without gnuplot. gnuplot must have nothing to say.
#[expect(clippy::disallowed_methods, reason = "the files are the test's own")]
fn drawn(run: &Run, timeline: Option<&str>, before: &str) -> Option<Drawn> {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("plot.gp"), gnuplot_script(run)).unwrap();
    if let Some(timeline) = timeline {
        std::fs::write(dir.path().join("timeline.tsv"), timeline).unwrap();
    }
    let mut command = Command::new("gnuplot");
    // Where the locale has no degree sign, gnuplot says so.
    command.env("LC_ALL", "C.UTF-8");
    let Ok(output) = command.current_dir(dir.path()).args(["-e", before, "plot.gp"]).output()
    else {
        eprintln!("SKIPPED: gnuplot is not installed");
        return None;
    };
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && talk.trim().is_empty(), "{talk}");
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    };
    let figures = dir.path().join("figures");
    let file = |name: String| {
        let bytes = std::fs::read(figures.join(&name)).unwrap();
        (name, bytes)
    };
    Some(Drawn {
        files: names(&figures).into_iter().map(file).collect(),
        beside: names(dir.path()),
    })
}

/// All but the figures of the system, which are many and alike.
#[test]
fn the_text_of_a_script() {
    let mut run = small_run();
    run.points.truncate(4);
    let script = gnuplot_script(&run);
    let (shown, _) = script.split_once("\n# ---- timeline_system").unwrap();
    golden("plot.gp", shown.as_bytes());
}

#[test]
fn every_figure_is_a_picture() {
    let run = small_run();
    let script = gnuplot_script(&run);
    let mut wanted: Vec<String> =
        outputs(&script).iter().map(|name| format!("{name}.png")).collect();
    wanted.sort_unstable();
    let Some(drawn) = drawn(&run, Some(&timeline(&run)), "") else { return };
    assert_eq!(drawn.names(), wanted);
    assert_eq!(wanted.len(), 10);
    for (name, bytes) in &drawn.files {
        assert!(bytes.starts_with(PNG_SIGNATURE), "{name}");
        assert!(bytes.len() > PNG_BYTES_MIN, "{name} has {} bytes", bytes.len());
    }
}

/// No file, or one with its first line only: a run without `--timeline`.
#[test]
fn without_samples_there_are_no_figures_over_time() {
    let run = small_run();
    let head = timeline(&run).lines().next().unwrap().to_owned() + "\n";
    for samples in [None, Some(head.as_str())] {
        let Some(drawn) = drawn(&run, samples, "") else { return };
        assert_eq!(
            drawn.names(),
            [
                "latency_p50_threads_ycsb_a.png",
                "latency_p99_threads_ycsb_a.png",
                "response_paced.png",
                "scalability.png",
                "sweep_batches.png",
                "throughput_compare.png"
            ]
        );
    }
}

/// Samples of other cells give axes, and no talk of empty plots.
#[test]
fn cells_without_samples_are_drawn_in_silence() {
    let run = small_run();
    let text = timeline(&run).replace("ycsb/a\t", "other\t");
    let Some(drawn) = drawn(&run, Some(&text), "") else { return };
    assert!(drawn.names().contains(&"timeline_system_ycsb_a.png"));
}

#[test]
fn the_format_can_be_chosen() {
    let mut run = small_run();
    run.points.truncate(4);
    for (format, signature) in [("svg", "<?xml"), ("pdf", "%PDF")] {
        let Some(drawn) = drawn(&run, None, &format!("format='{format}'")) else { return };
        assert_eq!(drawn.files.len(), 4);
        for (name, bytes) in &drawn.files {
            assert!(name.ends_with(format), "{name}");
            assert!(bytes.starts_with(signature.as_bytes()), "{name}");
        }
    }
}

/// Whatever a script or a command line calls itself, it stays text.
#[test]
fn names_are_never_commands() {
    let nasty = "a'b\"c`touch pwned`\n$(touch pwned) @macro {/Bold x_1^2}\\' \\";
    let mut run = small_run();
    for point in &mut run.points {
        point.cell.workload = format!("{nasty}/{}", point.cell.workload);
        point.cell.engine = format!("{nasty}/{}", point.cell.engine);
        point.engine_version = format!("system('touch pwned') {nasty} {}", point.engine_version);
        if let Some(sweep) = &mut point.cell.sweep {
            sweep.param = nasty.to_owned();
        }
        for op in &mut point.summary.ops {
            op.op = format!("{nasty} {}", op.op);
        }
        point.flags.push(nasty.to_owned());
    }
    run.header.backends.clear();
    run.header.argv.push(nasty.to_owned());
    run.header.version = nasty.to_owned();
    run.header.warnings.push(nasty.to_owned());
    run.interrupted = Some(nasty.to_owned());
    run.probes[0].fields[1].1 = nasty.to_owned();
    let samples = timeline(&small_run());
    let Some(drawn) = drawn(&run, Some(&samples), "") else { return };
    assert_eq!(drawn.files.len(), 10);
    assert_eq!(drawn.beside, ["figures", "plot.gp", "timeline.tsv"]);
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    assert!(drawn.names().iter().all(|name| name.chars().all(safe)), "{:?}", drawn.names());
}

/// More engines than colours, more workloads than a file takes, numbers at their ends.
#[test]
fn extremes_are_drawn() {
    let mut points = Vec::new();
    for workload in 0..9 {
        for engine in 0..12 {
            let rate = [0.0, 1.0, 1e3, 1e12][(workload + engine) % 4];
            let name = format!("engine {engine}");
            points.push(point(&format!("workload {workload}"), &name, 1, &[rate], &[]));
        }
    }
    points.push(swept(point("one", "engine 1", 3, &[5.0], &[]), -5));
    points.push(swept(point("one", "engine 1", 3, &[6.0], &[]), 0));
    points.push(swept(point("one", "engine 2", 7, &[7.0], &[]), i64::MAX));
    let run = run(points);
    let script = gnuplot_script(&run);
    let bars = outputs(&script).iter().filter(|name| name.starts_with("throughput")).count();
    assert_eq!(bars, 5);
    let Some(drawn) = drawn(&run, None, "") else { return };
    assert_eq!(drawn.files.len(), bars + 4, "{:?}", drawn.names());
}

#[test]
fn a_run_without_points_draws_nothing() {
    let script = gnuplot_script(&run(Vec::new()));
    assert_eq!(outputs(&script), [""; 0]);
    assert!(script.contains("mkdir -p figures"));
}

/// A figure over an axis needs two values on it.
#[test]
fn one_value_is_no_axis() {
    let figures = |points: Vec<Point>| -> Vec<String> {
        let script = gnuplot_script(&run(points));
        let names = outputs(&script).into_iter().map(str::to_owned);
        names.filter(|name| !name.starts_with("timeline")).collect()
    };
    let at = |threads| point("w", "btree", threads, &[5.0], &[]);
    let mut unloaded = at(1);
    unloaded.repeats[0].load = None;
    assert_eq!(figures(vec![unloaded.clone()]), ["throughput_compare"]);
    assert_eq!(figures(vec![swept(unloaded, 1)]), ["throughput_compare"]);
    assert_eq!(
        figures(vec![at(1), at(2)]),
        [
            "throughput_compare",
            "scalability",
            "latency_p50_threads_w",
            "latency_p99_threads_w",
            "seed_progress"
        ]
    );
    assert_eq!(
        figures(vec![swept(at(1), 1), swept(at(1), 8)]),
        ["throughput_compare", "sweep_w", "seed_progress"]
    );
    assert_eq!(figures(vec![open("b", 5.0, &[1.0], 9)]), ["throughput_compare"]);
    assert_eq!(
        figures(vec![open("b", 5.0, &[1.0], 9), open("b", 6.0, &[1.0], 9)]),
        ["throughput_compare", "response_paced"]
    );
}

/// The lines of the data block of a figure, without its comments.
fn data<'a>(script: &'a str, figure: &str) -> Vec<&'a str> {
    let (_, after) = script.split_once(&format!("${figure} << EOD\n")).unwrap();
    let (block, _) = after.split_once("EOD\n").unwrap();
    block.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn bars_show_the_most_threads_and_the_smallest_swept_value() {
    let script = gnuplot_script(&run(vec![
        swept(point("w", "btree", 1, &[11.0], &[]), 1),
        swept(point("w", "btree", 4, &[48.0], &[]), 8),
        swept(point("w", "btree", 4, &[40.0, 41.0, 44.0], &[]), 1),
        swept(point("w", "skiplist", 1, &[99.0], &[]), 1),
    ]));
    assert_eq!(data(&script, "throughput_compare"), ["0 41 40 44 41", "0 0 0 0 n/a"]);
    assert!(script.contains("'4 threads, batch=1'"), "{script}");
    assert_eq!(data(&script, "scalability"), ["1 11 11 11", "4 41 40 44", "1 99 99 99"]);
}

#[test]
fn a_cell_that_was_measured_twice_is_drawn_once() {
    let at = |rate| point("w", "btree", 1, &[rate], &[]);
    let script = gnuplot_script(&run(vec![at(5.0), at(7.0)]));
    assert_eq!(data(&script, "throughput_compare"), ["0 5 5 5 5"]);
}

/// With fewer than a hundred calls a 99th percentile is the maximum.
#[test]
fn a_tail_of_few_calls_is_not_drawn() {
    let at = |threads, calls| {
        let mut point = point("w", "btree", threads, &[5.0], &[("put", 700)]);
        point.summary.ops[1].calls = calls;
        point
    };
    let panels = |calls| {
        let script = gnuplot_script(&run(vec![at(1, calls), at(2, 5000)]));
        ["p50", "p99"].map(|p| data(&script, &format!("latency_{p}_threads_w")).len())
    };
    assert_eq!(panels(100), [4, 4]);
    assert_eq!(panels(99), [4, 3]);
}

#[test]
fn unequal_durability_is_in_the_legend() {
    let mut points = vec![point("w", "a", 1, &[5.0], &[]), point("w", "b", 1, &[5.0], &[])];
    assert!(!gnuplot_script(&run(points.clone())).contains("[none]"));
    points[1].durability = "sync".to_owned();
    let script = gnuplot_script(&run(points));
    assert!(script.contains("'a 1 [none]'") && script.contains("'b 1 [sync]'"), "{script}");
}

#[test]
fn engines_keep_the_order_of_the_command_line() {
    let at = |engine| point("w", engine, 1, &[5.0], &[]);
    let mut run = run(vec![at("c"), at("a"), at("b")]);
    run.header.backends = ["b", "failed", "a"].map(str::to_owned).to_vec();
    let script = gnuplot_script(&run);
    let (_, legend) = script.rsplit_once("plot NaN").unwrap();
    let place = |label: &str| legend.find(label).unwrap();
    assert!(place("'b 1'") < place("'a 1'") && place("'a 1'") < place("'c 1'"), "{legend}");
    assert!(!script.contains("failed"));
}

/// Samples do not say at which rate they were taken.
#[test]
fn cells_that_differ_in_rate_alone_have_no_samples() {
    let script = gnuplot_script(&small_run());
    assert!(script.contains("is_cell('ycsb/a', 'btree 1', 4, 1)"), "{script}");
    assert!(script.contains("is_cell('batches', 'btree 1', 1, 1)"), "{script}");
    assert!(!script.contains("is_cell('paced'"), "{script}");
}

#[test]
fn workloads_of_one_file_name_have_files_of_their_own() {
    let at = |workload: &str, threads| point(workload, "btree", threads, &[5.0], &[]);
    let script = gnuplot_script(&run(vec![at("a/b", 1), at("a/b", 2), at("a_b", 1), at("a_b", 2)]));
    let names = outputs(&script);
    assert!(names.contains(&"latency_p50_threads_a_b-2"), "{names:?}");
    for (index, name) in names.iter().enumerate() {
        assert!(!names[..index].contains(name), "{name} twice");
    }
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    assert_eq!(gnuplot_script(&small_run()), gnuplot_script(&small_run()));
}
