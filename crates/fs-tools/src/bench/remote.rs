//! A phase of the benchmark against servers: a window of calls, sent in bursts.
//!
//! A directory splits while files are made in it. Names that have gone to another server meanwhile
//! are sent there, and those that are on their way are sent again; an operation ends with its
//! answer, and its latency has all of that in it.

use super::counter::{Counter, Measured};
use super::local::FILE_MODE;
use super::names::Name;
use super::plan::{Clients, Phase};
use crate::job::in_words;
use keyrack_deltafs::partition::SplitMap;
use keyrack_deltafs::rpc::{Answer, DirNumber, Error, Reply, Request, Tree};
use std::time::Duration;

/// Before names that are on their way are sent again.
const PAUSE: Duration = Duration::from_millis(1);

/// A phase.
pub(super) struct Remote<'a> {
    plan: &'a Clients,
    phase: Phase,
    tree: &'a mut Tree,
    dir: DirNumber,
    counter: Counter<'a>,
    batch: usize,
    /// Names of batches that are not full, for each server.
    behind: Vec<Vec<Name>>,
    /// What each call under way is for, by ticket.
    tickets: Vec<Sent>,
    in_flight: usize,
    /// Names to be sent again, and since when they are under way.
    again: Vec<(Name, u64)>,
    /// Nothing is sent until all answers are here, and then the servers are asked.
    is_stalled: bool,
}

/// A call under way.
struct Sent {
    began: u64,
    names: Names,
}

enum Names {
    One(Name),
    Many(Vec<Name>),
}

/// What the answers of a turn say.
#[derive(Default)]
struct News {
    maps: Vec<(u128, SplitMap)>,
    again: Vec<(Name, u64)>,
}

impl<'a> Remote<'a> {
    pub(super) fn new(
        plan: &'a Clients,
        phase: Phase,
        tree: &'a mut Tree,
        path: &[u8],
        counter: Counter<'a>,
    ) -> Result<Remote<'a>, String> {
        let is_batched = phase == Phase::Insert;
        let batch = plan.batch.filter(|_| is_batched).unwrap_or(1).max(1);
        let dir = tree.open(path).map_err(in_words)?;
        let servers = tree.client().servers();
        let behind = vec![Vec::new(); servers];
        let (tickets, again) = (Vec::new(), Vec::new());
        let (in_flight, is_stalled) = (0, false);
        Ok(Remote {
            plan,
            phase,
            tree,
            dir,
            counter,
            batch,
            behind,
            tickets,
            in_flight,
            again,
            is_stalled,
        })
    }

    pub(super) fn run(mut self, names: &[Name]) -> Result<Measured, String> {
        let mut next = 0;
        let servers = self.tree.client().servers();
        loop {
            while self.in_flight < self.plan.depth && !self.is_stalled {
                if let Some((name, began)) = self.again.pop() {
                    self.send(name, began)?;
                } else if next < names.len() {
                    let name = names[next];
                    next += 1;
                    let now = self.counter.clock.ticks();
                    self.send(name, now)?;
                    if self.phase == Phase::Insert {
                        self.plan.write_data(&name).map_err(in_words)?;
                    }
                } else {
                    break;
                }
            }
            if next == names.len() && self.again.is_empty() && !self.is_stalled {
                for server in 0..servers {
                    self.send_behind(server)?;
                }
            }
            if self.in_flight == 0 && self.again.is_empty() {
                return Ok(self.counter.end());
            }
            for server in 0..servers {
                self.tree.client().flush(server).map_err(in_words)?;
            }
            if self.is_stalled {
                self.receive(0)?;
                self.tree.client().pause(PAUSE);
                self.tree.learn_all(self.dir).map_err(in_words)?;
                self.is_stalled = false;
                continue;
            }
            // Half a window goes out again at once, so that neither side waits for each call.
            let keep = if next < names.len() { self.plan.depth / 2 } else { 0 };
            self.receive(keep)?;
        }
    }

    fn send(&mut self, name: Name, began: u64) -> Result<(), String> {
        let (server, at) = self.tree.locate(self.dir, &name).map_err(in_words)?;
        if self.batch > 1 {
            self.behind[server].push(name);
            if self.behind[server].len() >= self.batch {
                self.send_behind(server)?;
            }
            return Ok(());
        }
        let request = match self.phase {
            Phase::Insert => Tree::create_request(at, &name, FILE_MODE, self.plan.is_checked),
            Phase::Stat => Request::Stat { dir: at, name: &name },
        };
        let ticket = self.tickets.len() as u64;
        self.tickets.push(Sent { began, names: Names::One(name) });
        self.tree.client().submit(server, &request, ticket).map_err(in_words)?;
        self.in_flight += 1;
        Ok(())
    }

    fn send_behind(&mut self, server: usize) -> Result<(), String> {
        let all = std::mem::take(&mut self.behind[server]);
        if all.is_empty() {
            return Ok(());
        }
        // They may have gone elsewhere since they were put here; the server says so.
        let at = self.tree.number_at(self.dir, server).map_err(in_words)?;
        let list: Vec<&[u8]> = all.iter().map(|name| &name[..]).collect();
        let is_checked = self.plan.is_checked;
        let request = Tree::create_many_request(at, list, FILE_MODE, is_checked);
        let ticket = self.tickets.len() as u64;
        self.tree.client().submit(server, &request, ticket).map_err(in_words)?;
        let began = self.counter.clock.ticks();
        self.tickets.push(Sent { began, names: Names::Many(all) });
        self.in_flight += 1;
        Ok(())
    }

    /// Takes answers until no more than `keep` calls are under way.
    fn receive(&mut self, keep: usize) -> Result<(), String> {
        let servers = self.tree.client().servers();
        let mut turn = 0;
        while self.in_flight > keep {
            turn = (turn + 1) % servers;
            if self.tree.client().in_flight(turn) == 0 {
                continue;
            }
            let mut news = News::default();
            let mut refused = None;
            let Remote { tree, counter, tickets, in_flight, .. } = &mut *self;
            let visit = &mut |answer: Answer<'_>| {
                *in_flight -= 1;
                let sent = &mut tickets[answer.ticket as usize];
                if let Err(why) = record(counter, answer, sent, &mut news) {
                    refused.get_or_insert(why);
                }
            };
            tree.client().drain(turn, visit).map_err(in_words)?;
            if let Some(why) = refused {
                return Err(why);
            }
            self.take_in(news)?;
        }
        Ok(())
    }

    fn take_in(&mut self, news: News) -> Result<(), String> {
        if news.again.is_empty() {
            return Ok(());
        }
        let mut is_new = false;
        for (inode, map) in &news.maps {
            is_new |= self.tree.learn(*inode, map);
        }
        // Without news the same answer would come again at once.
        self.is_stalled |= !is_new;
        self.again.extend(news.again);
        Ok(())
    }
}

/// Files an answer: of one call, or of a batch name by name.
fn record(
    counter: &mut Counter<'_>,
    answer: Answer<'_>,
    sent: &mut Sent,
    news: &mut News,
) -> Result<(), String> {
    let began = sent.began;
    let ticks = counter.clock.ticks().saturating_sub(began);
    match (answer.reply(), &mut sent.names) {
        (Ok(Reply::Codes(codes)), Names::Many(names)) => {
            let (mut good, mut bad) = (0, None);
            for (code, name) in codes.iter().zip(std::mem::take(names)) {
                match Error::errno_of(*code) {
                    "OK" => good += 1,
                    "EREMOTE" | "EAGAIN" => news.again.push((name, began)),
                    errno => bad = Some(errno),
                }
            }
            counter.ok(ticks, good);
            match bad {
                Some(errno) => counter.failed(format!("names of a batch failed: {errno}")),
                None => Ok(()),
            }
        }
        (Ok(_), _) => {
            counter.ok(ticks, 1);
            Ok(())
        }
        (Err(Error::Elsewhere { dir, map }), Names::One(name)) => {
            news.maps.push((dir, map));
            news.again.push((*name, began));
            Ok(())
        }
        (Err(Error::Refused { errno: "EAGAIN", .. }), Names::One(name)) => {
            news.again.push((*name, began));
            Ok(())
        }
        (Err(error), _) => counter.failed(error.to_string()),
    }
}
