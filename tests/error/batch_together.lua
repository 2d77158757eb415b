--- capl: 1
local images = data.loader {source = data.captcha {count = 10, fixed = true}, role = "val", batch = 4}
for batch in images:epoch(1) do print(batch.together) end
