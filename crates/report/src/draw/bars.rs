//! A panel of groups of bars, with their numbers above.

use super::axis::{Plane, Ruler};
use super::font;
use super::lines::{WHISKER_PX, whisker};
use super::scene::{Anchor, Item, Scene};
use crate::figures::Series;
use crate::figures::chart::{Axis, BarGroup, BarPanel, Unit};
use crate::figures::text::{short_bytes, short_number};

const NUMBER_SIZE: f64 = 10.0;
const NAME_SIZE: f64 = 11.5;
const DETAIL_SIZE: f64 = 10.5;
/// Bars of few series do not become wider.
const BAR_PX_MAX: f64 = 46.0;
/// Narrower bars have their number turned.
const FLAT_PX_MIN: f64 = 34.0;

/// The width that a panel asks for.
pub(super) fn width(panel: &BarPanel) -> f64 {
    let bars = shown(panel).len() as f64;
    panel.groups.len() as f64 * (bars * 30.0 + 40.0).max(90.0)
}

/// The series that have a bar in any group.
fn shown(panel: &BarPanel) -> Vec<usize> {
    let count = panel.groups.iter().map(|group| group.bars.len()).max().unwrap_or(0);
    let has_bar = |series: &usize| panel.groups.iter().any(|group| group.bars[*series].is_some());
    (0..count).filter(has_bar).collect()
}

pub(super) fn draw(scene: &mut Scene, plane: Plane, panel: &BarPanel, series: &[Series]) {
    let shown = shown(panel);
    let bars = panel.groups.iter().flat_map(|group| group.bars.iter().flatten());
    let dots: Vec<_> = bars.map(|bar| bar.dot).collect();
    let axis = Axis::linear(panel.unit.clone());
    // Room above for the numbers.
    let room = if panel.unit == Unit::Bytes { 1.2 } else { 1.1 };
    let tallest = dots.iter().map(|dot| dot.high).fold(0.0, f64::max) * room;
    let y = Ruler::upwards(&axis, dots.iter().map(|dot| dot.high).chain([tallest]), 5);
    plane.draw_y(scene, &y);
    let bottom = plane.bottom();
    scene.rule((plane.left, bottom), (plane.left + plane.width, bottom), scene.colors.axis, 1.0);
    let group_px = plane.width / panel.groups.len().max(1) as f64;
    let slot_px = (group_px * 0.84 / shown.len().max(1) as f64).min(BAR_PX_MAX);
    for (index, group) in panel.groups.iter().enumerate() {
        let middle = plane.left + group_px * (index as f64 + 0.5);
        name(scene, group, middle, bottom, group_px);
        for (place, &of) in shown.iter().enumerate() {
            let x = middle + (place as f64 - (shown.len() as f64 - 1.0) / 2.0) * slot_px;
            let Some(bar) = &group.bars[of] else {
                number(scene, x, bottom - 4.0, "n/a", slot_px);
                continue;
            };
            let top = plane.y(&y, bar.dot.y);
            let width = slot_px * 0.86;
            let height = (bottom - top).max(0.0);
            swatch(scene, (x - width / 2.0, top), (width, height), &series[of]);
            if bar.dot.has_range() {
                let end = |value: f64| (x, plane.y(&y, value));
                // On paper, so that it is seen in front of a bar of about its own colour too.
                whisker(
                    scene,
                    end(bar.dot.low),
                    end(bar.dot.high),
                    scene.colors.paper,
                    WHISKER_PX + 2.0,
                );
                whisker(scene, end(bar.dot.low), end(bar.dot.high), scene.colors.ink, WHISKER_PX);
            }
            let mark = if bar.flagged { "!" } else { "" };
            let words = format!("{}{mark}", text(&panel.unit, bar.dot.y));
            number(scene, x, plane.y(&y, bar.dot.high.max(bar.dot.y)) - 5.0, &words, slot_px);
        }
    }
}

/// A filled rectangle in the colour of a series; only its outline where another run has the same
/// engine filled.
pub(super) fn swatch(
    scene: &mut Scene,
    (x, y): (f64, f64),
    (width, height): (f64, f64),
    series: &Series,
) {
    let color = scene.colors.of(&series.look).to_owned();
    if series.look.dash == 0 {
        scene.items.push(Item::Rect { x, y, width, height, fill: color });
        return;
    }
    let points = vec![(x, y), (x + width, y), (x + width, y + height), (x, y + height)];
    scene.items.push(Item::Polygon { points, color, hollow: true });
}

/// Each number has its own unit: those of the axis would leave nothing of small ones.
fn text(unit: &Unit, value: f64) -> String {
    match unit {
        Unit::Bytes => short_bytes(value),
        _ => short_number(value),
    }
}

fn name(scene: &mut Scene, group: &BarGroup, middle: f64, bottom: f64, room: f64) {
    let label = font::fitted(&group.label, NAME_SIZE, room - 6.0);
    scene.words(middle, bottom + 17.0, label, NAME_SIZE).anchor = Anchor::Middle;
    let detail = font::fitted(&group.detail, DETAIL_SIZE, room - 6.0);
    let soft = scene.colors.soft;
    let words = scene.words(middle, bottom + 32.0, detail, DETAIL_SIZE);
    (words.anchor, words.color) = (Anchor::Middle, soft);
}

fn number(scene: &mut Scene, x: f64, y: f64, text: &str, slot_px: f64) {
    let turned = slot_px < FLAT_PX_MIN;
    let x = if turned { x + 3.5 } else { x };
    let words = scene.words(x, y, text, NUMBER_SIZE);
    words.turned = turned;
    words.anchor = if turned { Anchor::Start } else { Anchor::Middle };
}
