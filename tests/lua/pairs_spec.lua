-- pairs, next and table.foreach give every key once, however often and deep their loops have run as machine code.
-- SPDX-License-Identifier: Apache-2.0

local capl = require "capl"

local capl_bin = os.getenv("CAPL_BIN")

-- What a recipe prints.
local function run(code)
  local name = os.tmpname()
  local file = assert(io.open(name, "w"))
  file:write("--- capl: 1\n--- needs: minutes=1\n", code)
  file:close()
  local pipe = assert(io.popen(("%s %s 2>&1 </dev/null"):format(capl_bin, name)))
  local text = pipe:read("*a")
  pipe:close()
  os.remove(name)
  return text
end

describe("pairs", function()
  it("gives all keys to a loop within a loop that has run for long", function()
    -- LuaJIT's own pairs gives one key of the five here, once the outer loop is given up for compiling
    assert.equal("0\n", run([[
      local five, missed = {1, 2, 3, 4, 5}, 0
      local outer = {a = five, b = five, c = five, d = five, e = five}
      local function interpreted(...) for _ = 1, 100 do end end
      for _ = 1, 60000 do
        interpreted()
        local count = 0
        for _, inner in pairs(outer) do
          for _ in pairs(inner) do end
          count = count + 1
        end
        if count ~= 5 then missed = missed + 1 end
      end
      print(missed)]]))
  end)

  it("gives all keys to loops over next and to table.foreach", function()
    assert.equal("0\t0\n", run([[
      local five, missed, missed_foreach = {1, 2, 3, 4, 5}, 0, 0
      local outer = {a = five, b = five, c = five, d = five, e = five}
      local function interpreted(...) for _ = 1, 100 do end end
      for _ = 1, 60000 do
        interpreted()
        local count = 0
        for _, inner in next, outer do
          for _ in next, inner do end
          count = count + 1
        end
        if count ~= 5 then missed = missed + 1 end
      end
      for _ = 1, 10000 do
        local count = 0
        table.foreach(outer, function(_, inner) table.foreach(inner, function() count = count + 1 end) end)
        if count ~= 25 then missed_foreach = missed_foreach + 1 end
      end
      print(missed, missed_foreach)]]))
  end)

  it("gives all keys in a recursion whose stack has to grow", function()
    -- LuaJIT's own pairs gives no key of a table here when the compiled recursion stops for a larger stack: each
    -- coroutine begins with a small one, and the many locals make a call need more than sort has left free
    local locals = {}
    for i = 1, 30 do locals[i] = "_" .. i end
    assert.equal("0\n", run(([[
      local function make(depth) return {a = 1, b = 2, sub = depth > 0 and make(depth - 1) or nil} end
      local function walk(t)
        local n = 0
        local LOCALS
        for _ in pairs(t) do n = n + 1 end
        table.sort{}
        if t.sub then n = n + walk(t.sub) end
        return n
      end
      local t, wrong = make(45), 0
      for _ = 1, 300 do
        if coroutine.wrap(walk)(t) ~= 46 * 2 + 45 then wrong = wrong + 1 end
      end
      print(wrong)]]):gsub("LOCALS", table.concat(locals, ", "))))
  end)

  it("gives all keys of random tables to loops up to forty levels deep in a recursion", function()
    assert.equal("0\tof\t1280\n", run([[
      local seed = 1
      local function random(n) seed = (seed * 16807) % 2147483647 return seed % n end
      -- a random tree, and how many keys it has
      local function make(depth)
        local t, keys = {}, 0
        for i = 1, random(4) do t[i], keys = i, keys + 1 end
        for i = 1, random(6) do t["k" .. i], keys = i % 2 == 0 and "text" or i, keys + 1 end
        if random(3) == 0 then t[{}], keys = true, keys + 1 end
        for i = 1, depth == 0 and 0 or random(8) == 0 and 2 or 1 do
          local sub, below = make(depth > 20 and depth - 1 or i == 1 and depth - 1 or 0)
          t["sub" .. i], keys = sub, keys + below + 1
        end
        return t, keys
      end
      -- each text is a function of its own: compiled, given up and interpreted at other times than the others
      local walks = {[=[
        local function walk(t)
          local n = 0
          for _, v in pairs(t) do n = n + 1 if type(v) == "table" then n = n + walk(v) end end
          return n
        end]=], [=[
        local function walk(t)
          local list, n = {}, 0
          for key in pairs(t) do list[#list + 1] = key end
          table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
          for _, key in ipairs(list) do n = n + 1 if type(t[key]) == "table" then n = n + walk(t[key]) end end
          return n
        end]=], [=[
        local function walk(t)
          local n, key, v = 0, next(t)
          while key ~= nil do
            n = n + 1
            if type(v) == "table" then n = n + walk(v) end
            key, v = next(t, key)
          end
          return n
        end]=], [=[
        local function walk(t)
          local n = 0
          for key, v in next, t do
            n = n + 1
            t[key] = v -- a field that is there may be set
            if type(v) == "table" then n = n + coroutine.wrap(walk)(v) end
          end
          return n
        end]=]}
      local wrong, count = 0, 0
      for round = 1, 32 do
        local t, keys = make(40)
        if round % 3 == 0 then
          for _, text in ipairs(walks) do walks[text] = nil end -- new functions
        end
        for i, text in ipairs(walks) do
          walks[text] = walks[text] or load(text .. " return walk")()
          for _ = 1, 10 do
            count = count + 1
            if walks[text](t) ~= keys then wrong = wrong + 1 end
          end
        end
      end
      print(wrong, "of", count)]]))
  end)

  it("is what it was: three values, fields set to nil on the way, an error in the caller's line", function()
    assert.equal("true\ttrue\tnil\n0\t500\n", run([[
      local t = {}
      local f, same, start = pairs(t)
      print(f == next, same == t, start)
      for i = 1, 500 do t["k" .. i] = i end
      local n = 0
      for key in pairs(t) do t[key], n = nil, n + 1 end
      local left = 0
      for _ in pairs(t) do left = left + 1 end
      print(left, n)]]))
    for code, message in pairs{
      ["\n\npairs(nil)"] = ":5: bad argument #1 to 'pairs' (table expected, got nil)",
      ["local x\nnext(x)"] = ":4: bad argument #1 to 'next' (table expected, got nil)",
      ['for _ in pairs("text") do end'] = ":3: bad argument #1 to 'pairs' (table expected, got string)",
      ["next({}, 1)"] = "invalid key to 'next'",
    } do
      local text = run(code)
      assert.truthy(text:find(message, 1, true), text)
    end
  end)

  it("is the same in the library", function()
    local library = getfenv(capl.manual_seed)
    assert.truthy(library.pairs ~= pairs and library.next ~= next and library.table.foreach ~= table.foreach)
    assert.equal(library.next, (library.pairs({})))
  end)
end)
