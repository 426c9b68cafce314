//! Keys of a running server, read with their types and expiries.
//!
//! ```text
//!   TYPE, STRLEN of each key  -->  GET and PEXPIRETIME, in portions of values
//!                                  HSCAN, HPEXPIRETIME and PEXPIRETIME, piece by piece
//! ```
//!
//! A server without PEXPIRETIME (before Redis 7) is asked for PTTL, and the time of the answer is
//! added: such an expiry is exact to the time that the answer takes.

use crate::client::{Client, Value};
use crate::error::{Error, Result};
use crate::event::{Entry, Event, Visit};
use crate::url::Url;
use keyrack_measure::wall;

/// Bytes of values that are asked for at once, but for a single larger one.
const PORTION_BYTES: u64 = 4 << 20;
/// Fields of a hash that are asked for at once.
const FIELDS: &[u8] = b"1000";

/// A connection that reads keys.
pub(crate) struct Fetcher {
    client: Client,
    db: u32,
    has_expire_time: bool,
    /// Whether the server has fields with an expiry of their own, and tells it.
    has_field_expiries: bool,
}

impl Fetcher {
    pub(crate) fn connect(url: &Url, db: u32) -> Result<Self> {
        let mut client = Client::connect(url)?;
        if db != 0 {
            let reply = client.ask(&[b"SELECT", db.to_string().as_bytes()])?;
            client.expect_no_error(reply)?;
        }
        // No key has to exist for the answer.
        let probe = client.ask(&[b"PEXPIRETIME", b""])?;
        let has_expire_time = matches!(probe, Value::Integer(_));
        let has_field_expiries = match client.ask(&[b"HPEXPIRETIME", b"", b"FIELDS", b"1", b""])? {
            // The server does not know the command.
            Value::Error(text) if text.starts_with("ERR") => false,
            reply => client.expect_no_error(reply).map(|_| true)?,
        };
        Ok(Fetcher { client, db, has_expire_time, has_field_expiries })
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Reports each of `keys`: a row, a row that is left out, or that it is gone.
    pub(crate) fn fetch(&mut self, keys: &[Vec<u8>], visit: Visit<'_>) -> Result<()> {
        for key in keys {
            self.client.send(&[b"TYPE", key]);
            self.client.send(&[b"STRLEN", key]);
        }
        self.client.flush()?;
        let (mut strings, mut hashes) = (Vec::new(), Vec::new());
        for key in keys {
            let kind = self.client.receive_value()?;
            let length = self.client.receive_value()?;
            let kind = self.client.expect_no_error(kind)?;
            match kind.text() {
                Some(b"string") => {
                    let bytes = match length {
                        Value::Integer(bytes) => u64::try_from(bytes).unwrap_or(0),
                        _ => 0,
                    };
                    strings.push((key, bytes));
                }
                Some(b"hash") => hashes.push(key),
                Some(b"none") => visit(Event::Gone { key })?,
                Some(kind) => {
                    let kind = String::from_utf8_lossy(kind).replace("zset", "sorted set");
                    visit(Event::LeftOut { db: self.db, kind: &kind, key })?;
                }
                None => return self.client.unexpected("TYPE"),
            }
        }
        let mut rest = &strings[..];
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(_, length): &&(&Vec<u8>, u64)| {
                bytes += length;
                bytes <= PORTION_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(1);
            self.strings(&rest[..count], visit)?;
            rest = &rest[count..];
        }
        hashes.into_iter().try_for_each(|key| self.hash(key, visit))
    }

    fn strings(&mut self, keys: &[(&Vec<u8>, u64)], visit: Visit<'_>) -> Result<()> {
        for (key, _) in keys {
            self.ask_expiry(key);
            self.client.send(&[b"GET", key]);
        }
        self.client.flush()?;
        for (key, _) in keys {
            let expires_ms = self.expiry()?;
            match self.client.receive_value()? {
                Value::Text(value) => {
                    let entry = Entry { db: self.db, key, expires_ms, flags: 0 };
                    visit(Event::String { entry, value: &value })?;
                }
                Value::Null => visit(Event::Gone { key })?,
                // It became a hash or something else since: a change, which is reported as such.
                Value::Error(text) if text.starts_with("WRONGTYPE") => {}
                Value::Error(text) => return Err(Error::server(self.client.name(), text)),
                _ => return self.client.unexpected("GET"),
            }
        }
        Ok(())
    }

    fn ask_expiry(&mut self, key: &[u8]) {
        let name: &[u8] = if self.has_expire_time { b"PEXPIRETIME" } else { b"PTTL" };
        self.client.send(&[name, key]);
    }

    fn expiry(&mut self) -> Result<Option<u64>> {
        match self.client.receive_value()? {
            Value::Integer(number) => {
                let time = u64::try_from(number).ok();
                let now_ms = if self.has_expire_time { 0 } else { wall::unix_ms() };
                Ok(time.map(|time| now_ms.saturating_add(time)))
            }
            Value::Error(text) => Err(Error::server(self.client.name(), text)),
            _ => self.client.unexpected("PEXPIRETIME"),
        }
    }

    fn hash(&mut self, key: &[u8], visit: Visit<'_>) -> Result<()> {
        self.ask_expiry(key);
        self.client.send(&[b"HSCAN", key, b"0", b"COUNT", FIELDS]);
        self.client.flush()?;
        let expires_ms = self.expiry()?;
        let mut is_open = false;
        loop {
            let reply = self.client.receive_value()?;
            let (cursor, fields) = match reply {
                Value::Error(text) if text.starts_with("WRONGTYPE") => break,
                Value::Error(text) => return Err(Error::server(self.client.name(), text)),
                Value::List(parts) => match <[Value; 2]>::try_from(parts) {
                    Ok([Value::Text(cursor), Value::List(fields)]) => (cursor, fields),
                    _ => return self.client.unexpected("HSCAN"),
                },
                _ => return self.client.unexpected("HSCAN"),
            };
            if !is_open && !fields.is_empty() {
                visit(Event::Hash(Entry { db: self.db, key, expires_ms, flags: 0 }))?;
                is_open = true;
            }
            let expiries = self.field_expiries(key, &fields)?;
            for (index, pair) in fields.chunks(2).enumerate() {
                let [Value::Text(name), Value::Text(value)] = pair else {
                    return self.client.unexpected("HSCAN");
                };
                let expires_ms = expiries.get(index).copied().flatten();
                visit(Event::Field { name, value, expires_ms })?;
            }
            if cursor == b"0" {
                break;
            }
            self.client.send(&[b"HSCAN", key, &cursor, b"COUNT", FIELDS]);
            self.client.flush()?;
        }
        if is_open { visit(Event::EndHash) } else { visit(Event::Gone { key }) }
    }

    /// When each of the fields of a piece of a hash expires on its own; nothing where no field
    /// does.
    fn field_expiries(&mut self, key: &[u8], fields: &[Value]) -> Result<Vec<Option<u64>>> {
        if !self.has_field_expiries || fields.is_empty() {
            return Ok(Vec::new());
        }
        let names: Vec<&[u8]> = fields.iter().step_by(2).filter_map(Value::text).collect();
        let count = names.len().to_string();
        let mut args = vec![&b"HPEXPIRETIME"[..], key, b"FIELDS", count.as_bytes()];
        args.extend(&names);
        match self.client.ask(&args)? {
            Value::List(times) if times.len() == names.len() => times
                .iter()
                .map(|time| match time {
                    // Below zero: no field, or one without an expiry.
                    Value::Integer(time) => Ok(u64::try_from(*time).ok()),
                    _ => self.client.unexpected("HPEXPIRETIME"),
                })
                .collect(),
            // The key is gone or no hash any more: a change, which is reported as such.
            Value::Null => Ok(Vec::new()),
            Value::Error(text) if text.starts_with("WRONGTYPE") => Ok(Vec::new()),
            Value::Error(text) => Err(Error::server(self.client.name(), text)),
            _ => self.client.unexpected("HPEXPIRETIME"),
        }
    }
}
