//! Whether a server can take part in what several do to a name: it looks, and then holds the names,
//! so that its answer stays true. Nothing of the name space changes.

use super::record::{Held, Order, Side, Step, record};
use super::table::{Locked, write_record};
use crate::caller::{Caller, Found};
use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::namespace::{Dir, Namespace};
use crate::record::Entry;
use crate::rpc::codec::What;
use crate::rpc::server::core::{Core, Executed, Refusal, Work};
use crate::rpc::server::parts::{Access, Detour};
use crate::user::{PASS, WRITE};

impl Core {
    /// Looks whether this server can do its part; if so it holds the names from here on, and the
    /// record is written. The coordinator gets the entry into its order.
    pub(crate) fn prepare(
        &self,
        space: &Namespace,
        number: u128,
        (step, coordinator): (Step, u32),
        order: &mut Order,
    ) -> Executed {
        if self.renames.held().contains_key(&number) {
            return Ok(());
        }
        let inner = &space.inner;
        let caller = space.by(&order.user);
        let stale = |name: &[u8]| Refusal::from(Error::Stale(shown(name)));
        let open = |dir: DirId, name: &[u8]| -> Executed<Dir> {
            let state = inner.dirs.get(&inner.layers, dir)?.ok_or_else(|| stale(name))?;
            Ok(Dir { state })
        };
        if step == Step::Begun {
            let from = open(order.from, &order.name)?;
            let part = self.parts.get(space, order.from)?;
            let state = part.read();
            let detour = state.admit(order.from, &order.name, Access::Write);
            // What is here of a name that moves may be old: the other server may have it already.
            if let Some(later @ Detour::Later(_)) = detour {
                return Err(Refusal::detour(order.from, later));
            }
            (order.to, order.entry) = match order.what {
                What::Mkdir => caller.dir_to_make(&from, &order.name, order.target)?,
                What::Rmdir => (order.to, self.entry_of(&caller, &from, &order.name)?),
                What::Rename | What::Replace => {
                    let entry = self.entry_of(&caller, &from, &order.name);
                    // The file of a name that is not here may have gone to another server.
                    let or_elsewhere = |refusal| match detour {
                        Some(detour) => Refusal::detour(order.from, detour),
                        None => refusal,
                    };
                    (order.to, entry.map_err(or_elsewhere)?)
                }
            };
            match (order.what, Entry::decode(&order.entry)) {
                (What::Rmdir, Some(Entry::Dir(child))) => order.to = child,
                (What::Rmdir, _) => return Err(Error::NotDir(shown(&order.name)).into()),
                _ => {}
            }
        }
        let side = match (order.is_dir(), step) {
            (true, _) => Side::Both,
            (false, Step::Prepared) => Side::Target,
            (false, _) => Side::Source,
        };
        let replaced_now = || -> Result<Option<DirId>> {
            let (dir, name) = order.goes();
            match caller.lookup(dir, name)? {
                Some(Found::Dir(id)) if side == Side::Both && order.what != What::Mkdir => {
                    Ok(Some(id))
                }
                _ => Ok(None),
            }
        };
        let replaced = replaced_now()?;
        let dirs: Vec<DirId> =
            order.names(side).iter().map(|name| name.0).chain(replaced).collect();
        let parts = self.parts_of(space, &dirs)?;
        let mut locked = Locked::new(&parts);
        if replaced_now()? != replaced {
            return Err(Refusal::new("EAGAIN", "the new name changed meanwhile: ask again"));
        }
        for (dir, name) in order.names(side) {
            match locked.of(dir).admit(dir, name, Access::Write) {
                // Whoever has a directory's name, all take part.
                Some(Detour::Elsewhere(_)) if side == Side::Both => {}
                Some(detour) => return Err(Refusal::detour(dir, detour)),
                None => {}
            }
        }
        if let Some(replaced) = replaced {
            let state = locked.of(replaced);
            // What is here of a part that moves may be old, too, and is no entry then.
            if !state.pins.is_empty() || state.closed.is_some() || state.is_sealed {
                let words = "something comes into the directory, or leaves it: ask again";
                return Err(Refusal::new("EAGAIN", words));
            }
        }
        match side {
            Side::Both if order.what == What::Mkdir => {
                let from = open(order.from, &order.name)?;
                caller.may_make_as(&from, &order.name, order.to)?;
            }
            Side::Both if order.what == What::Rmdir => {
                let from = open(order.from, &order.name)?;
                match replaced {
                    Some(here) if here == order.to => {
                        caller.rmdir_or_check(&from, &order.name, true)?;
                    }
                    // It is gone here already.
                    None if step == Step::Prepared => {}
                    _ => return Err(stale(&order.name)),
                }
            }
            Side::Source => {
                let from = open(order.from, &order.name)?;
                self.may_leave(&caller, &from, &order.name)?;
            }
            Side::Target => {
                let to = open(order.to, &order.to_name)?;
                if order.to_name != order.name {
                    inner.room.check_length(&order.to_name)?;
                }
                self.may_come(&caller, &to, &order.to_name, order.what == What::Replace)?;
            }
            Side::Both => {
                let (from, to) = (open(order.from, &order.name)?, open(order.to, &order.to_name)?);
                let found = caller.lookup(order.from, &order.name)?;
                let is_same = match (found, Entry::decode(&order.entry)) {
                    (Some(Found::Dir(here)), Some(Entry::Dir(there))) => here == there,
                    _ => false,
                };
                if !is_same {
                    return Err(stale(&order.name));
                }
                let how = (order.if_taken(), true);
                caller.rename_or_check(&from, &order.name, &to, &order.to_name, how)?;
            }
        }
        let changed = order.changed(replaced);
        for (taken, dir) in changed.iter().enumerate() {
            if let Err(refusal) = self.take_back(*dir, None) {
                changed[..taken].iter().for_each(|dir| self.leases.changed(*dir));
                return Err(refusal);
            }
        }
        // The coordinator begins nothing that others would have to know of after a power loss.
        let lasts = order.moves() && step == Step::Prepared;
        let written = write_record(space, number, &record(step, coordinator, order), lasts);
        if let Err(error) = written {
            changed.iter().for_each(|dir| self.leases.changed(*dir));
            return Err(error.into());
        }
        self.hold(&mut locked, number, order, (side, replaced));
        drop(locked);
        let order = order.clone();
        let held = Held { step, coordinator, order, replaced, turns: 0, is_doubtful: false };
        self.renames.held().insert(number, held);
        if step == Step::Prepared {
            self.tell(Work::Ask(number));
        }
        Ok(())
    }

    /// The record of what is to be renamed.
    fn entry_of(&self, caller: &Caller<'_>, from: &Dir, name: &[u8]) -> Executed<Vec<u8>> {
        crate::check_name(name)?;
        caller.check(&from.state.read(), PASS, name)?;
        let now_ns = caller.inner.time.now_ns();
        let entry =
            caller.inner.layers.find(from.state.id, name, |entry| entry.at(now_ns).encode())?;
        let entry =
            entry.filter(|entry| Entry::decode(entry).is_some_and(|e| e != Entry::Whiteout));
        entry.ok_or_else(|| Refusal::from(Error::NotFound(shown(name))))
    }

    fn may_leave(&self, caller: &Caller<'_>, from: &Dir, name: &[u8]) -> Executed {
        let info = from.state.read();
        caller.check(&info, WRITE | PASS, name)?;
        match caller.lookup(from.state.id, name)? {
            Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
            // It was something else a moment ago.
            _ => Err(Refusal::from(Error::NotFound(shown(name)))),
        }
    }

    fn may_come(&self, caller: &Caller<'_>, to: &Dir, name: &[u8], replace: bool) -> Executed {
        crate::check_name(name)?;
        let info = to.state.read();
        caller.check(&info, WRITE | PASS, name)?;
        match caller.lookup(to.state.id, name)? {
            None => Ok(caller.inner.room.check_room(name)?),
            Some(_) if !replace => Err(Refusal::from(Error::Exists(shown(name)))),
            Some(Found::Dir(_)) => Err(Refusal::from(Error::IsDir(shown(name)))),
            Some(Found::Other(stat)) => Ok(caller.check_sticky(&info, stat.uid, name)?),
        }
    }
}
