//! # keyrack-mount: a name space of files as a file system of the kernel
//!
//! ```text
//!   program --> kernel --> /dev/fuse --> face    requests and replies
//!                                         |
//!                                        tree    what they mean
//!                                        /  \
//!                                   nodes    keyrack_deltafs::Namespace
//! ```
//!
//! One thread takes requests, one after the other, and everything that it changes is in the log
//! before it answers: what a program was told survives what the durability of the log says. Nothing
//! is held back for a close. The kernel checks permissions, as it knows all groups of who asks.
//!
//! Nobody else writes to a log that is mounted, so the kernel may remember names and facts.
//!
//! | not here | a program gets |
//! |---|---|
//! | devices, pipes, sockets | EPERM |
//! | extended attributes | EOPNOTSUPP |
//! | access times | the modification time |
#![forbid(unsafe_code)]

mod fuse;
mod listing;
mod nodes;
mod tree;

use fuse::FuseServer;
use fuser::{Config, MountOption, Session, SessionACL};
use keyrack_deltafs::Namespace;
use keyrack_vfs::{FileKind, Fs};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// How a name space is mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What the list of mounts calls it.
    pub name: String,
    /// Whether others than who mounts it may use it.
    pub allow_other: bool,
}

/// Why it could not be mounted, or ended badly. A line for a person.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The mount point will not do.
    MountPoint(String),
    /// The machine has no FUSE, or refuses.
    Machine(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::MountPoint(what) | Error::Machine(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

/// Ends a mount from another thread.
#[derive(Clone, Debug)]
pub struct Unmounter {
    at: PathBuf,
}

impl Unmounter {
    /// Takes the file system out of the tree of names at once. [`mount`] returns when the last file
    /// of it is closed.
    ///
    /// # Errors
    /// The machine's.
    pub fn detach(&self) -> io::Result<()> {
        match umount2(&self.at, MntFlags::MNT_DETACH) {
            // It is no mount any more.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => Ok(()),
            Err(Errno::EPERM) => {
                let mut helper = Command::new("fusermount3");
                if helper.args(["-u", "-z", "--"]).arg(&self.at).status()?.success() {
                    Ok(())
                } else {
                    Err(io::Error::other("fusermount3 -u did not succeed"))
                }
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Mounts `space` at the directory `at`, calls `ready` with the means to end it, and serves it
/// until it is unmounted, by that or by `umount`. The caller closes the name space then. `disk` and
/// `store` say where free space is asked for.
///
/// # Errors
/// [`Error::MountPoint`] for what is no empty directory; [`Error::Machine`] with the remedy.
pub fn mount(
    space: &Namespace,
    disk: &Arc<dyn Fs>,
    store: &Path,
    at: &Path,
    options: &Options,
    ready: impl FnOnce(Unmounter),
) -> Result<(), Error> {
    let at = check_mount_point(&**disk, at)?;
    let server = FuseServer::new(space.clone(), Arc::clone(disk), store.to_owned())
        .map_err(|error| Error::Machine(error.to_string()))?;
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(plain(&options.name)),
        MountOption::Subtype("keyrack".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoAtime,
        if space.is_read_only() { MountOption::RO } else { MountOption::RW },
    ];
    // Set-user bits of a tree that anybody made are for nobody to run.
    config.mount_options.push(MountOption::NoSuid);
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let session = Session::new(server, &at, &config).map_err(|error| refused(&at, &error))?;
    ready(Unmounter { at: at.clone() });
    session.run().map_err(|error| {
        Error::Machine(format!("{}: the connection to the kernel failed: {error}", at.display()))
    })
}

/// The mount point as the kernel will know it.
///
/// # Errors
/// [`Error::MountPoint`] if it is no empty directory, [`Error::Machine`] if there is no FUSE.
pub fn check_mount_point(disk: &dyn Fs, at: &Path) -> Result<PathBuf, Error> {
    let shown = at.display();
    let wrong = |what: &str| Err(Error::MountPoint(format!("{shown}: {what}")));
    match disk.metadata(at) {
        Err(error) if error.is_not_found() => return wrong("no such directory; make it first"),
        Err(error) if error.io_kind() == io::ErrorKind::NotConnected => {
            return wrong("a mount whose server is gone; end it with umount or fusermount3 -u");
        }
        Err(error) => return wrong(&error.to_string()),
        Ok(found) if found.kind != FileKind::Dir => return wrong("not a directory"),
        Ok(_) => {}
    }
    match disk.list(at) {
        Ok(names) if names.is_empty() => {}
        Ok(_) => return wrong("the directory is not empty; mount on an empty one"),
        Err(error) => return wrong(&error.to_string()),
    }
    match disk.exists(Path::new("/dev/fuse")) {
        Ok(true) => {}
        Ok(false) | Err(_) => {
            return Err(Error::Machine(
                "there is no /dev/fuse; load the kernel module with modprobe fuse, or give the \
                 container the device"
                    .to_owned(),
            ));
        }
    }
    disk.canonicalize(at).map_err(|error| Error::MountPoint(error.to_string()))
}

/// What the kernel, or the helper that mounts for ordinary users, refused.
fn refused(at: &Path, error: &io::Error) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            ": fusermount3 is missing, which mounts for users other than root; install the package \
             fuse3"
        }
        io::ErrorKind::PermissionDenied => {
            ": mount as root, or with fusermount3 of the package fuse3, and for --allow-other with \
             user_allow_other in /etc/fuse.conf"
        }
        _ => "",
    };
    Error::Machine(format!("{}: cannot mount: {error}{remedy}", at.display()))
}

/// A name that the list of options can hold.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c == '\\' || c.is_control() { '_' } else { c }).collect()
}
