//! What a server remembers of a client, over its connections.
//!
//! ```text
//!   answers   slot = call % 1024    [ call | code, fields ]
//! ```
//!
//! A client counts its calls, and has at most half a window of them under way. So when a call comes
//! again, its answer is still in its slot, or it was never carried out; what is older is refused. A
//! call that changes nothing is carried out again instead.
//!
//! **Invariant:** a session is used by one thread at a time: its lock is held while calls of it are
//! carried out, so a call that comes over two connections at once is carried out once.

use super::parts::Part;
use crate::inner::Dir;
use crate::rpc::codec::{Frame, WINDOW, frame};
use crate::user::User;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Directories that a client may have open.
const DIRS_MAX: usize = 1 << DIR_BITS;
/// Bits of a directory's number that say which; the others say of which start of the server.
const DIR_BITS: u32 = 14;
/// Bytes of an answer that are kept; calls with longer ones do not change anything.
const SLOT_BYTES_KEPT: usize = 8 << 10;

/// A directory that a client has open.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) dir: Dir,
    pub(crate) part: Arc<Part>,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: [u8; 16],
    pub(crate) user: User,
    /// Of this start of the server: numbers of another are not taken for ours.
    start: u32,
    dirs: Vec<Option<Opened>>,
    free: Vec<u32>,
    answers: Vec<Slot>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    /// 0 is no call.
    call: u64,
    bytes: Vec<u8>,
}

/// What is known of a call.
#[derive(Debug)]
pub(crate) enum Known<'a> {
    /// It was not carried out.
    New,
    /// It was, and this came of it: code, then fields.
    Answered(&'a [u8]),
    /// Nobody knows any more.
    Forgotten,
}

impl Session {
    fn new(client: [u8; 16], user: User, root: Option<&Opened>, start: u32) -> Session {
        let start = start & (u32::MAX >> DIR_BITS);
        let (dirs, free, answers) = (vec![root.cloned()], Vec::new(), Vec::new());
        Session { client, user, start, dirs, free, answers }
    }

    fn index(&self, number: u32) -> Option<usize> {
        let is_ours = number == 0 || number >> DIR_BITS == self.start;
        is_ours.then_some(number as usize % DIRS_MAX)
    }

    fn number(&self, index: u32) -> u32 {
        self.start << DIR_BITS | index
    }

    pub(crate) fn dir(&self, number: u32) -> Option<&Opened> {
        self.dirs.get(self.index(number)?)?.as_ref()
    }

    /// Keeps a directory open. `None` if there are too many.
    pub(crate) fn open(&mut self, opened: Opened) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.dirs[index as usize] = Some(opened);
            return Some(self.number(index));
        }
        if self.dirs.len() >= DIRS_MAX {
            return None;
        }
        self.dirs.push(Some(opened));
        u32::try_from(self.dirs.len() - 1).ok().map(|index| self.number(index))
    }

    /// Closes a directory; the root stays.
    pub(crate) fn close(&mut self, number: u32) -> bool {
        let Some(index) = self.index(number).filter(|index| *index > 0) else { return false };
        match self.dirs.get_mut(index).and_then(Option::take) {
            Some(_) => {
                self.free.push(index as u32);
                true
            }
            None => false,
        }
    }

    pub(crate) fn known(&self, call: u64) -> Known<'_> {
        match self.answers.get(call as usize % WINDOW) {
            Some(slot) if slot.call == call && call != 0 => Known::Answered(&slot.bytes),
            Some(slot) if slot.call > call => Known::Forgotten,
            _ => Known::New,
        }
    }

    /// Keeps the answer of a call: a whole frame.
    pub(crate) fn keep(&mut self, call: u64, reply: &[u8]) {
        if self.answers.is_empty() {
            self.answers.resize(WINDOW, Slot::default());
        }
        let is_whole = matches!(frame(reply), Frame::Whole { .. });
        assert!(is_whole, "an answer of ours is a whole frame, or a repeated call is done twice");
        let slot = &mut self.answers[call as usize % WINDOW];
        slot.call = call;
        slot.bytes.clear();
        slot.bytes.shrink_to(SLOT_BYTES_KEPT);
        slot.bytes.extend_from_slice(&reply[12..]);
    }
}

/// All clients, by their numbers.
#[derive(Debug)]
pub(crate) struct Sessions {
    parts: Mutex<Table>,
    start: u32,
}

#[derive(Debug, Default)]
struct Table {
    all: HashMap<[u8; 16], (Arc<Mutex<Session>>, u64)>,
    /// Counts uses, so that the least recently used goes first.
    uses: u64,
}

impl Sessions {
    /// Clients that are remembered, at most; beyond, the one that was silent for longest goes.
    const MAX: usize = 4096;

    /// Of a server that was started for the `start`-th time.
    pub(crate) fn new(start: u32) -> Sessions {
        Sessions { parts: Mutex::new(Table::default()), start }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a client that has said hello before.
    pub(crate) fn get(&self, client: &[u8; 16]) -> Option<Arc<Mutex<Session>>> {
        let mut table = self.table();
        table.uses += 1;
        let uses = table.uses;
        let (session, used) = table.all.get_mut(client)?;
        *used = uses;
        Some(Arc::clone(session))
    }

    /// The session of a client that says hello: the one that it had, or a new one.
    pub(crate) fn enter(
        &self,
        client: [u8; 16],
        user: User,
        root: Option<&Opened>,
    ) -> Arc<Mutex<Session>> {
        if let Some(session) = self.get(&client) {
            lock(&session).user = user;
            return session;
        }
        let mut table = self.table();
        if table.all.len() >= Sessions::MAX {
            let idle = |(_, (session, used)): &(_, &(Arc<Mutex<Session>>, u64))| {
                (Arc::strong_count(session) > 1, *used)
            };
            let oldest = table.all.iter().min_by_key(idle).map(|(client, _)| *client);
            oldest.and_then(|client| table.all.remove(&client));
        }
        table.uses += 1;
        let uses = table.uses;
        let session = Arc::new(Mutex::new(Session::new(client, user, root, self.start)));
        let entry = table.all.entry(client).or_insert_with(|| (session, uses));
        Arc::clone(&entry.0)
    }
}

pub(crate) fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
