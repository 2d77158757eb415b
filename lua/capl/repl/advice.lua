-- advice.lua: what somebody who comes from Python types at the prompt, and what it is called here.
-- SPDX-License-Identifier: Apache-2.0
local advice = {}

-- Pattern in a line that is no Lua -> what to write instead. The first that fits. begun: the line could go on, but
-- never as meant.
local idioms = {
  {"^%s*import%s", "nothing is imported: capl, nn, optim, data, augment, train and plot are there"},
  {"^%s*from%s+[%w_.]+%s+import", "nothing is imported: capl, nn, optim, data, augment, train and plot are there"},
  {"^%s*def%s", "a function: function f(x) return x end"},
  {"^%s*class%s", "a layer of your own: Net = nn.class(\"Net\"), then function Net:forward(x) … end"},
  {"^%s*for%s.*%sin%s+range%s*%(", "for i = 1, 10 do … end", begun = true},
  {"^%s*for%s.*:%s*$", "for i = 1, 10 do … end; for i, value in ipairs(list) do … end", begun = true},
  {"^%s*while%s.*:%s*$", "while condition do … end", begun = true},
  {"^%s*if%s.*:%s*$", "if condition then … else … end", begun = true},
  {"^%s*with%s", "a function takes the block: capl.no_grad(function() … end)"},
  {"^%s*del%s", "x = nil forgets a variable, x:free() gives its memory up now"},
  {"!=", "not equal is ~="},
  {"[%+%-%*/]=", "write x = x + 1; for tensors in place x:add_(1)"},
  {"%*%*", "a power is x ^ 2"},
  {"[%w_%)%]]%s*@%s*[%w_%(]", "matrix multiplication is a:matmul(b)"},
  {"&&", "write a and b"},
  {"||", "write a or b"},
  {"^%s*!", "Ctrl-Z leaves for the shell, `fg` comes back; `not x` is the opposite of x"},
  {"%[[^%]]*:[^%]]*%]", "parts of a tensor: x[i], x:narrow(dim, first, count), x:select(dim, i)"},
  {"^%s*#", "a comment starts with --; #x is a length"},
}

--- A hint for a text that Lua cannot read, or nil. begun: of a text that is not whole yet
function advice.on_syntax(text, begun)
  for _, idiom in ipairs(idioms) do
    if (idiom.begun or not begun) and text:find(idiom[1]) then return idiom[2] end
  end
end

return advice
