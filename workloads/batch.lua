-- Multi-key verbs: mget and mput of ctx.batch keys. `--batch 1,8,64,512` traces the amortization
-- curve; ops/sec is exactly batch times wu/sec. Reads ctx.items as its key space.

local value = string.rep("v", kb.param("value_bytes", 100))

local function key(i)
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

-- Reused from unit to unit: what is measured is the store, not the allocation of tables.
local keys, pairs_ = {}, {}

local function run(ctx)
  if math.random(1, 100) <= 60 then
    for b = 1, ctx.batch do
      keys[b] = key(math.random(0, ctx.items - 1))
    end
    kv.mget(keys)
  else
    for b = 1, ctx.batch do
      local pair = pairs_[b] or { val = value }
      pair.key = key(math.random(0, ctx.items - 1))
      pairs_[b] = pair
    end
    kv.mput(pairs_)
  end
end

return { name = "batch", load = load, load_keys = "items", run = run, batched = true }
