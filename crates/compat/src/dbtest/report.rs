//! What `db_test` prints, in the shapes of the original.

use super::options::Options;
use keyrack_record::{FieldValue, Repeat};
use keyrack_store::Store;

/// Levels that the original has.
const LEVELS: usize = 7;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Levels([u64; LEVELS]);

impl Levels {
    /// Those of a store that counts its tables as `level0_tables` and so on; else none.
    pub(super) fn of(store: &dyn Store) -> Levels {
        let mut levels = Levels::default();
        store.stats(&mut |name, value| {
            let level = name.strip_prefix("level").and_then(|rest| rest.strip_suffix("_tables"));
            let level = level.and_then(|level| level.parse::<usize>().ok());
            if let Some(files) = level.and_then(|level| levels.0.get_mut(level)) {
                *files = value as u64;
            }
        });
        levels
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn text(&self) -> String {
        let line = |(level, files): (usize, &u64)| format!("Files at level {level}: {files}\n");
        self.0.iter().enumerate().map(line).collect()
    }
}

/// What is known before the test.
pub(super) fn head(options: &Options) -> String {
    let mut text = String::new();
    let mut round = |name: &str, old: u64, new: u64| {
        if old != new {
            text.push_str(&format!(
                "** rounding up {name} (to make it power of 2): old: {old} / new: {new}\n"
            ));
        }
    };
    let (initial, range) = (options.rounded_initial(), options.rounded_range());
    round("initial", options.initial, initial);
    round("range", options.plain_range(), range);
    let rate = options.updates as f64 / 100.0;
    text.push_str(&format!("## Update rate: {rate:.6} / Put rate: {:.6}\n", rate / 2.0));
    text.push_str(&format!("## Initial: {initial} / Range: {range}\n"));
    text.push_str(&format!("Levelmax = {}\n", initial.ilog2()));
    text
}

/// A line for each sample of the timeline.
pub(super) fn throughput(timeline: &str) -> String {
    let mut lines = timeline.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().unwrap_or_default();
    let column = |name: &str| columns.iter().position(|column| *column == name);
    let (Some(phase), Some(metric), Some(value)) =
        (column("phase"), column("metric"), column("value"))
    else {
        // Nobody has asked for a timeline.
        return String::new();
    };
    let samples = lines.filter(|row| row[phase] == "run" && row[metric] == "wu_per_s");
    let mops = |row: &Vec<&str>| row[value].parse::<f64>().map_or(0.0, |ops| ops / 1e6);
    samples.map(|row| format!("Throughput: {:.3} Mops\n", mops(&row))).collect()
}

/// What came of it.
pub(super) struct Report<'a> {
    pub(super) options: &'a Options,
    pub(super) repeat: &'a Repeat,
    pub(super) before: &'a Levels,
    pub(super) after: &'a Levels,
    /// What the engine counts, where it was asked for.
    pub(super) stats: Option<&'a [(String, f64)]>,
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

impl Report<'_> {
    fn sum(&self, name: &str) -> u64 {
        let counts = self.repeat.rows.iter().filter_map(|row| match row.get(name) {
            Some(FieldValue::Count(count)) => Some(*count),
            _ => None,
        });
        counts.sum()
    }

    /// The mean times of operations, in the columns of the original.
    fn latencies(&self) -> String {
        let seconds = |name: &str| -> f64 {
            self.repeat.rows.iter().filter_map(|row| row.get(name)?.as_f64()).sum()
        };
        let mean = |name: &str, count: u64| match count {
            0 => 0.0,
            count => seconds(name) * 1e9 / count as f64,
        };
        // A scan is one call, and counts as many reads.
        let per_read = if self.options.scans { 100 } else { 1 };
        let (found, reads) = (self.sum("found") / per_read, self.sum("reads") / per_read);
        format!(
            "#thread srch_suc srch_fal insr_suc insr_fal remv_suc remv_fal   ## latency (in ns) \n\
             {:<7} {:<8.0} {:<8.0} {:<8.0} {:<8} {:<8.0} {:<8}\n",
            self.options.threads,
            mean("found_s", found),
            mean("missed_s", reads - found),
            mean("inserts_s", self.sum("inserts")),
            0,
            mean("removes_s", self.sum("removes")),
            0
        )
    }

    /// What FloDB counts, in its words: updates and reads by the level that took or answered them.
    fn levels(&self, stats: &[(String, f64)]) -> String {
        let (reads, updates) = (self.sum("reads"), self.sum("inserts") + self.sum("removes"));
        let count = |name: &str| stats.iter().find(|(known, _)| known == name).map(|it| it.1);
        let mut text = format!("Updates total: {updates}\n");
        let sorts = count("writer_sorts");
        if let Some(sorts) = sorts {
            let in_hash = if self.options.has_hash_level { updates } else { 0 };
            text.push_str(&format!("Updates directly membuffer: {in_hash}\n"));
            text.push_str(&format!("Updates w/ helping: {sorts}\n"));
        }
        text.push_str(&format!("Reads total: {reads}\n"));
        for (name, shown) in [
            ("reads_hash", "from membuffer"),
            ("reads_ordered", "from memtable"),
            ("reads_tables", "from disk"),
            ("reads_nowhere", "found nowhere"),
        ] {
            if let Some(reads) = count(name) {
                text.push_str(&format!("Reads {shown}: {reads}\n"));
            }
        }
        if let Some(sorts) = sorts {
            // Entries stay where they were written, and a scan sees one moment.
            text.push_str(&format!(
                "Entries Moved: 0\nMulti-insert calls: {sorts}\nScan restarts: 0\n\
                 Scan fallbacks: 0\n"
            ));
        }
        text
    }

    /// Seconds from the first begin to the last end.
    fn seconds(&self) -> f64 {
        let times = |name: &str| {
            let rows = self.repeat.rows.iter();
            rows.filter_map(|row| row.get(name)?.as_f64()).collect::<Vec<f64>>()
        };
        let begin = times("begin_s").into_iter().fold(f64::INFINITY, f64::min);
        let end = times("end_s").into_iter().fold(f64::NEG_INFINITY, f64::max);
        (end - begin).max(1e-9)
    }

    pub(super) fn text(&self) -> String {
        let (searches, inserts, removes) =
            (self.sum("reads"), self.sum("inserts"), self.sum("removes"));
        let all = searches + inserts + removes;
        let mut text = self.before.text();
        text.push_str(&format!(
            "    : {:<10} | {:<10} | {:<11} | {:<11} | {}\n",
            "total", "success", "succ %", "total %", "effective %"
        ));
        let line = |name: &str, total: u64, success: u64| {
            let (rate, of_all) = (percent(success, total), percent(total, all));
            format!("{name}: {total:<10} | {success:<10} | {rate:>10.1}% | {of_all:>10.1}% | ")
        };
        text.push_str(&line("srch", searches, self.sum("found")));
        text.push('\n');
        for (name, count) in [("insr", inserts), ("rems", removes)] {
            let effective = percent(count, all) * percent(count, count) / 100.0;
            text.push_str(&line(name, count, count));
            text.push_str(&format!("{effective:>10.1}%\n"));
        }
        let throughput = all as f64 / self.seconds();
        text.push_str(&format!("#txs {}\t({throughput:<10.0}\n", self.options.threads));
        text.push_str(&format!("#Mops {:.3}\n", throughput / 1e6));
        if self.options.shows_latency {
            text.push_str(&self.latencies());
        }
        if let Some(stats) = self.stats {
            text.push_str(&self.levels(stats));
            for (name, value) in stats {
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
        text.push_str(&self.after.text());
        let created = self.after.total() as i128 - self.before.total() as i128;
        text.push_str(&format!("Total files created: {created}\n"));
        text
    }
}
