//! `keyrack db stat`: what a store consists of.

use super::{Failure, Outcome, flag, on_store, open_to_read};
use clap::{ArgMatches, Command};
use keyrack_flodb::Db;
use keyrack_vfs::{Fs, RealFs};
use serde_json::{Value, json};
use std::collections::HashMap;

pub(super) fn command() -> Command {
    on_store("stat", "Print what the store consists of").arg(flag("json", "Print it as JSON"))
}

/// Levels that a store may have.
const LEVELS: usize = 7;

/// One level with tables.
struct Level {
    level: usize,
    tables: u64,
    bytes: u64,
    entries: u64,
}

impl Level {
    fn json(&self) -> Value {
        let Level { level, tables, bytes, entries } = self;
        json!({ "level": level, "tables": tables, "bytes": bytes, "entries": entries })
    }
}

struct Stat {
    dir: String,
    comparator: String,
    last_sequence: u64,
    estimated_keys: u64,
    memory_bytes: u64,
    memory_entries: u64,
    levels: Vec<Level>,
    /// Bytes of all files.
    disk_bytes: u64,
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let db = open_to_read(matches)?;
    let stat = Stat::of(&db)?;
    Ok(crate::print(&if matches.get_flag("json") { stat.json() } else { stat.text() }))
}

impl Stat {
    fn of(db: &Db) -> Result<Self, Failure> {
        let mut numbers: HashMap<String, u64> = HashMap::new();
        db.stats(&mut |name, number| {
            numbers.insert(name.to_owned(), number as u64);
        });
        let number = |name: &str| numbers.get(name).copied().unwrap_or_default();
        let property = |name: &str| db.property(name).unwrap_or_default();
        let whole = |name: &str| property(name).parse().unwrap_or_default();
        let levels = (0..LEVELS).map(|level| Level {
            level,
            tables: number(&format!("level{level}_tables")),
            bytes: number(&format!("level{level}_bytes")),
            entries: number(&format!("level{level}_entries")),
        });
        Ok(Stat {
            dir: db.dir().display().to_string(),
            comparator: property("keyrack.comparator"),
            last_sequence: whole("keyrack.last-sequence"),
            estimated_keys: whole("keyrack.estimate-num-keys"),
            memory_bytes: number("memory_bytes"),
            memory_entries: number("memory_entries"),
            levels: levels.filter(|level| level.tables > 0).collect(),
            disk_bytes: RealFs.size_recursive(db.dir())?,
        })
    }

    fn json(&self) -> String {
        let levels: Value = self.levels.iter().map(Level::json).collect();
        let memory = json!({ "bytes": self.memory_bytes, "entries": self.memory_entries });
        let stat = json!({
            "dir": self.dir,
            "comparator": self.comparator,
            "last_sequence": self.last_sequence,
            "estimated_keys": self.estimated_keys,
            "memory": memory,
            "levels": levels,
            "disk_bytes": self.disk_bytes,
        });
        format!("{stat:#}\n")
    }

    fn text(&self) -> String {
        let mut text = format!(
            "store           {}\n\
             order of keys   {}\n\
             keys            about {}\n\
             last sequence   {}\n\
             on disk         {} bytes, the log included\n\
             in the log      {} entries, {} bytes in memory\n",
            self.dir,
            self.comparator,
            self.estimated_keys,
            self.last_sequence,
            self.disk_bytes,
            self.memory_entries,
            self.memory_bytes,
        );
        if !self.levels.is_empty() {
            text.push_str("level    tables         bytes       entries\n");
        }
        for Level { level, tables, bytes, entries } in &self.levels {
            text.push_str(&format!("{level:>5} {tables:>9} {bytes:>13} {entries:>13}\n"));
        }
        text
    }
}
