-- The mix of mixed.lua over value sizes. Each size is loaded afresh: seed_per_value. The dataset is
-- items x valuebytes; the default items make 25 GiB of the largest size, so give --items.

local K = kb.keys { fmt = "k:%012d", n = "items" }
local S = kb.sequential { fmt = "k:%012d", n = "items" }
local V

local function sources(ctx)
  V = V or kb.values { size = ctx.valuebytes, compress = 0.5 }
end

local function load(ctx)
  sources(ctx)
  local left = math.ceil((ctx.items - ctx.thread) / ctx.threads)
  while left > 0 do
    local count = math.min(left, 64)
    kv.mput(S, V, count)
    left = left - count
  end
end

local function run()
  local roll = math.random(1, 100)
  if roll <= 50 then
    kv.get(K)
  elseif roll <= 80 then
    kv.put(K, V)
  elseif roll <= 90 then
    kv.del(K)
  else
    kv.count(K, nil, 100)
  end
end

return {
  name = "valsize",
  load = load,
  load_keys = "items",
  setup = sources,
  run = run,
  sweep = { param = "valuebytes", values = { 256, 4096, 65536, 262144 }, seed_per_value = true },
}
