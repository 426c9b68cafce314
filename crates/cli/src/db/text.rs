//! Keys and values as lines of text, of JSON or of hexadecimal digits.

use keyrack_console::{Failure, escaped, hex};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_text() {
        let line = |format: Format| format.line(&[("key", b"k"), ("value", b"\xfe")]);
        assert_eq!(line(Format::Text), "k\t\\xfe\n");
        assert_eq!(line(Format::Hex), "6b\tfe\n");
        assert_eq!(line(Format::Json), "{\"key\":\"k\",\"value_hex\":\"fe\"}\n");
        let with = |format: Format| format.line_with(&[("key", b"k")], &[("n", "7".to_owned())]);
        assert_eq!(with(Format::Hex), "6b\t7\n");
        assert_eq!(with(Format::Json), "{\"key\":\"k\",\"n\":7}\n");
    }
}
