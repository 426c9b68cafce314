//! Command lines of the original: `--name=value`, each name from a table.

use std::collections::BTreeMap;

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// 0 or 1.
    Bool,
    /// Digits.
    Number,
    /// Digits and `k`.
    Kilo,
    /// Digits and `M`.
    Mega,
    /// Anything.
    Text,
}

/// A flag: its name, what its value has to be, and what it is without one.
pub(super) type Spec = (&'static str, Kind, &'static str);

/// Values by name; every flag of the table has one.
#[derive(Debug)]
pub(super) struct Values {
    values: BTreeMap<&'static str, String>,
}

/// Reads a command line. The error is the line that is printed, with the nearest name.
pub(super) fn parse(arguments: &[String], specs: &'static [Spec]) -> Result<Values, String> {
    let mut values: BTreeMap<&'static str, String> =
        specs.iter().map(|(name, _, default)| (*name, (*default).to_owned())).collect();
    for argument in arguments {
        let invalid = |why: &str| format!("Invalid flag: '{argument}'{why}");
        let Some((name, value)) = argument.strip_prefix("--").and_then(|rest| rest.split_once('='))
        else {
            return Err(invalid(" (flags are --name=value)"));
        };
        let Some((name, kind, _)) = specs.iter().find(|spec| spec.0 == name) else {
            let near = keyrack_store::nearest(name, specs.iter().map(|spec| spec.0));
            let hint = near.map(|near| format!(" (did you mean --{near}=?)"));
            return Err(invalid(hint.as_deref().unwrap_or_default()));
        };
        if let Some(why) = objection(*kind, value) {
            return Err(invalid(&format!(" ({why})")));
        }
        values.insert(name, value.to_owned());
    }
    Ok(Values { values })
}

fn objection(kind: Kind, value: &str) -> Option<&'static str> {
    let is_number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && text.parse::<u64>().is_ok_and(|number| number < 1 << 40)
    };
    let (digits, why) = match kind {
        Kind::Bool => return (!matches!(value, "0" | "1")).then_some("give 0 or 1"),
        Kind::Text => return None,
        Kind::Number => (Some(value), "give a number"),
        Kind::Kilo => (value.strip_suffix(['k', 'K']), "give a number with k behind it"),
        Kind::Mega => (value.strip_suffix(['m', 'M']), "give a number with M behind it"),
    };
    (!digits.is_some_and(is_number)).then_some(why)
}

impl Values {
    pub(super) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.text(name) == "1"
    }

    /// A number; of one with a unit, the bytes.
    pub(super) fn number(&self, name: &str) -> u64 {
        // The table checked it.
        keyrack_fs_tools::job::number(self.text(name)).unwrap_or(0)
    }

    pub(super) fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// A number with another's value where it is empty.
    pub(super) fn number_or(&self, name: &str, other: u64) -> u64 {
        if self.text(name).is_empty() { other } else { self.number(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[Spec] = &[
        ("share_dir", Kind::Bool, "0"),
        ("n", Kind::Number, "8"),
        ("udp_sndbuf", Kind::Kilo, "512k"),
        ("cache", Kind::Mega, "0M"),
        ("db", Kind::Text, "/tmp/x"),
    ];

    fn parsed(arguments: &[&str]) -> Result<Values, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        parse(&arguments, SPECS)
    }

    #[test]
    fn values_and_defaults_and_units() {
        let values = parsed(&["--share_dir=1", "--udp_sndbuf=8k", "--db=a=b"]).unwrap();
        assert!(values.flag("share_dir"));
        let numbers = (values.number("n"), values.number("udp_sndbuf"), values.text("db"));
        assert_eq!(numbers, (8, 8192, "a=b"));
    }

    #[test]
    fn wrong_flags_are_quoted_with_the_nearest() {
        for (argument, expected) in [
            ("--share_dri=1", "did you mean --share_dir="),
            ("--share_dir=2", "give 0 or 1"),
            ("--share_dir", "flags are --name=value"),
            ("-n=8", "flags are --name=value"),
            ("--n=", "give a number"),
            ("--n=-1", "give a number"),
            ("--n=99999999999999999999", "give a number"),
            ("--udp_sndbuf=8", "with k behind it"),
            ("--cache=8k", "with M behind it"),
        ] {
            let error = parsed(&[argument]).unwrap_err();
            assert!(error.starts_with(&format!("Invalid flag: '{argument}'")), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }
}
