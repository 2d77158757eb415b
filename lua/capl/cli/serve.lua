-- serve.lua: `capl serve MODEL`: a trained model behind HTTP, in the sandbox.
--
-- The library libcapl_serve (engine/program/serve) reads requests and decodes images in threads of its own; this thread
-- takes them in batches, has the model compute them and answers. SPDX-License-Identifier: Apache-2.0
local core = ...

local answer = require "cli.answer"
local decoding = require "cli.decoding"
local fields = require "fields"
local models = require "cli.models"
local options = require "cli.options"
local page = require "cli.serve_page"

local spec = decoding.add_to {
  {name = "host", type = "text", value = "ADDRESS", default = "127.0.0.1",
    doc = "address or name to listen at; 0.0.0.0: all of this machine"},
  {name = "port", type = "number", from = 0, to = 65535, default = 8080, doc = "0: any free port, which is printed"},
  {name = "batch", type = "number", from = 1, to = 64, default = 32, doc = "requests that are computed together"},
  {name = "wait", type = "number", value = "MS", default = 2,
    doc = "milliseconds that a request waits for others of its batch"},
  {name = "queue", type = "number", from = 1, to = 1048576, default = 256,
    doc = "requests that may wait for the model; more are answered 429"},
  {name = "body", type = "number", value = "MB", default = 8, doc = "largest body of a request; a larger one: 413"},
  {name = "pixels", type = "number", value = "MP", default = 4,
    doc = "megapixels of the largest image; a larger one is not decoded: 413"},
  {name = "time", type = "number", value = "SECONDS", default = 20,
    doc = "in which a request must arrive, else 408, and be computed, else 503"},
  {name = "memory", type = "number", value = "MB", default = 512,
    doc = "bodies and images of all requests at once; beyond that 429"},
  {name = "connections", type = "number", from = 1, to = 65536, default = 256,
    doc = "open connections; further clients wait"},
  {name = "threads", type = "number", from = 1, to = 256, default = 2, doc = "threads that read requests and decode images"},
  {name = "pictures", type = "flag", default = false,
    doc = "masks and images that the model gives, as PNG in base64: key png"},
  {name = "top", type = "number", from = 1, to = 16, doc = "classes: also the most probable ones, each with its probability"},
  decoding.device,
  decoding.precision,
}

local PATIENCE = 0.1 -- seconds until the loop looks whether it is asked to end
local HOLD = 3600 -- seconds that a signal may wait for that: longer than any batch takes
local GOODBYE = 0.2 -- seconds in which late requests are answered 503
local ENDING = 25 -- seconds at most for what is left; the supervisor kills after 30

-- ---- answering ----

local function add_picture(output, d, keys)
  if d.kind.picture then keys.png = core.sys.base64_png(d.kind.picture(output, d)) end
end

-- -> HTTP status, JSON
local function answer_of(reading, o)
  local fine, said = pcall(answer.of, reading, o, o.pictures and add_picture or nil)
  if not fine then return 500, core.json_encode{error = tostring(said)} .. "\n" end
  return said.error and 400 or 200, core.json_encode(said) .. "\n"
end

-- Answers the next batch, if one comes.
local function answer_batch(server, model, o)
  local n, readings = server:read(model, PATIENCE)
  for i = 1, n do
    if type(readings) == "table" then server:answer(i, answer_of(readings[i], o))
    else server:answer(i, 500, core.json_encode{error = readings} .. "\n") end
  end
  return n
end

local function serve(server, model, o)
  local done = 0
  while not core.sys.hold(HOLD) do done = done + answer_batch(server, model, o) end
  core.sys.out("stopping: no new requests, and the rest is answered\n")
  server:stop()
  local since = core.clock()
  while server:left() > 0 and core.clock() - since < ENDING or core.clock() - since < GOODBYE do
    done = done + answer_batch(server, model, o)
  end
  return done
end

-- ---- starting ----

-- Positive numbers: what options.read leaves open.
local function check_positive(o)
  for _, key in ipairs{"body", "pixels", "time", "memory"} do
    if not (o[key] > 0) then core.fail(("--%s must be above 0, got %g"):format(key, o[key])) end
  end
  if not (o.wait >= 0 and o.wait <= 10000) then
    core.fail(("--wait is a number of milliseconds from 0 to 10000, not %g"):format(o.wait))
  end
  if o.pixels > 64 then core.fail(("--pixels is at most 64 megapixels, got %g"):format(o.pixels)) end
  if o.body > 1000 then core.fail(("--body is at most 1000 MB, got %g"):format(o.body)) end
  if o.time > 3600 then core.fail(("--time is at most 3600 s, got %g"):format(o.time)) end
  if o.time < 0.1 then core.fail(("--time is at least 0.1 s, got %g"):format(o.time)) end
  if o.connections < o.threads then
    core.fail(("--connections=%d is fewer than --threads=%d"):format(o.connections, o.threads))
  end
end

local function listen(model, path, o)
  return core.sys.serve(model, {host = o.host, port = o.port, batch = o.batch, wait = o.wait / 1e3, queue = o.queue,
    body = o.body * 1e6, pixels = o.pixels * 1e6, memory = o.memory * 1e6, time = o.time, connections = o.connections,
    threads = o.threads, page = o.page, model = path, version = core.version()})
end

-- "Landlock 7 and seccomp", or what is missing.
local function sandbox_of()
  local w = core.sys.walls()
  if not w.raised then return "none (--trust)" end
  if w.files > 0 and w.calls then return ("Landlock %d and seccomp"):format(w.files) end
  return ("%s; %s"):format(w.calls and "seccomp alone" or w.files > 0 and "Landlock alone" or "none", w.why)
end

local function url_of(host, port)
  local name = host:find(":", 1, true) and "[" .. host .. "]" or host
  return ("http://%s:%d/"):format(name, port)
end

local function main(job)
  local o, words = options.read(job.args, spec, {command = "serve"})
  local path = table.remove(words, 1)
  if not path or words[1] then
    core.error{code = "value", message = "capl serve takes one model; usage: " .. job.usage}
  end
  check_positive(o)
  local model = core.model_open(models.path(path), {device = o.device, precision = o.precision})
  decoding.set(model, o)
  local info = model:info()
  local meta = core.json_decode(info.meta)
  o.outputs = fields.outputs_of(meta)
  o.page = page.of(path, info, o.outputs)
  local server = listen(model, path, o)
  core.sys.hold(HOLD)
  core.sys.confine()
  server:start()
  core.sys.out(("serving %s at %s\nsandbox: %s\n"):format(path, url_of(o.host, server:port()), sandbox_of()))
  local done = serve(server, model, o)
  local left = server:left()
  server:free()
  core.sys.out(("stopped: %d predictions\n"):format(done))
  if left == 0 then return 0 end
  core.sys.err(("%d requests did not end within %d s and were cut off\n"):format(left, ENDING))
  return 1
end

return {main = main, options = spec, examples = {
  {"capl serve runs/mine/best.capl --port=8080", "serves a model to this machine; a form to try it is at http://127.0.0.1:8080/"},
  {"curl --data-binary @image.png http://127.0.0.1:8080/predict", "sends an image"},
  {"curl -F image=@image.png http://127.0.0.1:8080/predict", "sends it as a form does"},
}}
