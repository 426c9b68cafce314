//! JSON that keeps its order: what notebooks are read into and written from.
//!
//! A notebook is edited by many hands: programs append to it, people add members of their own. So
//! it is read into lists of members, not into maps, and written back with every member in its
//! place.
//!
//! Two layouts:
//!
//! - **One line**: `{"a":1,"b":[true,"x\/y"]}`, no blanks.
//! - **Notebook**: the upper four levels are broken into lines where that helps a reader. An object
//!   is broken when it has more than five members or holds a list or object that is not empty; a
//!   list, when it holds such a one, when it has more than 1024 items, or when one behind the first
//!   four is a text of more than 40 bytes. Each level is indented by two columns, and eight columns
//!   at the start of a line are one tab. A blank follows the colon in a broken object only.
//!
//! Text is escaped as JSON asks, and `/` is written `\/`. Whole numbers of 64 bits are kept
//! exactly. Any other number is a double, written with the fewest digits that read back as the same
//! double; it takes an exponent where C's `%g` would. [`Value::rounded`] cuts new numbers to 12
//! significant digits. So a number goes through any number of readings and writings unchanged.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Significant digits of numbers that are added to a notebook.
const DIGITS: usize = 12;
/// Levels that the notebook layout breaks into lines.
const LEVELS_BROKEN: usize = 4;
/// Columns by which a level is indented.
const INDENT: usize = 2;
/// Columns at the start of a line that are one tab.
const TAB: usize = 8;
/// Members that fit into an object on one line.
const LINE_MEMBERS_MAX: usize = 5;
/// Items that fit into a list on one line.
const LINE_ITEMS_MAX: usize = 1024;
/// Items that may be long texts in a list on one line, and how long, in bytes.
const LINE_LONG_ITEMS_MAX: usize = 4;
const LINE_TEXT_MAX: usize = 40;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number from 0.
    Count(u64),
    /// A whole number below 0.
    Negative(i64),
    /// Any other number. One that is not finite is written as `null`.
    Real(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// An object: its members in order.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads a text that is one JSON value.
    ///
    /// # Errors
    /// What is wrong with the text and where, in one line.
    pub fn parse(text: &str) -> Result<Value, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// `number` rounded to 12 significant digits.
    #[must_use]
    pub fn rounded(number: f64) -> Value {
        let text = format!("{number:.*e}", DIGITS - 1);
        Value::Real(text.parse().unwrap_or(number))
    }

    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    /// The member `name` of an object, the first of that name. O(members).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members().iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The members of an object; empty for anything else.
    #[must_use]
    pub fn members(&self) -> &[(String, Value)] {
        match self {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// The items of a list; empty for anything else.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        match self {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The number, where it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Count(count) => Some(*count as f64),
            Value::Negative(count) => Some(*count as f64),
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// On one line, without a line feed at its end. O(size).
    #[must_use]
    pub fn one_line(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, LEVELS_BROKEN);
        out
    }

    /// In the layout of a notebook, with a line feed at its end. O(size).
    #[must_use]
    pub fn notebook(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, 0);
        out.push('\n');
        out
    }

    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Flag(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Value::Count(count) => out.push_str(&count.to_string()),
            Value::Negative(count) => out.push_str(&count.to_string()),
            Value::Real(number) => out.push_str(&real(*number)),
            Value::Text(text) => quote(out, text),
            Value::List(items) => {
                let broken = depth < LEVELS_BROKEN && list_is_broken(items);
                block(out, ['[', ']'], items, depth, broken, |out, item| {
                    item.write(out, depth + 1);
                });
            }
            Value::Object(members) => {
                let broken = depth < LEVELS_BROKEN && object_is_broken(members);
                block(out, ['{', '}'], members, depth, broken, |out, (name, value)| {
                    quote(out, name);
                    out.push_str(if broken { ": " } else { ":" });
                    value.write(out, depth + 1);
                });
            }
        }
    }

    /// A list or an object that holds something.
    fn is_nest(&self) -> bool {
        !self.items().is_empty() || !self.members().is_empty()
    }
}

fn object_is_broken(members: &[(String, Value)]) -> bool {
    members.len() > LINE_MEMBERS_MAX || members.iter().any(|(_, value)| value.is_nest())
}

fn list_is_broken(items: &[Value]) -> bool {
    let is_long = |item: &Value| matches!(item, Value::Text(text) if text.len() > LINE_TEXT_MAX);
    items.len() > LINE_ITEMS_MAX
        || items.iter().any(Value::is_nest)
        || items.iter().skip(LINE_LONG_ITEMS_MAX).any(is_long)
}

/// Brackets around `items`, with commas between and, where it is broken, each on a line.
fn block<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: &[T],
    depth: usize,
    broken: bool,
    write: impl Fn(&mut String, &T),
) {
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if broken {
            new_line(out, depth + 1);
        }
        write(out, item);
    }
    if broken {
        new_line(out, depth);
    }
    out.push(close);
}

fn new_line(out: &mut String, depth: usize) {
    let columns = depth * INDENT;
    out.push('\n');
    out.extend(std::iter::repeat_n('\t', columns / TAB));
    out.extend(std::iter::repeat_n(' ', columns % TAB));
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '/' => out.extend(['\\', c]),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A double with the fewest digits that read back as the same one.
pub(super) fn real(number: f64) -> String {
    if !number.is_finite() {
        return "null".to_owned();
    }
    let shortest = format!("{number:e}");
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count().max(DIGITS);
    if exponent >= -4 && exponent < digits as i32 {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_u64<E>(self, count: u64) -> Result<Value, E> {
        Ok(Value::Count(count))
    }

    fn visit_i64<E>(self, count: i64) -> Result<Value, E> {
        Ok(u64::try_from(count).map_or(Value::Negative(count), Value::Count))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Real(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_line(text: &str) -> String {
        Value::parse(text).unwrap().one_line()
    }

    #[test]
    fn members_keep_their_order_and_their_values() {
        let text = r#"{"z":1,"a":{"y":null,"b":[true,false,-3,"x\/y"]},"z2":{},"n":[]}"#;
        assert_eq!(one_line(text), text);
        assert_eq!(one_line(" { \"b\" : 1 ,\n\"a\" : [ ] } "), r#"{"b":1,"a":[]}"#);
        assert_eq!(one_line("\"\\u00e9\\n\\u0001\\\"\\\\\\b\""), "\"\u{e9}\\n\\u0001\\\"\\\\\\b\"");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "{\"a\":1}x", "{'a':1}", "nul", "[1,]"] {
            assert!(Value::parse(text).is_err(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(Value::parse(&deep).is_err(), "a bottomless file must not end the process");
    }

    #[test]
    fn new_numbers_have_twelve_digits() {
        let cases = [
            (1_324_492.055_312_345, "1324492.05531"),
            (1_398_395.266_010_000_2, "1398395.26601"),
            (1_405_590.125_8, "1405590.1258"),
            (5_767_168.0, "5767168"),
            (0.0, "0"),
            (-1.5, "-1.5"),
            (1.0 / 3.0, "0.333333333333"),
            (0.000_1, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (123_456_789_012.0, "123456789012"),
            (1e12, "1e+12"),
            (1.234_567_890_123_4e15, "1.23456789012e+15"),
            (1e100, "1e+100"),
        ];
        for (number, text) in cases {
            assert_eq!(Value::rounded(number).one_line(), text, "{number}");
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Value::rounded(number).one_line(), "null");
        }
    }

    /// A notebook must not lose digits by being appended to.
    #[test]
    fn old_numbers_are_kept() {
        for text in [
            "0.1",
            "-0.25",
            "1324492.05531",
            "18446744073709551615",
            "-9223372036854775808",
            "3.141592653589793",
            "1e+12",
            "5e-324",
            "1.7976931348623157e+308",
        ] {
            assert_eq!(one_line(text), text);
        }
        let mut rng = keyrack_workload::Rng::from_seed(12);
        for _ in 0..20_000 {
            let number = f64::from_bits(rng.next_u64());
            if number.is_finite() {
                let text = Value::Real(number).one_line();
                let Ok(Value::Real(read)) = Value::parse(&text) else {
                    // The whole ones below 1e17 are written as such.
                    assert!(number.fract() == 0.0 && number.abs() < 1e17, "SEED=12 {text}");
                    continue;
                };
                assert_eq!(read.to_bits(), number.to_bits(), "SEED=12 {text}");
            }
        }
    }

    #[test]
    fn a_notebook_breaks_what_is_long_or_deep() {
        let small = Value::parse(r#"{"a":1,"b":[],"c":{},"d":"x","e":[]}"#).unwrap();
        assert_eq!(small.notebook(), small.one_line() + "\n");
        let six = Value::parse(r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}"#).unwrap();
        assert!(six.notebook().starts_with("{\n  \"a\": 1,\n"), "{}", six.notebook());
        let list = |long: usize| {
            let text = "x".repeat(long);
            Value::List(vec![Value::Text(text); 5]).notebook().lines().count()
        };
        assert_eq!((list(40), list(41)), (1, 7));
        let items = |count: usize| Value::List(vec![Value::Null; count]).notebook().lines().count();
        assert_eq!((items(1024), items(1025)), (1, 1027));
    }

    #[test]
    fn the_fifth_level_stays_on_its_line_and_eight_columns_are_a_tab() {
        let nested = Value::parse(r#"{"a":{"b":{"c":{"d":{"e":{"f":[[1]]}}}}}}"#).unwrap();
        let wanted = "{\n  \"a\": {\n    \"b\": {\n      \"c\": {\n\
                      \t\"d\": {\"e\":{\"f\":[[1]]}}\n      }\n    }\n  }\n}\n";
        assert_eq!(nested.notebook(), wanted);
    }
}
