//! Where the marks of an axis stand, and what is written there.

use crate::figures::chart::Scale;

/// A mark of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// Marks from `low` to `high`, about `count` of them, at round numbers.
pub(super) fn linear(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let step = step(high - low, count);
    let first = (low / step - 1e-9).ceil();
    let last = (high / step + 1e-9).floor();
    let decimals = decimals(step);
    let mut ticks = Vec::new();
    let mut index = first;
    while index <= last {
        // Not -0.
        let value = index * step + 0.0;
        ticks.push(Tick { value, label: format!("{value:.decimals$}") });
        index += 1.0;
    }
    ticks
}

/// 1, 2, 2.5 or 5 times a power of ten, so that `count` steps or fewer cover `span`.
pub(super) fn step(span: f64, count: usize) -> f64 {
    let least = span / count.max(1) as f64;
    if !(least.is_finite() && least > 0.0) {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 2.5, 5.0].into_iter().map(|factor| factor * power);
    round.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

fn decimals(step: f64) -> usize {
    (0..9)
        .find(|digits| {
            let scaled = step * 10_f64.powi(*digits);
            (scaled - scaled.round()).abs() < 1e-6 * scaled
        })
        .unwrap_or(9) as usize
}

/// Marks of a logarithm of base 10: powers of ten, with 2 and 5 between them where these are few.
pub(super) fn log10(low: f64, high: f64, count: usize) -> Vec<Tick> {
    let decades = (high / low).log10();
    let factors: &[f64] = match decades {
        _ if decades < 2.2 => &[1.0, 2.0, 5.0],
        _ if decades < 3.2 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let every = (decades / count.max(1) as f64).ceil().max(1.0) as i32;
    let mut ticks = powers(low, high, factors, every);
    // Every second power may be too few of them.
    if ticks.len() < 3 && factors.len() == 1 {
        ticks = powers(low, high, factors, 1);
    }
    // Too little of a logarithm for its powers: it is nearly straight there.
    if ticks.len() < 3 { linear(low, high, count) } else { ticks }
}

/// Every so-manieth power of ten between `low` and `high`, times each of `factors`.
fn powers(low: f64, high: f64, factors: &[f64], every: i32) -> Vec<Tick> {
    let mut ticks = Vec::new();
    for exponent in low.log10().floor() as i32..=high.log10().ceil() as i32 {
        if factors.len() == 1 && exponent.rem_euclid(every) != 0 {
            continue;
        }
        for factor in factors {
            let value = factor * 10_f64.powi(exponent);
            if value >= low * (1.0 - 1e-9) && value <= high * (1.0 + 1e-9) {
                ticks.push(Tick { value, label: plain(value) });
            }
        }
    }
    ticks
}

/// Percentiles on `1 / (1 - share)`: 0 %, 50 %, 90 %, 99 % and on to `high`.
pub(super) fn nines(high: f64) -> Vec<Tick> {
    let mut ticks = vec![
        Tick { value: 1.0, label: "0%".to_owned() },
        Tick { value: 2.0, label: "50%".to_owned() },
    ];
    let mut value = 10.0;
    for digits in 0_usize.. {
        if value > high * (1.0 + 1e-9) || digits > 12 {
            break;
        }
        let label = match digits {
            0 => "90%".to_owned(),
            1 => "99%".to_owned(),
            _ => format!("99.{}%", "9".repeat(digits - 1)),
        };
        ticks.push(Tick { value, label });
        value *= 10.0;
    }
    ticks
}

/// The given values, every one of them or, where they are many, every second, third and so on.
pub(super) fn given(values: &[f64], count: usize) -> Vec<Tick> {
    let step = values.len().div_ceil(count.max(1)).max(1);
    values.iter().step_by(step).map(|&value| Tick { value, label: plain(value) }).collect()
}

/// A number with as few digits as it needs, from ten thousand on with a suffix.
pub(super) fn plain(value: f64) -> String {
    let (mut scaled, mut suffix) = (value, "");
    if value.abs() >= 10_000.0 {
        for next in ["k", "M", "G", "T"] {
            if scaled.abs() < 1000.0 {
                break;
            }
            (scaled, suffix) = (scaled / 1000.0, next);
        }
    }
    let text = if scaled.abs() >= 0.001 || scaled == 0.0 {
        format!("{scaled:.4}")
    } else {
        return format!("{scaled:e}");
    };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

/// Where `value` lies between `low` (0) and `high` (1).
pub(super) fn share(scale: Scale, low: f64, high: f64, value: f64) -> f64 {
    let share = match scale {
        Scale::Linear => (value - low) / (high - low),
        Scale::Log2 | Scale::Log10 | Scale::Nines => (value / low).ln() / (high / low).ln(),
    };
    if share.is_finite() { share } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn marks_of_a_line_are_round_numbers_and_not_too_many() {
        assert_eq!(labels(&linear(0.0, 10.0, 5)), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&linear(0.0, 1.1, 5)), ["0.00", "0.25", "0.50", "0.75", "1.00"]);
        assert_eq!(labels(&linear(-3.0, 3.0, 4)), ["-2", "0", "2"]);
        assert_eq!(labels(&linear(0.0, 0.0007, 4)), ["0.0000", "0.0002", "0.0004", "0.0006"]);
        for high in [1e-9, 0.3, 7.0, 99.0, 12_345.0, 8e12] {
            let ticks = linear(0.0, high, 5);
            assert!((3..=6).contains(&ticks.len()), "{high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| tick.value <= high * 1.000_001), "{high}");
        }
        assert_eq!(step(0.0, 5), 1.0);
        assert_eq!(step(f64::NAN, 5), 1.0);
    }

    #[test]
    fn marks_of_a_logarithm_are_powers_with_steps_between_where_there_is_room() {
        assert_eq!(labels(&log10(1.0, 100.0, 6)), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(&log10(1.5, 800.0, 6)), ["3", "10", "30", "100", "300"]);
        assert_eq!(labels(&log10(0.55, 1.15, 6)), ["0.6", "0.7", "0.8", "0.9", "1.0", "1.1"]);
        let wide = log10(1.0, 1e12, 6);
        assert_eq!(labels(&wide)[..3], ["1", "100", "10k"]);
        assert!(wide.len() <= 7, "{wide:?}");
    }

    /// Of 300 ns to 40 ms every second power is two marks: there stood 5, 10, 15 ms at the top.
    #[test]
    fn a_wide_logarithm_has_no_marks_of_a_straight_line() {
        let ticks = log10(300.0, 4e7, 5);
        assert_eq!(labels(&ticks), ["1000", "10k", "100k", "1M", "10M"]);
    }

    #[test]
    fn percentiles_are_written_with_their_nines() {
        assert_eq!(labels(&nines(1e4)), ["0%", "50%", "90%", "99%", "99.9%", "99.99%"]);
        assert_eq!(labels(&nines(5.0)), ["0%", "50%"]);
    }

    #[test]
    fn many_given_values_are_thinned() {
        assert_eq!(labels(&given(&[1.0, 64.0, 262_144.0], 8)), ["1", "64", "262.144k"]);
        let many: Vec<f64> = (1..=30).map(f64::from).collect();
        assert_eq!(given(&many, 8).len(), 8);
    }

    #[test]
    fn numbers_have_no_idle_digits() {
        let written = [0.0, 2.5, 1234.0, 10_000.0, 1.5e6, 5e-7].map(plain);
        assert_eq!(written, ["0", "2.5", "1234", "10k", "1.5M", "5e-7"]);
    }

    #[test]
    fn shares_of_an_axis() {
        assert_eq!(share(Scale::Linear, 0.0, 8.0, 2.0), 0.25);
        assert!((share(Scale::Log10, 1.0, 10_000.0, 10.0) - 0.25).abs() < 1e-12);
        assert!((share(Scale::Log2, 1.0, 16.0, 4.0) - 0.5).abs() < 1e-12);
        // One value alone stands in the middle.
        assert_eq!(share(Scale::Linear, 3.0, 3.0, 3.0), 0.5);
    }
}
