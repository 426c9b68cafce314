//! One Lua virtual machine for one worker: the sandbox, the globals, and the protected call of a
//! unit.
//!
//! A machine is made inside the thread that uses it and dies there. Making one costs about 0.1 ms;
//! the start barrier keeps that out of every measurement.

use super::bridge::{Bridge, Owned};
use super::objects::Objects;
use super::raw::{Kind as Type, Stack};
use super::setup::{Ctx, ScriptError, VmSetup};
use super::{kb, kv, sandbox};
use crate::interrupt::Watch;
use mlua::{Function, Lua, Table, Value, ffi};
use std::ffi::c_int;

/// A machine with a workload file loaded.
pub(crate) struct Vm<'s> {
    // The order of dropping: nothing breaks a machine that is going, and the machine goes before
    // the bridge whose address it carries.
    _watch: Watch,
    workload: Table,
    lua: Lua,
    state: *mut ffi::lua_State,
    pub(crate) bridge: Owned<'s>,
}

/// Every verb, answering at once with a value of the type that the real one gives.
const IDLE_VERBS: &str = r#"
local nothing, none = {}, function() end
local zero, empty = function() return 0 end, function() return nothing end
local no, text = function() return false end, ("v"):rep(100)
for name, verb in pairs {
  put = none, get = function() return text end, touch = function() return #text end, del = no,
  range = empty, scan = zero, count = zero, mget = empty, mput = none, mdel = zero, rmw = none,
} do
  kv[name] = verb
end
"#;

/// Stack slots that hold what a unit needs, once [`Vm::pin`] has put it there.
const HANDLER: c_int = 1;
const FUNCTION: c_int = 2;
const CTX: c_int = 3;

impl<'s> Vm<'s> {
    /// Makes a machine and runs the file once, which must return the workload table.
    pub(crate) fn load(setup: &VmSetup) -> Result<Self, ScriptError> {
        let lua = sandbox::machine(setup.sandbox)?;
        let bridge = Bridge::owned(Objects::new(), setup.clock.clone());
        let address = bridge.address();
        let mut state = std::ptr::null_mut();
        install_kv(&lua, address, &mut state)?;
        if setup.idle {
            // Before the file runs: scripts keep verbs in locals.
            lua.load(IDLE_VERBS).set_name("=idle").exec()?;
        }
        kb::install(&lua, address, setup)?;
        sandbox::install_print(&lua, setup.print.clone())?;
        install_ctx(&lua, address, &setup.ctx)?;
        seed(&lua, setup)?;
        lua.set_memory_limit(setup.sandbox.memory_max)?;
        let path = &setup.script.path;
        if setup.script.text.starts_with(b"\x1b") && !setup.sandbox.open {
            return Err(ScriptError::plain(format!(
                "{path}: compiled Lua is not accepted, only its source; --unsafe-lua lifts the \
                 sandbox"
            )));
        }
        let watch = setup.breaker.watch(state);
        let chunk = lua.load(setup.script.text.as_slice()).set_name(format!("@{path}"));
        let evaluated = chunk.eval::<Value>().map_err(|error| {
            let ScriptError { message, traceback } = ScriptError::from(error);
            let message = if message.starts_with(path.as_str()) {
                message
            } else {
                format!("{path}: {message}")
            };
            ScriptError { message, traceback }
        })?;
        let workload = match evaluated {
            Value::Table(table) => table,
            other => {
                let found = other.type_name();
                return Err(ScriptError::plain(format!(
                    "{path}: the file must `return` a workload table, it returned {found}"
                )));
            }
        };
        Ok(Vm { _watch: watch, workload, lua, state, bridge })
    }

    /// The table that the file returned.
    pub(crate) fn workload(&self) -> &Table {
        &self.workload
    }

    /// The `ctx` table.
    pub(crate) fn ctx(&self) -> Result<Table, ScriptError> {
        Ok(self.lua.named_registry_value("keyrack.ctx")?)
    }

    /// Puts the function in `field` where [`Vm::unit`] finds it. Answers false where there is none.
    pub(crate) fn pin(&mut self, field: &str) -> Result<bool, ScriptError> {
        let table = self.workload.clone();
        self.pin_of(&table, field)
    }

    /// As [`Vm::pin`], with the function in a field of another table of the file.
    pub(crate) fn pin_of(&mut self, table: &Table, field: &str) -> Result<bool, ScriptError> {
        let Some(function) = table.get::<Option<Function>>(field)? else {
            return Ok(false);
        };
        self.lua.set_named_registry_value("keyrack.unit", function)?;
        // SAFETY: the machine's own state, on its own thread, outside of any Lua call.
        let stack = unsafe { Stack::new(self.state) };
        stack.set_top(0);
        if !stack.reserve(64) {
            return Err(ScriptError::plain("no memory for the Lua stack".to_owned()));
        }
        stack.push_closure(add_traceback, 0);
        stack.push_registry(c"keyrack.unit");
        stack.push_registry(c"keyrack.ctx");
        Ok(true)
    }

    /// Calls the pinned function once with `ctx` and `iter`.
    #[inline(always)]
    pub(crate) fn unit(&mut self, iter: u64) -> Result<(), ScriptError> {
        self.bridge.iter = iter;
        // SAFETY: the machine's own state, on its own thread, outside of any Lua call.
        let stack = unsafe { Stack::new(self.state) };
        stack.push_copy(FUNCTION);
        stack.push_copy(CTX);
        stack.push_integer(iter as i64);
        if stack.protected_call(2, 0, HANDLER) { Ok(()) } else { Err(self.failure()) }
    }

    #[cold]
    fn failure(&mut self) -> ScriptError {
        // SAFETY: as in `unit`.
        let stack = unsafe { Stack::new(self.state) };
        let text = stack.bytes(-1).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        stack.set_top(CTX);
        self.bridge.sessions.leave_scans();
        ScriptError::from_text(&text.unwrap_or_else(|| "error without a message".to_owned()))
    }
}

/// The message handler of every unit: the message with a traceback after it.
unsafe extern "C-unwind" fn add_traceback(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    match stack.kind(1) {
        Type::String | Type::Number => {}
        // An object that knows its text, such as an error of a `kb` function.
        _ => stack.replace_by_text(1),
    }
    stack.push_traceback(1);
    1
}

/// `ctx.iter`, computed when it is asked for: setting the field would cost every unit 5 ns.
unsafe extern "C-unwind" fn ctx_index(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    if stack.kind(2) == Type::String && stack.bytes(2) == Some(b"iter") {
        // SAFETY: registered below with the address of the bridge; no Lua code runs.
        let iter = unsafe { super::bridge::of(stack) }.iter;
        stack.push_integer(iter as i64);
    } else {
        stack.push_nil();
    }
    1
}

fn install_kv<'s>(
    lua: &Lua,
    bridge: *mut Bridge<'s>,
    state: &mut *mut ffi::lua_State,
) -> mlua::Result<()> {
    let register = |raw: *mut ffi::lua_State| {
        *state = raw;
        // SAFETY: the state that mlua hands to this closure, inside its protected call.
        let stack = unsafe { Stack::new(raw) };
        stack.push_table(0, kv::VERBS.len());
        let table = stack.top();
        for (name, function) in kv::VERBS {
            stack.push_bytes(name.as_bytes());
            stack.push_pointer(bridge.cast());
            stack.push_bytes(b"key");
            stack.push_bytes(b"val");
            stack.push_closure(*function, 3);
            stack.raw_set(table);
        }
    };
    // SAFETY: the closure leaves one value, a table, on the stack and owns nothing.
    let kv: Table = unsafe { lua.exec_raw((), register)? };
    lua.globals().set("kv", kv)
}

fn install_ctx<'s>(lua: &Lua, bridge: *mut Bridge<'s>, ctx: &Ctx) -> mlua::Result<()> {
    let table = lua.create_table()?;
    table.set("users", ctx.users)?;
    table.set("items", ctx.items)?;
    table.set("ops", ctx.ops)?;
    table.set("seed", ctx.seed)?;
    table.set("thread", ctx.thread)?;
    table.set("threads", ctx.threads)?;
    // `ctx.batch` is there for every workload, as in the first generation.
    table.set("batch", 1)?;
    if let Some((param, value)) = &ctx.sweep {
        table.set(param.as_str(), *value)?;
    }
    if let Some((phase, role)) = &ctx.part {
        table.set("phase", phase.as_str())?;
        table.set("role", role.as_deref())?;
    }
    let register = |raw: *mut ffi::lua_State| {
        // SAFETY: the state that mlua hands to this closure, inside its protected call.
        let stack = unsafe { Stack::new(raw) };
        stack.push_pointer(bridge.cast());
        stack.push_closure(ctx_index, 1);
    };
    // SAFETY: the closure leaves one value, a function, on the stack and owns nothing.
    let index: Function = unsafe { lua.exec_raw((), register)? };
    let meta = lua.create_table()?;
    meta.set("__index", index)?;
    table.set_metatable(Some(meta))?;
    lua.set_named_registry_value("keyrack.ctx", table)
}

/// Seeds `math.random` from seed, phase and thread, so that no two workers share a stream.
fn seed(lua: &Lua, setup: &VmSetup) -> mlua::Result<()> {
    let ctx = &setup.ctx;
    let mut rng = keyrack_workload::Rng::stream(ctx.seed, setup.phase, ctx.thread, 0);
    let math: Table = lua.globals().get("math")?;
    let randomseed: Function = math.get("randomseed")?;
    // 53 bits: exact in a machine that has only doubles.
    randomseed.call::<()>((rng.next_u64() >> 11) as i64)
}
