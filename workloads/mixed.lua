-- A uniform blend of get, put, del and short range: a plain baseline of an engine.
-- Keys are strings built in Lua, as most scripts do it; mixed-native.lua and mixed-declarative.lua
-- are the same work with less Lua in the loop. Reads ctx.items as its key space.
-- The dataset is items x value_bytes: raise either to outgrow memory.

local value_bytes = kb.param("value_bytes", 100)
local rows = kb.param("rows", 100)
local value = string.rep("v", value_bytes)

local function key(i)
  assert(i >= 0, "key index below zero")
  return string.format("k:%012d", i)
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
  local i = math.random(0, items - 1)
  local roll = math.random(1, 100)
  if roll <= 50 then
    local found = kv.get(key(i))
    assert(found == nil or #found > 0, "an empty value came back")
  elseif roll <= 80 then
    kv.put(key(i), value)
  elseif roll <= 90 then
    kv.del(key(i))
  else
    local found = kv.range(key(i), key(i + rows), rows)
    assert(#found <= rows, "a range returned more than its limit")
  end
end

return { name = "mixed", load = load, run = run }
