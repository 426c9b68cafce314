-- Puts of uniform keys in a store that has them all, as db/overwrite: with a rate, what a writer
-- waits for beside flushes and compactions.

local K = kb.keys { fmt = "%016d", n = "items" }
local V = kb.values { size = kb.param("value_bytes", 100), compress = 0.5 }

return {
  name = "overwrite",
  load = { key = K, value = V },
  mix = { { w = 1, op = "put", key = K, value = V } },
}
