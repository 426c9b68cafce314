//! Requests that make files and links.

use super::context::{Context, admitted};
use crate::caller::Caller;
use crate::inner::Dir;
use crate::make::IfExists;
use crate::rpc::codec::{How, Reply};
use crate::rpc::errno::code_of;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::parts::Access;

impl Context<'_> {
    pub(crate) fn create(&mut self, (dir, name): (u32, &[u8]), mode: u32, how: How) -> RpcResult {
        let at = self.at(dir)?;
        let admitted = admitted(at, name, Access::Write)?;
        let (is_new, inode) = create(&self.caller, &at.dir, name, mode, how)?;
        drop(admitted);
        self.made(at, usize::from(is_new));
        self.reply(&Reply::Made { is_new, inode })
    }

    /// Makes files, and answers with a code for each name.
    pub(crate) fn create_many(
        &mut self,
        (dir, names): (u32, &[&[u8]]),
        mode: u32,
        how: How,
    ) -> RpcResult {
        let at = self.at(dir)?;
        let state = at.part.read();
        let mut made = 0;
        let codes: Vec<u8> = names
            .iter()
            .map(|name| match state.admit(at.part.dir, name, Access::Write) {
                Some(redirect) => RpcError::redirect(at.part.dir, redirect).code,
                None => match create(&self.caller, &at.dir, name, mode, how) {
                    Ok((is_new, _)) => {
                        made += usize::from(is_new);
                        0
                    }
                    Err(error) => code_of(error.errno()),
                },
            })
            .collect();
        drop(state);
        self.made(at, made);
        self.reply(&Reply::Codes(&codes))
    }

    pub(crate) fn create_with(
        &mut self,
        (dir, name): (u32, &[u8]),
        mode: u32,
        data: &[u8],
    ) -> RpcResult {
        let at = self.at(dir)?;
        let admitted = admitted(at, name, Access::Write)?;
        let made = self.caller.create_with_at(&at.dir, name, mode, data)?;
        drop(admitted);
        self.made(at, usize::from(made.is_new));
        let inode = made.stat.inode.to_u128();
        self.reply(&Reply::Made { is_new: made.is_new, inode })
    }

    pub(crate) fn symlink(&mut self, (dir, name): (u32, &[u8]), target: &[u8]) -> RpcResult {
        let at = self.at(dir)?;
        let admitted = admitted(at, name, Access::Write)?;
        let stat = self.caller.symlink_at(target, &at.dir, name)?;
        drop(admitted);
        self.made(at, 1);
        self.reply(&Reply::Facts(stat))
    }

    /// Takes tables of new files in.
    pub(crate) fn bulk_in(&mut self, dir: u32, entries: u64, paths: &[&[u8]]) -> RpcResult {
        let at = self.at(dir)?;
        let state = at.part.read();
        let mut redirect = None;
        let is_here = &mut |name: &[u8]| {
            redirect = state.admit(at.part.dir, name, Access::Write);
            redirect.is_none()
        };
        let made = self.caller.bulk_in(&at.dir, entries, paths, is_here);
        if let Some(redirect) = redirect {
            return Err(RpcError::redirect(at.part.dir, redirect));
        }
        let count = made?;
        drop(state);
        self.made(at, usize::try_from(count).unwrap_or(usize::MAX));
        self.reply(&Reply::Count(count))
    }
}

/// Makes a file. Returns whether it is new, and its number.
fn create(
    caller: &Caller<'_>,
    dir: &Dir,
    name: &[u8],
    mode: u32,
    how: How,
) -> crate::error::Result<(bool, u128)> {
    let if_exists = match how {
        How::Unchecked => {
            return caller.create_unchecked_at(dir, name, mode).map(|()| (true, 0));
        }
        How::Open => IfExists::Open,
        How::Fail => IfExists::Fail,
    };
    let made = caller.create_at(dir, name, mode, if_exists)?;
    Ok((made.is_new, made.stat.inode.to_u128()))
}
