//! `keyrack db stat`: what a store consists of.

use super::store::{Store, open_to_read, space_arg};
use crate::db::args::{flag, on_store};
use clap::{Arg, ArgMatches, Command};
use keyrack_console::{Failure, Outcome};
use keyrack_flodb::{KeySpace, Metric, MetricKind};
use keyrack_vfs::{Fs, RealFs};
use serde_json::{Value, json};
use std::collections::HashMap;

pub(super) fn command() -> Command {
    let property = Arg::new("property").long("property").value_name("NAME");
    on_store("stat", "Print what the store consists of")
        .arg(flag("json", "Print it as JSON"))
        .arg(
            flag("metrics", "Print every number of the store, with its unit and its meaning")
                .conflicts_with_all(["property", "space"]),
        )
        .arg(space_arg("Of the key spaces, tell only of this one"))
        .arg(property.help("Print only this property, such as leveldb.sstables"))
}

/// Levels that a store may have.
const LEVELS: usize = 7;

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

struct Space {
    name: String,
    order: String,
    /// About the bytes of its keys in tables.
    bytes: u64,
}

impl Space {
    fn of(space: &KeySpace) -> Self {
        let order = space.comparator().name().to_owned();
        let bytes = space.approximate_size(None, None);
        Space { name: space.name().to_owned(), order, bytes }
    }

    fn json(&self) -> Value {
        let Space { name, order, bytes } = self;
        json!({ "name": name, "comparator": order, "bytes": bytes })
    }
}

struct Stat {
    dir: String,
    comparator: String,
    /// `name=value`, where the store keeps them.
    options: String,
    last_sequence: u64,
    estimated_keys: u64,
    memory_bytes: u64,
    memory_entries: u64,
    levels: Vec<Level>,
    /// Blob files, their bytes, and those of values that are in use no more.
    blobs: [u64; 3],
    /// None in a plain store.
    spaces: Option<Vec<Space>>,
    /// Bytes of all files.
    disk_bytes: u64,
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let store = open_to_read(matches)?;
    if let Some(name) = matches.get_one::<String>("property") {
        let Some(text) = store.property(name) else {
            return Err(Failure::Usage(format!("there is no property '{name}'")));
        };
        return Ok(keyrack_console::print(&format!("{}\n", text.trim_end_matches('\n'))));
    }
    if matches.get_flag("metrics") {
        let metrics = store.metrics();
        let is_json = matches.get_flag("json");
        let shown = if is_json { metrics_json(&metrics) } else { metrics_text(&metrics) };
        return Ok(keyrack_console::print(&shown));
    }
    let chosen = store.chosen(matches)?.map(|space| vec![space]);
    let mut stat = Stat::of(&store)?;
    let spaces = chosen.or_else(|| store.spaces());
    stat.spaces = spaces.map(|spaces| spaces.iter().map(Space::of).collect());
    Ok(keyrack_console::print(&if matches.get_flag("json") { stat.json() } else { stat.text() }))
}

/// A line for each number: its name, it and its unit, and what it is.
fn metrics_text(metrics: &[Metric]) -> String {
    let line = |metric: &Metric| {
        let Metric { name, value, unit, help, .. } = metric;
        format!("{name:<28} {value:>16} {unit:<12} {help}\n")
    };
    metrics.iter().map(line).collect()
}

fn metrics_json(metrics: &[Metric]) -> String {
    let row = |metric: &Metric| {
        let Metric { name, value, unit, help, .. } = metric;
        let kind = if metric.kind == MetricKind::Counter { "counter" } else { "gauge" };
        json!({ "name": name, "value": value, "kind": kind, "unit": unit, "help": help })
    };
    format!("{:#}\n", metrics.iter().map(row).collect::<Value>())
}

impl Stat {
    /// Without the key spaces.
    fn of(db: &Store) -> Result<Self, Failure> {
        let mut numbers: HashMap<String, u64> = HashMap::new();
        db.stats(&mut |name, number| {
            numbers.insert(name.to_owned(), number as u64);
        });
        let number = |name: &str| *numbers.get(name).expect("every store tells this number");
        let property = |name: &str| db.property(name).expect("every store has this property");
        let whole = |name: &str| property(name).parse().expect("this property is a number");
        // Levels without a table are not told of.
        let of_level = |name: String| numbers.get(&name).copied().unwrap_or(0);
        let levels = (0..LEVELS).map(|level| Level {
            level,
            tables: of_level(format!("level{level}_tables")),
            bytes: of_level(format!("level{level}_bytes")),
            entries: of_level(format!("level{level}_entries")),
        });
        Ok(Stat {
            dir: db.dir().display().to_string(),
            comparator: property("keyrack.comparator"),
            options: property("keyrack.options"),
            last_sequence: whole("keyrack.last-sequence"),
            estimated_keys: whole("keyrack.estimate-num-keys"),
            memory_bytes: number("memory_bytes"),
            memory_entries: number("memory_entries"),
            blobs: ["blob_files", "blob_bytes", "blob_dead_bytes"].map(number),
            levels: levels.filter(|level| level.tables > 0).collect(),
            spaces: None,
            disk_bytes: RealFs.size_recursive(db.dir())?,
        })
    }

    fn json(&self) -> String {
        let levels: Value = self.levels.iter().map(Level::json).collect();
        let pairs = self.options.split(' ').filter_map(|pair| pair.split_once('='));
        let value = |text: &str| text.parse::<u64>().map_or_else(|_| json!(text), |it| json!(it));
        let options: serde_json::Map<String, Value> =
            pairs.map(|(name, text)| (name.to_owned(), value(text))).collect();
        let memory = json!({ "bytes": self.memory_bytes, "entries": self.memory_entries });
        let mut stat = json!({
            "dir": self.dir,
            "comparator": self.comparator,
            "options": options,
            "last_sequence": self.last_sequence,
            "estimated_keys": self.estimated_keys,
            "memory": memory,
            "levels": levels,
            "disk_bytes": self.disk_bytes,
        });
        let [files, bytes, dead_bytes] = self.blobs;
        if files > 0 {
            stat["blobs"] = json!({ "files": files, "bytes": bytes, "dead_bytes": dead_bytes });
        }
        if let Some(spaces) = &self.spaces {
            stat["spaces"] = spaces.iter().map(Space::json).collect();
        }
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
        if !self.options.is_empty() {
            let lines = self.options.replace(' ', "\n                ");
            text.push_str(&format!("written with    {lines}\n"));
        }
        if !self.levels.is_empty() {
            text.push_str("level    tables         bytes       entries\n");
        }
        for Level { level, tables, bytes, entries } in &self.levels {
            text.push_str(&format!("{level:>5} {tables:>9} {bytes:>13} {entries:>13}\n"));
        }
        let [files, bytes, dead_bytes] = self.blobs;
        if files > 0 {
            text.push_str(&format!(
                "in blob files   {bytes} bytes in {files} files, {dead_bytes} of them dead\n"
            ));
        }
        let spaces = self.spaces.as_deref().unwrap_or_default();
        if !spaces.is_empty() {
            text.push_str("in tables      order of keys           key space\n");
        }
        for Space { name, order, bytes } in spaces {
            text.push_str(&format!("{bytes:>13}  {order:<22}  {name}\n"));
        }
        text
    }
}
