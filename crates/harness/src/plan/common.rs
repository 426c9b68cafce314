//! `[common]`: one set of sizes for all engines of a run, each in the engine's own terms.
//!
//! | key | value | what it is |
//! |---|---|---|
//! | `memory_bytes` | a size | a memory table before it is written out |
//! | `cache_bytes` | a size | blocks or pages that the engine keeps in memory by itself |
//! | `compression` | codecs by level | of the tables of each level, the last for those below |
//! | `filter_bits` | a number | bits of a table's filter for each key, 0 for none |
//! | `durability` | a level | what a write survives |
//!
//! An engine has an equivalent when it has an option of the name; what the option does there is
//! the engine's page in the docs. The engine's own section wins, and so does `--durability`.
//!
//! Whether an engine takes a value is asked of the engine: a store is opened with it. All values
//! at once first; only where that is refused, one by one. A durability that an engine has not is
//! replaced by the next stronger one that it has, else by its own. Nothing is replaced in silence:
//! every departure is a remark, which stands at every result of the engine.

use keyrack_store::{Durability, Engine, parse_size, unknown};

/// The keys, in the order in which they are told.
const KEYS: &[&str] = &["memory_bytes", "cache_bytes", "compression", "filter_bits", DURABILITY];

const DURABILITY: &str = "durability";

/// Checks an entry of the section, as far as that can be done without an engine.
///
/// # Errors
/// One sentence that names key and value.
pub(crate) fn check(key: &str, value: &str) -> Result<(), String> {
    let refused = match key {
        DURABILITY => value.parse::<Durability>().err().map(|error| error.to_string()),
        "compression" if value.trim().is_empty() => Some("names no codec".to_owned()),
        "compression" => None,
        _ if KEYS.contains(&key) => parse_size(value).err(),
        _ => return Err(unknown("key of [common]", key, KEYS)),
    };
    refused.map_or(Ok(()), |why| Err(format!("[common] {key}: {why}")))
}

/// What an engine makes of the section.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// Its options: those of its own section, and what it took of the common ones.
    pub(super) options: Vec<(String, String)>,
    /// The durability to open it with; `None` is its own.
    pub(super) durability: Option<Durability>,
    /// Where its terms depart from those of the section, one sentence each.
    pub(super) remarks: Vec<String>,
}

type Options = [(String, String)];

/// Settles the terms of `engine`, whose own section is `own`. `run` is the durability that the run
/// insists on. `opens` tries a store out and says which durability it has, or why it cannot.
pub(super) fn negotiate(
    engine: &Engine,
    own: &Options,
    common: &Options,
    run: Option<Durability>,
    opens: &mut dyn FnMut(&Options, Option<Durability>) -> Result<Durability, String>,
) -> Terms {
    let name = engine.name;
    let is_own = |key: &str| own.iter().any(|(known, _)| known == key);
    let mut remarks = Vec::new();
    let (mut wanted, mut lacks) = (Vec::new(), Vec::new());
    for (key, value) in last_of_each(common) {
        if key == DURABILITY || is_own(key) {
            continue;
        }
        if engine.names(key) {
            wanted.push((key.to_owned(), value.to_owned()));
        } else {
            lacks.push(key);
        }
    }
    if !lacks.is_empty() {
        remarks.push(format!("[common] {name} has no equivalent of {}", lacks.join(", ")));
    }
    let asked = last_of_each(common).find(|(key, _)| *key == DURABILITY);
    let asked = asked.map(|(_, value)| {
        value.parse::<Durability>().expect("the section was checked when it was read")
    });
    let asked = asked.filter(|_| run.is_none() && !is_own(DURABILITY));
    let first = run.or(asked);
    let all: Vec<(String, String)> = own.iter().chain(&wanted).cloned().collect();
    if opens(&all, first).is_ok() {
        return Terms { options: all, durability: first, remarks };
    }
    let mut durability = first;
    if let Some(asked) = asked {
        for level in at_least(asked).map(Some).chain([None]) {
            if let Ok(given) = opens(own, level) {
                durability = level;
                if given != asked {
                    remarks.push(format!(
                        "[common] durability = {asked}: {name} does not have it, and runs at \
                         {given}"
                    ));
                }
                break;
            }
        }
    }
    let mut options = own.to_vec();
    for (key, value) in wanted {
        options.push((key.clone(), value.clone()));
        if let Err(why) = opens(&options, durability) {
            options.pop();
            remarks.push(format!("[common] {key} = {value}: {name} does not take it: {why}"));
        }
    }
    Terms { options, durability, remarks }
}

/// The level and those that promise more, from the weakest on.
fn at_least(level: Durability) -> impl Iterator<Item = Durability> {
    let stronger = (level != Durability::Sync).then_some(Durability::Sync);
    let stronger = stronger.filter(|_| level != Durability::None);
    std::iter::once(level).chain(stronger)
}

/// Of a key that stands twice the last counts, as in the section of an engine.
fn last_of_each(common: &Options) -> impl Iterator<Item = (&str, &str)> {
    KEYS.iter().filter_map(|key| {
        let (_, value) = common.iter().rev().find(|(known, _)| known == key)?;
        Some((*key, value.as_str()))
    })
}

/// One line of what an engine got: every key that it has an option for, then what it lacks.
pub(super) fn got(engine: &Engine, options: &Options, durability: Durability) -> String {
    let (mut has, mut lacks) = (Vec::new(), Vec::new());
    for key in KEYS.iter().filter(|key| **key != DURABILITY) {
        let given = options.iter().rev().find(|(known, _)| known == key);
        let default = engine.options.iter().find(|option| option.key == *key);
        match (given, default) {
            (Some((_, value)), _) => has.push(format!("{key}={value}")),
            (None, Some(option)) => has.push(format!("{key}={} (its default)", option.default)),
            (None, None) => lacks.push(*key),
        }
    }
    has.push(format!("{DURABILITY}={durability}"));
    if !lacks.is_empty() {
        has.push(format!("no {}", lacks.join(", ")));
    }
    has.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::{EngineOption, Error};

    const fn option(key: &'static str, default: &'static str) -> EngineOption {
        EngineOption { key, default, about: "" }
    }

    const ENGINE: Engine = Engine {
        name: "tree",
        about: "",
        persistent: true,
        stores: true,
        options: &[option("cache_bytes", "1G"), option("compression", "none")],
        open: |_| Err(Error::usage("not opened here")),
    };

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    /// Settles for an engine that knows no codec but `none` and has the durabilities given.
    fn settled(
        own: &[(&str, &str)],
        common: &[(&str, &str)],
        run: Option<Durability>,
        levels: &[Durability],
    ) -> (Terms, usize) {
        let mut tries = 0;
        let mut opens = |options: &Options, durability: Option<Durability>| {
            tries += 1;
            let wrong = |(key, value): &&(String, String)| key == "compression" && value != "none";
            if let Some((_, value)) = options.iter().find(wrong) {
                return Err(format!("'{value}' is not none"));
            }
            match durability {
                None => Ok(levels[0]),
                Some(level) if levels.contains(&level) => Ok(level),
                Some(level) => Err(format!("no {level}")),
            }
        };
        let terms = negotiate(&ENGINE, &pairs(own), &pairs(common), run, &mut opens);
        (terms, tries)
    }

    #[test]
    fn what_an_engine_takes_it_gets_at_the_first_try() {
        let common = [("cache_bytes", "8M"), ("compression", "none"), ("durability", "os")];
        let (terms, tries) = settled(&[], &common, None, &[Durability::Os]);
        assert_eq!(terms.options, pairs(&[("cache_bytes", "8M"), ("compression", "none")]));
        assert_eq!((terms.durability, tries), (Some(Durability::Os), 1));
        assert_eq!(terms.remarks, [] as [&str; 0]);
        let got = got(&ENGINE, &terms.options, Durability::Os);
        assert_eq!(
            got,
            "cache_bytes=8M compression=none durability=os no memory_bytes, filter_bits"
        );
    }

    #[test]
    fn what_it_lacks_and_what_it_refuses_is_said() {
        let common = [
            ("filter_bits", "10"),
            ("memory_bytes", "1M"),
            ("cache_bytes", "8M"),
            ("compression", "zstd"),
        ];
        let (terms, _) = settled(&[], &common, None, &[Durability::Sync]);
        assert_eq!(terms.options, pairs(&[("cache_bytes", "8M")]));
        assert_eq!(
            terms.remarks,
            [
                "[common] tree has no equivalent of memory_bytes, filter_bits",
                "[common] compression = zstd: tree does not take it: 'zstd' is not none"
            ]
        );
        let got = got(&ENGINE, &terms.options, Durability::Sync);
        assert!(got.contains("compression=none (its default)"), "{got}");
    }

    #[test]
    fn a_durability_that_is_missing_is_replaced_by_a_stronger_one_or_its_own() {
        use Durability::{None as Nothing, Os, Sync};
        let table: [(&str, &[Durability], Option<Durability>, &str); 4] = [
            ("os", &[Sync, Nothing], Some(Sync), "runs at sync"),
            ("sync", &[Nothing], None, "runs at none"),
            ("none", &[Sync, Os], None, "runs at sync"),
            ("interval:5", &[Nothing, Sync], Some(Sync), "runs at sync"),
        ];
        for (asked, levels, given, remark) in table {
            let (terms, _) = settled(&[], &[("durability", asked)], None, levels);
            assert_eq!(terms.durability, given, "{asked}");
            assert!(terms.remarks[0].contains(remark), "{asked}: {:?}", terms.remarks);
        }
    }

    #[test]
    fn its_own_section_and_the_run_win() {
        let common = [("cache_bytes", "8M"), ("durability", "os")];
        let own = [("cache_bytes", "1M")];
        let (terms, _) = settled(&own, &common, Some(Durability::Sync), &[Durability::Sync]);
        assert_eq!(terms.options, pairs(&own));
        assert_eq!(terms.durability, Some(Durability::Sync));
        assert_eq!(terms.remarks, [] as [&str; 0]);
        let own = [("durability", "sync")];
        let (terms, _) = settled(&own, &common, None, &[Durability::Os]);
        assert_eq!(terms.durability, None, "the option of its section says it");
    }

    #[test]
    fn entries_are_checked_by_name_and_value() {
        for (key, value) in [("cache_bytes", "64M"), ("compression", "x"), ("durability", "sync")] {
            assert_eq!(check(key, value), Ok(()));
        }
        for (key, value) in [
            ("cache_bytes", "64MB"),
            ("compression", ""),
            ("durability", "fsync"),
            ("filter_bits", "ten"),
        ] {
            let error = check(key, value).unwrap_err();
            assert!(error.starts_with(&format!("[common] {key}: ")), "{error}");
        }
        let error = check("cache_byte", "1").unwrap_err();
        assert!(error.contains("did you mean 'cache_bytes'?"), "{error}");
    }
}
