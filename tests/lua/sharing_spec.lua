-- What is read of a stranger's recipe and manifest without running anything, and how a claim is judged.
-- SPDX-License-Identifier: Apache-2.0
local core = {}
local raised

-- A file of the library by itself, with other modules than its own.
local function module(name, modules)
  local chunk = assert(loadfile((os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/" .. name .. ".lua"))
  return setfenv(chunk, setmetatable({require = function(wanted) return modules[wanted] or {} end},
    {__index = _G}))(core)
end

core = {
  error = function(e) raised = e error(e, 0) end,
  is_error = function(e) return type(e) == "table" and e.code ~= nil end,
  typename = type, is_callable = function(v) return type(v) == "function" end,
  nearest = function() return nil end, version = function() return "0.1.0" end,
}

local function message(fn, ...)
  raised = nil
  assert.is_false((pcall(fn, ...)))
  return raised and raised.message
end

local tokens = module("recipe/tokens", {})
local check = module("check", {homes = {of = function() return nil end}})
local claim = module("recipe/claim", {check = check, sorted_keys = module("sorted_keys", {}),
  devices = {chosen = function() return {"cpu", "cuda"} end}, ["meter.interval"] = module("meter/interval", {})})
local about = {split = function(path) return (path:match("^(.*)/") or "."), (path:match("[^/]+$")) end}
local manifest = module("recipe/manifest", {["recipe.claim"] = claim, ["recipe.about"] = about})

describe("the words of a recipe", function()
  local function tables(text) return tokens.tables(tokens.read(text), "expect") end

  it("gives the tables of capl.expect, and none that stand in comments, texts or other names", function()
    local found = tables([==[
      -- capl.expect{exact = 0.1}
      --[[ capl.expect{exact = 0.2} ]] print("capl.expect{exact = 0.3}", [[capl.expect{exact = 0.4}]])
      --[=[ ]] capl.expect{exact = 0.5} ]=]
      x.capl.expect{exact = 0.6}
      capl.expect {exact = 0.96, within = "10\tmin", ["on"] = 'cpu', given = {preset = "a\"b", seed = -3}; at_most = {mae = .5}, }
      capl . expect ({ exact = 1e-1 })]==])
    assert.same({{exact = 0.96, within = "10\tmin", on = "cpu", given = {preset = 'a"b', seed = -3},
      at_most = {mae = 0.5}}, {exact = 0.1}}, found)
  end)

  it("recognizes a claim whose values are computed", function()
    assert.same({false, false, false},
      tables("capl.expect{exact = best} capl.expect(t) capl.expect{exact = 0.5 + 0.4}"))
  end)

  it("gives the modules that are required by plain names", function()
    local names, computed = tokens.required(tokens.read('local a = require "net" require("parts.head") x.require ' ..
      '"no" require "net"'))
    assert.same({"net", "parts.head"}, names)
    assert.is_false(computed)
    names, computed = tokens.required(tokens.read('require("a" .. b) require(name) -- require "c"'))
    assert.same({"a"}, names)
    assert.is_true(computed)
  end)

  it("gives the default of a setting, at the top of capl.params alone", function()
    local list = tokens.read("local p = capl.params{a = {seed = 1}, seed = 42, presets = {x = {data = 3}}} q = " ..
      "{data = 5}")
    assert.equal(42, (tokens.setting(list, "seed")))
    assert.is_false(select(2, tokens.setting(list, "data")))
  end)

  it("ends on any text", function()
    for _, text in ipairs{"", "--[[", "[==[", '"', "'\\", "\\", "0x", "capl.expect{", "capl.expect{a=", "capl.expect{[", "{{{{{{{{{{{{{{",
      "require", "require(", "capl.params", "#!x", "\0\255", "capl.expect{{{{{{{{{{{1}}}}}}}}}}}"} do
      local list = tokens.read(text)
      tokens.tables(list, "expect")
      tokens.required(list)
      tokens.setting(list, "seed")
    end
  end)
end)

describe("a manifest", function()
  local hash = ("0123456789abcdef"):rep(4)
  local function with(change)
    local m = {format = 1, written_by = "capl 0.1.0", purpose = "", needs = {}, requires = {language = 1}, files = {},
      recipe = {file = "a.lua", bytes = 1, sha256 = hash}}
    change(m)
    return m
  end

  it("is taken when all is in order", function()
    manifest.check(with(function(m)
      m.files = {{file = "parts/net.lua", bytes = 0, sha256 = hash}}
      m.data = {{name = "captchas", path = "captchas", files = 2, bytes = 9, sha256 = hash}}
      m.expected = {{exact = 0.9}}
    end), "m")
  end)

  it("names no path outside its folder", function()
    for path, why in pairs{["../x"] = "leads out of the folder of the manifest", ["a/../../x"] = "leads out of the folder of the manifest",
      ["/etc/passwd"] = "is absolute, or of another system", ["C:/x"] = "is absolute, or of another system",
      ["a\\..\\x"] = "is absolute, or of another system", ["a//b"] = "is no plain path: a part of it is empty or a dot",
      ["./a"] = "is no plain path: a part of it is empty or a dot", ["a/"] = "is no plain path: a part of it is empty or a dot",
      [""] = "is no path", [("x"):rep(401)] = "is no path", ["a\27[2Jb"] = "holds control characters"} do
      assert.equal(why, manifest.bad_path(path))
      local said = message(manifest.check, with(function(m) m.files = {{file = path, bytes = 1, sha256 = hash}} end), "m")
      assert.truthy(said:find("m: files[1]: file must be a path below its folder", 1, true), said)
      assert.is_nil(said:find("%c"))
    end
    assert.is_nil(manifest.bad_path("parts/net-2.lua"))
  end)

  it("has no other keys, types and sizes than it may", function()
    for wanted, change in pairs{
      ["m: unknown key 'code'"] = function(m) m.code = "x" end,
      ["m: recipe is missing"] = function(m) m.recipe = nil end,
      ["m: recipe must be an object"] = function(m) m.recipe = "a.lua" end,
      ["m: recipe: sha256 must be 64 small hexadecimal digits"] = function(m) m.recipe.sha256 = "12" end,
      ["m: recipe: bytes must be a whole number from 0 on"] = function(m) m.recipe.bytes = -1 end,
      ["m: recipe: file must be beside the manifest"] = function(m) m.recipe.file = "x/a.lua" end,
      ["m: files must be a list"] = function(m) m.files = {a = 1} end,
      ["m: files[1] must be an object"] = function(m) m.files = {"net.lua"} end,
      ["m: files: a.lua is there twice"] = function(m) m.files = {{file = "a.lua", bytes = 1, sha256 = hash}} end,
      ["m: purpose must be a short text"] = function(m) m.purpose = ("x"):rep(2001) end,
      ["m: written_by must be a short text"] = function(m) m.written_by = "a\27[31m" end,
      ["m: format must be a whole number from 0 on"] = function(m) m.format = "1" end,
      ["m: a manifest of format 2; capl 0.1.0 reads format 1"] = function(m) m.format = 2 end,
      ["m: expected[1]: exact is a share from 0 to 1, not 96"] = function(m) m.expected = {{exact = 96}} end,
      ["m: data[1]: name is missing"] = function(m) m.data = {{files = 1, bytes = 1, sha256 = hash}} end,
    } do
      assert.equal(wanted, message(manifest.check, with(change), "m"))
    end
  end)
end)

describe("a claim", function()
  local function verdicts(given, metrics, seconds)
    local found = claim.verify(claim.read(given), metrics, seconds or 1)
    local out = {}
    for i, v in ipairs(found.verdicts) do out[i] = v.verdict end
    return table.concat(out, ", "), found.met, found.lines
  end

  it("is met, missed, or missed by no more than chance", function()
    assert.equal("met", (verdicts({exact = 0.96}, {exact = 0.96, n = 100})))
    local said, met = verdicts({exact = 0.96}, {exact = 0.958, n = 10000})
    assert.equal("within chance", said)
    assert.is_true(met)
    said, met = verdicts({exact = 0.96}, {exact = 0.95, n = 10000})
    assert.equal("missed", said)
    assert.is_false(met)
  end)

  it("is not saved by so few samples that anything would be chance", function()
    local said, met, lines = verdicts({exact = 0.96}, {exact = 0.9, n = 10})
    assert.equal("missed", said)
    assert.is_false(met)
    assert.truthy(lines[1]:find("too wide with fewer than 400", 1, true))
  end)

  it("is missed where nothing was measured, or no number", function()
    assert.equal("not measured, not measured", (verdicts({exact = 0.5, loss = 1}, {loss = 0 / 0})))
    assert.is_false(select(2, verdicts({exact = 0.5}, {})))
  end)

  it("knows the interval of accuracy, whose keys are low and high, and of others", function()
    local accuracy = {accuracy = 0.94, low = 0.92, high = 0.96, top5 = 0.98, top5_low = 0.97, top5_high = 0.985, n = 500}
    assert.equal("within chance, missed", (verdicts({at_least = {accuracy = 0.95, top5 = 0.99}}, accuracy)))
  end)

  it("bounds loss, steps, time and other metrics on their own side", function()
    local said, met = verdicts({loss = 0.1, steps = 100, within = "1h 30 min", at_least = {miou = 0.5}, at_most = {mae = 2}},
      {loss = 0.1, steps = 101, miou = 0.6, mae = 1.9}, 5400)
    assert.equal("met, met, missed, met, met", said)
    assert.is_false(met)
  end)

  it("reads times as people write them", function()
    for text, seconds in pairs{["10 min"] = 600, ["90s"] = 90, ["1h30m"] = 5400, ["2 hours"] = 7200, ["1.5 h"] = 5400,
      ["3 days"] = 259200} do
      assert.equal(seconds, claim.seconds(text))
    end
    for _, text in ipairs{"", "soon", "10", "-5 min", "5 parsecs", "0 s", "1e9999 s"} do assert.is_nil(claim.seconds(text)) end
  end)

  it("is said in words", function()
    assert.equal("exact at least 96 %, loss at most 0.1, within 90 min, on cpu (two cores), with preset = long, of 8,000 captchas",
      claim.text(claim.read{exact = 0.96, loss = 0.1, within = 5400, on = "cpu", hardware = "two cores", given = {preset = "long"},
        data = "8,000 captchas"}))
  end)
end)
