//! A workload as data: which operations, on which keys, with which values, in which proportions.
//!
//! A [`MixSpec`] says everything that is needed to load a store and to run a workload on it,
//! without a script. Operations refer to lists of keys and values by index; lists of keys that name
//! the same counter share one growing population.
//!
//! ```text
//! MixSpec --counters()--> Counters      one for the run, shared by all workers
//!    |                       |
//!    +---- MixSource::new ---+          one for each worker and phase
//!             |
//!             pick() -> operation        random, by the weights (alias table)
//!             key_and_value(op), limit(op), keys(op)
//! ```
//!
//! Operations are chosen at random with exactly the probabilities of the weights, independently of
//! each other. Counts of a finite run therefore scatter around them: of `n` operations, a share `p`
//! has standard deviation `sqrt(n p (1 - p))`.
//!
//! Each list draws from a stream of its own, so that keys do not change when only the weights do.

use std::fmt;

use crate::alias::Alias;
use crate::counter::Counter;
use crate::error::Error;
use crate::key_distribution::KeyDistribution;
use crate::keys::{KeySource, KeySpec};
use crate::rng::{Phase, Rng};
use crate::sizes::{SizeDistribution, SizeSampler};
use crate::values::{ValueSource, ValueSpec};

/// The largest batch.
const BATCH_MAX: u32 = 1 << 20;

/// The streams of a worker: which operation, how many rows, and then the lists by number.
const STREAM_CHOICE: u32 = 0;
const STREAM_LIMIT: u32 = 1;
const STREAM_KEYS: u32 = 1 << 16;
const STREAM_VALUES: u32 = 2 << 16;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Reads one key.
    Get,
    /// Writes one key, new or not.
    Put,
    /// Removes one key.
    Del,
    /// Reads the keys from the drawn one up to, but without, the one `limit` indexes further.
    Range,
    /// Visits up to `limit` rows from the drawn key upward in byte order, without an upper bound.
    Scan,
    /// Reads a batch of keys.
    Mget,
    /// Writes a batch of keys.
    Mput,
    /// Removes a batch of keys.
    Mdel,
    /// Reads one key and writes it again, atomically.
    Update,
    /// Writes one key that did not exist.
    Insert,
}

impl Verb {
    /// All verbs, in the order of their declaration.
    pub const ALL: [Verb; 10] = [
        Verb::Get,
        Verb::Put,
        Verb::Del,
        Verb::Range,
        Verb::Scan,
        Verb::Mget,
        Verb::Mput,
        Verb::Mdel,
        Verb::Update,
        Verb::Insert,
    ];

    /// The name in lower case.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Put => "put",
            Verb::Del => "del",
            Verb::Range => "range",
            Verb::Scan => "scan",
            Verb::Mget => "mget",
            Verb::Mput => "mput",
            Verb::Mdel => "mdel",
            Verb::Update => "update",
            Verb::Insert => "insert",
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] for an unknown name.
    pub fn parse(text: &str) -> Result<Verb, Error> {
        Verb::ALL.into_iter().find(|verb| verb.name() == text).ok_or_else(|| {
            let names = Verb::ALL.map(Verb::name).join(" ");
            Error::syntax("verb", text, format!("expected one of {names}"))
        })
    }

    /// Whether the verb takes a value.
    #[must_use]
    pub const fn takes_value(self) -> bool {
        matches!(self, Verb::Put | Verb::Mput | Verb::Update | Verb::Insert)
    }

    /// Whether the verb acts on `batch` keys.
    #[must_use]
    pub const fn is_batch(self) -> bool {
        matches!(self, Verb::Mget | Verb::Mput | Verb::Mdel)
    }

    /// Whether the verb reads up to `limit` rows.
    #[must_use]
    pub const fn takes_limit(self) -> bool {
        matches!(self, Verb::Range | Verb::Scan)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One kind of operation in a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct OpSpec {
    /// What it does.
    pub verb: Verb,
    /// How often, relative to the weights of the others.
    pub weight: f64,
    /// The index of its keys in [`MixSpec::keys`].
    pub keys: usize,
    /// The index of its values in [`MixSpec::values`]; ignored by verbs that take none.
    pub value: usize,
    /// How many rows; ignored by verbs that take no limit.
    pub limit: SizeDistribution,
    /// How many keys; 1 for verbs that are no batches.
    pub batch: u32,
}

/// A list of keys of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MixKeys {
    /// The keys and how they are chosen.
    pub spec: KeySpec,
    /// The counter of the population, shared with all lists that name it.
    pub counter: Option<String>,
}

/// How the store is filled before the run.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSpec {
    /// The keys, as a `sequential` list: each worker loads its shard once.
    pub keys: KeySpec,
    /// The values.
    pub value: ValueSpec,
    /// How many keys are written at once.
    pub batch: u32,
}

/// A workload: how to load a store, and what to run on it.
#[derive(Clone, Debug, PartialEq)]
pub struct MixSpec {
    /// The name, such as `ycsb/a`.
    pub name: String,
    /// What it is, in one or two sentences.
    pub about: String,
    /// The lists of keys.
    pub keys: Vec<MixKeys>,
    /// The lists of values.
    pub values: Vec<ValueSpec>,
    /// The operations.
    pub ops: Vec<OpSpec>,
    /// The load; `None` if the store starts empty, or if a script loads it.
    pub load: Option<LoadSpec>,
}

impl MixSpec {
    /// Checks that the parts fit together: every index exists, weights and batches are in range,
    /// and lists that share a counter share a population. Sources check the rest when they are
    /// built.
    ///
    /// # Errors
    ///
    /// [`Error::Mix`] names the operation or list at fault; [`Error::Parameter`] a bad weight.
    pub fn check(&self) -> Result<(), Error> {
        let fault = |problem: String| Err(Error::Mix { workload: self.name.clone(), problem });
        self.chooser()?;
        for (i, op) in self.ops.iter().enumerate() {
            let verb = op.verb;
            if op.keys >= self.keys.len() {
                return fault(format!("operation {i} ({verb}) uses key list {}", op.keys));
            }
            if verb.takes_value() && op.value >= self.values.len() {
                return fault(format!("operation {i} ({verb}) uses value list {}", op.value));
            }
            if op.batch == 0 || op.batch > BATCH_MAX || (op.batch > 1 && !verb.is_batch()) {
                return fault(format!("operation {i} ({verb}) has a batch of {}", op.batch));
            }
        }
        if let Some(load) = &self.load {
            if load.batch == 0 || load.batch > BATCH_MAX {
                return fault(format!("the load has a batch of {}", load.batch));
            }
            if load.keys.distribution != KeyDistribution::Sequential {
                return fault(format!("the load is {}, not sequential", load.keys.distribution));
            }
        }
        for (i, list) in self.keys.iter().enumerate() {
            let population = |keys: &MixKeys| (keys.spec.first, keys.spec.count);
            let other = self.keys.iter().find(|other| {
                list.counter.is_some()
                    && list.counter == other.counter
                    && population(list) != population(other)
            });
            if other.is_some() {
                return fault(format!("key list {i} shares a counter with a different population"));
            }
        }
        Ok(())
    }

    /// The choice among the operations.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] when there is no operation or a weight is not a finite number of at
    /// least 0.
    pub fn chooser(&self) -> Result<Alias, Error> {
        Alias::new(&self.ops.iter().map(|op| op.weight).collect::<Vec<f64>>())
    }

    /// The counters that the lists of keys name, each at the size of its population. They wait for
    /// acknowledgement, so that readers draw no key whose insert is still under way.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut named: Vec<(String, Counter)> = Vec::new();
        for list in &self.keys {
            if let Some(name) = &list.counter
                && !named.iter().any(|(known, _)| known == name)
            {
                named.push((name.clone(), Counter::acknowledged(list.spec.count)));
            }
        }
        Counters { named }
    }

    /// What worker `thread` of `threads` loads: [`KeySource::lap`] keys, and as many values.
    /// `None` without a load.
    ///
    /// # Errors
    ///
    /// Those of [`KeySource::new`] and [`ValueSource::new`].
    pub fn load_sources(
        &self,
        seed: u64,
        thread: u32,
        threads: u32,
    ) -> Result<Option<(KeySource, ValueSource)>, Error> {
        let Some(load) = &self.load else { return Ok(None) };
        let stream = |index| Rng::stream(seed, Phase::Load, thread, index);
        let shard = Some((thread, threads));
        let keys = KeySource::new(&load.keys, stream(STREAM_KEYS), None, shard)?;
        let values = ValueSource::new(&load.value, stream(STREAM_VALUES))?;
        Ok(Some((keys, values)))
    }
}

/// The shared counters of one run. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    named: Vec<(String, Counter)>,
}

impl Counters {
    /// The counter with `name`. Takes linear time.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Counter> {
        self.named.iter().find(|(known, _)| known == name).map(|(_, counter)| counter)
    }
}

/// The operations of one worker: what to do next, on which key, with which value.
#[derive(Debug)]
pub struct MixSource {
    ops: Vec<OpSpec>,
    limits: Vec<SizeSampler>,
    chooser: Alias,
    choice: Rng,
    limit: Rng,
    keys: Vec<KeySource>,
    values: Vec<ValueSource>,
    /// The key list of the last operation picked.
    busy: Option<usize>,
}

impl MixSource {
    /// The source of worker `thread` of `threads`, for `spec` and the counters that
    /// [`MixSpec::counters`] made for this run.
    ///
    /// # Errors
    ///
    /// Those of [`MixSpec::check`], [`KeySource::new`] and [`ValueSource::new`]; [`Error::Mix`]
    /// when a counter is missing.
    pub fn new(
        spec: &MixSpec,
        counters: &Counters,
        seed: u64,
        phase: Phase,
        (thread, threads): (u32, u32),
    ) -> Result<MixSource, Error> {
        spec.check()?;
        let stream = |index| Rng::stream(seed, phase, thread, index);
        let mut keys = Vec::with_capacity(spec.keys.len());
        for (list, index) in spec.keys.iter().zip(STREAM_KEYS..) {
            let counter = match &list.counter {
                None => None,
                Some(name) => Some(counters.get(name).cloned().ok_or_else(|| Error::Mix {
                    workload: spec.name.clone(),
                    problem: format!("no counter {name:?} was given"),
                })?),
            };
            keys.push(KeySource::new(&list.spec, stream(index), counter, Some((thread, threads)))?);
        }
        let values = spec
            .values
            .iter()
            .zip(STREAM_VALUES..)
            .map(|(values, index)| ValueSource::new(values, stream(index)))
            .collect::<Result<Vec<ValueSource>, Error>>()?;
        let limits =
            spec.ops.iter().map(|op| SizeSampler::new(&op.limit)).collect::<Result<_, Error>>()?;
        Ok(MixSource {
            ops: spec.ops.clone(),
            limits,
            chooser: spec.chooser()?,
            choice: stream(STREAM_CHOICE),
            limit: stream(STREAM_LIMIT),
            keys,
            values,
            busy: None,
        })
    }

    /// Chooses the next operation; returns its index in [`MixSpec::ops`].
    ///
    /// The operation picked before counts as finished from here on: keys that it inserted may be
    /// read.
    #[inline(always)]
    pub fn pick(&mut self) -> usize {
        self.complete();
        let op = self.chooser.sample(&mut self.choice);
        self.busy = Some(self.ops[op].keys);
        op
    }

    /// Says that the last operation has finished, or failed. [`MixSource::pick`] says so itself; a
    /// worker calls this after its last operation.
    #[inline]
    pub fn complete(&mut self) {
        if let Some(list) = self.busy.take() {
            self.keys[list].complete();
        }
    }

    /// The operation with index `op`.
    ///
    /// # Panics
    ///
    /// When there is no such operation; likewise for the methods below.
    #[inline]
    #[must_use]
    pub fn op(&self, op: usize) -> &OpSpec {
        &self.ops[op]
    }

    /// The keys of operation `op`, to draw from.
    ///
    /// # Panics
    ///
    /// When there is no such operation.
    #[inline]
    pub fn keys(&mut self, op: usize) -> &mut KeySource {
        &mut self.keys[self.ops[op].keys]
    }

    /// Draws a key for operation `op`.
    ///
    /// # Panics
    ///
    /// When there is no such operation.
    #[inline(always)]
    pub fn next_key(&mut self, op: usize) -> &[u8] {
        self.keys[self.ops[op].keys].next_key()
    }

    /// Draws a key and a value for operation `op`. The value is empty when the mix has none.
    ///
    /// # Panics
    ///
    /// When there is no such operation.
    #[inline(always)]
    pub fn key_and_value(&mut self, op: usize) -> (&[u8], &[u8]) {
        let OpSpec { keys, value, .. } = self.ops[op];
        let value: &[u8] = match self.values.get_mut(value) {
            Some(values) => values.next_value(),
            None => &[],
        };
        (self.keys[keys].next_key(), value)
    }

    /// Draws a number of rows for operation `op`.
    ///
    /// # Panics
    ///
    /// When there is no such operation.
    #[inline]
    pub fn limit(&mut self, op: usize) -> u32 {
        self.limits[op].sample(&mut self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{SEED, assert_chi_square};
    use crate::format::KeyFormat;
    use crate::native::native;

    fn sample() -> MixSpec {
        native("mixed", 1000, |_| None).unwrap().unwrap()
    }

    fn worker(spec: &MixSpec, thread: u32) -> MixSource {
        MixSource::new(spec, &spec.counters(), SEED, Phase::Run, (thread, 4)).unwrap()
    }

    #[test]
    fn operations_come_in_proportion() {
        let mut spec = sample();
        for (op, weight) in spec.ops.iter_mut().zip([3.0, 0.5, 0.0, 1.5]) {
            op.weight = weight;
        }
        let mut source = worker(&spec, 0);
        let mut counts = [0; 4];
        for _ in 0..100_000 {
            counts[source.pick()] += 1;
        }
        assert_chi_square("mix", &counts, &[3.0, 0.5, 0.0, 1.5]);
    }

    #[test]
    fn keys_do_not_depend_on_weights_and_threads_differ() {
        let keys = |spec: &MixSpec, thread| -> Vec<Vec<u8>> {
            let mut source = worker(spec, thread);
            (0..20).map(|_| source.next_key(0).to_vec()).collect()
        };
        let spec = sample();
        let mut reweighted = spec.clone();
        reweighted.ops[0].weight = 1.0;
        assert_eq!(keys(&spec, 0), keys(&reweighted, 0));
        assert_ne!(keys(&spec, 0), keys(&spec, 1));
    }

    #[test]
    fn an_insert_is_visible_after_the_next_pick() {
        let mut spec = sample();
        spec.keys = ["latest:64", "insert"]
            .map(|text| MixKeys {
                spec: KeySpec {
                    distribution: KeyDistribution::parse(text).unwrap(),
                    ..spec.keys[0].spec.clone()
                },
                counter: Some("inserted".to_owned()),
            })
            .to_vec();
        let op = |verb, keys| OpSpec { verb, keys, weight: 1.0, ..spec.ops[0].clone() };
        spec.ops = vec![op(Verb::Insert, 1), op(Verb::Get, 0)];
        spec.ops[1].weight = 0.0;
        let counters = spec.counters();
        let mut source = MixSource::new(&spec, &counters, SEED, Phase::Run, (0, 1)).unwrap();
        for inserted in 0..100 {
            let op = source.pick();
            assert_eq!(source.keys(1).next_index(), 999 + inserted, "only finished inserts");
            assert_eq!(source.keys(op).next_index(), 1000 + inserted);
        }
        source.complete();
        assert_eq!(counters.get("inserted").unwrap().get(), 1100);
        assert!(counters.get("removed").is_none());
    }

    #[test]
    fn key_and_value_and_limit_follow_the_operation() {
        let mut spec = sample();
        spec.ops[1].limit = SizeDistribution::Uniform { min: 3, max: 5 };
        spec.keys[0].spec.format = KeyFormat::parse("%04d").unwrap();
        let mut source = worker(&spec, 0);
        let (key, value) = source.key_and_value(1);
        assert_eq!((key.len(), value.len()), (4, 4096));
        assert!((0..100).all(|_| (3..=5).contains(&source.limit(1))));
        assert_eq!(source.op(1).verb, Verb::Put);
    }

    #[test]
    fn the_load_covers_all_keys_once() {
        let spec = sample();
        let mut loaded = Vec::new();
        for thread in 0..3 {
            let (mut keys, mut values) = spec.load_sources(SEED, thread, 3).unwrap().unwrap();
            for _ in 0..keys.lap() {
                loaded.push(keys.next_index());
                assert_eq!(values.next_value().len(), 4096);
            }
        }
        loaded.sort_unstable();
        assert_eq!(loaded, (0..1000).collect::<Vec<u64>>());
    }

    #[test]
    fn mistakes_are_named() {
        let fault = |change: &dyn Fn(&mut MixSpec)| {
            let mut spec = sample();
            change(&mut spec);
            spec.check().unwrap_err().to_string()
        };
        assert!(fault(&|spec| spec.ops[2].keys = 9).contains("operation 2 (del) uses key list 9"));
        assert!(fault(&|spec| spec.ops[1].value = 9).contains("(put) uses value list 9"));
        assert!(fault(&|spec| spec.ops[0].batch = 0).contains("(get) has a batch of 0"));
        assert!(fault(&|spec| spec.ops[0].batch = 2).contains("(get) has a batch of 2"));
        assert!(fault(&|spec| spec.ops[0].weight = -1.0).contains("weight is -1"));
        assert!(fault(&|spec| spec.ops.clear()).contains("number of weights is 0"));
        assert!(
            fault(&|spec| spec.load.as_mut().unwrap().batch = 0).contains("load has a batch of 0")
        );
        let random = |spec: &mut MixSpec| {
            spec.load.as_mut().unwrap().keys.distribution = KeyDistribution::Uniform;
        };
        assert!(fault(&random).contains("load is uniform"));
        let clash = |spec: &mut MixSpec| {
            spec.keys[0].counter = Some("c".to_owned());
            let mut other = spec.keys[0].clone();
            other.spec.count += 1;
            spec.keys.push(other);
        };
        assert!(fault(&clash).contains("key list 0 shares a counter"));
        let mut spec = sample();
        spec.keys[0].counter = Some("c".to_owned());
        let missing = MixSource::new(&spec, &Counters::default(), 1, Phase::Run, (0, 1));
        assert!(missing.unwrap_err().to_string().contains("no counter \"c\""));
    }

    #[test]
    fn verbs_have_names() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.name()).unwrap(), verb);
        }
        assert!(Verb::parse("read").unwrap_err().to_string().contains("expected one of get put"));
        assert_eq!(format!("{:>6}", Verb::Get), "   get");
    }
}
