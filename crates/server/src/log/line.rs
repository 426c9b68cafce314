//! A line of the log.
//!
//! Whatever a field holds, the line is one line of printable characters, and valid JSON where that
//! is the format:
//!
//! ```text
//!   bytes of a client     a"\n\xff\u{202e}
//!   printable             a"\x0a\xff\xe2\x80\xae          escaped, then cut
//!   in a line             "a\"\\x0a\\xff\\xe2\\x80\\xae"    a string of JSON in both formats
//! ```

use super::{EventFacts, LogFormat};
use std::fmt::Write;

/// Bytes of a client's text that are shown.
pub(crate) const CLIENT_BYTES_MAX: usize = 128;

/// Bytes of a text of the server's own.
const TEXT_BYTES_MAX: usize = 4096;

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Text of the server, or of the machine.
    Text(&'a str),
    /// Text of a client.
    Bytes(&'a [u8]),
    /// Text of a client that was cut before, with a note of what was.
    Cut(&'a [u8]),
    Count(u64),
}

/// The line of an event, with its end.
pub(super) fn format(
    format: LogFormat,
    unix_ns: u64,
    facts: &EventFacts,
    fields: &[Value<'_>],
) -> String {
    debug_assert_eq!(facts.fields.len(), fields.len(), "a value for each field");
    let mut line = String::with_capacity(128);
    let time = keyrack_calendar::rfc3339_millis_of_ns(unix_ns);
    let level = facts.level.name();
    // Writing to a string does not fail.
    let _ = match format {
        LogFormat::Text => {
            write!(line, "{time} {} {}", level.to_ascii_uppercase(), facts.name)
        }
        LogFormat::Json => {
            write!(line, "{{\"time\":\"{time}\",\"level\":\"{level}\",\"event\":\"{}\"", facts.name)
        }
    };
    for (name, value) in facts.fields.iter().zip(fields) {
        let _ = match format {
            LogFormat::Text => write!(line, " {name}="),
            LogFormat::Json => write!(line, ",\"{name}\":"),
        };
        put(*value, format, &mut line);
    }
    line.push_str(match format {
        LogFormat::Text => "\n",
        LogFormat::Json => "}\n",
    });
    line
}

fn put(value: Value<'_>, format: LogFormat, line: &mut String) {
    let text = match value {
        Value::Count(count) => {
            let _ = write!(line, "{count}");
            return;
        }
        Value::Text(text) => printable(text.as_bytes(), TEXT_BYTES_MAX),
        Value::Bytes(bytes) => printable(bytes, CLIENT_BYTES_MAX),
        Value::Cut(bytes) => printable(bytes, TEXT_BYTES_MAX),
    };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/,".contains(&byte);
    if format == LogFormat::Text && !text.is_empty() && text.bytes().all(is_word) {
        line.push_str(&text);
        return;
    }
    // `printable` has left nothing else that a string of JSON cannot hold.
    line.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            line.push('\\');
        }
        line.push(character);
    }
    line.push('"');
}

/// Text of at most `bytes_max` bytes: letters, digits and what ASCII prints as they are, other
/// bytes as `\xNN`, a backslash as two. What is cut is counted at the end.
pub(crate) fn printable(bytes: &[u8], bytes_max: usize) -> String {
    let (shown, rest) = bytes.split_at(bytes.len().min(bytes_max));
    let mut text = String::with_capacity(shown.len());
    for chunk in shown.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                ' '..='~' => text.push(character),
                _ if character.is_alphanumeric() => text.push(character),
                _ => {
                    let mut bytes = [0; 4];
                    put_bytes(character.encode_utf8(&mut bytes).as_bytes(), &mut text);
                }
            }
        }
        put_bytes(chunk.invalid(), &mut text);
    }
    if !rest.is_empty() {
        let _ = write!(text, "... ({} more bytes)", rest.len());
    }
    text
}

fn put_bytes(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        let _ = write!(text, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LogLevel, Rate};
    use super::*;

    const FACTS: EventFacts = EventFacts {
        name: "an-event",
        level: LogLevel::Warn,
        rate: Rate::Limited,
        fields: &["peer", "user", "count"],
        meaning: "",
    };

    fn both(user: &[u8]) -> [String; 2] {
        let fields = [Value::Text("127.0.0.1:5"), Value::Bytes(user), Value::Count(7)];
        [LogFormat::Text, LogFormat::Json]
            .map(|kind| format(kind, 1_234_567_890_999_999_999, &FACTS, &fields))
    }

    #[test]
    fn a_line_has_its_fields_in_both_formats() {
        let [text, json] = both(b"ann");
        assert_eq!(
            text,
            "2009-02-13T23:31:30.999Z WARN an-event peer=127.0.0.1:5 user=ann count=7\n"
        );
        assert_eq!(
            json,
            "{\"time\":\"2009-02-13T23:31:30.999Z\",\"level\":\"warn\",\"event\":\"an-event\",\
             \"peer\":\"127.0.0.1:5\",\"user\":\"ann\",\"count\":7}\n"
        );
    }

    #[test]
    fn bytes_of_clients_make_no_line_and_no_escape() {
        let hostile: Vec<Vec<u8>> = vec![
            (0..=255).take(128).collect(),
            (0..=255).rev().take(128).collect(),
            b"x\n2026-01-01T00:00:00.000Z ERROR made-up".to_vec(),
            b"\x1b[2J\x1b]0;title\x07".to_vec(),
            "\u{202e}\u{2028}\u{85}\u{9b}31m\u{200b}\u{feff}".as_bytes().to_vec(),
            b"\",\"level\":\"error".to_vec(),
            b"\\".to_vec(),
            b"".to_vec(),
            vec![0xf0, 0x9f],
        ];
        for user in hostile {
            for line in both(&user) {
                let body = line.strip_suffix('\n').unwrap();
                assert!(
                    body.chars().all(|c| matches!(c, ' '..='~') || c.is_alphanumeric()),
                    "{line:?}"
                );
                // Quotes are balanced: each string ends where it should.
                let escaped = body.replace("\\\\", "").replace("\\\"", "");
                assert_eq!(escaped.matches('"').count() % 2, 0, "{line:?}");
                assert!(!escaped.contains('\\'), "{line:?}");
            }
        }
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        let exact = vec![b'a'; CLIENT_BYTES_MAX];
        assert_eq!(printable(&exact, CLIENT_BYTES_MAX).len(), CLIENT_BYTES_MAX);
        let cut = printable(&[b'a'; CLIENT_BYTES_MAX + 1], CLIENT_BYTES_MAX);
        assert_eq!(cut, format!("{}... (1 more bytes)", "a".repeat(CLIENT_BYTES_MAX)));
        // What was cut before keeps its own note.
        let before = ["a".repeat(CLIENT_BYTES_MAX).as_str(), "... (3 more bytes)"].concat();
        let mut line = String::new();
        put(Value::Cut(before.as_bytes()), LogFormat::Json, &mut line);
        assert_eq!(line, format!("\"{before}\""));
        // In the middle of a character: its bytes are shown.
        assert_eq!(printable("é".as_bytes(), 1), "\\xc3... (1 more bytes)");
    }
}
