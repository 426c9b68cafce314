//! `kv.scan`: when it stops, what a callback may do, and what happens when a callback fails.

use crate::support::{Bench, op, repeat};

const ENGINES: [&str; 2] = ["btree", "skiplist"];

/// Runs `body` once a unit on every engine, over ten rows `k0` to `k9` with values `v0` to `v9`.
fn over_ten_rows(body: &str, ops: &str) -> Vec<keyrack_record::Run> {
    let script = format!(
        "return {{ name = 'w',\n\
         load = function(ctx) for i = 0, 9 do kv.put('k' .. i, 'v' .. i) end end,\n\
         run = function(ctx, iter)\n{body}\nend }}"
    );
    let run =
        |engine: &&str| Bench::new(&script).set(&[("backend", engine), ("ops", ops)]).run_clean();
    ENGINES.iter().map(run).collect()
}

#[test]
fn the_stopping_row_is_counted_and_the_limit_holds() {
    let body = "
        local seen = {}
        assert(kv.scan('k', nil, function(k, v) seen[#seen + 1] = k .. v return k == 'k3' end) == 4)
        assert(table.concat(seen, ' ') == 'k0v0 k1v1 k2v2 k3v3')
        local n = 0
        assert(kv.scan('k2', 'k9', function() n = n + 1 end, 5) == 5 and n == 5)
        assert(kv.scan('k2', 'k9', function() end, 0) == 7)
        assert(kv.scan('k2', 'k9', function() end, -4) == 7)
        assert(kv.scan('k2', 'k9', function() end, 100) == 7)
        assert(kv.scan('k2', 'k9', function() return false end, 2.0) == 2)
        assert(kv.scan('k9', 'k2', function() error('empty range') end) == 0)
        assert(kv.scan('k2', 'k2', function() error('empty range') end) == 0)
        -- The first row may stop, and anything but false and nil does.
        for _, truth in ipairs { true, 0, '', {} } do
          assert(kv.scan('k', nil, function() return truth end) == 1)
        end";
    for record in over_ten_rows(body, "3") {
        assert_eq!(op(repeat(&record), "range").calls, 12 * 3);
    }
}

#[test]
fn a_callback_gets_as_much_as_it_declares() {
    over_ten_rows(
        "
        kv.scan('k4', 'k6', function(k) assert(k == 'k4' or k == 'k5') end)
        kv.scan('k4', 'k5', function(k, v) assert(k == 'k4' and v == 'v4') end)
        kv.scan('k4', 'k5', function(...) assert(select('#', ...) == 2 and
          select(2, ...) == 'v4') end)
        kv.scan('k4', 'k5', function(k, ...) assert(select('#', ...) == 1 and ... == 'v4') end)
        local calls = 0
        assert(kv.scan('k', nil, function() calls = calls + 1 end) == 10 and calls == 10)
        -- A C function is no different.
        local list = {}
        assert(kv.scan('k4', 'k5', math.type) == 1)",
        "2",
    );
}

#[test]
fn an_error_in_a_callback_comes_out_of_the_scan_and_the_session_goes_on() {
    let body = "
        local thrown = {}
        for _, value in ipairs { 'text', 42, thrown } do
          local ok, got = pcall(kv.scan, 'k', nil, function(k)
            if k == 'k2' then error(value, 0) end end)
          assert(not ok and got == value)
        end
        local ok, got = pcall(kv.scan, 'k', nil, function(k, v) local x = nil; return x.y end)
        assert(not ok and got:find('w.lua:%d+:') and got:find('nil'))
        -- Everything works afterwards, writes included.
        assert(kv.get('k1') == 'v1')
        kv.put('k1', 'v1')
        assert(kv.scan('k', nil, function() end) == 10)
        kv.mput { { key = 'k1', val = 'v1' } }";
    for record in over_ten_rows(body, "200") {
        // The broken scans were filed all the same.
        assert_eq!(op(repeat(&record), "range").calls, 5 * 200);
    }
}

#[test]
fn defect_17_a_write_inside_a_callback_is_refused_before_it_can_deadlock() {
    over_ten_rows(
        "
        local writes = {
          function() kv.put('x', 'y') end, function() kv.del('k1') end,
            function() kv.rmw('x', 'y') end,
          function() kv.mput { { key = 'x', val = 'y' } } end, function() kv.mdel { 'k1' } end,
        }
        for _, write in ipairs(writes) do
          local rows = kv.scan('k', nil, function(k, v)
            local ok, why = pcall(write)
            assert(not ok and why:find('callback must not write', 1, true), why)
            assert(why:find('kv%.'), why)
          end)
          assert(rows == 10)
          -- Not caught, it ends the scan.
          assert(not pcall(kv.scan, 'k', nil, write))
          -- After the scan it is allowed.
          assert(kv.get('x') == nil)
        end
        local found = {}
        kv.scan('k', nil, function(k) found[#found + 1] = k end)
        for _, k in ipairs(found) do kv.put(k, 'v' .. k:sub(2)) end",
        "5",
    );
}

#[test]
fn a_callback_may_read() {
    let body = "
        local rows = kv.scan('k', nil, function(k, v)
          assert(kv.get(k) == v and kv.touch(k) == #v and kv.get('none') == nil)
          assert(kv.count('k', nil) == 10)
          local list = kv.range('k', nil, 3)
          assert(#list == 3 and list[3].val == 'v2')
          local many = kv.mget { k, 'none', 'k0' }
          assert(many[1] == v and many[2] == nil and many[3] == 'v0')
        end)
        assert(rows == 10)
        assert(kv.get('k5') == 'v5')";
    for record in over_ten_rows(body, "20") {
        let repeat = repeat(&record);
        assert_eq!(op(repeat, "get").calls, 20 * (3 * 10 + 1));
        assert_eq!(op(repeat, "get").misses, 20 * 10);
        assert_eq!(op(repeat, "mget").prim_ops, 20 * 30);
        assert_eq!(op(repeat, "range").calls, 20 * (1 + 2 * 10));
    }
}

#[test]
fn callbacks_that_read_do_not_wait_for_writers_that_wait_for_them() {
    for engine in ENGINES {
        let record = Bench::new(
            "return { name = 'w',
              load = function(ctx) for i = 0, 99 do kv.put('k' .. i, 'v') end end,
              run = function(ctx, iter)
                if ctx.thread % 2 == 0 then
                  kv.scan('k', nil, function(k, v) assert(kv.get(k) ~= nil) end)
                else
                  for i = 1, 20 do kv.put('k' .. math.random(0, 99), 'w') end
                end
              end }",
        )
        .set(&[("backend", engine), ("threads", "4"), ("ops", "2000")])
        .run_clean();
        assert_eq!(op(repeat(&record), "get").hits, 1000 * 100);
        assert_eq!(op(repeat(&record), "put").calls, 1000 * 20);
    }
}

#[test]
fn a_scan_inside_a_callback_works_once_and_is_refused_below_that() {
    over_ten_rows(
        "
        local inner, deepest = 0, 0
        local rows = kv.scan('k', nil, function(k)
          local n = kv.scan('k', nil, function(k2, v2)
            inner = inner + 1
            assert(v2 == 'v' .. k2:sub(2))
            local ok, why = pcall(kv.get, k2)
            assert(not ok and why:find('kv.scan callback inside a kv.scan callback', 1, true), why)
            local ok, why = pcall(kv.scan, 'k', nil, function() deepest = deepest + 1 end)
            assert(not ok and why:find('kv.scan', 1, true))
            assert(not pcall(kv.put, 'a', 'b'))
          end, 3)
          assert(n == 3)
          assert(kv.get(k) ~= nil)
        end)
        assert(rows == 10 and inner == 30 and deepest == 0)
        kv.put('k0', 'v0')",
        "5",
    );
}

#[test]
fn an_error_out_of_a_nested_scan_leaves_both_sessions_usable() {
    over_ten_rows(
        "
        local ok, why = pcall(kv.scan, 'k', nil, function()
          kv.scan('k', nil, function() error('inner', 0) end)
        end)
        assert(not ok and why == 'inner')
        assert(kv.scan('k', nil, function(k) assert(kv.get(k)) end) == 10)
        kv.put('k0', 'v0')",
        "20",
    );
}

#[test]
fn verbs_work_inside_coroutines_and_a_yield_across_a_callback_is_an_error() {
    over_ten_rows(
        "
        local co = coroutine.wrap(function()
          for i = 0, 9 do
            kv.put('k' .. i, 'v' .. i)
            coroutine.yield(kv.get('k' .. i))
          end
          assert(kv.scan('k', nil, function(k, v) assert(kv.get(k) == v) end) == 10)
          return 'done'
        end)
        for i = 0, 9 do assert(co() == 'v' .. i) end
        assert(co() == 'done')
        -- A yield cannot cross the engine's frames.
        local crossing = coroutine.create(function()
          kv.scan('k', nil, function(k) coroutine.yield(k) end)
        end)
        local ok, why = coroutine.resume(crossing)
        assert(not ok and why:find('yield', 1, true), why)
        assert(coroutine.status(crossing) == 'dead')
        assert(kv.scan('k', nil, function() end) == 10)
        kv.put('k0', 'v0')
        -- A coroutine that lives within one callback is fine.
        kv.scan('k', nil, function(k)
          local c = coroutine.wrap(function() coroutine.yield(kv.get(k)) end)
          assert(c() == 'v' .. k:sub(2))
        end)
        -- One that a callback leaves behind must not keep the right to anything.
        local left
        kv.scan('k', nil, function(k)
          left = coroutine.wrap(function() coroutine.yield() kv.put(k, 'v' .. k:sub(2)) end)
          left()
          return true
        end)
        left()",
        "20",
    );
}

#[test]
fn deep_recursion_around_verbs_is_an_error_and_not_a_crash() {
    over_ten_rows(
        "
        local function down(n) local v = kv.get('k1') return 1 + down(n + 1) end
        local ok, why = pcall(down, 1)
        assert(not ok and why:find('stack overflow', 1, true), why)
        local function through(n) return kb.time('deep', through, n + 1) end
        assert(not pcall(through, 1))
        local function pcalls(n) return pcall(pcalls, n + 1) end
        pcall(pcalls, 1)
        assert(kv.get('k1') == 'v1')",
        "2",
    );
}

#[test]
fn a_coroutine_may_yield_out_of_pcall() {
    over_ten_rows(
        "
        local co = coroutine.wrap(function()
          local ok, why = pcall(function() coroutine.yield(kv.get('k1')) error('after', 0) end)
          return ok, why
        end)
        assert(co() == 'v1')
        local ok, why = co()
        assert(ok == false and why == 'after')",
        "3",
    );
}

#[test]
fn both_bounds_may_come_from_key_sources_and_strings() {
    over_ten_rows(
        "
        local K = K or kb.keys { fmt = 'k%d', n = 10, dist = 'sequential' }
        _G.K = K
        local k = (iter - 1) % 10
        assert(kv.scan(K, nil, function() end) == 10 - k)",
        "20",
    );
}
