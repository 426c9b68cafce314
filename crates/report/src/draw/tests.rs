//! Pictures of a run made by hand: their bytes, and what hostile names do to them.
//!
//! With `KEYRACK_REWRITE=1` the files of `golden/` are written instead of compared.

use super::scene::{Item, Scene, Words};
use super::{Format, Theme};
use crate::figures::Charts;
use crate::tests::golden;
use crate::tests::sample::draw;
use crate::tests::shown::recorded;
use crate::{Palette, Timeline};
use std::collections::BTreeMap;

fn charts() -> Charts {
    Charts::of(&[recorded("one")], &Palette::default(), &mut draw(1))
}

fn pictures(charts: &Charts, format: Format) -> BTreeMap<String, Vec<u8>> {
    let pictures = charts.pictures(format, Theme::Light);
    pictures.map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

#[test]
fn pictures_are_as_they_were() {
    let all = pictures(&charts(), Format::Svg);
    for name in
        ["comparison_engines", "throughput_compare", "scalability", "latency_spectrum_ycsb_a"]
    {
        golden(&format!("{name}.svg"), &all[name]);
    }
    golden("sweep_batches.pdf", &without_fonts(&pictures(&charts(), Format::Pdf)["sweep_batches"]));
}

/// A PDF without the files of its faces, which are the same in all.
fn without_fonts(pdf: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    for object in pdf
        .split_inclusive(|byte| *byte == b'\n')
        .collect::<Vec<_>>()
        .chunk_by(|_, next| !next.ends_with(b" obj\n"))
    {
        let is_font = object.get(1).is_some_and(|line| line.windows(8).any(|at| at == b"/Length1"));
        kept.extend(if is_font { object[..1].concat() } else { object.concat() });
    }
    kept
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    for format in [Format::Svg, Format::Pdf] {
        assert_eq!(pictures(&charts(), format), pictures(&charts(), format));
    }
    // A PNG is drawn from the same scene; one is enough.
    let one = || {
        let charts = charts();
        let scene = super::layout::scene(&charts, &charts.charts[0], Theme::Dark);
        super::png::render(&scene)
    };
    assert_eq!(one(), one());
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
    // In PDF a name is digits of glyphs, whatever it holds.
    for (name, bytes) in pictures(&charts, Format::Pdf) {
        let text: String = without_fonts(&bytes).into_iter().map(char::from).collect();
        assert!(!text.contains("alert"), "{name}");
        let shown = texts(&text);
        let hostile = shown.iter().find(|text| text.contains("alert(1)"));
        let hostile = hostile.map_or("", String::as_str);
        assert!(hostile.is_empty() || hostile.contains("<script>alert(1)"), "{name}: {hostile}");
    }
}

/// What a reader of a PDF copies from it: each text, by the letters that the file gives its glyphs.
fn texts(pdf: &str) -> Vec<String> {
    let letters = |after: &str| -> BTreeMap<String, char> {
        let block = pdf.split(after).nth(1).unwrap().split("endcmap").next().unwrap();
        let rows = block.lines().filter_map(|line| line.strip_prefix('<')?.split_once("> <"));
        rows.filter(|(_, unit)| unit.len() == 5)
            .map(|(glyph, unit)| {
                let unit = u32::from_str_radix(&unit[..4], 16).unwrap();
                (glyph.to_owned(), char::from_u32(unit).unwrap())
            })
            .collect()
    };
    let faces = [letters("\n6 0 obj"), letters("\n11 0 obj")];
    let of = |line: &str| {
        let (digits, bold) = (line.split_once("Tm <")?.1.split_once('>')?.0, line.contains("/F2"));
        let glyphs = digits.as_bytes().chunks(4).map(|glyph| String::from_utf8_lossy(glyph));
        Some(glyphs.map(|glyph| faces[usize::from(bold)][glyph.as_ref()]).collect())
    };
    pdf.lines().filter_map(of).collect()
}

#[test]
fn words_of_a_pdf_can_be_found_and_copied() {
    let charts = charts();
    for (chart, (name, bytes)) in
        charts.charts.iter().zip(charts.pictures(Format::Pdf, Theme::Dark))
    {
        let pdf: String = without_fonts(&bytes).into_iter().map(char::from).collect();
        let wanted = words(&super::layout::scene(&charts, chart, Theme::Dark));
        let wanted: Vec<String> = wanted.into_iter().map(|words| words.text).collect();
        assert!(wanted.len() > 5, "{name}");
        assert_eq!(texts(&pdf), wanted, "{name}");
    }
}

fn words(scene: &Scene) -> Vec<Words> {
    let of = |item: &Item| match item {
        Item::Words(words) => Some(words.clone()),
        _ => None,
    };
    scene.items.iter().filter_map(of).collect()
}

/// The dots of a PNG, three bytes each, and how many a row has.
fn dots(bytes: &[u8]) -> (Vec<u8>, usize, usize) {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let mut dots = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut dots).unwrap();
    (dots, info.width as usize, info.height as usize)
}

/// Each text changes dots where it stands, and nothing else changes.
#[test]
fn letters_are_drawn_and_stay_in_their_place() {
    let charts = charts();
    let kinds = ["throughput_compare", "scalability", "comparison_engines"];
    for (kind, theme) in kinds.into_iter().zip(Theme::ALL.iter().cycle()) {
        let chart = charts.charts.iter().find(|chart| chart.name == kind).unwrap();
        let scene = super::layout::scene(&charts, chart, *theme);
        let (with, columns, rows) = dots(&super::png::render(&scene));
        assert_eq!(columns, (scene.width * 2.0).round() as usize, "{}", chart.name);
        assert_eq!(rows, (scene.height * 2.0).round() as usize, "{}", chart.name);
        let words = words(&scene);
        let items = scene.items.into_iter().filter(|item| !matches!(item, Item::Words(_)));
        let bare = Scene { items: items.collect(), ..scene };
        let (without, ..) = dots(&super::png::render(&bare));
        let differs = |x: usize, y: usize| {
            let at = (y * columns + x) * 3;
            with[at..at + 3] != without[at..at + 3]
        };
        let mut seen = vec![false; columns * rows];
        for text in words.iter().filter(|words| !words.text.trim().is_empty()) {
            let [left, top, right, bottom] = place(text);
            assert!(left >= 0.0 && top >= 0.0, "'{}' in {}", text.text, chart.name);
            let dot = |pixel: f64, most: usize| ((pixel * 2.0).max(0.0) as usize).min(most);
            let mut changed = 0;
            for y in dot(top, rows)..dot(bottom, rows) {
                for x in dot(left, columns)..dot(right, columns) {
                    changed += usize::from(differs(x, y));
                    seen[y * columns + x] = true;
                }
            }
            assert!(changed > 8, "'{}' is not in {}", text.text, chart.name);
        }
        let stray = (0..seen.len()).filter(|at| !seen[*at] && differs(at % columns, at / columns));
        assert_eq!(stray.count(), 0, "{}", chart.name);
    }
}

/// Left, top, right and bottom of a text, with a pixel around it.
fn place(words: &Words) -> [f64; 4] {
    let (width, back) = words.extent();
    let (above, below) = (words.size * 0.95 + 1.0, words.size * 0.3 + 1.0);
    let (from, to) = (-back - 1.0, width - back + 1.0);
    if words.turned {
        return [words.x - above, words.y - to, words.x + below, words.y - from];
    }
    [words.x + from, words.y - above, words.x + to, words.y + below]
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
        assert_eq!(places.len(), 15);
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
