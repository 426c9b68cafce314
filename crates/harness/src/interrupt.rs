//! Breaking a script's unit that does not end: an endless loop in Lua.
//!
//! A Lua machine can be told from a signal handler to call a hook at its next instruction; that is
//! the one thing that Lua allows from outside. So each worker notes its machine in a thread-local,
//! and the leader sends the worker's thread a signal whose handler sets the hook. The hook raises
//! an error, which `pcall` in the script cannot outlast, since the next instruction raises again.
//! Code in a coroutine made before the signal, in an engine call, or compiled by LuaJIT is not
//! reached.

use mlua::ffi;
use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

thread_local! {
    /// The machine that this thread runs.
    static MACHINE: Cell<*mut ffi::lua_State> = const { Cell::new(std::ptr::null_mut()) };
}

/// Ignored by default and used by nothing else here.
const SIGNAL: c_int = libc::SIGURG;

/// The threads of one measurement that run a machine now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker {
    threads: Arc<Mutex<Vec<libc::pthread_t>>>,
    broken: Arc<AtomicBool>,
}

/// Keeps the calling thread's machine breakable while it lives.
#[derive(Debug)]
pub(crate) struct Watch {
    breaker: Breaker,
    thread: libc::pthread_t,
    /// The machine that the thread ran before this one.
    before: *mut ffi::lua_State,
}

impl Breaker {
    /// Makes `machine` breakable. Called on the thread that runs it.
    pub(crate) fn watch(&self, machine: *mut ffi::lua_State) -> Watch {
        install();
        // SAFETY: no preconditions.
        let thread = unsafe { libc::pthread_self() };
        self.with(|list| list.push(thread));
        Watch { breaker: self.clone(), thread, before: MACHINE.replace(machine) }
    }

    /// Breaks whatever the machines of this measurement are running.
    pub(crate) fn break_all(&self) {
        self.broken.store(true, Ordering::Relaxed);
        // Under the lock: a thread that leaves waits for it, so its handle is valid here.
        self.with(|list| {
            for thread in list.iter() {
                // SAFETY: the thread is alive, see above, and handles the signal.
                unsafe { libc::pthread_kill(*thread, SIGNAL) };
            }
        });
    }

    /// Whether the machines were broken: a wait outside of Lua, which no hook reaches, ends too.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    fn with(&self, use_list: impl FnOnce(&mut Vec<libc::pthread_t>)) {
        use_list(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let thread = self.thread;
        self.breaker.with(|list| {
            if let Some(place) = list.iter().rposition(|other| *other == thread) {
                list.swap_remove(place);
            }
        });
        MACHINE.set(self.before);
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero record is a valid value of this plain C structure.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler does only what a handler may; the old action is not asked for.
        unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    });
}

extern "C" fn on_signal(_signal: c_int) {
    let machine = MACHINE.get();
    if !machine.is_null() {
        let mask = ffi::LUA_MASKCALL | ffi::LUA_MASKRET | ffi::LUA_MASKLINE | ffi::LUA_MASKCOUNT;
        // SAFETY: Lua documents this one call as safe in a handler; the machine is this thread's.
        unsafe { ffi::lua_sethook(machine, Some(raise), mask, 1) };
    }
}

unsafe extern "C-unwind" fn raise(state: *mut ffi::lua_State, _record: *mut ffi::lua_Debug) {
    let text = c"the unit ran past the end of its phase and was stopped (--unit-timeout)";
    // SAFETY: called by Lua with its state; the frame owns nothing that the jump would skip.
    unsafe { ffi::luaL_error(state, c"%s".as_ptr(), text.as_ptr()) };
}
