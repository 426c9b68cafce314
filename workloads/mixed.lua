-- A uniform blend of get, put, del and short range: a plain baseline of an engine.
-- Keys are strings built in Lua, as most scripts do it; mixed-native.lua and mixed-declarative.lua
-- are the same work with less Lua in the loop. Reads ctx.items as its key space.
-- The dataset is items x value_bytes: raise either to outgrow memory.

local value_bytes = kb.param("value_bytes", 100)
local rows = kb.param("rows", 100)
local value = string.rep("v", value_bytes)

-- Locals: a global costs two table lookups at each use.
local format, random, assert = string.format, math.random, assert
local get, put, del, range = kv.get, kv.put, kv.del, kv.range

local function key(i)
  assert(i >= 0, "key index below zero")
  return format("k:%012d", i)
end

local function load(ctx)
  local group = {}
  for i = ctx.thread, ctx.items - 1, ctx.threads do
    group[#group + 1] = { key = key(i), val = value }
    if #group == 512 then
      kv.mput(group)
      group = {}
    end
  end
  kv.mput(group)
end

local function run(ctx)
  local items = ctx.items
  assert(items > 0, "items must be positive")
  local i = random(0, items - 1)
  local roll = random(100)
  if roll <= 50 then
    local found = get(key(i))
    assert(found == nil or #found > 0, "an empty value came back")
  elseif roll <= 80 then
    put(key(i), value)
  elseif roll <= 90 then
    del(key(i))
  else
    local found = range(key(i), key(i + rows), rows)
    assert(#found <= rows, "a range returned more than its limit")
  end
end

return { name = "mixed", load = load, load_keys = "items", run = run }
