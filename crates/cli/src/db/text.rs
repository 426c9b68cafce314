//! Keys and values as text, and a standard output that is written as it comes.

use super::Failure;
use std::fmt::Write as _;
use std::io::{BufWriter, ErrorKind, StdoutLock, Write};

/// How bytes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// As text, with `\xNN` for what is none.
    Text,
    /// An object a line.
    Json,
    /// Two digits a byte.
    Hex,
}

impl Format {
    pub(crate) const NAMES: [&str; 3] = ["text", "json", "hex"];

    pub(crate) fn of(name: &str) -> Result<Self, Failure> {
        match name {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            "hex" => Ok(Format::Hex),
            _ => Err(Failure::Usage(keyrack_store::unknown("format", name, &Self::NAMES))),
        }
    }

    /// A line for some named fields of bytes.
    pub(crate) fn line(self, fields: &[(&str, &[u8])]) -> String {
        self.line_with(fields, &[])
    }

    /// The same with fields that are text whatever the format, behind the first of the others.
    pub(crate) fn line_with(self, fields: &[(&str, &[u8])], plain: &[(&str, String)]) -> String {
        if self == Format::Json {
            let mut object = serde_json::Map::new();
            for (name, bytes) in fields {
                // A string where it is text; otherwise digits, under a name that says so.
                match std::str::from_utf8(bytes) {
                    Ok(text) => object.insert((*name).to_owned(), text.into()),
                    Err(_) => object.insert(format!("{name}_hex"), hex(bytes).into()),
                };
            }
            for (name, text) in plain {
                let number = text.parse::<u64>().map(serde_json::Value::from);
                object.insert((*name).to_owned(), number.unwrap_or_else(|_| text.clone().into()));
            }
            return serde_json::Value::Object(object).to_string() + "\n";
        }
        let show = |bytes: &[u8]| if self == Format::Hex { hex(bytes) } else { escaped(bytes) };
        let mut shown: Vec<String> = fields.iter().map(|(_, bytes)| show(bytes)).collect();
        let place = shown.len().min(1);
        shown.splice(place..place, plain.iter().map(|(_, text)| text.clone()));
        shown.join("\t") + "\n"
    }
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        // Writing to a string does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What pairs of digits say; `None` if they are something else.
pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs
        .map(|pair| match pair {
            [high, low] => Some((digit(*high)? << 4 | digit(*low)?) as u8),
            _ => None,
        })
        .collect()
}

/// As text: printable characters as they are, others as `\xNN`; so are tabs and line ends, and a
/// backslash is two.
pub(crate) fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.push_str("\\\\"),
                _ if character.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in character.encode_utf8(&mut bytes).bytes() {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                }
                _ => out.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Standard output. A reader that went away has all it wanted.
pub(crate) struct Out {
    to: BufWriter<StdoutLock<'static>>,
}

impl Out {
    pub(crate) fn new() -> Self {
        Out { to: BufWriter::with_capacity(1 << 16, std::io::stdout().lock()) }
    }

    /// Writes; false when nobody reads any more.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        written(self.to.write_all(bytes))
    }

    /// Ends the output.
    pub(crate) fn finish(mut self) -> Result<u8, Failure> {
        written(self.to.flush()).map(|_| crate::DONE)
    }
}

fn written(written: std::io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(format!("cannot write standard output: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text() {
        assert_eq!(escaped("k\u{e9}y".as_bytes()), "k\u{e9}y");
        assert_eq!(escaped(b"a\tb\n\\\xff\0"), "a\\x09b\\x0a\\\\\\xff\\x00");
        let line = |format: Format| format.line(&[("key", b"k"), ("value", b"\xfe")]);
        assert_eq!(line(Format::Text), "k\t\\xfe\n");
        assert_eq!(line(Format::Hex), "6b\tfe\n");
        assert_eq!(line(Format::Json), "{\"key\":\"k\",\"value_hex\":\"fe\"}\n");
        let with = |format: Format| format.line_with(&[("key", b"k")], &[("n", "7".to_owned())]);
        assert_eq!(with(Format::Hex), "6b\t7\n");
        assert_eq!(with(Format::Json), "{\"key\":\"k\",\"n\":7}\n");
    }

    #[test]
    fn digits_come_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&hex(&bytes)), Some(bytes));
        assert_eq!(from_hex("AbcD"), Some(vec![0xab, 0xcd]));
        assert_eq!(from_hex(""), Some(vec![]));
        for bad in ["a", "abc", "0x", "g0", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
