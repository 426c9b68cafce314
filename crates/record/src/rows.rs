//! What the threads of a job reported.
//!
//! A job is a workload that is a program of its own: each thread runs it once and reports named
//! results, such as how many values it put and how fast. A [`ThreadRow`] is what one thread
//! reported. Its fields keep the order in which the thread set them, in memory and in JSON, where
//! they are one object:
//!
//! ```text
//!   {"test": "rw1", "thread": 0, "fields": {"puts": 1001, "puts_per_sec": 812347.0, ..}}
//! ```

use serde::{Deserialize, Serialize};

/// What one thread of a job reported, in its own order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// The job; in a sequence the whole list with `@` and the place in it: `wcol1,rcol1@0`.
    pub test: String,
    /// Which thread, from 0.
    pub thread: u32,
    /// Name and value; a name occurs once.
    #[serde(with = "fields")]
    pub fields: Vec<(String, FieldValue)>,
}

impl ThreadRow {
    /// The value of the field `name`. O(fields).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.fields.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// One reported value. In JSON it is the bare value: `true`, `12`, `0.5`, `"text"`, `["a", "b"]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FieldValue {
    /// Yes or no.
    Flag(bool),
    /// A whole number of things.
    Count(u64),
    /// Any other number, mostly a rate per second.
    Number(f64),
    /// A line for people.
    Text(String),
    /// Several lines for people.
    List(Vec<String>),
}

impl FieldValue {
    /// The value as a number, where it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            FieldValue::Count(count) => Some(*count as f64),
            FieldValue::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// Fields travel as one object whose keys stand in the order of the list.
mod fields {
    use super::FieldValue;
    use serde::de::{Error, MapAccess, Visitor};
    use serde::ser::SerializeMap;
    use serde::{Deserializer, Serializer};
    use std::fmt;

    pub(super) fn serialize<S: Serializer>(
        fields: &[(String, FieldValue)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, FieldValue)>, D::Error> {
        deserializer.deserialize_map(InOrder)
    }

    struct InOrder;

    impl<'de> Visitor<'de> for InOrder {
        type Value = Vec<(String, FieldValue)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of reported values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields: Self::Value = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, FieldValue>()? {
                if fields.iter().any(|(known, _)| *known == name) {
                    return Err(A::Error::custom(format!("'{name}' is reported twice")));
                }
                fields.push((name, value));
            }
            Ok(fields)
        }
    }
}
