//! Carries requests out on a name space.

use super::codec::{
    FRAME_BYTES_MAX, Facts, HOW_OPEN, HOW_UNCHECKED, Reply, Request, SetFields, kind_code,
};
use super::error::code_of;
use super::replica::Original;
use super::session::Session;
use crate::attributes::{SetAttributes, SetTime};
use crate::caller::Caller;
use crate::error::{Error, Result, shown};
use crate::make::IfExists;
use crate::namespace::{Dir, Namespace};
use crate::record::INLINE_BYTES_MAX;
use crate::rename::IfTaken;

/// Entries of a page, at most: with their facts they fit a frame.
const PAGE_ENTRIES_MAX: u32 = 2048;
/// Above this nothing is added to a page.
const PAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - 1024;

/// What a request came to: the fields of a reply, or an error number with words.
pub(super) type Executed = std::result::Result<(), (&'static str, String)>;

/// Carries one request out and appends the fields of its reply.
pub(super) fn execute(
    space: &Namespace,
    session: &mut Session,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Executed {
    match request {
        // Directories are kept by the session, which the calls of the others only read.
        Request::OpenDir { path } => {
            let dir = space.by(&session.user).dir(path).map_err(refused)?;
            give_out(session, dir, out)
        }
        Request::Mkdir { dir, name, mode } => {
            let parent = dir_of(session, *dir)?;
            let made = space.by(&session.user).mkdir_at(parent, name, *mode).map_err(refused)?;
            give_out(session, made, out)
        }
        Request::MkdirAs { dir, name, mode, uid, gid, inode } => {
            let original = Original { mode: *mode, uid: *uid, gid: *gid, inode: *inode };
            let parent = dir_of(session, *dir)?;
            let made =
                space.by(&session.user).mkdir_as(parent, name, &original).map_err(refused)?;
            give_out(session, made, out)
        }
        Request::CloseDir { dir } => match session.close(*dir) {
            true => Ok(()),
            false => Err(not_open(*dir)),
        },
        _ => {
            let call = Call { caller: space.by(&session.user), session };
            call.run(space, request, out)
        }
    }
}

fn refused(error: Error) -> (&'static str, String) {
    (error.errno(), error.to_string())
}

fn not_open(dir: u32) -> (&'static str, String) {
    ("ESTALE", format!("directory {dir} is not open here: open it again"))
}

fn dir_of(session: &Session, dir: u32) -> std::result::Result<&Dir, (&'static str, String)> {
    session.dir(dir).ok_or_else(|| not_open(dir))
}

fn give_out(session: &mut Session, dir: Dir, out: &mut Vec<u8>) -> Executed {
    let inode = dir.inode().to_u128();
    let Some(number) = session.open(dir) else {
        return Err(("EMFILE", "too many directories are open: close some".to_owned()));
    };
    Reply::Dir { dir: number, inode }.fields(out);
    Ok(())
}

struct Call<'a> {
    caller: Caller<'a>,
    session: &'a Session,
}

impl Call<'_> {
    fn run(&self, space: &Namespace, request: &Request<'_>, out: &mut Vec<u8>) -> Executed {
        let caller = &self.caller;
        let dir = |number: &u32| dir_of(self.session, *number);
        match request {
            Request::Create { dir: at, name, mode, how } => {
                let (is_new, inode) =
                    create(caller, dir(at)?, name, *mode, *how).map_err(refused)?;
                Reply::Made { is_new, inode }.fields(out);
            }
            Request::CreateMany { dir: at, mode, how, names } => {
                let at = dir(at)?;
                let codes: Vec<u8> = names
                    .iter()
                    .map(|name| match create(caller, at, name, *mode, *how) {
                        Ok(_) => 0,
                        Err(error) => code_of(error.errno()),
                    })
                    .collect();
                Reply::Codes(&codes).fields(out);
            }
            Request::CreateWith { dir: at, name, mode, data } => {
                let made = caller.create_with_at(dir(at)?, name, *mode, data).map_err(refused)?;
                let inode = made.stat.inode.to_u128();
                Reply::Made { is_new: made.is_new, inode }.fields(out);
            }
            Request::Lookup { dir: at, name } | Request::Stat { dir: at, name } => {
                let stat = match name.is_empty() {
                    true => caller.stat_dir(dir(at)?),
                    false => caller.stat_at(dir(at)?, name),
                };
                Reply::Facts(Facts(stat.map_err(refused)?)).fields(out);
            }
            Request::StatDir { dir: at } => {
                Reply::Facts(Facts(caller.stat_dir(dir(at)?).map_err(refused)?)).fields(out);
            }
            Request::SetAttributes { dir: at, name, set } => {
                let set = attributes(set);
                let stat = match name.is_empty() {
                    true => caller.set_dir_attributes(dir(at)?, &set),
                    false => caller.set_attributes_at(dir(at)?, name, &set),
                };
                Reply::Facts(Facts(stat.map_err(refused)?)).fields(out);
            }
            Request::ReadDir { dir: at, after, count, plus } => {
                page(caller, dir(at)?, after, *count, *plus, out).map_err(refused)?;
            }
            Request::Unlink { dir: at, name } => {
                caller.unlink_at(dir(at)?, name).map_err(refused)?;
            }
            Request::Rmdir { dir: at, name } => {
                caller.rmdir_at(dir(at)?, name).map_err(refused)?;
            }
            Request::Rename { dir: at, name, to_dir, to_name, replace } => {
                let if_taken = if *replace { IfTaken::Replace } else { IfTaken::Fail };
                let to = dir(to_dir)?;
                caller.rename_at(dir(at)?, name, to, to_name, if_taken).map_err(refused)?;
            }
            Request::Symlink { dir: at, name, target } => {
                let stat = caller.symlink_at(target, dir(at)?, name).map_err(refused)?;
                Reply::Facts(Facts(stat)).fields(out);
            }
            Request::ReadLink { dir: at, name } => {
                let target = caller.read_link_at(dir(at)?, name).map_err(refused)?;
                Reply::Data(&target).fields(out);
            }
            Request::Read { dir: at, name, offset, count } => {
                let count = (*count as usize).min(INLINE_BYTES_MAX);
                let data = caller.read_at(dir(at)?, name, *offset, count).map_err(refused)?;
                Reply::Data(&data).fields(out);
            }
            Request::Write { dir: at, name, offset, data } => {
                let stat = caller.write_at(dir(at)?, name, *offset, data).map_err(refused)?;
                Reply::Facts(Facts(stat)).fields(out);
            }
            Request::BulkIn { dir: at, entries, paths } => {
                let count = caller.bulk_in(dir(at)?, *entries, paths).map_err(refused)?;
                Reply::Count(count).fields(out);
            }
            Request::Flush => space.flush().map_err(refused)?,
            Request::Ping => {}
            // Those above have their own ways.
            Request::Hello { .. }
            | Request::Map
            | Request::OpenDir { .. }
            | Request::CloseDir { .. }
            | Request::Mkdir { .. }
            | Request::MkdirAs { .. } => return Err(("EPROTO", "out of place".to_owned())),
        }
        Ok(())
    }
}

fn create(caller: &Caller<'_>, dir: &Dir, name: &[u8], mode: u32, how: u8) -> Result<(bool, u128)> {
    if how == HOW_UNCHECKED {
        return caller.create_unchecked_at(dir, name, mode).map(|()| (true, 0));
    }
    let if_exists = if how == HOW_OPEN { IfExists::Open } else { IfExists::Fail };
    let made = caller.create_at(dir, name, mode, if_exists)?;
    Ok((made.is_new, made.stat.inode.to_u128()))
}

fn attributes(set: &SetFields) -> SetAttributes {
    SetAttributes {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        mtime: set.mtime_ns.map(SetTime::Ns),
    }
}

fn page(
    caller: &Caller<'_>,
    dir: &Dir,
    after: &[u8],
    count: u32,
    plus: bool,
    out: &mut Vec<u8>,
) -> Result<()> {
    let count = count.clamp(1, PAGE_ENTRIES_MAX) as usize;
    let after = (!after.is_empty()).then_some(after);
    let page = match plus {
        true => caller.list_plus_at(dir, after, count)?,
        false => caller.list_at(dir, after, count)?,
    };
    let mut bytes = 0;
    let mut entries = Vec::with_capacity(page.entries.len());
    let mut next = page.next.as_deref();
    for entry in &page.entries {
        // The longest that an entry can be: its name, its kind, its facts.
        bytes += entry.name.len() + 80;
        if bytes > PAGE_BYTES_MAX {
            let last = entries.last().map(|(name, _, _): &(&[u8], u8, Option<Facts>)| *name);
            next = Some(last.ok_or_else(|| {
                Error::Invalid(format!("'{}': no page has room for it", shown(&entry.name)))
            })?);
            break;
        }
        entries.push((&entry.name[..], kind_code(entry.kind), entry.stat.map(Facts)));
    }
    Reply::Page { entries, next }.fields(out);
    Ok(())
}
