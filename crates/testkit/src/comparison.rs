//! The random comparison: seeded operations given to an engine and to the model, every answer
//! compared, the whole content compared now and then and at the end.
//!
//! The engine is used through two sessions in turn, so that what one holds back from the other
//! shows. Up to [`SNAPSHOTS_MAX`] snapshots are kept open beside snapshots of the model.

use crate::generator::Generator;
use crate::mismatch::Mismatch;
use crate::operation::{
    Answer, Operation, Range, difference, perform, snapshot_get, snapshot_scan,
};
use keyrack_store::{ModelStore, Removed, Session, Snapshot, Store};
use keyrack_workload::Rng;

/// How many snapshots are open at a time.
const SNAPSHOTS_MAX: usize = 3;

/// One operation in so many is a comparison of the whole content.
const FULL_SCAN_EVERY: u64 = 256;

/// One operation in so many concerns a snapshot.
const SNAPSHOT_EVERY: u64 = 24;

/// What a comparison has covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Operations that were compared, those on snapshots among them.
    pub operations: u64,
    /// Single lookups.
    pub gets: u64,
    /// Lookups of [`Stats::gets`] that found their key.
    pub hits: u64,
    /// Removals of a key that was there.
    pub removed: u64,
    /// Ranges, in both directions.
    pub scans: u64,
    /// Rows that ranges visited.
    pub rows: u64,
    /// Reads from snapshots; 0 where the engine has none.
    pub snapshot_reads: u64,
    /// Keys in the store at the end.
    pub keys: u64,
}

/// Runs `operations` seeded operations over `store`, which must be empty, and over a model.
///
/// # Errors
/// The first answer that differs. An error of the engine is an answer that differs.
pub fn compare_random(store: &dyn Store, seed: u64, operations: u64) -> Result<Stats, Mismatch> {
    let model = ModelStore::new();
    let mut pair = Pair { store, model: &model, seed, operation: 0, stats: Stats::default() };
    let mut sessions = [pair.open_session()?, pair.open_session()?];
    let mut oracle = model.session().map_err(|error| pair.failed("session", &error))?;
    let mut snapshots: Vec<SnapshotPair<'_>> = Vec::new();
    let mut generator = Generator::new(Rng::from_seed(seed), b"");
    while pair.operation < operations {
        let session = sessions[generator.below(2) as usize].as_mut();
        if generator.below(FULL_SCAN_EVERY) == 0 {
            pair.compare(session, oracle.as_mut(), &Operation::Scan(Range::all()))?;
        } else if generator.below(SNAPSHOT_EVERY) == 0 {
            pair.snapshot(&mut snapshots, &mut generator)?;
        } else {
            pair.compare(session, oracle.as_mut(), &generator.operation())?;
        }
        pair.operation += 1;
    }
    pair.stats.operations = pair.operation;
    for session in &mut sessions {
        let all =
            pair.compare(session.as_mut(), oracle.as_mut(), &Operation::Scan(Range::all()))?;
        if let Answer::Rows(rows) = all {
            pair.stats.keys = rows.len() as u64;
        }
    }
    Ok(pair.stats)
}

/// A snapshot of the engine and one of the model, taken at the same operation.
type SnapshotPair<'a> = (Box<dyn Snapshot + 'a>, Box<dyn Snapshot + 'a>);

struct Pair<'a> {
    store: &'a dyn Store,
    model: &'a ModelStore,
    seed: u64,
    operation: u64,
    stats: Stats,
}

impl<'a> Pair<'a> {
    fn open_session(&self) -> Result<Box<dyn Session + 'a>, Mismatch> {
        self.store.session().map_err(|error| self.failed("session", &error))
    }

    fn compare(
        &mut self,
        session: &mut dyn Session,
        oracle: &mut dyn Session,
        operation: &Operation,
    ) -> Result<Answer, Mismatch> {
        let expected = perform(oracle, operation);
        let found = perform(session, operation);
        let answer = self.judge(&operation.to_string(), expected, found)?;
        match &answer {
            Answer::Value(value) => {
                self.stats.gets += 1;
                self.stats.hits += u64::from(value.is_some());
            }
            Answer::Removed(removed) => {
                self.stats.removed += u64::from(*removed == Removed::Existed);
            }
            Answer::Rows(rows) => {
                self.stats.scans += 1;
                self.stats.rows += rows.len() as u64;
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Takes, reads or drops a snapshot.
    fn snapshot(
        &mut self,
        open: &mut Vec<SnapshotPair<'a>>,
        generator: &mut Generator,
    ) -> Result<(), Mismatch> {
        let choice = generator.below(8);
        if open.is_empty() || (choice == 0 && open.len() < SNAPSHOTS_MAX) {
            let (found, expected) = (self.store.snapshot(), self.model.snapshot());
            let found = found.map_err(|error| self.failed("snapshot", &error))?;
            let expected = expected.map_err(|error| self.failed("snapshot", &error))?;
            open.extend(found.zip(expected));
            return Ok(());
        }
        let index = generator.below(open.len() as u64) as usize;
        if choice == 1 {
            open.swap_remove(index);
            return Ok(());
        }
        let (store, model) = &open[index];
        self.stats.snapshot_reads += 1;
        if choice < 5 {
            let key = generator.key();
            let answers = (snapshot_get(model.as_ref(), &key), snapshot_get(store.as_ref(), &key));
            let what = format!("snapshot: {}", Operation::Get(key));
            self.judge(&what, answers.0, answers.1)?;
        } else {
            let range = Range { reverse: false, ..generator.range() };
            let answers =
                (snapshot_scan(model.as_ref(), &range), snapshot_scan(store.as_ref(), &range));
            self.judge(&format!("snapshot: {range}"), answers.0, answers.1)?;
        }
        Ok(())
    }

    /// The model's answer, where the engine's is one that the contract allows.
    fn judge(
        &self,
        what: &str,
        expected: keyrack_store::Result<Answer>,
        found: keyrack_store::Result<Answer>,
    ) -> Result<Answer, Mismatch> {
        let expected = expected.map_err(|error| self.failed(what, &error))?;
        let found = found.map_err(|error| self.failed(what, &error))?;
        if expected.allows(&found) {
            return Ok(expected);
        }
        Err(self.mismatch(what, difference(&expected, &found)))
    }

    fn failed(&self, what: &str, error: &keyrack_store::Error) -> Mismatch {
        self.mismatch(what, ("no error".to_owned(), format!("error: {error}")))
    }

    fn mismatch(&self, what: &str, answers: (String, String)) -> Mismatch {
        Mismatch::new(self.store, (self.seed, self.operation), what, answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_agrees_with_itself_and_the_operations_cover_the_contract() {
        for seed in 1..=3 {
            let stats = compare_random(&ModelStore::new(), seed, 4000).unwrap();
            assert_eq!(stats.operations, 4000);
            assert!(stats.hits * 5 > stats.gets && stats.hits * 5 < stats.gets * 4, "{stats:?}");
            assert!(stats.removed > 50 && stats.scans > 300, "{stats:?}");
            assert!(stats.rows > 3000 && stats.snapshot_reads > 50, "{stats:?}");
            assert!(stats.keys > 100, "{stats:?}");
        }
    }

    #[test]
    fn a_store_that_is_not_empty_is_a_mismatch() {
        let store = ModelStore::new();
        store.session().unwrap().put(b"left over", b"1").unwrap();
        let mismatch = compare_random(&store, 1, 300).unwrap_err();
        assert_eq!((mismatch.seed, mismatch.engine.as_str()), (1, "btree"));
    }
}
