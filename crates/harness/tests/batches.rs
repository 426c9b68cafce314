//! Batched verbs keep what they were given: numbers among the elements become strings that only the
//! Lua stack holds, and a collector that runs at every allocation must not take them away.

use crate::support::{Bench, op, repeat};

#[test]
fn numbers_in_batches_survive_the_collector() {
    let script = "
        collectgarbage('setpause', 0)
        collectgarbage('setstepmul', 10000)
        local random = math.random
        return { name = 'w', run = function(ctx, iter)
          local base = random(1 << 40)
          local keys, pairs = {}, {}
          for i = 1, 8 do
            keys[i] = base + i + 0.5
            pairs[i] = { key = base + i + 0.5, val = base * 3 + i }
          end
          kv.mput(pairs)
          collectgarbage('step')
          local got = kv.mget(keys)
          for i = 1, 8 do
            assert(got[i] == tostring(base * 3 + i), 'a value was lost')
            assert(type(keys[i]) == 'number', 'the caller\\'s table was changed')
            assert(type(pairs[i].key) == 'number', 'the caller\\'s pair was changed')
          end
          assert(kv.mdel(keys) == 8)
          collectgarbage('step')
          assert(next(kv.mget(keys)) == nil)
        end }";
    let record = Bench::new(script).set(&[("ops", "4000")]).run_clean();
    let repeat = repeat(&record);
    assert_eq!(op(repeat, "mput").prim_ops, 8 * 4000);
    assert_eq!(op(repeat, "mdel").prim_ops, 8 * 4000);
    assert_eq!((op(repeat, "mget").hits, op(repeat, "mget").misses), (8 * 4000, 8 * 4000));
}

#[test]
fn a_hundred_thousand_batches_of_numbers() {
    let script = "
        local keys = { 1, 2.5, -7, 0, 1e15 }
        local pairs = {}
        for i, key in ipairs(keys) do pairs[i] = { key = key, val = i * 1.5 } end
        return { name = 'w', run = function(ctx, iter)
          if iter % 2 == 0 then kv.mput(pairs) collectgarbage('step') end
          if iter % 2 == 1 and iter > 1 then
            local got = kv.mget(keys)
            for i = 1, 5 do assert(got[i] == tostring(i * 1.5)) end
          end
        end }";
    let record = Bench::new(script).set(&[("ops", "100000")]).run_clean();
    assert_eq!(repeat(&record).units, 100_000);
    assert_eq!(op(repeat(&record), "mput").calls, 50_000);
}

#[test]
fn odd_tables_are_read_without_their_metamethods() {
    Bench::unit(
        "
        local trap = { __index = function() error('__index ran') end,
                       __len = function() error('__len ran') end }
        local keys = setmetatable({ 'a', 'b' }, trap)
        kv.mput(setmetatable({ setmetatable({ key = 'a', val = '1' }, trap) }, trap))
        local got = kv.mget(keys)
        assert(got[1] == '1' and got[2] == nil)
        assert(kv.mdel(keys) == 2)
        -- Empty batches are samples of no operation.
        kv.mput {} assert(kv.mdel {} == 0) assert(next(kv.mget {}) == nil)
        -- A later pair of one key wins.
        kv.mput { { key = 'd', val = '1' }, { key = 'd', val = '2' } }
        assert(kv.get('d') == '2')",
    )
    .run_clean();
}
