//! What scripts must not reach. Every attempt is refused or harmless, the process lives on, and the
//! verbs work afterwards.

use crate::support::{Bench, repeat};

/// Expressions that must raise an error that names what is missing.
const REFUSED: &[&str] = &[
    "os.execute('true')",
    "os.exit(3)",
    "os.getenv('PATH')",
    "os.remove('/w.lua')",
    "os.rename('/a', '/b')",
    "os.tmpname()",
    "os.setlocale('C')",
    "io.open('/etc/passwd')",
    "io.popen('true')",
    "io.lines('/etc/passwd')",
    "io.write('x')",
    "io.stdout:write('x')",
    "debug.getregistry()",
    "debug.getinfo(1)",
    "debug.sethook(print, 'c')",
    "debug.getupvalue(kv.put, 1)",
    "debug.setupvalue(kv.put, 1, 0)",
    "debug.setmetatable('', {})",
    "debug.upvalueid(kv.put, 1)",
    "package.loadlib('libc.so.6', '*')",
    "package.loaded.os.execute('true')",
    "package.searchpath('x', '?')",
    "require('os')",
    "dofile('/w.lua')",
    "loadfile('/w.lua')",
    "string.dump(function() end)",
    "('').dump(function() end)",
    "load('return 1', 'x', 'b')",
    "load(string.char(27) .. 'Lua', 'x', 'b')",
    "load('return 1', 'x', 'tb')",
];

#[test]
fn what_is_not_computing_is_refused_in_words() {
    for expression in REFUSED {
        let failure = Bench::unit(expression).run_failing();
        let reason = &failure.reason;
        assert!(reason.contains("/w.lua:2: "), "{expression}: {reason}");
        assert!(reason.contains("--unsafe-lua"), "{expression}: {reason}");
    }
}

/// Statements that may do what they like, as long as they finish and harm nothing.
const HARMLESS: &[&str] = &[
    // Bytecode is not loaded, whatever it is called.
    "local f, why = load(string.char(27) .. 'Lua\\x54\\0') assert(f == nil and why:find('binary'))",
    "local f = load('return 1 + 1') assert(f() == 2)",
    "local parts, i = { 'return ', '7' }, 0
     local f = load(function() i = i + 1 return parts[i] end) assert(f() == 7)",
    "local f = load(function() return nil end) assert(f)",
    "local n = 0
     local f, why = load(function() n = n + 1 if n == 1 then return '\\27Lua' end end)
       assert(not f)",
    // An environment of its own is allowed and brings nothing back.
    "local env = {} local f = load('x = 1 return kv', 'x', 't', env)
      assert(f() == nil and env.x == 1)",
    // Strings share a metatable; what is reachable through it is the fenced library.
    "local s = getmetatable('') assert(s == nil or s.__index == string)",
    "local s = getmetatable('').__index assert(not pcall(s.dump, print))",
    "assert(not pcall(setmetatable, os, {})) assert(getmetatable(os) == false)",
    "assert(rawget(os, 'execute') == nil and rawget(io, 'open') == nil and next(debug) == nil)",
    "for k in pairs(os) do assert(k == 'time' or k == 'clock' or k == 'date'
      or k == 'difftime', k) end",
    "for name, value in pairs(_G) do assert(name ~= 'jit' and name ~= 'newproxy'
      or type(value) == 'function') end",
    // Tampering with globals stays in Lua.
    "local g = _G for k in pairs(g) do g[k] = nil end",
    "local put, get = kv.put, kv.get kv.put, kv.get = nil, nil put('a', 'b')
      kv.put, kv.get = put, get",
    "_ENV = {}",
    "local real = tostring tostring = function() return {} end print('x') tostring = real",
    "setmetatable(_G, { __index = function() error('no') end,
      __newindex = function() error('no') end })
     setmetatable(_G, nil)",
    "ctx.iter = 'x' ctx.thread = {} setmetatable(ctx, nil)",
    // Things that are big or deep end in an error that can be caught.
    "assert(not pcall(string.rep, 'x', 1 << 40))",
    "assert(not pcall(string.rep, 'x', 1 << 62))",
    "local t = {} assert(not pcall(function() while true do t[#t + 1] = ('x'):rep(1 << 20)
      .. #t end end))",
    "assert(not pcall(function() local s = 'x' while true do s = s .. s end end))",
    "local function f() return 1 + f() end assert(not pcall(f))",
    "local function f() return pcall(f) end f()",
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end
     assert(not pcall(function() return t.x end))",
    "local f, why = load('return ' .. ('('):rep(100000) .. '1' .. (')'):rep(100000)) assert(not f)",
    "local f, why = load('return ' .. ('{'):rep(100000) .. ('}'):rep(100000)) assert(not f)",
    "local f, why = load(('do '):rep(100000)) assert(not f)",
    "local f, why = load('return ' .. ('-'):rep(50000):gsub('-', '- ') .. '1') assert(f or why)",
    "pcall(string.find, ('a'):rep(5000), ('a?'):rep(5000) .. ('a'):rep(5000))",
    "assert(not pcall(string.find, 'x', ('('):rep(100)))",
    "assert(not pcall(string.find, ('x'):rep(300000), ('(.-)'):rep(40)))",
    "pcall(string.format, '%99999d', 1) pcall(string.format, ('%s'):rep(1000))",
    "pcall(string.pack, 'i17', 1) pcall(string.unpack, 's8', ('\\255'):rep(8))",
    "pcall(table.concat, {}, 'x', 1, 1 << 40) pcall(table.unpack, {}, 1, 1 << 30)",
    "pcall(table.move, {}, 1, math.maxinteger, 2) pcall(select, -1)",
    "pcall(table.sort, { 3, 1, 2, 5, 4, 9, 8, 7 }, function() return true end)",
    "pcall(os.date, '%Ez') pcall(os.date, ('%c'):rep(1000)) pcall(os.time, { year = 1 << 60 })",
    // Coroutines.
    "local function bomb(n) return coroutine.wrap(function() return bomb(n + 1) end)() end
     assert(not pcall(bomb, 0))",
    "local list = {} for i = 1, 20000 do
      list[i] = coroutine.create(function() coroutine.yield() end)
     coroutine.resume(list[i]) end",
    "local co co = coroutine.create(function() return coroutine.resume(co) end)
      coroutine.resume(co)",
    "assert(not pcall(coroutine.yield))",
    // Finalizers are refused; weak tables and collections are not.
    "assert(not pcall(setmetatable, {}, { __gc = print })) collectgarbage() collectgarbage()",
    "local weak = setmetatable({}, { __mode = 'kv' }) weak[1] = {} collectgarbage()
     assert(weak[1] == nil)",
    "collectgarbage('stop') collectgarbage('generational') collectgarbage('incremental')
      collectgarbage('restart')",
    "warn('@on', 'x') warn('harmless')",
];

#[test]
fn attempts_at_breaking_out_leave_the_process_and_the_verbs_whole() {
    let mut wrong = Vec::new();
    for statements in HARMLESS {
        let script = format!(
            "local kv, assert = kv, assert
             local attack = function(ctx, iter)
             {statements}
             end
             return {{ name = 'w', run = function(ctx, iter)
               if iter == 2 then attack(ctx, iter) end
               kv.put('k', 'v')
               assert(kv.get('k') == 'v')
             end }}"
        );
        let bench = Bench::new(&script).set(&[("ops", "3"), ("lua-memory", "64M")]);
        let record = bench.run();
        match record.failures.first() {
            Some(failure) => wrong.push(format!("{statements}: {}", failure.reason)),
            None => assert_eq!(repeat(&record).units, 3, "{statements}"),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(REFUSED.len() + HARMLESS.len() >= 60);
}

#[test]
fn more_memory_than_allowed_fails_the_cell_and_not_the_process() {
    for (script, phase) in [
        ("return { name = 'w', run = function()
           T = { T, ('x'):rep(1 << 20) .. math.random() } end }",
          "run"),
        ("return { name = 'w', load = function() local t = {} for i = 1, 1e9 do t[i] = i end end,
           run = function() end }", "load"),
        ("return { name = 'w', setup = function() local t = {} for i = 1, 1e9 do t[i] = i end end,
           run = function() end }", "memory"),
        ("return { name = 'w', load = function() for i = 1, 1000 do
          kv.put(i, ('x'):rep(1 << 16)) end end,
           run = function() local r = kv.range('', nil) end }", "run"),
        ("return { name = 'w', run = function() local k = {} for i = 1, 1e7 do k[i] = i end
          kv.mget(k) end }", "run"),
    ] {
        let bench = Bench::new(script).set(&[("ops", "1000"), ("lua-memory", "16M")]);
        let failure = bench.run_failing();
        assert!(failure.reason.contains("memory"), "{script}: {failure:?}");
        assert!(failure.reason.contains(phase), "{script}: {failure:?}");
    }
    let text = Bench::new("local t = {} for i = 1, 1e9 do t[i] = i end return { run = print }")
        .set(&[("lua-memory", "16M")])
        .refusal();
    assert!(text.contains("memory"), "{text}");
}

#[test]
fn compiled_files_are_not_run() {
    let text = Bench::new("\u{1b}Lua").refusal();
    assert!(text.contains("compiled Lua is not accepted"), "{text}");
}

#[test]
fn print_reaches_the_hook_from_one_worker_and_never_standard_output() {
    let bench = Bench::new(
        "print('top') return { name = 'w', run = function(ctx, iter)
           print('unit', iter, nil, true, 1.5, ctx.thread)
         end }",
    )
    .set(&[("threads", "3"), ("ops", "3")]);
    let (record, stdout) = bench.run_outputs();
    assert!(record.unwrap().failures.is_empty());
    assert_eq!(bench.lines(), ["top", "unit\t1\tnil\ttrue\t1.5\t0"]);
    assert!(!stdout.contains("unit\t") && !stdout.contains("top"), "{stdout}");
}

#[test]
fn scripts_of_one_run_share_nothing() {
    let record = Bench::unit(
        "if iter == 1 then assert(leak == nil and string.leak == nil and kv.leak == nil) end
         leak, string.leak, kv.leak = true, true, true",
    )
    .set(&[("threads", "1,2"), ("ops", "4"), ("repeat", "2")])
    .run_clean();
    assert_eq!(record.points.len(), 2);
}

#[test]
fn the_flag_lifts_the_sandbox() {
    let bench = Bench::unit("print(type(io.open), type(debug.getinfo(1)), type(os.getenv))")
        .set(&[("unsafe-lua", "yes")]);
    bench.run_clean();
    assert_eq!(bench.lines(), ["function\ttable\tfunction"]);
}

#[test]
fn a_finalizer_would_run_in_the_middle_of_a_verb_and_is_refused() {
    // It would be called while `kv.range` makes tables of the rows that its own `kv.range` clears.
    let body = "setmetatable({}, { __gc = function() kv.range('', nil) end })";
    for open in ["no", "yes"] {
        let failure = Bench::unit(body).set(&[("unsafe-lua", open)]).run_failing();
        assert!(failure.reason.contains("/w.lua:2: __gc is not available"), "{failure:?}");
    }
    // One that is added later is none: Lua looks when the metatable is set.
    Bench::unit(
        "local meta = {}
         local t = setmetatable({}, meta)
         meta.__gc = function() finalized = true end
         t = nil
         collectgarbage()
         assert(not finalized and not pcall(setmetatable, 1, {}) and not pcall(setmetatable, {}))
         assert(getmetatable(setmetatable({}, nil)) == nil)",
    )
    .run_clean();
}
