-- Models of several inputs and outputs: what capl.io.save_model writes, load_model gives back, and what both refuse.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn = capl.nn
local close, error_text = support.close, support.error_text

-- A model whose forward is fn(self, x); self.head is a layer of 4 to 3.
local function model_of(fn)
  local Net = nn.class("Ports")
  function Net:init() self.head = nn.Linear(4, 3) end
  Net.forward = fn
  return Net()
end

local function two_outputs(self, x) return {points = self.head(x), level = x:sum(2)} end

local function two_inputs(self, x) return {points = self.head(x.image + x.level), level = x.level} end

-- fn(path) with a name where a model may be written.
local function with_path(fn)
  local path = os.tmpname()
  os.remove(path)
  local ok, err = pcall(fn, path)
  os.execute("rm -rf " .. path)
  if not ok then error(err, 0) end
end

local function save_error(fn, example)
  local model, text = model_of(fn), nil
  with_path(function(path) text = error_text(capl.io.save_model, path, model, example or capl.zeros(1, 4)) end)
  return text
end

describe("a model of several outputs", function()
  it("comes back from its file with each under its name", function()
    local model = model_of(two_outputs)
    with_path(function(path)
      capl.io.save_model(path, model, capl.zeros(1, 4))
      local x = capl.randn{5, 4}
      local want, got = model(x), capl.io.load_model(path).forward(x)
      assert.same({5, 3}, got.points.shape)
      assert.same({5}, got.level.shape)
      for name, tensor in pairs(got) do assert.is_true(close(want[name]:tolist(), tensor:tolist(), 1e-6)) end
    end)
  end)

  it("keeps a table of one", function()
    local model = model_of(function(self, x) return {points = self.head(x)} end)
    with_path(function(path)
      capl.io.save_model(path, model, capl.zeros(1, 4))
      assert.same({2, 3}, capl.io.load_model(path).forward(capl.ones(2, 4)).points.shape)
    end)
  end)

  it("has golden pairs of each", function()
    local model, given = model_of(two_outputs), capl.randn{2, 4}
    with_path(function(path)
      capl.io.save_model(path, model, capl.zeros(1, 4), {}, given)
      local said, inputs = capl.io.load(path .. "/golden.safetensors"),
        capl.io.load(path .. "/golden/inputs.safetensors")
      assert.same(given:tolist(), inputs.input:tolist())
      for name, tensor in pairs(model(given)) do assert.same(tensor:tolist(), said[name]:tolist()) end
    end)
  end)

  it("has golden images of each", function()
    local model = model_of(function(self, x) return {points = self.head(x:mean({3, 4})), level = x:mean({2, 3, 4})} end)
    local meta = {output = "text", charset = "012", length = 1, width = 6, height = 5, channels = 1, normalize = "unit",
      resize = "bicubic"}
    model.head = nn.Linear(1, 3)
    with_path(function(path)
      capl.io.save_model(path, model, capl.zeros(1, 1, 5, 6), meta, capl.full({2, 1, 5, 6}, 51, {dtype = "u8"}))
      local said = capl.io.load(path .. "/golden.safetensors")
      assert.is_true(close({0.2, 0.2}, said.level:tolist(), 1e-6))
      assert.same({2, 3}, said.points.shape)
    end)
  end)
end)

describe("a model of several inputs", function()
  it("takes them by name, from the file too", function()
    local model = model_of(function(self, x) return self.head(x.image + x.level) end)
    with_path(function(path)
      capl.io.save_model(path, model, {image = capl.zeros(1, 4), level = capl.zeros(1, 1)}, {},
        {image = capl.ones(2, 4), level = capl.ones(2, 1)})
      local x = {image = capl.randn{3, 4}, level = capl.randn{3, 1}}
      local loaded = capl.io.load_model(path)
      assert.is_true(close(model(x):tolist(), loaded.forward(x):tolist(), 1e-6))
      assert.matches("the model needs the input 'level'", error_text(loaded.forward, {image = x.image}), 1, true)
      assert.matches("the model takes its inputs by name; the first is 'image'", error_text(loaded.forward, x.image), 1,
        true)
      assert.same({{1}, {1}}, capl.io.load(path .. "/golden/inputs.safetensors").level:tolist())
    end)
  end)

  it("has one width", function()
    local model = model_of(function(_, x) return (x.image + x.level):sum(2) end)
    local example = {image = capl.zeros(1, 4), level = capl.zeros(1, 4)}
    with_path(function(path)
      local text = error_text(capl.io.save_model, path, model, example, {widths = {4, 6}})
      assert.matches("a graph of 2 inputs has one width; several are for one input alone", text, 1, true)
    end)
  end)
end)

describe("saving refuses", function()
  it("what is no tensor, by its name", function()
    assert.matches("the output 'count' is no tensor, but a number",
      save_error(function(self, x) return {points = self.head(x), count = 3} end), 1, true)
    assert.matches("the model's output is no tensor, but a number", save_error(function() return 3 end), 1, true)
    assert.matches("the model's table of outputs is empty", save_error(function() return {} end), 1, true)
  end)

  it("tables in tables", function()
    local text = save_error(function(self, x) return {points = {self.head(x)}} end)
    assert.matches("the output 'points' is a table; a table of outputs holds tensors alone", text, 1, true)
    assert.matches("points_a", text, 1, true)
  end)

  it("names that are none", function()
    assert.matches("'two points' is no name for an output of a model",
      save_error(function(self, x) return {["two points"] = self.head(x)} end), 1, true)
    assert.matches("[1] is no name for an output of a model", save_error(function(self, x) return {self.head(x)} end),
      1, true)
    assert.matches("'1st' is no name for an input of a model",
      save_error(function(self, x) return self.head(x["1st"]) end, {["1st"] = capl.zeros(1, 4)}), 1, true)
  end)

  it("a second result, which would be lost", function()
    local text = save_error(function(self, x) return self.head(x), x:sum(2) end)
    assert.matches("the model returns 2 results; all but the first would be lost", text, 1, true)
    assert.matches("return {points = a, mask = b}", text, 1, true)
  end)

  it("outputs that differ from batch to batch", function()
    local text = save_error(function(self, x)
      local y = self.head(x)
      return x:size(1) == 2 and {points = y} or {corners = y}
    end)
    assert.matches("the model has other outputs for another batch size (points, then corners)", text, 1, true)
  end)

  it("an output that no op made", function()
    local text = save_error(two_inputs, {image = capl.zeros(1, 4), level = capl.zeros(1, 4)})
    assert.matches("the model's output level was not made by any op: nothing to record", text, 1, true)
  end)
end)

describe("capl.model's inputs", function()
  local function model_error(inputs)
    return error_text(capl.model, nn.Linear(4, 3), {inputs = inputs})
  end

  it("are a list of names or a function", function()
    assert.matches("inputs is an empty list", model_error{}, 1, true)
    assert.matches("inputs is a list of names, not of number", model_error{3}, 1, true)
    assert.matches("inputs", model_error("image"), 1, true)
  end)

  it("say what an evaluation calls the model with", function()
    local given
    local model = model_of(function(self, x)
      given = x
      return self.head(x.input)
    end)
    local source = capl.data.tensors{input = capl.ones(4, 4), value = capl.ones(4, 3)}
    local loader = capl.data.loader{source = source, role = "val", batch = 4, workers = 0}
    capl.model(model, {inputs = {"input", "value"}})
    capl.train.evaluate(model, loader, {meter = "regression"})
    assert.same({4, 3}, given.value.shape)
    capl.model(nn.Linear(4, 3)) -- of another model they say nothing
    local text = error_text(capl.train.evaluate, model, loader, {meter = "regression"})
    assert.matches("a tensor has no 'input'", text, 1, true)
  end)
end)
