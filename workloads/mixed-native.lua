-- mixed.lua with native sources: Lua rolls the dice, keys and values come from kb without a Lua
-- string being built. The value is real data that compresses to about half.

local rows = kb.param("rows", 100)
local K = kb.keys { fmt = "k:%012d", n = "items" }
local S = kb.sequential { fmt = "k:%012d", n = "items" }
local V = kb.values { size = kb.param("value_bytes", 100), compress = 0.5 }

local function load(ctx)
  local left = (ctx.items - ctx.thread + ctx.threads - 1) // ctx.threads
  while left > 0 do
    local count = math.min(left, 512)
    kv.mput(S, V, count)
    left = left - count
  end
end

local random = math.random

local function run()
  local roll = random(1, 100)
  if roll <= 50 then
    kv.get(K)
  elseif roll <= 80 then
    kv.put(K, V)
  elseif roll <= 90 then
    kv.del(K)
  else
    kv.count(K, nil, rows)
  end
end

return { name = "mixed-native", load = load, run = run }
