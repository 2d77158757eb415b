--- capl: 1
-- Reads every file of images/, which the tests fill with four captchas and spoil one of them.
local p = capl.params {
  label = "^(.-)_",
  charset = "0-9A-Z",
  length = 4,
  on_error = "stop",
}
local source = data.folder("images", {label = p.label, charset = p.charset, length = p.length})
local loader = data.loader {source = source, role = "test", batch = 2, on_error = p.on_error}
for _ in loader:epoch(1) do end
print(("%d samples, %d bad"):format(loader:stats().samples, loader:stats().bad))
