-- Streaming reads: windows of 1000 rows with kv.scan, which calls back per row and builds no table,
-- so a scan of any length runs in constant memory. Reads ctx.items as its key space.

local window = kb.param("window", 1000)

local function key(i)
  return string.format("k:%012d", i)
end

local function load(ctx)
  local group = {}
  for i = ctx.thread, ctx.items - 1, ctx.threads do
    group[#group + 1] = { key = key(i), val = tostring(i) }
    if #group == 512 then
      kv.mput(group)
      group = {}
    end
  end
  kv.mput(group)
end

local sum = 0

local function add(_, val)
  sum = sum + (tonumber(val) or 0)
end

local function run(ctx)
  local start = math.random(0, math.max(0, ctx.items - window))
  sum = 0
  kv.scan(key(start), key(start + window), add)
end

return { name = "scan", load = load, load_keys = "items", run = run }
