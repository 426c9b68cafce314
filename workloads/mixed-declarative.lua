-- The mix of mixed.lua as data: no Lua runs while the clock does.

local K = kb.keys { fmt = "k:%012d", n = "items" }
local V = kb.values { size = kb.param("value_bytes", 100), compress = 0.5 }

return {
  name = "mixed-declarative",
  load = { key = K, value = V },
  mix = {
    { w = 50, op = "get", key = K },
    { w = 30, op = "put", key = K, value = V },
    { w = 10, op = "del", key = K },
    { w = 10, op = "range", key = K, limit = kb.param("rows", 100) },
  },
}
