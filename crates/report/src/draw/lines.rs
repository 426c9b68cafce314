//! A panel of curves.

use super::axis::{Plane, Ruler};
use super::scene::{Item, Scene};
use crate::figures::Series;
use crate::figures::chart::LinePanel;
use crate::figures::palette::DASHES;

/// Width of the lines of a whisker.
pub(super) const WHISKER_PX: f64 = 1.2;
/// Marks of a curve that has more points than could be marked.
const MARKS: usize = 5;

pub(super) fn draw(scene: &mut Scene, plane: Plane, panel: &LinePanel, series: &[Series]) {
    let dots = || panel.curves.iter().flat_map(|curve| &curve.dots);
    let x = Ruler::along(&panel.x, dots().map(|dot| dot.x), 8);
    let y = Ruler::upwards(&panel.y, dots().flat_map(|dot| [dot.low, dot.y, dot.high]), 5);
    plane.draw_y(scene, &y);
    plane.draw_x(scene, &x);
    for (place, curve) in panel.curves.iter().enumerate() {
        let look = &series[curve.series].look;
        let color = scene.colors.of(look);
        let at = |value_x: f64, value_y: f64| (plane.x(&x, value_x), plane.y(&y, value_y));
        for dot in curve.dots.iter().filter(|dot| dot.has_range()) {
            whisker(scene, at(dot.x, dot.low), at(dot.x, dot.high), color, WHISKER_PX);
        }
        scene.items.push(Item::Line {
            points: curve.dots.iter().map(|dot| at(dot.x, dot.y)).collect(),
            color: color.to_owned(),
            width: if curve.marked { 2.0 } else { 1.6 },
            dash: DASHES[look.dash],
        });
        let places: Vec<(f64, f64)> = curve.dots.iter().map(|dot| at(dot.x, dot.y)).collect();
        let marks = if curve.marked || places.len() == 1 {
            places
        } else {
            spread(&places, plane, place, panel.curves.len())
        };
        for mark in marks {
            scene.mark(look.shape, mark, color, false);
        }
    }
}

/// Some points of a long curve, at equal distances along the axis, so that it can be told from
/// others without its colour. Each of `count` curves has its marks at other places. One alone
/// needs none.
fn spread(places: &[(f64, f64)], plane: Plane, curve: usize, count: usize) -> Vec<(f64, f64)> {
    if count < 2 {
        return Vec::new();
    }
    let step = plane.width / MARKS as f64;
    let first = plane.left + step * (curve as f64 + 0.5) / count as f64;
    let wanted = (0..MARKS).map(|mark| first + step * mark as f64);
    let away = |x: f64, wanted: f64| (x - wanted).abs();
    let mut marks: Vec<(f64, f64)> = wanted
        .filter_map(|wanted| {
            let nearer =
                |a: &&(f64, f64), b: &&(f64, f64)| away(a.0, wanted).total_cmp(&away(b.0, wanted));
            let nearest = places.iter().min_by(nearer)?;
            (away(nearest.0, wanted) < step / 2.0).then_some(*nearest)
        })
        .collect();
    marks.dedup();
    marks
}

/// The range of a value, with ends, upright.
pub(super) fn whisker(
    scene: &mut Scene,
    from: (f64, f64),
    to: (f64, f64),
    color: &str,
    width: f64,
) {
    scene.rule(from, to, color, width);
    let over = (width - WHISKER_PX) / 2.0;
    for (x, y) in [from, to] {
        scene.rule((x - 4.0 - over, y), (x + 4.0 + over, y), color, width);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_curves_are_marked_here_and_there_each_at_its_own_places() {
        let plane = Plane { left: 100.0, top: 0.0, width: 500.0, height: 100.0 };
        let curve: Vec<(f64, f64)> = (0..=500).map(|x| (100.0 + f64::from(x), 7.0)).collect();
        let [one, other] = [0, 1].map(|place| spread(&curve, plane, place, 2));
        assert_eq!(one.len(), MARKS);
        assert_eq!(one[..2], [(125.0, 7.0), (225.0, 7.0)]);
        assert_eq!(other[..2], [(175.0, 7.0), (275.0, 7.0)]);
        // One that ends early has no heap of marks at its end, and one alone has none.
        assert_eq!(spread(&curve[..60], plane, 0, 2), [(125.0, 7.0)]);
        assert!(spread(&curve, plane, 0, 1).is_empty());
    }
}
