//! Palettes, samples, and which charts a run gives.

use super::chart::{Body, Chart};
use super::palette::{Look, Palette, Shape, rgb};
use super::timeline::{Sample, averaged};
use super::{Charts, Recorded, Timeline};
use crate::tests::sample::{around, closed, draw, open, run};
use crate::tests::shown::{COLUMNS, bare, recorded};
use crate::{Error, Format, Theme};
use keyrack_record::{Counters, Part, Traffic};

fn names(charts: &Charts) -> Vec<&str> {
    charts.names().collect()
}

fn chart<'a>(charts: &'a Charts, name: &str) -> &'a Chart {
    charts.charts.iter().find(|chart| chart.name == name).unwrap()
}

#[test]
fn a_run_gives_every_chart_that_it_has_numbers_for() {
    let charts = Charts::of(&[recorded("one")], &Palette::default(), &mut draw(1));
    assert_eq!(
        names(&charts),
        [
            "throughput_compare",
            "scalability",
            "sweep_batches",
            "comparison_engines",
            "latency_p50_threads_ycsb_a",
            "latency_p99_threads_ycsb_a",
            "response_paced",
            "latency_spectrum_ycsb_a",
            "latency_spectrum_batches",
            "latency_spectrum_paced",
            "timeline_throughput",
            "seed_progress",
            "stalls",
            "amplification",
            "timeline_system_ycsb_a",
            "timeline_system_batches",
            "engine_stats_skiplist_ycsb_a",
            "engine_stats_btree_ycsb_a",
            "engine_stats_btree_batches",
        ]
    );
    let heading = &charts.headings[0];
    assert_eq!(heading.machine, "Z80 at 4 MHz, 2 CPUs, keyrack 0.1.0, 2023-11-14T22:13:20Z");
    assert_eq!(heading.engines, "btree 1, skiplist 1");
    assert_eq!(heading.command, "keyrack bench ycsb/a -P 'name=it'\\''s'");
    assert_eq!(heading.warnings, ["this is a debug build"]);
}

#[test]
fn without_samples_nothing_is_shown_over_time() {
    let mut bare = recorded("one");
    bare.timeline = Timeline::default();
    let charts = Charts::of(&[bare], &Palette::default(), &mut draw(1));
    let names = names(&charts);
    assert!(names.contains(&"scalability"), "{names:?}");
    let over_time = ["timeline", "seed_", "stalls", "engine_stats"];
    assert!(!names.iter().any(|name| over_time.iter().any(|begin| name.starts_with(begin))));
}

#[test]
fn several_runs_are_told_apart_and_set_against_the_first() {
    let of = |name: &str, rate: f64| bare(name, run(vec![closed("btree", 1, &around(rate), 500)]));
    let runs = [of("before", 1e5), of("after", 2e5)];
    let charts = Charts::of(&runs, &Palette::default(), &mut draw(1));
    let labels: Vec<&str> = charts.series.iter().map(|series| series.label.as_str()).collect();
    assert_eq!(labels, ["btree 1 (before)", "btree 1 (after)"]);
    let (first, second) = (&charts.series[0].look, &charts.series[1].look);
    assert_eq!(first.light, second.light, "an engine keeps its colour");
    assert_ne!(first.dash, second.dash);
    let bars =
        charts.pictures(Format::Svg, Theme::Light).find(|(name, _)| *name == "throughput_compare");
    let bars = String::from_utf8(bars.unwrap().1).unwrap();
    let outline = format!("fill=\"#ffffff\" stroke=\"{}\"", second.light);
    assert_eq!(bars.matches(&outline).count(), 2, "a bar and its place in the legend");
    let forest = chart(&charts, "comparison_runs");
    assert_eq!(forest.title, "after against before");
    let Body::Forest(rows) = &forest.body else { panic!("{forest:?}") };
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].ratio, rows[0].verdict, rows[0].series), (2.0, "faster", 1));
    assert!(rows[0].interval.is_some_and(|(low, high)| low < 2.0 && 2.0 < high));
    // Both are in the bars of one workload.
    let Body::Bars(panels) = &chart(&charts, "throughput_compare").body else { panic!() };
    assert_eq!(panels[0].groups.len(), 1);
    assert_eq!(panels[0].groups[0].bars.iter().flatten().count(), 2);
}

#[test]
fn engines_with_other_promises_are_not_in_the_forest() {
    let mut points = vec![closed("btree", 1, &around(1e5), 500)];
    points.push(closed("skiplist", 1, &around(2e5), 500));
    points.push(closed("flodb", 1, &around(3e5), 500));
    points[2].durability = "sync".to_owned();
    let recorded = bare("r", run(points));
    let charts = Charts::of(&[recorded], &Palette::default(), &mut draw(1));
    let Body::Forest(rows) = &chart(&charts, "comparison_engines").body else { panic!() };
    let labels: Vec<&str> = rows.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["skiplist"]);
    assert_eq!(chart(&charts, "comparison_engines").title, "Operations per second against btree");
}

/// An engine in memory that was listed first left those on disk without any comparison.
#[test]
fn each_durability_has_a_base_of_its_own() {
    let mut points: Vec<_> = [("btree", 1e5), ("flodb", 2e5), ("skiplist", 3e5), ("fjall", 1e5)]
        .map(|(engine, rate)| closed(engine, 1, &around(rate), 500))
        .to_vec();
    points[1].durability = "os".to_owned();
    points[3].durability = "os".to_owned();
    let mut run = run(points);
    run.header.backends = ["btree", "flodb", "skiplist", "fjall"].map(str::to_owned).to_vec();
    let recorded = bare("r", run);
    let charts = Charts::of(std::slice::from_ref(&recorded), &Palette::default(), &mut draw(1));
    let forest = chart(&charts, "comparison_engines");
    assert_eq!(forest.title, "Operations per second at equal durability");
    let Body::Forest(rows) = &forest.body else { panic!("{forest:?}") };
    let rows: Vec<(&str, f64)> = rows.iter().map(|row| (row.label.as_str(), row.ratio)).collect();
    assert_eq!(rows, [("skiplist to btree", 3.0), ("fjall to flodb", 0.5)]);
    let engines = crate::compare_engines(&recorded.run, None).unwrap();
    assert_eq!(engines.bases, ["btree", "flodb"]);
    assert!(engines.refused.is_empty(), "{engines:?}");
    let text = crate::render_engines_text(&engines);
    assert!(text.contains("fjall to flodb") && text.contains("0.50 (0.50, 0.50)"), "{text}");
}

/// The record knows what the workload asked for; the chart showed amounts alone.
#[test]
fn amplification_has_the_factors() {
    let mut points = vec![closed("flodb", 1, &around(1e5), 500)];
    for repeat in &mut points[0].repeats {
        repeat.traffic = Some(Traffic {
            user_written_bytes: 1000,
            written_bytes: Some(2500),
            disk_bytes: Some(300),
            live_bytes: Some(200),
            ..Traffic::default()
        });
    }
    let recorded = bare("r", run(points));
    let charts = Charts::of(&[recorded], &Palette::default(), &mut draw(1));
    let Body::Bars(panels) = &chart(&charts, "amplification").body else { panic!("no bars") };
    let bars: Vec<(&str, f64)> = panels
        .iter()
        .map(|panel| (panel.title.as_str(), panel.groups[0].bars[0].unwrap().dot.y))
        .collect();
    // Nothing was read: there is no read amplification, and none of 0.
    assert_eq!(bars, [("write amplification", 2.5), ("space amplification", 1.5)]);
}

#[test]
fn an_open_loop_has_a_spectrum_of_its_response() {
    let points = vec![open("btree", 1000.0, &[1.0, 1.1], 40_000)];
    let recorded = bare("r", run(points));
    let charts = Charts::of(&[recorded], &Palette::default(), &mut draw(1));
    let Body::Lines(panels) = &chart(&charts, "latency_spectrum_paced").body else { panic!() };
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["response of units", "get"]);
}

#[test]
fn samples_of_repeats_are_averaged_and_bounded() {
    let sample = |repeat, elapsed_s, value| Sample { repeat, elapsed_s, value };
    let two = [sample(1, 1.0, 10.0), sample(2, 1.02, 30.0), sample(1, 2.0, 50.0)];
    assert_eq!(averaged(&two, None, 10.0, 100), [(1.01, 2.0)], "then there is one alone");
    assert_eq!(averaged(&two, Some(1), 1.0, 100), [(1.0, 10.0), (2.0, 50.0)]);
    let many: Vec<Sample> = (0..5000).map(|i| sample(1, f64::from(i), 1.0)).collect();
    assert!(averaged(&many, None, 1.0, 100).len() <= 101);
    assert!(averaged(&[], None, 1.0, 100).is_empty());
}

/// The log of a store seemed to shrink where two of three repeats had ended.
#[test]
fn what_few_repeats_reach_is_not_in_an_average() {
    let sample = |repeat, elapsed_s, value| Sample { repeat, elapsed_s, value };
    let mut three: Vec<Sample> =
        (1..=3).flat_map(|repeat| [1.0, 2.0].map(|s| sample(repeat, s, 100.0 * s))).collect();
    three.push(sample(3, 3.0, 30.0));
    assert_eq!(averaged(&three, None, 1.0, 100), [(1.0, 100.0), (2.0, 200.0)]);
    assert_eq!(averaged(&three, Some(3), 1.0, 100).len(), 3);
}

/// What engines and cells before had written was in the chart of each.
#[test]
fn counts_of_the_process_begin_with_the_phase() {
    let mut recorded = recorded("one");
    let cell = &recorded.run.points[0].cell;
    let header = COLUMNS.replace(' ', "\t") + "\n";
    let rows: String = [(1, 1.0, 700), (1, 2.0, 707), (2, 1.0, 900), (2, 2.0, 909)]
        .map(|(repeat, at, mib)| {
            format!(
                "{}\t{}\t{}\t\t1\trun\t{at}\tio_write_mb\t{mib}\t{repeat}\t\n",
                cell.workload, recorded.run.points[0].engine_version, cell.threads
            )
        })
        .concat();
    recorded.run.points.truncate(1);
    recorded.timeline = Timeline::parse("t", &format!("{header}{rows}")).unwrap();
    let charts = Charts::of(&[recorded], &Palette::default(), &mut draw(1));
    let Body::Lines(panels) = &chart(&charts, "timeline_system_ycsb_a").body else { panic!() };
    let dots: Vec<(f64, f64)> = panels[0].curves[0].dots.iter().map(|d| (d.x, d.y)).collect();
    assert_eq!(dots, [(1.0, 0.0), (2.0, 8.0)]);
}

#[test]
fn a_timeline_that_does_not_fit_is_refused_with_its_line() {
    let header = COLUMNS.replace(' ', "\t") + "\n";
    let row = "w\te 1\t1\t\t1\trun\t0.5\tx\t7\t1\t\n";
    let point = {
        let mut point = closed("e", 1, &[1.0], 5);
        (point.cell.workload, point.engine_version) = ("w".to_owned(), "e 1".to_owned());
        point
    };
    let good = Timeline::parse("t", &format!("{header}{row}w\te 1\t1\t\t1\trun\t0")).unwrap();
    let metrics = good.metrics(&point, "run").unwrap();
    assert_eq!(metrics["x"], [Sample { repeat: 1, elapsed_s: 0.5, value: 7.0 }]);
    assert!(good.metrics(&point, "seed").is_none());
    let refused = |text: &str| match Timeline::parse("t", text).unwrap_err() {
        Error::Samples { line, what, .. } => (line, what),
        other => panic!("{other}"),
    };
    assert_eq!(refused("a\tb\n"), (1, "there is no column 'workload'".to_owned()));
    assert_eq!(refused(&format!("{header}{row}w\te\n")), (3, "2 fields, not 11".to_owned()));
    let (line, what) =
        refused(&header.replace("rate\n", "rate\nw\te\t1\t\t1\trun\tNaN\tx\t7\t1\t\n"));
    assert_eq!(line, 2);
    assert!(what.contains("finite"), "{what}");
    assert!(Timeline::parse("t", "").is_ok());
}

#[test]
fn a_palette_is_refused_with_its_line() {
    let refused = |text: &str| Palette::parse("p", text).unwrap_err().to_string();
    assert_eq!(
        refused("x #123456 #123456"),
        "cannot read palette 'p', line 1: not NAME LIGHT DARK SHAPE"
    );
    assert!(refused("# c\n\nx 123456 #123456 up").contains("line 3: '123456' is not a color"));
    assert!(refused("x #12345g #123456 up").contains("'#12345g'"));
    assert!(refused("x #123456 #123456 blob").contains("no shape 'blob' (have: circle, "));
    assert!(refused("x #123456 #123456 up\nx #123456 #123456 up").contains("line 2: 'x' is there"));
    assert!(refused("# nothing\n").contains("no engine in it"));
}

/// Straight-line sRGB as light, 0 to 1.
fn linear(color: &str) -> [f64; 3] {
    rgb(color).unwrap().map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    })
}

fn times(matrix: [[f64; 3]; 3], light: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(light).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0))
}

/// What people see: with all cones, without those for long, middle and short waves (Machado,
/// Oliveira and Fernandes 2009, severity 1).
const VISIONS: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ],
    [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ],
    [
        [1.255_528, -0.076_749, -0.178_779],
        [-0.078_411, 0.930_809, 0.147_602],
        [0.004_733, 0.691_367, 0.303_900],
    ],
];

/// CIE L*a*b* under daylight.
fn lab(light: [f64; 3]) -> [f64; 3] {
    let [x, y, z] = times(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]],
        light,
    );
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let (fx, fy, fz) = (f(x / 0.9505), f(y), f(z / 1.089));
    [116.0 * fy - 16.0, 500.0 * (fx - fy), 200.0 * (fy - fz)]
}

fn contrast(a: &str, b: &str) -> f64 {
    let luminance = |color: &str| {
        let [r, g, b] = linear(color);
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// A just noticeable difference is about 2.3.
const DIFFERENCE_MIN: f64 = 12.0;
/// What the guidelines for accessible pages ask of graphics.
const CONTRAST_MIN: f64 = 3.0;

#[test]
fn engines_differ_for_people_with_any_kind_of_colour_vision() {
    let palette = Palette::default();
    let engines: Vec<&str> = palette.engines().collect();
    assert!(engines.len() > 8, "{engines:?}");
    let looks = palette.looks(&engines);
    for (index, one) in looks.iter().enumerate() {
        assert!(contrast(&one.light, "#ffffff") >= CONTRAST_MIN, "{}", one.light);
        assert!(contrast(&one.dark, "#14181f") >= CONTRAST_MIN, "{}", one.dark);
        for (place, other) in looks[..index].iter().enumerate() {
            assert_ne!(one.shape, other.shape, "{} and {}", engines[index], engines[place]);
            for (a, b) in [(&one.light, &other.light), (&one.dark, &other.dark)] {
                for vision in VISIONS {
                    let (a, b) = (lab(times(vision, linear(a))), lab(times(vision, linear(b))));
                    let squares = a.iter().zip(b).map(|(a, b)| (a - b).powi(2));
                    let difference = squares.sum::<f64>().sqrt();
                    assert!(
                        difference >= DIFFERENCE_MIN,
                        "{} and {}: {difference:.1}",
                        engines[index],
                        engines[place]
                    );
                }
            }
        }
    }
}

#[test]
fn engines_that_nobody_named_take_what_is_free() {
    let palette = Palette::parse(
        "p",
        "a #000001 #000001 up\nb #000002 #000002 down\nc #000003 #000003 circle\n",
    )
    .unwrap();
    let looks = palette.looks(&["x", "B", "y", "z"]);
    let light: Vec<&str> = looks.iter().map(|look| look.light.as_str()).collect();
    assert_eq!(light[..3], ["#000001", "#000002", "#000003"]);
    let all: Vec<(String, Shape, usize)> =
        looks.into_iter().map(|Look { light, shape, dash, .. }| (light, shape, dash)).collect();
    for (index, look) in all.iter().enumerate() {
        assert!(!all[..index].contains(look), "{all:?}");
    }
}

/// Two phases on two engines, the second with two roles, and one sample of the writer.
fn with_roles() -> Recorded {
    let of = |engine: &str, phase: &str, role: Option<&str>, rate: f64| {
        let mut point = closed(engine, 1, &around(rate), 100);
        let role = role.map(str::to_owned);
        point.cell.part = Some(Part { phase: phase.to_owned(), role, workers: 2 });
        for repeat in &mut point.repeats {
            repeat.counters = Some(Counters { cycles: Some(5000), ..Counters::default() });
        }
        point
    };
    let mut points = Vec::new();
    for (engine, rate) in [("btree", 100.0), ("skiplist", 200.0)] {
        points.push(of(engine, "fill", None, rate));
        points.push(of(engine, "run", None, 3.0 * rate));
        points.push(of(engine, "run", Some("writer"), rate));
        points.push(of(engine, "run", Some("reader"), 2.0 * rate));
    }
    let mut run = run(points);
    run.header.backends.push("skiplist".to_owned());
    let text = "workload\tengine\tthreads\tsweep_param\tsweep_value\tphase\telapsed_s\t\
                metric\tvalue\trepeat\trate\tscript_phase\trole\n\
                mixed\tbtree 1\t1\t\t1\trun\t0.5\twu_per_s\t90\t1\t\trun\twriter\n\
                mixed\tbtree 1\t1\t\t1\trun\t0.5\twu_per_s\t300\t1\t\trun\t\n";
    let timeline = Timeline::parse("timeline.tsv", text).unwrap();
    Recorded { name: "one".to_owned(), run, timeline }
}

#[test]
fn a_role_is_a_series_and_a_phase_a_group() {
    let recorded = with_roles();
    let charts = Charts::of(std::slice::from_ref(&recorded), &Palette::default(), &mut draw(1));
    let labels: Vec<&str> = charts.series.iter().map(|series| series.label.as_str()).collect();
    assert_eq!(
        labels,
        [
            "btree 1",
            "btree 1: writer",
            "btree 1: reader",
            "skiplist 1",
            "skiplist 1: writer",
            "skiplist 1: reader"
        ]
    );
    let mut looks: Vec<&Look> = charts.series.iter().map(|series| &series.look).collect();
    looks.dedup_by(|a, b| a == b);
    assert_eq!(looks.len(), 6, "no two look the same");
    let Body::Bars(panels) = &chart(&charts, "throughput_compare").body else { panic!("no bars") };
    let groups: Vec<(&str, Vec<Option<f64>>)> = panels[0]
        .groups
        .iter()
        .map(|group| {
            let heights = group.bars.iter().map(|bar| bar.map(|bar| bar.dot.y.round()));
            (group.label.as_str(), heights.collect())
        })
        .collect();
    let some = |rates: [f64; 6]| rates.map(Some).to_vec();
    let fill = vec![Some(100.0), None, None, Some(200.0), None, None];
    let run = some([300.0, 100.0, 200.0, 600.0, 200.0, 400.0]);
    assert_eq!(groups, [("mixed fill", fill), ("mixed run", run)]);
    // A writer is set against the other engine's writer.
    let Body::Forest(rows) = &chart(&charts, "comparison_engines").body else { panic!("no rows") };
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| (row.ratio - 2.0).abs() < 1e-9 && row.label == "skiplist"));
    let Body::Lines(panels) = &chart(&charts, "timeline_throughput").body else { panic!("no") };
    let curves: Vec<(usize, f64)> =
        panels[0].curves.iter().map(|curve| (curve.series, curve.dots[0].y)).collect();
    assert_eq!(
        (panels[0].title.as_str(), curves),
        ("mixed run (2 threads)", vec![(0, 300.0), (1, 90.0)])
    );
    let Body::Bars(panels) = &chart(&charts, "counters").body else { panic!("no bars") };
    assert_eq!((panels.len(), panels[0].title.as_str()), (1, "cycles"), "what is missing is not 0");
    let script = crate::gnuplot_script(&recorded.run);
    let wanted =
        "is_cell('mixed', 'btree 1', 1, 1) && strcol(12) eq 'run' && strcol(13) eq 'writer'";
    assert!(script.contains(wanted), "{script}");
}

#[test]
fn a_page_has_rows_of_phases_roles_and_counters() {
    let page = crate::html_page(&[with_roles()], &Palette::default(), || draw(1));
    assert!(page.contains("<td class=\"l\">mixed run</td>"), "{page}");
    assert!(page.contains("</span>btree 1: writer</td>"), "{page}");
    let (_, counters) = page.split_once("<section id=\"counters\">").unwrap();
    let (rows, _) = counters.split_once("</section>").unwrap();
    assert_eq!(rows.matches("<tr data-s=").count(), 8);
    assert!(rows.contains(">5.000</td><td data-v=\"-1\">-</td>"), "{rows}");
    let text =
        crate::render_engines_text(&crate::compare_engines(&with_roles().run, None).unwrap());
    assert_eq!(text.matches("mixed run writer").count(), 2, "{text}");
}

#[test]
fn a_palette_of_keybench_is_read() {
    let text = "ROCKSDB=#F7B800\n# a comment = none\nSKIPLIST = #21825D\nTIDESDB=#193EDB\n";
    let palette = Palette::parse("BACKENDPALETTE", text).unwrap();
    assert_eq!(palette.engines().collect::<Vec<_>>(), ["rocksdb", "skiplist", "tidesdb"]);
    let looks = palette.looks(&["skiplist", "rocksdb"]);
    assert_eq!((looks[0].light.as_str(), looks[0].dark.as_str()), ("#21825D", "#21825D"));
    assert_eq!(looks[1].light, "#F7B800");
    assert_ne!(looks[0].shape, looks[1].shape);
    let refused = Palette::parse("P", "ROCKSDB=blue\n").unwrap_err().to_string();
    assert!(refused.contains("'blue' is not a color"), "{refused}");
}
