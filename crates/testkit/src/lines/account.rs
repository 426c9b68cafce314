//! Sums over operations: how many lines they touch, and which of those that they write another
//! thread touches.

use super::{Operation, Phase};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// What some operations of a phase touched.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// How many operations they are.
    pub operations: usize,
    /// Lines that they read, each once for an operation.
    pub read: usize,
    /// Lines that they wrote.
    pub written: usize,
    /// Names of lines that they wrote and an operation of another thread in the phase, of any kind,
    /// read or wrote; with the number of operations that did.
    pub shared: BTreeMap<String, usize>,
}

impl Phase {
    /// The account of the chosen operations.
    #[must_use]
    pub fn account(&self, chosen: impl Fn(&Operation) -> bool) -> Account {
        // One bit for each thread.
        let mut touched: HashMap<u64, u64> = HashMap::new();
        for operation in &self.operations {
            for access in &operation.accesses {
                *touched.entry(access.line).or_default() |= 1 << operation.thread;
            }
        }
        let mut account = Account::default();
        for operation in self.operations.iter().filter(|operation| chosen(operation)) {
            let written = operation.lines(true);
            account.operations += 1;
            account.read += operation.lines(false).len();
            account.written += written.len();
            let others = |line: &&u64| touched[*line] & !(1 << operation.thread) != 0;
            let names: BTreeSet<&str> =
                written.iter().filter(others).map(|line| self.name_of(*line)).collect();
            for name in names {
                *account.shared.entry(name.to_owned()).or_default() += 1;
            }
        }
        account
    }
}

impl Operation {
    /// The lines that it writes, or those that it reads.
    fn lines(&self, is_write: bool) -> BTreeSet<u64> {
        let accesses = self.accesses.iter().filter(|access| access.is_write() == is_write);
        accesses.map(|access| access.line).collect()
    }
}

/// A row of a table: operations, means of lines read and written, and the share of operations that
/// wrote each shared line.
impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = |sum: usize| sum as f64 / self.operations.max(1) as f64;
        write!(f, "{} | {:.1} | {:.1} | ", self.operations, mean(self.read), mean(self.written))?;
        if self.shared.is_empty() {
            return f.write_str("none");
        }
        for (at, (name, count)) in self.shared.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {:.1} %", 100.0 * mean(*count))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Kind};
    use super::*;

    #[test]
    fn a_written_line_is_shared_if_another_thread_touches_it() {
        let operation = |thread, accesses: &[(u64, Kind)]| {
            let accesses = accesses.iter().map(|&(line, kind)| Access { line, kind }).collect();
            Operation { thread, kind: thread, accesses }
        };
        let operations = vec![
            operation(0, &[(1, Kind::Read), (2, Kind::Write), (2, Kind::Write), (3, Kind::Write)]),
            operation(1, &[(1, Kind::Read), (2, Kind::Read)]),
            operation(0, &[(3, Kind::Read)]),
        ];
        let phase = Phase { operations, threads: 2, ..Phase::default() };
        let writer = phase.account(|operation| operation.thread == 0);
        assert_eq!((writer.operations, writer.read, writer.written), (2, 2, 2));
        assert_eq!(writer.to_string(), "2 | 1.0 | 1.0 | unnamed 50.0 %");
        assert_eq!(
            phase.account(|operation| operation.kind == 1).to_string(),
            "1 | 2.0 | 0.0 | none"
        );
    }
}
