//! A directory that another server has made: the same number here.
//!
//! With several servers each has all directories, and a share of the files. The first server says
//! under which number one is made, and all make it so.

use crate::caller::{Caller, Found};
use crate::dirs::{DirInfo, DirState};
use crate::error::{Error, Result, shown};
use crate::id::{DirId, Inode};
use crate::inner::Dir;
use crate::name::check_name;
use crate::record::{DirNode, Entry, Key, MODE_BITS};
use crate::remove::LockedDirs;
use crate::user::{PASS, WRITE};
use keyrack_flodb::{Batch, WriteOptions};
use std::sync::Arc;

/// What a directory has on the server that made it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Original {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) inode: u128,
}

impl Caller<'_> {
    /// Makes a directory with the number that it has elsewhere. Making it twice changes nothing.
    pub(crate) fn mkdir_as(&self, dir: &Dir, name: &[u8], original: &Original) -> Result<Dir> {
        check_name(name)?;
        let inner = self.inner;
        if Inode(original.inode).is_file() || original.inode < 2 {
            return Err(Error::Invalid(format!(
                "'{}': not the number of a directory",
                shown(name)
            )));
        }
        if !self.user.owns(original.uid) {
            return Err(Error::NotOwner(shown(name)));
        }
        let id = DirId(original.inode);
        // One that was removed a moment ago may be held by somebody: it comes to life again.
        let Some(state) = inner.dirs.peek(id) else {
            let mut info = dir.state.write();
            let Some(made) = self.repeat_in(dir, &mut info, name, original)? else {
                drop(info);
                return inner.dir(id);
            };
            let state = Arc::new(DirState::new(id, made, inner.time.now_ns()));
            inner.dirs.add(&inner.layers, &state)?;
            inner.names.insert(dir.state.id, name, id);
            return Ok(Dir { state });
        };
        let old = Dir { state };
        if old.state.id == dir.state.id {
            return Err(Error::Invalid(format!("'{}': a directory is not in itself", shown(name))));
        }
        let mut locked = LockedDirs::new([dir, &old]);
        let [mut info, mut child] = locked.guards();
        if let Some(made) = self.repeat_in(dir, &mut info, name, original)? {
            *child = made;
            old.state.touch_and_store(inner.time.now_ns());
            inner.names.insert(dir.state.id, name, id);
        }
        drop((info, child));
        Ok(Dir { state: Arc::clone(&old.state) })
    }

    /// Writes the records. `None` if the directory is there already.
    fn repeat_in(
        &self,
        dir: &Dir,
        info: &mut DirInfo,
        name: &[u8],
        original: &Original,
    ) -> Result<Option<DirInfo>> {
        let inner = self.inner;
        let id = DirId(original.inode);
        self.check(info, PASS | WRITE, name)?;
        match self.lookup(dir.state.id, name)? {
            Some(Found::Dir(there)) if there == id => return Ok(None),
            Some(_) => return Err(Error::Exists(shown(name))),
            None => {}
        }
        let top = inner.top(&shown(name))?;
        let now = inner.time.now_ns();
        let made = DirInfo {
            is_removed: false,
            node: DirNode {
                mode: original.mode & MODE_BITS,
                uid: original.uid,
                gid: original.gid,
                parent: dir.state.id,
                name: name.to_vec(),
            },
            subdirs: 0,
            own_subdirs: 0,
            own_is_full: true,
            ctime_ns: now,
        };
        let mut batch = Batch::new();
        batch.put(&Key::entry(dir.state.id, name), &Entry::Dir(id).encode());
        let record = DirState::new(id, made.clone(), now).record(&made);
        batch.put(&Key::node(id), &record);
        let before = info.clone();
        info.subdirs += 1;
        info.own_subdirs += 1;
        dir.state.touch_and_store(now);
        batch.put(&Key::node(dir.state.id), &dir.state.record(info));
        if let Err(error) = top.write(&batch, WriteOptions::default()) {
            *info = before;
            return Err(error.into());
        }
        inner.name_count.add(1);
        Ok(Some(made))
    }
}
