//! The workloads that are known by name and need no script.
//!
//! [`native`] lists them, and says where they differ from YCSB.

use crate::error::Error;
use crate::format::KeyFormat;
use crate::index::{self, PHASE, index_mix};
use crate::key_distribution::KeyDistribution;
use crate::keys::KeySpec;
use crate::mix::{LoadSpec, MixKeys, MixSpec, OpSpec, Verb};
use crate::sizes::SizeDistribution;
use crate::values::ValueSpec;

/// The names, and what they are.
const NAMES: [(&str, &str); 14] = [
    (
        "mixed",
        "50 % get, 30 % put, 10 % del, 10 % range of 100 keys; uniform keys, 4096-byte values",
    ),
    ("ycsb/a", "update heavy: 50 % read, 50 % write of a whole 1000-byte record; zipf 0.99"),
    ("ycsb/b", "read mostly: 95 % read, 5 % write of a whole 1000-byte record; zipf 0.99"),
    ("ycsb/c", "read only; 1000-byte records, zipf 0.99"),
    ("ycsb/d", "read latest: 95 % read of recent keys, 5 % insert; 1000-byte records, latest 0.99"),
    (
        "ycsb/e",
        "short ranges: 95 % scan of 1 to 100 rows, 5 % insert; 1000-byte records, zipf 0.99",
    ),
    ("ycsb/f", "50 % read, 50 % atomic read-modify-write of a whole 1000-byte record; zipf 0.99"),
    ("index/url", "one verb on web addresses of 69 bytes; -P phase=load|get|scan|mix|insert"),
    ("index/path", "the same on names of files of 63 bytes"),
    ("index/email", "the same on addresses of electronic mail of 24 bytes"),
    ("index/uuid", "the same on UUIDs of 36 bytes"),
    ("index/composed", "the same on tenant/table/number, 38 bytes"),
    ("index/decimal", "the same on decimal numbers of up to 10 bytes"),
    ("index/be8", "the same on 8 random bytes"),
];

/// The seed of the contents of the values.
const VALUE_SEED: u64 = 1;

/// The fraction of the values that compresses away.
const COMPRESS: f64 = 0.5;

/// The keys that the load writes at once.
const LOAD_BATCH: u32 = 512;

/// The counter of inserted keys.
const INSERTED: &str = "inserted";

/// The names that [`native`] knows, each with what it is.
#[must_use]
pub fn native_names() -> &'static [(&'static str, &'static str)] {
    &NAMES
}

/// The workload with `name` over `items` keys, or `None` if there is none. `param` has the values
/// of its parameters; only those that the workload has are asked for.
///
/// | name | operations | keys |
/// |---|---|---|
/// | `mixed` | 50 get, 30 put, 10 del, 10 range of 100 | uniform, `k:%012d` |
/// | `ycsb/a` | 50 get, 50 put | scrambled Zipf 0.99, `user%019h` |
/// | `ycsb/b` | 95 get, 5 put | the same |
/// | `ycsb/c` | 100 get | the same |
/// | `ycsb/d` | 95 get, 5 insert | latest 0.99 |
/// | `ycsb/e` | 95 scan of 1 to 100 rows, 5 insert | scrambled Zipf 0.99 |
/// | `ycsb/f` | 50 get, 50 update | scrambled Zipf 0.99 |
/// | `index/url` and others | those of the parameter `phase` | of a [key set](crate::KeySet) |
///
/// The YCSB mixes are those of B. F. Cooper et al., "Benchmarking cloud serving systems with YCSB"
/// (2010), with these differences:
///
/// * A record is one value of 1000 bytes, not ten fields of 100. An update therefore writes the
///   whole record, where YCSB writes one field.
/// * Keys are `user` and YCSB's hash of the number, always with 19 digits, so that all have 23
///   bytes. Records are inserted in the order of their numbers, which is random in key order.
/// * The Zipf distribution is exact over the records that exist. YCSB's own distribution is
///   flatter; `zipf_ycsb` draws it.
/// * Read-modify-write is one atomic update, not a read followed by a write.
///
/// Half of every value compresses away, for all of them. The workloads `index/...` have values of 8
/// bytes that do not.
///
/// `items` must be at least 1 for the workload to pass [`KeySource::new`](crate::KeySource::new).
///
/// # Errors
///
/// [`Error::Parameter`] for a value of a parameter that the workload does not know.
pub fn native<'p>(
    name: &str,
    items: u64,
    param: impl Fn(&str) -> Option<&'p str>,
) -> Option<Result<MixSpec, Error>> {
    let (name, about) = NAMES.into_iter().find(|(known, _)| *known == name)?;
    let mix = match index::set_of(name) {
        Some(set) => index_mix(set, items, param(PHASE)),
        None => Ok(mix_of(name, items)?),
    };
    Some(mix.map(|mix| MixSpec { name: name.to_owned(), about: about.to_owned(), ..mix }))
}

/// The keys that the workload with `name` has, if it ends with the last of them where nothing else
/// bounds it: one that measures the load of a store.
#[must_use]
pub fn native_count<'p>(
    name: &str,
    items: u64,
    param: impl Fn(&str) -> Option<&'p str>,
) -> Option<u64> {
    index::set_of(name)?;
    index::is_load(param(PHASE)).then_some(items)
}

/// A mix or a YCSB mix, without name and words.
fn mix_of(name: &str, items: u64) -> Option<MixSpec> {
    let zipf = KeyDistribution::Zipf { theta: 0.99 };
    let latest = KeyDistribution::Latest { theta: 0.99 };
    let rows = SizeDistribution::Uniform { min: 1, max: 100 };
    let ycsb = |distribution, ops: &[(Verb, f64)]| ycsb_mix(items, distribution, rows, ops);
    Some(match name {
        "mixed" => mixed(items),
        "ycsb/a" => ycsb(zipf, &[(Verb::Get, 50.0), (Verb::Put, 50.0)]),
        "ycsb/b" => ycsb(zipf, &[(Verb::Get, 95.0), (Verb::Put, 5.0)]),
        "ycsb/c" => ycsb(zipf, &[(Verb::Get, 100.0)]),
        "ycsb/d" => ycsb(latest, &[(Verb::Get, 95.0), (Verb::Insert, 5.0)]),
        "ycsb/e" => ycsb(zipf, &[(Verb::Scan, 95.0), (Verb::Insert, 5.0)]),
        "ycsb/f" => ycsb(zipf, &[(Verb::Get, 50.0), (Verb::Update, 50.0)]),
        _ => return None,
    })
}

/// Reads, writes, removals and ranges over uniform keys.
fn mixed(items: u64) -> MixSpec {
    let format = KeyFormat::padded_decimal("k:", 12);
    let ops = [(Verb::Get, 50.0), (Verb::Put, 30.0), (Verb::Del, 10.0), (Verb::Range, 10.0)];
    let keys = sequential(format, items);
    let uniform = KeySpec { distribution: KeyDistribution::Uniform, ..keys.clone() };
    let limit = SizeDistribution::Fixed(100);
    MixSpec {
        name: String::new(),
        about: String::new(),
        keys: vec![MixKeys { spec: uniform, counter: None }],
        values: vec![value(4096)],
        ops: ops.map(|(verb, weight)| op(verb, weight, 0, limit)).to_vec(),
        load: Some(LoadSpec { keys, value: value(4096), batch: LOAD_BATCH }),
    }
}

/// A YCSB mix. List 0 is read and written; list 1, present when the mix inserts, gives the new
/// keys.
fn ycsb_mix(
    items: u64,
    distribution: KeyDistribution,
    limit: SizeDistribution,
    ops: &[(Verb, f64)],
) -> MixSpec {
    let inserts = ops.iter().any(|(verb, _)| *verb == Verb::Insert);
    let counter = inserts.then(|| INSERTED.to_owned());
    let load = sequential(KeyFormat::ycsb(), items);
    let scramble = matches!(distribution, KeyDistribution::Zipf { .. });
    let chosen = KeySpec { distribution, scramble, ..load.clone() };
    let mut keys = vec![MixKeys { spec: chosen, counter: counter.clone() }];
    if inserts {
        let spec = KeySpec { distribution: KeyDistribution::Insert, ..load.clone() };
        keys.push(MixKeys { spec, counter });
    }
    let list = |verb| usize::from(verb == Verb::Insert);
    MixSpec {
        name: String::new(),
        about: String::new(),
        keys,
        values: vec![value(1000)],
        ops: ops.iter().map(|(verb, weight)| op(*verb, *weight, list(*verb), limit)).collect(),
        load: Some(LoadSpec { keys: load, value: value(1000), batch: LOAD_BATCH }),
    }
}

fn op(verb: Verb, weight: f64, keys: usize, limit: SizeDistribution) -> OpSpec {
    OpSpec { verb, weight, keys, value: 0, limit, batch: 1 }
}

fn value(bytes: u32) -> ValueSpec {
    ValueSpec { size: SizeDistribution::Fixed(bytes), compress: COMPRESS, seed: VALUE_SEED }
}

fn sequential(format: KeyFormat, count: u64) -> KeySpec {
    KeySpec { format, count, first: 0, distribution: KeyDistribution::Sequential, scramble: false }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::check::SEED;
    use crate::key_set::KeySet;
    use crate::mix::MixSource;
    use crate::rng::Phase;

    fn spec(name: &str, items: u64) -> MixSpec {
        native(name, items, |_| None).unwrap().unwrap()
    }

    /// Runs `draws` operations of the mix and returns how many had each verb.
    fn counts(name: &str, draws: u64) -> HashMap<Verb, u64> {
        let spec = spec(name, 10_000);
        let mut source = MixSource::new(&spec, &spec.counters(), SEED, Phase::Run, (0, 1)).unwrap();
        let mut counts = HashMap::new();
        for _ in 0..draws {
            let op = source.pick();
            *counts.entry(source.op(op).verb).or_default() += 1;
        }
        counts
    }

    #[test]
    fn proportions_are_within_three_sigma() {
        let expected: [(&str, &[(Verb, f64)]); 7] = [
            ("mixed", &[(Verb::Get, 0.5), (Verb::Put, 0.3), (Verb::Del, 0.1), (Verb::Range, 0.1)]),
            ("ycsb/a", &[(Verb::Get, 0.5), (Verb::Put, 0.5)]),
            ("ycsb/b", &[(Verb::Get, 0.95), (Verb::Put, 0.05)]),
            ("ycsb/c", &[(Verb::Get, 1.0)]),
            ("ycsb/d", &[(Verb::Get, 0.95), (Verb::Insert, 0.05)]),
            ("ycsb/e", &[(Verb::Scan, 0.95), (Verb::Insert, 0.05)]),
            ("ycsb/f", &[(Verb::Get, 0.5), (Verb::Update, 0.5)]),
        ];
        let mixes = NAMES.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("index/"));
        assert_eq!(expected.map(|(name, _)| name).to_vec(), mixes.collect::<Vec<_>>());
        let draws = 200_000;
        for (name, shares) in expected {
            let counts = counts(name, draws);
            assert_eq!(counts.len(), shares.len(), "{name}");
            for (verb, share) in shares {
                let n = draws as f64;
                let (mean, sigma) = (n * share, (n * share * (1.0 - share)).sqrt());
                let off = (counts[verb] as f64 - mean).abs();
                assert!(off <= 3.0 * sigma, "{name} {verb}: {counts:?}; SEED={SEED}");
            }
        }
    }

    #[test]
    fn all_are_well_formed_and_load_what_they_use() {
        for (name, about) in native_names() {
            let spec = spec(name, 100);
            spec.check().unwrap();
            assert_eq!((spec.name.as_str(), spec.about.as_str()), (*name, *about));
            let load = spec.load.unwrap();
            assert_eq!((load.keys.count, load.batch), (100, 512));
            for list in &spec.keys {
                assert_eq!(list.spec.format, load.keys.format);
                assert_eq!(list.spec.count, load.keys.count);
            }
        }
        for name in ["ycsb/g", "", "index/urls"] {
            assert!(native(name, 100, |_| None).is_none(), "{name}");
        }
    }

    #[test]
    fn keys_and_values_have_their_shapes() {
        let shape = |name| {
            let spec = spec(name, 100);
            let mut source =
                MixSource::new(&spec, &spec.counters(), SEED, Phase::Run, (0, 1)).unwrap();
            let (key, value) = source.key_and_value(0);
            (String::from_utf8(key.to_vec()).unwrap(), value.len())
        };
        let (key, value_bytes) = shape("mixed");
        assert_eq!((&key[..2], key.len(), value_bytes), ("k:", 14, 4096));
        for name in ["ycsb/a", "ycsb/d", "ycsb/e"] {
            let (key, value_bytes) = shape(name);
            assert_eq!((&key[..4], key.len(), value_bytes), ("user", 23, 1000), "{name}");
        }
        let mut e = spec("ycsb/e", 100);
        let mut source = MixSource::new(&e, &e.counters(), SEED, Phase::Run, (0, 1)).unwrap();
        let limits: Vec<u32> = (0..10_000).map(|_| source.limit(0)).collect();
        assert_eq!((limits.iter().min(), limits.iter().max()), (Some(&1), Some(&100)));
        e.load.as_mut().unwrap().keys.count = 0;
        assert!(e.load_sources(SEED, 0, 1).is_err());
    }

    #[test]
    fn every_key_set_has_a_workload_with_phases() {
        let names = NAMES.iter().filter_map(|(name, _)| name.strip_prefix("index/"));
        assert_eq!(names.collect::<Vec<_>>(), KeySet::ALL.map(KeySet::name));
        let phase = |value| move |name: &str| (name == "phase").then_some(value);
        let scan = native("index/url", 100, phase("scan")).unwrap().unwrap();
        assert_eq!((scan.name.as_str(), scan.ops[0].verb), ("index/url", Verb::Scan));
        assert_eq!(spec("index/url", 100).ops[0].verb, Verb::Get);
        let refused = native("index/url", 100, phase("sacn")).unwrap().unwrap_err();
        assert!(refused.to_string().contains("expected load, get, scan, mix or insert"));
        assert_eq!(native_count("index/url", 100, phase("load")), Some(100));
        assert_eq!(native_count("index/url", 100, phase("get")), None);
        // The others have no such parameter, and do not ask for it.
        let asked = |name: &str| -> Option<&str> { panic!("ycsb/a asked for {name}") };
        native("ycsb/a", 100, asked).unwrap().unwrap();
    }

    #[test]
    fn readers_of_d_and_e_see_inserted_keys() {
        for (name, share_min) in [("ycsb/d", 0.3), ("ycsb/e", 0.02)] {
            let spec = spec(name, 1000);
            let counters = spec.counters();
            let mut source = MixSource::new(&spec, &counters, SEED, Phase::Run, (0, 1)).unwrap();
            let (mut reads, mut new) = (0u64, 0u64);
            for _ in 0..40_000 {
                let op = source.pick();
                let inserted = counters.get(INSERTED).unwrap().get();
                let index = source.keys(op).next_index();
                if source.op(op).verb == Verb::Insert {
                    assert_eq!(index, inserted);
                } else {
                    assert!(index < inserted, "{name} reads a key that does not exist");
                    reads += 1;
                    new += u64::from(index >= 1000);
                }
            }
            let share = new as f64 / reads as f64;
            assert!(share > share_min, "{name}: {share} of the reads; SEED={SEED}");
        }
    }
}
