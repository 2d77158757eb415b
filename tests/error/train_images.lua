--- capl: 1
-- A training on images/, of which `capl check` reads every file.
local p = capl.params {
  on_error = "stop",
  charset = "0-9A-Z",
}
local source = data.folder("images", {charset = p.charset, length = 4})
local loader = data.loader {source = source, role = "train", batch = 2, on_error = p.on_error}
local model = nn.Sequential {nn.Flatten(), nn.Linear(9600, 4 * loader.classes)}
capl.model(model, {output = "text", charset = loader.charset, length = 4})
local opt = optim.SGD(model:parameters(), {lr = 0.1})
for batch in loader:epoch(1) do
  opt:backward_step(nn.cross_entropy(model(batch.image):view(-1, loader.classes), batch.target:view(-1)))
end
