//! A mix without a script in the loop: pick an operation, draw its key and value, call the verb.

use crate::live::Kind;
use crate::lua::ScriptError;
use crate::verbs::Verbs;
use keyrack_store::{Batch, Update};
use keyrack_workload::{Counters, Error, KeySource, MixSource, MixSpec, Phase, ValueSource, Verb};
use std::ops::ControlFlow;

/// One worker's share of a mix.
pub(crate) struct MixTask<'s> {
    verbs: Verbs<'s>,
    source: MixSource,
    /// The verb of each operation, beside each other: the rest of the specification is cold.
    kinds: Vec<Verb>,
    load: Option<(KeySource, ValueSource, u32)>,
    key: Vec<u8>,
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    batch: Batch,
}

impl<'s> MixTask<'s> {
    pub(crate) fn new(
        spec: &MixSpec,
        counters: &Counters,
        seed: u64,
        phase: Phase,
        (thread, threads): (u32, u32),
        verbs: Verbs<'s>,
    ) -> Result<Self, Error> {
        let load = match phase {
            Phase::Load => {
                let batch_keys = spec.load.as_ref().map_or(1, |load| load.batch);
                let sources = spec.load_sources(seed, thread, threads)?;
                sources.map(|(keys, values)| (keys, values, batch_keys))
            }
            _ => None,
        };
        Ok(MixTask {
            verbs,
            source: MixSource::new(spec, counters, seed, phase, (thread, threads))?,
            kinds: spec.ops.iter().map(|op| op.verb).collect(),
            load,
            key: Vec::new(),
            keys: Vec::new(),
            key_ends: Vec::new(),
            batch: Batch::new(),
        })
    }

    pub(crate) fn verbs_mut(&mut self) -> &mut Verbs<'s> {
        &mut self.verbs
    }

    pub(crate) fn into_verbs(mut self) -> Verbs<'s> {
        self.source.complete();
        self.verbs
    }

    /// Writes this worker's shard in batches.
    pub(crate) fn load(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ScriptError> {
        let Some((keys, values, batch_keys)) = &mut self.load else { return Ok(()) };
        let mut left = keys.lap();
        while left > 0 && !stop() {
            let count = left.min(u64::from(*batch_keys));
            self.batch.clear();
            for _ in 0..count {
                self.batch.put(keys.next_key(), values.next_value());
            }
            self.verbs.apply(Kind::Mput, &self.batch);
            left -= count;
        }
        Ok(())
    }

    /// Performs one operation.
    #[inline(always)]
    pub(crate) fn unit(&mut self) {
        let op = self.source.pick();
        match self.kinds[op] {
            Verb::Get => {
                let key = self.source.next_key(op);
                self.verbs.get(key, &mut |_| {});
            }
            Verb::Put | Verb::Insert => {
                let (key, value) = self.source.key_and_value(op);
                self.verbs.put(key, value);
            }
            Verb::Del => {
                let key = self.source.next_key(op);
                self.verbs.del(key);
            }
            Verb::Update => {
                let (key, value) = self.source.key_and_value(op);
                self.verbs.rmw(key, &mut |_, new| {
                    new.extend_from_slice(value);
                    Update::Put
                });
            }
            Verb::Range => self.range(op),
            Verb::Scan => {
                let limit = u64::from(self.source.limit(op)).max(1);
                let low = self.source.next_key(op);
                self.verbs.scan(low, None, limit, &mut |_, _| ControlFlow::Continue(()));
            }
            Verb::Mget => self.mget(op),
            Verb::Mput | Verb::Mdel => self.write_batch(op),
        }
    }

    fn range(&mut self, op: usize) {
        let limit = u64::from(self.source.limit(op)).max(1);
        let keys = self.source.keys(op);
        let index = keys.next_index();
        self.key.clear();
        self.key.extend_from_slice(keys.key_at(index));
        let high = keys.key_at(index.saturating_add(limit));
        self.verbs.scan(&self.key, Some(high), limit, &mut |_, _| ControlFlow::Continue(()));
    }

    fn mget(&mut self, op: usize) {
        self.keys.clear();
        self.key_ends.clear();
        for _ in 0..self.source.op(op).batch {
            self.keys.extend_from_slice(self.source.next_key(op));
            self.key_ends.push(self.keys.len());
        }
        let mut start = 0;
        let slice = |&end: &usize| {
            let key = &self.keys[start..end];
            start = end;
            key
        };
        let slices: Vec<&[u8]> = self.key_ends.iter().map(slice).collect();
        self.verbs.mget(&slices, &mut |_, _| {});
    }

    fn write_batch(&mut self, op: usize) {
        self.batch.clear();
        let verb = self.kinds[op];
        for _ in 0..self.source.op(op).batch {
            if verb == Verb::Mput {
                let (key, value) = self.source.key_and_value(op);
                self.batch.put(key, value);
            } else {
                self.batch.remove(self.source.next_key(op));
            }
        }
        let kind = if verb == Verb::Mput { Kind::Mput } else { Kind::Mdel };
        self.verbs.apply(kind, &self.batch);
    }
}
