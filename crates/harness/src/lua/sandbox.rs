//! What a workload script may reach: computing, the `kv` and `kb` tables, the clock. Nothing else.
//!
//! A workload is data that people pass around, so it gets no files, no processes, no native
//! modules, no bytecode (whose verifier Lua does not have), no debug library, and a bounded memory.
//! Each thread has a machine of its own. With or without the fence a table gets no `__gc`: a
//! finalizer runs wherever the collector does, which may be in the middle of a verb that is turning
//! its buffers into Lua values, and its own verbs would use the same buffers.
//! Each thread has a machine of its own. What is absent says so when it is used, with the flag that
//! lifts it. A script is trusted as far as that and no further: it can still burn its thread's
//! time.

use super::setup::{Print, Sandbox, ScriptError};
use mlua::{Lua, LuaOptions, StdLib, Table, Value, Variadic};

/// A fresh machine with the libraries that `sandbox` allows.
pub(super) fn machine(sandbox: Sandbox) -> Result<Lua, ScriptError> {
    let options = LuaOptions::new();
    if sandbox.open {
        // SAFETY: `--unsafe-lua` hands the script everything, by the user's own word.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, options) };
        lua.load(NO_FINALIZERS).set_name("=sandbox").exec()?;
        return Ok(collecting_young(lua));
    }
    let mut libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
    #[cfg(feature = "lua54")]
    {
        libraries |= StdLib::UTF8 | StdLib::COROUTINE;
    }
    #[cfg(not(feature = "lua54"))]
    {
        libraries |= StdLib::BIT;
    }
    let lua = Lua::new_with(libraries, options)?;
    lua.load(FENCE).set_name("=sandbox").exec()?;
    lua.load(NO_FINALIZERS).set_name("=sandbox").exec()?;
    Ok(collecting_young(lua))
}

/// Keys and values of a unit die young: the generational collector takes about 5 % less of a
/// script's time than the incremental one. LuaJIT has only the latter.
fn collecting_young(lua: Lua) -> Lua {
    #[cfg(feature = "lua54")]
    lua.gc_set_mode(mlua::state::GcMode::Generational(Default::default()));
    lua
}

/// Takes away what the libraries bring beyond computing.
const FENCE: &str = r##"
local refuse = function(name)
  return function()
    error(name .. " is not available to workload scripts; --unsafe-lua lifts the sandbox", 2)
  end
end
local fenced = function(name, kept)
  return setmetatable(kept, {
    __index = function(_, field)
      error(name .. "." .. tostring(field) ..
            " is not available to workload scripts; --unsafe-lua lifts the sandbox", 2)
    end,
    __metatable = false,
  })
end
os = fenced("os", { time = os.time, clock = os.clock, date = os.date, difftime = os.difftime })
io = fenced("io", {})
debug = fenced("debug", {})
package = fenced("package", {})
for _, name in ipairs { "dofile", "loadfile", "require", "getfenv", "setfenv", "newproxy" } do
  _G[name] = refuse(name)
end
string.dump = refuse("string.dump")
local load_any = load
load = function(chunk, name, mode, ...)
  if mode ~= nil and mode ~= "t" and mode ~= "bt" then
    error("load: workload scripts may load text only; --unsafe-lua lifts the sandbox", 2)
  end
  if select("#", ...) > 0 then
    return load_any(chunk, name, "t", (...))
  end
  return load_any(chunk, name, "t")
end
if loadstring then loadstring = load end
jit = nil
"##;

/// Refuses metatables with a finalizer. Lua looks for `__gc` when the metatable is set, so one that
/// is added later is never called.
const NO_FINALIZERS: &str = r#"
local set, raw, type, error = setmetatable, rawget, type, error
setmetatable = function(object, ...)
  local meta = ...
  if type(meta) == "table" and raw(meta, "__gc") ~= nil then
    error("__gc is not available to workload scripts: it would run in the middle of a verb", 2)
  end
  return set(object, ...)
end
"#;

/// Sends what scripts print to `print`, never to standard output, which is for results.
pub(super) fn install_print(lua: &Lua, print: Option<Print>) -> mlua::Result<()> {
    let to_text: mlua::Function = lua.globals().get("tostring")?;
    let function = lua.create_function(move |_, values: Variadic<Value>| {
        let Some(Print(print)) = &print else { return Ok(()) };
        let mut line = String::new();
        for (index, value) in values.into_iter().enumerate() {
            if index > 0 {
                line.push('\t');
            }
            line.push_str(&to_text.call::<mlua::LuaString>(value)?.to_string_lossy());
        }
        print(&line);
        Ok(())
    })?;
    let globals: Table = lua.globals();
    globals.set("print", function)
}
