//! What threads or children did, as lines: JSON for programs, totals for people.
//!
//! ```text
//!   7632001 put/s ..    of one child
//!   puts: n 2, total T, average A, min M, max X, stddev S     over children; sample deviation
//! ```

use keyrack_harness::sink::Value;
use keyrack_workload::kvtest::{self, Row};

/// Name in rows, and in the line of totals.
const TOTALS: [(&str, &str); 6] = [
    ("puts", "puts"),
    ("gets", "gets"),
    ("scans", "scans"),
    ("puts_per_sec", "puts/s"),
    ("gets_per_sec", "gets/s"),
    ("scans_per_sec", "scans/s"),
];

/// A row as JSON, numbers with twelve digits.
pub(super) fn json(row: Row) -> Value {
    let value = |value| match value {
        kvtest::Value::Flag(flag) => Value::Flag(flag),
        kvtest::Value::Count(count) => Value::Count(count),
        kvtest::Value::Number(number) => Value::rounded(number),
        kvtest::Value::Text(text) => Value::Text(text),
        kvtest::Value::List(lines) => Value::List(lines.into_iter().map(Value::Text).collect()),
    };
    Value::Object(row.into_fields().into_iter().map(|(name, v)| (name, value(v))).collect())
}

/// What a child says when it is through: `total 10 5 put/s 6 get/s`.
pub(super) fn line(row: &Row) -> String {
    let count = |name: &str| match row.get(name) {
        Some(kvtest::Value::Count(count)) => Some(*count),
        _ => None,
    };
    let total = ["puts", "gets", "scans", "ops", "count"].into_iter().find_map(count);
    let mut line = format!("total {}", total.unwrap_or_default());
    for (name, unit) in [("puts", "put/s"), ("gets", "get/s"), ("scans", "scan/s")] {
        if let Some(kvtest::Value::Number(rate)) = row.get(&format!("{name}_per_sec")) {
            line.push_str(&format!(" {rate:.0} {unit}"));
        }
    }
    line
}

/// A number of a row, whatever its kind.
fn number(row: &Value, name: &str) -> Option<f64> {
    row.get(name).and_then(Value::as_f64)
}

/// The lines behind the rows.
pub(super) fn totals(rows: &[Value]) -> String {
    let names = ["ops", "total", "count", "puts", "gets"];
    let of = |row: &Value| names.iter().find_map(|name| number(row, name));
    // The sum of no numbers would be -0.
    let total = rows.iter().filter_map(of).fold(0.0, |total, count| total + count);
    let mut text = format!("total {total:.0}\n");
    for (name, label) in TOTALS {
        let values: Vec<f64> = rows.iter().filter_map(|row| number(row, name)).collect();
        if !values.is_empty() {
            text.push_str(&format!("{label}: {}\n", statistics(&values)));
        }
    }
    text
}

/// Of at least one value. One alone does not deviate, where the original divides by zero.
fn statistics(values: &[f64]) -> String {
    let (n, total) = (values.len() as f64, values.iter().sum::<f64>());
    let average = total / n;
    let (min, max) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), &value| {
            (min.min(value), max.max(value))
        });
    let squares: f64 = values.iter().map(|value| (value - average).powi(2)).sum();
    let deviation = (squares / (n - 1.0).max(1.0)).sqrt();
    format!(
        "n {n}, total {total:.0}, average {average:.0}, min {min:.0}, max {max:.0}, stddev \
         {deviation:.0}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(puts: u64, put_s: f64, gets: u64, get_s: f64) -> Row {
        let mut row = Row::new();
        row.set_rate("puts", puts, put_s);
        row.set_rate("gets", gets, get_s);
        row.set_rate("ops", puts + gets, put_s + get_s);
        row
    }

    /// The numbers of the original's own documentation.
    #[test]
    fn totals_are_those_of_the_original() {
        let child = |count: u64, put_rate: f64, get_rate: f64| {
            let ops = count as f64;
            json(row(count, ops / put_rate, count, ops / get_rate))
        };
        let rows = [
            child(7_632_001, 763_284.211_682, 1_263_548.301_95),
            child(7_612_501, 761_423.014_367, 1_259_847.220_76),
        ];
        assert_eq!(
            totals(&rows),
            "total 30489004\n\
             puts: n 2, total 15244502, average 7622251, min 7612501, max 7632001, stddev 13789\n\
             gets: n 2, total 15244502, average 7622251, min 7612501, max 7632001, stddev 13789\n\
             puts/s: n 2, total 1524707, average 762354, min 761423, max 763284, stddev 1316\n\
             gets/s: n 2, total 2523396, average 1261698, min 1259847, max 1263548, stddev 2617\n"
        );
        let first = "{\"puts\":7632001,\"puts_per_sec\":763284.211682,\"gets\":7632001,\
                     \"gets_per_sec\":1263548.30195,\"ops\":15264002,\"ops_per_sec\":951678.506";
        assert!(rows[0].one_line().starts_with(first), "{}", rows[0].one_line());
    }

    #[test]
    fn one_child_deviates_by_nothing_and_has_a_line_of_its_own() {
        let one = row(10, 2.0, 12, 2.0);
        assert_eq!(line(&one), "total 10 5 put/s 6 get/s");
        let text = totals(&[json(one)]);
        assert!(text.contains("puts: n 1, total 10, average 10, min 10, max 10, stddev 0\n"));
        assert!(!text.contains("scans"), "{text}");
        assert_eq!(
            (line(&Row::new()), totals(&[])),
            ("total 0".to_owned(), "total 0\n".to_owned())
        );
    }
}
