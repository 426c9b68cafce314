//! Ratios with their intervals, a row each, on a logarithm about 1.

use super::axis::Plane;
use super::font;
use super::scene::{Anchor, Scene};
use super::ticks;
use crate::figures::Series;
use crate::figures::chart::{ForestRow, Scale};

pub(super) const ROW_PX: f64 = 22.0;
const GROUP_PX: f64 = 26.0;
const TEXT_SIZE: f64 = 11.5;
/// Room right of the plane for the numbers.
pub(super) const NUMBERS_PX: f64 = 215.0;

/// The height of the rows and the titles of their groups.
pub(super) fn height(rows: &[ForestRow]) -> f64 {
    let groups = rows.windows(2).filter(|pair| pair[0].group != pair[1].group).count() + 1;
    rows.len() as f64 * ROW_PX + groups as f64 * GROUP_PX
}

/// The room that the longest name needs.
pub(super) fn names_px(rows: &[ForestRow]) -> f64 {
    let widths = rows.iter().map(|row| font::room(&row.label, TEXT_SIZE));
    widths.fold(60.0, f64::max).min(320.0) + 24.0
}

pub(super) fn draw(scene: &mut Scene, plane: Plane, rows: &[ForestRow], series: &[Series]) {
    let colors = scene.colors;
    let (low, high) = range(rows);
    let x = |ratio: f64| {
        let share = ticks::share(Scale::Log10, low, high, ratio);
        plane.left + plane.width * share.clamp(0.0, 1.0)
    };
    for tick in ticks::log10(low, high, 8) {
        let at = x(tick.value);
        scene.rule((at, plane.top), (at, plane.bottom()), colors.rule, 1.0);
        let words = scene.words(at, plane.bottom() + 16.0, format!("{}x", tick.label), 11.0);
        (words.anchor, words.color) = (Anchor::Middle, colors.soft);
    }
    scene.rule((x(1.0), plane.top), (x(1.0), plane.bottom()), colors.axis, 1.5);
    let mut y = plane.top;
    let mut group = None;
    for row in rows {
        if group != Some(&row.group) {
            group = Some(&row.group);
            let room = plane.left + plane.width + NUMBERS_PX - 48.0;
            let text = font::fitted(&row.group, TEXT_SIZE, room);
            scene.words(24.0, y + 17.0, text, TEXT_SIZE).bold = true;
            y += GROUP_PX;
        }
        let middle = y + ROW_PX / 2.0;
        let look = &series[row.series].look;
        let color = colors.of(look);
        let label = font::fitted(&row.label, TEXT_SIZE, plane.left - 40.0);
        scene.words(plane.left - 12.0, middle + 4.0, label, TEXT_SIZE).anchor = Anchor::End;
        if let Some((from, to)) = row.interval {
            scene.rule((x(from), middle), (x(to), middle), color, 2.0);
            for end in [x(from), x(to)] {
                scene.rule((end, middle - 4.0), (end, middle + 4.0), color, 1.4);
            }
        }
        let shows = matches!(row.verdict, "faster" | "slower");
        scene.mark(look.shape, (x(row.ratio), middle), color, !shows);
        let words =
            scene.words(plane.left + plane.width + 14.0, middle + 4.0, numbers(row), TEXT_SIZE);
        words.color = if shows { colors.ink } else { colors.soft };
        y += ROW_PX;
    }
}

/// `1.42x [1.38, 1.47] faster`.
fn numbers(row: &ForestRow) -> String {
    let interval =
        row.interval.map_or(String::new(), |(low, high)| format!(" [{low:.2}, {high:.2}]"));
    let verdict = if row.verdict == "~" { "no difference" } else { row.verdict };
    format!("{:.2}x{interval} {verdict}", row.ratio)
}

/// The ends of the axis: round about 1 and all that is shown.
fn range(rows: &[ForestRow]) -> (f64, f64) {
    let values = rows.iter().flat_map(|row| {
        let (low, high) = row.interval.unwrap_or((row.ratio, row.ratio));
        [low, high, row.ratio]
    });
    let sound = values.filter(|value| value.is_finite() && *value > 0.0);
    let (low, high) = sound.fold((0.9_f64, 1.1_f64), |(a, b), v| (a.min(v), b.max(v)));
    (low / 1.08, high * 1.08)
}
