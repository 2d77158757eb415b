-- deterministic: the switch, the setting of every recipe, and that the same seed gives the same bits.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local support = require "lua.support"

local nn, optim = capl.nn, capl.optim
local on_gpu = capl.device():match("^cuda") ~= nil

-- All bits of a short training.
local function trained()
  capl.manual_seed(11)
  local model = nn.Sequential{nn.Conv2d(1, 8, 3, {padding = 1}), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
    nn.Dropout(0.2), nn.Flatten(), nn.Linear(8 * 5 * 7, 10)}
  local opt = optim.AdamW(model:parameters(), {lr = 0.01, clip_norm = 1})
  local step = capl.capture(function(x, labels)
    local loss = nn.cross_entropy(model(x), labels)
    opt:backward_step(loss)
    return loss
  end)
  local losses = {}
  for i = 1, 6 do losses[i] = step(capl.randn(4, 1, 10, 14), capl.tensor({i, 2, 3, 4}, {dtype = "i32"})):item() end
  local state = {losses = losses}
  for name, t in pairs(model:state_dict()) do state[name] = t:tolist() end
  return state
end

-- Runs a recipe of one setting list -> output, exit status
local function run(settings, flags)
  local path = os.tmpname() .. ".lua"
  local file = assert(io.open(path, "w"))
  file:write("--- capl: 1\n--- needs: minutes=1\nlocal p = capl.params{" .. settings .. "}\n",
    "print('in effect:', capl.deterministic(), p.deterministic, p.autotune)\n")
  file:close()
  local pipe = assert(io.popen(("cd %s && %s %s %s 2>&1; echo status=$?"):format(os.getenv("CAPL_BUILD_DIR"),
    os.getenv("CAPL_BIN"), path, flags or "")))
  local out, status = pipe:read("*a"):match("^(.*)status=(%d+)\n$")
  pipe:close()
  os.remove(path)
  return out, tonumber(status)
end

describe("deterministic", function()
  after_each(function() capl.deterministic(false) end)

  it("gives the same bits for the same seed, twice", function()
    capl.deterministic(true)
    assert.same(trained(), trained())
  end)

  it("is off until it is asked for", function()
    assert.is_false(capl.deterministic())
    assert.is_true(capl.deterministic(true))
    assert.is_true(capl.deterministic())
    assert.matches("bad argument #1 to 'deterministic' %(boolean expected, got string%)",
      support.error_text(function() capl.deterministic("yes") end))
  end)

  it("is a setting of every recipe, and the header says when it is on", function()
    local out, status = run("")
    assert.equal(0, status, out)
    assert.is_nil(out:find("deterministic", 1, true), out)
    assert.truthy(out:find("in effect:\tfalse\tfalse\t" .. tostring(on_gpu), 1, true), out)
    out, status = run("", "--deterministic")
    assert.equal(0, status, out)
    assert.matches("deterministic%s+true%s+flag", out)
    assert.truthy(out:find("in effect:\ttrue\ttrue\tfalse", 1, true), out)
    out = run("deterministic = true")
    assert.matches("deterministic%s+true%s+recipe", out)
  end)

  it("contradicts autotune = true, which some devices do not have", function()
    local out, status = run("deterministic = true", "--autotune=true")
    assert.equal(1, status)
    assert.truthy(out:find("contradict each other", 1, true), out)
    out, status = run("", "--autotune=true")
    assert.truthy(out:find("in effect:\tfalse\tfalse\ttrue", 1, true), out)
    assert.equal(on_gpu and 0 or 1, status, out) -- there is nothing to time here
    assert.truthy(on_gpu or out:find("counted 0 shapes of convolutions", 1, true), out)
    out, status = run("", "--autotune=true --device=ref")
    assert.equal(1, status)
    local text = "autotune = true is not supported on ref: only cuda and cpu have algorithms to time"
    assert.truthy(out:find(text, 1, true), out)
    assert.truthy(out:find("hint: leave autotune out, or choose one of these devices", 1, true), out)
    out, status = run("", "--autotune=maybe")
    assert.equal(1, status)
    assert.truthy(out:find("autotune must be one of auto, true, false, got 'maybe'", 1, true), out)
  end)
end)
