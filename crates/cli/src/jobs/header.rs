//! What is said before a run, in the shapes of the original: date, machine, then a line for each
//! setting with its value from column 20 on.

use keyrack_measure::wall;
use keyrack_vfs::{Fs, RealFs};
use std::fmt::{Display, Write as _};
use std::path::Path;

/// Lines of a header.
#[derive(Debug)]
pub(super) struct Header {
    text: String,
}

impl Header {
    /// Date and machine.
    pub(super) fn new() -> Header {
        let mut header = Header { text: String::new() };
        let now = wall::ctime(&wall::rfc3339_now()).unwrap_or_default();
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
    pub(super) fn line(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.text, "{:<20}{value}", format!("{key}:"));
    }

    /// A setting that is a yes or a no.
    pub(super) fn flag(&mut self, key: &str, value: bool) {
        self.line(key, u8::from(value));
    }

    /// A line of its own.
    pub(super) fn title(&mut self, title: &str) {
        self.text.push_str(title);
        self.text.push('\n');
    }

    /// The header with its rule.
    pub(super) fn end(mut self) -> String {
        self.text.push_str(&"-".repeat(48));
        self.text.push('\n');
        self.text
    }
}
