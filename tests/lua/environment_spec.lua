-- What recipes can reach: no files, no system, no bytecode; library tables cannot be changed.
-- SPDX-License-Identifier: Apache-2.0

local capl_bin = os.getenv("CAPL_BIN")

-- Runs a line of Lua in the program. -> its output (and errors), exit status
local function run(code)
  local pipe = assert(io.popen(("%s -e %s 2>&1; echo status=$?"):format(capl_bin,
    "'" .. code:gsub("'", "'\\''") .. "'")))
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

  it("has all its parts for whoever looks through it", function()
    local out = run([[local n = 0 for key in pairs(_G) do if key == "data" or key == "train" then n = n + 1 end end print(n)]])
    assert.equal("2\n", out)
    assert.equal("nil\ttable\n", (run([[print(getmetatable(_G), type(rawget(_G, "optim")))]])))
    assert.equal("table\ttable\tunset\n", (run([[setmetatable(_G, {__index = function() return "unset" end})
      print(type(augment), type(nn.Linear), nothing)]])))
    assert.equal("5\ttable\n", (run([[data = 5 for _ in pairs(_G) do end print(data, type(capl.data))]])))
    assert.equal("true\ttrue\n", (run([[print(capl.nn == nn, capl.train == train)]])))
  end)

  it("has no way out", function()
    local out = run([[for _, name in ipairs{"io", "os", "debug", "package", "jit", "ffi", "dofile", "loadfile",
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

  it("loads what a reader gives, as a whole", function()
    local out = run([[local i, pieces = 0, {"return ", "", "4"}
      print(select("#", load(function() i = i + 1 return pieces[i] end)())) i = 0
      pieces = {"return ", "40 + 2"} print(load(function() i = i + 1 return pieces[i] end)())
      i = 0 pieces = {"\27", "LJ\2\8"} print((load(function() i = i + 1 return pieces[i] end)))
      print(pcall(load, function() return 5 end))]])
    assert.truthy(out:find("^0\n42\nnil\nfalse\t.*the reader must return texts, got a number\n$"), out)
  end)

  it("keeps library tables as they are", function()
    for _, line in ipairs{"string.format = 1", "math.floor = 1", "capl.zeros = 1", "nn.Linear = 1", "optim.SGD = 1"} do
      local out, status = run(line)
      assert.equal(1, status)
      assert.truthy(out:find("library tables are read-only: '" .. line:match("%.(%w+)") .. "' cannot be set", 1, true),
        out)
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

describe("require in recipes", function()
  local folder

  local function write(name, text)
    local file = assert(io.open(folder .. "/" .. name, "w"))
    file:write(text)
    file:close()
  end

  -- The recipe's output and status.
  local function recipe(text)
    write("recipe.lua", "--- capl: 1\n" .. text)
    local pipe = assert(io.popen(("cd %s && %s recipe.lua 2>&1; echo status=$?"):format(folder, capl_bin)))
    local out = pipe:read("*a")
    pipe:close()
    return out:match("^(.*)status=(%d+)\n$")
  end

  setup(function()
    folder = os.tmpname()
    os.remove(folder)
    assert(os.execute("mkdir -p " .. folder .. "/parts/deep") == 0)
  end)
  teardown(function() os.execute("rm -rf " .. folder) end)

  it("reads text files beside the recipe and below, once", function()
    write("net.lua", "count = (count or 0) + 1 return {name = ..., n = count}")
    write("parts/deep/init.lua", "return 'deep'")
    write("parts/none.lua", "")
    local out = recipe([[print(require("net").name, require("net").n, require "parts.deep",
        require "parts.none", io, require "capl" == capl)
      print(rawequal(require "net", require "net"))]])
    assert.truthy(out:find("^net\t1\tdeep\ttrue\tnil\ttrue\ntrue\n"), out)
  end)

  it("names file and line of what is wrong in them", function()
    write("broken.lua", "local x = \n\n= 2")
    write("fails.lua", "\nerror('no luck')")
    write("circle.lua", "local x = require 'circle' return x")
    assert.truthy(recipe("require 'broken'"):find("broken.lua:3: unexpected symbol near '='", 1, true))
    assert.truthy(recipe("require 'fails'"):find("fails.lua:2: no luck", 1, true))
    assert.truthy(recipe("require 'circle'"):find("circle.lua:1: require: module 'circle' requires itself", 1, true))
    local out, status = recipe("\nrequire 'nowhere'")
    assert.truthy(out:find("recipe.lua:3: require: there is no module 'nowhere': neither nowhere.lua nor " ..
      "nowhere/init.lua " ..
      "is in this folder", 1, true), out)
    assert.equal("1", status)
  end)

  it("finds nothing outside, neither by name nor by link, and no bytecode", function()
    for _, name in ipairs{"..secret", "../secret", "/etc/passwd", "a..b", "", "a.", ".a", ("a"):rep(300), "ffi/x"} do
      local out = recipe(('require "%s"'):format(name))
      assert.truthy(out:find("is no name of a module", 1, true), out)
    end
    os.execute(("ln -sf /etc/passwd %s/link.lua; ln -sfn /etc %s/way"):format(folder, folder))
    assert.truthy(recipe("require 'link'"):find("cannot read link.lua: a link in it leads out of the recipe's folder",
      1, true))
    assert.truthy(recipe("require 'way.passwd'"):find("leads out of the recipe's folder", 1, true))
    write("code.lua", string.dump(function() return 1 end))
    assert.truthy(recipe("require 'code'"):find("attempt to load chunk with wrong mode", 1, true))
    os.execute(("rm -f %s/pipe.lua; mkfifo %s/pipe.lua"):format(folder, folder))
    assert.truthy(recipe("require 'pipe'"):find("cannot read pipe.lua: it is no file", 1, true))
  end)
end)
