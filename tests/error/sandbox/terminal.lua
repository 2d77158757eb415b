-- terminal.lua: commands to the terminal inside texts. No byte below blank but tab and line end may arrive. Format: README.md.
-- SPDX-License-Identifier: Apache-2.0

--- print of a command
-- says: \x1b]52;c;
print("\27]52;c;ZXZpbA==\7") print("\r\27[2K\27[A") print("\8\8\8\127\0")

--- print of an object whose text is a command
print(setmetatable({}, {__tostring = function() return "\27[31m" end}))

--- print of characters of eight bits that are commands
-- says: \xc2\x9b
print("\155\51\49m \194\155\51\49m")

--- an error's text
-- says: \x1b
error("\27]0;title\7")

--- an error's table
-- says: \x1b
error(setmetatable({}, {__tostring = function() return "\27[2J" end}))

--- a name in an error of ours
-- says: \x1b
capl.params{["\27[2J"] = 1}
capl.op["\27[2J"]()

--- a module's name
local Net = nn.class("\27[2J")
print(Net())
Net():forward()

--- a layer's own words in an error's path
local Net = nn.class("Net")
function Net:extra() return "\27[2J" end
function Net:init() self.fc = nn.Linear(2, 2) end
function Net:forward(x) return self.fc(x) end
Net()(capl.zeros(1, 3))

--- a label
print(data.tensors{x = capl.zeros(1, 1)})
data.captcha{preset = "lepture", charset = "\27[2J", length = 4}

--- a path
data.folder("\27[2J")

--- a message of ours with the recipe's words
capl.error{code = "\27[2J", op = "\27[2J", message = "\27[2J", hint = "\27[2J", where = "\27[2J", path = "\27[2J"}

--- the chunk's name
load("error 'x'", "@\27[2J")()

--- progress and lines of metrics
local p = capl.progress and capl.progress
if p then pcall(function() p(3, "\27[2J") end) pcall(function() p{total = 3, title = "\27[2J"} end) end

--- what is final
pcall(capl.final, {["\27[2J"] = 1})
pcall(capl.final, "\27[2J", 1)

--- a name of a file that is a command, turns the line or breaks it
for _, name in ipairs{"\27[2J", "a\nb", "\194\155", "\226\128\174gpj", "\255"} do
  if pcall(train.save, capl.run_folder() .. "/" .. name, {a = 1}) then ESCAPED() end
end

--- print of what turns a line round
-- says: \xe2\x80\xae
print("/home/\226\128\174gpj.x")
