//! The `kb` table: native sources of keys and values, and what else a workload needs beside `kv`.
//!
//! | call | gives |
//! |---|---|
//! | `kb.keys{fmt=, n=, first=, dist=, theta=, scramble=, counter=}` | a key source; stands where a key string goes |
//! | `kb.sequential{}`, `uniform zipf zipf_ycsb latest hotspot gaussian exponential insert` | `kb.keys` with that distribution |
//! | `kb.fb_key{}` | keys with the sizes of Facebook's ETC pool |
//! | `kb.url{seed=}`, `path email uuid composed decimal be8` | `kb.keys` of that key set |
//! | `kb.values{size=, compress=, seed=}`, `kb.fb_value{}` | a value source; stands where a value string goes |
//! | `kb.mix{get=50, put=50}` | a sampler; `M()` is a name |
//! | `kb.counter(name [, start])` | a counter shared by all workers; `C()` takes the next, `C:get()` looks |
//! | `kb.rng([name])` | a random stream of its own; `R()` in [0,1), `R(n)` in 1..n, `R(a,b)` in a..b |
//! | `kb.param(name, default)` | the value of `-P name=value`, of the default's type |
//! | `kb.time(label, fn, ...)` | what `fn(...)` returns; its duration is reported under the label |
//! | `kb.now()`, `kb.sleep_until(s)` | seconds since the worker's machine was made, before `setup` |
//!
//! Key sources have methods: `K()` draws a key as a string, `K:index()` draws an index, `K:at(i)`
//! is the key of an index, `K:count()` is how many keys there are. These calls are the cold side of
//! the bridge: safe `mlua`, for the top of a file and `setup()`. Handles in verbs are the hot side.

use super::bridge::Bridge;
use super::objects::{CounterObject, KeyObject, MixObject, Objects, Tag, ValueObject};
use super::raw::{Kind as Type, Stack};
use super::setup::VmSetup;
use crate::interrupt::Breaker;
use crate::live::Kind;
use keyrack_measure::Clock;
use keyrack_store::unknown;
use keyrack_workload::{
    Alias, KeyDistribution, KeyFormat, KeySet, KeySource, KeySpec, Rng, SizeDistribution,
    ValueSource, ValueSpec,
};
use mlua::{Error, FromLua, Function, LightUserData, Lua, Table, Value, ffi};
use std::cell::Cell;
use std::ffi::c_int;
use std::rc::Rc;

/// Distributions that have a constructor of their own name.
const DISTRIBUTIONS: &[&str] = &[
    "sequential",
    "uniform",
    "zipf",
    "zipf_ycsb",
    "latest",
    "hotspot",
    "gaussian",
    "exponential",
    "insert",
];

const KEY_FIELDS: &[&str] = &["fmt", "n", "first", "dist", "theta", "scramble", "counter", "seed"];
const VALUE_FIELDS: &[&str] = &["size", "compress", "seed"];

/// What the constructors need from the machine they belong to.
struct Maker {
    bridge: *mut Bridge<'static>,
    setup: VmSetup,
    /// Streams handed out so far; stream 0 is `math.random`'s.
    streams: Cell<u32>,
}

impl Maker {
    /// The objects of this machine.
    fn with_objects<R>(&self, use_them: impl FnOnce(&mut Objects) -> R) -> R {
        // SAFETY: the bridge outlives the machine whose functions own this maker, both stay on one
        // thread, and no verb holds a reference while a constructor runs.
        use_them(unsafe { &mut (*self.bridge).objects })
    }

    fn stream(&self) -> Rng {
        let index = self.streams.get() + 1;
        self.streams.set(index);
        let ctx = &self.setup.ctx;
        Rng::stream(ctx.seed, self.setup.phase, ctx.thread, index)
    }

    /// A count: a number, or the name of one in `ctx`.
    fn count(&self, options: &Table, field: &str) -> mlua::Result<u64> {
        let ctx = &self.setup.ctx;
        match options.get::<Value>(field)? {
            Value::Nil => Ok(ctx.items),
            Value::Integer(n) if n >= 0 => Ok(n as u64),
            Value::Number(n) if n >= 0.0 && n.fract() == 0.0 && n < 9e15 => Ok(n as u64),
            Value::String(name) if name == "items" => Ok(ctx.items),
            Value::String(name) if name == "users" => Ok(ctx.users),
            _ => Err(raise(format!("{field} must be a whole number, \"items\" or \"users\""))),
        }
    }

    fn keys(&self, options: Option<Table>, preset: Option<&str>) -> mlua::Result<LightUserData> {
        let Some(options) = options else {
            return Err(raise("kb.keys needs a table, for example {fmt=\"k:%012d\"}".to_owned()));
        };
        check_fields("field of kb.keys", &options, KEY_FIELDS).map_err(raise)?;
        let format = key_format(&options, preset)?;
        let mut text: String = match preset.filter(|preset| DISTRIBUTIONS.contains(preset)) {
            Some(distribution) => distribution.to_owned(),
            None if preset == Some("fb_key") => "uniform".to_owned(),
            None => {
                field::<Option<String>>(&options, "dist")?.unwrap_or_else(|| "uniform".to_owned())
            }
        };
        if let Some(theta) = field::<Option<f64>>(&options, "theta")? {
            if text.contains(':') {
                return Err(raise(format!("give theta once: in dist=\"{text}\" or as theta")));
            }
            text = format!("{text}:{theta}");
        } else if let (Some(_), Some(dist)) = (preset, field::<Option<String>>(&options, "dist")?) {
            text = dist;
        }
        let spec = KeySpec {
            format,
            count: self.count(&options, "n")?,
            first: field::<Option<u64>>(&options, "first")?.unwrap_or(0),
            distribution: KeyDistribution::parse(&text).map_err(raise)?,
            scramble: field::<Option<bool>>(&options, "scramble")?.unwrap_or(false),
        };
        let counter = match options.get::<Value>("counter")? {
            Value::Nil => None,
            Value::String(name) => Some(name.to_string_lossy()),
            Value::LightUserData(handle) => {
                let name = self.with_objects(|objects| {
                    objects.counters.get(handle.0 as usize).map(|counter| counter.name.clone())
                });
                Some(name.ok_or_else(|| raise("counter must be a kb.counter".to_owned()))?)
            }
            _ => return Err(raise("counter must be a kb.counter or its name".to_owned())),
        };
        let shared = counter.as_ref().map(|name| self.setup.counters.named(name, spec.count));
        let ctx = &self.setup.ctx;
        let source = KeySource::new(&spec, self.stream(), shared, Some((ctx.thread, ctx.threads)))
            .map_err(raise)?;
        let object = KeyObject { spec, counter, source };
        self.with_objects(|objects| objects.keys.add(object)).map(handle).map_err(raise)
    }

    fn values(&self, options: Option<Table>, preset: Option<&str>) -> mlua::Result<LightUserData> {
        let size = match (&options, preset) {
            (_, Some(preset)) => preset.to_owned(),
            (Some(options), None) => match options.get::<Value>("size")? {
                Value::Nil => "100".to_owned(),
                Value::Integer(size) => size.to_string(),
                Value::Number(size) if size.fract() == 0.0 => format!("{size:.0}"),
                Value::String(text) => text.to_string_lossy(),
                _ => {
                    return Err(raise(
                        "size must be a number or a text such as \"10:200\"".to_owned(),
                    ));
                }
            },
            (None, None) => "100".to_owned(),
        };
        let mut spec = ValueSpec {
            size: SizeDistribution::parse(&size).map_err(raise)?,
            compress: 0.5,
            seed: self.setup.ctx.seed,
        };
        if let Some(options) = &options {
            check_fields("field of kb.values", options, VALUE_FIELDS).map_err(raise)?;
            spec.compress = field::<Option<f64>>(options, "compress")?.unwrap_or(spec.compress);
            spec.seed = field::<Option<u64>>(options, "seed")?.unwrap_or(spec.seed);
        }
        let source = ValueSource::new(&spec, self.stream()).map_err(raise)?;
        let object = ValueObject { spec, source };
        self.with_objects(|objects| objects.values.add(object)).map(handle).map_err(raise)
    }

    fn mix(&self, weights: Table) -> mlua::Result<LightUserData> {
        // Sorted by name: the order of a Lua table is not the same in every run.
        let mut pairs: Vec<(String, f64)> = weights.pairs().collect::<mlua::Result<_>>()?;
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let shares: Vec<f64> = pairs.iter().map(|(_, weight)| *weight).collect();
        let alias = Alias::new(&shares).map_err(raise)?;
        let names = pairs.into_iter().map(|(name, _)| name).collect();
        let object = MixObject { names, alias, rng: self.stream() };
        self.with_objects(|objects| objects.mixes.add(object)).map(handle).map_err(raise)
    }

    fn counter(&self, name: String, start: Option<u64>) -> mlua::Result<LightUserData> {
        let start = start.unwrap_or(self.setup.ctx.items);
        let counter = self.setup.counters.named(&name, start);
        let object = CounterObject { name, counter };
        self.with_objects(|objects| objects.counters.add(object)).map(handle).map_err(raise)
    }

    fn rng(&self, name: Option<String>) -> mlua::Result<LightUserData> {
        // A named stream does not depend on what was made before it.
        let rng = match name {
            Some(name) => {
                let ctx = &self.setup.ctx;
                let index = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
                    (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
                });
                Rng::stream(ctx.seed, self.setup.phase, ctx.thread, index | 1 << 31)
            }
            None => self.stream(),
        };
        self.with_objects(|objects| objects.rngs.add(rng)).map(handle).map_err(raise)
    }

    fn param(&self, lua: &Lua, name: &str, default: Value) -> mlua::Result<Value> {
        match default {
            Value::Integer(_) | Value::Number(_) | Value::Boolean(_) | Value::String(_) => {}
            _ => {
                return Err(raise(format!(
                    "\"{name}\" needs a default, a number, a boolean or a string: it gives the type"
                )));
            }
        }
        let Some(text) = self.setup.params.get(name) else { return Ok(default) };
        let refuse = |wanted: &str| {
            Err(raise(format!("-P {name}={text}: the script expects {wanted} for '{name}'")))
        };
        match default {
            Value::Integer(_) => match (text.parse::<i64>(), keyrack_store::parse_size(text)) {
                (Ok(number), _) => Ok(Value::Integer(number as mlua::Integer)),
                (_, Ok(size)) => Ok(Value::Integer(size as mlua::Integer)),
                _ => refuse("a whole number"),
            },
            Value::Number(_) => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::Number(number)),
                _ => refuse("a number"),
            },
            Value::Boolean(_) => match keyrack_store::parse_bool(text) {
                Ok(flag) => Ok(Value::Boolean(flag)),
                Err(_) => refuse("true or false"),
            },
            Value::String(_) => Ok(Value::String(lua.create_string(text)?)),
            other => Ok(other),
        }
    }
}

/// How a source of keys writes its numbers: as `fmt` says, or as the constructor `preset` does.
fn key_format(options: &Table, preset: Option<&str>) -> mlua::Result<KeyFormat> {
    let pattern: Option<String> = field(options, "fmt")?;
    let seed: Option<u64> = field(options, "seed")?;
    if let Some(set) = preset.and_then(KeySet::named) {
        return match pattern {
            None => Ok(KeyFormat::of_set(set, seed.unwrap_or(0))),
            Some(_) => Err(raise(format!(
                "kb.{set} has a format of its own; for text around it write \
                 kb.keys{{fmt=\"text%{{{set}}}\"}}"
            ))),
        };
    }
    if seed.is_some() {
        return Err(raise("seed is for key sets such as kb.url; draws follow --seed".to_owned()));
    }
    match (pattern, preset) {
        (Some(pattern), _) => KeyFormat::parse(&pattern).map_err(raise),
        (None, Some("fb_key")) => Ok(KeyFormat::fb_key()),
        (None, _) => KeyFormat::parse("k:%012d").map_err(raise),
    }
}

fn handle(handle: usize) -> LightUserData {
    LightUserData(handle as *mut std::ffi::c_void)
}

fn raise(error: impl ToString) -> Error {
    Error::RuntimeError(error.to_string())
}

/// A field of a table of options; an error names it.
fn field<T: FromLua>(options: &Table, name: &str) -> mlua::Result<T> {
    options.get(name).map_err(|error| raise(format!("field '{name}': {error}")))
}

/// Refuses a field that a table may not have. `kind` is what messages call it.
pub(crate) fn check_fields(kind: &str, table: &Table, known: &[&str]) -> Result<(), String> {
    for pair in table.pairs::<Value, Value>() {
        let name = pair.and_then(|(key, _)| key.to_string()).map_err(|e| e.to_string())?;
        if !known.contains(&name.as_str()) {
            return Err(unknown(kind, &name, known));
        }
    }
    Ok(())
}

/// Sets the global `kb` and the behaviour of handles.
pub(super) fn install(lua: &Lua, bridge: *mut Bridge<'_>, setup: &VmSetup) -> mlua::Result<()> {
    let maker = Rc::new(Maker {
        // The lifetime is the session's; the functions below die with the machine, before it.
        bridge: bridge.cast(),
        setup: setup.clone(),
        streams: Cell::new(0),
    });
    let kb = lua.create_table()?;
    let m = Rc::clone(&maker);
    let keys = lua.create_function(move |_, options| m.keys(options, None))?;
    kb.set("keys", keys)?;
    let sets = KeySet::ALL.map(KeySet::name);
    for &preset in DISTRIBUTIONS.iter().chain(&["fb_key"]).chain(&sets) {
        let m = Rc::clone(&maker);
        let make = move |lua: &Lua, options: Option<Table>| {
            let options = options.map_or_else(|| lua.create_table(), Ok)?;
            m.keys(Some(options), Some(preset))
        };
        kb.set(preset, lua.create_function(make)?)?;
    }
    let m = Rc::clone(&maker);
    kb.set("values", lua.create_function(move |_, options| m.values(options, None))?)?;
    let m = Rc::clone(&maker);
    let fb_value = lua.create_function(move |_, options| m.values(options, Some("fb_value")))?;
    kb.set("fb_value", fb_value)?;
    let m = Rc::clone(&maker);
    kb.set("mix", lua.create_function(move |_, weights| m.mix(weights))?)?;
    let m = Rc::clone(&maker);
    let counter = lua.create_function(move |_, (name, start)| m.counter(name, start))?;
    kb.set("counter", counter)?;
    let m = Rc::clone(&maker);
    kb.set("rng", lua.create_function(move |_, name| m.rng(name))?)?;
    let m = Rc::clone(&maker);
    let param = move |lua: &Lua, (name, default): (String, Value)| m.param(lua, &name, default);
    kb.set("param", lua.create_function(param)?)?;
    kb.set("time", raw_function(lua, bridge, time)?)?;
    install_time(lua, &kb, setup.breaker.clone())?;
    lua.load(LOCATED).set_name("=kb").call::<()>(kb.clone())?;
    lua.globals().set("kb", kb)?;
    install_handles(lua, bridge)
}

/// Longest sleep between two looks at whether the unit is to be broken.
const NAP_NS: u64 = 20_000_000;

/// `kb.now` and `kb.sleep_until`, counted from when the machine was made.
fn install_time(lua: &Lua, kb: &Table, breaker: Breaker) -> mlua::Result<()> {
    let clock = Rc::new(Clock::calibrated());
    let start = clock.ticks();
    let reader = Rc::clone(&clock);
    let now = move |_: &Lua, ()| Ok(reader.ns_between(start, reader.ticks()) as f64 / 1e9);
    kb.set("now", lua.create_function(now)?)?;
    let sleep_until = move |_: &Lua, seconds: f64| {
        if !(0.0..=86_400.0).contains(&seconds) {
            return Err(raise("kb.sleep_until: seconds must be within 0 and 86400".to_owned()));
        }
        let until = start + clock.ticks_of_ns((seconds * 1e9) as u64);
        let nap = clock.ticks_of_ns(NAP_NS);
        loop {
            let now = clock.ticks();
            if now >= until {
                return Ok(());
            }
            if breaker.is_broken() {
                return Err(raise("the wait was ended with its phase".to_owned()));
            }
            clock.wait_until(until.min(now + nap));
        }
    };
    kb.set("sleep_until", lua.create_function(sleep_until)?)
}

/// Raises the errors of the constructors where they are called: what the binding raises is an
/// object without a place, with a traceback of its own.
const LOCATED: &str = r#"
local kb = ...
local pcall, error, tostring, table = pcall, error, tostring, table
for name, make in pairs(kb) do
  if name ~= "time" then
    kb[name] = function(...)
      local ok, made = pcall(make, ...)
      if ok then return made end
      local text = tostring(made):gsub("\nstack traceback:.*", ""):gsub("^runtime error: ", "")
      error("kb." .. name .. ": " .. text, 2)
    end
  end
end
local have = {}
for name in pairs(kb) do have[#have + 1] = name end
table.sort(have)
setmetatable(kb, {
  __index = function(_, name)
    local list = table.concat(have, ", ")
    error("kb." .. tostring(name) .. " does not exist (have: " .. list .. ")", 2)
  end,
})
"#;

/// A raw C function with the bridge as its upvalue.
fn raw_function(
    lua: &Lua,
    bridge: *mut Bridge<'_>,
    function: super::raw::CFunction,
) -> mlua::Result<Function> {
    let register = |raw: *mut ffi::lua_State| {
        // SAFETY: the state that mlua hands to this closure, inside its protected call.
        let stack = unsafe { Stack::new(raw) };
        stack.push_pointer(bridge.cast());
        stack.push_closure(function, 1);
    };
    // SAFETY: the closure leaves one value, a function, on the stack and owns nothing.
    unsafe { lua.exec_raw((), register) }
}

/// `kb.time(label, fn, ...)`: calls `fn`, files how long it took, returns what it returned.
unsafe extern "C-unwind" fn time(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    let arguments = stack.top() - 2;
    let begin = {
        // SAFETY: registered with the address of the bridge; the reference ends before Lua runs.
        let Bridge { labels, message, .. } = unsafe { super::bridge::of(stack) };
        if stack.kind(1) != Type::String || stack.kind(2) != Type::Function {
            refuse(stack, message, "kb.time: give a label, a function and its arguments");
        }
        let label = stack.bytes(1).unwrap_or_default();
        if Kind::ALL.iter().any(|kind| kind.name().as_bytes() == label) {
            refuse(
                stack,
                message,
                "kb.time: the label is the name of a verb, whose row it would spoil",
            );
        }
        labels.clock.ticks()
    };
    stack.call(arguments, ffi::LUA_MULTRET);
    // SAFETY: as above; no Lua code runs below.
    let Bridge { labels, message, .. } = unsafe { super::bridge::of(stack) };
    let ns = labels.clock.ns_between(begin, labels.clock.ticks());
    if !labels.record(stack.bytes(1).unwrap_or_default(), ns) {
        refuse(stack, message, "kb.time: more than 16 labels");
    }
    stack.top() - 1
}

/// Gives light userdata a metatable: calls draw, fields are methods.
fn install_handles(lua: &Lua, bridge: *mut Bridge<'_>) -> mlua::Result<()> {
    let function = |f| raw_function(lua, bridge, f);
    let methods = lua.create_table()?;
    methods.set("next", function(draw)?)?;
    methods.set("index", function(draw_index)?)?;
    methods.set("at", function(key_at)?)?;
    methods.set("get", function(count)?)?;
    methods.set("count", function(count)?)?;
    let meta = lua.create_table()?;
    meta.set("__call", function(draw)?)?;
    meta.set("__tostring", function(describe)?)?;
    meta.set("__index", methods)?;
    meta.set("__metatable", false)?;
    lua.set_type_metatable::<LightUserData>(Some(meta));
    Ok(())
}

/// `H()` and `H:next()`: a key, a value, a name, a number.
unsafe extern "C-unwind" fn draw(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: registered with the address of the bridge; no Lua code runs while it is used.
    let Bridge { objects, message, .. } = unsafe { super::bridge::of(stack) };
    let handle = stack.handle(1);
    match Objects::tag(handle) {
        Some(Tag::Key) => match objects.keys.next(handle) {
            Some(key) => stack.push_bytes(key),
            None => refuse(stack, message, "not a kb object"),
        },
        Some(Tag::Value) => match objects.values.next(handle) {
            Some(value) => stack.push_bytes(value),
            None => refuse(stack, message, "not a kb object"),
        },
        Some(Tag::Mix) => match objects.mixes.get_mut(handle) {
            Some(MixObject { names, alias, rng }) => {
                stack.push_bytes(names[alias.sample(rng)].as_bytes());
            }
            None => refuse(stack, message, "not a kb object"),
        },
        Some(Tag::Counter) => match objects.counters.get(handle) {
            Some(counter) => stack.push_integer(counter.counter.next() as i64),
            None => refuse(stack, message, "not a kb object"),
        },
        Some(Tag::Rng) => match objects.rngs.get_mut(handle) {
            Some(rng) => draw_number(stack, rng, message),
            None => refuse(stack, message, "not a kb object"),
        },
        None => refuse(stack, message, "not a kb object"),
    }
    1
}

fn draw_number(stack: Stack, rng: &mut Rng, message: &mut Vec<u8>) {
    let (low, high) = match (stack.kind(2), stack.kind(3)) {
        (Type::None | Type::Nil, _) => return stack.push_number(rng.unit()),
        (_, Type::None | Type::Nil) => (Some(1), stack.integer(2)),
        _ => (stack.integer(2), stack.integer(3)),
    };
    let (Some(low), Some(high)) = (low, high) else {
        refuse(stack, message, "kb.rng: the bounds must be whole numbers");
    };
    if low > high {
        refuse(stack, message, "kb.rng: the interval is empty");
    }
    let span = high.wrapping_sub(low) as u64;
    stack.push_integer(low.wrapping_add(rng.range(0, span) as i64));
}

/// `K:index()`: draws an index.
unsafe extern "C-unwind" fn draw_index(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: registered with the address of the bridge; no Lua code runs while it is used.
    let Bridge { objects, message, .. } = unsafe { super::bridge::of(stack) };
    match objects.keys.get_mut(stack.handle(1)) {
        Some(key) => stack.push_integer(key.source.next_index() as i64),
        None => refuse(stack, message, "index() is a method of key sources"),
    }
    1
}

/// `K:at(i)`: the key of an index.
unsafe extern "C-unwind" fn key_at(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: registered with the address of the bridge; no Lua code runs while it is used.
    let Bridge { objects, message, .. } = unsafe { super::bridge::of(stack) };
    match (objects.keys.get_mut(stack.handle(1)), stack.integer(2)) {
        (Some(key), Some(index @ 0..)) => stack.push_bytes(key.source.key_at(index as u64)),
        (Some(_), _) => refuse(stack, message, "at() needs an index from 0"),
        (None, _) => refuse(stack, message, "at() is a method of key sources"),
    }
    1
}

/// `C:get()` and `K:count()`: how many, without taking one.
unsafe extern "C-unwind" fn count(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: registered with the address of the bridge; no Lua code runs while it is used.
    let Bridge { objects, message, .. } = unsafe { super::bridge::of(stack) };
    let handle = stack.handle(1);
    let count = match Objects::tag(handle) {
        Some(Tag::Key) => objects.keys.get(handle).map(|key| key.source.count()),
        Some(Tag::Counter) => objects.counters.get(handle).map(|counter| counter.counter.get()),
        _ => None,
    };
    match count {
        Some(count) => stack.push_integer(count as i64),
        None => refuse(stack, message, "get() and count() are for counters and key sources"),
    }
    1
}

/// `tostring(H)`.
unsafe extern "C-unwind" fn describe(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua passes its live state.
    let stack = unsafe { Stack::new(state) };
    // SAFETY: registered with the address of the bridge; no Lua code runs while it is used.
    let Bridge { objects, message, .. } = unsafe { super::bridge::of(stack) };
    // Moved into the bridge's buffer first: a failing push must not leak the text.
    message.clear();
    message.extend_from_slice(objects.describe(stack.handle(1)).as_bytes());
    stack.push_bytes(message);
    1
}

#[cold]
fn refuse(stack: Stack, message: &mut Vec<u8>, text: &str) -> ! {
    message.clear();
    message.extend_from_slice(text.as_bytes());
    stack.raise_here(message)
}
