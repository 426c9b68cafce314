//! Rows as commands of Redis.
//!
//! ```text
//!   string   SET key value [PXAT ms]
//!   hash     MULTI, DEL key, HSET key name value..., [PEXPIREAT key ms], EXEC
//!   large    DEL key, HSET..., HSET..., [PEXPIREAT key ms]
//! ```
//!
//! A hash of at most [`HASH_BYTES_MAX`] replaces the old row in one step. A larger one goes in
//! pieces, and readers see it grow.

use crate::args::Args;
use crate::error::Result;
use crate::event::{Entry, Event};
use keyrack_wire::write_u64;

/// Bytes of names and values in one HSET.
const HASH_BYTES_MAX: usize = 256 << 10;

/// What the reply to a command says about the row at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// With it a string is stored.
    String,
    /// With it a string is stored, if the key did not exist.
    StringIfAbsent,
    /// With it a hash is stored.
    Hash,
    /// It is a part of storing the row.
    Part,
    /// It is a command of the source.
    Change,
}

/// Takes commands, in order.
pub(crate) trait Commands {
    fn command(&mut self, role: Role, key: &[u8], args: &[&[u8]]) -> Result<()>;
}

/// Turns the events of rows into commands.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// SET only where there is no key.
    pub(crate) only_if_absent: bool,
    key: Vec<u8>,
    expires_ms: Option<u64>,
    fields: Args,
    /// Pieces of the hash that went out.
    pieces: u64,
}

impl Encoder {
    pub(crate) fn new(only_if_absent: bool) -> Self {
        Encoder { only_if_absent, ..Encoder::default() }
    }

    pub(crate) fn string(
        &self,
        entry: &Entry<'_>,
        value: &[u8],
        out: &mut dyn Commands,
    ) -> Result<()> {
        let mut args: Vec<&[u8]> = vec![b"SET", entry.key, value];
        let expires = number(entry.expires_ms.unwrap_or_default());
        if entry.expires_ms.is_some() {
            args.extend([&b"PXAT"[..], &expires]);
        }
        if self.only_if_absent {
            args.push(b"NX");
        }
        let role = if self.only_if_absent { Role::StringIfAbsent } else { Role::String };
        out.command(role, entry.key, &args)
    }

    pub(crate) fn begin_hash(&mut self, entry: &Entry<'_>) {
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        self.expires_ms = entry.expires_ms;
        self.fields.clear();
        self.pieces = 0;
    }

    /// The key of the hash at hand.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn field(
        &mut self,
        name: &[u8],
        value: &[u8],
        out: &mut dyn Commands,
    ) -> Result<()> {
        let bytes = self.fields.memory_bytes() + name.len() + value.len();
        if bytes > HASH_BYTES_MAX && !self.fields.is_empty() {
            if self.pieces == 0 {
                out.command(Role::Part, &self.key, &[b"DEL", &self.key])?;
            }
            self.set_fields(Role::Part, out)?;
        }
        self.fields.push(name);
        self.fields.push(value);
        Ok(())
    }

    /// Returns whether there was a field: a hash without fields does not exist.
    pub(crate) fn end_hash(&mut self, out: &mut dyn Commands) -> Result<bool> {
        if self.fields.is_empty() {
            return Ok(false);
        }
        let is_whole = self.pieces == 0;
        if is_whole {
            out.command(Role::Part, &self.key, &[b"MULTI"])?;
            out.command(Role::Part, &self.key, &[b"DEL", &self.key])?;
        }
        let is_last = !is_whole && self.expires_ms.is_none();
        self.set_fields(if is_last { Role::Hash } else { Role::Part }, out)?;
        if let Some(expires_ms) = self.expires_ms {
            let role = if is_whole { Role::Part } else { Role::Hash };
            let args: [&[u8]; 3] = [b"PEXPIREAT", &self.key, &number(expires_ms)];
            out.command(role, &self.key, &args)?;
        }
        if is_whole {
            out.command(Role::Hash, &self.key, &[b"EXEC"])?;
        }
        Ok(true)
    }

    fn set_fields(&mut self, role: Role, out: &mut dyn Commands) -> Result<()> {
        let args: Vec<&[u8]> =
            [&b"HSET"[..], &self.key].into_iter().chain(self.fields.iter()).collect();
        out.command(role, &self.key, &args)?;
        self.fields.clear();
        self.pieces += 1;
        Ok(())
    }
}

/// Writes rows as commands, for a file.
#[derive(Debug, Default)]
pub struct RespWriter {
    encoder: Encoder,
}

impl RespWriter {
    /// Appends the commands of an event to `out`. Events that are no rows are nothing.
    ///
    /// # Errors
    /// None.
    pub fn event(&mut self, event: &Event<'_>, out: &mut Vec<u8>) -> Result<()> {
        let out = &mut Text { out };
        match event {
            Event::String { entry, value } => self.encoder.string(entry, value, out),
            Event::Hash(entry) => {
                self.encoder.begin_hash(entry);
                Ok(())
            }
            Event::Field { name, value, .. } => self.encoder.field(name, value, out),
            Event::EndHash => self.encoder.end_hash(out).map(drop),
            _ => Ok(()),
        }
    }
}

struct Text<'o> {
    out: &'o mut Vec<u8>,
}

impl Commands for Text<'_> {
    fn command(&mut self, _: Role, _: &[u8], args: &[&[u8]]) -> Result<()> {
        keyrack_wire::resp::command(self.out, args);
        Ok(())
    }
}

fn number(number: u64) -> Vec<u8> {
    let mut text = Vec::new();
    write_u64(&mut text, number);
    text
}
