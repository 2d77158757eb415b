-- What recipes can reach: no files, no system, no bytecode; library tables cannot be changed.
-- SPDX-License-Identifier: Apache-2.0

local capl_bin = os.getenv("CAPL_BIN")

-- Runs a line of Lua in the program. -> its output (and errors), exit status
local function run(code)
  local pipe = assert(io.popen(("%s -e %s 2>&1; echo status=$?"):format(capl_bin, "'" .. code:gsub("'", "'\\''") .. "'")))
  local text = pipe:read("*a")
  pipe:close()
  local out, status = text:match("^(.*)status=(%d+)\n$")
  return out, tonumber(status)
end

describe("the recipe environment", function()
  it("has Lua's harmless functions and the library", function()
    local out = run([[print(type(capl), type(nn), type(optim), type(string.format), type(math.floor), bit.band(6, 3),
      #table.concat{"a", "b"}, select("#", 1, 2), type(coroutine.wrap), _G._G == _G)]])
    assert.equal("table\ttable\ttable\tfunction\tfunction\t2\t2\t2\tfunction\ttrue\n", out)
  end)

  it("has no way out", function()
    local out = run([[for _, name in ipairs{"io", "os", "debug", "package", "jit", "ffi", "dofile", "loadfile", "require",
      "getfenv", "setfenv", "newproxy", "module", "gcinfo"} do if rawget(_G, name) ~= nil then print(name) end end
      print(string.dump, ("").dump, getmetatable(""), getmetatable(capl.zeros(1)), getmetatable(nn))]])
    assert.equal("nil\tnil\tnil\tnil\tfalse\n", out)
  end)

  it("loads text, never bytecode", function()
    local bytecode = string.dump(function() return 1 end)
    local escaped = bytecode:gsub(".", function(c) return ("\\%03d"):format(c:byte()) end)
    local out = run(('print(load("%s")) print(load("return 1 + 1")()) print(load("return io")())'):format(escaped))
    assert.truthy(out:find("^nil\t.*attempt to load"), out)
    assert.truthy(out:find("\n2\nnil\n$"), out)
  end)

  it("keeps library tables as they are", function()
    for _, line in ipairs{"string.format = 1", "math.floor = 1", "capl.zeros = 1", "nn.Linear = 1", "optim.SGD = 1"} do
      local out, status = run(line)
      assert.equal(1, status)
      assert.truthy(out:find("library tables are read-only: '" .. line:match("%.(%w+)") .. "' cannot be set", 1, true), out)
    end
    assert.equal("1\n", (run("x = 1 print(x)")))
  end)

  it("prints control bytes harmlessly", function()
    assert.equal("a\\x1b[31mb\tnil\ttrue\n", (run([[print("a\27[31mb", nil, true)]])))
  end)

  it("runs xpcall's handler after unwinding", function()
    assert.equal("false\tgot -e:1: x\ntrue\t1\t2\n",
      (run([[print(xpcall(function() error("x") end, function(e) return "got " .. e end))
        print(xpcall(function(...) return ... end, print, 1, 2))]])))
  end)

  it("collects garbage and counts, no more", function()
    local out = run([[print(collectgarbage(), collectgarbage("count") > 0) print(pcall(collectgarbage, "stop"))]])
    assert.truthy(out:find("^0\ttrue\nfalse\t"), out)
    assert.truthy(out:find("'collect' or 'count' expected, got 'stop'", 1, true), out)
  end)
end)
