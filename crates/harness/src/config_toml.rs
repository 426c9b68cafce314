//! Configuration files in TOML, read into the same sections as the original's dialect.
//!
//! ```toml
//! [bench]
//! backend = ["flodb", "lmdb"]           # a list is joined by commas
//! workload = ["ycsb/a", "db/fillseq"]   # workload and param: one entry for each
//! param = { num = 1000 }                # or ["num=1000"]
//! ops = 20_000
//!
//! [common]
//! cache_bytes = "64M"
//!
//! [flodb]
//! compression = ["none", "none", "lz4"]
//!
//! [workload.cart]
//! secs = 2.5
//! ```
//!
//! Keys before any table belong to `[bench]`. Numbers and booleans are passed on as they are
//! written, and go through the same parsers as those of flags; a size with a suffix is a string.
//! What TOML cannot say twice, a table or a key, cannot be given twice.

use crate::config::{Config, Entry};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Keys that collect: a list of theirs is so many entries.
const REPEATED: &[&str] = &["workload", "param"];

type Refused = (usize, String);

/// Parses the text of a file.
///
/// # Errors
/// The line (from 1) and one sentence.
pub(crate) fn parse(text: &str) -> Result<Config, (usize, String)> {
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (line_of(text, at), error.message().to_owned())
    })?;
    let mut sections = vec![("bench".to_owned(), Vec::new())];
    for (key, value) in in_order(document.get_ref()) {
        let name = key.get_ref();
        match value.get_ref() {
            DeValue::Table(table) if name == "workload" => {
                for (workload, inner) in in_order(table) {
                    let DeValue::Table(inner) = inner.get_ref() else {
                        let line = line_of(text, workload.span().start);
                        let why = "workload: is a list in [bench], or a table [workload.NAME]";
                        return Err((line, why.to_owned()));
                    };
                    let name = format!("workload:{}", workload.get_ref());
                    sections.push((name, entries(text, inner)?));
                }
            }
            DeValue::Table(table) => {
                let found = entries(text, table)?;
                match sections.iter_mut().find(|(section, _)| section == name) {
                    Some((_, entries)) => entries.extend(found),
                    None => sections.push((name.to_string(), found)),
                }
            }
            _ => sections[0].1.extend(entry(text, key, value)?),
        }
    }
    Ok(Config { sections })
}

/// The entries of a table in the order in which they are written.
fn in_order<'t, 'i>(
    table: &'t DeTable<'i>,
) -> Vec<(&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn entries(text: &str, table: &DeTable<'_>) -> Result<Vec<Entry>, Refused> {
    let mut all = Vec::new();
    for (key, value) in in_order(table) {
        all.extend(entry(text, key, value)?);
    }
    Ok(all)
}

/// What one key stands for: one entry, or one for each of a list.
fn entry(
    text: &str,
    key: &Spanned<DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<Entry>, Refused> {
    let line = line_of(text, key.span().start);
    let name = key.get_ref();
    let one = |value: String| Entry { key: name.to_string(), value, line };
    let refuse = |what: &str| (line, format!("{name}: {what}"));
    match value.get_ref() {
        DeValue::Array(list) => {
            let words: Option<Vec<String>> = list.iter().map(|item| word(item.get_ref())).collect();
            let words = words.ok_or_else(|| refuse("a list holds words and numbers"))?;
            Ok(if REPEATED.contains(&name.as_ref()) {
                words.into_iter().map(one).collect()
            } else {
                vec![one(words.join(","))]
            })
        }
        DeValue::Table(table) if name == "param" => {
            let pair = |(key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>)| {
                let value = word(value.get_ref())?;
                Some(one(format!("{}={value}", key.get_ref())))
            };
            let pairs: Option<Vec<Entry>> = in_order(table).into_iter().map(pair).collect();
            pairs.ok_or_else(|| refuse("each parameter is a word or a number"))
        }
        DeValue::Table(_) => Err(refuse("a table has no place here")),
        other => match word(other) {
            Some(value) => Ok(vec![one(value)]),
            None => Err(refuse("dates are not understood")),
        },
    }
}

/// A word, a number or a boolean as text.
fn word(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(yes) => Some(if *yes { "yes" } else { "no" }.to_owned()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str) -> Vec<String> {
        let config = parse(text).unwrap_or_else(|(line, why)| panic!("{line}: {why}"));
        let show = |name: &str, entry: &Entry| {
            format!("[{name}] {}={} :{}", entry.key, entry.value, entry.line)
        };
        let sections = config.sections.iter();
        sections.flat_map(|(name, list)| list.iter().map(move |e| show(name, e))).collect()
    }

    #[test]
    fn sections_lists_numbers_and_parameters() {
        let text = "repeat = 3\n[bench]\nworkload = [\"ycsb/a\",\n  \"b.lua\"]\nthreads = [1, 2]\n\
                    secs = 0.5\nops = 1_000\npin = true\nparam = { num = 7, size = \"64M\" }\n\
                    [common]\ncache_bytes = \"64M\"\n[flodb]\ncompression = [\"none\", \"lz4\"]\n\
                    [workload.\"db/x\"]\nops = 5\n";
        assert_eq!(
            flat(text),
            [
                "[bench] repeat=3 :1",
                "[bench] workload=ycsb/a :3",
                "[bench] workload=b.lua :3",
                "[bench] threads=1,2 :5",
                "[bench] secs=0.5 :6",
                "[bench] ops=1000 :7",
                "[bench] pin=yes :8",
                "[bench] param=num=7 :9",
                "[bench] param=size=64M :9",
                "[common] cache_bytes=64M :11",
                "[flodb] compression=none,lz4 :13",
                "[workload:db/x] ops=5 :15",
            ]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for (text, line) in [
            ("a = 1\nb = [\n", 2),
            ("[bench]\na = 1\na = 2\n", 3),
            ("[flodb]\nx = { y = 1 }\n", 2),
            ("[bench]\n\nx = 1979-05-27\n", 3),
            ("x = [[1]]\n", 1),
            ("[workload]\ncart = 1\n", 2),
        ] {
            let (found, why) = parse(text).unwrap_err();
            assert_eq!(found, line, "{text}: {why}");
        }
    }
}
