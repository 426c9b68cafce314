//! The phases of mdtest, with its names and its table, in this process.
//!
//! ```text
//!   /test-dir.ITERATION-0/mdtest_tree.TREE/dir.mdtest.RANK.N    made, seen, renamed, removed
//!                                         /file.mdtest.RANK.N   made, seen, read, removed
//! ```
//!
//! Ranks are threads of one log, so that each finds what the others have made. As with mdtest's
//! `-N`, whoever looks at an entry is not who made it: rank `r` looks at those of `r + stride`,
//! reads those of `r + 2 stride` and removes those of `r + 3 stride`. A rate is all entries over
//! the time from the first start to the last end. What is wrong with an entry ends the run.

use super::in_process::InProcess;
use super::threads::in_threads;
use crate::job::Document;
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::{Caller, Dir, Error, IfExists, IfTaken, Namespace, Result, Settings, User};
use keyrack_measure::Clock;
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::fmt::Write as _;

/// The rows of the table, in its order.
const ROWS: [&str; 10] = [
    "Directory creation",
    "Directory stat",
    "Directory rename",
    "Directory removal",
    "File creation",
    "File stat",
    "File read",
    "File removal",
    "Tree creation",
    "Tree removal",
];

/// What is asked for beside the plan of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// How often all phases run.
    pub iterations: u64,
    /// How many ranks further on the entries are that a rank looks at.
    pub stride: u64,
}

pub(super) fn run(
    plan: &InProcess,
    wishes: &Wishes,
    user: &User,
    document: &mut Document,
) -> Outcome {
    RealFs.create_dir_all(&plan.db)?;
    let (store, quota) = (plan.store.clone(), plan.quota);
    let settings = Settings { store, root_mode: 0o777, quota, ..Settings::default() };
    let space = Namespace::open(plan.log(0), settings)?;
    let clock = Clock::calibrated();
    let stop = keyrack_console::flag()?;
    let tasks = plan.ranks;
    keyrack_console::print(&format!(
        "mdtest's phases: {tasks} tasks, {} files/directories each, {} bytes a file, trees {}, \
         neighbours {} further on, durability {}\n",
        plan.n,
        plan.data_bytes,
        if plan.shared { "shared" } else { "unique" },
        wishes.stride,
        plan.durability
    ));
    let mut rates: [Vec<f64>; 10] = Default::default();
    for iteration in 0..wishes.iterations {
        let test = Test { plan, space: &space, user, clock: &clock, iteration };
        let trees = test.make_trees(&mut rates[8])?;
        for (row, rates) in rates.iter_mut().enumerate().take(8) {
            keyrack_console::check(&stop)?;
            rates.push(test.phase(&trees, row, wishes.stride)?);
        }
        test.remove_trees(&mut rates[9])?;
    }
    let rows: Vec<Row> =
        ROWS.iter().zip(&rates).map(|(name, rates)| Row::of(name, rates)).collect();
    keyrack_console::print(&table(&rows, wishes.iterations));
    space.close()?;
    let rows: Vec<_> = rows.iter().map(Row::json).collect();
    for (name, value) in [
        ("mdtest", json!(true)),
        ("tasks", json!(tasks)),
        ("n", json!(plan.n)),
        ("share_dir", json!(plan.shared)),
        ("data_bytes", json!(plan.data_bytes)),
        ("iterations", json!(wishes.iterations)),
        ("stride", json!(wishes.stride)),
        ("durability", json!(plan.durability)),
        ("rates", json!(rows)),
    ] {
        document.put(name, value);
    }
    Ok(keyrack_console::DONE)
}

/// A line of the table: operations a second over the iterations.
struct Row {
    name: &'static str,
    max: f64,
    min: f64,
    mean: f64,
    deviation: f64,
}

impl Row {
    fn of(name: &'static str, rates: &[f64]) -> Row {
        let count = rates.len().max(1) as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / count;
        Row {
            name,
            max: rates.iter().copied().fold(f64::MIN, f64::max),
            min: rates.iter().copied().fold(f64::MAX, f64::min),
            mean,
            deviation: variance.sqrt(),
        }
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "operation": self.name, "max": self.max, "min": self.min, "mean": self.mean,
            "std_dev": self.deviation,
        })
    }
}

fn table(rows: &[Row], iterations: u64) -> String {
    let mut text = format!("\nSUMMARY rate (in ops/sec): (of {iterations} iterations)\n");
    let heads = ["Operation", "Max", "Min", "Mean", "Std Dev"];
    for heads in [heads, heads.map(|head| if head == "Std Dev" { "-------" } else { "---" })] {
        let [name, rest @ ..] = heads;
        let _ = write!(text, "   {name:<26}");
        rest.iter().for_each(|head| _ = write!(text, "{head:>15}"));
        text.push('\n');
    }
    for Row { name, max, min, mean, deviation } in rows {
        let _ = writeln!(text, "   {name:<26}{max:>15.3}{min:>15.3}{mean:>15.3}{deviation:>15.3}");
    }
    text
}

/// One iteration.
struct Test<'a> {
    plan: &'a InProcess,
    space: &'a Namespace,
    user: &'a User,
    clock: &'a Clock,
    iteration: u64,
}

impl Test<'_> {
    fn root(&self) -> String {
        format!("/test-dir.{}-0", self.iteration)
    }

    fn trees(&self) -> u64 {
        if self.plan.shared { 1 } else { u64::from(self.plan.ranks) }
    }

    /// One directory for all ranks, or one for each.
    fn make_trees(&self, rates: &mut Vec<f64>) -> Result<Vec<Dir>> {
        let fs = self.space.by(self.user);
        let began = self.clock.ticks();
        fs.mkdir(self.root().as_bytes(), 0o777)?;
        let made: Result<Vec<Dir>> = (0..self.trees())
            .map(|tree| fs.mkdir(format!("{}/mdtest_tree.{tree}", self.root()).as_bytes(), 0o777))
            .collect();
        rates.push(self.rate(self.trees(), began, self.clock.ticks()));
        made
    }

    /// They are empty by now, or this fails.
    fn remove_trees(&self, rates: &mut Vec<f64>) -> Result<()> {
        let fs = self.space.by(self.user);
        let began = self.clock.ticks();
        for tree in 0..self.trees() {
            fs.rmdir(format!("{}/mdtest_tree.{tree}", self.root()).as_bytes())?;
        }
        fs.rmdir(self.root().as_bytes())?;
        rates.push(self.rate(self.trees(), began, self.clock.ticks()));
        Ok(())
    }

    fn rate(&self, ops: u64, began: u64, ended: u64) -> f64 {
        let ns = self.clock.ns_between(began, ended).max(1);
        ops as f64 * 1e9 / ns as f64
    }

    /// One row, by all ranks at once.
    fn phase(&self, trees: &[Dir], row: usize, stride: u64) -> std::result::Result<f64, Failure> {
        let ranks = u64::from(self.plan.ranks);
        let took = in_threads(self.plan.ranks as usize, |rank, barrier| {
            let clock = self.clock.share();
            // Who made what is looked at now.
            let maker = (rank as u64 + stride * distance(row)) % ranks;
            let tree = if self.plan.shared { 0 } else { maker as usize };
            let fs = self.space.by(self.user);
            barrier.wait();
            let began = clock.ticks();
            for n in 0..self.plan.n {
                self.entry(fs, &trees[tree], row, (maker, n))?;
            }
            Ok((began, clock.ticks()))
        })?;
        let began = took.iter().map(|took| took.0).min().unwrap_or(0);
        let ended = took.iter().map(|took| took.1).max().unwrap_or(0);
        Ok(self.rate(ranks * self.plan.n, began, ended))
    }

    /// One operation of a row.
    fn entry(&self, fs: Caller<'_>, tree: &Dir, row: usize, (maker, n): (u64, u64)) -> Result<()> {
        let dir = format!("dir.mdtest.{maker}.{n}").into_bytes();
        let renamed = format!("dir.mdtest.{maker}.{n}-XX").into_bytes();
        let file = format!("file.mdtest.{maker}.{n}").into_bytes();
        let bytes = self.plan.data_bytes;
        let wrong = |name: &[u8], what: String| {
            let path = self.plan.log(0);
            Error::Corruption { path, what: format!("'{}': {what}", name.escape_ascii()) }
        };
        match row {
            0 => fs.mkdir_at(tree, &dir, 0o755).map(|_| ()),
            1 => fs.stat_at(tree, &dir).map(|_| ()),
            2 => fs.rename_at(tree, &dir, tree, &renamed, IfTaken::Fail),
            3 => fs.rmdir_at(tree, &renamed),
            4 if bytes == 0 => fs.create_at(tree, &file, 0o644, IfExists::Fail).map(|_| ()),
            4 => {
                let data = vec![b'x'; bytes];
                fs.put_from_at(tree, &file, 0o644, (IfTaken::Fail, &mut &data[..])).map(|_| ())
            }
            5 => match fs.stat_at(tree, &file)?.size {
                size if size == bytes as u64 => Ok(()),
                size => Err(wrong(&file, format!("it has {size} bytes, {bytes} were written"))),
            },
            6 => match fs.read_at(tree, &file, 0, bytes + 1)? {
                data if data.len() == bytes && data.iter().all(|byte| *byte == b'x') => Ok(()),
                data => Err(wrong(&file, format!("{} other bytes were read", data.len()))),
            },
            _ => fs.unlink_at(tree, &file),
        }
    }
}

/// How many strides away the entries are that a row is about.
fn distance(row: usize) -> u64 {
    match row {
        0 | 4 => 0,
        1 | 5 => 1,
        2 | 6 => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_mdtests_columns() {
        let rows = [Row::of("File stat", &[100.0, 300.0])];
        let text = table(&rows, 2);
        let lines: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0].join(" "), "SUMMARY rate (in ops/sec): (of 2 iterations)");
        assert_eq!(lines[1], ["Operation", "Max", "Min", "Mean", "Std", "Dev"]);
        assert_eq!(lines[3], ["File", "stat", "300.000", "100.000", "200.000", "100.000"]);
    }
}
