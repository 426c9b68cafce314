//! One counter of the kernel's performance events: open it on a thread, read it.
//!
//! `perf_event_open` has no wrapper in the C library. The structure is the first version of the
//! kernel's, 64 bytes, which every kernel with the call takes.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The kind of a counter and its number within, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) config: u64,
}

/// A reading: the count, and how long the counter was wanted and was on a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) count: u64,
    pub(super) enabled_ns: u64,
    pub(super) running_ns: u64,
}

#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const ATTRIBUTES_BYTES: u32 = 64;
const _: () = assert!(size_of::<Attributes>() == ATTRIBUTES_BYTES as usize);

/// Both times beside the count.
const READ_TIMES: u64 = 0b11;
/// Threads that the counted one starts are counted too.
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// An open counter, which counts from its opening on.
#[derive(Debug)]
pub(super) struct Counter(OwnedFd);

impl Counter {
    /// Counts `event` on the thread `tid` of this process, and on those that it starts.
    pub(super) fn open(event: Event, tid: i32, with_kernel: bool) -> io::Result<Counter> {
        let scope = if with_kernel { 0 } else { EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR };
        let attributes = Attributes {
            kind: event.kind,
            size: ATTRIBUTES_BYTES,
            config: event.config,
            read_format: READ_TIMES,
            flags: INHERIT | scope,
            ..Attributes::default()
        };
        let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
        // SAFETY: the structure is as long as its size says and lives across the call, which reads
        // it and writes nothing.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                tid,
                any_cpu,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        let fd =
            i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the call has just opened it, and nobody else knows it.
        Ok(Counter(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(super) fn read(&self) -> io::Result<Reading> {
        let mut words = [0_u64; 3];
        // SAFETY: the buffer has room for the bytes that are asked for, and lives across the call.
        let got = unsafe {
            libc::read(self.0.as_raw_fd(), words.as_mut_ptr().cast(), size_of_val(&words))
        };
        match usize::try_from(got) {
            Ok(bytes) if bytes == size_of_val(&words) => {
                let [count, enabled_ns, running_ns] = words;
                Ok(Reading { count, enabled_ns, running_ns })
            }
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}
