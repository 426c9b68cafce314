//! The check of a history: its lists, the graph of its transactions, the cycles in that.

use super::graph::{Graph, cycles};
use super::history::{Kind, Level, Transaction, Violation};
use super::lists::Lists;

/// The violations of a history, none if it satisfies `level`. Of each strongly connected part of
/// the graph the worst cycle is reported.
///
/// Unknown transactions count as committed if somebody has read what they have written.
///
/// ```
/// use keyrack_testkit::isolation::{Event, Kind, Level, Outcome, Transaction, check};
///
/// // Both read the empty list and append to it: one update is lost.
/// let lost = |element, begun| Transaction {
///     events: vec![
///         Event::Read { key: 1, elements: vec![] },
///         Event::Append { key: 1, element },
///     ],
///     outcome: Outcome::Committed,
///     begun,
///     ended: begun + 2,
/// };
/// let last = Transaction {
///     events: vec![Event::Read { key: 1, elements: vec![10, 20] }],
///     ..lost(0, 9)
/// };
/// let found = check(&[lost(10, 1), lost(20, 2), last], Level::Snapshot);
/// assert_eq!(found[0].kind, Kind::ReadSkew);
/// ```
///
/// # Panics
/// If two appends have the same element.
#[must_use]
pub fn check(history: &[Transaction], level: Level) -> Vec<Violation> {
    let lists = Lists::of(history);
    let mut graph = Graph::new(history.len());
    lists.add_edges(&mut graph);
    graph.add_real_time(history, &lists.counted);
    let mut violations = lists.violations;
    let allowed = |kind: Kind| level == Level::Snapshot && kind == Kind::WriteSkew;
    violations.extend(cycles(&graph).into_iter().filter(|found| !allowed(found.kind)));
    violations.sort_by_key(|violation| violation.kind);
    violations
}

#[cfg(test)]
mod tests {
    use super::super::history::{Event, Outcome};
    use super::*;

    fn read(key: u64, elements: &[u64]) -> Event {
        Event::Read { key, elements: elements.to_vec() }
    }

    fn append(key: u64, element: u64) -> Event {
        Event::Append { key, element }
    }

    /// All of them at the same time.
    fn together(transactions: &[&[Event]]) -> Vec<Transaction> {
        let count = transactions.len() as u64;
        let one = |(at, events): (u64, &&[Event])| Transaction {
            events: events.to_vec(),
            outcome: Outcome::Committed,
            begun: at,
            ended: count + at,
        };
        (0..).zip(transactions).map(one).collect()
    }

    fn kinds(history: &[Transaction], level: Level) -> Vec<Kind> {
        check(history, level).into_iter().map(|violation| violation.kind).collect()
    }

    /// The violation of both levels.
    fn both(history: &[Transaction]) -> Kind {
        let found = kinds(history, Level::Serializable);
        assert_eq!(found, kinds(history, Level::Snapshot));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }

    #[test]
    fn cycles_are_named_by_their_edges() {
        let dirty = together(&[
            &[append(1, 10), append(2, 20)],
            &[append(1, 11), append(2, 21)],
            &[read(1, &[10, 11]), read(2, &[21, 20])],
        ]);
        assert_eq!(both(&dirty), Kind::DirtyWrite);
        let circular =
            together(&[&[append(1, 10), read(2, &[20])], &[append(2, 20), read(1, &[10])]]);
        assert_eq!(both(&circular), Kind::CircularFlow);
        let skew = together(&[
            &[append(1, 10), append(2, 20)],
            &[read(1, &[10]), read(2, &[])],
            &[read(2, &[20])],
        ]);
        assert_eq!(both(&skew), Kind::ReadSkew);
        let fork = together(&[
            &[append(1, 10)],
            &[append(2, 20)],
            &[read(1, &[10]), read(2, &[])],
            &[read(2, &[20]), read(1, &[])],
        ]);
        assert_eq!(both(&fork), Kind::LongFork);
        let write_skew = together(&[
            &[read(1, &[]), read(2, &[]), append(1, 10)],
            &[read(1, &[]), read(2, &[]), append(2, 20)],
            &[read(1, &[10]), read(2, &[20])],
        ]);
        assert_eq!(kinds(&write_skew, Level::Serializable), [Kind::WriteSkew]);
        assert_eq!(kinds(&write_skew, Level::Snapshot), []);
    }

    /// Fekete, O'Neil and O'Neil, 2004: two updates and a reader, each pair of which is in order.
    #[test]
    fn the_anomaly_of_a_reader_is_write_skew() {
        let history = together(&[
            &[read(1, &[]), read(2, &[]), append(1, 10)],
            &[read(2, &[]), append(2, 20)],
            &[read(1, &[]), read(2, &[20])],
            &[read(1, &[10]), read(2, &[20])],
        ]);
        assert_eq!(kinds(&history, Level::Serializable), [Kind::WriteSkew]);
        assert_eq!(kinds(&history, Level::Snapshot), []);
    }

    #[test]
    fn reads_of_what_never_was_are_found() {
        let mut aborted = together(&[&[append(1, 10)], &[read(1, &[10])]]);
        assert_eq!(kinds(&aborted, Level::Serializable), []);
        aborted[0].outcome = Outcome::Aborted;
        assert_eq!(both(&aborted), Kind::AbortedRead);
        let part = together(&[&[append(1, 10), append(1, 11)], &[read(1, &[10])]]);
        assert_eq!(both(&part), Kind::IntermediateRead);
        assert_eq!(both(&together(&[&[read(1, &[5])]])), Kind::Garbage);
        let twice = together(&[&[append(1, 10)], &[read(1, &[10, 10])]]);
        assert_eq!(both(&twice), Kind::Garbage);
        let own = together(&[&[append(1, 10), read(1, &[])]]);
        assert_eq!(both(&own), Kind::Internal);
        let changed = together(&[&[append(1, 10)], &[read(1, &[]), read(1, &[10])]]);
        assert_eq!(kinds(&changed, Level::Snapshot), [Kind::Internal]);
        let forked = together(&[
            &[append(1, 10)],
            &[append(1, 11)],
            &[read(1, &[10, 11])],
            &[read(1, &[11])],
        ]);
        assert!(kinds(&forked, Level::Snapshot).contains(&Kind::IncompatibleOrder));
    }

    /// Two appends to the list as it was before, of which the last one wins.
    #[test]
    fn a_lost_update_is_found() {
        let mut history = together(&[
            &[read(1, &[5]), append(1, 10)],
            &[read(1, &[5]), append(1, 20)],
            &[append(1, 5)],
            &[read(1, &[5, 20])],
        ]);
        // Nobody began after them.
        assert_eq!(kinds(&history, Level::Snapshot), []);
        (history[3].begun, history[3].ended) = (100, 101);
        assert_eq!(both(&history), Kind::LostWrite);
        history[0].outcome = Outcome::Unknown;
        assert_eq!(kinds(&history, Level::Serializable), []);
    }

    /// An image of the disk has what was acknowledged before it was taken.
    #[test]
    fn a_lost_commit_is_found() {
        let mut history = together(&[&[append(1, 10)], &[append(1, 11), append(2, 21)]]);
        let mut image = together(&[&[read(1, &[10]), read(2, &[])]]);
        (image[0].begun, image[0].ended) = (100, u64::MAX);
        history.append(&mut image);
        assert_eq!(kinds(&history, Level::Serializable), [Kind::LostWrite; 2]);
        history[1].outcome = Outcome::Unknown;
        assert_eq!(kinds(&history, Level::Serializable), []);
    }

    /// A reader that begins after a commit has returned must see it.
    #[test]
    fn time_counts() {
        let mut late = together(&[&[append(1, 10)], &[read(1, &[])], &[read(1, &[10])]]);
        assert_eq!(kinds(&late, Level::Serializable), []);
        (late[0].ended, late[1].begun) = (4, 5);
        (late[1].ended, late[2].begun, late[2].ended) = (6, 7, 8);
        assert_eq!(both(&late), Kind::ReadSkew);
    }

    #[test]
    fn what_is_unknown_counts_once_it_is_seen() {
        let mut history =
            together(&[&[append(1, 10), append(2, 20)], &[read(1, &[]), read(2, &[])]]);
        history[0].outcome = Outcome::Unknown;
        assert_eq!(kinds(&history, Level::Serializable), []);
        history[1].events = vec![read(1, &[10]), read(2, &[])];
        history.extend(together(&[&[read(2, &[20])]]));
        assert_eq!(both(&history), Kind::ReadSkew);
    }
}
