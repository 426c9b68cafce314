//! Numbers of stores, added up: in the shapes of the original, and for the document.

use keyrack_flodb::Db;
use serde_json::{Value, json};
use std::fmt::Write as _;

const LEVELS: usize = 7;

/// Numbers of [`Totals`].
pub(super) const NUMBERS: usize = 4 + 2 * LEVELS;

/// Sums over stores.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    levels: [Level; LEVELS],
    /// By flushes and by compactions.
    written_bytes: f64,
    /// By compactions.
    read_bytes: f64,
    merged_bytes: f64,
    /// How often a writer waited.
    waits: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    files: f64,
    bytes: f64,
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
                "compaction_bytes_read" => all.read_bytes += value,
                "writer_waits" => all.waits += value,
                _ => {
                    let Some(rest) = name.strip_prefix("level") else { return };
                    let Some((level, what)) = rest.split_once('_') else { return };
                    let level = level.parse().ok().and_then(|n: usize| all.levels.get_mut(n));
                    match (level, what) {
                        (Some(level), "tables") => level.files += value,
                        (Some(level), "bytes") => level.bytes += value,
                        _ => {}
                    }
                }
            });
        }
        all
    }

    /// All of them, to be sent.
    pub(super) fn numbers(&self) -> [f64; NUMBERS] {
        let mut all = [self.written_bytes, self.read_bytes, self.merged_bytes, self.waits]
            .into_iter()
            .chain(self.levels.iter().flat_map(|level| [level.files, level.bytes]));
        std::array::from_fn(|_| all.next().unwrap_or(0.0))
    }

    /// The reverse of [`Totals::numbers`].
    pub(super) fn from_numbers(numbers: &[f64; NUMBERS]) -> Totals {
        let [written_bytes, read_bytes, merged_bytes, waits, levels @ ..] = *numbers;
        let level = |n: usize| Level { files: levels[2 * n], bytes: levels[2 * n + 1] };
        let levels = std::array::from_fn(level);
        Totals { levels, written_bytes, read_bytes, merged_bytes, waits }
    }

    pub(super) fn add(&mut self, other: &Totals) {
        let (mine, other) = (self.numbers(), other.numbers());
        *self = Totals::from_numbers(&std::array::from_fn(|at| mine[at] + other[at]));
    }

    pub(super) fn written_bytes(&self) -> f64 {
        self.written_bytes
    }

    /// Levels that have files, by number.
    fn levels(&self) -> impl Iterator<Item = (usize, &Level)> {
        self.levels.iter().enumerate().filter(|(_, level)| level.files > 0.0)
    }

    pub(crate) fn text(&self) -> String {
        let Totals { written_bytes, read_bytes, merged_bytes, waits, .. } = self;
        let mib = f64::from(1 << 20);
        let mut text = format!(
            "Total sequential bytes read: {read_bytes:.0}\nTotal bytes written: \
             {written_bytes:.0}\n - Db stats: >>>\n"
        );
        let heading = "                              Files                  Compactions";
        let columns =
            "Level  Files Size(MB) Input0 Input1 Output Counts Time(sec) Read(MB) Write(MB)";
        // Writing to a string does not fail.
        let _ = writeln!(text, "{heading}\n{columns}\n{}", "-".repeat(columns.len()));
        for (level, Level { files, bytes }) in self.levels() {
            let (read, merged) = if level == 0 { (0.0, 0.0) } else { (*read_bytes, *merged_bytes) };
            let _ = writeln!(
                text,
                "{level:3} {files:8.0} {:8.0} {:6} {:6} {:6} {:6} {:9} {:8.0} {:9.0}",
                bytes / mib,
                0,
                0,
                0,
                0,
                0,
                read / mib,
                merged / mib,
            );
        }
        let _ = writeln!(text, "\n - L0 stats: >>>\nSoft-Limit Hard-Limit MemTable");
        let _ = writeln!(text, "{:<10} {:<10} {waits:.0}", 0, 0);
        text
    }

    /// Bytes as whole numbers; what the original counts and these stores do not is left out.
    pub(crate) fn json(&self) -> Value {
        let whole = |value: f64| value as u64;
        let levels: Vec<Value> = self
            .levels()
            .map(|(level, Level { files, bytes })| {
                json!({ "level": level, "files": whole(*files), "bytes": whole(*bytes) })
            })
            .collect();
        json!({
            "bytes_read": whole(self.read_bytes),
            "bytes_written": whole(self.written_bytes),
            "bytes_merged": whole(self.merged_bytes),
            "writer_waits": whole(self.waits),
            "levels": levels,
        })
    }
}
