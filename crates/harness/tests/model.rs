//! Every verb against a model written in Lua: a table and a sorted list of its keys.
//!
//! Each unit draws one operation from `math.random`, which the harness seeds, performs it on the
//! store and on the table, and asserts that the answers agree. Keys and values hold NUL bytes, are
//! empty, or are numbers, which stand for what `tostring` makes of them.

use crate::support::{Bench, op, repeat};
use keyrack_testkit::random::seed_or;

const DRIVER: &str = r##"
local pool = { "", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b", "\127", "\128", "\255", "\255\255",
               1, 2, 10, -3, 1.5, 1e300, 2^53, "10", "zz", string.rep("long", 100) }
for i = 1, 24 do pool[#pool + 1] = string.format("k:%03d", i) end
local values = { "", "x", "\0", "end\0", 7, 2.5, string.rep("v", 3000), "\255\0\255" }
local model, random = {}, math.random
local function text(x) return type(x) == "number" and tostring(x) or x end
local function key() return pool[random(#pool)] end
local function value() return values[random(#values)] end
local function same(what, got, want)
  if got ~= want then
    error(string.format("%s: got %q, want %q", what, tostring(got), tostring(want)), 2)
  end
end

-- What a range answers, by the model.
local function rows(lo, hi, limit)
  local all = {}
  for k in pairs(model) do
    if k >= text(lo) and (hi == nil or k < text(hi)) then all[#all + 1] = k end
  end
  table.sort(all)
  while limit and limit > 0 and #all > limit do table.remove(all) end
  return all
end

local function bounds()
  local hi, limit = key(), nil
  if random(5) == 1 then hi = nil end
  if random(2) == 1 then limit = random(-1, 6) end
  return key(), hi, limit
end

local function keys()
  local list = {}
  for i = 1, random(0, 9) do list[i] = key() end
  return list
end

local steps = {
  function() local k, v = key(), value(); same("put", select("#", kv.put(k, v)), 0);
    model[text(k)] = text(v) end,
  function() local k = key(); same("get", kv.get(k), model[text(k)]) end,
  function() local k = key(); local v = model[text(k)]; same("touch", kv.touch(k), v and #v) end,
  function() local k = key(); same("del", kv.del(k), model[text(k)] ~= nil);
    model[text(k)] = nil end,
  function() local k, v = key(), value(); same("rmw", select("#", kv.rmw(k, v)), 0);
    model[text(k)] = text(v) end,
  function()
    local lo, hi, limit = bounds()
    local got, want = kv.range(lo, hi, limit), rows(lo, hi, limit)
    same("range length", #got, #want)
    for i, k in ipairs(want) do
      same("range key", got[i].key, k)
      same("range value", got[i].val, model[k])
    end
  end,
  function()
    local lo, hi, limit = bounds()
    local want, seen = rows(lo, hi, limit), 0
    local n = kv.scan(lo, hi, function(k, v)
      seen = seen + 1
      same("scan key", k, want[seen])
      same("scan value", v, model[k])
    end, limit)
    same("scan rows", seen, #want)
    same("scan count", n, #want)
  end,
  function()
    local lo, hi, limit = bounds()
    same("count", kv.count(lo, hi, limit), #rows(lo, hi, limit))
  end,
  function()
    local list = keys()
    local got, last = kv.mget(list), 0
    for i, k in ipairs(list) do same("mget", got[i], model[text(k)]) end
    for i in pairs(got) do assert(i >= 1 and i <= #list, "mget: a stray index") end
  end,
  function()
    local list = {}
    for i = 1, random(0, 9) do list[i] = { key = key(), val = value() } end
    same("mput", select("#", kv.mput(list)), 0)
    for _, pair in ipairs(list) do model[text(pair.key)] = text(pair.val) end
  end,
  function()
    local list = keys()
    same("mdel", kv.mdel(list), #list)
    for _, k in ipairs(list) do model[text(k)] = nil end
  end,
}

return {
  name = "model",
  run = function(ctx, iter)
    assert(iter == ctx.iter)
    steps[random(#steps)]()
  end,
}
"##;

#[test]
fn every_verb_agrees_with_a_table_on_every_engine() {
    for engine in ["btree", "skiplist"] {
        for round in 0..3 {
            let seed = seed_or(0x5eed).wrapping_add(round);
            println!("SEED={seed} on {engine}");
            let bench = Bench::new(DRIVER).set(&[
                ("backend", engine),
                ("seed", &seed.to_string()),
                ("ops", "3000"),
            ]);
            let record = bench.run_clean();
            let repeat = repeat(&record);
            assert_eq!(repeat.units, 3000);
            // A driver that draws no hits, or nothing at all of a verb, would prove nothing.
            for verb in ["put", "get", "del", "range", "mget", "mput", "mdel", "rmw"] {
                assert!(op(repeat, verb).calls > 100, "{verb}: {}", op(repeat, verb).calls);
            }
            assert!(op(repeat, "get").hits > 50 && op(repeat, "get").misses > 50);
        }
    }
}

#[test]
fn the_model_can_fail() {
    // An engine that forgets is found out: the null engine holds nothing.
    let bench = Bench::new(DRIVER)
        .set(&[("backend", "null"), ("ops", "3000")])
        .engine("null", &[("miss", "yes")]);
    let failure = bench.run_failing();
    assert!(failure.reason.contains("got") && failure.reason.contains("want"), "{failure:?}");
}
