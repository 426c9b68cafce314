//! The coordinator's side of renames, in the thread that works with other servers: see `renames`.

use super::record::{Order, Step, prepare_of};
use crate::error::Result;
use crate::rpc::codec::{Peer, Reply};
use crate::rpc::error::{Error as CallError, Result as CallResult};
use crate::rpc::server::background::{Backstage, Next};
use crate::rpc::server::core::{Executed, Refusal, Work};
use crate::rpc::server::split::each_chunk;
use std::sync::Arc;

/// How often a rename is tried whose names are in use, every 20 ms.
const TRIES_MAX: u32 = 250;
/// How long a prepared rename is waited for before its coordinator is asked, in such turns.
const PATIENCE_TURNS: u32 = 25;

impl Backstage {
    /// Renames something, from the beginning.
    pub(crate) fn rename(&mut self, errand: u64, order: &Order, tries: u32) -> Result<Next> {
        let core = Arc::clone(&self.core);
        let outcome = self.renamed(order);
        match outcome {
            Err(refusal) if refusal.is_later() && tries < TRIES_MAX => {
                self.later(Work::Rename(errand, order.clone(), tries + 1));
            }
            outcome => core.renames.end(errand, outcome),
        }
        Ok(Next::Done)
    }

    fn renamed(&mut self, order: &Order) -> Executed {
        let core = Arc::clone(&self.core);
        let space = core.space();
        let me = core.parts.server;
        let number = space.inner.number().to_u128();
        let mut order = order.clone();
        core.prepare(space, number, (Step::Begun, me), &mut order)?;
        for server in self.others(&order) {
            let prepared = self
                .ask(server, prepare_of(number, me, &order), |_| ())
                .and_then(|()| self.send_large(server, number, &order));
            if let Err(error) = prepared {
                self.end(number);
                return Err(Refusal::of_peer(&error));
            }
        }
        let decided = core.decide(space, number);
        self.end(number);
        Ok(decided?)
    }

    /// Settles a rename of ours; what cannot be done now is done later. It is under way in any
    /// case, so this is no matter of who asked for it.
    fn end(&mut self, number: u128) {
        let next = self.settle(number);
        self.note(next, Work::Settle(number));
    }

    /// Sends the bytes of a large file that gets a name of another server.
    fn send_large(&mut self, server: usize, number: u128, order: &Order) -> CallResult<()> {
        let core = Arc::clone(&self.core);
        let sent = each_chunk(&core, &order.entry, &mut |_, offset, data| {
            self.ask(server, Peer::RenameContents { number, offset, data }, |_| ())
        });
        sent.map_err(CallError::from_store)?
    }

    /// Who takes part beside this server.
    fn others(&self, order: &Order) -> Vec<usize> {
        let parts = &self.core.parts;
        let all = 0..parts.placement.servers() as usize;
        let is_part = |server: &usize| order.is_dir() || *server == order.target as usize;
        all.filter(|server| *server != parts.server as usize && is_part(server)).collect()
    }

    /// Tells the others what became of a rename of ours, until all know.
    pub(crate) fn settle(&mut self, number: u128) -> Result<Next> {
        let core = Arc::clone(&self.core);
        let Some(space) = &core.space else { return Ok(Next::Done) };
        let Some(held) = core.renames.held().get(&number).cloned() else { return Ok(Next::Done) };
        let commits = held.step == Step::Decided;
        if commits {
            core.settle(space, number, true)?;
        } else if held.is_doubtful {
            core.undecide(space, number)?;
        }
        let mut is_told = true;
        for server in self.others(&held.order) {
            is_told &= self.ask(server, Peer::Settle { number, commits }, |_| ()).is_ok();
        }
        if !is_told {
            return Ok(Next::Later);
        }
        match commits {
            true => core.forget(space, number)?,
            false => core.settle(space, number, false)?,
        }
        Ok(Next::Done)
    }

    /// A rename of another was prepared here some time ago: what became of it?
    pub(crate) fn inquire(&mut self, number: u128) -> Result<Next> {
        let core = Arc::clone(&self.core);
        let Some(space) = &core.space else { return Ok(Next::Done) };
        let coordinator = {
            let mut all = core.renames.held();
            let Some(held) = all.get_mut(&number) else { return Ok(Next::Done) };
            held.turns += 1;
            if held.turns < PATIENCE_TURNS {
                return Ok(Next::Later);
            }
            held.coordinator as usize
        };
        let asked = self.ask(coordinator, Peer::Outcome { number }, |reply| match reply {
            Reply::Count(count) => count,
            _ => 1,
        });
        match asked {
            Ok(0) => core.settle(space, number, false)?,
            Ok(2) => core.settle(space, number, true)?,
            _ => return Ok(Next::Later),
        }
        Ok(Next::Done)
    }
}
