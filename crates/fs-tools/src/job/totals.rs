//! Numbers of stores, added up: in the shapes of the original, and for the document.

use keyrack_flodb::Db;
use serde_json::{Value, json};
use std::fmt::Write as _;

const LEVELS: usize = 7;
const LEVEL_NUMBERS: usize = 9;

/// Numbers of [`Totals`].
pub(super) const NUMBERS: usize = 9 + LEVEL_NUMBERS * LEVELS;

/// Sums over stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    levels: [Level; LEVELS],
    /// By flushes and by compactions.
    written_bytes: f64,
    /// Calls that wrote them.
    writes: f64,
    /// By compactions.
    read_bytes: f64,
    merged_bytes: f64,
    reads: Reads,
    /// How often a writer waited.
    waits: f64,
}

/// Reads of the files of tables.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reads {
    random: f64,
    random_bytes: f64,
    /// Ahead of where a scan or a compaction is.
    sequential: f64,
    sequential_bytes: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    files: f64,
    bytes: f64,
    /// Flushes and compactions into the level; the others are theirs.
    runs: f64,
    /// Tables from the level above.
    upper_files: f64,
    /// Tables of the level itself.
    lower_files: f64,
    written_files: f64,
    seconds: f64,
    read_bytes: f64,
    written_bytes: f64,
}

impl Totals {
    pub(crate) fn of(stores: &[Db]) -> Totals {
        let mut all = Totals::default();
        for store in stores {
            store.stats(&mut |name, value| match name {
                "flush_bytes" => all.written_bytes += value,
                "compaction_bytes_written" => {
                    all.written_bytes += value;
                    all.merged_bytes += value;
                }
                "table_writes" => all.writes += value,
                "compaction_bytes_read" => all.read_bytes += value,
                "table_reads" => all.reads.random += value,
                "table_bytes_read" => all.reads.random_bytes += value,
                "table_reads_ahead" => all.reads.sequential += value,
                "table_bytes_read_ahead" => all.reads.sequential_bytes += value,
                "writer_waits" => all.waits += value,
                _ => all.add_of_level(name, value),
            });
        }
        all
    }

    /// `levelN_WHAT` has what is there, `into_levelN_WHAT` what was done.
    fn add_of_level(&mut self, name: &str, value: f64) {
        let (is_work, rest) = match name.strip_prefix("into_level") {
            Some(rest) => (true, rest),
            None => (false, name.strip_prefix("level").unwrap_or_default()),
        };
        let (level, what) = rest.split_once('_').unwrap_or_default();
        let level = level.parse().ok().and_then(|n: usize| self.levels.get_mut(n));
        match (level, is_work, what) {
            (Some(level), false, "tables") => level.files += value,
            (Some(level), false, "bytes") => level.bytes += value,
            (Some(level), true, "runs") => level.runs += value,
            (Some(level), true, "upper_tables") => level.upper_files += value,
            (Some(level), true, "lower_tables") => level.lower_files += value,
            (Some(level), true, "written_tables") => level.written_files += value,
            (Some(level), true, "seconds") => level.seconds += value,
            (Some(level), true, "read_bytes") => level.read_bytes += value,
            (Some(level), true, "written_bytes") => level.written_bytes += value,
            // Other numbers of the store.
            _ => {}
        }
    }

    /// Of stores whose tables were made outside, and each written once.
    pub(super) fn of_made_tables(stores: &[Db]) -> Totals {
        let mut all = Totals::of(stores);
        for level in &mut all.levels {
            (level.runs, level.written_files) = (level.files, level.files);
            level.written_bytes = level.bytes;
        }
        all.written_bytes = all.levels.iter().map(|level| level.bytes).sum();
        all
    }

    /// All of them, to be sent.
    pub(super) fn numbers(&self) -> [f64; NUMBERS] {
        let Totals { levels, written_bytes, writes, read_bytes, merged_bytes, .. } = self;
        let Totals { reads, waits, .. } = self;
        let of_level = |level: &Level| {
            let Level { files, bytes, runs, upper_files, lower_files, written_files, .. } = *level;
            let Level { seconds, read_bytes, written_bytes, .. } = *level;
            let files = [files, bytes, runs, upper_files, lower_files, written_files];
            files.into_iter().chain([seconds, read_bytes, written_bytes])
        };
        let mut all = [*written_bytes, *writes, *read_bytes, *merged_bytes, *waits]
            .into_iter()
            .chain(reads.numbers())
            .chain(levels.iter().flat_map(of_level));
        std::array::from_fn(|_| all.next().unwrap_or(0.0))
    }

    /// The reverse of [`Totals::numbers`].
    pub(super) fn from_numbers(numbers: &[f64; NUMBERS]) -> Totals {
        let [written_bytes, writes, read_bytes, merged_bytes, waits, rest @ ..] = *numbers;
        let [random, random_bytes, sequential, sequential_bytes, levels @ ..] = rest;
        let reads = Reads { random, random_bytes, sequential, sequential_bytes };
        let level = |n: usize| {
            let at = |what: usize| levels[LEVEL_NUMBERS * n + what];
            let (files, bytes, runs) = (at(0), at(1), at(2));
            let (upper_files, lower_files, written_files) = (at(3), at(4), at(5));
            let (seconds, read_bytes, written_bytes) = (at(6), at(7), at(8));
            let level = Level { files, bytes, runs, upper_files, lower_files, ..Level::default() };
            Level { written_files, seconds, read_bytes, written_bytes, ..level }
        };
        let levels = std::array::from_fn(level);
        Totals { levels, written_bytes, writes, read_bytes, merged_bytes, reads, waits }
    }

    pub(super) fn add(&mut self, other: &Totals) {
        let (mine, other) = (self.numbers(), other.numbers());
        *self = Totals::from_numbers(&std::array::from_fn(|at| mine[at] + other[at]));
    }

    pub(super) fn written_bytes(&self) -> f64 {
        self.written_bytes
    }

    /// Levels that have files or had work, by number.
    fn levels(&self) -> impl Iterator<Item = (usize, &Level)> {
        let is_used = |level: &Level| level.files > 0.0 || level.seconds > 0.0;
        self.levels.iter().enumerate().filter(move |(_, level)| is_used(level))
    }

    pub(crate) fn text(&self) -> String {
        let written = written_text(self.written_bytes, self.writes);
        format!("{}{written}{}", self.reads.text(""), self.levels_text())
    }

    /// The table of levels, and the waits of writers.
    pub(super) fn levels_text(&self) -> String {
        let Totals { waits, .. } = self;
        let mib = f64::from(1 << 20);
        let mut text = " - Db stats: >>>\n".to_owned();
        let heading = "                              Files                  Compactions";
        let columns =
            "Level  Files Size(MB) Input0 Input1 Output Counts Time(sec) Read(MB) Write(MB)";
        // Writing to a string does not fail.
        let _ = writeln!(text, "{heading}\n{columns}\n{}", "-".repeat(columns.len()));
        for (number, level) in self.levels() {
            let _ = writeln!(
                text,
                "{number:3} {:8.0} {:8.0} {:6.0} {:6.0} {:6.0} {:6.0} {:9.0} {:8.0} {:9.0}",
                level.files,
                level.bytes / mib,
                level.upper_files,
                level.lower_files,
                level.written_files,
                level.runs,
                level.seconds,
                level.read_bytes / mib,
                level.written_bytes / mib,
            );
        }
        let _ = writeln!(text, "\n - L0 stats: >>>\nSoft-Limit Hard-Limit MemTable");
        let _ = writeln!(text, "{:<10} {:<10} {waits:.0}", 0, 0);
        text
    }

    /// Bytes and calls as whole numbers.
    pub(crate) fn json(&self) -> Value {
        let whole = |value: f64| value as u64;
        let levels: Vec<Value> = self
            .levels()
            .map(|(number, level)| {
                json!({
                    "level": number,
                    "files": whole(level.files),
                    "bytes": whole(level.bytes),
                    "runs": whole(level.runs),
                    "files_from_above": whole(level.upper_files),
                    "files_replaced": whole(level.lower_files),
                    "files_written": whole(level.written_files),
                    "seconds": level.seconds,
                    "bytes_read": whole(level.read_bytes),
                    "bytes_written": whole(level.written_bytes),
                })
            })
            .collect();
        json!({
            "bytes_read": whole(self.read_bytes),
            "bytes_written": whole(self.written_bytes),
            "writes": whole(self.writes),
            "write_bytes_average": average(self.written_bytes, self.writes),
            "bytes_merged": whole(self.merged_bytes),
            "reads": self.reads.json(),
            "writer_waits": whole(self.waits),
            "levels": levels,
        })
    }
}

impl Reads {
    /// Of all these stores.
    pub(super) fn of(stores: &[Db]) -> Reads {
        Totals::of(stores).reads
    }

    pub(super) fn numbers(&self) -> [f64; 4] {
        [self.random, self.random_bytes, self.sequential, self.sequential_bytes]
    }

    /// The reverse of [`Reads::numbers`].
    pub(super) fn from_numbers(numbers: [f64; 4]) -> Reads {
        let [random, random_bytes, sequential, sequential_bytes] = numbers;
        Reads { random, random_bytes, sequential, sequential_bytes }
    }

    /// Two lines; `end` stands behind each.
    pub(super) fn text(&self, end: &str) -> String {
        let [calls, bytes, ahead, ahead_bytes] = self.numbers();
        format!(
            "Total random reads: {calls:.0} (Avg read size: {:.1}K, total bytes read: \
             {bytes:.0}){end}\nTotal sequential bytes read: {ahead_bytes:.0} (Avg read size: \
             {:.1}K){end}\n",
            average(bytes, calls) / 1024.0,
            average(ahead_bytes, ahead) / 1024.0
        )
    }

    pub(super) fn json(&self) -> Value {
        let [calls, bytes, ahead, ahead_bytes] = self.numbers();
        json!({
            "random": calls as u64,
            "random_bytes": bytes as u64,
            "random_bytes_average": average(bytes, calls),
            "sequential": ahead as u64,
            "sequential_bytes": ahead_bytes as u64,
            "sequential_bytes_average": average(ahead_bytes, ahead),
        })
    }
}

/// The line about what was written.
pub(super) fn written_text(bytes: f64, writes: f64) -> String {
    let average = average(bytes, writes) / 1024.0;
    format!("Total bytes written: {bytes:.0} (Avg write size: {average:.1}K)\n")
}

/// 0 where the original, without calls, has no number.
pub(super) fn average(bytes: f64, calls: f64) -> f64 {
    if calls > 0.0 { bytes / calls } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_flodb::{Compression, Options};

    /// The lines had the sums of the whole store at each level, and nothing at level 0.
    #[test]
    fn each_level_has_the_work_that_went_into_it() {
        let dir = tempfile::tempdir().unwrap();
        let compression = vec![Compression::None];
        let options = Options { compression, compaction_threads: 0, ..Options::default() };
        let db = Db::open(dir.path().join("store"), options).unwrap();
        let value = vec![7; 1 << 20];
        for round in 0..2 {
            for key in 0..2_u8 {
                db.put(&[key, round], &value).unwrap();
            }
            db.flush().unwrap();
        }
        let flushed = Totals::of(std::slice::from_ref(&db));
        let row = |totals: &Totals, level: &str| -> Vec<String> {
            let text = totals.text();
            let line = text.lines().find(|line| line.trim_start().starts_with(level));
            let words = line.unwrap_or_default().split_whitespace().map(str::to_owned);
            words.collect()
        };
        // Level, files, MB, three of input and output, counts, seconds, MB read, MB written.
        assert_eq!(row(&flushed, "0 "), ["0", "2", "4", "0", "0", "2", "2", "0", "0", "4"]);
        let text = flushed.text();
        let lines: Vec<&str> = text.lines().take(3).collect();
        assert_eq!(
            lines[0].split(" (Avg").next(),
            Some("Total random reads: 8"),
            "two openings of four reads"
        );
        assert_eq!(lines[1], "Total sequential bytes read: 0 (Avg read size: 0.0K)");
        let average = flushed.written_bytes / 1024.0 / flushed.writes;
        assert!(lines[2].ends_with(&format!("(Avg write size: {average:.1}K)")), "{text}");
        assert!((512.0..1100.0).contains(&average), "two blocks of a mebibyte a table: {average}");
        db.compact_range(None, None).unwrap();
        let merged = Totals::of(std::slice::from_ref(&db));
        assert_eq!(row(&merged, "0 "), ["0", "0", "0", "0", "0", "2", "2", "0", "0", "4"]);
        // A second compaction replaces the table of the first.
        db.put(&[0, 9], &value).unwrap();
        db.put(&[1, 9], &value).unwrap();
        db.flush().unwrap();
        db.compact_range(None, None).unwrap();
        let again = Totals::of(std::slice::from_ref(&db));
        assert_eq!(row(&again, "6 "), ["6", "1", "6", "3", "1", "2", "2", "0", "10", "10"]);
        let levels = merged.json()["levels"].clone();
        let last = levels.as_array().unwrap().last().unwrap();
        assert!(last["level"].as_u64() > Some(0), "{levels}");
        let into_last = merged.levels.iter().skip(1).map(|level| level.written_bytes);
        assert!(into_last.sum::<f64>() >= 4.0 * f64::from(1 << 20), "{merged:?}");
        assert_eq!(Totals::from_numbers(&merged.numbers()).text(), merged.text());
    }
}
