--- capl: 1
-- More texts than the machine has room for; its limit is set by the test.
local kept = {}
for i = 1, 1e9 do kept[i] = ("x"):rep(1e6) .. i end
