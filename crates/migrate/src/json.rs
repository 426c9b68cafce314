//! Rows as lines of JSON.
//!
//! ```text
//!   {"key":"k","type":"string","value":"v","expires_at_ms":1800000000000,"flags":7}
//!   {"key":"h","type":"hash","fields":{"name":"value"}}
//!   {"key_hex":"ff00","type":"string","value_hex":"fe"}
//!   {"key":"h","type":"hash","fields":{...},"more":true}     the next line goes on with this hash
//! ```
//!
//! Bytes that are not UTF-8 are hexadecimal digits, under a name that ends in `_hex`; a field of
//! which name or value is no UTF-8 stands in `fields_hex`, both in digits. `expires_at_ms` is in
//! milliseconds since 1970. What is not there is none, or 0.
//!
//! A hash of more than [`LINE_FIELDS_BYTES`] is several lines, so that neither side needs memory
//! for the whole.

use crate::args::Args;
use crate::error::Result;
use crate::event::{Entry, Event, Phase, Progress, Visit};
use crate::input::Input;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes of names and values after which a hash goes on in the next line.
const LINE_FIELDS_BYTES: usize = 1 << 20;

/// Writes events as lines.
#[derive(Debug, Default)]
pub struct JsonWriter {
    head: Head,
    fields: Args,
}

#[derive(Debug, Default)]
struct Head {
    key: Vec<u8>,
    expires_ms: Option<u64>,
    flags: u32,
}

impl JsonWriter {
    /// Appends what an event is in JSON to `out`. Events that are no rows are nothing.
    pub fn event(&mut self, event: &Event<'_>, out: &mut String) {
        match event {
            Event::String { entry, value } => {
                self.begin(entry);
                self.head.open("string", out);
                member("value", value, out);
                self.head.close("", out);
            }
            Event::Hash(entry) => self.begin(entry),
            Event::Field { name, value, .. } => {
                if self.fields.memory_bytes() >= LINE_FIELDS_BYTES {
                    self.line(true, out);
                }
                self.fields.push(name);
                self.fields.push(value);
            }
            Event::EndHash if !self.fields.is_empty() => self.line(false, out),
            _ => {}
        }
    }

    fn begin(&mut self, entry: &Entry<'_>) {
        self.fields.clear();
        self.head.key.clear();
        self.head.key.extend_from_slice(entry.key);
        (self.head.expires_ms, self.head.flags) = (entry.expires_ms, entry.flags);
    }

    /// The fields so far.
    fn line(&mut self, is_more: bool, out: &mut String) {
        self.head.open("hash", out);
        let slices = self.fields.slices();
        let is_text = |pair: &&[&[u8]]| pair.iter().all(|bytes| std::str::from_utf8(bytes).is_ok());
        let pairs = || slices.chunks_exact(2);
        object("fields", pairs().filter(is_text), out);
        object("fields_hex", pairs().filter(|pair| !is_text(pair)), out);
        self.head.close(if is_more { ",\"more\":true" } else { "" }, out);
        self.fields.clear();
    }
}

impl Head {
    fn open(&self, kind: &str, out: &mut String) {
        out.push('{');
        member("key", &self.key, out);
        // Writing to a String cannot fail.
        let _ = write!(out, ",\"type\":\"{kind}\",");
    }

    fn close(&self, last: &str, out: &mut String) {
        if let Some(expires_ms) = self.expires_ms {
            // Writing to a String cannot fail.
            let _ = write!(out, ",\"expires_at_ms\":{expires_ms}");
        }
        if self.flags != 0 {
            let _ = write!(out, ",\"flags\":{}", self.flags);
        }
        out.push_str(last);
        out.push_str("}\n");
    }
}

/// Pairs of names and values. `fields` is there if it is empty.
fn object<'a>(name: &str, pairs: impl Iterator<Item = &'a [&'a [u8]]>, out: &mut String) {
    let is_hex = name.ends_with("_hex");
    let mut pairs = pairs.peekable();
    if is_hex && pairs.peek().is_none() {
        return;
    }
    // Writing to a String cannot fail.
    let _ = write!(out, "{}\"{name}\":{{", if is_hex { "," } else { "" });
    for (index, pair) in pairs.enumerate() {
        if index > 0 {
            out.push(',');
        }
        for (side, bytes) in pair.iter().enumerate() {
            match std::str::from_utf8(bytes) {
                Ok(text) if !is_hex => quote(text, out),
                _ => quote_hex(bytes, out),
            }
            if side == 0 {
                out.push(':');
            }
        }
    }
    out.push('}');
}

fn member(name: &str, bytes: &[u8], out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let _ = write!(out, "\"{name}\":");
            quote(text, out);
        }
        Err(_) => {
            let _ = write!(out, "\"{name}_hex\":");
            quote_hex(bytes, out);
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}

fn quote_hex(bytes: &[u8], out: &mut String) {
    out.push('"');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out.push('"');
}

/// A line as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Line {
    key: Option<String>,
    key_hex: Option<String>,
    r#type: String,
    value: Option<String>,
    value_hex: Option<String>,
    fields: BTreeMap<String, String>,
    fields_hex: BTreeMap<String, String>,
    expires_at_ms: Option<u64>,
    flags: u32,
    more: bool,
}

/// Reads lines to the end, as rows of the database `db`.
pub(crate) fn read(input: &mut Input<'_>, db: u32, visit: Visit<'_>) -> Result<()> {
    // The key of a hash that goes on.
    let mut open: Option<Vec<u8>> = None;
    while let Some(end) = line_end(input)? {
        let at = input.offset();
        let text = &input.buffered()[..end];
        if !text.iter().all(u8::is_ascii_whitespace) {
            let parsed: std::result::Result<Line, _> = serde_json::from_slice(text);
            let line = parsed.map_err(|error| input.damage(at, error.to_string()))?;
            row(line, db, &mut open, visit)?.map_err(|what| input.damage(at, what))?;
        }
        let is_last = end == input.buffered().len();
        input.consume(if is_last { end } else { end + 1 });
        let (done, total) = (input.offset(), input.bytes_total());
        visit(Event::Progress(Progress { phase: Phase::Bytes, done, total }))?;
    }
    match open {
        Some(_) => input.damaged("the last line says that its hash goes on"),
        None => Ok(()),
    }
}

/// Buffers a whole line. Returns where it ends, or nothing at the end of the input.
fn line_end(input: &mut Input<'_>) -> Result<Option<usize>> {
    let mut searched = 0;
    loop {
        let buffered = input.buffered();
        if let Some(end) = buffered[searched..].iter().position(|byte| *byte == b'\n') {
            return Ok(Some(searched + end));
        }
        searched = buffered.len();
        if !input.fill()? {
            return Ok((searched > 0).then_some(searched));
        }
    }
}

/// Reports a line. The inner error says what is wrong with it.
fn row(
    line: Line,
    db: u32,
    open: &mut Option<Vec<u8>>,
    visit: Visit<'_>,
) -> Result<std::result::Result<(), &'static str>> {
    let Some(key) = bytes_of(line.key, line.key_hex.as_deref()) else {
        return Ok(Err("needs either key or key_hex"));
    };
    let Line { expires_at_ms: expires_ms, flags, more, .. } = line;
    let entry = Entry { db, key: &key, expires_ms, flags };
    let goes_on = open.take();
    if goes_on.as_ref().is_some_and(|open| *open != key || line.r#type != "hash") {
        return Ok(Err("the line before says that its hash goes on"));
    }
    let has_fields = !line.fields.is_empty() || !line.fields_hex.is_empty();
    match line.r#type.as_str() {
        "string" if !has_fields && !more => {
            let Some(value) = bytes_of(line.value, line.value_hex.as_deref()) else {
                return Ok(Err("needs either value or value_hex"));
            };
            visit(Event::String { entry, value: &value })?;
        }
        "hash" if has_fields && line.value.is_none() && line.value_hex.is_none() => {
            if goes_on.is_none() {
                visit(Event::Hash(entry))?;
            }
            let expires_ms = None;
            for (name, value) in &line.fields {
                let (name, value) = (name.as_bytes(), value.as_bytes());
                visit(Event::Field { name, value, expires_ms })?;
            }
            for (name, value) in &line.fields_hex {
                let (Some(name), Some(value)) = (from_hex(name), from_hex(value)) else {
                    return Ok(Err("fields_hex needs an even number of hexadecimal digits"));
                };
                visit(Event::Field { name: &name, value: &value, expires_ms })?;
            }
            if more {
                *open = Some(key);
            } else {
                visit(Event::EndHash)?;
            }
        }
        "string" | "hash" => return Ok(Err("has members that its type does not have")),
        _ => return Ok(Err("the type is neither string nor hash")),
    }
    Ok(Ok(()))
}

fn bytes_of(text: Option<String>, hex: Option<&str>) -> Option<Vec<u8>> {
    match (text, hex) {
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(hex)) => from_hex(hex),
        _ => None,
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = text.as_bytes();
    let pairs = bytes.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    if bytes.len().is_multiple_of(2) { pairs.collect() } else { None }
}
