//! The plane of a panel: where values lie in it, its rules and the words along them.

use super::font;
use super::scene::{Anchor, Scene};
use super::ticks::{self, Tick};
use crate::figures::chart::{Axis, Scale, Unit};
use crate::figures::text::time_unit;

/// Letters of marks and labels.
const MARK_SIZE: f64 = 11.0;
const LABEL_SIZE: f64 = 11.5;

/// A rectangle for data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plane {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// An axis with its ends; values are in the unit of its label.
#[derive(Debug)]
pub(super) struct Ruler {
    pub(super) scale: Scale,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) label: String,
    /// What values of the record are divided by.
    pub(super) divisor: f64,
    pub(super) ticks: Vec<Tick>,
}

impl Ruler {
    /// From zero, or from below the least value where the axis is logarithmic, to above the
    /// largest. `values` are those of the record, with the ends of their ranges.
    pub(super) fn upwards(axis: &Axis, values: impl Iterator<Item = f64>, count: usize) -> Ruler {
        let (smallest, largest) = ends(values);
        let (divisor, label) = axis.unit.scaled(largest);
        let (smallest, largest) = (smallest / divisor, largest / divisor);
        let (low, high, ticks) = if axis.scale == Scale::Linear {
            let low = smallest.min(0.0) * 1.08;
            let high = if largest > low { low + (largest - low) * 1.08 } else { low + 1.0 };
            (low, high, ticks::linear(low, high, count))
        } else {
            let (low, high) = (smallest / 1.3, largest * 1.3);
            (low, high, ticks::log10(low, high, count))
        };
        if axis.scale != Scale::Linear && axis.unit == Unit::Nanoseconds {
            // Too many powers for one unit: each mark has its own.
            let (low, high) = (low * divisor, high * divisor);
            let mut ticks = ticks::log10(low, high, count);
            for tick in &mut ticks {
                let (divisor, unit) = time_unit(tick.value * 2.0);
                tick.label = format!("{} {unit}", ticks::plain(tick.value / divisor));
            }
            let label = String::new();
            return Ruler { scale: axis.scale, low, high, label, divisor: 1.0, ticks };
        }
        Ruler { scale: axis.scale, low, high, label, divisor, ticks }
    }

    /// From end to end of the values, or of the marks that the axis has.
    pub(super) fn along(axis: &Axis, values: impl Iterator<Item = f64>, count: usize) -> Ruler {
        let (_, label) = axis.unit.scaled(0.0);
        let (smallest, largest) = ends(values.chain(axis.marks.iter().copied()));
        let (low, high, ticks) = match axis.scale {
            Scale::Nines => (1.0, largest.max(10.0), ticks::nines(largest)),
            Scale::Log2 => {
                let room = (largest / smallest).powf(0.05).max(1.05);
                let (low, high) = (smallest / room, largest * room);
                (low, high, ticks::given(&axis.marks, count))
            }
            Scale::Log10 => (smallest, largest, ticks::log10(smallest, largest, count)),
            Scale::Linear if axis.marks.is_empty() => {
                let high = if largest > 0.0 { largest } else { 1.0 };
                (0.0, high, ticks::linear(0.0, high, count))
            }
            Scale::Linear => {
                let room = ((largest - smallest) * 0.05).max(0.5);
                (smallest - room, largest + room, ticks::given(&axis.marks, count))
            }
        };
        Ruler { scale: axis.scale, low, high, label, divisor: 1.0, ticks }
    }

    /// 0 at the low end, 1 at the high one; a value of the record.
    pub(super) fn share(&self, value: f64) -> f64 {
        ticks::share(self.scale, self.low, self.high, value / self.divisor)
    }

    fn tick_share(&self, tick: &Tick) -> f64 {
        ticks::share(self.scale, self.low, self.high, tick.value)
    }
}

/// The least and the largest; 0 and 0 of nothing.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold(None, |ends: Option<(f64, f64)>, value| {
            Some(ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        })
        .unwrap_or((0.0, 0.0))
}

impl Plane {
    pub(super) fn x(&self, ruler: &Ruler, value: f64) -> f64 {
        self.left + self.width * ruler.share(value).clamp(-0.01, 1.01)
    }

    pub(super) fn y(&self, ruler: &Ruler, value: f64) -> f64 {
        self.bottom() - self.height * ruler.share(value).clamp(-0.01, 1.01)
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Rules across the plane and the numbers left of it.
    pub(super) fn draw_y(&self, scene: &mut Scene, ruler: &Ruler) {
        let colors = scene.colors;
        for tick in &ruler.ticks {
            let y = self.bottom() - self.height * ruler.tick_share(tick);
            scene.rule((self.left, y), (self.left + self.width, y), colors.rule, 1.0);
            let words = scene.words(self.left - 7.0, y + 3.8, tick.label.clone(), MARK_SIZE);
            (words.anchor, words.color) = (Anchor::End, colors.soft);
        }
        let widest = ruler.ticks.iter().map(|tick| font::width(&tick.label, MARK_SIZE, false));
        let widest = widest.fold(0.0, f64::max);
        let (x, y) = (self.left - 17.0 - widest, self.top + self.height / 2.0);
        let words = scene.words(x, y, ruler.label.clone(), LABEL_SIZE);
        (words.anchor, words.color, words.turned) = (Anchor::Middle, colors.soft, true);
    }

    /// The line below the plane, its marks and their words.
    pub(super) fn draw_x(&self, scene: &mut Scene, ruler: &Ruler) {
        let colors = scene.colors;
        let bottom = self.bottom();
        scene.rule((self.left, bottom), (self.left + self.width, bottom), colors.axis, 1.0);
        let mut free = f64::NEG_INFINITY;
        for tick in &ruler.ticks {
            let x = self.left + self.width * ruler.tick_share(tick);
            scene.rule((x, bottom), (x, bottom + 4.0), colors.axis, 1.0);
            // Words that would run into each other are left out.
            let half = font::width(&tick.label, MARK_SIZE, false) / 2.0;
            if x - half < free {
                continue;
            }
            free = x + half + 4.0;
            let words = scene.words(x, bottom + 16.5, tick.label.clone(), MARK_SIZE);
            (words.anchor, words.color) = (Anchor::Middle, colors.soft);
        }
        let x = self.left + self.width / 2.0;
        let words = scene.words(x, bottom + 33.0, ruler.label.clone(), LABEL_SIZE);
        (words.anchor, words.color) = (Anchor::Middle, colors.soft);
    }
}
