-- In which precision a batch meets a model: one place decides, and images of 16 bits reach no model outside autocast.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"
local training = require "lua.training"

local nn, optim, train = capl.nn, capl.optim, capl.train
local error_text, loss_of = support.error_text, training.loss_of

local LOOK = {width = 24, height = 24}

local function loader(role, dtype, options)
  return training.loader(role, 16, 8, training.with({dtype = dtype}, options), LOOK)
end

local function model_of()
  capl.manual_seed(1)
  return nn.Sequential{nn.Conv2d(1, 2, 3, {stride = 2}), nn.ReLU(), nn.AvgPool2d(5), nn.Flatten(), nn.Linear(8, 6)}
end

-- What the functions of train take, on images of a type.
local function job(dtype, precision, changes)
  local model = model_of()
  return training.with({model = model, train = loader("train", dtype), loss = loss_of, precision = precision,
    optimizer = optim.SGD(model:parameters(), {lr = 0.01})}, changes)
end

local function sources(folder)
  local out, pipe = {}, assert(io.popen("find " .. folder .. " -name '*.lua'"))
  for path in pipe:lines() do
    local file = assert(io.open(path))
    out[path:sub(#folder + 2)] = file:read("*a")
    file:close()
  end
  pipe:close()
  return out
end

describe("a batch", function()
  it("is f32, whatever the settings of a recipe are called", function()
    capl.params{precision = "bf16"}
    local type_of = loader("train"):epoch(1)().image.dtype
    capl.params{}
    assert.equal("f32", type_of)
    assert.matches('dtype must be one of "f32", "bf16", "u8", "f16", got "auto"', error_text(loader, "train", "auto"),
      1, true)
  end)

  it("meets a model in one place of the library", function()
    local allowed = {["forward.lua"] = true, ["precision.lua"] = true, ["init.lua"] = true}
    for path, text in pairs(sources("lua/capl")) do
      local code = text:gsub("%-%-[^\n]*", ""):gsub('"[^"\n]*"', "")
      if not allowed[path] then
        assert.is_nil(code:match("[%w.]*autocast%("), path .. " has an autocast of its own")
        assert.is_nil(code:match("[%w.]*model%([%w.]*input%("), path .. " calls a model on a batch")
      end
    end
  end)

  for _, case in ipairs{{"bf16", "fp32"}, {"f16", "fp32"}, {"bf16", "bf16"}, {"f32", "bf16"}} do
    local dtype, precision = unpack(case)
    local name = ("of %s images meets a model in %s "):format(dtype, precision)

    it(name .. "in steps and evaluations of train.fit", function()
      local seen = {}
      local o = job(dtype, precision, {val = loader("val", dtype), steps = 3, sanity = 1,
        loss = function(y, batch)
          seen[#seen + 1] = y.dtype
          return loss_of(y, batch)
        end})
      assert.is_true(train.fit(o).val.n == 16)
      for _, type_of in ipairs(seen) do assert.equal(precision == "fp32" and "f32" or "bf16", type_of) end
    end)

    it(name .. "where samples are read again, in that precision or in full", function()
      local meter = train.evaluate(model_of(), loader("val", dtype), {precision = precision, loss = loss_of})
      for _, other in ipairs{"fp32", "bf16"} do
        local batch, output = meter.again({0, 5}, other)
        assert.same({2, other == "fp32" and "f32" or "bf16"}, {batch.count, output.dtype})
      end
    end)

    it(name .. "where rates are tried, and a step is made again", function()
      assert.is_true(#train.lr_find(job(dtype, precision, {steps = 20})).lr > 1)
      local o = job(dtype, precision)
      local watch = train.Anomaly{model = o.model, optimizer = o.optimizer, precision = precision,
        loss = function(y, batch) return loss_of(y, batch) * (0 / 0) end}
      local batch = o.train:epoch(1)()
      watch:before_step(batch, 1)
      local text = error_text(function() watch:explain("the loss", 0 / 0, watch.now) end)
      watch:close()
      assert.matches("first not finite: op affine in the forward pass", text, 1, true)
    end)
  end

  it("is handed to loss and meter with all that it has", function()
    local o = job("bf16", "fp32", {val = loader("val", "bf16"), steps = 1})
    function o.loss(y, batch)
      assert.same({8, 8, 2, "f32"}, {batch.count, #batch.ids, batch.target_length:get(1), batch.image.dtype})
      return nn.multilabel_soft_margin(y, batch.onehot)
    end
    assert.equal(1, train.fit(o).steps)
  end)
end)

describe("a custom training loop", function()
  it("that forgets autocast for images of 16 bits gets a hint what to write", function()
    local model = model_of()
    local text = error_text(model, loader("val", "bf16"):epoch(1)().image)
    assert.matches("conv2d: x is bf16, weight is f32: they must be the same", text, 1, true)
    assert.matches('hint: call the model inside capl.autocast("bf16", function() … end), or convert: x:to("f32"); ' ..
      "a loader's images are f32 unless its dtype says otherwise", text, 1, true)
    text = error_text(function() return capl.ones(2, 2):matmul(capl.ones({2, 2}, {dtype = "f16"})) end)
    assert.matches('capl.autocast("fp16", function() … end), or convert: a:to("f16")', text, 1, true)
  end)

  it("may save its model inside autocast: what the file holds is computed in f32", function()
    local meta = {output = "text", charset = "012", length = 2, width = 24, height = 24, channels = 1,
      normalize = "unit", resize = "bicubic"}
    local function saved(precision)
      local model, path, out = model_of(), os.tmpname(), {}
      os.remove(path)
      capl.autocast(precision, capl.io.save_model, path, model, capl.zeros(1, 1, 24, 24), meta,
        capl.full({2, 1, 24, 24}, 100, {dtype = "u8"}))
      for _, name in ipairs{"graph.json", "golden.safetensors"} do
        local file = assert(io.open(path .. "/" .. name))
        out[name] = file:read("*a")
        file:close()
      end
      os.execute("rm -r " .. path)
      return out
    end
    assert.same(saved("fp32"), saved("bf16"))
  end)
end)
