-- onnx_session.lua: an ONNX file run by ONNX Runtime, in a Python process.
-- SPDX-License-Identifier: Apache-2.0
local core = ...

local scratch = require "cli.scratch"

local session = {}

local MINUTES = 10

-- Reads tensors GROUP/in/NAME and writes GROUP/out/NAME; both files are safetensors. Needs numpy, as ONNX Runtime does.
local PROGRAM = [==[
import json, struct, sys
try:
    import numpy as np
    import onnxruntime as ort
except ImportError as e:
    print(json.dumps({"missing": e.name}))
    sys.exit(0)
TYPES = {"F32": "<f4", "F16": "<f2", "U8": "u1", "I32": "<i4", "I64": "<i8", "BOOL": "?"}

def load(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(data[8 + n + a:8 + n + b], TYPES[t["dtype"]]).reshape(t["shape"])
    return out

def save(path, tensors):
    head, body = {}, b""
    for name, x in tensors.items():
        kind = next(k for k, v in TYPES.items() if np.dtype(v) == x.dtype)
        raw = np.ascontiguousarray(x).tobytes()
        head[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + body)

model, given, path = sys.argv[1:4]
options = ort.SessionOptions()
options.log_severity_level = 3
run = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
about = run.get_modelmeta().custom_metadata_map
names = [o.name for o in run.get_outputs()]
groups, outs = {}, {}
for name, x in load(given).items():
    group, side, port = name.split("/", 2)
    if side == "in":
        groups.setdefault(group, {})[port] = x
for group, x in groups.items():
    if about.get("capl_format") == "ddddocr":  # sample by sample, (T,1,K) each
        (port, all), = x.items()
        y = [np.stack([run.run(None, {port: one[None]})[0][:, 0] for one in all])]
    else:
        y = run.run(None, x)
    for name, value in zip(names, y):
        outs[group + "/out/" + name] = value
save(path, outs)
print(json.dumps({"version": ort.__version__, "format": about.get("capl_format"), "meta": about.get("capl_meta")}))
]==]

--- The interpreter: $CAPL_PYTHON, else python3.
function session.python() return core.sys.getenv("CAPL_PYTHON") or "python3" end

local function wait(process)
  local began = core.clock()
  while true do
    local status = process:poll()
    if status then return status end
    if core.clock() - began > 60 * MINUTES then
      process:kill()
      core.fail(("ONNX Runtime took more than %d minutes"):format(MINUTES))
    end
    core.sys.sleep(0.01)
  end
end

-- The last line that is an object; nil: there is none.
local function last_object(text)
  local line = text:match("({[^\n]*})%s*$")
  local ok, object = pcall(core.json_decode, line or "")
  return ok and type(object) == "table" and object or nil
end

local function run(folder, path, given)
  local log, out = folder .. "/log", folder .. "/out.safetensors"
  local process, why = core.sys.spawn{program = session.python(), log = log, env = {},
    args = {"-c", PROGRAM, path, given, out}}
  if not process then return nil, ("%s: %s"):format(session.python(), why) end
  local status = wait(process)
  local said = core.sys.read(log) or ""
  local result = last_object(said)
  if status == 0 and result and result.missing then
    return nil, ("%s has no module %s"):format(session.python(), result.missing)
  end
  if status ~= 0 or not result then
    core.fail(("ONNX Runtime cannot run %s: %s"):format(path, said:gsub("%s+$", ""):sub(-2000)))
  end
  return core.safetensors_load(out), result
end

--- Runs a file on tensors; one for ddddocr sample by sample, the outputs stacked.
-- in   path of the .onnx; given: a safetensors file with tensors GROUP/in/NAME
-- out  {GROUP/out/NAME = tensor}, {version = of ONNX Runtime, format, meta = the file's metadata, missing without};
--      or nil and why it is not installed
-- errs value: it cannot run the file
function session.run(path, given)
  local folder = scratch.new("onnx")
  local results = {pcall(run, folder, path, given)}
  scratch.remove(folder)
  if not results[1] then error(results[2], 0) end
  return results[2], results[3]
end

--- How to install it, for a message.
function session.remedy(path)
  return ("%s -m pip install onnxruntime, then: capl verify %s (CAPL_PYTHON names another Python)"):format(
    session.python(), path)
end

return session
