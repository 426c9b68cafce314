//! Servers of memcached as sources: the keys by `lru_crawler metadump`, then each item.
//!
//! ```text
//!   one connection:  lru_crawler metadump all     key=a%20b exp=-1 ... size=64 | ... | END
//!   another:         mg KEY v t f                 VA 3 t-1 f0 | EN
//! ```
//!
//! Keys of the dump are encoded as in URLs. A key that a line cannot hold is asked for in base64.
//! Items that are gone when they are read (evicted, expired, removed) are counted. What is stored
//! meanwhile may be in the dump or not: a cache has no record of its changes.

mod link;
mod sink;

pub(crate) use sink::Cache;

use crate::error::{Error, Result};
use crate::event::{Entry, Event, Phase, Progress, Visit};
use crate::url::{Url, decoded};
use keyrack_measure::wall;
use keyrack_wire::memcached::meta;
use keyrack_wire::memcached::text::Reply;
use keyrack_wire::parse_i64;
use link::CacheLink;

/// Items that are asked for at once.
const BATCH: usize = 256;

/// Items of a server that were not moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missed {
    /// Items that were gone when they were read.
    pub(crate) gone: u64,
}

/// Reads all items, as rows of the database `db`.
pub(crate) fn read(url: &Url, db: u32, visit: Visit<'_>) -> Result<Missed> {
    let mut dump = CacheLink::connect(url)?;
    let mut items = CacheLink::connect(url)?;
    let total = item_count(&mut items)?;
    dump.send_line("lru_crawler metadump all");
    dump.flush()?;
    let (mut keys, mut missed, mut done) = (Vec::new(), Missed::default(), 0);
    let mut is_end = false;
    while !is_end {
        match dump.receive_line(Line::of)? {
            Line::Key(key) => keys.push(key),
            Line::Begin => {}
            Line::End => is_end = true,
            Line::Other(text) => {
                return Err(Error::server(dump.name(), format!("lru_crawler metadump: {text}")));
            }
        }
        if keys.len() >= BATCH || is_end {
            fetch(&mut items, db, &keys, &mut missed, visit)?;
            done += keys.len() as u64;
            keys.clear();
            let total = Some(total.max(done));
            visit(Event::Progress(Progress { phase: Phase::Keys, done, total }))?;
        }
    }
    Ok(missed)
}

/// A line of a dump.
enum Line {
    /// The dump begins, as newer servers say.
    Begin,
    Key(Vec<u8>),
    End,
    Other(String),
}

impl Line {
    fn of(line: &[u8]) -> Line {
        let text = String::from_utf8_lossy(line);
        match text.as_ref() {
            "END" => return Line::End,
            "OK" => return Line::Begin,
            _ => {}
        }
        match text.split(' ').next().and_then(|word| word.strip_prefix("key=")) {
            Some(key) => Line::Key(decoded(key)),
            None => Line::Other(text.into_owned()),
        }
    }
}

/// `curr_items` of `stats`.
fn item_count(link: &mut CacheLink) -> Result<u64> {
    link.send_line("stats");
    link.flush()?;
    let mut count = 0;
    loop {
        let is_end = link.receive(|reply| match reply {
            Reply::Stat { name: b"curr_items", value } => {
                count = parse_i64(value).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
                false
            }
            Reply::Stat { .. } => false,
            _ => true,
        })?;
        if is_end {
            return Ok(count);
        }
    }
}

fn fetch(
    link: &mut CacheLink,
    db: u32,
    keys: &[Vec<u8>],
    missed: &mut Missed,
    visit: Visit<'_>,
) -> Result<()> {
    for key in keys {
        if !link.send(b'g', key, "v t f", b"") {
            let shown = key.escape_ascii();
            return Err(Error::server(link.name(), format!("the key {shown} cannot be asked for")));
        }
    }
    link.flush()?;
    let name = link.name().to_owned();
    for key in keys {
        let now_ms = wall::unix_ms();
        let outcome = link.receive(|reply| match reply {
            Reply::Meta(meta::Reply::Value { flags, value }) => {
                let ttl_s = flags.token(b't').and_then(parse_i64).unwrap_or(-1);
                let expires_ms = u64::try_from(ttl_s)
                    .ok()
                    .map(|seconds| now_ms.saturating_add(seconds.max(1).saturating_mul(1000)));
                let number = flags.number(b'f').and_then(|flags| u32::try_from(flags).ok());
                let entry = Entry { db, key, expires_ms, flags: number.unwrap_or(0) };
                visit(Event::String { entry, value })
            }
            Reply::Meta(meta::Reply::Head { .. }) => {
                missed.gone += 1;
                Ok(())
            }
            Reply::Error => Err(Error::server(&name, "needs meta commands (memcached 1.6)")),
            _ => Err(Error::server(&name, "an unexpected reply to mg")),
        })?;
        outcome?;
    }
    Ok(())
}
