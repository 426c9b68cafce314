//! Rows by SCAN, and the keys that changed meanwhile by keyspace notifications.
//!
//! ```text
//!   subscribe --> SCAN, fetch --> SCAN, fetch --> ... --> PING --> pong: all earlier are here
//!        '------ names of changed keys ------>  set  ----> fetch, until the set stays empty
//! ```
//!
//! SCAN returns every key that exists all the time. Any other was created or removed after the
//! subscription, so a notification names it. FLUSHDB, FLUSHALL and SWAPDB have no notification: the
//! counts of INFO tell whether there was one, which ends the import.

use super::fetch::Fetcher;
use super::{Plan, ROUNDS_MAX};
use crate::client::{Client, Value};
use crate::error::{Error, Result};
use crate::event::{Event, Phase, Progress, Visit};
use crate::unclear::KeySet;
use crate::url::Url;
use keyrack_measure::Clock;
use keyrack_wire::parse_u64;
use std::sync::atomic::Ordering;

const SCAN_COUNT: &[u8] = b"512";
/// Between two looks at what has changed.
const WAIT_NS: u64 = 50_000_000;

pub(super) fn read(url: &Url, plan: &Plan<'_>, visit: Visit<'_>) -> Result<()> {
    let mut fetcher = Fetcher::connect(url, plan.db)?;
    let mut changes = match plan.with_changes {
        true => Some(Changes::subscribe(url, plan.db, fetcher.client())?),
        false => None,
    };
    let total = match fetcher.client().ask(&[b"DBSIZE"])? {
        Value::Integer(count) => u64::try_from(count).ok(),
        _ => None,
    };
    let mut done = 0;
    let mut cursor = b"0".to_vec();
    loop {
        let keys = scan(fetcher.client(), &mut cursor)?;
        fetcher.fetch(&keys, visit)?;
        if let Some(changes) = &mut changes {
            changes.take_ready()?;
        }
        done += keys.len() as u64;
        let total = total.map(|total| total.max(done));
        visit(Event::Progress(Progress { phase: Phase::Keys, done, total }))?;
        if cursor == b"0" {
            break;
        }
    }
    match changes {
        Some(changes) => catch_up(changes, &mut fetcher, plan, visit),
        None => Ok(()),
    }
}

/// One step of an iteration, whose cursor it replaces.
fn scan(client: &mut Client, cursor: &mut Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let reply = client.ask(&[b"SCAN", cursor, b"COUNT", SCAN_COUNT])?;
    let Value::List(parts) = client.expect_no_error(reply)? else {
        return client.unexpected("SCAN");
    };
    let Ok([Value::Text(next), Value::List(keys)]) = <[Value; 2]>::try_from(parts) else {
        return client.unexpected("SCAN");
    };
    if parse_u64(&next).is_none() {
        return client.unexpected("SCAN");
    }
    *cursor = next;
    keys.into_iter()
        .map(|key| match key {
            Value::Text(key) => Ok(key),
            _ => client.unexpected("SCAN"),
        })
        .collect()
}

fn catch_up(
    mut changes: Changes,
    fetcher: &mut Fetcher,
    plan: &Plan<'_>,
    visit: Visit<'_>,
) -> Result<()> {
    let (mut rounds, mut done) = (0, 0);
    loop {
        let is_stopped = plan.stop.load(Ordering::Relaxed);
        changes.take_all()?;
        let keys = changes.keys.take();
        done += keys.len() as u64;
        visit(Event::ReadAgain(keys.len() as u64))?;
        fetcher.fetch(&keys, visit)?;
        visit(Event::Progress(Progress { phase: Phase::Changes, done, total: None }))?;
        rounds += 1;
        let is_done =
            if plan.follow { is_stopped } else { keys.is_empty() || rounds == ROUNDS_MAX };
        if is_done {
            return changes.check_all_named(fetcher.client());
        }
        if plan.follow && keys.is_empty() {
            changes.wait()?;
        }
    }
}

/// How often the server executed a command that changes keys without a notification, by INFO:
/// `cmdstat_flushdb:calls=2,usec=...`.
fn nameless_count(asker: &mut Client) -> Result<u64> {
    let reply = asker.ask(&[b"INFO", b"commandstats"])?;
    let text = asker.expect_no_error(reply)?;
    let text = String::from_utf8_lossy(text.text().unwrap_or_default()).into_owned();
    let calls = |line: &str| {
        let (name, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let is_nameless = ["flushdb", "flushall", "swapdb"].contains(&name);
        is_nameless.then(|| parse_u64(numbers.split(',').next()?.as_bytes())).flatten()
    };
    Ok(text.lines().filter_map(calls).fold(0, u64::saturating_add))
}

/// A connection that gets the names of changed keys.
struct Changes {
    client: Client,
    keys: KeySet,
    /// Numbers the PINGs.
    pings: u64,
    db: u32,
    /// Commands so far that change keys and name none.
    nameless: u64,
}

impl Changes {
    fn subscribe(url: &Url, db: u32, asker: &mut Client) -> Result<Self> {
        let reply = asker.ask(&[b"CONFIG", b"GET", b"notify-keyspace-events"])?;
        let setting = match &reply {
            Value::List(parts) => parts.get(1).and_then(Value::text).unwrap_or_default().to_vec(),
            Value::Error(_) => Vec::new(),
            _ => return asker.unexpected("CONFIG GET"),
        };
        let has = |letter| setting.contains(&letter);
        // A key becomes a list, a set or another type by a command of that type alone.
        if !has(b'A') || !(has(b'K') || has(b'E')) {
            let shown = setting.escape_ascii();
            return Err(Error::server(
                asker.name(),
                format!(
                    "notify-keyspace-events is '{shown}', so changes during the import would be \
                     missed; run CONFIG SET notify-keyspace-events KA there, or import with \
                     --no-changes"
                ),
            ));
        }
        let mut client = Client::connect(url)?;
        // One of the two has the key in its name, the other one as its message.
        let pattern = match has(b'K') {
            true => format!("__keyspace@{db}__:*"),
            false => format!("__keyevent@{db}__:*"),
        };
        let reply = client.ask(&[b"PSUBSCRIBE", pattern.as_bytes()])?;
        client.expect_no_error(reply)?;
        let nameless = nameless_count(asker)?;
        Ok(Changes { client, keys: KeySet::default(), pings: 0, db, nameless })
    }

    /// Ends in an error if keys changed that no notification names.
    fn check_all_named(&self, asker: &mut Client) -> Result<()> {
        if nameless_count(asker)? == self.nameless {
            return Ok(());
        }
        Err(Error::server(
            asker.name(),
            "FLUSHDB, FLUSHALL or SWAPDB was executed there during the import, and no notification \
             names the keys that it changed: import again, into an empty destination",
        ))
    }

    /// Takes what has come.
    fn take_ready(&mut self) -> Result<()> {
        let mut messages = Vec::new();
        self.client.receive_ready(&mut |message| messages.push(message))?;
        messages.iter().try_for_each(|message| self.take(message).map(drop))
    }

    /// Takes all names of keys that changed until now.
    fn take_all(&mut self) -> Result<()> {
        self.pings += 1;
        let token = self.pings.to_string();
        self.client.send(&[b"PING", token.as_bytes()]);
        self.client.flush()?;
        loop {
            let message = self.client.receive_value()?;
            if self.take(&message)?.is_some_and(|pong| pong == token.as_bytes()) {
                return Ok(());
            }
        }
    }

    /// Waits a moment for something to come.
    fn wait(&mut self) -> Result<()> {
        let clock = Clock::vdso();
        clock.wait_until(clock.ticks() + clock.ticks_of_ns(WAIT_NS));
        self.take_ready()
    }

    /// Takes a message. Returns the text of a pong.
    fn take<'m>(&mut self, message: &'m Value) -> Result<Option<&'m [u8]>> {
        let Value::List(parts) = message else { return self.client.unexpected("PSUBSCRIBE") };
        let part = |index: usize| parts.get(index).and_then(Value::text);
        match (part(0), part(1), part(2), part(3)) {
            (Some(b"pong"), Some(text), ..) => Ok(Some(text)),
            (Some(b"pmessage"), _, Some(channel), Some(text)) => {
                let prefix = format!("__keyspace@{}__:", self.db);
                let key = channel.strip_prefix(prefix.as_bytes()).unwrap_or(text);
                self.keys.insert(key)?;
                Ok(None)
            }
            _ => self.client.unexpected("PSUBSCRIBE"),
        }
    }
}
