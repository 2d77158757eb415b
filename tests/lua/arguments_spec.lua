-- Calls with the wrong thing before the dot or among the arguments: the message is about the call, not about a line of
-- the library.
-- SPDX-License-Identifier: Apache-2.0
local capl = require "capl"
local nn = capl.nn

local function text_of(fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe("a module's methods", function()
  it("say that they were called on a class", function()
    local text = text_of(function() nn.Linear:parameters() end)
    assert.matches("a module is wanted, got the class nn.Linear\n  hint: call it on an object with a colon", text, 1,
      true)
  end)

  it("say that they were called on anything else", function()
    for _, name in ipairs{"parameters", "named_parameters", "named_modules", "children", "state_dict",
      "named_buffers"} do
      assert.matches("a module is wanted, got number", text_of(nn.Module[name], 5), 1, true)
    end
    assert.matches("a module is wanted, got nil", text_of(nn.Linear(2, 2).named_children), 1, true)
  end)

  it("want a text as the name of a member", function()
    local net = nn.ReLU()
    assert.matches("bad argument #1 to 'add_module' (string expected, got nil)", text_of(net.add_module, net, nil, net),
      1, true)
    assert.matches("bad argument #1 to 'register_buffer' (string expected, got nil)", text_of(net.register_buffer, net),
      1, true)
  end)
end)

describe("constructors", function()
  it("of modules without an init of their own take a table of fields", function()
    assert.matches("bad argument #1 to 'Module' (table expected, got number)", text_of(nn.Module, 5), 1, true)
  end)

  it("of dictionaries name the entry that is none", function()
    assert.matches("nn.ModuleDict: entry 1 is {\"name\", layer}, got number", text_of(nn.ModuleDict, {3}), 1, true)
  end)
end)

describe("capl.error", function()
  it("wants a message", function()
    assert.matches("capl.error: message is missing: a string that describes the error", text_of(capl.error, {op = "x"}),
      1, true)
  end)
end)
