//! Ranks meet through a PMIx server: a library that is loaded when the server's variables are set.
//!
//! ```text
//!   rank 0                                        the others
//!   PMIx_Init                                     PMIx_Init
//!   PMIx_Put keyrack-star: HOST:PORT/TOKEN        .
//!   PMIx_Commit                                   .
//!   PMIx_Fence, with collection                   PMIx_Fence, with collection
//!   PMIx_Get keyrack-star of rank 0               PMIx_Get keyrack-star of rank 0
//!   PMIx_Fence: all have it                       PMIx_Fence
//!   PMIx_Finalize                                 PMIx_Finalize
//! ```
//!
//! The calls run on a thread of their own. A server that does not answer, or a rank that does not
//! come, is then an error of the caller when the time is over: the calls have no time limit that
//! all versions of the library keep. The library stays loaded, because its own threads may run.
//!
//! **Layout.** The structures below are those of the standard's C interface, versions 3 to 5.
#![expect(unsafe_code, reason = "the signatures of a C library are taken on trust")]

use super::address::TEXT_BYTES_MAX;
use super::error::{Error, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The library, as the dynamic linker knows it.
pub(super) const LIBRARY: &str = "libpmix.so.2";

/// The name under which rank 0 says where it is.
const KEY: &CStr = c"keyrack-star";
const COLLECT: &CStr = c"pmix.collect";
/// For ranks on this machine and on others.
const SCOPE_GLOBAL: u8 = 3;
const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const SUCCESS: c_int = 0;

/// A process: its job and its rank.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    job: [c_char; 256],
    rank: u32,
}

/// A value and its type.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

/// The members in use, and those that give the union its size.
#[repr(C)]
union Data {
    flag: bool,
    string: *mut c_char,
    wide: i64,
    largest: [usize; 3],
}

/// An option of a call.
#[repr(C)]
struct Info {
    key: [u8; 512],
    flags: u32,
    value: Value,
}

/// The functions of the library that are called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Functions {
    init: unsafe extern "C" fn(*mut Process, *const Info, usize) -> c_int,
    put: unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int,
    commit: unsafe extern "C" fn() -> c_int,
    fence: unsafe extern "C" fn(*const Process, usize, *const Info, usize) -> c_int,
    get: unsafe extern "C" fn(
        *const Process,
        *const c_char,
        *const Info,
        usize,
        *mut *mut Value,
    ) -> c_int,
    finalize: unsafe extern "C" fn(*const Info, usize) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Functions {
    /// Loads the library of that name.
    ///
    /// # Errors
    /// Why it cannot be used, in the words of the dynamic linker.
    pub(super) fn load(name: &str) -> std::result::Result<Functions, String> {
        // SAFETY: it is the library of the system, or of whoever started this process; what it does
        // when it is loaded is to set up tables of its own.
        let library = unsafe { Library::new(name) };
        let library = library.map_err(|error| format!("cannot load {name}: {error}"))?;
        let functions = Functions {
            init: find(&library, name, "PMIx_Init")?,
            put: find(&library, name, "PMIx_Put")?,
            commit: find(&library, name, "PMIx_Commit")?,
            fence: find(&library, name, "PMIx_Fence")?,
            get: find(&library, name, "PMIx_Get")?,
            finalize: find(&library, name, "PMIx_Finalize")?,
            error_string: find(&library, name, "PMIx_Error_string")?,
        };
        // Its functions are in use until the process ends.
        std::mem::forget(library);
        Ok(functions)
    }

    /// The text of rank 0, which hands it in as `mine`. All ranks of the job have to call this.
    ///
    /// # Errors
    /// [`Error::Pmi`] with the call that failed, or after `timeout`.
    pub(super) fn exchange(
        self,
        rank: u32,
        mine: Option<&str>,
        timeout: Duration,
    ) -> Result<String> {
        let mine = mine.map(CString::new).transpose();
        let mine =
            mine.map_err(|_| Error::Pmi("a text with a zero byte is no value".to_owned()))?;
        let (send, receive) = channel();
        let work = move || {
            // If nobody waits any more, the time was over.
            let _ = send.send(self.meet(rank, mine.as_deref()));
        };
        let thread = thread::Builder::new().name("pmix".to_owned()).spawn(work);
        thread.map_err(Error::io("start the thread of PMIx"))?;
        match receive.recv_timeout(timeout) {
            Ok(met) => met.map_err(Error::Pmi),
            Err(RecvTimeoutError::Timeout) => {
                let seconds = timeout.as_secs();
                Err(Error::Pmi(format!("PMIx: not all ranks came within {seconds} s")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                panic!("the thread of PMIx ended without a result")
            }
        }
    }

    fn meet(self, rank: u32, mine: Option<&CStr>) -> std::result::Result<String, String> {
        let mut own = Process { job: [0; 256], rank: u32::MAX };
        // SAFETY: `own` is a place for a process, and there are no options. Other threads of this
        // process neither change its environment nor read it while a job begins.
        let begun = unsafe { (self.init)(&raw mut own, ptr::null(), 0) };
        self.check("PMIx_Init", begun)?;
        let met = if own.rank == rank {
            self.share(own, mine)
        } else {
            Err(format!("PMIx: the server says rank {}, the variables say {rank}", own.rank))
        };
        // SAFETY: it follows the initialization, and there are no options.
        let ended = unsafe { (self.finalize)(ptr::null(), 0) };
        met.and_then(|text| self.check("PMIx_Finalize", ended).map(|()| text))
    }

    fn share(self, own: Process, mine: Option<&CStr>) -> std::result::Result<String, String> {
        if let Some(mine) = mine {
            let string = mine.as_ptr().cast_mut();
            let mut value = Value { kind: TYPE_STRING, data: Data { string } };
            // SAFETY: key and value live until the call ends, which copies both and changes none.
            let put = unsafe { (self.put)(SCOPE_GLOBAL, KEY.as_ptr(), &raw mut value) };
            self.check("PMIx_Put", put)?;
            // SAFETY: a function without arguments, after the initialization.
            self.check("PMIx_Commit", unsafe { (self.commit)() })?;
        }
        self.fence(&[collection()])?;
        let root = Process { rank: 0, ..own };
        let mut value = ptr::null_mut();
        // SAFETY: process and key live until the call ends; the value is a place for a pointer.
        let got =
            unsafe { (self.get)(&raw const root, KEY.as_ptr(), ptr::null(), 0, &raw mut value) };
        // SAFETY: a pointer that is set is to a value that the library made for the caller. It is
        // not freed: there is one in a process, and not all versions have a function for that.
        let value = unsafe { value.as_ref() };
        let text = self.check("PMIx_Get", got).and_then(|()| text_of(value));
        // Without this, rank 0 could be gone before the others have its value.
        self.fence(&[])?;
        text
    }

    fn fence(self, options: &[Info]) -> std::result::Result<(), String> {
        // SAFETY: no list of processes stands for the whole job; the options live until the call
        // ends.
        let met = unsafe { (self.fence)(ptr::null(), 0, options.as_ptr(), options.len()) };
        self.check("PMIx_Fence", met)
    }

    fn check(self, call: &str, status: c_int) -> std::result::Result<(), String> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: it has a text for every number.
        let name = unsafe { (self.error_string)(status) };
        if name.is_null() {
            return Err(format!("{call} of {LIBRARY} failed with status {status}"));
        }
        // SAFETY: the texts are constants of the library.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        Err(format!("{call} of {LIBRARY} failed: {name} ({status})"))
    }
}

/// The function of that name, as a `T`, which is the type of a pointer to it.
fn find<T: Copy>(library: &Library, file: &str, name: &str) -> std::result::Result<T, String> {
    // SAFETY: the table above gives each name the signature that the standard has for it.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|function| *function).map_err(|_| format!("{file} has no function {name}"))
}

/// The option of a fence that makes it carry what the ranks have put.
fn collection() -> Info {
    let value = Value { kind: TYPE_BOOL, data: Data { flag: true } };
    let mut info = Info { key: [0; 512], flags: 0, value };
    info.key[..COLLECT.count_bytes()].copy_from_slice(COLLECT.to_bytes());
    info
}

/// The text in a value that the library made.
fn text_of(value: Option<&Value>) -> std::result::Result<String, String> {
    let refuse = |what: &str| Err(format!("PMIx: the value of rank 0 is {what}"));
    let Some(value) = value else { return refuse("missing") };
    if value.kind != TYPE_STRING {
        return refuse(&format!("of type {}, not {TYPE_STRING}, a string", value.kind));
    }
    // SAFETY: the type says that this member is set.
    let start = unsafe { value.data.string }.cast::<u8>();
    if start.is_null() {
        return refuse("no string");
    }
    let mut bytes = Vec::new();
    loop {
        let place = start.wrapping_add(bytes.len());
        // SAFETY: a string of the library ends with a zero byte, and none of those before this
        // place was zero.
        match unsafe { place.read() } {
            0 => break,
            _ if bytes.len() == TEXT_BYTES_MAX => {
                return refuse(&format!("longer than {TEXT_BYTES_MAX} bytes"));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).or_else(|_| refuse("no text"))
}

#[cfg(test)]
#[path = "pmix_tests.rs"]
mod tests;
