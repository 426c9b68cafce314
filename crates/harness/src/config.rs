//! Configuration files: the original's INI dialect, read strictly.
//!
//! Lines before any header belong to `[bench]`. Sections of one name are joined. A comment begins
//! at `#` or `;` in the first column or after a blank, so `{a=1;b=2}` survives in a value. `key =
//! value`, split at the first `=`, both trimmed; values are verbatim, without quotes or escapes.
//! The first line of a replay file has no `=` and no mark; it is a title, and only a first line may
//! be one.
//!
//! A value that the dialect cannot hold (a blank before `#` or `;`, a line break, blanks at an end)
//! stands under the key with `.json` behind it, as a JSON string: `data_dir.json = "/a \u0023b"`.
//!
//! Of a key that stands twice the first counts, as in the original, but for keys that collect
//! (`workload`, `param`) and engine sections, where the last counts.

/// A parsed file: sections in order of first appearance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// Name and entries of each section; `[bench]` is always the first.
    pub(crate) sections: Vec<(String, Vec<Entry>)>,
}

/// One `key = value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The key, as written.
    pub(crate) key: String,
    /// The value, verbatim.
    pub(crate) value: String,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl Config {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The line (from 1) and one sentence.
    pub(crate) fn parse(text: &str) -> Result<Config, (usize, String)> {
        let mut sections: Vec<(String, Vec<Entry>)> = vec![("bench".to_owned(), Vec::new())];
        let mut current = 0;
        for (index, raw) in text.lines().enumerate() {
            let line = strip_comment(raw).trim();
            let number = index + 1;
            if line.is_empty() {
                continue;
            }
            if let Some(rest) = line.strip_prefix('[') {
                let name = rest.strip_suffix(']').ok_or_else(|| {
                    (number, format!("'{line}' opens a section and does not close it with ']'"))
                })?;
                current = section(&mut sections, name.trim());
            } else if let Some((key, value)) = line.split_once('=') {
                let (key, value) = (key.trim(), value.trim());
                let entry = match key.strip_suffix(".json") {
                    None => Entry { key: key.to_owned(), value: value.to_owned(), line: number },
                    Some(key) => Entry {
                        key: key.to_owned(),
                        value: serde_json::from_str(value)
                            .map_err(|_| (number, format!("{key}.json is not a JSON string")))?,
                        line: number,
                    },
                };
                if entry.key.is_empty() {
                    return Err((number, format!("'{line}' has no key before '='")));
                }
                sections[current].1.push(entry);
            } else if index > 0 {
                let why = format!("'{line}' is neither 'key = value' nor '[section]'");
                return Err((number, why));
            }
        }
        Ok(Config { sections })
    }
}

/// Renders `key = value`, under `key.json` where the dialect cannot hold the value.
pub(crate) fn render_entry(key: &str, value: &str) -> String {
    let holds = !value.contains(['\n', '\r']) && strip_comment(value).trim() == value;
    // After the blank behind '=' a mark at the start of the value would begin a comment.
    if holds && !value.starts_with(['#', ';']) {
        return format!("{key} = {value}\n");
    }
    let json = serde_json::Value::from(value).to_string();
    format!("{key}.json = {}\n", json.replace('#', "\\u0023").replace(';', "\\u003b"))
}

fn section(sections: &mut Vec<(String, Vec<Entry>)>, name: &str) -> usize {
    if let Some(index) = sections.iter().position(|(section, _)| section == name) {
        return index;
    }
    sections.push((name.to_owned(), Vec::new()));
    sections.len() - 1
}

fn strip_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let starts = |index: usize| index == 0 || bytes[index - 1].is_ascii_whitespace();
    let mark = (0..bytes.len()).find(|&i| matches!(bytes[i], b'#' | b';') && starts(i));
    mark.map_or(line, |mark| &line[..mark])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section<'c>(config: &'c Config, name: &str) -> &'c [Entry] {
        let found = config.sections.iter().find(|(section, _)| section == name);
        found.map_or(&[], |(_, entries)| entries)
    }

    fn pairs(config: &Config, name: &str) -> Vec<(String, String)> {
        section(config, name).iter().map(|e| (e.key.clone(), e.value.clone())).collect()
    }

    #[test]
    fn the_dialect_of_the_original() {
        let text = "keybench 0.1.0 replay file - reproduce with: keybench --config x\n\
                    ops = 5 ; trailing\n\
                    # whole line\n\
                    [rocksdb]\n\
                    block = {a=1;b=2#c} # note\n\
                    [bench]\n\
                    workload = a.lua\n\
                    workload = b.lua\n\
                    [rocksdb]\n\
                    size=64M\n";
        let config = Config::parse(text).unwrap();
        let expect = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        assert_eq!(
            pairs(&config, "bench"),
            expect(&[("ops", "5"), ("workload", "a.lua"), ("workload", "b.lua")])
        );
        assert_eq!(pairs(&config, "rocksdb"), expect(&[("block", "{a=1;b=2#c}"), ("size", "64M")]));
        assert_eq!(section(&config, "rocksdb")[1].line, 10);
        assert!(section(&config, "absent").is_empty());
    }

    #[test]
    fn every_value_survives_the_dialect() {
        for value in
            ["", "plain", "a#b;c", "a # b", "; x", "#", " lead", "trail ", "two\nlines", "\"q\""]
        {
            let text = format!("title\n{}", render_entry("key", value));
            let config = Config::parse(&text).unwrap();
            let entries = section(&config, "bench");
            assert_eq!((entries[0].key.as_str(), entries[0].value.as_str()), ("key", value));
        }
        assert_eq!(Config::parse("t\nkey.json = plain\n").unwrap_err().0, 2);
    }

    #[test]
    fn lines_that_mean_nothing_are_refused_with_their_number() {
        assert_eq!(Config::parse("a = 1\n[x\n").unwrap_err().0, 2);
        assert_eq!(Config::parse("a = 1\nstray\n").unwrap_err().0, 2);
        assert_eq!(Config::parse(" = 1\n").unwrap_err().0, 1);
    }
}
