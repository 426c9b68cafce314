//! Pages of runs made by hand: what is in them, what hostile names do, how large they get. What a
//! browser makes of them is tested with the command.

use super::{PAGE_BYTES_MAX, html_page};
use crate::tests::sample::{around, closed, draw, run};
use crate::tests::shown::{COLUMNS, bare, recorded};
use crate::{Palette, Recorded, Timeline};
use serde_json::Value;

fn page(runs: &[Recorded]) -> String {
    html_page(runs, &Palette::default(), || draw(1))
}

/// The JSON of a page.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_has_everything_in_it() {
    let page = page(&[recorded("one")]);
    let data = data(&page);
    let charts = data["charts"].as_array().unwrap();
    let ids: Vec<&str> = charts.iter().map(|chart| chart["id"].as_str().unwrap()).collect();
    for id in ["comparison_engines", "scalability", "latency_spectrum_ycsb_a", "stalls"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    assert_eq!(data["series"][0]["label"], "skiplist 1");
    for words in ["Z80 at 4 MHz", "keyrack bench ycsb/a", "this is a debug build", "1 error"] {
        assert!(page.contains(words), "{words}");
    }
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        let found = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
        let own = outside == "url(" && page.contains("url(#${clip})");
        assert!(!found || own, "'{outside}' asks for something else");
    }
    assert!(page.len() < PAGE_BYTES_MAX);
}

/// What an engine lacks of common terms stood in the console and in no page.
#[test]
fn a_page_has_the_notes_each_once() {
    let mut noted = recorded("one");
    for point in &mut noted.run.points {
        point.notes.push("<b>everywhere</b>".to_owned());
    }
    noted.run.points[0].notes.push("here alone".to_owned());
    let page = page(&[noted]);
    let cells = "<li><b>btree, skiplist, 8 cells</b>: &lt;b&gt;everywhere&lt;/b&gt;</li>";
    assert!(page.contains(cells), "{page}");
    assert!(page.contains("<li><b>ycsb/a btree t1</b>: here alone</li>"), "{page}");
}

#[test]
fn a_percentile_of_too_few_calls_is_a_dash_and_not_a_number() {
    let results = |calls: u64| {
        let mut run = run(vec![closed("btree", 1, &around(1e5), 500)]);
        run.points[0].summary.ops[0].calls = calls;
        if calls == 0 {
            run.points[0].summary.ops.clear();
        }
        let page = page(&[bare("one", run)]);
        let (_, rows) = page.split_once("<section id=\"results\">").unwrap();
        let (rows, _) = rows.split_once("</section>").unwrap();
        rows.matches("<td data-v=\"-1\">-</td>").count()
    };
    assert_eq!([0, 99, 100].map(results), [2, 1, 0]);
}

#[test]
fn the_same_runs_give_the_same_page() {
    assert_eq!(page(&[recorded("one")]), page(&[recorded("one")]));
}

#[test]
fn names_stay_text() {
    let mut hostile = recorded("</script><script>alert(1)</script>");
    let name = "</script><img src=x onerror=alert(1)>'\"";
    hostile.run.points[0].cell.workload = name.to_owned();
    hostile.run.points[0].engine_version = name.to_owned();
    hostile.run.points[0].flags.push(name.to_owned());
    let page = page(&[hostile]);
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 2);
    let labels: Vec<Value> = data(&page)["series"].as_array().unwrap().clone();
    assert!(labels.iter().any(|series| series["label"] == name), "{labels:?}");
}

#[test]
fn runs_are_compared_with_the_first() {
    let of = |name: &str, rate: f64| bare(name, run(vec![closed("btree", 1, &around(rate), 500)]));
    let page = page(&[of("before", 1e5), of("after", 2e5)]);
    assert!(page.contains("<h3>after against before</h3>"));
    assert!(page.contains("<td class=\"l faster\">faster</td>"));
}

/// Sixteen engines for a long time, with hundreds of statistics each.
#[test]
fn a_large_run_gives_a_page_below_the_limit() {
    let engines: Vec<String> = (0..16).map(|index| format!("engine{index}")).collect();
    let points = engines.iter().map(|engine| closed(engine, 1, &around(1e5), 500)).collect();
    let mut text = COLUMNS.replace(' ', "\t") + "\n";
    let mut random = draw(3);
    for engine in &engines {
        for metric in 0..64 {
            for second in 0..90 {
                text.push_str(&format!(
                    "mixed\t{engine} 1\t1\t\t1\trun\t{second}.123\tmetric{metric}\t{}\t1\t\n",
                    random() % 1_000_000_007
                ));
            }
        }
    }
    let timeline = Timeline::parse("t", &text).unwrap();
    let page = page(&[Recorded { name: "large".to_owned(), run: run(points), timeline }]);
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    assert!(page.contains("left out for want of room: 64"));
}
