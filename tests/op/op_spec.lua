--- op_spec.lua -- makes busted tests of every case file in this folder, and checks that every op has one.
-- SPDX-License-Identifier: Apache-2.0
local folder = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "."
package.path = folder .. "/?.lua;" .. package.path

local lfs = require("lfs")
local harness = require("harness")

local NO_CASES = {harness = true, gen = true, op_spec = true, run = true}

local function case_files()
  local names = {}
  for file in lfs.dir(folder) do
    local name = file:match("^([%w_]+)%.lua$")
    if name and not NO_CASES[name] then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function wanted(op)
  local only = os.getenv("CAPL_OP")
  return not only or only == op
end

local covered = {}

-- A failure carries what repeats it.
local function test(case, title, check)
  it(title, function()
    check(function(...)
      error(("%s: %s\n  repeat: CAPL_OP=%s CAPL_SEED=%d scripts/test op"):format(case.name, string.format(...), case.op,
        case.seed), 0)
    end)
  end)
end

for _, family in ipairs(case_files()) do
  local cases = dofile(folder .. "/" .. family .. ".lua")
  for _, op in ipairs(cases.covers or {}) do covered[op] = true end
  describe(family, function()
    for index, given in ipairs(cases) do
      local case = harness.prepare(given, family, index)
      covered[case.op] = true
      if wanted(case.op) then
        describe(case.name, function()
          harness.tests(case, function(title, check) test(case, title, check) end)
        end)
      end
    end
  end)
end

describe("every op", function()
  it("has a case, or is named in a covers list", function()
    local missing = {}
    for name in pairs(harness.ops) do
      if not covered[name] then missing[#missing + 1] = name end
    end
    table.sort(missing)
    assert.are.equal("", table.concat(missing, " "))
  end)

  it("has a reference: a ref kernel, or is a view, or expands into ops that have one", function()
    for name, op in pairs(harness.ops) do
      assert.is_true(op.has.ref or op.view or op.fused, name .. " has no ref kernel")
    end
  end)

  -- Comparing backends then compares the fused kernel with the expansion, gradients included.
  it("runs fused on one backend and expanded on another, if it is a fused op", function()
    for name, op in pairs(harness.ops) do
      local fused, expanded, known = op.has.ref, not op.has.ref, false
      for _, device in ipairs((harness.backends())) do
        known = known or op.has[device] ~= nil -- capl.ops does not open a GPU to ask it; tests/cuda/kernels does
        fused, expanded = fused or op.has[device], expanded or not op.has[device]
      end
      if op.fused and known then
        assert.is_true(fused and expanded, name .. (fused and " never runs expanded" or " never runs fused"))
      end
    end
  end)

  it("has a doc whose first line is a sentence", function()
    for name, op in pairs(harness.ops) do
      local first = (op.doc or ""):match("^[^\n]*")
      assert.is_true(#first >= 8 and first:match("[.:]$") ~= nil, name .. ": '" .. first .. "'")
    end
  end)

  it("says so in its doc if it has no gradient", function()
    for name, op in pairs(harness.ops) do
      local no_outputs = op.outs == "" -- steps of optimizers
      if not op.differentiable and not no_outputs then
        assert.is_true(op.doc:find("ot differentiable", 1, true) ~= nil, name .. " has no gradient and does not say so")
      end
    end
  end)
end)

describe("the backends under test", function()
  it("can be opened", function()
    local _, missing = harness.backends()
    assert.are.equal("", table.concat(missing, "\n"))
  end)
end)
