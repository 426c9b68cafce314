//! What is said before a run, in the shapes of the original: date, machine, then a line for each
//! setting with its value from column 20 on. The same as an object of JSON.

use keyrack_calendar as calendar;
use keyrack_vfs::{Fs, RealFs};
use serde_json::{Map, Value, json};
use std::fmt::{Display, Write as _};
use std::path::Path;

/// Lines of a header.
#[derive(Debug)]
pub struct Header {
    text: String,
    settings: Map<String, Value>,
    /// The title that settings stand under by now.
    section: Option<String>,
}

impl Header {
    /// Date and machine.
    pub(crate) fn new() -> Header {
        let (text, settings) = (String::new(), Map::new());
        let mut header = Header { text, settings, section: None };
        let now = calendar::ctime(&calendar::rfc3339_now()).unwrap_or_default();
        let cpuinfo = RealFs.read_to_string(Path::new("/proc/cpuinfo")).unwrap_or_default();
        let values = |key: &str| -> Vec<String> {
            let value = |line: &str| {
                let (name, value) = line.split_once(':')?;
                (name.trim() == key).then(|| value.trim().to_owned())
            };
            cpuinfo.lines().filter_map(value).collect()
        };
        let short = |key: &str, header: &mut Header, value: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(header.text, "{key:<12}{value}");
            header.note(key.trim_end_matches(':'), value);
        };
        let (count, models) = (values("processor").len(), values("model name"));
        let model = models.first().map_or("unknown", String::as_str);
        short("Date:", &mut header, &now);
        short("CPU:", &mut header, &format!("{count} * {model}"));
        let caches = values("cache size");
        short("CPUCache:", &mut header, caches.first().map_or("unknown", String::as_str));
        header
    }

    /// A setting.
    pub(crate) fn line(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.text, "{:<19} {value}", format!("{key}:"));
        self.note(key, &value.to_string());
    }

    /// Settings below a title stand in an object of their own.
    fn note(&mut self, key: &str, value: &str) {
        let value = value.trim();
        let value = value.parse::<u64>().map_or_else(|_| value.into(), Value::from);
        match self.section.as_ref().and_then(|name| self.settings.get_mut(name)) {
            Some(place) => place[key] = value,
            None => drop(self.settings.insert(key.to_owned(), value)),
        }
    }

    /// A setting that is a yes or a no.
    pub(crate) fn flag(&mut self, key: &str, value: bool) {
        self.line(key, u8::from(value));
    }

    /// A line of text without a value.
    pub(crate) fn caption(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// A setting whose value is not in a column.
    pub(crate) fn plain(&mut self, key: &str, value: &str) {
        let _ = writeln!(self.text, "{key}: {value}");
        self.note(key, value);
    }

    /// A title, with the settings below it in an object of their own.
    pub(crate) fn title(&mut self, title: &str) {
        self.caption(title);
        let section = title.trim_end_matches(':').to_owned();
        self.settings.insert(section.clone(), json!({}));
        self.section = Some(section);
    }

    /// Ends the settings below a title.
    pub(crate) fn untitled(&mut self) {
        self.section = None;
    }

    /// Something of a list below a title.
    pub(crate) fn item(&mut self, item: &str) {
        let _ = writeln!(self.text, "  {item}");
        if let Some(place) = self.section.as_ref().and_then(|name| self.settings.get_mut(name)) {
            match place.get_mut("list").and_then(Value::as_array_mut) {
                Some(list) => list.push(item.into()),
                None => place["list"] = json!([item]),
            }
        }
    }

    /// Names and values, with titles as objects of their own.
    pub(crate) fn json(&self) -> Value {
        Value::Object(self.settings.clone())
    }

    /// The header with its rule.
    pub(crate) fn end(mut self) -> String {
        self.text.push_str(&"-".repeat(48));
        self.text.push('\n');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_in_the_object() {
        let mut header = Header::new();
        header.line("Num ranks", 4);
        header.title("CHAIN:");
        header.item("/a");
        header.item("/b");
        header.title("MAIN DB:");
        header.flag("Snappy", true);
        header.line("Db", "/x/r<rank>");
        let found = header.json();
        assert_eq!(found["Num ranks"], 4);
        assert_eq!(found["CHAIN"]["list"], json!(["/a", "/b"]));
        assert_eq!(found["MAIN DB"], json!({"Snappy": 1, "Db": "/x/r<rank>"}));
        assert!(found["Date"].is_string() && found["CPU"].is_string());
        let text = header.end();
        assert!(text.contains("Num ranks:          4\nCHAIN:\n  /a\n  /b\nMAIN DB:\n"), "{text}");
    }
}
