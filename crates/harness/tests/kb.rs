//! The `kb` table: key and value sources, mixes, counters, streams, parameters and labels.

use crate::support::{Bench, op, repeat};
use std::collections::BTreeSet;

#[test]
fn every_distribution_makes_keys_of_its_population() {
    Bench::new(
        "
        local sources = {
          plain = kb.keys{}, uniform = kb.uniform{}, sequential = kb.sequential{}, zipf = kb.zipf{},
          zipf_theta = kb.zipf{theta = 0.8}, zipf_ycsb = kb.zipf_ycsb{}, latest = kb.latest{},
          hotspot = kb.hotspot{}, gaussian = kb.gaussian{}, exponential = kb.exponential{},
          named = kb.keys{dist = 'zipf:0.5'}, scrambled = kb.keys{dist = 'zipf', scramble = true},
        }
        return { name = 'w', run = function(ctx)
          for name, K in pairs(sources) do
            assert(K:count() == 500, name)
            assert(K:at(7) == 'k:000000000007', name)
            for i = 1, 50 do
              local index = K:index()
              assert(math.type(index) == 'integer' and index >= 0 and index < 500, name)
              local key = K()
              assert(#key == 14 and key:match('^k:%d+$'), name)
              assert(#K:next() == 14, name)
              assert(tonumber(key:sub(3)) < 500, name)
            end
          end
        end }",
    )
    .set(&[("items", "500"), ("ops", "20")])
    .run_clean();
}

#[test]
fn fields_of_keys_mean_what_they_say() {
    Bench::new(
        "
        local K = kb.keys { fmt = 'user%08d', n = 3, first = 10, dist = 'sequential' }
        assert(K() == 'user00000010' and K() == 'user00000011' and K() == 'user00000012')
        assert(K() == 'user00000010')
        assert(K:at(99) == 'user00000099')
        assert(kb.keys{n = 'users'}:count() == 70 and kb.keys{n = 'items'}:count() == 30)
        assert(kb.keys{n = 12.0}:count() == 12)
        local F = kb.fb_key { n = 50 }
        local lengths = {}
        for i = 0, 49 do lengths[#F:at(i)] = true end
        assert(next(lengths, next(lengths)), 'keys of the ETC pool differ in length')
        assert(F:at(3) == F:at(3))
        -- A permutation: as many different indexes as without it.
        local S, seen, count = kb.keys { n = 100, dist = 'sequential', scramble = true }, {}, 0
        for i = 1, 100 do
          local index = S:index()
          if not seen[index] then seen[index] = true count = count + 1 end
        end
        assert(count == 100)
        return { name = 'w', run = function() end }",
    )
    .set(&[("users", "70"), ("items", "30")])
    .run_clean();
}

#[test]
fn key_sets_have_sources_of_their_own() {
    Bench::new(
        "
        local url = 'http://www.fojodi.jp/travel/lunar/silver/water-compass-vdc1pk.html'
        assert(kb.url{}:at(1) == url)
        assert(kb.path{}:at(1) == '/home/porafa/balance-history/profile/topic-vdc1pk.log')
        assert(kb.email{}:at(1) == 'clara.weber126@hinila.com')
        assert(kb.uuid{}:at(1) == '2f32a784-96c6-47c6-8146-fc94586817ec')
        assert(kb.composed{}:at(1) == 'tenant-00006/addresses/0000000000000001')
        assert(kb.decimal{}:at(1) == '3732877802')
        assert(kb.be8{}:at(1) == '\\x2f\\x32\\xa7\\x84\\x96\\xc6|`')
        assert(kb.email{seed = 7}:at(0) == 'ivan.costa93@pasifa.fr')
        assert(kb.keys{fmt = 'at:%{email:7}'}:at(0) == 'at:ivan.costa93@pasifa.fr')
        -- Distributions, populations and permutations are those of all sources.
        local S = kb.uuid { n = 3, first = 10, dist = 'sequential' }
        assert(S() == kb.uuid{}:at(10) and S() == kb.uuid{}:at(11))
        assert(kb.url{n = 'items'}:count() == 30)
        local hot, U = 0, kb.uuid { n = 1000, dist = 'zipf', theta = 2 }
        for _ = 1, 1000 do hot = hot + (U() == U:at(0) and 1 or 0) end
        assert(hot > 500, 'the first key of a Zipf law with theta 2 has 61 %')
        return { name = 'w', run = function() end }",
    )
    .set(&[("items", "30")])
    .run_clean();
}

#[test]
fn sources_stand_where_strings_do_in_every_verb() {
    for engine in ["btree", "skiplist"] {
        let record = Bench::new(
            "
            local K = kb.keys { fmt = 'k%04d', n = 100, dist = 'sequential' }
            local R = kb.keys { fmt = 'k%04d', n = 100, dist = 'sequential' }
            local V = kb.values { size = '5:60' }
            return { name = 'w', run = function(ctx, iter)
              local at = iter - 1
              kv.put(K, V)
              assert(#kv.get(R) >= 5)                      -- the key just written
              local key = R:at(at)
              assert(kv.touch(key) == #kv.get(key))
              kv.rmw(key, V)
              assert(kv.del(key) == true)
              kv.mput(K, V, 3)
              local got = kv.mget(R, 3)
              assert(#got == 3 and #got[3] <= 60)
              kv.mput { { key = 'x', val = 'y' } }
              kv.mput(K, 'same', 2)
              local pair = kv.mget(R, 2)
              assert(pair[1] == 'same' and pair[2] == 'same')
              assert(kv.count(K, nil) >= 0)
              assert(kv.range(K, nil, 1))
              assert(kv.scan(K, nil, function() end) >= 0)
              R() R() R()
              assert(kv.mdel(K, 2) == 2)
              R() R()
              for _ = 1, 89 do K() R() end                 -- a whole lap of 100 draws
            end }",
        )
        .set(&[("backend", engine), ("ops", "1")])
        .run_clean();
        let repeat = repeat(&record);
        assert_eq!(op(repeat, "mput").prim_ops, 3 + 1 + 2);
        assert_eq!(op(repeat, "mget").prim_ops, 3 + 2);
        assert_eq!(op(repeat, "mget").hits, 3 + 2);
        assert_eq!(op(repeat, "mdel").prim_ops, 2);
    }
}

#[test]
fn values_have_the_sizes_that_were_asked_for() {
    Bench::new(
        "
        local tiny, fixed, float = kb.values{size = 0}, kb.values{size = 4096},
          kb.values{size = 64.0}
        local span, text = kb.values{size = '10:20'}, kb.values{size = '128', compress = 0}
        local default, etc = kb.values{}, kb.fb_value{}
        return { name = 'w', run = function()
          assert(#tiny() == 0 and #fixed() == 4096 and #float() == 64 and #text() == 128)
          assert(#default() == 100 and #default:next() == 100)
          local n = #span()
          assert(n >= 10 and n <= 20)
          kv.put('k', etc)
          assert(kv.touch('k') == #kv.get('k'))
        end }",
    )
    .set(&[("ops", "300")])
    .run_clean();
}

#[test]
fn a_mix_draws_by_weight() {
    let record = Bench::new(
        "
        local M = kb.mix { get = 50, put = 30, del = 20, never = 0 }
        return { name = 'w', run = function()
          local name = M()
          if name == 'get' then kv.get('k') elseif name == 'put' then kv.put('k', 'v')
          elseif name == 'del' then kv.del('k') else error(name) end
        end }",
    )
    .set(&[("ops", "20000")])
    .run_clean();
    for (verb, share) in [("get", 0.5), ("put", 0.3), ("del", 0.2)] {
        let (n, p) = (20_000.0, share);
        let sigma = f64::sqrt(n * p * (1.0 - p));
        let calls = op(repeat(&record), verb).calls as f64;
        assert!((calls - n * p).abs() < 4.0 * sigma, "{verb}: {calls} of {n}, share {p}");
    }
}

#[test]
fn a_counter_gives_each_number_once_over_all_threads() {
    let (_, mut stores) = Bench::new(
        "
        local C = kb.counter('inserts', 1000)
        local K = kb.keys { fmt = 'i%08d', n = 5, dist = 'insert', counter = 'own' }
        return { name = 'w', run = function(ctx)
          kv.put('c' .. C(), tostring(ctx.thread))
          kv.put(K, tostring(ctx.thread))
          assert(C:get() > 1000)
        end }",
    )
    .set(&[("threads", "4"), ("ops", "4000")])
    .run_spied();
    let rows = stores.remove(0);
    let text: Vec<String> =
        rows.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect();
    let numbers = |mark: char| -> BTreeSet<u64> {
        text.iter().filter_map(|key| key.strip_prefix(mark)?.parse().ok()).collect()
    };
    assert_eq!(numbers('c'), (1000..5000).collect());
    assert_eq!(numbers('i'), (5..4005).collect());
    let threads: BTreeSet<&[u8]> = rows.iter().map(|(_, value)| value.as_slice()).collect();
    assert_eq!(threads.len(), 4, "every thread took part");
}

#[test]
fn a_counter_starts_at_the_items_and_is_new_in_every_measurement() {
    let bench = Bench::new(
        "
        local C = kb.counter('c')
        return { name = 'w',
          load = function(ctx) assert(C() == ctx.items) end,
          -- The load and the run of one measurement share their counters.
          run = function(ctx, iter) assert(C() == ctx.items + iter) end }",
    )
    .set(&[("items", "77"), ("ops", "10"), ("repeat", "2")]);
    bench.run_clean();
}

#[test]
fn streams_are_in_range_repeatable_and_apart() {
    let script = "
        local A, B, N = kb.rng(), kb.rng(), kb.rng('name')
        local M = kb.rng('name')
        local out = {}
        return { name = 'w', run = function()
          local unit = A()
          assert(unit >= 0 and unit < 1)
          local one = A(6)
          assert(math.type(one) == 'integer' and one >= 1 and one <= 6)
          local two = A(-3, 3)
          assert(two >= -3 and two <= 3)
          assert(A(5, 5) == 5)
          assert(A(math.mininteger, math.maxinteger))
          local a, b, n, m = A(1 << 60), B(1 << 60), N(1 << 60), M(1 << 60)
          assert(a ~= b and a ~= n)
          assert(n == m, 'streams of one name are one stream')
          print(a, b, n)
        end }";
    let lines = |seed: &str| {
        let bench = Bench::new(script).set(&[("seed", seed), ("ops", "20")]);
        bench.run_clean();
        bench.lines()
    };
    assert_eq!(lines("5").len(), 20);
    assert_eq!(lines("5"), lines("5"));
    assert_ne!(lines("5"), lines("6"));
}

#[test]
fn a_named_stream_does_not_depend_on_what_was_made_before_it() {
    let lines = |before: &str| {
        let bench = Bench::new(&format!(
            "{before} local N = kb.rng('x') return {{ run = function() print(N(1 << 50)) end }}"
        ));
        bench.run_clean();
        bench.lines()
    };
    assert_eq!(lines(""), lines("kb.rng() kb.keys{} kb.mix{a = 1}"));
}

/// Expressions of `kb` and words that their error must hold.
const REFUSED: &[(&str, &[&str])] = &[
    ("kb.keys()", &["kb.keys", "table"]),
    ("kb.keys('k')", &["table"]),
    ("kb.keys{ftm = 'k'}", &["unknown field of kb.keys 'ftm'", "did you mean 'fmt'"]),
    ("kb.zipf{teta = 0.5}", &["unknown field of kb.keys 'teta'", "did you mean 'theta'"]),
    ("kb.keys{fmt = '%s'}", &["%s"]),
    ("kb.keys{fmt = 'none'}", &["none"]),
    ("kb.keys{n = 0}", &["number of keys", "0"]),
    ("kb.keys{n = -1}", &["n must be"]),
    ("kb.keys{n = 1.5}", &["n must be"]),
    ("kb.keys{n = 'itmes'}", &["n must be", "items", "users"]),
    ("kb.keys{first = -1}", &["first"]),
    ("kb.keys{dist = 'zip'}", &["zip"]),
    ("kb.keys{dist = 'zipf:-1'}", &["-1"]),
    ("kb.keys{dist = 'zipf:0.5', theta = 0.6}", &["theta", "once"]),
    ("kb.keys{theta = 'much', dist = 'zipf'}", &["theta"]),
    ("kb.keys{counter = {}}", &["counter"]),
    ("kb.keys{counter = kb.values{}}", &["counter"]),
    ("kb.keys{dist = 'insert'}", &["counter"]),
    ("kb.insert{}", &["counter"]),
    ("kb.latest{scramble = true}", &["scramble"]),
    ("kb.url{fmt = '%d'}", &["kb.url has a format of its own", "kb.keys{fmt=\"text%{url}\"}"]),
    ("kb.url{sead = 1}", &["unknown field of kb.keys 'sead'", "did you mean 'seed'"]),
    ("kb.url{seed = -1}", &["seed"]),
    ("kb.keys{seed = 1}", &["seed is for key sets"]),
    ("kb.keys{fmt = '%{urls}'}", &["unknown key set \"urls\"", "url path email"]),
    ("kb.values{sise = 5}", &["unknown field of kb.values 'sise'", "did you mean 'size'"]),
    ("kb.values{size = {}}", &["size"]),
    ("kb.values{size = 'big'}", &["big"]),
    ("kb.values{size = -1}", &["-1"]),
    ("kb.values{compress = 2}", &["compress"]),
    ("kb.mix{}", &["weight"]),
    ("kb.mix{get = -1}", &["weight", "-1"]),
    ("kb.mix{get = 'x'}", &["x"]),
    ("kb.mix{get = 0}", &["weight"]),
    ("kb.rng()(5, 1)", &["interval"]),
    ("kb.rng()('x')", &["kb.rng"]),
    ("kb.rng()(1.5)", &["kb.rng"]),
    ("kb.rng()(1, 'x')", &["kb.rng"]),
    ("kb.counter()", &["#1"]),
    ("kb.counter('c', -5)", &["#2"]),
    ("kb.param('p')", &["default"]),
    ("kb.param('p', {})", &["default"]),
    ("kb.time('l')", &["kb.time", "function"]),
    ("kb.time(5, print)", &["kb.time", "label"]),
    ("kb.sleep_until(-1)", &["kb.sleep_until"]),
    ("kb.keys{}:at()", &["at()"]),
    ("kb.keys{}:at(-1)", &["at()", "0"]),
    ("kb.values{}:at(1)", &["at()", "key source"]),
    ("kb.values{}:index()", &["index()", "key source"]),
    ("kb.rng():count()", &["count()"]),
];

#[test]
fn what_kb_cannot_make_it_refuses_in_words() {
    let mut wrong = Vec::new();
    for (expression, words) in REFUSED {
        let script = format!("local x = {expression} return {{ run = function() end }}");
        let text = match Bench::new(&script).plan() {
            Ok(_) => "not refused".to_owned(),
            Err(refusal) => refusal.to_string(),
        };
        let mut wanted = words.iter().chain(&["w.lua:1"]);
        if wanted.any(|word| !text.contains(word)) || text.lines().count() != 1 {
            wrong.push(format!("{expression}: {words:?} not in: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_error_of_kb_can_be_caught_and_read() {
    let bench = Bench::new(
        "
        local ok, why = pcall(kb.keys, { ftm = 'x' })
        assert(not ok)
        print(type(why), why)
        local ok, why = pcall(function() return kb.values { size = 'big' } end)
        assert(not ok and tostring(why):find('big', 1, true))
        return { name = 'w', run = function() end }",
    );
    bench.run_clean();
    let lines = bench.lines();
    assert!(lines[0].starts_with("string\t"), "{lines:?}");
    assert!(lines[0].contains("unknown field of kb.keys 'ftm'"), "{lines:?}");
    assert!(!lines[0].contains("traceback"), "{lines:?}");
}

#[test]
fn parameters_take_the_type_of_their_default() {
    let script = "
        local n, x, b, s = kb.param('n', 5), kb.param('x', 0.5),
          kb.param('b', false), kb.param('s', 'a')
        return { name = 'w', run = function()
          print(math.type(n), n, math.type(x), x, b, s)
        end }";
    let line = |params: &[&str]| {
        let pairs: Vec<(&str, &str)> = params.iter().map(|param| ("param", *param)).collect();
        let bench = Bench::new(script).set(&pairs);
        bench.run_clean();
        bench.lines().remove(0)
    };
    assert_eq!(line(&[]), "integer\t5\tfloat\t0.5\tfalse\ta");
    assert_eq!(
        line(&["n=4K", "x=2", "b=yes", "s=x = y"]),
        "integer\t4096\tfloat\t2.0\ttrue\tx = y"
    );
    assert_eq!(line(&["n=-3", "n=-4"]), "integer\t-4\tfloat\t0.5\tfalse\ta");
    for (param, words) in [
        ("n=x", "whole number"),
        ("n=1.5", "whole number"),
        ("x=inf", "a number"),
        ("b=maybe", "true or false"),
        ("m=1", "unknown parameter 'm'"),
    ] {
        let text = Bench::new(script).set(&[("param", param)]).refusal();
        assert!(text.contains(words) && text.contains(&param[..1]), "{param}: {text}");
    }
}

#[test]
fn a_label_is_a_row_of_its_own_and_returns_what_its_function_did() {
    let record = Bench::new(
        "
        local C = kb.counter('c', 1)
        return { name = 'w', run = function(ctx, iter)
          local a, b, c = kb.time('checkout', function(x, y)
            kv.put('k', 'v')
            return x, y, nil
          end, 1, 2)
          assert(a == 1 and b == 2 and c == nil)
          assert(select('#', kb.time('checkout', function() return nil, nil end)) == 2)
          assert(select('#', kb.time('empty', function() end)) == 0)
          kb.time('outer', function() kb.time('inner', kv.get, 'k') end)
          -- What fails is not filed.
          local ok, why = pcall(kb.time, 'failing', error, 'x')
          assert(not ok and why == 'x')
        end }",
    )
    .set(&[("threads", "3"), ("ops", "300")])
    .run_clean();
    let repeat = repeat(&record);
    for (label, calls) in [("checkout", 600), ("empty", 300), ("outer", 300), ("inner", 300)] {
        let row = op(repeat, label);
        assert_eq!((row.calls, row.service.count(), row.prim_ops), (calls, calls, 0), "{label}");
    }
    assert!(repeat.ops.iter().all(|op| op.op != "failing"));
    assert_eq!(repeat.prim_ops, 600);
    assert!(op(repeat, "outer").service.sum() >= op(repeat, "inner").service.sum());
}

#[test]
fn labels_are_few() {
    let failure = Bench::unit("for i = 1, 17 do kb.time('l' .. i, math.abs, 1) end").run_failing();
    assert!(failure.reason.contains("more than 16 labels"), "{failure:?}");
}

#[test]
fn a_label_cannot_pass_for_a_verb() {
    for verb in keyrack_record::VERBS {
        let failure = Bench::unit(&format!("kb.time('{verb}', math.abs, 1)")).run_failing();
        assert!(failure.reason.contains("kb.time: the label is the name of a verb"), "{failure:?}");
    }
}

#[test]
fn making_objects_in_run_ends_with_a_remedy() {
    for make in ["kb.keys{}", "kb.mix{a = 1}", "kb.counter('c')", "kb.rng()"] {
        let failure = Bench::unit(make).set(&[("ops", "5000")]).run_failing();
        assert!(failure.reason.contains("more than 4096 kb objects"), "{make}: {failure:?}");
        assert!(failure.reason.contains("setup()"), "{make}: {failure:?}");
    }
}

#[test]
fn handles_describe_themselves_and_cannot_be_changed() {
    let bench = Bench::new(
        "
        local K, V = kb.zipf{n = 10}, kb.values{}
        local M, C, R = kb.mix{get = 1, put = 1}, kb.counter('c', 3), kb.rng()
        C()
        for _, h in ipairs { K, V, M, C, R } do
          assert(type(h) == 'userdata')
          print(tostring(h))
          assert(getmetatable(h) == false)
          assert(not pcall(setmetatable, h, {}))
          assert(not pcall(function() h.x = 1 end))
          assert(not pcall(function() return h + 1 end))
          assert(not pcall(rawset, h, 1, 1))
        end
        -- Methods of one kind, taken and used on anything else.
        local at, index, get = K.at, K.index, C.get
        for _, x in ipairs { 5, 'x', {}, V, M, R, print, true } do
          assert(not pcall(at, x, 1))
          assert(not pcall(index, x))
        end
        assert(not pcall(get, V) and not pcall(get, 17) and not pcall(at) and not pcall(get))
        return { name = 'w', run = function() end }",
    );
    bench.run_clean();
    // The plan reads the file silently; the run's worker prints.
    let lines = bench.lines();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[0].starts_with("kb.keys: zipf:0.99 over 10 keys"), "{lines:?}");
    assert_eq!(lines[1..], ["kb.values", "kb.mix of get, put", "kb.counter c at 4", "kb.rng"]);
}

#[test]
fn the_clock_of_a_script_goes_forward() {
    Bench::unit(
        "
        local before = kb.now()
        assert(before >= 0)
        kb.sleep_until(before + 0.01)
        assert(kb.now() >= before + 0.01)
        kb.sleep_until(0)",
    )
    .set(&[("ops", "3")])
    .run_clean();
}
