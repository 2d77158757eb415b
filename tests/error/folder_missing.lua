--- capl: 1
local source = data.folder("no/such/folder", {charset = "0-9", length = 4})
