-- A shopping cart: one key per line item under a prefix per user, so that "view cart" is one range.
-- ctx.users carts are seeded, products come from a catalogue of ctx.items, and traffic is skewed to
-- the users with low numbers: user = users * u^2.

local function line_key(user, item)
  return string.format("u:%010d:c:%010d", user, item)
end

-- The bounds of one cart: ';' is the byte after ':'.
local function cart_bounds(user)
  local prefix = string.format("u:%010d:c", user)
  return prefix .. ":", prefix .. ";"
end

-- Sixteen neighbouring products a user, at a place that the user's number scatters.
local function item_of(ctx, user)
  local places = math.max(1, ctx.items - 16)
  return (user * 2654435761) % places + math.random(0, 15)
end

local function line_value()
  return string.format("qty=%d;price=%d", math.random(1, 9), math.random(100, 9999))
end

local function load(ctx)
  local group = {}
  for user = ctx.thread, ctx.users - 1, ctx.threads do
    for _ = 1, 3 + math.random(0, 5) do
      group[#group + 1] = { key = line_key(user, item_of(ctx, user)), val = line_value() }
      if #group == 512 then
        kv.mput(group)
        group = {}
      end
    end
  end
  kv.mput(group)
end

local function run(ctx)
  local u = math.random()
  local user = math.floor(ctx.users * u * u)
  local roll = math.random(1, 100)
  if roll <= 35 then -- add
    kv.put(line_key(user, item_of(ctx, user)), line_value())
  elseif roll <= 60 then -- view
    local low, high = cart_bounds(user)
    kv.range(low, high)
  elseif roll <= 75 then -- look at one line
    kv.get(line_key(user, item_of(ctx, user)))
  elseif roll <= 85 then -- update
    kv.put(line_key(user, item_of(ctx, user)), line_value())
  elseif roll <= 95 then -- remove
    kv.del(line_key(user, item_of(ctx, user)))
  else -- checkout: read the cart, then empty it
    local low, high = cart_bounds(user)
    for _, line in ipairs(kv.range(low, high)) do
      kv.del(line.key)
    end
  end
end

return { name = "cart", load = load, run = run }
