//! Figures as Prometheus reads them: lines of a name, labels and a number, under a line each of
//! help and type.

use std::fmt::{Display, Write};

use keyrack_measure::Histogram;

/// Upper ends of a histogram's buckets: 1, 2, 5 and so on, from 1 us to 10 s. A bucket of ours that
/// a bound falls into counts as above it.
const BOUNDS_NS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Labels of a line: names and values.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A page as it is written.
#[derive(Debug, Clone, Default)]
pub struct Text(String);

// Writing to a String cannot fail, here and below.
impl Text {
    /// Begins a metric; `kind` is `counter`, `gauge` or `histogram`.
    pub fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A number of a metric.
    pub fn value(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        let _ = writeln!(self.0, "{name}{} {value}", labelled(labels, None));
    }

    /// Nanoseconds as seconds, with cumulative counts.
    pub fn histogram(&mut self, name: &str, labels: Labels<'_>, latency: &Histogram) {
        let mut buckets = latency.buckets().peekable();
        let mut count = 0;
        for bound in BOUNDS_NS {
            while let Some((_, _, more)) = buckets.next_if(|(_, high, _)| *high <= bound) {
                count += more;
            }
            let bound = (bound as f64 / 1e9).to_string();
            let _ = writeln!(self.0, "{name}_bucket{} {count}", labelled(labels, Some(&bound)));
        }
        let (sum_s, all) = (latency.sum() as f64 / 1e9, latency.count());
        let _ = writeln!(self.0, "{name}_bucket{} {all}", labelled(labels, Some("+Inf")));
        let labels = labelled(labels, None);
        let _ = writeln!(self.0, "{name}_sum{labels} {sum_s}\n{name}_count{labels} {all}");
    }

    /// The page.
    #[must_use]
    pub fn finish(self) -> String {
        self.0
    }
}

/// `{name="value",le="0.1"}`, or nothing.
fn labelled(labels: Labels<'_>, bound: Option<&str>) -> String {
    let all = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
    let each: Vec<String> =
        all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if each.is_empty() { String::new() } else { format!("{{{}}}", each.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_buckets_add_up() {
        let mut text = Text::default();
        text.metric("a_total", "counter", "What it is.");
        text.value("a_total", &[], 3);
        text.value("a_total", &[("k", "a\"b\\c\nd"), ("l", "x")], 0.5);
        let mut latency = Histogram::new();
        [900, 1_500, 20_000_000_000].into_iter().for_each(|ns| latency.record(ns));
        text.histogram("h", &[("k", "v")], &latency);
        let page = text.finish();
        assert!(
            page.starts_with(
                "# HELP a_total What it is.\n# TYPE a_total counter\na_total 3\n\
                 a_total{k=\"a\\\"b\\\\c\\nd\",l=\"x\"} 0.5\n\
                 h_bucket{k=\"v\",le=\"0.000001\"} 1\nh_bucket{k=\"v\",le=\"0.000002\"} 2\n"
            ),
            "{page}"
        );
        let end = "h_bucket{k=\"v\",le=\"10\"} 2\nh_bucket{k=\"v\",le=\"+Inf\"} 3\n";
        assert!(page.contains(end) && page.ends_with("h_count{k=\"v\"} 3\n"), "{page}");
    }
}
