//! Binds everything before a thread starts, so that what cannot be bound is an error of the start.
//!
//! ```text
//!                      Linux                              elsewhere
//!   TCP                a socket for each loop, one port   one socket, served by the first loop
//!   UDP, shared        a socket for each loop, one port   one socket, served by the first loop
//!   UDP, port by loop  a socket and a port for each loop  the same
//!   Unix               one socket, served by the first loop
//! ```
//!
//! Whichever loop accepts a connection, the loop with the fewest connections gets it (see
//! `loop_handles`).
//!
//! Sockets that share a port would also share it with another server of the same user, whose
//! clients would be torn between the two. So a port is first bound alone, which fails if it
//! is in use.
//!
//! **Invariant:** the file of a Unix socket never has more rights than its mode. A file is removed
//! only if it is a socket without a server, and at the end only if it is still our own.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use keyrack_vfs::{Fs, RealFs};
use rustix::fs::{FileType, Mode, RawMode, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, sockopt};

use crate::acceptor::{ListenSocket, LoopListener};
use crate::datagrams;
use crate::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::options::{DatagramPorts, Listener, ListenerKind, Options};

/// Can the kernel spread what comes for one port over several sockets?
const SPREADS: bool = cfg!(target_os = "linux");

/// The listening sockets of one loop.
#[derive(Debug, Default)]
pub(crate) struct Share {
    pub(crate) listeners: Vec<LoopListener>,
    pub(crate) datagrams: Vec<datagrams::Bound>,
}

/// Everything that was bound.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) shares: Vec<Share>,
    /// Where each listener really is.
    pub(crate) local: Vec<Vec<Endpoint>>,
    pub(crate) files: Vec<SocketFile>,
}

pub(crate) fn bind_all(options: &Options) -> Result<Bound> {
    let mut bound = Bound {
        shares: (0..options.threads).map(|_| Share::default()).collect(),
        local: vec![Vec::new(); options.listeners.len()],
        files: Vec::new(),
    };
    for (index, listener) in options.listeners.iter().enumerate() {
        let endpoints = listener.endpoint.resolve()?;
        let is_only = endpoints.len() == 1;
        for endpoint in endpoints {
            match bind(&mut bound, options, index, listener, &endpoint) {
                // A name may have addresses of a family that this machine does not use.
                Err(cause) if !is_only && is_unavailable(&cause) => {}
                Err(cause) => return Err(failed(&endpoint, cause)),
                Ok(()) => {}
            }
        }
        if bound.local[index].is_empty() {
            let cause = Cause::Io(io::ErrorKind::AddrNotAvailable.into());
            return Err(failed(&listener.endpoint, cause));
        }
    }
    Ok(bound)
}

/// Why one endpoint was not bound.
#[derive(Debug)]
enum Cause {
    Io(io::Error),
    Ours(Error),
}

impl From<io::Error> for Cause {
    fn from(cause: io::Error) -> Self {
        Cause::Io(cause)
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Cause::Io(errno.into())
    }
}

fn is_unavailable(cause: &Cause) -> bool {
    let Cause::Io(cause) = cause else { return false };
    matches!(
        Errno::from_io_error(cause),
        Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT)
    )
}

fn failed(endpoint: &Endpoint, cause: Cause) -> Error {
    match cause {
        Cause::Ours(error) => error,
        Cause::Io(cause) => {
            Error::Endpoint { action: "listen on", endpoint: endpoint.to_string(), cause }
        }
    }
}

fn bind(
    bound: &mut Bound,
    options: &Options,
    index: usize,
    listener: &Listener,
    endpoint: &Endpoint,
) -> std::result::Result<(), Cause> {
    match (endpoint, &listener.kind) {
        (Endpoint::Unix(path), ListenerKind::Stream { unix_mode, .. }) => {
            let (socket, file) = bind_unix(path, *unix_mode, options.backlog)?;
            bound.files.push(file);
            bound.shares[0].listeners.push(LoopListener {
                socket,
                listener: index,
                is_ready: false,
            });
            bound.local[index].push(endpoint.clone());
        }
        (Endpoint::Ip(address), ListenerKind::Stream { .. }) => {
            let address = check_alone(*address, SocketType::STREAM)?;
            let count = if SPREADS { options.threads } else { 1 };
            let (address, sockets) = bind_group(address, SocketType::STREAM, count)?;
            for (share, socket) in bound.shares.iter_mut().zip(sockets) {
                rustix::net::listen(&socket, backlog(options))?;
                let socket = std::net::TcpListener::from(socket);
                socket.set_nonblocking(true)?;
                let socket = ListenSocket::Tcp(mio::net::TcpListener::from_std(socket));
                share.listeners.push(LoopListener { socket, listener: index, is_ready: false });
            }
            bound.local[index].push(Endpoint::Ip(address));
        }
        (Endpoint::Ip(address), ListenerKind::Datagrams { .. }) => {
            bind_datagrams(bound, index, &listener.kind, *address)?;
        }
        _ => return Err(Cause::Ours(Error::usage("an endpoint of another kind"))),
    }
    Ok(())
}

fn backlog(options: &Options) -> i32 {
    i32::try_from(options.backlog).unwrap_or(i32::MAX)
}

fn bind_datagrams(
    bound: &mut Bound,
    index: usize,
    kind: &ListenerKind,
    address: SocketAddr,
) -> std::result::Result<(), Cause> {
    let ListenerKind::Datagrams { ports, request_bytes_max, reply_bytes_max } = *kind else {
        return Ok(());
    };
    let threads = bound.shares.len();
    let mut sockets = Vec::new();
    if ports == DatagramPorts::Shared {
        let address = check_alone(address, SocketType::DGRAM)?;
        let count = if SPREADS { threads } else { 1 };
        let (address, group) = bind_group(address, SocketType::DGRAM, count)?;
        sockets.extend(group);
        bound.local[index].push(Endpoint::Ip(address));
    } else {
        let mut next = address;
        for _ in 0..threads {
            let (real, mut group) = bind_group(next, SocketType::DGRAM, 1)?;
            sockets.append(&mut group);
            bound.local[index].push(Endpoint::Ip(real));
            // Port 0 stays 0: the kernel chooses every one of them.
            if address.port() != 0 {
                next.set_port(next.port().checked_add(1).ok_or(Errno::ADDRNOTAVAIL)?);
            }
        }
    }
    for (share, socket) in bound.shares.iter_mut().zip(sockets) {
        let socket = std::net::UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        let socket = mio::net::UdpSocket::from_std(socket);
        share.datagrams.push(datagrams::Bound {
            socket,
            listener: index,
            request_bytes_max,
            reply_bytes_max,
            is_ready: false,
        });
    }
    Ok(())
}

/// Fails if the port is in use. The socket that tries is closed again.
fn check_alone(address: SocketAddr, kind: SocketType) -> std::result::Result<SocketAddr, Cause> {
    if SPREADS && address.port() != 0 {
        let socket = open_socket(address, kind)?;
        rustix::net::bind(&socket, &address)?;
    }
    Ok(address)
}

/// So many sockets with one port, and which that is.
fn bind_group(
    mut address: SocketAddr,
    kind: SocketType,
    count: usize,
) -> std::result::Result<(SocketAddr, Vec<OwnedFd>), Cause> {
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = open_socket(address, kind)?;
        if count > 1 {
            #[cfg(target_os = "linux")]
            sockopt::set_socket_reuseport(&socket, true)?;
        }
        rustix::net::bind(&socket, &address)?;
        let name = rustix::net::getsockname(&socket)?;
        address = SocketAddr::try_from(name)?;
        sockets.push(socket);
    }
    Ok((address, sockets))
}

fn open_socket(address: SocketAddr, kind: SocketType) -> std::result::Result<OwnedFd, Cause> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket(family, kind, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    if kind == SocketType::STREAM {
        // A port whose last connections are still dying can be used.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    if address.is_ipv6() {
        // So that what is exposed is what was written: `[::]` is not every IPv4 address as well.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(socket)
}

fn bind_unix(
    path: &Path,
    mode: u32,
    backlog: u32,
) -> std::result::Result<(ListenSocket, SocketFile), Cause> {
    remove_abandoned(path)?;
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let mode = Mode::from_raw_mode(mode as RawMode);
    let address = SocketAddrUnix::new(path)?;
    bind_with_mode(&socket, &address, mode)?;
    let file = SocketFile::of(path)?;
    // The process's mask may have taken rights away; no client can connect before `listen`.
    rustix::fs::chmod(path, mode)?;
    rustix::net::listen(&socket, i32::try_from(backlog).unwrap_or(i32::MAX))?;
    let socket = std::os::unix::net::UnixListener::from(socket);
    socket.set_nonblocking(true)?;
    Ok((ListenSocket::Unix(mio::net::UnixListener::from_std(socket)), file))
}

/// Binds so that the file is made with at most the rights of `mode`. On Linux a socket's own mode
/// is the one that its file gets.
#[cfg(target_os = "linux")]
fn bind_with_mode(socket: impl AsFd, address: &SocketAddrUnix, mode: Mode) -> io::Result<()> {
    rustix::fs::fchmod(&socket, mode)?;
    Ok(rustix::net::bind(&socket, address)?)
}

/// Binds so that the file is made with at most the rights of its owner. The mask is the process's,
/// so this is done by one thread at a time; what others create meanwhile has fewer rights.
#[cfg(not(target_os = "linux"))]
fn bind_with_mode(socket: impl AsFd, address: &SocketAddrUnix, _mode: Mode) -> io::Result<()> {
    static MASK: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = MASK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let before = rustix::process::umask(Mode::from_bits_truncate(0o177));
    let bound = rustix::net::bind(&socket, address);
    rustix::process::umask(before);
    Ok(bound?)
}

/// Removes the file of a socket without a server.
fn remove_abandoned(path: &Path) -> std::result::Result<(), Cause> {
    let taken = |reason| Cause::Ours(Error::PathTaken { path: path.to_owned(), reason });
    let found = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(taken("the path is taken by something that is no socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(taken("another server answers there")),
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            RealFs.remove_file(path).map_err(|error| Cause::Ours(error.into()))
        }
        Err(cause) => Err(cause.into()),
    }
}

/// The file of a Unix socket. Dropping this removes it, unless another file has replaced it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    made: Stat,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(SocketFile { path: path.to_owned(), made: rustix::fs::lstat(path)? })
    }

    fn is_still_ours(&self) -> bool {
        rustix::fs::lstat(&self.path)
            .is_ok_and(|found| (found.st_dev, found.st_ino) == (self.made.st_dev, self.made.st_ino))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_still_ours() {
            // A file that stays is abandoned, and the next start removes it.
            let _ = RealFs.remove_file(&self.path);
        }
    }
}
