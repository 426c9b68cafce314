//! The screen of known samples, cell by cell.

use super::*;
use crate::view::{Operation, Second};
use keyrack_measure::Histogram;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;

fn histogram(ns: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    ns.iter().for_each(|ns| histogram.record(*ns));
    histogram
}

/// A run of nine seconds, each faster than the one before, the last but one with a slow tail.
fn run() -> View {
    let mut view = View {
        title: "keyrack load  127.0.0.1:11211".to_owned(),
        stage: "measuring".to_owned(),
        elapsed_s: 9.2,
        share: Some(0.305),
        ..View::default()
    };
    for second in 1..=9_u64 {
        let slow = if second == 8 { 4_000_000 } else { 250_000 };
        let latency = histogram(&[100_000, 100_000, slow]);
        view.push(&Second { rate_per_s: 12_500.0 * second as f64, latency });
    }
    view.facts =
        vec![("errors".to_owned(), "!3".to_owned()), ("outstanding".to_owned(), "16".to_owned())];
    view.operations = vec![
        Operation {
            name: "read".to_owned(),
            rate_per_s: 101_250.0,
            latency: histogram(&[100, 200, 250_000]),
            errors: None,
        },
        Operation { name: "update".to_owned(), errors: Some(3), ..Operation::default() },
    ];
    view
}

fn screen(view: &View, said: &[String], width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            let area = frame.area();
            draw(view, said, "q ends the run", area, frame.buffer_mut());
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned()).collect()
}

#[test]
fn known_samples_make_a_known_screen() {
    let said = ["one connection broke".to_owned()];
    let mut view = run();
    view.finish("mixed on btree  1.20 M a second".to_owned());
    let expected = [
        "keyrack load  127.0.0.1:11211                                 measuring  9 s",
        "█████████████████████▍                                                  30 %",
        "",
        "                                                                         ▃▅█",
        "                                                                      ▃▅████",
        "rate         112 k                                                 ▃▅███████",
        "p50         100 us                                                 █████████",
        "p99         250 us                                                 ▁▁▁▁▁▁▁█▁",
        "p99.9       250 us                                                 ▁▁▁▁▁▁▁█▁",
        "",
        "errors 3   outstanding 16",
        "",
        "operation       a second         p50         p99         max    errors",
        "read               101 k      200 ns      250 us      250 us         -",
        "update                 0           -           -           -         3",
        "",
        "mixed on btree  1.20 M a second",
        "",
        "",
        "",
        "",
        "",
        "one connection broke",
        "q ends the run",
    ];
    assert_eq!(screen(&view, &said, 76, 24), expected);
}

#[test]
fn a_small_screen_keeps_the_top_and_the_keys() {
    let rows = screen(&run(), &[], 40, 8);
    assert!(rows[0].starts_with("keyrack load"), "{rows:?}");
    assert_eq!(rows[7], "q ends the run");
    assert!(rows[3].starts_with("rate"), "one row is enough for a curve: {rows:?}");
    for (width, height) in [(1, 1), (3, 2), (10, 3), (19, 5), (200, 60)] {
        screen(&run(), &["x".to_owned()], width, height);
    }
    screen(&View::default(), &[], 80, 24);
}

#[test]
fn the_newest_seconds_are_at_the_right_edge() {
    let mut view = View::default();
    for second in 0..500 {
        let rate_per_s = if second == 499 { 800.0 } else { 100.0 };
        view.push(&Second { rate_per_s, latency: Histogram::new() });
    }
    let rows = screen(&view, &[], 40, 10);
    assert_eq!(rows[3], format!("rate           800  {}█", "▁".repeat(19)));
    assert_eq!(rows[4].trim_end(), "p50              -", "no latency is no mark: {rows:?}");
}
