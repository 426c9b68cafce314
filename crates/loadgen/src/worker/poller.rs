//! Which sockets are ready: epoll where it is, poll elsewhere.
//!
//! Sockets are registered once and level-triggered; a full socket is armed for writing until it has
//! taken everything. Waits are in nanoseconds. The kernel's epoll counts milliseconds, so what is
//! left of a wait below one is spent in `ppoll` on the epoll itself: one more call, and only where
//! there was time to sleep.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::time::Timespec;

const NS_PER_MS: u64 = 1_000_000;
/// Nothing waits longer, so that an interruption is noticed.
const WAIT_NS_MAX: u64 = 100 * NS_PER_MS;

/// A socket that has something to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: usize,
    /// Bytes, the end, or an error.
    pub(crate) is_readable: bool,
    pub(crate) is_writable: bool,
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
}

#[cfg(target_os = "linux")]
pub(crate) use linux::Poller;
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::Poller;

#[cfg(target_os = "linux")]
mod linux {
    use super::{AsFd, Errno, NS_PER_MS, Ready, WAIT_NS_MAX, io, timespec};
    use rustix::buffer::spare_capacity;
    use rustix::event::{PollFd, PollFlags, epoll, poll};
    use std::os::fd::OwnedFd;

    /// Events that one wait brings at most.
    const EVENTS_MAX: usize = 512;

    /// A set of sockets.
    pub(crate) struct Poller {
        epoll: OwnedFd,
        events: Vec<epoll::Event>,
        ready: Vec<Ready>,
    }

    impl Poller {
        pub(crate) fn new() -> io::Result<Poller> {
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            let (events, ready) = (Vec::with_capacity(EVENTS_MAX), Vec::new());
            Ok(Poller { epoll, events, ready })
        }

        pub(crate) fn add(&mut self, socket: impl AsFd, token: usize) -> io::Result<()> {
            let data = epoll::EventData::new_u64(token as u64);
            Ok(epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?)
        }

        pub(crate) fn remove(&mut self, socket: impl AsFd, _: usize) {
            // A socket that is gone already is not in the set either.
            let _ = epoll::delete(&self.epoll, socket);
        }

        pub(crate) fn arm_write(
            &mut self,
            socket: impl AsFd,
            token: usize,
            is_armed: bool,
        ) -> io::Result<()> {
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, is_armed);
            let data = epoll::EventData::new_u64(token as u64);
            Ok(epoll::modify(&self.epoll, socket, data, flags)?)
        }

        /// Waits at most so long; returns sooner, also for no reason.
        pub(crate) fn wait(&mut self, wait_ns: u64) -> io::Result<&[Ready]> {
            self.ready.clear();
            self.events.clear();
            let wait_ns = wait_ns.min(WAIT_NS_MAX);
            if (1..NS_PER_MS).contains(&wait_ns) {
                let mut own = [PollFd::new(&self.epoll, PollFlags::IN)];
                match poll(&mut own, Some(&timespec(wait_ns))) {
                    Ok(0) | Err(Errno::INTR) => return Ok(&self.ready),
                    Ok(_) => {}
                    Err(errno) => return Err(errno.into()),
                }
                self.collect(0)?;
            } else {
                self.collect(wait_ns - wait_ns % NS_PER_MS)?;
            }
            Ok(&self.ready)
        }

        fn collect(&mut self, wait_ns: u64) -> io::Result<()> {
            let wait = timespec(wait_ns);
            match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &self.events {
                let flags = event.flags;
                self.ready.push(Ready {
                    token: event.data.u64() as usize,
                    is_readable: flags.intersects(
                        epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
                    ),
                    is_writable: flags.intersects(epoll::EventFlags::OUT),
                });
            }
            Ok(())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::{AsFd, Errno, Ready, WAIT_NS_MAX, io, timespec};
    use rustix::event::{PollFd, PollFlags, poll};
    use std::os::fd::OwnedFd;

    /// A set of sockets, kept by descriptors of our own for them.
    #[derive(Debug, Default)]
    pub(crate) struct Poller {
        sockets: Vec<(OwnedFd, usize, bool)>,
        ready: Vec<Ready>,
    }

    impl Poller {
        pub(crate) fn new() -> io::Result<Poller> {
            Ok(Poller::default())
        }

        pub(crate) fn add(&mut self, socket: impl AsFd, token: usize) -> io::Result<()> {
            self.sockets.push((socket.as_fd().try_clone_to_owned()?, token, false));
            Ok(())
        }

        pub(crate) fn remove(&mut self, _: impl AsFd, token: usize) {
            self.sockets.retain(|(_, other, _)| *other != token);
        }

        pub(crate) fn arm_write(
            &mut self,
            _: impl AsFd,
            token: usize,
            is_armed: bool,
        ) -> io::Result<()> {
            for (_, _, armed) in self.sockets.iter_mut().filter(|(_, other, _)| *other == token) {
                *armed = is_armed;
            }
            Ok(())
        }

        pub(crate) fn wait(&mut self, wait_ns: u64) -> io::Result<&[Ready]> {
            self.ready.clear();
            let mut set: Vec<PollFd<'_>> = Vec::with_capacity(self.sockets.len());
            for (socket, _, is_armed) in &self.sockets {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, *is_armed);
                set.push(PollFd::new(socket, flags));
            }
            match poll(&mut set, Some(&timespec(wait_ns.min(WAIT_NS_MAX)))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let found = set.iter().zip(&self.sockets).map(|(polled, (_, token, _))| {
                let flags = polled.revents();
                Ready {
                    token: *token,
                    is_readable: flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
                    is_writable: flags.contains(PollFlags::OUT),
                }
            });
            let ready = found.filter(|ready| ready.is_readable || ready.is_writable);
            self.ready = ready.collect();
            Ok(&self.ready)
        }
    }
}
