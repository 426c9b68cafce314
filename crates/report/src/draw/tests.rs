//! Pictures of a run made by hand: their bytes, and what hostile names do to them.
//!
//! With `KEYRACK_REWRITE=1` the files of `golden/` are written instead of compared.

use super::Format;
use crate::figures::Charts;
use crate::tests::sample::draw;
use crate::tests::shown::recorded;
use crate::{Palette, Timeline};
use std::collections::BTreeMap;

fn charts() -> Charts {
    Charts::of(&[recorded("one")], &Palette::default(), &mut draw(1))
}

fn pictures(charts: &Charts, format: Format) -> BTreeMap<String, Vec<u8>> {
    charts.pictures(format).map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

#[expect(clippy::disallowed_methods, reason = "golden files are the test's own")]
fn golden(name: &str, found: &[u8]) {
    let path = format!("{}/src/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    let wanted = std::fs::read(&path).unwrap_or_default();
    let differs = wanted.split(|b| *b == b'\n').zip(found.split(|b| *b == b'\n')).enumerate();
    let first = differs.into_iter().find(|(_, (a, b))| a != b);
    assert!(wanted == found, "{name} differs from line {:?} on", first.map(|(line, _)| line + 1));
}

#[test]
fn pictures_are_as_they_were() {
    let all = pictures(&charts(), Format::Svg);
    for name in
        ["comparison_engines", "throughput_compare", "scalability", "latency_spectrum_ycsb_a"]
    {
        golden(&format!("{name}.svg"), &all[name]);
    }
    golden("sweep_batches.pdf", &pictures(&charts(), Format::Pdf)["sweep_batches"]);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    for format in Format::ALL {
        assert_eq!(pictures(&charts(), *format), pictures(&charts(), *format));
    }
}

#[test]
fn every_picture_names_machine_versions_and_command() {
    for (name, bytes) in pictures(&charts(), Format::Svg) {
        let text = String::from_utf8(bytes).unwrap();
        for words in
            ["Z80 at 4 MHz", "keyrack 0.1.0", "skiplist 1", "keyrack bench ycsb/a", "debug build"]
        {
            assert!(text.contains(words), "no '{words}' in {name}");
        }
        for bad in ["NaN", "inf", "-0\"", "<script"] {
            assert!(!text.contains(bad), "'{bad}' in {name}");
        }
    }
}

#[test]
fn names_stay_words() {
    let mut hostile = recorded("one");
    let name = "</text><script>alert(1)</script>&\"'\u{7}(\\";
    hostile.run.points[0].cell.workload = name.to_owned();
    hostile.run.points[0].engine_version = name.to_owned();
    hostile.run.header.argv.push(name.to_owned());
    let charts = Charts::of(&[hostile], &Palette::default(), &mut draw(1));
    for (name, bytes) in pictures(&charts, Format::Svg) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("<script"), "{name}");
        assert!(!text.contains('\u{7}'), "{name}");
        assert_eq!(text.matches("<text ").count(), text.matches("</text>").count(), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)), "{name}");
    }
    // In PDF a bracket or backslash of a name does not end its string.
    for (name, bytes) in pictures(&charts, Format::Pdf) {
        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
        let line = text.lines().find(|line| line.contains("alert")).unwrap_or_default();
        assert!(line.is_empty() || line.contains("alert\\(1\\)"), "{name}: {line}");
    }
}

/// Where the table says that an object begins, it begins.
#[test]
fn the_table_of_a_pdf_is_right() {
    for (name, bytes) in pictures(&charts(), Format::Pdf) {
        assert!(bytes.starts_with(b"%PDF-1.4\n") && bytes.ends_with(b"%%EOF\n"), "{name}");
        // A letter a byte, so that places in the text are places in the file.
        let letter = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
        let text: String = bytes.iter().map(letter).collect();
        let table = text.rfind("\nxref\n").unwrap() + 1;
        assert!(text.contains(&format!("startxref\n{table}\n")), "{name}");
        let places = text[table..].lines().skip(3).take_while(|line| line.ends_with(" n "));
        let places: Vec<usize> =
            places.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(places.len(), 6);
        for (place, object) in places.into_iter().zip(1..) {
            assert!(text[place..].starts_with(&format!("{object} 0 obj\n")), "{name}");
        }
    }
}

#[test]
fn extremes_are_drawn() {
    let mut extreme = recorded("one");
    extreme.timeline = Timeline::default();
    for (index, point) in extreme.run.points.iter_mut().enumerate() {
        let rate = [0.0, 1e-3, 1e15][index % 3];
        let summary = &mut point.summary;
        (summary.wu_per_s.median, summary.wu_per_s.low, summary.wu_per_s.high) = (rate, rate, rate);
    }
    let charts = Charts::of(&[extreme], &Palette::default(), &mut draw(1));
    for (name, bytes) in pictures(&charts, Format::Svg) {
        let text = String::from_utf8(bytes).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{name}");
    }
}
