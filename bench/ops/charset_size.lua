--- capl: 1
-- charset_size.lua: milliseconds of a CTC reader by the symbols of its charset: making source and model, a training
-- step, evaluating 64 images, saving, opening, reading 8 images greedily, and their scores by a beam of 10 texts. What
-- grows faster than the symbols would show.
--
--     capl bench/ops/charset_size.lua --symbols=200,2000,20000 --repeats=3
--
-- One line of JSON for each; the least time of the repeats in this process.
-- SPDX-License-Identifier: Apache-2.0
local p = capl.params {symbols = "200,2000,20000", repeats = 3, batch = 16}

local HEIGHT, WIDTH, LENGTH, SAMPLES = 32, 128, 4, 64

-- The first n symbols of Han from U+4E00 on, in UTF-8.
local function charset_of(n)
  local out = {}
  for code = 0x4E00, 0x4E00 + n - 1 do
    out[#out + 1] = string.char(0xE0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
  end
  return table.concat(out)
end

local function reader(n)
  local function block(a, b, stride)
    return nn.Sequential{nn.Conv2d(a, b, 3, {stride = stride, padding = 1}), nn.ReLU()}
  end
  local net = nn.class("Reader")
  function net:init()
    self.features = nn.Sequential{block(1, 32, 2), block(32, 64, 2), block(64, 128, {2, 1}), block(128, 256, {4, 1})}
    self.read = nn.Linear(256, n + 1)
  end
  function net:forward(x) return self.read(self.features(x):squeeze(3):transpose(2, 3)) end -- (N,T,K)
  return net()
end

local function source_of(n, charset)
  local rows = {}
  for i = 1, SAMPLES do
    rows[i] = {}
    for k = 1, LENGTH do rows[i][k] = (i * 911 + k * 131) % n end
  end
  return data.tensors{image = (capl.rand(SAMPLES, 1, HEIGHT, WIDTH) * 255):to("u8"), charset = charset,
    target = capl.tensor(rows, {dtype = "i32"})}
end

-- Milliseconds of fn, the least of all repeats, and what it gave.
local function timed(fn)
  local best, out = math.huge, nil
  for _ = 1, p.repeats do
    local start = capl.clock()
    out = fn()
    best = math.min(best, capl.clock() - start)
  end
  return 1000 * best, out
end

local function measure(n)
  local charset, path, t = charset_of(n), ("%s/reader-%d.capl"):format(capl.run_folder(), n), {}
  local source, model
  t.making = timed(function() source, model = source_of(n, charset), reader(n) end)
  local opt = optim.AdamW(model:parameters(), {lr = 1e-3})
  local batch = data.loader{source = source, role = "val", batch = p.batch, workers = 0}:epoch(1)()
  t.step = timed(function()
    local scores = model(batch.image)
    local loss = nn.ctc_loss(scores:transpose(1, 2):log_softmax(-1), batch.target, scores:size(2), batch.target_length,
      {blank = n})
    opt:backward_step(loss)
    return loss:item()
  end)
  local val = data.loader{source = source, role = "val", batch = p.batch, workers = 0}
  t.evaluating = timed(function()
    return train.evaluate(model, val, {meter = "text", decoding = "ctc"})
  end)
  t.saving = timed(function()
    capl.io.save_model(path, model:eval(), batch.image:narrow(1, 1, 1), {output = "text", charset = charset,
      decoding = "ctc", blank = n, length_min = LENGTH, length_max = LENGTH, width = WIDTH, height = HEIGHT,
      channels = 1, normalize = "standardize"})
  end)
  local opened
  t.opening, opened = timed(function() return capl.io.open_model(path, {precision = "fp32"}) end)
  local images = source.box:read(1, 0, 1, 2, 3, 4, 5, 6, 7)
  t.greedy = timed(function() return opened:read(images) end)
  local scores = capl.no_grad(model, batch.image:narrow(1, 1, 8)):detach()
  t.beam = timed(function() return capl.text.ctc_beam(scores, {charset = charset, width = 10, n = 1}) end)
  return t
end

for n in p.symbols:gmatch("%d+") do
  local words, t = {}, measure(tonumber(n))
  for _, key in ipairs{"making", "step", "evaluating", "saving", "opening", "greedy", "beam"} do
    words[#words + 1] = ('"%s": %.2f'):format(key, t[key])
  end
  print(('{"symbols": %s, %s}'):format(n, table.concat(words, ", ")))
end
