//! Name spaces that are open, and the calls that open, save and close them.

use crate::constants::{KEYRACK_FS_CREATE, KEYRACK_FS_READ_ONLY};
use crate::pointers::{self, bytes, put};
use crate::space::Space;
use crate::status::{Failure, code};
use keyrack_deltafs::rpc::{ClientOptions, Tree};
use keyrack_deltafs::{Namespace, Settings, User};
use keyrack_ffi::{destroy, required};
use std::ffi::{OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;

/// An open name space: a log, which one process has open for writing at a time, or servers.
#[derive(Debug)]
pub struct Fs {
    place: Place,
}

#[derive(Debug)]
enum Place {
    Log { space: Namespace, user: User },
    // One call at a time: a tree is for one thread.
    Servers(Box<Mutex<Tree>>),
}

const POISONED: &str = "a call that panics ends the process";

impl Fs {
    /// Makes a call, of servers when no other is under way.
    pub(crate) fn with<R>(&self, call: impl FnOnce(&mut dyn Space) -> R) -> R {
        match &self.place {
            Place::Log { space, user } => call(&mut space.by(user)),
            Place::Servers(tree) => call(&mut *tree.lock().expect(POISONED)),
        }
    }

    fn sync(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Log { space, .. } => Ok(space.sync()?),
            Place::Servers(tree) => Ok(tree.lock().expect(POISONED).sync()?),
        }
    }

    fn close(self) -> Result<(), Failure> {
        match self.place {
            Place::Log { space, .. } => Ok(space.close()?),
            Place::Servers(tree) => Ok(tree.into_inner().expect(POISONED).close()?),
        }
    }
}

/// Gives an open name space to the caller.
///
/// # Safety
/// `fs` is null or room for a pointer.
unsafe fn give(fs: *mut *mut Fs, place: Place) -> Result<(), Failure> {
    // SAFETY: the caller promises room for a pointer.
    Ok(unsafe { put(fs, keyrack_ffi::give(Fs { place })) }?)
}

pub(crate) fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        other => Err(Failure::invalid(&format!("the flags {other:#x} are none"))),
    }
}

/// The version of this interface: 2.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_fs_version() -> u32 {
    2
}

/// Opens the log in the directory `dir` for the user `uid` with the group `gid`; 0, 0 may do
/// everything.
///
/// # Safety
/// `dir` is null or ends with a zero; `fs` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_open(
    dir: *const c_char,
    flags: u32,
    uid: u32,
    gid: u32,
    fs: *mut *mut Fs,
) -> c_int {
    let open = || {
        check_flags(flags, KEYRACK_FS_CREATE | KEYRACK_FS_READ_ONLY)?;
        // SAFETY: the caller promises the same.
        let dir = unsafe { bytes(dir) }?;
        let dir = PathBuf::from(OsStr::from_bytes(dir));
        let fs = required(fs, "place of a result")?;
        let mut settings = Settings::default();
        settings.store.create_if_missing = flags & KEYRACK_FS_CREATE != 0;
        let space = match flags & KEYRACK_FS_READ_ONLY {
            0 => Namespace::open(&dir, settings)?,
            _ => Namespace::open_read_only(&[dir], settings)?,
        };
        // SAFETY: the caller promises room for a pointer.
        unsafe { give(fs, Place::Log { space, user: User::new(uid, gid) }) }
    };
    code(open())
}

/// Connects to the servers of a name space for the user `uid` with the group `gid`. `server` is the
/// address of the first, such as `10.0.0.1:10101` or `unix:/run/fs.0.sock`, which names the others.
/// `token` is what the servers ask for, or null. Calls of several threads wait for each other; a
/// program connects several times to have several calls under way.
///
/// # Safety
/// `server` and `token` are null or end with a zero; `fs` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_connect(
    server: *const c_char,
    token: *const c_char,
    uid: u32,
    gid: u32,
    fs: *mut *mut Fs,
) -> c_int {
    let connect = || {
        // SAFETY: the caller promises the same.
        let server = String::from_utf8_lossy(unsafe { bytes(server) }?);
        let token = match token.is_null() {
            true => Vec::new(),
            // SAFETY: the caller promises the same.
            false => unsafe { bytes(token) }?.to_vec(),
        };
        let fs = required(fs, "place of a result")?;
        let user = User::new(uid, gid);
        let options = ClientOptions { user, token, ..ClientOptions::default() };
        let endpoint = server.parse().map_err(|error| {
            Failure::invalid(&format!("'{server}' is no address of a server: {error}"))
        })?;
        let tree = Tree::discover(endpoint, options)?;
        // SAFETY: the caller promises room for a pointer.
        unsafe { give(fs, Place::Servers(Box::new(Mutex::new(tree)))) }
    };
    code(connect())
}

/// Ends the use of a name space and frees `fs`, whatever is returned. Listings have to be closed
/// before.
///
/// # Safety
/// `fs` is null or from [`keyrack_fs_open`] or [`keyrack_fs_connect`], and is not used any more, by
/// listings neither.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_close(fs: *mut Fs) -> c_int {
    // SAFETY: the caller promises the same.
    code(unsafe { destroy(fs) }.map_or(Ok(()), |fs| fs.close()))
}

/// Makes everything that was done durable against power loss, on all servers if there are some.
///
/// # Safety
/// `fs` is null or an open name space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_sync(fs: *const Fs) -> c_int {
    // SAFETY: the caller promises the same.
    let fs = unsafe { pointers::fs(fs) };
    code(fs.map_err(Failure::from).and_then(Fs::sync))
}
