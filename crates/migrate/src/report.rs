//! What became of an import or an export, in numbers and with a few names.
//!
//! **Invariant:** everything that the source has and the destination does not get is counted here,
//! except for rows that had expired.

use crate::event::Event;
use serde::Serialize;
use std::collections::BTreeMap;

/// Keys that are named of each kind.
pub const NAMES_MAX: usize = 10;

/// Bytes of a key that are shown.
const NAME_BYTES_MAX: usize = 256;

/// Things of one kind: how many, and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Named {
    /// How many.
    pub count: u64,
    /// The first [`NAMES_MAX`], as printable text.
    pub first: Vec<String>,
}

impl Named {
    pub(crate) fn add(&mut self, key: &[u8]) {
        self.count += 1;
        if self.first.len() < NAMES_MAX {
            self.first.push(key[..key.len().min(NAME_BYTES_MAX)].escape_ascii().to_string());
        }
    }
}

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Strings that were moved.
    pub strings: u64,
    /// Hashes that were moved.
    pub hashes: u64,
    /// Fields of these hashes.
    pub fields: u64,
    /// Commands of the source that were executed at the destination.
    pub changes: u64,
    /// Keys that changed meanwhile and were read again.
    pub read_again: u64,
    /// Rows and fields that had expired.
    pub expired: u64,
    /// Keys that the destination had and kept.
    pub kept: Named,
    /// Keys of types that rows here do not have, by type. One that is read again is counted again.
    pub left_out: BTreeMap<String, Named>,
    /// Commands that change such keys, by name.
    pub left_out_commands: BTreeMap<String, u64>,
    /// Rows and commands of other databases than the one that was imported.
    pub other_databases: u64,
    /// Rows that the destination refused, each with its error.
    pub refused: Named,
    /// Keys that a command changed in a way that cannot be repeated.
    pub unclear: Named,
    /// Fields that would expire on their own: they were moved, and do not.
    pub field_expiries: u64,
    /// Rows whose flags the destination's protocol does not have.
    pub flags_lost: u64,
    /// Items that were listed and were gone when they were read.
    pub gone: u64,
    /// Why the server was scanned and not replicated, where that was tried.
    pub not_replicated: Option<String>,
    /// File and offset of a torn command at the end.
    pub torn: Option<(String, u64)>,
}

impl Report {
    /// Whether the destination has all that the source has.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left_out.is_empty()
            && self.left_out_commands.is_empty()
            && self.other_databases == 0
            && self.refused.count + self.unclear.count == 0
            && self.field_expiries + self.flags_lost == 0
    }

    /// Counts a row that an export writes, or leaves out.
    pub fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::String { .. } => self.strings += 1,
            Event::Hash(_) => self.hashes += 1,
            Event::Field { expires_ms, .. } => {
                self.fields += 1;
                self.field_expiries += u64::from(expires_ms.is_some());
            }
            Event::LeftOut { kind, key, .. } => {
                self.left_out.entry((*kind).to_owned()).or_default().add(key);
            }
            _ => {}
        }
    }

    /// What is missing at the destination, a line each.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut named = |what: String, named: &Named| {
            let shown = named.first.join(", ");
            let more = if named.count > named.first.len() as u64 { ", ..." } else { "" };
            if named.count > 0 {
                lines.push(format!("{what}: {} ({shown}{more})", named.count));
            }
        };
        for (kind, keys) in &self.left_out {
            named(format!("left out, {kind}"), keys);
        }
        named("refused by the destination".to_owned(), &self.refused);
        named("changed by commands that are not understood".to_owned(), &self.unclear);
        for (name, count) in &self.left_out_commands {
            lines.push(format!("left out, command {name}: {count}"));
        }
        let counts = [
            ("in other databases", self.other_databases),
            ("fields that no longer expire on their own", self.field_expiries),
            ("rows that lost their flags", self.flags_lost),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            lines.push(format!("{what}: {count}"));
        }
        lines
    }
}
