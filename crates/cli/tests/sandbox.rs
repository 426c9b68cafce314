//! What a script may not do: each way out is closed with a message that names the flag, memory is
//! bounded, and a unit without an end is broken.

use crate::support::{Lab, Outcome};

/// A run whose unit is `body`, with the flags.
fn unit(body: &str, flags: &str) -> Outcome {
    let lab = Lab::with("x.lua", format!("return {{ name = 'x', run = function()\n{body}\nend }}"));
    lab.run(&format!("bench --backend null --ops 1 --probe none {flags} x.lua"))
}

#[test]
fn every_way_out_is_closed_and_says_how_to_open_it() {
    for (name, body) in [
        ("os.execute", "os.execute('true')"),
        ("os.remove", "os.remove('x.lua')"),
        ("os.getenv", "os.getenv('HOME')"),
        ("os.exit", "os.exit(0)"),
        ("os.tmpname", "os.tmpname()"),
        ("io.open", "io.open('x.lua')"),
        ("io.popen", "io.popen('true')"),
        ("io.write", "io.write('x')"),
        ("package.loadlib", "package.loadlib('x', 'y')"),
        ("package.path", "return package.path"),
        ("require", "require('x')"),
        ("dofile", "dofile('x.lua')"),
        ("loadfile", "loadfile('x.lua')"),
        ("string.dump", "string.dump(print)"),
        ("debug.getregistry", "debug.getregistry()"),
        ("debug.sethook", "debug.sethook()"),
    ] {
        let out = unit(body, "").exits(1);
        let named = out.stdout.contains(name) && out.stdout.contains("--unsafe-lua");
        assert!(named, "{name}: {}", out.told());
        assert!(out.stdout.contains("x.lua:2"), "where: {}", out.told());
        // At the top of a file it is refused before anything runs.
        let lab = Lab::with(
            "x.lua",
            format!("{body}\nreturn {{ run = function() end }}")
                .replace("return package", "local _ = package"),
        );
        lab.run("bench --backend null --ops 1 x.lua").refuses(&["x.lua:1", name, "--unsafe-lua"]);
    }
}

#[test]
fn bytecode_is_not_loaded() {
    unit("assert(load('\\27Lua\\x54\\0\\x19\\x93'))", "").exits(1).says("binary chunk");
    unit("load('return 1', 'x', 'b')", "").exits(1).says("--unsafe-lua");
    unit("assert(load('return 1', 'x', 't')() == 1) assert(load('return 2')() == 2)", "").exits(0);
    // The libraries cannot be had back from where they came.
    unit("local m = getmetatable(os) assert(m == false)", "").exits(0);
    unit("assert(rawget(os, 'execute') == nil and rawget(io, 'open') == nil)", "").exits(0);
    unit("assert(load('return os.execute')())", "").exits(1).says("--unsafe-lua");
}

#[test]
fn what_computes_is_there() {
    let body = "assert(os.time() > 0 and os.clock() >= 0 and type(os.date()) == 'string')\n\
                assert(math.floor(1.5) == 1 and #table.pack(1, 2) == 2 and utf8.char(65) == 'A')\n\
                assert(coroutine.wrap(function() return 7 end)() == 7)\n\
                assert(select('#', pcall(error)) == 2 and string.format('%d', 3) == '3')";
    unit(body, "").exits(0);
}

#[test]
fn the_flag_lifts_it() {
    unit("assert(os.execute('true') and io.open('x.lua') and debug.getregistry())", "--unsafe-lua")
        .exits(0);
    unit("assert(load(string.dump(function() return 5 end))() == 5)", "--unsafe-lua").exits(0);
    let lab =
        Lab::with("x.lua", "return { name = 'x', run = function() assert(io.open('x.lua')) end }");
    lab.write("a.cnf", "unsafe_lua = yes\n");
    lab.run("bench --backend null --ops 1 --probe none --config a.cnf x.lua").exits(0);
}

#[test]
fn what_scripts_print_is_talk() {
    let out = unit("print('from', 'the script', 7)", "--report tsv").exits(0);
    let out = out.warns("from\tthe script\t7");
    assert!(!out.stdout.contains("from"), "{}", out.told());
}

#[test]
fn memory_is_bounded() {
    for bomb in [
        "local s = string.rep('x', 1 << 30)",
        "local s = ('x'):rep(1 << 20) while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
        "local t = {} while true do t = { t } end",
    ] {
        unit(bomb, "--lua-memory 32M").exits(1).says("memory");
    }
    // Outside of a unit as well.
    let lab =
        Lab::with("x.lua", "local s = string.rep('x', 1 << 30)\nreturn { run = function() end }");
    lab.run("bench --backend null --lua-memory 32M x.lua").refuses(&[
        "x.lua",
        "memory",
        "--lua-memory",
    ]);
}

#[test]
fn an_endless_unit_is_broken_and_the_run_goes_on() {
    let lab = Lab::with("good.lua", "return { name = 'good', run = function() kv.get('k') end }");
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do kv.get('k') end",
        "local function f() return f() end f()",
    ] {
        lab.write("x.lua", format!("return {{ name = 'x', run = function() {body} end }}"));
        let line = "bench --backend null --secs 0.1 --unit-timeout 1 --probe none x.lua good.lua";
        let out = lab.run(line).exits(1).says("failed cells:").says("--unit-timeout");
        out.says("=== good ===");
    }
}
