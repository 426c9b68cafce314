//! What is around the planes of a chart.
//!
//! ```text
//!   +------------------------------------------+
//!   | title                                    |
//!   | small print: machine, engines, command   |
//!   | +----------------+  +----------------+   |
//!   | | panel          |  | panel          |   |
//!   | +----------------+  +----------------+   |
//!   |  o engine   x engine                     |
//!   +------------------------------------------+
//! ```

use super::axis::Plane;
use super::scene::{Item, Scene, Theme};
use super::{bars, font, forest, lines};
use crate::figures::chart::{Body, Chart};
use crate::figures::palette::DASHES;
use crate::figures::{Charts, Heading};

const MARGIN: f64 = 24.0;
const TITLE_SIZE: f64 = 19.0;
const SMALL_SIZE: f64 = 10.5;
const SMALL_LINE: f64 = 15.0;
const LEGEND_SIZE: f64 = 12.0;
const LEGEND_LINE: f64 = 21.0;
/// A panel of curves with its insets: alone, and beside another.
const ALONE: (f64, f64) = (820.0, 380.0);
const BESIDE: (f64, f64) = (520.0, 300.0);
/// Room in a panel at its left, right, top and bottom.
const INSETS: [f64; 4] = [84.0, 22.0, 34.0, 46.0];
/// Lines of small print that the command of a run may fill.
const COMMAND_LINES_MAX: usize = 3;

/// The picture of a chart.
pub(super) fn scene(charts: &Charts, chart: &Chart, theme: Theme) -> Scene {
    let (columns, cell) = grid(chart);
    let count = match &chart.body {
        Body::Lines(panels) => panels.len(),
        Body::Bars(panels) => panels.len(),
        Body::Forest(_) => 1,
    };
    let width = columns as f64 * cell.0;
    let (title, colors) = (chart.title.clone(), theme.colors());
    let mut scene = Scene { title, width, height: 0.0, colors, items: Vec::new() };
    let top = head(&mut scene, charts, chart) + 8.0;
    let place = |index: usize| Plane {
        left: (index % columns) as f64 * cell.0 + INSETS[0],
        top: top + (index / columns) as f64 * cell.1 + INSETS[2],
        width: cell.0 - INSETS[0] - INSETS[1],
        height: cell.1 - INSETS[2] - INSETS[3],
    };
    match &chart.body {
        Body::Lines(panels) => {
            for (index, panel) in panels.iter().enumerate() {
                let plane = place(index);
                panel_title(&mut scene, plane, &panel.title);
                lines::draw(&mut scene, plane, panel, &charts.series);
            }
        }
        Body::Bars(panels) => {
            for (index, panel) in panels.iter().enumerate() {
                let plane = place(index);
                panel_title(&mut scene, plane, &panel.title);
                bars::draw(&mut scene, plane, panel, &charts.series);
            }
        }
        Body::Forest(rows) => {
            let names = forest::names_px(rows) + MARGIN;
            let plane = Plane {
                left: names,
                top: top + 8.0,
                width: width - names - forest::NUMBERS_PX - MARGIN,
                height: forest::height(rows),
            };
            forest::draw(&mut scene, plane, rows, &charts.series);
        }
    }
    let below = top + count.div_ceil(columns) as f64 * cell.1;
    scene.height = legend(&mut scene, charts, chart, below + 8.0) + MARGIN / 2.0;
    let (width, height) = (scene.width, scene.height);
    scene
        .items
        .insert(0, Item::Rect { x: 0.0, y: 0.0, width, height, fill: colors.paper.to_owned() });
    scene
}

/// Columns, and the size of a panel in them.
fn grid(chart: &Chart) -> (usize, (f64, f64)) {
    match &chart.body {
        Body::Lines(panels) if panels.len() < 2 => (1, ALONE),
        Body::Lines(panels) if panels.len() > 6 => (3, (BESIDE.0 * 0.9, BESIDE.1 * 0.9)),
        Body::Lines(_) => (2, BESIDE),
        Body::Bars(panels) => {
            let width = panels.iter().map(bars::width).fold(0.0, f64::max);
            let width = (width + INSETS[0] + INSETS[1]).max(ALONE.0);
            (1, (width, if panels.len() > 1 { BESIDE.1 } else { ALONE.1 }))
        }
        Body::Forest(rows) => (1, (ALONE.0 + 60.0, forest::height(rows) + 34.0)),
    }
}

/// Title and small print; gives where they end.
fn head(scene: &mut Scene, charts: &Charts, chart: &Chart) -> f64 {
    let room = scene.width - 2.0 * MARGIN;
    let title = font::fitted(&chart.title, TITLE_SIZE * 1.06, room);
    scene.words(MARGIN, 34.0, title, TITLE_SIZE).bold = true;
    let mut lines: Vec<String> = Vec::new();
    let several = charts.headings.len() > 1;
    for heading in &charts.headings {
        lines.extend(small_print(heading, several, room));
    }
    for note in &chart.notes {
        lines.extend(font::wrapped(note, SMALL_SIZE, room, 2));
    }
    let mut y = 38.0;
    let soft = scene.colors.soft;
    for line in lines {
        y += SMALL_LINE;
        scene.words(MARGIN, y, line, SMALL_SIZE).color = soft;
    }
    y
}

fn small_print(heading: &Heading, several: bool, room: f64) -> Vec<String> {
    let name = if several { format!("{}: ", heading.name) } else { String::new() };
    let mut lines = font::wrapped(&format!("{name}{}", heading.machine), SMALL_SIZE, room, 2);
    lines.extend(font::wrapped(&heading.engines, SMALL_SIZE, room, 2));
    lines.extend(font::wrapped(&heading.command, SMALL_SIZE, room, COMMAND_LINES_MAX));
    if !heading.warnings.is_empty() {
        let warnings = format!("! {}", heading.warnings.join("; "));
        lines.extend(font::wrapped(&warnings, SMALL_SIZE, room, 2));
    }
    lines
}

fn panel_title(scene: &mut Scene, plane: Plane, title: &str) {
    let title = font::fitted(title, 13.5, plane.width);
    scene.words(plane.left, plane.top - 11.0, title, 13.0).bold = true;
}

/// The names of the series, in rows; gives where they end.
fn legend(scene: &mut Scene, charts: &Charts, chart: &Chart, top: f64) -> f64 {
    let colors = scene.colors;
    let is_bars = matches!(chart.body, Body::Bars(_));
    let mut x = MARGIN;
    let mut y = top;
    for index in chart.body.series() {
        let series = &charts.series[index];
        let label = font::fitted(&series.label, LEGEND_SIZE, scene.width - 2.0 * MARGIN - 40.0);
        let width = font::room(&label, LEGEND_SIZE) + 54.0;
        if x > MARGIN && x + width > scene.width - MARGIN {
            (x, y) = (MARGIN, y + LEGEND_LINE);
        }
        let color = colors.of(&series.look);
        if is_bars {
            bars::swatch(scene, (x + 12.0, y + 2.0), (12.0, 12.0), series);
        } else {
            scene.items.push(Item::Line {
                points: vec![(x, y + 8.0), (x + 28.0, y + 8.0)],
                color: color.to_owned(),
                width: 2.0,
                dash: DASHES[series.look.dash],
            });
            scene.mark(series.look.shape, (x + 14.0, y + 8.0), color, false);
        }
        scene.words(x + 36.0, y + 12.2, label, LEGEND_SIZE);
        x += width;
    }
    y + LEGEND_LINE
}
