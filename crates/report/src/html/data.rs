//! The charts as JSON for the script of the page.
//!
//! ```text
//!   {series: [{label, shape, dash}],
//!    charts: [{id, title, group, notes, kind, panels: [
//!      lines:  {title, x, y, curves: [{s, m, d: [[x, y] or [x, y, low, high], ..]}, ..]}
//!      bars:   {title, unit, groups: [{label, detail, bars: [[y, low, high, flagged] or null]}]}
//!      forest: {rows: [{group, label, s, ratio, ci: [low, high] or null, verdict}]} ]}]}
//!   x, y: {scale, unit: {kind, label}, marks}
//! ```

use super::{dash, group_id};
use crate::figures::Charts;
use crate::figures::chart::{Axis, BarPanel, Body, Chart, ForestRow, LinePanel, Scale, Unit};
use crate::figures::figure::Dot;
use serde_json::{Value, json};

/// Digits that are kept of a number: more than can be seen.
const DIGITS: i32 = 5;

/// The text of the script element: no `<` in it, so nothing in it ends the element.
pub(super) fn json(charts: &Charts) -> String {
    let series: Vec<Value> = charts
        .series
        .iter()
        .map(|series| {
            json!({
                "label": series.label,
                "shape": series.look.shape.name(),
                "dash": dash(series.look.dash),
            })
        })
        .collect();
    let all: Vec<Value> = charts.charts.iter().map(chart).collect();
    json!({"series": series, "charts": all}).to_string().replace('<', "\\u003c")
}

fn chart(chart: &Chart) -> Value {
    let (kind, panels): (&str, Vec<Value>) = match &chart.body {
        Body::Lines(panels) => ("lines", panels.iter().map(lines).collect()),
        Body::Bars(panels) => ("bars", panels.iter().map(bars).collect()),
        Body::Forest(rows) => {
            ("forest", vec![json!({"rows": rows.iter().map(row).collect::<Vec<Value>>()})])
        }
    };
    json!({
        "id": chart.name,
        "title": chart.title,
        "group": group_id(chart.group),
        "notes": chart.notes,
        "kind": kind,
        "panels": panels,
    })
}

fn lines(panel: &LinePanel) -> Value {
    let curves: Vec<Value> = panel
        .curves
        .iter()
        .map(|curve| {
            let dots: Vec<Value> = curve.dots.iter().map(dot).collect();
            json!({"s": curve.series, "m": u8::from(curve.marked), "d": dots})
        })
        .collect();
    json!({"title": panel.title, "x": axis(&panel.x), "y": axis(&panel.y), "curves": curves})
}

fn dot(dot: &Dot) -> Value {
    if dot.has_range() {
        json!([rounded(dot.x), rounded(dot.y), rounded(dot.low), rounded(dot.high)])
    } else {
        json!([rounded(dot.x), rounded(dot.y)])
    }
}

fn bars(panel: &BarPanel) -> Value {
    let groups: Vec<Value> = panel
        .groups
        .iter()
        .map(|group| {
            let bars: Vec<Value> = group
                .bars
                .iter()
                .map(|bar| {
                    bar.map_or(Value::Null, |bar| {
                        let numbers = [bar.dot.y, bar.dot.low, bar.dot.high].map(rounded);
                        json!([numbers[0], numbers[1], numbers[2], u8::from(bar.flagged)])
                    })
                })
                .collect();
            json!({"label": group.label, "detail": group.detail, "bars": bars})
        })
        .collect();
    json!({"title": panel.title, "unit": unit(&panel.unit), "groups": groups})
}

fn row(row: &ForestRow) -> Value {
    json!({
        "group": row.group,
        "label": row.label,
        "s": row.series,
        "ratio": rounded(row.ratio),
        "ci": row.interval.map(|(low, high)| [rounded(low), rounded(high)]),
        "verdict": row.verdict,
    })
}

fn axis(axis: &Axis) -> Value {
    let scale = match axis.scale {
        Scale::Linear => "linear",
        Scale::Log2 => "log2",
        Scale::Log10 => "log10",
        Scale::Nines => "nines",
    };
    json!({"scale": scale, "unit": unit(&axis.unit), "marks": axis.marks})
}

fn unit(unit: &Unit) -> Value {
    let (kind, label) = match unit {
        Unit::PerSecond(of) => ("rate", (*of).to_owned()),
        Unit::Nanoseconds => ("ns", String::new()),
        Unit::Bytes => ("bytes", String::new()),
        Unit::Seconds => ("plain", "s".to_owned()),
        Unit::Percent => ("plain", "%".to_owned()),
        Unit::Percentile => ("plain", "percentile".to_owned()),
        Unit::Count(of) => ("plain", (*of).to_owned()),
        Unit::Plain(label) => ("plain", label.clone()),
    };
    json!({"kind": kind, "label": label})
}

/// To [`DIGITS`] significant digits; whole numbers without a decimal point.
fn rounded(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return json!(0);
    }
    let digits = DIGITS - 1 - value.abs().log10().floor() as i32;
    let factor = 10_f64.powi(digits.clamp(-300, 300));
    let value = (value * factor).round() / factor;
    if value.fract() == 0.0 && value.abs() < 9e15 { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_five_digits() {
        let values = [0.0, 1.0, 123_456.0, 1_234_567.0, 0.012_345_678, -2.5, f64::NAN];
        let written = values.map(|value| rounded(value).to_string());
        assert_eq!(written, ["0", "1", "123460", "1234600", "0.012346", "-2.5", "0"]);
    }
}
