//! The workloads `index/...`: one kind of operation on the keys of one [key set](KeySet).
//!
//! They compare indexes in memory, so values are short and everything that a phase does not measure
//! is left out: a phase is one verb, except `mix`.
//!
//! | phase | loaded before | each operation | keys |
//! |---|---|---|---|
//! | `load` | nothing | a put | the set in the order of its numbers, each worker its share |
//! | `get` | the set | a get | uniform |
//! | `scan` | the set | the next 50 rows | uniform |
//! | `mix` | the set | a get or a put, equally often | uniform |
//! | `insert` | the set | a put of a new key | the numbers after the set, each worker its share |
//!
//! Workers share no counter: a counter would be the one cache line that all of them write. Numbers
//! are in no relation to the order of the keys, except in `composed`, where they ascend in each
//! table. A `load` that goes on after the last key overwrites from the first one on.

use crate::error::Error;
use crate::format::KeyFormat;
use crate::key_distribution::KeyDistribution;
use crate::key_set::KeySet;
use crate::keys::KeySpec;
use crate::mix::{LoadSpec, MixKeys, MixSpec, OpSpec, Verb};
use crate::sizes::SizeDistribution;
use crate::values::ValueSpec;
use crate::zipf::RANKS_MAX;

/// What the names of the workloads begin with; the name of the key set follows.
const PREFIX: &str = "index/";

/// The parameter that names the phase.
pub(crate) const PHASE: &str = "phase";

/// Bytes of a value: those of a pointer or a row number, which is what an index has.
const VALUE_BYTES: u32 = 8;

/// Rows of a scan.
const SCAN_ROWS: u32 = 50;

/// Keys that the load writes at once.
const LOAD_BATCH: u32 = 512;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexPhase {
    Load,
    Get,
    Scan,
    Mix,
    Insert,
}

impl IndexPhase {
    fn parse(name: Option<&str>) -> Result<IndexPhase, Error> {
        match name {
            Some("load") => Ok(IndexPhase::Load),
            None | Some("get") => Ok(IndexPhase::Get),
            Some("scan") => Ok(IndexPhase::Scan),
            Some("mix") => Ok(IndexPhase::Mix),
            Some("insert") => Ok(IndexPhase::Insert),
            Some(other) => {
                Err(Error::parameter(PHASE, format!("'{other}'"), "load, get, scan, mix or insert"))
            }
        }
    }
}

/// The key set of the workload called `name`, if it is one of these.
pub(crate) fn set_of(name: &str) -> Option<KeySet> {
    KeySet::named(name.strip_prefix(PREFIX)?)
}

/// Whether `phase` measures the load of a store, which ends with the last key.
pub(crate) fn is_load(phase: Option<&str>) -> bool {
    IndexPhase::parse(phase) == Ok(IndexPhase::Load)
}

/// The workload over `items` keys of `set` in `phase`, `get` by default; without name and words.
///
/// # Errors
///
/// [`Error::Parameter`] for an unknown phase.
pub(crate) fn index_mix(set: KeySet, items: u64, phase: Option<&str>) -> Result<MixSpec, Error> {
    let phase = IndexPhase::parse(phase)?;
    let format = KeyFormat::of_set(set, 0);
    let sequential = |first, count| KeySpec {
        format: format.clone(),
        count,
        first,
        distribution: KeyDistribution::Sequential,
        scramble: false,
    };
    let set = sequential(0, items);
    let keys = match phase {
        IndexPhase::Load => set.clone(),
        IndexPhase::Insert => sequential(items, RANKS_MAX),
        IndexPhase::Get | IndexPhase::Scan | IndexPhase::Mix => {
            KeySpec { distribution: KeyDistribution::Uniform, ..set.clone() }
        }
    };
    let verbs: &[Verb] = match phase {
        IndexPhase::Load | IndexPhase::Insert => &[Verb::Insert],
        IndexPhase::Get => &[Verb::Get],
        IndexPhase::Scan => &[Verb::Scan],
        IndexPhase::Mix => &[Verb::Get, Verb::Put],
    };
    let limit = SizeDistribution::Fixed(SCAN_ROWS);
    let op = |verb: &Verb| OpSpec { verb: *verb, weight: 1.0, keys: 0, value: 0, limit, batch: 1 };
    let value = ValueSpec { size: SizeDistribution::Fixed(VALUE_BYTES), compress: 0.0, seed: 1 };
    let load = LoadSpec { keys: set, value, batch: LOAD_BATCH };
    Ok(MixSpec {
        name: String::new(),
        about: String::new(),
        keys: vec![MixKeys { spec: keys, counter: None }],
        values: vec![value],
        ops: verbs.iter().map(op).collect(),
        load: (phase != IndexPhase::Load).then_some(load),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;
    use crate::check::SEED;
    use crate::mix::MixSource;
    use crate::rng::Phase;

    const ITEMS: u64 = 1000;

    fn source(set: KeySet, phase: &str, who: (u32, u32)) -> MixSource {
        let spec = index_mix(set, ITEMS, Some(phase)).unwrap();
        spec.check().unwrap();
        MixSource::new(&spec, &spec.counters(), SEED, Phase::Run, who).unwrap()
    }

    /// What three workers draw in `count` operations each: verbs, and numbers of keys.
    fn drawn(phase: &str, count: u64) -> (HashMap<Verb, u64>, Vec<u64>) {
        let (mut verbs, mut numbers) = (HashMap::new(), Vec::new());
        for thread in 0..3 {
            let mut source = source(KeySet::Url, phase, (thread, 3));
            for _ in 0..count {
                let op = source.pick();
                *verbs.entry(source.op(op).verb).or_insert(0) += 1;
                numbers.push(source.keys(op).next_index());
            }
        }
        (verbs, numbers)
    }

    #[test]
    fn a_phase_is_one_verb_and_mix_two() {
        for (phase, verb) in [
            ("load", Verb::Insert),
            ("get", Verb::Get),
            ("scan", Verb::Scan),
            ("insert", Verb::Insert),
        ] {
            let (verbs, _) = drawn(phase, 500);
            assert_eq!(verbs, HashMap::from([(verb, 1500)]), "{phase}");
        }
        let (verbs, _) = drawn("mix", 10_000);
        assert_eq!(verbs[&Verb::Get] + verbs[&Verb::Put], 30_000);
        assert!(verbs[&Verb::Get].abs_diff(15_000) < 400, "{verbs:?}; SEED={SEED}");
        assert_eq!(source(KeySet::Url, "scan", (0, 1)).limit(0), 50);
    }

    #[test]
    fn reads_and_overwrites_stay_in_the_set_and_reach_all_of_it() {
        for phase in ["get", "scan", "mix"] {
            let numbers: BTreeSet<u64> = drawn(phase, 5000).1.into_iter().collect();
            assert_eq!(numbers.last(), Some(&(ITEMS - 1)), "{phase}");
            assert_eq!(numbers.len() as u64, ITEMS, "{phase}");
        }
    }

    #[test]
    fn a_load_is_the_set_once_and_inserts_are_new() {
        for (phase, expected) in [("load", 0..1000), ("insert", 1000..2000)] {
            // A thousand keys are 334 for the first of three workers and 333 for the others.
            let mut numbers: Vec<u64> = drawn(phase, 334).1;
            numbers.retain(|number| expected.contains(number));
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers, expected.collect::<Vec<u64>>(), "{phase}");
        }
        let (_, mut inserted) = drawn("insert", 10_000);
        inserted.sort_unstable();
        inserted.dedup();
        assert_eq!((inserted.len(), inserted[0]), (30_000, ITEMS));
    }

    #[test]
    fn all_but_the_load_have_one_before_them_with_their_keys() {
        for set in KeySet::ALL {
            assert_eq!(index_mix(set, ITEMS, Some("load")).unwrap().load, None);
            for phase in [None, Some("get"), Some("scan"), Some("mix"), Some("insert")] {
                let spec = index_mix(set, ITEMS, phase).unwrap();
                let load = spec.load.unwrap();
                assert_eq!((load.keys.first, load.keys.count), (0, ITEMS));
                assert_eq!(load.keys.format, KeyFormat::of_set(set, 0));
                assert_eq!(spec.keys[0].spec.format, load.keys.format);
            }
        }
        assert_eq!(index_mix(KeySet::Url, 5, None), index_mix(KeySet::Url, 5, Some("get")));
    }

    #[test]
    fn names_and_phases_are_known() {
        assert_eq!(set_of("index/be8"), Some(KeySet::Be8));
        for name in ["index/", "index/urls", "url", "ycsb/a", "index"] {
            assert_eq!(set_of(name), None, "{name}");
        }
        assert!(is_load(Some("load")) && !is_load(Some("get")) && !is_load(None));
        assert!(!is_load(Some("laod")));
        for wrong in ["gte", "", "Load", "load "] {
            assert_eq!(
                index_mix(KeySet::Url, 5, Some(wrong)).unwrap_err().to_string(),
                format!("phase is '{wrong}', expected load, get, scan, mix or insert")
            );
        }
    }
}
