//! What a script's verbs reach: the timed sessions, the native sources, and the buffers.
//!
//! One [`Bridge`] belongs to one virtual machine on one thread. The C functions of the verbs carry
//! its address as an upvalue, so a call costs no lookup. It is boxed, and dropped after the
//! machine.
//!
//! **Invariant:** while a `kv.scan` callback runs, the main session is in use by the scan further
//! down the stack. `scans` counts these; reads then go to a second session and writes are refused,
//! so the main one is never entered twice.

use super::objects::Objects;
use crate::live::LiveWorker;
use crate::verbs::{Rows, Verbs};
use keyrack_measure::{Clock, Histogram};
use keyrack_store::{Batch, Error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Everything that a verb needs, at a fixed address.
pub(crate) struct Bridge<'s> {
    pub(crate) sessions: Sessions<'s>,
    /// Key sources, value sources and the other things that `kb` makes.
    pub(crate) objects: Objects,
    /// Index of the current unit, from 1; 0 while loading.
    pub(crate) iter: u64,
    pub(super) buffers: Buffers,
    /// Durations that `kb.time` measured, by label.
    pub(crate) labels: Labels,
    /// Text of an error that is about to be raised; see `raw` on why it lives here.
    pub(super) message: Vec<u8>,
}

/// Memory that verbs reuse from call to call.
#[derive(Default)]
pub(super) struct Buffers {
    /// The value that a lookup copied out, or the values of a batched one.
    pub(super) value: Vec<u8>,
    /// A key that has to outlive a second draw from its source.
    pub(super) low: Vec<u8>,
    pub(super) rows: Rows,
    /// Keys of a batched lookup, one after another, and where each ends.
    pub(super) keys: Vec<u8>,
    pub(super) key_ends: Vec<usize>,
    /// Where in `value` the answer to each key lies; `None` for a miss.
    pub(super) found: Vec<Option<(usize, usize)>>,
    pub(super) batch: Batch,
}

/// A bridge that is owned and whose address is known elsewhere too: a `Box` may not be, since
/// moving one asserts that nobody else points into it.
pub(crate) struct Owned<'s>(NonNull<Bridge<'s>>);

impl<'s> Owned<'s> {
    /// The address that C functions carry.
    pub(super) fn address(&self) -> *mut Bridge<'s> {
        self.0.as_ptr()
    }
}

impl<'s> Deref for Owned<'s> {
    type Target = Bridge<'s>;

    #[inline(always)]
    fn deref(&self) -> &Bridge<'s> {
        // SAFETY: made from a box in `Bridge::owned` and live until drop; between Lua calls nobody
        // else uses it.
        unsafe { self.0.as_ref() }
    }
}

impl DerefMut for Owned<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        // SAFETY: as in `deref`.
        unsafe { self.0.as_mut() }
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a leaked box, and this is the one owner.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl<'s> Bridge<'s> {
    pub(crate) fn owned(objects: Objects, clock: Clock) -> Owned<'s> {
        Owned(NonNull::from(Box::leak(Box::new(Bridge {
            sessions: Sessions { main: None, nested: None, open: None, live: None, scans: 0 },
            objects,
            iter: 0,
            buffers: Buffers::default(),
            labels: Labels { clock, by_label: Vec::new() },
            message: Vec::new(),
        }))))
    }
}

/// Durations of a script's own compound operations.
pub(crate) struct Labels {
    pub(super) clock: Clock,
    by_label: Vec<(String, Histogram)>,
}

/// Labels of one script.
const LABELS_MAX: usize = 16;

impl Labels {
    /// Files a duration; false when there are too many labels.
    pub(super) fn record(&mut self, label: &[u8], ns: u64) -> bool {
        let known = self.by_label.iter().position(|(name, _)| name.as_bytes() == label);
        match known {
            Some(index) => self.by_label[index].1.record(ns),
            None if self.by_label.len() >= LABELS_MAX => return false,
            None => {
                let mut histogram = Histogram::new();
                histogram.record(ns);
                self.by_label.push((String::from_utf8_lossy(label).into_owned(), histogram));
            }
        }
        true
    }

    /// Hands out what was filed and starts again.
    pub(crate) fn take(&mut self) -> Vec<(String, Histogram)> {
        std::mem::take(&mut self.by_label)
    }
}

type Open<'s> = Box<dyn Fn() -> Result<Verbs<'s>, Error> + 's>;

/// The session of a worker and the one for reads inside a scan.
pub(crate) struct Sessions<'s> {
    /// `None` while the file is only being read. Owned; a raw pointer because the scan that is
    /// running holds a reference while callbacks come through here.
    main: Option<NonNull<Verbs<'s>>>,
    nested: Option<Box<Verbs<'s>>>,
    open: Option<Open<'s>>,
    /// Where samples go, once the timed part has begun; sessions opened later follow.
    live: Option<&'s LiveWorker>,
    /// How many `kv.scan` callbacks are running.
    pub(super) scans: u32,
}

impl<'s> Sessions<'s> {
    /// Connects the verbs; `open` makes the second session when it is needed.
    pub(crate) fn connect(&mut self, verbs: Verbs<'s>, open: Open<'s>) {
        self.disconnect();
        self.main = Some(NonNull::from(Box::leak(Box::new(verbs))));
        self.open = Some(open);
    }

    /// Ends the connection and hands the verbs back, with what the second session found.
    pub(crate) fn disconnect(&mut self) -> Option<Verbs<'s>> {
        self.open = None;
        let nested = self.nested.take();
        // SAFETY: the pointer came from a leaked box in `connect` and is taken out here once.
        let mut main = self.main.take().map(|main| unsafe { *Box::from_raw(main.as_ptr()) })?;
        if let Some(nested) = nested {
            main.absorb(*nested);
        }
        Some(main)
    }

    /// Sends the samples of both sessions to `live`: the timed part begins.
    pub(crate) fn switch(&mut self, live: &'s LiveWorker) {
        self.live = Some(live);
        if let Some(nested) = &mut self.nested {
            nested.switch(live);
        }
        if let Some(main) = self.main_mut() {
            main.switch(live);
        }
    }

    /// The main verbs, between units.
    pub(crate) fn main_mut(&mut self) -> Option<&mut Verbs<'s>> {
        debug_assert_eq!(self.scans, 0, "the unit loop runs outside of callbacks");
        // SAFETY: the box is live until `disconnect`, and outside of callbacks nobody else uses it.
        self.main.map(|mut main| unsafe { main.as_mut() })
    }

    /// Forgets scans whose frames an error has jumped over.
    pub(super) fn leave_scans(&mut self) {
        self.scans = 0;
    }

    /// The verbs to read with: the main session, or inside a scan's callback the second one.
    #[inline(always)]
    pub(super) fn reader(&mut self) -> Result<&mut Verbs<'s>, &'static str> {
        match self.main {
            // SAFETY: the box is live until `disconnect`; with no callback running nobody else
            // uses it.
            Some(mut main) if self.scans == 0 => Ok(unsafe { main.as_mut() }),
            Some(_) => self.nested(),
            None => Err(NOT_CONNECTED),
        }
    }

    /// The verbs to write with.
    #[inline(always)]
    pub(super) fn writer(&mut self) -> Result<&mut Verbs<'s>, &'static str> {
        match self.main {
            // SAFETY: as in `reader`.
            Some(mut main) if self.scans == 0 => Ok(unsafe { main.as_mut() }),
            Some(_) => Err(WRITE_IN_SCAN),
            None => Err(NOT_CONNECTED),
        }
    }

    #[cold]
    fn nested(&mut self) -> Result<&mut Verbs<'s>, &'static str> {
        if self.scans > 1 {
            return Err("a kv.scan callback inside a kv.scan callback must not use kv");
        }
        if self.nested.is_none() {
            let open = self.open.as_ref().ok_or(NOT_CONNECTED)?;
            let mut verbs = open()
                .map_err(|_| "the engine gave no second session for a read inside kv.scan")?;
            if let Some(live) = self.live {
                verbs.switch(live);
            }
            self.nested = Some(Box::new(verbs));
        }
        self.nested.as_deref_mut().ok_or(NOT_CONNECTED)
    }
}

impl Drop for Sessions<'_> {
    fn drop(&mut self) {
        self.disconnect();
    }
}

const NOT_CONNECTED: &str =
    "kv is for load(), setup() and run(): there is no store while the file is being read";
const WRITE_IN_SCAN: &str = "a kv.scan callback must not write, the engine may hold a lock; \
                             collect the keys and write after the scan";

/// The bridge whose address is upvalue 1 of the running C function.
///
/// # Safety
/// The running function was registered by `vm` with the address of a live bridge. The reference
/// must end before Lua code runs again, since that code may come back here.
#[inline(always)]
pub(super) unsafe fn of<'a>(stack: super::raw::Stack) -> &'a mut Bridge<'a> {
    let address = stack.upvalue_pointer(1).cast::<Bridge<'a>>();
    // SAFETY: see above; a machine runs on one thread and does not outlive its bridge.
    unsafe { &mut *address }
}
