//! `keyrack report`, and what `--auto-plot` leaves beside a report.

mod example;
mod page;
mod record;

use crate::support::{Lab, ROTATION, only_report};

/// A run of two engines with samples.
const BENCH: &str = "bench work.lua --backend btree,skiplist --threads 1,2 --repeat 2 --secs 0.3 \
                     --timeline 0.05 --report-dir out";

fn measured() -> Lab {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run(&format!("{BENCH} --auto-plot")).exits(0).warns("drew out/");
    lab
}

#[test]
fn figures_and_page_lie_beside_a_report() {
    let lab = measured();
    let report = only_report(&lab, "out");
    let figures = lab.names(&format!("{report}/figures"));
    for name in [
        "comparison_engines.svg",
        "latency_spectrum_rotation.svg",
        "scalability.svg",
        "throughput_compare.svg",
        "timeline_throughput.svg",
    ] {
        assert!(figures.iter().any(|figure| figure == name), "no {name} in {figures:?}");
    }
    let page = lab.read(&format!("{report}/report.html"));
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("rotation"));
    assert!(lab.read(&format!("{report}/plot.gp")).contains("gnuplot"));

    // The same, later and elsewhere, of the newest report of a directory.
    lab.run("report plot out --format svg,pdf --out later").exits(0);
    let svg = |names: Vec<String>| -> Vec<String> {
        names.into_iter().filter(|name| name.ends_with(".svg")).collect()
    };
    assert_eq!(svg(lab.names("later")), figures);
    assert_eq!(lab.names("later").len(), 2 * figures.len());
    assert_eq!(
        lab.read("later/scalability.svg"),
        lab.read(&format!("{report}/figures/scalability.svg"))
    );
    lab.run("report html out --out page.html").exits(0).warns("wrote page.html");
    assert_eq!(lab.read("page.html"), page);

    // A run against itself: every row is there, and nothing has changed.
    let same = lab.run(&format!("report compare {report} {report}")).exits(0);
    assert_eq!(same.stdout, lab.run(&format!("compare {report} {report}")).exits(0).stdout);
    lab.run(&format!("report html {report} {report}/run.json --out two.html")).exits(0);
    assert!(lab.read("two.html").contains(" against "));
}

/// Once PNG took `rsvg-convert` or a browser, and the fonts of the machine.
#[test]
fn pictures_need_no_program_and_no_font_of_the_machine() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run("bench work.lua --backend btree --ops 500 --report json:run.json").exits(0);
    let plot = "PATH=/nowhere FONTCONFIG_FILE=/nowhere \"$KEYRACK\" report plot run.json";
    lab.shell(&format!("{plot} --format png,pdf --out light")).exits(0).warns("in light/");
    lab.shell(&format!("{plot} --format png,pdf --theme dark --out dark")).exits(0);
    assert!(lab.names("light").contains(&"throughput_compare.png".to_owned()));
    assert_eq!(lab.names("light"), lab.names("dark"));
    for name in lab.names("light") {
        let (light, dark) =
            (lab.bytes(&format!("light/{name}")), lab.bytes(&format!("dark/{name}")));
        let head: &[u8] = if name.ends_with(".png") { b"\x89PNG\r\n\x1a\n" } else { b"%PDF-1.4" };
        assert!(light.starts_with(head) && dark.starts_with(head), "{name}");
        assert_ne!(light, dark, "{name}");
    }
}

#[test]
fn bad_input_is_one_line() {
    let lab = Lab::with("work.lua", ROTATION);
    lab.run("bench work.lua --backend btree --ops 500 --report json:run.json").exits(0);
    lab.make_dir("bad");
    lab.make_dir("odd");
    lab.write("bad/run.json", "{}");
    lab.write("odd/run.json", lab.read("run.json"));
    lab.write("odd/timeline.tsv", "not\tit\n");
    lab.write("colors", "btree red blue circle\n");
    for (line, words) in [
        ("report plot run.json --format gif", ["--format: unknown format 'gif'", "svg, pdf, png"]),
        ("report plot run.json --theme dusk", ["--theme: unknown theme 'dusk'", "light, dark"]),
        ("report plot nowhere", ["nowhere", "No such file"]),
        ("report html bad", ["cannot read run 'bad/run.json'", "missing field"]),
        ("report html odd", ["odd/timeline.tsv', line 1", "no column 'workload'"]),
        ("report html run.json --palette colors", ["'colors', line 1", "'red' is not a color"]),
        ("report plt run.json", ["unknown command 'plt'", "did you mean 'plot'"]),
        ("report html", ["missing", "see --help"]),
    ] {
        lab.run(line).refuses(&words);
    }
}

/// As keybench's script: PNG, colours from its palette, its names of figures.
#[test]
fn the_plot_script_of_keybench_is_a_name() {
    let lab = Lab::with("work.lua", ROTATION);
    let line = "work.lua --backend btree,skiplist --threads 1,2 --secs 0.2 --timeline 0.05 \
                --report-dir out --auto-plot";
    lab.called("keybench", line).exits(0);
    let report = only_report(&lab, "out");
    let drawn = lab.names(&format!("{report}/figures"));
    assert!(!drawn.is_empty() && drawn.iter().all(|name| name.ends_with(".png")), "{drawn:?}");
    // The outer directory means its newest report.
    lab.called("plot.py", "out --out pictures").exits(0);
    let pictures = lab.names("pictures");
    for name in [
        "throughput_compare.png",
        "scalability.png",
        "latency_p50_threads_rotation.png",
        "latency_p99_threads_rotation.png",
        "timeline_throughput.png",
        "timeline_system_rotation.png",
    ] {
        assert!(pictures.iter().any(|picture| picture == name), "no {name} in {pictures:?}");
    }
    lab.write("PALETTE", "BTREE=#0102fd\nSKIPLIST=#21825D\n");
    let plot = |extra: &str| {
        let line = format!("{report} --format svg --out colored {extra}");
        lab.called("plot.py", &line).exits(0);
        lab.read("colored/scalability.svg")
    };
    assert!(!plot("").contains("#0102fd"));
    assert!(plot("--palette PALETTE").to_lowercase().contains("#0102fd"));
    let variable = ("BACKENDPALETTE", "PALETTE");
    lab.called_with("plot.py", variable, "out --format svg").exits(0);
    assert!(lab.read("figures/scalability.svg").to_lowercase().contains("#0102fd"));
    lab.called_with("plot.py", ("BACKENDPALETTE", "none"), "out").exits(1).warns("none");
    lab.called("plot.py", "nowhere").exits(1).warns("nowhere");
    lab.called("plot.py", &format!("{report} --format gif")).exits(1).warns("unknown format 'gif'");
}
