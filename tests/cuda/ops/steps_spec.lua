-- Steps of the shipped recipes on a GPU: after the first few, the host neither reads nor waits within a step.
--
-- The recipes run as they are, with loaders that give batches which are on the device already, and without what shows
-- losses. (A captured step is tested in tests/lua/capture_spec.lua; there reading is an error.) cuDNN's and cuBLASLt's
-- parts are left out (CAPL_FAKE_*=zeros): this is about who waits for whom, not about values.
-- SPDX-License-Identifier: Apache-2.0
local ffi = require "ffi"
local capl = require "capl"

-- The shim's own declaration, so that it never writes behind what was declared here.
local header = assert(io.open("tests/cuda/shim/include/shim.h")):read("*a")
ffi.cdef(assert(header:match("typedef struct {[^}]*} shim_counts;")) .. " void shim_counts_get(shim_counts *out);")
local shim = ffi.load(os.getenv("CAPL_BACKEND_PATH") .. "/libcuda_shim.so")
local counts = ffi.new("shim_counts")

-- How often the host has waited for the GPU, and called CUDA at all.
local function waits()
  shim.shim_counts_get(counts)
  return tonumber(counts.waits), tonumber(counts.calls)
end

local BATCH, STEPS, WARM = 2, 4, 2
local CHARSET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

-- A stand-in for every way to get data: images of noise.
local loader = {charset = CHARSET, length = 4, classes = #CHARSET}
function loader:batches() return STEPS end
function loader:count() return STEPS * BATCH end
loader.height, loader.width = function() return 60 end, function() return 160 end
function loader:text() return nil end -- file names have it
function loader:name(i) return ("%s/AB%02d_1.png"):format("images", i) end

local function batch()
  local target = capl.tensor({{0, 1, 2, 3}, {35, 34, 33, 32}}, {dtype = "i64"})
  local onehot = capl.zeros(BATCH, 4 * 36)
  return {image = capl.rand(BATCH, 1, 60, 160), target = target, onehot = onehot}
end

-- Gives a batch at a time and notes what the step in between did.
function loader:epoch()
  local n, given, from = 0, batch(), nil
  return function()
    local now, called = waits()
    if from then table.insert(self.steps, {waits = now - from.waits, calls = called - from.calls}) end
    n = n + 1
    if n > STEPS then return nil end
    from = {waits = now, calls = called}
    return given
  end
end

local data = setmetatable({loader = function() return loader end, split = function() return loader, loader, loader end},
  {__index = function() return function() return loader end end})

-- The loop of train.fit without its figures.
local function fit(o)
  for given in loader:epoch() do
    o.optimizer:set_position((#loader.steps + 1) / (STEPS + 1))
    local loss = capl.autocast(o.precision, function() return o.loss(o.model(given.image), given) end)
    o.optimizer:backward_step(loss)
  end
  error({done = true})
end

-- Runs a recipe until its first epoch ends: what each step did.
local function steps_of(recipe, settings)
  loader.steps = {}
  collectgarbage() -- what an earlier recipe has left is given back now, not in one of these steps
  collectgarbage()
  local params = function(given)
    local p = {}
    for key, value in pairs(given) do p[key] = type(value) == "table" and value.default or value end
    for key, value in pairs(settings) do p[key] = value end
    return p
  end
  local stand_in = setmetatable({
    params = params, model = function(model) return model end,
    progress = function() return {step = function() end, seconds = function() error({done = true}) end} end,
  }, {__index = capl})
  local env = {capl = stand_in, nn = capl.nn, optim = capl.optim, data = data, train = {fit = fit},
    print = function() end}
  local program = assert(loadfile("recipes/" .. recipe .. ".lua"))
  setfenv(program, setmetatable(env, {__index = _G}))
  local ok, err = pcall(program)
  if not ok and not (type(err) == "table" and err.done) then error(err, 0) end
  return loader.steps
end

describe("a step on a GPU", function()
  local before
  setup(function() before = capl.device() capl.device("cuda") end)
  teardown(function() capl.device(before) end)

  for recipe, precision in pairs {captcha = "fp16", captcha_cnn = "bf16", folder = "fp32"} do
    it(("of %s in %s never waits"):format(recipe, precision), function()
      local settings = {batch = BATCH, precision = precision, data = "images", charset = "0-9A-Z", capture = false}
      local steps = steps_of(recipe, settings)
      assert.equal(STEPS, #steps)
      for i, step in ipairs(steps) do
        assert.is_true(step.calls > 80, "a step of " .. step.calls .. " calls of CUDA")
        if i > WARM then assert.equal(0, step.waits, ("step %d"):format(i)) end
      end
    end)
  end

  it("waits as soon as a number is read", function()
    local x = capl.ones(3)
    local from = waits()
    x:sum():item()
    assert.is_true(waits() > from)
  end)
end)
