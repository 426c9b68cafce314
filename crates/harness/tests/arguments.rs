//! Wrong arguments: the error names the verb and what it wanted, `pcall` catches it, and the worker
//! goes on. Uncaught, it fails its cell with file, line and traceback, and the other cells go on.

use crate::support::{Bench, op, repeat};

/// A call, and words that its error must hold beside the verb.
const CALLS: &[(&str, &[&str])] = &[
    ("kv.put()", &["kv.put", "key", "string", "no value"]),
    ("kv.put('k')", &["kv.put", "value", "string", "no value"]),
    ("kv.put(nil, 'v')", &["kv.put", "key", "nil"]),
    ("kv.put({}, 'v')", &["kv.put", "key", "table"]),
    ("kv.put('k', true)", &["kv.put", "value", "boolean"]),
    ("kv.put('k', K)", &["kv.put", "value", "kb object"]),
    ("kv.put(V, 'v')", &["kv.put", "key", "kb object"]),
    ("kv.get()", &["kv.get", "key", "no value"]),
    ("kv.get(true)", &["kv.get", "key", "boolean"]),
    ("kv.get(V)", &["kv.get", "key", "kb object"]),
    ("kv.get(C)", &["kv.get", "key", "kb object"]),
    ("kv.get(function() end)", &["kv.get", "key", "function"]),
    ("kv.touch()", &["kv.touch", "key", "no value"]),
    ("kv.touch({})", &["kv.touch", "key", "table"]),
    ("kv.del()", &["kv.del", "key", "no value"]),
    ("kv.del(coroutine.create(print))", &["kv.del", "key"]),
    ("kv.rmw()", &["kv.rmw", "key", "no value"]),
    ("kv.rmw('k')", &["kv.rmw", "value", "no value"]),
    ("kv.range()", &["kv.range", "key", "no value"]),
    ("kv.range('a')", &["kv.range", "upper bound", "no value"]),
    ("kv.range('a', {})", &["kv.range", "upper bound", "table"]),
    ("kv.range('a', 'b', 'x')", &["kv.range", "limit", "integer", "string"]),
    ("kv.range('a', 'b', 1.5)", &["kv.range", "limit", "integer", "number"]),
    ("kv.range('a', 'b', {})", &["kv.range", "limit", "table"]),
    ("kv.scan()", &["kv.scan", "function", "no value"]),
    ("kv.scan('a', 'b')", &["kv.scan", "function", "no value"]),
    ("kv.scan('a', 'b', 'f')", &["kv.scan", "function", "string"]),
    ("kv.scan(nil, 'b', print)", &["kv.scan", "key", "nil"]),
    ("kv.scan('a', true, print)", &["kv.scan", "upper bound", "boolean"]),
    ("kv.scan('a', 'b', print, 'x')", &["kv.scan", "limit", "string"]),
    ("kv.count()", &["kv.count", "key", "no value"]),
    ("kv.count('a')", &["kv.count", "upper bound", "no value"]),
    ("kv.count('a', 'b', true)", &["kv.count", "limit", "boolean"]),
    ("kv.mget()", &["kv.mget", "array of keys", "no value"]),
    ("kv.mget('k')", &["kv.mget", "array of keys", "string"]),
    ("kv.mget({'a', {}})", &["kv.mget", "element 2", "key"]),
    ("kv.mget({'a', true})", &["kv.mget", "element 2", "key"]),
    ("kv.mget(K)", &["kv.mget", "count"]),
    ("kv.mget(K, -1)", &["kv.mget", "count"]),
    ("kv.mget(K, 1 << 40)", &["kv.mget", "count"]),
    ("kv.mget(V, 2)", &["kv.mget", "key", "kb object"]),
    ("kv.mput()", &["kv.mput", "array", "no value"]),
    ("kv.mput({'a'})", &["kv.mput", "element 1", "pair"]),
    ("kv.mput({{key = 'a'}})", &["kv.mput", "element 1", "'val'"]),
    ("kv.mput({{val = 'a'}})", &["kv.mput", "element 1", "'key'"]),
    ("kv.mput({{key = 'a', val = {}}})", &["kv.mput", "element 1", "'val'"]),
    ("kv.mput(K, V)", &["kv.mput", "count"]),
    ("kv.mput(K, K, 2)", &["kv.mput", "value", "kb object"]),
    ("kv.mput(K, {}, 2)", &["kv.mput", "value", "table"]),
    ("kv.mdel()", &["kv.mdel", "array of keys", "no value"]),
    ("kv.mdel({1, 2, print})", &["kv.mdel", "element 3", "key"]),
    ("kv.mdel(K, 'x')", &["kv.mdel", "count"]),
];

#[test]
fn wrong_arguments_raise_an_error_that_names_the_verb_and_can_be_caught() {
    let mut body = String::new();
    for (call, words) in CALLS {
        let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        body.push_str(&format!(
            "check({call:?}, function() {call} end, {{{}}})\n",
            words.join(", ")
        ));
    }
    let script = format!(
        "local K, V, C = kb.keys{{n = 10}}, kb.values{{}}, kb.counter('c')\n\
         local function check(call, fn, words)\n\
         \x20 local ok, message = pcall(fn)\n\
         \x20 assert(not ok, call .. ': no error')\n\
         \x20 assert(type(message) == 'string', call .. ': not a text')\n\
         \x20 assert(message:find('w.lua:%d+:'), call .. ': no place: ' .. message)\n\
         \x20 for _, word in ipairs(words) do\n\
         \x20   assert(message:find(word, 1, true), call .. ': no ' .. word .. ': ' .. message)\n\
         \x20 end\n\
         end\n\
         return {{ name = 'w', run = function()\n{body}\nkv.put('k', 'v')
           assert(kv.get('k') == 'v') end }}"
    );
    for engine in ["btree", "skiplist"] {
        let record = Bench::new(&script).set(&[("backend", engine), ("ops", "20")]).run_clean();
        // Refused calls are not operations.
        assert_eq!(repeat(&record).prim_ops, 40);
        assert_eq!(repeat(&record).ops.len(), 2);
        assert_eq!(op(repeat(&record), "get").hits, 20);
    }
}

#[test]
fn an_error_that_nobody_catches_fails_its_cell_with_place_and_traceback() {
    let script = "return { name = 'w', run = function(ctx, iter)\n\
                  kv.put('k', iter)\n\
                  if ctx.threads == 2 and iter == 3 then\n\
                  local function deep() kv.get(nil) end\n\
                  deep()\n\
                  end\nend }";
    let record = Bench::new(script).set(&[("threads", "1,2,3"), ("ops", "30")]).run();
    let threads: Vec<u32> = record.points.iter().map(|point| point.cell.threads).collect();
    assert_eq!(threads, [1, 3]);
    assert_eq!(record.failures.len(), 1);
    let failure = &record.failures[0];
    assert_eq!(failure.cell.threads, 2);
    assert!(failure.reason.starts_with("run() error at unit 3: /w.lua:4: kv.get"), "{failure:?}");
    assert_eq!(failure.reason.lines().count(), 1);
    assert!(failure.detail.contains("/w.lua:5"), "{failure:?}");
    assert!(failure.detail.contains("[C]"), "{failure:?}");
}

#[test]
fn other_kinds_of_error_values_are_shown_too() {
    for (raise, words) in [
        ("error('plain')", "plain"),
        ("error('plain', 0)", "plain"),
        ("error(42)", "42"),
        ("error({})", "table"),
        ("error(nil)", "nil"),
        ("error()", "nil"),
        ("error(setmetatable({}, {__tostring = function() return 'shown' end}))", "shown"),
        ("local x = nil; x.y = 1", "index a nil value"),
        ("error('a\\nb')", "a b"),
    ] {
        let failure = Bench::unit(raise).run_failing();
        assert!(failure.reason.starts_with("run() error at unit 1: "), "{raise}: {failure:?}");
        assert!(failure.reason.contains(words), "{raise}: {failure:?}");
        assert_eq!(failure.reason.lines().count(), 1, "{raise}: {failure:?}");
    }
}

#[test]
fn a_file_that_is_no_workload_is_refused_with_one_line() {
    for (text, words) in [
        ("", "must `return` a workload table"),
        ("return 5", "returned"),
        ("return {}", "missing run()"),
        ("return { run = 5 }", "run must be a function"),
        ("return { run = print, mix = {} }", "run or mix"),
        ("return { run = print, load = {} }", "load must be a function"),
        ("return { run = print, laod = print }", "did you mean 'load'"),
        ("return { run = print, name = {} }", "name"),
        ("return { run = ", "/w.lua:1"),
        ("error('at the top')", "/w.lua:1: at the top"),
        ("kv.put('a', 'b') return { run = print }", "no store"),
        ("return { run = print, batched = true, sweep = {} }", "batched or sweep"),
    ] {
        let text = Bench::new(text).refusal();
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn load_and_setup_errors_say_where_they_happened() {
    let run = "run = function() end";
    let failure =
        Bench::new(&format!("return {{ load = function() error('x') end, {run} }}")).run_failing();
    assert!(failure.reason.starts_with("load() error: /w.lua:1: x"), "{failure:?}");
    let failure =
        Bench::new(&format!("return {{ setup = function() error('x') end, {run} }}")).run_failing();
    assert!(failure.reason.contains("/w.lua:1: x"), "{failure:?}");
}
