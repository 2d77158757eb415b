--- capl: 1
data.loader {source = data.captcha {count = 8}, role = "val", batch = 8, workers = 0, augment = {rotate = 5}}
