-- readwhilewriting of LevelDB's and FloDB's db_bench as a script with phases: readers get drawn keys while
-- one writer puts drawn keys until they are through. Results are told apart by phase and by role.
--
--   keyrack bench --backend flodb --data-dir data -P num=20000 -P readers=3 samples/readwhilewriting.lua
--
-- Keys are 16 decimal digits, values half compressible. -P write_rate=1000 has the writer put so many keys a
-- second instead of as many as it can.
local num = kb.param("num", 1000000)
local reads = kb.param("reads", num) -- of each reader
local readers = kb.param("readers", 1)
local write_rate = kb.param("write_rate", 0.0)
local size = kb.param("value_size", 100)
local ratio = kb.param("compression_ratio", 0.5)

local drawn = kb.keys { fmt = "%016d", n = num }
local every = kb.sequential { fmt = "%016d", n = num, scramble = true } -- each once, in random order
local first = kb.sequential { fmt = "%016d", n = num }
local values = kb.values { size = size, compress = ratio }

return {
  name = "readwhilewriting",
  phases = {
    { name = "fill", threads = 1, ops = num, mix = { { op = "put", key = every, value = values } } },
    { name = "warm", threads = 1, ops = math.max(1, num // 10), mix = { { op = "get", key = drawn } } },
    { name = "run", roles = {
      { name = "reader", threads = readers, ops = reads * readers, mix = { { op = "get", key = drawn } } },
      { name = "writer", threads = 1, background = true, rate = write_rate > 0 and write_rate or nil,
        mix = { { op = "put", key = drawn, value = values } } },
    } },
    { name = "scan", threads = 1, ops = math.max(1, num // 100),
      mix = { { op = "scan", key = first, limit = 100 } } },
  },
}
