//! A panel of curves.

use super::axis::{Plane, Ruler};
use super::scene::{Item, Scene};
use crate::figures::Series;
use crate::figures::chart::LinePanel;
use crate::figures::palette::DASHES;

pub(super) fn draw(scene: &mut Scene, plane: Plane, panel: &LinePanel, series: &[Series]) {
    let dots = || panel.curves.iter().flat_map(|curve| &curve.dots);
    let x = Ruler::along(&panel.x, dots().map(|dot| dot.x), 8);
    let y = Ruler::upwards(&panel.y, dots().flat_map(|dot| [dot.low, dot.y, dot.high]), 5);
    plane.draw_y(scene, &y);
    plane.draw_x(scene, &x);
    for curve in &panel.curves {
        let look = &series[curve.series].look;
        let at = |value_x: f64, value_y: f64| (plane.x(&x, value_x), plane.y(&y, value_y));
        for dot in curve.dots.iter().filter(|dot| dot.has_range()) {
            whisker(scene, at(dot.x, dot.low), at(dot.x, dot.high), &look.light);
        }
        scene.items.push(Item::Line {
            points: curve.dots.iter().map(|dot| at(dot.x, dot.y)).collect(),
            color: look.light.clone(),
            width: if curve.marked { 2.0 } else { 1.6 },
            dash: DASHES[look.dash],
        });
        if curve.marked || curve.dots.len() == 1 {
            for dot in &curve.dots {
                scene.mark(look.shape, at(dot.x, dot.y), &look.light, false);
            }
        }
    }
}

/// The range of a value, with ends, upright.
pub(super) fn whisker(scene: &mut Scene, from: (f64, f64), to: (f64, f64), color: &str) {
    scene.rule(from, to, color, 1.2);
    for (x, y) in [from, to] {
        scene.rule((x - 4.0, y), (x + 4.0, y), color, 1.2);
    }
}
