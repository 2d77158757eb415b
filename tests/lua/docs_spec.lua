-- Docstrings: every exported Lua name has one, and the examples in them give what they say.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"

local root = (os.getenv("CAPL_SOURCE_DIR") or ".") .. "/lua/capl/"
local files = {"init.lua", "rearrange.lua", "nn/sampling.lua", "nn/embedding.lua",
  "tensor.lua", "nn/init.lua", "module_class.lua", "nn/module.lua", "nn/sequential.lua",
  "nn/parameter.lua", "nn/conv2d.lua", "nn/conv_transpose2d.lua", "nn/linear.lua",
  "nn/one_dim.lua", "nn/padding.lua", "nn/small.lua", "elementwise.lua", "nn/shaping.lua", "nn/batchnorm.lua", "nn/sync_batchnorm.lua", "nn/activation.lua",
  "nn/pooling.lua", "nn/pixel_unshuffle.lua", "nn/recurrent.lua", "nn/loss.lua",
  "nn/loss_values.lua", "nn/loss_margins.lua", "nn/dice.lua", "nn/ctc.lua", "nn/summary.lua",
  "optim/optimizer.lua", "optim/algorithms.lua", "optim/muon.lua", "train/callbacks/monitor.lua", "optim/join.lua",
  "optim/schedule.lua", "train/fit.lua", "text.lua",
  "train/evaluate.lua", "train/tree.lua", "train/callbacks/checkpoint.lua", "train/callbacks/weights.lua",
  "train/callbacks/ema.lua", "train/callbacks/freeze.lua",
  "optim/clip.lua", "optim/groups.lua", "optim/lr_factor.lua", "train/callbacks/early_stop.lua",
  "train/callbacks/best.lua", "train/evaluation.lua", "meter/text.lua", "meter/classification.lua",
  "meter/multilabel.lua", "meter/detection.lua",
  "meter/segmentation.lua", "meter/localization.lua", "meter/regression.lua", "meter/image.lua", "nn/ensemble.lua", "plot/init.lua", "plot/overlay.lua",
  "nn/recompute.lua", "train/callbacks/anomaly.lua", "train/callbacks/initial_loss.lua", "train/callbacks/plan.lua",
  "train/callbacks/shards.lua", "train/batch_by_memory.lua", "train/lr_find.lua", "augment/presets.lua",
  "nn/layernorm.lua", "nn/attention.lua", "run/log.lua", "augment/init.lua", "augment/schedule.lua"}

-- Words of all docstrings together with the line each of them stands on, and the examples.
local function read_docs()
  local words, examples, code_lines = {}, {}, {}
  for _, name in ipairs(files) do
    local block
    for line in io.lines(root .. name) do
      if line:match("^%s*%-%-%-%s") then block = line end
      if block and line:match("^%s*%-%-") then
        if block ~= line then block = block .. "\n" .. line end
        code_lines[#code_lines + 1] = line:match("^%s*%-%- eg%s+(.+)$")
        local code, value = line:match("^%s*%-%- eg%s+(.-)%s+%-%->%s+(.+)$")
        if code then examples[#examples + 1] = {file = name, code = code, value = value} end
      elseif block then
        for word in (block .. "\n" .. line):gmatch("[%w_]+") do words[word] = true end
        if not line:match("^for ") and not line:match("^%s*methods%.") then block = nil end
      end
    end
  end
  return words, examples, code_lines
end

local words, examples, code_lines = read_docs()

local function undocumented(t, skip)
  local out = {}
  for name, value in pairs(t) do
    if type(value) == "function" or (type(value) == "table" and rawget(value, "__module")) then
      if not words[name] and not name:match("^_") and not (skip and skip[name]) then out[#out + 1] = name end
    end
  end
  table.sort(out)
  return out
end

-- The first part of a name such as train.fit that does not exist; nil when all do.
local function missing(value, path)
  for part in path:gmatch("[%w_]+") do
    if type(value) ~= "table" then return nil end -- what a function gives or a tensor has
    local there, found = pcall(function() return value[part] end)
    if not there or found == nil then return part end
    value = found
  end
end

describe("docstrings", function()
  it("exist for every exported name", function()
    assert.same({}, undocumented(capl))
    assert.same({}, undocumented(capl.nn))
    assert.same({}, undocumented(capl.nn.init))
    assert.same({}, undocumented(capl.nn.Module, {init = true, forward = true}))
    assert.same({}, undocumented(capl.optim))
    assert.same({}, undocumented(capl.optim.schedule))
    assert.same({}, undocumented(capl.train))
    assert.same({}, undocumented(capl.plot))
    assert.same({}, undocumented(capl.plot.overlay))
    assert.same({}, undocumented(capl.text))
    assert.same({}, undocumented(capl.augment))
  end)

  it("show examples that are true", function()
    assert.is_true(#examples >= 10)
    local environment = setmetatable({capl = capl, nn = capl.nn, optim = capl.optim, plot = capl.plot},
      {__index = _G})
    for _, e in ipairs(examples) do
      local value = setfenv(assert(loadstring("return " .. e.code, "=" .. e.file)), environment)()
      local wanted = tonumber(e.value)
      if wanted then
        assert.is_true(math.abs(value - wanted) < 1e-6, ("%s: %s gives %s"):format(e.file, e.code, tostring(value)))
      else
        assert.equal(e.value, tostring(value), e.code)
      end
    end
  end)
end)

describe("examples in docstrings", function()
  it("name what exists", function()
    local roots, names = {capl = capl, nn = capl.nn, optim = capl.optim, train = capl.train, plot = capl.plot,
      augment = capl.augment}, 0
    for _, code in ipairs(code_lines) do
      for first, path in code:gmatch("%f[%w_./-]([a-z]+)%.([%w_.]+)") do
        if roots[first] and not code:find('"[^"]*' .. first .. "%." .. path) then
          names = names + 1
          assert.is_nil(missing(roots[first], path), ("%s.%s: %s"):format(first, path, code))
        end
      end
    end
    assert.is_true(names > 60, names)
  end)
end)

describe("the parts of train.fit", function()
  it("are all in their list, and no two have the same key, which the contract explains", function()
    local list, keys, count = io.open(root .. "train/callbacks/init.lua"):read("*a"), {}, 0
    local contract = {}
    for text in io.open(root .. "../../docs/contract.md"):read("*a"):gmatch("`([^`\n]+)`") do
      for word in text:gmatch("[%w_]+") do contract[word] = true end
    end
    for path in io.popen("ls '" .. root .. "train/callbacks'"):lines() do
      local name = path:match("^(.*)%.lua$")
      if name ~= "init" then
        count = count + 1
        assert.matches(('require "train.callbacks.%s"'):format(name), list, 1, true)
        local spec = io.open(root .. "train/callbacks/" .. path):read("*a"):match('name = "[%w_]+",%s+spec = (%b{})')
          or ""
        for key in spec:gmatch('{"([%w_]+)",') do
          assert.is_nil(keys[key], ("%s of %s is a key of %s, too"):format(key, name, tostring(keys[key])))
          keys[key] = name
          assert.is_true(contract[key], key .. " of train.fit is not in docs/contract.md")
        end
      end
    end
    assert.is_true(count >= 20 and keys.clip_norm == "clip" and keys.ema == "ema")
  end)
end)

describe("the arguments of a page", function()
  it("are those that the constructor knows", function()
    local tables = 0
    local page = io.open(root .. "../../docs/api/nn.md"):read("*a")
      .. io.open(root .. "../../docs/api/nn-activations.md"):read("*a")
    for section in (page .. "\n## "):gsub("\n## ", "\1"):gmatch("\1([^\1]+)") do
      local name = section:match("^nn%.([%w_]+)")
      local there, class = pcall(function() return capl.nn[name] end)
      local ok, err = pcall(function() return class{zzzzzz = 1} end)
      local known = there and type(class) == "table" and not ok
        and tostring(err):match("unknown option 'zzzzzz'; known: ([%w_, ]*)")
      if known then
        local given = {}
        for option in section:gmatch("\n| `([%w_]+)` |") do given[#given + 1] = option end
        assert.equal(name .. ": " .. known, name .. ": " .. table.concat(given, ", "))
        tables = tables + 1
      end
    end
    assert.is_true(tables > 50, tables)
  end)
end)

describe("the pages in docs/", function()
  it("have examples that compile, and name functions that exist", function()
    local blocks, names, docs = 0, 0, root .. "../../docs/"
    local roots = {capl = capl, nn = capl.nn, optim = capl.optim, train = capl.train, plot = capl.plot}
    for page in io.popen("ls '" .. docs .. "'"):lines() do
      local text = page:match("%.md$") and io.open(docs .. page):read("*a") or ""
      if page:match("^from%-") then text = "" end -- half of it are names of others; tests/e2e/pages.py runs the rest
      if page:match("^adding%-") then text = "" end -- names that they make; tests/repo/follow.py does what they say
      for block in text:gmatch("```lua\n(.-)```") do
        blocks = blocks + 1
        assert(loadstring(block) or loadstring("return " .. block), page .. ": no Lua: " .. block)
      end
      text = text:gsub("\n| TAB |[^\n]*", "") -- beginnings of names
      text = text:gsub("\n## Python\n.-\n## ", "\n## ") -- names of the Python package
      for first, path in text:gmatch("%f[%w_./-]([a-z]+)%.([%w_.]+)") do
        local lib = roots[first]
        if lib and path ~= "pc" then -- capl.pc is a file
          names = names + 1
          assert.is_nil(missing(lib, path), ("%s: %s.%s"):format(page, first, path))
        end
      end
    end
    assert.is_true(blocks >= 12 and names >= 100, ("%d blocks, %d names"):format(blocks, names))
  end)
end)
