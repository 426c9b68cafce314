-- mixed.lua with native sources: Lua rolls the dice, keys and values come from kb without a Lua
-- string being built. The value is real data that compresses to about half.

local rows = kb.param("rows", 100)
local K = kb.keys { fmt = "k:%012d", n = "items" }
local S = kb.sequential { fmt = "k:%012d", n = "items" }
local V = kb.values { size = kb.param("value_bytes", 100), compress = 0.5 }

local function load(ctx)
  local left = math.ceil((ctx.items - ctx.thread) / ctx.threads)
  while left > 0 do
    local group = math.min(left, 512)
    kv.mput(S, V, group)
    left = left - group
  end
end

-- Locals: a global costs two table lookups at each use.
local random = math.random
local get, put, del, count = kv.get, kv.put, kv.del, kv.count

local function run()
  local roll = random(100)
  if roll <= 50 then
    get(K)
  elseif roll <= 80 then
    put(K, V)
  elseif roll <= 90 then
    del(K)
  else
    count(K, nil, rows)
  end
end

return { name = "mixed-native", load = load, load_keys = "items", run = run }
