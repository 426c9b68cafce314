//! Rows that are stored by memcached's protocol, which has flags.
//!
//! `ms` with `T`, the time of expiry in seconds since 1970, rounded up, and `F`, the flags.

use super::link::CacheLink;
use crate::error::Result;
use crate::event::Entry;
use crate::importer::OnConflict;
use crate::target::Outcome;
use crate::url::Url;
use keyrack_wire::memcached::KEY_BYTES_MAX;
use keyrack_wire::memcached::meta::{self, Code};
use keyrack_wire::memcached::text::Reply;
use std::collections::VecDeque;

/// Commands whose replies have not come.
const IN_FLIGHT_MAX: usize = 2048;
/// Bytes after which commands are sent.
const SEND_BYTES: usize = 64 << 10;

/// A server that gets strings.
pub(crate) struct Cache {
    link: CacheLink,
    only_if_absent: bool,
    in_flight: VecDeque<Vec<u8>>,
    outcomes: Vec<(Vec<u8>, Outcome)>,
}

impl Cache {
    pub(crate) fn connect(url: &Url, on_conflict: OnConflict) -> Result<Self> {
        Ok(Cache {
            link: CacheLink::connect(url)?,
            only_if_absent: on_conflict != OnConflict::Replace,
            in_flight: VecDeque::new(),
            outcomes: Vec::new(),
        })
    }

    /// Whether the protocol can have such a key.
    pub(crate) fn can_hold(&self, entry: &Entry<'_>) -> bool {
        (1..=KEY_BYTES_MAX).contains(&entry.key.len())
    }

    pub(crate) fn store(&mut self, entry: &Entry<'_>, value: &[u8]) -> Result<()> {
        let expires_s = entry.expires_ms.map_or(0, |ms| ms.div_ceil(1000));
        let mode = if self.only_if_absent { " ME" } else { "" };
        let flags = format!("T{expires_s} F{}{mode}", entry.flags);
        if !self.link.send(b's', entry.key, &flags, value) {
            let what = "memcached's protocol cannot have this key".to_owned();
            self.outcomes.push((entry.key.to_vec(), Outcome::Refused(what)));
            return Ok(());
        }
        self.in_flight.push_back(entry.key.to_vec());
        if self.link.unsent_bytes() >= SEND_BYTES || self.in_flight.len() >= IN_FLIGHT_MAX {
            self.link.flush()?;
            self.wait_until(IN_FLIGHT_MAX / 2)?;
        }
        Ok(())
    }

    /// Waits for all replies.
    pub(crate) fn drain(&mut self) -> Result<()> {
        self.link.flush()?;
        self.wait_until(0)
    }

    /// The outcomes that have come.
    pub(crate) fn take_outcomes(&mut self) -> Vec<(Vec<u8>, Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    fn wait_until(&mut self, left: usize) -> Result<()> {
        while self.in_flight.len() > left {
            let key = self.in_flight.pop_front().expect("one is in flight");
            let outcome = self.link.receive(|reply| match reply {
                Reply::Meta(meta::Reply::Head { code: Code::Hd, .. }) => Outcome::String,
                Reply::Meta(meta::Reply::Head { code: Code::Ns, .. }) => Outcome::Exists,
                Reply::ClientError(text) | Reply::ServerError(text) => {
                    Outcome::Refused(String::from_utf8_lossy(text).into_owned())
                }
                _ => Outcome::Refused("an unexpected reply".to_owned()),
            })?;
            self.outcomes.push((key, outcome));
        }
        Ok(())
    }
}
