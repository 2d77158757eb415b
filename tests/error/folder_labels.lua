--- capl: 1
data.save_captchas {dir = "images", count = 2, seed = 1}
local source = data.folder("images", {label = "^(%d+)_", charset = "0-9A-Z", length = 4})
data.loader {source = source, role = "test"}
