//! What one thread of a job reports: named values in an order of their own.

/// Named values, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    fields: Vec<(String, Value)>,
}

/// One reported value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
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

impl Row {
    /// A row without fields.
    #[must_use]
    pub fn new() -> Row {
        Row::default()
    }

    /// Sets a field. O(fields).
    pub fn set(&mut self, name: &str, value: Value) {
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.fields.push((name.to_owned(), value)),
        }
    }

    /// Sets `name` to `count`, and `name_per_sec` to the rate over `seconds` where those are more
    /// than none. O(fields).
    pub fn set_rate(&mut self, name: &str, count: u64, seconds: f64) {
        self.set(name, Value::Count(count));
        if seconds > 0.0 {
            self.set(&format!("{name}_per_sec"), Value::Number(count as f64 / seconds));
        }
    }

    /// Sets all fields of `other`. O(fields of both).
    pub fn merge(&mut self, other: Row) {
        for (name, value) in other.fields {
            self.set(&name, value);
        }
    }

    /// The value of a field. O(fields).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The fields, in order.
    #[must_use]
    pub fn fields(&self) -> &[(String, Value)] {
        &self.fields
    }

    /// Gives the fields away, in order.
    #[must_use]
    pub fn into_fields(self) -> Vec<(String, Value)> {
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_set_again_keeps_its_place() {
        let mut row = Row::new();
        row.set_rate("puts", 10, 2.0);
        row.set_rate("gets", 3, 0.0);
        let mut more = Row::new();
        more.set("ok", Value::Flag(true));
        more.set("puts", Value::Count(11));
        row.merge(more);
        let names: Vec<&str> = row.fields().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["puts", "puts_per_sec", "gets", "ok"]);
        assert_eq!(row.get("puts"), Some(&Value::Count(11)));
        assert_eq!(row.get("puts_per_sec"), Some(&Value::Number(5.0)));
        assert_eq!(row.get("gets_per_sec"), None);
    }
}
